//! Rows of other nodes that a statement looks at, and takes if nobody has come before it.

use super::definitions::come_to_rest;
use super::*;
use crate::world::pass;
use std::collections::VecDeque;

/// Both work until `messages` have been delivered; the others stay in their order.
fn work_until(sites: &mut [Site; 2], messages: usize) -> (bool, VecDeque<(usize, NodeId, GridMessage)>) {
    let (mut left, mut delivered) = (VecDeque::new(), 0);
    for _ in 0..300 {
        for (from, site) in sites.iter_mut().enumerate() {
            site.node.on_wake();
            site.settle();
            let outgoing = site.node.poll_outgoing().into_iter();
            left.extend(outgoing.map(|(to, message)| (from, to, message)));
        }
        while let Some((from, to, message)) = left.pop_front() {
            if delivered == messages {
                left.push_front((from, to, message));
                return (true, left);
            }
            delivered += 1;
            sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
        }
        sites.iter_mut().for_each(Site::turn);
    }
    (false, left)
}

fn taken(told: &[String]) -> Vec<String> {
    let rows = told.iter().filter_map(|line| line.strip_prefix("D "));
    rows.map(str::to_owned).collect()
}

/// A client of node 0 takes jobs of node 1, where another takes one of them behind each message: none is taken twice.
#[test]
fn a_job_of_another_node_is_taken_once() {
    const TAKE: &str = "UPDATE jobs SET st = 'taken' WHERE id IN
        (SELECT id FROM jobs WHERE st = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING id";
    for index in ["", "CREATE INDEX ON jobs (st)"] {
        for messages in 1.. {
            let mut sites = followed();
            let made = "CREATE TABLE jobs (id int PRIMARY KEY, st text) WITH (spread = true)";
            ask_at(0, &mut sites, made);
            ask_at(0, &mut sites, index);
            ask_at(
                0,
                &mut sites,
                "INSERT INTO jobs SELECT n, 'new' FROM generate_series(1, 6) n",
            );
            come_to_rest(&mut sites);
            // It has its tick already.
            ask_at(1, &mut sites, "BEGIN; SELECT 1 FROM jobs WHERE id = 5");
            sites[0].send(TAKE);
            let (is_cut, left) = work_until(&mut sites, messages);
            sites[1].send("UPDATE jobs SET st = 'mine' WHERE id = 1 AND st = 'new' RETURNING id; COMMIT");
            for _ in 0..20 {
                pass(10_000);
                sites[1].node.on_wake();
                sites[1].settle();
                sites[1].turn();
            }
            for (from, to, message) in left {
                sites[to.0 as usize].node.on_message(NodeId(from as u32), message);
            }
            come_to_rest(&mut sites);
            let (here, there) = (sites[0].said(), sites[1].said());
            let twice = taken(&here).iter().any(|id| taken(&there).contains(id));
            assert!(!twice, "{index} {messages}: {here:?} and {there:?}");
            let is_refused = here.iter().any(|line| line.starts_with("E 40001"));
            assert!(is_refused || taken(&here).len() == 2, "{index} {messages}: {here:?}");
            if !is_cut {
                break;
            }
        }
    }
}
