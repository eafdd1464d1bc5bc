"""psql 15 runs scripts; what it prints must be what it printed against PostgreSQL 15.

`psql/*.sql` are the scripts, `*.expected` the recorded output. A line `\\! second SQL` runs SQL in a second session while
the first holds its locks: it is replaced by a call of the same psql.
"""

import difflib
import re

from harness import HERE, require

SECOND_SESSION = re.compile(r"^\\second (.*)$", re.MULTILINE)


def run(context):
    for script in sorted((HERE / "psql").glob("*.sql")):
        with context.server() as server, context.check(script.stem):
            compare(context, server, script)


def compare(context, server, script):
    said = play(context, server, script)
    recorded = script.with_suffix(".expected")
    if context.record:
        require(context.reference, "--record needs --reference: the truth is PostgreSQL's")
        recorded.write_text(said)
    expected = recorded.read_text()
    if said != expected:
        raise_difference(expected, said)


def raise_difference(expected, said):
    lines = difflib.unified_diff(expected.splitlines(), said.splitlines(), "expected", "said", n=1, lineterm="")
    changed = [line for line in lines if line[:1] in "+-@" and not line.startswith(("---", "+++"))]
    require(False, f"{len(changed)} lines differ: " + " / ".join(changed[:14]))


def play(context, server, script):
    psql = context.postgres_bin / "psql"
    second = f"\\\\! {psql} -X -q -d {server.url} -v VERBOSITY=sqlstate -c \"\\1\" 2>&1"
    # `SET` lines keep the recording free of the machine's zone, and `LOCATION` of PostgreSQL's own file names.
    text = SECOND_SESSION.sub(second, script.read_text())
    done = context.psql(server.url, "-a", "-v", "VERBOSITY=verbose", "--pset=pager=off", stdin=text)
    said = re.sub(r"^\\! .*? -c (\".*\") 2>&1$", r"\\second \1", done.stdout, flags=re.MULTILINE)
    said = re.sub(r"^LOCATION:.*\n", "", said, flags=re.MULTILINE)
    return said
