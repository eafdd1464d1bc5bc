//! A channel that is up: messages in frames, questions whether the other end is alive, and figures.

use super::{Figures, MEASURE_EVERY_US, PING_EVERY_US, PROBE_US, SILENT_US, TOGETHER_US};
use crate::channel::Greeted;
use crate::frame::{FrameReader, FrameWriter, Received, Refused};
use crate::message::GridMessage;

/// A channel that is up.
#[derive(Debug)]
pub(super) struct Open {
    writer: FrameWriter,
    reader: FrameReader,
    pub(super) version: u16,
    pub(super) since_us: u64,
    heard_us: u64,
    /// When it was asked last whether the other end is alive; none before the first time.
    pinged_us: Option<u64>,
    /// The question that was asked last, and when; none once it is answered.
    asked: Option<(u64, u64)>,
    pings: u64,
    /// Until when something has to be heard, as the other end seems to have given the channel up.
    probe_until_us: Option<u64>,
    pub(super) round_trip_us: Option<u64>,
    figures: Figures,
    received: Vec<Received>,
}

impl Open {
    /// A channel behind its hello, and the bytes that came behind that.
    pub(super) fn new(greeted: Greeted, bytes_max: usize, now_us: u64) -> (Open, Vec<u8>) {
        let version = greeted.version;
        let (writer, reader, rest) = greeted.into_channel(bytes_max);
        let open = Open {
            writer,
            reader,
            version,
            since_us: now_us,
            heard_us: now_us,
            pinged_us: None,
            asked: None,
            pings: 0,
            probe_until_us: None,
            round_trip_us: None,
            figures: Figures {
                channels: 1,
                ..Figures::default()
            },
            received: Vec::new(),
        };
        (open, rest)
    }

    /// Takes a message.
    pub(super) fn push(&mut self, message: &GridMessage) -> Result<(), Refused> {
        self.writer.push(message)?;
        self.figures.messages_out += 1;
        Ok(())
    }

    /// Takes bytes; messages go to `deliver`. An error is why the channel ends.
    pub(super) fn on_bytes(
        &mut self,
        bytes: &[u8],
        now_us: u64,
        deliver: &mut dyn FnMut(GridMessage),
    ) -> Result<(), String> {
        self.heard_us = now_us;
        self.probe_until_us = None;
        self.figures.bytes_in += bytes.len() as u64;
        let mut received = std::mem::take(&mut self.received);
        let outcome = self.reader.read(bytes, &mut received);
        let mut closing = None;
        for received in received.drain(..) {
            match received {
                Received::Message(message) => {
                    self.figures.messages_in += 1;
                    deliver(message);
                }
                Received::Ping(number) => self.writer.pong(number),
                Received::Pong(number) => self.on_pong(number, now_us),
                Received::Closing(why) => closing = Some(format!("the other end closes the channel: {why}")),
            }
        }
        self.received = received;
        match closing {
            Some(why) => Err(why),
            None => outcome.map_err(|error| error.message().to_string()),
        }
    }

    fn on_pong(&mut self, number: u64, now_us: u64) {
        if let Some((_, asked_us)) = self.asked.take_if(|(asked, _)| *asked == number) {
            self.round_trip_us = Some(now_us.saturating_sub(asked_us));
        }
    }

    /// Asks at its time whether the other end is alive. An error is why the channel ends.
    pub(super) fn on_timer(&mut self, now_us: u64) -> Result<(), String> {
        if self.probe_until_us.is_some_and(|until_us| until_us <= now_us) {
            return Err("the other end has made another channel and says nothing on this one".to_string());
        }
        if self.heard_us + SILENT_US <= now_us {
            return Err(format!("nothing was heard for {} seconds", SILENT_US / 1_000_000));
        }
        if self.ping_us() <= now_us {
            self.ask(now_us);
        }
        Ok(())
    }

    /// When to ask next: at once, then if nothing was heard for [`PING_EVERY_US`], and now and then to know how long an answer takes.
    /// At one of few moments, so that the questions to all nodes are sent together and a quiet node sleeps in between.
    fn ping_us(&self) -> u64 {
        let Some(pinged_us) = self.pinged_us else {
            return 0;
        };
        let unheard_us = pinged_us.max(self.heard_us) + PING_EVERY_US;
        unheard_us
            .min(pinged_us + MEASURE_EVERY_US)
            .next_multiple_of(TOGETHER_US)
    }

    fn ask(&mut self, now_us: u64) {
        self.pings += 1;
        self.asked = Some((self.pings, now_us));
        self.pinged_us = Some(now_us);
        self.writer.ping(self.pings);
    }

    /// Gives the channel up soon, unless something is heard.
    pub(super) fn probe(&mut self, now_us: u64) {
        if self.probe_until_us.is_none() {
            self.probe_until_us = Some(now_us + PROBE_US);
            self.ask(now_us);
        }
    }

    /// When [`Open::on_timer`] has something to do.
    pub(super) fn next_timer_us(&self) -> u64 {
        let next_us = self.ping_us().min(self.heard_us + SILENT_US);
        self.probe_until_us.map_or(next_us, |until_us| next_us.min(until_us))
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.writer.waiting_bytes()
    }

    /// What is to be written now.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let bytes = self.writer.take();
        self.figures.bytes_out += bytes.len() as u64;
        bytes
    }

    /// The last words, in which it says why.
    pub(super) fn last_words(&mut self, why: &str) -> Vec<u8> {
        self.writer.closing(why);
        self.take()
    }

    /// A message found no room.
    pub(super) fn count_full(&mut self) {
        self.figures.full += 1;
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            frames_out: self.writer.frames(),
            frames_in: self.reader.frames(),
            ..self.figures
        }
    }
}
