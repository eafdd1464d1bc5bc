"""What no well-meaning client or disk would do: a clear error, no panic, nothing lost, and everybody else is served."""

import contextlib
import os
import random
import resource
import shutil
import socket
import struct
import subprocess
import tempfile
import pathlib
import time

from harness import CheckFailed, Rubato, Wire, describe_errors, free_port, error_fields, require, rows_of, sqlstates

# A server that answers anybody answers within this time.
ANSWER_SECONDS_MAX = 5
# What 2,000 idle connections, or one lying length field, may cost at most.
GROWTH_BYTES_MAX = 400 << 20
# Rows of 8,000 bytes, more than fit on the small disk.
FILLING_ROWS_MAX = 40_000
SEED = 7


def run(context):
    with context.server() as server:
        for name, work in ON_ONE_SERVER:
            with context.check(name):
                work(context, server)
                still_serves(server)
    room = ["--max-connections", str(context.connections + 100)]
    with context.server(options=room) as server, context.check("many connections"):
        many_connections(context, server)
    connection_limit(context)
    folders(context)
    full_disk(context)
    disk_filled_in_vain(context)


def still_serves(server):
    require(server.alive(), f"the server ended: {server.last_words()}")
    require("panicked" not in server.log_path.read_text(errors="replace"), "the server's log tells of a panic")
    begun = time.monotonic()
    with Wire(server.port, timeout=ANSWER_SECONDS_MAX) as wire:
        wire.until_ready()
        require(rows_of(wire.query("select 1")) == [["1"]], "SELECT 1 was answered wrongly")
    require(time.monotonic() - begun < ANSWER_SECONDS_MAX, "SELECT 1 took too long")


def resident_bytes(server):
    for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def garbage(context, server):
    chance = random.Random(SEED)
    pieces = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 64, b"\xff" * 64, b"\0\0\0\4",
        struct.pack(">ii", 8, 80877103) + b"no handshake", struct.pack(">ii", 2**31 - 1, 196608), struct.pack(">ii", -5, 196608),
        struct.pack(">ii", 9, 196608) + b"u", struct.pack(">iiii", 16, 80877102, 1, 1), struct.pack(">ii", 8, 131072),
        struct.pack(">ii", 8, 196608 + (9 << 16)),
    ]
    pieces += [chance.randbytes(chance.randrange(1, 3000)) for _ in range(300)]
    for piece in pieces:
        with socket.create_connection(("127.0.0.1", server.port), 5) as client:
            client.settimeout(0.05)
            with contextlib.suppress(OSError):
                client.sendall(piece)
                client.recv(1000)


def garbage_after_login(context, server):
    chance = random.Random(SEED)
    bodies = [b"", b"\0", b"a\0", b"\0\0\0\0\0\0", b"x\0\0\xff\xff", b"\xff" * 40]
    for kind in [bytes([n]) for n in range(32, 127)] + [b"\0", b"\xff"]:
        for body in bodies:
            with Wire(server.port, timeout=0.5) as wire:
                wire.until_ready()
                with contextlib.suppress(OSError, CheckFailed):
                    wire.send(kind, body)
                    if kind in b"QXS":
                        wire.message()
    for _ in range(200):
        with Wire(server.port, timeout=0.05) as wire:
            wire.until_ready()
            with contextlib.suppress(OSError):
                wire.socket.sendall(chance.randbytes(chance.randrange(1, 500)))


def lying_lengths(context, server):
    before = resident_bytes(server)
    held = []
    for length in [2**31 - 1, 1 << 30, (1 << 28) + 4, 3, 0, -1, -(2**31)]:
        wire = Wire(server.port, timeout=5)
        wire.until_ready()
        wire.socket.sendall(b"Q" + struct.pack(">i", length) + b"select 1")
        held.append(wire)
    time.sleep(0.3)
    grown = resident_bytes(server) - before
    for wire in held:
        wire.socket.close()
    require(grown < GROWTH_BYTES_MAX, f"length fields alone made the server grow by {grown >> 20} MiB")


