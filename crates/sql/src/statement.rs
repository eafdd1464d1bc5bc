//! Statements that are not planned: transaction control, settings, schema changes and the like, as the binder hands them over.

mod blocks;
mod cursors;
mod extensions;
mod relations;
mod upkeep;

pub use blocks::{Block, Condition, Definition, Definitions, Handler, Place, Step};
pub use cursors::{CursorOptions, Movement};
pub use extensions::ExtensionChange;
pub use relations::{DomainChange, EnumChange, MovedTo, RelationKind, SchemaElement};
pub use upkeep::{Discarded, UpkeepKind, UpkeepOf, Where};

use crate::catalog::{Catalog, RelationName, SchemaId, Table};
use crate::databases::DatabaseCommand;
use crate::plan::Plan;
use rubato_base::DataType;
use rubato_formula::Expr;
use std::sync::Arc;

/// A statement after binding.
#[derive(Clone, Debug)]
pub enum Statement {
    /// Runs on the relay.
    Planned(Arc<Plan>),
    /// Everything else.
    Utility(Arc<Utility>),
    /// Nothing but blanks and comments.
    Empty,
    /// A text that says nothing here, perhaps since its transaction has made what it names, and is run on another node.
    Elsewhere,
}

/// What a transaction-starting or -characterising clause says. All isolation levels are strictly serializable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// The level named, as SHOW will tell it.
    pub isolation: Option<String>,
    /// READ ONLY / READ WRITE.
    pub read_only: Option<bool>,
    /// DEFERRABLE (accepted: a read-only transaction never waits or aborts anyway).
    pub deferrable: Option<bool>,
}

/// A statement that is not planned.
// Always behind an `Arc`: the size of the largest variant moves nowhere.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Utility {
    /// BEGIN, START TRANSACTION.
    Begin(TransactionModes),
    /// COMMIT, END; `and_chain` starts the next with the same modes.
    Commit {
        /// AND CHAIN.
        and_chain: bool,
    },
    /// ROLLBACK, ABORT.
    Rollback {
        /// AND CHAIN.
        and_chain: bool,
    },
    /// SAVEPOINT name.
    Savepoint(String),
    /// RELEASE SAVEPOINT name.
    Release(String),
    /// ROLLBACK TO SAVEPOINT name.
    RollbackTo(String),
    /// SET TRANSACTION, SET SESSION CHARACTERISTICS (`session`).
    SetTransaction {
        /// The modes.
        modes: TransactionModes,
        /// For this and all later transactions of the session.
        session: bool,
    },
    /// SET CONSTRAINTS.
    SetConstraints {
        /// The constraints, each perhaps with its schema; `None` is ALL.
        names: Option<Vec<Vec<String>>>,
        /// DEFERRED or IMMEDIATE.
        deferred: bool,
    },
    /// `SET [LOCAL] name = value`; `None` is DEFAULT.
    Set {
        /// The setting.
        name: String,
        /// Its value.
        value: Option<String>,
        /// LOCAL.
        local: bool,
    },
    /// SHOW name, SHOW ALL.
    Show(String),
    /// RESET name, RESET ALL.
    Reset(String),
    /// PREPARE name (types) AS statement.
    Prepare {
        /// Its name.
        name: String,
        /// Declared parameter types.
        types: Vec<DataType>,
        /// The text of the statement.
        sql: String,
    },
    /// EXECUTE name (arguments): expressions without columns, as text literals or numbers already evaluated at binding.
    Execute {
        /// Its name.
        name: String,
        /// Arguments, each with its position in the text.
        arguments: Vec<(rubato_formula::Expr, Option<u32>)>,
    },
    /// DEALLOCATE name or ALL (`None`).
    Deallocate(Option<String>),
    /// DECLARE CURSOR.
    Declare {
        /// Its name.
        name: String,
        /// What it says beside its query.
        options: CursorOptions,
        /// The query.
        statement: Statement,
        /// The text of the query.
        sql: String,
    },
    /// FETCH and MOVE.
    Fetch {
        /// The cursor.
        name: String,
        /// Which rows.
        movement: Movement,
        /// MOVE: the rows are passed over.
        is_move: bool,
    },
    /// CLOSE name or ALL (`None`).
    Close(Option<String>),
    /// DISCARD.
    Discard(Discarded),
    /// EXPLAIN.
    Explain {
        /// ANALYZE.
        analyze: bool,
        /// FORMAT JSON.
        json: bool,
        /// The statement explained.
        statement: Statement,
    },
    /// COPY table FROM STDIN or COPY table/query TO STDOUT.
    Copy(CopyStatement),
    /// A schema change: the closure of decisions is [`SchemaChange`]; the executor moves the rows.
    Schema(SchemaChange),
    /// CREATE TABLE AS, SELECT INTO.
    CreateTableAs(CreateTableAs),
    /// CREATE, ALTER and DROP DATABASE, and COMMENT ON DATABASE.
    Database(DatabaseCommand),
    /// CHECKPOINT.
    Checkpoint,
    /// ALTER GRID REMOVE NODE.
    RemoveNode(rubato_base::NodeId),
    /// ALTER GRID HAND OVER TO NODE.
    HandOver(rubato_base::NodeId),
    /// Nothing to do here but answer with the tag.
    Maintenance {
        /// The command tag.
        tag: &'static str,
    },
    /// LOCK TABLE.
    LockTables {
        /// The relations, in the order in which they are locked.
        relations: Vec<UpkeepOf>,
        /// How.
        mode: crate::advisory::LockMode,
        /// Whether it waits for others that exclude it; 55P03 if not.
        waits: bool,
    },
    /// VACUUM, ANALYZE, CLUSTER, REINDEX: nothing to do but to see that the relations are there.
    OnRelations {
        /// The command tag.
        tag: &'static str,
        /// The relations.
        relations: Vec<UpkeepOf>,
        /// Where such a statement may stand.
        place: Where,
    },
    /// LISTEN.
    Listen(String),
    /// UNLISTEN; `None` is `*`.
    Unlisten(Option<String>),
    /// NOTIFY.
    Notify {
        /// The channel.
        channel: String,
        /// What is told; empty if nothing is said.
        payload: String,
    },
}

