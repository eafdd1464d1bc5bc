//! What goes in and out of the channels of a node, and what is told about them.

use crate::members::MemberMessage;
use crate::message::GridMessage;
use rubato_base::NodeId;

/// One connection: dialled from here, or accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// What the server has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Connect, and say [`super::Links::on_connected`] or [`super::Links::on_closed`].
    Dial {
        /// What it will be called.
        connection: ConnectionId,
        /// Where.
        address: String,
    },
    /// Write, and say [`super::Links::on_written`].
    Write {
        /// Where.
        connection: ConnectionId,
        /// What.
        bytes: Vec<u8>,
    },
    /// Close, behind what was written, as far as that goes out without waiting. Nothing more is heard of the connection.
    Close {
        /// Which.
        connection: ConnectionId,
    },
}

/// What has happened, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// There is a channel with a node.
    Up {
        /// With whom.
        node: NodeId,
        /// In which of its lives, with its lot.
        life: u64,
    },
    /// A message has come on the channel that there is.
    Message {
        /// From whom.
        from: NodeId,
        /// The message.
        message: GridMessage,
    },
    /// Another node has seen a life of this one that its folder does not know: it is an old copy, or runs twice.
    Outdated {
        /// What the other says.
        why: String,
    },
    /// There is no channel any more. What waited for the node is lost.
    Down {
        /// With whom.
        node: NodeId,
        /// Why.
        why: String,
    },
    /// An attempt came to nothing: of this node (said once for each reason) or of somebody who came.
    Refused {
        /// The node that was dialled, or that came and has proved who it is: without it a stranger came, who may do so as often as he likes.
        node: Option<NodeId>,
        /// The address of the other end.
        address: String,
        /// Why.
        why: String,
    },
    /// No node was found at the place to look ([`super::Links::set_lookout`]; said once for each reason).
    NotFound {
        /// That place.
        address: String,
        /// Why.
        why: String,
    },
    /// Somebody wants to be a member. It is answered by [`super::Links::answer`].
    Applied {
        /// Whose connection it is.
        connection: ConnectionId,
        /// What it says.
        message: MemberMessage,
    },
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It waits to be written.
    Queued,
    /// So much waits for the node already that the sender has to wait.
    Full,
    /// There is no channel with the node.
    Down,
    /// It is larger than any message may be.
    TooLarge,
}

/// What went over all channels with a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Messages sent.
    pub messages_out: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Frames received.
    pub frames_in: u64,
    /// Bytes sent behind the hello.
    pub bytes_out: u64,
    /// Bytes received behind the hello.
    pub bytes_in: u64,
    /// Messages that found no room.
    pub full: u64,
    /// Channels there were.
    pub channels: u64,
}

impl Figures {
    pub(super) fn add(&mut self, other: Figures) {
        self.messages_out += other.messages_out;
        self.messages_in += other.messages_in;
        self.frames_out += other.frames_out;
        self.frames_in += other.frames_in;
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.full += other.full;
        self.channels += other.channels;
    }
}

/// How it stands with a node.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerState {
    /// There is no channel, for this reason, since then.
    Down {
        /// Why.
        why: String,
        /// Since when.
        since_us: u64,
    },
    /// A connection is being made.
    Dialling,
    /// Both ends say who they are.
    Greeting,
    /// There is a channel.
    Up {
        /// Since when.
        since_us: u64,
        /// Its version.
        version: u16,
        /// How long the last question and its answer took.
        round_trip_us: Option<u64>,
    },
}

/// A node, for `rubato grid status` and the metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerStatus {
    /// Who it is.
    pub node: NodeId,
    /// Where it is dialled.
    pub address: Option<String>,
    /// The highest life of it that was seen.
    pub life: u64,
    /// How it stands.
    pub state: PeerState,
    /// Bytes that wait for it.
    pub buffered_bytes: usize,
    /// What went to and fro.
    pub figures: Figures,
}
