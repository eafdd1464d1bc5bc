#!/usr/bin/env python3
"""Records the expected output of the scripts beside it from a PostgreSQL 15 server.

    record.py postgresql://user@127.0.0.1:5432 [script.slt ...]

Each script runs in a fresh database, each of its statements in a session of its own; the scripts of crates/node/tests/scripts run in
one session each, and show notices, too. A block is a line `statement` or `query` (the rest of the line and what stands below
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


MARK = "~~ end of block ~~"


def psql_session(url, statements):
    """The standard output and error of each statement; all run in one session."""
    command = ["psql", "-X", "-A", "-t", "-F", "|", "-v", "VERBOSITY=verbose", url]
    script = "".join(f"{sql}\n;\n\\echo {MARK!r}\n\\warn {MARK!r}\n" for sql in statements)
    done = subprocess.run(command, input=script, capture_output=True, text=True)
    outs, errs = (text.split(MARK + "\n") for text in (done.stdout, done.stderr))
    return list(zip(outs, errs))


def record_session(url, blocks):
    def parts(block):
        lines = block.split("\n")
        head = next(at for at, line in enumerate(lines) if not line.startswith("#")) if any(
            not line.startswith("#") for line in lines
        ) else len(lines)
        sql = lines[head + 1 :]
        return lines[:head], lines[head : head + 1], sql[: sql.index("----")] if "----" in sql else sql

    split = [parts(block) for block in blocks]
    answers = iter(psql_session(url, ["\n".join(sql) for _, head, sql in split if head]))
    recorded = []
    for comments, head, sql in split:
        if not head:
            recorded.append("\n".join(comments))
            continue
        out, err = next(answers)
        notices = [f"NOTICE: {text}" for text in re.findall(r"^NOTICE:  \w{5}: (.*)$", err, re.M)]
        error = re.search(r"^ERROR:  (\w{5}): (.*)$", err, re.M)
        rows = out.split("\n")[:-1]
        if error:
            detail = re.search(r"^DETAIL:  (.*?)\n(?=[A-Z ]+:  )", err[error.end() :], re.M | re.S)
            first, rows = "statement error " + error.group(1), [error.group(2)] + ([detail.group(1)] if detail else [])
        elif head[0].startswith("query"):
            first = "query"
        else:
            first = "statement ok " + (rows.pop() if rows else "")
            rows.sort()
        body = comments + [first] + sql
        recorded.append("\n".join(body + (["----"] + notices + rows if notices or rows or first == "query" else [])))
    return recorded


def record(url, path):
    database = "record_" + path.stem
    psql(url + "/postgres", f"DROP DATABASE IF EXISTS {database}")
    psql(url + "/postgres", f"CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
    blocks = re.split(r"\n\n+", path.read_text().strip("\n"))
    own = f"{url}/{database}"
    in_one_session = path.resolve().parent != HERE.resolve()
    recorded = record_session(own, blocks) if in_one_session else [record_block(own, block) for block in blocks]
    path.write_text("\n\n".join(recorded) + "\n")
    psql(url + "/postgres", f"DROP DATABASE {database}")
    print(path.name, len(recorded), "blocks")


def main():
    url = sys.argv[1].rstrip("/")
    for name in sys.argv[2:] or sorted(HERE.glob("*.slt")):
        record(url, pathlib.Path(name))


main()
