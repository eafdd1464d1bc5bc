#!/usr/bin/env python3
"""Records the expected output of the scripts beside it from a PostgreSQL 15 server.

    record.py postgresql://user@127.0.0.1:5432 [script.slt ...]

Each script runs in a fresh database. A block is a line `statement` or `query` (the rest of the line and what stands below
`----` is rewritten), then one SQL statement, then an empty line.
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def psql(url, sql):
    command = ["psql", "-X", "-A", "-t", "-F", "|", "-P", "null=NULL", "-v", "VERBOSITY=verbose", "-c", sql, url]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout, done.stderr


def record_block(url, block):
    lines = block.split("\n")
    head = 0
    while head < len(lines) and lines[head].startswith("#"):
        head += 1
    if head == len(lines) or not lines[head].split()[0] in ("statement", "query"):
        return block
    sql_lines = lines[head + 1 :]
    if "----" in sql_lines:
        sql_lines = sql_lines[: sql_lines.index("----")]
    sql = "\n".join(sql_lines)
    out, err = psql(url, sql)
    comments = lines[:head]
    error = re.search(r"^ERROR:  (\w{5}): (.*)$", err, re.M)
    if error:
        detail = re.search(r"^DETAIL:  (.*?)\n(?=[A-Z ]+:  )", err, re.M | re.S)
        result = [error.group(2)] + ([detail.group(1)] if detail else [])
        return "\n".join(comments + ["statement error " + error.group(1)] + sql_lines + ["----"] + result)
    rows = out.split("\n")[:-1]
    if lines[head].startswith("query") or re.match(r"(?i)\s*(select|values)", sql):
        return "\n".join(comments + ["query"] + sql_lines + ["----"] + rows)
    tag = rows.pop() if rows else ""
    rows.sort()  # RETURNING promises no order
    body = comments + ["statement ok " + tag] + sql_lines
    return "\n".join(body + (["----"] + rows if rows else []))


def record(url, path):
    database = "record_" + path.stem
    psql(url + "/postgres", f"DROP DATABASE IF EXISTS {database}")
    psql(url + "/postgres", f"CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
    blocks = re.split(r"\n\n+", path.read_text().strip("\n"))
    recorded = [record_block(f"{url}/{database}", block) for block in blocks]
    path.write_text("\n\n".join(recorded) + "\n")
    psql(url + "/postgres", f"DROP DATABASE {database}")
    print(path.name, len(recorded), "blocks")


def main():
    url = sys.argv[1].rstrip("/")
    for name in sys.argv[2:] or sorted(HERE.glob("*.slt")):
        record(url, pathlib.Path(name))


main()
