"""Random schemas, data, queries and changes, on Rubato and on PostgreSQL side by side: differential.py makes them."""

import pathlib
import shutil
import tempfile

from harness import HERE, Postgres, free_port

SEEDS, SEEDS_QUICK = 40, 8


def run(context):
    # PostgreSQL does not run as root: its folder must be reachable for another user.
    home = pathlib.Path(tempfile.mkdtemp(prefix="rubato-reference-"))
    home.chmod(0o755)
    try:
        folder = home / "1" / "data"
        folder.parent.mkdir()
        reference = Postgres(context, folder, free_port()).create()
        with context.server() as server:
            reference.launch()
            seeds = SEEDS_QUICK if context.quick else SEEDS
            command = [
                str(context.psycopg_python), "-u", "-B", str(HERE / "differential.py"), server.url, reference.url, "--seeds", str(seeds), "--seconds", "240",
            ]
            context.program_checks("seeds", command, timeout=400)
            context.verdict("the server is still there", None if server.alive() else server.last_words())
    finally:
        reference.discard()
        shutil.rmtree(home, ignore_errors=True)
