//! The worker loop: one thread that owns connections and the engine that runs their statements.
//!
//! A round: wait for events; read, decode and submit; let the engine run; send what may be sent. An answer waits until the log
//! is forced up to its work's `durable_at`. When answers wait and nothing else is ready, this thread forces the log itself: one
//! client pays no thread switch, and many clients share the write, since all that came in before it is in it.

pub(crate) mod connection;
mod flow;
pub(crate) mod port;
mod sender;
mod session;
pub(crate) mod shared;
mod time;
pub(crate) mod transport;

use crate::peers::carrier::{Carrier, GRID_TOKENS, HANDING_OVER, LAST_WORDS};
use connection::Connection;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use port::{Letter, WorkerPort};
use rubato_base::{LineLimit, Lsn, SessionId};
use rubato_sql::client::{Request, Responder};
use rubato_stages::worker::{PuttingOff, StatementWorker};
use sender::Sender;
use shared::Shared;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use time::{WallClock, steady_us, wall_us};
use transport::Transport;

/// A [`StatementWorker`] that speaks SQL; implemented by every type that fits.
pub trait SqlWorker: StatementWorker<Request = Request, Responder = Box<dyn Responder>> + 'static {}

impl<W: StatementWorker<Request = Request, Responder = Box<dyn Responder>> + 'static> SqlWorker for W {}

pub(crate) const WAKE_TOKEN: Token = Token(0);
const LISTENER_TOKENS: usize = 1;
const CONNECTION_TOKENS: usize = 1 << 20;

/// Events taken from the system at a time.
const EVENTS_MAX: usize = 512;

/// Bytes read at a time. One buffer serves all connections of a worker, so an idle connection holds none.
const READ_BYTES: usize = 64 << 10;

/// Rounds in which answers may wait for the log while new requests keep coming; then the log is forced all the same.
const ROUNDS_BEFORE_FORCE: u32 = 4;
/// Turns of the engine in which a word to another node may wait for the log. It waits for more where plenty of work does
/// ([`PuttingOff`]).
const TURNS_BEFORE_FORCE: u32 = 8;

/// Turns of the engine in one round, however much there is to run: then clients have theirs.
const TURNS_PER_ROUND: u32 = 64;

/// The engine begins no other turn in a round that has taken so long.
const ROUND_US_MAX: i64 = 10_000;

/// How often the engine may run again in one round for work that came out of what it just completed.
const RUNS_PER_ROUND: u32 = 8;

/// How long to wait for another thread's forcing of the log before looking again, should its wake be lost.
const LOG_WAIT: Duration = Duration::from_millis(10);

/// How long what a client has sent may go on, in order, after it has hung up: it may have sent its last statements and left, without a
/// look at their answers. Then its session ends with all that is not done yet, since nobody would ever end what waits or runs for ever.
const HANGUP_GRACE_US: i64 = 2_000_000;

/// While there is no room for sessions, so many connections are told so, and then none for a while.
const REFUSALS_A_TURN: u32 = 4;
const REFUSAL_PAUSE_US: i64 = 4_000;
/// Pause after a failure to accept, for example for want of file descriptors.
const ACCEPT_PAUSE_US: i64 = 100_000;

/// Time after the grace time in which cancelled statements may come back.
const CANCEL_GRACE_US: i64 = 2_000_000;

/// How long a node that starts takes no clients because it has not heard of all others.
const READY_TIME_MAX: Duration = Duration::from_secs(1);

/// How often clients that take no bytes are looked for, while there are any.
const STALL_CHECK_US: i64 = 1_000_000;

/// Responders kept for use by any connection.
const RESPONDERS_KEPT: usize = 256;

/// How long a worker that has just answered looks for the next request itself before the system puts it to sleep: a client's
/// next request comes sooner than a sleeping thread wakes up.
const LOOK_TIME: Duration = Duration::from_micros(40);

/// Times in a row that looking may be in vain before it is tried only once in [`LOOK_AGAIN_ROUNDS`].
const VAIN_LOOKS_MAX: u32 = 4;

