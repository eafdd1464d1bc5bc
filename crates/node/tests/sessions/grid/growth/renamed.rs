//! Tables that change their names in one transaction, and who has asked for rows of them before his node heard of it.

use super::*;

/// Links between nodes that hold what is said, until it is asked for.
#[derive(Default)]
struct Held {
    links: Vec<(usize, usize)>,
    said: Vec<(usize, usize, GridMessage)>,
}

impl Held {
    /// What was said on a link, which holds no more.
    fn take(&mut self, link: (usize, usize)) -> Vec<(NodeId, GridMessage)> {
        self.links.retain(|held| *held != link);
        let said = self.said.extract_if(.., |(from, to, _)| (*from, *to) == link);
        said.map(|(from, _, message)| (NodeId(from as u32), message)).collect()
    }
}

impl Sites {
    /// Hands over so many messages at most, but for those that are held. Who has more to say is held too.
    /// False if nobody has.
    fn talk_but(&mut self, held: &mut Held, mut left: usize) -> bool {
        for _ in 0..60 {
            pass(1_000);
            for from in self.there() {
                self.at(from).node.on_timer(clock_us());
                self.at(from).node.on_wake();
                self.at(from).turn();
                self.at(from).settle();
                for (to, message) in self.at(from).node.poll_outgoing() {
                    let to = to.0 as usize;
                    if left == 0 || held.links.contains(&(from, to)) {
                        held.links.push((from, to));
                        held.said.push((from, to, message));
                    } else {
                        left -= 1;
                        self.at(to).node.on_message(NodeId(from as u32), message);
                    }
                }
                if left == 0 {
                    return true;
                }
            }
        }
        false
    }

    /// Only these links hold what is said from now on.
    fn hold(&mut self, held: &mut Held, links: &[(usize, usize)]) {
        held.links = links.to_vec();
        for (from, to, message) in std::mem::take(&mut held.said) {
            if links.contains(&(from, to)) {
                held.said.push((from, to, message));
            } else {
                self.at(to).node.on_message(NodeId(from as u32), message);
            }
        }
    }
}

/// What a client of node 3 reads of rows that node 1 has: one of a table, and how often its name has been given to another. It asks
/// behind so many messages of such a change, and is not heard. Behind so many more node 1 hears nothing of node 0, and then all of it in
/// one frame, and what it is asked. Nothing if the change is over by then.
fn read_beside(begun: usize, messages: usize, is_turned: bool) -> Option<String> {
    let mut sites = Sites::of(4);
    for table in ["shown", "hidden", "counter"] {
        let made = format!("CREATE TABLE {table} (id int PRIMARY KEY, v int) WITH (spread = true)");
        sites.ask(0, &made);
    }
    sites.ask(
        0,
        "INSERT INTO shown VALUES (1, 0); INSERT INTO hidden VALUES (1, 1); INSERT INTO counter VALUES (1, 0)",
    );
    sites.rest();
    let rows_on = |node| ["shown", "hidden", "counter"].map(|table| sites.rows_on(node, table));
    assert_eq!([1, 3].map(rows_on), [[1, 1, 1], [0, 0, 0]]);
    let change = "BEGIN; ALTER TABLE shown RENAME TO spare; ALTER TABLE hidden RENAME TO shown;
                  ALTER TABLE spare RENAME TO hidden; UPDATE counter SET v = v + 1; COMMIT";
    let read = "SELECT (SELECT v FROM shown WHERE id = 1), (SELECT v FROM counter WHERE id = 1)";
    let (asked, told) = ((3, 1), (0, 1));
    let mut held = Held::default();
    sites.at(0).send(change);
    if !sites.talk_but(&mut held, begun) {
        return None;
    }
    sites.hold(&mut held, &[asked]);
    sites.at(3).send(read);
    if !sites.talk_but(&mut held, messages) {
        return None;
    }
    sites.hold(&mut held, &[asked, told]);
    sites.talk_but(&mut held, usize::MAX);
    let mut frame = held.take(told);
    if is_turned {
        frame.reverse();
    }
    sites.at(1).node.on_messages(frame);
    sites.at(1).node.on_messages(held.take(asked));
    sites.come_to_an_end(0, change);
    sites.come_to_an_end(3, read);
    sites.at(3).said().into_iter().find(|told| told.starts_with("D "))
}

/// Rule R-8: a node that hears of the change's decision and of the keeper's catalogs at once, in one order or the other, tells who has
/// not heard of either.
#[test]
fn who_asks_for_rows_of_a_table_that_has_another_name_by_then_reads_one_moment() {
    for is_turned in [false, true] {
        let mut read = [0; 2];
        for (begun, messages) in (17..=29)
            .step_by(4)
            .flat_map(|begun| (5..25).step_by(2).map(move |messages| (begun, messages)))
        {
            match read_beside(begun, messages, is_turned).as_deref() {
                Some("D 0|0") => read[0] += 1,
                Some("D 1|1") => read[1] += 1,
                None => {}
                other => panic!("behind {begun} and {messages} messages: {other:?}"),
            }
        }
        assert!(read[0] > 0 && read[1] > 0, "{read:?}");
    }
}
