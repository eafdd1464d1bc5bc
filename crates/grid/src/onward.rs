//! What a third node carries on between two that do not reach each other.

use crate::agreement::AgreementMessage;
use crate::message::GridMessage;
use crate::numbers::NumbersMessage;
use rubato_base::NodeId;
use rubato_protocol::grid::StageMessage;

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
/// can begin no transaction, or no statement that needs a number.
#[derive(Clone, Debug, PartialEq)]
pub enum Onward {
    /// About what all agree on.
    Agreement(AgreementMessage),
    /// Between a node and the timestamp stage.
    Stage(StageMessage),
    /// About numbers of sequences: of one life of who asks, and given to nobody else.
    Numbers(NumbersMessage),
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
        }
    }
}
