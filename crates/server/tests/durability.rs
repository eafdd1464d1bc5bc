//! Answers wait for the log, commits share its forcing, and a server stops in order.

mod common;

use common::{Wire, eventually, query_packet, settings, start, start_default};
use rubato_server::{ServerSecurity, ServerSettings};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

#[test]
fn a_commit_is_answered_after_its_force() {
    let fixture = start_default();
    let mut wire = Wire::connect(fixture.address);
    for commits in 1..=20 {
        assert_eq!(wire.query("COMMIT"), ["done COMMIT", "ready I"]);
        assert!(fixture.world.forced.load(SeqCst) >= commits);
    }
}

#[test]
fn an_answer_is_held_until_another_thread_has_forced_the_log() {
    let fixture = start_default();
    fixture.world.force_elsewhere.store(true, SeqCst);
    let mut writer = Wire::connect(fixture.address);
    let mut reader = Wire::connect(fixture.address);
    writer
        .stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    writer.send(&query_packet("COMMIT"));
    // Others go on meanwhile, on both workers.
    for _ in 0..50 {
        assert_eq!(reader.query("SELECT 1").len(), 4);
    }
    let mut byte = [0; 1];
    assert!(
        writer.stream.peek(&mut byte).is_err(),
        "answered before the log was forced"
    );
    fixture.world.force_from_outside();
    writer.stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(writer.until_ready(), ["done COMMIT", "ready I"]);
}

#[test]
fn commits_of_many_clients_share_forces() {
    let fixture = start(
        ServerSettings {
            workers: 1,
            ..settings()
        },
        ServerSecurity::default(),
    );
    let mut clients: Vec<Wire> = (0..32).map(|_| Wire::connect(fixture.address)).collect();
    for _ in 0..20 {
        clients
            .iter_mut()
            .for_each(|client| client.send(&query_packet("COMMIT")));
        clients
            .iter_mut()
            .for_each(|client| assert_eq!(client.until_ready().len(), 2));
    }
    let (commits, forces) = (fixture.world.commits.load(SeqCst), fixture.world.forces.load(SeqCst));
    assert_eq!(commits, 640);
    assert!(forces < commits, "{forces} forces for {commits} commits");
}

#[test]
fn answers_do_not_wait_for_ever_while_others_keep_the_worker_busy() {
    let fixture = start(
        ServerSettings {
            workers: 1,
            ..settings()
        },
        ServerSecurity::default(),
    );
    let address = fixture.address;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let busy: Vec<_> = (0..3)
        .map(|_| {
            let stop = std::sync::Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut wire = Wire::connect(address);
                while !stop.load(SeqCst) {
                    wire.query("SELECT 1");
                }
            })
        })
        .collect();
    let mut wire = Wire::connect(address);
    let started = Instant::now();
    for _ in 0..100 {
        wire.query("COMMIT");
    }
    let elapsed = started.elapsed();
    stop.store(true, SeqCst);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
}

#[test]
fn stopping_finishes_what_runs_and_rolls_back_what_is_idle() {
    let fixture = start_default();
    let mut idle = Wire::connect(fixture.address);
    idle.query("BEGIN");
    let mut running = Wire::connect(fixture.address);
    running.send(&query_packet("SLEEP 300"));
    eventually("the statement runs", || {
        fixture.server.counters().batches.load(SeqCst) == 2
    });
    let world = std::sync::Arc::clone(&fixture.world);
    fixture.server.shut_down();
    assert_eq!(world.rolled_back.load(SeqCst), 1);
    assert_eq!(world.sessions_ended.load(SeqCst), 2);
    assert_eq!(idle.next().as_deref(), Some("FATAL 57P01"));
    assert_eq!(idle.next(), None);
    assert_eq!(running.until_ready(), ["done SLEEP", "ready I"]);
    assert_eq!(running.next().as_deref(), Some("FATAL 57P01"));
    assert!(std::net::TcpStream::connect(fixture.address).is_err());
}

#[test]
fn stopping_gives_up_what_runs_beyond_the_grace_time() {
    let settings = ServerSettings {
        grace_time: Duration::from_millis(200),
        ..settings()
    };
    let fixture = start(settings, ServerSecurity::default());
    let mut wire = Wire::connect(fixture.address);
    wire.send(&query_packet("WAIT"));
    eventually("the statement runs", || {
        fixture.server.counters().batches.load(SeqCst) == 1
    });
    let started = Instant::now();
    fixture.server.shut_down();
    assert!(started.elapsed() < Duration::from_secs(2));
    assert_eq!(wire.until_ready(), ["ERROR 57P01", "ready I"]);
}

/// Resident memory of this process.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn two_thousand_idle_connections_are_cheap() {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: files.maximum,
        ..files
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let fixture = start_default();
    let warm: Vec<Wire> = (0..50).map(|_| Wire::connect(fixture.address)).collect();
    let before = resident_bytes();
    let mut idle: Vec<Wire> = (0..2000).map(|_| Wire::connect(fixture.address)).collect();
    let each = (resident_bytes() - before) / 2000;
    assert!(each < 32 << 10, "{each} bytes for both ends of a connection");
    let ticks = cpu_ticks();
    std::thread::sleep(Duration::from_millis(500));
    let used = cpu_ticks() - ticks;
    println!("{each} bytes a connection (both ends), {used} ticks in half a second");
    assert_eq!(idle[1999].query("SELECT 1").len(), 4);
    assert_eq!(idle[0].query("SELECT 1").len(), 4);
    drop((idle, warm));
    let counters = fixture.server.counters();
    eventually("all connections are closed", || counters.connections.load(SeqCst) == 0);
}
