"""A JDBC program on pgjdbc: java/Checks.java, compiled here."""

import subprocess

from harness import HERE, require


def run(context):
    classes = context.work / "classes"
    with context.check("compile"):
        sources = [str(path) for path in sorted((HERE / "java").glob("*.java"))]
        command = ["javac", "-encoding", "UTF-8", "-Xlint:all", "-Werror", "-cp", str(context.jdbc_jar), "-d", str(classes), *sources]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        require(done.returncode == 0, done.stdout[-500:])
    with context.server() as server:
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/rubato?user={context.user}"
        command = ["java", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-cp", f"{classes}:{context.jdbc_jar}", "Checks", url]
        context.program_checks("JDBC", command, timeout=300)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