def half_open(context, server):
    held = []
    for number in range(300):
        client = socket.create_connection(("127.0.0.1", server.port), 5)
        client.sendall(b"\0\0\0" if number % 3 else b"")
        held.append(client)
    for _ in range(50):
        wire = Wire(server.port)
        wire.until_ready()
        wire.send(b"P", b"\0select 1\0\0\0")
        wire.socket.sendall(b"B\0\0")
        held.append(wire.socket)
    still_serves(server)
    for number, client in enumerate(held):
        if number % 2:
            # Reset in place of a close.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()


def slow_reader(context, server):
    with Wire(server.port) as wire:
        wire.until_ready()
        require_no_error(wire.query("drop table if exists wide; create table wide (id int primary key, t text)"))
        wire.send(b"Q", b"copy wide from stdin\0")
        require(wire.message()[0] == b"G", "COPY did not begin")
        for start in range(0, 20000, 1000):
            wire.send(b"d", "".join(f"{n}\t{'x' * 1000}\n" for n in range(start, start + 1000)).encode())
        wire.send(b"c")
        require_no_error(wire.until_ready())
    before = resident_bytes(server)
    with Wire(server.port) as slow:
        slow.until_ready()
        for _ in range(8):
            # 160 MB of answers are asked for, and nothing is read.
            slow.send(b"Q", b"select * from wide\0")
        time.sleep(1)
        still_serves(server)
        grown = resident_bytes(server) - before
        require(grown < GROWTH_BYTES_MAX / 4, f"a reader that does not read made the server grow by {grown >> 20} MiB")
        require(len(rows_of(slow.until_ready())) == 20000, "the first answer is not whole")


def require_no_error(messages):
    require(not sqlstates(messages), describe_errors(messages))


def wrong_protocol_use(context, server):
    expectations = [
        ([(b"E", b"nothing\0" + bytes(4)), (b"S", b"")], "34000"),
        ([(b"B", b"\0nothing\0" + bytes(6)), (b"S", b"")], "26000"),
        ([(b"D", b"Snothing\0"), (b"S", b"")], "26000"),
        ([(b"P", b"\0select $1::int\0\0\0"), (b"B", b"\0\0" + struct.pack(">hhi3sh", 0, 1, 3, b"abc", 0)), (b"S", b"")], "22P02"),
        ([(b"P", b"\0select $1::int\0\0\0"), (b"B", b"\0\0" + struct.pack(">hhhi3sh", 1, 1, 1, 3, b"abc", 0)), (b"S", b"")], "22P03"),
        ([(b"P", b"\0select $1::int\0\0\0"), (b"B", b"\0\0" + bytes(6)), (b"S", b"")], "08P01"),
        ([(b"P", b"\0select 1; select 2\0\0\0"), (b"S", b"")], "42601"),
        ([(b"P", b"\0select 1\0\0\1" + struct.pack(">i", 999999)), (b"S", b"")], None),
        ([(b"Q", b"select '\xff\xfe'\0")], "22021"),
    ]
    for messages, state in expectations:
        with Wire(server.port) as wire:
            wire.until_ready()
            for kind, body in messages:
                wire.send(kind, body)
            try:
                said = wire.until_ready()
            except TimeoutError:
                require(False, f"{messages[0]}: no ReadyForQuery within 20 s")
            require(state is None or sqlstates(said)[:1] == [state], f"{messages[0]}: {sqlstates(said)} in place of {state}{describe_errors(said)}")
            require(rows_of(wire.query("select 2")) == [["2"]], f"after {messages[0]} the session is of no use")


def statement_within_copy(context, server):
    with Wire(server.port, timeout=ANSWER_SECONDS_MAX) as wire:
        wire.until_ready()
        wire.query("create table if not exists midst (id int primary key)")
        wire.send(b"Q", b"copy midst from stdin\0")
        wire.send(b"d", b"1\n")
        wire.send(b"Q", b"select 1\0")
        try:
            wire.until_ready()
        except TimeoutError:
            require(False, "a statement within COPY is not answered")
        except (CheckFailed, OSError):
            pass
        else:
            require(False, "the connection goes on after a statement within COPY")
    with Wire(server.port) as wire:
        wire.until_ready()
        require(rows_of(wire.query("select count(*) from midst")) == [["0"]], "half a COPY was kept")


