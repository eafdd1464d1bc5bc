"""A grid whose nodes are on hosts of their own: latency, loss, and hosts that do not hear each other. Promises are kept, and
what can be reached goes on (basic availability).

Left out with a message where network namespaces may not be made.
"""

import pathlib
import random
import signal
import subprocess
import threading
import time

from harness import CheckFailed, Wire, describe_errors, require, rows_of, sqlstates
from network import Hosts, why_not
from suites.bad_input import leave_space, small_disk

NODES = 3
ACCOUNTS = 90
# The first of them nobody else changes, so that what is said of them is not for another transaction in doubt.
ASKED_FOR = 12
BEGUN_WITH = 100
# The longest that a statement may take to say that a node is not there: it is silent for 5 s before it is taken for unreachable.
TOLD_SECONDS_MAX = 15
# Until all nodes have found each other again.
HEALED_SECONDS_MAX = 40
RETRIED = {"40001", "57P03"}


def run(context):
    refused = why_not()
    if refused:
        print(f"  left out: {refused}")
        return
    with Hosts(NODES) as hosts, small_disk(context, 160) as disk, Grid(context, hosts, disk) as grid:
        hosts.shape(0.002, 0.001, 0.01)
        with context.check("three hosts become one grid, with latency and loss between them"):
            grid.start()
        with context.check("what one node has acknowledged, the next one sees"):
            real_time(grid)
        with context.check("transfers from all nodes keep their sum under loss"):
            with Transfers(grid) as transfers:
                time.sleep(context.seconds)
            require(transfers.done > 0, "no transfer was done")
            require(not transfers.wrong, f"{transfers.wrong[:3]}")
            agree(grid)
        with context.check("a host that is cut off: the others' rows are there, its own are told to be missing"):
            cut_off(context, grid, hosts)
        with context.check("healed: everything goes on, nothing stays in doubt"):
            healed(grid)
        with context.check("two hosts that do not hear each other, and a third that hears both"):
            one_pair(context, grid, hosts, (1, 2), 0)
        with context.check("healed again"):
            healed(grid)
        with context.check("a host that does not hear the one that hands out timestamps, and a third that carries them on"):
            one_pair(context, grid, hosts, (0, 1), 2)
        with context.check("a host that is started again while it does not hear that one"):
            starts_while_cut(grid, hosts)
        with context.check("healed from that"):
            healed(grid)
        with context.check("a host that fails while cut off from another comes back"):
            fails_while_cut(context, grid, hosts)
        with context.check("each node is closed and started again in turn, beside transfers"):
            rolling_restart(grid)
        if disk:
            with context.check("a full disk at one node: 53100 for what needs it, all else goes on, and it recovers"):
                full_disk(grid, disk / "ballast")


