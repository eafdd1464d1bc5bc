//! What a third node carries on between two that do not reach each other.

use crate::agreement::AgreementMessage;
use crate::message::GridMessage;
use crate::numbers::NumbersMessage;
use rubato_base::NodeId;
use rubato_protocol::grid::{Body, Message, Reply, Request, StageMessage};

/// A message that its sender cannot bring to whom it is for. It is carried on once, and lost if that one cannot be reached either.
#[derive(Clone, Debug, PartialEq)]
pub struct OnwardMessage {
    /// Who says it.
    pub from: NodeId,
    /// Whom it is for.
    pub to: NodeId,
    /// What is said.
    pub said: Onward,
}

/// What may be carried on: whoever hears it late, twice or out of order is none the worse for it, and a node that hears none of it
/// can begin no transaction, or no statement that needs a number, or does not learn how what it has promised has ended, or can do
/// nothing in a relay join.
#[derive(Clone, Debug, PartialEq)]
pub enum Onward {
    /// About what all agree on.
    Agreement(AgreementMessage),
    /// Between a node and the timestamp stage.
    Stage(StageMessage),
    /// About numbers of sequences: of one life of who asks, and given to nobody else.
    Numbers(NumbersMessage),
    /// Of a transaction, if it [`may_be_carried`].
    Transaction(Message),
}

/// Whether a message of a transaction may be carried on. It asks how the transaction has ended, tells it, or says that it is carried out:
/// what is prepared holds up others until then. Or it is between two participants, which know each piece of a relay join by its round and
/// step.
pub fn may_be_carried(message: &Message) -> bool {
    matches!(
        message.body,
        Body::Reply(Reply::Inquire | Reply::Done) | Body::Request(Request::Decide(_)) | Body::Passed(_)
    )
}

impl Onward {
    /// Of a message, if it may be carried on; else gives it back.
    ///
    /// # Errors
    /// The message itself.
    pub fn of(message: GridMessage) -> Result<Onward, Box<GridMessage>> {
        match message {
            GridMessage::Agreement(message) => Ok(Onward::Agreement(message)),
            GridMessage::Stage(message) => Ok(Onward::Stage(message)),
            GridMessage::Numbers(message) => Ok(Onward::Numbers(message)),
            GridMessage::Transaction(message) if may_be_carried(&message) => Ok(Onward::Transaction(message)),
            other => Err(Box::new(other)),
        }
    }
}

impl From<Onward> for GridMessage {
    fn from(said: Onward) -> GridMessage {
        match said {
            Onward::Agreement(message) => GridMessage::Agreement(message),
            Onward::Stage(message) => GridMessage::Stage(message),
            Onward::Numbers(message) => GridMessage::Numbers(message),
            Onward::Transaction(message) => GridMessage::Transaction(message),
        }
    }
}
