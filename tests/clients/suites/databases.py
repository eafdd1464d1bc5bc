"""Several databases, as PostgreSQL's own programs make and drop them: createdb, dropdb, psql, pg_dump -C; and what a kill leaves of them."""

import subprocess
import threading
import time

from harness import require


def run(context):
    with context.server() as server:
        with context.check("createdb and dropdb"):
            made_and_dropped(context, server)
        with context.check("sessions are in the database that they ask for"):
            apart(context, server)
        with context.check("dropdb waits for clients that leave, and ends those that stay with --force"):
            dropped_under_clients(context, server)
        with context.check("pg_dump -C"):
            dumped_with_its_database(context, server)
    with context.server() as server, context.check("kill -9 in their midst"):
        killed(context, server)


def program(context, server, name, *arguments):
    """Runs one of PostgreSQL's programs; what it says on either output."""
    user = server.url.split("//")[1].split("@")[0]
    command = [str(context.postgres_bin / name), "-h", "127.0.0.1", "-p", str(server.port), "-U", user, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)


def succeeds(context, server, name, *arguments):
    done = program(context, server, name, *arguments)
    require(done.returncode == 0, f"{name} {' '.join(arguments)}: {done.stdout.strip()}")
    return done.stdout


def refused(context, server, why, name, *arguments):
    done = program(context, server, name, *arguments)
    require(done.returncode != 0 and why in done.stdout, f"{name} {' '.join(arguments)}: {done.stdout.strip()}")


def url_of(server, database):
    return server.url.rsplit("/", 1)[0] + "/" + database


def databases(context, server):
    listed = context.psql_text(server.url, "select datname from pg_database where datname like 'test%' order by 1").stdout
    return listed.split()


def made_and_dropped(context, server):
    succeeds(context, server, "createdb", "test_one")
    succeeds(context, server, "createdb", "-E", "UTF8", "-T", "template0", "--locale", "C", "test_two", "the second")
    refused(context, server, "already exists", "createdb", "test_one")
    refused(context, server, "is not a valid encoding name", "createdb", "-E", "nonsense", "test_three")
    require(databases(context, server) == ["test_one", "test_two"], str(databases(context, server)))
    lines = context.psql(server.url, "-At", "-c", r"\l+ test*").stdout.splitlines()
    require(len(lines) == 2 and lines[1].endswith("|the second"), str(lines))
    succeeds(context, server, "dropdb", "test_one")
    refused(context, server, "does not exist", "dropdb", "test_one")
    succeeds(context, server, "dropdb", "--if-exists", "test_one")
    succeeds(context, server, "dropdb", "test_two")
    require(databases(context, server) == [], str(databases(context, server)))


def apart(context, server):
    succeeds(context, server, "createdb", "test_a")
    succeeds(context, server, "createdb", "test_b")
    script = r"""
        \c test_a
        create table t (x int primary key); insert into t values (1);
        \c test_b
        create table t (x text); insert into t values ('b'); select * from t;
        \c test_a
        select *, current_database() from t;
        \dt
    """
    said = context.psql(server.url, "-At", "-q", stdin=script).stdout
    said = [line for line in said.splitlines() if not line.startswith("You are now")]
    require(said[:2] == ["b", "1|test_a"] and len(said) == 3, str(said))
    gone = context.psql(url_of(server, "test_nothing"), "-c", "select 1").stdout
    require('FATAL:  database "test_nothing" does not exist' in gone, gone)


def dropped_under_clients(context, server):
    def sleeps():
        context.psql(url_of(server, "test_a"), "-c", "select pg_sleep(60)")

    def is_there():
        sql = "select count(*) from pg_stat_activity where datname = 'test_a' and query like '%sleep%'"
        return context.scalar(server.url, sql) == "1"

    sleeper = threading.Thread(target=sleeps)
    sleeper.start()
    deadline = time.monotonic() + 20
    while not is_there():
        require(time.monotonic() < deadline, "the other session is not seen")
        time.sleep(0.1)
    refused(context, server, "is being accessed by other users", "dropdb", "test_a")
    succeeds(context, server, "dropdb", "--force", "test_a")
    sleeper.join(timeout=20)
    require(not sleeper.is_alive(), "the session was not ended")
    require(databases(context, server) == ["test_b"], str(databases(context, server)))


def dumped_with_its_database(context, server):
    url = url_of(server, "test_b")
    context.psql_text(url, "create schema s; create table s.n (id serial primary key); insert into s.n default values")
    context.psql_text(url, "alter database test_b set my.own = 'kept'; comment on database test_b is 'with a comment'")
    script = succeeds(context, server, "pg_dump", "-C", "test_b")
    succeeds(context, server, "dropdb", "test_b")
    restored = context.psql_text(server.url, script)
    require("ERROR" not in restored.stdout, restored.stdout)
    found = context.scalar(url, "select current_setting('my.own') || (select x from t) || (select count(*) from s.n)")
    require(found == "keptb1", found)
    comment = context.scalar(url, "select shobj_description(oid, 'pg_database') from pg_database where datname = 'test_b'")
    require(comment == "with a comment", comment)


def killed(context, server):
    for number in range(4):
        name = f"test_{number}"
        succeeds(context, server, "createdb", name)
        context.psql_text(url_of(server, name), f"create table t as select i from generate_series(1, {100 + number}) i")
        if number % 2:
            context.psql_text(server.url, "checkpoint")
    succeeds(context, server, "dropdb", "test_2")
    succeeds(context, server, "createdb", "-T", "test_1", "test_4")
    context.psql_text(url_of(server, "test_1"), "delete from t")
    context.psql_text(url_of(server, "test_4"), "delete from t where i = 1; insert into t values (0), (0), (0), (0)")
    server.kill()
    server.launch()
    require(databases(context, server) == ["test_0", "test_1", "test_3", "test_4"], str(databases(context, server)))
    for number, expected in ((0, 100), (1, 0), (3, 103), (4, 104)):
        count = context.scalar(url_of(server, f"test_{number}"), "select count(*) from t")
        require(count == str(expected), f"test_{number} has {count} rows")
    gone = context.psql(url_of(server, "test_2"), "-c", "select 1").stdout
    require("does not exist" in gone, gone)
