//! Statements over the rows of TPC-C: each asks the node that has the row, and writes down, cell by cell, what it was told.

use super::super::talk::{GridTalk, Stop, absurd, computed};
use super::tables::{Kind, PART_MAX, Place, Relation};
use crate::history::{Change, Row, Step, Table};
use rubato_base::{ColumnSet, ColumnType, DataType, Key as RowKey, Row as Packed, TableId, Value, prefix_successor};
use rubato_formula::{Change as ColumnFormula, Comparison, Expr, Formula};
use rubato_protocol::grid::{Answer, Operation};
use rubato_protocol::{BlindUpdate, KeyRange};
use std::ops::Bound;

/// A row: its table, and its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowAt(pub(super) Relation, pub(super) Place);

/// What a statement does to a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Assignment {
    /// Adds.
    Add(usize, i64),
    /// Sets what nobody else sets the column to.
    Set(usize, i64),
    /// Sets what was computed from the value that was read: from which, to which.
    Computed(usize, i64, i64),
    /// Appends an element to the text.
    Append(usize, i64),
    /// Takes a quantity out of the stock, which is filled up if too little would be left: the column has to be read, too.
    Take(usize, i64),
}

/// What is left of a stock (2.4.2.2).
fn left(quantity: i64, taken: i64) -> i64 {
    match quantity - taken {
        left if left >= 10 => left,
        left => left + 91,
    }
}

/// `CASE WHEN s_quantity - $1 >= 10 THEN s_quantity - $1 ELSE s_quantity - $1 + 91 END`.
fn left_formula(column: usize, taken: i64) -> Result<ColumnFormula, Stop> {
    let int4 = ColumnType::plain(DataType::Int4);
    let rest = computed("-", Expr::Column(column), DataType::Int4, Value::Int4(taken as i32))?;
    let filled = computed("+", rest.clone(), DataType::Int4, Value::Int4(91))?;
    let ten = Box::new(Expr::Literal(Value::Int4(10)));
    let enough = Expr::Compare(Comparison::GreaterOrEqual, Box::new(rest.clone()), ten);
    let case = Expr::Case {
        branches: vec![(enough, rest)],
        otherwise: Box::new(filled),
    };
    Ok(ColumnFormula::evaluate(column as u16, int4, case))
}

impl Assignment {
    fn column(self) -> usize {
        match self {
            Assignment::Add(column, _)
            | Assignment::Set(column, _)
            | Assignment::Computed(column, ..)
            | Assignment::Append(column, _)
            | Assignment::Take(column, _) => column,
        }
    }

    fn formula(self, relation: Relation) -> Result<ColumnFormula, Stop> {
        let kind = relation.kind(self.column());
        let at = relation.key_columns() + self.column();
        match self {
            Assignment::Add(_, amount) => Ok(ColumnFormula::add(at as u16, kind.column_type(), kind.value(amount))),
            Assignment::Set(_, number) | Assignment::Computed(_, _, number) => {
                Ok(ColumnFormula::set(at as u16, kind.column_type(), kind.value(number)))
            }
            Assignment::Append(_, element) => {
                let element = Value::text(&format!(" {element}"));
                let longer = computed("||", Expr::Column(at), DataType::Text, element)?;
                Ok(ColumnFormula::evaluate(at as u16, Kind::Text.column_type(), longer))
            }
            Assignment::Take(_, taken) => left_formula(at, taken),
        }
    }

    /// What it comes to, on a row whose column was read.
    fn change(self, before: Option<i64>) -> Change {
        match self {
            Assignment::Add(_, amount) => Change::Add(amount),
            Assignment::Set(_, number) => Change::Set(number),
            Assignment::Append(_, element) => Change::Append(element),
            // (Numbers that come back, or that another sets as well, say nothing of who set them: they are told as sums.)
            Assignment::Computed(_, before, after) => Change::Add(after - before),
            Assignment::Take(_, taken) => Change::Add(before.map_or(0, |before| left(before, taken) - before)),
        }
    }
}

fn formula_of(relation: Relation, assignments: &[Assignment]) -> Result<Formula, Stop> {
    let changes: Result<Vec<ColumnFormula>, Stop> = assignments.iter().map(|one| one.formula(relation)).collect();
    Formula::new(changes?).map_err(Stop::Failed)
}

/// The columns of a row as the protocol counts them.
fn columns_of(relation: Relation, columns: &[usize]) -> ColumnSet {
    let behind_key =
        (columns.iter().filter(|column| relation.has_column(**column))).map(|column| relation.key_columns() + column);
    behind_key.collect::<ColumnSet>().union(ColumnSet::EXISTENCE)
}

