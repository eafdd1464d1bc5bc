"""kill -9 under load, again and again on one folder: what was acknowledged is there, and nothing is there by half."""

import random
import subprocess
import time

from harness import require

CLIENTS = 8
# Of so many rounds of counters one is followed by a round of TPC-C, at least one in all.
ROUNDS_PER_TPCC_ROUND = 10
LOAD_SECONDS_MIN, LOAD_SECONDS_MAX = 0.2, 1.5
SEED = 20240601


def run(context):
    chance = random.Random(SEED)
    record, ledger = context.work / "record.txt", context.work / "ledger.txt"
    with context.server() as server:
        for number in range(1, context.rounds + 1):
            with context.check(f"load and kill -9, round {number}"):
                kill_under_load(context, server, number, record, chance)
                begun = time.monotonic()
                server.launch()
                print(f"  restart took {time.monotonic() - begun:.2f} s")
            arguments = ["--url", server.url, "--round", str(number), "--record", str(record), "--ledger", str(ledger)]
            context.program_checks("what was acknowledged", [context.rust_clients, "verify", *arguments], timeout=150)
        with context.check("a clean stop after all kills, and a start"):
            status = server.stop()
            require(status == 0, f"SIGTERM gave status {status}: {server.last_words()}")
            server.launch()
            count = context.scalar(server.url, "select count(*) from counter where client = -1")
            require(count == str(context.rounds), f"{count} rounds are known after {context.rounds}")
    # The program under test has TPC-C in it; PostgreSQL's has not.
    if context.program:
        with context.server() as server:
            tpcc(context, server, max(1, context.rounds // ROUNDS_PER_TPCC_ROUND), chance)


def tpcc(context, server, rounds, chance):
    """TPC-C under load is killed, again and again: its twelve conditions hold after every restart."""
    with context.check("TPC-C is loaded, and its conditions hold"):
        run_tpcc(context, server, "--duration", "0.5")
    for number in range(1, rounds + 1):
        with context.check(f"kill -9 under TPC-C, round {number}, and its twelve conditions"):
            load = subprocess.Popen(tpcc_command(context, server, "--duration", "60", "--no-load"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                time.sleep(chance.uniform(2 * LOAD_SECONDS_MIN, 3 * LOAD_SECONDS_MAX))
                require(load.poll() is None, "the load ended before the kill")
                server.kill()
            finally:
                load.kill()
                load.wait()
            server.launch()
            run_tpcc(context, server, "--duration", "0.2", "--no-load")


def tpcc_command(context, server, *arguments):
    return [str(context.program), "bench", "tpcc", "--quiet", "--warmup", "0", "--terminals", "8", "--url", f"rubato={server.url}", *arguments]


def run_tpcc(context, server, *arguments):
    """Runs it for a moment: it checks the twelve conditions afterwards, and says so by its status."""
    done = subprocess.run(tpcc_command(context, server, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    require(done.returncode == 0, done.stdout.strip()[-500:])


def kill_under_load(context, server, number, record, chance):
    record.unlink(missing_ok=True)
    command = [context.rust_clients, "load", "--url", server.url, "--clients", str(CLIENTS), "--round", str(number), "--record", str(record)]
    load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        first = load.stdout.readline()
        require(first.strip() == "loading", f"the load did not begin: {first}")
        time.sleep(chance.uniform(LOAD_SECONDS_MIN, LOAD_SECONDS_MAX))
        server.kill()
        rest, _ = load.communicate(timeout=60)
        require(load.returncode == 0, f"the load failed before the kill: {rest.strip()}")
    finally:
        if load.poll() is None:
            load.kill()
            load.wait()
