//! Names that change beneath a view: its text is written anew, so that it says what it said.
//!
//! The text is bound once more, and where each name stands in it is noted together with what it means. The names that change are
//! replaced there; then the result is bound, and has to mean the same name by name. Where a new name would be taken for something else,
//! or would become another column's of a join, the former one is kept as an alias.

use super::expression::ExpressionBinder;
use super::labels::column_name;
use super::named_literals::renamed_literals;
use super::scope::{Found, Scope};
use super::stored_text::{meanings, noted};
use super::{Context, SearchPath};
use crate::catalog::{Catalog, RelationName, SchemaId, Table, ViewQuery};
use crate::parser::lexer::{Lexer, Token, TokenKind};
use crate::parser::syntax::{Source, fold, parse_statement};
use crate::system_tables::quoted;
use rubato_base::{ColumnType, Error};
use sqlparser::ast;
use sqlparser::tokenizer::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is called otherwise.
pub(crate) enum Renaming<'a> {
    /// A relation has another name, or is in another schema.
    Relation {
        from: &'a RelationName,
        to: &'a RelationName,
    },
    /// A column of a relation has another name.
    Column {
        relation: &'a RelationName,
        column: usize,
        from: &'a str,
        to: &'a str,
    },
    /// A schema has another name.
    Schema { schema: SchemaId, to: &'a str },
    /// A relation has more columns, behind the others: a name that meant something else before could mean one of them.
    NewColumns {
        relation: &'a RelationName,
        names: &'a [String],
    },
    /// A relation has a column less: aliases name the others.
    DropColumn { relation: &'a RelationName, column: usize },
}

impl Renaming<'_> {
    /// What the relation is known by afterwards.
    fn key(&self, key: &RelationName) -> RelationName {
        match self {
            Renaming::Relation { from, to } if *from == key => (*to).clone(),
            _ => key.clone(),
        }
    }

    /// Whether columns behind others have other numbers afterwards, and a text that cannot be read stays as it is.
    fn moves_columns(&self) -> bool {
        matches!(self, Renaming::NewColumns { .. } | Renaming::DropColumn { .. })
    }
}

/// What the names in a text mean, by the places where they begin.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<usize, Named>);

/// The bytes of a part of a name.
pub(crate) type Place = (usize, usize);

#[derive(Debug)]
enum Named {
    /// A relation in FROM.
    Relation {
        parts: Vec<Place>,
        key: RelationName,
        /// The alias, and the columns that it names.
        alias: Option<(Place, Vec<Place>)>,
    },
    /// A column of one.
    Column {
        parts: Vec<Place>,
        /// The relation, the column there, and whether it is called by its own name.
        origin: Option<(RelationName, usize, bool)>,
        /// How many queries further out, and its number there.
        level: usize,
        global: usize,
    },
}

impl Context<'_> {
    fn place(&self, span: Span) -> Option<Place> {
        Some((self.places().offset(span.start)?, self.places().offset(span.end)?))
    }

    fn places_of(&self, names: &[ast::Ident]) -> Option<Vec<Place>> {
        names.iter().map(|name| self.place(name.span)).collect()
    }

    /// Whether names are noted: those of the text itself, not of views that it reads.
    fn notes_names(&self) -> bool {
        self.names_meant.is_some() && self.views.borrow().len() < 2
    }

    /// Notes what a relation in FROM is.
    pub(super) fn note_relation(&self, name: &ast::ObjectName, alias: Option<&ast::TableAlias>, key: &RelationName) {
        let Some(meant) = self.names_meant.as_ref().filter(|_| self.notes_names()) else {
            return;
        };
        let idents: Vec<ast::Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
        let alias = alias.and_then(|alias| {
            let columns: Vec<ast::Ident> = alias.columns.iter().map(|column| column.name.clone()).collect();
            Some((self.place(alias.name.span)?, self.places_of(&columns)?))
        });
        if let Some(parts) = self.places_of(&idents)
            && let Some((start, _)) = parts.first().copied()
        {
            let key = key.clone();
            meant
                .borrow_mut()
                .0
                .insert(start, Named::Relation { parts, key, alias });
        }
    }

    /// Notes what a column is, of the query that is bound or of one around it.
    pub(super) fn note_named(&self, names: &[ast::Ident], level: usize, scope: &Scope, found: Found) {
        let Some(meant) = self.names_meant.as_ref().filter(|_| self.notes_names()) else {
            return;
        };
        let origin = scope.column(found.global).and_then(|(relation, column)| {
            let key = relation.origin.clone()?;
            Some((key, column, relation.schema.is_some()))
        });
        if let Some(parts) = self.places_of(names)
            && let Some((start, _)) = parts.first().copied()
        {
            let named = Named::Column {
                parts,
                origin,
                level,
                global: found.global,
            };
            meant.borrow_mut().0.insert(start, named);
        }
    }
}

