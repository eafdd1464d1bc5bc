//! TPC-C goes on while its grid grows and shrinks.

use super::{Grid, Node, ask, wait_for_all};
use crate::common::eventually;
use rubato_bench::{Connection, Target, tpcc};
use rubato_workload::tpcc::{CONDITION_COUNT, Scale, Settings, TpccTerminal};
use rubato_workload::{Ending, Terminal, run_transaction};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SCALE: Scale = Scale {
    warehouses: 6,
    items: 200,
    customers: 20,
};
const SEED: u64 = 5;
/// Attempts of one transaction, as `rubato bench` has them.
const ATTEMPTS_MAX: u32 = 100;
const TERMINALS: usize = 4;

/// What all terminals have seen so far.
#[derive(Default)]
struct Seen {
    committed: AtomicU64,
    retries: AtomicU64,
    /// What a client was told beside conflicts.
    errors: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

/// Where a terminal is to be, and where it is.
struct Seat {
    wanted: Mutex<SocketAddr>,
    taken: Mutex<Option<SocketAddr>>,
}

impl Seat {
    fn at(address: SocketAddr) -> Seat {
        Seat {
            wanted: Mutex::new(address),
            taken: Mutex::new(None),
        }
    }

    fn wanted(&self) -> SocketAddr {
        *self.wanted.lock().unwrap()
    }

    fn take(&self, address: SocketAddr) -> Connection {
        let connection = connect(address);
        *self.taken.lock().unwrap() = Some(address);
        connection
    }

    fn is_taken(&self) -> bool {
        *self.taken.lock().unwrap() == Some(self.wanted())
    }
}

fn connect(address: SocketAddr) -> Connection {
    Connection::open(&Target::parse(&format!("postgres://rubato@{address}/rubato")).unwrap()).unwrap()
}

/// A terminal; it looks before each transaction which node it is to be at.
fn terminal(number: u64, seat: &Seat, seen: &Seen) {
    let mut settings = Settings::unpaced(SCALE, SEED).with_remote_share(10.0);
    while !seen.is_over.load(Ordering::Relaxed) {
        let address = seat.wanted();
        let mut client = seat.take(address);
        settings.seed += 1;
        let mut terminal = TpccTerminal::new(&mut client, settings, number).unwrap();
        while !seen.is_over.load(Ordering::Relaxed) && seat.wanted() == address {
            Terminal::<Connection>::draw(&mut terminal);
            let now_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
            let mut pause = |retries: u32| std::thread::sleep(Duration::from_millis(u64::from(retries.min(16))));
            let outcome = run_transaction(&mut terminal, &mut client, ATTEMPTS_MAX, now_us, &mut pause);
            seen.retries.fetch_add(u64::from(outcome.retries), Ordering::Relaxed);
            match outcome.result {
                Ok(Ending::Committed) => drop(seen.committed.fetch_add(1, Ordering::Relaxed)),
                Ok(Ending::RolledBack) => {}
                Err(error) => seen.errors.lock().unwrap().push(format!("terminal {number}: {error}")),
            }
        }
    }
}

impl Seen {
    /// Something is done beneath the terminals, which go on meanwhile.
    fn beneath<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        let (began, before) = (Instant::now(), self.committed.load(Ordering::Relaxed));
        let done = work();
        let committed = self.committed.load(Ordering::Relaxed) - before;
        let retries = self.retries.load(Ordering::Relaxed);
        println!(
            "{what}: {committed} committed in {:?}, {retries} retries so far",
            began.elapsed()
        );
        assert!(committed >= 20, "{committed} transactions beneath: {what}");
        done
    }
}

/// Waits for some more transactions.
fn wait_for_more(seen: &Seen) {
    let before = seen.committed.load(Ordering::Relaxed);
    eventually("the terminals go on", || {
        seen.committed.load(Ordering::Relaxed) >= before + 20
    });
}

#[test]
fn a_grid_grows_and_shrinks_beneath_tpcc() {
    let grid = Grid::new(3);
    let mut nodes: Vec<Node> = (0..2).map(|node| grid.start(node)).collect();
    wait_for_all(&nodes);
    let first = nodes[0].address;
    tpcc::load(|| Ok(connect(first)), SCALE, SEED, 2, false).unwrap();
    let seats: Vec<Seat> = (0..TERMINALS)
        .map(|number| Seat::at(nodes[number % 2].address))
        .collect();
    let seen = Seen::default();
    let done = std::thread::scope(|scope| {
        // However this ends, the terminals do.
        let _over = Over(&seen.is_over);
        for (number, seat) in seats.iter().enumerate() {
            let seen = &seen;
            scope.spawn(move || terminal(number as u64, seat, seen));
        }
        wait_for_more(&seen);
        nodes.push(grid.start(2));
        wait_for_all(&nodes);
        wait_for_more(&seen);
        let rebalance = || grid.manage(&nodes[1], &["rebalance", "--rows-per-second", "0"]);
        let mut done = vec![seen.beneath("rebalance", rebalance)];
        wait_for_more(&seen);
        let drain = || grid.manage(&nodes[0], &["drain", "1", "--rows-per-second", "0"]);
        done.push(seen.beneath("drain", drain));
        // Who takes a node out sees to it that its clients are gone: these come to the new one.
        for seat in seats.iter().skip(1).step_by(2) {
            *seat.wanted.lock().unwrap() = nodes[2].address;
        }
        eventually("they have gone", || seats.iter().all(Seat::is_taken));
        done.push(grid.manage(&nodes[0], &["remove", "1"]));
        wait_for_more(&seen);
        done
    });
    assert!(done.iter().all(|(succeeded, _)| *succeeded), "{done:?}");
    assert_eq!(*seen.errors.lock().unwrap(), [""; 0]);
    nodes.remove(1);
    wait_for_all(&nodes);
    for node in &nodes {
        let checks = tpcc::check(&mut connect(node.address), SCALE, "after the run").unwrap();
        let broken: Vec<_> = checks.iter().filter(|check| check.violation.is_some()).collect();
        assert!(broken.is_empty() && checks.len() == CONDITION_COUNT, "{broken:?}");
        // Nothing is in doubt.
        let written = ask(node, "UPDATE district SET d_name = d_name || ''");
        assert_eq!(written[0], format!("done UPDATE {}", SCALE.warehouses * 10));
    }
}

/// Ends the terminals when it goes.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
