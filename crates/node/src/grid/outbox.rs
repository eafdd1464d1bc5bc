//! What a node has to send, or to tell a client, held back until its log is forced as far as that needs.

use rubato_base::Lsn;
use std::collections::BTreeMap;

/// How much may be held back. Beyond it messages are dropped, as a network would: whoever waits for them asks again.
pub(crate) const HELD_MAX: usize = 1 << 16;

/// Values with the log position that each waits for; those that wait for the same one leave in the order in which they came.
pub(crate) struct Held<T> {
    values: BTreeMap<(Lsn, u64), T>,
    next: u64,
    /// Dropped since the start.
    pub(crate) dropped: u64,
}

impl<T> Default for Held<T> {
    fn default() -> Held<T> {
        Held {
            values: BTreeMap::new(),
            next: 0,
            dropped: 0,
        }
    }
}

impl<T> Held<T> {
    /// Takes a value that may leave when the log is forced up to `durable_at`; drops it if too many wait.
    pub(crate) fn push(&mut self, durable_at: Lsn, value: T) {
        if self.values.len() >= HELD_MAX {
            self.dropped += 1;
            return;
        }
        self.push_anyway(durable_at, value);
    }

    /// The same for what nobody would ask for again. Whoever causes it is bounded in number.
    pub(crate) fn push_anyway(&mut self, durable_at: Lsn, value: T) {
        self.values.insert((durable_at, self.next), value);
        self.next += 1;
    }

    /// What may leave now.
    pub(crate) fn take_ready(&mut self, forced: Lsn) -> impl Iterator<Item = T> + use<T> {
        let waiting = self.values.split_off(&(Lsn(forced.0.saturating_add(1)), 0));
        std::mem::replace(&mut self.values, waiting).into_values()
    }

    /// Whether something waits for the log.
    pub(crate) fn waits(&self, forced: Lsn) -> bool {
        self.values.last_key_value().is_some_and(|((at, _), _)| *at > forced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_the_log_stays_and_the_rest_leaves_in_order() {
        let mut held = Held::default();
        for (at, value) in [(5, 'a'), (0, 'b'), (9, 'c'), (0, 'd')] {
            held.push(Lsn(at), value);
        }
        assert_eq!(held.take_ready(Lsn(5)).collect::<String>(), "bda");
        assert!(held.waits(Lsn(8)) && !held.waits(Lsn(9)));
        assert_eq!(held.take_ready(Lsn(9)).collect::<String>(), "c");
        (0..=HELD_MAX).for_each(|_| held.push(Lsn(1), 'x'));
        assert_eq!((held.dropped, held.take_ready(Lsn(1)).count()), (1, HELD_MAX));
    }
}
