//! From a tree to DataFusion's operators.

use crate::aggregate::{Aggregate, Wanted};
use crate::append::AppendExec;
use crate::compile::{Compiler, constant, keyed};
use crate::expression::Compiled;
use crate::failure::carried;
use crate::feed::{Feed, NewLeaf, leaf, schema_of};
use crate::gathering::{Gather, GatherExec, JoinValues};
use crate::kinds::{Column, Kind};
use crate::node::{Node, Surroundings, Work};
use crate::segments::Segments;
use crate::sieve::Sieve;
use crate::window::WindowExec;
use crate::yielding::YieldExec;
use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::{DataFusionError, JoinSide, JoinType, NullEquality, Result};
use datafusion_expr::AggregateUDF;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::Column as PlainColumn;
use datafusion_physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion_physical_plan::filter::FilterExec;
use datafusion_physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion_physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion_physical_plan::limit::GlobalLimitExec;
use datafusion_physical_plan::projection::ProjectionExec;
use datafusion_physical_plan::sorts::sort::SortExec;
use rubato_base::{DataType, Error, Value};
use rubato_formula::{AggregateKind, Expr};
use rubato_sql::analytics::{Join, JoinMode, Leaf, LeafRun, Order, Tree};
use rubato_sql::explain::{relation_title, show_expr};
use rubato_sql::plan::AggregateCall;
use rubato_sql::window::{WindowCall, WindowFunction};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An operator with the columns that it gives.
pub(crate) struct Planned {
    pub(crate) exec: Arc<dyn ExecutionPlan>,
    pub(crate) columns: Vec<Column>,
}

type Exprs = Vec<(Arc<dyn PhysicalExpr>, Column)>;

/// Makes operators of a tree.
pub(crate) struct Planner<'a> {
    pub(crate) around: &'a Arc<Surroundings>,
    pub(crate) batch_rows: usize,
    pub(crate) segments: &'a Arc<Segments>,
    /// The relay's ends of the leaves.
    pub(crate) feeds: Vec<Feed>,
    /// The values that joins gather, by their numbers.
    pub(crate) gathered: BTreeMap<usize, JoinValues>,
}

