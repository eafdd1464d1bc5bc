//! The blocks of DO: definitions one after the other, and what is done when one of them fails.

use crate::binder::TextSettings;
use rubato_base::SqlState;

/// DO: definitions, each of which is bound when those before it are carried out.
#[derive(Debug)]
pub struct Definitions {
    /// What it says.
    pub block: Block,
    /// What its texts are bound with.
    pub settings: TextSettings,
}

/// Definitions in order, and what is done in their place.
#[derive(Debug)]
pub struct Block {
    /// What is done in order.
    pub steps: Vec<Step>,
    /// What is done in place of all of them when one has failed; the first that is for the error.
    pub handlers: Vec<Handler>,
}

/// A step of a block.
#[derive(Debug)]
pub enum Step {
    /// A definition.
    Definition(Definition),
    /// A block within the block.
    Block(Block),
    /// IF.
    If {
        /// Conditions in order, with what is done where one is the first that holds.
        branches: Vec<(Definition, Vec<Step>)>,
        /// What is done where none of them holds.
        otherwise: Vec<Step>,
    },
    /// RAISE NOTICE.
    Notice(String),
}

/// A definition, or a condition, as text: what it means is known when the definitions before it are carried out.
#[derive(Debug)]
pub struct Definition {
    /// The statement or expression.
    pub sql: String,
    /// The line of the block that it begins in, counted from 1.
    pub line: usize,
    /// What it stands in.
    pub place: Place,
}

/// What a text within a block stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is a statement.
    Statement,
    /// EXECUTE.
    Execute,
    /// The condition of an IF.
    If,
}

/// `WHEN conditions THEN steps`
#[derive(Debug)]
pub struct Handler {
    /// Which errors it is for.
    pub conditions: Vec<Condition>,
    /// What is done then.
    pub steps: Vec<Step>,
}

/// Which errors a handler is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// OTHERS.
    Others,
    /// Those with this code; with one that ends in `000`, all of its class.
    State(SqlState),
}

impl Condition {
    fn is_for(self, code: SqlState) -> bool {
        match self {
            Condition::Others => code != SqlState::QUERY_CANCELED,
            Condition::State(own) if own.0.ends_with(b"000") => own.0[..2] == code.0[..2],
            Condition::State(own) => own == code,
        }
    }
}

impl Block {
    /// The handler for an error, if there is one.
    pub fn handler_of(&self, code: SqlState) -> Option<&Handler> {
        let is_for = |handler: &&Handler| handler.conditions.iter().any(|condition| condition.is_for(code));
        self.handlers.iter().find(is_for)
    }
}
