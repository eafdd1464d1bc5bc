//! The leaves: batches that the relay fills between two polls.

use crate::gathering::JoinValues;
use crate::kinds::{Builder, Column, Refused};
use crate::segments::{Segments, Taken};
use crate::sieve::Sieve;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::TaskContext;
use datafusion_physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, RecordBatchStream, SendableRecordBatchStream,
};
use futures::Stream;
use parking_lot::Mutex;
use rubato_base::{Error, RowRef, Value};
use rubato_formula::Expr;
use rubato_sql::analytics::{Gathered, LeafRun, LeafSink, Outcome};
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
    columns: Vec<Column>,
    /// Where whole tables may be.
    segments: Arc<Segments>,
    /// What of the rows that were gathered passes; `None`: all.
    condition: Option<Arc<dyn PhysicalExpr>>,
    way: Way,
    /// Expressions over the leaf's columns, and the values of which each has one in every row that is of use; none once reading has begun.
    partners: Vec<(Expr, JoinValues)>,
    is_over: bool,
}

/// How the rows of a leaf come.
#[derive(Debug)]
enum Way {
    /// By segments, if that turns out to serve: those that were gathered so far.
    Gathering(Found),
    /// By segments, all of which were gathered, and the rows of them that have passed.
    Segments(Found, Box<BatchCoalescer>),
    /// By their keys.
    Rows,
}

/// What was gathered of a table.
#[derive(Debug, Default)]
struct Found {
    segments: Taken,
    /// Rows that were not kept: they have passed.
    loose: VecDeque<RecordBatch>,
}

/// Takes rows that are not kept, in batches.
struct Loose<'a> {
    rows: &'a mut Rows,
    batches: &'a mut VecDeque<RecordBatch>,
    batch_rows: usize,
}

impl LeafSink for Loose<'_> {
    fn packed(&mut self, row: RowRef<'_>, columns: &[usize]) -> rubato_base::Result<bool> {
        let was_taken = self.rows.packed(row, columns)?;
        if self.rows.count >= self.batch_rows {
            self.end()?;
        }
        Ok(was_taken)
    }

    fn values(&mut self, row: &[Value]) -> rubato_base::Result<bool> {
        self.rows.values(row)
    }
}

impl Loose<'_> {
    fn end(&mut self) -> rubato_base::Result<()> {
        let batch = self.rows.finish();
        self.batches
            .push_back(batch.map_err(|error| Error::internal(error.to_string()))?);
        Ok(())
    }
}

/// Rows of a batch that passes or does not, as one that is looked at: their condition is looked at in arrays.
const ROWS_LOOKED_AT_TOGETHER: usize = 16;

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
    /// Forgets the rows.
    fn clear(&mut self) {
        self.builders.iter_mut().for_each(|builder| drop(builder.finish()));
        (self.count, self.is_inexact) = (0, false);
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> = self.builders.iter_mut().map(Builder::finish).collect();
        batch(&self.schema, (arrays, std::mem::take(&mut self.count)))
    }
}

