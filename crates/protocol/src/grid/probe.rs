//! Circles of waits over several partitions, found by probes that go along the waits.
//!
//! Rule Q-5. A participant tells the coordinator of a branch when the branch comes to wait for another one ([`super::Reply::Waits`]), and
//! that other one's that somebody waits for it ([`super::Reply::Awaited`]). A transaction of which its coordinator knows both may be in a
//! circle, and has a probe sent: the participant where it waits says who stands ahead of it now, that one's coordinator says where that one
//! waits, and so on. A probe that comes to a transaction which it has come through has found a circle, and the youngest transaction that
//! leads in it from one partition to another is rolled back; the oldest never is. (Chandy, Misra and Haas: *Distributed deadlock detection*,
//! 1983, for waits of which all have to end.) One that has followed [`LINE_MAX`] waits has found a line that is too long, and its youngest
//! goes: whoever waits in a long line has others wait for what he holds, until hardly anybody works. (Franaszek, Robinson and Thomasian:
//! *Concurrency control for high contention environments*, 1992, with lines of one wait.)
//!
//! All transactions of a circle stay as they are. When the last of them has come to wait, and its coordinator knows both, all others are
//! known to wait, and so the probe which it sends then comes round. What is lost is made good by time: probes are sent again
//! ([`is_due`]), ever more seldom.

use crate::sketch::Sketch;
use rubato_base::{GlobalId, NodeId};

/// A transaction that waits, and on which partition it was seen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The transaction.
    pub transaction: GlobalId,
    /// Where it waits for the next one.
    pub at: NodeId,
}

/// So many waits in a row are a line that is too long. Those who lock rows in one order stand in shorter ones, if no more than so many rows
/// are wanted by all of them. Simulated TPC-C on 16 nodes with 30 % remote, 1280 terminals: 44,600 transactions a second and 108 retries with
/// 2, 44,300 and 22 with 6, 43,600 and 20 with 8, 38,000 and 17 with 16, and 20,200 and 11 where only circles are ended (decision 0058).
const LINE_MAX: usize = 6;

/// How many waits a probe may follow, in all directions together.
pub const PROBE_STEPS_MAX: u32 = 64;

/// What goes along waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Each waits for the next, and the last for the transaction that the message is about.
    pub path: Vec<Waiter>,
    /// How many waits more may be followed.
    pub steps: u32,
}

/// What is said of waits between transactions.
#[derive(Clone, Debug, PartialEq)]
pub enum Waiting {
    /// To the participant where the transaction waits: who stands ahead of it?
    Ahead(Probe),
    /// To the coordinator of the transaction: these wait for it. Does it wait, too?
    Behind(Probe),
    /// To the coordinator of the transaction: it is to be rolled back, since it is in a circle.
    GiveWay,
}

/// Whether it is time for a probe again, so many timers after the transaction has come to wait.
pub(super) fn is_due(rounds: u32) -> bool {
    rounds >= 2 && rounds.is_power_of_two()
}

impl Probe {
    /// One more step, in so many directions, which share what is left; none if there are no more.
    pub(super) fn step(mut self, waiter: Waiter, directions: u32) -> Option<Probe> {
        self.steps = self.steps.checked_sub(1)?.checked_div(directions)?;
        self.path.push(waiter);
        Some(self)
    }

    /// What is to be said where the last one of the path waits for this transaction: to whose coordinator, and what.
    ///
    /// Who gives way has to wait on another partition than that on which it is waited for: if another one went, those behind it would wait
    /// for those ahead of it.
    pub(super) fn go_on(self, next: GlobalId) -> Option<(GlobalId, Waiting)> {
        let give_way = |youngest| (youngest, Waiting::GiveWay);
        match self.path.iter().position(|waiter| waiter.transaction == next) {
            Some(from) => {
                let circle = &self.path[from..];
                youngest_leading_on(circle, &[&circle[circle.len() - 1..], circle].concat()).map(give_way)
            }
            None => {
                let is_long = self.path.len() >= LINE_MAX;
                let youngest = youngest_leading_on(self.path.get(1..).unwrap_or_default(), &self.path);
                let goes_on = (next, Waiting::Behind(self));
                Some(youngest.filter(|_| is_long).map_or(goes_on, give_way))
            }
        }
    }