def hostile_statements(context, server):
    deep = 50000
    statements = {
        "parentheses": "select " + "(" * deep + "1" + ")" * deep, "additions": "select " + "1+" * deep + "1",
        "nots": "select " + "not " * deep + "true", "cases": "select " + "case when true then " * 20000 + "1" + " end" * 20000,
        "in list": "select 1 where 1 in (" + "2," * deep + "1)", "columns": "select " + "1," * 20000 + "1", "unclosed": "select 'x",
        "comment": "/*" * 20000, "long name": "select 1 as " + "n" * 100000, "digits": "select " + "9" * 100000, "power": "select 10.0 ^ 200000",
        "dollar": "select $1000000", "nothing": ";;;; ;", "minus": "select " + "-" * 0 + "- " * deep + "1",
        "stack": "select " + "abs(" * deep + "1" + ")" * deep,
    }
    for name, statement in statements.items():
        with Wire(server.port, timeout=30) as wire:
            wire.until_ready()
            wire.send(b"Q", statement.encode() + b"\0")
            try:
                wire.until_ready()
            except CheckFailed as failure:
                require(False, f"{name}: {failure}")
            require(server.alive(), f"{name} ended the server: {server.last_words()}")


def broken_copy(context, server):
    with Wire(server.port) as wire:
        wire.until_ready()
        wire.query("drop table if exists target; create table target (id int primary key, n int, t varchar(5))")
        cases = [
            ("copy target from stdin", b"1\t1\ta\n2\tx\tb\n", "22P02", "line 2, column n"),
            ("copy target from stdin", b"1\t1\ta\n2\t2\n", "22P04", "line 2"),
            ("copy target from stdin", b"1\t1\ta\n2\t2\tb\tc\n", "22P04", "line 2"),
            ("copy target from stdin", b"1\t1\ta\n2\t2\ttoo long\n", "22001", "line 2, column t"),
            ("copy target from stdin", b"1\t1\ta\n2\t99999999999\tb\n", "22003", "line 2, column n"),
            ("copy target from stdin", b"1\t1\ta\n2\t2\t\xff\xfe\n", "22021", "line 2"),
            ("copy target from stdin", b"1\t1\ta\n1\t2\tb\n", "23505", "line 2"),
            ("copy target from stdin (format csv)", b"1,1,a\n2,2,\"b\n", "22P04", "line"),
            ("copy target from stdin (format binary)", b"not a binary header at all", "22P04", None),
            ("copy target from stdin (format binary)", b"PGCOPY\n\xff\r\n\0" + bytes(8) + struct.pack(">hi", 3, 400000000), "22P0", None),
        ]
        for sql, data, state, place in cases:
            wire.send(b"Q", sql.encode() + b"\0")
            require(wire.message()[0] == b"G", f"{sql} did not begin")
            wire.send(b"d", data)
            wire.send(b"c")
            said = wire.until_ready()
            fields = [error_fields(body) for kind, body in said if kind == b"E"]
            require(fields and fields[0]["C"].startswith(state), f"{data}: {fields} in place of {state}")
            context_said = fields[0].get("W", "")
            require(place is None or place in context_said, f"{data}: `{context_said}` does not name {place}")
            require(rows_of(wire.query("select count(*) from target")) == [["0"]], f"{data}: rows were loaded")


