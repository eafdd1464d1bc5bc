"""The program itself: ready in a second, refusals, settings, a clean stop, and what it costs when idle."""

import os
import pathlib
import subprocess
import time

from harness import Rubato, Wire, error_fields, free_port, require, rows_of, sqlstates

READY_SECONDS_MAX = 1.0
IDLE_BYTES_MAX = 100 << 20
IDLE_CORE_SHARE_MAX = 0.01
DEMO_SECONDS_MAX = 180


def run(context):
    starts(context)
    stops(context)
    refusals(context)
    commands(context)
    with context.check("psql and rubato sql under TLS, bound to the certificate"):
        under_tls(context)


def starts(context):
    with context.check("ready on an empty folder within a second"):
        begun = time.monotonic()
        with context.server() as server:
            took = time.monotonic() - begun
            require(took < READY_SECONDS_MAX, f"{took:.2f} s")
            time.sleep(0.1)
            said = server.log_path.read_text()
            require(f"psql -h 127.0.0.1 -p {server.port} rubato" in said, f"no line that says how to connect: {server.last_words()}")
    with context.check("idle: memory and processor"):
        with context.server() as server:
            with Wire(server.port) as wire:
                wire.until_ready()
                time.sleep(1)
                # The machine may be busy with something else: the quietest of three windows is the server's own.
                share = min(processor_share(server) for _ in range(3))
            memory = resident_bytes(server)
            print(f"  idle: {memory / (1 << 20):.0f} MiB, {share * 100:.2f} % of a core")
            require(memory < IDLE_BYTES_MAX, f"{memory >> 20} MiB")
            require(share < IDLE_CORE_SHARE_MAX, f"{share * 100:.1f} % of a core")
    with context.check("databases and users over loopback"):
        with context.server() as server:
            for user, database in [("rubato", "rubato"), ("anybody", "postgres"), ("rubato", "postgres")]:
                with Wire(server.port, user=user, database=database) as wire:
                    wire.until_ready()
            with Wire(server.port, database="elsewhere") as wire:
                message = wire.message()
                while message and message[0] != b"E":
                    message = wire.message()
                require(message and error_fields(message[1])["C"] == "3D000", f"{message}")


def processor_share(server):
    before = processor_seconds(server)
    time.sleep(3)
    return (processor_seconds(server) - before) / 3