    fn sketch(&self, sketch: &mut Sketch) {
        sketch.number(u64::from(self.steps));
        sketch.number(self.path.len() as u64);
        for waiter in &self.path {
            sketch.stamp(waiter.transaction.tick);
            sketch.number(u64::from(waiter.at.0));
        }
    }
}

/// The youngest of those that wait elsewhere than the one behind each, at the same place in `behind`, does.
fn youngest_leading_on(waiters: &[Waiter], behind: &[Waiter]) -> Option<GlobalId> {
    let pairs = waiters.iter().zip(behind);
    let leading = pairs.filter(|(waiter, behind)| waiter.at != behind.at);
    leading.map(|(waiter, _)| waiter.transaction).max()
}

impl Waiting {
    pub(super) fn sketch(&self, sketch: &mut Sketch) {
        match self {
            Waiting::Ahead(probe) => {
                sketch.number(201);
                probe.sketch(sketch);
            }
            Waiting::Behind(probe) => {
                sketch.number(202);
                probe.sketch(sketch);
            }
            Waiting::GiveWay => sketch.number(203),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rubato_base::Timestamp;

    fn global(n: u64) -> GlobalId {
        GlobalId {
            tick: Timestamp(n << 16),
            coordinator: NodeId(0),
        }
    }

    fn probe(path: &[(u64, u32)]) -> Probe {
        let waiter = |(n, at): &(u64, u32)| Waiter {
            transaction: global(*n),
            at: NodeId(*at),
        };
        Probe {
            path: path.iter().map(waiter).collect(),
            steps: PROBE_STEPS_MAX,
        }
    }

    /// Who gives way if the last of these waits for transaction `next`; none if the probe goes on to that one.
    fn gives_way(path: &[(u64, u32)], next: u64) -> Option<GlobalId> {
        match probe(path).go_on(global(next)) {
            Some((youngest, Waiting::GiveWay)) => Some(youngest),
            Some((transaction, Waiting::Behind(same))) => {
                assert_eq!((transaction, same), (global(next), probe(path)));
                None
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_youngest_of_a_circle_that_leads_on_gives_way() {
        assert_eq!(gives_way(&[(1, 0), (2, 1)], 1), Some(global(2)));
        assert_eq!(gives_way(&[(2, 0), (1, 1)], 2), Some(global(2)));
        assert_eq!(gives_way(&[(1, 0), (2, 1)], 3), None, "no circle");
        // Who only leads to the circle is not in it.
        assert_eq!(gives_way(&[(9, 0), (1, 0), (2, 1)], 1), Some(global(2)));
        // 9 waits where it is waited for: those behind it would wait for 2.
        assert_eq!(gives_way(&[(1, 0), (9, 0), (2, 1)], 1), Some(global(2)));
        // Rule Q-4 sees to that one.
        assert_eq!(probe(&[(1, 0), (2, 0)]).go_on(global(1)), None);
    }

    #[test]
    fn the_youngest_of_a_long_line_that_leads_on_gives_way() {
        let mut line = vec![(9, 0), (1, 0), (5, 1), (8, 1), (6, 2)];
        assert_eq!(gives_way(&line, 7), None, "it is not long");
        line.push((2, 0));
        // 9 is waited for by nobody who is known, and 8 where it waits.
        assert_eq!(gives_way(&line, 7), Some(global(6)));
        // On one partition, too, a line may be long: it leads nowhere else so far.
        let line: Vec<(u64, u32)> = (1..=6).map(|n| (n, 0)).collect();
        assert_eq!(gives_way(&line, 7), None);
    }

    #[test]
    fn a_probe_ends_when_it_has_no_steps_left() {
        let waiter = Waiter {
            transaction: global(1),
            at: NodeId(0),
        };
        let mut last = probe(&[]);
        last.steps = 3;
        let last = last.step(waiter, 2).expect("a step");
        assert_eq!((last.path.len(), last.steps), (1, 1));
        assert_eq!(last.clone().step(waiter, 0), None, "it leads nowhere");
        let last = last.step(waiter, 1).expect("one step");
        assert_eq!((last.path.len(), last.steps), (2, 0));
        assert_eq!(last.step(waiter, 1), None);
        let due: Vec<u32> = (0..100).filter(|rounds| is_due(*rounds)).collect();
        assert_eq!(due, [2, 4, 8, 16, 32, 64]);
    }
}
