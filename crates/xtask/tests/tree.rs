//! The rules of the house over the real checkout, and proof that the typed list of the pure rooms refuses what it names.

use std::process::Command;

use rubato_xtask::{check, tree};

#[test]
fn the_checkout_keeps_the_rules_of_the_house() {
    let verdicts = check::run_all(&tree::workspace_root()).expect("cargo metadata answers");
    let findings: Vec<String> = verdicts
        .iter()
        .flat_map(|verdict| {
            verdict
                .findings
                .iter()
                .map(move |finding| format!("{}: {finding}", verdict.rule))
        })
        .collect();
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

/// Lints `text` as a library under the list of the pure rooms; true if clippy refuses it.
fn refused(text: &str) -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("lib.rs");
    std::fs::write(&file, text).expect("the folder is writable");
    let list = tree::own_room().join("pure-rooms");
    let mut clippy = Command::new("clippy-driver");
    clippy
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "metadata",
            "--out-dir",
        ])
        .arg(folder.path());
    clippy.args([
        "-D",
        "clippy::disallowed_types",
        "-D",
        "clippy::disallowed_methods",
        "-D",
        "clippy::iter_over_hash_type",
    ]);
    let answer = clippy
        .arg(&file)
        .env("CLIPPY_CONF_DIR", list)
        .output()
        .expect("clippy is a part of the toolchain");
    let said = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert!(
        answer.status.success() || said.contains("clippy::"),
        "clippy failed for another reason: {said}"
    );
    !answer.status.success()
}

#[test]
fn the_typed_list_refuses_clocks_threads_and_walks_over_hash_maps() {
    assert!(!refused(
        "use std::collections::HashMap;\npub fn f(m: &HashMap<u8, u8>) -> Option<&u8> { m.get(&1) }\n"
    ));
    for body in [
        "let _ = std::time::Instant::now();",
        "std::thread::sleep(std::time::Duration::ZERO);",
        "let _ = std::fs::read(\"x\");",
        "type M = std::collections::HashMap<u8, u8>; let m = M::new(); for x in &m { drop(x); }",
        "type M = std::collections::HashMap<u8, u8>; let m = M::new(); drop(m.keys().next());",
    ] {
        assert!(refused(&format!("pub fn f() {{ {body} }}\n")), "{body}");
    }
}
