//! `information_schema`.

use super::classes::sequence_type;
use super::columns::type_facts;
use super::constraints::check_columns;
use super::objects::{IndexView, referred_index, table_indexes};
use super::{Source, View, int4, no_others, none_of_table, registry, text};
use crate::binder::{view_text, writable};
use crate::catalog::{
    Column, Deferral, Dependency, ForeignKey, ReferentialAction, RelationName, SchemaId, Sequence, Table, ViewCheck,
};
use crate::deparse::shown_of_value;
use rubato_base::{ColumnType, Value};

pub(super) static SOURCES: &[Source] = &[
    Source {
        name: "information_schema.information_schema_catalog_name",
        columns: &["catalog_name"],
        of_table: none_of_table,
        others: |view| vec![vec![text(view.database)]],
    },
    Source {
        name: "information_schema.schemata",
        columns: &["catalog_name", "schema_name", "schema_owner"],
        of_table: none_of_table,
        others: |view| {
            let schemas = super::values::schemas(view).into_iter();
            schemas
                .map(|(_, schema)| vec![text(view.database), text(&schema), text(view.user)])
                .collect()
        },
    },
    Source {
        name: "information_schema.tables",
        columns: &[
            "table_catalog",
            "table_schema",
            "table_name",
            "table_type",
            "is_insertable_into",
            "is_typed",
        ],
        of_table: |view, table| {
            let kind = match table.schema.is_temporary() {
                true => "LOCAL TEMPORARY",
                false => "BASE TABLE",
            };
            let row = table_row(view, view.schema_name(table.schema), &table.name, kind, true);
            table.materialised.is_none().then_some(row).into_iter().collect()
        },
        others: |view| {
            let kind = |is_view: bool| if is_view { "VIEW" } else { "BASE TABLE" };
            let row = |table: &super::SystemTable| {
                table_row(view, text(table.schema), table.short_name(), kind(table.is_view), false)
            };
            let views = view.catalog.views.values();
            let views = views.map(|own| {
                let is_insertable = writable(view.catalog, own).insert;
                table_row(view, view.schema_name(own.schema), &own.name, "VIEW", is_insertable)
            });
            views.chain(registry::tables().map(row)).collect()
        },
    },
    Source {
        name: "information_schema.views",
        columns: &[
            "table_catalog",
            "table_schema",
            "table_name",
            "view_definition",
            "check_option",
            "is_updatable",
            "is_insertable_into",
            "is_trigger_updatable",
            "is_trigger_deletable",
            "is_trigger_insertable_into",
        ],
        of_table: none_of_table,
        others: |view| {
            let row = |own: &std::sync::Arc<crate::catalog::View>| {
                let check = own.options.check.map_or("NONE", |check| match check {
                    ViewCheck::Local => "LOCAL",
                    ViewCheck::Cascaded => "CASCADED",
                });
                let definition = [text(&format!(" {};", view_text(own))), text(check)];
                let writable = writable(view.catalog, own);
                let answers = [writable.update && writable.delete, writable.insert, false, false, false];
                let answers = answers.map(yes_or_no);
                in_schema(view, own.schema, &own.name)
                    .into_iter()
                    .chain(definition)
                    .chain(answers)
                    .collect()
            };
            view.catalog.views.values().map(row).collect()
        },
    },
    Source {
        name: "information_schema.table_constraints",
        columns: &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "constraint_type",
            "is_deferrable",
            "initially_deferred",
            "enforced",
            "nulls_distinct",
        ],
        of_table: table_constraints,
        others: no_others,
    },
    Source {
        name: "information_schema.key_column_usage",
        columns: &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "ordinal_position",
            "position_in_unique_constraint",
        ],
        of_table: key_columns,
        others: no_others,
    },
    Source {
        name: "information_schema.constraint_column_usage",
        columns: USAGE_COLUMNS,
        of_table: used_columns,
        others: no_others,
    },
    Source {
        name: "information_schema.constraint_table_usage",
        columns: &[
            "table_catalog",
            "table_schema",
            "table_name",
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
        ],
        of_table: used_tables,
        others: no_others,
    },
    Source {
        name: "information_schema.referential_constraints",
        columns: &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "unique_constraint_catalog",
            "unique_constraint_schema",
            "unique_constraint_name",
            "match_option",
            "update_rule",
            "delete_rule",
        ],
        of_table: referential_constraints,
        others: no_others,
    },
    Source {
        name: "information_schema.check_constraints",
        columns: &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "check_clause",
        ],
        of_table: |view, table| {
            let checks = checks(table).into_iter();
            checks
                .map(|check| {
                    in_schema(view, table.schema, &check.name)
                        .into_iter()
                        .chain([text(&check.clause)])
                        .collect()
                })
                .collect()
        },
        others: domain_checks,
    },
    Source {
        name: "information_schema.sequences",
        columns: &[
            "sequence_catalog",
            "sequence_schema",
            "sequence_name",
            "data_type",
            "numeric_precision",
            "numeric_precision_radix",
            "numeric_scale",
            "start_value",
            "minimum_value",
            "maximum_value",
            "increment",
            "cycle_option",
        ],
        of_table: none_of_table,
        others: sequences,
    },
    Source {
        name: "information_schema.table_privileges",
        columns: PRIVILEGE_COLUMNS,
        of_table: privileges,
        others: no_others,
    },
    Source {
        name: "information_schema.role_table_grants",
        columns: PRIVILEGE_COLUMNS,
        of_table: privileges,
        others: no_others,
    },
    Source {
        name: "information_schema.enabled_roles",
        columns: &["role_name"],
        of_table: none_of_table,
        others: |view| vec![vec![text(view.user)]],
    },
    Source {
        name: "information_schema.character_sets",
        columns: &[
            "character_set_name",
            "character_repertoire",
            "form_of_use",
            "default_collate_catalog",
            "default_collate_schema",
            "default_collate_name",
        ],
        of_table: none_of_table,
        others: |view| {
            let row = ["UTF8", "UCS", "UTF8", view.database, "pg_catalog", "C"];
            vec![row.map(text).to_vec()]
        },
    },
    Source {
        name: "information_schema.view_table_usage",
        columns: &[
            "view_catalog",
            "view_schema",
            "view_name",
            "table_catalog",
            "table_schema",
            "table_name",
        ],
        of_table: none_of_table,
        others: |view| {
            read_by_views(view)
                .map(|(reader, read, _)| [reader, read].concat())
                .collect()
        },
    },
    Source {
        name: "information_schema.view_column_usage",
        columns: &[
            "view_catalog",
            "view_schema",
            "view_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
        ],
        of_table: none_of_table,
        others: |view| {
            let columns = read_by_views(view).flat_map(|(reader, read, dependency)| {
                let table = view.catalog.tables.get(&dependency.relation);
                let own = table.map_or(&[][..], |table| &table.columns);
                let names = dependency.columns.iter().filter_map(|column| own.get(*column));
                let row = |column: &Column| [&reader[..], &read[..], &[text(&column.name)]].concat();
                names.map(row).collect::<Vec<_>>()
            });
            columns.collect()
        },
    },
];

