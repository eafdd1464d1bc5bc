"""Hibernate 6 on pgjdbc: hibernate/*.java, compiled here."""

import subprocess

from harness import HERE, require


def run(context):
    classes, jars = context.work / "hibernate-classes", f"{context.hibernate_jars}/*"
    with context.check("compile"):
        sources = [str(path) for path in sorted((HERE / "hibernate").glob("*.java"))]
        command = ["javac", "-encoding", "UTF-8", "-proc:none", "-cp", jars, "-d", str(classes), *sources]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        require(done.returncode == 0, done.stdout[-500:])
    with context.server() as server:
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/rubato?user={context.user}"
        quiet = ["-Dorg.jboss.logging.provider=jdk", f"-Djava.util.logging.config.file={HERE / 'hibernate/logging.properties'}"]
        command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", *quiet, "-cp", f"{classes}:{jars}", "HibernateChecks", url]
        context.program_checks("Hibernate", command, timeout=120)
        context.verdict("the server is still there", None if server.alive() else server.last_words())
