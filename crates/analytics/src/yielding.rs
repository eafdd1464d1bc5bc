//! Turns for others where one batch of an input makes many of the output.

use crate::feed::plain_properties;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::TaskContext;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, RecordBatchStream, SendableRecordBatchStream,
};
use futures::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Rows after which whoever polls gets a turn.
const ROWS_MAX: usize = 65_536;

/// A join whose rows are asked for in turns. Whoever groups or sorts them takes all that there are within one poll, and those of one
/// batch may be any number; the statement can pause, and be cancelled, only between polls.
#[derive(Debug)]
pub(crate) struct YieldExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl YieldExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>) -> YieldExec {
        let properties = plain_properties(input.schema());
        YieldExec { input, properties }
    }
}

impl DisplayAs for YieldExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YieldExec")
    }
}

impl ExecutionPlan for YieldExec {
    fn name(&self) -> &str {
        "YieldExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(YieldExec::new(input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(YieldStream {
            stream: self.input.execute(partition, context)?,
            rows: 0,
        }))
    }
}

struct YieldStream {
    stream: SendableRecordBatchStream,
    /// Rows since the last turn.
    rows: usize,
}

impl Stream for YieldStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.rows >= ROWS_MAX {
            self.rows = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.stream.as_mut().poll_next(context);
        match &polled {
            Poll::Ready(Some(Ok(batch))) => self.rows += batch.num_rows(),
            Poll::Pending => self.rows = 0,
            _ => {}
        }
        polled
    }
}

impl RecordBatchStream for YieldStream {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}
