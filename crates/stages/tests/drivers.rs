//! Both drivers run the same stages with the same results; full queues push back; order is kept.

use rubato_base::TransactionId;
use rubato_stages::driver::{LocalRelay, Outcome, RelaySettings, ThreadedRelay};
use rubato_stages::{Instruction, Outbox, SAMPLE_EVERY, Stage, StageKind};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

type Trace = Vec<u64>;

/// Added to the operation number of an extra copy.
const COPY: u64 = 1_000_000;

/// Adds its own number to the trace and sends it along a fixed path; the aggregation stage sends two.
struct Tracer {
    kind: StageKind,
    next: &'static [StageKind],
}

impl Stage<Trace> for Tracer {
    fn kind(&self) -> StageKind {
        self.kind
    }

    fn handle(&mut self, _now_us: i64, mut instruction: Box<Instruction<Trace>>, outbox: &mut Outbox<Trace>) {
        instruction.payload.push(self.kind as u64);
        for (copy, next) in self.next.iter().enumerate().skip(1) {
            let mut extra = Instruction::new(*next, instruction.payload.clone());
            extra.transaction = instruction.transaction;
            extra.operation = instruction.operation + COPY * copy as u64;
            let extra = outbox.shell(extra);
            outbox.send(extra);
        }
        outbox.forward(self.next[0], instruction);
    }
}

fn tracer(kind: StageKind) -> Option<Tracer> {
    use StageKind::{Aggregation, Optimizer, Parser, Query, Security, SocketMonitor, Transaction};
    let next: &'static [StageKind] = match kind {
        Parser => &[Security],
        Security => &[Optimizer],
        Optimizer => &[Transaction],
        Transaction => &[Query],
        Query => &[Aggregation],
        Aggregation => &[SocketMonitor, SocketMonitor],
        _ => return None,
    };
    Some(Tracer { kind, next })
}

fn instruction(transaction: u64, operation: u64) -> Instruction<Trace> {
    let mut instruction = Instruction::new(StageKind::Parser, vec![]);
    instruction.transaction = TransactionId(transaction);
    instruction.operation = operation;
    instruction
}

fn local_relay(queue_capacity: usize) -> LocalRelay<Trace> {
    let mut relay = LocalRelay::new(queue_capacity);
    for stage in StageKind::ALL.into_iter().filter_map(tracer) {
        relay.add_stage(stage);
    }
    relay
}

type Outcomes = BTreeMap<(u64, u64), Trace>;

fn run_locally(sessions: u64, operations: u64, queue_capacity: usize) -> (Outcomes, Vec<(u64, u64)>) {
    let mut relay = local_relay(queue_capacity);
    let (mut outcomes, mut order) = (Outcomes::new(), vec![]);
    for operation in 1..=operations {
        for session in 1..=sessions {
            let mut next = relay.shell(instruction(session, operation));
            while let Err(refused) = relay.submit(0, next) {
                next = refused;
                relay.run(|| 0, usize::MAX);
                drain(&mut relay, &mut outcomes, &mut order);
            }
        }
    }
    while !relay.is_idle() {
        relay.run(|| 0, usize::MAX);
        drain(&mut relay, &mut outcomes, &mut order);
    }
    (outcomes, order)
}

fn drain(relay: &mut LocalRelay<Trace>, outcomes: &mut Outcomes, order: &mut Vec<(u64, u64)>) {
    while let Some(done) = relay.poll_out() {
        let key = (done.transaction.0, done.operation);
        order.push(key);
        assert!(
            outcomes.insert(key, relay.recycle(done)).is_none(),
            "{key:?} came out twice"
        );
    }
}

