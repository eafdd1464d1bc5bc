//! A client's program over operations of a grid: played again from its start after every answer, as in [`crate::talk`].

use crate::history::{Change, Key, Row, Step, Table};
use crate::programs::{Ending, Statements};
use rubato_base::{ColumnSet, ColumnType, DataType, Error, Key as RowKey, NodeId, Row as Packed, TableId, Value};
use rubato_formula::{Change as ColumnFormula, Expr, Formula, RowBounds, resolve_operator};
use rubato_protocol::grid::{Answer, Operation};
use rubato_protocol::{BlindUpdate, KeyRange};
use rubato_workload::Random;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Columns of every table.
const GROUP: usize = 1;
const NUMBER: usize = 2;
const TEXT: usize = 3;

/// Where the tables of the workloads are on every node, and the limits of their columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub(super) tables: Vec<(TableId, RowBounds)>,
    /// Those of TPC-C, if they are there.
    pub(super) tpcc: Vec<(TableId, RowBounds)>,
    pub(super) nodes: u32,
}

impl Layout {
    fn of(&self, table: Table) -> (TableId, RowBounds) {
        self.tables.get(table as usize).cloned().unwrap_or_default()
    }

    /// The node that keeps a row.
    pub(super) fn node_of(&self, key: Key) -> NodeId {
        NodeId(key.1.rem_euclid(i64::from(self.nodes.max(1))) as u32)
    }

    /// A table of TPC-C.
    pub(super) fn tpcc_table(&self, at: usize) -> (TableId, RowBounds) {
        self.tpcc.get(at).cloned().unwrap_or_default()
    }

    /// The node that keeps a warehouse of TPC-C, with all that belongs to it.
    pub(super) fn node_of_warehouse(&self, warehouse: i64) -> NodeId {
        NodeId(warehouse.rem_euclid(i64::from(self.nodes.max(1))) as u32)
    }

    pub(super) fn all_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes).map(NodeId)
    }
}

/// What a program asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Question {
    Begin { read_only: bool },
    Operate(NodeId, Box<Operation>),
    Commit,
    RollBack,
    Pause(i64),
}

/// What a program has heard.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Heard {
    Began,
    Answer(Answer),
    Committed,
    RolledBack,
    Paused,
}

/// Why a program does not go on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stop {
    Asked(Question),
    Failed(Error),
    Absurd(String),
}

/// A conversation so far.
pub(super) struct GridTalk<'a> {
    pub(super) layout: &'a Layout,
    heard: &'a [Heard],
    at: usize,
    random: Random,
    number: i64,
    pauses: bool,
    /// Operations that each node was asked for.
    asked: BTreeMap<NodeId, u32>,
    /// The same at the last savepoint.
    saved: Option<BTreeMap<NodeId, u32>>,
    /// What was seen and done so far.
    pub(super) steps: Vec<Step>,
}

