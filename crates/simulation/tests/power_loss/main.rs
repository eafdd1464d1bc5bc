//! Power loss, simulated: several sessions move money, count, insert and delete on one node in one thread; at some operation of
//! the disk the power goes, anywhere in a commit, a checkpoint or a recovery; what was not forced is dropped or torn. After each
//! restart every acknowledged transaction is there as a whole, and of the others each as a whole or not at all.
//!
//! Every transaction writes down in the table `done` what it has done: all the other tables must say the same.

mod client;

use client::{Answer, Clients};
use rubato_base::Value;
use rubato_log::{Faults, Options, PowerLoss};
use rubato_node::{Node, NodeSettings, verify};
use rubato_simulation::disk::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const ACCOUNTS: i64 = 12;
const SEEDS: u64 = 400;
const TIME_MAX: Duration = Duration::from_secs(20);
const STEP_US: i64 = 20_000;

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What is known of the transactions, by number.
#[derive(Default)]
struct Known {
    acknowledged: BTreeSet<i64>,
    refused: BTreeSet<i64>,
    /// The largest number that a sequence was seen to give.
    last_serial: i64,
    /// Ids that the comparisons themselves have asked for: their transactions have committed.
    asked_ids: BTreeSet<i64>,
    next: i64,
}

#[derive(Default, Debug)]
struct Tally {
    lives: u64,
    acknowledged: u64,
    in_doubt_kept: u64,
    in_doubt_lost: u64,
    in_recovery: u64,
    checkpoints: u64,
    torn_tails: u64,
}

fn settings(random: &mut Random) -> NodeSettings {
    // From so little that rows leave all the time to so much that none does.
    let memory_bytes = 60_000 << random.below(5);
    NodeSettings {
        memory_bytes,
        ..NodeSettings::default()
    }
}

fn log_options() -> Options {
    Options {
        segment_bytes: 32 * 1024,
        segment_bytes_first: 12 * 1024,
        reserve_bytes: 1024,
        prepare_in_background: false,
        ..Options::default()
    }
}

const SCHEMA: &str = "create table account (id int primary key, balance bigint not null);
    create table hot (id int primary key, n int not null, m int not null);
    create table done (tx int primary key, kind text not null, a int, b int, amount int, id bigint);
    create index on done (kind, tx);
    create table keyless (tx int, part int);
    create table come_and_go (id int primary key, tx int not null);
    create table numbered (id serial primary key, tx int not null);
    insert into hot values (1, 0, 0)";

fn start_tables(clients: &mut Clients) {
    let accounts: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, 1000)")).collect();
    let sql = format!("{SCHEMA}; insert into account values {}", accounts.join(", "));
    let answer = ask(clients, &sql);
    assert!(answer.error.is_none(), "{:?}", answer.error);
}

/// A script of one session, with nothing else going on.
fn ask(clients: &mut Clients, sql: &str) -> Answer {
    clients.submit(0, sql.to_owned());
    for step in 0..1_000 {
        let mut answers = clients.run(i64::from(step) * STEP_US);
        if answers.is_empty() {
            answers = clients.force();
        }
        if let Some((_, answer)) = answers.pop() {
            return answer;
        }
    }
    panic!("no answer to {sql}");
}

fn integers(clients: &mut Clients, sql: &str) -> Vec<Vec<i64>> {
    let answer = ask(clients, sql);
    assert!(answer.error.is_none(), "{sql}: {:?}", answer.error);
    let integer = |value: &Value| value.as_i64().unwrap_or(-1);
    answer
        .rows
        .iter()
        .map(|row| row.iter().map(integer).collect())
        .collect()
}

