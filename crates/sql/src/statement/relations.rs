//! What schema changes name.

use crate::catalog::SchemaId;

/// A statement within CREATE SCHEMA.
#[derive(Debug)]
pub struct SchemaElement {
    /// Its text.
    pub sql: String,
    /// How much of the client's text stands before it.
    pub characters_before: u32,
}

/// What ALTER DOMAIN changes.
#[derive(Debug)]
pub enum DomainChange {
    /// SET and DROP DEFAULT: the default and its text.
    SetDefault(Option<rubato_formula::Expr>, Option<String>),
    /// SET and DROP NOT NULL.
    SetNotNull(bool),
    /// ADD CHECK: existing rows are checked, unless it is not valid.
    AddCheck(crate::catalog::DomainCheck),
    /// VALIDATE CONSTRAINT name: existing rows are checked.
    ValidateConstraint(String),
    /// RENAME CONSTRAINT.
    RenameConstraint {
        /// Its name.
        from: String,
        /// What it becomes.
        to: String,
    },
    /// DROP CONSTRAINT.
    DropConstraint {
        /// Its name.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// RENAME TO and SET SCHEMA.
    Move(MovedTo),
    /// OWNER TO.
    Owner,
}

/// What ALTER TYPE changes of an enum.
#[derive(Debug)]
pub enum EnumChange {
    /// ADD VALUE.
    AddValue {
        /// The new label.
        label: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// Another label, and whether the new one comes behind it; behind all if there is none.
        neighbour: Option<(String, bool)>,
    },
    /// RENAME VALUE.
    RenameValue {
        /// The label as it is.
        old: String,
        /// What it becomes.
        new: String,
    },
    /// RENAME TO and SET SCHEMA.
    Move(MovedTo),
    /// OWNER TO.
    Owner,
}

/// What a statement calls a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// TABLE, which may stand for others too.
    Table,
    /// VIEW
    View,
    /// MATERIALIZED VIEW
    MaterialisedView,
    /// SEQUENCE
    Sequence,
    /// INDEX
    Index,
}

impl RelationKind {
    /// With its article, as messages have it.
    pub fn described(self) -> &'static str {
        match self {
            RelationKind::Table => "a table",
            RelationKind::View => "a view",
            RelationKind::MaterialisedView => "a materialized view",
            RelationKind::Sequence => "a sequence",
            RelationKind::Index => "an index",
        }
    }

    /// The tag of ALTER.
    pub fn alter_tag(self) -> &'static str {
        match self {
            RelationKind::Table => "ALTER TABLE",
            RelationKind::View => "ALTER VIEW",
            RelationKind::MaterialisedView => "ALTER MATERIALIZED VIEW",
            RelationKind::Sequence => "ALTER SEQUENCE",
            RelationKind::Index => "ALTER INDEX",
        }
    }
}

/// Where a relation goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MovedTo {
    /// RENAME TO
    Name(String),
    /// SET SCHEMA
    Schema(SchemaId),
}
