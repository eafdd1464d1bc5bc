//! Spans of traced statements, on their way to an OpenTelemetry collector.
//!
//! The nodes hand out what they know ([`rubato_base::trace`]); here a bounded queue takes it, and a thread of its own sends it as OTLP
//! over HTTP. A statement never waits for that: what finds no room, or no collector, is counted and gone.

mod client;
mod export;

use crate::metrics::{MetricsSource, MetricsText};
use export::Exporter;
use rubato_base::trace::{Span, Tracer};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Spans that may wait.
const QUEUE_SPANS_MAX: usize = 8192;
/// Spans of one request to the collector.
const BATCH_SPANS_MAX: usize = 512;
/// How long a span waits for others to go with it.
const BATCH_TIME: Duration = Duration::from_millis(500);
/// How often the thread looks whether it is to end.
const LOOK_TIME: Duration = Duration::from_millis(100);
/// The step of a sequence of numbers without a pattern (splitmix64).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where spans go, and which statements have any.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanSettings {
    /// The collector, as `http://HOST:PORT`; without a path `/v1/traces` is meant.
    pub endpoint: String,
    /// The share of statements that are traced though their client has not asked for it, 0 to 1.
    pub share: f64,
    /// What this process calls itself.
    pub instance: String,
}

#[derive(Debug, Default)]
struct Counts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

/// The nodes' end of the queue.
pub struct SpanQueue {
    sender: SyncSender<Span>,
    counts: Arc<Counts>,
    /// Below it, of 2^32, a random number chooses a statement.
    chosen_below: u64,
    random: AtomicU64,
}

