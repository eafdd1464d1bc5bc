//! `pg_constraint`, `pg_depend`.

use super::classes::has_default;
use super::int4;
use super::objects::{
    IndexView, check_number, default_number, domain_check_number, foreign_key_number, referred_index, table_indexes,
};
use super::{Source, View, column_numbers, none_of_table, oid, text};
use crate::catalog::{Check, Deferral, Dependency, Domain, ReferentialAction, Remarked, Table, ViewQuery};
use crate::deparse::shown_of_value;
use crate::schema_change::sequences_read;
use rubato_base::{Array, DataType, Value};
use rubato_formula::Expr;
use std::sync::Arc;

pub(super) static SOURCES: &[Source] = &[
    Source {
        name: "pg_catalog.pg_constraint",
        columns: &[
            "oid",
            "conname",
            "connamespace",
            "contype",
            "condeferrable",
            "condeferred",
            "convalidated",
            "conrelid",
            "contypid",
            "conindid",
            "confrelid",
            "confupdtype",
            "confdeltype",
            "confmatchtype",
            "conislocal",
            "connoinherit",
            "conkey",
            "confkey",
            "conbin",
        ],
        of_table: constraints,
        others: domain_checks,
    },
    Source {
        name: "pg_catalog.pg_depend",
        columns: &[
            "classid",
            "objid",
            "objsubid",
            "refclassid",
            "refobjid",
            "refobjsubid",
            "deptype",
        ],
        of_table: dependencies_of_table,
        others: other_dependencies,
    },
    Source {
        name: "pg_catalog.pg_rewrite",
        columns: &["oid", "rulename", "ev_class", "ev_type", "ev_enabled", "is_instead"],
        of_table: none_of_table,
        others: rules,
    },
    Source {
        name: "pg_catalog.pg_description",
        columns: &["objoid", "classoid", "objsubid", "description"],
        of_table: remarks,
        others: |view| {
            let row = |((relation, column), comment): (&(u32, u32), &String)| {
                let is_schema = view.catalog.schemas.values().any(|schema| schema.0 == *relation);
                let is_type = || {
                    let is_enum = view.catalog.enum_by_oid(*relation).is_some();
                    is_enum || view.catalog.domains.values().any(|domain| domain.oid == *relation)
                };
                let class = match is_schema {
                    true => NAMESPACES,
                    false if is_type() => TYPES,
                    false => CLASSES,
                };
                vec![oid(*relation), oid(class), int4(i64::from(*column)), text(comment)]
            };
            let own = view.catalog.comments.iter().map(row);
            own.chain(super::values::descriptions()).collect()
        },
    },
];

const YES: Value = Value::Bool(true);
/// The numbers of the catalogs that dependencies name.
pub(super) const CLASSES: u32 = 1259;
pub(super) const DEFAULTS: u32 = 2604;
pub(super) const CONSTRAINTS: u32 = 2606;
pub(super) const REWRITES: u32 = 2618;
pub(super) const NAMESPACES: u32 = 2615;
pub(super) const TYPES: u32 = 1247;

/// What is said of the indexes and constraints of a table.
fn remarks(_: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let row = |((kind, name), comment): (&(Remarked, String), &String)| {
        let index = |is_meant: &dyn Fn(&IndexView<'_>) -> bool| {
            let mut indexes = table_indexes(table);
            indexes
                .find(|index| index.name == name && is_meant(index))
                .map(|index| index.oid)
        };
        let check = || {
            let mut checks = own_checks(table);
            checks
                .find(|(_, check)| check.name == *name)
                .map(|(place, _)| check_number(table, place))
        };
        let key = || {
            let place = table.foreign_keys.iter().position(|key| key.name == *name);
            place.map(|place| foreign_key_number(table, place))
        };
        let (class, number) = match kind {
            Remarked::Index => (CLASSES, index(&|_| true)),
            // An index that is no constraint may be called as one that is none of its own.
            Remarked::Constraint => {
                let by_index = index(&|index| index.constraint);
                (CONSTRAINTS, by_index.or_else(check).or_else(key))
            }
        };
        Some(vec![oid(number?), oid(class), int4(0), text(comment)])
    };
    table.remarks.iter().filter_map(row).collect()
}

