//! Clients that are ended, or give up what they have asked for, at each step on its way to another node and back.

use super::*;
use crate::world::{bind, execute, parse, pass};
use std::collections::VecDeque;

/// What a client has asked for last.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    CopyFrom,
    /// With more data than goes in one message.
    Data,
    CopyTo,
    Cursor,
    /// A portal of which some rows are wanted.
    Portal,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Terminated,
    Gone,
    Cancelled,
    /// So long after it was to be over.
    Late(i64),
}

const ASKED: [Asked; 5] = [
    Asked::CopyFrom,
    Asked::Data,
    Asked::CopyTo,
    Asked::Cursor,
    Asked::Portal,
];
const ENDS: [End; 5] = [
    End::Terminated,
    End::Gone,
    End::Cancelled,
    End::Late(0),
    End::Late(2_000_000),
];
const TIMEOUT_US: i64 = 50_000;
const BLOCK: &str = "BEGIN; UPDATE kept SET v = v + 1 WHERE id = 1 RETURNING v";

fn requests(asked: Asked) -> Vec<Request> {
    let rows = "SELECT id, filler FROM kept ORDER BY id";
    match asked {
        Asked::CopyFrom => vec![query("COPY loaded FROM STDIN")],
        Asked::Data => {
            let line = format!("{}\n", "x".repeat(999));
            let data = |lines| Request::CopyData(line.repeat(lines).into_bytes().into());
            vec![query("COPY loaded FROM STDIN"), data(300), data(300), data(1)]
        }
        Asked::CopyTo => vec![query("COPY kept TO STDOUT")],
        Asked::Cursor => vec![query(&format!("DECLARE c CURSOR FOR {rows}; FETCH 30 FROM c"))],
        Asked::Portal => vec![parse("", rows), bind("", ""), execute("", 30), Request::Sync],
    }
}

/// Two nodes, whose rows are all on the first one.
fn made() -> [Site; 2] {
    let mut sites = followed();
    let tables = "CREATE TABLE kept (id int PRIMARY KEY, v int, filler text) WITH (spread = false);
        CREATE TABLE loaded (line text) WITH (spread = false);
        INSERT INTO kept SELECT n, 0, repeat('x', 20000) FROM generate_series(1, 40) n";
    ask(&mut sites, tables);
    sites
}

/// Hands over what a node has to say.
fn hand_over(from: usize, sites: &mut [Site; 2]) -> usize {
    sites[from].settle();
    let said = sites[from].node.poll_outgoing();
    let messages = said.len();
    for (to, message) in said {
        sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
    }
    messages
}

/// The next of the steps that a statement takes from the second node to the first one and back.
fn step(number: usize, sites: &mut [Site; 2]) {
    let node = 1 - number / 2 % 2;
    if number % 2 == 1 {
        hand_over(node, sites);
        return;
    }
    sites[node].node.on_wake();
    sites[node].step();
}

/// The second node goes on, and the first one has no processor: it finds all that was said to it when it has one.
fn work_alone(sites: &mut [Site; 2]) {
    for _ in 0..10 {
        sites[1].node.on_wake();
        sites[1].turn();
        hand_over(1, sites);
    }
}

/// Ends what the session runs, or the session, as the server does.
fn end(how: End, site: &mut Site) {
    let id = SessionId(1);
    match how {
        End::Terminated => site.worker.cancel(id, CancelReason::Shutdown),
        End::Gone => site.worker.cancel(id, CancelReason::Disconnected),
        End::Late(by_us) => pass(TIMEOUT_US + 1 + by_us),
        End::Cancelled => {
            site.worker.cancel(id, CancelReason::ClientRequest);
            if site.idle.as_ref().is_some_and(|session| session.awaits_data()) {
                let session = site.idle.take().expect("the session");
                site.worker.submit(Work {
                    session,
                    connection: 0,
                    requests: VecDeque::new(),
                    responder: Box::new(Lines::default()),
                    durable_at: Lsn(0),
                });
                site.worker.cancel(id, CancelReason::ClientRequest);
            }
        }
    }
    site.turn();
}

/// A session that is to end does when it runs nothing.
fn leave(how: End, site: &mut Site) {
    let is_open = site.idle.as_ref().is_some_and(|session| !session.is_over());
    if is_open && matches!(how, End::Terminated | End::Gone) {
        site.request([Request::Terminate]);
    }
}

/// What the client says behind it, if it is still there.
fn go_on(sites: &mut [Site; 2], context: &str) {
    let Some(session) = &sites[1].idle else {
        panic!("it goes on: {context}");
    };
    if session.awaits_data() {
        sites[1].request([Request::CopyFail("enough".to_owned())]);
        work(sites);
    }
    ask_at(1, sites, "ROLLBACK");
}

fn assert_nothing_is_left(sites: &mut [Site; 2], context: &str) {
    let live = sites.each_ref().map(|site| site.node.figures().node.live_transactions);
    assert_eq!(live, [0, 0], "{context}");
    let free = ask(sites, "SELECT v FROM kept WHERE id = 1 FOR UPDATE NOWAIT");
    assert!(free.contains(&"D 0".to_owned()), "{context}: {free:?}");
}

