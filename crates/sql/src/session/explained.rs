//! EXPLAIN, and with ANALYZE the statement that it runs.

use super::running::Part;
use super::{Next, Session, SessionContext};
use crate::analytics::explained;
use crate::client::Responder;
use crate::executor::relaying::by_size;
use crate::executor::{Cursor, ExecutionContext, Progress};
use crate::explain::{Figures, StepFigures};
use crate::partition::Partition;
use crate::plan::{Plan, PlanBody};
use crate::statement::{Statement, Utility};
use rubato_base::{Error, TransactionId, Value};
use rubato_formula::ListSets;
use rubato_protocol::{Outcome, Stop};
use std::sync::Arc;

impl Session {
    /// EXPLAIN: the plan in words; with ANALYZE the statement runs first, its rows are thrown away, and its effects stay.
    pub(super) fn explain(
        &mut self,
        (analyze, json): (bool, bool),
        statement: &Statement,
        utility: &Arc<Utility>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        let current = self.current.as_ref();
        let mut parameters = current.map_or_else(|| Arc::from([]), |current| Arc::clone(&current.parameters));
        let executed;
        let statement = match statement {
            Statement::Utility(utility) => match &**utility {
                Utility::Execute { name, arguments } => {
                    (executed, parameters) = self.execute_arguments(name, arguments, partition, context)?;
                    &executed.statement
                }
                _ => statement,
            },
            _ => statement,
        };
        let Statement::Planned(plan) = statement else {
            let error = Error::unsupported("EXPLAIN of a statement that is not planned");
            return Err(Stop::Fail(error));
        };
        let plan = &self.in_order_of_sizes(plan, &parameters, partition, context);
        let has_begun = self.current.as_ref().is_some_and(|current| current.cursor.is_some());
        if analyze
            && !plan.read_only
            && !has_begun
            && let Some(next) = self.read_portals_ahead(partition, context)?
        {
            return Ok(next);
        }
        let figures = match analyze {
            true => match self.run_for_figures(plan, &parameters, partition, context)? {
                None => {
                    self.deadline_us = self.statement_deadline_us();
                    return Ok(Next::Yield);
                }
                figures => figures,
            },
            false => None,
        };
        let catalog = self.catalog(partition);
        let path = self.path_in(&catalog);
        let named = |text: String| path.named(text, &catalog);
        let mut lines = crate::explain::explain(plan, json, figures.as_ref(), &named);
        if !json {
            lines.extend(self.explain_way(plan, &parameters, partition, context));
        }
        if json {
            // One document is one value.
            lines = vec![lines.join("\n")];
        }
        let rows: Vec<Vec<Value>> = lines.iter().map(|line| vec![Value::text(line)]).collect();
        self.answer_rows(utility, &rows, responder);
        Ok(self.answered("EXPLAIN".into(), partition, responder))
    }

    /// Runs a slice of a statement for EXPLAIN ANALYZE. What has to wait, or lets others have their turn (`None`), goes on where it stood when
    /// it is called again.
    fn run_for_figures(
        &mut self,
        plan: &Arc<Plan>,
        parameters: &[Value],
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
    ) -> Outcome<Option<Figures>> {
        let outcome = self.run_explained(plan, parameters, partition, context);
        if let Err(Stop::Fail(_) | Stop::Abort(_)) = &outcome {
            let current = self.current.as_mut();
            if let Some(savepoint) = current.and_then(|current| current.savepoint.take()) {
                self.undo_to(&savepoint, partition);
            }
        }
        outcome
    }