struct Constraint<'a> {
    oid: u32,
    name: &'a str,
    kind: &'a str,
    index: u32,
    referred: u32,
    deferral: Deferral,
    is_valid: bool,
    actions: Option<(ReferentialAction, ReferentialAction)>,
    columns: Value,
    referred_columns: Value,
    condition: Value,
}

/// The letter of an action in `pg_constraint`.
fn letter(action: Option<ReferentialAction>) -> Value {
    text(match action {
        None => " ",
        Some(ReferentialAction::Refuse) => "a",
        Some(ReferentialAction::Restrict) => "r",
        Some(ReferentialAction::Cascade) => "c",
        Some(ReferentialAction::SetNull) => "n",
        Some(ReferentialAction::SetDefault) => "d",
    })
}

impl Constraint<'_> {
    fn row(self, table: &Table) -> Vec<Value> {
        vec![
            oid(self.oid),
            text(self.name),
            oid(table.schema.0),
            text(self.kind),
            Value::Bool(self.deferral.is_deferrable()),
            Value::Bool(self.deferral.is_initially_deferred()),
            Value::Bool(self.is_valid),
            oid(table.oid),
            oid(0),
            oid(self.index),
            oid(self.referred),
            letter(self.actions.map(|(update, _)| update)),
            letter(self.actions.map(|(_, delete)| delete)),
            text(if self.kind == "f" { "s" } else { " " }),
            YES,
            Value::Bool(self.kind != "c"),
            self.columns,
            self.referred_columns,
            self.condition,
        ]
    }
}

fn numbers_array(columns: &[usize]) -> Value {
    Value::Array(Arc::new(Array::new(DataType::Int2, column_numbers(columns))))
}

/// The CHECK constraints of a table, with their places: what domains say is none of them.
fn own_checks(table: &Table) -> impl Iterator<Item = (usize, &Check)> {
    let checks = table.checks.iter().enumerate();
    checks.filter(|(_, check)| check.domain.is_none())
}

/// The columns that a check reads, in order.
pub(super) fn check_columns(check: &crate::catalog::Check) -> Vec<usize> {
    let mut columns = Vec::new();
    check.condition.for_each_column(&mut |column| columns.push(column));
    columns.sort_unstable();
    columns.dedup();
    columns
}

fn constraints(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let keys = table_indexes(table)
        .filter(|index| index.constraint)
        .map(|index| Constraint {
            oid: index.oid,
            name: index.name,
            kind: if index.is_primary() { "p" } else { "u" },
            index: index.oid,
            referred: 0,
            deferral: index.deferral,
            is_valid: true,
            actions: None,
            columns: numbers_array(index.columns),
            referred_columns: Value::Null,
            condition: Value::Null,
        });
    let checks = own_checks(table).map(|(place, check)| Constraint {
        oid: check_number(table, place),
        name: &check.name,
        kind: "c",
        index: 0,
        referred: 0,
        deferral: Deferral::Never,
        is_valid: check.is_valid,
        actions: None,
        columns: numbers_array(&check_columns(check)),
        referred_columns: Value::Null,
        condition: text(&format!("({})", check.text)),
    });
    let foreign_keys = table.foreign_keys.iter().enumerate().map(|(place, key)| {
        let referred = view.catalog.tables.get(&key.referenced_table);
        Constraint {
            oid: foreign_key_number(table, place),
            name: &key.name,
            kind: "f",
            index: referred.map_or(0, |referred| referred_index(referred, &key.referenced_columns)),
            referred: referred.map_or(0, |referred| referred.oid),
            deferral: key.deferral,
            is_valid: key.is_valid,
            actions: Some((key.on_update, key.on_delete)),
            columns: numbers_array(&key.columns),
            referred_columns: numbers_array(&key.referenced_columns),
            condition: Value::Null,
        }
    });
    keys.chain(checks)
        .chain(foreign_keys)
        .map(|constraint| constraint.row(table))
        .collect()
}