/// What views read: the view's names, the names of what it reads, and that.
fn read_by_views<'a>(view: &'a View<'_>) -> impl Iterator<Item = ([Value; 3], [Value; 3], &'a Dependency)> {
    view.catalog.views.values().flat_map(move |own| {
        let has_rows = |dependency: &&Dependency| {
            let relation = &dependency.relation;
            view.catalog.tables.contains_key(relation) || view.catalog.views.contains_key(relation)
        };
        own.query.depends.iter().filter(has_rows).map(move |dependency| {
            let read = &dependency.relation;
            (
                in_schema(view, own.schema, &own.name),
                in_schema(view, read.schema, &read.name),
                dependency,
            )
        })
    })
}

const USAGE_COLUMNS: &[&str] = &[
    "table_catalog",
    "table_schema",
    "table_name",
    "column_name",
    "constraint_catalog",
    "constraint_schema",
    "constraint_name",
];

const PRIVILEGE_COLUMNS: &[&str] = &[
    "grantor",
    "grantee",
    "table_catalog",
    "table_schema",
    "table_name",
    "privilege_type",
    "is_grantable",
    "with_hierarchy",
];

pub(super) fn yes_or_no(is_so: bool) -> Value {
    text(if is_so { "YES" } else { "NO" })
}

pub(super) fn number(value: Option<i64>) -> Value {
    value.map_or(Value::Null, int4)
}

