"""SQLAlchemy 2 and Alembic: the checks are in sqlalchemy_checks.py, which runs under the Python that has the object-relational mappers."""

from harness import HERE


def run(context):
    with context.server() as server:
        command = [str(context.mappers_python), "-u", "-B", str(HERE / "sqlalchemy_checks.py"), server.url]
        context.program_checks("sqlalchemy", command, timeout=300, env={"HOME": str(context.work), "PATH": "/usr/bin:/bin"})
        context.verdict("the server is still there", None if server.alive() else server.last_words())
