//! Prepared statements, and how they follow the tables that they were prepared for.

use super::execute::is_current;
use super::extended::output_of;
use super::plans::CachedPlan;
use super::script::{PLAN_TEXT_BYTES_MAX, parameter_types};
use super::{Block, PartitionLock, Session, SessionContext};
use crate::binder;
use crate::catalog::SchemaId;
use crate::executor::Limits;
use crate::partition::Partition;
use crate::statement::Statement;
use rubato_base::{DataType, Error, Result, SqlState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Named prepared statements and portals that one session may keep.
pub(super) const NAMES_MAX: usize = 65_536;

/// What a prepared statement takes (measured: about this for a SELECT with a join).
const PREPARED_BYTES: usize = 28 << 10;

/// What is told of a prepared statement whose result would be another one than when it was prepared (0A000). Drivers know it by
/// these words, and prepare it anew.
pub const RESULT_TYPE_CHANGED: &str = "cached plan must not change result type";

/// A prepared statement.
pub(super) struct Prepared {
    pub(super) statement: Statement,
    pub(super) catalog_version: u64,
    pub(super) sql: Arc<str>,
    pub(super) types: Vec<DataType>,
    /// Where names without a schema were looked for.
    pub(super) path: Arc<[SchemaId]>,
    /// The whole of PREPARE or DECLARE, if that is where it comes from.
    pub(super) declared: Option<Arc<str>>,
    /// When it was prepared.
    pub(super) since_us: i64,
    /// How often it has been bound to values.
    pub(super) runs: AtomicU64,
}

impl Prepared {
    /// The text that the client is shown.
    pub(super) fn told(&self) -> &str {
        self.declared.as_ref().unwrap_or(&self.sql)
    }
}

impl Session {
    /// The search path that a plan from the cache is for, if plan, path and catalog are as they are now.
    pub(super) fn path_of_cached(&mut self, cached: &CachedPlan, partition: &Partition) -> Option<Arc<[SchemaId]>> {
        let committed = Arc::clone(self.committed(partition));
        let path = Arc::clone(&self.path_in(&committed).searched);
        let is_same = matches!(&cached.statement, Statement::Planned(plan) if plan.path == path);
        (cached.catalog_version == committed.version && is_same).then_some(path)
    }

    pub(super) fn bind_prepared(
        &mut self,
        sql: &str,
        declared: &[DataType],
        partition: &Partition,
        context: &SessionContext<'_>,
    ) -> Result<Prepared> {
        let catalog = self.catalog(partition);
        let statement = match binder::bind(sql, &[], declared, &catalog, self) {
            Err(error) if error.code() == SqlState::SYNTAX_ERROR => return Err(one_statement_only(sql, error)),
            bound => bound?,
        };
        let types = parameter_types(&statement);
        let is_own = !Arc::ptr_eq(&catalog, self.committed(partition));
        let path = Arc::clone(&self.path_in(&catalog).searched);
        let key = prepared_key(sql, declared);
        let key = self.plan_key(&key).filter(|_| !is_own);
        if let Some(key) = key
            && matches!(statement, Statement::Planned(_))
            && sql.len() <= PLAN_TEXT_BYTES_MAX
        {
            let plan = CachedPlan {
                statement: statement.clone(),
                catalog_version: catalog.version,
                parameter_types: Arc::from(types.as_slice()),
                pinned: Arc::from([]),
                enums: Arc::clone(&catalog.enum_labels),
            };
            context.plans.lock().put(&key, plan);
        }
        Ok(Prepared {
            statement,
            catalog_version: catalog.version,
            sql: Arc::from(sql),
            types,
            path,
            declared: None,
            since_us: context.now_us,
            runs: AtomicU64::new(0),
        })
    }

    /// Whether the session may have one more prepared statement. 54000, 53200.
    pub(super) fn admit_prepared(&self, limits: &Limits) -> Result<()> {
        let count = self.prepared.len();
        if count >= NAMES_MAX {
            let message = "too many prepared statements in one session";
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        if count * PREPARED_BYTES < limits.bytes_max {
            return Ok(());
        }
        let message = format!("the {count} prepared statements of this session need as much memory as they may have");
        Err(Error::new(SqlState::OUT_OF_MEMORY, message).with_hint(
            "Use DEALLOCATE for those that are no longer needed, or give the database more memory with --memory.",
        ))
    }

    pub(super) fn prepared(&self, name: &str) -> Result<&Arc<Prepared>> {
        self.prepared.get(name).ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            Error::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// [`Session::renewed`] for who does not hold the partition yet.
    pub(super) fn renewed_by<L: PartitionLock>(
        &mut self,
        name: &str,
        prepared: Arc<Prepared>,
        lock: &L,
        context: &SessionContext<'_>,
    ) -> Result<Arc<Prepared>> {
        if self.block == Block::Failed {
            return Ok(prepared);
        }
        self.renewed(name, prepared, &lock.lock(), context)
    }

    /// The prepared statement of this name, bound again if the tables are no longer as they were. 0A000 if its result would be
    /// another one: whoever has asked for its columns goes by the answer.
    pub(super) fn renewed(
        &mut self,
        name: &str,
        prepared: Arc<Prepared>,
        partition: &Partition,
        context: &SessionContext<'_>,
    ) -> Result<Arc<Prepared>> {
        let catalog = self.catalog(partition);
        let path = Arc::clone(&self.path_in(&catalog).searched);
        if prepared.catalog_version == catalog.version && prepared.path == path {
            return Ok(prepared);
        }
        let version = catalog.version;
        let statement = match &prepared.statement {
            Statement::Planned(plan) if is_current(plan, &catalog, &path) => prepared.statement.clone(),
            old => {
                let new = self
                    .bind_prepared(&prepared.sql, &prepared.types, partition, context)?
                    .statement;
                if !gives_the_same(old, &new) {
                    return Err(result_type_changed());
                }
                new
            }
        };
        let renewed = Arc::new(Prepared {
            statement,
            catalog_version: version,
            sql: Arc::clone(&prepared.sql),
            types: prepared.types.clone(),
            path,
            declared: prepared.declared.clone(),
            since_us: prepared.since_us,
            runs: AtomicU64::new(prepared.runs.load(Ordering::Relaxed)),
        });
        self.prepared.insert(name.to_owned(), Arc::clone(&renewed));
        Ok(renewed)
    }
}

/// 0A000.
pub(super) fn result_type_changed() -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, RESULT_TYPE_CHANGED)
}

/// Whether two statements have the same columns: as many, with the same names and types.
pub(super) fn gives_the_same(old: &Statement, new: &Statement) -> bool {
    let (old, new) = (output_of(old), output_of(new));
    old.len() == new.len()
        && old
            .iter()
            .zip(new.iter())
            .all(|(old, new)| old.name == new.name && old.data_type == new.data_type && old.modifier == new.modifier)
}

/// The plan cache's key of a Parse: the declared types and the text; no simple query's key begins like it.
pub(super) fn prepared_key(sql: &str, declared: &[DataType]) -> String {
    let mut key = String::with_capacity(sql.len() + declared.len() + 2);
    key.push('\u{1}');
    for data_type in declared {
        key.push(char::from(b'A' + data_type.tag()));
        if let Some(number) = data_type.enum_number() {
            key.push_str(&number.to_string());
        }
    }
    key.push('\u{1}');
    key.push_str(sql);
    key
}

fn one_statement_only(sql: &str, error: Error) -> Error {
    match crate::parser::split_script(sql) {
        Ok(pieces) if pieces.len() > 1 => Error::new(
            SqlState::SYNTAX_ERROR,
            "cannot insert multiple commands into a prepared statement",
        ),
        _ => error,
    }
}
