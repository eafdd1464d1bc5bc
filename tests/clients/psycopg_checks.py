"""psycopg 3 against a server: `psycopg_checks.py URL`. Prints `name ... ok` or `name ... FAILED (reason)`."""

import datetime
import decimal
import sys
import threading
import time
import uuid

import psycopg
from checks import check, expect, fails, run
from psycopg import errors, sql
from psycopg.rows import dict_row

D, Decimal, UTC = datetime, decimal.Decimal, datetime.timezone.utc


VALUES = {
    "bool": [True, False], "int2": [0, -32768, 32767], "int4": [-(2**31), 2**31 - 1], "int8": [-(2**63), 2**63 - 1],
    "numeric": [Decimal("0"), Decimal("-123456789012345678901234567890.000123"), Decimal("1E+20"), Decimal("0.10")],
    "numeric(12,2)": [Decimal("9999999999.99"), Decimal("-0.01")],
    "float4": [1.5, -0.25], "float8": [0.1, -1e300, float("inf")],
    "text": ["", "naïve ☃ \U0001f600", "a'b\"c\\d\n\t"], "varchar(8)": ["12345678", ""], "char(3)": ["ab ", "abc"],
    "bytea": [b"", bytes(range(256))],
    "date": [D.date(1, 1, 1), D.date(2024, 2, 29), D.date(9999, 12, 31)],
    "timestamp": [D.datetime(1999, 12, 31, 23, 59, 59, 999999), D.datetime(2024, 2, 29)],
    "timestamptz": [D.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC), D.datetime(1970, 1, 1, tzinfo=UTC)],
    "uuid": [uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), uuid.UUID(int=0)],
}


@check
def every_type_there_and_back_as_text_and_as_binary(connect):
    with connect() as conn:
        conn.execute("set timezone = 'UTC'")
        for number, (kind, values) in enumerate(VALUES.items()):
            table = f"typed_{number}"
            conn.execute(f"drop table if exists {table}")
            conn.execute(sql.SQL("create table {} (id int primary key, v {})").format(sql.SQL(table), sql.SQL(kind)))
            for binary in (False, True):
                for marker in ("%s", "%b", "%t"):
                    for value in [*values, None]:
                        conn.execute(f"delete from {table}")
                        conn.execute(f"insert into {table} values (1, {marker})", [value])
                        cursor = conn.cursor(binary=binary)
                        found = cursor.execute(f"select v from {table}").fetchone()[0]
                        if found != value or type(found) is not type(value):
                            raise AssertionError(f"{kind}, {marker}, binary={binary}: {found!r} in place of {value!r}")


@check
def lists_are_compared_with_any_and_all(connect):
    with connect() as conn:
        conn.execute("drop table if exists listed")
        conn.execute("create table listed (id int primary key, b bigint, v varchar(9), u uuid)")
        one = uuid.UUID(int=1)
        conn.execute("insert into listed select g, g * 10, 'v' || g, null from generate_series(1, 20) g")
        conn.execute("update listed set u = %s where id = 3", [one])
        for binary in (False, True):
            cursor = conn.cursor(binary=binary)
            for condition, values, wanted in [
                ("id = any(%s)", [3, 1, None, 77], [1, 3]), ("b = any(%s)", [10, 20, 70000], [1, 2]),
                ("v = any(%s)", ["v1", "v9"], [1, 9]), ("u = any(%s)", [one], [3]), ("id = any(%s)", [], []),
                ("id <> all(%s)", list(range(3, 21)), [1, 2]), ("id > all(%s)", [], list(range(1, 21))),
            ]:
                rows = cursor.execute(f"select id from listed where {condition} order by id", [values]).fetchall()
                expect([row[0] for row in rows], wanted)
        prepared = conn.pgconn
        prepared.prepare(b"listing", b"select 1 from listed where id = any($1) and b = any($2) and v <> all($3) and u = any($4)")
        described = prepared.describe_prepared(b"listing")
        expect([described.param_type(index) for index in range(described.nparams)], [1007, 1016, 1009, 2951])
        error = fails(errors.InvalidTextRepresentation, conn.execute, "select id from listed where id = any('{1,2')")
        expect(error.diag.message_primary, 'malformed array literal: "{1,2"')