def processor_seconds(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(server):
    pages = int(pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def stops(context):
    with context.check("SIGTERM closes cleanly and keeps everything"):
        with context.server() as server:
            with Wire(server.port) as idle, Wire(server.port) as wire:
                idle.until_ready()
                wire.until_ready()
                for sql in ["create table kept (id int primary key)", "insert into kept values (1), (2)", "begin; insert into kept values (3)"]:
                    require(not sqlstates(wire.query(sql)), f"{sql} failed")
                begun = time.monotonic()
                status = server.stop()
                took = time.monotonic() - begun
                require(status == 0, f"status {status}: {server.last_words()}")
                require(took < 5, f"nothing ran, and the stop took {took:.1f} s")
            server.launch()
            require(context.scalar(server.url, "select count(*) from kept") == "2", "the open transaction left something, or a commit is lost")
    with context.check("SIGTERM again and again"):
        with context.server() as server:
            for number in range(3):
                context.psql_text(server.url, f"create table t{number} (id int primary key); insert into t{number} values ({number});")
                require(server.stop() == 0, server.last_words())
                server.launch()
            for number in range(3):
                require(context.scalar(server.url, f"select id from t{number}") == str(number), f"table t{number}")


def refusals(context):
    cases = [
        ("an address that others can reach", ["--listen", "0.0.0.0:0"], "password"),
        ("a size that is none", ["--memory", "plenty"], "plenty"),
        ("an address that is none", ["--listen", "nowhere"], "nowhere"),
        ("an option that is none", ["--nothing"], "--nothing"),
        ("a key without its certificate", ["--tls-key", "/nonexistent.pem"], "tls"),
    ]
    for name, options, word in cases:
        with context.check(f"refuses {name}"):
            done = rubato(context, "start", "--data", str(context.new_folder()), *options, timeout=10)
            require(done.returncode not in (0, 101), f"status {done.returncode}")
            require(word in done.stdout.lower(), f"does not mention {word}: {done.stdout.strip()[-300:]}")
    with context.check("refuses a port that is taken"):
        with context.server() as server:
            done = rubato(context, "start", "--data", str(context.new_folder()), "--listen", f"127.0.0.1:{server.port}", timeout=10)
            require(done.returncode not in (0, 101) and str(server.port) in done.stdout, f"status {done.returncode}: {done.stdout[-300:]}")


def rubato(context, *arguments, timeout, stdin=None, env=None):
    return subprocess.run([str(context.program), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, input=stdin or "",
                          timeout=timeout, check=False, env={**os.environ, **(env or {})}, cwd=context.work)


def commands(context):
    with context.check("settings by file, by environment and by flag"):
        settings(context)
    with context.check("rubato check on a closed folder"):
        with context.server() as server:
            context.psql_text(server.url, "create table kept (id int primary key); insert into kept values (1);")
            server.stop()
            done = rubato(context, "check", str(server.folder), timeout=60)
            require(done.returncode == 0, f"status {done.returncode}: {done.stdout[-300:]}")
    with context.check("rubato sql -c and from standard input"):
        with context.server() as server:
            done = rubato(context, "sql", "--url", server.url, "-c", "select 40 + 2 as answer", timeout=20)
            require(done.returncode == 0 and "answer" in done.stdout and "42" in done.stdout, done.stdout)
            done = rubato(context, "sql", "--url", server.url, timeout=20, stdin="create table s (id int primary key);\ninsert into s values (7);\nselect id from s;\n")
            require(done.returncode == 0 and "7" in done.stdout, done.stdout)
            done = rubato(context, "sql", "--url", server.url, "-c", "selec 1", timeout=20)
            require(done.returncode != 0 and "syntax error" in done.stdout, done.stdout)
    with context.check("--help teaches"):
        done = rubato(context, "--help", timeout=10)
        words = ["start", "demo", "sql", "bench", "check", "psql"]
        require(done.returncode == 0 and all(word in done.stdout for word in words), done.stdout[-300:])
    if not context.quick:
        with context.check("rubato demo --exit"):
            done = rubato(context, "demo", "--exit", timeout=DEMO_SECONDS_MAX)
            require(done.returncode == 0, f"status {done.returncode}: {done.stdout[-500:]}")


def settings(context):
    port, data = free_port(), context.new_folder()
    file = data.parent / "rubato.toml"
    file.write_text(f'data = "{data}"\nlisten = "127.0.0.1:1"\nmemory = "64MB"\n')
    server = Rubato(context, data, port)
    server.command = lambda: [str(context.program), "start", "--config", str(file)]
    os.environ["RUBATO_LISTEN"] = f"127.0.0.1:{port}"
    try:
        server.launch()
        with Wire(port) as wire:
            wire.until_ready()
            require(rows_of(wire.query("select 1")) == [["1"]], "SELECT 1")
        require(data.is_dir(), "the folder of the file was not used")
    finally:
        del os.environ["RUBATO_LISTEN"]
        context.before_launch = None
        server.discard()


def under_tls(context):
    port, data = free_port(), context.new_folder()
    certificate, key, passwords = (data.parent / f"{data.name}.{end}" for end in ("crt", "key", "passwords"))
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2", "-sha384",
         "-subj", "/CN=localhost"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    require(made.returncode == 0, f"openssl: {made.stdout[-300:]}")
    passwords.write_text(rubato(context, "password", "ann", timeout=10, stdin="secret\n").stdout)
    server = Rubato(context, data, port, ["--tls-cert", str(certificate), "--tls-key", str(key), "--password-file", str(passwords)])
    # Asked without a password, it never answers as others do: psql asks until it is there.
    server.launch(wait=False)
    try:
        url = f"postgres://ann:secret@localhost:{port}/rubato"
        verified = f"sslmode=verify-full&sslrootcert={certificate}"
        wait_until(lambda: context.psql(url, "-c", "select 1").returncode == 0, server)
        for query in ("sslmode=require&channel_binding=require", f"{verified}&channel_binding=require", "sslmode=disable"):
            require(context.scalar(f"{url}?{query}", "select 1") == "1", query)
        for query in ("", "?sslmode=require", f"?{verified}", "?sslmode=disable"):
            done = rubato(context, "sql", "--url", url + query, "-c", "select 42", timeout=20)
            require(done.returncode == 0 and "42" in done.stdout, f"{query}: {done.stdout}")
        done = rubato(context, "sql", "--url", f"{url.replace('localhost', '127.0.0.1')}?{verified}", "-c", "select 42", timeout=20)
        require(done.returncode != 0 and "not for host 127.0.0.1" in done.stdout, done.stdout)
    finally:
        server.discard()


def wait_until(condition, server):
    deadline = time.monotonic() + 20
    while not condition():
        require(time.monotonic() < deadline and server.alive(), f"no login succeeds: {server.last_words()}")
        time.sleep(0.05)