/// The CHECK constraints of domains.
fn domain_checks(view: &View<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for domain in view.catalog.domains.values() {
        for (place, check) in domain.checks.iter().enumerate() {
            rows.push(vec![
                oid(domain_check_number(domain, place)),
                text(&check.name),
                oid(domain.schema.0),
                text("c"),
                Value::Bool(false),
                Value::Bool(false),
                Value::Bool(check.is_valid),
                oid(0),
                oid(domain.oid),
                oid(0),
                oid(0),
                letter(None),
                letter(None),
                text(" "),
                YES,
                Value::Bool(false),
                Value::Null,
                Value::Null,
                text(&format!("({})", shown_of_value(domain, &check.condition))),
            ]);
        }
    }
    rows
}

/// `object` of `catalog` needs column `column` (0: the whole) of the relation `of`.
pub(super) fn dependency(
    (catalog, object): (u32, u32),
    (of_catalog, of): (u32, u32),
    column: usize,
    kind: &str,
) -> Vec<Value> {
    vec![
        oid(catalog),
        oid(object),
        int4(0),
        oid(of_catalog),
        oid(of),
        int4(column as i64),
        text(kind),
    ]
}

/// What takes numbers of sequences needs them: what is not theirs as well.
fn dependencies_on_sequences(of: (u32, u32), default: Option<&Expr>, view: &View<'_>, rows: &mut Vec<Vec<Value>>) {
    let read = default.map(sequences_read).unwrap_or_default();
    let is_there = |number: &u32| view.catalog.sequences.values().any(|sequence| sequence.id == *number);
    let needed = read.into_iter().filter(is_there);
    rows.extend(needed.map(|number| dependency(of, (CLASSES, number), 0, "n")));
}

/// The number of the type that a domain is over, if the users made it.
fn type_beneath(domain: &Domain) -> Option<u32> {
    let base = domain.base.as_ref().map(|base| base.oid);
    base.or_else(|| domain.column_type.data_type.enum_number())
}

fn dependencies_of_table(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let own = (CLASSES, table.oid);
    for index in table_indexes(table) {
        if index.constraint {
            rows.push(dependency((CLASSES, index.oid), (CONSTRAINTS, index.oid), 0, "i"));
            for column in index.columns {
                rows.push(dependency((CONSTRAINTS, index.oid), own, column + 1, "a"));
            }
        } else {
            for column in (0..table.columns.len()).filter(|column| index.reads(table, *column)) {
                rows.push(dependency((CLASSES, index.oid), own, column + 1, "a"));
            }
        }
    }
    for (place, column) in table.columns.iter().enumerate() {
        if has_default(column) {
            rows.push(dependency(
                (DEFAULTS, default_number(table, place)),
                own,
                place + 1,
                "a",
            ));
            let default = (DEFAULTS, default_number(table, place));
            dependencies_on_sequences(default, column.default.as_ref(), view, &mut rows);
        }
    }
    for (place, check) in own_checks(table) {
        for column in check_columns(check) {
            rows.push(dependency(
                (CONSTRAINTS, check_number(table, place)),
                own,
                column + 1,
                "a",
            ));
        }
    }
    for place in 0..table.foreign_keys.len() {
        dependencies_of_key(view, table, place, &mut rows);
    }
    rows
}

/// A foreign key goes with its own columns, and needs those that it refers to, with their index: what restores a dump makes that first.
fn dependencies_of_key(view: &View<'_>, table: &Table, place: usize, rows: &mut Vec<Vec<Value>>) {
    let key = &table.foreign_keys[place];
    let own = (CONSTRAINTS, foreign_key_number(table, place));
    for column in &key.columns {
        rows.push(dependency(own, (CLASSES, table.oid), column + 1, "a"));
    }
    let Some(referred) = view.catalog.tables.get(&key.referenced_table) else {
        return;
    };
    for column in &key.referenced_columns {
        rows.push(dependency(own, (CLASSES, referred.oid), column + 1, "n"));
    }
    let index = referred_index(referred, &key.referenced_columns);
    rows.push(dependency(own, (CLASSES, index), 0, "n"));
}

