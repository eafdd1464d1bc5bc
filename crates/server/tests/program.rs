//! The program as a person meets it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn rubato(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rubato"))
        .args(arguments)
        .env_remove("RUBATO_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read its input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_teaches() {
    let shown = text(&rubato(&["--help"], "").stdout);
    for expected in [
        "psql -h 127.0.0.1 -p 5433 rubato",
        "rubato demo",
        "--memory",
        "RUBATO_DATA",
        "bench",
        "check",
    ] {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
}

#[test]
fn a_password_becomes_a_line_that_the_server_reads() {
    let made = rubato(&["password", "ann"], "secret\n");
    assert!(made.status.success());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("passwords");
    std::fs::write(&path, &made.stdout).unwrap();
    let mut passwords = rubato_server::passwords::Passwords::new().unwrap();
    passwords.read_file(&path).unwrap();
    assert!(!rubato(&["password", "ann"], "").status.success());
    assert!(!rubato(&["password", "a:b"], "secret\n").status.success());
}

#[test]
fn wrong_settings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("rubato.toml");
    std::fs::write(&config, "wrokers = 2\n").unwrap();
    let data = folder.path().join("data");
    let (config, data) = (config.to_str().unwrap(), data.to_str().unwrap());
    for (arguments, expected) in [
        (&["start", "--config", config][..], "wrokers"),
        (&["start", "--data", data, "--memory", "much"], "much"),
        (&["start", "--data", data, "--tls-cert", "x"], "--tls-key"),
        (
            &["start", "--data", data, "--tls-cert", "/none/x", "--tls-key", "/none/y"],
            "/none/x",
        ),
        (&["start", "--data", data, "--password-file", "/none/p"], "/none/p"),
        (&["start", "--data", data, "--listen", "nowhere"], "nowhere"),
        (&["start", "--data", data, "--log", "a=b=c"], "a=b=c"),
        (&["sql", "--url", "mysql://x", "-c", "SELECT 1"], "postgres"),
        (
            &["sql", "--url", "postgres://127.0.0.1:1/x", "-c", "SELECT 1"],
            "127.0.0.1:1",
        ),
    ] {
        let output = rubato(arguments, "");
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(expected),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_variable_that_no_setting_knows_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rubato"));
    command
        .args(["start", "--data", folder.path().to_str().unwrap()])
        // The start ends here, after the log has begun.
        .args(["--password-file", "/none/p"])
        .env_remove("RUBATO_CONFIG")
        .envs([("RUBATO_MEMROY", "1GB"), ("RUBATO_ZEBRA", "1"), ("RUBATO_LOG", "warn")]);
    let shown = text(&command.output().unwrap().stderr);
    let is_told = |line: &&str| line.contains("WARN") && (line.contains("MEMROY") || line.contains("ZEBRA"));
    let told: Vec<&str> = shown.lines().filter(is_told).collect();
    assert_eq!(told.len(), 2, "{shown}");
    assert!(
        told[0].contains("RUBATO_MEMROY") && told[0].contains("did you mean RUBATO_MEMORY?"),
        "{shown}"
    );
    assert!(
        told[1].contains("RUBATO_ZEBRA") && !told[1].contains("did you mean"),
        "{shown}"
    );
}

#[test]
fn an_unknown_key_of_the_file_is_named_with_its_place_and_those_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("rubato.toml");
    for (content, key) in [
        ("workers = 1\nmax_connections = 5\n", "`max_connections`"),
        ("workers = 1\nconfig = \"other.toml\"\n", "`config`"),
        ("workers = 1\n[server]\nlisten = \"x\"\n", "`server`"),
    ] {
        std::fs::write(&config, content).unwrap();
        let output = rubato(&["start", "--config", config.to_str().unwrap()], "");
        let shown = text(&output.stderr);
        assert!(!output.status.success(), "{shown}");
        for expected in ["rubato.toml", "line 2", "unknown field", key, "`max-connections`"] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
    }
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("rubato.toml");
    std::fs::write(&config, "password-file = \"/none/file\"\n").unwrap();
    let run = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rubato"));
        command
            .args(["start", "--data", folder.path().to_str().unwrap()])
            .args(arguments);
        command.env("RUBATO_CONFIG", &config).envs(environment.iter().copied());
        text(&command.output().unwrap().stderr)
    };
    let environment = [("RUBATO_PASSWORD_FILE", "/none/environment")];
    for (arguments, environment, expected) in [
        (&[][..], &[][..], "/none/file"),
        (&[], &environment, "/none/environment"),
        (&["--password-file", "/none/flag"], &environment, "/none/flag"),
    ] {
        let shown = run(arguments, environment);
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}