/// Gives up what was asked for after so many steps. False if it was over before.
fn give_up(before: &str, asked: Asked, how: End, steps: usize, is_alone: bool) -> bool {
    let mut sites = made();
    if matches!(how, End::Late(_)) {
        let timeout = format!("SET statement_timeout = {}", TIMEOUT_US / 1000);
        ask_at(1, &mut sites, &timeout);
    }
    if !before.is_empty() {
        let told = ask_at(1, &mut sites, before);
        assert!(told.contains(&"D 1".to_owned()), "{told:?}");
    }
    sites[1].request(requests(asked));
    (0..steps).for_each(|number| step(number, &mut sites));
    let is_under_way = sites[1].idle.is_none();
    let context = format!("{before:?}, {asked:?}, {how:?} after {steps} steps, {is_alone}");
    end(how, &mut sites[1]);
    for _ in 0..2 {
        leave(how, &mut sites[1]);
        match is_alone {
            true => work_alone(&mut sites),
            false => work(&mut sites),
        }
    }
    work(&mut sites);
    let said = sites[1].said();
    let context = format!(
        "{context}: {:?}",
        said.iter().filter(|said| said.len() < 100).collect::<Vec<_>>()
    );
    let has_failed = said.iter().any(|said| said.starts_with("E 57014"));
    if matches!(how, End::Cancelled | End::Late(_)) {
        // Who has failed holds nothing up, whatever the client says next and when.
        if has_failed {
            assert_nothing_is_left(&mut sites, &context);
        }
        go_on(&mut sites, &context);
    }
    assert_nothing_is_left(&mut sites, &context);
    is_under_way
}

fn give_up_at_each_step(before: &str, asked: Asked) {
    for how in ENDS {
        for is_alone in [false, true] {
            let under_way = (0..40).take_while(|steps| give_up(before, asked, how, *steps, is_alone));
            assert!(under_way.count() > 2, "{asked:?} {how:?}");
        }
    }
}

/// A session elsewhere was dropped with its transaction when its client left while a COPY was on its way there.
#[test]
fn who_is_ended_while_a_copy_is_passed_on_holds_nothing_up() {
    give_up_at_each_step(BLOCK, Asked::CopyFrom);
    give_up_at_each_step(BLOCK, Asked::Data);
    give_up_at_each_step("", Asked::CopyFrom);
    give_up_at_each_step("", Asked::Data);
}

#[test]
fn who_is_ended_while_rows_come_from_elsewhere_holds_nothing_up() {
    for asked in ASKED.into_iter().skip(2) {
        give_up_at_each_step(BLOCK, asked);
    }
    give_up_at_each_step("", Asked::CopyTo);
}

/// The block goes back to its savepoint, from wherever its COPY was.
#[test]
fn a_block_whose_copy_was_given_up_elsewhere_goes_back_to_its_savepoint() {
    for asked in [Asked::CopyFrom, Asked::Data] {
        for steps in 0..12 {
            let mut sites = made();
            ask_at(1, &mut sites, &format!("{BLOCK}; SAVEPOINT s"));
            sites[1].request(requests(asked));
            (0..steps).for_each(|number| step(number, &mut sites));
            end(End::Cancelled, &mut sites[1]);
            work(&mut sites);
            let told = sites[1].said();
            assert!(
                told.iter().any(|told| told.starts_with("E 57014")),
                "{asked:?} {steps}: {told:?}"
            );
            let told = ask_at(
                1,
                &mut sites,
                "ROLLBACK TO s; UPDATE kept SET v = v + 10 WHERE id = 1; COMMIT",
            );
            assert!(told.contains(&"C COMMIT".to_owned()), "{asked:?} {steps}: {told:?}");
            let told = ask(
                &mut sites,
                "SELECT v, (SELECT count(*) FROM loaded) FROM kept WHERE id = 1",
            );
            assert_eq!(told[1], "D 11|0", "{asked:?} {steps}");
        }
    }
}

/// What a client has sent behind a statement counts on it: when it has gone, that is not done without.
#[test]
fn nothing_is_done_behind_a_statement_whose_client_has_gone() {
    for how in [End::Gone, End::Terminated] {
        let mut sites = made();
        ask(&mut sites, "BEGIN; SELECT v FROM kept WHERE id = 1 FOR UPDATE");
        let moved = [
            "UPDATE kept SET v = v - 1 WHERE id = 1 RETURNING v",
            "UPDATE kept SET v = v + 1 WHERE id = 2",
        ];
        sites[1].request(moved.map(query));
        work(&mut sites);
        assert!(sites[1].idle.is_none(), "it waits");
        end(how, &mut sites[1]);
        work(&mut sites);
        ask(&mut sites, "COMMIT");
        assert!(
            sites[1].idle.as_ref().is_some_and(|session| session.is_over()),
            "{how:?}"
        );
        let rows = ask(&mut sites, "SELECT v FROM kept WHERE id IN (1, 2)");
        assert_eq!(rows[1..3], ["D 0", "D 0"], "{how:?}");
    }
}