impl Names {
    /// Whether every name means what it meant before.
    fn mean_the_same(&self, before: &Names, renaming: &Renaming<'_>) -> bool {
        let counts = !renaming.moves_columns();
        let is_same = |(own, before): (&Named, &Named)| match (own, before) {
            (Named::Relation { key, .. }, Named::Relation { key: former, .. }) => *key == renaming.key(former),
            (
                Named::Column {
                    origin, level, global, ..
                },
                Named::Column {
                    origin: former,
                    level: former_level,
                    global: former_global,
                    ..
                },
            ) => {
                let own = origin.as_ref().map(|(key, column, _)| (key.clone(), *column));
                let former = former.as_ref().map(|(key, column, _)| (renaming.key(key), *column));
                (own, level) == (former, former_level) && (!counts || global == former_global)
            }
            _ => false,
        };
        self.0.len() == before.0.len() && self.0.values().zip(before.0.values()).all(is_same)
    }
}

/// The query of a view after something has another name; `before` and `after` are the catalogs. `None` if no text can say it.
pub(crate) fn renamed_query(
    query: &ViewQuery,
    (before, after): (&Catalog, &Catalog),
    renaming: &Renaming<'_>,
) -> Option<ViewQuery> {
    let meant = meanings(before, query);
    if meant.is_err() && renaming.moves_columns() {
        return Some(query.clone());
    }
    let (names, types) = meant.ok()?;
    let mut renamed = query.clone();
    for dependency in &mut renamed.depends {
        dependency.relation = renaming.key(&dependency.relation);
    }
    for way in [Way::Names, Way::Qualified, Way::Aliases] {
        let Some(edits) = edits(query, (before, after), &names, renaming, way) else {
            continue;
        };
        let literals = renamed_literals(query, (before, after), renaming);
        renamed.text = edited(&query.text, 0, &[edits, literals].concat());
        let same =
            |(own, own_types): (Names, Vec<ColumnType>)| own_types == types && own.mean_the_same(&names, renaming);
        if meanings(after, &renamed).is_ok_and(same) {
            return Some(renamed);
        }
    }
    // What reads the column goes with it, or is in the way by itself.
    matches!(renaming, Renaming::DropColumn { .. }).then(|| query.clone())
}

/// The text of a view's query without the database that names in it begin with: it may come to be called otherwise.
pub(super) fn without_database(query: &ViewQuery, catalog: &Catalog) -> String {
    let Ok((names, _)) = meanings(catalog, query) else {
        return query.text.clone();
    };
    let first_of = |named: &Named| match named {
        Named::Relation { parts, .. } if parts.len() == 3 => Some((parts[0].0, parts[1].0)),
        Named::Column { parts, .. } if parts.len() == 4 => Some((parts[0].0, parts[1].0)),
        _ => None,
    };
    let edits = names.0.values().filter_map(first_of);
    let edits: Vec<Edit> = edits.map(|place| (place, String::new())).collect();
    edited(&query.text, 0, &edits)
}

/// The text of a CHECK of a table after a column has another name, or the table.
pub(crate) fn renamed_check(
    text: &str,
    table: &Arc<Table>,
    catalog: &Catalog,
    renaming: &Renaming<'_>,
) -> Option<String> {
    const BEFORE: &str = "SELECT ";
    let query = ViewQuery {
        text: format!("{BEFORE}{text}"),
        depends: Vec::new(),
        path: SearchPath::default().resolve(catalog).searched.to_vec(),
    };
    let names = noted(catalog, &query, |context, query| {
        let ast::SetExpr::Select(select) = &*query.body else {
            return Err(Error::internal("a check that is no expression"));
        };
        let scope = Scope::of_table(table, &table.name);
        let binder = ExpressionBinder::new(context, &scope, "CHECK");
        for item in &select.projection {
            if let ast::SelectItem::UnnamedExpr(expr) = item {
                binder.bind(expr)?;
            }
        }
        Ok(())
    });
    let (names, ()) = names.ok()?;
    let mut edits = Vec::new();
    for named in names.0.values() {
        let Named::Column { parts, origin, .. } = named else {
            continue;
        };
        let Some((_, own, _)) = origin else { continue };
        match (renaming, parts.as_slice()) {
            (Renaming::Column { column, to, .. }, [.., last]) if own == column => edits.push((*last, quoted(to))),
            (Renaming::Relation { to, .. }, [.., name, _]) => edits.push((*name, quoted(&to.name))),
            _ => {}
        }
    }
    let renamed = edited(&query.text, 0, &edits);
    Some(renamed[BEFORE.len()..].to_owned())
}

