//! Two schema changes at once: what one transaction changed, on top of what others have committed meanwhile.

use crate::catalog::{Catalog, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The names of tables that differ between two catalogs.
pub fn changed_tables(before: &Catalog, after: &Catalog) -> Vec<String> {
    changed(&before.tables, &after.tables)
}

/// `newest` with what `own` changed since `base`. An error names what both have changed.
pub fn merge(base: &Catalog, own: &Catalog, newest: &Catalog) -> Result<Catalog, String> {
    let mut merged = newest.clone();
    let tables = changed(&base.tables, &own.tables);
    take_over(&tables, (&base.tables, &own.tables), &mut merged.tables)?;
    let sequences = changed(&base.sequences, &own.sequences);
    take_over(&sequences, (&base.sequences, &own.sequences), &mut merged.sequences)?;
    let views = changed(&base.views, &own.views);
    take_over(&views, (&base.views, &own.views), &mut merged.views)?;
    let domains = changed(&base.domains, &own.domains);
    take_over(&domains, (&base.domains, &own.domains), &mut merged.domains)?;
    check_domains(base, newest, &merged, (&tables, &domains))?;
    check_views(base, &tables, &views, newest, &merged)?;
    for table in tables.iter().filter_map(|name| own.tables.get(name)) {
        for name in names_of(table) {
            let others = newest.tables.values().filter(|other| !tables.contains(&other.name));
            let is_taken = others.flat_map(|other| names_of(other)).any(|other| other == name)
                || (newest.views.contains_key(name) && !views.iter().any(|own| own == name))
                || (newest.domains.contains_key(name) && !domains.iter().any(|own| own == name))
                || (newest.sequences.contains_key(name) && !sequences.iter().any(|own| own == name));
            if is_taken {
                return Err(name.to_owned());
            }
        }
    }
    merge_comments(base, own, &mut merged);
    let names = merged.tables.iter().map(|(name, table)| (table.id, name.clone()));
    merged.table_names = names.collect();
    merged.next_id = merged.next_id.max(own.next_id);
    Ok(merged)
}

/// Columns keep what their domain says: an error names a domain that one transaction changed while another changed a table of it.
fn check_domains(
    base: &Catalog,
    newest: &Catalog,
    merged: &Catalog,
    (tables, domains): (&[String], &[String]),
) -> Result<(), String> {
    let (other_tables, other_domains) = (
        changed(&base.tables, &newest.tables),
        changed(&base.domains, &newest.domains),
    );
    for table in merged.tables.values() {
        let used = table.columns.iter().filter_map(|column| column.domain.as_ref());
        for domain in used {
            let is_there = merged.domains.contains_key(domain);
            let own_against_other = tables.contains(&table.name) && other_domains.contains(domain);
            let other_against_own = other_tables.contains(&table.name) && domains.contains(domain);
            if !is_there || own_against_other || other_against_own {
                return Err(domain.clone());
            }
        }
    }
    Ok(())
}

/// What views read is as they were made for: an error names a relation that one transaction changed while another made a view of it.
fn check_views(
    base: &Catalog,
    tables: &[String],
    views: &[String],
    newest: &Catalog,
    merged: &Catalog,
) -> Result<(), String> {
    let others = changed(&base.tables, &newest.tables);
    for view in merged.views.values() {
        let is_own = views.contains(&view.name);
        let is_new = !base.views.contains_key(&view.name);
        for name in view.depends.iter().map(|dependency| &dependency.relation) {
            let is_there = merged.tables.contains_key(name) || merged.views.contains_key(name);
            let has_changed = (is_own && others.contains(name)) || (!is_own && is_new && tables.contains(name));
            if !is_there || has_changed {
                return Err(name.clone());
            }
        }
        if is_own
            && newest
                .tables
                .values()
                .any(|table| names_of(table).any(|name| name == view.name))
        {
            return Err(view.name.clone());
        }
    }
    Ok(())
}

/// What both have said of the same thing is what was said last.
fn merge_comments(base: &Catalog, own: &Catalog, merged: &mut Catalog) {
    for place in base.comments.keys().chain(own.comments.keys()) {
        let said = own.comments.get(place);
        if said != base.comments.get(place) {
            match said {
                Some(comment) => drop(merged.comments.insert(*place, comment.clone())),
                None => drop(merged.comments.remove(place)),
            }
        }
    }
    merged.drop_comments();
}

fn changed<T>(before: &BTreeMap<String, Arc<T>>, after: &BTreeMap<String, Arc<T>>) -> Vec<String> {
    let is_same = |name: &String| match (before.get(name), after.get(name)) {
        (Some(before), Some(after)) => Arc::ptr_eq(before, after),
        _ => false,
    };
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let names = after.keys().filter(|name| !is_same(name)).chain(gone);
    names.cloned().collect()
}

fn take_over<T>(
    names: &[String],
    (base, own): (&BTreeMap<String, Arc<T>>, &BTreeMap<String, Arc<T>>),
    merged: &mut BTreeMap<String, Arc<T>>,
) -> Result<(), String> {
    for name in names {
        let untouched = match (base.get(name), merged.get(name)) {
            (Some(base), Some(newest)) => Arc::ptr_eq(base, newest),
            (None, None) => true,
            _ => false,
        };
        if !untouched {
            return Err(name.clone());
        }
        match own.get(name) {
            Some(own) => drop(merged.insert(name.clone(), Arc::clone(own))),
            None => drop(merged.remove(name)),
        }
    }
    Ok(())
}

/// The names that a table takes in the one space of names of tables, indexes and sequences.
fn names_of(table: &Table) -> impl Iterator<Item = &str> {
    let indexes = table.indexes.iter().map(|index| index.name.as_str());
    let key = (!table.primary_key.is_empty()).then_some(table.primary_key_name.as_str());
    std::iter::once(table.name.as_str()).chain(indexes).chain(key)
}