    fn run_explained(
        &mut self,
        plan: &Arc<Plan>,
        parameters: &[Value],
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
    ) -> Outcome<Option<Figures>> {
        let lost = || Stop::Fail(Error::internal("a statement that is explained has lost its cursor"));
        let kept = self.current.as_mut().and_then(|current| current.cursor.take());
        let mut cursor = match kept {
            Some(cursor) => cursor,
            None => self.begin_explained(plan, partition, context)?,
        };
        let transaction = self.transaction.as_ref().ok_or_else(lost)?.id;
        let began_us = self.way.as_ref().map_or(context.now_us, |way| way.began_us);
        let catalog = self.catalog(partition);
        let part = Part {
            transaction,
            catalog: &catalog,
            parameters,
            times_us: (context.now_us, began_us),
            limits: context.limits,
            analytics: context.analytics,
        };
        let is_paused = |progress: &Progress| matches!(progress, Progress::Suspended);
        let outcome = self.run_slice(partition, part, context.clock_us, is_paused, |execution| {
            cursor.run(execution, usize::MAX, &mut |_| true)
        });
        let completion = match outcome {
            Ok(Progress::Complete(completion)) => completion,
            unfinished => {
                if let (Ok(_) | Err(Stop::Wait(_)), Some(current)) = (&unfinished, &mut self.current) {
                    current.cursor = Some(cursor);
                }
                return unfinished.map(|_| None);
            }
        };
        let now_us = (context.clock_us)();
        let time_us = (now_us - began_us).max(0) as u64;
        let steps = cursor.step_counters().into_iter().map(|step| StepFigures {
            loops: step.loops,
            rows_read: step.lookups,
            rows: step.rows,
            time_us,
        });
        let figures = Figures {
            steps: steps.collect(),
            placed: cursor.placed(),
            rows: completion.rows,
            time_us,
            way: self.recorded(partition, now_us),
        };
        Ok(Some(figures))
    }

    fn begin_explained(
        &mut self,
        plan: &Arc<Plan>,
        partition: &mut Partition,
        context: &mut SessionContext<'_>,
    ) -> Outcome<Box<Cursor>> {
        let transaction = self.ensure_transaction(partition, false, context.now_us)?;
        self.see_definitions(&plan.table_versions, partition)?;
        if !plan.read_only {
            self.note_written(&plan.table_versions, partition)?;
        }
        let catalog = self.catalog(partition);
        self.fetch_numbers(plan, &catalog, partition)?;
        let savepoint = self.begin_statement(transaction, partition);
        if let Some(current) = &mut self.current {
            current.savepoint = Some(savepoint);
        }
        self.record(partition, (context.clock_us)());
        Ok(Box::new(Cursor::new(Arc::clone(plan))))
    }

    /// The plan as it is run: tables that are joined from node to node are in the order that suits their sizes.
    fn in_order_of_sizes(
        &mut self,
        plan: &Arc<Plan>,
        parameters: &[Value],
        partition: &mut Partition,
        context: &SessionContext<'_>,
    ) -> Arc<Plan> {
        let PlanBody::Select(select) = &plan.body else {
            return Arc::clone(plan);
        };
        let other = self.looking(plan, parameters, partition, context, |execution| {
            by_size(select, execution)
        });
        other.map_or_else(
            || Arc::clone(plan),
            |select| Arc::new(plan.with_body(PlanBody::Select(*select))),
        )
    }

    /// Whether an engine runs a SELECT, why, and with which operators.
    fn explain_way(
        &mut self,
        plan: &Plan,
        parameters: &[Value],
        partition: &mut Partition,
        context: &SessionContext<'_>,
    ) -> Vec<String> {
        let PlanBody::Select(select) = &plan.body else {
            return Vec::new();
        };
        self.looking(plan, parameters, partition, context, |execution| {
            explained(select, execution).unwrap_or_default()
        })
    }

    /// Looks at a plan as it would be run, without a transaction. What cannot be known without parameters is not told.
    fn looking<T>(
        &mut self,
        plan: &Plan,
        parameters: &[Value],
        partition: &mut Partition,
        context: &SessionContext<'_>,
        look: impl FnOnce(&mut ExecutionContext<'_>) -> T,
    ) -> T {
        let catalog = self.catalog(partition);
        let part = Part {
            transaction: TransactionId(0),
            catalog: &catalog,
            parameters,
            times_us: (context.now_us, context.now_us),
            limits: context.limits,
            analytics: context.analytics,
        };
        self.run_part(partition, part, ExecutionContext::UNBOUNDED, |execution| {
            let asked = (&*plan.subqueries, [].as_slice());
            execution.with_known(&ListSets::default(), None, asked, look)
        })
    }
}
