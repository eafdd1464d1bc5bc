//! Windows: rows sorted by partition and order, each with one more column for every call.
//!
//! Rows are kept until their partition has come to its end. What is computed of it is computed row by row, so many at a time
//! that a poll stays short.

use crate::failure::carried;
use crate::feed::{plain_properties, schema_of};
use crate::frames::{Call, Partition};
use crate::kinds::{Builder, Column, View};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::TaskContext;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, RecordBatchStream, SendableRecordBatchStream,
};
use futures::Stream;
use rubato_base::{Key, KeyWriter, Value};
use rubato_sql::window::{RangeColumns, WindowCall};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Steps (a row, or a value given to an aggregate) after which a poll ends.
const STEPS_MAX: usize = 4096;

/// Calls over one partitioning and order.
#[derive(Debug)]
pub(crate) struct WindowExec {
    input: Arc<dyn ExecutionPlan>,
    columns: Vec<Column>,
    results: Vec<Column>,
    calls: Vec<WindowCall>,
    properties: Arc<PlanProperties>,
}

impl WindowExec {
    /// `input` is sorted by the partition and the order of the calls, which all have the same.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        columns: Vec<Column>,
        results: Vec<Column>,
        calls: Vec<WindowCall>,
    ) -> WindowExec {
        let all: Vec<Column> = columns.iter().chain(&results).copied().collect();
        WindowExec {
            input,
            columns,
            results,
            calls,
            properties: plain_properties(schema_of(&all)),
        }
    }
}

impl DisplayAs for WindowExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.calls.iter().map(|call| format!("{:?}", call.function)).collect();
        write!(f, "WindowExec: {}", names.join(", "))
    }
}

