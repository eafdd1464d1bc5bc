//! `pg_catalog` and `information_schema`, made from a catalog version, and the views of what happens now (schema `rubato`).
//!
//! Which tables there are, and their columns, is recorded from PostgreSQL (`registry`); a `Source` makes the rows of one, saying as
//! many columns as it has something to say about. Others hold what they hold in PostgreSQL where there is nothing to tell, and a table
//! without a source is empty. Rows are made when they are first asked for, in slices, and belong to the catalog's version (`made`).

mod classes;
mod columns;
mod constraints;
mod databases;
mod definitions;
mod described;
mod domains;
mod enums;
mod extension;
mod functions;
mod index_properties;
mod information;
mod keywords;
mod live;
mod made;
mod names;
mod objects;
mod operators;
mod qualified;
mod registry;
mod schema_views;
mod singles;
mod values;

pub(crate) use databases::shared_function;
pub(crate) use definitions::quoted;
pub use functions::call;
pub use made::MadeRows;
pub(crate) use made::{Made, Making, TableRows};
pub(crate) use names::{ObjectKind, told_type};
pub(crate) use registry::{by_full_name, find, function, has_number};

use crate::binder::{Hidden, ResolvedPath, ScopeColumn};
use crate::catalog::{Catalog, KeyExpression, RelationName, SYSTEM_SCHEMAS, SchemaId, Sequence, Table};
use crate::databases::Databases;
use crate::insight::{Insight, NodeFacts, SessionFacts};
use rubato_base::{Array, ColumnType, DataType, NodeId, Result, SessionId, Value};
use rubato_formula::Environment;
use rubato_protocol::FormulaDatabase;
use rubato_stages::StageMetrics;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The oid of the role that owns everything: whoever looks.
const OWNER: u32 = 10;
/// The oid of the role `pg_database_owner`, to which `public` belongs.
const DATABASE_OWNER: u32 = 6171;

/// A system table.
pub(crate) struct SystemTable {
    /// Its schema.
    pub schema: &'static str,
    /// Its name with the schema.
    pub name: &'static str,
    /// PostgreSQL's number of it, where it has one.
    pub oid: u32,
    /// Whether PostgreSQL has it as a view.
    pub is_view: bool,
    /// Its columns.
    pub columns: Vec<SystemColumn>,
    content: Content,
}

/// A column of a system table.
#[derive(Clone)]
pub(crate) struct SystemColumn {
    /// The name.
    pub name: &'static str,
    /// The type; the modifier of an `oid` tells what it is the number of ([`ObjectKind`]).
    pub column_type: ColumnType,
    /// What it holds where nothing is said.
    default: Value,
}

/// Where the rows come from.
enum Content {
    /// From the catalog, none if there is no source.
    Catalog(Option<Source>),
    /// From the session that asks, and the catalog that it sees.
    Session(fn(&Catalog, &dyn Environment) -> Result<Vec<Vec<Value>>>),
    /// From what happens now.
    Live(fn(&Live<'_>) -> Vec<Vec<Value>>),
}

/// What makes the rows of a system table: those of each table of the users, and the others.
#[derive(Clone, Copy)]
struct Source {
    /// The table, with its schema.
    name: &'static str,
    /// What the values of a row stand for, in order.
    columns: &'static [&'static str],
    of_table: fn(&View<'_>, &Table) -> Vec<Vec<Value>>,
    others: fn(&View<'_>) -> Vec<Vec<Value>>,
}

/// Nothing for each table.
fn none_of_table(_: &View<'_>, _: &Table) -> Vec<Vec<Value>> {
    Vec::new()
}

/// Nothing beside what there is for each table.
fn no_others(_: &View<'_>) -> Vec<Vec<Value>> {
    Vec::new()
}

/// What rows are made of: a catalog as one session sees it.
pub struct View<'a> {
    /// The catalog.
    pub catalog: &'a Catalog,
    /// The database that the session says it is in.
    pub database: &'a str,
    /// Its user.
    pub user: &'a str,
    /// Where it looks for names without a schema.
    pub path: &'a ResolvedPath,
}

impl View<'_> {
    /// The name of a schema.
    fn schema_name(&self, schema: SchemaId) -> Value {
        text(&self.catalog.schema_name(schema))
    }

    /// A relation as it must be written for this session to find it.
    fn written(&self, relation: &RelationName) -> String {
        self.path.written(relation, self.catalog)
    }
}

impl View<'_> {
    /// A definition with the names of the users' types and labels.
    fn named(&self, text: String) -> String {
        self.path.named(text, self.catalog)
    }
}

