//! Texts of views that say what the view calls its columns: `CREATE VIEW v (x) AS SELECT a ...` is shown as `SELECT a AS x ...`, so that
//! a view that is made of the text has the same columns.

use super::labels::column_name;
use crate::catalog::{Table, View};
use crate::parser::syntax::{Source, fold, parse_statement, with_stack_for};
use crate::parser::with_tied_counts;
use crate::system_tables::quoted;
use sqlparser::ast;

/// The query of a view, with the view's columns.
pub(crate) fn view_text(view: &View) -> String {
    let columns: Vec<&str> = view.columns.iter().map(|(name, _)| name.as_str()).collect();
    with_output_names(&view.query.text, &view.name, &columns)
}

/// The same of a materialised view; `None` for a table.
pub(crate) fn materialised_text(table: &Table) -> Option<String> {
    let materialised = table.materialised.as_ref()?;
    let columns = table.columns.iter().filter(|column| !column.dropped);
    let columns: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    Some(with_output_names(&materialised.query.text, &table.name, &columns))
}

/// The text of a view's query with aliases for the columns that it names otherwise than the view does.
fn with_output_names(text: &str, view: &str, columns: &[&str]) -> String {
    let parsed = with_stack_for(text, || parse_statement(Source::new(text)));
    let Ok(ast::Statement::Query(mut query)) = parsed.map(|parsed| parsed.statement) else {
        return text.to_owned();
    };
    with_tied_counts(match name_columns(&mut query, columns) {
        Some(former) if former == columns => text.to_owned(),
        Some(_) => query.to_string(),
        None => around(text, view, columns),
    })
}

/// The text as a query in FROM, whose alias names the columns.
fn around(text: &str, view: &str, columns: &[&str]) -> String {
    let view = quoted(view);
    let names: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    let selected: Vec<String> = names.iter().map(|name| format!("{view}.{name}")).collect();
    format!(
        "SELECT {} FROM ({text}) AS {view} ({})",
        selected.join(", "),
        names.join(", ")
    )
}

/// Gives the columns of a query their names, and says what they were called. `None` if aliases cannot, or if a name elsewhere in the
/// query would mean something else beside them.
fn name_columns(query: &mut ast::Query, columns: &[&str]) -> Option<Vec<String>> {
    let former = match &mut *query.body {
        ast::SetExpr::Values(values) if !values.rows.is_empty() => {
            let numbers = 1..=columns.len();
            let former: Vec<String> = numbers.map(|number| format!("column{number}")).collect();
            (former == columns).then_some(former)
        }
        body => name_columns_of(body, columns),
    }?;
    if let Some(order_by) = &mut query.order_by {
        let ast::OrderByKind::Expressions(keys) = &mut order_by.kind else {
            return None;
        };
        let keys = keys.iter_mut().map(|key| &mut key.expr);
        by_places(keys, &former, columns)?;
    }
    Some(former)
}

fn name_columns_of(body: &mut ast::SetExpr, columns: &[&str]) -> Option<Vec<String>> {
    match body {
        ast::SetExpr::Select(select) => name_selected(select, columns),
        ast::SetExpr::Query(query) => name_columns(query, columns),
        // What stands first names the columns.
        ast::SetExpr::SetOperation { left, .. } => name_columns_of(left, columns),
        _ => None,
    }
}

fn name_selected(select: &mut ast::Select, columns: &[&str]) -> Option<Vec<String>> {
    let label = |item: &ast::SelectItem| match item {
        ast::SelectItem::UnnamedExpr(expr) => Some(column_name(expr)),
        ast::SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    };
    let former: Vec<String> = select.projection.iter().map(label).collect::<Option<_>>()?;
    if former.len() != columns.len() {
        return None;
    }
    if former == columns {
        return Some(former);
    }
    if let Some(ast::Distinct::On(keys)) = &mut select.distinct {
        by_places(keys.iter_mut(), &former, columns)?;
    }
    if groups_by_label(select, &former, columns) {
        return None;
    }
    for ((item, former), name) in select.projection.iter_mut().zip(&former).zip(columns) {
        if former == name {
            continue;
        }
        let alias = ast::Ident::new(quoted(name));
        match item {
            ast::SelectItem::UnnamedExpr(expr) => {
                let expr = expr.clone();
                *item = ast::SelectItem::ExprWithAlias { expr, alias };
            }
            ast::SelectItem::ExprWithAlias { alias: own, .. } => *own = alias,
            _ => return None,
        }
    }
    Some(former)
}

