//! `rubato start` from the ready line to SIGTERM, on a real data folder.

mod common;

use common::{Wire, query_packet, socket};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Running {
    child: Child,
    address: SocketAddr,
    errors: std::process::ChildStderr,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rubato"));
    command.args(arguments).env_remove("RUBATO_CONFIG").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(data: &Path, more: &[&str]) -> Running {
    let base = [
        "start",
        "--data",
        data.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--memory",
        "256MB",
    ];
    started(command(&[&base[..], more].concat()))
}

/// Started by a shell, whose `script` runs what it is given.
#[cfg(unix)]
fn start_through(script: &str, data: &Path, more: &[&str]) -> Running {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_rubato"), "start"]);
    command.args(["--listen", "127.0.0.1:0", "--memory", "256MB", "--data"]);
    command.arg(data).args(more).env_remove("RUBATO_CONFIG");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    started(command)
}

fn started(mut command: Command) -> Running {
    let mut child = command.spawn().unwrap();
    let errors = child.stderr.take().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let port = line
        .trim()
        .strip_prefix("rubato is ready: psql -h 127.0.0.1 -p ")
        .and_then(|rest| rest.strip_suffix(" rubato"));
    let port: u16 = port
        .unwrap_or_else(|| panic!("no ready line but {line:?}"))
        .parse()
        .unwrap();
    Running {
        child,
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        errors,
    }
}

impl Running {
    fn send(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Asks it to stop, and gives its log.
    fn stop(mut self, signal: &str) -> String {
        self.send(signal);
        let deadline = Instant::now() + Duration::from_secs(20);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it did not stop");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut log = String::new();
        self.errors.read_to_string(&mut log).unwrap();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn output(arguments: &[&str]) -> (bool, String) {
    let output = command(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn a_folder_is_served_by_one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("new").join("data");
    let started = Instant::now();
    let running = start(&data, &[]);
    let start_time = started.elapsed();
    assert!(start_time < Duration::from_secs(5), "{start_time:?}");
    let data_text = data.to_str().unwrap();
    let owner = format!("{data_text} is in use by process {}", running.child.id());
    for arguments in [
        &["start", "--data", data_text, "--listen", "127.0.0.1:0"][..],
        &["check", data_text],
    ] {
        let (succeeded, text) = output(arguments);
        assert!(!succeeded && text.contains(&owner), "{text}");
    }
    assert!(TcpStream::connect(running.address).is_ok());
    running.stop("-TERM");
    let (succeeded, text) = output(&["check", data_text]);
    assert!(succeeded && text.contains("no damage found"), "{text}");
    start(&data, &[]).stop("-INT");
}

/// Whether as that of a node of a grid it is in use, or cannot join one: it stays what it was.
#[test]
fn a_start_that_is_refused_leaves_the_folder_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let (data, secret) = (place.path().join("data"), place.path().join("secret"));
    std::fs::write(&secret, "a secret of some length").unwrap();
    let running = start(&data, &[]);
    let grid = |more: &[&str]| {
        let base = ["start", "--listen", "127.0.0.1:0", "--grid-listen", "127.0.0.1:0"];
        let of = [
            "--data",
            data.to_str().unwrap(),
            "--grid-secret-file",
            secret.to_str().unwrap(),
        ];
        output(&[&base[..], &of, more].concat())
    };
    let joins = ["--join", "127.0.0.1:1"];
    for more in [&[][..], &joins] {
        let (success, text) = grid(more);
        assert!(!success && text.contains("in use by process"), "{text}");
    }
    running.stop("-TERM");
    let (success, text) = grid(&joins);
    assert!(!success && text.contains("has data of its own"), "{text}");
    std::fs::write(data.join("VERSION"), "1000\n").unwrap();
    let (success, text) = grid(&[]);
    assert!(!success && text.contains("format version 1000"), "{text}");
    std::fs::write(data.join("VERSION"), "1\n").unwrap();
    assert!(!data.join("grid.toml").exists());
    start(&data, &[]).stop("-TERM");
}

#[test]
#[cfg(unix)]
fn what_is_made_is_for_its_owner_and_for_the_group_that_he_lets_in() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (was, kept, folders, files) in [
        (None, 0o700, 0o700, 0o600),
        (Some(0o700), 0o700, 0o700, 0o600),
        (Some(0o750), 0o750, 0o750, 0o640),
        (Some(0o755), 0o755, 0o750, 0o640),
    ] {
        let data = place.path().join(format!("data of {was:?}"));
        if let Some(was) = was {
            std::fs::create_dir(&data).unwrap();
            std::fs::set_permissions(&data, std::fs::Permissions::from_mode(was)).unwrap();
        }
        // Whatever the shell would let others do.
        let running = start_through("umask 000; exec \"$@\"", &data, &[]);
        assert_eq!(mode(&data), kept, "{was:?}");
        let mut left = vec![data.clone()];
        let mut seen = 0;
        while let Some(folder) = left.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let expected = if path.is_dir() { folders } else { files };
                // (Some of the store's are never for anybody else.)
                let is_own = !path.starts_with(data.join("store")) || path.is_dir();
                assert_eq!(mode(&path) & !expected, 0, "{}", path.display());
                assert!(!is_own || mode(&path) == expected, "{}", path.display());
                seen += 1;
                left.extend(path.is_dir().then_some(path));
            }
        }
        assert!(seen > 10, "{seen}");
        running.stop("-TERM");
    }
}

/// What takes long lets others have their turn many times before it ends.
#[test]
fn a_long_query_comes_to_its_end_within_the_grace_time() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), &["--grace-seconds", "60"]);
    let mut idle = Wire::connect(running.address);
    let mut long = Wire::connect(running.address);
    let mut rows = Wire::connect(running.address);
    long.send(&query_packet(
        "select count(*) from generate_series(1, 3000) a, generate_series(1, 1000) b where a.a + b.b > 0",
    ));
    rows.send(&query_packet("select repeat('x', 100) from generate_series(1, 100000)"));
    std::thread::sleep(Duration::from_millis(300));
    let reader = std::thread::spawn(move || rows.until_ready().len());
    running.stop("-TERM");
    assert_eq!(long.until_ready()[1..], ["row 3000000", "done SELECT 1", "ready I"]);
    assert_eq!(long.next().as_deref(), Some("FATAL 57P01"));
    assert_eq!(reader.join().unwrap(), 100_003);
    assert_eq!(idle.next().as_deref(), Some("FATAL 57P01"));
}