@check
def advisory_locks_keep_migrations_apart(connect):
    with connect() as first, connect() as second:
        first.execute("select pg_advisory_lock(%s)", [72707369])
        first.commit()
        expect(second.execute("select pg_try_advisory_lock(72707369), pg_try_advisory_lock(1, 2)").fetchone(), (False, True))
        second.commit()
        done = []
        waiter = threading.Thread(target=lambda: done.append(second.execute("select pg_advisory_xact_lock(72707369)")))
        waiter.start()
        time.sleep(0.3)
        expect(done, [])
        first.close()
        waiter.join(10)
        expect(len(done), 1)
        with connect() as third:
            third.execute("set lock_timeout = '200ms'")
            fails(errors.LockNotAvailable, third.execute, "select pg_advisory_lock(72707369)")
            third.rollback()
            second.commit()
            expect(third.execute("select pg_try_advisory_lock(72707369)").fetchone(), (True,))
            begun = time.monotonic()
            third.execute("select pg_sleep(0.3)")
            if time.monotonic() - begun < 0.3:
                raise AssertionError("pg_sleep did not sleep")


@check
def not_a_number_and_comparison_of_parameters(connect):
    with connect() as conn:
        conn.execute("drop table if exists typed")
        conn.execute("create table typed (id int primary key, n numeric, f float8)")
        conn.execute("insert into typed values (1, %s, %s)", [Decimal("NaN"), float("nan")])
        n, f = conn.execute("select n, f from typed where n = 'NaN'").fetchone()
        expect((n.is_nan(), f != f), (True, True))
        expect(conn.execute("select id from typed where id = %s and id < %s", [1, 5]).fetchall(), [(1,)])


@check
def prepared_statements_are_kept_by_the_server(connect):
    with connect() as conn:
        conn.prepare_threshold = 2
        conn.execute("drop table if exists p")
        conn.execute("create table p (id int primary key, n int)")
        for key in range(50):
            conn.execute("insert into p values (%s, %s)", [key, key * 2])
        for key in range(50):
            expect(conn.execute("select n from p where id = %s", [key]).fetchone(), (key * 2,))
        expect(conn.execute("select n from p where id = %s", [7], prepare=True).fetchone(), (14,))
        # The same statement after its table was made anew.
        conn.execute("drop table p")
        conn.execute("create table p (id int primary key, n int)")
        expect(conn.execute("select n from p where id = %s", [7]).fetchone(), None)


@check
def a_prepared_statement_whose_columns_change_is_refused(connect):
    with connect(autocommit=True) as conn, connect(autocommit=True) as other:
        conn.execute("drop table if exists changing")
        conn.execute("create table changing (id int primary key, price int, a int)")
        conn.execute("insert into changing values (1, 500, 7)")
        query = "select * from changing where id = %s"
        for _ in range(3):
            expect(conn.execute(query, [1], prepare=True).fetchone(), (1, 500, 7))
        other.execute("create index on changing (a)")
        expect(conn.execute(query, [1], prepare=True).fetchone(), (1, 500, 7))
        other.execute("alter table changing drop price")
        other.execute("alter table changing add disc int default 3")
        error = fails(errors.FeatureNotSupported, conn.execute, query, [1], prepare=True)
        expect(error.diag.message_primary, "cached plan must not change result type")
        expect(conn.execute(query, [1], prepare=False).fetchone(), (1, 7, 3))


@check
def named_cursors(connect):
    with connect() as conn:
        conn.execute("drop table if exists many_rows")
        conn.execute("create table many_rows (id int primary key, t text)")
        conn.execute("insert into many_rows select g, 'row ' || g from generate_series(1, 1000) g")
        for binary in (False, True):
            with conn.cursor("named one", binary=binary) as cursor:
                cursor.itersize = 77
                cursor.execute("select id, t from many_rows where id > %s order by id", [100])
                expect([column.name for column in cursor.description], ["id", "t"])
                found = []
                for row in cursor:
                    found.append(row)
                    if row[0] % 200 == 0:
                        conn.execute("update many_rows set t = 'changed'")
                        conn.execute("insert into many_rows values (%s, 'new')", [10_000 + 2 * row[0] + binary])
                wanted = [(n, "changed" if binary else f"row {n}") for n in range(101, 1001)]
                expect(found[:900], wanted)
                expect(len(found), 905 if binary else 900)
        with conn.cursor("moved") as cursor:
            cursor.execute("select id from many_rows order by id")
            cursor.scroll(10)
            expect(cursor.fetchmany(2), [(11,), (12,)])
        conn.execute("declare gone cursor for select 1")
        conn.commit()
        fails(errors.InvalidCursorName, conn.execute, "fetch gone")
        conn.rollback()
        with conn.cursor("held", withhold=True) as cursor:
            cursor.execute("select id from many_rows where id <= 1000 order by id")
            conn.commit()
            expect(cursor.fetchmany(2), [(1,), (2,)])
            conn.commit()
            expect(len(cursor.fetchall()), 998)
        fails(errors.NoActiveSqlTransaction, conn_alone, connect)


