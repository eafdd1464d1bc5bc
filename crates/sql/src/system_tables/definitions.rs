//! Definitions as text: what `pg_get_indexdef` and `pg_get_constraintdef` say.

use super::objects::{IndexView, Object, index_at, primary_key};
use super::qualified::with_types;
use super::{View, sequence_by_number, written_with_schema};
use crate::binder::with_sequences;
use crate::catalog::{Catalog, Column, Deferral, ForeignKey, ReferentialAction, Sequence, Table};
use crate::deparse::{shown, shown_in_message, shown_key, shown_of_value};
use rubato_base::DataType;

/// The CREATE INDEX statement that would make an index on its table as it is written.
pub(super) fn index_definition(table: &Table, index: &IndexView<'_>, written: &str) -> String {
    format!(
        "CREATE {}INDEX {} ON {written} USING btree ({}){}{}{}",
        if index.unique { "UNIQUE " } else { "" },
        quoted(index.name),
        ordered_columns(table, index),
        included(table, index),
        if index.nulls_not_distinct {
            " NULLS NOT DISTINCT"
        } else {
            ""
        },
        index
            .predicate
            .map_or_else(String::new, |own| format!(" WHERE {}", shown(table, own)))
    )
}

fn ordered_columns(table: &Table, index: &IndexView<'_>) -> String {
    let columns = index.columns.iter().enumerate();
    let shown = columns.map(|(place, column)| shown_key(table, *column) + index.order(place).shown());
    shown.collect::<Vec<_>>().join(", ")
}

fn included(table: &Table, index: &IndexView<'_>) -> String {
    match index.included {
        [] => String::new(),
        columns => format!(" INCLUDE ({})", column_list(table, columns)),
    }
}

fn column_list(table: &Table, columns: &[usize]) -> String {
    let names = columns.iter().map(|column| shown_key(table, *column));
    names.collect::<Vec<_>>().join(", ")
}

/// The definition of an index by its number, or of one of its columns (counted from 1) alone. What is pretty has no schema, and less brackets.
pub(super) fn index_by_number(view: &View<'_>, number: i64, column: i64, is_pretty: bool) -> Option<String> {
    let (table, index) = match view.object(number)? {
        Object::PrimaryKey(table) => (table, primary_key(table)?),
        Object::Index(table, place) => (table, index_at(table, *place)?),
        _ => return None,
    };
    if column == 0 {
        let written = match is_pretty {
            true => view.written(&table.key()),
            false => written_with_schema(view.catalog, &table.key()),
        };
        return Some(view.named(index_definition(table, &index, &written)));
    }
    let place = usize::try_from(column - 1).ok();
    let column = place.and_then(|place| index.all_columns().get(place).copied());
    let shown = match is_pretty {
        true => shown_in_message,
        false => shown_key,
    };
    Some(column.map_or(String::new(), |column| view.named(shown(table, column))))
}

/// The definition of a constraint by its number, as it stands in CREATE TABLE.
pub(super) fn constraint_by_number(view: &View<'_>, number: i64, pretty: bool) -> Option<String> {
    Some(match view.object(number)? {
        Object::PrimaryKey(table) => key_constraint(table, &primary_key(table)?),
        Object::Index(table, place) => {
            let index = index_at(table, *place).filter(|index| index.constraint)?;
            key_constraint(table, &index)
        }
        Object::Check(table, place) => {
            let check = table.checks.get(*place)?;
            let condition = with_types(&check.text, view);
            let not_valid = not_valid(check.is_valid);
            if pretty {
                format!("CHECK ({condition}){not_valid}")
            } else {
                format!("CHECK (({condition})){not_valid}")
            }
        }
        Object::ForeignKey(table, place) => foreign_key(view, table, table.foreign_keys.get(*place)?),
        Object::DomainCheck(domain, place) => {
            let check = domain.checks.get(*place)?;
            let condition = view.named(shown_of_value(domain, &check.condition));
            // What is in brackets by itself has no others.
            let is_enclosed = condition.starts_with('(') && condition.ends_with(')');
            match is_enclosed && pretty {
                true => format!("CHECK {condition}{}", not_valid(check.is_valid)),
                false => format!("CHECK ({condition}){}", not_valid(check.is_valid)),
            }
        }
        Object::Table(_) | Object::Sequence(_) | Object::View(_) => return None,
    })
}