/// How a text is written anew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The new name where the former one stood.
    Names,
    /// The same, a relation's with its schema.
    Qualified,
    /// The former name as an alias.
    Aliases,
}

/// What is put in the place of what.
type Edit = (Place, String);

/// The changes of a text; `None` if it cannot be written in this way.
fn edits(
    query: &ViewQuery,
    (before, after): (&Catalog, &Catalog),
    names: &Names,
    renaming: &Renaming<'_>,
    way: Way,
) -> Option<Vec<Edit>> {
    match renaming {
        Renaming::Schema { schema, to } => Some(of_schema(names, *schema, &quoted(to))),
        Renaming::Relation { from, to } => Some(of_relation(names, from, to, after, way)),
        Renaming::Column {
            relation,
            column,
            from,
            to,
        } => match way {
            Way::Names => of_column(&query.text, names, (relation, *column), (from, to)),
            Way::Qualified => None,
            Way::Aliases => {
                let columns = columns_of(before, relation);
                let place = columns.iter().position(|(number, _)| number == column)?;
                let listed = columns.iter().map(|(_, name)| quoted(name)).collect();
                Some(with_columns(names, relation, place, |_| Vec::clone(&listed)))
            }
        },
        Renaming::DropColumn { relation, column } => {
            let columns = columns_of(before, relation);
            let place = columns.iter().position(|(number, _)| number == column)?;
            (way == Way::Names).then(|| without_column(&query.text, names, relation, place))
        }
        Renaming::NewColumns { relation, names: added } => match way {
            // Which columns NATURAL joins by no name in the text says.
            Way::Names => {
                let mut tokens = tokens_of(&query.text).into_iter();
                let is_natural = tokens.any(|token| token.is(&query.text, "natural"));
                (!is_natural).then(Vec::new)
            }
            Way::Qualified => None,
            Way::Aliases => {
                let columns = columns_of(before, relation);
                // They are called there as nothing else is.
                let listed = |start: usize| {
                    let own = columns.iter().map(|(_, name)| quoted(name));
                    let hidden = added.iter().map(|name| quoted(&format!("{name}@{start}")));
                    own.chain(hidden).collect()
                };
                Some(with_columns(names, relation, columns.len() + added.len() - 1, listed))
            }
        },
    }
}

fn of_schema(names: &Names, schema: SchemaId, to: &str) -> Vec<Edit> {
    let place = |named: &Named| match named {
        Named::Relation { parts, key, .. } if key.schema == schema => parts.len().checked_sub(2).map(|it| parts[it]),
        Named::Column {
            parts,
            origin: Some((key, _, true)),
            ..
        } if key.schema == schema => parts.len().checked_sub(3).map(|it| parts[it]),
        _ => None,
    };
    let places = names.0.values().filter_map(place);
    places.map(|place| (place, to.to_owned())).collect()
}

fn of_relation(names: &Names, from: &RelationName, to: &RelationName, after: &Catalog, way: Way) -> Vec<Edit> {
    let schema = quoted(&after.schema_name(to.schema));
    let name = quoted(&to.name);
    let keeps_name = way == Way::Aliases;
    let mut edits = Vec::new();
    for named in names.0.values() {
        match named {
            Named::Relation { parts, key, alias } if key == from => {
                let is_qualified = parts.len() > 1 || way != Way::Names;
                let mut written = match is_qualified {
                    true => format!("{schema}.{name}"),
                    false => name.clone(),
                };
                if keeps_name && alias.is_none() {
                    written.push_str(&format!(" AS {}", quoted(&from.name)));
                }
                edits.extend(whole(parts).map(|place| (place, written)));
            }
            Named::Column {
                parts,
                origin: Some((key, _, true)),
                ..
            } if key == from => match parts.as_slice() {
                [own, _] if !keeps_name => edits.push((*own, name.clone())),
                [first, own, _] if keeps_name => edits.push(((first.0, own.0), String::new())),
                [first, own, _] => edits.push(((first.0, own.1), format!("{schema}.{name}"))),
                _ => {}
            },
            _ => {}
        }
    }
    edits
}

