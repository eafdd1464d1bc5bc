#!/usr/bin/env python3
"""The same random schema, data, queries and changes on two servers: both must answer the same.

    differential.py URL REFERENCE_URL [--seeds 20] [--from 1] [--statements 150] [--seconds 300]

Each seed prints `seed N ... ok` or what differs first, with the script that leads there. Errors must have the same SQLSTATE; 0A000 of the
first server (a construct that it does not have) and what took one of them too long (random joins may have millions of rows) are left out;
how many were refused or left out is told at the end. No seed is begun after --seconds.
"""
import argparse
import random
import sys
import time

import psycopg
from psycopg import errors

TYPES = {
    "int": lambda r: str(r.randint(-5, 12)),
    "bigint": lambda r: str(r.choice([0, 1, 3, 7, 10_000_000_000, -4])),
    "numeric(8,2)": lambda r: f"{r.randint(-300, 900) / 100:.2f}",
    "text": lambda r: "'" + r.choice(["", "a", "b", "ab", "abc", "B", "zz", "x y"]) + "'",
    "boolean": lambda r: r.choice(["true", "false"]),
    "date": lambda r: f"'2024-0{r.randint(1, 9)}-1{r.randint(0, 9)}'",
    "double precision": lambda r: str(r.choice([0, 0.5, -1.25, 3, 100])),
}
NUMBERS = ["int", "bigint", "numeric(8,2)"]