/// A table made of a query.
#[derive(Debug)]
pub struct CreateTableAs {
    /// Makes the table.
    pub change: SchemaChange,
    /// The table's name.
    pub name: RelationName,
    /// The query: a SELECT.
    pub source: Arc<Plan>,
    /// Whether its rows are wanted.
    pub with_data: bool,
    /// The tag where they are not.
    pub tag: &'static str,
}

/// COPY.
#[derive(Debug)]
pub struct CopyStatement {
    /// FROM STDIN (`true`) or TO STDOUT.
    pub from: bool,
    /// The table (FROM, or TO of a table).
    pub table: Option<Arc<Table>>,
    /// The columns named, or all.
    pub columns: Vec<usize>,
    /// TO: what is copied (a table was turned into a SELECT of its columns).
    pub query: Option<Arc<Plan>>,
    /// The output columns of the query (names for HEADER, types).
    pub output: Vec<crate::client::OutputColumn>,
    /// How the data are written.
    pub format: CopyFormat,
    /// DELIMITER.
    pub delimiter: u8,
    /// NULL.
    pub null: String,
    /// HEADER.
    pub header: bool,
    /// QUOTE (csv).
    pub quote: u8,
    /// ESCAPE (csv).
    pub escape: u8,
    /// Columns that are always quoted (csv, TO).
    pub force_quote: Vec<usize>,
    /// HEADER MATCH: the first line must name the columns.
    pub match_header: bool,
    /// Places in the data where the null string is NULL though it is quoted (csv, FROM).
    pub force_null: Vec<usize>,
    /// Places in the data where the null string is a text (csv, FROM).
    pub force_not_null: Vec<usize>,
    /// FROM: what a row must satisfy to be taken, over the table's columns.
    pub filter: Option<Expr>,
}