impl<'a> GridTalk<'a> {
    pub(super) fn new(
        layout: &'a Layout,
        heard: &'a [Heard],
        random: Random,
        number: i64,
        pauses: bool,
    ) -> GridTalk<'a> {
        GridTalk {
            layout,
            heard,
            at: 0,
            random,
            number,
            pauses,
            asked: BTreeMap::new(),
            saved: None,
            steps: Vec::new(),
        }
    }

    fn question(&mut self, question: impl FnOnce() -> Question) -> Result<&'a Heard, Stop> {
        let Some(heard) = self.heard.get(self.at) else {
            return Err(Stop::Asked(question()));
        };
        self.at += 1;
        match heard {
            Heard::Answer(Answer::Failed(error)) => Err(Stop::Failed(error.clone())),
            heard => Ok(heard),
        }
    }

    pub(super) fn operate(&mut self, node: NodeId, operation: impl FnOnce() -> Operation) -> Result<&'a Answer, Stop> {
        *self.asked.entry(node).or_default() += 1;
        match self.question(|| Question::Operate(node, Box::new(operation())))? {
            Heard::Answer(answer) => Ok(answer),
            other => Err(Stop::Absurd(format!("an operation was answered by {other:?}"))),
        }
    }

    fn row(&mut self, key: Key, operation: impl FnOnce(TableId, RowKey) -> Operation) -> Result<Option<Row>, Stop> {
        let (node, (table, _)) = (self.layout.node_of(key), self.layout.of(key.0));
        match self.operate(node, || operation(table, row_key(key.1)))? {
            Answer::Row(row) => Ok(row.as_ref().map(unpacked)),
            other => Err(absurd("a row", other)),
        }
    }

    fn read(&mut self, key: Key, column: usize, for_update: bool) -> Result<Option<Row>, Stop> {
        let columns = ColumnSet::column(column).union(ColumnSet::EXISTENCE);
        self.row(key, |table, key| match for_update {
            true => Operation::Lock { table, key, columns },
            false => Operation::Read { table, key, columns },
        })
    }

    /// The rows between two keys, of all nodes, in order.
    fn scan(&mut self, table: Table, from: i64, to: i64, columns: ColumnSet) -> Result<Vec<(i64, Row)>, Stop> {
        let nodes = i64::from(self.layout.nodes);
        let first = self.random.uniform(0, nodes - 1);
        let mut rows = Vec::new();
        for step in 0..nodes {
            let node = NodeId(((first + step) % nodes) as u32);
            let storage = self.layout.of(table).0;
            let range = KeyRange {
                from: Bound::Included(row_key(from)),
                to: Bound::Included(row_key(to)),
            };
            let answer = self.operate(node, || Operation::Scan {
                table: storage,
                range,
                columns,
            })?;
            let Answer::Rows(found) = answer else {
                return Err(absurd("rows", answer));
            };
            rows.extend(found.iter().map(|(_, row)| (id_of(row), unpacked(row))));
        }
        rows.sort_by_key(|(id, _)| *id);
        Ok(rows)
    }

    /// A formula that may be blind; where its bounds forbid that it reads to write. False if there is no such row; nothing if the
    /// number would have become negative.
    fn apply(&mut self, key: Key, change: ColumnFormula, added: Option<i64>) -> Result<Option<bool>, Stop> {
        let (node, (table, bounds)) = (self.layout.node_of(key), self.layout.of(key.0));
        let formula = formula(change)?;
        let blind = Operation::Blind {
            table,
            key: row_key(key.1),
            formula: formula.clone(),
            bounds,
        };
        match self.operate(node, || blind)? {
            Answer::Blind(BlindUpdate::Pending) => return Ok(Some(true)),
            Answer::Blind(BlindUpdate::Missing) => return Ok(Some(false)),
            Answer::Blind(BlindUpdate::MustBeOrdered) => {}
            other => return Err(Stop::Absurd(format!("a formula was answered by {other:?}"))),
        }
        let Some(row) = self.read(key, NUMBER, true)? else {
            return Ok(Some(false));
        };
        if key.0 == Table::Bounded && added.is_some_and(|added| row.number + added < 0) {
            return Ok(None);
        }
        self.ordered(key, formula).map(|before| Some(before.is_some()))
    }

    /// Reads to write, and writes.
    fn ordered(&mut self, key: Key, formula: Formula) -> Result<Option<Row>, Stop> {
        let columns = ColumnSet::column(NUMBER).union(ColumnSet::EXISTENCE);
        self.row(key, |table, key| Operation::Update {
            table,
            key,
            columns,
            formula,
        })
    }

    /// Whether the formula was placed. Where it must not be, the program fails as SQL would.
    fn change(&mut self, key: Key, formula: ColumnFormula, change: Change) -> Result<(), Stop> {
        let added = match change {
            Change::Add(amount) => Some(amount),
            _ => None,
        };
        let Some(found) = self.apply(key, formula, added)? else {
            let message = "the number would become negative";
            return Err(Stop::Failed(Error::new(
                rubato_base::SqlState::CHECK_VIOLATION,
                message,
            )));
        };
        self.steps.push(Step::Change(key, change, found));
        Ok(())
    }

    /// Reads all tables in one transaction.
    pub(super) fn read_everything(&mut self) -> Result<Ending, Stop> {
        self.begin(true)?;
        for table in Table::ALL {
            let rows = self.scan(table, i64::from(i32::MIN), i64::from(i32::MAX), ColumnSet::ALL)?;
            self.steps.push(Step::ReadAll(table, rows));
        }
        if !self.layout.tpcc.is_empty() {
            self.read_all_of_tpcc()?;
        }
        self.commit()
    }
}

fn int8() -> ColumnType {
    ColumnType::plain(DataType::Int8)
}

fn row_key(id: i64) -> RowKey {
    RowKey::of(&[Value::Int4(id as i32)])
}

fn id_of(row: &Packed) -> i64 {
    row.get(0).as_i64().unwrap_or(i64::MIN)
}

