//! Schema changes as pure functions from one catalog version to the next.
//!
//! [`apply`] checks a change against the catalog, makes the next version, and says as [`StorageWork`] what has to happen to rows
//! in the same transaction. It moves no row itself.

mod alter;
mod alter_constraints;
mod anew;
mod apply;
mod blocks;
mod column_type;
mod constraints;
mod domains;
mod enums;
mod extensions;
mod in_place;
mod indexes;
mod materialised;
mod merge;
mod schemas;
mod sequences;
mod truncate;
mod types;
mod views;
mod work;

pub(crate) use anew::keys_to_verify;
pub(crate) use apply::FIRST_ID;
pub(crate) use blocks::Decide;
pub(crate) use in_place::changed_in_place;
pub use merge::{changed_tables, merge};
pub(crate) use schemas::without_temporary;
pub(crate) use sequences::{number_identities, number_sequences, sequence_read, sequences_read};

use crate::binder::ResolvedPath;
use crate::catalog::{Catalog, RelationName};
use crate::executor::MoveWork;
use crate::plan::Plan;
use crate::statement::SchemaChange;
use rubato_base::{Error, Result, SqlState, TableId};
use rubato_protocol::Outcome;
use std::sync::Arc;

/// What the executor must do with rows, in order, before the new catalog may be installed. `before` tables are found in the old
/// catalog, `table` names in the new one.
#[derive(Clone, Debug, PartialEq)]
pub enum StorageWork {
    /// A new empty table or index.
    Create {
        /// Its storage.
        storage: TableId,
    },
    /// All rows of a table or entries of an index go.
    Drop {
        /// Its storage.
        storage: TableId,
    },
    /// The index of the new catalog's table is filled from the table's rows. 23505 if it is unique and two rows share a key.
    FillIndex {
        /// The table.
        table: RelationName,
        /// The index by its place in [`crate::catalog::Table::indexes`] of the new version.
        index: usize,
    },
    /// The rows move from the old storage to the table's storage in the new catalog, under the new primary key. 23505 if two
    /// rows share a key, 23502 if a key column is NULL. Both storages exist; [`StorageWork::Drop`] of the old one follows.
    /// Indexes are made anew by `FillIndex` works that follow.
    Rewrite {
        /// The table.
        table: RelationName,
        /// Where the rows were.
        from: TableId,
        /// The columns of the old primary key; empty: a hidden row number.
        old_key: Vec<usize>,
        /// What becomes of them.
        becomes: Becomes,
    },
    /// No row has NULL in this column; otherwise 23502.
    VerifyNotNull {
        /// The table.
        table: RelationName,
        /// The column.
        column: usize,
    },
    /// No row violates the table's check of this name; otherwise 23514.
    VerifyCheck {
        /// The table.
        table: RelationName,
        /// The check's place in [`crate::catalog::Table::checks`] of the new version.
        check: usize,
    },
    /// Every row's foreign key of this place refers to a row; otherwise 23503.
    VerifyForeignKey {
        /// The table.
        table: RelationName,
        /// Its place in [`crate::catalog::Table::foreign_keys`] of the new version.
        foreign_key: usize,
    },
    /// No two rows share a key of an index that is not unique, made for a deferrable constraint; otherwise 23505.
    VerifyUnique {
        /// The table.
        table: RelationName,
        /// The index by its place in [`crate::catalog::Table::indexes`] of the new version.
        index: usize,
    },
    /// A column was added: rows that are there have the default's value in it, which is evaluated once. No row is written. It
    /// stands before everything that reads rows.
    SetMissing {
        /// The table.
        table: RelationName,
        /// The column.
        column: usize,
        /// Its default, which is not volatile.
        default: rubato_formula::Expr,
    },
    /// The sequence has new values, which begin.
    StartSequence {
        /// Its name.
        name: RelationName,
        /// Its next number.
        next: i64,
    },
    /// A step of a table's way to other nodes.
    Move {
        /// The table.
        table: RelationName,
        /// What is done.
        work: MoveWork,
    },
    /// The sequence is gone.
    DropSequence {
        /// Its name.
        name: RelationName,
    },
}

/// What becomes of rows that are laid out anew.
#[derive(Clone, Debug, PartialEq)]
pub enum Becomes {
    /// They stay as they are.
    Same,
    /// Columns get other values; these must satisfy NOT NULL (23502) and the checks that read them (23514).
    Converted(Vec<Conversion>),
    /// What a statement makes of them; rows without a primary key keep their numbers.
    Changed(RowsChange),
}

/// An UPDATE, DELETE or INSERT for which the rows of its table are laid anew. It is the same as itself only.
#[derive(Clone, Debug)]
pub struct RowsChange(pub Arc<Plan>);

impl PartialEq for RowsChange {
    fn eq(&self, other: &RowsChange) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What becomes of a column's values when its rows are laid out anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversion {
    /// The column.
    pub column: usize,
    /// Its new value.
    pub value: rubato_formula::Expr,
    /// Whether the column is new: its value is over the row as the conversions before it, and those of columns that are not, have left it.
    /// Otherwise it is over the row as it was.
    pub is_new: bool,
}

/// A schema change carried out on the catalog.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The next version; equal to the old one in everything if nothing was to be done (IF EXISTS, IF NOT EXISTS).
    pub catalog: Catalog,
    /// What must happen to rows.
    pub work: Vec<StorageWork>,
    /// NOTICEs for the client, SQLSTATE included.
    pub notices: Vec<Error>,
    /// The command tag.
    pub tag: &'static str,
    /// The definitions of a block that were carried out.
    pub carried: Vec<Arc<SchemaChange>>,
}

/// Carries a change out on a catalog. Ids are taken from [`Catalog::next_id`], which never goes back. Every table whose definition
/// changed has a higher version than before, those it refers to and that refer to it included.
///
/// Errors: 42P06 and 3F000 of schemas, 42P07 exists, 42P01 does not exist, 42701 duplicate column, 42703 no such column, 42P16 a second primary key, 2BP01
/// others depend on it (with detail), 42830 a foreign key without a matching key, 42704 no such constraint, index or sequence,
/// 42710 duplicate constraint, 0A000.
pub fn apply(catalog: &Catalog, change: &SchemaChange) -> Result<Applied> {
    apply_under(&ResolvedPath::default(), catalog, change)
}

/// The same for a session with this search path: messages name relations as it finds them.
pub(crate) fn apply_under(path: &ResolvedPath, catalog: &Catalog, change: &SchemaChange) -> Result<Applied> {
    apply::Change::new(catalog, path).run(change)
}

/// As [`apply_under`]; `decide` answers the conditions of a block of DO, and may stop it.
pub(crate) fn apply_deciding(
    path: &ResolvedPath,
    catalog: &Catalog,
    change: &SchemaChange,
    decide: Decide<'_>,
) -> Outcome<Applied> {
    apply::Change::new(catalog, path).run_deciding(change, decide)
}

/// 2BP01, with what depends on what is to be dropped, a line each.
fn still_needed(message: impl Into<String>, lines: &[String]) -> Error {
    Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .with_detail(lines.join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
