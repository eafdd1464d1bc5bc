//! The stages of each kind of plan.

use super::show::show_expr;
use super::{Figures, Node, StepFigures, escrow};
use crate::catalog::Table;
use crate::deparse::shown_in_message;
use crate::plan::{
    Access, AggregateCall, AggregatePlan, Alternative, Bounds, ChangePlan, ConflictAction, DeletePlan, InsertPlan,
    InsertSource, JoinKind, KeyPart, LockWait, MergeAction, MergePlan, Plan, PlanBody, QueryPlan, RangesAccess,
    Relation, RowChange, SelectPlan, SetOperation, Step, UpdatePlan,
};
use rubato_formula::{AggregateKind, Expr};

/// Keys shown of a list of keys.
const KEYS_SHOWN_MAX: usize = 4;

pub(super) fn nodes(plan: &Plan, figures: Option<&Figures>) -> Vec<Node> {
    let steps: &[StepFigures] = figures.map_or(&[], |figures| &figures.steps);
    let mut nodes = body_nodes(&plan.body, steps, figures.and_then(|figures| figures.placed));
    let queries = plan.subqueries.queries.iter().enumerate();
    nodes.extend(queries.map(|(number, query)| {
        let when = if plan.subqueries.asked_first.contains(&number) {
            "asked before"
        } else {
            "asked for each tuple"
        };
        let mut node = node("query", format!("Query {}, {when}", number + 1));
        add_query(&mut node, &query.plan);
        node
    }));
    nodes
}

fn body_nodes(body: &PlanBody, steps: &[StepFigures], placed: Option<(u64, u64)>) -> Vec<Node> {
    match body {
        PlanBody::Select(select) => select_nodes(select, steps),
        PlanBody::Insert(insert) => insert_nodes(insert, steps),
        PlanBody::Update(update) => update_nodes(update, steps, placed),
        PlanBody::Delete(delete) => delete_nodes(delete, steps),
        PlanBody::Change(change) => change_nodes(change, steps),
        PlanBody::Merge(merge) => merge_nodes(merge, steps),
        PlanBody::With(with) => with
            .parts
            .iter()
            .flat_map(|part| body_nodes(&part.body, &[], None))
            .collect(),
    }
}

/// What MERGE does with a row.
fn merge_nodes(merge: &MergePlan, figures: &[StepFigures]) -> Vec<Node> {
    let mut nodes = select_nodes(&merge.source, figures);
    let actions: Vec<&str> = merge
        .clauses
        .iter()
        .map(|clause| match clause.action {
            MergeAction::Insert(_) => "inserts",
            MergeAction::Update(_) => "updates",
            MergeAction::Delete => "deletes",
            MergeAction::Nothing => "does nothing",
        })
        .collect();
    let title = format!(
        "Update stage on {}: {} for each row found",
        merge.table.name,
        actions.join(" or ")
    );
    nodes.push(node("update", title));
    nodes
}

fn change_nodes(change: &ChangePlan, figures: &[StepFigures]) -> Vec<Node> {
    let mut nodes = select_nodes(&change.source, figures);
    let title = match &change.change {
        RowChange::Delete => format!("Update stage on {}: deletes each row found", change.table.name),
        RowChange::Update(columns) => {
            let columns: Vec<String> = columns
                .iter()
                .map(|column| table_column(&change.table, *column))
                .collect();
            format!(
                "Update stage on {}: sets {} of each row found",
                change.table.name,
                columns.join(", ")
            )
        }
    };
    nodes.push(node("update", title));
    nodes
}

/// Adds what a query within does.
fn add_query(node: &mut Node, query: &QueryPlan) {
    query.for_each_select(&mut |select| {
        for inner in select_nodes(select, &[]) {
            node.details.push(("stage", inner.title));
            node.details.extend(inner.details);
        }
    });
}

fn node(stage: &'static str, title: String) -> Node {
    Node {
        stage,
        title,
        details: Vec::new(),
        figures: None,
    }
}