fn batch(schema: &SchemaRef, (arrays, rows): (Vec<ArrayRef>, usize)) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
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

    /// Makes a batch of `batch_rows` rows, of the last ones a smaller one.
    pub(crate) fn fill(&mut self, context: &mut ExecutionContext<'_>, batch_rows: usize) -> Outcome<Result<Fed>> {
        if matches!(self.way, Way::Gathering(_)) && !self.gather(context, batch_rows)? {
            return Ok(Ok(Fed::Paused));
        }
        match &self.way {
            Way::Segments(..) => Ok(self.pass(context)),
            _ => self.read(context, batch_rows),
        }
    }

    /// Gathers the segments of a table that the leaf is all of; `false`: the statement pauses.
    fn gather(&mut self, context: &mut ExecutionContext<'_>, batch_rows: usize) -> Outcome<bool> {
        let (Way::Gathering(found), Some((table, places))) = (&mut self.way, self.run.whole_table()) else {
            self.way = Way::Rows;
            return Ok(true);
        };
        let places = places.to_vec();
        let mut loose = Loose {
            rows: &mut self.rows,
            batches: &mut found.loose,
            batch_rows,
        };
        let wanted = (&places[..], &self.columns[..]);
        let mut gathering = self.segments.gathering(table, wanted, &mut found.segments, &mut loose);
        let outcome = self.run.gather(context, &mut gathering);
        drop(gathering);
        match outcome? {
            Gathered::Paused => return Ok(false),
            Gathered::Whole if !loose.rows.is_inexact => {
                loose.end()?;
                let passed = BatchCoalescer::new(Arc::clone(&self.rows.schema), batch_rows);
                self.way = Way::Segments(std::mem::take(found), Box::new(passed));
            }
            Gathered::Whole | Gathered::No => {
                self.rows.clear();
                self.run.begin_again();
                self.way = Way::Rows;
            }
        }
        Ok(true)
    }

    /// Gives the next batch of what was gathered. A row of it costs as much as one that was read: it is the operators' work by now.
    fn pass(&mut self, context: &mut ExecutionContext<'_>) -> Result<Fed> {
        let Way::Segments(gathered, passed) = &mut self.way else {
            return Ok(Fed::Ready);
        };
        if let Some(batch) = gathered.loose.pop_front() {
            context.spend_rows(batch.num_rows());
            self.is_over = gathered.loose.is_empty() && gathered.segments.is_empty();
            self.give(Some(batch));
            return Ok(Fed::Ready);
        }
        let gathered = &mut gathered.segments;
        let Some(condition) = &self.condition else {
            let batch = gathered.pop_front().map(|taken| batch(&self.rows.schema, taken));
            let batch = batch.transpose()?;
            context.spend_rows(batch.as_ref().map_or(0, RecordBatch::num_rows));
            self.is_over = gathered.is_empty();
            self.give(batch);
            return Ok(Fed::Ready);
        };
        while !passed.has_completed_batch() {
            if context.rows_left == 0 {
                return Ok(Fed::Paused);
            }
            let Some(taken) = gathered.pop_front() else {
                passed.finish_buffered_batch()?;
                break;
            };
            let batch = batch(&self.rows.schema, taken)?;
            context.spend_rows(batch.num_rows() / ROWS_LOOKED_AT_TOGETHER + 1);
            let truths = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
            let Some(truths) = truths.as_any().downcast_ref::<BooleanArray>() else {
                return Err(DataFusionError::Internal("a condition gives no truths".to_owned()));
            };
            passed.push_batch_with_filter(batch, truths)?;
        }
        let batch = passed.next_completed_batch();
        context.spend_rows(batch.as_ref().map_or(0, RecordBatch::num_rows));
        self.is_over = gathered.is_empty() && passed.is_empty();
        self.give(batch);
        Ok(Fed::Ready)
    }

    /// Tells the leaf's stream of a batch, and whether it was the last.
    fn give(&mut self, batch: Option<RecordBatch>) {
        let mut channel = self.channel.lock();
        channel.batches.extend(batch);
        channel.is_over = self.is_over;
        if let Some(waker) = channel.wanted.take() {
            waker.wake();
        }
    }

    /// Tells other nodes what rows must be equal to: a join asks for its second side when it has read the first.
    fn narrow(&mut self) {
        let partners = std::mem::take(&mut self.partners);
        let terms: Vec<Expr> = partners.iter().filter_map(|(own, values)| values.term(own)).collect();
        if !terms.is_empty() {
            self.run.narrow(&terms);
        }
    }

    /// Reads rows until there is a batch.
    fn read(&mut self, context: &mut ExecutionContext<'_>, batch_rows: usize) -> Outcome<Result<Fed>> {
        self.narrow();
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
        let batch = match self.rows.count {
            0 => None,
            _ => match self.rows.finish() {
                Ok(batch) => Some(batch),
                Err(error) => return Ok(Err(error)),
            },
        };
        self.give(batch);
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

/// A leaf to be made.
pub(crate) struct NewLeaf {
    pub(crate) run: LeafRun,
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// What passes, looked at in rows.
    pub(crate) sieve: Sieve,
    /// The same for arrays.
    pub(crate) condition: Option<Arc<dyn PhysicalExpr>>,
    /// Expressions over the columns, and the values of which each has one in every row that is of use.
    pub(crate) partners: Vec<(Expr, JoinValues)>,
    pub(crate) segments: Arc<Segments>,
}

/// Both ends of a leaf.
pub(crate) fn leaf(new: NewLeaf, batch_rows: usize) -> (Feed, Arc<dyn ExecutionPlan>) {
    let NewLeaf {
        run,
        name,
        columns,
        sieve,
        condition,
        partners,
        segments,
    } = new;
    let schema = schema_of(&columns);
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
        columns,
        segments,
        condition,
        way: Way::Gathering(Found::default()),
        partners,
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
