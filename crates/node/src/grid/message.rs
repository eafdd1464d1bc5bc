//! What nodes of a grid send to each other.

use rubato_protocol::grid::{Body, Message, Reply, Request, StageMessage};

/// A message from one node to another.
#[derive(Clone, Debug, PartialEq)]
pub enum GridMessage {
    /// Between a coordinator and a participant.
    Transaction(Message),
    /// Between a node and the timestamp stage.
    Stage(StageMessage),
}

impl GridMessage {
    /// What kind of message it is, for traces and figures.
    pub fn name(&self) -> &'static str {
        match self {
            GridMessage::Transaction(message) => match &message.body {
                Body::Request(Request::Operate { .. }) => "operate",
                Body::Request(Request::Prepare { .. }) => "prepare",
                Body::Request(Request::Check { .. }) => "check",
                Body::Request(Request::CommitAlone { .. }) => "commit alone",
                Body::Request(Request::Decide(Some(_))) => "decide: commit",
                Body::Request(Request::Decide(None)) => "decide: roll back",
                Body::Reply(Reply::Answer { .. }) => "answer",
                Body::Reply(Reply::Prepared { .. }) => "prepared",
                Body::Reply(Reply::Holds { .. }) => "holds",
                Body::Reply(Reply::Refused(_)) => "refused",
                Body::Reply(Reply::Committed { .. }) => "committed",
                Body::Reply(Reply::Forgotten) => "forgotten",
                Body::Reply(Reply::Done) => "done",
                Body::Reply(Reply::Inquire) => "inquire",
            },
            GridMessage::Stage(message) => match message {
                StageMessage::Wanted { .. } => "ticks wanted",
                StageMessage::Handed { .. } => "ticks handed",
                StageMessage::LiveHere { .. } => "live here",
                StageMessage::LiveEverywhere { .. } => "live everywhere",
                StageMessage::Alive { .. } => "alive",
            },
        }
    }
}