/// See [`VAIN_LOOKS_MAX`].
const LOOK_AGAIN_ROUNDS: u32 = 64;

/// Long statements rest as long as their last slices took, but no longer than this: others get half of the worker.
const REST_US_MAX: i64 = 1000;

/// One worker thread's state.
pub(crate) struct WorkerLoop<W: SqlWorker> {
    index: usize,
    poll: Poll,
    port: Arc<WorkerPort>,
    shared: Arc<Shared>,
    engine: W,
    /// What the engine is told; deadlines here go by the one that nobody sets.
    clock: WallClock,
    listeners: Vec<TcpListener>,
    accept_again_at_us: Option<i64>,
    connections: Slab<Connection<W::Session>>,
    /// Connections to look at, without repetition.
    ready: VecDeque<usize>,
    /// Connections whose answers wait for the log.
    held: BinaryHeap<Reverse<(Lsn, usize)>>,
    rounds_held: u32,
    /// The forced write that a word to another node waits for, and questions of those who begin.
    force_put_off: PuttingOff,
    questions_put_off: PuttingOff,
    waits_for_log: bool,
    /// How often looking for requests was in vain, since it last was not.
    vain_looks: u32,
    /// Work was submitted since the engine last ran.
    submitted: bool,
    /// Connections whose long statement lets others have their turn, until nobody else has work or `rest_until_us`.
    resting: Vec<usize>,
    rest_until_us: i64,
    scratch: Box<[u8]>,
    responders: Vec<Box<dyn Responder>>,
    /// In order of time, since all wait equally long.
    login_deadlines: VecDeque<(i64, usize, SessionId)>,
    hangup_deadlines: VecDeque<(i64, usize, SessionId)>,
    /// When clients that are silent within a transaction are let go.
    idle_deadlines: BTreeSet<(i64, usize, SessionId)>,
    stalled: usize,
    stall_check_at_us: i64,
    /// What is logged of connections that are refused.
    refused: LineLimit,
    stopping: Option<Stopping>,
    sender: Option<Sender>,
    own_sends: sender::OwnSends,
    /// Several connections have something to do in this round.
    shares_round: bool,
    /// What is said to other nodes, at the first worker of a node of a grid.
    carrier: Option<Carrier>,
}

/// A server that stops.
struct Stopping {
    cancel_at_us: i64,
    leave_at_us: i64,
    cancelled: bool,
}

impl<W: SqlWorker> WorkerLoop<W> {
    pub(crate) fn new(
        index: usize,
        poll: Poll,
        shared: Arc<Shared>,
        engine: W,
        listeners: Vec<TcpListener>,
        carrier: Option<Carrier>,
    ) -> WorkerLoop<W> {
        let port = Arc::clone(&shared.ports[index]);
        WorkerLoop {
            index,
            poll,
            sender: Sender::start(index, Arc::clone(&port)),
            own_sends: sender::OwnSends::default(),
            shares_round: false,
            carrier,
            port,
            shared,
            engine,
            listeners,
            clock: WallClock::new(),
            accept_again_at_us: None,
            connections: Slab::new(),
            ready: VecDeque::new(),
            held: BinaryHeap::new(),
            rounds_held: 0,
            force_put_off: PuttingOff::default(),
            questions_put_off: PuttingOff::default(),
            waits_for_log: false,
            vain_looks: VAIN_LOOKS_MAX,
            submitted: false,
            resting: Vec::new(),
            rest_until_us: 0,
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            responders: Vec::new(),
            login_deadlines: VecDeque::new(),
            hangup_deadlines: VecDeque::new(),
            idle_deadlines: BTreeSet::new(),
            stalled: 0,
            stall_check_at_us: 0,
            refused: LineLimit::default(),
            stopping: None,
        }
    }