impl Node {
    fn detail(mut self, key: &'static str, value: Option<String>) -> Node {
        self.details.extend(value.map(|value| (key, value)));
        self
    }
}

/// The names of the tuple's slots.
fn slot_names(steps: &[Step]) -> Vec<String> {
    let mut names = Vec::new();
    for step in steps {
        for column in &step.columns {
            let own = column_name(&step.relation, *column);
            names.push(if steps.len() > 1 {
                format!("{}.{own}", step.alias)
            } else {
                own
            });
        }
    }
    names
}

fn column_name(relation: &Relation, column: usize) -> String {
    match relation {
        Relation::Table(table) => table_column(table, column),
        Relation::System(name) => {
            let (schema, short) = name.split_once('.').unwrap_or(("pg_catalog", name));
            let found = crate::system_tables::find(Some(schema), short).and_then(|table| table.columns.get(column));
            found.map_or_else(|| format!("column{}", column + 1), |column| column.name.to_owned())
        }
        Relation::Values(_) => format!("column{}", column + 1),
        Relation::Functions(functions) if functions.calls.len() == 1 && column == 0 => functions.names(),
        Relation::Functions(_)
        | Relation::Query(_)
        | Relation::Lateral { .. }
        | Relation::Computed(_)
        | Relation::Working(..) => {
            format!("column{}", column + 1)
        }
    }
}

fn table_column(table: &Table, column: usize) -> String {
    table
        .columns
        .get(column)
        .map_or_else(|| shown_in_message(table, column), |column| column.name.clone())
}

fn namer(names: &[String]) -> impl Fn(usize) -> String {
    |slot| names.get(slot).cloned().unwrap_or_else(|| format!("slot{slot}"))
}

fn select_nodes(select: &SelectPlan, figures: &[StepFigures]) -> Vec<Node> {
    let names = slot_names(&select.steps);
    let name = namer(&names);
    let mut nodes = Vec::new();
    for (index, step) in select.steps.iter().enumerate() {
        let locked = select
            .lock
            .as_ref()
            .filter(|lock| lock.steps.contains(&index))
            .map(|lock| match lock.wait {
                LockWait::Queue => "queued for update".to_owned(),
                LockWait::NoWait => "for update, not waiting".to_owned(),
                LockWait::SkipLocked => "for update, leaving out rows in use".to_owned(),
            });
        let (stage, word) = match (index, step.join) {
            (0, _) => ("query", "Query stage"),
            (_, JoinKind::Inner) => ("join", "Join stage"),
            (_, JoinKind::Left) => ("join", "Join stage (left)"),
        };
        let mut node = node(
            stage,
            format!("{word} on {} {}", relation_name(step), access_text(step, &name)),
        )
        .detail(
            "filter",
            step.condition.as_ref().map(|condition| show_expr(condition, &name)),
        )
        .detail(
            "filter after",
            step.filter_after.as_ref().map(|condition| show_expr(condition, &name)),
        )
        .detail("lock", locked);
        match &step.relation {
            Relation::Query(query) | Relation::Lateral { query, .. } => add_query(&mut node, query),
            Relation::Computed(expressions) => {
                let shown = expressions.iter().map(|expr| ("value", show_expr(expr, &name)));
                node.details.extend(shown);
            }
            _ => {}
        }
        node.figures = figures.get(index).copied();
        nodes.push(node);
    }
    if nodes.is_empty() {
        let filter = select.filter.as_ref().map(|filter| show_expr(filter, &name));
        nodes.push(node("query", "Query stage: one row without a table".to_owned()).detail("filter", filter));
    }
    let work = aggregation_text(select, &name);
    if !work.is_empty() {
        let title = format!("Aggregation stage: {}", work.join(", "));
        let having = select.aggregate.as_ref().and_then(|aggregate| {
            let names = group_names(aggregate, &name);
            aggregate
                .having
                .as_ref()
                .map(|having| show_expr(having, &namer(&names)))
        });
        let enough = select
            .input_limit
            .map(|limit| format!("the first {limit} of its input decides"));
        nodes.push(
            node("aggregation", title)
                .detail("having", having)
                .detail("input", enough),
        );
    }
    nodes
}

