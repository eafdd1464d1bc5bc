//! Changes that one other node makes by one operation, where this one would read the row first and then change it.

use super::{Elsewhere, Rows, row_of};
use rubato_base::{ColumnSet, Key, Row, TableId};
use rubato_formula::{Formula, RowBounds};
use rubato_protocol::Outcome;
use rubato_protocol::grid::Operation;

impl Rows<'_> {
    /// Reads a row to write and changes it by a formula, if one other node has it: the row as it was, if it is there. `None` if the row
    /// lies elsewhere.
    pub(crate) fn update_read(
        &mut self,
        place: (TableId, &Key),
        columns: ColumnSet,
        formula: &Formula,
    ) -> Option<Outcome<Option<Row>>> {
        self.change_at_once(place, || updating(place, columns, formula))
    }

    /// Inserts a row, or changes the one that is there by a formula, if one other node has its place: the row that was there, as it was.
    /// `None` if its place is elsewhere.
    pub(crate) fn upsert(
        &mut self,
        place: (TableId, &Key),
        row: &Row,
        formula: &Formula,
    ) -> Option<Outcome<Option<Row>>> {
        self.change_at_once(place, || upserting(place, row.clone(), formula.clone()))
    }

    /// Reads a row to write and deletes it, if one other node has it: the row as it was, if it was there. `None` if it lies elsewhere.
    pub(crate) fn delete_read(&mut self, place: (TableId, &Key)) -> Option<Outcome<Option<Row>>> {
        self.change_at_once(place, || deleting(place))
    }

    fn change_at_once(
        &mut self,
        (table, key): (TableId, &Key),
        operation: impl FnOnce() -> Operation,
    ) -> Option<Outcome<Option<Row>>> {
        let Some(Elsewhere::At(node)) = self.elsewhere(table, key.as_bytes()) else {
            return None;
        };
        self.touch(table, Some(key.as_bytes()), true);
        let changed = self.far.as_deref_mut()?.change(node, (table, key), operation());
        Some(changed.and_then(row_of))
    }
}

pub(super) fn updating((table, key): (TableId, &Key), columns: ColumnSet, formula: &Formula) -> Operation {
    Operation::Update {
        table,
        key: key.clone(),
        columns,
        formula: formula.clone(),
    }
}

pub(super) fn upserting((table, key): (TableId, &Key), row: Row, formula: Formula) -> Operation {
    Operation::Upsert {
        table,
        key: key.clone(),
        row,
        formula,
    }
}

pub(super) fn deleting((table, key): (TableId, &Key)) -> Operation {
    let key = key.clone();
    Operation::Delete { table, key }
}

pub(super) fn blind((table, key): (TableId, &Key), formula: Formula, bounds: &RowBounds) -> Operation {
    Operation::Blind {
        table,
        key: key.clone(),
        formula,
        bounds: bounds.clone(),
    }
}
