//! Statements that write within WITH. All of them, and what stands behind WITH, see what there was when the statement began: first each
//! finds out what it will do, in the order of the text, and tells its RETURNING to those behind it; then all of it is done.

use super::asking::AskedFirst;
use super::change::{JoinedChangeRun, Pass};
use super::insert::{InsertRun, Written};
use super::merge::MergeRun;
use super::recursive::Working;
use super::select::SelectRun;
use super::sizes::StorageSizes;
use super::{BATCH_TUPLES, ExecutionContext, Held};
use crate::far::waits_for_others;
use crate::plan::{PlanBody, Subqueries, WithPart, WithPlan};
use rubato_base::{Error, TableId, Value};
use rubato_formula::ListSets;
use rubato_protocol::Outcome;

/// Such a statement under way. It borrows nothing between two calls.
#[derive(Debug)]
pub(crate) struct WithRun {
    parts: Vec<PartRun>,
    /// How many parts have found out what they will do, and how many have done it.
    collected: usize,
    applied: usize,
    /// And of how many foreign keys were looked at: of all parts, when all are done.
    settled: usize,
    /// What RETURNING gave, by part.
    told: Vec<(usize, Vec<Vec<Value>>)>,
    written: Written,
}

#[derive(Debug)]
enum PartRun {
    Select(Box<SelectRun>, Held),
    Insert(Box<InsertRun>),
    Change(Box<JoinedChangeRun>),
    Merge(Box<MergeRun>),
}

/// What one execution of the statement knows by itself.
pub(super) struct Known<'a> {
    pub(super) asked: &'a mut AskedFirst,
    pub(super) subqueries: &'a Subqueries,
    pub(super) lists: &'a ListSets,
    pub(super) sizes: Option<&'a StorageSizes>,
}

impl WithRun {
    pub(crate) fn new(plan: &WithPlan) -> WithRun {
        WithRun {
            parts: (0..plan.parts.len())
                .map(|place| PartRun::new(&plan.parts, place))
                .collect(),
            collected: 0,
            applied: 0,
            settled: 0,
            told: Vec::new(),
            written: Written::default(),
        }
    }

    /// Goes on; false when the context's rows are spent before it has done everything.
    pub(super) fn run(
        &mut self,
        plan: &WithPlan,
        known: &mut Known<'_>,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        while let Some(part) = plan.parts.get(self.collected) {
            let WithRun {
                parts, told, written, ..
            } = self;
            let run = &mut parts[self.collected];
            let is_collected = with_told(told, context, &mut |context| {
                let asked = (known.subqueries, [].as_slice());
                let answered = context.with_known(known.lists, known.sizes, asked, |context| {
                    known.asked.ask(known.subqueries, &part.asked_first, context)
                })?;
                let asked = (known.subqueries, known.asked.answers());
                Ok(answered
                    && context.with_known(known.lists, known.sizes, asked, |context| {
                        run.run(&part.body, Pass::Collect, written, context)
                    })?)
            })?;
            if !is_collected {
                return Ok(false);
            }
            if let Some(number) = part.number {
                told.push((number, run.take_written(written).rows));
            }
            self.collected += 1;
        }
        while let Some(part) = plan.parts.get(self.applied) {
            let asked = (known.subqueries, known.asked.answers());
            let (run, written) = (&mut self.parts[self.applied], &mut self.written);
            let is_applied = context.with_known(known.lists, known.sizes, asked, |context| {
                run.run(&part.body, Pass::Apply, written, context)
            })?;
            if !is_applied {
                return Ok(false);
            }
            self.applied += 1;
        }
        while let Some(run) = self.parts.get_mut(self.settled) {
            let asked = (known.subqueries, known.asked.answers());
            if !context.with_known(known.lists, known.sizes, asked, |context| run.settle(context))? {
                return Ok(false);
            }
            self.settled += 1;
        }
        Ok(true)
    }

    /// What the statement behind WITH did.
    pub(crate) fn take_written(&mut self) -> Written {
        let written = &mut self.written;
        match self.parts.last_mut() {
            Some(main) => main.take_written(written),
            None => std::mem::take(written),
        }
    }
}