/// What a query in FROM does, in short.
fn query_name(plan: &QueryPlan) -> String {
    match plan {
        QueryPlan::Select(_) => "the rows of a query".to_owned(),
        QueryPlan::Recursive(_) => "the rows of a recursive query".to_owned(),
        QueryPlan::FullJoin(_) => "the rows of a FULL JOIN".to_owned(),
        QueryPlan::Window(_) => "the rows of a query with windows".to_owned(),
        QueryPlan::Set(set) => {
            let operation = match set.operation {
                SetOperation::Union => "UNION",
                SetOperation::Intersect => "INTERSECT",
                SetOperation::Except => "EXCEPT",
            };
            format!("the rows of {operation}{}", if set.all { " ALL" } else { "" })
        }
    }
}

/// How the rows of a SELECT's first relation are reached, in words.
pub fn relation_title(select: &SelectPlan) -> String {
    let names = slot_names(&select.steps);
    let title = |step: &Step| format!("{} {}", relation_name(step), access_text(step, &namer(&names)));
    select.steps.first().map_or_else(String::new, title)
}

fn relation_name(step: &Step) -> String {
    let own = match &step.relation {
        Relation::Table(table) => table.name.clone(),
        Relation::System(name) => name.clone(),
        Relation::Working(..) => "the rows of the last turn".to_owned(),
        Relation::Values(rows) => format!("{} given rows", rows.len()),
        Relation::Functions(functions) => functions.names(),
        Relation::Query(plan) => query_name(plan),
        Relation::Lateral { query, .. } => format!("{}, for each tuple", query_name(query)),
        Relation::Computed(_) => "computed values".to_owned(),
    };
    if own == step.alias || own.ends_with(&format!(".{}", step.alias)) || step.alias.starts_with('*') {
        own
    } else {
        format!("{own} {}", step.alias)
    }
}

fn access_text(step: &Step, name: &dyn Fn(usize) -> String) -> String {
    match &step.relation {
        Relation::Table(table) => way_text(table, &step.access, name),
        _ => "in order".to_owned(),
    }
}

fn way_text(table: &Table, access: &Access, name: &dyn Fn(usize) -> String) -> String {
    let key_terms = |columns: &[usize], values: &[Expr]| {
        let term =
            |(column, value): (&usize, &Expr)| format!("{} = {}", table_column(table, *column), show_expr(value, name));
        columns.iter().zip(values).map(term).collect::<Vec<_>>()
    };
    match access {
        Access::Point(key) => format!("by key ({})", key_terms(&table.primary_key, key).join(", ")),
        Access::Points(keys) => {
            let shown: Vec<String> = keys
                .iter()
                .take(KEYS_SHOWN_MAX)
                .map(|key| {
                    format!(
                        "({})",
                        key.iter()
                            .map(|value| show_expr(value, name))
                            .collect::<Vec<_>>()
                            .join(", ")
                    )
                })
                .collect();
            let more = if keys.len() > KEYS_SHOWN_MAX { ", ..." } else { "" };
            let columns: Vec<String> = table
                .primary_key
                .iter()
                .map(|column| table_column(table, *column))
                .collect();
            format!(
                "by {} keys ({}) in ({}{more})",
                keys.len(),
                columns.join(", "),
                shown.join(", ")
            )
        }
        Access::Elements(access) => {
            let term = |(place, (column, value)): (usize, (&usize, &Expr))| {
                let column = table_column(table, *column);
                if place == access.place {
                    return format!("{column} = ANY ({})", show_expr(&access.array, name));
                }
                format!("{column} = {}", show_expr(value, name))
            };
            let columns = table.primary_key.iter().zip(&access.key).enumerate();
            format!("by keys ({})", columns.map(term).collect::<Vec<_>>().join(", "))
        }
        Access::Range(range) => {
            let (what, columns) = match range.index {
                None => ("key range".to_owned(), &table.primary_key),
                Some(index) => {
                    let index = &table.indexes[index];
                    let word = if index.unique && range.prefix.len() == index.columns.len() {
                        "unique index"
                    } else {
                        "index"
                    };
                    (format!("{word} {}", index.name), &index.columns)
                }
            };
            let mut terms = key_terms(columns, &range.prefix);
            if let Some(next) = columns.get(range.prefix.len()) {
                let own = table_column(table, *next);
                terms.extend(range.low.as_ref().map(|low| bound_text(&own, ">", low, name)));
                terms.extend(range.high.as_ref().map(|high| bound_text(&own, "<", high, name)));
            }
            let terms = if terms.is_empty() {
                "all".to_owned()
            } else {
                terms.join(", ")
            };
            format!("by {what} ({terms}){}", if range.reverse { " backwards" } else { "" })
        }
        Access::Ranges(ranges) => ranges_text(table, ranges, name),
        Access::Union(ways) => {
            let ways: Vec<String> = ways.iter().map(|way| way_text(table, way, name)).collect();
            ways.join(" or ")
        }
        Access::Full { reverse } => {
            format!("by full scan{}", if *reverse { " backwards" } else { "" })
        }
    }
}

