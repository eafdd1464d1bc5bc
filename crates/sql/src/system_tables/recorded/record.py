#!/usr/bin/env python3
"""Records from a PostgreSQL 15 what its catalogs look like, and the rows of them that are the same in every database.

    python3 record.py postgresql://postgres@127.0.0.1:5599

`relations.tsv` has every table and view of pg_catalog and information_schema: schema, name, number, kind, and its columns as
`name:type`, with a `!` behind the type where no NULL may stand. Domains are written as the types below them. The other files hold rows, with
the names of their columns above them. What Rubato does not have is left out when they are read, not here.
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent

RELATIONS = """
copy (
    select n.nspname, c.relname, c.oid, c.relkind,
           (select string_agg(a.attname || ':' || coalesce(b.typname, t.typname) || case when a.attnotnull then '!' else '' end, ' ' order by a.attnum)
            from pg_attribute a join pg_type t on t.oid = a.atttypid left join pg_type b on t.typtype = 'd' and b.oid = t.typbasetype
            where a.attrelid = c.oid and a.attnum > 0)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('pg_catalog', 'information_schema') and c.relkind in ('r', 'v')
    order by 1, 2
) to stdout
"""

# Columns that the rest of the row implies, or that nobody has use for, are left out.
ROWS = {
    "pg_type": "select oid, typname, typnamespace, typowner, typlen, typbyval, typtype, typcategory, typispreferred, typisdefined, typdelim,"
    " typrelid, typsubscript::oid as typsubscript, typelem, typarray, typinput::oid as typinput, typoutput::oid as typoutput,"
    " typreceive::oid as typreceive, typsend::oid as typsend, typmodin::oid as typmodin, typmodout::oid as typmodout,"
    " typanalyze::oid as typanalyze, typalign, typstorage, typnotnull, typbasetype, typtypmod, typndims, typcollation"
    " from pg_type where oid < 10000 and typtype in ('b', 'p', 'r', 'm') order by oid",
    "pg_proc": "select oid, proname, prolang, prokind, proisstrict, proretset, provolatile, pronargs, pronargdefaults, provariadic, prorettype,"
    " proargtypes, 11 as pronamespace, 10 as proowner, procost, proparallel, prosrc from pg_proc where oid < 10000 order by oid",
    "pg_cast": "select oid, castsource, casttarget, castfunc, castcontext, castmethod from pg_cast where oid < 12000 order by oid",
    "pg_operator": "select oid, oprname, oprkind, oprcanmerge, oprcanhash, oprleft, oprright, oprresult, oprcom, oprnegate, oprcode::oid as oprcode,"
    " oprrest::oid as oprrest, oprjoin::oid as oprjoin, 11 as oprnamespace, 10 as oprowner from pg_operator where oid < 10000 order by oid",
    "pg_opclass": "select oid, opcmethod, opcname, opcfamily, opcintype, opcdefault, opckeytype, 11 as opcnamespace, 10 as opcowner from pg_opclass"
    " where opcmethod in (403, 405) order by oid",
    "pg_am": "select oid, amname, amhandler::oid as amhandler, amtype from pg_am where amname in ('heap', 'btree') order by oid",
    "pg_collation": "select oid, collname, collprovider, collisdeterministic, collencoding, collcollate, collctype, 11 as collnamespace, 10 as collowner"
    " from pg_collation where oid in (100, 950, 951) order by oid",
    "pg_language": "select oid, lanname, lanispl, lanpltrusted, 10 as lanowner from pg_language where lanname in ('internal', 'c', 'sql') order by oid",
    "pg_settings": "select name, unit, category, short_desc, context, vartype, min_val, max_val, boot_val from pg_settings"
    " where vartype <> 'enum' or name not like 'debug%' order by name",
    "pg_description": "select d.objoid, d.classoid, d.objsubid, d.description from pg_description d"
    " where d.classoid in ('pg_type'::regclass, 'pg_am'::regclass, 'pg_language'::regclass, 'pg_namespace'::regclass)"
    " and d.objoid < 12000 order by 2, 1",
}


def psql(url: str, command: str) -> str:
    run = subprocess.run(["psql", "-X", "-q", "-d", url, "-c", command], capture_output=True, text=True, check=True, timeout=60)
    return run.stdout


def main() -> None:
    url = sys.argv[1]
    (HERE / "relations.tsv").write_text(psql(url, RELATIONS))
    for name, query in ROWS.items():
        (HERE / f"{name}.tsv").write_text(psql(url, f"copy ({query}) to stdout (format text, header true)"))


main()
