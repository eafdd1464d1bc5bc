//! The experiments of the paper in their quick form, and what is left when somebody interrupts them: nothing.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The experiments over two nodes; their temporary folders lie in `temporary`.
fn experiments(temporary: &Path, out: &Path, (seconds, turns): (&str, &str)) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rubato"));
    command
        .env("TMPDIR", temporary)
        .args(["bench", "paper", "--small", "--nodes", "1,2", "--remote-shares", "1,30"])
        .args(["--simulated-nodes", "1,2", "--simulated-seconds", "0.2"])
        .args([
            "--simulated-terminals-per-node",
            "2",
            "--simulated-warehouses-per-node",
            "1",
        ])
        .args([
            "--terminals-per-node",
            "2",
            "--records-per-node",
            "100",
            "--memory",
            "64MiB",
        ])
        .args(["--seconds", seconds, "--turns", turns, "--out"])
        .arg(out);
    command
}

/// Processes whose arguments name the folder.
fn processes_of(folder: &Path) -> usize {
    let named = folder.to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(&named))
        .count()
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn the_experiments_run_the_conditions_hold_and_the_report_has_all_figures() {
    let (temporary, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = experiments(temporary.path(), out.path(), ("0.5", "1"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report = std::fs::read_to_string(out.path().join("report.md")).unwrap();
    let figures = ["Table 2, figure 6", "Figure 7", "Figure 8", "Figure 9", "Figure 10"];
    for figure in figures {
        assert!(
            report.contains(&format!("### {figure}")),
            "{figure} is not in\n{report}"
        );
    }
    assert!(report.contains("All twelve hold after each."), "{report}");
    for plot in report.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let drawn = std::fs::read_to_string(out.path().join(plot)).unwrap();
        assert!(drawn.contains("<polyline") && !drawn.contains("NaN"), "{plot}");
    }
    // What the nodes count is there: of two nodes some transactions are of both, and these commit in two phases.
    let of_two = report
        .lines()
        .find(|line| line.starts_with("| TPC-C | 2 | 30 |"))
        .expect("a run of two nodes");
    let cells: Vec<f64> = of_two
        .split('|')
        .filter_map(|cell| cell.trim().trim_end_matches(" %").parse().ok())
        .collect();
    let [
        _,
        _,
        _,
        cpu_us,
        messages,
        frames,
        bytes,
        forces,
        statements,
        two_phases,
        ..,
    ] = cells[..]
    else {
        panic!("{of_two}")
    };
    assert!(
        cpu_us > 0.0 && messages > 1.0 && frames > 0.1 && bytes > 50.0,
        "{of_two}"
    );
    assert!(forces > 0.0 && statements > 5.0 && two_phases > 1.0, "{of_two}");
    assert!(is_empty(temporary.path()) && processes_of(temporary.path()) == 0);
}

#[test]
fn who_interrupts_the_experiments_leaves_nothing_behind() {
    for is_killed in [false, true] {
        let (temporary, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut command = experiments(temporary.path(), out.path(), ("600", "1000"));
        let mut process = command.stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let wait = |what: &str, is_true: &dyn Fn() -> bool| {
            while !is_true() {
                assert!(Instant::now() < until, "{what}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        wait("a node is started", &|| processes_of(temporary.path()) > 0);
        if is_killed {
            // It can clean nothing up; its nodes end by themselves.
            process.kill().unwrap();
            process.wait().unwrap();
            wait("the nodes end", &|| processes_of(temporary.path()) == 0);
            continue;
        }
        let interrupt = Command::new("kill").args(["-INT", &process.id().to_string()]).status();
        assert!(interrupt.unwrap().success());
        assert_eq!(process.wait().unwrap().code(), Some(130));
        assert!(is_empty(temporary.path()) && processes_of(temporary.path()) == 0);
    }
}