fn unpacked(row: &Packed) -> Row {
    Row {
        group: row.get(GROUP).as_i64().unwrap_or(i64::MIN),
        number: row.get(NUMBER).as_i64().unwrap_or(i64::MIN),
        text: row.get(TEXT).as_str().unwrap_or_default().to_owned(),
    }
}

fn packed(id: i64, row: &Row) -> Packed {
    Packed::from_values(&[
        Value::Int4(id as i32),
        Value::Int4(row.group as i32),
        Value::Int8(row.number),
        Value::text(&row.text),
    ])
}

fn formula(change: ColumnFormula) -> Result<Formula, Stop> {
    Formula::new([change]).map_err(Stop::Failed)
}

fn plus(amount: i64) -> ColumnFormula {
    ColumnFormula::add(NUMBER as u16, int8(), Value::Int8(amount))
}

/// `left OPERATOR value`, both of this type.
pub(super) fn computed(operator: &str, left: Expr, of: DataType, value: Value) -> Result<Expr, Stop> {
    let resolved = resolve_operator(operator, Some(of), of);
    let resolved = resolved.map_err(|error| Stop::Absurd(format!("there is no {operator}: {error:?}")))?;
    Ok(Expr::Call {
        function: resolved.function,
        arguments: vec![left, Expr::Literal(value)],
    })
}

/// Something else was asked for.
pub(super) fn absurd(wanted: &str, answer: &Answer) -> Stop {
    Stop::Absurd(format!("{wanted} was asked for, and there came {answer:?}"))
}