#[test]
fn a_folder_that_is_not_there_is_no_folder_to_check() {
    let folder = tempfile::tempdir().unwrap();
    let (succeeded, text) = output(&["check", folder.path().join("none").to_str().unwrap()]);
    assert!(!succeeded && text.contains("none"), "{text}");
    assert!(!folder.path().join("none").exists());
}

#[test]
fn metrics_are_served_and_the_log_can_be_json() {
    let folder = tempfile::tempdir().unwrap();
    // The program prints only where it serves SQL.
    let free = rubato_bench::paper::free_addresses(1).unwrap()[0].to_string();
    let running = start(folder.path(), &["--metrics-listen", &free, "--log-format", "json"]);
    let mut stream = TcpStream::connect(&free).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    for name in [
        "rubato_connections 0",
        "rubato_commits_total",
        "rubato_log_forces_total",
        "reason=\"deadlock\"",
    ] {
        assert!(metrics.contains(name), "{name} is not in {metrics}");
    }
    let log = running.stop("-TERM");
    assert!(
        log.lines().all(|line| line.starts_with('{') && line.ends_with('}')),
        "{log}"
    );
    assert!(log.contains("\"serving\"") && log.contains("\"closed\""), "{log}");
}

#[test]
fn an_address_in_use_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (succeeded, text) = output(&["start", "--data", folder.path().to_str().unwrap(), "--listen", &address]);
    assert!(!succeeded && text.contains(&address), "{text}");
}

/// What has the log of events is often on the disk that is full.
#[test]
#[cfg(target_os = "linux")]
fn it_serves_and_stops_where_its_log_of_events_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    // What the test reads of its standard error is empty.
    let running = start_through("exec \"$@\" 2>/dev/full", folder.path(), &["--log", "debug"]);
    let mut wire = Wire::over(socket(running.address));
    wire.log_in(&[("user", "rubato"), ("database", "rubato")]);
    for statement in ["CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", "CHECKPOINT"] {
        let said = wire.query(statement);
        assert!(said[0].starts_with("done "), "{said:?}");
    }
    drop(wire);
    assert_eq!(running.stop("-TERM"), "");
}

/// Clients take no files that the store and the log need.
#[test]
#[cfg(unix)]
fn where_open_files_are_few_connections_are_too_and_what_is_written_goes_on() {
    const FILES: usize = 400;
    let folder = tempfile::tempdir().unwrap();
    let running = start_through(&format!("ulimit -n {FILES}; exec \"$@\""), folder.path(), &[]);
    let mut inside = Vec::new();
    let is_refused = |said: &[String]| said.iter().any(|line| line.contains("53300"));
    for _ in 0..FILES / 4 + 30 {
        let mut wire = Wire::over(socket(running.address));
        let said = wire.log_in(&[("user", "rubato"), ("database", "rubato")]);
        assert_eq!(is_refused(&said), inside.len() == FILES / 4, "{said:?}");
        if !is_refused(&said) {
            inside.push(wire);
        }
    }
    for statement in [
        "CREATE TABLE t (a int)",
        "INSERT INTO t SELECT generate_series(1, 100000)",
        "CHECKPOINT",
    ] {
        let said = inside[7].query(statement);
        assert!(said[0].starts_with("done "), "{said:?}");
    }
    drop(inside);
    let log = running.stop("-TERM");
    assert!(log.contains("open files are limited"), "{log}");
}

