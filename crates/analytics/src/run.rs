//! Running a tree: the stream of its last operator is polled by hand, and where it waits for a leaf, the relay reads.
//!
//! No thread and no timer belongs to it. Between two polls the statement can pause, be cancelled, or fail, and whoever holds it does so
//! no longer than one poll or one slice of reading takes.

use crate::failure::{Failure, carried, failure};
use crate::feed::{Fed, Feed};
use crate::given::Given;
use crate::kinds::{Column, View};
use crate::node::Surroundings;
use crate::plan::{Planner, refusal};
use crate::segments::Segments;
use arrow::array::RecordBatch;
use datafusion_common::Result as DataFusionResult;
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion_execution::memory_pool::GreedyMemoryPool;
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_physical_plan::SendableRecordBatchStream;
use datafusion_physical_plan::display::DisplayableExecutionPlan;
use rubato_base::{Error, Result, SqlState, Value};
use rubato_sql::analytics::{Outcome, Run, Setting, Stop, Tree};
use rubato_sql::executor::ExecutionContext;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Rows of a batch: large enough that what a batch costs by itself does not matter, small enough that a poll is short.
pub(crate) const BATCH_ROWS: usize = 4096;

/// A tree that is being run.
pub(crate) struct TreeRun {
    tree: Tree,
    setting: Setting,
    segments: Arc<Segments>,
    batch_rows: usize,
    streaming: Streaming,
    given: Given,
    is_over: bool,
}

/// The operators under way.
struct Streaming {
    stream: SendableRecordBatchStream,
    feeds: Vec<Feed>,
    columns: Vec<Column>,
    /// Rows that are being given, and which comes next.
    batch: Option<(RecordBatch, usize)>,
    row: Vec<Value>,
}

impl fmt::Debug for TreeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeRun")
            .field("tree", &self.tree)
            .finish_non_exhaustive()
    }
}

impl TreeRun {
    /// In front of the first row. 0A000 for what there is no operator for.
    pub(crate) fn new(tree: Tree, setting: Setting, segments: Arc<Segments>, batch_rows: usize) -> Result<TreeRun> {
        let streaming = Streaming::new(&tree, &setting, &segments, (batch_rows, true))?;
        Ok(TreeRun {
            tree,
            setting,
            segments,
            batch_rows,
            streaming,
            given: Given::default(),
            is_over: false,
        })
    }

    /// Starts again with numbers in a form that holds all of them. What was given is passed over.
    fn restart(&mut self) -> Result<()> {
        if !self.given.start_again() {
            return Err(too_late());
        }
        self.streaming = Streaming::new(&self.tree, &self.setting, &self.segments, (self.batch_rows, false))?;
        Ok(())
    }

    fn fail(&mut self, error: &datafusion_common::DataFusionError) -> Result<()> {
        match failure(error, &self.setting.limits) {
            Failure::Inexact => self.restart(),
            Failure::Error(error) => Err(error),
        }
    }
}

/// Too many rows have been given, or what is computed anew each time, which cannot be taken back.
fn too_late() -> Error {
    Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "a numeric that is NaN or too long for its column was found after rows had been given",
    )
    .with_hint("SET rubato.analytics = off and run the statement again.")
}

impl Streaming {
    fn new(
        tree: &Tree,
        setting: &Setting,
        segments: &Arc<Segments>,
        (batch_rows, decimals): (usize, bool),
    ) -> Result<Streaming> {
        let around = Arc::new(surroundings(setting, decimals));
        let mut planner = Planner {
            around: &around,
            batch_rows,
            segments,
            feeds: Vec::new(),
            gathered: Default::default(),
        };
        let planned = planner.plan(tree).map_err(refusal)?;
        let context = task_context(setting, batch_rows).map_err(refusal)?;
        let stream = planned.exec.execute(0, context).map_err(refusal)?;
        Ok(Streaming {
            stream,
            feeds: planner.feeds,
            columns: planned.columns,
            batch: None,
            row: Vec::new(),
        })
    }