def conn_alone(connect):
    with connect(autocommit=True) as conn:
        conn.execute("declare c cursor for select 1")


@check
def executemany_with_returning(connect):
    with connect() as conn:
        conn.execute("drop table if exists many")
        conn.execute("create table many (id int primary key, t text)")
        cursor = conn.cursor()
        cursor.executemany("insert into many values (%s, %s)", [(n, f"row {n}") for n in range(500)])
        expect(cursor.rowcount, 500)
        cursor.executemany("update many set t = t || '!' where id = %s returning id, t", [(1,), (2,), (999,)], returning=True)
        found = []
        while True:
            found += cursor.fetchall()
            if not cursor.nextset():
                break
        expect(found, [(1, "row 1!"), (2, "row 2!")])


@check
def pipeline_mode(connect):
    with connect(autocommit=True) as conn:
        conn.execute("drop table if exists pipe")
        conn.execute("create table pipe (id int primary key)")
        with conn.pipeline():
            cursors = [conn.execute("insert into pipe values (%s) returning id", [key]) for key in range(100)]
            count = conn.execute("select count(*) from pipe")
        expect([cursor.fetchone()[0] for cursor in cursors], list(range(100)))
        expect(count.fetchone(), (100,))


@check
def an_error_inside_a_pipeline_undoes_what_no_sync_had_closed(connect):
    with connect(autocommit=True) as conn:
        conn.execute("drop table if exists pipe")
        conn.execute("create table pipe (id int primary key)")

        def broken():
            with conn.pipeline():
                conn.execute("insert into pipe values (1)")
                conn.execute("insert into pipe values (1)")
                conn.execute("insert into pipe values (2)")

        fails(errors.UniqueViolation, broken)
        expect(conn.execute("select count(*) from pipe").fetchone(), (0,))
        with conn.pipeline() as pipeline:
            conn.execute("insert into pipe values (1)")
            pipeline.sync()
            conn.execute("insert into pipe values (2)")
        expect(conn.execute("select count(*) from pipe").fetchone(), (2,))


@check
def copy_in_and_out(connect):
    with connect() as conn:
        conn.execute("drop table if exists copied")
        conn.execute("create table copied (id int primary key, t text, d date)")
        rows = [(n, None if n % 5 == 0 else f"té\txt\\{n}\n", D.date(2024, 1, 1) + D.timedelta(n)) for n in range(1000)]
        for binary in (False, True):
            conn.execute("truncate copied")
            mode = " (format binary)" if binary else ""
            with conn.cursor().copy(f"copy copied from stdin{mode}") as copy:
                if binary:
                    copy.set_types(["int4", "text", "date"])
                for row in rows:
                    copy.write_row(row)
            with conn.cursor().copy(f"copy copied to stdout{mode}") as copy:
                copy.set_types(["int4", "text", "date"])
                expect(sorted(copy.rows()), rows)
        ranked = "select id, rank() over (order by id desc) from copied where id < 3 order by id"
        with conn.cursor().copy(f"copy ({ranked}) to stdout") as copy:
            expect(list(copy.rows()), [("0", "3"), ("1", "2"), ("2", "1")])
        with conn.cursor().copy("copy copied (t, id) from stdin (format csv, header)") as copy:
            copy.write('t,id\n"a ""quoted"", one",5000\n,5001\n')
        expect(conn.execute("select t from copied where id >= 5000 order by id").fetchall(), [('a "quoted", one',), (None,)])


@check
def broken_copy_names_its_line_and_loads_nothing(connect):
    with connect(autocommit=True) as conn:
        conn.execute("drop table if exists copied")
        conn.execute("create table copied (id int primary key, n int)")

        def broken(text):
            with conn.cursor().copy("copy copied from stdin") as copy:
                copy.write(text)

        failure = fails(errors.InvalidTextRepresentation, broken, "1\t1\n2\t2\n3\tx\n")
        expect("line 3" in failure.diag.context and "column n" in failure.diag.context, True)
        fails(errors.BadCopyFileFormat, broken, "1\t1\n2\n")
        fails(errors.UniqueViolation, broken, "1\t1\n1\t2\n")

        def given_up():
            with conn.cursor().copy("copy copied from stdin") as copy:
                copy.write("1\t1\n")
                raise ZeroDivisionError

        fails(ZeroDivisionError, given_up)
        expect(conn.execute("select count(*) from copied").fetchone(), (0,))


