//! What the clients saw: the transactions of a run, each with what it read and what it changed, as its answers said.

use std::fmt;

/// The tables that workloads work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Numbers and texts under fixed keys.
    Plain,
    /// The same with `CHECK (n >= 0)`.
    Bounded,
    /// Rows that come and go, with an index on `grp`.
    Member,
    /// Rows that are replaced all at once.
    Board,
    /// Columns of the rows of TPC-C in a grid, each under a number that says which: no table of their own.
    Cell,
}

impl Table {
    /// All that are tables.
    pub const ALL: [Table; 4] = [Table::Plain, Table::Bounded, Table::Member, Table::Board];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Table::Plain => "plain",
            Table::Bounded => "bounded",
            Table::Member => "member",
            Table::Board => "board",
            Table::Cell => "cell",
        }
    }
}

/// A row of a table.
pub type Key = (Table, i64);

/// What a row holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Row {
    /// The indexed column.
    pub group: i64,
    /// The number.
    pub number: i64,
    /// The text: elements, each after a space.
    pub text: String,
}

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds to the number.
    Add(i64),
    /// Turns the number's sign: does not commute with [`Change::Add`].
    Negate,
    /// Sets the number.
    Set(i64),
    /// Appends an element to the text.
    Append(i64),
    /// Deletes the row.
    Delete,
    /// Moves the row to another group.
    Regroup(i64),
}

/// One step of a transaction, with what its client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The number of a row; `None`: there was none.
    ReadNumber(Key, Option<i64>),
    /// The text of a row.
    ReadText(Key, Option<String>),
    /// Keys and numbers of all rows between two keys, both included.
    ReadRange(Table, i64, i64, Vec<(i64, i64)>),
    /// Keys of all rows of a group, by the index.
    ReadGroup(Table, i64, Vec<i64>),
    /// How many rows there are between two keys, and the sum of their numbers.
    Total(Table, i64, i64, i64, i64),
    /// Everything: each key with its row.
    ReadAll(Table, Vec<(i64, Row)>),
    /// A change, and whether there was a row to change.
    Change(Key, Change, bool),
    /// A row inserted; `false`: there was one already, and nothing was done.
    Insert(Key, Row, bool),
    /// A change that was asked for as part of a commit whose answer never came: it is done if there is such a row.
    Attempt(Key, Change),
    /// An insertion that was asked for in that way: it is done if there is no such row.
    AttemptInsert(Key, Row),
    /// An addition was refused, since the number would have become negative.
    Refused(Key, i64),
    /// A savepoint.
    Save,
    /// Back to the last savepoint, which stays.
    Back,
}

/// How a transaction ended, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The commit was acknowledged.
    Committed,
    /// It was refused or rolled back, or the client never asked for its commit.
    Aborted,
    /// The connection broke, or the node went, while the commit was under way.
    Unknown,
}

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// What ran, for people.
    pub name: &'static str,
    /// The client.
    pub client: usize,
    /// The moment before its first request. Moments are counted over the run: no two events share one.
    pub began: u64,
    /// The moment of its last answer; if that never came, the moment after which it can not take effect any more.
    pub ended: u64,
    /// How it ended.
    pub fate: Fate,
    /// What it did, in order.
    pub steps: Vec<Step>,
}

/// All transactions of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// In the order of their ends.
    pub transactions: Vec<Transaction>,
}

impl History {
    /// How many have this fate.
    pub fn count(&self, fate: Fate) -> usize {
        let with_fate = |transaction: &&Transaction| transaction.fate == fate;
        self.transactions.iter().filter(with_fate).count()
    }
}

impl Transaction {
    /// Whether it changed anything, if it took effect.
    pub fn changes(&self) -> bool {
        let changes = |step: &Step| {
            matches!(
                step,
                Step::Change(_, _, true) | Step::Insert(_, _, true) | Step::Attempt(..) | Step::AttemptInsert(..)
            )
        };
        self.steps.iter().any(changes)
    }

    /// The steps that hold if it took effect: changes that were taken back to a savepoint are left out, what was read stays.
    pub fn lasting_steps(&self) -> Vec<&Step> {
        let mut kept: Vec<&Step> = Vec::new();
        let mut saved = None;
        for step in &self.steps {
            match step {
                Step::Save => saved = Some(kept.len()),
                Step::Back => {
                    let from = saved.unwrap_or(0);
                    let undone = kept.split_off(from.min(kept.len()));
                    let reads = |step: &&&Step| !matches!(step, Step::Change(..) | Step::Insert(..));
                    kept.extend(undone.iter().filter(reads).copied());
                    saved = Some(kept.len());
                }
                _ => kept.push(step),
            }
        }
        kept
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transaction {
            name,
            client,
            began,
            ended,
            fate,
            steps,
        } = self;
        write!(out, "{began}-{ended} client {client} {name} {fate:?}:")?;
        steps.iter().try_for_each(|step| write!(out, " {step:?}"))
    }
}

/// The elements of a text.
pub fn elements(text: &str) -> Vec<i64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}