/// Catalog, schema and name of something of the users'.
pub(super) fn in_schema(view: &View<'_>, schema: SchemaId, name: &str) -> [Value; 3] {
    [text(view.database), view.schema_name(schema), text(name)]
}

fn table_row(view: &View<'_>, schema: Value, name: &str, kind: &str, is_insertable: bool) -> Vec<Value> {
    vec![
        text(view.database),
        schema,
        text(name),
        text(kind),
        yes_or_no(is_insertable),
        yes_or_no(false),
    ]
}

/// A CHECK constraint, also one that a NOT NULL amounts to.
struct CheckView {
    name: String,
    clause: String,
    columns: Vec<usize>,
    is_not_null: bool,
}

fn checks(table: &Table) -> Vec<CheckView> {
    let own = table.checks.iter().filter(|check| check.domain.is_none());
    let own = own.map(|check| CheckView {
        name: check.name.clone(),
        clause: format!("(({}))", check.text),
        columns: check_columns(check),
        is_not_null: false,
    });
    let columns = table.columns.iter().enumerate();
    let not_null = columns
        .filter(|(_, column)| column.not_null && !column.dropped)
        .map(|(place, column)| CheckView {
            name: format!("{}_{}_{}_not_null", table.schema.0, table.oid, place + 1),
            clause: format!("{} IS NOT NULL", column.name),
            columns: vec![place],
            is_not_null: true,
        });
    own.chain(not_null).collect()
}

/// The CHECK constraints of domains.
fn domain_checks(view: &View<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for domain in view.catalog.domains.values() {
        for check in &domain.checks {
            let clause = view.named(format!("({})", shown_of_value(domain, &check.condition)));
            let name = in_schema(view, domain.schema, &check.name).into_iter();
            rows.push(name.chain([text(&clause)]).collect());
        }
    }
    rows
}

/// The primary key and the unique constraints.
fn keys(table: &Table) -> impl Iterator<Item = IndexView<'_>> {
    table_indexes(table).filter(|index| index.constraint)
}

fn table_constraints(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let row = |name: &str, kind: &str, deferral: Deferral, is_distinct: bool| {
        let mut row = in_schema(view, table.schema, name).to_vec();
        row.extend(in_schema(view, table.schema, &table.name));
        row.extend([
            text(kind),
            yes_or_no(deferral.is_deferrable()),
            yes_or_no(deferral.is_initially_deferred()),
            yes_or_no(true),
            if kind == "UNIQUE" {
                yes_or_no(is_distinct)
            } else {
                Value::Null
            },
        ]);
        row
    };
    let kind = |index: &IndexView<'_>| if index.is_primary() { "PRIMARY KEY" } else { "UNIQUE" };
    let mut rows: Vec<Vec<Value>> = keys(table)
        .map(|index| row(index.name, kind(&index), index.deferral, !index.nulls_not_distinct))
        .collect();
    rows.extend(
        table
            .foreign_keys
            .iter()
            .map(|key| row(&key.name, "FOREIGN KEY", key.deferral, true)),
    );
    rows.extend(
        checks(table)
            .iter()
            .map(|check| row(&check.name, "CHECK", Deferral::Never, true)),
    );
    rows
}

fn key_columns(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let row = |name: &str, (place, column): (usize, &usize), position: Option<i64>| {
        let mut row = in_schema(view, table.schema, name).to_vec();
        row.extend(in_schema(view, table.schema, &table.name));
        row.extend([
            text(&table.columns[*column].name),
            int4(place as i64 + 1),
            number(position),
        ]);
        row
    };
    let mut rows = Vec::new();
    for index in keys(table) {
        rows.extend(
            index
                .columns
                .iter()
                .enumerate()
                .map(|column| row(index.name, column, None)),
        );
    }
    for key in &table.foreign_keys {
        for (place, column) in key.columns.iter().enumerate() {
            let position = referred_position(view, key, place);
            rows.push(row(&key.name, (place, column), position));
        }
    }
    rows
}

/// Where the column that a foreign key's column refers to stands in the key that it refers to.
fn referred_position(view: &View<'_>, key: &ForeignKey, place: usize) -> Option<i64> {
    let index = referred_key(view, key)?;
    let wanted = key.referenced_columns.get(place)?;
    index
        .columns
        .iter()
        .position(|column| column == wanted)
        .map(|place| place as i64 + 1)
}