class Table:
    def __init__(self, name, columns):
        self.name, self.columns = name, columns


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tables = []
        self.aliases = 0
        self.table_of = {}

    def schema(self):
        r, script = self.random, []
        for number in range(3):
            columns = [("id", "int")] + [(f"c{n}", r.choice(list(TYPES))) for n in range(r.randint(2, 4))]
            columns.append(("k", "int"))
            table = Table(f"t{number}", columns)
            self.tables.append(table)
            key = " primary key" if r.random() < 0.8 else ""
            script.append(f"create table {table.name} (" + ", ".join(f"{n} {t}{key if n == 'id' else ''}" for n, t in columns) + ")")
            for row in range(r.randint(0, 25)):
                values = [str(row)] + [TYPES[t](r) if r.random() < 0.85 else "null" for _, t in columns[1:]]
                script.append(f"insert into {table.name} values ({', '.join(values)})")
            if r.random() < 0.7:
                script.append(f"create index on {table.name} (k)")
            if r.random() < 0.3:
                script.append(f"create index on {table.name} ({columns[1][0]}, id)")
        for number in range(2):
            columns = []
            query = self.select([], 2, columns)
            names = [f"v{n}" for n in range(len(columns))]
            script.append(f"create view w{number} ({', '.join(names)}) as {query}")
            self.tables.append(Table(f"w{number}", list(zip(names, columns))))
        return script

    def alias(self):
        self.aliases += 1
        return f"a{self.aliases}"

    def columns_of(self, scope, wanted):
        return [f"{alias}.{name}" for alias, columns in scope for name, kind in columns if kind == wanted]

    def value(self, scope, kind, depth):
        """An expression of this type over the relations in scope, those of queries around included."""
        r = self.random
        columns = self.columns_of(scope, kind)
        roll = r.random()
        if columns and roll < 0.6:
            return r.choice(columns)
        if depth > 0 and roll < 0.7:
            inner = [self.relation()]
            aggregate = r.choice(["max", "min"]) if kind != "boolean" else "bool_or"
            operand = self.value(inner, kind, 0)
            where = f" where {self.condition(inner + scope, depth - 1)}" if r.random() < 0.8 else ""
            return f"(select {aggregate}({operand}) from {self.named(inner[0])}{where})"
        if kind in NUMBERS and roll < 0.8 and columns:
            return f"({r.choice(columns)} {r.choice(['+', '-', '*'])} {r.randint(0, 4)})::{kind}"
        if roll < 0.85:
            return f"case when {self.condition(scope, 0)} then {self.value(scope, kind, 0)} else {self.literal(kind)} end"
        if roll < 0.9 and columns:
            return f"coalesce({r.choice(columns)}, {self.literal(kind)})"
        return self.literal(kind)

    def literal(self, kind):
        return f"{TYPES[kind](self.random)}::{kind}"

    def relation(self):
        table = self.random.choice(self.tables)
        alias = self.alias()
        self.table_of[alias] = table.name
        return alias, table.columns

    def named(self, relation):
        return f"{self.table_of[relation[0]]} {relation[0]}"

    def condition(self, scope, depth):
        r = self.random
        roll = r.random()
        if roll < 0.12:
            return f"({self.condition(scope, depth)} {r.choice(['and', 'or'])} {self.condition(scope, depth)})"
        if roll < 0.17:
            return f"not ({self.condition(scope, depth)})"
        if depth > 0 and roll < 0.45:
            inner = self.relation()
            where = self.condition([inner] + scope, depth - 1)
            kind = r.choice([kind for _, kind in inner[1]])
            own = self.value([inner], kind, 0)
            form = r.randint(0, 4)
            if form == 0:
                return f"{r.choice(['', 'not '])}exists (select 1 from {self.named(inner)} where {where})"
            if form in (1, 2):
                negated = r.choice(["", "not "])
                return f"{self.value(scope, kind, 0)} {negated}in (select {own} from {self.named(inner)} where {where})"
            if form == 3:
                return f"{self.value(scope, kind, 0)} {r.choice(['<', '>=', '='])} {r.choice(['any', 'all'])} (select {own} from {self.named(inner)} where {where})"
            return f"(select count(*) from {self.named(inner)} where {where}) {r.choice(['>', '=', '<'])} {r.randint(0, 3)}"
        kind = r.choice([kind for _, columns in scope for _, kind in columns] or ["int"])
        left = self.value(scope, kind, 0)
        if roll < 0.55:
            return f"{left} is {r.choice(['', 'not '])}null"
        if roll < 0.65:
            return f"{left} in ({', '.join(self.literal(kind) for _ in range(r.randint(1, 4)))})"
        if roll < 0.7:
            return f"{left} is {r.choice(['', 'not '])}distinct from {self.value(scope, kind, 0)}"
        operator = r.choice(["=", "=", "<", ">", "<=", "<>"])
        return f"{left} {operator} {self.value(scope, kind, depth if r.random() < 0.3 else 0)}"

    def source(self, depth, outer):
        """FROM: its text and what it brings into scope."""
        r = self.random
        if depth > 0 and r.random() < 0.25:
            columns = []
            lateral = bool(outer) and r.random() < 0.5
            query = self.select(outer if lateral else [], depth - 1, columns)
            alias = self.alias()
            names = [f"d{n}" for n in range(len(columns))]
            text = f"{'lateral ' if lateral else ''}({query}) {alias} ({', '.join(names)})"
            return text, (alias, list(zip(names, columns)))
        relation = self.relation()
        return self.named(relation), relation

    def select(self, outer, depth, kinds):
        """A query without ORDER BY; `kinds` gets the types of its columns. `outer` is what it may refer to around it."""
        r = self.random
        text, first = self.source(depth, outer)
        scope, froms = [first], text
        for _ in range(r.choice([0, 0, 1, 1, 2])):
            text, entry = self.source(depth, scope)
            join = r.choice(["join", "join", "left join"])
            froms += f" {join} {text} on {self.condition([entry] + scope, 0)}"
            scope.append(entry)
        where = f" where {self.condition(scope + outer, depth)}" if r.random() < 0.7 else ""
        if r.random() < 0.25:
            keys = [(name, kind) for name, kind in [(f"{a}.{n}", k) for a, columns in scope for n, k in columns]]
            keys = r.sample(keys, min(len(keys), r.randint(1, 2)))
            kinds.extend(kind for _, kind in keys)
            kinds.append("bigint")
            having = f" having count(*) {r.choice(['>', '<'])} {r.randint(0, 4)}" if r.random() < 0.4 else ""
            names = ", ".join(name for name, _ in keys)
            return f"select {names}, count(*) from {froms}{where} group by {names}{having}"
        items = []
        for _ in range(r.randint(1, 3)):
            kind = r.choice(list(TYPES))
            kinds.append(kind)
            items.append(self.value(scope + outer, kind, depth))
        distinct = "distinct " if r.random() < 0.15 else ""
        return f"select {distinct}{', '.join(items)} from {froms}{where}"

    def statement(self):
        r = self.random
        roll = r.random()
        base = r.choice(self.tables[:3])
        if roll < 0.06:
            return f"delete from {base.name} where {self.condition([(base.name, base.columns)], 1)} and id % 5 = {r.randint(0, 4)}"
        if roll < 0.1:
            other = self.relation()
            while self.table_of[other[0]] == base.name:
                other = self.relation()
            name, kind = r.choice(base.columns[1:])
            # One row of the other relation at the most, so that it is known which one counts.
            pick = f"{other[0]}.{r.choice(other[1])[0]}"
            return (f"update {base.name} set {name} = {self.literal(kind)} from {self.named(other)} "
                    f"where {self.condition([(base.name, base.columns), other], 0)} and {pick} is not null")
        if roll < 0.2:
            name, kind = r.choice(base.columns[1:])
            scope = [(base.name, base.columns)]
            return f"update {base.name} set {name} = {self.value(scope, kind, 1)} where {self.condition(scope, 1)}"
        if roll < 0.24:
            columns = []
            query = self.select([], 1, columns)
            return f"create table copied as {query}"
        kinds = []
        query = self.select([], 2, kinds)
        if roll < 0.35:
            other = []
            second = self.select([], 1, other)
            word = r.choice(["union", "union all", "intersect", "except"])
            casts = ", ".join(f"x.y{n}::text" for n in range(1))
            return (f"select {casts} from (select y0::text from ({query}) q (y0) {word} select y0::text from ({second}) q (y0)) x (y0)"
                    if len(kinds) == 1 and len(other) == 1 else query)
        if roll < 0.45:
            names = [f"n{n}" for n in range(len(kinds))]
            return f"with q ({', '.join(names)}) as ({query}) select q1.{names[0]}, q2.{names[-1]} from q q1 join q q2 on q1.{names[0]} = q2.{names[0]}"
        return query


