//! Answers that another thread sends: they come whole and in order, whatever the client and the server do meanwhile.
//!
//! The other tests of the wire hand every answer over that may be (see `common::settings`); here are those where it matters most.

#![allow(missing_docs)]

mod common;

use common::{Wire, eventually, query_packet, settings, socket, start};
use rubato_server::{Sending, ServerSecurity, ServerSettings};
use rubato_stages::worker::Signal;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

const BOTH: [Sending; 2] = [Sending::HandedOver, Sending::WhereItPays];

fn with(sending: Sending) -> ServerSettings {
    ServerSettings {
        sending,
        workers: 1,
        ..settings()
    }
}

/// A client whose socket is soon full when it does not read.
fn narrow(address: SocketAddr) -> Wire<TcpStream> {
    let stream = socket(address);
    socket2::SockRef::from(&stream).set_recv_buffer_size(64 << 10).unwrap();
    let mut wire = Wire::over(stream);
    wire.log_in(&[("user", "ann"), ("database", "rubato")]);
    wire
}

/// One of many that are told apart, and too long for many to fit in a socket.
fn word(index: usize) -> String {
    format!("{index}-{}", "x".repeat(5000))
}

#[test]
fn many_clients_get_their_own_answers_in_order() {
    for sending in BOTH {
        let fixture = start(with(sending), ServerSecurity::default());
        std::thread::scope(|scope| {
            for client in 0..12 {
                let address = fixture.address;
                scope.spawn(move || {
                    let mut wire = Wire::connect(address);
                    for index in 0..800 {
                        let answers = wire.query(&format!("SELECT {client}-{index}"));
                        assert_eq!(answers[1], format!("row {client}-{index}"));
                    }
                });
            }
        });
    }
}

#[test]
fn a_commits_answer_waits_for_the_log_whoever_sends_it() {
    let fixture = start(with(Sending::HandedOver), ServerSecurity::default());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut wire = Wire::connect(fixture.address);
                for _ in 0..200 {
                    wire.query("BEGIN");
                    assert_eq!(wire.query("COMMIT"), ["done COMMIT", "ready I"]);
                    assert!(fixture.world.forced.load(SeqCst) > 0);
                }
            });
        }
    });
    assert_eq!(fixture.world.commits.load(SeqCst), 1600);
    assert_eq!(fixture.world.forced.load(SeqCst), fixture.world.appended.load(SeqCst));
}

/// The socket is full in the middle of an answer that another thread sends: the worker goes on with its rest.
#[test]
fn a_full_socket_gets_the_rest_of_an_answer_later() {
    for sending in BOTH {
        let fixture = start(with(sending), ServerSecurity::default());
        let mut wire = narrow(fixture.address);
        let mut writer = wire.stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            for index in 0..2500 {
                writer
                    .write_all(&query_packet(&format!("SELECT {}", word(index))))
                    .unwrap();
                // So that most of them come alone, and their answers may be handed over.
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        // Others are served while nobody reads.
        std::thread::sleep(Duration::from_millis(500));
        let mut other = Wire::connect(fixture.address);
        assert_eq!(other.query("SELECT 7")[1], "row 7");
        for index in 0..2500 {
            assert_eq!(wire.until_ready()[1], format!("row {}", word(index)));
        }
        writing.join().unwrap();
    }
}

/// What a session is told goes out behind all that was written before, also where the socket has not taken that yet.
#[test]
fn what_is_told_meanwhile_stands_behind_the_rest_of_an_answer() {
    for sending in BOTH {
        let fixture = start(with(sending), ServerSecurity::default());
        let mut wire = narrow(fixture.address);
        let mut writer = wire.stream.try_clone().unwrap();
        let (world, process_id) = (&fixture.world, wire.process_id);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for index in 0..2500 {
                    let query = query_packet(&format!("SELECT {}", word(index)));
                    writer.write_all(&query).unwrap();
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
            let teller = scope.spawn(|| {
                let told = (0..).take_while(|_| !is_over.load(SeqCst));
                told.map(|index| {
                    world.tell(process_id, index.to_string());
                    std::thread::sleep(Duration::from_micros(20));
                })
                .count()
            });
            std::thread::sleep(Duration::from_millis(300));
            let (mut answered, mut told) = (0, 0);
            while answered < 2500 {
                match wire.next().expect("an answer").split_once(' ') {
                    Some(("told", letter)) => {
                        assert_eq!(letter, told.to_string());
                        told += 1;
                    }
                    Some(("row", row)) => {
                        assert_eq!(row, word(answered));
                        answered += 1;
                    }
                    _ => {}
                }
            }
            is_over.store(true, SeqCst);
            let all = teller.join().unwrap();
            while told < all {
                if wire.next().expect("it is told") == format!("told {told}") {
                    told += 1;
                }
            }
        });
    }
}