fn bound_text(column: &str, symbol: &str, bound: &(Expr, bool), name: &dyn Fn(usize) -> String) -> String {
    let (value, included) = bound;
    let equal = if *included { "=" } else { "" };
    format!("{column} {symbol}{equal} {}", show_expr(value, name))
}

fn ranges_text(table: &Table, ranges: &RangesAccess, name: &dyn Fn(usize) -> String) -> String {
    let (what, columns) = match ranges.index {
        None => ("key ranges".to_owned(), &table.primary_key),
        Some(index) => (
            format!("index {}", table.indexes[index].name),
            &table.indexes[index].columns,
        ),
    };
    let shown = ranges.alternatives.iter().take(KEYS_SHOWN_MAX);
    let shown = shown.map(|alternative| alternative_text(table, columns, alternative, name));
    let shown = shown.collect::<Vec<_>>().join(" or ");
    let more = if ranges.alternatives.len() > KEYS_SHOWN_MAX {
        " or ..."
    } else {
        ""
    };
    let backwards = if ranges.reverse { " backwards" } else { "" };
    format!("by {what} ({shown}{more}){backwards}")
}

fn alternative_text(
    table: &Table,
    columns: &[usize],
    alternative: &Alternative,
    name: &dyn Fn(usize) -> String,
) -> String {
    let part = |(column, part): (&usize, &KeyPart)| {
        let column = table_column(table, *column);
        match part {
            KeyPart::One(value) => format!("{column} = {}", show_expr(value, name)),
            KeyPart::Any(values) => {
                let shown = values.iter().take(KEYS_SHOWN_MAX).map(|value| show_expr(value, name));
                let shown = shown.collect::<Vec<_>>().join(", ");
                let more = if values.len() > KEYS_SHOWN_MAX { ", ..." } else { "" };
                format!("{column} IN ({shown}{more})")
            }
            KeyPart::Elements(array) => format!("{column} = ANY ({})", show_expr(array, name)),
            KeyPart::OfRow(rows, place) => {
                format!("{column} = column {} of {}", place + 1, show_expr(&rows.keys, name))
            }
            KeyPart::Null => format!("{column} IS NULL"),
        }
    };
    let mut terms: Vec<String> = columns.iter().zip(&alternative.prefix).map(part).collect();
    if let Some(next) = columns.get(alternative.prefix.len()) {
        let own = table_column(table, *next);
        match &alternative.bounds {
            Bounds::All => {}
            Bounds::NotNull => terms.push(format!("{own} IS NOT NULL")),
            Bounds::Between { low, high } => {
                terms.extend(low.as_ref().map(|low| bound_text(&own, ">", low, name)));
                terms.extend(high.as_ref().map(|high| bound_text(&own, "<", high, name)));
            }
            Bounds::Like(pattern) => terms.push(format!("{own} LIKE {}", show_expr(pattern, name))),
        }
    }
    terms.join(", ")
}

