//! Two schema changes at once: what one transaction changed, on top of what others have committed meanwhile.

use super::sequences_read;
use super::views::query_of;
use crate::catalog::{Catalog, Domain, RelationName, SchemaId, Sequence, Table};
use rubato_base::DataType;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The names of tables that differ between two catalogs.
pub fn changed_tables(before: &Catalog, after: &Catalog) -> Vec<RelationName> {
    changed(&before.tables, &after.tables).into_iter().collect()
}

/// `newest` with what `own` changed since `base`. An error names what both have changed.
pub fn merge(base: &Catalog, own: &Catalog, newest: &Catalog) -> Result<Catalog, RelationName> {
    let mut merged = newest.clone();
    let changes = Changes::between(base, own);
    take_over(&changes.tables, (&base.tables, &own.tables), &mut merged.tables)?;
    take_over(
        &changes.sequences,
        (&base.sequences, &own.sequences),
        &mut merged.sequences,
    )?;
    take_over(&changes.views, (&base.views, &own.views), &mut merged.views)?;
    take_over(&changes.domains, (&base.domains, &own.domains), &mut merged.domains)?;
    take_over(&changes.enums, (&base.enums, &own.enums), &mut merged.enums)?;
    merged.collect_enum_labels();
    check_domains(base, newest, &merged, &changes)?;
    check_enums(&merged)?;
    check_views(base, own, newest, &merged)?;
    let own_names = Names::of(own, |kind, name| changes.of(kind).contains(name));
    let other_names = Names::of(&merged, |kind, name| !changes.of(kind).contains(name));
    own_names.are_apart_from(&other_names)?;
    check_sequences(base, &changes, &merged)?;
    merge_schemas(base, own, &mut merged)?;
    merge_comments(base, own, &mut merged);
    let names = merged.tables.iter().map(|(name, table)| (table.id, name.clone()));
    merged.table_names = names.collect();
    merged.next_id = merged.next_id.max(own.next_id);
    Ok(merged)
}

/// What has a name in a schema.
#[derive(Clone, Copy)]
enum Kind {
    Table,
    Sequence,
    View,
    Domain,
    Enum,
}

/// The names of what one transaction has changed, made or dropped.
struct Changes {
    tables: BTreeSet<RelationName>,
    sequences: BTreeSet<RelationName>,
    views: BTreeSet<RelationName>,
    domains: BTreeSet<RelationName>,
    enums: BTreeSet<RelationName>,
}

impl Changes {
    fn between(base: &Catalog, own: &Catalog) -> Changes {
        Changes {
            tables: changed(&base.tables, &own.tables),
            sequences: changed(&base.sequences, &own.sequences),
            views: changed(&base.views, &own.views),
            domains: changed(&base.domains, &own.domains),
            enums: changed(&base.enums, &own.enums),
        }
    }

    fn of(&self, kind: Kind) -> &BTreeSet<RelationName> {
        match kind {
            Kind::Table => &self.tables,
            Kind::Sequence => &self.sequences,
            Kind::View => &self.views,
            Kind::Domain => &self.domains,
            Kind::Enum => &self.enums,
        }
    }
}

/// Names that are taken. Relations and types are told apart, and what has rows is both.
struct Names {
    relations: BTreeSet<RelationName>,
    types: BTreeSet<RelationName>,
}

impl Names {
    /// Those of the things that `counts` says.
    fn of(catalog: &Catalog, counts: impl Fn(Kind, &RelationName) -> bool) -> Names {
        let (mut relations, mut types) = (BTreeSet::new(), BTreeSet::new());
        for (name, table) in catalog.tables.iter().filter(|(name, _)| counts(Kind::Table, name)) {
            relations.extend(names_of(table));
            types.insert(name.clone());
        }
        let views = catalog.views.keys().filter(|name| counts(Kind::View, name));
        for name in views {
            relations.insert(name.clone());
            types.insert(name.clone());
        }
        let sequences = catalog.sequences.keys().filter(|name| counts(Kind::Sequence, name));
        relations.extend(sequences.cloned());
        let domains = catalog.domains.keys().filter(|name| counts(Kind::Domain, name));
        types.extend(domains.cloned());
        let enums = catalog.enums.keys().filter(|name| counts(Kind::Enum, name));
        types.extend(enums.cloned());
        Names { relations, types }
    }

    /// An error names what both take.
    fn are_apart_from(&self, others: &Names) -> Result<(), RelationName> {
        let relations = self.relations.iter().find(|name| others.relations.contains(*name));
        let twice = relations.or_else(|| self.types.iter().find(|name| others.types.contains(*name)));
        twice.map_or(Ok(()), |name| Err(name.clone()))
    }
}

