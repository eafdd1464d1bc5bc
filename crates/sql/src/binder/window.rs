//! Calls with OVER, and SELECTs over them: what windows are computed of becomes a query of its own.

use super::expression::{ExpressionBinder, WINDOW_BASE};
use super::grouping_sets::{GROUPING_BASE, GroupKeys, SetParts};
use super::list_sets::{chosen_below_sets, is_of_sets};
use super::outer::CallText;
use super::tail::{parts_of_row, sort_parts};
use super::typed::Typed;
use super::{Context, located};
use crate::parser::syntax::fold;
use crate::plan::SortKey;
use crate::planner::{BoundQuery, BoundSelect, Query, QueryRelation, SelectParts};
use crate::window::{Frame, FrameBound, FrameUnit, RangeColumns, WindowCall, WindowFunction, WindowPlan};
use rubato_base::{DataType, Error, Result, SqlState, Value};
use rubato_formula::{CastContext, Comparison, Expr, resolve_operator};
use sqlparser::ast::{self, Spanned};
use std::cell::RefCell;

/// Calls with OVER while a SELECT is bound, with the windows that its WINDOW clause names.
#[derive(Default)]
pub(super) struct Windows<'q> {
    pub(super) named: &'q [ast::NamedWindowDefinition],
    pub(super) calls: RefCell<Vec<WindowBound>>,
    /// Calls of GROUPING, which stand in the same places.
    pub(super) groupings: RefCell<Vec<Vec<Expr>>>,
}

/// A call over expressions of the SELECT's own tuples.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WindowBound {
    function: WindowFunction,
    arguments: Vec<Expr>,
    filter: Option<Expr>,
    partition: Vec<Expr>,
    /// With its type, and whether it is descending, and NULLs first.
    pub(super) order: Vec<(Expr, DataType, bool, bool)>,
    frame: Frame,
    pub(super) range: Option<RangeColumns<Expr>>,
    result_type: DataType,
}

impl WindowBound {
    pub(super) fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let ordered = self.order.iter_mut().map(|(expr, ..)| expr);
        let own = self.arguments.iter_mut().chain(&mut self.filter);
        let range = self.range.iter_mut().flat_map(RangeColumns::columns_mut);
        own.chain(&mut self.partition).chain(ordered).chain(range)
    }

    pub(super) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let ordered = self.order.iter().map(|(expr, ..)| expr);
        let own = self.arguments.iter().chain(&self.filter);
        let range = self.range.iter().flat_map(RangeColumns::columns);
        own.chain(&self.partition).chain(ordered).chain(range)
    }
}

/// Whether only OVER makes sense of the function.
pub(super) fn is_window_function(name: &str) -> bool {
    plain_function(name).is_some()
}

fn plain_function(name: &str) -> Option<WindowFunction> {
    Some(match name {
        "row_number" => WindowFunction::RowNumber,
        "rank" => WindowFunction::Rank,
        "dense_rank" => WindowFunction::DenseRank,
        "percent_rank" => WindowFunction::PercentRank,
        "cume_dist" => WindowFunction::CumulativeDistribution,
        "ntile" => WindowFunction::Tiles,
        "lag" => WindowFunction::Lag,
        "lead" => WindowFunction::Lead,
        "first_value" => WindowFunction::First,
        "last_value" => WindowFunction::Last,
        "nth_value" => WindowFunction::Nth,
        _ => return None,
    })
}

/// 42P20
pub(super) fn windowing_error(message: String) -> Error {
    Error::new(SqlState::WINDOWING_ERROR, message)
}

