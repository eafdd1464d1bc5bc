//! What a workload may ask: the same programs run over SQL sessions and over operations of a grid.

use super::tables::Keys;
use crate::history::{Key, Table};
use rubato_workload::Random;

/// How a program wants its transaction to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its commit was acknowledged.
    Committed,
    /// It was rolled back, as the program asked.
    RolledBack,
}

/// The statements of one transaction. Each writes down what was told; an error is [`Statements::Stop`]: the question that is not
/// answered yet, or why the transaction failed.
#[allow(clippy::missing_errors_doc, reason = "the errors of all are told above")]
pub trait Statements {
    /// Why a program does not go on.
    type Stop;

    /// What is drawn for the transaction.
    fn random(&mut self) -> &mut Random;

    /// The transaction's number, from 1: unique in the run.
    fn number(&self) -> i64;

    /// True in so many of a hundred cases.
    fn chance(&mut self, percent: i64) -> bool {
        self.random().uniform(1, 100) <= percent
    }

    /// Thinks for a moment, now and then.
    fn think(&mut self) -> Result<(), Self::Stop>;

    /// The next statement is a transaction of its own.
    fn alone(&mut self) -> Result<(), Self::Stop>;

    /// The end of a transaction that was one statement.
    fn done(&mut self) -> Result<Ending, Self::Stop>;

    /// Begins.
    fn begin(&mut self, read_only: bool) -> Result<(), Self::Stop>;

    /// Commits.
    fn commit(&mut self) -> Result<Ending, Self::Stop>;

    /// Rolls back.
    fn roll_back(&mut self) -> Result<Ending, Self::Stop>;

    /// A savepoint. Where there are none, what would be taken back to it stays.
    fn save(&mut self) -> Result<(), Self::Stop>;

    /// Back to the last savepoint.
    fn back(&mut self) -> Result<(), Self::Stop>;

    /// The number of a row, if there is such a row.
    fn read_number(&mut self, key: Key, for_update: bool) -> Result<Option<i64>, Self::Stop>;

    /// The text of a row.
    fn read_text(&mut self, key: Key) -> Result<(), Self::Stop>;

    /// Keys and numbers of the rows between two keys.
    fn range(&mut self, table: Table, from: i64, to: i64) -> Result<(), Self::Stop>;

    /// Keys of the rows of a group.
    fn group(&mut self, table: Table, group: i64) -> Result<Vec<i64>, Self::Stop>;

    /// How many rows there are between two keys, and the sum of their numbers.
    fn total(&mut self, table: Table, from: i64, to: i64) -> Result<(i64, i64), Self::Stop>;

    /// Adds to the number.
    fn add(&mut self, key: Key, amount: i64) -> Result<(), Self::Stop>;

    /// Turns the number's sign.
    fn negate(&mut self, key: Key) -> Result<(), Self::Stop>;

    /// Sets the number.
    fn set(&mut self, key: Key, number: i64) -> Result<(), Self::Stop>;

    /// Appends an element to the text.
    fn append(&mut self, key: Key, element: i64) -> Result<(), Self::Stop>;

    /// Moves the row to another group.
    fn regroup(&mut self, key: Key, group: i64) -> Result<(), Self::Stop>;

    /// Adds and reads the result.
    fn add_returning(&mut self, key: Key, amount: i64) -> Result<(), Self::Stop>;

    /// Adds where the number is positive: an update that reads.
    fn add_where_positive(&mut self, key: Key, amount: i64) -> Result<(), Self::Stop>;

    /// Adds; false if the constraint refused it.
    fn try_add(&mut self, key: Key, amount: i64) -> Result<bool, Self::Stop>;

    /// Inserts a row unless the key exists.
    fn insert(&mut self, key: Key, group: i64, number: i64) -> Result<(), Self::Stop>;

    /// Deletes a row.
    fn delete(&mut self, key: Key) -> Result<(), Self::Stop>;

    /// Replaces the rows of a table, which has these and no others, by new ones with this number.
    fn refill(&mut self, keys: Keys, number: i64) -> Result<(), Self::Stop> {
        keys.all().try_for_each(|key| self.set(key, number))
    }

    /// Gives the name of a table, which has these rows and no others, to one whose rows have this number.
    fn swap(&mut self, keys: Keys, number: i64) -> Result<(), Self::Stop> {
        keys.all().try_for_each(|key| self.set(key, number))
    }

    /// Additions in one request: a block that comes whole.
    fn script(&mut self, additions: &[(Key, i64)]) -> Result<Ending, Self::Stop>;
}