/// The script of transaction `tx`.
fn script(tx: i64, random: &mut Random) -> String {
    let (a, amount) = (random.below(ACCOUNTS as u64) as i64, random.below(50) as i64);
    let b = (a + 1 + random.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
    let done = |kind: &str, a: i64, b: i64, amount: i64| {
        // Every other one asks for its id.
        let id = if tx % 2 == 0 { "pg_current_xact_id()" } else { "null" };
        format!("insert into done values ({tx}, '{kind}', {a}, {b}, {amount}, {id})")
    };
    let add = |id: i64, amount: i64| format!("update account set balance = balance + {amount} where id = {id}");
    match random.below(9) {
        0..=2 => format!(
            "begin; {}; {}; {}; commit",
            add(a, -amount),
            add(b, amount),
            done("move", a, b, amount)
        ),
        3 => format!(
            "begin; select balance from account where id = {a} for update; {}; {}; {}; commit",
            add(b, amount),
            add(a, -amount),
            done("move", a, b, amount)
        ),
        4 => format!(
            "{}; update hot set n = n + 1, m = m - 1 where id = 1",
            done("count", 0, 0, 1)
        ),
        5 => {
            let values: Vec<String> = (0..amount).map(|part| format!("({tx}, {part})")).collect();
            let many = if values.is_empty() {
                "select 1".into()
            } else {
                format!("insert into keyless values {}", values.join(","))
            };
            format!("begin; {many}; {}; commit", done("many", 0, 0, amount))
        }
        6 => format!(
            "begin; delete from come_and_go where id = {a}; {}; commit",
            done("go", a, 0, 0)
        ),
        7 => format!(
            "begin; insert into come_and_go values ({a}, {tx}) on conflict (id) do update set tx = {tx}; {}; commit",
            done("come", a, 0, 0)
        ),
        _ => format!(
            "begin; insert into numbered (tx) values ({tx}) returning id; {}; commit",
            done("number", 0, 0, 0)
        ),
    }
}

fn note(known: &mut Known, tally: &mut Tally, tx: i64, answer: &Answer) {
    if answer.error.is_some() {
        known.refused.insert(tx);
        return;
    }
    known.acknowledged.insert(tx);
    tally.acknowledged += 1;
}

/// One life of the node: until the power goes, or for a while.
fn live(disk: &Disk, node: &Node, known: &mut Known, random: &mut Random, tally: &mut Tally) {
    let mut workers = [Clients::new(node, 0, 2), Clients::new(node, 1, 2)];
    let mut under_way: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    disk.power.goes_after(random.below(250));
    let mut now_us = 0;
    for _ in 0..400 {
        now_us += STEP_US;
        let at = random.below(2) as usize;
        let answers = match random.below(12) {
            0..=4 => {
                let session = random.below(workers[at].count() as u64) as usize;
                if workers[at].is_idle(session) {
                    known.next += 1;
                    workers[at].submit(session, script(known.next, random));
                    under_way.insert((at, session), known.next);
                }
                Vec::new()
            }
            5..=8 => workers[at].run(now_us),
            9 => workers[at].force(),
            10 => {
                if random.below(3) == 0 {
                    tally.checkpoints += u64::from(node.checkpoint().is_ok());
                }
                node.look_after_log();
                Vec::new()
            }
            _ => {
                // The disk fails for once and works again.
                if random.below(8) == 0 {
                    let failing_forces = random.below(2) as u32;
                    disk.log.set_faults(Faults {
                        failing_forces,
                        ..Faults::default()
                    });
                }
                Vec::new()
            }
        };
        for (session, answer) in answers {
            let tx = under_way.remove(&(at, session)).expect("it was under way");
            note(known, tally, tx, &answer);
        }
        if disk.power.is_gone() {
            break;
        }
    }
    disk.log.set_faults(Faults::default());
    drop(workers);
}

/// What all tables say together, after a restart.
fn compare(clients: &mut Clients, known: &mut Known, tally: &mut Tally) {
    let kinds = ask(clients, "select tx, kind, a, b, amount from done order by tx");
    let mut balances = vec![1000; ACCOUNTS as usize];
    let (mut counted, mut many, mut numbered) = (0, BTreeMap::new(), BTreeSet::new());
    let mut there = BTreeSet::new();
    for row in &kinds.rows {
        let field = |at: usize| row[at].as_i64().unwrap_or(0);
        let (tx, a, b, amount) = (field(0), field(2), field(3), field(4));
        assert!(there.insert(tx));
        match &row[1] {
            kind if *kind == Value::text("move") => {
                balances[a as usize] -= amount;
                balances[b as usize] += amount;
            }
            kind if *kind == Value::text("count") => counted += 1,
            kind if *kind == Value::text("many") && amount > 0 => drop(many.insert(tx, amount)),
            kind if *kind == Value::text("number") => drop(numbered.insert(tx)),
            _ => {}
        }
    }
    let lost: Vec<_> = known.acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let invented: Vec<_> = known.refused.intersection(&there).collect();
    assert!(invented.is_empty(), "refused and there: {invented:?}");
    let seen: Vec<i64> = integers(clients, "select balance from account order by id").concat();
    assert_eq!(seen, balances, "balances");
    assert_eq!(
        integers(clients, "select n, m from hot"),
        [[counted, -counted]],
        "the hot row"
    );
    let seen = integers(clients, "select tx, count(*) from keyless group by tx order by tx");
    let expected: Vec<Vec<i64>> = many.into_iter().map(|(tx, count)| vec![tx, count]).collect();
    assert_eq!(seen, expected, "rows without a key");
    let seen: BTreeSet<i64> = integers(clients, "select tx from numbered")
        .concat()
        .into_iter()
        .collect();
    assert_eq!(seen, numbered, "numbered rows");
    let owners = integers(clients, "select tx from come_and_go").concat();
    assert!(
        owners.iter().all(|tx| there.contains(tx)),
        "rows of transactions that are not there"
    );
    let by_index = integers(clients, "select count(*) from done where kind = 'move'");
    let by_scan = integers(clients, "select count(*) from done where kind || '' = 'move'");
    assert_eq!(by_index, by_scan, "the index");
    numbers_go_on(clients, known);
    outcomes_agree(clients, known);
    let in_doubt = |tx: &i64| !known.acknowledged.contains(tx) && !known.refused.contains(tx);
    tally.in_doubt_kept += there.iter().filter(|tx| in_doubt(tx)).count() as u64;
    tally.in_doubt_lost += (1..=known.next)
        .filter(|tx| in_doubt(tx) && !there.contains(tx))
        .count() as u64;
    // Recovery has forced what it found, and what it did not find is gone for good.
    known.refused = (1..=known.next).filter(|tx| !there.contains(tx)).collect();
    known.acknowledged = there;
}

/// Sequences and row numbers are not given twice.
fn numbers_go_on(clients: &mut Clients, known: &mut Known) {
    let last = integers(clients, "select coalesce(max(id), 0) from numbered")[0][0];
    assert!(last >= known.last_serial || known.last_serial > 0);
    let next = integers(clients, "select nextval('numbered_id_seq')")[0][0];
    assert!(
        next > last && next > known.last_serial,
        "{next} was given before ({last}, {})",
        known.last_serial
    );
    known.last_serial = next;
    let answer = ask(clients, "begin; insert into keyless values (0, 0); rollback");
    assert!(
        answer.error.is_none(),
        "a row number was given twice: {:?}",
        answer.error
    );
}

/// An id is that of a committed transaction if and only if its row is there, and none is given twice.
fn outcomes_agree(clients: &mut Clients, known: &mut Known) {
    let next = integers(clients, "select pg_current_xact_id()")[0][0];
    let mut expected: BTreeSet<i64> = known.asked_ids.clone();
    let written = integers(clients, "select id from done where id is not null").concat();
    for id in written {
        assert!(expected.insert(id), "id {id} was given twice");
    }
    assert!(expected.last().is_none_or(|last| *last < next), "id {next} comes late");
    let sql = format!(
        "select g from generate_series(1000, {}) g where pg_xact_status(g) = 'committed'",
        next - 1
    );
    let committed: BTreeSet<i64> = integers(clients, &sql).concat().into_iter().collect();
    assert_eq!(committed, expected, "outcomes");
    let sql = format!("select count(*) from generate_series(1000, {next}) g where pg_xact_status(g) = 'in progress'");
    assert_eq!(integers(clients, &sql), [[0]], "nobody is in progress after a restart");
    known.asked_ids.insert(next);
}

fn open(disk: &Disk, settings: NodeSettings) -> rubato_base::Result<Node> {
    let (node, _) = Node::open(disk.store(), disk.directory(), log_options(), settings)?;
    Ok(node)
}

fn lose_power(disk: &Disk, random: &mut Random) {
    let loss = match random.below(5) {
        0 => PowerLoss::DropAll,
        1 => PowerLoss::KeepAll,
        _ => PowerLoss::Torn(random.below(u64::MAX)),
    };
    let unforced_calls = disk.rows.unforced_calls() as u64;
    disk.power_comes_back(loss, random.below(unforced_calls + 1) as usize);
}

/// Opens the node, losing the power while it recovers now and then.
fn reopen(disk: &Disk, random: &mut Random, tally: &mut Tally) -> Node {
    for _ in 0..random.below(3) {
        disk.power.goes_after(random.below(25));
        let opened = open(disk, settings(random));
        tally.in_recovery += u64::from(opened.is_err());
        drop(opened);
        lose_power(disk, random);
    }
    let found = verify(&disk.store(), disk.directory()).expect("what is there can be recovered");
    tally.torn_tails += u64::from(found.replayed > 0);
    open(disk, settings(random)).expect("opens")
}

fn run_seed(seed: u64, tally: &mut Tally) {
    let mut random = Random(seed);
    let disk = Disk::default();
    let mut known = Known::default();
    let node = open(&disk, settings(&mut random)).expect("opens");
    start_tables(&mut Clients::new(&node, 0, 1));
    let mut node = Some(node);
    for _ in 0..3 {
        if let Some(node) = node.take() {
            live(&disk, &node, &mut known, &mut random, tally);
        }
        lose_power(&disk, &mut random);
        let opened = reopen(&disk, &mut random, tally);
        compare(&mut Clients::new(&opened, 0, 1), &mut known, tally);
        tally.lives += 1;
        node = Some(opened);
    }
}

#[test]
fn what_is_acknowledged_survives_and_nothing_is_there_by_halves() {
    let begin = Instant::now();
    let mut tally = Tally::default();
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    // SEED runs one seed, SEEDS so many, however long that takes.
    let (first, wanted) = (number("SEED"), number("SEEDS"));
    let seeds = first.map_or(0..wanted.unwrap_or(SEEDS), |seed| seed..seed + 1);
    let mut run = 0;
    for seed in seeds {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_seed(seed, &mut tally)));
        if let Err(panic) = result {
            println!("failing seed: {seed} (run it alone with SEED={seed})");
            std::panic::resume_unwind(panic);
        }
        run += 1;
        if wanted.is_none() && begin.elapsed() > TIME_MAX {
            break;
        }
    }
    println!("{run} seeds in {:.1} s: {tally:?}", begin.elapsed().as_secs_f64());
    assert!(
        first.is_some() || tally.acknowledged > run * 5,
        "the runs prove little: {tally:?}"
    );
    assert!(
        first.is_some() || (tally.in_doubt_kept > run / 10 && tally.in_doubt_lost > run / 10),
        "{tally:?}"
    );
    assert!(
        first.is_some() || (tally.checkpoints > run && tally.in_recovery > run / 10),
        "{tally:?}"
    );
}