def many_connections(context, server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = context.connections + 200
    require(hard == resource.RLIM_INFINITY or hard >= wanted, f"this machine allows {hard} open files, {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    before, held = resident_bytes(server), []
    try:
        for number in range(context.connections):
            wire = Wire(server.port)
            held.append(wire)
            wire.until_ready()
        grown = resident_bytes(server) - before
        print(f"  {context.connections} connections: {grown / context.connections / 1024:.1f} KiB each")
        for wire in held:
            wire.send(b"Q", b"select 1\0")
        for wire in held:
            require(rows_of(wire.until_ready()) == [["1"]], "one of many connections was answered wrongly")
        require(grown < GROWTH_BYTES_MAX, f"{context.connections} idle connections cost {grown >> 20} MiB")
        still_serves(server)
    finally:
        for wire in held:
            wire.socket.close()


def connection_limit(context):
    with context.check("connection limit: 53300, and room again after"):
        with context.server(options=["--max-connections", "20"]) as server:
            time.sleep(0.3)
            held = [Wire(server.port) for _ in range(20)]
            for wire in held:
                wire.until_ready()
            with Wire(server.port) as one_more:
                message = one_more.message()
                require(message and message[0] == b"E" and error_fields(message[1])["C"] == "53300", f"{message}")
            for wire in held:
                wire.socket.close()
            time.sleep(0.3)
            still_serves(server)
    with context.check("a message above its limit"):
        with context.server(options=["--message-bytes-max", "1MiB"]) as server:
            with Wire(server.port) as wire:
                wire.until_ready()
                try:
                    wire.send(b"Q", b"select '" + b"x" * (2 << 20) + b"'\0")
                    message = wire.message()
                    require(message and message[0] == b"E", f"{message and message[0]} in place of an error")
                except (BrokenPipeError, ConnectionResetError):
                    # The server had answered and closed before all was sent, and the system threw its answer away.
                    pass
            still_serves(server)


ON_ONE_SERVER = [
    ("garbage on the port", garbage), ("garbage after login", garbage_after_login), ("lying length fields", lying_lengths),
    ("half-open sockets", half_open), ("a reader that does not read", slow_reader), ("wrong use of the protocol", wrong_protocol_use),
    ("hostile statements", hostile_statements), ("a statement within COPY ends the connection", statement_within_copy), ("broken COPY data loads nothing and names its place", broken_copy),
]


def refused_start(context, folder, *words, options=(), before_launch=None):
    """Starts on `folder`, which must be refused within time, with these words and without a panic."""
    server = Rubato(context, folder, free_port(), options)
    server.log_path.unlink(missing_ok=True)
    context.before_launch = before_launch
    try:
        server.launch(wait=False)
        status = server.process.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        raise CheckFailed("the start was not refused") from None
    finally:
        context.before_launch = None
    said = server.log_path.read_text(errors="replace")
    require(status not in (0, 101) and "panicked" not in said, f"status {status}: {server.last_words()}")
    for word in words:
        require(word.lower() in said.lower(), f"the refusal does not say `{word}`: {server.last_words()}")
    return said


def filled(context, rows=3000):
    """A folder with rows that only the log has: the server was killed."""
    folder = context.new_folder()
    with context.server(folder=folder) as server:
        fill = "".join(f"insert into kept values ({n}, '{'y' * 300}');\n" for n in range(rows))
        context.psql_text(server.url, "create table kept (id int primary key, t text);\nbegin;\n" + fill + "commit;\n" + "insert into kept values (-1, 'last');")
        server.kill()
    return folder


def log_file(folder):
    segments = [path for path in folder.rglob("*.log") if path.read_bytes()[:8] == b"RUBATLOG"]
    require(segments, f"no log segment below the data folder: {[str(p.relative_to(folder)) for p in folder.rglob('*')][:20]}")
    return max(segments, key=lambda path: len(path.read_bytes().rstrip(b"\0")))


def folders(context):
    with context.check("a second process on the same folder"):
        with context.server() as server:
            refused_start(context, server.folder, str(server.folder))
            still_serves(server)
    with context.check("a folder from a newer version"):
        folder = filled(context, rows=10)
        path = log_file(folder)
        data = bytearray(path.read_bytes())
        data[8:12] = struct.pack("<I", 99)
        path.write_bytes(data)
        refused_start(context, folder, "version")
        data[8:12] = struct.pack("<I", 1)
        path.write_bytes(data)
        holds(context, folder, 11)
    with context.check("a damaged log: named by file and offset, and nothing is guessed"):
        damaged_log(context)
    with context.check("a torn tail is repaired"):
        folder = filled(context, rows=100)
        path = log_file(folder)
        data = path.read_bytes().rstrip(b"\0")
        # Half a record behind what was forced, as a power cut leaves it.
        with open(path, "r+b") as file:
            file.seek(len(data))
            file.write(data[4096:4096 + 50])
        holds(context, folder, 101)
    with context.check("a folder that is not ours"):
        folder = context.new_folder()
        folder.write_text("a file in the place of the folder")
        refused_start(context, folder, str(folder))
    read_only_folder(context)


def holds(context, folder, rows):
    with context.server(folder=folder) as server:
        found = context.scalar(server.url, "select count(*) from kept")
        require(found == str(rows), f"{found} rows of {rows}")


def damaged_log(context):
    folder = filled(context)
    path = log_file(folder)
    whole = path.read_bytes()
    end = len(whole.rstrip(b"\0"))
    place = 4096 + (end - 4096) // 2
    path.write_bytes(whole[:place] + bytes(byte ^ 0xFF for byte in whole[place:place + 16]) + whole[place + 16:])
    before = path.read_bytes()
    said = refused_start(context, folder, path.name)
    require(any(character.isdigit() for character in said.split(path.name, 1)[1][:80]), f"no offset behind the file's name: {said[-300:]}")
    checked = subprocess.run([str(context.program), "check", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    require(checked.returncode not in (0, 101) and path.name in checked.stdout, f"rubato check: status {checked.returncode}: {checked.stdout[-300:]}")
    require(path.read_bytes() == before, "the damaged log was written to")
    path.write_bytes(whole)
    holds(context, folder, 3001)


@contextlib.contextmanager
def small_disk(context, megabytes):
    """A file system of its own of this size, or None where this process may not mount one."""
    place = context.new_folder().parent / "disk"
    place.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)], stderr=subprocess.DEVNULL, check=False).returncode == 0
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=False)


