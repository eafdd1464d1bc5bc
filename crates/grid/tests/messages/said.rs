//! Replies, and what is said of waits.

use super::Choices;
use rubato_base::{GlobalId, NodeId};
use rubato_protocol::grid::{Notes, Probe, Reply, Waiter, Waiting};

impl Choices<'_> {
    pub(super) fn waiting(&mut self) -> Waiting {
        let waiter = |random: &mut Self| Waiter {
            transaction: GlobalId {
                tick: random.timestamp(),
                coordinator: NodeId(random.small()),
            },
            at: NodeId(random.small()),
        };
        let path = (0..self.of(4)).map(|_| waiter(self)).collect();
        let steps = u32::from(self.of(61));
        match self.of(3) {
            0 => Waiting::Ahead(Probe { path, steps }),
            1 => Waiting::Behind(Probe { path, steps }),
            _ => Waiting::GiveWay,
        }
    }

    pub(super) fn reply(&mut self) -> Reply {
        match self.of(13) {
            0 => Reply::Prepared {
                floor: self.timestamp(),
                check_above: self.truth(),
                held: self.place(),
            },
            1 => Reply::Holds {
                place: self.timestamp(),
            },
            2 => Reply::Refused(self.error()),
            3 => Reply::Committed { cts: self.timestamp() },
            4 => Reply::Forgotten,
            5 => Reply::Done,
            6 => Reply::Inquire,
            7 => Reply::Waits,
            8 => Reply::Awaited,
            9 => Reply::Unready {
                number: self.small(),
                error: self.error(),
            },
            _ => Reply::Answer {
                number: self.small(),
                answer: self.answers(),
                notes: Notes {
                    writes: self.truth(),
                    moved_to: self.truth().then(|| self.timestamp()),
                    behind: self.truth(),
                    through: self.truth(),
                },
            },
        }
    }
}
