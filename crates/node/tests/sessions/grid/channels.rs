//! What is told on channels, heard on other nodes.

use super::blocks::made;
use super::*;

/// What is heard there, if no time passes.
fn heard_at_once(sites: &mut [Site; 2], node: usize) -> Vec<String> {
    talk(sites);
    sites[node].request([Request::Deliver]);
    sites[node].said()
}

#[test]
fn what_waits_for_the_log_is_heard_before_what_was_told_after_it() {
    let mut sites = made();
    ask_at(1, &mut sites, "LISTEN news");
    // The commit record is not forced yet when the second one is told, which waits for nothing.
    sites[0].send("BEGIN; UPDATE stock SET v = v - 1 WHERE id = 2; NOTIFY news, 'first'; COMMIT");
    let (mut worker, session) = enter_as(SessionId(2), &sites[0].node);
    worker.submit(Work {
        session,
        connection: 1,
        requests: [query("NOTIFY news, 'second'")].into(),
        responder: Box::new(Lines::default()),
        durable_at: Lsn(0),
    });
    worker.run(clock_us());
    let told = heard_at_once(&mut sites, 1);
    let words: Vec<&str> = told.iter().filter_map(|line| line.split(' ').next_back()).collect();
    assert_eq!(words, ["first", "second"], "{told:?}");
    // More than is told again at once, and no time passes.
    disconnect(&mut sites);
    let many: String = (0..700)
        .map(|n| format!("BEGIN; NOTIFY news, 'n{n}'; COMMIT;"))
        .collect();
    ask_at(0, &mut sites, &many);
    (0..2).for_each(|node| sites[node].node.on_node_up(NodeId(1 - node as u32)));
    sites[0].send("NOTIFY news, 'last'");
    let told = heard_at_once(&mut sites, 1);
    assert_eq!(told.len(), 701);
    assert!(told[700].ends_with("last"), "{:?}", told[700]);
}

/// Of what a node that cannot be reached has to hear, 8 MiB are kept, the newest; and no more is on the way to one at a time than it takes.
#[test]
fn what_is_kept_for_a_node_that_is_away_is_bounded_in_bytes() {
    let mut sites = made();
    ask_at(1, &mut sites, "LISTEN news");
    let each = 10 * 8_000;
    let told_by =
        |n: usize| format!("SELECT pg_notify('news', '{n} ' || g || repeat('x', 7900)) FROM generate_series(1, 10) g");
    for (is_away, count) in [(true, 200), (false, 60)] {
        if is_away {
            disconnect(&mut sites);
        }
        for n in 0..count {
            sites[0].tell(&told_by(n));
        }
        (0..2).for_each(|node| sites[node].node.on_node_up(NodeId(1 - node as u32)));
        let heard = heard_at_once(&mut sites, 1);
        let of = |line: &String| {
            line.split("news ")
                .nth(1)
                .and_then(|told| told.split(' ').next()?.parse::<usize>().ok())
        };
        let numbers: Vec<usize> = heard.iter().filter_map(of).collect();
        assert!(
            numbers.is_sorted() && numbers.last() == Some(&(count - 1)),
            "{numbers:?}"
        );
        match is_away {
            true => assert!(
                (90..=110).contains(&(numbers.len() / 10)),
                "{} of {each} bytes",
                numbers.len()
            ),
            false => assert_eq!(numbers.len(), 10 * count),
        }
    }
}
