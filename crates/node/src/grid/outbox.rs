//! What a node has to send, or to tell a client, held back until its log is forced as far as that needs, or until there is more to say.

use rubato_base::{Lsn, NodeId};
use rubato_grid::GridMessage;
use rubato_protocol::grid::{Body, Message, Reply, StageMessage};
use std::collections::{BTreeMap, BTreeSet};

/// How much may be held back. Beyond it messages are dropped, as a network would: whoever waits for them asks again.
pub(crate) const HELD_MAX: usize = 1 << 16;

/// Values with the log position that each waits for; those that wait for the same one leave in the order in which they came.
pub(crate) struct Held<T> {
    values: BTreeMap<(Lsn, u64), T>,
    /// Those that wait for nothing: most.
    ready: Vec<T>,
    /// Those for which nobody forces the log, until they are hurried.
    patient: BTreeMap<(Lsn, u64), T>,
    next: u64,
    /// Dropped since the start.
    pub(crate) dropped: u64,
}

impl<T> Default for Held<T> {
    fn default() -> Held<T> {
        Held {
            values: BTreeMap::new(),
            ready: Vec::new(),
            patient: BTreeMap::new(),
            next: 0,
            dropped: 0,
        }
    }
}

impl<T> Held<T> {
    /// Takes a value that may leave when the log is forced up to `durable_at`; drops it if too many wait.
    pub(crate) fn push(&mut self, durable_at: Lsn, value: T) {
        if self.values.len() + self.ready.len() >= HELD_MAX {
            self.dropped += 1;
            return;
        }
        self.push_anyway(durable_at, value);
    }

    /// The same for what nobody would ask for again. Whoever causes it is bounded in number.
    pub(crate) fn push_anyway(&mut self, durable_at: Lsn, value: T) {
        if durable_at == Lsn(0) {
            return self.ready.push(value);
        }
        self.values.insert((durable_at, self.next), value);
        self.next += 1;
    }

    /// As [`Held::push`] for what nobody waits for: it leaves when the log has been forced for something else, or is hurried.
    pub(crate) fn push_patiently(&mut self, durable_at: Lsn, value: T) {
        if self.patient.len() >= HELD_MAX {
            self.dropped += 1;
            return;
        }
        self.patient.insert((durable_at, self.next), value);
        self.next += 1;
    }

    /// What was patient is so no more.
    pub(crate) fn hurry(&mut self) {
        self.values.append(&mut self.patient);
    }

    /// Only this is still to leave.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.ready.retain(&is_kept);
        for values in [&mut self.values, &mut self.patient] {
            values.retain(|_, value| is_kept(value));
        }
    }

    /// What may leave now.
    pub(crate) fn take_ready(&mut self, forced: Lsn) -> Vec<T> {
        let behind = (Lsn(forced.0.saturating_add(1)), 0);
        let mut ready = std::mem::take(&mut self.ready);
        for values in [&mut self.values, &mut self.patient] {
            if values.first_key_value().is_some_and(|(at, _)| *at < behind) {
                let waiting = values.split_off(&behind);
                ready.extend(std::mem::replace(values, waiting).into_values());
            }
        }
        ready
    }

    /// Whether something waits for the log.
    pub(crate) fn waits(&self, forced: Lsn) -> bool {
        self.values.last_key_value().is_some_and(|((at, _), _)| *at > forced)
    }
}

/// Words that nobody waits for, and that wait for one node.
const ALONG_MAX: usize = 256;

/// What nobody waits for goes along with what is said to the same node, or by itself at the next round of the clock: a frame of its own
/// would wake the other node for nothing else.
#[derive(Default)]
pub(crate) struct Along {
    waiting: BTreeMap<NodeId, Vec<GridMessage>>,
    /// What has waited for long enough.
    due: Vec<(NodeId, GridMessage)>,
}

