//! Semi-joins: the values that one side of a join has, which go along to other nodes with what is asked of the other side's rows.

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
use rubato_base::{Key, Value};
use rubato_sql::executor::SEMI_JOIN_TUPLES_MAX;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The values that an expression has over the rows of a join's first side.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Whether anybody is to know them: rows of the other side are on other nodes.
    pub(crate) is_wanted: bool,
    values: BTreeMap<Key, Value>,
    are_many: bool,
    is_over: bool,
}

impl Watched {
    /// All of them, if they are known and few; NULL is not among them.
    pub(crate) fn take(&mut self) -> Option<Vec<Value>> {
        let is_known = self.is_wanted && self.is_over && !self.are_many;
        is_known.then(|| std::mem::take(&mut self.values).into_values().collect())
    }

    fn add(&mut self, value: Value) {
        match value {
            Value::Null => {}
            // They are equal with rounding to values of other types.
            Value::Float4(_) | Value::Float8(_) => self.are_many = true,
            value => {
                self.values.insert(Key::of(std::slice::from_ref(&value)), value);
                self.are_many |= self.values.len() > SEMI_JOIN_TUPLES_MAX;
            }
        }
    }
}

/// An operator as it is, whose rows are looked at on their way.
#[derive(Debug)]
pub(crate) struct WatchExec {
    input: Arc<dyn ExecutionPlan>,
    own: Arc<dyn PhysicalExpr>,
    column: Column,
    watched: Arc<Mutex<Watched>>,
}

impl WatchExec {
    /// Watches the values of an expression, and whoever is to know them.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        (own, column): (Arc<dyn PhysicalExpr>, Column),
    ) -> (WatchExec, Arc<Mutex<Watched>>) {
        let watched = Arc::<Mutex<Watched>>::default();
        let exec = WatchExec {
            input,
            own,
            column,
            watched: Arc::clone(&watched),
        };
        (exec, watched)
    }
}

/// As what is watched: EXPLAIN does not show it.
impl DisplayAs for WatchExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.input.fmt_as(kind, f)
    }
}

impl ExecutionPlan for WatchExec {
    fn name(&self) -> &str {
        self.input.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.input.children()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(WatchStream {
            stream: self.input.execute(partition, context)?,
            own: Arc::clone(&self.own),
            column: self.column,
            watched: Arc::clone(&self.watched),
        }))
    }
}

struct WatchStream {
    stream: SendableRecordBatchStream,
    own: Arc<dyn PhysicalExpr>,
    column: Column,
    watched: Arc<Mutex<Watched>>,
}

impl WatchStream {
    fn look_at(&self, batch: &RecordBatch) -> Result<()> {
        let mut watched = self.watched.lock();
        if !watched.is_wanted || watched.are_many {
            return Ok(());
        }
        let array = self.own.evaluate(batch)?.into_array(batch.num_rows())?;
        let Ok(view) = View::new(&*array, self.column) else {
            watched.are_many = true;
            return Ok(());
        };
        for row in 0..batch.num_rows() {
            match view.value(row) {
                Ok(value) => watched.add(value),
                Err(_) => watched.are_many = true,
            }
        }
        Ok(())
    }
}

impl Stream for WatchStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.stream.as_mut().poll_next(context);
        match &polled {
            Poll::Ready(Some(Ok(batch))) => self.look_at(batch)?,
            Poll::Ready(None) => self.watched.lock().is_over = true,
            _ => {}
        }
        polled
    }
}

impl RecordBatchStream for WatchStream {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}
