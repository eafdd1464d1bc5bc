//! Definitions as text.

use crate::catalog::{Index, Table};

/// The CREATE INDEX statement that would make an index.
pub(super) fn index_definition(table: &Table, index: &Index) -> String {
    let unique = if index.is_to_be_unique() { "UNIQUE " } else { "" };
    definition(table, &index.name, unique, &index.columns)
}

/// The same for a primary key.
pub(super) fn primary_key_definition(table: &Table) -> String {
    definition(table, &table.primary_key_name, "UNIQUE ", &table.primary_key)
}

fn definition(table: &Table, name: &str, unique: &str, columns: &[usize]) -> String {
    let columns: Vec<String> = columns
        .iter()
        .map(|column| quoted(&table.columns[*column].name))
        .collect();
    format!(
        "CREATE {unique}INDEX {} ON public.{} USING btree ({})",
        quoted(name),
        quoted(&table.name),
        columns.join(", ")
    )
}

/// A name as it must be written.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    if plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}
