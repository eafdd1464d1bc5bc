//! What nodes of a grid send to each other.

use crate::agreement::AgreementMessage;
use crate::catalogs::CatalogMessage;
use crate::members::MemberMessage;
use crate::numbers::NumbersMessage;
use crate::work::WorkMessage;
use rubato_protocol::grid::{Body, Message, Reply, Request, StageMessage};

/// A message from one node to another.
#[derive(Clone, Debug, PartialEq)]
pub enum GridMessage {
    /// Between a coordinator and a participant.
    Transaction(Message),
    /// Between a node and the timestamp stage.
    Stage(StageMessage),
    /// Between the node of a client and the one that runs its transaction.
    Work(WorkMessage),
    /// About who belongs to the grid.
    Member(MemberMessage),
    /// About the catalogs.
    Catalog(CatalogMessage),
    /// About numbers of sequences.
    Numbers(NumbersMessage),
    /// About what all agree on.
    Agreement(AgreementMessage),
}

impl GridMessage {
    /// What kind of message it is, for traces and figures.
    pub fn name(&self) -> &'static str {
        match self {
            GridMessage::Transaction(message) => match &message.body {
                Body::Request(Request::Operate { .. }) => "message: operate",
                Body::Request(Request::Prepare { .. }) => "message: prepare",
                Body::Request(Request::Check { .. }) => "message: check",
                Body::Request(Request::CommitAlone { .. }) => "message: commit alone",
                Body::Request(Request::Decide(Some(_))) => "message: decide: commit",
                Body::Request(Request::Decide(None)) => "message: decide: roll back",
                Body::Reply(Reply::Answer { .. }) => "message: answer",
                Body::Reply(Reply::Prepared { .. }) => "message: prepared",
                Body::Reply(Reply::Holds { .. }) => "message: holds",
                Body::Reply(Reply::Refused(_)) => "message: refused",
                Body::Reply(Reply::Committed { .. }) => "message: committed",
                Body::Reply(Reply::Forgotten) => "message: forgotten",
                Body::Reply(Reply::Done) => "message: done",
                Body::Reply(Reply::Inquire) => "message: inquire",
                Body::Reply(Reply::Waits) => "message: waits",
            },
            GridMessage::Stage(message) => match message {
                StageMessage::Wanted { .. } => "message: ticks wanted",
                StageMessage::Handed { .. } => "message: ticks handed",
                StageMessage::LiveHere { .. } => "message: live here",
                StageMessage::LiveEverywhere { .. } => "message: live everywhere",
                StageMessage::Alive { .. } => "message: alive",
            },
            GridMessage::Work(message) => message.name(),
            GridMessage::Member(message) => message.name(),
            GridMessage::Catalog(message) => message.name(),
            GridMessage::Numbers(message) => message.name(),
            GridMessage::Agreement(message) => message.name(),
        }
    }
}
