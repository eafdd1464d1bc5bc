//! What is known of another node, whether there is a channel with it or not.

use super::{ConnectionId, FIRST_WAIT_US, Figures, HIGHER_WAITS_US, STEADY_US, WAIT_US_MAX};
use rubato_base::NodeId;

/// Another member of the grid.
#[derive(Debug)]
pub(super) struct Peer {
    /// Where it can be dialled; a node whose address is not known can still dial.
    pub(super) address: Option<String>,
    /// The highest life that was seen.
    pub(super) life: u64,
    /// How far its log certainly reached.
    pub(super) log_end: u64,
    /// The attempt that is under way from here: one at most.
    pub(super) dial: Option<ConnectionId>,
    /// The channel: one at most.
    pub(super) up: Option<ConnectionId>,
    /// Why there is no channel, and since when.
    pub(super) down: (String, u64),
    /// Attempts that came to nothing, or did not last.
    pub(super) attempts: u32,
    pub(super) dial_us: u64,
    /// Whether it waits a little longer than the other end, so that both seldom dial at once.
    pub(super) is_lower: bool,
    /// What was said last about an attempt, so that it is said once.
    pub(super) said: Option<String>,
    /// What all channels before this one did.
    pub(super) past: Figures,
}

impl Peer {
    /// A peer of node `here`.
    pub(super) fn new(here: NodeId, node: NodeId, now_us: u64) -> Peer {
        let is_lower = node < here;
        Peer {
            address: None,
            life: 0,
            log_end: 0,
            dial: None,
            up: None,
            down: ("it was not dialled yet".to_string(), now_us),
            attempts: 0,
            dial_us: now_us + if is_lower { HIGHER_WAITS_US } else { 0 },
            is_lower,
            said: None,
            past: Figures::default(),
        }
    }

    /// When it is to be dialled, if it is.
    pub(super) fn next_dial_us(&self) -> Option<u64> {
        let may = self.address.is_some() && self.dial.is_none() && self.up.is_none();
        may.then_some(self.dial_us)
    }

    /// An attempt has come to nothing; without a reason if nothing is wrong. True if that is news.
    pub(super) fn on_dial_ended(&mut self, why: &str, now_us: u64, random: u64) -> bool {
        self.dial = None;
        if self.up.is_some() {
            return false;
        }
        self.wait(now_us, random);
        if why.is_empty() {
            return false;
        }
        self.down.0 = why.to_string();
        let news = self.said.as_deref() != Some(why);
        self.said = Some(why.to_string());
        news
    }

    /// The channel has ended, after it was up since some time.
    pub(super) fn on_channel_ended(&mut self, why: &str, since_us: u64, now_us: u64, random: u64) {
        self.up = None;
        self.down = (why.to_string(), now_us);
        if now_us.saturating_sub(since_us) >= STEADY_US {
            self.attempts = 0;
        }
        self.wait(now_us, random);
    }

    /// Waits longer each time, between half of the time and all of it.
    fn wait(&mut self, now_us: u64, random: u64) {
        let longest_us = (FIRST_WAIT_US << self.attempts.min(20)).min(WAIT_US_MAX);
        self.attempts = self.attempts.saturating_add(1);
        let wait_us = longest_us / 2 + random % (longest_us / 2 + 1);
        self.dial_us = now_us + wait_us + if self.is_lower { HIGHER_WAITS_US } else { 0 };
    }
}
