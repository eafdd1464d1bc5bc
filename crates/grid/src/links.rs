//! The channels to all other nodes, so that the server only moves bytes.
//!
//! What happens comes in by `on_*` with the time; what is to be done goes out by `poll_*`. Every node dials every other one that it has no
//! channel with, the higher number a little later. If both dial at once one channel is left: the node with the lower number decides. It
//! accepts the other's attempt as long as its own has proved nothing (and drops its own), and refuses it afterwards; the node with the
//! higher number always takes what the lower one proves, and drops its own. An attempt of a node that has a channel by its own dialling
//! already means that it has lost that channel, or that the attempt is older: the channel has to show soon that it lives.
//!
//! Invariant: at most one attempt from here and one channel per node; strangers are [`GREETINGS_MAX`] at most, for a bounded time.

mod connection;
mod interface;
mod open;
mod peer;

pub use interface::{Action, ConnectionId, Event, Figures, PeerState, PeerStatus, Sent};

use crate::channel::seal::Key;
use crate::channel::{APPLICANT, Accepting, Claim, Dialling, Greeted, Identity, Progress, Refusal, number_of_life};
use crate::frame::Refused;
use crate::members::MemberMessage;
use crate::message::GridMessage;
use connection::{Connection, Random, Stage};
use open::Open;
use peer::Peer;
use rubato_base::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A connection that does not come about within this time is given up.
pub const CONNECT_TIME_US: u64 = 3_000_000;
/// Between an attempt that came to nothing and the next: this at first, twice as long each time, and never longer than [`WAIT_US_MAX`].
pub const FIRST_WAIT_US: u64 = 100_000;
/// See [`FIRST_WAIT_US`]: a node that is back waits no longer than this for its channels.
pub const WAIT_US_MAX: u64 = 5_000_000;
/// How much later the node with the higher number dials.
pub const HIGHER_WAITS_US: u64 = 50_000;
/// A channel that lasted so long was none of the attempts that came to nothing.
pub const STEADY_US: u64 = 10_000_000;
/// The other end is asked whether it is alive if nothing was heard of it for so long.
pub const PING_EVERY_US: u64 = 1_000_000;
/// It is asked at least so often, to know how long an answer takes.
pub const MEASURE_EVERY_US: u64 = 5_000_000;
/// Questions whether others are alive wait for the next multiple of this.
pub const TOGETHER_US: u64 = 250_000;
/// A channel on which nothing was heard for so long is closed: some questions have gone unanswered then.
pub const SILENT_US: u64 = 5_000_000;
/// The same, if the other end has dialled anew.
pub const PROBE_US: u64 = 1_000_000;
/// Connections of whom nothing is known yet, at most: more than a large grid makes when it starts at once. Further ones are not taken.
pub const GREETINGS_MAX: usize = 256;
/// How often is looked where another node may be found, while there is no channel with any.
pub const LOOKOUT_EVERY_US: u64 = 1_000_000;
/// Who wants to be a member has so long for that.
pub const APPLICATION_US: u64 = 10_000_000;

/// The channels of one node.
#[derive(Debug)]
pub struct Links {
    identity: Arc<Identity>,
    random: Random,
    bytes_max: usize,
    peers: BTreeMap<NodeId, Peer>,
    connections: BTreeMap<ConnectionId, Connection>,
    connections_made: u64,
    /// Connections that may have something to write.
    writable: BTreeSet<ConnectionId>,
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
    stopped: bool,
    lookout: Option<Lookout>,
}

/// An address at which some node of the grid may be found.
#[derive(Debug)]
struct Lookout {
    address: String,
    /// The attempt that is under way.
    dial: Option<ConnectionId>,
    dial_us: u64,
    /// Who was found there last.
    found: Option<NodeId>,
    /// What was said last about an attempt, so that it is said once.
    said: Option<String>,
}

impl Links {
    /// Without any peer. The seed is random and of this start of the node alone: nonces are made of it. A peer has `bytes_max` bytes of
    /// messages waiting, or one message more.
    pub fn new(identity: Identity, seed: Key, bytes_max: usize) -> Links {
        Links {
            identity: Arc::new(identity),
            random: Random { seed, drawn: 0 },
            bytes_max,
            peers: BTreeMap::new(),
            connections: BTreeMap::new(),
            connections_made: 0,
            writable: BTreeSet::new(),
            actions: VecDeque::new(),
            events: VecDeque::new(),
            stopped: false,
            lookout: None,
        }
    }