impl Along {
    /// What leaves now of all that is ready.
    pub(crate) fn choose(&mut self, ready: impl Iterator<Item = (NodeId, GridMessage)>) -> Vec<(NodeId, GridMessage)> {
        let mut ready = ready.peekable();
        if ready.peek().is_none() && self.due.is_empty() {
            return Vec::new();
        }
        let mut chosen = std::mem::take(&mut self.due);
        for (to, message) in ready {
            match may_wait(&message) {
                true => self.waiting.entry(to).or_default().push(message),
                false => chosen.push((to, message)),
            }
        }
        let spoken_to: BTreeSet<NodeId> = chosen.iter().map(|(to, _)| *to).collect();
        for (to, messages) in &mut self.waiting {
            if spoken_to.contains(to) || messages.len() >= ALONG_MAX {
                chosen.extend(messages.drain(..).map(|message| (*to, message)));
            }
        }
        self.waiting.retain(|_, messages| !messages.is_empty());
        chosen
    }

    /// A round of the clock: what waits leaves next.
    pub(crate) fn hurry(&mut self) {
        for (to, messages) in std::mem::take(&mut self.waiting) {
            self.due.extend(messages.into_iter().map(|message| (to, message)));
        }
    }
}

/// That a decision was carried out, and which transactions are live.
fn may_wait(message: &GridMessage) -> bool {
    matches!(
        message,
        GridMessage::Transaction(Message {
            body: Body::Reply(Reply::Done),
            ..
        }) | GridMessage::Stage(StageMessage::LiveHere { .. } | StageMessage::LiveEverywhere { .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_waits_for_goes_along_or_at_the_next_round() {
        let live = || {
            GridMessage::Stage(StageMessage::LiveEverywhere {
                stage_life: 1,
                report: 1,
                live: Vec::new(),
                open_from: rubato_base::Timestamp::ZERO,
            })
        };
        let alive = || GridMessage::Stage(StageMessage::Alive { stage_life: 1 });
        let names = |chosen: Vec<(NodeId, GridMessage)>| -> Vec<(u32, &'static str)> {
            chosen.iter().map(|(to, message)| (to.0, message.name())).collect()
        };
        let (one, other) = (NodeId(1), NodeId(2));
        let mut along = Along::default();
        assert_eq!(names(along.choose([(one, live()), (other, live())].into_iter())), []);
        let spoken = names(along.choose([(one, alive())].into_iter()));
        assert_eq!(spoken, [(1, alive().name()), (1, live().name())]);
        along.hurry();
        assert_eq!(names(along.choose(std::iter::empty())), [(2, live().name())]);
        let many = (0..ALONG_MAX).map(|_| (one, live()));
        assert_eq!(along.choose(many).len(), ALONG_MAX, "bounded");
    }

    #[test]
    fn what_waits_for_the_log_stays_and_the_rest_leaves_in_order() {
        let mut held = Held::default();
        for (at, value) in [(5, 'a'), (0, 'b'), (9, 'c'), (0, 'd')] {
            held.push(Lsn(at), value);
        }
        let text = |values: Vec<char>| values.into_iter().collect::<String>();
        assert_eq!(text(held.take_ready(Lsn(5))), "bda");
        assert!(held.waits(Lsn(8)) && !held.waits(Lsn(9)));
        assert_eq!(text(held.take_ready(Lsn(9))), "c");
        (0..=HELD_MAX).for_each(|_| held.push(Lsn(1), 'x'));
        assert_eq!((held.dropped, held.take_ready(Lsn(1)).len()), (1, HELD_MAX));
    }

    #[test]
    fn what_is_patient_has_nobody_force_the_log_until_it_is_hurried() {
        let mut held = Held::default();
        held.push_patiently(Lsn(5), 'a');
        held.push_patiently(Lsn(7), 'b');
        assert!(!held.waits(Lsn(0)));
        assert_eq!(held.take_ready(Lsn(5)), ['a']);
        held.hurry();
        assert!(held.waits(Lsn(5)));
        assert_eq!(held.take_ready(Lsn(7)), ['b']);
    }
}
