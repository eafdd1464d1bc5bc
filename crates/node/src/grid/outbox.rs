//! What a node has to send, or to tell a client, held back until its log is forced as far as that needs.

use rubato_base::Lsn;
use std::collections::BTreeMap;

/// How much may be held back. Beyond it messages are dropped, as a network would: whoever waits for them asks again.
pub(crate) const HELD_MAX: usize = 1 << 16;

/// Values with the log position that each waits for; those that wait for the same one leave in the order in which they came.
pub(crate) struct Held<T> {
    values: BTreeMap<(Lsn, u64), T>,
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
            patient: BTreeMap::new(),
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

    /// What may leave now.
    pub(crate) fn take_ready(&mut self, forced: Lsn) -> impl Iterator<Item = T> + use<T> {
        let behind = (Lsn(forced.0.saturating_add(1)), 0);
        let ready = |values: &mut BTreeMap<(Lsn, u64), T>| {
            let waiting = values.split_off(&behind);
            std::mem::replace(values, waiting).into_values()
        };
        ready(&mut self.values).chain(ready(&mut self.patient))
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

    #[test]
    fn what_is_patient_has_nobody_force_the_log_until_it_is_hurried() {
        let mut held = Held::default();
        held.push_patiently(Lsn(5), 'a');
        held.push_patiently(Lsn(7), 'b');
        assert!(!held.waits(Lsn(0)));
        assert_eq!(held.take_ready(Lsn(5)).collect::<String>(), "a");
        held.hurry();
        assert!(held.waits(Lsn(5)));
        assert_eq!(held.take_ready(Lsn(7)).collect::<String>(), "b");
    }
}