impl ExecutionPlan for WindowExec {
    fn name(&self) -> &str {
        "WindowExec"
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

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return Ok(self) };
        let (columns, results) = (self.columns.clone(), self.results.clone());
        Ok(Arc::new(WindowExec::new(input, columns, results, self.calls.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("WindowExec").register(context.memory_pool());
        Ok(Box::pin(WindowStream {
            input: self.input.execute(partition, context)?,
            schema: self.schema(),
            columns: self.columns.clone(),
            results: self.results.clone(),
            calls: self.calls.clone(),
            kept: Vec::new(),
            last_key: None,
            memory,
            work: None,
            is_over: false,
        }))
    }
}

struct WindowStream {
    input: SendableRecordBatchStream,
    schema: SchemaRef,
    columns: Vec<Column>,
    results: Vec<Column>,
    calls: Vec<WindowCall>,
    /// Rows whose partition may go on.
    kept: Vec<RecordBatch>,
    /// The partition of the last row.
    last_key: Option<Key>,
    memory: MemoryReservation,
    work: Option<Work>,
    is_over: bool,
}

/// Whole partitions whose columns are being computed.
struct Work {
    batch: RecordBatch,
    /// Where each partition ends.
    ends: Vec<usize>,
    /// The partition and call under way.
    partition: usize,
    call: usize,
    running: Option<Call>,
    builders: Vec<Builder>,
    /// Sort values and arguments of each call, by row.
    inputs: Vec<Vec<Vec<Value>>>,
    peers: Vec<usize>,
}

impl WindowStream {
    /// The key of each row's partition.
    fn partition_keys(&self, batch: &RecordBatch) -> rubato_base::Result<Vec<Key>> {
        let partition = self.calls.first().map_or(&[][..], |call| &call.partition);
        let views = partition
            .iter()
            .map(|place| View::new(batch.column(*place), self.columns[*place]));
        let views = views.collect::<rubato_base::Result<Vec<_>>>()?;
        let key = |row: usize| {
            let mut writer = KeyWriter::default();
            for view in &views {
                writer.push(&view.value(row)?);
            }
            Ok(writer.finish())
        };
        (0..batch.num_rows()).map(key).collect()
    }

    /// Takes rows in: what they say to be whole partitions becomes work.
    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        let keys = self.partition_keys(&batch).map_err(carried)?;
        let kept_rows: usize = self.kept.iter().map(RecordBatch::num_rows).sum();
        let mut ends = Vec::new();
        for (row, key) in keys.into_iter().enumerate() {
            if self.last_key.as_ref().is_some_and(|last| *last != key) {
                ends.push(kept_rows + row);
            }
            self.last_key = Some(key);
        }
        self.memory.try_grow(batch.get_array_memory_size())?;
        self.kept.push(batch);
        let Some(end) = ends.last().copied() else {
            return Ok(());
        };
        let all = concat_batches(&self.kept[0].schema(), &self.kept)?;
        let rest = all.slice(end, all.num_rows() - end);
        self.kept = vec![rest];
        self.begin(all.slice(0, end), ends)
    }

    fn begin(&mut self, batch: RecordBatch, ends: Vec<usize>) -> Result<()> {
        let builders = self
            .results
            .iter()
            .map(|result| Builder::new(result.kind, batch.num_rows()));
        let inputs = self.calls.iter().map(|call| self.inputs(&batch, call));
        let inputs = inputs.collect::<rubato_base::Result<Vec<_>>>().map_err(carried)?;
        self.work = Some(Work {
            builders: builders.collect(),
            inputs,
            peers: self.peers(&batch, &ends).map_err(carried)?,
            batch,
            ends,
            partition: 0,
            call: 0,
            running: None,
        });
        Ok(())
    }

    /// Arguments of a call by row, behind them whether its FILTER lets the row through, and the columns of its RANGE.
    fn inputs(&self, batch: &RecordBatch, call: &WindowCall) -> rubato_base::Result<Vec<Vec<Value>>> {
        let range = call.range.iter().flat_map(RangeColumns::columns);
        let places = call.arguments.iter().chain(&call.filter).chain(range);
        let views = places.map(|place| View::new(batch.column(*place), self.columns[*place]));
        let views = views.collect::<rubato_base::Result<Vec<_>>>()?;
        let row = |row: usize| views.iter().map(|view| view.value(row)).collect();
        (0..batch.num_rows()).map(row).collect()
    }

    /// For each row, where the group of its peers begins.
    fn peers(&self, batch: &RecordBatch, ends: &[usize]) -> rubato_base::Result<Vec<usize>> {
        let order = self.calls.first().map_or(&[][..], |call| &call.order);
        let views = order
            .iter()
            .map(|key| View::new(batch.column(key.column), self.columns[key.column]));
        let views = views.collect::<rubato_base::Result<Vec<_>>>()?;
        let mut peers = Vec::with_capacity(batch.num_rows());
        let mut before: Vec<Value> = Vec::new();
        let mut begin = 0;
        for row in 0..batch.num_rows() {
            let values = views.iter().map(|view| view.value(row));
            let values = values.collect::<rubato_base::Result<Vec<Value>>>()?;
            if row == 0 || ends.binary_search(&row).is_ok() || values != before {
                begin = row;
            }
            peers.push(begin);
            before = values;
        }
        Ok(peers)
    }

    /// Computes on: the rows with their new columns when all is done.
    fn work_on(&mut self) -> Result<Option<RecordBatch>> {
        let Some(work) = &mut self.work else { return Ok(None) };
        let mut steps = STEPS_MAX;
        while work.partition < work.ends.len() && steps > 0 {
            let from = match work.partition.checked_sub(1) {
                Some(before) => work.ends[before],
                None => 0,
            };
            let partition = Partition {
                rows: from..work.ends[work.partition],
                peers: &work.peers,
                inputs: &work.inputs[work.call],
            };
            let call = &self.calls[work.call];
            let running = match &mut work.running {
                Some(running) => running,
                None => work.running.insert(Call::new(call, from).map_err(carried)?),
            };
            let builder = &mut work.builders[work.call];
            while running.row() < partition.rows.end && steps > 0 {
                let (value, took) = running.next(call, &partition).map_err(carried)?;
                steps = steps.saturating_sub(took + 1);
                builder.push(&value)?;
            }
            if running.row() < partition.rows.end {
                break;
            }
            work.running = None;
            work.call += 1;
            if work.call == self.calls.len() {
                work.call = 0;
                work.partition += 1;
            }
        }
        if work.partition < work.ends.len() {
            return Ok(None);
        }
        let Some(mut work) = self.work.take() else {
            return Ok(None);
        };
        let mut arrays: Vec<ArrayRef> = work.batch.columns().to_vec();
        arrays.extend(work.builders.iter_mut().map(Builder::finish));
        let kept: usize = self.kept.iter().map(RecordBatch::get_array_memory_size).sum();
        self.memory.resize(kept);
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?))
    }
}

impl Stream for WindowStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.work.is_some() {
                return match self.work_on() {
                    Ok(Some(batch)) => Poll::Ready(Some(Ok(batch))),
                    Ok(None) => {
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }
                    Err(error) => Poll::Ready(Some(Err(error))),
                };
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            let outcome = match self.input.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(batch))) => self.take(batch),
                Poll::Ready(Some(Err(error))) => Err(error),
                Poll::Ready(None) => {
                    self.is_over = true;
                    let kept = std::mem::take(&mut self.kept);
                    let rows: usize = kept.iter().map(RecordBatch::num_rows).sum();
                    match kept.first().filter(|_| rows > 0) {
                        Some(first) => match concat_batches(&first.schema(), &kept) {
                            Ok(all) => self.begin(all, vec![rows]),
                            Err(error) => Err(error.into()),
                        },
                        None => Ok(()),
                    }
                }
            };
            if let Err(error) = outcome {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl RecordBatchStream for WindowStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