fn whole(parts: &[Place]) -> Option<Place> {
    Some((parts.first()?.0, parts.last()?.1))
}

/// The column's new name; what it named is named as before. `None` where its name joins relations.
fn of_column(
    text: &str,
    names: &Names,
    (relation, column): (&RelationName, usize),
    (from, to): (&str, &str),
) -> Option<Vec<Edit>> {
    let tokens = tokens_of(text);
    if tokens
        .iter()
        .any(|token| token.is(text, "natural") || token.is(text, "using"))
    {
        return None;
    }
    let mut edits: Vec<Edit> = Vec::new();
    for named in names.0.values() {
        match named {
            Named::Relation { key, alias, .. } if key == relation => {
                let names_columns = alias.as_ref().is_some_and(|(_, columns)| !columns.is_empty());
                if names_columns {
                    return None;
                }
            }
            Named::Column {
                parts,
                origin: Some((key, own, _)),
                ..
            } if key == relation && *own == column => {
                let last = parts.last().filter(|last| name_at(text, **last) == from);
                edits.extend(last.map(|last| (*last, quoted(to))));
            }
            _ => {}
        }
    }
    let labels: Vec<Edit> = selected(text, &tokens)
        .into_iter()
        .filter_map(|item| kept_label(text, item, &edits))
        .collect();
    edits.extend(labels);
    Some(edits)
}

/// The alias of a selected item that would have another name.
fn kept_label(text: &str, (start, end): Place, edits: &[Edit]) -> Option<Edit> {
    let inside: Vec<Edit> = edits
        .iter()
        .filter(|(place, _)| start <= place.0 && place.1 <= end)
        .cloned()
        .collect();
    if inside.is_empty() {
        return None;
    }
    let label = label_of(&text[start..end])?;
    let renamed = edited(&text[start..end], start, &inside);
    (label_of(&renamed)? != label).then(|| ((end, end), format!(" AS {}", quoted(&label))))
}

/// What a selected expression names its column; `None` if it has an alias.
fn label_of(item: &str) -> Option<String> {
    let text = format!("SELECT {item}");
    let parsed = parse_statement(Source::new(&text)).ok()?;
    let ast::Statement::Query(query) = &parsed.statement else {
        return None;
    };
    match &*query.body {
        ast::SetExpr::Select(select) => match select.projection.as_slice() {
            [ast::SelectItem::UnnamedExpr(expr)] => Some(column_name(expr)),
            _ => None,
        },
        _ => None,
    }
}

/// Lists of the columns' names behind the relations, as `listed` gives them for one that begins at a byte, up to the one at `place` at least.
fn with_columns(
    names: &Names,
    relation: &RelationName,
    place: usize,
    listed: impl Fn(usize) -> Vec<String>,
) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (start, named) in &names.0 {
        let listed = listed(*start);
        match named {
            Named::Relation { parts, key, alias } if key == relation => match alias {
                None => {
                    let added = format!(" AS {} ({})", quoted(&key.name), listed.join(", "));
                    edits.extend(parts.last().map(|(_, end)| ((*end, *end), added)));
                }
                Some((name, named)) => {
                    let end = named.last().map_or(name.1, |last| last.1);
                    if named.is_empty() {
                        edits.push(((end, end), format!(" ({})", listed.join(", "))));
                    } else if named.len() <= place {
                        edits.push(((end, end), format!(", {}", listed[named.len()..].join(", "))));
                    }
                }
            },
            Named::Column {
                parts,
                origin: Some((key, _, true)),
                ..
            } if key == relation => {
                if let [first, own, _] = parts.as_slice() {
                    edits.push(((first.0, own.0), String::new()));
                }
            }
            _ => {}
        }
    }
    edits
}

/// Lists of columns' names behind the relations without the one at a place.
fn without_column(text: &str, names: &Names, relation: &RelationName, place: usize) -> Vec<Edit> {
    let mut edits = Vec::new();
    for named in names.0.values() {
        let Named::Relation {
            key,
            alias: Some((name, named)),
            ..
        } = named
        else {
            continue;
        };
        let Some(own) = named.get(place).filter(|_| key == relation) else {
            continue;
        };
        let behind = named.get(place + 1).map(|next| (own.0, next.0));
        let before = || Some((named.get(place.checked_sub(1)?)?.1, own.1));
        let brackets = || Some((name.1, own.1 + text[own.1..].find(')')? + 1));
        edits.extend(
            behind
                .or_else(before)
                .or_else(brackets)
                .map(|range| (range, String::new())),
        );
    }
    edits
}

