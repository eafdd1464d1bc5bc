"""Runs the client suites: real clients over a real socket. See docs/testing.md.

Every check prints one line, `suite name ... ok` or `suite name ... FAILED (reason)`; the last line counts them.
"""

import argparse
import importlib
import pathlib
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import harness  # noqa: E402  (its folder must be known first)

SUITES = [
    "psql", "databases", "pgbench", "psycopg", "sqlalchemy", "django", "asyncpg", "node", "go", "jdbc", "hibernate", "tokio", "sqlx", "dump", "differential",
    "isolation", "hermitage", "killed", "outcome", "insight", "crash", "bad_input", "program", "hosts",
]
# Suites about Rubato's own folder, program and views: PostgreSQL has nothing to compare.
RUBATO_ONLY = {"bad_input", "differential", "hosts", "insight", "program"}


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", help="the rubato program")
    parser.add_argument("--reference", action="store_true", help="run against a PostgreSQL 15 of their own")
    parser.add_argument("--reference-setting", action="append", default=[], help="a line for its postgresql.conf")
    parser.add_argument("--grid-nodes", type=int, default=1, help="run against the second node of a grid of so many (suites that kill nothing)")
    parser.add_argument("--quick", action="store_true", help="short form: fewer rounds, connections and seconds")
    parser.add_argument("--suites", default=",".join(SUITES), help="comma-separated: " + ", ".join(SUITES))
    parser.add_argument("--rounds", type=int, help="kills of the crash suite (default 10, quick 3)")
    parser.add_argument("--connections", type=int, help="connections of the bad_input suite (default 2000, quick 500)")
    parser.add_argument("--seconds", type=int, help="length of each timed load (default 5, quick 2)")
    parser.add_argument("--postgres-bin", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--psycopg-python", default="python3")
    parser.add_argument("--mappers-python", default="python3", help="a Python with SQLAlchemy, Alembic, Django and asyncpg")
    parser.add_argument("--jdbc-jar", default="")
    parser.add_argument("--hibernate-jars", default="", help="a folder with Hibernate, pgjdbc and what they need")
    parser.add_argument("--node-modules", default="", help="a folder node_modules with node-postgres")
    parser.add_argument("--go-clients", default="", help="the program built of tests/clients/go")
    parser.add_argument("--left-out", default="", help="suites that cannot run here, comma-separated")
    parser.add_argument("--rust-clients", default="rubato-clients")
    parser.add_argument("--work", default="target/client-suites", help="where the temporary folders are made")
    parser.add_argument("--record", action="store_true", help="write the expected output of psql anew (with --reference)")
    chosen = parser.parse_args()
    chosen.rounds = chosen.rounds or (3 if chosen.quick else 10)
    chosen.connections = chosen.connections or (500 if chosen.quick else 2000)
    chosen.seconds = chosen.seconds or (2 if chosen.quick else 5)
    if not chosen.reference and not chosen.program:
        parser.error("--program or --reference is needed")
    return chosen


def run_suite(context, name):
    context.suite = name
    begun = time.monotonic()
    try:
        importlib.import_module(f"suites.{name}").run(context)
    except harness.CheckFailed as failure:
        context.verdict("suite", failure)
    except Exception as failure:  # noqa: BLE001  (a suite that falls over is a verdict, and the others still run)
        context.verdict("suite", f"{type(failure).__name__}: {failure}")
    print(f"  {name}: {time.monotonic() - begun:.1f} s")


def main():
    # A cancelled run takes its servers along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = options()
    context = harness.Context(chosen)
    try:
        for name in chosen.suites.split(","):
            if name not in SUITES:
                context.suite = name
                context.verdict("suite", "there is no such suite")
            elif name not in chosen.left_out.split(",") and not (chosen.reference and name in RUBATO_ONLY):
                run_suite(context, name)
    finally:
        context.close()
    print(f"{context.passed} passed, {context.failed} failed")
    return 1 if context.failed or not context.passed else 0


if __name__ == "__main__":
    sys.exit(main())