impl ExpressionBinder<'_> {
    /// A call with OVER; `aggregate` is the call as an aggregate, if it is one.
    pub(super) fn window_call(
        &self,
        name: &str,
        function: &ast::Function,
        over: &ast::WindowType,
        arguments: &[&ast::Expr],
    ) -> Result<Typed> {
        let Some(windows) = self.windows else {
            return Err(windowing_error(format!(
                "window functions are not allowed in {}",
                self.clause
            )));
        };
        if let Some(why) = self.inside_window.get() {
            return Err(windowing_error(why.to_owned()));
        }
        self.inside_window.set(Some("window function calls cannot be nested"));
        let call = self.window_bound(name, function, over, arguments, windows);
        self.inside_window.set(None);
        let call = call?;
        let result_type = call.result_type;
        let mut calls = windows.calls.borrow_mut();
        let known = calls.iter().position(|other| *other == call);
        let place = known.unwrap_or_else(|| {
            calls.push(call);
            calls.len() - 1
        });
        Ok(Typed::new(Expr::Column(WINDOW_BASE + place), result_type))
    }

    fn window_bound(
        &self,
        name: &str,
        function: &ast::Function,
        over: &ast::WindowType,
        arguments: &[&ast::Expr],
        windows: &Windows<'_>,
    ) -> Result<WindowBound> {
        let mut call = match plain_function(name) {
            Some(own) => {
                let is_distinct =
                    matches!(&function.args, ast::FunctionArguments::List(list) if list.duplicate_treatment.is_some());
                if function.filter.is_some() {
                    let message = "FILTER is not implemented for non-aggregate window functions";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                if is_distinct {
                    let message = "DISTINCT is not implemented for window functions";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.plain_window(name, own, arguments)?
            }
            None => self.aggregate_window(name, function, arguments)?,
        };
        self.inside_window
            .set(Some("window functions are not allowed in window definitions"));
        let spec = match over {
            ast::WindowType::WindowSpec(spec) => spec,
            ast::WindowType::NamedWindow(name) => return self.named_window(call, name, windows),
        };
        self.specify(&mut call, spec, windows)?;
        Ok(call)
    }

    fn named_window(&self, mut call: WindowBound, name: &ast::Ident, windows: &Windows<'_>) -> Result<WindowBound> {
        let spec = located(self.context, name.span, find_window(name, windows))?;
        self.specify(&mut call, spec, windows)?;
        Ok(call)
    }

    /// The function without what OVER says.
    fn plain_window(&self, name: &str, function: WindowFunction, arguments: &[&ast::Expr]) -> Result<WindowBound> {
        use WindowFunction as F;
        let bound = arguments.iter().map(|argument| self.bind(argument));
        let mut bound: Vec<Typed> = bound.collect::<Result<_>>()?;
        let wanted = match function {
            F::Tiles | F::First | F::Last => 1..=1,
            F::Lag | F::Lead => 1..=3,
            F::Nth => 2..=2,
            _ => 0..=0,
        };
        let types: Vec<DataType> = bound.iter().map(|argument| self.context.type_of(argument)).collect();
        if !wanted.contains(&bound.len()) {
            return Err(no_such_function(name, &types));
        }
        let (exprs, result_type) = match function {
            F::RowNumber | F::Rank | F::DenseRank => (Vec::new(), DataType::Int8),
            F::PercentRank | F::CumulativeDistribution => (Vec::new(), DataType::Float8),
            F::Tiles => {
                let count = bound.remove(0);
                (vec![self.whole(name, &types, count)?], DataType::Int4)
            }
            _ => {
                let distance = match bound.len() {
                    0 | 1 => None,
                    _ => Some(self.whole(name, &types, bound.remove(1))?),
                };
                let (mut values, common) = self.common(name, bound)?;
                if let Some(distance) = distance {
                    values.insert(1, distance);
                }
                (values, common.data_type)
            }
        };
        Ok(WindowBound {
            function,
            arguments: exprs,
            filter: None,
            partition: Vec::new(),
            order: Vec::new(),
            frame: Frame::standard(),
            range: None,
            result_type,
        })
    }

    fn whole(&self, name: &str, types: &[DataType], argument: Typed) -> Result<Expr> {
        let is_open = self.context.type_of(&argument) == DataType::Unknown;
        let coerced = self.context.coerce(argument, DataType::Int4, CastContext::Implicit);
        coerced.map_err(|error| if is_open { error } else { no_such_function(name, types) })
    }

    fn aggregate_window(&self, name: &str, function: &ast::Function, arguments: &[&ast::Expr]) -> Result<WindowBound> {
        let list = match &function.args {
            ast::FunctionArguments::List(list) => Some(list),
            _ => None,
        };
        let call = self.aggregate_call(CallText {
            name,
            function,
            list,
            arguments,
        })?;
        if call.distinct || list.is_some_and(|list| list.duplicate_treatment.is_some()) {
            let message = "DISTINCT is not implemented for window functions";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if !call.order_by.is_empty() {
            let message = "aggregate ORDER BY is not implemented for window functions";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let result_type = call.aggregate.result_type;
        Ok(WindowBound {
            function: WindowFunction::Aggregate(call.aggregate),
            arguments: call.arguments,
            filter: call.filter,
            partition: Vec::new(),
            order: Vec::new(),
            frame: Frame::standard(),
            range: None,
            result_type,
        })
    }

    /// What OVER says; a window that it is based on comes first.
    fn specify(&self, call: &mut WindowBound, spec: &ast::WindowSpec, windows: &Windows<'_>) -> Result<()> {
        if let Some(name) = &spec.window_name {
            let base = located(self.context, name.span, find_window(name, windows))?;
            self.specify(call, base, windows)?;
            let overrides = |what: &str| {
                let message = format!("cannot override {what} clause of window \"{}\"", fold(name));
                located(self.context, name.span, Err(windowing_error(message)))
            };
            if !spec.partition_by.is_empty() {
                return overrides("PARTITION BY");
            }
            if !call.order.is_empty() && !spec.order_by.is_empty() {
                return overrides("ORDER BY");
            }
            if base.window_frame.is_some() {
                let message = format!("cannot copy window \"{}\" because it has a frame clause", fold(name));
                return located(self.context, name.span, Err(windowing_error(message)));
            }
        }
        for expr in spec.partition_by.iter().flat_map(parts_of_row) {
            call.partition.push(self.context.settle(self.bind(&expr)?)?.expr);
        }
        for (expr, (descending, nulls_first)) in sort_parts(&spec.order_by)? {
            let key = self.context.settle(self.bind(&expr)?)?;
            call.order.push((key.expr, key.data_type, descending, nulls_first));
        }
        if let Some(frame) = &spec.window_frame {
            call.frame = self.frame(frame, call)?;
        }
        Ok(())
    }

    fn frame(&self, frame: &ast::WindowFrame, call: &mut WindowBound) -> Result<Frame> {
        let unit = match frame.units {
            ast::WindowFrameUnits::Rows => FrameUnit::Rows,
            ast::WindowFrameUnits::Range => FrameUnit::Range,
            ast::WindowFrameUnits::Groups => FrameUnit::Groups,
        };
        let start = self.bound(&frame.start_bound, unit, call, true)?;
        let end = match &frame.end_bound {
            Some(end) => self.bound(end, unit, call, false)?,
            None => FrameBound::CurrentRow,
        };
        let refusal = match (&start, &end) {
            (FrameBound::UnboundedFollowing, _) => Some("frame start cannot be UNBOUNDED FOLLOWING"),
            (_, FrameBound::UnboundedPreceding) => Some("frame end cannot be UNBOUNDED PRECEDING"),
            (FrameBound::CurrentRow, FrameBound::Preceding(_)) => {
                Some("frame starting from current row cannot have preceding rows")
            }
            (FrameBound::Following(_), FrameBound::CurrentRow | FrameBound::Preceding(_)) => {
                Some("frame starting from following row cannot have preceding rows")
            }
            _ => None,
        };
        if let Some(message) = refusal {
            return Err(windowing_error(message.to_owned()));
        }
        if unit == FrameUnit::Groups && call.order.is_empty() {
            return Err(windowing_error("GROUPS mode requires an ORDER BY clause".to_owned()));
        }
        Ok(Frame { unit, start, end })
    }

    fn bound(
        &self,
        bound: &ast::WindowFrameBound,
        unit: FrameUnit,
        call: &mut WindowBound,
        is_start: bool,
    ) -> Result<FrameBound> {
        let mut distance = |expr: &ast::Expr, precedes: bool| -> Result<Expr> {
            let typed = self.bind(expr)?;
            let word = match unit {
                FrameUnit::Rows => "ROWS",
                FrameUnit::Range => "RANGE",
                FrameUnit::Groups => "GROUPS",
            };
            if !typed.expr.is_constant() {
                let message = format!("argument of {word} must not contain variables");
                let error = Error::new(SqlState::INVALID_COLUMN_REFERENCE, message);
                return located(self.context, expr.span(), Err(error));
            }
            let coerced = match unit {
                FrameUnit::Range => self.range_distance(typed, call, precedes, is_start),
                _ => self.context.coerce(typed, DataType::Int8, CastContext::Implicit),
            };
            let mut distance = located(self.context, expr.span(), coerced)?;
            self.context.asked_before(&mut distance, "the frame of a window")?;
            Ok(distance)
        };
        Ok(match bound {
            ast::WindowFrameBound::CurrentRow => FrameBound::CurrentRow,
            ast::WindowFrameBound::Preceding(None) => FrameBound::UnboundedPreceding,
            ast::WindowFrameBound::Following(None) => FrameBound::UnboundedFollowing,
            ast::WindowFrameBound::Preceding(Some(expr)) => FrameBound::Preceding(distance(expr, true)?),
            ast::WindowFrameBound::Following(Some(expr)) => FrameBound::Following(distance(expr, false)?),
        })
    }
}

fn find_window<'q>(name: &ast::Ident, windows: &Windows<'q>) -> Result<&'q ast::WindowSpec> {
    let wanted = fold(name);
    let found = windows.named.iter().find(|definition| fold(&definition.0) == wanted);
    match found.map(|definition| &definition.1) {
        Some(ast::NamedWindowExpr::WindowSpec(spec)) => Ok(spec),
        Some(ast::NamedWindowExpr::NamedWindow(_)) => Err(Error::unsupported("a window that is another window's name")),
        None => Err(Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("window \"{wanted}\" does not exist"),
        )),
    }
}

