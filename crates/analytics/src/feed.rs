//! The leaves: batches that the relay fills between two polls.

use crate::kinds::{Builder, Column, Refused};
use crate::sieve::Sieve;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::TaskContext;
use datafusion_physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, RecordBatchStream, SendableRecordBatchStream,
};
use futures::Stream;
use parking_lot::Mutex;
use rubato_base::{RowRef, Value};
use rubato_sql::analytics::{LeafRun, LeafSink, Outcome};
use rubato_sql::executor::ExecutionContext;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The schema of columns, which are known by their places.
pub(crate) fn schema_of(columns: &[Column]) -> SchemaRef {
    let fields = columns
        .iter()
        .enumerate()
        .map(|(place, column)| Field::new(format!("c{place}"), column.kind.arrow_type(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The properties of an operator whose rows come in one stream, in no order that is known.
pub(crate) fn plain_properties(schema: SchemaRef) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

/// What passes between a leaf's stream and whoever fills it.
#[derive(Debug, Default)]
struct Channel {
    batches: VecDeque<RecordBatch>,
    is_over: bool,
    /// The stream has been asked for a batch that was not there.
    wanted: Option<Waker>,
}

/// The relay's end of a leaf.
#[derive(Debug)]
pub(crate) struct Feed {
    channel: Arc<Mutex<Channel>>,
    run: LeafRun,
    rows: Rows,
    is_over: bool,
}

/// Rows that are being put together.
#[derive(Debug)]
struct Rows {
    /// What they must satisfy.
    sieve: Sieve,
    schema: SchemaRef,
    builders: Vec<Builder>,
    count: usize,
    /// A number did not fit its column.
    is_inexact: bool,
}

impl LeafSink for Rows {
    fn packed(&mut self, row: RowRef<'_>, columns: &[usize]) -> rubato_base::Result<bool> {
        if !self.sieve.passes(row, columns)? {
            return Ok(false);
        }
        for (builder, column) in self.builders.iter_mut().zip(columns) {
            taken(
                builder.push_encoded(row.encoded(*column)),
                builder,
                &mut self.is_inexact,
            )?;
        }
        self.count += 1;
        Ok(true)
    }

    fn values(&mut self, row: &[Value]) -> rubato_base::Result<bool> {
        if !self.sieve.passes_values(row) {
            return Ok(false);
        }
        for (builder, value) in self.builders.iter_mut().zip(row) {
            taken(builder.push(value), builder, &mut self.is_inexact)?;
        }
        self.count += 1;
        Ok(true)
    }
}

fn taken(
    outcome: std::result::Result<(), Refused>,
    builder: &mut Builder,
    is_inexact: &mut bool,
) -> rubato_base::Result<()> {
    match outcome {
        Ok(()) => Ok(()),
        Err(Refused::Failed(error)) => Err(error),
        Err(Refused::Inexact) => {
            builder.push_null();
            *is_inexact = true;
            Ok(())
        }
    }
}

impl Rows {
    fn finish(&mut self) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> = self.builders.iter_mut().map(Builder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        self.count = 0;
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            arrays,
            &options,
        )?)
    }
}

/// How filling a leaf went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// A batch, or the end, is there.
    Ready,
    /// The context's rows are spent.
    Paused,
    /// A number did not fit its column.
    Inexact,
}

impl Feed {
    /// Whether the stream waits for rows.
    pub(crate) fn is_wanted(&self) -> bool {
        self.channel.lock().wanted.is_some()
    }

    /// Reads rows until there is a batch of `batch_rows`.
    pub(crate) fn fill(&mut self, context: &mut ExecutionContext<'_>, batch_rows: usize) -> Outcome<Result<Fed>> {
        while !self.is_over && self.rows.count < batch_rows {
            if context.rows_left == 0 {
                return Ok(Ok(Fed::Paused));
            }
            let left = batch_rows - self.rows.count;
            self.is_over = self.run.read(context, left, &mut self.rows)?;
            if self.rows.is_inexact {
                return Ok(Ok(Fed::Inexact));
            }
        }
        let mut channel = self.channel.lock();
        if self.rows.count > 0 {
            match self.rows.finish() {
                Ok(batch) => channel.batches.push_back(batch),
                Err(error) => return Ok(Err(error)),
            }
        }
        channel.is_over = self.is_over;
        if let Some(waker) = channel.wanted.take() {
            waker.wake();
        }
        Ok(Ok(Fed::Ready))
    }
}

/// A leaf among DataFusion's operators.
#[derive(Debug)]
pub(crate) struct FeedExec {
    name: String,
    channel: Arc<Mutex<Channel>>,
    properties: Arc<PlanProperties>,
}

/// Both ends of a leaf with these columns, of the rows that pass the sieve.
pub(crate) fn leaf(
    run: LeafRun,
    name: String,
    (columns, sieve): (&[Column], Sieve),
    batch_rows: usize,
) -> (Feed, Arc<dyn ExecutionPlan>) {
    let schema = schema_of(columns);
    let channel = Arc::new(Mutex::new(Channel::default()));
    let builders = columns.iter().map(|column| Builder::new(column.kind, batch_rows));
    let feed = Feed {
        channel: Arc::clone(&channel),
        run,
        rows: Rows {
            sieve,
            schema: Arc::clone(&schema),
            builders: builders.collect(),
            count: 0,
            is_inexact: false,
        },
        is_over: false,
    };
    let exec = FeedExec {
        name,
        channel,
        properties: plain_properties(schema),
    };
    (feed, Arc::new(exec))
}

impl DisplayAs for FeedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Relay: {}", self.name)
    }
}

impl ExecutionPlan for FeedExec {
    fn name(&self) -> &str {
        "Relay"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
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

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(FeedStream {
            schema: self.schema(),
            channel: Arc::clone(&self.channel),
        }))
    }
}

struct FeedStream {
    schema: SchemaRef,
    channel: Arc<Mutex<Channel>>,
}

impl Stream for FeedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut channel = self.channel.lock();
        match channel.batches.pop_front() {
            Some(batch) => Poll::Ready(Some(Ok(batch))),
            None if channel.is_over => Poll::Ready(None),
            None => {
                channel.wanted = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl RecordBatchStream for FeedStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