/// A relation with its schema.
pub(crate) fn written_with_schema(catalog: &Catalog, relation: &RelationName) -> String {
    format!(
        "{}.{}",
        quoted(&catalog.schema_name(relation.schema)),
        quoted(&relation.name)
    )
}

impl SystemTable {
    /// The name without the schema.
    pub fn short_name(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, name)| name)
    }

    /// The columns as names see them; behind them stands `tableoid`.
    pub fn scope_columns(&self) -> Vec<ScopeColumn> {
        let column = |column: &SystemColumn| ScopeColumn {
            name: column.name.to_owned(),
            column_type: column.column_type,
            hidden: Hidden::No,
        };
        let own = ScopeColumn {
            name: "tableoid".to_owned(),
            column_type: ColumnType::plain(DataType::Oid),
            hidden: Hidden::System,
        };
        self.columns.iter().map(column).chain([own]).collect()
    }

    /// Its schema.
    pub fn schema_id(&self) -> SchemaId {
        let own = SYSTEM_SCHEMAS.iter().find(|(_, name)| *name == self.schema);
        own.map_or(SchemaId::INFORMATION_SCHEMA, |(id, _)| *id)
    }

    /// The rows of a table that tells what happens now; `None` for one that is made of the catalog.
    pub fn live_rows(
        &self,
        catalog: &Catalog,
        database: &FormulaDatabase,
        insight: &Insight,
        (environment, now_us): (&dyn Environment, i64),
    ) -> Result<Option<Vec<Vec<Value>>>> {
        let rows = match &self.content {
            Content::Catalog(_) => return Ok(None),
            Content::Session(rows) => return rows(catalog, environment).map(Some),
            Content::Live(rows) => rows,
        };
        let live = Live {
            catalog,
            database,
            sessions: insight.sessions(),
            databases: insight.databases(),
            stages: insight.stages(),
            nodes: insight.nodes(),
            insight,
            counters: insight.counters(),
            elsewhere: insight.elsewhere(),
            now_us,
        };
        let mut rows = rows(&live);
        let own = OF_ALL_NODES.iter().position(|view| *view == self.name);
        let elsewhere = live
            .elsewhere
            .iter()
            .filter(|(view, _)| own == Some(usize::from(*view)));
        for (_, row) in elsewhere {
            match self.name == COUNTED_TOGETHER {
                true => count_in(&mut rows, row),
                false => rows.push(row.clone()),
            }
        }
        Ok(Some(rows))
    }
}

/// The views that show what is so on all nodes of a grid. The number of one is its place here: nodes tell each other rows with it.
pub(crate) const OF_ALL_NODES: [&str; 6] = [
    "pg_catalog.pg_stat_activity",
    "pg_catalog.pg_locks",
    "rubato.hot_items",
    "rubato.waits",
    COUNTED_TOGETHER,
    "rubato.stages",
];

/// The one of them whose rows are a name and a count: those of all nodes are one.
const COUNTED_TOGETHER: &str = "rubato.aborts";

/// Adds the count of another node's row to the row of that name.
fn count_in(rows: &mut [Vec<Value>], other: &[Value]) {
    let own = rows.iter_mut().find(|row| row.first() == other.first());
    if let (Some(Value::Int8(count)), Some(Value::Int8(more))) = (own.and_then(|row| row.get_mut(1)), other.get(1)) {
        *count = count.saturating_add(*more);
    }
}

/// The bit of `pg_stat_activity` among these.
pub(crate) const ACTIVITY: u8 = 1;

/// Whose sessions are in a database, by rows of `pg_stat_activity`: their numbers as clients know them.
pub(crate) fn backends_in(rows: &[(u8, Vec<Value>)], database: &str) -> Vec<i32> {
    let sessions = rows.iter().filter(|(view, _)| 1 << view == ACTIVITY);
    let inside = sessions.filter_map(|(_, row)| match &row[..] {
        [_, Value::Text(name), Value::Int4(backend_id), ..] if name == database => Some(*backend_id),
        _ => None,
    });
    inside.collect()
}

