"""pg_dump 15 dumps a database with all kinds of objects; psql restores it into Rubato and into PostgreSQL, and both hold the same afterwards."""

import contextlib
import re
import subprocess

from harness import HERE, require

# What every restored database must tell, whoever restored it.
TOLD = {
    "columns": """select table_name, column_name, data_type, is_nullable, is_identity, character_maximum_length, numeric_precision, numeric_scale
        from information_schema.columns where table_schema = 'public' order by table_name, ordinal_position""",
    "constraints": """select conrelid::regclass, conname, contype, condeferrable, condeferred, case when contype <> 'c' then pg_get_constraintdef(oid) end
        from pg_constraint where connamespace = 'public'::regnamespace order by conname""",
    "indexes": "select indexname, indexdef from pg_indexes where schemaname = 'public' order by indexname",
    "comments": """select c.relname, d.objsubid, d.description from pg_description d join pg_class c on c.oid = d.objoid
        where c.relnamespace = 'public'::regnamespace order by 1, 2""",
    "sequences": """select c.relname, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle from pg_sequence s join pg_class c on c.oid = s.seqrelid
        order by 1""",
    "numbers of sequences": """select 1, last_value, is_called from loose union all select 2, last_value, is_called from untouched
        union all select 3, last_value, is_called from always_id_seq union all select 4, last_value, is_called from numbered_id_seq order by 1""",
    "views": "select t.*, o.c as again from totals t left join of_view o on o.id = t.id order by t.id",
}
TABLES = ["parent", "child", "numbered", "always", '"Mixed Case"', "kinds", "a", "b", "without_key"]


def run(context):
    with contextlib.ExitStack() as servers:
        source = servers.enter_context(context.server())
        context.psql_text(source.url, (HERE / "dump/objects.sql").read_text())
        dumps = {}
        for name, options in {"plain": [], "with INSERT": ["--column-inserts"]}.items():
            with context.check(f"pg_dump {name}"):
                dumps[name] = dump(context, source, *options)
        with context.check("schema and data by themselves"):
            parts = dump(context, source, "--schema-only") + dump(context, source, "--data-only")
            require(parts.count("CREATE TABLE") == len(TABLES) and parts.count("COPY ") == len(TABLES), "parts are missing")
        with context.check("one table"):
            one = dump(context, source, "--table", "numbered")
            require(one.count("CREATE TABLE") == 1 and "numbered_id_seq" in one, one[-300:])
        again = servers.enter_context(context.server())
        postgres = servers.enter_context(context.postgres())
        for name, script in dumps.items():
            for where, server in (("the same program", again), ("PostgreSQL", postgres)):
                with context.check(f"restored {name} by {where}"):
                    compare(context, source, server, script)


def dump(context, server, *options):
    command = [str(context.postgres_bin / "pg_dump"), "-d", server.url, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    require(done.returncode == 0, f"pg_dump {' '.join(options)}: {done.stderr.strip()}")
    return done.stdout


def compare(context, source, server, script):
    """Restores into a new database (there is one schema: everything that is there is dropped before) and compares with the source."""
    views = "drop view if exists of_view, totals"
    tables = f"drop table if exists {', '.join(TABLES)} cascade"
    context.psql_text(server.url, f"set client_min_messages = error; {views}; {tables}; drop sequence if exists loose, untouched")
    restored = context.psql_text(server.url, script, check=False)
    errors = re.findall(r"ERROR:.*", restored.stdout)
    require(restored.returncode == 0 and not errors, f"psql: {errors or restored.stdout[-300:]}")
    wanted, found = answers(context, source), answers(context, server)
    for name in wanted:
        require(found[name] == wanted[name], f"{name}: {[line for line in found[name] if line not in wanted[name]][:3]} in place of "
                                             f"{[line for line in wanted[name] if line not in found[name]][:3]}")


def answers(context, server):
    """The sorted rows of every question and every table, asked by one psql."""
    questions = {**TOLD, **{table: f"select * from {table}" for table in TABLES}}
    script = "".join(f"\\echo == {name}\n{question};\n" for name, question in questions.items())
    pieces = context.psql_text(server.url, script).stdout.split("== ")[1:]
    return {name: sorted(lines) for name, *lines in (piece.splitlines() for piece in pieces)}