/// The names of what stands above a grouping.
fn group_names(aggregate: &AggregatePlan, name: &dyn Fn(usize) -> String) -> Vec<String> {
    let keys = aggregate.keys.iter().map(|key| show_expr(key, name));
    keys.chain(aggregate.calls.iter().map(|call| call_text(call, name)))
        .collect()
}

fn call_text(call: &AggregateCall, name: &dyn Fn(usize) -> String) -> String {
    let called = match call.aggregate.kind {
        AggregateKind::CountRows => return "count(*)".to_owned(),
        AggregateKind::Count => "count",
        AggregateKind::Sum => "sum",
        AggregateKind::Average => "avg",
        AggregateKind::Minimum => "min",
        AggregateKind::Maximum => "max",
        AggregateKind::BoolAnd => "bool_and",
        AggregateKind::BoolOr => "bool_or",
        AggregateKind::BitAnd => "bit_and",
        AggregateKind::BitOr => "bit_or",
        AggregateKind::BitXor => "bit_xor",
        AggregateKind::Concatenate => "string_agg",
        AggregateKind::DeviationSample => "stddev",
        AggregateKind::DeviationPopulation => "stddev_pop",
        AggregateKind::VarianceSample => "variance",
        AggregateKind::VariancePopulation => "var_pop",
        AggregateKind::CollectArray => "array_agg",
        AggregateKind::CollectJson => "json_agg",
        AggregateKind::CollectJsonb => "jsonb_agg",
        AggregateKind::CollectJsonObject => "json_object_agg",
        AggregateKind::CollectJsonbObject => "jsonb_object_agg",
        AggregateKind::Regression(kind) => kind.name(),
    };
    let arguments: Vec<String> = call
        .arguments
        .iter()
        .map(|argument| show_expr(argument, name))
        .collect();
    let distinct = if call.distinct { "DISTINCT " } else { "" };
    let order: Vec<String> = call
        .order_by
        .iter()
        .map(|(expr, descending, _)| format!("{}{}", show_expr(expr, name), if *descending { " DESC" } else { "" }))
        .collect();
    let order = if order.is_empty() {
        String::new()
    } else {
        format!(" ORDER BY {}", order.join(", "))
    };
    let filter = call
        .filter
        .as_ref()
        .map(|filter| format!(" FILTER (WHERE {})", show_expr(filter, name)));
    format!(
        "{called}({distinct}{}{order}){}",
        arguments.join(", "),
        filter.unwrap_or_default()
    )
}

fn aggregation_text(select: &SelectPlan, name: &dyn Fn(usize) -> String) -> Vec<String> {
    let mut work = Vec::new();
    let mut upper = None;
    if let Some(aggregate) = &select.aggregate {
        let names = group_names(aggregate, name);
        if !aggregate.keys.is_empty() {
            work.push(format!("group by {}", names[..aggregate.keys.len()].join(", ")));
        }
        work.extend(names[aggregate.keys.len()..].iter().cloned());
        upper = Some(names);
    }
    if select.distinct {
        work.push("distinct".to_owned());
    }
    if !select.order_by.is_empty() {
        let keys: Vec<String> = select
            .order_by
            .iter()
            .map(|key| {
                let expr = &select.projection[key.column];
                let shown = match &upper {
                    Some(names) => show_expr(expr, &namer(names)),
                    None => show_expr(expr, name),
                };
                let nulls = match (key.nulls_first, key.descending) {
                    (true, false) => " nulls first",
                    (false, true) => " nulls last",
                    _ => "",
                };
                format!("{shown}{}{nulls}", if key.descending { " desc" } else { "" })
            })
            .collect();
        work.push(format!("sort {}", keys.join(", ")));
    }
    work.extend(
        select
            .limit
            .as_ref()
            .map(|limit| format!("limit {}", show_expr(limit, name))),
    );
    work.extend(
        select
            .offset
            .as_ref()
            .map(|offset| format!("offset {}", show_expr(offset, name))),
    );
    work
}

