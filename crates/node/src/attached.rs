//! What catalogs that are attached to a branch of several nodes' transaction change, on a node that runs and on one that recovers.

use crate::checkpoint::with_attached;
use rubato_base::{Result, TableId};
use rubato_protocol::{Definition, FormulaDatabase};
use rubato_sql::catalog::{self, Table};
use rubato_sql::databases::{DatabaseFacts, Databases};
use rubato_sql::partition::{Attachment, Derived};
use std::collections::BTreeSet;

/// The databases with all their catalogs, and who changes them, as another node is told.
pub(crate) fn all_of(databases: &Databases) -> Attachment {
    let catalogs = databases.iter();
    let catalogs = catalogs.map(|database| (database.facts.id, (*database.catalog).clone()));
    Attachment {
        databases: Some(databases.facts()),
        catalogs: catalogs.collect(),
        keeping: databases.keeping().copied(),
        ..Attachment::default()
    }
}

/// The databases with the attached catalogs, and rows that were laid out of others' on the node that changed them. Catalogs that are no
/// newer than those that are there are left out: the commit of a branch may be heard of after that of a later one.
///
/// Errors: XX001 if the content is damaged.
pub(crate) fn with_newer(databases: &Databases, content: &[u8]) -> Result<Option<(Databases, Vec<Derived>)>> {
    let attachment = Attachment::decode(content)?;
    let mut catalogs = attachment.catalogs;
    catalogs.retain(|(database, catalog)| databases.catalog(*database).version < catalog.version);
    if catalogs.is_empty() {
        return Ok(None);
    }
    // A database that is made is one of these; of the others newer facts may be here.
    let made = attachment.databases.map(|told| {
        let has_catalog = |id| catalogs.iter().any(|(database, _)| *database == id);
        let is_new = |facts: &DatabaseFacts| databases.get(facts.id).is_none() && has_catalog(facts.id);
        let made = told.into_iter().filter(is_new);
        databases.facts().into_iter().chain(made).collect()
    });
    Ok(Some((
        with_attached(databases, made, catalogs, None),
        attachment.derived,
    )))
}

/// The storage of tables that are not the same in both.
pub(crate) fn changed_tables(before: &Databases, after: &Databases) -> BTreeSet<TableId> {
    let version = |table: &Table| (table.id, table.version);
    let before: BTreeSet<_> = tables(before).map(version).collect();
    let after: BTreeSet<_> = tables(after).map(version).collect();
    before.symmetric_difference(&after).map(|(table, _)| *table).collect()
}

/// The storage of tables that are read otherwise in the second, with that of their indexes.
pub(crate) fn redefined_storage(before: &Databases, after: &Databases) -> Vec<TableId> {
    let own = after.iter();
    own.flat_map(|database| catalog::redefined_storage(before.catalog(database.facts.id), &database.catalog))
        .collect()
}

/// What a branch with these catalogs attached does to definitions, as a node that recovers knows it.
pub(crate) fn definition_of(before: &Databases, content: Vec<u8>) -> Result<(Databases, Definition)> {
    let (after, _) = with_newer(before, &content)?.unwrap_or_else(|| (before.clone(), Vec::new()));
    let changed = changed_tables(before, &after);
    let is_there: BTreeSet<TableId> = before.storage().into_iter().collect();
    let created = after
        .storage()
        .into_iter()
        .filter(|storage| !is_there.contains(storage));
    let named: BTreeSet<TableId> = after.storage().into_iter().collect();
    let closed = is_there
        .iter()
        .copied()
        .filter(|storage| changed.contains(storage) || !named.contains(storage));
    let definition = Definition {
        created: created.collect(),
        closed: closed.collect(),
        lengthened: changed.iter().copied().collect(),
        attachment: Some(content),
    };
    Ok((after, definition))
}

/// A branch has ended whose definition is not carried out, or is by now: storage that no catalog has goes, and rows have in columns that
/// they lack what the catalogs say.
pub(crate) fn leave(database: &mut FormulaDatabase, databases: &Databases, definition: &Definition) {
    let named: BTreeSet<TableId> = databases.storage().into_iter().collect();
    for gone in definition.created.iter().filter(|storage| !named.contains(storage)) {
        database.drop_table(*gone);
    }
    for table in tables(databases).filter(|table| definition.lengthened.contains(&table.id)) {
        database.set_tail(table.id, table.tail());
    }
}

/// All tables of all databases.
pub(crate) fn tables(databases: &Databases) -> impl Iterator<Item = &Table> {
    let tables = databases.iter().flat_map(|database| database.catalog.tables.values());
    tables.map(AsRef::as_ref)
}