/// What a client does not take stays where it is counted, and not in the buffers of its connection.
#[test]
fn what_a_client_does_not_take_is_not_fetched_for_it() {
    for sending in BOTH {
        let fixture = start(with(sending), ServerSecurity::default());
        let mut wire = Wire::connect(fixture.address);
        for index in 0..4000 {
            fixture
                .world
                .tell(wire.process_id, format!("{index}-{}", "x".repeat(10_000)));
            std::thread::sleep(Duration::from_micros(50));
        }
        let waiting = fixture.world.letters.lock().unwrap().len();
        assert!(waiting > 1000, "{waiting}");
        for index in 0..4000 {
            let told = wire.next().expect("it is told");
            assert!(told.starts_with(&format!("told {index}-")), "{index}");
        }
    }
}

#[test]
fn a_client_that_leaves_with_its_answer_under_way_is_forgotten() {
    let fixture = start(with(Sending::HandedOver), ServerSecurity::default());
    for index in 0..300 {
        let mut wire = Wire::connect(fixture.address);
        wire.send(&query_packet("SELECT 1"));
        if index % 2 == 0 {
            wire.until_ready();
        }
    }
    let counters = fixture.server.counters();
    eventually("all are gone", || counters.connections.load(SeqCst) == 0);
    eventually("their sessions too", || {
        fixture.world.sessions_ended.load(SeqCst) == 300
    });
}

/// A client that does not read keeps its session, and what that has locked, not beyond its end: whether it has asked for more than its
/// socket takes, or was told so.
#[test]
fn a_session_that_is_terminated_ends_although_its_client_reads_nothing() {
    for sending in BOTH {
        for is_told in [false, true] {
            let fixture = start(with(sending), ServerSecurity::default());
            let (world, counters) = (&fixture.world, fixture.server.counters());
            let mut wire = narrow(fixture.address);
            wire.query("BEGIN");
            match is_told {
                true => (0..4000).for_each(|_| world.tell(wire.process_id, "x".repeat(10_000))),
                false => wire.send(&query_packet("ROWS 100000 1000")),
            }
            let mut sent_bytes = 0;
            eventually("the socket is full", || {
                std::thread::sleep(Duration::from_millis(100));
                let before = std::mem::replace(&mut sent_bytes, counters.sent_bytes.load(SeqCst));
                before == sent_bytes
            });
            let signals = world.signals.lock().unwrap().clone().expect("signals");
            assert!(signals.signal(wire.process_id, Signal::Terminate));
            eventually("the session has ended", || world.sessions_ended.load(SeqCst) == 1);
            assert_eq!(world.rolled_back.load(SeqCst), 1);
            eventually("the connection too", || counters.connections.load(SeqCst) == 0);
        }
    }
}

#[test]
fn a_server_that_stops_has_sent_what_it_handed_over() {
    for _ in 0..20 {
        let fixture = start(with(Sending::HandedOver), ServerSecurity::default());
        let mut wires: Vec<Wire> = (0..6).map(|_| Wire::connect(fixture.address)).collect();
        for wire in &mut wires {
            wire.send(&query_packet("SELECT 1"));
        }
        let mut first = wires.remove(0);
        assert_eq!(first.until_ready()[1], "row 1");
        drop(fixture);
        let mut rest = vec![first];
        rest.append(&mut wires);
        for wire in &mut rest {
            let answers: Vec<String> = std::iter::from_fn(|| wire.next()).collect();
            let fatal = answers.iter().position(|answer| answer == "FATAL 57P01");
            let row = answers.iter().position(|answer| answer == "row 1");
            assert!(row.is_none() || row < fatal, "{answers:?}");
        }
    }
}
