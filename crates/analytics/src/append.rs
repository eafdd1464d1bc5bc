//! The rows of one input after those of another, in one stream.

use crate::feed::plain_properties;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::TaskContext;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, RecordBatchStream, SendableRecordBatchStream,
};
use futures::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// UNION ALL. DataFusion's own gives a stream for each input, which only other threads bring together.
#[derive(Debug)]
pub(crate) struct AppendExec {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl AppendExec {
    /// Inputs whose columns have one form.
    pub(crate) fn new(inputs: Vec<Arc<dyn ExecutionPlan>>, schema: SchemaRef) -> AppendExec {
        AppendExec {
            inputs,
            properties: plain_properties(schema),
        }
    }
}

impl DisplayAs for AppendExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AppendExec")
    }
}

impl ExecutionPlan for AppendExec {
    fn name(&self) -> &str {
        "AppendExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(AppendExec::new(inputs, self.schema())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let streams = self
            .inputs
            .iter()
            .map(|input| input.execute(partition, Arc::clone(&context)));
        Ok(Box::pin(AppendStream {
            schema: self.schema(),
            streams: streams.collect::<Result<_>>()?,
        }))
    }
}

struct AppendStream {
    schema: SchemaRef,
    streams: VecDeque<SendableRecordBatchStream>,
}

impl Stream for AppendStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while let Some(first) = self.streams.front_mut() {
            match first.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(batch))) => {
                    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                    let schema = Arc::clone(&self.schema);
                    let own = RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options);
                    return Poll::Ready(Some(own.map_err(Into::into)));
                }
                Poll::Ready(None) => {
                    self.streams.pop_front();
                }
                other => return other,
            }
        }
        Poll::Ready(None)
    }
}

impl RecordBatchStream for AppendStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
