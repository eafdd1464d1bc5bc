"""pgbench 15, unmodified: initialisation both ways, its three scripts in its three modes, and the sum that must hold."""

import re
import subprocess

from harness import require

CLIENTS = 8
MODES = ["simple", "extended", "prepared"]
# pgbench itself repeats a transaction that was refused with 40001; a design with blind formulas hardly needs it.
TRIES_MAX = 1000


def run(context):
    with context.server() as server:
        with context.check("-i -s 1"):
            bench(context, server, "-q", "-i", "-s", "1", timeout=120)
            require(context.scalar(server.url, "select count(*) from pgbench_accounts") == "100000", "accounts are missing")
            require(context.scalar(server.url, "select sum(abalance) from pgbench_accounts") == "0", "balances are not 0")
        load(context, server)
        with context.check("primary keys hold after -i"):
            refused = context.psql_text(server.url, "insert into pgbench_accounts (aid) values (1)", check=False)
            require("duplicate key" in refused.stdout, f"a second account 1 was accepted: {refused.stdout}")
    with context.server() as server:
        with context.check("-i with foreign keys (-I dtgvpf)"):
            bench(context, server, "-q", "-i", "-s", "1", "-I", "dtgvpf", timeout=120)
            refused = context.psql_text(server.url, "insert into pgbench_history (aid, bid, tid) values (0, 1, 1)", check=False)
            require("foreign key" in refused.stdout, f"history of no account was accepted: {refused.stdout}")
        timed(context, server, "tpcb-like under foreign keys", "prepared", ["-b", "tpcb-like"])
        invariant(context, server, " under foreign keys", all_four=True)
        with context.check("-i again on a loaded database"):
            bench(context, server, "-q", "-i", "-s", "1", timeout=120)


def load(context, server):
    for mode in MODES:
        timed(context, server, "tpcb-like", mode, ["-b", "tpcb-like"])
        invariant(context, server, f" after tpcb-like -M {mode}", all_four=mode == MODES[0])
        timed(context, server, "simple-update (-N)", mode, ["-N"])
        timed(context, server, "select-only (-S)", mode, ["-S"])
        invariant(context, server, f" after all -M {mode}")
    with context.check("one client, new connection each transaction (-C)"):
        said = bench(context, server, "-n", "-c", "1", "-t", "50", "-C", "-S")
        require("50/50" in said, said)


def timed(context, server, name, mode, script):
    with context.check(f"{name} -M {mode}"):
        arguments = ["-n", "-M", mode, "-c", str(CLIENTS), "-j", "2", "-T", str(context.seconds), f"--max-tries={TRIES_MAX}"]
        said = bench(context, server, *arguments, *script)
        done = int(re.search(r"actually processed: (\d+)", said).group(1))
        failed = re.search(r"number of failed transactions: (\d+)", said)
        require(done > 0, "no transaction was processed")
        require(failed is None or failed.group(1) == "0", f"{failed and failed.group(0)}")
        rate = re.search(r"tps = ([\d.]+) \(without", said).group(1)
        retried = re.search(r"number of transactions retried: (\d+)", said)
        print(f"  {name} -M {mode}: {rate} tps, retried {retried.group(1) if retried else 0}")


def invariant(context, server, when, all_four=False):
    """Every transaction adds one delta to an account, a teller and a branch, and writes it down."""
    with context.check(f"sums agree{when}"):
        # -N leaves tellers and branches out: its deltas stand in the history as those of all others do.
        sums = {
            "accounts": "select sum(abalance) from pgbench_accounts",
            "tellers": "select sum(tbalance) from pgbench_tellers",
            "branches": "select sum(bbalance) from pgbench_branches",
            "history": "select sum(delta) from pgbench_history",
        }
        values = {name: int(context.scalar(server.url, sql) or 0) for name, sql in sums.items()}
        require(values["accounts"] == values["history"], f"{values}")
        require(values["tellers"] == values["branches"], f"{values}")
        require(not all_four or len(set(values.values())) == 1, f"{values}")


def bench(context, server, *arguments, timeout=None):
    command = [str(context.postgres_bin / "pgbench"), *arguments, server.url]
    timeout = timeout or context.seconds + 60
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)
    require(done.returncode == 0, f"{' '.join(arguments)}: {done.stdout.strip()[-400:]}")
    return done.stdout