impl<'a> GridTalk<'a> {
    fn answer_about(
        &mut self,
        RowAt(relation, place): RowAt,
        operation: impl FnOnce(TableId, RowKey) -> Operation,
    ) -> Result<&'a Answer, Stop> {
        let (table, _) = self.layout.tpcc_table(relation as usize);
        let node = self.layout.node_of_warehouse(place[0]);
        self.operate(node, || operation(table, relation.row_key(place)))
    }

    fn row_about(
        &mut self,
        at: RowAt,
        operation: impl FnOnce(TableId, RowKey) -> Operation,
    ) -> Result<Option<Packed>, Stop> {
        match self.answer_about(at, operation)? {
            Answer::Row(row) => Ok(row.clone()),
            other => Err(absurd("a row", other)),
        }
    }

    /// Writes down what was read of a row. Gives the numbers.
    fn note_read(
        &mut self,
        RowAt(relation, place): RowAt,
        columns: &[usize],
        row: Option<&Packed>,
    ) -> Option<Vec<i64>> {
        let cells: Vec<Option<Row>> = (columns.iter())
            .map(|column| row.map(|row| relation.unpacked(row, *column)))
            .collect();
        for (column, cell) in columns.iter().zip(&cells) {
            let key = relation.cell(*column, place);
            self.steps.push(match relation.kind(*column) {
                Kind::Text => Step::ReadText(key, cell.as_ref().map(|cell| cell.text.clone())),
                _ => Step::ReadNumber(key, cell.as_ref().map(|cell| cell.number)),
            });
        }
        cells.into_iter().map(|cell| cell.map(|cell| cell.number)).collect()
    }

    fn note_changes(
        &mut self,
        RowAt(relation, place): RowAt,
        assignments: &[Assignment],
        before: impl Fn(usize) -> Option<i64>,
        found: bool,
    ) {
        for assignment in assignments {
            let column = assignment.column();
            let change = assignment.change(before(column));
            let key = relation.cell(column, place);
            self.steps.push(Step::Change(key, change, found));
        }
    }

    /// Columns of a row; nothing if there is no such row. (At least one column is asked for.)
    pub(super) fn look(&mut self, at: RowAt, columns: &[usize]) -> Result<Option<Vec<i64>>, Stop> {
        let read = columns_of(at.0, columns);
        let row = self.row_about(at, |table, key| Operation::Read {
            table,
            key,
            columns: read,
        })?;
        Ok(self.note_read(at, columns, row.as_ref()))
    }

    /// The same, `FOR UPDATE`.
    pub(super) fn lock(&mut self, at: RowAt, columns: &[usize]) -> Result<Option<Vec<i64>>, Stop> {
        let read = columns_of(at.0, columns);
        let row = self.row_about(at, |table, key| Operation::Lock {
            table,
            key,
            columns: read,
        })?;
        Ok(self.note_read(at, columns, row.as_ref()))
    }

    /// `UPDATE ... RETURNING`: reads to write. Gives the columns as they were.
    pub(super) fn update(
        &mut self,
        at: RowAt,
        returning: &[usize],
        assignments: &[Assignment],
    ) -> Result<Option<Vec<i64>>, Stop> {
        let formula = formula_of(at.0, assignments)?;
        let columns = columns_of(at.0, returning).union(formula.columns_read());
        let row = self.row_about(at, |table, key| Operation::Update {
            table,
            key,
            columns,
            formula,
        })?;
        let read = self.note_read(at, returning, row.as_ref());
        let before = |column: usize| {
            let place = returning.iter().position(|one| *one == column)?;
            read.as_ref()?.get(place).copied()
        };
        self.note_changes(at, assignments, before, row.is_some());
        Ok(read)
    }

    /// An update without RETURNING of what is only added to or set: blind, or where its limits forbid that read to write.
    pub(super) fn update_blind(&mut self, at: RowAt, assignments: &[Assignment]) -> Result<(), Stop> {
        let formula = formula_of(at.0, assignments)?;
        let (_, bounds) = self.layout.tpcc_table(at.0 as usize);
        let answer = self.answer_about(at, |table, key| Operation::Blind {
            table,
            key,
            formula,
            bounds,
        })?;
        let found = match answer {
            Answer::Blind(BlindUpdate::Pending) => true,
            Answer::Blind(BlindUpdate::Missing) => false,
            Answer::Blind(BlindUpdate::MustBeOrdered) => {
                return self.update(at, &[], assignments).map(drop);
            }
            other => return Err(absurd("a blind formula", other)),
        };
        self.note_changes(at, assignments, |_| None, found);
        Ok(())
    }

    /// Inserts a row unless its key exists: then the statement would have failed, and whoever commits nevertheless is found out.
    pub(super) fn put(&mut self, at: RowAt, numbers: &[i64]) -> Result<(), Stop> {
        let RowAt(relation, place) = at;
        let row = relation.packed(place, numbers);
        let existing = self.row_about(at, |table, key| Operation::Insert { table, key, row })?;
        for column in 0..relation.cells() {
            let number = numbers.get(column).copied().unwrap_or(0);
            let cell = relation.kind(column).new_cell(number);
            let key = relation.cell(column, place);
            self.steps.push(Step::Insert(key, cell, existing.is_none()));
        }
        Ok(())
    }

    /// Deletes a row.
    pub(super) fn take_out(&mut self, at: RowAt) -> Result<(), Stop> {
        let RowAt(relation, place) = at;
        let found = self
            .row_about(at, |table, key| Operation::Delete { table, key })?
            .is_some();
        for column in 0..relation.cells() {
            let key = relation.cell(column, place);
            self.steps.push(Step::Change(key, Change::Delete, found));
        }
        Ok(())
    }

    /// The rows whose keys begin with some parts, and go on with one between two others, in key order: where they are, and these
    /// columns.
    pub(super) fn rows_between(
        &mut self,
        relation: Relation,
        parts: &[i64],
        (from, to): (i64, i64),
        columns: &[usize],
    ) -> Result<Vec<(Place, Vec<i64>)>, Stop> {
        let (table, _) = self.layout.tpcc_table(relation as usize);
        let node = self.layout.node_of_warehouse(parts[0]);
        let read = columns_of(relation, columns);
        let answer = self.operate(node, || Operation::Scan {
            table,
            range: range(parts, from, to),
            columns: read,
        })?;
        let Answer::Rows(found) = answer else {
            return Err(absurd("rows", answer));
        };
        // Where no column is read it is the existence that is, which the first cell stands for.
        let cells = if columns.is_empty() { &[0][..] } else { columns };
        let rows: Vec<(Place, Vec<i64>)> = (found.iter())
            .map(|(_, row)| {
                let numbers = cells.iter().map(|column| relation.unpacked(row, *column).number);
                (relation.place_of(row), numbers.collect())
            })
            .collect();
        for (at, column) in cells.iter().enumerate() {
            let seen = rows
                .iter()
                .map(|(place, numbers)| (relation.cell(*column, *place).1, numbers[at]));
            let (first, last) = (ends(parts, from, 0), ends(parts, to, PART_MAX));
            let (first, last) = (relation.cell(*column, first).1, relation.cell(*column, last).1);
            let step = Step::ReadRange(Table::Cell, first, last, seen.collect());
            self.steps.push(step);
        }
        Ok(rows)
    }

    /// All rows of TPC-C, of all nodes.
    pub(in crate::grid) fn read_all_of_tpcc(&mut self) -> Result<(), Stop> {
        let mut cells = Vec::new();
        for relation in Relation::ALL {
            let (table, _) = self.layout.tpcc_table(relation as usize);
            for node in self.layout.all_nodes() {
                let answer = self.operate(node, || Operation::Scan {
                    table,
                    range: KeyRange {
                        from: Bound::Unbounded,
                        to: Bound::Unbounded,
                    },
                    columns: ColumnSet::ALL,
                })?;
                let Answer::Rows(found) = answer else {
                    return Err(absurd("rows", answer));
                };
                for (_, row) in found {
                    let place = relation.place_of(row);
                    let of_row = (0..relation.cells())
                        .map(|column| (relation.cell(column, place).1, relation.unpacked(row, column)));
                    cells.extend(of_row);
                }
            }
        }
        cells.sort_by_key(|(id, _)| *id);
        self.steps.push(Step::ReadAll(Table::Cell, cells));
        Ok(())
    }
}