/// Keys that are names of columns shown become their numbers. `None` if one is the name of something else that a column shown is to have.
fn by_places<'k>(keys: impl Iterator<Item = &'k mut ast::Expr>, former: &[String], columns: &[&str]) -> Option<()> {
    for key in keys {
        let ast::Expr::Identifier(name) = &*key else { continue };
        let name = fold(name);
        let is_same = |place: &usize| columns.get(*place).is_some_and(|column| *column == name);
        match former.iter().position(|own| *own == name) {
            Some(place) if is_same(&place) => {}
            Some(place) => {
                let number = ast::Value::Number((place + 1).to_string(), false);
                *key = ast::Expr::Value(number.into());
            }
            None if columns.contains(&name.as_str()) => return None,
            None => {}
        }
    }
    Some(())
}

/// Whether GROUP BY may name an expression that is shown by the name that it loses.
fn groups_by_label(select: &ast::Select, former: &[String], columns: &[&str]) -> bool {
    let ast::GroupByExpr::Expressions(keys, _) = &select.group_by else {
        return true;
    };
    let mut items = select.projection.iter().zip(former).zip(columns);
    items.any(|((item, former), name)| {
        let is_column = matches!(item, ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(_)));
        let mut keys = keys.iter();
        let is_key = |key: &ast::Expr| match key {
            ast::Expr::Identifier(name) => fold(name) == *former,
            // Of sets and lists it is not asked which names are in them.
            ast::Expr::GroupingSets(_) | ast::Expr::Cube(_) | ast::Expr::Rollup(_) | ast::Expr::Tuple(_) => true,
            _ => false,
        };
        former != name && !is_column && keys.any(is_key)
    })
}

#[cfg(test)]
mod tests {
    use super::with_output_names;

    #[test]
    fn what_is_selected_has_the_names_of_the_view() {
        for (text, columns, wanted) in [
            ("SELECT a, b AS c FROM t", ["a", "c"], "SELECT a, b AS c FROM t"),
            ("SELECT a, b FROM t", ["X y", "b"], "SELECT a AS \"X y\", b FROM t"),
            (
                "SELECT a, upper(b) FROM t ORDER BY upper, a DESC",
                ["a", "x"],
                "SELECT a, upper(b) AS x FROM t ORDER BY 2, a DESC",
            ),
            (
                "SELECT DISTINCT ON (a) a, b AS c FROM t",
                ["c", "a"],
                "SELECT DISTINCT ON (1) a AS c, b AS a FROM t",
            ),
            (
                "SELECT a, b FROM t GROUP BY a, b",
                ["x", "y"],
                "SELECT a AS x, b AS y FROM t GROUP BY a, b",
            ),
            (
                "SELECT a, -b AS z FROM t GROUP BY a, z",
                ["x", "y"],
                "SELECT v.x, v.y FROM (SELECT a, -b AS z FROM t GROUP BY a, z) AS v (x, y)",
            ),
            (
                "SELECT a, b FROM t ORDER BY c",
                ["a", "c"],
                "SELECT v.a, v.c FROM (SELECT a, b FROM t ORDER BY c) AS v (a, c)",
            ),
            (
                "(SELECT a, b FROM t ORDER BY b LIMIT 1) UNION SELECT 1, 2 ORDER BY a",
                ["x", "y"],
                "(SELECT a AS x, b AS y FROM t ORDER BY 2 LIMIT 1) UNION SELECT 1, 2 ORDER BY 1",
            ),
            (
                "VALUES (1, 2)",
                ["column1", "c"],
                "SELECT v.column1, v.c FROM (VALUES (1, 2)) AS v (column1, c)",
            ),
        ] {
            assert_eq!(with_output_names(text, "v", &columns), wanted);
        }
    }
}
