//! FOR UPDATE and its kin.

use super::from::{From, nullable_side};
use super::joins::JOINED;
use super::select::Grouped;
use super::tail::Tail;
use super::{Context, located, object_name};
use crate::plan::{LockWait, Relation, RowLock};
use rubato_base::{Error, Result, SqlState};
use sqlparser::ast::{self, Spanned};

impl Context<'_> {
    /// The relations whose rows are locked, if any are. 0A000 where a row of the result is none of theirs.
    pub(super) fn row_lock(&self, tail: &Tail<'_>, from: &From, grouped: &Grouped<'_>) -> Result<Option<RowLock>> {
        if tail.locks.is_empty() {
            return Ok(None);
        }
        let what = if !grouped.calls.borrow().is_empty() {
            Some("aggregate functions")
        } else if !grouped.keys.keys.is_empty() || grouped.keys.sets.is_some() {
            Some("GROUP BY clause")
        } else if grouped.distinct || !grouped.distinct_on.is_empty() {
            Some("DISTINCT clause")
        } else if !grouped.windows.calls.borrow().is_empty() {
            Some("window functions")
        } else {
            None
        };
        if let Some(what) = what {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("FOR UPDATE is not allowed with {what}"),
            ));
        }
        let mut relations = Vec::new();
        let mut wait = LockWait::Queue;
        for lock in tail.locks {
            match &lock.of {
                None => {
                    if from.query.relations.iter().any(|relation| relation.alias == JOINED) {
                        return Err(nullable_side());
                    }
                    relations.extend(0..from.query.relations.len());
                }
                Some(name) => {
                    let alias = object_name(name)?.pop().unwrap_or_default();
                    relations.push(located(self, name.span(), from.lockable(&alias))?);
                }
            }
            wait = match lock.nonblock {
                Some(ast::NonBlock::Nowait) => LockWait::NoWait,
                Some(ast::NonBlock::SkipLocked) => LockWait::SkipLocked,
                None => wait,
            };
        }
        relations.sort_unstable();
        relations.dedup();
        relations.retain(|index| matches!(from.query.relations[*index].relation, Relation::Table(_)));
        for index in &relations {
            from.query.relations[*index].check_lockable()?;
        }
        Ok(Some(RowLock { steps: relations, wait }))
    }
}
