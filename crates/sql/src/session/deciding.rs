//! Conditions of DO, as the definitions before them have left the catalog.

use super::Session;
use super::running::Part;
use crate::catalog::Catalog;
use crate::executor::{Cursor, ExecutionContext, Limits, Progress};
use crate::partition::Partition;
use crate::plan::Plan;
use rubato_base::{Error, TransactionId, Value};
use rubato_protocol::{Outcome, Stop};
use std::sync::Arc;

impl Session {
    /// Whether the only value of a query, which reads no rows of the user's, is true in a catalog.
    pub(super) fn holds(
        &mut self,
        (plan, catalog): (&Arc<Plan>, &Catalog),
        transaction: TransactionId,
        partition: &mut Partition,
    ) -> Outcome<bool> {
        let part = Part {
            transaction,
            catalog,
            parameters: &[],
            times_us: (self.now_us, self.now_us),
            limits: Limits::default(),
            analytics: None,
        };
        let mut cursor = Cursor::new(Arc::clone(plan));
        let mut holds = false;
        let progress = self.run_part(partition, part, ExecutionContext::UNBOUNDED, |execution| {
            cursor.run(execution, usize::MAX, &mut |row| {
                holds = matches!(row.first(), Some(Value::Bool(true)));
                true
            })
        })?;
        match progress {
            Progress::Complete(_) => Ok(holds),
            Progress::Suspended => Err(Stop::Fail(Error::unsupported("a condition in DO that takes long"))),
        }
    }
}