#[test]
fn both_drivers_give_the_same_results() {
    let (local, _) = run_locally(7, 50, 64);
    for threads_per_stage in [1, 3] {
        let collected = Arc::new(Mutex::new(Outcomes::new()));
        let sink = Arc::clone(&collected);
        let relay = ThreadedRelay::start(
            RelaySettings {
                threads_per_stage,
                queue_capacity: 1000,
            },
            tracer,
            move |outcome| match outcome {
                Outcome::Done(done) => {
                    sink.lock()
                        .unwrap()
                        .insert((done.transaction.0, done.operation), done.payload);
                }
                Outcome::Refused(refused) => panic!("refused {refused:?}"),
            },
            || 0,
        )
        .unwrap();
        for operation in 1..=50 {
            for session in 1..=7 {
                relay.submit(Box::new(instruction(session, operation))).unwrap();
            }
        }
        let metrics = relay.metrics();
        relay.shut_down();
        assert_eq!(
            *collected.lock().unwrap(),
            local,
            "{threads_per_stage} threads per stage"
        );
        assert_eq!(metrics.snapshot()[StageKind::Query.index()].handled, 350);
    }
}

#[test]
fn tiny_queues_change_nothing_but_the_pace() {
    let expected = run_locally(5, 20, 1000);
    let tiny = run_locally(5, 20, 1);
    assert_eq!(tiny.0, expected.0);
}

#[test]
fn order_within_a_session_is_kept() {
    for queue_capacity in [1, 3, 1000] {
        let (_, order) = run_locally(4, 30, queue_capacity);
        for session in 1..=4 {
            let of_session = order.iter().filter(|key| key.0 == session);
            let (copies, originals): (Vec<u64>, Vec<u64>) = of_session.map(|key| key.1).partition(|o| *o > COPY);
            assert_eq!(originals, (1..=30).collect::<Vec<_>>(), "queues of {queue_capacity}");
            assert_eq!(copies.len(), 30);
        }
    }
}

#[test]
fn a_full_queue_refuses_until_the_relay_has_run() {
    let mut relay = local_relay(2);
    assert!(relay.submit(0, Box::new(instruction(1, 1))).is_ok());
    assert!(relay.submit(0, Box::new(instruction(1, 2))).is_ok());
    let refused = relay.submit(0, Box::new(instruction(1, 3))).unwrap_err();
    assert_eq!(refused.operation, 3);
    // Two instructions give four results; the exit holds two, so the relay stops and refuses until they are taken.
    relay.run(|| 0, usize::MAX);
    let refused = relay.submit(0, refused).unwrap_err();
    let mut results = 0;
    while !relay.is_idle() {
        results += std::iter::from_fn(|| relay.poll_out()).count();
        relay.run(|| 0, usize::MAX);
    }
    assert_eq!(results, 4);
    assert!(relay.submit(0, refused).is_ok());
}

#[test]
fn run_stops_at_its_limit_and_times_a_sample() {
    let mut relay = local_relay(100);
    for operation in 0..100 {
        relay.submit(5, Box::new(instruction(1, operation))).unwrap();
    }
    let clock = AtomicI64::new(10);
    let mut handled = relay.run(|| clock.fetch_add(1, Ordering::Relaxed), 30);
    assert_eq!(handled, 30);
    while !relay.is_idle() {
        handled += relay.run(|| clock.fetch_add(1, Ordering::Relaxed), 30);
        while relay.poll_out().is_some() {}
    }
    assert_eq!(handled, 600);
    let numbers = relay.metrics().snapshot();
    let (mut samples, mut total) = (0, 0);
    for kind in StageKind::ALL.into_iter().filter(|kind| tracer(*kind).is_some()) {
        let stage = numbers[kind.index()];
        assert_eq!(stage.handled, 100, "{kind}");
        assert!(
            stage.samples > 0 && stage.service_us >= stage.samples && stage.wait_us > 0,
            "{kind}: {stage:?}"
        );
        assert_eq!(stage.queue_length, 0);
        samples += stage.samples;
        total += stage.handled;
    }
    assert_eq!(numbers[StageKind::Parser.index()].queue_length_max, 100);
    // Whoever is measured at one stage is measured at those that follow.
    assert!(samples <= (total / SAMPLE_EVERY + 1) * StageKind::COUNT as u64);
}