fn range(parts: &[i64], from: i64, to: i64) -> KeyRange {
    let with = |last: i64| {
        let parts: Vec<i64> = parts.iter().copied().chain([last]).collect();
        Relation::key(&parts)
    };
    KeyRange {
        from: Bound::Included(with(from)),
        to: prefix_successor(with(to).as_bytes()).map_or(Bound::Unbounded, Bound::Excluded),
    }
}

/// The first or last place of a range.
fn ends(parts: &[i64], next: i64, rest: i64) -> Place {
    let mut place = [rest; 4];
    place[..parts.len()].copy_from_slice(parts);
    if let Some(part) = place.get_mut(parts.len()) {
        *part = next;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stock_is_filled_up_when_less_than_ten_would_be_left() {
        assert_eq!((left(20, 10), left(20, 11), left(10, 10)), (10, 100, 91));
    }

    #[test]
    fn a_range_of_cells_has_the_cells_of_its_rows_and_no_others() {
        let cell = |place| Relation::OrderLine.cell(0, place).1;
        let (first, last) = (cell(ends(&[1, 2], 3, 0)), cell(ends(&[1, 2], 4, PART_MAX)));
        assert!(first <= cell([1, 2, 3, 1]) && cell([1, 2, 4, 9]) <= last);
        assert!(cell([1, 2, 2, 9]) < first && last < cell([1, 2, 5, 0]));
    }
}