/// The columns of a table or view that can be seen, with their numbers.
fn columns_of(catalog: &Catalog, relation: &RelationName) -> Vec<(usize, String)> {
    if let Some(table) = catalog.tables.get(relation) {
        let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.dropped);
        return columns.map(|(number, column)| (number, column.name.clone())).collect();
    }
    let view = catalog.views.get(relation);
    let columns = view.map_or(&[][..], |view| &view.columns).iter().enumerate();
    columns.map(|(number, (name, _))| (number, name.clone())).collect()
}

/// A text, that begins at a byte of a larger one, with changes of the larger one.
fn edited(text: &str, start: usize, edits: &[Edit]) -> String {
    let mut ordered: Vec<&Edit> = edits.iter().collect();
    ordered.sort_by_key(|(place, _)| *place);
    let mut out = String::with_capacity(text.len() + 32);
    let mut written = 0;
    for ((from, to), new) in ordered {
        let (from, to) = (from - start, to - start);
        if from < written {
            continue;
        }
        out.push_str(&text[written..from]);
        out.push_str(new);
        written = to;
    }
    out.push_str(&text[written..]);
    out
}

fn name_at(text: &str, (start, end): Place) -> String {
    let written = &text[start..end];
    match written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => fold(&ast::Ident::new(written)),
    }
}

fn tokens_of(text: &str) -> Vec<Token> {
    let mut lexer = Lexer::new(text);
    std::iter::from_fn(move || lexer.next_token().ok().flatten()).collect()
}

/// What ends a list of selected expressions, beside FROM.
const ENDS: [&str; 12] = [
    "where",
    "group",
    "having",
    "window",
    "union",
    "intersect",
    "except",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
];

/// Where the expressions that queries select stand, also those of queries within.
fn selected(text: &str, tokens: &[Token]) -> Vec<Place> {
    let mut items = Vec::new();
    // For each open bracket, where the expression begins that is being selected there.
    let mut open: Vec<Option<usize>> = vec![None];
    let mut end = 0;
    for (place, token) in tokens.iter().enumerate() {
        let is = |word: &str| token.is(text, word);
        let before = place.checked_sub(1).map(|before| &tokens[before]);
        let Some(current) = open.last_mut() else { break };
        let ends = ENDS.into_iter().any(is)
            || (is("from") && !before.is_some_and(|before| before.is(text, "distinct")))
            || matches!(token.kind, TokenKind::Symbol(b',' | b')' | b']'));
        if ends && let Some(start) = *current {
            items.push((start, end));
            *current = None;
            if token.kind == TokenKind::Symbol(b',') {
                *current = tokens.get(place + 1).map(|next| next.start);
            }
        }
        let begins = is("select") || (is("all") && before.is_some_and(|before| before.is(text, "select")));
        if begins {
            *current = tokens.get(place + 1).map(|next| next.start);
        }
        match token.kind {
            TokenKind::Symbol(b'(' | b'[') => open.push(None),
            TokenKind::Symbol(b')' | b']') if open.len() > 1 => drop(open.pop()),
            _ => {}
        }
        end = token.end;
    }
    let last = open.first().copied().flatten();
    items.extend(last.map(|start| (start, end)));
    items
}

#[cfg(test)]
mod tests {
    use super::{selected, tokens_of};

    #[test]
    fn selected_expressions_are_found() {
        for (text, wanted) in [
            ("SELECT a, b + f(c, d) AS x FROM t", vec!["a", "b + f(c, d) AS x"]),
            (
                "SELECT (SELECT a FROM u), b IS DISTINCT FROM c, extract(year FROM d) FROM t WHERE x IN (SELECT e FROM v) ORDER BY f, g",
                vec![
                    "a",
                    "(SELECT a FROM u)",
                    "b IS DISTINCT FROM c",
                    "extract(year FROM d)",
                    "e",
                ],
            ),
            (
                "SELECT a UNION ALL SELECT ARRAY[b, c] LIMIT 1",
                vec!["a", "ARRAY[b, c]"],
            ),
        ] {
            let found: Vec<&str> = selected(text, &tokens_of(text))
                .into_iter()
                .map(|(start, end)| &text[start..end])
                .collect();
            assert_eq!(found, wanted, "{text}");
        }
    }
}