/// A stage that waits until it is let go.
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Stage<Trace> for Gate {
    fn kind(&self) -> StageKind {
        StageKind::Parser
    }

    fn handle(&mut self, _now_us: i64, instruction: Box<Instruction<Trace>>, outbox: &mut Outbox<Trace>) {
        let (open, changed) = &*self.0;
        drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        outbox.forward(StageKind::SocketMonitor, instruction);
    }
}

#[test]
fn threads_push_back_and_finish_what_they_took() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let (sender, receiver) = mpsc::channel();
    let relay = ThreadedRelay::start(
        RelaySettings {
            threads_per_stage: 1,
            queue_capacity: 2,
        },
        |kind| (kind == StageKind::Parser).then(|| Gate(Arc::clone(&gate))),
        move |outcome| {
            if let Outcome::Done(done) = outcome {
                sender.send(done.operation).unwrap();
            }
        },
        || 0,
    )
    .unwrap();
    let mut accepted = 0;
    while relay.submit(Box::new(instruction(1, accepted))).is_ok() {
        accepted += 1;
        assert!(accepted <= 3, "one in the stage and two in the queue");
    }
    assert!(accepted >= 2);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    relay.shut_down();
    let results: Vec<u64> = receiver.iter().collect();
    assert_eq!(results, (0..accepted).collect::<Vec<_>>());
}

/// Sends every instruction to itself twice: floods its own queue.
struct Flood;

impl Stage<Trace> for Flood {
    fn kind(&self) -> StageKind {
        StageKind::Join
    }

    fn handle(&mut self, _now_us: i64, instruction: Box<Instruction<Trace>>, outbox: &mut Outbox<Trace>) {
        if instruction.operation < 6 {
            for _ in 0..2 {
                let mut next = Instruction::new(StageKind::Join, vec![]);
                next.operation = instruction.operation + 1;
                let next = outbox.shell(next);
                outbox.send(next);
            }
        }
        outbox.forward(StageKind::SocketMonitor, instruction);
    }
}

#[test]
fn a_stage_that_floods_itself_is_refused_not_stuck() {
    let (sender, receiver) = mpsc::channel();
    let relay = ThreadedRelay::start(
        RelaySettings {
            threads_per_stage: 1,
            queue_capacity: 2,
        },
        |kind| (kind == StageKind::Join).then_some(Flood),
        move |outcome| sender.send(matches!(outcome, Outcome::Refused(_))).unwrap(),
        || 0,
    )
    .unwrap();
    let mut first = instruction(1, 0);
    first.stage = StageKind::Join;
    relay.submit(Box::new(first)).unwrap();
    let (ended, waiting) = mpsc::channel();
    let ending = std::thread::spawn(move || {
        relay.shut_down();
        ended.send(()).unwrap();
    });
    waiting
        .recv_timeout(Duration::from_secs(10))
        .expect("shut down must end");
    ending.join().unwrap();
    let outcomes: Vec<bool> = receiver.iter().collect();
    assert!(outcomes.contains(&true) && outcomes.contains(&false));
}

/// Does the transaction stage's part itself.
struct Passer;

impl Stage<Trace> for Passer {
    fn kind(&self) -> StageKind {
        StageKind::Parser
    }

    fn handle(&mut self, _now_us: i64, instruction: Box<Instruction<Trace>>, outbox: &mut Outbox<Trace>) {
        outbox.note_passed(StageKind::Transaction);
        outbox.forward(StageKind::SocketMonitor, instruction);
    }
}

#[test]
fn a_part_that_the_stage_before_has_done_is_counted() {
    let mut relay = LocalRelay::new(8);
    relay.add_stage(Passer);
    for _ in 0..3 {
        let instruction = relay.shell(Instruction::new(StageKind::Parser, Trace::new()));
        assert!(relay.submit(0, instruction).is_ok());
        relay.run(|| 0, usize::MAX);
    }
    let numbers = relay.metrics().snapshot();
    let handled = |kind: StageKind| numbers[kind.index()].handled;
    assert_eq!((handled(StageKind::Parser), handled(StageKind::Transaction)), (3, 3));
}