fn no_such_function(name: &str, types: &[DataType]) -> Error {
    let types: Vec<String> = types.iter().map(DataType::to_string).collect();
    let message = format!("function {name}({}) does not exist", types.join(", "));
    Error::new(SqlState::UNDEFINED_FUNCTION, message)
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

/// The place of an expression among these, to which it is added if it is none of them.
fn place_of(known: &mut Vec<Expr>, expr: &Expr) -> usize {
    let place = known.iter().position(|own| own == expr);
    place.unwrap_or_else(|| {
        known.push(expr.clone());
        known.len() - 1
    })
}

impl Context<'_> {
    /// A SELECT whose projection reads windows, or functions of rows above its groups: below it a query gives what these, and it, read. Windows
    /// are of the rows as they are in front of what these functions make of each.
    ///
    /// Errors: 0A000 for a window of what such a function makes.
    pub(super) fn over_windows(
        &self,
        (query, mut sets): (Query, Option<QueryRelation>),
        mut parts: SelectParts,
        calls: Vec<WindowBound>,
    ) -> Result<BoundSelect> {
        if calls.iter().flat_map(WindowBound::expressions).any(is_of_sets) {
            return Err(Error::unsupported("a set-returning function within a window function"));
        }
        let sets_first = sets.as_ref().map_or(WINDOW_BASE, |sets| sets.first);
        let mut inner: Vec<Expr> = Vec::new();
        let mut place = |expr: &Expr| place_of(&mut inner, expr);
        let calls: Vec<WindowCall> = calls.iter().map(|call| window_call(call, &mut place)).collect();
        let of_sets = sets.iter_mut().flat_map(|sets| sets.relation.outer_expressions_mut());
        let mut exprs: Vec<&mut Expr> = parts.projection.iter_mut().chain(of_sets).collect();
        for expr in &exprs {
            expr.for_each_column(&mut |column| {
                if column < sets_first {
                    place(&Expr::Column(column));
                }
            });
        }
        let width = inner.len();
        let count = calls.len();
        for expr in &mut exprs {
            **expr = expr.remap_columns(&|column| match column.checked_sub(WINDOW_BASE) {
                Some(call) => width + call,
                None if column >= sets_first => width + count + column - sets_first,
                None => inner
                    .iter()
                    .position(|known| *known == Expr::Column(column))
                    .unwrap_or(0),
            });
        }
        let aggregate = parts.aggregate.take();
        let select = BoundSelect {
            query,
            parts: SelectParts {
                aggregate,
                ..SelectParts::of_columns(inner)
            },
        };
        let mut query = match calls.is_empty() {
            true => Query {
                relations: vec![QueryRelation::over(
                    BoundQuery::Select(Box::new(select)),
                    "*groups*",
                    width,
                )],
                terms: Vec::new(),
            },
            false => windowed(select, calls, Vec::new()),
        };
        if let Some(mut sets) = sets {
            sets.first = width + count;
            query.relations.push(sets);
        }
        Ok(BoundSelect { query, parts })
    }
}