def run(connection, sql):
    """Rows in a canonical order, or the SQLSTATE."""
    try:
        cursor = connection.execute(sql)
        if cursor.description is None:
            return cursor.statusmessage, []
        rows = [tuple(shown(value) for value in row) for row in cursor.fetchall()]
        return "rows", sorted(rows, key=repr)
    except errors.Error as error:
        return f"error {error.sqlstate}", []


def shown(value):
    if isinstance(value, float):
        return f"{value:.9g}"
    return value


def compare(seed, connections, statements, refused, answered):
    generator = Generator(seed)
    script = generator.schema()
    for connection in connections:
        connection.execute("drop view if exists w1, w0")
        connection.execute("drop table if exists t0, t1, t2, copied cascade")
    done = []
    count = 0
    while count < statements:
        if script:
            batch = [script.pop(0)]
        else:
            count += 1
            sql = generator.statement()
            batch = [sql]
            if sql.startswith("create table copied"):
                batch += ["select count(*) from copied", "drop table if exists copied"]
            elif not sql.startswith(("select", "with")):
                batch += [f"select * from {table.name}" for table in generator.tables[:3]]
        for sql in batch:
            ours, theirs = (run(connection, sql) for connection in connections)
            if ours[0] == "error 0A000" and theirs[0] != ours[0]:
                refused.append(sql)
                if not sql.startswith(("select", "with")):
                    return None  # From here on the two have other data.
                continue
            if "error 57014" in (ours[0], theirs[0]):
                # One of them took too long.
                slow = "too long for " + ("both" if ours[0] == theirs[0] else "the first" if ours[0] == "error 57014" else "the second")
                answered[slow] = answered.get(slow, 0) + 1
                if not sql.startswith(("select", "with")):
                    return None
                continue
            answered[theirs[0]] = answered.get(theirs[0], 0) + 1
            if ours != theirs:
                return f"{sql}\n  answered {str(ours)[:600]}\n  expected {str(theirs)[:600]}", done
            if not sql.startswith(("select", "with")):
                done.append(sql)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("reference")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--statements", type=int, default=150)
    parser.add_argument("--timeout", type=int, default=1000, help="of a statement, in milliseconds")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--script", action="store_true", help="print what led to a difference")
    options = parser.parse_args()
    connections = [psycopg.connect(url, autocommit=True, connect_timeout=10) for url in (options.url, options.reference)]
    for connection in connections:
        connection.execute(f"set statement_timeout = {options.timeout}")
    end = time.monotonic() + options.seconds
    failed, refused, answered = 0, [], {}
    for seed in range(options.first, options.first + options.seeds):
        if time.monotonic() > end:
            print(f"ended after {seed - options.first} of {options.seeds} seeds, since {options.seconds} s are over", file=sys.stderr)
            break
        outcome = compare(seed, connections, options.statements, refused, answered)
        if outcome is None:
            print(f"seed {seed} ... ok", flush=True)
            continue
        failed += 1
        difference, script = outcome
        print(f"seed {seed} ... FAILED ({' '.join(difference.split())[:400]})", flush=True)
        if options.script:
            print(";\n".join(script + [difference]), flush=True)
    print(f"answers: {', '.join(f'{kind} {count}' for kind, count in sorted(answered.items()))}", file=sys.stderr)
    if refused:
        print(f"{len(refused)} statements were refused with 0A000, for example {refused[0][:300]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