/// What is so on this node, as those of these views (a bit for each) show it with the names of a catalog: rows, each with the number of
/// its view.
pub fn rows_here(
    views: u8,
    (catalog, database, insight): (&Catalog, &FormulaDatabase, &Insight),
    now_us: i64,
) -> Vec<(u8, Vec<Value>)> {
    let live = Live {
        catalog,
        database,
        sessions: insight.sessions(),
        databases: insight.databases(),
        stages: insight.stages(),
        nodes: insight.nodes(),
        insight,
        counters: Vec::new(),
        elsewhere: Arc::default(),
        now_us,
    };
    let mut told = Vec::new();
    for (number, name) in (0..).zip(OF_ALL_NODES).filter(|(number, _)| views & (1 << number) != 0) {
        let rows = live::rows_of(name).map(|rows| rows(&live)).unwrap_or_default();
        told.extend(rows.into_iter().map(|row| (number, row)));
    }
    told
}

/// What is asked of other nodes like such a view: of which nodes' transactions they have branches whose outcome they do not know.
pub const IN_DOUBT: u8 = 1 << IN_DOUBT_NUMBER;
const IN_DOUBT_NUMBER: u8 = 7;

/// A node's word on transactions whose outcome is not known.
pub struct InDoubt {
    /// The node that says so.
    pub node: NodeId,
    /// Whose transaction it is; `None` says that the node has said all.
    pub coordinator: Option<NodeId>,
    /// One of them.
    pub example: String,
}

impl InDoubt {
    /// As a row of a view.
    pub fn row(self) -> (u8, Vec<Value>) {
        let number = |node: NodeId| Value::Int8(node.0.into());
        let coordinator = self.coordinator.map_or(Value::Null, number);
        let row = vec![number(self.node), coordinator, Value::text(&self.example)];
        (IN_DOUBT_NUMBER, row)
    }
}

/// Rows of [`InDoubt`].
pub(crate) fn in_doubt_of(rows: &[(u8, Vec<Value>)]) -> Vec<InDoubt> {
    let node = |number: &i64| NodeId(u32::try_from(*number).unwrap_or(u32::MAX));
    let said = rows.iter().filter(|(view, _)| *view == IN_DOUBT_NUMBER);
    let said = said.filter_map(|(_, row)| match &row[..] {
        [Value::Int8(of), coordinator, Value::Text(example)] => Some(InDoubt {
            node: node(of),
            coordinator: match coordinator {
                Value::Int8(coordinator) => Some(node(coordinator)),
                _ => None,
            },
            example: example.to_string(),
        }),
        _ => None,
    });
    said.collect()
}

/// The sequence with this number.
pub(crate) fn sequence_by_number(catalog: &Catalog, number: i64) -> Option<&Arc<Sequence>> {
    match catalog.made.object(catalog, number)? {
        objects::Object::Sequence(sequence) => Some(sequence),
        _ => None,
    }
}

/// What views of the moment look into.
struct Live<'a> {
    catalog: &'a Catalog,
    database: &'a FormulaDatabase,
    sessions: BTreeMap<SessionId, Arc<SessionFacts>>,
    databases: Arc<Databases>,
    stages: Vec<Arc<StageMetrics>>,
    nodes: Arc<[NodeFacts]>,
    insight: &'a Insight,
    counters: Vec<(&'static str, i64)>,
    /// What is so on other nodes.
    elsewhere: Arc<[(u8, Vec<Value>)]>,
    /// In microseconds since 2000-01-01 UTC.
    now_us: i64,
}

fn oid(number: u32) -> Value {
    Value::Int8(i64::from(number))
}

fn text(text: &str) -> Value {
    Value::text(text)
}

fn int2(number: usize) -> Value {
    Value::Int2(i16::try_from(number).unwrap_or(i16::MAX))
}

fn int4(number: i64) -> Value {
    Value::Int4(i32::try_from(number).unwrap_or(i32::MAX))
}

/// One of the catalog's vectors, which count from 0.
fn vector(element: DataType, items: Vec<Value>) -> Value {
    Value::Array(Arc::new(Array::vector(element, items)))
}

