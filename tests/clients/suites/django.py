"""Django: the checks are in django_checks.py, which runs under the Python that has the object-relational mappers."""

from harness import HERE


def run(context):
    with context.server() as server:
        command = [str(context.mappers_python), "-u", "-B", str(HERE / "django_checks.py"), server.url]
        context.program_checks("django", command, timeout=300, env={"HOME": str(context.work), "PATH": "/usr/bin:/bin"})
        context.verdict("the server is still there", None if server.alive() else server.last_words())
