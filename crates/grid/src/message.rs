//! What nodes of a grid send to each other.

use crate::agreement::AgreementMessage;
use crate::catalogs::CatalogMessage;
use crate::members::MemberMessage;
use crate::numbers::NumbersMessage;
use crate::onward::OnwardMessage;
use crate::sessions::SessionsMessage;
use crate::telling::TellMessage;
use crate::traced::TracedMessage;
use crate::work::WorkMessage;
use rubato_protocol::grid::{Body, Message, Passed, Reply, Request, StageMessage, Waiting};

/// A message from one node to another.
#[derive(Clone, Debug, PartialEq)]
pub enum GridMessage {
    /// Between a coordinator and a participant, or two participants.
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
    /// Between a coordinator and a participant, about a statement whose way is recorded.
    Traced(Box<TracedMessage>),
    /// About what all agree on.
    Agreement(AgreementMessage),
    /// About the sessions of nodes.
    Sessions(SessionsMessage),
    /// About what is told on channels.
    Tell(TellMessage),
    /// For another node, or from one, that its sender does not reach.
    Onward(OnwardMessage),
}

impl GridMessage {
    /// What kind of message it is, for traces and figures.
    pub fn name(&self) -> &'static str {
        match self {
            GridMessage::Transaction(message) => name_of(message),
            GridMessage::Traced(traced) => name_of(&traced.message),
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
            GridMessage::Sessions(message) => message.name(),
            GridMessage::Tell(message) => message.name(),
            GridMessage::Onward(_) => "message: carried on",
        }
    }
}

/// What kind of message of a transaction it is.
pub fn name_of(message: &Message) -> &'static str {
    match &message.body {
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
        Body::Reply(Reply::Awaited) => "message: awaited",
        Body::Reply(Reply::Unready { .. }) => "message: unready",
        Body::Waiting(Waiting::Ahead(_)) => "message: who is ahead",
        Body::Waiting(Waiting::Behind(_)) => "message: who is behind",
        Body::Waiting(Waiting::GiveWay) => "message: give way",
        Body::Passed(Passed::Piece { .. }) => "message: passed on",
        Body::Passed(Passed::Wanted { .. }) => "message: piece wanted",
    }
}