fn insert_nodes(insert: &InsertPlan, figures: &[StepFigures]) -> Vec<Node> {
    let mut nodes = Vec::new();
    let rows = match &insert.source {
        InsertSource::Values(rows) => match rows.len() {
            1 => "1 row".to_owned(),
            count => format!("{count} rows"),
        },
        InsertSource::Select(..) | InsertSource::Rows(_) => {
            let select = insert.source.select();
            nodes = select.map_or_else(Vec::new, |select| select_nodes(select, figures));
            "rows of the query".to_owned()
        }
    };
    let table = &insert.table;
    let conflict = insert.on_conflict.as_ref().map(|conflict| {
        let arbiter = match conflict.arbiter {
            None => "any key".to_owned(),
            Some(None) => table.primary_key_name.clone(),
            Some(Some(index)) => table.indexes[index].name.clone(),
        };
        let name = |slot: usize| match slot.checked_sub(table.columns.len()) {
            None => table_column(table, slot),
            Some(excluded) => format!("excluded.{}", table_column(table, excluded)),
        };
        match &conflict.action {
            ConflictAction::Nothing => format!("{arbiter}: nothing"),
            ConflictAction::Update { assignments, filter } => {
                let set: Vec<String> = assignments
                    .iter()
                    .map(|(column, value)| format!("{} = {}", table_column(table, *column), show_expr(value, &name)))
                    .collect();
                let filter = filter
                    .as_ref()
                    .map(|filter| format!(" where {}", show_expr(filter, &name)));
                format!("{arbiter}: update {}{}", set.join(", "), filter.unwrap_or_default())
            }
        }
    });
    let keys: Vec<String> = table
        .foreign_keys
        .iter()
        .map(|key| format!("{} in {}", key.name, key.referenced_table))
        .collect();
    let node = node("update", format!("Update stage on {}: insert {rows}", table.name))
        .detail("on conflict", conflict)
        .detail("checks foreign keys", (!keys.is_empty()).then(|| keys.join(", ")));
    nodes.push(node);
    nodes
}

fn update_nodes(update: &UpdatePlan, figures: &[StepFigures], placed: Option<(u64, u64)>) -> Vec<Node> {
    let Relation::Table(table) = &update.target.relation else {
        return Vec::new();
    };
    let name = |slot: usize| table_column(table, slot);
    let formulas: Vec<String> = update
        .assignments
        .iter()
        .map(|assignment| {
            format!(
                "{} = {}",
                name(assignment.column),
                show_expr(&assignment.expression, &name)
            )
        })
        .collect();
    let limits = escrow::limits(update, table);
    let order = match &update.ordered_because {
        None if limits.iter().any(|limit| limit.by_check) => "escrowed".to_owned(),
        None => "blind".to_owned(),
        Some(reason) => format!("ordered because {reason}"),
    };
    let mut node = node(
        "update",
        format!(
            "Update stage on {}: formula {}, {order}",
            relation_name(&update.target),
            formulas.join(", ")
        ),
    )
    .detail("access", Some(access_text(&update.target, &name)))
    .detail("filter", update.filter.as_ref().map(|filter| show_expr(filter, &name)))
    .detail("escrow", escrow::limits_text(&limits))
    .detail("hint", escrow::hint(update, table))
    .detail("placed", placed.map(escrow::placed_text));
    node.figures = figures.first().copied();
    vec![node]
}

fn delete_nodes(delete: &DeletePlan, figures: &[StepFigures]) -> Vec<Node> {
    let Relation::Table(table) = &delete.target.relation else {
        return Vec::new();
    };
    let name = |slot: usize| table_column(table, slot);
    let mut node = node(
        "update",
        format!("Update stage on {}: delete", relation_name(&delete.target)),
    )
    .detail("access", Some(access_text(&delete.target, &name)))
    .detail("filter", delete.filter.as_ref().map(|filter| show_expr(filter, &name)));
    node.figures = figures.first().copied();
    vec![node]
}