    /// Gives rows of the batch at hand, at most `max_rows`: how many, and whether the sink wants a pause.
    fn give(
        &mut self,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        taker: &mut Given,
        sink: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Result<(usize, bool)> {
        let Some((batch, next)) = &mut self.batch else {
            return Ok((0, false));
        };
        let views = batch.columns().iter().zip(&self.columns);
        let views = views.map(|(array, column)| View::new(array, *column));
        let views = views.collect::<Result<Vec<_>>>()?;
        let mut given = 0;
        let mut pauses = false;
        while *next < batch.num_rows() && given < max_rows && context.rows_left > 0 && !pauses {
            self.row.clear();
            for view in &views {
                self.row.push(view.value(*next)?);
            }
            *next += 1;
            context.spend_rows(1);
            if taker.takes(&self.row) {
                given += 1;
                pauses = !sink(&self.row);
            }
        }
        let is_done = *next >= batch.num_rows();
        drop(views);
        if is_done {
            self.batch = None;
        }
        Ok((given, pauses))
    }
}

fn surroundings(setting: &Setting, decimals: bool) -> Surroundings {
    Surroundings {
        text: setting.text.clone(),
        statement_time_us: setting.statement_time_us,
        decimals,
    }
}

fn task_context(setting: &Setting, batch_rows: usize) -> DataFusionResult<Arc<TaskContext>> {
    let config = SessionConfig::new()
        .with_batch_size(batch_rows)
        .with_target_partitions(1);
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(setting.limits.bytes_max)))
        .with_disk_manager_builder(disk)
        .build_arc()?;
    let context = TaskContext::default().with_session_config(config).with_runtime(runtime);
    Ok(Arc::new(context))
}

/// The operators of a tree in words, one a line.
pub(crate) fn words(tree: &Tree, setting: &Setting) -> Result<Vec<String>> {
    let around = Arc::new(surroundings(setting, true));
    let mut planner = Planner {
        around: &around,
        batch_rows: 1,
        segments: &Arc::new(Segments::new(0)),
        feeds: Vec::new(),
        gathered: Default::default(),
    };
    let planned = planner.plan(tree).map_err(refusal)?;
    let text = DisplayableExecutionPlan::new(&*planned.exec).indent(false).to_string();
    Ok(text.lines().map(str::to_owned).collect())
}

impl Run for TreeRun {
    fn run(
        &mut self,
        context: &mut ExecutionContext<'_>,
        max_rows: usize,
        sink: &mut dyn FnMut(&[Value]) -> bool,
    ) -> Outcome<bool> {
        let mut left = max_rows;
        loop {
            let (given, pauses) = self.streaming.give(context, left, &mut self.given, sink)?;
            left -= given;
            if self.is_over && self.streaming.batch.is_none() {
                if !self.given.is_complete() {
                    return Err(too_late().into());
                }
                // As PostgreSQL: who has been given the last row that was asked for learns of the end when he asks again.
                return Ok(left > 0);
            }
            if pauses || left == 0 || context.rows_left == 0 {
                return Ok(false);
            }
            match self
                .streaming
                .stream
                .as_mut()
                .poll_next(&mut Context::from_waker(Waker::noop()))
            {
                Poll::Ready(Some(Ok(batch))) => self.streaming.batch = Some((batch, 0)),
                Poll::Ready(Some(Err(error))) => self.fail(&error)?,
                Poll::Ready(None) => self.is_over = true,
                Poll::Pending => match self.feed(context) {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    // It is met again when nothing is given before it.
                    Err(Stop::Wait(_)) if left < max_rows => return Ok(false),
                    Err(stop) => return Err(stop),
                },
            }
        }
    }
}

impl TreeRun {
    /// Fills the leaves that are waited for; `false` if the statement pauses.
    fn feed(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        let batch_rows = self.batch_rows;
        let Some(feed) = self.streaming.feeds.iter_mut().find(|feed| feed.is_wanted()) else {
            // An operator has long work of its own, and lets others have their turn.
            return Ok(context.rows_left == ExecutionContext::UNBOUNDED);
        };
        match feed.fill(context, batch_rows)? {
            Ok(Fed::Ready) => Ok(true),
            Ok(Fed::Paused) => Ok(false),
            Ok(Fed::Inexact) => {
                self.restart()?;
                Ok(true)
            }
            Err(error) => {
                self.fail(&carried_within(error))?;
                Ok(true)
            }
        }
    }
}

fn carried_within(error: datafusion_common::DataFusionError) -> datafusion_common::DataFusionError {
    match error {
        datafusion_common::DataFusionError::External(_) => error,
        other => carried(Error::internal(other.to_string())),
    }
}
