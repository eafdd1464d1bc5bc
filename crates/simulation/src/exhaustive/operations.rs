//! What the steps of a program are for the protocol.

use super::definition::{NEW_ROW, Op, Seen};
use super::world::TABLE;
use rubato_base::{ColumnSet, ColumnType, DataType, Key, Row, TransactionId, Value};
use rubato_formula::{Change as ColumnFormula, Expr, Formula, resolve_operator};
use rubato_protocol::grid::{Answer, Operation};
use rubato_protocol::{BlindUpdate, FormulaDatabase, KeyRange, OnBusy, OrderedRead, Outcome};
use std::ops::Bound;

pub(super) fn key(x: u8) -> Key {
    Key::of(&[Value::Int4(i32::from(x))])
}

pub(super) fn row(v: i64) -> Row {
    Row::from_values(&[Value::Int8(v)])
}

fn int8() -> ColumnType {
    ColumnType::plain(DataType::Int8)
}

fn formula(change: ColumnFormula) -> Formula {
    Formula::new([change]).expect("one column")
}

fn times(n: i64) -> Formula {
    let function = resolve_operator("*", Some(DataType::Int8), DataType::Int8).expect("bigint has a product");
    let product = Expr::Call {
        function: function.function,
        arguments: vec![Expr::Column(0), Expr::Literal(Value::Int8(n))],
    };
    formula(ColumnFormula::evaluate(0, int8(), product))
}

pub(super) fn operation(op: Op) -> Operation {
    let columns = ColumnSet::ALL;
    let blind = |x: u8, formula: Formula| Operation::Blind {
        table: TABLE,
        key: key(x),
        formula,
        bounds: rubato_formula::RowBounds::None,
    };
    let table = TABLE;
    match op {
        Op::Read(x) => Operation::Read {
            table,
            key: key(x),
            columns,
        },
        Op::Plus(x, n) => blind(x, formula(ColumnFormula::add(0, int8(), Value::Int8(n)))),
        Op::Times(x, n) => blind(x, times(n)),
        Op::Set(x, n) => blind(x, formula(ColumnFormula::set(0, int8(), Value::Int8(n)))),
        Op::ReadAdd(x, n) => Operation::Update {
            table,
            key: key(x),
            columns,
            formula: formula(ColumnFormula::add(0, int8(), Value::Int8(n))),
        },
        Op::Lock(x) => Operation::Lock {
            table,
            key: key(x),
            columns,
        },
        Op::Insert(x) => Operation::Insert {
            table,
            key: key(x),
            row: row(NEW_ROW),
        },
        Op::Upsert(x, n) => Operation::Upsert {
            table,
            key: key(x),
            row: row(NEW_ROW),
            formula: formula(ColumnFormula::add(0, int8(), Value::Int8(n))),
        },
        Op::Delete(x) | Op::Remove(x) => Operation::Delete { table, key: key(x) },
        Op::Count(_) => Operation::Scan {
            table,
            range: KeyRange {
                from: Bound::Unbounded,
                to: Bound::Unbounded,
            },
            columns,
        },
        Op::Back(_) | Op::Rollback => Operation::Settle,
    }
}

/// Does the step in a partition, as a session does.
pub(super) fn run_at_home(op: Op, database: &mut FormulaDatabase, transaction: TransactionId) -> Outcome<Answer> {
    let Op::Remove(x) = op else {
        return operation(op).run(database, transaction);
    };
    let (key, columns) = (key(x), ColumnSet::EXISTENCE);
    let read = database.read_for_update(transaction, TABLE, key.as_bytes(), columns, OnBusy::Queue)?;
    let row = match read {
        OrderedRead::Row(row) => row,
        other => unreachable!("{other:?} of who queues"),
    };
    if row.is_some() {
        database.delete(transaction, TABLE, key.as_bytes())?;
    }
    Ok(Answer::Row(row))
}

/// What an answer shows; `None` if it is no answer to this operation.
pub(super) fn shown(op: Op, answer: &Answer) -> Option<Seen> {
    let value = |row: &Row| row.get(0).as_i64();
    Some(match (op, answer) {
        (Op::Insert(_) | Op::Remove(_), Answer::Row(row)) => vec![row.as_ref().map(|_| 1)],
        (Op::Back(_), Answer::Undone) => Vec::new(),
        (_, Answer::Row(row)) => vec![row.as_ref().and_then(value)],
        (Op::Count(_), Answer::Rows(rows)) => {
            let sum = rows.iter().filter_map(|(_, row)| value(row)).sum();
            vec![Some(rows.len() as i64), Some(sum)]
        }
        (Op::Plus(..) | Op::Times(..) | Op::Set(..), Answer::Blind(BlindUpdate::Pending)) => vec![Some(1)],
        (Op::Plus(..) | Op::Times(..) | Op::Set(..), Answer::Blind(BlindUpdate::Missing)) => vec![None],
        _ => return None,
    })
}
