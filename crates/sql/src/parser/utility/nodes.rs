//! What is said of the nodes of a grid.

use super::Syntax;
use crate::parser::cursor::Cursor;
use crate::parser::syntax::Source;
use crate::statement::Utility;
use rubato_base::{NodeId, Result};

/// ALTER GRID REMOVE NODE and ALTER GRID HAND OVER TO NODE.
pub(super) fn alter_grid(source: Source<'_>) -> Result<Option<Syntax>> {
    let mut cursor = Cursor::new(source)?;
    if !cursor.accept_all(&["alter", "grid"]) {
        return Ok(None);
    }
    let hands_over = cursor.accept_all(&["hand", "over", "to"]);
    if !hands_over {
        cursor.expect("remove")?;
    }
    cursor.expect("node")?;
    let number = cursor.peek().map(|token| token.text(source.text).parse());
    let Some(Ok(number)) = number else {
        return Err(cursor.error());
    };
    cursor.advance();
    cursor.expect_end()?;
    let utility = match hands_over {
        true => Utility::HandOver(NodeId(number)),
        false => Utility::RemoveNode(NodeId(number)),
    };
    Ok(Some(Syntax::Done(Box::new(utility))))
}
