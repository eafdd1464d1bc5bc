//! Signals from outside.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What SIGHUP means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hangup {
    /// To stop: the terminal is closed for which something runs.
    Stops,
    /// Nothing. Servers are sent it to read their settings again, by hand or when logs are rotated, and go on when a terminal is closed.
    IsNothing,
}

/// SIGTERM and SIGINT: the first is waited for; one that comes a good while after it ends the process at once.
pub(super) struct StopSignals {
    signals: Signals,
    hangup: Hangup,
    impatient: Arc<AtomicBool>,
}

/// How long after the first signal further ones mean nothing: `timeout` and some supervisors send theirs twice.
const SIGNAL_REPEAT_TIME: Duration = Duration::from_secs(1);

impl StopSignals {
    pub(super) fn watch(hangup: Hangup) -> Result<StopSignals, String> {
        let impatient = Arc::new(AtomicBool::new(false));
        let register = || {
            for signal in [SIGTERM, SIGINT] {
                signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&impatient))?;
            }
            Signals::new([SIGTERM, SIGINT, SIGHUP])
        };
        let signals = register().map_err(|wrong| format!("cannot watch for signals: {wrong}"))?;
        Ok(StopSignals {
            signals,
            hangup,
            impatient,
        })
    }

    pub(super) fn is_asked(&mut self) -> bool {
        let hangup = self.hangup;
        let asked = self.signals.pending().any(|signal| stops(signal, hangup));
        if asked {
            self.on_first();
        }
        asked
    }

    pub(super) fn wait(mut self) {
        let hangup = self.hangup;
        let _ = self.signals.forever().find(|signal| stops(*signal, hangup));
        self.on_first();
    }

    fn on_first(&self) {
        let impatient = Arc::clone(&self.impatient);
        std::thread::spawn(move || {
            std::thread::sleep(SIGNAL_REPEAT_TIME);
            impatient.store(true, Ordering::SeqCst);
        });
    }
}

fn stops(signal: i32, hangup: Hangup) -> bool {
    let is_nothing = signal == SIGHUP && hangup == Hangup::IsNothing;
    if is_nothing {
        tracing::info!("SIGHUP: settings are read when the program starts; nothing is to be done");
    }
    !is_nothing
}
