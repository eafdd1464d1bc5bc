"""Starts and ends the server under test, and prints verdicts. Standard library only.

A suite gets a `Context`. It asks it for a server (`context.server()`), which is Rubato, or with --reference a PostgreSQL 15
cluster of its own, on a free loopback port with a temporary folder; and it reports through `context.check(name)`.
"""

import contextlib
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
# What a client program prints when the server is to be killed and started again.
KILL_REQUEST = "please kill the server"


class CheckFailed(Exception):
    """A promise was not kept; the message says which."""


def require(condition, reason):
    """Ends the running check with FAILED unless `condition` holds."""
    if not condition:
        raise CheckFailed(reason)


PORTS_GIVEN = set()


def free_port():
    """A port that was free a moment ago, below the range from which the kernel serves clients. None is given twice: nodes of a grid get
    theirs before any of them listens."""
    for _ in range(200):
        port = 20000 + int.from_bytes(os.urandom(2), "big") % 12000
        if port in PORTS_GIVEN:
            continue
        with socket.socket() as probe:
            # As servers do: a port is not taken by connections of an earlier check that linger.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                PORTS_GIVEN.add(port)
                return port
            except OSError:
                continue
    raise CheckFailed("no free port was found")


class Server:
    """One running server. `url`, `port`, `folder`, and the ways to end it."""

    def __init__(self, context, folder, port):
        self.context, self.folder, self.port = context, folder, port
        self.log_path = pathlib.Path(f"{folder}.log")
        self.process = None

    @property
    def url(self):
        return f"postgres://{self.context.user}@127.0.0.1:{self.port}/rubato"

    def launch(self, wait=True):
        """Starts the process; with `wait`, returns when it takes connections."""
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self.folder.parent,
            preexec_fn=self.context.before_launch,
        )
        log.close()
        if wait:
            self.wait_until_ready()
        return self

    def wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise CheckFailed(f"the server ended at start with status {self.process.returncode}: {self.last_words()}")
            if self.answers():
                return
            time.sleep(0.02)
        raise CheckFailed(f"the server took no connection within {START_SECONDS_MAX} s: {self.last_words()}")

    def answers(self):
        """True once a login reaches ReadyForQuery."""
        try:
            with Wire(self.port, user=self.context.user) as wire:
                wire.until_ready()
            return True
        except (OSError, CheckFailed):
            return False

    def last_words(self):
        try:
            lines = self.log_path.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return " | ".join(lines[-3:]) or "it said nothing"

    def kill(self):
        """Ends it as a power switch does for a process: no signal that it can see."""
        self.signal_all(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Asks it to close; returns its exit status. Fails if it does not end in time."""
        self.process.terminate()
        try:
            return self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CheckFailed(f"SIGTERM did not end the server within {STOP_SECONDS_MAX} s") from None

    def signal_all(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def discard(self):
        """Whatever happened: no process and no folder stays."""
        if self.process and self.process.poll() is None:
            self.kill()

    def alive(self):
        return self.process.poll() is None


class Rubato(Server):
    """`rubato start` on a folder."""

    name = "Rubato"

    def __init__(self, context, folder, port, options=()):
        super().__init__(context, folder, port)
        self.options = list(options)

    def command(self):
        return [str(self.context.program), "start", "--data", str(self.folder), "--listen", f"127.0.0.1:{self.port}", *self.options]


class Member(Rubato):
    """The second node of a grid: its clients see what those of a node alone would."""

    def __init__(self, context, folder, port, options, nodes):
        super().__init__(context, folder, port, options)
        (folder.parent / "secret").write_text("a secret of the grid of the client suites\n", encoding="utf-8")
        self.secret = ["--grid-secret-file", str(folder.parent / "secret")]
        first = f"127.0.0.1:{free_port()}"
        self.options += self.joining(first)
        numbered = [folder.parent / f"node{number}" for number in range(nodes - 1)]
        self.mates = [Rubato(context, mate, free_port(), self.joining(first)) for mate in numbered]
        self.mates[0].options = ["--grid-listen", first, *self.secret]

    def joining(self, first):
        return ["--grid-listen", f"127.0.0.1:{free_port()}", *self.secret, "--join", first]

    def launch(self, wait=True):
        first, *others = self.mates
        for mate in self.mates[:1]:
            if mate.process is None:
                mate.launch()
        super().launch(wait)
        for mate in others:
            if mate.process is None:
                mate.launch()
        deadline = time.monotonic() + START_SECONDS_MAX
        while wait and any(self.nodes_known(node) < len(self.mates) + 1 for node in (self, *self.mates)):
            require(time.monotonic() < deadline, f"the nodes did not become one grid: {first.last_words()}")
            time.sleep(0.05)
        return self

    @staticmethod
    def nodes_known(node):
        with Wire(node.port) as wire:
            wire.until_ready()
            wire.send(b"Q", b"select count(*) from rubato.nodes where state in ('up', 'here')\0")
            return next((int(row[0]) for row in rows_of(wire.until_ready())), 0)

    def discard(self):
        super().discard()
        for mate in self.mates:
            mate.discard()


class Postgres(Server):
    """A PostgreSQL 15 cluster: the reference against which the suites themselves are tested."""

    name = "PostgreSQL"

    def create(self):
        if os.geteuid() == 0:
            self.folder.parent.chmod(0o755)
            self.folder.mkdir()
            shutil.chown(self.folder, "postgres")
        self.run_tool("initdb", "--no-sync", "-A", "trust", "-U", self.context.user, "-E", "UTF8", "--locale=C", "-D", str(self.folder))
        with open(self.folder / "postgresql.conf", "a", encoding="utf-8") as conf:
            conf.write("unix_socket_directories = ''\nlisten_addresses = '127.0.0.1'\nmax_connections = 2500\ntimezone = 'UTC'\n")
            conf.write("default_transaction_isolation = 'serializable'\nmax_pred_locks_per_transaction = 256\n")
            conf.write("".join(f"{setting}\n" for setting in self.context.reference_settings))
        return self

    def command(self):
        return [*self.context.as_postgres(), str(self.context.postgres_bin / "postgres"), "-D", str(self.folder), "-p", str(self.port)]

    def stop(self):
        # Started by root, what is waited for is `runuser`, which dies of the signal that it passes on.
        return 0 if super().stop() in (0, -15, 143) else 1

    def run_tool(self, tool, *arguments):
        done = subprocess.run(
            [*self.context.as_postgres(), str(self.context.postgres_bin / tool), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder.parent, timeout=120, check=False,
        )
        require(done.returncode == 0, f"{tool} failed: {done.stdout.decode(errors='replace')[-300:]}")

    def launch(self, wait=True):
        super().launch(wait=False)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.listens():
            require(time.monotonic() < deadline, f"PostgreSQL did not start: {self.last_words()}")
            time.sleep(0.05)
            if not self.alive():
                # After a kill its backends hold the folder for another moment.
                time.sleep(0.3)
                super().launch(wait=False)
        made = self.context.psql_text(self.url.removesuffix("rubato") + "postgres", "create database rubato", check=False)
        require(made.returncode == 0 or "already exists" in made.stdout, made.stdout)
        return self

    def listens(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            made = self.context.psql_text(self.url.removesuffix("rubato") + "postgres", "select 1", check=False)
            return made.returncode == 0
        return False


class Wire:
    """A bare protocol connection, for what no client library would send."""

    def __init__(self, port, user="rubato", database="rubato", login=True, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.settimeout(timeout)
        self.buffer = b""
        if login:
            body = b"\x00\x03\x00\x00" + b"".join(
                part.encode() + b"\0" for pair in (("user", user), ("database", database)) for part in pair
            ) + b"\0"
            self.socket.sendall((len(body) + 4).to_bytes(4, "big") + body)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, kind, body=b""):
        self.socket.sendall(kind + (len(body) + 4).to_bytes(4, "big") + body)

    def message(self):
        """The next message as (kind, body); None at the end of the connection."""
        while len(self.buffer) < 5 or len(self.buffer) < 1 + int.from_bytes(self.buffer[1:5], "big"):
            try:
                more = self.socket.recv(65536)
            except ConnectionError:
                return None
            if not more:
                return None
            self.buffer += more
        end = 1 + int.from_bytes(self.buffer[1:5], "big")
        kind, body = self.buffer[:1], self.buffer[5:end]
        self.buffer = self.buffer[end:]
        return kind, body

    def until_ready(self):
        """All messages up to ReadyForQuery, or up to an error that ends the connection."""
        seen = []
        while True:
            message = self.message()
            if message is None:
                raise CheckFailed(f"the server closed the connection{describe_errors(seen)}")
            seen.append(message)
            if message[0] == b"Z":
                return seen

    def query(self, sql):
        """Runs a simple query; its messages."""
        self.send(b"Q", sql.encode() + b"\0")
        return self.until_ready()


def error_fields(body):
    """The fields of an ErrorResponse by their letter."""
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}


def describe_errors(messages):
    errors = [error_fields(body) for kind, body in messages if kind == b"E"]
    return "".join(f": {fields.get('C')} {fields.get('M')}" for fields in errors)


def sqlstates(messages):
    """SQLSTATEs of all errors among messages."""
    return [error_fields(body).get("C") for kind, body in messages if kind == b"E"]


def rows_of(messages):
    """Text values of all DataRows among messages."""
    rows = []
    for kind, body in messages:
        if kind != b"D":
            continue
        count, at, row = int.from_bytes(body[:2], "big"), 2, []
        for _ in range(count):
            length = int.from_bytes(body[at:at + 4], "big", signed=True)
            at += 4
            row.append(None if length < 0 else body[at:at + length].decode())
            at += max(length, 0)
        rows.append(row)
    return rows


class Context:
    """What a suite may use: servers, tools, settings, and verdicts."""

    def __init__(self, options):
        self.program = pathlib.Path(options.program) if options.program else None
        self.reference, self.quick = options.reference, options.quick
        self.grid_nodes = options.grid_nodes
        self.rounds, self.connections, self.seconds = options.rounds, options.connections, options.seconds
        self.postgres_bin = pathlib.Path(options.postgres_bin)
        self.psycopg_python, self.jdbc_jar = options.psycopg_python, options.jdbc_jar
        self.mappers_python = options.mappers_python
        self.hibernate_jars, self.node_modules, self.go_clients = options.hibernate_jars, options.node_modules, options.go_clients
        self.rust_clients = options.rust_clients
        self.record, self.reference_settings = options.record, options.reference_setting
        self.user = "rubato"
        self.passed = self.failed = 0
        self.suite = ""
        self.before_launch = None
        pathlib.Path(options.work).mkdir(parents=True, exist_ok=True)
        # PostgreSQL refuses to run as root: its folder must be reachable for another user.
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="rubato-suites-", dir=None if options.reference else options.work))
        self.work.chmod(0o755)
        self.folders = 0

    def as_postgres(self):
        return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []

    def new_folder(self):
        """A path below the work folder that does not exist yet."""
        self.folders += 1
        home = self.work / str(self.folders)
        home.mkdir()
        return home / "data"

    @contextlib.contextmanager
    def server(self, options=(), folder=None, log_path=None):
        """A running server that is gone when the block ends. What it prints goes beside its folder, or to `log_path`."""
        folder = folder or self.new_folder()
        if self.reference:
            server = Postgres(self, folder, free_port()).create()
        elif self.grid_nodes > 1:
            server = Member(self, folder, free_port(), options, self.grid_nodes)
        else:
            server = Rubato(self, folder, free_port(), options)
        server.log_path = log_path or server.log_path
        try:
            yield server.launch()
        finally:
            server.discard()

    @contextlib.contextmanager
    def postgres(self):
        """A running PostgreSQL beside the server under test, in a folder that another user can reach: it does not run as root."""
        home = pathlib.Path(tempfile.mkdtemp(prefix="rubato-reference-"))
        home.chmod(0o755)
        (home / "1").mkdir()
        server = Postgres(self, home / "1" / "data", free_port())
        try:
            yield server.create().launch()
        finally:
            server.discard()
            shutil.rmtree(home, ignore_errors=True)

    @contextlib.contextmanager
    def check(self, name):
        """One verdict line. What goes wrong inside is the reason."""
        begun = time.monotonic()
        try:
            yield
        except CheckFailed as failure:
            self.verdict(name, str(failure))
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError, TypeError) as failure:
            self.verdict(name, f"{type(failure).__name__}: {failure}")
        else:
            self.verdict(name, None, time.monotonic() - begun)

    def verdict(self, name, reason, seconds=None):
        if reason is None:
            self.passed += 1
            print(f"{self.suite} {name} ... ok" + (f" ({seconds:.1f} s)" if seconds and seconds > 1 else ""))
        else:
            self.failed += 1
            print(f"{self.suite} {name} ... FAILED ({' '.join(str(reason).split())[:600]})")

    def program_checks(self, name, command, timeout, env=None, killed=None):
        """Runs a client program that prints its own verdict lines `name ... ok`; a program that ends badly is a verdict too.

        `killed` is the server that is killed and started again whenever the program asks for it.
        """
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        deadline, buffer, verdicts, tail = time.monotonic() + timeout, b"", 0, []
        while True:
            wait = deadline - time.monotonic()
            readable = wait > 0 and select.select([process.stdout], [], [], wait)[0]
            if not readable:
                process.kill()
                process.wait()
                return self.verdict(name, f"did not end within {timeout} s; last: {' | '.join(tail[-3:])}")
            piece = os.read(process.stdout.fileno(), 65536)
            buffer += piece
            *lines, buffer = buffer.split(b"\n") if piece else [buffer, b""]
            for line in (line.decode(errors="replace").rstrip() for line in lines):
                if killed and line == KILL_REQUEST:
                    killed.kill()
                    killed.launch()
                else:
                    verdicts += self.program_line(line, tail)
            if not piece:
                break
        status = process.wait()
        if status != 0 and not any("FAILED" in line for line in tail) or verdicts == 0:
            self.verdict(name, f"ended with status {status} after {verdicts} checks; last: {' | '.join(tail[-4:])}")

    def program_line(self, line, tail):
        """Passes one line on; 1 if it was a verdict."""
        if line.strip():
            tail.append(line)
        check, _, verdict = line.partition(" ... ")
        if verdict.startswith("ok"):
            self.passed += 1
        elif verdict.startswith("FAILED"):
            self.failed += 1
        elif line.strip():
            print(f"  {line}")
            return 0
        else:
            return 0
        print(f"{self.suite} {check} ... {verdict}")
        return 1

    def psql(self, url, *arguments, stdin="", timeout=60):
        """Runs psql without the user's settings; standard error is mixed in as it comes."""
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "PGTZ": "UTC", "HOME": str(self.work)}
        return subprocess.run(
            [str(self.postgres_bin / "psql"), "-X", "-d", url, *arguments], input=stdin, text=True, timeout=timeout,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, check=False, cwd=self.work,
        )

    def psql_text(self, url, sql, check=True, timeout=60):
        """Runs statements with psql, unaligned and without headings."""
        done = self.psql(url, "-At", "-v", "ON_ERROR_STOP=1", stdin=sql, timeout=timeout)
        if check:
            require(done.returncode == 0, f"psql: {done.stdout.strip()[-400:]}")
        return done

    def scalar(self, url, sql):
        """The first value of the first row."""
        return self.psql_text(url, sql).stdout.strip().split("\n")[0]

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)
