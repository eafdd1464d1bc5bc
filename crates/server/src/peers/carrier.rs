//! Bytes between sockets and links, and messages between links and the node, driven by a worker's loop.
//!
//! In each of its rounds the worker hands over what the system says of the sockets ([`Carrier::on_event`]), has what came delivered
//! ([`Carrier::take_in`]), runs statements, and has sent what is to be said ([`Carrier::turn`]).

use super::counters::PeerCounters;
use super::folder::{Place, write_outdated};
use super::logs_seen::LogsSeen;
use super::names::Names;
use super::socket::Socket;
use super::{News, PEER_BYTES_MAX, Peers};
use crate::worker::port::WorkerPort;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use rubato_base::{Error, LineLimit, Lsn, NodeId, SqlState};
use rubato_grid::channel::number_of_life;
use rubato_grid::links::{Action, ConnectionId, Event, Links, PeerState, PeerStatus, Sent};
use rubato_node::grid::{GridMessage, GridNode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// From here on tokens are this one's.
pub(crate) const GRID_TOKENS: usize = 1 << 48;
const LISTENER_TOKEN: Token = Token(GRID_TOKENS);
const CONNECTION_TOKENS: usize = GRID_TOKENS + 1;
/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;
/// Reads of one connection before others have their turn.
const READS_MAX: usize = 16;
/// How often the node is told the time at least.
const TIMER: Duration = Duration::from_millis(50);
/// How often links and node are told the time at most: what they do by it is counted in hundredths of a second.
const TIME_TOLD_EVERY_US: u64 = 5_000;
/// How long the node may try to hand over what it keeps for all when it stops.
pub(crate) const HANDING_OVER: Duration = Duration::from_millis(700);
/// How long last words may take when the node stops.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(200);
/// How often the node is told how it stands with the others, if none comes or goes.
const STATUS_EVERY_US: u64 = 500_000;

/// What a worker has of the grid.
pub(crate) struct Carrier {
    registry: Registry,
    listener: TcpListener,
    news: Arc<News>,
    counters: Arc<PeerCounters>,
    pub(super) links: Links,
    pub(super) node: GridNode,
    pub(super) place: Place,
    /// Another node has said that the folder is an old one.
    is_outdated: bool,
    sockets: BTreeMap<ConnectionId, Socket>,
    names: Names,
    /// What is logged of those who come to the port and are not of the grid.
    strangers: LineLimit,
    /// What found no room, or has to stay in order behind that: nobody would say it again.
    waiting: BTreeMap<NodeId, VecDeque<GridMessage>>,
    /// Connections that may have more to read: events tell of what is new only.
    unread: BTreeSet<ConnectionId>,
    /// What has come and is not delivered.
    heard: Vec<(NodeId, GridMessage)>,
    scratch: Box<[u8]>,
    started: Instant,
    time_told_us: u64,
    status_us: u64,
    /// How far the log was forced when the node heard of it, and whether something waits for more.
    pub(super) forced: Lsn,
    /// How far the others were told that it is.
    pub(super) written_told: Lsn,
    /// When what was seen of them is written down the next time.
    pub(super) note_us: u64,
    pub(super) logs_seen: LogsSeen,
    awaits_log: bool,
    /// Nodes that were members, and until when they may hear that they are not.
    pub(super) leaving: BTreeMap<NodeId, u64>,
    /// Who kept the list when it was looked at last.
    pub(super) keeper: Option<NodeId>,
    /// When others were asked for a newer one last.
    pub(super) asked_for_lists_us: u64,
    /// Which version of the list the others have said that they have.
    pub(super) lists_had: BTreeMap<NodeId, u64>,
    /// Where others are, as they have said themselves, who are not where the list says.
    pub(super) seen_at: BTreeMap<NodeId, String>,
}

impl Carrier {
    /// Takes over, for the worker of this port, which waits by this registry.
    pub(crate) fn take_over(peers: Peers, registry: Registry, worker: Arc<WorkerPort>) -> io::Result<Carrier> {
        let Peers {
            mut listener,
            counters,
            links,
            node,
            place,
        } = peers;
        registry.register(&mut listener, LISTENER_TOKEN, Interest::READABLE)?;
        let news = Arc::new(News::of(worker));
        node.set_wake(Arc::clone(&news) as _);
        let mut carrier = Carrier {
            registry,
            listener,
            news,
            counters,
            links,
            node,
            place,
            is_outdated: false,
            sockets: BTreeMap::new(),
            names: Names::default(),
            strangers: LineLimit::default(),
            waiting: BTreeMap::new(),
            unread: BTreeSet::new(),
            heard: Vec::new(),
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            started: Instant::now(),
            time_told_us: 0,
            status_us: 0,
            forced: Lsn(0),
            written_told: Lsn(0),
            note_us: 0,
            logs_seen: LogsSeen::default(),
            awaits_log: false,
            leaving: BTreeMap::new(),
            keeper: None,
            asked_for_lists_us: 0,
            lists_had: BTreeMap::new(),
            seen_at: BTreeMap::new(),
        };
        carrier.set_members();
        if carrier.keeps_list() {
            carrier.note_own_address().map_err(io::Error::other)?;
        }
        Ok(carrier)
    }

    pub(super) fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// Whether there is something to do that no event tells of.
    pub(crate) fn has_news(&self) -> bool {
        self.news.is_there() || !self.unread.is_empty()
    }

    /// Whether the node can serve clients as the whole grid would.
    pub(crate) fn is_ready(&self) -> bool {
        // One that was not dialled yet is not known to be down either.
        let is_up = |peer: PeerStatus| matches!(peer.state, PeerState::Up { .. });
        self.node.figures().is_ready() && self.links.status().all(is_up)
    }

    /// Whether there are no other nodes.
    pub(crate) fn is_alone(&self) -> bool {
        self.place.members.members.len() == 1
    }

    /// How long the worker may wait for events: until the next turn that looks at the time and has something to do then.
    pub(crate) fn timeout(&self) -> Duration {
        let looks_us = self.time_told_us + TIME_TOLD_EVERY_US;
        let timer_us = self.links.next_timer_us().map(|at_us| at_us.max(looks_us));
        let timer = timer_us.map(|at_us| Duration::from_micros(at_us.saturating_sub(self.now_us())));
        timer.map_or(TIMER, |timer| timer.min(TIMER))
    }

    /// Whether something that is to be said waits for the log to be forced.
    pub(crate) fn awaits_log(&self) -> bool {
        self.awaits_log
    }

    /// Whether the answers to clients are held back until this node's part in the grid allows them, and forces the log for that.
    pub(crate) fn holds_answers(&self) -> bool {
        self.node.holds_answers()
    }

    /// The system says something of the listener or a socket.
    pub(crate) fn on_event(&mut self, event: &mio::event::Event) {
        match event.token() {
            LISTENER_TOKEN => self.accept(),
            Token(token) => self.on_socket(ConnectionId((token - CONNECTION_TOKENS) as u64), event),
        }
    }

    /// Delivers what has come.
    pub(crate) fn take_in(&mut self) {
        for id in std::mem::take(&mut self.unread) {
            let read = self.read(id);
            self.end_if_failed(id, read);
        }
        self.hear();
    }

    /// As [`GridNode::put_off_questions`].
    pub(crate) fn put_off_questions(&mut self, are_put_off: bool) {
        self.node.put_off_questions(are_put_off);
    }

    /// Does what is due, and sends what is to be said.
    pub(crate) fn turn(&mut self) {
        let now_us = self.now_us();
        if now_us >= self.time_told_us + TIME_TOLD_EVERY_US {
            self.time_told_us = now_us;
            self.links.on_timer(now_us);
            self.hear();
            self.node.on_timer(now_us as i64);
            self.follow_keeper();
            self.remove_members();
        }
        let forced = self.node.node().forced_lsn();
        self.dial_found();
        if self.news.take() || (self.awaits_log && forced > self.forced) {
            self.node.on_wake();
        }
        self.forced = forced;
        self.send();
        self.act();
        self.awaits_log = self.node.waits_for_log();
        if now_us >= self.status_us {
            self.status_us = now_us + STATUS_EVERY_US;
            self.tell_all_written();
            self.count_strangers(now_us);
            self.note_others_in_time(now_us);
            self.tell_list_again();
            self.ask_for_lists(now_us);
            self.node.note_peers(self.links.status().collect(), &self.place.members);
        }
    }

    /// Forces the log, and sends what waited for that. False if that failed.
    pub(crate) fn force(&mut self) -> bool {
        let forced = self.node.force();
        match &forced {
            Ok(forced) => self.node.on_forced(*forced),
            // The worker that asked says so; it is tried again.
            Err(error) => tracing::debug!(%error, "the log could not be forced"),
        }
        self.turn();
        forced.is_ok()
    }

    /// The node stops: the others hear of it, until nothing is left to be written.
    pub(crate) fn stop(&mut self) {
        self.tell_all_written();
        self.note_others();
        self.links.stop("the node is being stopped");
        self.turn();
    }

    /// What this node keeps for all need not wait for it to be back: the first of the others that can be reached is to keep it. Gives
    /// why not, if that may be different a little later.
    pub(crate) fn hand_over(&mut self) -> Option<Error> {
        let is_up = |peer: &PeerStatus| matches!(peer.state, PeerState::Up { .. });
        let next = self.links.status().find(is_up).filter(|_| self.keeps_list());
        let next = next.map(|peer| peer.node)?;
        match self.node.hand_over(next) {
            Ok(()) => {
                tracing::info!(node = next.0, "another node keeps what there is once");
                self.force();
                None
            }
            Err(error) if error.code() == SqlState::OBJECT_IN_USE => Some(error),
            Err(error) => {
                tracing::warn!(%error, "what there is once stays on this node, and is not served until it is back");
                None
            }
        }
    }

    /// As [`GridNode::has_vote_of_keeper`].
    pub(crate) fn has_vote_of_keeper(&self) -> bool {
        self.node.has_vote_of_keeper()
    }

    /// Whether nothing is left to be written, after [`Carrier::stop`].
    pub(crate) fn is_done(&self) -> bool {
        self.sockets.is_empty()
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    let id = match self.links.on_accepted(&address.to_string(), self.now_us()) {
                        Ok(id) => id,
                        Err(why) => {
                            self.note_stranger(&address.to_string(), why);
                            continue;
                        }
                    };
                    let socket = Socket::accepted(stream, token_of(id), &self.registry);
                    self.add(id, socket);
                }
                Err(wrong) if wrong.kind() == ErrorKind::WouldBlock => return,
                Err(wrong) if wrong.kind() == ErrorKind::Interrupted => {}
                Err(wrong) => {
                    if self.strangers.may_say("accept", self.now_us()) {
                        tracing::warn!(%wrong, "a connection of another node could not be accepted");
                    }
                    return;
                }
            }
        }
    }

    /// Somebody came who is not of the grid, as far as is known.
    fn note_stranger(&mut self, address: &str, why: &str) {
        if self.strangers.may_say(why, self.now_us()) {
            tracing::warn!(address, why, "a connection to the port of the grid was refused");
        }
    }

    /// How many of them are not in the log.
    fn count_strangers(&mut self, now_us: u64) {
        if let Some(more) = self.strangers.take_left_out(now_us) {
            tracing::warn!(
                more,
                "further connections to the port of the grid were refused within a minute"
            );
        }
    }

    fn add(&mut self, id: ConnectionId, socket: io::Result<Socket>) {
        match socket {
            Ok(socket) => drop(self.sockets.insert(id, socket)),
            Err(wrong) => self.links.on_closed(id, &wrong.to_string(), self.now_us()),
        }
    }

    fn on_socket(&mut self, id: ConnectionId, event: &mio::event::Event) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.ends |= event.is_read_closed();
        }
        let outcome = self.connect(id).and_then(|()| match event.is_writable() {
            true => self.write(id),
            false => Ok(()),
        });
        if self.end_if_failed(id, outcome) {
            self.unread.insert(id);
        }
    }

    /// Closes a connection for a reason; true if there is none.
    fn end_if_failed(&mut self, id: ConnectionId, outcome: Result<(), String>) -> bool {
        let Err(why) = outcome else { return true };
        self.sockets.remove(&id);
        self.links.on_closed(id, &why, self.now_us());
        false
    }

    /// Takes note when a connection that was dialled has come about.
    fn connect(&mut self, id: ConnectionId) -> Result<(), String> {
        let now_us = self.now_us();
        let Some(socket) = self.sockets.get_mut(&id).filter(|socket| !socket.is_connected) else {
            return Ok(());
        };
        if socket.finish_connecting().map_err(|wrong| wrong.to_string())? {
            self.links.on_connected(id, now_us);
        }
        Ok(())
    }

    fn read(&mut self, id: ConnectionId) -> Result<(), String> {
        let now_us = self.now_us();
        for _ in 0..READS_MAX {
            let may_read = |socket: &&mut Socket| socket.is_connected && !socket.closes();
            let Some(socket) = self.sockets.get_mut(&id).filter(may_read) else {
                return Ok(());
            };
            match socket.read(&mut self.scratch).map_err(|wrong| wrong.to_string())? {
                None => return Ok(()),
                Some(0) => return Err("the other end has closed it".to_owned()),
                Some(count) => {
                    PeerCounters::add(&self.counters.received_bytes, count);
                    self.links.on_bytes(id, &self.scratch[..count], now_us);
                    // The messages of all channels are delivered together.
                    self.listen();
                    // What was refused is closed behind its last words.
                    self.act();
                    // Less than there was room for: there is no more now, and an event tells of what comes.
                    let is_open = self.sockets.get(&id).is_some_and(|socket| !socket.ends);
                    if count < READ_BYTES && is_open {
                        return Ok(());
                    }
                }
            }
        }
        self.unread.insert(id);
        Ok(())
    }

    fn write(&mut self, id: ConnectionId) -> Result<(), String> {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return Ok(());
        };
        let written = socket.write().map_err(|wrong| wrong.to_string())?;
        if written > 0 {
            PeerCounters::add(&self.counters.sent_bytes, written);
            self.links.on_written(id, written);
        }
        if socket.is_done() {
            self.sockets.remove(&id);
        }
        Ok(())
    }

    /// Does what [`Links`] wants done.
    fn act(&mut self) {
        while let Some(action) = self.links.poll_action() {
            match action {
                Action::Dial { connection, address } => self.dial(connection, &address),
                Action::Write { connection, bytes } => {
                    if let Some(socket) = self.sockets.get_mut(&connection) {
                        PeerCounters::add(&self.counters.frames_sent, 1);
                        socket.put(bytes);
                        let outcome = self.write(connection);
                        self.end_if_failed(connection, outcome);
                    }
                }
                Action::Close { connection } => {
                    self.names.forget(connection);
                    if self.sockets.get_mut(&connection).is_some_and(Socket::close_behind) {
                        self.sockets.remove(&connection);
                    }
                }
            }
        }
    }

    /// An address is dialled at once, a name when it has been looked up.
    fn dial(&mut self, id: ConnectionId, address: &str) {
        match address.parse() {
            Ok(address) => self.dial_at(id, Ok(address)),
            Err(_) => {
                if let Err(wrong) = self.names.look_up(id, address, &self.news) {
                    self.dial_at(id, Err(wrong));
                }
            }
        }
    }

    fn dial_at(&mut self, id: ConnectionId, address: io::Result<SocketAddr>) {
        let socket = address.and_then(|address| Socket::dial(address, token_of(id), &self.registry));
        self.add(id, socket);
    }

    /// Dials those whose names have been looked up.
    fn dial_found(&mut self) {
        while let Some((id, address)) = self.names.poll_found() {
            self.dial_at(id, address);
        }
    }

    /// Hands over what has come, in its order.
    fn hear(&mut self) {
        self.listen();
        self.deliver();
    }

    /// The same, but for the messages behind the last other event, which are kept for [`Carrier::deliver`].
    fn listen(&mut self) {
        while let Some(event) = self.links.poll_event() {
            if !matches!(event, Event::Message { .. }) {
                self.deliver();
            }
            match event {
                Event::Up { node, life } => {
                    tracing::info!(node = node.0, life = number_of_life(life), "connected");
                    self.note_life(node, life);
                    self.waiting.remove(&node);
                    self.status_us = 0;
                    self.node.on_node_up(node);
                    self.greet(node);
                }
                Event::Down { node, why } => {
                    tracing::warn!(node = node.0, why, "a node cannot be reached");
                    self.waiting.remove(&node);
                    self.lists_had.remove(&node);
                    self.status_us = 0;
                    self.node.on_node_down(node);
                    // Before it comes back with less than it has said it had.
                    self.note_others();
                }
                Event::Refused { node, address, why } => match node {
                    Some(node) => tracing::warn!(node = node.0, address, why, "no channel to a node"),
                    None => self.note_stranger(&address, &why),
                },
                Event::NotFound { address, why } => {
                    tracing::warn!(address, why, "no other node is found where --join says");
                }
                // (It is told at each attempt.)
                Event::Outdated { .. } if self.is_outdated => {}
                Event::Outdated { why } => {
                    self.is_outdated = true;
                    // First, since who reads this may end the process.
                    if let Err(why) = write_outdated(&mut self.place, &why) {
                        tracing::error!(why, "that the folder is not the newest one cannot be written down");
                    }
                    self.node.on_outdated(&why);
                    tracing::error!(why, "this folder is not the node's newest one: it is not used any more");
                }
                Event::Message { from, message } => {
                    PeerCounters::add(&self.counters.messages_received, 1);
                    match message {
                        GridMessage::Member(message) => {
                            self.deliver();
                            self.on_member_message(from, message);
                        }
                        message => self.heard.push((from, message)),
                    }
                }
                Event::Applied { connection, message } => self.on_application(connection, message),
            }
        }
    }

    fn deliver(&mut self) {
        if !self.heard.is_empty() {
            self.node.on_messages(self.heard.drain(..));
        }
    }

    /// Sends what the node has to say. What found no room waits for it: some of it nobody would say again.
    fn send(&mut self) {
        for (to, message) in self.node.poll_outgoing() {
            self.waiting.entry(to).or_default().push_back(message);
        }
        for (to, messages) in &mut self.waiting {
            while let Some(message) = messages.pop_front() {
                match self.links.send(*to, &message) {
                    Sent::Queued => self.counters.count_sent(message.name()),
                    Sent::Down => {}
                    Sent::Full if may_be_left_out(&message) => {}
                    Sent::Full => {
                        messages.push_front(message);
                        break;
                    }
                    Sent::TooLarge => {
                        tracing::error!(
                            node = to.0,
                            kind = message.name(),
                            "a message is too large for a channel"
                        );
                        self.node.on_too_large(*to, message);
                    }
                }
            }
        }
        self.waiting.retain(|_, messages| !messages.is_empty());
    }
}

/// What its sender says again, if it is not answered.
fn may_be_left_out(message: &GridMessage) -> bool {
    matches!(
        message,
        GridMessage::Transaction(_) | GridMessage::Traced(_) | GridMessage::Stage(_) | GridMessage::Agreement(_)
    )
}

fn token_of(id: ConnectionId) -> Token {
    Token(CONNECTION_TOKENS + id.0 as usize)
}

const _: () = assert!(PEER_BYTES_MAX > READ_BYTES);
