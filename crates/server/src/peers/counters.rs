//! How much this node and the others have said to each other.

use crate::metrics::{MetricsSource, MetricsText};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counted by the worker that speaks with the other nodes, read by whoever asks for metrics.
#[derive(Debug, Default)]
pub(super) struct PeerCounters {
    /// Messages that were given to a channel.
    messages_sent: AtomicU64,
    /// Messages that came out of one.
    pub(super) messages_received: AtomicU64,
    /// Of these, how many of each kind.
    sent_by_kind: Mutex<BTreeMap<&'static str, u64>>,
    /// Frames that were written to sockets: messages that leave together are one.
    pub(super) frames_sent: AtomicU64,
    /// Bytes that were written to sockets, the hello included.
    pub(super) sent_bytes: AtomicU64,
    /// Bytes that were read from sockets.
    pub(super) received_bytes: AtomicU64,
}

impl PeerCounters {
    /// A message of this kind was given to a channel.
    pub(super) fn count_sent(&self, kind: &'static str) {
        PeerCounters::add(&self.messages_sent, 1);
        *self.by_kind().entry(kind).or_default() += 1;
    }

    fn by_kind(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.sent_by_kind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl MetricsSource for PeerCounters {
    fn write_metrics(&self, text: &mut MetricsText) {
        let counters = [
            (
                "rubato_grid_messages_sent_total",
                "Messages sent to other nodes.",
                &self.messages_sent,
            ),
            (
                "rubato_grid_messages_received_total",
                "Messages received from other nodes.",
                &self.messages_received,
            ),
            (
                "rubato_grid_frames_sent_total",
                "Frames sent to other nodes; messages that leave together are one.",
                &self.frames_sent,
            ),
            (
                "rubato_grid_sent_bytes_total",
                "Bytes sent to other nodes.",
                &self.sent_bytes,
            ),
            (
                "rubato_grid_received_bytes_total",
                "Bytes read from other nodes.",
                &self.received_bytes,
            ),
        ];
        for (name, help, counter) in counters {
            text.counter(name, help);
            text.sample(name, &[], counter.load(Ordering::Relaxed));
        }
        let name = "rubato_grid_messages_sent_by_kind_total";
        text.counter(name, "Messages sent to other nodes, by what they say.");
        for (kind, count) in &*self.by_kind() {
            text.sample(name, &[("kind", kind)], *count);
        }
    }
}