/// Defaults take numbers of sequences that are there, and sequences are those of columns that are: an error names what one transaction dropped
/// while another made something of it.
fn check_sequences(base: &Catalog, changes: &Changes, merged: &Catalog) -> Result<(), RelationName> {
    let there: BTreeSet<u32> = merged.sequences.values().map(|sequence| sequence.id).collect();
    let dropped = changes.sequences.iter().filter_map(|name| base.sequences.get(name));
    let dropped: BTreeSet<u32> = dropped
        .map(|sequence| sequence.id)
        .filter(|id| !there.contains(id))
        .collect();
    for (name, table) in &merged.tables {
        let is_own = changes.tables.contains(name);
        let defaults = table.columns.iter().filter_map(|column| column.default.as_ref());
        let mut read = defaults.flat_map(sequences_read);
        if read.any(|id| dropped.contains(&id) || (is_own && !there.contains(&id))) {
            return Err(name.clone());
        }
    }
    let is_orphan = |(name, sequence): &(&RelationName, &Arc<Sequence>)| {
        let owner = sequence.owned_by.as_ref().map(|(table, _)| table);
        let is_of_both = |table: &RelationName| changes.sequences.contains(*name) || changes.tables.contains(table);
        owner.is_some_and(|table| is_of_both(table) && !merged.tables.contains_key(table))
    };
    let orphan = merged.sequences.iter().find(is_orphan);
    orphan.map_or(Ok(()), |(name, _)| Err(name.clone()))
}

/// Columns keep what their domain says: an error names a domain that one transaction changed while another changed a table of it.
fn check_domains(base: &Catalog, newest: &Catalog, merged: &Catalog, changes: &Changes) -> Result<(), RelationName> {
    let (tables, domains) = (&changes.tables, &changes.domains);
    let (other_tables, other_domains) = (
        changed(&base.tables, &newest.tables),
        changed(&base.domains, &newest.domains),
    );
    let is_as_beneath = |domain: &&Arc<Domain>| match &domain.base {
        Some(base) => merged
            .domains
            .values()
            .any(|other| other.oid == base.oid && other.as_base() == *base),
        None => true,
    };
    if let Some(domain) = merged.domains.values().find(|domain| !is_as_beneath(domain)) {
        return Err(domain.key());
    }
    for table in merged.tables.values() {
        let used = table.columns.iter().filter_map(|column| column.domain.as_ref());
        for domain in used {
            let is_there = merged.domains.contains_key(domain);
            let own_against_other = tables.contains(&table.key()) && other_domains.contains(domain);
            let other_against_own = other_tables.contains(&table.key()) && domains.contains(domain);
            if !is_there || own_against_other || other_against_own {
                return Err(domain.clone());
            }
        }
    }
    Ok(())
}

/// An error names a table or domain whose enum is gone: one transaction dropped it while another made something of it.
fn check_enums(merged: &Catalog) -> Result<(), RelationName> {
    let is_there = |data_type: DataType| {
        data_type
            .enum_number()
            .is_none_or(|own| merged.enum_by_oid(own).is_some())
    };
    let is_whole = |table: &&Arc<Table>| {
        let mut columns = table.columns.iter();
        columns.all(|column| column.dropped || is_there(column.column_type.data_type))
    };
    if let Some(table) = merged.tables.values().find(|table| !is_whole(table)) {
        return Err(table.key());
    }
    let mut domains = merged.domains.values();
    match domains.find(|domain| !is_there(domain.column_type.data_type)) {
        Some(domain) => Err(domain.key()),
        None => Ok(()),
    }
}

/// The schemas and extensions that a transaction made, renamed or dropped. An error names what would be in a schema that is gone, or twice there.
fn merge_schemas(base: &Catalog, own: &Catalog, merged: &mut Catalog) -> Result<(), RelationName> {
    for name in base.schemas.keys().chain(own.schemas.keys()) {
        let (before, after) = (base.schemas.get(name), own.schemas.get(name));
        if before == after {
            continue;
        }
        if merged.schemas.get(name) != before {
            return Err(RelationName::new(SchemaId::NOWHERE, name.as_str()));
        }
        match after {
            Some(id) => drop(merged.schemas.insert(name.clone(), *id)),
            None => drop(merged.schemas.remove(name)),
        }
    }
    for name in base.extensions.keys().chain(own.extensions.keys()) {
        let (before, after) = (base.extensions.get(name), own.extensions.get(name));
        if before != after && merged.extensions.get(name) != before {
            return Err(RelationName::new(SchemaId::NOWHERE, name.as_str()));
        }
        match after {
            _ if before == after => {}
            Some(extension) => drop(merged.extensions.insert(name.clone(), *extension)),
            None => drop(merged.extensions.remove(name)),
        }
    }
    let is_there = |name: &&RelationName| {
        name.schema.is_temporary() || merged.schemas.values().any(|schema| *schema == name.schema)
    };
    match merged
        .relations()
        .chain(merged.domains.keys())
        .chain(merged.enums.keys())
        .find(|name| !is_there(name))
    {
        Some(name) => Err(name.clone()),
        None => Ok(()),
    }
}