@check
def transactions_and_savepoints(connect):
    with connect() as conn:
        conn.execute("drop table if exists t")
        conn.execute("create table t (id int primary key)")
        conn.commit()
        with conn.transaction():
            conn.execute("insert into t values (1)")

            def inner():
                with conn.transaction():
                    conn.execute("insert into t values (2)")
                    conn.execute("insert into t values (1)")

            fails(errors.UniqueViolation, inner)
            conn.execute("insert into t values (3)")
        expect(conn.execute("select id from t order by id").fetchall(), [(1,), (3,)])
        conn.rollback()
        fails(errors.UniqueViolation, conn.execute, "insert into t values (1)")
        fails(errors.InFailedSqlTransaction, conn.execute, "select 1")
        expect(conn.info.transaction_status.name, "INERROR")
        conn.rollback()
        expect(conn.info.transaction_status.name, "IDLE")
        conn.read_only = True
        fails(errors.ReadOnlySqlTransaction, conn.execute, "delete from t")
        conn.rollback()
        conn.read_only, conn.isolation_level = False, psycopg.IsolationLevel.SERIALIZABLE
        conn.execute("insert into t values (4)")
        conn.commit()


@check
def error_classes_and_their_fields(connect):
    with connect(autocommit=True) as conn:
        conn.execute("drop table if exists child")
        conn.execute("drop table if exists parent")
        conn.execute("create table parent (id int primary key, n int not null check (n > 0))")
        conn.execute("create table child (id int primary key, p int references parent)")
        run = conn.execute
        for error, statement in [
            (errors.NotNullViolation, "insert into parent values (1, null)"), (errors.CheckViolation, "insert into parent values (1, 0)"),
            (errors.ForeignKeyViolation, "insert into child values (1, 1)"), (errors.UndefinedTable, "select * from nothing"),
            (errors.UndefinedColumn, "select nothing from parent"), (errors.SyntaxError, "selec"), (errors.DivisionByZero, "select 1/0"),
            (errors.NumericValueOutOfRange, "select 32767::int2 + 1::int2"), (errors.UndefinedFunction, "select nothing(1)"),
            (errors.DuplicateTable, "create table parent (id int)"), (errors.InvalidDatetimeFormat, "select 'x'::date"),
            (errors.GroupingError, "select id, count(*) from parent"),
        ]:
            fails(error, run, statement)
        diag = fails(errors.CheckViolation, run, "insert into parent values (1, -5)").diag
        expect((diag.severity, diag.schema_name, diag.table_name, diag.constraint_name), ("ERROR", "public", "parent", "parent_n_check"))
        expect(fails(errors.NotNullViolation, run, "insert into parent values (1, null)").diag.column_name, "n")
        expect(fails(errors.UndefinedColumn, run, "select nothing from parent").diag.statement_position, "8")


@check
def one_lock_waits_for_another(connect):
    with connect() as one, connect() as two:
        one.execute("drop table if exists l")
        one.execute("create table l (id int primary key, n int)")
        one.execute("insert into l values (1, 0), (2, 0)")
        one.commit()
        one.execute("select n from l where id = 1 for update")
        fails(errors.LockNotAvailable, two.execute, "select n from l where id = 1 for update nowait")
        two.rollback()
        expect(two.execute("select id from l order by id for update skip locked").fetchall(), [(2,)])
        two.rollback()
        seen = []

        def wait():
            try:
                seen.append(two.execute("select n from l where id = 1 for update").fetchone())
            except errors.SerializationFailure:
                two.rollback()
                wait()

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.3)
        expect(thread.is_alive(), True)
        one.execute("update l set n = 7 where id = 1")
        one.commit()
        thread.join(10)
        expect(seen, [(7,)])
        two.rollback()


