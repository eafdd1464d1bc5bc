"""asyncpg against a server: `asyncpg_checks.py URL`. Its look-ups of types are queries of the catalog."""

import asyncio
import datetime
import decimal
import sys
import uuid

import asyncpg
from checks import check, expect, run

TABLE = "create table pupil (id serial primary key, name varchar(80) not null unique, born date, marks numeric(4,1))"


def with_connection(work):
    """A check that is a coroutine with a connection."""

    def checked(url):
        async def play():
            conn = await asyncpg.connect(url, timeout=10)
            try:
                await work(conn, url)
            finally:
                await conn.close()

        asyncio.run(asyncio.wait_for(play(), 60))

    checked.__name__ = work.__name__
    return check(checked)


@with_connection
async def values_of_every_kind(conn, _):
    at = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc)
    number = uuid.UUID(int=7)
    row = await conn.fetchrow(
        "select $1::int4, $2::text, $3::timestamptz, $4::numeric, $5::bool, $6::uuid, $7::bytea, $8::date, $9::float8",
        7, "naïve ☃", at, decimal.Decimal("1.50"), True, number, b"\0\xff", at.date(), 0.1,
    )
    expect(tuple(row), (7, "naïve ☃", at, decimal.Decimal("1.50"), True, number, b"\0\xff", at.date(), 0.1))


@with_connection
async def prepared_statements_know_their_types(conn, _):
    await conn.execute(TABLE)
    statement = await conn.prepare("insert into pupil (name, born, marks) values ($1, $2, $3) returning id, name")
    expect([kind.name for kind in statement.get_parameters()], ["varchar", "date", "numeric"])
    expect([(column.name, column.type.name) for column in statement.get_attributes()], [("id", "int4"), ("name", "varchar")])
    expect(await statement.fetchval("Ada", datetime.date(1815, 12, 10), decimal.Decimal("1.0")), 1)


@with_connection
async def names_of_relations_and_types(conn, _):
    row = await conn.fetchrow("select 'pupil'::regclass, $1::regclass, 'varchar(3)'::regtype, oid::regclass from pg_class where relname = 'pupil'", "pupil")
    expect(tuple(row), ("pupil", "pupil", "character varying", "pupil"))
    expect(await conn.fetchval("select relkind from pg_class where oid = 'pupil'::regclass"), b"r")


@with_connection
async def arrays_as_parameters(conn, _):
    found = await conn.fetch("select relname from pg_class where relname = any($1::text[]) order by 1", ["pupil", "pupil_pkey", "none"])
    expect([row[0] for row in found], ["pupil", "pupil_pkey"])
    expect(await conn.fetchval("select $1::int[]", [1, 2, None]), [1, 2, None])


@with_connection
async def its_queries_of_types(conn, _):
    found = await conn.fetch(asyncpg.introspection.INTRO_LOOKUP_TYPES, [1009, 1007, 25, 2950])
    expect({(row["name"], row["kind"], row["elemtype"]) for row in found} >= {("_text", b"b", 25), ("text", b"b", 0), ("_int4", b"b", 23)}, True)
    await conn.set_type_codec("numeric", encoder=str, decoder=float, schema="pg_catalog")
    expect(await conn.fetchval("select 1.5::numeric"), 1.5)


@with_connection
async def copy_many_and_cursors(conn, _):
    expect(await conn.copy_records_to_table("pupil", records=[(f"c{n}", None) for n in range(100)], columns=["name", "born"]), "COPY 100")
    await conn.executemany("insert into pupil (name) values ($1)", [(f"m{n}",) for n in range(100)])
    async with conn.transaction():
        names = [row["name"] async for row in conn.cursor("select name from pupil order by id", prefetch=10)]
    expect((len(names), names[0], names[-1]), (201, "Ada", "m99"))


@with_connection
async def transactions_within_transactions(conn, _):
    async with conn.transaction():
        try:
            async with conn.transaction():
                await conn.execute("insert into pupil (name) values ('Ada')")
        except asyncpg.UniqueViolationError as failure:
            expect((failure.constraint_name, failure.table_name), ("pupil_name_key", "pupil"))
        await conn.execute("insert into pupil (name) values ('Emmy')")
    expect(await conn.fetchval("select count(*) from pupil where name = 'Emmy'"), 1)


@with_connection
async def pools_reset_their_connections(_, url):
    async with asyncpg.create_pool(url, min_size=2, max_size=4) as pool:
        expect(await asyncio.gather(*[pool.fetchval("select $1::int", number) for number in range(20)]), list(range(20)))


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