impl Planner<'_> {
    /// The operators of a tree. 0A000 for what there is no operator for.
    pub(crate) fn plan(&mut self, tree: &Tree) -> Result<Planned> {
        match tree {
            Tree::Leaf(own) => self.leaf(own, &[]),
            Tree::Filter { input, terms } => {
                if let Tree::Leaf(own) = &**input {
                    return self.leaf(own, terms);
                }
                let input = self.plan(input)?;
                self.filter(input, terms)
            }
            Tree::Join(join) => self.join(join),
            Tree::Project { input, exprs } => {
                let input = self.plan(input)?;
                let exprs = self.exprs(&input.columns, exprs)?;
                project(input, exprs)
            }
            Tree::Aggregate { input, keys, calls } => {
                let input = self.plan(input)?;
                self.aggregate(input, keys, calls)
            }
            Tree::Distinct { input } => {
                let input = self.plan(input)?;
                let keys: Vec<Expr> = (0..input.columns.len()).map(Expr::Column).collect();
                match keys.is_empty() {
                    // Rows without columns are all equal.
                    true => Ok(limited(input, 0, Some(1))),
                    false => self.aggregate(input, &keys, &[]),
                }
            }
            Tree::Sort { input, keys, fetch } => {
                let input = self.plan(input)?;
                self.sort(input, keys, *fetch)
            }
            Tree::Limit { input, skip, fetch } => Ok(limited(self.plan(input)?, *skip, *fetch)),
            Tree::Window { input, calls } => {
                let input = self.plan(input)?;
                self.windows(input, calls)
            }
            Tree::Append { inputs } => self.append(inputs),
        }
    }

    /// The rows of a leaf of which all terms are true.
    fn leaf(&mut self, own: &Leaf, terms: &[Expr]) -> Result<Planned> {
        let columns = own.types.iter().map(|own| Column::of(*own, self.around.decimals));
        let columns: Vec<Column> = columns.collect();
        let (sieve, rest) = Sieve::take(terms, &columns);
        let taken: Vec<Expr> = terms.iter().filter(|term| !rest.contains(term)).cloned().collect();
        let condition = match taken.is_empty() {
            true => None,
            false => Some(self.condition(&columns, &taken)?),
        };
        let partners = own.partners.iter().filter_map(|(number, own)| {
            let values = self.gathered.get(number)?;
            Some((own.clone(), values.clone()))
        });
        let new = NewLeaf {
            run: LeafRun::new(Arc::clone(&own.select), terms),
            name: leaf_name(own, &taken),
            columns: columns.clone(),
            sieve,
            condition,
            partners: partners.collect(),
            segments: Arc::clone(self.segments),
        };
        let (feed, exec) = leaf(new, self.batch_rows);
        self.feeds.push(feed);
        let planned = Planned { exec, columns };
        match rest.is_empty() {
            true => Ok(planned),
            false => self.filter(planned, &rest),
        }
    }

    fn compiler<'c>(&'c self, columns: &'c [Column]) -> Compiler<'c> {
        Compiler {
            columns,
            around: self.around,
        }
    }

    fn exprs(&self, columns: &[Column], exprs: &[Expr]) -> Result<Exprs> {
        let compiler = self.compiler(columns);
        exprs
            .iter()
            .map(|expr| Ok(physical(compiler.node(expr).map_err(carried)?, expr)))
            .collect()
    }

    fn condition(&self, columns: &[Column], terms: &[Expr]) -> Result<Arc<dyn PhysicalExpr>> {
        let all = Expr::And(terms.to_vec());
        let term = match terms {
            [one] => one,
            _ => &all,
        };
        let node = self.compiler(columns).condition(term).map_err(carried)?;
        Ok(physical(node, term).0)
    }

    fn filter(&self, input: Planned, terms: &[Expr]) -> Result<Planned> {
        let condition = self.condition(&input.columns, terms)?;
        let exec = FilterExec::try_new(condition, input.exec)?;
        Ok(Planned {
            exec: Arc::new(exec),
            columns: input.columns,
        })
    }

    fn join(&mut self, join: &Join) -> Result<Planned> {
        let left = self.plan(&join.left)?;
        let left = self.gathering(left, &join.gathers)?;
        let right = self.plan(&join.right)?;
        let both: Vec<Column> = left.columns.iter().chain(&right.columns).copied().collect();
        let mut on = Vec::with_capacity(join.equal.len());
        let mut terms = join.terms.clone();
        for (own, other) in &join.equal {
            let sides = (self.compiler(&left.columns), self.compiler(&right.columns));
            match sides.0.key_pair(&sides.1, (own, other), join.null_equals_null) {
                Ok((a, b)) => on.push((physical(a, own).0, physical(b, other).0)),
                // Values of such different types are compared pair by pair.
                Err(_) if !join.null_equals_null => {
                    let shifted = other.remap_columns(&|column| column + left.columns.len());
                    let equal = rubato_formula::Comparison::Equal;
                    terms.push(Expr::Compare(equal, Box::new(own.clone()), Box::new(shifted)));
                }
                Err(error) => return Err(carried(error)),
            }
        }
        if on.is_empty() {
            // Every row would be compared with every other within one poll; the relay does so in slices.
            return Err(carried(Error::unsupported("a join without an equality")));
        }
        let filter = self.join_filter(&left.columns, &both, &terms)?;
        let (kind, given) = match join.kind {
            JoinMode::Inner => (JoinType::Inner, both),
            JoinMode::Left => (JoinType::Left, both),
            JoinMode::Right => (JoinType::Right, both),
            JoinMode::LeftSemi => (JoinType::LeftSemi, left.columns.clone()),
            JoinMode::LeftAnti => (JoinType::LeftAnti, left.columns.clone()),
            JoinMode::RightSemi => (JoinType::RightSemi, right.columns.clone()),
            JoinMode::RightAnti => (JoinType::RightAnti, right.columns.clone()),
        };
        let output = Some(join.output.clone());
        let nulls = match join.null_equals_null {
            true => NullEquality::NullEqualsNull,
            false => NullEquality::NullEqualsNothing,
        };
        let mode = PartitionMode::CollectLeft;
        let exec = HashJoinExec::try_new(left.exec, right.exec, on, filter, &kind, output, mode, nulls, false)?;
        let exec: Arc<dyn ExecutionPlan> = Arc::new(YieldExec::new(Arc::new(exec)));
        let columns = join
            .output
            .iter()
            .filter_map(|place| given.get(*place).copied())
            .collect();
        Ok(Planned { exec, columns })
    }

    /// A join's first side, of which values are gathered for leaves of the second one, which are made after it.
    fn gathering(&mut self, input: Planned, wanted: &[(usize, Expr)]) -> Result<Planned> {
        if wanted.is_empty() {
            return Ok(input);
        }
        let exprs: Vec<Expr> = wanted.iter().map(|(_, own)| own.clone()).collect();
        let mut gathers = Vec::with_capacity(wanted.len());
        for ((number, expr), own) in wanted.iter().zip(self.exprs(&input.columns, &exprs)?) {
            let words = shown(expr);
            let values = JoinValues::default();
            self.gathered.insert(*number, values.clone());
            gathers.push(Gather { own, words, values });
        }
        Ok(Planned {
            exec: Arc::new(GatherExec::new(input.exec, gathers.into())),
            columns: input.columns,
        })
    }

    /// What must hold of pairs besides equality, over the columns of both that it reads.
    fn join_filter(&self, left: &[Column], both: &[Column], terms: &[Expr]) -> Result<Option<JoinFilter>> {
        if terms.is_empty() {
            return Ok(None);
        }
        let mut used: Vec<usize> = Vec::new();
        terms
            .iter()
            .for_each(|term| term.for_each_column(&mut |column| used.push(column)));
        used.sort_unstable();
        used.dedup();
        let place = |column: usize| used.iter().position(|own| *own == column).unwrap_or(0);
        let terms: Vec<Expr> = terms.iter().map(|term| term.remap_columns(&place)).collect();
        let columns: Vec<Column> = used.iter().filter_map(|column| both.get(*column).copied()).collect();
        let index = |column: &usize| match column.checked_sub(left.len()) {
            Some(index) => ColumnIndex {
                index,
                side: JoinSide::Right,
            },
            None => ColumnIndex {
                index: *column,
                side: JoinSide::Left,
            },
        };
        let condition = self.condition(&columns, &terms)?;
        let indices = used.iter().map(index).collect();
        Ok(Some(JoinFilter::new(condition, indices, schema_of(&columns))))
    }

    /// Groups. Where bytes or numbers do not say which keys are equal, rows are grouped by keys made of them, and the keys' own
    /// values are those of the group's first row.
    fn aggregate(&self, input: Planned, keys: &[Expr], calls: &[AggregateCall]) -> Result<Planned> {
        let schema = input.exec.schema();
        let compiler = self.compiler(&input.columns);
        let mut groups = Vec::with_capacity(keys.len());
        let mut aggregates = Vec::new();
        let mut filters = Vec::new();
        let mut output: Exprs = Vec::with_capacity(keys.len() + calls.len());
        for (place, key) in keys.iter().enumerate() {
            let node = compiler.node(key).map_err(carried)?;
            let column = node.column;
            let name = format!("k{place}");
            if column.kind.is_ordered() {
                output.push((Arc::new(PlainColumn::new(&name, place)), column));
                groups.push((physical(node, key).0, name));
                continue;
            }
            groups.push((physical(keyed(node), key).0, name));
            let first = Aggregate::new(Wanted::First, vec![column], self.around.decimals);
            let argument = physical(compiler.node(key).map_err(carried)?, key);
            output.push((Arc::new(PlainColumn::new("", keys.len() + aggregates.len())), column));
            aggregates.push(aggregate_expr(first, vec![argument.0], &schema, aggregates.len())?);
            filters.push(None);
        }
        for call in calls {
            let (aggregate, arguments) = self.call(&compiler, call)?;
            let result = aggregate.result;
            output.push((Arc::new(PlainColumn::new("", keys.len() + aggregates.len())), result));
            aggregates.push(aggregate_expr(aggregate, arguments, &schema, aggregates.len())?);
            let filter = call.filter.as_ref().map(|filter| {
                let terms = std::slice::from_ref(filter);
                self.condition(&input.columns, terms)
            });
            filters.push(filter.transpose()?);
        }
        let exec = AggregateExec::try_new(
            AggregateMode::Single,
            PhysicalGroupBy::new_single(groups),
            aggregates,
            filters,
            input.exec,
            schema,
        )?;
        let grouped = Planned {
            exec: Arc::new(exec),
            columns: Vec::new(),
        };
        project(grouped, output)
    }

    fn call(&self, compiler: &Compiler<'_>, call: &AggregateCall) -> Result<(Aggregate, Vec<Arc<dyn PhysicalExpr>>)> {
        let mut inputs = Vec::new();
        let mut arguments = Vec::new();
        let own = call.arguments.iter();
        for expr in own.chain(call.order_by.iter().map(|(expr, ..)| expr)) {
            // The operator evaluates it of all rows, and then leaves out those that are filtered.
            let filtered = call.filter.as_ref().map(|filter| expr.where_true(filter));
            let expr = filtered.as_ref().unwrap_or(expr);
            let node = compiler.node(expr).map_err(carried)?;
            inputs.push(node.column);
            arguments.push(physical(node, expr).0);
        }
        if call.aggregate.kind == AggregateKind::CountRows {
            // An argument tells how many rows there are.
            let always = constant(&Value::Bool(true), Column::boolean()).map_err(carried)?;
            inputs = vec![always.column];
            arguments = vec![physical(always, &Expr::Literal(Value::Bool(true))).0];
        }
        let wanted = Wanted::Aggregate {
            resolved: call.aggregate.clone(),
            distinct: call.distinct,
            arguments: call.arguments.len(),
            order: call
                .order_by
                .iter()
                .map(|(_, descending, first)| (*descending, *first))
                .collect(),
        };
        Ok((Aggregate::new(wanted, inputs, self.around.decimals), arguments))
    }

    fn sort(&self, input: Planned, keys: &[Order], fetch: Option<usize>) -> Result<Planned> {
        let compiler = self.compiler(&input.columns);
        let mut exprs = Vec::with_capacity(keys.len());
        for key in keys {
            let node = compiler.key(&key.expr).map_err(carried)?;
            exprs.push(PhysicalSortExpr {
                expr: physical(node, &key.expr).0,
                options: SortOptions {
                    descending: key.descending,
                    nulls_first: key.nulls_first,
                },
            });
        }
        let Some(ordering) = LexOrdering::new(exprs) else {
            return Ok(input);
        };
        // The operator ends the process for a limit of none; that is held by the one above it.
        let fetch = fetch.map(|rows| rows.max(1));
        let exec = SortExec::new(ordering, input.exec).with_fetch(fetch);
        Ok(Planned {
            exec: Arc::new(exec),
            columns: input.columns,
        })
    }

    /// Calls over one partitioning and order together, in the order in which these come first.
    fn windows(&self, input: Planned, calls: &[WindowCall]) -> Result<Planned> {
        let width = input.columns.len();
        let mut planned = input;
        let mut places = vec![0; calls.len()];
        let mut done = vec![false; calls.len()];
        while let Some(first) = done.iter().position(|done| !done) {
            let alike =
                |call: &WindowCall| call.partition == calls[first].partition && call.order == calls[first].order;
            let numbers: Vec<usize> = (first..calls.len())
                .filter(|number| !done[*number] && alike(&calls[*number]))
                .collect();
            let own: Vec<WindowCall> = numbers.iter().map(|number| calls[*number].clone()).collect();
            for (place, number) in numbers.iter().enumerate() {
                done[*number] = true;
                places[*number] = planned.columns.len() + place;
            }
            planned = self.window(planned, own)?;
        }
        let order = (0..width).chain(places);
        let exprs = order.map(|place| {
            let node = Node {
                work: Work::Column(place),
                column: planned.columns[place],
            };
            physical(node, &Expr::Column(place))
        });
        let exprs = exprs.collect();
        project(planned, exprs)
    }

    fn window(&self, input: Planned, calls: Vec<WindowCall>) -> Result<Planned> {
        let Some(first) = calls.first() else { return Ok(input) };
        let partition = first.partition.iter().map(|column| Order {
            expr: Expr::Column(*column),
            descending: false,
            nulls_first: false,
        });
        let order = first.order.iter().map(|key| Order {
            expr: Expr::Column(key.column),
            descending: key.descending,
            nulls_first: key.nulls_first,
        });
        let keys: Vec<Order> = partition.chain(order).collect();
        let sorted = self.sort(input, &keys, None)?;
        let results: Vec<Column> = calls.iter().map(|call| window_result(call, &sorted.columns)).collect();
        let mut columns = sorted.columns.clone();
        columns.extend(&results);
        let exec = WindowExec::new(sorted.exec, sorted.columns, results, calls);
        Ok(Planned {
            exec: Arc::new(exec),
            columns,
        })
    }

    fn append(&mut self, inputs: &[Tree]) -> Result<Planned> {
        let planned = inputs.iter().map(|input| self.plan(input));
        let planned = planned.collect::<Result<Vec<Planned>>>()?;
        let width = planned.first().map_or(0, |first| first.columns.len());
        let columns: Vec<Column> = (0..width).map(|place| common(&planned, place)).collect();
        let mut execs = Vec::with_capacity(planned.len());
        for input in planned {
            let exprs = input
                .columns
                .iter()
                .zip(&columns)
                .enumerate()
                .map(|(place, (own, wanted))| {
                    let node = Node {
                        work: Work::Column(place),
                        column: *own,
                    };
                    Ok(physical(in_form(node, *wanted)?, &Expr::Column(place)))
                });
            let exprs = exprs.collect::<Result<Exprs>>()?;
            execs.push(project(input, exprs)?.exec);
        }
        Ok(Planned {
            exec: Arc::new(AppendExec::new(execs, schema_of(&columns))),
            columns,
        })
    }
}