/// The numbers of columns, which count from 1.
fn column_numbers(columns: &[usize]) -> Vec<Value> {
    // What is no column of the table has the number 0.
    let number = |column: usize| if column < KeyExpression::FIRST { column + 1 } else { 0 };
    columns.iter().map(|column| int2(number(*column))).collect()
}

/// The number of a type's collation, 0 if it has none.
fn collation(data_type: DataType) -> u32 {
    match data_type.element().unwrap_or(data_type) {
        DataType::Name => 950,
        own if own.is_text() => 100,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Catalog {
        crate::binder::tests_support::catalog_of(&[
            "create table parent (id serial primary key, name varchar(10) not null unique, at timestamptz default now())",
            "create table child (a int, b numeric(12,2) check (b > 0), p int references parent on delete cascade, unique (a, b))",
            "create index child_p on child (p)",
            "create table plain (x text)",
            "create sequence loose",
            "create view seen as select name, id from parent",
        ])
    }

    #[test]
    fn every_row_has_every_column_of_its_type() {
        let catalog = sample();
        let view = View {
            catalog: &catalog,
            database: "rubato",
            user: "somebody",
            path: &ResolvedPath::default(),
        };
        let mut seen = 0;
        for table in registry::tables() {
            for row in made::all_rows(table, &view) {
                assert_eq!(row.len(), table.columns.len() + 1, "{}", table.name);
                for (value, column) in row.iter().zip(&table.columns) {
                    let data_type = column.column_type.data_type;
                    let fits = match value {
                        Value::Null => true,
                        Value::Int8(_) => matches!(data_type, DataType::Int8 | DataType::Oid),
                        Value::Text(_) => data_type.is_text(),
                        Value::Array(array) => data_type.element() == Some(array.element),
                        other => other.data_type() == data_type,
                    };
                    assert!(fits, "{}.{}: {value:?} is no {data_type}", table.name, column.name);
                    seen += 1;
                }
            }
        }
        assert!(seen > 20_000, "{seen}");
    }

    /// A schema change may come between two parts of what is made of one version.
    #[test]
    fn rows_that_are_made_in_parts_are_of_one_version() {
        let before = sample();
        let mut after = crate::binder::tests_support::catalog_of(&[
            "create table another (id int primary key, note text)",
            "create table parent (id int primary key)",
            "create table zero (a int)",
        ]);
        after.version = before.version + 1;
        let path = ResolvedPath::default();
        let of = |catalog| View {
            catalog,
            database: "rubato",
            user: "somebody",
            path: &path,
        };
        let table = find(None, "pg_attribute").unwrap();
        let mut making = Making::of(table);
        for parts in 0..3 {
            let catalog = if parts % 2 == 0 { &before } else { &after };
            assert!(
                matches!(making.go_on(&of(catalog), 1).0, Made::Paused) == (parts < 2),
                "{parts}"
            );
        }
        let again = Making::of(table).go_on(&of(&after), 1).0;
        assert!(
            matches!(again, Made::Paused),
            "nothing is kept of a version that was left"
        );
        let mut making = Making::of(table);
        making.go_on(&of(&before), 1);
        let rows = loop {
            if let Made::All(rows) = making.go_on(&of(&after), 50).0 {
                break rows.all().to_vec();
            }
        };
        let expected = crate::binder::tests_support::catalog_of(&[
            "create table another (id int primary key, note text)",
            "create table parent (id int primary key)",
            "create table zero (a int)",
        ]);
        assert_eq!(rows, made::all_rows(table, &of(&expected)));
    }

    #[test]
    fn sources_say_columns_that_their_tables_have() {
        for source in registry::sources() {
            let table = registry::tables().find(|table| table.name == source.name);
            let table = table.unwrap_or_else(|| panic!("no table {}", source.name));
            for said in source.columns {
                let known = table.columns.iter().any(|column| column.name == *said);
                assert!(known, "{} has no column {said}", table.name);
            }
        }
    }

    #[test]
    fn tables_are_found_by_name() {
        assert!(find(None, "pg_class").is_some());
        assert!(find(Some("pg_catalog"), "pg_tables").is_some());
        assert!(find(Some("information_schema"), "tables").is_some());
        assert!(find(None, "tables").is_none());
        assert!(find(Some("rubato"), "hot_items").is_some());
        assert!(find(None, "nothing").is_none());
    }
}
