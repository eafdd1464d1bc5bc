"""psycopg 3: the checks are in psycopg_checks.py, which runs under the Python that has psycopg."""

from harness import HERE


def run(context):
    with context.server() as server:
        command = [str(context.psycopg_python), "-u", "-B", str(HERE / "psycopg_checks.py"), server.url]
        context.program_checks("psycopg", command, timeout=300)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
