"""kill -9 under load, again and again on one folder: what was acknowledged is there, and nothing is there by half."""

import random
import subprocess
import time

from harness import require

CLIENTS = 8
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