@check
def deadlock_between_two_rows_ends(connect):
    with connect() as one, connect() as two:
        one.execute("drop table if exists l")
        one.execute("create table l (id int primary key, n int)")
        one.execute("insert into l values (1, 0), (2, 0)")
        one.commit()
        one.execute("select n from l where id = 1 for update")
        two.execute("select n from l where id = 2 for update")
        ended = []

        def cross(conn, key):
            try:
                conn.execute("select n from l where id = %s for update", [key])
                ended.append("ok")
            except (errors.DeadlockDetected, errors.SerializationFailure):
                ended.append("refused")
            conn.rollback()

        threads = [threading.Thread(target=cross, args=pair) for pair in ((one, 2), (two, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        expect(sorted(ended), ["ok", "refused"])


@check
def cancel_from_another_thread(connect):
    with connect() as one, connect() as two:
        one.execute("drop table if exists l")
        one.execute("create table l (id int primary key)")
        one.execute("insert into l values (1)")
        one.commit()
        one.execute("select id from l where id = 1 for update")
        timer = threading.Timer(0.3, two.cancel)
        timer.start()
        fails(errors.QueryCanceled, two.execute, "select id from l where id = 1 for update")
        two.rollback()
        expect(two.execute("select 1").fetchone(), (1,))


@check
def a_long_statement_is_cancelled_and_runs_out_of_time(connect):
    with connect(autocommit=True) as conn:
        conn.execute("drop table if exists l")
        conn.execute("create table l (id int primary key, t text)")
        with conn.cursor().copy("copy l from stdin") as copy:
            for number in range(20_000):
                copy.write_row((number, f"row {number}"))
        product = "select count(*) from l a, l b, l c where a.t < b.t and b.t < c.t"
        for sql in (product, product + " group by a.id order by 1", "select * from l a, l b order by a.t", "copy (" + product + ") to stdout"):
            timer = threading.Timer(0.2, conn.cancel)
            timer.start()
            begun = time.monotonic()
            fails(errors.QueryCanceled, drained, conn, sql)
            expect(time.monotonic() - begun < 5, True)
        conn.execute("set statement_timeout = 200")
        fails(errors.QueryCanceled, conn.execute, product)
        conn.execute("reset statement_timeout")
        expect(conn.execute("select count(*) from l").fetchone(), (20_000,))


@check
def a_copy_that_awaits_data_is_cancelled(connect):
    with connect(autocommit=True) as conn, connect(autocommit=True) as other:
        conn.execute("drop table if exists l")
        conn.execute("create table l (id int primary key)")

        def load():
            with conn.cursor().copy("copy l from stdin") as copy:
                copy.write("1\n2\n")
                time.sleep(0.1)
                expect(other.execute("select count(*) from l").fetchone(), (0,))
                conn.cancel()
                time.sleep(0.3)
                copy.write("3\n")

        fails(errors.QueryCanceled, load)
        expect(conn.execute("select count(*) from l").fetchone(), (0,))


@check
def sessions_are_cancelled_and_ended_by_others(connect):
    with connect(autocommit=True) as administrator:
        for sql in ("select count(*) from generate_series(1, 1000000000000)", "select pg_sleep(60)"):
            with connect(autocommit=True) as conn:
                pid = conn.execute("select pg_backend_pid()").fetchone()[0]
                signal = "select pg_cancel_backend(%s)"
                timer = threading.Timer(0.3, administrator.execute, (signal, (pid,)))
                timer.start()
                begun = time.monotonic()
                fails(errors.QueryCanceled, conn.execute, sql)
                expect(time.monotonic() - begun < 10, True)
                timer.join()
                expect(conn.execute("select 1").fetchone(), (1,))
                timer = threading.Timer(0.3, administrator.execute, ("select pg_terminate_backend(%s)", (pid,)))
                timer.start()
                fails(errors.AdminShutdown, conn.execute, sql)
                timer.join()
                fails(psycopg.OperationalError, conn.execute, "select 1")
        # One that holds rows and does nothing gives them back.
        administrator.execute("drop table if exists l")
        administrator.execute("create table l (id int primary key)")
        administrator.execute("insert into l values (1)")
        with connect() as idle:
            idle.execute("select id from l where id = 1 for update")
            ended = "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s"
            expect(administrator.execute(ended, (idle.info.backend_pid,)).fetchall(), [(True,)])
            expect(administrator.execute("update l set id = 2 where id = 1").rowcount, 1)
            fails(psycopg.OperationalError, idle.execute, "select 1")
        expect(administrator.execute("select pg_cancel_backend(2000000000)").fetchone(), (False,))
        asked = "select inet_client_addr()::text, inet_client_port() > 0, inet_server_addr()::text, inet_server_port()"
        client, has_port, server, port = administrator.execute(asked).fetchone()
        # PostgreSQL shows the net mask of an inet that is cast to text.
        expect((client.removesuffix("/32"), has_port, server.removesuffix("/32")), ("127.0.0.1", True, "127.0.0.1"))
        expect(port, administrator.info.port)
        shown = "select client_addr = inet_client_addr(), client_port = inet_client_port() from pg_stat_activity where pid = pg_backend_pid()"
        expect(administrator.execute(shown).fetchall(), [(True, True)])
        started = "select pg_postmaster_start_time() between now() - interval '1 day' and now(), pg_conf_load_time() <= now()"
        expect(administrator.execute(started).fetchone(), (True, True))


def drained(conn, sql):
    """Takes all that a query or a COPY gives."""
    if not sql.startswith("copy"):
        return conn.execute(sql).fetchall()
    with conn.cursor().copy(sql) as copy:
        return list(copy)


@check
def silence_within_a_transaction_ends_the_connection(connect):
    with connect(autocommit=True) as one, connect(autocommit=True) as two:
        one.execute("drop table if exists l")
        one.execute("create table l (id int primary key)")
        one.execute("insert into l values (1)")
        two.execute("set idle_in_transaction_session_timeout = 300")
        time.sleep(0.6)
        two.execute("begin")
        for _ in range(3):
            time.sleep(0.15)
            expect(two.execute("select id from l where id = 1 for update").fetchone(), (1,))
        one.execute("set statement_timeout = 5000")
        expect(one.execute("select id from l where id = 1 for update").fetchone(), (1,))
        fails(errors.IdleInTransactionSessionTimeout, two.execute, "select 1")


@check
def who_is_told_within_a_transaction_is_silent_all_the_same(connect):
    with connect(autocommit=True) as one, connect(autocommit=True) as two:
        two.execute("set idle_in_transaction_session_timeout = 500")
        two.execute("listen news")
        two.execute("begin")
        for _ in range(8):
            time.sleep(0.15)
            one.execute("notify news")
        fails(errors.IdleInTransactionSessionTimeout, two.execute, "select 1")


@check
def rows_by_name_and_what_the_description_says(connect):
    with connect(row_factory=dict_row) as conn:
        cursor = conn.execute("select 1::int2 as small, 'x'::varchar(7) as v, 1.50::numeric(6,2) as n, null::text as nothing")
        expect(cursor.fetchone(), {"small": 1, "v": "x", "n": Decimal("1.50"), "nothing": None})
        described = [(column.name, column.type_code) for column in cursor.description]
        expect(described, [("small", 21), ("v", 1043), ("n", 1700), ("nothing", 25)])
        expect((cursor.description[2].precision, cursor.description[2].scale), (6, 2))
        expect((cursor.rowcount, cursor.statusmessage), (1, "SELECT 1"))


@check
def columns_say_which_relation_they_are_of(connect):
    """Through WITH, queries in FROM and LATERAL they are of the table, of a view they are the view's."""
    with connect() as conn:
        conn.autocommit = True
        conn.execute("drop table if exists origin_t cascade")
        conn.execute("create table origin_t (a int primary key, b text)")
        conn.execute("create view origin_v as select b, a from origin_t")
        named = "select relname, oid from pg_class where relname in ('origin_t', 'origin_v', 'pg_class')"
        oids = dict(conn.execute(named).fetchall())
        for sql, expected in [
            ("select b, a, a + 1 from origin_t", [("origin_t", 2), ("origin_t", 1), None]),
            ("select * from origin_v", [("origin_v", 1), ("origin_v", 2)]),
            ("with q as (select b, a from origin_t) select * from q", [("origin_t", 2), ("origin_t", 1)]),
            ("select s.a, n from (select a, 1 as n from origin_t) s", [("origin_t", 1), None]),
            ("select l.x from origin_t o, lateral (select b as x from origin_t t where t.a = o.a) l", [("origin_t", 2)]),
            ("select v.a from (select * from origin_v) v join origin_t on true", [("origin_v", 2)]),
            ("select a from origin_t union select a from origin_t", [None]),
            ("select relname from pg_class", [("pg_class", 2)]),
        ]:
            result = conn.execute(sql).pgresult
            found = [(result.ftable(place), result.ftablecol(place)) for place in range(result.nfields)]
            wanted = [(oids[told[0]], told[1]) if told else (0, 0) for told in expected]
            expect((sql, found), (sql, wanted))
        conn.execute("drop table origin_t cascade")


@check
def large_results_come_in_order(connect):
    with connect() as conn:
        conn.execute("drop table if exists big")
        conn.execute("create table big (id int primary key, t text)")
        with conn.cursor().copy("copy big from stdin") as copy:
            for n in range(50000):
                copy.write_row((n, "x" * 40))
        for stream in (False, True):
            cursor = conn.cursor()
            query = "select id, t from big order by id"
            rows = cursor.stream(query) if stream else cursor.execute(query)
            expect([row[0] for row in rows], list(range(50000)))


@check
def what_the_server_says_of_itself(connect):
    with connect() as conn:
        expect(conn.info.server_version >= 150000, True)
        expect(conn.info.parameter_status("integer_datetimes"), "on")
        expect(conn.info.parameter_status("standard_conforming_strings"), "on")
        expect(conn.info.encoding, "utf-8")
        conn.execute("set timezone = 'Europe/Berlin'")
        expect(conn.info.parameter_status("TimeZone"), "Europe/Berlin")
        found = conn.execute("select timestamptz '2024-07-01 12:00:00+00'").fetchone()[0]
        expect((found.hour, found.utcoffset()), (14, D.timedelta(hours=2)))


@check
def channels_tell_sessions_that_listen(connect):
    with connect(autocommit=True) as listener, connect() as teller:
        listener.execute("listen news")
        # Told while it is idle, by another connection, when that commits.
        teller.execute("notify news, 'one'")
        teller.execute("select pg_notify('news', %s)", ["two"])
        expect(list(listener.notifies(timeout=0.3)), [])
        teller.commit()
        told = list(listener.notifies(timeout=10, stop_after=2))
        expect([(n.channel, n.payload, n.pid) for n in told],
               [("news", "one", teller.info.backend_pid), ("news", "two", teller.info.backend_pid)])
        # Many, in order, while it works as well.
        for n in range(300):
            teller.execute("select pg_notify('news', %s)", [str(n)])
            teller.commit()
            if n % 50 == 0:
                listener.execute("select 1")
        told = list(listener.notifies(timeout=10, stop_after=300))
        expect([n.payload for n in told], [str(n) for n in range(300)])
        listener.execute("unlisten news")
        teller.execute("notify news, 'nobody'")
        teller.commit()
        expect(list(listener.notifies(timeout=0.3)), [])


@check
def queries_within_expressions_and_views(connect):
    with connect() as conn:
        conn.execute("drop table if exists orders, clients cascade")
        conn.execute("create table clients (id int primary key, name text)")
        conn.execute("create table orders (id serial primary key, client int references clients, cents bigint)")
        conn.cursor().executemany("insert into clients values (%s, %s)", [(n, f"c{n}") for n in range(20)])
        conn.cursor().executemany("insert into orders (client, cents) values (%s, %s)", [(n % 7, n * 10) for n in range(100)])
        found = conn.execute("select name from clients c where exists (select from orders where client = c.id and cents > %s) order by 1", [960])
        expect([row[0] for row in found], ["c0", "c1", "c6"])
        found = conn.execute("select id, (select sum(cents) from orders where client = c.id) from clients c where id in (%s, %s) order by 1", [3, 9])
        expect(found.fetchall(), [(3, Decimal(6790)), (9, None)])
        conn.execute("create view totals as select c.id, name, coalesce(sum(cents), 0) as cents from clients c left join orders o on o.client = c.id group by c.id, name")
        expect(conn.execute("select name from totals where cents = (select max(cents) from totals)").fetchone(), ("c1",))
        conn.execute("update clients set name = clients.name || '!' from totals t where t.id = clients.id and t.cents > %s", [7000])
        expect(conn.execute("select count(*) from clients where name like %s", ["%!"]).fetchone(), (4,))
        conn.execute("delete from orders using clients c where c.id = orders.client and c.name like %s", ["%!"])
        conn.execute("create table kept as select * from totals where cents > 0")
        expect(conn.execute("select count(*), sum(cents) from kept").fetchone(), (3, Decimal(20370)))


def connection(**named):
    return psycopg.connect(sys.argv[1], connect_timeout=10, **named)


if __name__ == "__main__":
    sys.exit(run(connection, sys.argv[2:]))
