//! `rubato bench overload` in short: what clients are told is what the rows say, and who is not admitted is refused and no more.

use std::process::Command;

#[test]
fn clients_beyond_the_sessions_are_refused_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rubato"))
        .env("TMPDIR", folder.path())
        .args([
            "bench",
            "overload",
            "--sessions",
            "4",
            "--factor",
            "10",
            "--seconds",
            "1",
        ])
        .args(["--memory", "64MiB"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{said}");
    let rows: Vec<Vec<&str>> = told
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| clients"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let clients: Vec<&str> = rows.iter().map(|row| row[1]).collect();
    assert_eq!(clients, ["1", "2", "4", "40"], "{told}");
    let number = |row: &[&str], column: usize| row[column].parse::<f64>().unwrap();
    assert!(rows.iter().all(|row| number(row, 2) > 0.0), "{told}");
    assert!(number(&rows[3], 6) > 0.0, "somebody was refused: {told}");
    for what in ["throughput under overload", "p99 is", "memory grew"] {
        assert!(told.contains(what), "{told}");
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "its folder is gone"
    );
}