impl fmt::Debug for SpanQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanQueue")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Tracer for SpanQueue {
    fn random(&self) -> u64 {
        let mut bits = self.random.fetch_add(STEP, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn chooses(&self) -> bool {
        self.chosen_below > 0 && self.random() >> u32::BITS < self.chosen_below
    }

    fn take(&self, span: Span) {
        if self.sender.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl MetricsSource for SpanQueue {
    fn write_metrics(&self, text: &mut MetricsText) {
        text.counter("rubato_spans_exported_total", "Spans that the collector has taken.");
        text.sample(
            "rubato_spans_exported_total",
            &[],
            self.counts.exported.load(Ordering::Relaxed),
        );
        text.counter(
            "rubato_spans_dropped_total",
            "Spans that found no room or no collector.",
        );
        text.sample(
            "rubato_spans_dropped_total",
            &[],
            self.counts.dropped.load(Ordering::Relaxed),
        );
    }
}

/// The thread that sends spans, until it is dropped.
pub struct SpanExport {
    queue: Arc<SpanQueue>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SpanExport {
    /// Begins to send.
    ///
    /// Errors: with a sentence about an endpoint or a share that there cannot be.
    pub fn start(settings: &SpanSettings) -> Result<SpanExport, String> {
        if !(0.0..=1.0).contains(&settings.share) {
            return Err(format!(
                "a share of statements is between 0 and 1, not {}",
                settings.share
            ));
        }
        let exporter = Exporter::new(settings)?;
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|wrong| format!("there are no random numbers: {wrong}"))?;
        let (sender, receiver) = sync_channel(QUEUE_SPANS_MAX);
        let queue = Arc::new(SpanQueue {
            sender,
            counts: Arc::default(),
            chosen_below: (settings.share * f64::from(u32::MAX)) as u64 + u64::from(settings.share >= 1.0),
            random: AtomicU64::new(u64::from_le_bytes(seed)),
        });
        let stopping = Arc::new(AtomicBool::new(false));
        let (counts, flag) = (Arc::clone(&queue.counts), Arc::clone(&stopping));
        let thread = std::thread::Builder::new()
            .name("spans".to_owned())
            .spawn(move || serve(&receiver, &exporter, &counts, &flag))
            .map_err(|wrong| format!("no thread for spans: {wrong}"))?;
        Ok(SpanExport {
            queue,
            stopping,
            thread: Some(thread),
        })
    }

    /// What takes spans.
    pub fn queue(&self) -> Arc<SpanQueue> {
        Arc::clone(&self.queue)
    }
}

impl Drop for SpanExport {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It sends what is there, and gives up at the first request that fails.
            let _ = thread.join();
        }
    }
}

fn serve(receiver: &Receiver<Span>, exporter: &Exporter, counts: &Counts, stopping: &AtomicBool) {
    let mut is_lost = false;
    loop {
        let is_stopping = stopping.load(Ordering::Acquire);
        let batch = gather(receiver, is_stopping);
        if batch.is_empty() {
            if is_stopping {
                return;
            }
            continue;
        }
        let spans = batch.len() as u64;
        // A collector that is gone when the process ends is not tried for each batch.
        let outcome = match is_stopping && is_lost {
            true => Err("the collector does not answer".to_owned()),
            false => exporter.export(batch),
        };
        match &outcome {
            Ok(()) => counts.exported.fetch_add(spans, Ordering::Relaxed),
            Err(_) => counts.dropped.fetch_add(spans, Ordering::Relaxed),
        };
        match &outcome {
            Err(wrong) if !is_lost => {
                tracing::warn!(%wrong, spans, "spans were not sent; the metrics count what follows")
            }
            Ok(()) if is_lost => tracing::info!("spans are sent again"),
            _ => {}
        }
        is_lost = outcome.is_err();
    }
}

/// What is sent together: as much as there is, and what comes soon.
fn gather(receiver: &Receiver<Span>, is_stopping: bool) -> Vec<Span> {
    let mut batch = Vec::new();
    let first = match is_stopping {
        true => receiver.try_recv().ok(),
        false => receiver.recv_timeout(LOOK_TIME).ok(),
    };
    batch.extend(first);
    let until = Instant::now() + BATCH_TIME;
    while !batch.is_empty() && batch.len() < BATCH_SPANS_MAX {
        let left = match is_stopping {
            true => Duration::ZERO,
            false => until.saturating_duration_since(Instant::now()),
        };
        match receiver.recv_timeout(left) {
            Ok(span) => batch.push(span),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn settings(endpoint: &str, share: f64) -> SpanSettings {
        SpanSettings {
            endpoint: endpoint.to_owned(),
            share,
            instance: "0".to_owned(),
        }
    }

    #[test]
    fn a_collector_that_is_down_costs_a_count_and_no_time() {
        // A port that nobody listens at any more.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let export = SpanExport::start(&settings(&endpoint, 1.0)).unwrap();
        let queue = export.queue();
        let spans = 3 * QUEUE_SPANS_MAX as u64;
        (0..spans).for_each(|_| queue.take(Span::default()));
        drop(export);
        assert_eq!(queue.counts.dropped.load(Ordering::Relaxed), spans);
        assert_eq!(queue.counts.exported.load(Ordering::Relaxed), 0);
        let mut text = MetricsText::default();
        queue.write_metrics(&mut text);
        assert!(
            text.into_text()
                .contains(&format!("rubato_spans_dropped_total {spans}\n"))
        );
    }

    #[test]
    fn so_many_statements_are_chosen_as_was_asked_for() {
        for (share, least, most) in [(0.0, 0, 0), (1.0, 100_000, 100_000), (0.01, 800, 1_200)] {
            let export = SpanExport::start(&settings("http://127.0.0.1:9", share)).unwrap();
            let chosen = (0..100_000).filter(|_| export.queue.chooses()).count();
            assert!((least..=most).contains(&chosen), "{share}: {chosen}");
        }
        for wrong in [
            settings("http://127.0.0.1:9", 1.5),
            settings("https://127.0.0.1", 0.5),
            settings("x", 0.5),
        ] {
            assert!(SpanExport::start(&wrong).is_err(), "{wrong:?}");
        }
    }
}
