//! INSERT.

use super::conflict::{Resolution, Resolver};
use super::keys::new_row_key;
use super::referential::Effects;
use super::rows::add_row;
use super::select::SelectRun;
use super::{BATCH_TUPLES, ExecutionContext, Held};
use crate::plan::{InsertPlan, InsertSource, Relation, SelectPlan};
use rubato_base::{Result, TableId, Value};
use rubato_formula::Expr;
use rubato_protocol::Outcome;

/// What a writing statement did.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Rows affected.
    pub(crate) count: u64,
    /// Rows found to be changed, before they were read to write.
    pub(crate) found: u64,
    /// Rows changed by blind formulas.
    pub(crate) blind: u64,
    /// Rows that had to be read to write although the plan is blind: what is pending could have left a limit.
    pub(crate) escalated: u64,
    /// Rows of RETURNING.
    pub(crate) rows: Vec<Vec<Value>>,
    held: Held,
}

impl Written {
    /// Counts a row and evaluates RETURNING over it.
    pub(crate) fn add<T: rubato_formula::Tuple + ?Sized>(
        &mut self,
        returning: Option<&Vec<Expr>>,
        row: &T,
        context: &ExecutionContext<'_>,
    ) -> Result<()> {
        self.count += 1;
        let Some(returning) = returning else { return Ok(()) };
        let values: Result<Vec<Value>> = returning
            .iter()
            .map(|expr| expr.evaluate(row, context.evaluation))
            .collect();
        let values = values?;
        self.held.add(&values, &context.limits)?;
        self.rows.push(values);
        Ok(())
    }
}

/// Runs the whole statement.
pub(crate) fn run_insert(plan: &InsertPlan, context: &mut ExecutionContext<'_>) -> Outcome<Written> {
    let mut insert = Insert {
        plan,
        written: Written::default(),
        effects: Effects::default(),
        resolver: plan
            .on_conflict
            .as_ref()
            .map(|on_conflict| Resolver::new(on_conflict, &plan.table)),
    };
    match &plan.source {
        InsertSource::Values(rows) => {
            for row in rows {
                let values = evaluate_row(row, &[], context)?;
                insert.row(values, context)?;
            }
        }
        InsertSource::Select(select, row) => insert.rows_of(select, row, context)?,
    }
    insert.effects.settle(context)?;
    Ok(insert.written)
}

fn evaluate_row(row: &[Expr], source: &[Value], context: &ExecutionContext<'_>) -> Result<Vec<Value>> {
    let mut values = Vec::with_capacity(row.len());
    for expr in row {
        values.push(expr.evaluate(source, context.evaluation)?);
    }
    Ok(values)
}

struct Insert<'a> {
    plan: &'a InsertPlan,
    written: Written,
    effects: Effects,
    resolver: Option<Resolver<'a>>,
}

impl Insert<'_> {
    fn row(&mut self, values: Vec<Value>, context: &mut ExecutionContext<'_>) -> Outcome<()> {
        let table = &self.plan.table;
        let returning = self.plan.returning.as_ref();
        let Some(resolver) = &mut self.resolver else {
            add_row(table, &values, &mut self.effects, context)?;
            self.written.add(returning, &values, context)?;
            return Ok(());
        };
        let key = new_row_key(table, values.as_slice(), context)?;
        match resolver.insert(table, &key, &values, &mut self.effects, context)? {
            Resolution::Inserted => self.written.add(returning, &values, context)?,
            Resolution::Updated(row) => self.written.add(returning, &row, context)?,
            Resolution::LeftOut => {}
        }
        Ok(())
    }

    fn rows_of(&mut self, select: &SelectPlan, row: &[Expr], context: &mut ExecutionContext<'_>) -> Outcome<()> {
        // The statement must not read what it has inserted itself.
        let batch_rows = if reads_table(select, self.plan.table.id) {
            usize::MAX
        } else {
            BATCH_TUPLES
        };
        let mut run = SelectRun::default();
        let mut complete = false;
        while !complete {
            let mut source: Vec<Vec<Value>> = Vec::new();
            let mut held = Held::default();
            let mut overrun = None;
            let limits = context.limits;
            complete = run.run(select, context, batch_rows, &mut |row| {
                overrun = held.add(row, &limits).err();
                source.push(row.to_vec());
                overrun.is_none()
            })?;
            if let Some(error) = overrun {
                return Err(error.into());
            }
            for tuple in source {
                let values = evaluate_row(row, &tuple, context)?;
                self.row(values, context)?;
            }
        }
        Ok(())
    }
}

fn reads_table(select: &SelectPlan, id: TableId) -> bool {
    select
        .steps
        .iter()
        .any(|step| matches!(&step.relation, Relation::Table(table) if table.id == id))
}
