//! Semi-joins: the values that one side of a join has go along to other nodes with what is asked of the other side's rows.

use crate::feed::plain_properties;
use crate::kinds::{Column, View};
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
use parking_lot::Mutex;
use rubato_formula::Expr;
use rubato_sql::analytics::PartnerValues;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The values of an expression over the rows of a join's first side, as far as these have been read. Both ends hold it.
#[derive(Clone, Debug, Default)]
pub(crate) struct JoinValues(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    values: PartnerValues,
    is_whole: bool,
}

impl JoinValues {
    /// That an expression has one of the values, if all of them are known, and few.
    pub(crate) fn term(&self, own: &Expr) -> Option<Expr> {
        let state = self.0.lock();
        if !state.is_whole {
            return None;
        }
        state.values.among(own.clone())
    }

    fn add(&self, batch: &RecordBatch, (own, column): &(Arc<dyn PhysicalExpr>, Column)) {
        let values = &mut self.0.lock().values;
        // What fails here does so in the join, which tells of it.
        if values.is_useless() || add_all(values, batch, own, *column).is_err() {
            values.give_up();
        }
    }
}

fn add_all(
    values: &mut PartnerValues,
    batch: &RecordBatch,
    own: &Arc<dyn PhysicalExpr>,
    column: Column,
) -> rubato_base::Result<()> {
    let array = own.evaluate(batch).and_then(|value| value.into_array(batch.num_rows()));
    let array = array.map_err(|error| rubato_base::Error::internal(error.to_string()))?;
    let view = View::new(&*array, column)?;
    for row in 0..batch.num_rows() {
        if values.is_useless() {
            break;
        }
        values.add(view.value(row)?);
    }
    Ok(())
}

/// What is gathered: the values of an expression with its column, which has these words.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    pub(crate) own: (Arc<dyn PhysicalExpr>, Column),
    pub(crate) words: String,
    pub(crate) values: JoinValues,
}

/// The first side of a join, whose rows are looked at on their way.
#[derive(Debug)]
pub(crate) struct GatherExec {
    input: Arc<dyn ExecutionPlan>,
    gathers: Arc<[Gather]>,
    properties: Arc<PlanProperties>,
}

impl GatherExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, gathers: Arc<[Gather]>) -> GatherExec {
        let properties = plain_properties(input.schema());
        GatherExec {
            input,
            gathers,
            properties,
        }
    }
}

impl DisplayAs for GatherExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.gathers.iter().map(|gather| gather.words.as_str()).collect();
        write!(f, "GatherExec: {} for the other side", words.join(", "))
    }
}

impl ExecutionPlan for GatherExec {
    fn name(&self) -> &str {
        "GatherExec"
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
        Ok(Arc::new(GatherExec::new(input, Arc::clone(&self.gathers))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(GatherStream {
            stream: self.input.execute(partition, context)?,
            gathers: Arc::clone(&self.gathers),
        }))
    }
}

struct GatherStream {
    stream: SendableRecordBatchStream,
    gathers: Arc<[Gather]>,
}

impl Stream for GatherStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.stream.as_mut().poll_next(context);
        for Gather { own, values, .. } in self.gathers.iter() {
            match &polled {
                Poll::Ready(Some(Ok(batch))) => values.add(batch, own),
                Poll::Ready(None) => values.0.lock().is_whole = true,
                Poll::Ready(Some(Err(_))) | Poll::Pending => {}
            }
        }
        polled
    }
}

impl RecordBatchStream for GatherStream {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}