fn referred_key<'a>(view: &View<'a>, key: &ForeignKey) -> Option<IndexView<'a>> {
    let referred = view.catalog.tables.get(&key.referenced_table)?;
    let number = referred_index(referred, &key.referenced_columns);
    table_indexes(referred).find(|index| index.oid == number)
}

/// For each constraint the columns, of its own table or another, that it speaks of.
fn used_columns(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let row = |of: &Table, column: usize, constraint: &str| {
        let mut row = in_schema(view, of.schema, &of.name).to_vec();
        row.push(text(&of.columns[column].name));
        row.extend(in_schema(view, table.schema, constraint));
        row
    };
    let mut rows = Vec::new();
    for index in keys(table) {
        rows.extend(index.columns.iter().map(|column| row(table, *column, index.name)));
    }
    for check in checks(table).iter().filter(|check| !check.is_not_null) {
        rows.extend(check.columns.iter().map(|column| row(table, *column, &check.name)));
    }
    for key in &table.foreign_keys {
        if let Some(referred) = view.catalog.tables.get(&key.referenced_table) {
            rows.extend(
                key.referenced_columns
                    .iter()
                    .map(|column| row(referred, *column, &key.name)),
            );
        }
    }
    rows
}

fn used_tables(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let row = |of: &RelationName, constraint: &str| {
        [
            in_schema(view, of.schema, &of.name),
            in_schema(view, table.schema, constraint),
        ]
        .concat()
    };
    let own = keys(table).map(|index| row(&table.key(), index.name));
    own.chain(
        table
            .foreign_keys
            .iter()
            .map(|key| row(&key.referenced_table, &key.name)),
    )
    .collect()
}

fn rule(action: ReferentialAction) -> Value {
    text(match action {
        ReferentialAction::Refuse => "NO ACTION",
        ReferentialAction::Restrict => "RESTRICT",
        ReferentialAction::Cascade => "CASCADE",
        ReferentialAction::SetNull => "SET NULL",
        ReferentialAction::SetDefault => "SET DEFAULT",
    })
}

fn referential_constraints(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let row = |key: &ForeignKey| {
        let mut row = in_schema(view, table.schema, &key.name).to_vec();
        match referred_key(view, key).filter(|index| index.constraint) {
            Some(index) => row.extend(in_schema(view, key.referenced_table.schema, index.name)),
            None => row.extend([Value::Null, Value::Null, Value::Null]),
        }
        row.extend([text("NONE"), rule(key.on_update), rule(key.on_delete)]);
        row
    };
    table.foreign_keys.iter().map(row).collect()
}

/// The sequences but those of identity columns.
fn sequences(view: &View<'_>) -> Vec<Vec<Value>> {
    let is_identity = |sequence: &Sequence| {
        let owner = sequence.owned_by.as_ref();
        let column = owner.and_then(|(table, column)| view.catalog.tables.get(table)?.columns.get(*column));
        column.is_some_and(|column| column.identity_always.is_some())
    };
    let row = |sequence: &std::sync::Arc<Sequence>| {
        let data_type = sequence_type(view.catalog, sequence);
        let facts = type_facts(ColumnType::plain(data_type));
        let mut row = in_schema(view, sequence.schema, &sequence.name).to_vec();
        row.push(text(data_type.name()));
        row.extend([facts.precision, facts.radix, facts.scale].map(number));
        let limits = [sequence.start, sequence.minimum, sequence.maximum, sequence.increment];
        row.extend(limits.map(|limit| text(&limit.to_string())));
        row.push(yes_or_no(sequence.cycle));
        row
    };
    let shown = view
        .catalog
        .sequences
        .values()
        .filter(|sequence| !is_identity(sequence));
    shown.map(row).collect()
}

fn privileges(view: &View<'_>, table: &Table) -> Vec<Vec<Value>> {
    let all = [
        "INSERT",
        "SELECT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "REFERENCES",
        "TRIGGER",
    ];
    let row = |privilege: &str| {
        let mut row = vec![text(view.user), text(view.user)];
        row.extend(in_schema(view, table.schema, &table.name));
        row.extend([text(privilege), yes_or_no(true), yes_or_no(privilege == "SELECT")]);
        row
    };
    all.map(row).to_vec()
}