/// What views read is as they were made for: an error names what one transaction changed while another made a view of it, or had a view
/// read it from then on.
fn check_views(base: &Catalog, own: &Catalog, newest: &Catalog, merged: &Catalog) -> Result<(), RelationName> {
    let (by_own, by_others) = (changed_beneath(base, own), changed_beneath(base, newest));
    let materialised = merged.tables.values();
    let materialised = materialised.filter_map(|table| Some((table.key(), &table.materialised.as_ref()?.query)));
    let plain = merged.views.values().map(|view| (view.key(), &view.query));
    for (view, query) in plain.chain(materialised) {
        let says_otherwise = |catalog: &Catalog| query_of(catalog, &view) != query_of(base, &view);
        let (is_own, is_others) = (says_otherwise(own), says_otherwise(newest));
        for name in query.depends.iter().map(|dependency| &dependency.relation) {
            let is_there = merged.tables.contains_key(name)
                || merged.views.contains_key(name)
                || merged.sequences.contains_key(name)
                || merged.has_type(name);
            let has_changed = (is_own && by_others.contains(name)) || (is_others && by_own.contains(name));
            if !is_there || has_changed {
                return Err(name.clone());
            }
        }
    }
    Ok(())
}

/// What a view's text may say something else about: tables, types, views with other columns, sequences that are gone by that name, and all
/// that is in a schema of another name.
fn changed_beneath(before: &Catalog, after: &Catalog) -> BTreeSet<RelationName> {
    let mut names = changed(&before.tables, &after.tables);
    names.extend(changed(&before.domains, &after.domains));
    names.extend(changed(&before.enums, &after.enums));
    let columns_of = |catalog: &Catalog, name: &RelationName| catalog.views.get(name).map(|view| view.columns.clone());
    let mut views = changed(&before.views, &after.views);
    views.retain(|name| columns_of(before, name) != columns_of(after, name));
    names.extend(views);
    let sequences = before.sequences.keys();
    names.extend(sequences.filter(|name| !after.sequences.contains_key(*name)).cloned());
    let is_same = |(name, id): &(&String, &SchemaId)| after.schemas.get(*name) == Some(*id);
    let renamed = before.schemas.iter().filter(|schema| !is_same(schema));
    let renamed: BTreeSet<SchemaId> = renamed.map(|(_, id)| *id).collect();
    let all = before
        .relations()
        .chain(before.domains.keys())
        .chain(before.enums.keys());
    names.extend(all.filter(|name| renamed.contains(&name.schema)).cloned());
    names
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

fn changed<T>(
    before: &BTreeMap<RelationName, Arc<T>>,
    after: &BTreeMap<RelationName, Arc<T>>,
) -> BTreeSet<RelationName> {
    let is_same = |name: &RelationName| match (before.get(name), after.get(name)) {
        (Some(before), Some(after)) => Arc::ptr_eq(before, after),
        _ => false,
    };
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let names = after.keys().filter(|name| !is_same(name)).chain(gone);
    names.cloned().collect()
}

fn take_over<T>(
    names: &BTreeSet<RelationName>,
    (base, own): (&BTreeMap<RelationName, Arc<T>>, &BTreeMap<RelationName, Arc<T>>),
    merged: &mut BTreeMap<RelationName, Arc<T>>,
) -> Result<(), RelationName> {
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

/// The names that a table takes in its schema's space of names of tables, indexes and sequences.
fn names_of(table: &Table) -> impl Iterator<Item = RelationName> {
    let indexes = table.indexes.iter().map(|index| index.name.as_str());
    let key = (!table.primary_key.is_empty()).then_some(table.primary_key_name.as_str());
    let names = std::iter::once(table.name.as_str()).chain(indexes).chain(key);
    names.map(|name| RelationName::new(table.schema, name))
}