impl Context<'_> {
    /// A SELECT over grouping sets whose projection reads windows: these are of the rows of all groupings together.
    pub(super) fn windows_over_sets(
        &self,
        own: SetParts<'_>,
        keys: GroupKeys,
        mut parts: SelectParts,
        calls: &[WindowBound],
    ) -> Result<BoundSelect> {
        let mut inner: Vec<Expr> = Vec::new();
        let mut place = |expr: &Expr| place_of(&mut inner, expr);
        let calls: Vec<WindowCall> = calls.iter().map(|call| window_call(call, &mut place)).collect();
        for expr in &mut parts.projection {
            placed_below_windows(expr, &mut place);
        }
        let width = inner.len();
        for expr in &mut parts.projection {
            *expr = expr.remap_columns(&|column| match column.checked_sub(WINDOW_BASE) {
                Some(call) => width + call,
                None => column,
            });
        }
        // What stands below is not the select list.
        let own = SetParts {
            types: Vec::new(),
            ..own
        };
        let keys = GroupKeys {
            items: vec![None; keys.items.len()],
            ..keys
        };
        let select = self.over_sets(&own, &keys, SelectParts::of_columns(inner))?;
        Ok(BoundSelect {
            query: windowed(select, calls, Vec::new()),
            parts,
        })
    }

    /// 42P20 for a name of the WINDOW clause that stands there twice.
    pub(super) fn check_windows(&self, named: &[ast::NamedWindowDefinition]) -> Result<()> {
        for (place, definition) in named.iter().enumerate() {
            let name = fold(&definition.0);
            if named[..place].iter().any(|other| fold(&other.0) == name) {
                let error = windowing_error(format!("window \"{name}\" is already defined"));
                return located(self, definition.0.span, Err(error));
            }
        }
        Ok(())
    }
}

