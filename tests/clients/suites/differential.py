"""Random schemas, data, queries and changes, on Rubato and on PostgreSQL side by side: differential.py makes them."""

from harness import HERE

SEEDS, SEEDS_QUICK = 40, 8


def run(context):
    with context.postgres() as reference, context.server() as server:
        seeds = SEEDS_QUICK if context.quick else SEEDS
        command = [
            str(context.psycopg_python), "-u", "-B", str(HERE / "differential.py"), server.url, reference.url, "--seeds", str(seeds), "--seconds", "240",
        ]
        context.program_checks("seeds", command, timeout=400)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