    /// Runs until the server stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        self.meet_others(&mut events)?;
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            self.poll
                .registry()
                .register(listener, Token(LISTENER_TOKENS + index), Interest::READABLE)?;
        }
        while !self.is_finished() {
            self.round(&mut events)?;
        }
        self.say_last_words(&mut events)
    }

    fn is_finished(&self) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        // Statements of other workers need the other nodes, too.
        let is_needed = self.carrier.is_some() && self.shared.ports.iter().any(|port| port.has_connections());
        (self.connections.is_empty() && !is_needed) || steady_us() >= stopping.leave_at_us
    }

    /// Takes no clients until the node can serve them as the whole grid would, or for a moment: of the others some may be down. Who
    /// connects meanwhile waits in the system's queue.
    fn meet_others(&mut self, events: &mut Events) -> io::Result<()> {
        let until = Instant::now() + READY_TIME_MAX;
        while self.carrier.as_ref().is_some_and(|carrier| !carrier.is_ready())
            && self.stopping.is_none()
            && Instant::now() < until
        {
            self.round(events)?;
        }
        Ok(())
    }

    fn say_last_words(&mut self, events: &mut Events) -> io::Result<()> {
        let until = Instant::now() + HANDING_OVER;
        while let Some(error) = self.carrier.as_mut().and_then(Carrier::hand_over) {
            if Instant::now() > until {
                tracing::warn!(%error, "what there is once stays on this node, and is not served until it is back");
                break;
            }
            self.carry(events)?;
        }
        while self.carrier.as_ref().is_some_and(Carrier::has_vote_of_keeper) && Instant::now() < until {
            self.carry(events)?;
        }
        if let Some(carrier) = &mut self.carrier {
            carrier.stop();
        }
        let until = Instant::now() + LAST_WORDS;
        while self.carrier.as_ref().is_some_and(|carrier| !carrier.is_done()) && Instant::now() < until {
            self.carry(events)?;
        }
        Ok(())
    }

    /// Does nothing but what is to be said to other nodes, for a moment.
    fn carry(&mut self, events: &mut Events) -> io::Result<()> {
        if let Some(carrier) = &mut self.carrier {
            match self.poll.poll(events, Some(LAST_WORDS / 20)) {
                Err(wrong) if wrong.kind() != ErrorKind::Interrupted => return Err(wrong),
                _ => {}
            }
            let of_grid = |event: &&mio::event::Event| event.token().0 >= GRID_TOKENS;
            events.iter().filter(of_grid).for_each(|event| carrier.on_event(event));
            carrier.take_in();
            carrier.turn();
            if carrier.awaits_log() {
                carrier.force();
            }
        }
        Ok(())
    }

    /// Looks for events for a short while without sleeping; leaves them in `events`.
    fn look(&mut self, events: &mut Events) -> io::Result<()> {
        if self.vain_looks >= VAIN_LOOKS_MAX && !self.vain_looks.is_multiple_of(LOOK_AGAIN_ROUNDS) {
            self.vain_looks = self.vain_looks.wrapping_add(1);
            return Ok(());
        }
        let until = Instant::now() + LOOK_TIME;
        loop {
            self.poll.poll(events, Some(Duration::ZERO))?;
            if !events.is_empty() {
                self.vain_looks = 0;
                return Ok(());
            }
            if Instant::now() >= until {
                self.vain_looks = self.vain_looks.wrapping_add(1);
                return Ok(());
            }
            // Not yielding: where other threads are busy the system would give them whole slices of time.
            std::hint::spin_loop();
        }
    }

    fn round(&mut self, events: &mut Events) -> io::Result<()> {
        let timeout = match self.has_news() {
            true => Some(Duration::ZERO),
            false => self.timeout(),
        };
        events.clear();
        let only_resting =
            !self.resting.is_empty() && self.ready.is_empty() && !self.submitted && !self.engine.has_more();
        let may_look = !self.connections.is_empty() && self.carrier.as_ref().is_none_or(Carrier::is_alone);
        if (only_resting || timeout != Some(Duration::ZERO)) && may_look {
            match self.look(events) {
                Err(wrong) if wrong.kind() != ErrorKind::Interrupted => return Err(wrong),
                _ => {}
            }
        }
        let timeout = if events.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        let timeout = if self.port.fall_asleep() && !self.has_news() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        if events.is_empty() {
            match self.poll.poll(events, timeout) {
                Err(wrong) if wrong.kind() != ErrorKind::Interrupted => return Err(wrong),
                _ => {}
            }
        }
        let (woken, letters) = self.port.wake_up();
        if woken {
            self.waits_for_log = false;
            self.engine.on_wake();
        }
        let now_us = steady_us();
        letters.into_iter().for_each(|letter| self.on_letter(letter, now_us));
        let idle = events.is_empty() && !woken;
        for event in &*events {
            self.on_event(event, now_us);
        }
        if let Some(carrier) = &mut self.carrier {
            carrier.take_in();
        }
        self.on_deadlines(now_us);
        if (idle && self.ready.is_empty()) || now_us >= self.rest_until_us {
            self.ready.extend(self.resting.drain(..));
        } else if !idle && !self.resting.is_empty() {
            // Others come while a long statement rests: looking for them is worth while.
            self.vain_looks = 0;
        }
        self.shares_round = self.ready.len() + self.held.len() > 1;
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else { break };
            self.advance(index, now_us);
        }
        let rested = self.resting.len();
        self.run_engine(events, now_us)?;
        if self.resting.len() > rested {
            let ended_us = steady_us();
            self.rest_until_us = ended_us + (ended_us - now_us).clamp(0, REST_US_MAX);
        }
        if let Some(carrier) = &mut self.carrier {
            self.questions_put_off.end();
            carrier.put_off_questions(false);
            carrier.turn();
        }
        self.release_held(now_us);
        self.force_log(idle, now_us);
        if let Some(sender) = &mut self.sender {
            sender.offer();
        }
        Ok(())
    }

    fn run_engine(&mut self, events: &mut Events, now_us: i64) -> io::Result<()> {
        let (mut runs, mut turns) = (0, 0);
        while runs < RUNS_PER_ROUND && turns < TURNS_PER_ROUND {
            self.submitted = false;
            let (wall_us, set_by_us) = self.clock.read();
            if set_by_us != 0 {
                self.engine.shift_time(set_by_us);
            }
            self.engine.run(wall_us);
            while let Some(work) = self.engine.poll_completed() {
                self.on_completed(work, now_us);
            }
            if self.engine.has_more() {
                turns += 1;
                self.hear_others(events, now_us)?;
                if steady_us() - now_us > ROUND_US_MAX {
                    break;
                }
            } else if self.submitted {
                runs += 1;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Between two turns of the engine: hears other nodes, and says what is to be said to them. Clients have their turn in the next
    /// round, with what is found of them meanwhile.
    fn hear_others(&mut self, events: &mut Events, now_us: i64) -> io::Result<()> {
        if self.carrier.is_none() {
            return Ok(());
        }
        match self.poll.poll(events, Some(Duration::ZERO)) {
            Err(wrong) if wrong.kind() == ErrorKind::Interrupted => events.clear(),
            polled => polled?,
        }
        for event in &*events {
            self.on_event(event, now_us);
        }
        let Some(carrier) = &mut self.carrier else {
            return Ok(());
        };
        let (waiting, turned_us) = (self.engine.waiting(), steady_us());
        carrier.take_in();
        carrier.put_off_questions(self.questions_put_off.goes_on(waiting, 0, turned_us));
        carrier.turn();
        if !carrier.awaits_log() {
            self.force_put_off.end();
        } else if !carrier.holds_answers()
            && !self.force_put_off.goes_on(waiting, TURNS_BEFORE_FORCE, turned_us)
            && self.engine.force_if_idle()
        {
            carrier.turn();
        }
        Ok(())
    }

    /// Whether somebody has asked for something since it was last looked for.
    fn has_news(&self) -> bool {
        self.port.is_woken() || self.carrier.as_ref().is_some_and(Carrier::has_news)
    }

    /// Whether an answer to a client or a word to another node waits for the log.
    fn awaits_log(&self) -> bool {
        !self.held.is_empty() || self.carrier.as_ref().is_some_and(Carrier::awaits_log)
    }

    fn force_log(&mut self, idle: bool, now_us: i64) {
        if !self.awaits_log() {
            self.rounds_held = 0;
            self.waits_for_log = false;
            return;
        }
        if !idle && self.carrier.as_ref().is_some_and(Carrier::holds_answers) {
            // What has come may have led to what is to be forced, before the answers are released.
            self.waits_for_log = false;
        }
        self.rounds_held += 1;
        let nothing_else = idle && !self.submitted && !self.engine.has_more() && self.ready.is_empty();
        if nothing_else || self.rounds_held > ROUNDS_BEFORE_FORCE {
            self.rounds_held = 0;
            match &mut self.carrier {
                Some(carrier) if carrier.holds_answers() => {
                    // What was forced may have led to more. Else whoever releases the answers wakes this worker, or a frame does.
                    self.waits_for_log = !(carrier.force() && carrier.awaits_log());
                }
                carrier => {
                    self.waits_for_log = !self.engine.force_if_idle();
                    carrier.iter_mut().for_each(Carrier::turn);
                }
            }
            self.release_held(now_us);
        }
    }

    // How long to wait for events; `None` for ever.
    fn timeout(&self) -> Option<Duration> {
        let answers_wait = self.awaits_log();
        let runs = self.submitted || self.engine.has_more();
        if runs || !self.ready.is_empty() || !self.resting.is_empty() || (answers_wait && !self.waits_for_log) {
            return Some(Duration::ZERO);
        }
        let deadlines = [
            self.login_deadlines.front().map(|deadline| deadline.0),
            self.hangup_deadlines.front().map(|deadline| deadline.0),
            self.idle_deadlines.first().map(|deadline| deadline.0),
            self.accept_again_at_us,
            (self.stalled > 0).then_some(self.stall_check_at_us),
            self.stopping.as_ref().map(|stopping| {
                if stopping.cancelled {
                    stopping.leave_at_us
                } else {
                    stopping.cancel_at_us
                }
            }),
        ];
        let earliest = deadlines.into_iter().flatten().min();
        let own = earliest.map(|deadline_us| until(deadline_us, steady_us()));
        let due = self.engine.next_deadline_us();
        let due = due.map(|deadline_us| until(deadline_us, wall_us()));
        let log_wait = answers_wait.then_some(LOG_WAIT);
        let grid = self.carrier.as_ref().map(Carrier::timeout);
        [own, due, log_wait, grid].into_iter().flatten().min()
    }

    fn on_event(&mut self, event: &mio::event::Event, now_us: i64) {
        let token = event.token().0;
        if token >= GRID_TOKENS {
            self.carrier.iter_mut().for_each(|carrier| carrier.on_event(event));
        } else if token >= CONNECTION_TOKENS {
            self.on_socket_event(token - CONNECTION_TOKENS, event, now_us);
        } else if token >= LISTENER_TOKENS {
            self.accept(token - LISTENER_TOKENS, now_us);
        }
    }

    fn on_socket_event(&mut self, index: usize, event: &mio::event::Event, now_us: i64) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let has_hung_up = event.is_error() || event.is_read_closed();
        connection.readable |= has_hung_up || event.is_readable();
        if has_hung_up && !std::mem::replace(&mut connection.hung_up, true) {
            let deadline = (now_us + HANGUP_GRACE_US, index, connection.session);
            self.hangup_deadlines.push_back(deadline);
        }
        self.enqueue(index);
    }

    pub(crate) fn enqueue(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index)
            && !connection.queued
        {
            connection.queued = true;
            self.ready.push_back(index);
        }
    }

    /// The connection's long statement goes on when the others have had their turn.
    pub(crate) fn rest(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index)
            && !connection.queued
        {
            connection.queued = true;
            self.resting.push(index);
        }
    }

    fn on_letter(&mut self, letter: Letter, now_us: i64) {
        match letter {
            Letter::Connection(socket, peer) => self.add_connection(socket, peer, now_us),
            Letter::Cancel(session) => self.cancel(session),
            Letter::Terminate(session, why) => self.terminate(session, why),
            Letter::Deliver(session) => self.deliver(session),
            Letter::Sent(index, session) => self.on_sent(index, session),
            Letter::Unsent(index, session, rest) => self.on_unsent(index, session, &rest),
            Letter::ShutDown => self.begin_stopping(now_us),
        }
    }

    fn begin_stopping(&mut self, now_us: i64) {
        if self.stopping.is_some() {
            return;
        }
        self.listeners.clear();
        let cancel_at_us = now_us + self.shared.settings.grace_time.as_micros() as i64;
        self.stopping = Some(Stopping {
            cancel_at_us,
            leave_at_us: cancel_at_us + CANCEL_GRACE_US,
            cancelled: false,
        });
        let all: Vec<usize> = self.connections.iter().map(|(index, _)| index).collect();
        all.into_iter().for_each(|index| self.enqueue(index));
    }

    fn accept(&mut self, listener: usize, now_us: i64) {
        if self.accept_again_at_us.is_some_and(|at_us| at_us > now_us) {
            return;
        }
        let mut told = 0;
        loop {
            // While there is no room the rest waits in the system's queue: telling a crowd would take the time of those inside.
            if self.shared.is_full() {
                if told == REFUSALS_A_TURN {
                    self.accept_again_at_us = Some(now_us + REFUSAL_PAUSE_US);
                    return;
                }
                told += 1;
            }
            let Some(accepted) = self.listeners.get(listener).map(TcpListener::accept) else {
                return;
            };
            match accepted {
                Ok((socket, peer)) => self.hand_out(socket, peer, now_us),
                Err(wrong) if wrong.kind() == ErrorKind::WouldBlock => return,
                Err(wrong) if matches!(wrong.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(wrong) => {
                    tracing::warn!(%wrong, "a connection could not be accepted; trying again");
                    self.accept_again_at_us = Some(now_us + ACCEPT_PAUSE_US);
                    return;
                }
            }
        }
    }

    fn hand_out(&mut self, socket: TcpStream, peer: SocketAddr, now_us: i64) {
        if self.shared.is_overrun() {
            WireRefusal::count(&self.shared);
            return;
        }
        let worker = self.shared.choose_worker();
        if worker == self.index {
            self.add_connection(socket, peer, now_us);
        } else {
            self.shared.ports[worker].send(Letter::Connection(socket, peer));
        }
    }

    fn add_connection(&mut self, mut socket: TcpStream, peer: SocketAddr, now_us: i64) {
        set_socket_options(&socket);
        let session = self.shared.next_session();
        let entry = self.connections.vacant_entry();
        let index = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(wrong) = self
            .poll
            .registry()
            .register(&mut socket, Token(CONNECTION_TOKENS + index), interest)
        {
            tracing::warn!(%wrong, "a connection could not be watched and is dropped");
            self.shared.on_connection_closed(self.index);
            return;
        }
        entry.insert(Connection::new(Transport::Plain(Arc::new(socket)), peer, session));
        let deadline_us = now_us + self.shared.settings.login_timeout.as_micros() as i64;
        self.login_deadlines.push_back((deadline_us, index, session));
        self.enqueue(index);
    }
}

/// Counts connections that were turned away.
pub(crate) struct WireRefusal;

impl WireRefusal {
    pub(crate) fn count(shared: &Shared) {
        shared::WireCounters::add(&shared.counters.connections_refused, 1);
    }
}

fn set_socket_options(socket: &TcpStream) {
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(10))
        .with_retries(6);
    let options = socket2::SockRef::from(socket);
    let set = options
        .set_tcp_nodelay(true)
        .and_then(|()| options.set_tcp_keepalive(&keepalive));
    if let Err(wrong) = set {
        tracing::debug!(%wrong, "socket options could not be set");
    }
}

/// How long to wait for events until then. Rounded up by a millisecond, since the system waits in whole ones: else the last one would be
/// spent spinning. What is due is not waited for: a long statement of another node's client goes on at once.
fn until(deadline_us: i64, now_us: i64) -> Duration {
    match deadline_us - now_us {
        ..=0 => Duration::ZERO,
        us => Duration::from_micros(us as u64 + 999),
    }
}