/// Leaves of an expression columns of what is below windows, as `place` gives them out, and what the windows give.
fn placed_below_windows(expr: &mut Expr, place: &mut dyn FnMut(&Expr) -> usize) {
    let is_window = |column: usize| (WINDOW_BASE..GROUPING_BASE).contains(&column);
    let mut reads_window = false;
    expr.for_each_column(&mut |column| reads_window |= is_window(column));
    match expr {
        Expr::Column(column) if is_window(*column) => {}
        Expr::Literal(_) | Expr::Parameter(_) => {}
        _ if reads_window => expr.for_each_child_mut(&mut |child| placed_below_windows(child, place)),
        _ => *expr = Expr::Column(place(expr)),
    }
}

/// The rows of a SELECT that come first among those with equal values in the columns `on`, in its own order.
pub(super) fn distinct_on(select: BoundSelect, on: Vec<usize>) -> BoundSelect {
    chosen_below_sets(select, on, |select, on| {
        let limits = (select.parts.limit.clone(), select.parts.offset.clone());
        numbered(select, WindowFunction::RowNumber, on, limits, |number| {
            Expr::Compare(
                Comparison::Equal,
                Box::new(number),
                Box::new(Expr::Literal(Value::Int8(1))),
            )
        })
    })
}

/// FETCH FIRST ... WITH TIES: the rows of a SELECT up to its limit, and those behind them that are peers of the last one. 42601
/// without an order.
pub(super) fn with_ties(select: BoundSelect) -> Result<BoundSelect> {
    if select.parts.order_by.is_empty() {
        let message = "WITH TIES cannot be specified without ORDER BY clause";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    let (Some(limit), offset) = (select.parts.limit.clone(), select.parts.offset.clone()) else {
        return Ok(select);
    };
    let add = resolve_operator("+", Some(DataType::Int8), DataType::Int8)?.function;
    let skipped = Expr::Coalesce(vec![
        offset.clone().unwrap_or(Expr::Literal(Value::Null)),
        Expr::Literal(Value::Int8(0)),
    ]);
    let last = Expr::Call {
        function: add,
        arguments: vec![limit.clone(), skipped],
    };
    // A row's rank is not beyond the last row's exactly if it is one of those, or a peer of it.
    Ok(numbered(
        select,
        WindowFunction::Rank,
        Vec::new(),
        (None, offset),
        |rank| {
            let within = Expr::Compare(Comparison::LessOrEqual, Box::new(rank), Box::new(last));
            Expr::Or(vec![Expr::IsNull(Box::new(limit)), within])
        },
    ))
}

/// The rows of a SELECT whose number, by its own order, meets a condition.
fn numbered(
    mut select: BoundSelect,
    function: WindowFunction,
    partition: Vec<usize>,
    (limit, offset): (Option<Expr>, Option<Expr>),
    condition: impl FnOnce(Expr) -> Expr,
) -> BoundSelect {
    let parts = &mut select.parts;
    let width = parts.projection.len();
    (parts.limit, parts.offset) = (None, None);
    let outer = SelectParts {
        aggregate: None,
        projection: (0..width).map(Expr::Column).collect(),
        distinct: false,
        visible: parts.visible,
        order_by: std::mem::take(&mut parts.order_by),
        limit,
        offset,
        lock: None,
    };
    parts.visible = width;
    let number = WindowCall {
        function,
        arguments: Vec::new(),
        filter: None,
        partition,
        order: outer.order_by.clone(),
        frame: Frame::standard(),
        range: None,
        result_type: DataType::Int8,
    };
    BoundSelect {
        query: windowed(select, vec![number], vec![condition(Expr::Column(width))]),
        parts: outer,
    }
}

fn windowed(select: BoundSelect, calls: Vec<WindowCall>, terms: Vec<Expr>) -> Query {
    let width = select.parts.visible + calls.len();
    let input = BoundQuery::Select(Box::new(select));
    let windows = BoundQuery::Window(Box::new(WindowPlan { input, calls }));
    Query {
        relations: vec![QueryRelation::over(windows, "*windows*", width)],
        terms,
    }
}

fn window_call(call: &WindowBound, place: &mut dyn FnMut(&Expr) -> usize) -> WindowCall {
    let order = call.order.iter().map(|(expr, _, descending, nulls_first)| SortKey {
        column: place(expr),
        descending: *descending,
        nulls_first: *nulls_first,
    });
    let order: Vec<SortKey> = order.collect();
    // They are evaluated beneath, of all rows.
    let arguments = call.arguments.iter().map(|argument| match &call.filter {
        Some(filter) => place(&argument.where_true(filter)),
        None => place(argument),
    });
    let arguments = arguments.collect();
    WindowCall {
        function: call.function.clone(),
        order,
        arguments,
        filter: call.filter.as_ref().map(&mut *place),
        partition: call.partition.iter().map(&mut *place).collect(),
        frame: call.frame.clone(),
        range: call.range.as_ref().map(|range| RangeColumns {
            key: place(&range.key),
            start: range.start.as_ref().map(&mut *place),
            end: range.end.as_ref().map(&mut *place),
        }),
        result_type: call.result_type,
    }
}
