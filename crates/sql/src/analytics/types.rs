//! The types of what relations and queries give, as far as a plan tells.

use crate::plan::{QueryPlan, Relation};
use rubato_base::{ColumnType, DataType};
use rubato_formula::Expr;

/// The types of a relation's columns.
pub(super) fn relation_types(relation: &Relation) -> Vec<ColumnType> {
    let plain = |data_type: DataType| ColumnType::plain(data_type);
    match relation {
        Relation::Table(table) => table.columns.iter().map(|column| column.column_type).collect(),
        Relation::Functions(functions) => {
            let ordinality = functions.ordinality.then_some(plain(DataType::Int8));
            let types = functions.calls.iter().flat_map(|call| &call.types).copied();
            types.chain(ordinality).collect()
        }
        Relation::System(name) => {
            let (schema, short) = name.split_once('.').unwrap_or(("pg_catalog", name));
            let found = crate::system_tables::find(Some(schema), short);
            found.map_or_else(Vec::new, |table| {
                let columns = table.scope_columns().into_iter();
                columns.map(|column| column.column_type).collect()
            })
        }
        Relation::Working(_, types) => types.clone(),
        Relation::Values(rows) => values_types(rows),
        Relation::Query(query) | Relation::Lateral { query, .. } => query_types(query),
        Relation::Computed(expressions) => vec![plain(DataType::Unknown); expressions.len()],
    }
}

fn values_types(rows: &[Vec<Expr>]) -> Vec<ColumnType> {
    let width = rows.first().map_or(0, Vec::len);
    let unknown = |_: usize| DataType::Unknown;
    (0..width)
        .map(|column| {
            let types = rows.iter().filter_map(|row| row.get(column));
            let mut types = types.map(|expr| expr.data_type(&unknown, &unknown));
            let known = types.find(|data_type| *data_type != DataType::Unknown);
            ColumnType::plain(known.unwrap_or(DataType::Unknown))
        })
        .collect()
}

/// The types of a query's columns.
pub(super) fn query_types(query: &QueryPlan) -> Vec<ColumnType> {
    let select = match query {
        QueryPlan::Recursive(recursive) => return query_types(&recursive.first),
        QueryPlan::FullJoin(join) => return [join.left_types.as_slice(), &join.right_types].concat(),
        QueryPlan::Set(set) => {
            let sides = query_types(&set.left).into_iter().zip(query_types(&set.right));
            return sides.map(|(left, right)| common_type(left, right)).collect();
        }
        QueryPlan::Window(window) => {
            let mut types = query_types(&window.input);
            types.extend(window.calls.iter().map(|call| ColumnType::plain(call.result_type)));
            return types;
        }
        QueryPlan::Select(select) => select,
    };
    let slots: Vec<ColumnType> = select
        .steps
        .iter()
        .flat_map(|step| {
            let types = relation_types(&step.relation);
            step.columns.iter().map(move |column| {
                types
                    .get(*column)
                    .copied()
                    .unwrap_or(ColumnType::plain(DataType::Unknown))
            })
        })
        .collect();
    let unknown = |_: usize| DataType::Unknown;
    let of_slot = |slot: usize| slots.get(slot).map_or(DataType::Unknown, |slot| slot.data_type);
    let upper: Option<Vec<DataType>> = select.aggregate.as_ref().map(|aggregate| {
        let keys = aggregate.keys.iter().map(|key| key.data_type(&of_slot, &unknown));
        let calls = aggregate.calls.iter().map(|call| call.aggregate.result_type);
        keys.chain(calls).collect()
    });
    let of_column = |column: usize| match &upper {
        Some(upper) => upper.get(column).copied().unwrap_or(DataType::Unknown),
        None => of_slot(column),
    };
    select.projection[..select.visible]
        .iter()
        .map(|expr| ColumnType::plain(expr.data_type(&of_column, &unknown)))
        .collect()
}

/// The type of a column that comes of two sides, which have the same one unless it is NULL everywhere on one.
fn common_type(left: ColumnType, right: ColumnType) -> ColumnType {
    match (left.data_type, left.modifier == right.modifier) {
        (DataType::Unknown, _) => right,
        (_, true) => left,
        (data_type, false) => ColumnType::plain(data_type),
    }
}
