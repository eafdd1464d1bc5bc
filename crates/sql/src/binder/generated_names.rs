//! The names that PostgreSQL gives to constraints, indexes and sequences that were given none: of the table, what they are over, and a word,
//! shortened alike to what a name may be, and numbered where that is taken.

use super::create::Definition;
use crate::catalog::{Catalog, RelationName, SchemaId};
use crate::parser::syntax::fold;
use rubato_base::{NAME_BYTES_MAX, name_up_to};
use sqlparser::ast;

/// `first_second_label`, of which the longer of the two first parts is shortened, byte by byte, until it all fits.
pub(super) fn object_name(first: &str, second: Option<&str>, label: &str) -> String {
    let second_part = second.unwrap_or_default();
    let overhead = label.len() + 1 + usize::from(second.is_some());
    let available = NAME_BYTES_MAX.saturating_sub(overhead);
    let (mut first_bytes, mut second_bytes) = (first.len(), second_part.len());
    while first_bytes + second_bytes > available {
        match first_bytes > second_bytes {
            true => first_bytes -= 1,
            false => second_bytes -= 1,
        }
    }
    let first = name_up_to(first, first_bytes);
    match second {
        Some(second) => format!("{first}_{}_{label}", name_up_to(second, second_bytes)),
        None => format!("{first}_{label}"),
    }
}

/// The first of the names with this label, and then with it and a number, that is not taken.
pub(super) fn free_name(first: &str, second: Option<&str>, label: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = object_name(first, second, label);
    let mut number = 0;
    while taken(&name) {
        number += 1;
        name = object_name(first, second, &format!("{label}{number}"));
    }
    name
}

/// The names of what an object is over, as far as they can count.
fn joined<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let mut all: Option<String> = None;
    for name in names {
        let so_far = all.get_or_insert_default();
        if so_far.len() > NAME_BYTES_MAX {
            break;
        }
        if !so_far.is_empty() {
            so_far.push('_');
        }
        so_far.push_str(name);
    }
    all
}

/// Whether a constraint in a schema has a name, but for those of one table.
pub(super) fn has_constraint(catalog: &Catalog, schema: SchemaId, name: &str, but: Option<&str>) -> bool {
    let others = catalog.tables.values().filter(|table| table.schema == schema);
    let mut others = others.filter(|table| Some(table.name.as_str()) != but);
    let is_of_table = others.any(|table| {
        let checks = table.checks.iter().filter(|check| check.domain.is_none());
        checks.map(|check| &check.name).any(|own| own == name) || table.foreign_keys.iter().any(|key| key.name == name)
    });
    let mut domains = catalog.domains.values().filter(|domain| domain.schema == schema);
    is_of_table || domains.any(|domain| domain.checks.iter().any(|check| check.name == name))
}

impl Definition<'_, '_> {
    /// PostgreSQL's name for an object without one, of the table's name and these parts, the last of which says what it is.
    pub fn free_name(&mut self, parts: &[&str]) -> String {
        let Some((label, over)) = parts.split_last() else {
            return String::new();
        };
        let name = free_name(
            &self.table.name,
            joined(over.iter().copied()).as_deref(),
            label,
            |name| self.is_taken(name, *label != "idx" && *label != "seq"),
        );
        self.names.insert(name.clone());
        name
    }

    /// Whether another relation, or another constraint for a constraint, has a name. The table itself is as the statement has changed it so far.
    fn is_taken(&self, name: &str, is_constraint: bool) -> bool {
        let (own, catalog) = (&self.table, self.context.catalog);
        let relation = RelationName::new(own.schema, name);
        let others = catalog.table_of_index(&relation).filter(|table| table.name != own.name);
        self.names.contains(name)
            || catalog.tables.contains_key(&relation)
            || catalog.views.contains_key(&relation)
            || catalog.sequences.contains_key(&relation)
            || others.is_some()
            || own.has_index_named(name)
            || own.checks.iter().any(|check| check.name == name)
            || own.foreign_keys.iter().any(|key| key.name == name)
            || (is_constraint && has_constraint(catalog, own.schema, name, Some(&own.name)))
    }

    /// The name that was given, or one of these columns and what the object is.
    pub fn name_or(&mut self, name: Option<&ast::Ident>, columns: &[usize], label: &str) -> String {
        if let Some(name) = name {
            let name = fold(name);
            self.names.insert(name.clone());
            return name;
        }
        let columns: Vec<String> = columns
            .iter()
            .map(|column| self.table.columns[*column].name.clone())
            .collect();
        let parts: Vec<&str> = columns.iter().map(String::as_str).chain([label]).collect();
        self.free_name(&parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_part_gives_way() {
        let (long, longer) = ("a".repeat(40), "b".repeat(60));
        let name = object_name(&long, Some(&longer), "key");
        assert_eq!(name, format!("{}_{}_key", "a".repeat(29), "b".repeat(29)));
        let name = object_name("short", Some(&longer), "key");
        assert_eq!((name.len(), name.starts_with("short_bbb")), (63, true));
        assert_eq!(object_name("t", None, "pkey"), "t_pkey");
        // What is cut within a letter loses the letter.
        assert_eq!(
            object_name(&"é".repeat(31), None, "pkey"),
            format!("{}_pkey", "é".repeat(29))
        );
    }

    #[test]
    fn a_number_behind_the_label_takes_room_of_the_parts() {
        let long = "a".repeat(63);
        let taken = object_name(&long, Some(&long), "idx");
        let name = free_name(&long, Some(&long), "idx", |name| name == taken);
        assert_eq!(name, format!("{}_{}_idx1", "a".repeat(29), "a".repeat(28)));
    }
}
