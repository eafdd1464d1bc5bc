//! `rubato sql` against a server over the test engine.

mod common;

use common::{settings, start, start_default};
use rubato_server::ServerSecurity;
use rubato_server::passwords::Passwords;
use rubato_server::scram::Verifier;
use std::io::Write;
use std::process::{Command, Stdio};

fn shell(url: &str, arguments: &[&str], input: &str) -> (bool, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rubato"))
        .args(["sql", "--url", url])
        .args(arguments)
        .env_remove("PGPASSWORD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn commands_and_scripts_are_run_until_the_first_error() {
    let fixture = start_default();
    let url = format!("postgres://ann@{}/rubato", fixture.address);
    let table = " value\n-------\n one\n(1 row)\n";
    assert_eq!(
        shell(&url, &["-c", "SELECT one"], ""),
        (true, table.to_owned(), String::new())
    );
    let script = "BEGIN;\nCOMMIT;\nNONSENSE;\nBEGIN";
    let (succeeded, out, err) = shell(&url, &[], script);
    assert_eq!((succeeded, out.as_str()), (false, "BEGIN\nCOMMIT\n"));
    assert_eq!(err, "ERROR: no such command (42601)\n");
    assert_eq!(
        shell(&url, &["-c", "BEGIN", "-c", "COMMIT"], ""),
        (true, "BEGIN\nCOMMIT\n".to_owned(), String::new())
    );
    assert!(!shell(&url, &["-c", "COPY t"], "").0);
}

#[test]
fn the_shell_logs_in_with_a_password() {
    let mut passwords = Passwords::new().unwrap();
    passwords.insert("ann", Verifier::from_password("secret").unwrap());
    let fixture = start(
        settings(),
        ServerSecurity {
            passwords: Some(passwords),
            tls: None,
        },
    );
    let url = |user: &str| format!("postgres://{user}@{}/rubato", fixture.address);
    assert!(shell(&url("ann:secret"), &["-c", "SELECT one"], "").0);
    for user in ["ann:wrong", "bob:secret"] {
        let (succeeded, _, err) = shell(&url(user), &["-c", "SELECT one"], "");
        assert!(!succeeded && err.contains("password authentication failed"), "{err}");
    }
    let (succeeded, _, err) = shell(&url("ann"), &["-c", "SELECT one"], "");
    assert!(!succeeded && err.contains("PGPASSWORD"), "{err}");
}
