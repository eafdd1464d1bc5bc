//! How the rows of a table lie on the nodes of a grid.
//!
//! A row lies by one column of the primary key, an entry of an index by the first column of the index, a row of a table without a
//! primary key where it was inserted. What begins with equal values lies on the same node, for all tables with the same nodes.

use super::Table;
use rubato_base::text_format::{TextContext, write_text};
use rubato_base::{Array, NodeId, Value};
use std::sync::Arc;

/// The most parts that rows are divided into.
pub const PARTS_MAX: u16 = 1024;

/// How a table's rows and index entries lie on the nodes of a grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Which of the nodes has which rows.
    pub way: SpreadWay,
    /// In ascending order. None for a table that was made while there was one node: all is on the one that keeps what there is once.
    pub nodes: Vec<NodeId>,
    /// The nodes of the parts, which have them in these turns; none: one part each.
    pub turns: Vec<NodeId>,
    /// The turns of before, while rows move from there: each row is where it was or where it comes to be. None: nothing moves.
    pub former: Vec<NodeId>,
    /// Whether new rows are made where they come to be, while others move. Not before all know that they have to be looked for there.
    pub takes_new: bool,
}

/// Which of its nodes has which rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpreadWay {
    /// A row lies by the hash of a column.
    Hash {
        /// A column of the primary key; `None`: its first.
        column: Option<usize>,
        /// So many parts, which the nodes have in turn; from 1 to [`PARTS_MAX`].
        parts: u16,
    },
    /// A row lies by the range that a column is in. Ranges lie on the nodes in turn, entries of indexes by hash.
    Range {
        /// A column of the primary key; `None`: its first.
        column: Option<usize>,
        /// Where each range but the first begins, ascending; values of the column's type.
        bounds: Vec<Value>,
    },
    /// Each node has all of them.
    Everywhere,
    /// The only node has all of them: one that was on the node which keeps what there is once, and was told apart from it.
    Whole,
}

impl Default for SpreadWay {
    fn default() -> SpreadWay {
        SpreadWay::Hash {
            column: None,
            parts: PARTS_MAX,
        }
    }
}

impl SpreadWay {
    /// The column that is named for rows to lie by.
    pub fn column(&self) -> Option<usize> {
        match self {
            SpreadWay::Hash { column, .. } | SpreadWay::Range { column, .. } => *column,
            SpreadWay::Everywhere | SpreadWay::Whole => None,
        }
    }
}

impl Spread {
    /// On nodes that are known when the table is made.
    pub fn of_way(way: SpreadWay) -> Spread {
        Spread {
            way,
            ..Spread::default()
        }
    }

    /// Whether it says on which nodes the rows are. Otherwise all are on the one that keeps what there is once.
    pub fn is_laid(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// The nodes of the parts, in turns.
    pub fn turns(&self) -> &[NodeId] {
        if self.turns.is_empty() {
            &self.nodes
        } else {
            &self.turns
        }
    }

    /// Whether its rows are on their way to other nodes.
    pub fn is_moving(&self) -> bool {
        !self.former.is_empty()
    }

    /// The nodes of the parts, in turns, where new rows are made.
    pub fn turns_of_new(&self) -> &[NodeId] {
        match self.is_moving() && !self.takes_new {
            true => &self.former,
            false => self.turns(),
        }
    }

    /// All nodes that may have rows of it, in ascending order.
    pub fn holders(&self) -> Vec<NodeId> {
        let turns = [self.nodes.as_slice(), &self.former].concat();
        Spread::holders_of(&turns)
    }

    /// The nodes that have turns, in ascending order.
    pub fn holders_of(turns: &[NodeId]) -> Vec<NodeId> {
        let mut nodes = turns.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The options of CREATE TABLE that ask for it, beyond what is the default.
    pub fn options(&self, table: &Table) -> Vec<String> {
        let by = |column: &Option<usize>| {
            let named = column.and_then(|column| table.columns.get(column));
            named.map(|column| format!("spread_by={}", column.name))
        };
        match &self.way {
            SpreadWay::Everywhere => vec!["spread=everywhere".to_owned()],
            SpreadWay::Whole => vec!["spread=false".to_owned()],
            SpreadWay::Hash { column, parts } => {
                let parts = (*parts != PARTS_MAX).then(|| format!("spread_parts={parts}"));
                by(column).into_iter().chain(parts).collect()
            }
            SpreadWay::Range { column, bounds } => {
                let bounds = bounds_text(table, bounds).map(|text| format!("spread_bounds={text}"));
                by(column).into_iter().chain(bounds).collect()
            }
        }
    }
}

/// As the option has them: an array.
fn bounds_text(table: &Table, bounds: &[Value]) -> Option<String> {
    let element = table.key_type(table.spread_column()?).data_type;
    let array = Value::Array(Arc::new(Array::new(element, bounds.to_vec())));
    let mut out = Vec::new();
    write_text(&array, element.array()?, &TextContext::default(), &mut out);
    String::from_utf8(out).ok()
}

impl Table {
    /// How its rows lie, if that is told apart from the node that keeps what there is once.
    pub fn laid(&self) -> Option<&Spread> {
        self.spread.as_ref().filter(|spread| spread.is_laid())
    }

    /// The place within the primary key of the column that rows lie by.
    pub fn spread_place(&self) -> usize {
        let column = self.spread.as_ref().and_then(|spread| spread.way.column());
        let place = column.and_then(|column| self.primary_key.iter().position(|own| *own == column));
        place.unwrap_or(0)
    }

    /// The column that rows lie by; `None` for a table without a primary key.
    pub fn spread_column(&self) -> Option<usize> {
        self.primary_key.get(self.spread_place()).copied()
    }
}