class Grid:
    """The nodes' processes. Clients are on the host of their node: without TLS nobody else is let in."""

    def __init__(self, context, hosts, disk):
        self.context, self.hosts = context, hosts
        self.folder = context.new_folder().parent
        self.data = [(self.folder / f"node{node}").resolve() for node in range(NODES)]
        if disk:
            # The last one has a disk of its own, which can be filled.
            self.data[-1] = (disk / "data").resolve()
        self.processes = [None] * NODES

    def __enter__(self):
        secret = self.folder / "secret"
        secret.write_text("the secret of these hosts\n")
        secret.chmod(0o600)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process and process.poll() is None:
                process.kill()
                process.wait()

    def launch(self, node):
        command = [
            str(pathlib.Path(self.context.program).resolve()), "start", "--data", str(self.data[node]), "--listen", "127.0.0.1:5433",
            "--memory", "128MiB", "--grid-listen", f"{self.hosts.address(node)}:7010", "--grid-secret-file", str((self.folder / "secret").resolve()),
        ]
        if node:
            command += ["--join", f"{self.hosts.address(0)}:7010"]
        with open(self.folder / f"node{node}.log", "ab") as log, self.hosts.inside(node):
            self.processes[node] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 30
        while True:
            require(self.processes[node].poll() is None, f"node {node} ended: {self.last_words(node)}")
            try:
                return self.ask(node, "SELECT 1")
            except (OSError, CheckFailed) as refused:
                require(time.monotonic() < deadline, f"node {node} takes no connection: {refused}; {self.last_words(node)}")
                time.sleep(0.1)

    def last_words(self, node):
        return " | ".join((self.folder / f"node{node}.log").read_text(errors="replace").strip().splitlines()[-3:])

    def start(self):
        for node in range(NODES):
            self.launch(node)
        for node in range(NODES):
            self.until(node, "SELECT count(*) FROM rubato.nodes", [[str(NODES)]])
        self.until(
            0, "CREATE TABLE IF NOT EXISTS accounts (id int PRIMARY KEY, v int NOT NULL CHECK (v >= 0)) WITH (spread = true)", []
        )
        self.ask(1, f"INSERT INTO accounts SELECT i, {BEGUN_WITH} FROM generate_series(1, {ACCOUNTS}) AS i")
        self.ask(0, "CREATE TABLE counters (id int PRIMARY KEY, n int); INSERT INTO counters VALUES (1, 0)")

    def connect(self, node):
        with self.hosts.inside(node):
            return Wire(5433, timeout=60)

    def ask(self, node, sql):
        """The rows of a statement in a session of its own."""
        with self.connect(node) as wire:
            wire.until_ready()
            return answer_of(wire.query(sql))

    def until(self, node, sql, expected, seconds=HEALED_SECONDS_MAX):
        """Asks until the answer is that one."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                said = self.ask(node, sql)
            except (OSError, CheckFailed) as refused:
                said = refused
            if said == expected:
                return
            require(time.monotonic() < deadline, f"node {node}, {sql}: {said}; {self.last_words(node)}")
            time.sleep(0.2)


def answer_of(messages):
    if sqlstates(messages):
        raise CheckFailed(f"refused{describe_errors(messages)}")
    return rows_of(messages)


class Transfers:
    """A client at each node that moves amounts between accounts at random, until the block ends."""

    def __init__(self, grid, nodes=range(NODES)):
        self.grid, self.done, self.wrong, self.stopped = grid, 0, [], False
        self.threads = [threading.Thread(target=self.work, args=(node,), daemon=True) for node in nodes]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped = True
        for thread in self.threads:
            thread.join(120)
            if thread.is_alive():
                self.wrong.append("a client has had no answer for 120 s")

    def work(self, node):
        chance = random.Random(node)
        try:
            with self.grid.connect(node) as wire:
                wire.until_ready()
                while not self.stopped:
                    self.transfer(wire, chance)
        except (OSError, CheckFailed) as failure:
            self.wrong.append(f"at node {node}: {failure}")

    def transfer(self, wire, chance):
        giver, taker = chance.sample(range(ASKED_FOR + 1, ACCOUNTS + 1), 2)
        messages = wire.query(
            f"BEGIN; UPDATE accounts SET v = v - 1 WHERE id = {giver}; UPDATE accounts SET v = v + 1 WHERE id = {taker}; COMMIT"
        )
        refused = [state for state in sqlstates(messages) if state != "25P02"]
        if refused:
            wire.query("ROLLBACK")
            # 08007 says that the outcome is not known: the sum is the same either way.
            # 23514: the giver has nothing.
            if refused[0] not in RETRIED | {"08007", "23514"}:
                raise CheckFailed(f"{describe_errors(messages)}")
        else:
            self.done += 1


def agree(grid):
    """All nodes see the same sum, which nothing has changed."""
    for node in range(NODES):
        grid.until(node, "SELECT sum(v), count(*) FROM accounts", [[str(ACCOUNTS * BEGUN_WITH), str(ACCOUNTS)]])


def real_time(grid):
    for number in range(1, 31):
        grid.ask(number % NODES, f"UPDATE counters SET n = {number} WHERE id = 1")
        seen = grid.ask((number + 1) % NODES, "SELECT n FROM counters WHERE id = 1")
        require(seen == [[str(number)]], f"written {number}, then seen {seen}")


def reachable(grid, node):
    """Which accounts a node's clients can read, and what the others say; each in bounded time."""
    there, missing, longest = [], [], 0.0
    with grid.connect(node) as wire:
        wire.until_ready()
        for account in range(1, ASKED_FOR + 1):
            begun = time.monotonic()
            messages = wire.query(f"UPDATE accounts SET v = v WHERE id = {account}")
            longest = max(longest, time.monotonic() - begun)
            (missing if sqlstates(messages) else there).append((account, sqlstates(messages)))
    require(longest < TOLD_SECONDS_MAX, f"a statement at node {node} took {longest:.1f} s")
    wrong = [told for told in missing if not set(told[1]) <= RETRIED]
    require(not wrong, f"at node {node}: {wrong}")
    return [account for account, _ in there], [account for account, _ in missing]


def cut_off(context, grid, hosts):
    with Transfers(grid) as transfers:
        time.sleep(1)
        hosts.cut([(0, 2), (1, 2)])
        time.sleep(7)
        done = transfers.done
        for node in (0, 1):
            there, missing = reachable(grid, node)
            require(len(there) == 8 and len(missing) == 4, f"node {node}: {there} are there, {missing} are not")
        # The node that is cut off says so, in bounded time, and takes no write that the others would not see.
        there, _ = reachable(grid, 2)
        require(not there, f"without the first node, node 2 has changed {there}")
        time.sleep(context.seconds)
        require(transfers.done > done, "nothing went on beside the host that is cut off")
        hosts.cut([])
    require(not transfers.wrong, f"{transfers.wrong[:3]}")