/// The form of a call's result: that of its argument, if it gives one of its values.
fn window_result(call: &WindowCall, columns: &[Column]) -> Column {
    let plain = Column::plain(call.result_type);
    let gives_value = matches!(
        call.function,
        WindowFunction::First | WindowFunction::Last | WindowFunction::Nth
    );
    let lags = matches!(call.function, WindowFunction::Lag | WindowFunction::Lead) && call.arguments.len() < 3;
    match call.arguments.first().and_then(|place| columns.get(*place)) {
        Some(own) if gives_value || lags => *own,
        _ => plain,
    }
}

/// The form of a column that comes of several inputs.
fn common(inputs: &[Planned], place: usize) -> Column {
    let mut known: Option<Column> = None;
    for input in inputs {
        let own = input.columns[place];
        known = Some(match known {
            None => own,
            Some(known) if known.kind == own.kind => match known.data_type {
                DataType::Unknown => own,
                _ => known,
            },
            Some(known) => Column {
                data_type: known.data_type,
                kind: Kind::Packed,
            },
        });
    }
    known.unwrap_or(Column::plain(DataType::Unknown))
}

fn in_form(node: Node, wanted: Column) -> Result<Node> {
    if node.column.kind == wanted.kind {
        return Ok(node);
    }
    if wanted.kind == Kind::Packed {
        return Ok(Node {
            work: Work::Pack(Box::new(node)),
            column: wanted,
        });
    }
    Err(carried(Error::unsupported("inputs of such different types")))
}