/// Does `work` where names of WITH stand for what was told.
fn with_told(
    told: &[(usize, Vec<Vec<Value>>)],
    context: &mut ExecutionContext<'_>,
    work: &mut dyn FnMut(&mut ExecutionContext<'_>) -> Outcome<bool>,
) -> Outcome<bool> {
    match told.split_first() {
        None => work(context),
        Some(((number, rows), rest)) => {
            let working = Working::new(*number, rows, context.working);
            context.with_working(&working, |context| with_told(rest, context, work))
        }
    }
}

/// The table whose rows a part writes.
fn table_written(body: &PlanBody) -> Option<TableId> {
    match body {
        PlanBody::Insert(insert) => Some(insert.table.id),
        PlanBody::Change(change) => Some(change.table.id),
        PlanBody::Merge(merge) => Some(merge.table.id),
        PlanBody::Select(_) | PlanBody::Update(_) | PlanBody::Delete(_) | PlanBody::With(_) => None,
    }
}

impl PartRun {
    fn new(parts: &[WithPart], place: usize) -> PartRun {
        let part = &parts[place];
        match &part.body {
            PlanBody::Insert(insert) => {
                let tells_last = part.number.is_none() || insert.returning.is_none();
                let is_of_another = |(other, part): (usize, &WithPart)| {
                    other != place && table_written(&part.body) == Some(insert.table.id)
                };
                // Rows go with those that they refer to, whoever deletes these.
                let is_alone = insert.table.foreign_keys.is_empty() && !parts.iter().enumerate().any(is_of_another);
                PartRun::Insert(Box::new(InsertRun::within(insert, tells_last, is_alone)))
            }
            PlanBody::Merge(_) => PartRun::Merge(Box::default()),
            PlanBody::Change(_) => PartRun::Change(Box::default()),
            PlanBody::Select(_) | PlanBody::Update(_) | PlanBody::Delete(_) | PlanBody::With(_) => {
                PartRun::Select(Box::default(), Held::default())
            }
        }
    }

    fn run(
        &mut self,
        body: &PlanBody,
        pass: Pass,
        written: &mut Written,
        context: &mut ExecutionContext<'_>,
    ) -> Outcome<bool> {
        match (self, body) {
            (PartRun::Insert(run), PlanBody::Insert(plan)) => run.run(plan, pass, context),
            (PartRun::Change(run), PlanBody::Change(plan)) => run.run(plan, pass, context),
            (PartRun::Merge(run), PlanBody::Merge(plan)) => run.run(plan, pass, context),
            (PartRun::Select(..), PlanBody::Select(_)) if pass == Pass::Apply => Ok(true),
            (PartRun::Select(run, held), PlanBody::Select(plan)) => {
                let limits = context.limits;
                loop {
                    let mut failure: Option<Error> = None;
                    let outcome = run.run(plan, context, BATCH_TUPLES, &mut |row| {
                        failure = held.add(row, &limits).err();
                        written.rows.push(row.to_vec());
                        failure.is_none()
                    });
                    if outcome.as_ref().is_err_and(|stop| !waits_for_others(stop)) {
                        // If it has to wait for a transaction of this node, it begins again.
                        (**run, *held) = (SelectRun::default(), Held::default());
                        written.rows.clear();
                    }
                    let is_over = outcome?;
                    if let Some(error) = failure {
                        return Err(error.into());
                    }
                    if is_over || context.is_spent() {
                        return Ok(is_over);
                    }
                }
            }
            _ => Err(Error::internal("a part of WITH that cannot be run").into()),
        }
    }

    fn settle(&mut self, context: &mut ExecutionContext<'_>) -> Outcome<bool> {
        match self {
            PartRun::Select(..) => Ok(true),
            PartRun::Insert(run) => run.settle(context),
            PartRun::Change(run) => run.settle(context),
            PartRun::Merge(run) => run.settle(context),
        }
    }

    /// What it did; `selected` is what a query gave.
    fn take_written(&mut self, selected: &mut Written) -> Written {
        match self {
            PartRun::Select(..) => {
                let mut written = std::mem::take(selected);
                written.count = written.rows.len() as u64;
                written
            }
            PartRun::Insert(run) => run.take_written(),
            PartRun::Change(run) => run.take_written(),
            PartRun::Merge(run) => run.take_written(),
        }
    }
}