def healed(grid):
    agree(grid)
    for node in range(NODES):
        # Nobody holds a row any more.
        grid.until(node, "UPDATE accounts SET v = v RETURNING 1", [["1"]] * ACCOUNTS)
    agree(grid)


def one_pair(context, grid, hosts, pair, third):
    with Transfers(grid) as transfers:
        hosts.cut([pair])
        time.sleep(7)
        there_at_each(grid, pair, third)
        time.sleep(context.seconds)
        hosts.cut([])
    require(not transfers.wrong, f"{transfers.wrong[:3]}")
    require(transfers.done > 0, "no transfer was done")


def there_at_each(grid, pair, third):
    there, missing = reachable(grid, third)
    require(not missing, f"node {third} hears everybody, and does not reach {missing}")
    for node in pair:
        there, missing = reachable(grid, node)
        require(len(there) == 8 and len(missing) == 4, f"node {node}: {there} are there, {missing} are not")


def starts_while_cut(grid, hosts):
    with Transfers(grid, [2]) as transfers:
        hosts.cut([(0, 1)])
        time.sleep(1)
        grid.processes[1].kill()
        grid.processes[1].wait()
        grid.launch(1)
        time.sleep(7)
        there_at_each(grid, (0, 1), 2)
        hosts.cut([])
    require(not transfers.wrong, f"{transfers.wrong[:3]}")


def fails_while_cut(context, grid, hosts):
    with Transfers(grid, [0]) as transfers:
        hosts.cut([(1, 2)])
        time.sleep(1)
        grid.processes[2].kill()
        grid.processes[2].wait()
        time.sleep(context.seconds)
        hosts.cut([])
        grid.launch(2)
    require(not transfers.wrong, f"{transfers.wrong[:3]}")
    healed(grid)


def rolling_restart(grid):
    for node in range(NODES):
        with Transfers(grid, [other for other in range(NODES) if other != node]) as transfers:
            time.sleep(0.5)
            grid.processes[node].send_signal(signal.SIGTERM)
            status = grid.processes[node].wait(30)
            require(status == 0, f"node {node} ended with {status}: {grid.last_words(node)}")
            time.sleep(0.5)
            grid.launch(node)
            grid.until(node, "SELECT count(*) FROM accounts", [[str(ACCOUNTS)]])
            done = transfers.done
            deadline = time.monotonic() + HEALED_SECONDS_MAX
            while transfers.done == done and not transfers.wrong:
                require(time.monotonic() < deadline, f"no transfer is done after node {node} has come back")
                time.sleep(0.05)
        require(not transfers.wrong, f"node {node}: {transfers.wrong[:3]}")
    healed(grid)


def full_disk(grid, ballast):
    grid.ask(0, "CREATE TABLE notes (id int PRIMARY KEY, t text) WITH (spread = true)")
    leave_space(None, ballast, 3 << 20)
    written, refused = [], []
    with grid.connect(0) as wire:
        wire.until_ready()

        def write(number):
            states = sqlstates(wire.query(f"INSERT INTO notes VALUES ({number}, '{'z' * 100000}')"))
            require(states in ([], ["53100"]), f"a full disk at another node gave {states}")
            (refused if states else written).append(number)

        number = 0
        while not refused and number < 3000:
            number += 1
            write(number)
        require(refused, f"the disk is not full after {number} rows")
        written.clear()
        refused.clear()
        for number in range(number + 1, number + 13):
            write(number)
        require(len(written) == 8 and len(refused) == 4, f"{written} were written, {refused} refused")
        # What is over two nodes is done on both or on neither.
        both = f"INSERT INTO notes VALUES ({number + 1}, '{'z' * 100000}'), ({number + 2}, '{'z' * 100000}'), ({number + 3}, '{'z' * 100000}')"
        states = sqlstates(wire.query(both))
        require(states == ["53100"], f"three rows, of which one node cannot keep its own, gave {states}")
        require(rows_of(wire.query(f"SELECT count(*) FROM notes WHERE id > {number}")) == [["0"]], "a part of what was refused is there")
        require(answer_of(wire.query("SELECT count(*) FROM accounts")) == [[str(ACCOUNTS)]], "reads do not go on")
    leave_space(None, ballast, None)
    grid.until(1, both + " RETURNING 1", [["1"]] * 3)
    agree(grid)
