//! What is said of views and indexes beside what they hold.

use super::{Check, Index, Sequence, Table};
use rubato_base::{DataType, Error, Result, SqlState};

/// What is said of an index beside its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexOptions {
    /// Whether it is the primary key: a deferrable one, under which rows cannot lie, since two may share a key of it for a while.
    pub is_primary: bool,
    /// NULLS NOT DISTINCT: two rows may not share a key with NULL either.
    pub nulls_not_distinct: bool,
    /// INCLUDE. What is read of a row is read where the row lies: entries do not hold them.
    pub included: Vec<usize>,
    /// The orders of the columns as they were said; none if all are the usual. Entries are ascending whatever is said.
    pub orders: Vec<KeyOrder>,
}

/// How a column of an index was said to be ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyOrder {
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST, which is usual where it is descending.
    pub nulls_first: bool,
}

impl KeyOrder {
    /// As it stands behind a column, if it is not the usual order.
    pub(crate) fn shown(self) -> &'static str {
        match (self.descending, self.nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        }
    }

    /// As the catalog has it.
    pub(crate) fn bits(self) -> u8 {
        u8::from(self.descending) | u8::from(self.nulls_first) << 1
    }
}

impl Sequence {
    /// Gives its numbers another type. A limit that was the former type's is the new one's.
    pub(crate) fn retype(&mut self, data_type: DataType) {
        let (former_least, former_most) = limits_of(self.data_type.unwrap_or(DataType::Int8));
        let (least, most) = limits_of(data_type);
        if self.minimum == former_least {
            self.minimum = least;
        }
        if self.maximum == former_most {
            self.maximum = most;
        }
        self.data_type = Some(data_type);
    }
}

/// The smallest and the largest number of a type.
pub(crate) fn limits_of(data_type: DataType) -> (i64, i64) {
    match data_type {
        DataType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DataType::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

/// What has comments of its own within a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remarked {
    /// An index, which that of a constraint is, too.
    Index,
    /// A constraint.
    Constraint,
}

impl Table {
    /// Whether there is what a comment is about.
    fn is_there(&self, (kind, name): &(Remarked, String)) -> bool {
        match kind {
            Remarked::Index => self.has_index_named(name),
            Remarked::Constraint => self.has_constraint(name),
        }
    }

    /// Whether it has a constraint of a name; what domains say is none of its own.
    pub fn has_constraint(&self, name: &str) -> bool {
        let is_named = |index: &Index| index.constraint && index.name == name;
        let is_check = |check: &Check| check.domain.is_none() && check.name == name;
        (!self.primary_key.is_empty() && self.primary_key_name == name)
            || self.indexes.iter().any(is_named)
            || self.checks.iter().any(is_check)
            || self.foreign_keys.iter().any(|key| key.name == name)
    }

    /// Whether there are comments about what is gone.
    pub(crate) fn has_stale_remarks(&self) -> bool {
        !self.remarks.keys().all(|remarked| self.is_there(remarked))
    }

    /// Forgets comments about what is gone.
    pub(crate) fn drop_remarks(&mut self) {
        let mut remarks = std::mem::take(&mut self.remarks);
        remarks.retain(|remarked, _| self.is_there(remarked));
        self.remarks = remarks;
    }

    /// What was called `from` is called `to` now: comments on it go along.
    pub(crate) fn rename_remarks(&mut self, from: &str, to: &str) {
        for kind in [Remarked::Index, Remarked::Constraint] {
            let renamed = (kind, to.to_owned());
            if self.is_there(&renamed)
                && let Some(comment) = self.remarks.remove(&(kind, from.to_owned()))
            {
                self.remarks.insert(renamed, comment);
            }
        }
    }

    /// The primary key, if it is deferrable.
    pub fn deferrable_primary_key(&self) -> Option<&Index> {
        self.indexes.iter().find(|index| index.options.is_primary)
    }

    /// Whether there is a primary key of whatever kind.
    pub fn has_primary_key(&self) -> bool {
        !self.primary_key.is_empty() || self.deferrable_primary_key().is_some()
    }
}

/// The options of a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewOptions {
    /// WITH CHECK OPTION: rows that are written through the view have to satisfy its conditions.
    pub check: Option<ViewCheck>,
    /// `security_barrier`. There is one user, to whom nothing can leak: it is kept and shown.
    pub security_barrier: Option<bool>,
    /// `security_invoker`: the same.
    pub security_invoker: Option<bool>,
}

/// Whose conditions WITH CHECK OPTION means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewCheck {
    /// Those of the view itself.
    Local,
    /// Also those of the views that it is over.
    Cascaded,
}

impl ViewCheck {
    /// As the option's value says it.
    pub fn name(self) -> &'static str {
        match self {
            ViewCheck::Local => "local",
            ViewCheck::Cascaded => "cascaded",
        }
    }
}

impl ViewOptions {
    /// Sets an option, to true if there is no value. 22023.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let invalid = |message: String| Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        let truth = || match value.unwrap_or("true") {
            "true" | "on" | "yes" | "1" => Ok(Some(true)),
            "false" | "off" | "no" | "0" => Ok(Some(false)),
            other => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid value for boolean option \"{name}\": {other}"),
            )),
        };
        match name {
            "check_option" => match value {
                Some("local") => self.check = Some(ViewCheck::Local),
                Some("cascaded") => self.check = Some(ViewCheck::Cascaded),
                other => {
                    let message = format!(
                        "invalid value for enum option \"check_option\": {}",
                        other.unwrap_or("true")
                    );
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                        .with_detail("Valid values are \"local\" and \"cascaded\"."));
                }
            },
            "security_barrier" => self.security_barrier = truth()?,
            "security_invoker" => self.security_invoker = truth()?,
            other => return invalid(format!("unrecognized parameter \"{other}\"")),
        }
        Ok(())
    }

    /// Takes an option back. 22023.
    pub fn reset(&mut self, name: &str) -> Result<()> {
        match name {
            "check_option" => self.check = None,
            "security_barrier" => self.security_barrier = None,
            "security_invoker" => self.security_invoker = None,
            other => {
                let message = format!("unrecognized parameter \"{other}\"");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok(())
    }

    /// The options that were set, as `pg_class` lists them.
    pub fn listed(&self) -> Vec<String> {
        let truth = |name: &str, value: Option<bool>| value.map(|value| format!("{name}={value}"));
        let check = self.check.map(|check| format!("check_option={}", check.name()));
        let barrier = truth("security_barrier", self.security_barrier);
        let invoker = truth("security_invoker", self.security_invoker);
        barrier.into_iter().chain(invoker).chain(check).collect()
    }
}