fn aggregate_expr(
    aggregate: Aggregate,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    schema: &SchemaRef,
    place: usize,
) -> Result<Arc<AggregateFunctionExpr>> {
    let function = Arc::new(AggregateUDF::new_from_impl(aggregate));
    let built = AggregateExprBuilder::new(function, arguments)
        .schema(Arc::clone(schema))
        .alias(format!("a{place}"))
        .build()?;
    Ok(Arc::new(built))
}

/// A node as DataFusion's expression. Columns too are nodes of ours, which know their place and need no name: behind a join several
/// columns may bear the same one.
fn physical(node: Node, expr: &Expr) -> (Arc<dyn PhysicalExpr>, Column) {
    let column = node.column;
    (Compiled::expr(node, shown(expr)), column)
}

/// A leaf in words, of whose rows the terms are looked at before anything else is done.
fn leaf_name(leaf: &Leaf, terms: &[Expr]) -> String {
    let mut name = relation_title(&leaf.select);
    if !terms.is_empty() {
        let terms: Vec<String> = terms.iter().map(shown).collect();
        name = format!("{name}, where {}", terms.join(" AND "));
    }
    if !leaf.partners.is_empty() {
        let partners: Vec<String> = leaf.partners.iter().map(|(_, own)| shown(own)).collect();
        name = format!("{name}, semi-join by {}", partners.join(", "));
    }
    name
}

