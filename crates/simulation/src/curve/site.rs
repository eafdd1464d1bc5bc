//! A node with its processor, its disk and its way into the network.

use super::{Busy, Times};
use crate::answer::{Answer, Gathering};
use crate::check::Violation;
use crate::clock;
use crate::connections::{Connections, Outcome};
use crate::disk::Disk;
use rubato_base::NodeId;
use rubato_log::Options;
use rubato_node::NodeSettings;
use rubato_node::grid::{ByRows, GridMessage, GridNode, GridSettings};
use rubato_sql::client::Request;
use rubato_stages::worker::{PuttingOff, Wake};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The log's files: large enough that they seldom change.
const SEGMENT_BYTES: u64 = 4 << 20;
/// Rounds in which others are looked after before the log is forced, as in a worker of the server.
const ROUNDS_BEFORE_FORCE: u32 = 4;
/// The same where a round is but a turn, since others are to be heard.
const TURNS_BEFORE_FORCE: u32 = 8;
/// Works of one node in one go: more than this in a row are the next one's.
const ROUNDS_MAX: usize = 1_000;

/// What a node is to do.
pub(super) enum Task {
    /// A frame has come.
    Frame(Frame),
    /// A client asks.
    Requests(usize, VecDeque<Request>),
    /// Somebody has rung, or time has passed.
    Run,
    /// The time is told.
    Tick,
}

/// Messages that travel together, and whose they are: of whom they come, or for whom they are.
pub(super) struct Frame {
    pub(super) node: NodeId,
    pub(super) messages: Vec<Vec<u8>>,
    /// What each of them is.
    pub(super) kinds: Vec<&'static str>,
}

impl Frame {
    fn to(node: NodeId) -> Frame {
        Frame {
            node,
            messages: Vec::new(),
            kinds: Vec::new(),
        }
    }
}

/// What came of it.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) frames: Vec<Frame>,
    pub(super) answers: Vec<(usize, Answer)>,
    /// Time of the processor that it took.
    pub(super) cpu_us: f64,
    pub(super) statements: u64,
}

#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A node.
pub(super) struct CurveSite {
    pub(super) id: NodeId,
    pub(super) node: GridNode,
    connections: Connections,
    bell: Arc<Bell>,
    /// What it is to do in its next round, as a worker does it (decision 0039): what other nodes say comes first.
    pub(super) inbox: Vec<Task>,
    /// Its processor is at work.
    pub(super) is_busy: bool,
    pub(super) is_forcing: bool,
    /// Rounds since something waits for the log.
    rounds_held: u32,
    force_put_off: PuttingOff,
    questions_put_off: PuttingOff,
    /// What the forced writes since the last task have cost its processor, in microseconds.
    pub(super) owed_us: f64,
    /// When its way into the network is free, in microseconds.
    pub(super) sends_from_us: f64,
    /// When it is to be run although nothing has happened.
    pub(super) runs_at_us: Option<i64>,
    statements: u64,
    /// Its commits in two phases so far.
    commits: u64,
    /// What its processor, its disk and its way into the network have been at since it counts, in microseconds.
    pub(super) processor_us: f64,
    pub(super) disk_us: f64,
    pub(super) network_us: f64,
}

impl CurveSite {
    pub(super) fn new(id: u32, count: u32) -> Result<CurveSite, Violation> {
        let failed = |error: rubato_base::Error| Violation::new("does not start", error.to_string());
        let disk = Disk::default();
        let settings = NodeSettings {
            clock_us: clock::now_us,
            hosted_responder: Some(|| Box::new(Gathering::new(1))),
            ..NodeSettings::default()
        };
        let options = Options {
            segment_bytes: SEGMENT_BYTES,
            segment_bytes_first: SEGMENT_BYTES,
            prepare_in_background: false,
            ..Options::default()
        };
        let place = GridSettings {
            router: Some(Arc::new(ByRows)),
            keeper: Some(NodeId(0)),
            ..GridSettings::of(id, count)
        };
        let (node, _) = GridNode::open(disk.store(), disk.directory(), options, settings, place).map_err(failed)?;
        let bell = Arc::new(Bell::default());
        node.set_wake(Arc::clone(&bell) as _);
        let connections = Connections::new(node.node(), 0, 1, false).map_err(failed)?;
        Ok(CurveSite {
            id: NodeId(id),
            node,
            connections,
            bell,
            inbox: Vec::new(),
            rounds_held: 0,
            is_busy: false,
            is_forcing: false,
            force_put_off: PuttingOff::default(),
            questions_put_off: PuttingOff::default(),
            owed_us: 0.0,
            sends_from_us: 0.0,
            runs_at_us: None,
            statements: 0,
            commits: 0,
            processor_us: 0.0,
            disk_us: 0.0,
            network_us: 0.0,
        })
    }

    pub(super) fn connect(&mut self, client: usize, session: u64) -> Result<(), Violation> {
        let opened = self.connections.connect(client, session);
        opened.map_err(|error| Violation::new("no session", error.to_string()))
    }

