//! A seeded walk: sessions send any messages in any order; each comes to an end, in order, with the right status.

use crate::world::*;
use rubato_sql::client::Request;
use rubato_stages::worker::CancelReason;

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

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
}

const SEEDS: u64 = 60;
const STEPS: usize = 60;
const SESSIONS: usize = 3;

const STATEMENTS: &[&str] = &[
    "select n from t where id = 1",
    "select id, n from t order by id",
    "select n from t where id = 2 for update",
    "select id from t order by id limit 1 for update skip locked",
    "update t set n = n + 1 where id = 1",
    "update t set n = n + 1 where n >= 0 and id = 2",
    "update t set n = n + 1",
    "update t set n = n + 1 where id < 3 returning n",
    "update many set n = n + 1 where n >= 0",
    "select count(*) from many a, t b where a.n >= b.n",
    "select pad from many order by id",
    "insert into t values (9, 0) on conflict (id) do update set n = t.n + 1",
    "insert into t values (1, 0)",
    "delete from t where id = 9",
    "select 1 / n from t where id = 3",
    "select nonsense",
    "begin",
    "commit",
    "rollback",
    "savepoint a",
    "rollback to a",
    "set statement_timeout = 0",
];

fn requests(random: &mut Random) -> Vec<Request> {
    if random.below(3) == 0 {
        let count = 1 + random.below(3);
        let script: Vec<&str> = (0..count).map(|_| random.of(STATEMENTS)).collect();
        return vec![query(&script.join("; "))];
    }
    let mut requests = Vec::new();
    for _ in 0..1 + random.below(4) {
        let portal = random.of(&["", "p", "q"]);
        match random.below(8) {
            0 => requests.push(Request::Flush),
            1 => requests.push(execute(portal, random.below(3) as u32)),
            2 => requests.push(Request::DescribePortal(portal.into())),
            3 => requests.push(Request::ClosePortal(portal.into())),
            _ => {
                requests.extend([
                    parse("", random.of(STATEMENTS)),
                    bind(portal, ""),
                    execute(portal, random.below(3) as u32),
                ]);
                if random.below(3) == 0 {
                    requests.push(Request::Flush);
                }
            }
        }
    }
    requests.push(Request::Sync);
    requests
}

/// How many ReadyForQuery the requests are answered with.
fn ends(requests: &[Request]) -> usize {
    requests
        .iter()
        .filter(|request| matches!(request, Request::Sync | Request::Query { .. }))
        .count()
}

fn check(seed: u64, sent: &str, expected_ends: usize, said: &[String]) {
    let ends: Vec<&String> = said.iter().filter(|line| line.starts_with('Z')).collect();
    assert_eq!(ends.len(), expected_ends, "seed {seed}: {sent}: {said:?}");
    assert!(
        said.last().is_some_and(|line| line.starts_with('Z')),
        "seed {seed}: {sent}: {said:?}"
    );
    // Between an error and the next ReadyForQuery nothing is answered but notices.
    let mut failed = false;
    for line in said {
        match &line[..1] {
            "Z" => failed = false,
            "E" => {
                assert!(!failed, "seed {seed}: {sent}: two errors: {said:?}");
                failed = true;
            }
            "N" => {}
            _ => assert!(!failed, "seed {seed}: {sent}: an answer behind an error: {said:?}"),
        }
    }
    // No internal error.
    assert!(
        !said.iter().any(|line| line.starts_with("E XX")),
        "seed {seed}: {sent}: {said:?}"
    );
}

fn walk(seed: u64) {
    let mut random = Random(seed);
    let mut world = World::new(SESSIONS);
    world.must(
        0,
        "create table t (id int primary key, n int not null); insert into t values (1, 0), (2, 0), (3, 0)",
    );
    world.must(0, "create table many (id int primary key, n int not null, pad text)");
    world.must(
        0,
        "insert into many select g, 0, repeat('p', 200) from generate_series(1, 2500) g",
    );
    let mut under_way: Vec<Option<(String, usize)>> = vec![None; SESSIONS];
    for step in 0..STEPS + 40 {
        world.pass(1000);
        let session = random.below(SESSIONS as u64) as usize;
        if world.is_idle(session) {
            let requests = if step < STEPS {
                requests(&mut random)
            } else {
                vec![query("rollback")]
            };
            under_way[session] = Some((format!("{requests:?}"), ends(&requests)));
            world.send(session, requests);
        } else if random.below(4) == 0 {
            world.cancel(session, CancelReason::ClientRequest);
        }
        if random.below(3) == 0 {
            world.turn();
        } else {
            world.run();
        }
        for (session, under_way) in under_way.iter_mut().enumerate() {
            if world.is_idle(session)
                && let Some((sent, ends)) = under_way.take()
            {
                let said = world.said(session);
                check(seed, &sent, ends, &said);
            }
        }
    }
    for (session, under_way) in under_way.iter().enumerate() {
        if !world.is_idle(session) {
            world.cancel(session, CancelReason::ClientRequest);
            world.run();
        }
        assert!(
            world.is_idle(session),
            "seed {seed}: session {session} hangs in {:?}",
            under_way
        );
        world.said(session);
        world.ask(session, "rollback");
    }
    assert_eq!(world.node.figures().live_transactions, 0, "seed {seed}");
}

#[test]
fn whatever_sessions_send_comes_to_its_end_in_order() {
    (0..SEEDS).for_each(walk);
}