/// A view is a rule that SELECT follows; it is the rule that needs what the view reads.
fn rule_number(view: u32) -> u32 {
    0x4000_0000 | view
}

/// The view whose rule has this number.
pub(super) fn rule_view(rule: i64) -> Option<i64> {
    let view = rule & !i64::from(rule_number(0));
    (view != rule).then_some(view)
}

fn rules(view: &View<'_>) -> Vec<Vec<Value>> {
    let rule = |number: u32| {
        vec![
            oid(rule_number(number)),
            text("_RETURN"),
            oid(number),
            text("1"),
            text("O"),
            YES,
        ]
    };
    queries(view).map(|(number, _)| rule(number)).collect()
}

/// The queries of all views, materialised ones too, with the views' numbers.
fn queries<'a>(view: &View<'a>) -> impl Iterator<Item = (u32, &'a ViewQuery)> {
    let plain = view.catalog.views.values().map(|own| (own.oid, &own.query));
    let tables = view.catalog.tables.values();
    plain.chain(tables.filter_map(|table| Some((table.oid, &table.materialised.as_ref()?.query))))
}

/// The primary key by whose columns a query may group a table, so that its other columns need not be grouped by. Not all who read as much
/// do; who needs it for nothing is only made a little later by `pg_dump`.
fn key_of_groups(query: &ViewQuery, needed: &Dependency, table: &Table) -> Option<u32> {
    let key = table_indexes(table).find(|index| index.is_primary())?;
    let reads = |column: &usize| needed.columns.contains(column);
    let reads_others = needed.columns.iter().any(|column| !key.columns.contains(column));
    let groups = query.text.to_ascii_lowercase().contains("group by");
    (groups && reads_others && key.columns.iter().all(reads)).then_some(key.oid)
}

fn dependencies_of_views(view: &View<'_>, rows: &mut Vec<Vec<Value>>) {
    for (own, query) in queries(view) {
        let rule = (REWRITES, rule_number(own));
        rows.push(dependency(rule, (CLASSES, own), 0, "i"));
        for needed in &query.depends {
            let table = view.catalog.tables.get(&needed.relation).map(|table| table.oid);
            let other = || view.catalog.views.get(&needed.relation).map(|other| other.oid);
            let sequence = || view.catalog.sequences.get(&needed.relation).map(|sequence| sequence.id);
            let Some(number) = table.or_else(other).or_else(sequence) else {
                continue;
            };
            if let Some(key) = view
                .catalog
                .tables
                .get(&needed.relation)
                .and_then(|table| key_of_groups(query, needed, table))
            {
                rows.push(dependency(rule, (CONSTRAINTS, key), 0, "n"));
            }
            let columns = needed.columns.iter().map(|column| column + 1);
            let whole = needed.columns.is_empty().then_some(0);
            rows.extend(
                columns
                    .chain(whole)
                    .map(|column| dependency(rule, (CLASSES, number), column, "n")),
            );
        }
    }
}

fn other_dependencies(view: &View<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    dependencies_of_views(view, &mut rows);
    super::extension::members(view, &mut rows);
    for sequence in view.catalog.sequences.values() {
        let Some((table, column)) = &sequence.owned_by else {
            continue;
        };
        let Some(table) = view.catalog.tables.get(table) else {
            continue;
        };
        let is_identity = table
            .columns
            .get(*column)
            .is_some_and(|column| column.identity_always.is_some());
        let kind = if is_identity { "i" } else { "a" };
        rows.push(dependency(
            (CLASSES, sequence.id),
            (CLASSES, table.oid),
            column + 1,
            kind,
        ));
    }
    for domain in view.catalog.domains.values() {
        dependencies_on_sequences((TYPES, domain.oid), domain.default.as_ref(), view, &mut rows);
        rows.extend(type_beneath(domain).map(|number| dependency((TYPES, domain.oid), (TYPES, number), 0, "n")));
    }
    rows
}