fn client(running: &Running) -> Wire {
    let mut wire = Wire::over(socket(running.address));
    wire.log_in(&[("user", "rubato"), ("database", "rubato")]);
    wire
}

const TERMINATE: &[u8] = b"X\0\0\0\x04";

fn with_accounts(folder: &Path) -> (Running, Wire) {
    let running = start(folder, &[]);
    let mut other = client(&running);
    other.query("CREATE TABLE acct (a int PRIMARY KEY, b int)");
    other.query("INSERT INTO acct VALUES (1, 100), (2, 100)");
    (running, other)
}

/// How many sessions there are beside the one that asks.
fn others(wire: &mut Wire) -> String {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    wire.query(sql)[1].clone()
}

fn accounts(wire: &mut Wire) -> Vec<String> {
    let said = wire.query("SELECT b FROM acct ORDER BY a");
    said.into_iter().filter(|line| line.starts_with("row ")).collect()
}

/// A transfer of two statements, which a client sends without waiting for their answers, and goes.
fn transfer() -> Vec<u8> {
    let statements = [
        "UPDATE acct SET b = b - 10 WHERE a = 1",
        "UPDATE acct SET b = b + 10 WHERE a = 2",
    ];
    statements.iter().flat_map(|sql| query_packet(sql)).collect()
}

#[test]
fn what_a_client_has_sent_is_done_in_order_when_it_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let (running, mut other) = with_accounts(folder.path());
    for round in 1..=20 {
        let mut leaving = client(&running);
        leaving.send(&[&transfer()[..], TERMINATE].concat());
        drop(leaving);
        common::eventually("the session has ended", || others(&mut other) == "row 0");
        let expected = [format!("row {}", 100 - 10 * round), format!("row {}", 100 + 10 * round)];
        assert_eq!(accounts(&mut other), expected);
    }
}

/// The statement that waits is given up, as nobody may ever end its wait; what stands behind it is not done without it.
#[test]
fn nothing_is_done_behind_what_is_given_up_since_its_client_has_gone() {
    for ends in [&b""[..], TERMINATE] {
        let folder = tempfile::tempdir().unwrap();
        let (running, mut other) = with_accounts(folder.path());
        let mut holder = client(&running);
        holder.query("BEGIN");
        holder.query("SELECT b FROM acct WHERE a = 1 FOR UPDATE");
        let mut leaving = client(&running);
        leaving.send(&[&transfer()[..], ends].concat());
        drop(leaving);
        common::eventually("the session has ended", || others(&mut other) == "row 1");
        holder.query("COMMIT");
        assert_eq!(accounts(&mut other), ["row 100", "row 100"]);
    }
}

/// A client may pause in the midst of COPY, and is told by which of the two time-outs it has been silent for too long.
#[test]
fn who_idles_is_told_so_and_who_copies_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _other) = with_accounts(folder.path());
    for (setting, begin, code) in [
        ("idle_session_timeout", "SELECT 1", "FATAL 57P05"),
        ("idle_in_transaction_session_timeout", "BEGIN", "FATAL 25P03"),
    ] {
        let mut wire = client(&running);
        wire.query(&format!("SET {setting} = '300ms'"));
        wire.send(&[query_packet(begin), query_packet("COPY acct FROM STDIN")].concat());
        wire.until_ready();
        assert_eq!(wire.next().as_deref(), Some("copy in"), "{setting}");
        std::thread::sleep(Duration::from_millis(900));
        wire.send(b"c\0\0\0\x04");
        assert_eq!(wire.until_ready()[0], "done COPY 0", "{setting}");
        assert_eq!(wire.until_ready(), [code, "closed"], "{setting}");
    }
    // A session that was never used idles, too.
    let mut silent = Wire::over(socket(running.address));
    let said = silent.log_in(&[
        ("user", "rubato"),
        ("database", "rubato"),
        ("options", "-c idle_session_timeout=300"),
    ]);
    assert_eq!(said.last().map(String::as_str), Some("ready I"));
    assert_eq!(silent.until_ready(), ["FATAL 57P05", "closed"]);
}

/// By habit servers are sent it for their settings to be read again, or when logs are rotated.
#[test]
#[cfg(unix)]
fn a_server_goes_on_when_it_is_told_to_read_its_settings_again() {
    let folder = tempfile::tempdir().unwrap();
    let (running, mut other) = with_accounts(folder.path());
    other.query("BEGIN");
    other.query("UPDATE acct SET b = 7 WHERE a = 1");
    for _ in 0..3 {
        running.send("-HUP");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(other.query("COMMIT"), ["done COMMIT", "ready I"]);
    assert_eq!(accounts(&mut other), ["row 7", "row 100"]);
    drop(other);
    let log = running.stop("-TERM");
    assert!(log.contains("SIGHUP"), "{log}");
}