/// An expression in words; columns are known by their places.
fn shown(expr: &Expr) -> String {
    show_expr(expr, &|place: usize| format!("c{place}"))
}

fn project(input: Planned, exprs: Exprs) -> Result<Planned> {
    let columns = exprs.iter().map(|(_, column)| *column).collect();
    let input_schema = input.exec.schema();
    let named = exprs.into_iter().enumerate().map(|(place, (expr, _))| {
        let expr = renamed(expr, &input_schema);
        (expr, format!("c{place}"))
    });
    let exec = ProjectionExec::try_new(named.collect::<Vec<_>>(), input.exec)?;
    Ok(Planned {
        exec: Arc::new(exec),
        columns,
    })
}

/// A plain column has to bear its input's name.
fn renamed(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    let any: &dyn std::any::Any = &*expr;
    match any.downcast_ref::<PlainColumn>() {
        Some(column) => {
            let name = schema.field(column.index()).name();
            Arc::new(PlainColumn::new(name, column.index()))
        }
        None => expr,
    }
}

fn limited(input: Planned, skip: usize, fetch: Option<usize>) -> Planned {
    Planned {
        exec: Arc::new(GlobalLimitExec::new(input.exec, skip, fetch)),
        columns: input.columns,
    }
}

/// A tree that cannot be planned, in words of ours.
pub(crate) fn refusal(error: DataFusionError) -> Error {
    match error.find_root() {
        DataFusionError::External(source) => match source.downcast_ref::<Error>() {
            Some(own) => own.clone(),
            None => Error::unsupported(error.to_string()),
        },
        _ => Error::unsupported(error.to_string()),
    }
}