    /// Who this node is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// There is such a member, at this address if it is known. A list of members may hold this node too: it is left out.
    pub fn set_peer(&mut self, node: NodeId, address: Option<&str>, now_us: u64) {
        if node == self.identity.node {
            return;
        }
        let here = self.identity.node;
        let peer = self.peers.entry(node).or_insert_with(|| Peer::new(here, node, now_us));
        peer.address = address.map(str::to_string);
    }

    /// An address at which some node of the grid may be found, whichever that is: it is dialled while there is no channel with any node, and
    /// while one is missing that may be there. So nodes find each other that all have other addresses than before.
    pub fn set_lookout(&mut self, address: Option<&str>) {
        self.lookout = address.map(|address| Lookout {
            address: address.to_owned(),
            dial: None,
            dial_us: 0,
            found: None,
            said: None,
        });
    }

    /// A life of the node that was seen before this start: no earlier one is let in any more, nor another of the same number. Changes nothing
    /// if one has been seen since.
    pub fn know_life(&mut self, node: NodeId, life: u64) {
        if let Some(peer) = self.peers.get_mut(&node).filter(|peer| peer.life == 0) {
            peer.life = life;
        }
    }

    /// The log of the node is certainly written up to here: no later life of it is let in that begins with less.
    pub fn know_log(&mut self, node: NodeId, log_end: u64) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.log_end = peer.log_end.max(log_end);
        }
    }

    /// It is no member any more.
    pub fn remove_peer(&mut self, node: NodeId) {
        let Some(peer) = self.peers.remove(&node) else {
            return;
        };
        let why = format!("node {} is no member of the grid any more", node.0);
        for connection in peer.dial.into_iter().chain(peer.up) {
            self.forget(connection, &why);
        }
        if peer.up.is_some() {
            self.events.push_back(Event::Down { node, why });
        }
    }

    /// The node stops: all channels are closed, with this reason, and no other is made.
    pub fn stop(&mut self, why: &str) {
        self.stopped = true;
        for connection in self.connections.keys().copied().collect::<Vec<_>>() {
            self.forget(connection, why);
        }
        for peer in self.peers.values_mut() {
            (peer.dial, peer.up) = (None, None);
            peer.down.0 = why.to_string();
        }
    }

    /// Somebody has connected.
    ///
    /// Errors: why the connection is to be closed at once.
    pub fn on_accepted(&mut self, address: &str, now_us: u64) -> Result<ConnectionId, &'static str> {
        if self.stopped {
            return Err("this node is being stopped, or is none of the grid any more");
        }
        let is_stranger = |connection: &&Connection| {
            matches!(connection.stage, Stage::Accepting(_)) || connection.node == Some(APPLICANT)
        };
        if self.connections.values().filter(is_stranger).count() >= GREETINGS_MAX {
            return Err("too many connections of strangers");
        }
        let accepting = Accepting::new(self.identity.clone(), self.random.nonce(), now_us);
        let stage = Stage::Accepting(Box::new(accepting));
        Ok(self.add(stage, None, address.to_string(), false))
    }

    /// A connection that was to be dialled has come about.
    pub fn on_connected(&mut self, id: ConnectionId, now_us: u64) {
        let nonce = self.random.nonce();
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if matches!(connection.stage, Stage::Connecting { .. }) {
            let (identity, hello) = (self.identity.clone(), &mut connection.hello);
            let dialling = Dialling::new(identity, connection.node, nonce, now_us, hello);
            connection.stage = Stage::Dialling(Box::new(dialling));
            self.writable.insert(id);
        }
    }

    /// A connection has ended, or did not come about.
    pub fn on_closed(&mut self, id: ConnectionId, why: &str, now_us: u64) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let why = match connection.stage {
            Stage::Connecting { .. } => format!("it cannot be reached: {why}"),
            Stage::Dialling(_) => format!("the connection ended within the hello: {why}"),
            // Somebody who has only looked whether the port is open.
            Stage::Accepting(_) => String::new(),
            Stage::Open(_) => format!("the connection ended: {why}"),
        };
        self.writable.remove(&id);
        if let Some(connection) = self.connections.remove(&id) {
            self.keep_figures(&connection);
            self.after(id, &connection, &why, now_us);
        }
    }

    /// Bytes have come.
    pub fn on_bytes(&mut self, id: ConnectionId, bytes: &[u8], now_us: u64) {
        // It is out of the map while it is judged by what stands there.
        let Some(mut connection) = self.connections.remove(&id) else {
            return;
        };
        let here = connection.dialled_here;
        let looks = self.lookout.as_ref().is_some_and(|lookout| lookout.dial == Some(id));
        let judge = |claim| self.judge((here, looks), claim);
        let hello = &mut connection.hello;
        let progress = match &mut connection.stage {
            Stage::Connecting { .. } => Progress::More,
            Stage::Dialling(dialling) => dialling.on_bytes(bytes, &judge, hello),
            Stage::Accepting(accepting) => accepting.on_bytes(bytes, &judge, hello),
            Stage::Open(open) => {
                let (node, events) = (connection.node, &mut self.events);
                let outcome = open.on_bytes(bytes, now_us, &mut |message| match (node, message) {
                    (Some(APPLICANT), GridMessage::Member(message)) => {
                        let connection = id;
                        events.push_back(Event::Applied { connection, message });
                    }
                    // Nothing else is heard of somebody who is no member.
                    (None | Some(APPLICANT), _) => {}
                    (Some(from), message) => events.push_back(Event::Message { from, message }),
                });
                self.connections.insert(id, connection);
                self.writable.insert(id);
                if let Err(why) = outcome {
                    self.end(id, &why, now_us);
                }
                return;
            }
        };
        self.connections.insert(id, connection);
        self.writable.insert(id);
        match progress {
            Progress::More => {}
            Progress::Done(greeted) => self.on_greeted(id, *greeted, now_us),
            Progress::Refused(refusal) => self.on_refusal(id, &refusal, now_us),
        }
    }

    /// So many bytes of what was to be written are written.
    pub fn on_written(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.in_flight = connection.in_flight.saturating_sub(bytes);
            self.writable.insert(id);
        }
    }

    /// Dials, asks, and gives up, at its time.
    pub fn on_timer(&mut self, now_us: u64) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            self.on_connection_timer(id, now_us);
        }
        if self.stopped {
            return;
        }
        let is_due = |peer: &Peer| peer.next_dial_us().is_some_and(|dial_us| dial_us <= now_us);
        let due: Vec<NodeId> = self
            .peers
            .iter()
            .filter(|(_, peer)| is_due(peer))
            .map(|(node, _)| *node)
            .collect();
        for node in due {
            self.dial(node, now_us);
        }
        if self.next_look_us().is_some_and(|look_us| look_us <= now_us) {
            self.look_out(now_us);
        }
    }

    /// When it is to be looked where another node may be found, if that is so.
    fn next_look_us(&self) -> Option<u64> {
        let lookout = self.lookout.as_ref().filter(|lookout| lookout.dial.is_none());
        lookout
            .filter(|lookout| self.may_find(lookout))
            .map(|lookout| lookout.dial_us)
    }

    /// Whether a node may be there that has no channel with this one: not if who was found there has one, nor if another attempt goes there.
    fn may_find(&self, lookout: &Lookout) -> bool {
        if self.peers.values().all(|peer| peer.up.is_none()) {
            return true;
        }
        let is_one_missing = self.peers.values().any(|peer| peer.up.is_none());
        let is_dialled = |peer: &Peer| peer.address.as_ref() == Some(&lookout.address);
        is_one_missing && !lookout.found.is_some_and(|node| self.is_up(node)) && !self.peers.values().any(is_dialled)
    }

    fn look_out(&mut self, now_us: u64) {
        let Some(address) = self.lookout.as_ref().map(|lookout| lookout.address.clone()) else {
            return;
        };
        let until_us = now_us + CONNECT_TIME_US;
        let connection = self.add(Stage::Connecting { until_us }, None, address.clone(), true);
        if let Some(lookout) = &mut self.lookout {
            (lookout.dial, lookout.dial_us) = (Some(connection), now_us + LOOKOUT_EVERY_US);
        }
        self.actions.push_back(Action::Dial { connection, address });
    }

    /// When [`Links::on_timer`] has something to do next.
    pub fn next_timer_us(&self) -> Option<u64> {
        let dials = self
            .peers
            .values()
            .filter_map(Peer::next_dial_us)
            .filter(|_| !self.stopped);
        let connections = self.connections.values().map(|connection| match &connection.stage {
            Stage::Connecting { until_us } => *until_us,
            Stage::Dialling(dialling) => dialling.until_us(),
            Stage::Accepting(accepting) => accepting.until_us(),
            Stage::Open(open) => open.next_timer_us(),
        });
        let look = self.next_look_us().filter(|_| !self.stopped);
        dials.chain(connections).chain(look).min()
    }

    /// Sends a message.
    pub fn send(&mut self, to: NodeId, message: &GridMessage) -> Sent {
        let Some(id) = self.peers.get(&to).and_then(|peer| peer.up) else {
            return Sent::Down;
        };
        let Some(Connection {
            stage: Stage::Open(open),
            in_flight,
            ..
        }) = self.connections.get_mut(&id)
        else {
            return Sent::Down;
        };
        let pushed = match open.waiting_bytes() + *in_flight >= self.bytes_max {
            true => Err(Refused::Full),
            false => open.push(message),
        };
        match pushed {
            Ok(()) => {
                self.writable.insert(id);
                Sent::Queued
            }
            Err(Refused::Full) => {
                open.count_full();
                Sent::Full
            }
            Err(Refused::TooLarge) => Sent::TooLarge,
        }
    }

    /// What is to be done. A connection gets bytes to write when those before are written: what is sent meanwhile shares frames.
    pub fn poll_action(&mut self) -> Option<Action> {
        while self.actions.is_empty() {
            let id = self.writable.pop_first()?;
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            if connection.in_flight > 0 {
                continue;
            }
            let bytes = connection.take();
            if !bytes.is_empty() {
                connection.in_flight = bytes.len();
                self.actions.push_back(Action::Write { connection: id, bytes });
            }
        }
        self.actions.pop_front()
    }

    /// Answers who wants to be a member, if the connection is still there; closes it behind that.
    pub fn answer(&mut self, to: ConnectionId, message: MemberMessage) {
        if let Some(Connection {
            stage: Stage::Open(open),
            node: Some(APPLICANT),
            ..
        }) = self.connections.get_mut(&to)
        {
            // What does not fit (the list of a grid is far smaller) ends as one that was not answered.
            let _ = open.push(&GridMessage::Member(message));
            self.forget(to, "the application is answered");
        }
    }

    /// What has happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether there is a channel with a node.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| peer.up.is_some())
    }

    /// How it stands with each node.
    pub fn status(&self) -> impl Iterator<Item = PeerStatus> {
        self.peers.iter().map(|(node, peer)| self.status_of(*node, peer))
    }

    fn status_of(&self, node: NodeId, peer: &Peer) -> PeerStatus {
        let current = peer.up.or(peer.dial).and_then(|id| self.connections.get(&id));
        let mut figures = peer.past;
        let (why, since_us) = peer.down.clone();
        let state = match current.map(|connection| &connection.stage) {
            None => PeerState::Down { why, since_us },
            Some(Stage::Connecting { .. }) => PeerState::Dialling,
            Some(Stage::Dialling(_) | Stage::Accepting(_)) => PeerState::Greeting,
            Some(Stage::Open(open)) => {
                figures.add(open.figures());
                PeerState::Up {
                    since_us: open.since_us,
                    version: open.version,
                    round_trip_us: open.round_trip_us,
                }
            }
        };
        PeerStatus {
            node,
            address: peer.address.clone(),
            life: number_of_life(peer.life),
            state,
            buffered_bytes: current.map_or(0, Connection::buffered_bytes),
            figures,
        }
    }

    fn add(&mut self, stage: Stage, node: Option<NodeId>, address: String, dialled_here: bool) -> ConnectionId {
        self.connections_made += 1;
        let id = ConnectionId(self.connections_made);
        let connection = Connection {
            stage,
            node,
            address,
            dialled_here,
            hello: Vec::new(),
            in_flight: 0,
        };
        self.connections.insert(id, connection);
        id
    }

    fn dial(&mut self, node: NodeId, now_us: u64) {
        let Some(address) = self.peers.get(&node).and_then(|peer| peer.address.clone()) else {
            return;
        };
        let until_us = now_us + CONNECT_TIME_US;
        let connection = self.add(Stage::Connecting { until_us }, Some(node), address.clone(), true);
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.dial = Some(connection);
        }
        self.actions.push_back(Action::Dial { connection, address });
    }

    /// Whether a node that has proved who it is gets a channel. Who only looks for others needs none with one that has one.
    fn judge(&self, (dialled_here, looks): (bool, bool), claim: Claim) -> Result<(), Refusal> {
        let Claim { node, life, log_end } = claim;
        if node == APPLICANT && !dialled_here {
            return Ok(());
        }
        let peer = self.peers.get(&node).ok_or(Refusal::Unknown(node))?;
        let (number, seen) = (number_of_life(life), number_of_life(peer.life));
        if number < seen || (number == seen && life != peer.life) {
            let life = number;
            return Err(Refusal::OlderLife { node, life, seen });
        }
        if number > seen && log_end < peer.log_end {
            let seen = peer.log_end;
            return Err(Refusal::ShorterLog { node, log_end, seen });
        }
        let stage_of = |id: Option<ConnectionId>| id.and_then(|id| self.connections.get(&id));
        let has_proved =
            |connection: &Connection| matches!(&connection.stage, Stage::Dialling(dialling) if dialling.has_proved());
        let own_attempt = stage_of(peer.dial).is_some_and(has_proved);
        let own_channel = life == peer.life && stage_of(peer.up).is_some_and(|connection| connection.dialled_here);
        let is_known = looks && life == peer.life && peer.up.is_some();
        match is_known || !dialled_here && self.identity.node < node && (own_attempt || own_channel) {
            true => Err(Refusal::Connected(node)),
            false => Ok(()),
        }
    }

    /// A node has a channel now; what else there was with it is dropped.
    fn on_greeted(&mut self, id: ConnectionId, greeted: Greeted, now_us: u64) {
        let (node, life) = (greeted.node, greeted.life);
        if node == APPLICANT {
            return self.open(id, greeted, now_us);
        }
        self.note_found(id, node);
        self.end_look(id);
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        let attempt = peer.dial.take().filter(|attempt| *attempt != id);
        let before = peer.up.replace(id);
        peer.life = life;
        peer.said = None;
        let why = "another channel with the node has taken its place";
        for other in attempt.into_iter().chain(before) {
            self.forget(other, why);
        }
        if before.is_some() {
            let why = why.to_string();
            self.events.push_back(Event::Down { node, why });
        }
        self.events.push_back(Event::Up { node, life });
        self.open(id, greeted, now_us);
    }

    fn note_found(&mut self, id: ConnectionId, node: NodeId) {
        if let Some(lookout) = self.lookout.as_mut().filter(|lookout| lookout.dial == Some(id)) {
            lookout.found = Some(node);
        }
    }

    /// The attempt is over, if it was one to find any node. What was said about such attempts before.
    fn end_look(&mut self, id: ConnectionId) -> Option<&mut Option<String>> {
        let lookout = self.lookout.as_mut().filter(|lookout| lookout.dial == Some(id))?;
        lookout.dial = None;
        Some(&mut lookout.said)
    }

    /// The hello of a connection is through.
    fn open(&mut self, id: ConnectionId, greeted: Greeted, now_us: u64) {
        let node = greeted.node;
        let (open, rest) = Open::new(greeted, self.bytes_max, now_us);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.node = Some(node);
            connection.stage = Stage::Open(Box::new(open));
        }
        self.on_connection_timer(id, now_us);
        if !rest.is_empty() {
            self.on_bytes(id, &rest, now_us);
        }
    }

    fn on_refusal(&mut self, id: ConnectionId, refusal: &Refusal, now_us: u64) {
        if let Refusal::ToldOutdated(why) = refusal {
            self.events.push_back(Event::Outdated { why: why.clone() });
        }
        if let Some(node) = refusal.proved()
            && let Some(connection) = self.connections.get_mut(&id)
        {
            connection.node = Some(node);
        }
        if let Refusal::Connected(node) = refusal {
            self.note_found(id, *node);
        }
        // The other end has given up the channel that there is, or dialled before it came to be: it shows soon.
        if let Refusal::Connected(node) = refusal
            && let Some(up) = self.peers.get(node).and_then(|peer| peer.up)
            && let Some(Stage::Open(open)) = self.connections.get_mut(&up).map(|connection| &mut connection.stage)
        {
            open.probe(now_us);
            self.writable.insert(up);
        }
        let why = match refusal.is_of_no_account() {
            true => String::new(),
            false => refusal.to_string(),
        };
        self.end(id, &why, now_us);
    }

    fn on_connection_timer(&mut self, id: ConnectionId, now_us: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let hello = &mut connection.hello;
        let outcome = match &mut connection.stage {
            Stage::Connecting { until_us } if *until_us <= now_us => Err(format!(
                "it cannot be reached: no connection within {} seconds",
                CONNECT_TIME_US / 1_000_000
            )),
            Stage::Connecting { .. } => Ok(()),
            Stage::Dialling(dialling) => refused(dialling.on_timer(now_us, hello)),
            Stage::Accepting(accepting) => refused(accepting.on_timer(now_us, hello)),
            Stage::Open(open) if connection.node == Some(APPLICANT) && open.since_us + APPLICATION_US <= now_us => {
                Err("an applicant has not said what it wants".to_string())
            }
            Stage::Open(open) => open.on_timer(now_us),
        };
        self.writable.insert(id);
        if let Err(why) = outcome {
            self.end(id, &why, now_us);
        }
    }

    /// Closes a connection for a reason, and takes note; no reason is worth no word.
    fn end(&mut self, id: ConnectionId, why: &str, now_us: u64) {
        if let Some(connection) = self.forget(id, why) {
            self.after(id, &connection, why, now_us);
        }
    }

    /// Closes a connection, with a last word; nothing is noted but its figures.
    fn forget(&mut self, id: ConnectionId, why: &str) -> Option<Connection> {
        let mut connection = self.connections.remove(&id)?;
        self.writable.remove(&id);
        let bytes = connection.last_words(why);
        if !bytes.is_empty() {
            self.actions.push_back(Action::Write { connection: id, bytes });
        }
        self.actions.push_back(Action::Close { connection: id });
        self.keep_figures(&connection);
        Some(connection)
    }

    fn keep_figures(&mut self, connection: &Connection) {
        if let Stage::Open(open) = &connection.stage
            && let Some(peer) = connection.node.and_then(|node| self.peers.get_mut(&node))
        {
            peer.past.add(open.figures());
        }
    }

    /// Takes note that a connection is no more.
    fn after(&mut self, id: ConnectionId, connection: &Connection, why: &str, now_us: u64) {
        let random = self.random.number();
        let (node, address) = (connection.node, connection.address.clone());
        if let Some(said) = self.end_look(id) {
            let is_news = !why.is_empty() && said.as_deref() != Some(why);
            if is_news {
                *said = Some(why.to_string());
                let why = why.to_string();
                self.events.push_back(Event::NotFound { address, why });
            }
            return;
        }
        let peer = node.and_then(|node| Some((node, self.peers.get_mut(&node)?)));
        match (&connection.stage, peer) {
            (Stage::Open(open), Some((node, peer))) if peer.up == Some(id) => {
                peer.on_channel_ended(why, open.since_us, now_us, random);
                let why = why.to_string();
                self.events.push_back(Event::Down { node, why });
            }
            (Stage::Connecting { .. } | Stage::Dialling(_), Some((_, peer))) if peer.dial == Some(id) => {
                let news = peer.on_dial_ended(why, now_us, random);
                if news {
                    let why = why.to_string();
                    self.events.push_back(Event::Refused { node, address, why });
                }
            }
            (Stage::Accepting(_), _) if !why.is_empty() => {
                let why = why.to_string();
                self.events.push_back(Event::Refused { node, address, why });
            }
            _ => {}
        }
    }
}

fn refused(refusal: Option<Refusal>) -> Result<(), String> {
    refusal.map_or(Ok(()), |refusal| Err(refusal.to_string()))
}