impl Statements for GridTalk<'_> {
    type Stop = Stop;

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn number(&self) -> i64 {
        self.number
    }

    fn think(&mut self) -> Result<(), Stop> {
        if self.pauses && self.random.uniform(0, 5) == 0 {
            let pause_us = 1 << self.random.uniform(4, 17);
            self.question(|| Question::Pause(pause_us))?;
        }
        Ok(())
    }

    fn alone(&mut self) -> Result<(), Stop> {
        self.begin(false)
    }

    fn done(&mut self) -> Result<Ending, Stop> {
        self.commit()
    }

    fn begin(&mut self, read_only: bool) -> Result<(), Stop> {
        self.question(|| Question::Begin { read_only }).map(drop)
    }

    fn commit(&mut self) -> Result<Ending, Stop> {
        match self.question(|| Question::Commit)? {
            Heard::Committed => Ok(Ending::Committed),
            other => Err(Stop::Absurd(format!("a commit was answered by {other:?}"))),
        }
    }

    fn roll_back(&mut self) -> Result<Ending, Stop> {
        self.question(|| Question::RollBack).map(|_| Ending::RolledBack)
    }

    fn save(&mut self) -> Result<(), Stop> {
        self.saved = Some(self.asked.clone());
        self.steps.push(Step::Save);
        Ok(())
    }

    fn back(&mut self) -> Result<(), Stop> {
        let saved = self.saved.clone().unwrap_or_default();
        for (node, asked) in self.asked.clone() {
            let kept = saved.get(&node).copied().unwrap_or(0);
            if kept == asked {
                continue;
            }
            match self.operate(node, || Operation::Undo { kept })? {
                Answer::Undone => {}
                other => return Err(absurd("to be taken back", other)),
            }
        }
        self.steps.push(Step::Back);
        Ok(())
    }

    fn read_number(&mut self, key: Key, for_update: bool) -> Result<Option<i64>, Stop> {
        let seen = self.read(key, NUMBER, for_update)?.map(|row| row.number);
        self.steps.push(Step::ReadNumber(key, seen));
        Ok(seen)
    }

    fn read_text(&mut self, key: Key) -> Result<(), Stop> {
        let seen = self.read(key, TEXT, false)?.map(|row| row.text);
        self.steps.push(Step::ReadText(key, seen));
        Ok(())
    }

    fn range(&mut self, table: Table, from: i64, to: i64) -> Result<(), Stop> {
        let rows = self.scan(table, from, to, ColumnSet::column(NUMBER).union(ColumnSet::EXISTENCE))?;
        let seen = rows.into_iter().map(|(id, row)| (id, row.number)).collect();
        self.steps.push(Step::ReadRange(table, from, to, seen));
        Ok(())
    }

    fn group(&mut self, table: Table, group: i64) -> Result<Vec<i64>, Stop> {
        let columns = ColumnSet::column(GROUP).union(ColumnSet::EXISTENCE);
        let rows = self.scan(table, i64::from(i32::MIN), i64::from(i32::MAX), columns)?;
        let of_group = rows.into_iter().filter(|(_, row)| row.group == group);
        let seen: Vec<i64> = of_group.map(|(id, _)| id).collect();
        self.steps.push(Step::ReadGroup(table, group, seen.clone()));
        Ok(seen)
    }

    fn total(&mut self, table: Table, from: i64, to: i64) -> Result<(i64, i64), Stop> {
        let rows = self.scan(table, from, to, ColumnSet::column(NUMBER).union(ColumnSet::EXISTENCE))?;
        let (count, sum) = (rows.len() as i64, rows.iter().map(|(_, row)| row.number).sum());
        self.steps.push(Step::Total(table, from, to, count, sum));
        Ok((count, sum))
    }

    fn add(&mut self, key: Key, amount: i64) -> Result<(), Stop> {
        self.change(key, plus(amount), Change::Add(amount))
    }

    fn negate(&mut self, key: Key) -> Result<(), Stop> {
        let product = computed("*", Expr::Column(NUMBER), DataType::Int8, Value::Int8(-1))?;
        let negated = formula(ColumnFormula::evaluate(NUMBER as u16, int8(), product))?;
        let found = self.ordered(key, negated)?.is_some();
        self.steps.push(Step::Change(key, Change::Negate, found));
        Ok(())
    }

    fn set(&mut self, key: Key, number: i64) -> Result<(), Stop> {
        let set = ColumnFormula::set(NUMBER as u16, int8(), Value::Int8(number));
        self.change(key, set, Change::Set(number))
    }

    fn append(&mut self, key: Key, element: i64) -> Result<(), Stop> {
        let text = ColumnType::plain(DataType::Text);
        let element_text = Value::text(&format!(" {element}"));
        let longer = computed("||", Expr::Column(TEXT), DataType::Text, element_text)?;
        let append = ColumnFormula::evaluate(TEXT as u16, text, longer);
        self.change(key, append, Change::Append(element))
    }

    fn regroup(&mut self, key: Key, group: i64) -> Result<(), Stop> {
        let int4 = ColumnType::plain(DataType::Int4);
        let set = ColumnFormula::set(GROUP as u16, int4, Value::Int4(group as i32));
        self.change(key, set, Change::Regroup(group))
    }

    fn add_returning(&mut self, key: Key, amount: i64) -> Result<(), Stop> {
        let before = self.ordered(key, formula(plus(amount))?)?;
        self.steps
            .push(Step::Change(key, Change::Add(amount), before.is_some()));
        let seen = before.map(|row| row.number + amount);
        self.steps.push(Step::ReadNumber(key, seen));
        Ok(())
    }

    fn add_where_positive(&mut self, key: Key, amount: i64) -> Result<(), Stop> {
        let seen = self.read(key, NUMBER, true)?.map(|row| row.number);
        self.steps.push(Step::ReadNumber(key, seen));
        if seen.is_some_and(|number| number > 0) {
            self.add(key, amount)?;
        }
        Ok(())
    }

    fn try_add(&mut self, key: Key, amount: i64) -> Result<bool, Stop> {
        match self.apply(key, plus(amount), Some(amount))? {
            Some(found) => {
                self.steps.push(Step::Change(key, Change::Add(amount), found));
                Ok(true)
            }
            None => {
                self.steps.push(Step::Refused(key, amount));
                Ok(false)
            }
        }
    }

    fn insert(&mut self, key: Key, group: i64, number: i64) -> Result<(), Stop> {
        let row = Row {
            group,
            number,
            text: String::new(),
        };
        let new = packed(key.1, &row);
        let before = self.row(key, |table, key| Operation::Insert { table, key, row: new })?;
        self.steps.push(Step::Insert(key, row, before.is_none()));
        Ok(())
    }

    fn delete(&mut self, key: Key) -> Result<(), Stop> {
        let found = self.row(key, |table, key| Operation::Delete { table, key })?.is_some();
        self.steps.push(Step::Change(key, Change::Delete, found));
        Ok(())
    }

    fn script(&mut self, additions: &[(Key, i64)]) -> Result<Ending, Stop> {
        self.begin(false)?;
        for (key, amount) in additions {
            self.add(*key, *amount)?;
        }
        self.commit()
    }
}
