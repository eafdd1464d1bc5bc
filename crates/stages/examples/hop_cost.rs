//! What a hop between stages costs: all stages on one thread, and each on threads of its own.
//!
//! `cargo run --release -p rubato-stages --example hop_cost`

use rubato_stages::driver::{LocalRelay, RelaySettings, ThreadedRelay};
use rubato_stages::{Instruction, Outbox, Stage, StageKind};
use std::sync::mpsc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const PATH: [StageKind; 5] = [
    StageKind::Parser,
    StageKind::Security,
    StageKind::Optimizer,
    StageKind::Transaction,
    StageKind::Query,
];
const ROUNDS: u64 = 1_000_000;
const ROUNDS_THREADED: u64 = 100_000;

/// Sends each instruction on to the next stage of the path.
struct Pass(StageKind);

impl Stage<u64> for Pass {
    fn kind(&self) -> StageKind {
        self.0
    }

    fn handle(&mut self, _now_us: i64, instruction: Box<Instruction<u64>>, outbox: &mut Outbox<u64>) {
        let position = PATH.iter().position(|kind| *kind == self.0).unwrap_or(PATH.len());
        outbox.forward(
            PATH.get(position + 1).copied().unwrap_or(StageKind::SocketMonitor),
            instruction,
        );
    }
}

fn now_us() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64)
}

fn local(batch: u64) -> f64 {
    let mut relay = LocalRelay::new(4096);
    PATH.into_iter().for_each(|kind| relay.add_stage(Pass(kind)));
    let started = Instant::now();
    for round in 0..ROUNDS / batch {
        for _ in 0..batch {
            let shell = relay.shell(Instruction::new(PATH[0], round));
            if relay.submit(0, shell).is_err() {
                println!("the queue is too short for the batch");
            }
        }
        relay.run(now_us, usize::MAX);
        while let Some(done) = relay.poll_out() {
            relay.recycle(done);
        }
    }
    started.elapsed().as_secs_f64() * 1e9 / (ROUNDS * PATH.len() as u64) as f64
}

fn threaded(batch: u64) -> std::io::Result<f64> {
    let (sender, receiver) = mpsc::channel();
    let settings = RelaySettings {
        threads_per_stage: 1,
        queue_capacity: 4096,
    };
    let factory = |kind| PATH.contains(&kind).then_some(Pass(kind));
    let relay = ThreadedRelay::start(
        settings,
        factory,
        move |_| {
            let _ = sender.send(());
        },
        now_us,
    )?;
    let started = Instant::now();
    for round in 0..ROUNDS_THREADED / batch {
        let taken = (0..batch)
            .filter(|_| relay.submit(Box::new(Instruction::new(PATH[0], round))).is_ok())
            .count();
        let _ = receiver.iter().take(taken).count();
    }
    let elapsed = started.elapsed();
    relay.shut_down();
    Ok(elapsed.as_secs_f64() * 1e9 / (ROUNDS_THREADED * PATH.len() as u64) as f64)
}

fn main() -> std::io::Result<()> {
    for batch in [1, 32] {
        println!(
            "{batch} under way: one thread {:.0} ns a hop, threads {:.0} ns a hop",
            local(batch),
            threaded(batch)?
        );
    }
    Ok(())
}
