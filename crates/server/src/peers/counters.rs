//! How much this node and the others have said to each other.

use crate::metrics::{MetricsSource, MetricsText};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counted by the thread of the grid, read by whoever asks for metrics.
#[derive(Debug, Default)]
pub(super) struct PeerCounters {
    /// Messages that were given to a channel.
    pub(super) messages_sent: AtomicU64,
    /// Messages that came out of one.
    pub(super) messages_received: AtomicU64,
    /// Bytes that were written to sockets, the hello included.
    pub(super) sent_bytes: AtomicU64,
    /// Bytes that were read from sockets.
    pub(super) received_bytes: AtomicU64,
}

impl PeerCounters {
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
    }
}