fn key_constraint(table: &Table, index: &IndexView<'_>) -> String {
    format!(
        "{} ({}){}{}",
        match (index.is_primary(), index.nulls_not_distinct) {
            (true, _) => "PRIMARY KEY",
            (false, true) => "UNIQUE NULLS NOT DISTINCT",
            (false, false) => "UNIQUE",
        },
        column_list(table, index.columns),
        included(table, index),
        when_checked(index.deferral)
    )
}

fn foreign_key(view: &View<'_>, table: &Table, key: &ForeignKey) -> String {
    let referred = view.catalog.tables.get(&key.referenced_table);
    let columns = referred.map_or(String::new(), |referred| column_list(referred, &key.referenced_columns));
    format!(
        "FOREIGN KEY ({}) REFERENCES {}({columns}){}{}{}{}",
        column_list(table, &key.columns),
        view.written(&key.referenced_table),
        action(" ON UPDATE", key.on_update),
        action(" ON DELETE", key.on_delete),
        when_checked(key.deferral),
        not_valid(key.is_valid)
    )
}

/// What stands behind a constraint that rows may violate.
fn not_valid(is_valid: bool) -> &'static str {
    if is_valid { "" } else { " NOT VALID" }
}

fn action(event: &str, action: ReferentialAction) -> String {
    match action {
        ReferentialAction::Refuse => String::new(),
        ReferentialAction::Restrict => format!("{event} RESTRICT"),
        ReferentialAction::Cascade => format!("{event} CASCADE"),
        ReferentialAction::SetNull => format!("{event} SET NULL"),
        ReferentialAction::SetDefault => format!("{event} SET DEFAULT"),
    }
}

fn when_checked(deferral: Deferral) -> &'static str {
    match deferral {
        Deferral::Never => "",
        Deferral::Immediate => " DEFERRABLE",
        Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
    }
}

/// The default of a column as PostgreSQL shows it: of a literal the type is named. An identity column has none.
pub(super) fn shown_default(view: &View<'_>, column: &Column) -> Option<String> {
    let text = column
        .default_text
        .as_ref()
        .filter(|_| column.identity_always.is_none())?;
    match next_of_sequence(view.catalog, column) {
        Some(shown) => Some(shown),
        None => {
            let written = |sequence: &Sequence| name_in_default(view.catalog, sequence);
            let text = match &column.default {
                Some(default) => &with_sequences(text, default, view.catalog, &written),
                None => text,
            };
            shown_literal(view, text, column.column_type.data_type)
        }
    }
}

/// The text of a default of this type: of a literal the type is named.
pub(super) fn shown_literal(view: &View<'_>, text: &str, data_type: DataType) -> Option<String> {
    let inner = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let is_literal = inner.is_some_and(|inner| !inner.replace("''", "").contains('\''));
    let is_negative = text
        .strip_prefix('-')
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
    let data_type = match data_type {
        DataType::Char => "bpchar".to_owned(),
        // These rows are the same for every search path, and pg_dump restores without any: the name has its schema.
        other if other.enum_number().is_some() => {
            let own = view.catalog.enum_by_oid(other.enum_number()?)?;
            let brackets = if other.element().is_some() { "[]" } else { "" };
            format!("{}{brackets}", written_with_schema(view.catalog, &own.key()))
        }
        other => view.named(other.to_string()),
    };
    Some(match (is_literal, is_negative) {
        (true, _) => format!("{text}::{data_type}"),
        (_, true) => format!("'{text}'::{data_type}"),
        _ => text.to_owned(),
    })
}

/// `nextval` of the sequence that a column's default takes its values from, under the name that it has now.
fn next_of_sequence(catalog: &Catalog, column: &Column) -> Option<String> {
    let number = column.default.as_ref().and_then(crate::schema_change::sequence_read)?;
    let sequence = sequence_by_number(catalog, i64::from(number))?;
    let name = name_in_default(catalog, sequence);
    Some(format!("nextval('{}'::regclass)", name.replace('\'', "''")))
}

/// These rows are the same for every search path: what is in `public` has no schema, and `pg_get_expr` says it where it has to be said.
fn name_in_default(catalog: &Catalog, sequence: &Sequence) -> String {
    match sequence.schema.is_temporary() || catalog.schema_name(sequence.schema) == "public" {
        true => quoted(&sequence.name),
        false => written_with_schema(catalog, &sequence.key()),
    }
}

/// A name as it must be written.
pub(crate) fn quoted(name: &str) -> String {
    rubato_formula::quote_identifier(name).to_string()
}