def read_only_folder(context):
    with context.check("a read-only folder"):
        with small_disk(context, 64) as disk:
            if disk:
                with context.server(folder=disk / "data") as server:
                    server.stop()
                subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
                refused_start_elsewhere(context, disk / "data")
            else:
                read_only_by_mode(context)


def refused_start_elsewhere(context, folder):
    """The server's own log cannot lie on the read-only disk."""
    server = Rubato(context, folder, free_port())
    server.log_path = context.new_folder().with_suffix(".log")
    server.launch(wait=False)
    try:
        status = server.process.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        raise CheckFailed("the start was not refused") from None
    said = server.log_path.read_text(errors="replace")
    require(status not in (0, 101) and "panicked" not in said and str(folder) in said, f"status {status}: {server.last_words()}")


def read_only_by_mode(context):
    """Without the right to mount: a folder without the right to write, as a user whom that binds."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="rubato-read-only-"))
    try:
        home.chmod(0o755)
        program = shutil.copy(context.program, home / "rubato")
        (home / "data").mkdir(mode=0o555)
        drop = (lambda: os.setuid(65534)) if os.geteuid() == 0 else None
        done = subprocess.run([program, "start", "--data", str(home / "data"), "--listen", f"127.0.0.1:{free_port()}"], timeout=20,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=drop, cwd="/", check=False)
        require(done.returncode not in (0, 101) and str(home / "data") in done.stdout, f"status {done.returncode}: {done.stdout[-300:]}")
    finally:
        (home / "data").chmod(0o755)
        shutil.rmtree(home)


def full_disk(context):
    with context.check("a full disk: 53100, reads go on, and it recovers"):
        with small_disk(context, 160) as disk:
            if disk:
                fill_disk(context, disk / "data", ballast=disk / "ballast")
            else:
                fill_disk(context, context.new_folder(), ballast=None)


def fill_disk(context, folder, ballast):
    with context.server(folder=folder, log_path=context.new_folder().with_suffix(".log")) as server:
        with Wire(server.port, timeout=60) as wire:
            wire.until_ready()
            require_no_error(wire.query("create table kept (id int primary key, t text)"))
            rows = 0
            for _ in range(50):
                require_no_error(wire.query(f"insert into kept values ({rows}, 'early')"))
                rows += 1
            leave_space(server, ballast, 3 << 20)
            states = []
            for _ in range(FILLING_ROWS_MAX):
                said = wire.query(f"insert into kept values ({rows}, '{'z' * 8000}')")
                states = sqlstates(said)
                if states:
                    break
                rows += 1
            require(states == ["53100"], f"a full disk gave {states or 'no error'} after {rows} rows")
            require(rows_of(wire.query("select count(*) from kept")) == [[str(rows)]], "reads do not go on while the disk is full")
            require(rows_of(wire.query("select t from kept where id = 7")) == [["early"]], "reads do not go on while the disk is full")
            leave_space(server, ballast, None)
            recovered = write_again(wire, rows, deadline=time.monotonic() + 30)
            require(recovered, "after space returned nothing can be written")
            require(rows_of(wire.query("select count(*) from kept")) == [[str(rows + 1)]], "a refused row is there")
        server.kill()
        server.launch()
        found = context.scalar(server.url, "select count(*) from kept")
        require(found == str(rows + 1), f"{found} rows of {rows + 1} after a restart")


def disk_filled_in_vain(context):
    """A statement lays its rows in the store before it commits. Of one that has filled the disk nothing stays there, and others go on."""
    with small_disk(context, 260) as disk:
        # Without a disk of its own there is none that it could fill.
        if not disk:
            return
        with context.check("a disk that a large statement has filled is free again"):
            fill_in_vain(context, disk)


def fill_in_vain(context, disk):
    log_path = context.new_folder().with_suffix(".log")
    with context.server(folder=disk / "data", log_path=log_path, options=["--memory", "128MiB"]) as server:
        with Wire(server.port, timeout=60) as wire:
            wire.until_ready()
            require_no_error(wire.query("create table kept (id int primary key, t text)"))
            require_no_error(wire.query("checkpoint"))
            # The log and the store's journal keep some of it; what was laid would take all.
            free = free_bytes(disk)
            rows = 0
            for _ in range(2):
                said = wire.query("create table large as select i, repeat(md5(i::text), 3) as t from generate_series(1, 4000000) i")
                require(sqlstates(said) == ["53100"], f"a full disk gave {sqlstates(said) or 'no error'}")
                deadline = time.monotonic() + 40
                while free_bytes(disk) < free - (80 << 20):
                    require(time.monotonic() < deadline, f"{free_bytes(disk) >> 20} of {free >> 20} MiB are free after 40 seconds")
                    # Small ones have room in the log, and are told where they have none.
                    if write_again(wire, rows, deadline=0):
                        rows += 1
                    time.sleep(0.5)
                require(write_again(wire, rows, deadline=time.monotonic() + 10), "nothing can be written though there is room")
                rows += 1
            require(rows_of(wire.query("select count(*) from kept")) == [[str(rows)]], "a row is lost or told too much")


def free_bytes(disk):
    return os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize


def write_again(wire, key, deadline):
    while True:
        said = wire.query(f"insert into kept values ({key}, 'late')")
        if not sqlstates(said):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.5)


def leave_space(server, ballast, spare):
    """Fills the disk up to `spare` bytes; None gives all back. Without a disk of its own, by a limit on the size of files."""
    if ballast is None:
        largest = max(path.stat().st_size for path in server.folder.rglob("*") if path.is_file())
        limit = resource.RLIM_INFINITY if spare is None else largest + spare
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    elif spare is None:
        ballast.unlink()
    else:
        free = free_bytes(ballast.parent)
        require(free > spare, f"an empty database left only {free >> 20} MiB of the disk")
        with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            # The server may take space meanwhile, for its next segment: then the disk is full a little earlier.
            for _ in range((free - spare) >> 20):
                file.write(bytes(1 << 20))