/// The format of COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// PostgreSQL's text format.
    Text,
    /// CSV.
    Csv,
    /// PostgreSQL's binary format.
    Binary,
}

/// A schema change, decided against one catalog version.
#[derive(Debug)]
pub enum SchemaChange {
    /// CREATE TABLE: the finished table (ids not yet given: `id`, `oid` and index ids are 0 and are given when it runs) and the
    /// sequences that its serial and identity columns own.
    CreateTable {
        /// The table.
        table: Box<Table>,
        /// Sequences to create with it.
        sequences: Vec<crate::catalog::Sequence>,
        /// Comments on its columns, which are counted from 1.
        comments: Vec<(u32, String)>,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP TABLE.
    DropTable {
        /// Names.
        names: Vec<RelationName>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: foreign keys of others that refer to it go too.
        cascade: bool,
    },
    /// CREATE VIEW.
    CreateView {
        /// The view (oid 0).
        view: crate::catalog::View,
        /// OR REPLACE.
        or_replace: bool,
        /// It is temporary because it reads what is, which the client is told.
        becomes_temporary: bool,
    },
    /// DROP VIEW.
    DropView {
        /// Names.
        names: Vec<RelationName>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: views that read it go too.
        cascade: bool,
        /// Whether materialised views are meant.
        materialised: bool,
    },
    /// REFRESH MATERIALIZED VIEW: the rows come afterwards.
    Refresh {
        /// Its name.
        name: RelationName,
        /// Whether it is filled.
        with_data: bool,
    },
    /// DO.
    Do(Definitions),
    /// An extension.
    Extension(ExtensionChange),
    /// DROP ... IF EXISTS of what nobody can make.
    DropAbsent {
        /// What is not there.
        absent: Vec<String>,
        /// The tag of the statement.
        tag: &'static str,
    },
    /// CREATE SCHEMA.
    CreateSchema {
        /// Its name.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// What is made in it, in order: statements that are bound when it is there.
        elements: Vec<SchemaElement>,
        /// For reading literals in them.
        text: rubato_base::text_format::TextContext,
    },
    /// DROP SCHEMA.
    DropSchema {
        /// Names.
        names: Vec<String>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: what is in it goes too.
        cascade: bool,
    },
    /// ALTER SCHEMA ... RENAME TO.
    RenameSchema {
        /// Its name.
        name: String,
        /// Its new name.
        new_name: String,
    },
    /// ALTER ... SET SCHEMA, and RENAME TO of what is no table.
    MoveRelation {
        /// The relation.
        relation: RelationName,
        /// What the statement calls it.
        kind: RelationKind,
        /// IF EXISTS.
        if_exists: bool,
        /// Where it goes.
        to: MovedTo,
    },
    /// The rows of temporary tables go at the end of the transaction.
    EmptyTemporary {
        /// The tables.
        names: Vec<RelationName>,
    },
    /// COMMENT ON SCHEMA.
    CommentOnSchema {
        /// The schema.
        schema: SchemaId,
        /// What is said; `None` takes it back.
        comment: Option<String>,
    },
    /// Everything in a session's own schema goes.
    DropTemporary {
        /// The schema.
        schema: SchemaId,
    },
    /// COMMENT ON a relation or a column.
    Comment {
        /// The relation.
        relation: RelationName,
        /// The column, counted from 1; 0 for the relation itself.
        column: u32,
        /// What is said; `None` takes it back.
        comment: Option<String>,
    },
    /// COMMENT ON INDEX and CONSTRAINT.
    Remark {
        /// The table.
        table: RelationName,
        /// What is commented on there.
        object: (crate::catalog::Remarked, String),
        /// What is said; `None` takes it back.
        comment: Option<String>,
    },
    /// ALTER VIEW ... SET and RESET.
    SetViewOptions {
        /// The view.
        view: RelationName,
        /// What its options are.
        options: crate::catalog::ViewOptions,
    },
    /// ALTER VIEW ... RENAME COLUMN.
    RenameViewColumn {
        /// The view.
        view: RelationName,
        /// The column.
        column: usize,
        /// Its new name.
        name: String,
        /// What the statement calls it.
        kind: RelationKind,
    },
    /// CREATE DOMAIN.
    CreateDomain {
        /// The domain (oid 0).
        domain: crate::catalog::Domain,
    },
    /// ALTER DOMAIN.
    AlterDomain {
        /// Its name.
        name: RelationName,
        /// What changes.
        change: DomainChange,
    },
    /// CREATE TYPE ... AS ENUM.
    CreateEnum {
        /// Its name.
        name: RelationName,
        /// Its labels.
        labels: Vec<String>,
    },
    /// ALTER TYPE.
    AlterEnum {
        /// Its name.
        name: RelationName,
        /// What changes.
        change: EnumChange,
    },
    /// DROP DOMAIN and DROP TYPE.
    DropTypes {
        /// Names.
        names: Vec<RelationName>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: columns of it go too.
        cascade: bool,
        /// The command tag.
        tag: &'static str,
    },
    /// CREATE INDEX; the executor fills it.
    CreateIndex {
        /// The table.
        table: RelationName,
        /// The index (id 0: given when it runs).
        index: crate::catalog::Index,
        /// All expressions that indexes of the table hold, those of this one included.
        expressions: Vec<crate::catalog::KeyExpression>,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP INDEX.
    DropIndex {
        /// Names.
        names: Vec<RelationName>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE.
        cascade: bool,
    },
    /// TRUNCATE.
    Truncate {
        /// Names.
        names: Vec<RelationName>,
        /// RESTART IDENTITY.
        restart_identity: bool,
        /// CASCADE.
        cascade: bool,
    },
    /// ALTER TABLE.
    AlterTable {
        /// The table.
        table: RelationName,
        /// IF EXISTS.
        if_exists: bool,
        /// What changes, in order.
        actions: Vec<AlterAction>,
        /// What the statement calls it.
        kind: RelationKind,
    },
    /// CREATE SEQUENCE.
    CreateSequence {
        /// The sequence (id 0).
        sequence: crate::catalog::Sequence,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// ALTER SEQUENCE.
    AlterSequence {
        /// Its name.
        name: RelationName,
        /// IF EXISTS.
        if_exists: bool,
        /// What it becomes; `None` if there is none of this name.
        sequence: Option<crate::catalog::Sequence>,
        /// RESTART: its next number.
        restart: Option<i64>,
    },
    /// DROP SEQUENCE.
    DropSequence {
        /// Names.
        names: Vec<RelationName>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: defaults that take its numbers go too.
        cascade: bool,
    },
}

/// One action of ALTER TABLE.
#[derive(Debug)]
pub enum AlterAction {
    /// SET (spread ...): the rows are laid anew on the nodes that the grid has now; `None`: on the first of them.
    Lay(Option<crate::catalog::Spread>),
    /// An UPDATE, DELETE or INSERT of the table: the rows that are there are laid anew as it leaves them.
    Change(crate::schema_change::RowsChange),
    /// SET (spread_nodes ...): a step on the way of the rows to these nodes, as long as they are on others.
    Step {
        /// In ascending order.
        nodes: Vec<rubato_base::NodeId>,
        /// Rows that it moves at most.
        rows_max: usize,
    },
    /// What a step does: rows are to lie like this, or are on their way there.
    Place(crate::catalog::Spread),
    /// What a step does with rows.
    Move(crate::executor::MoveWork),
    /// ENABLE and DISABLE TRIGGER ALL: whether foreign keys are looked at.
    CheckReferences(bool),
    /// ADD PRIMARY KEY (columns): the rows are laid out anew by the key.
    AddPrimaryKey {
        /// Constraint name.
        name: String,
        /// Columns.
        columns: Vec<usize>,
        /// INCLUDE.
        included: Vec<usize>,
    },
    /// ADD UNIQUE: as an index with `constraint` set (id 0).
    AddUnique(crate::catalog::Index),
    /// ADD CHECK: existing rows are checked, unless it is not valid.
    AddCheck(crate::catalog::Check),
    /// ADD FOREIGN KEY: existing rows are checked, unless it is not valid.
    AddForeignKey(crate::catalog::ForeignKey),
    /// VALIDATE CONSTRAINT name: existing rows are checked.
    ValidateConstraint(String),
    /// ALTER CONSTRAINT name: when a foreign key is checked.
    AlterConstraint {
        /// Its name.
        name: String,
        /// What it becomes.
        deferral: crate::catalog::Deferral,
    },
    /// RENAME CONSTRAINT.
    RenameConstraint {
        /// Its name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// ADD PRIMARY KEY or UNIQUE ... USING INDEX.
    UseIndex {
        /// The constraint's name, if it has another one than the index.
        name: Option<String>,
        /// The index.
        index: String,
        /// Whether it becomes the primary key.
        is_primary: bool,
        /// When the constraint is checked.
        deferral: crate::catalog::Deferral,
    },
    /// ALTER COLUMN SET GENERATED, of an identity column.
    SetIdentity {
        /// The column.
        column: usize,
        /// ALWAYS or BY DEFAULT, if that is said.
        always: Option<bool>,
    },
    /// What an identity column's sequence becomes, and its next number if that is said.
    AlterSequence {
        /// The sequence.
        sequence: crate::catalog::Sequence,
        /// RESTART.
        restart: Option<i64>,
    },
    /// ALTER COLUMN DROP IDENTITY.
    DropIdentity {
        /// The column.
        column: usize,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// DROP CONSTRAINT name.
    DropConstraint {
        /// Its name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: foreign keys of others that need it go too.
        cascade: bool,
    },
    /// ADD COLUMN; existing rows take the default (evaluated once) when they are read or rewritten.
    AddColumn {
        /// The column.
        column: crate::catalog::Column,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// A sequence that a serial or identity column of an earlier action needs.
    AddSequence(crate::catalog::Sequence),
    /// ALTER COLUMN ADD GENERATED AS IDENTITY, of a sequence of an earlier action.
    AddIdentity {
        /// The column.
        column: usize,
        /// GENERATED ALWAYS.
        is_always: bool,
        /// The next number of the sequence, and its text.
        default: Option<(rubato_formula::Expr, String)>,
    },
    /// DROP COLUMN.
    DropColumn {
        /// Its name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: views that read it go too.
        cascade: bool,
    },
    /// ALTER COLUMN SET/DROP DEFAULT.
    SetDefault {
        /// The column.
        column: usize,
        /// The new default and its text.
        default: Option<(rubato_formula::Expr, String)>,
    },
    /// ALTER COLUMN DROP EXPRESSION.
    DropExpression {
        /// The column.
        column: usize,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// ALTER COLUMN TYPE.
    AlterType {
        /// The column.
        column: usize,
        /// Its new type.
        column_type: rubato_base::ColumnType,
        /// The domain that this is of.
        domain: Option<RelationName>,
        /// What becomes of the values, over the rows as they were; `None`: they stay as they are.
        conversion: Option<rubato_formula::Expr>,
        /// The default as a value of the new type, if there is one.
        default: Option<rubato_formula::Expr>,
    },
    /// The checks that read columns of another type, for the types that these have in the end.
    ReplaceChecks(Vec<crate::catalog::Check>),
    /// What indexes hold of columns of another type, for the types that these have in the end.
    ReplaceExpressions {
        /// All expressions of the table.
        expressions: Vec<crate::catalog::KeyExpression>,
        /// Predicates of indexes, by their names.
        predicates: Vec<(String, crate::catalog::RowExpression)>,
    },
    /// ALTER COLUMN SET/DROP NOT NULL.
    SetNotNull {
        /// The column.
        column: usize,
        /// Whether it is set.
        not_null: bool,
    },
    /// RENAME TO.
    RenameTable(String),
    /// RENAME COLUMN.
    RenameColumn {
        /// The column.
        column: usize,
        /// Its new name.
        name: String,
    },
}

/// A catalog with the id of the transaction's own changes, as the binder sees it.
pub type CatalogRef<'a> = &'a Catalog;