    /// Does all that there is to do, and what follows of it; None if there is nothing.
    pub(super) fn work(&mut self, now_us: i64, times: &Times) -> Option<Effects> {
        if self.inbox.is_empty() {
            return None;
        }
        let mut effects = Effects {
            cpu_us: std::mem::take(&mut self.owed_us),
            ..Effects::default()
        };
        let tasks = std::mem::take(&mut self.inbox);
        let (frames, others): (Vec<Task>, Vec<Task>) =
            tasks.into_iter().partition(|task| matches!(task, Task::Frame(_)));
        effects.cpu_us += frames.len() as f64 * times.frame_us / 2.0;
        let messages = frames.iter().flat_map(|task| match task {
            Task::Frame(frame) => decoded(frame),
            _ => Vec::new(),
        });
        let messages: Vec<(NodeId, GridMessage)> = messages.collect();
        effects.cpu_us += messages.len() as f64 * times.message_us / 2.0;
        self.node.on_messages(messages);
        for task in others {
            match task {
                Task::Requests(client, requests) => drop(self.connections.submit(client, requests)),
                Task::Frame(_) | Task::Run => {}
                Task::Tick => {
                    self.node.look_after_log();
                    self.node.on_timer(now_us);
                }
            }
        }
        self.connections.run(now_us);
        let mut puts_off = false;
        for _ in 0..ROUNDS_MAX {
            let has_rung = self.bell.0.swap(false, Ordering::SeqCst);
            if has_rung {
                self.node.on_wake();
            }
            if self.connections.waits_for_readers() {
                self.connections.on_read();
            }
            if self.connections.has_more() {
                self.inbox.push(Task::Run);
                puts_off = self.questions_put_off.goes_on(self.connections.waiting(), 0, now_us);
                break;
            }
            if self.connections.is_rung() {
                self.connections.run(now_us);
            } else if !has_rung {
                break;
            }
        }
        if !puts_off {
            self.questions_put_off.end();
        }
        self.node.put_off_questions(puts_off);
        self.collect(&mut effects, times);
        Some(effects)
    }

    /// Takes what may leave by now.
    pub(super) fn collect(&mut self, effects: &mut Effects, times: &Times) {
        for (to, message) in self.node.poll_outgoing() {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            effects.cpu_us += times.message_us / 2.0;
            let at = effects.frames.iter().position(|frame| frame.node == to);
            let at = at.unwrap_or_else(|| {
                effects.cpu_us += times.frame_us / 2.0;
                effects.frames.push(Frame::to(to));
                effects.frames.len() - 1
            });
            effects.frames[at].messages.push(bytes);
            effects.frames[at].kinds.push(message.name());
        }
        for (client, outcome) in self.connections.take_outcomes() {
            if let Outcome::Answered(answer) = outcome {
                effects.answers.push((client, answer));
            }
        }
        let statements = self.node.node().statements();
        effects.statements = statements - self.statements;
        effects.cpu_us += effects.statements as f64 * times.statement_us;
        self.statements = statements;
        let commits = self.node.commits_in_two_phases();
        effects.cpu_us += (commits - self.commits) as f64 * times.commit_us;
        self.commits = commits;
    }

    pub(super) fn waits_for_log(&self) -> bool {
        self.node.waits_for_log() || self.connections.waits_for_log()
    }

    /// After a round: whether its disk begins to force the log now. A worker has it forced when it has nothing else to do, or has
    /// looked after others for some rounds.
    pub(super) fn begins_to_force(&mut self, now_us: i64) -> bool {
        if !self.waits_for_log() {
            self.rounds_held = 0;
            self.force_put_off.end();
            return false;
        }
        if self.is_forcing {
            return false;
        }
        let goes_on = match self.connections.has_more() {
            true => self
                .force_put_off
                .goes_on(self.connections.waiting(), TURNS_BEFORE_FORCE, now_us),
            false => {
                self.rounds_held += 1;
                self.rounds_held <= ROUNDS_BEFORE_FORCE
            }
        };
        let begins = self.inbox.is_empty() || !goes_on;
        if begins {
            (self.rounds_held, self.is_forcing) = (0, true);
            self.force_put_off.end();
        }
        begins
    }

    /// Its disk has forced the log up to its end.
    pub(super) fn force(&mut self) -> Result<(), Violation> {
        let forced = self.node.force();
        let forced = forced.map_err(|error| Violation::new("no force", error.to_string()))?;
        self.node.on_forced(forced);
        Ok(())
    }

    /// What it was at is counted from now on.
    pub(super) fn count_from_now(&mut self) {
        (self.processor_us, self.disk_us, self.network_us) = (0.0, 0.0, 0.0);
    }

    /// How busy it was in so many microseconds.
    pub(super) fn busy(&self, measured_us: f64) -> Busy {
        Busy {
            processor: self.processor_us / measured_us,
            disk: self.disk_us / measured_us,
            network: self.network_us / measured_us,
        }
    }

    /// A client goes away.
    pub(super) fn hang_up(&mut self, client: usize) {
        self.connections.hang_up(client);
    }

    pub(super) fn deadline_us(&self) -> Option<i64> {
        self.connections.next_deadline_us()
    }
}

fn decoded(frame: &Frame) -> Vec<(NodeId, GridMessage)> {
    let messages = frame.messages.iter();
    let known = messages.filter_map(|bytes| GridMessage::decode(bytes).ok());
    known.map(|message| (frame.node, message)).collect()
}
