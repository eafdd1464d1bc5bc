//! Another node of the grid keeps from now on what there is once (decision 0042).

use crate::catalog::{Catalog, Spread, SpreadWay};
use crate::databases::{DatabaseId, Keeping};
use crate::partition::{Attachment, Partition};
use rubato_base::{Error, Lsn, NodeId, Result, SqlState, Timestamp};
use rubato_protocol::CommitRecord;
use std::sync::Arc;

/// Hands over to another node what this one keeps: from the record of that in the log on, this node keeps nothing, and the other does when it
/// has heard of it. Nothing happens if that is this node itself. Returned is what the log has to be forced up to before anybody is told.
///
/// Errors: 42704 for a node that is none of the grid; 57P03 for one that cannot be reached; 55006 while this node has something that would be
/// left behind, or is not known to be alone in changing it.
pub fn hand_over(partition: &mut Partition, to: NodeId) -> Result<Lsn> {
    let Some(desk) = partition.grid.clone().filter(|desk| desk.members().contains(&to)) else {
        let message = format!("node {} is none of the grid", to.0);
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
    };
    let Some(own) = desk.node().filter(|own| *own != to) else {
        return Ok(Lsn(0));
    };
    check_nothing_is_left(partition)?;
    partition.admit_write()?;
    let version_base = desk.version_for_next(to)?;
    let before = partition.databases.keeping().map_or(0, |keeping| keeping.number);
    let catalogs = placed(partition, own);
    let keeping = Keeping {
        number: before + 1,
        node: to,
        from: own,
        version_base,
        next_id: partition.next_storage_id.max(partition.databases.next_id()),
    };
    let attachment = Attachment {
        catalogs: catalogs
            .iter()
            .map(|(id, catalog)| (*id, (**catalog).clone()))
            .collect(),
        keeping: Some(keeping),
        sequences: partition.sequences.given(),
        ..Attachment::default()
    };
    let appended = partition.log.append(&CommitRecord {
        cts: Timestamp::ZERO,
        changes: &(),
        attachment: Some(&attachment.encode()),
    })?;
    partition.hand_over(keeping, catalogs);
    Ok(appended)
}

/// 55006 if something is on this node because it keeps what there is once, and would not be found there any more.
fn check_nothing_is_left(partition: &Partition) -> Result<()> {
    let in_use = |message: &str| Error::new(SqlState::OBJECT_IN_USE, message);
    if !partition.schema_changes.is_empty() || partition.schema_changes.is_committing() {
        return Err(in_use("a definition is being changed").with_hint("Try again when it has ended."));
    }
    if !partition.advisory.is_empty() {
        let hint = "rubato.sessions and pg_stat_activity show the sessions. Try again when they have released them.";
        return Err(in_use("advisory locks are held or waited for, and lie on this node").with_hint(hint));
    }
    for database in partition.databases.iter() {
        let of_database = |error: Error| error.with_detail(format!("It is in database \"{}\".", database.facts.name));
        if !database.catalog.temporary_schemas().is_empty() {
            let error = in_use("a session has temporary relations, which lie on this node");
            return Err(of_database(error).with_hint("Try again when the session has dropped them, or has ended."));
        }
    }
    Ok(())
}

/// The catalogs in which tables lie on this node by name that were here for want of another place. No row moves, so that whoever knows them
/// as they were finds them still.
fn placed(partition: &mut Partition, own: NodeId) -> Vec<(DatabaseId, Arc<Catalog>)> {
    let databases = Arc::clone(&partition.databases);
    let mut placed = Vec::new();
    for database in databases.iter() {
        let mut catalog = (*database.catalog).clone();
        let version = u64::from(partition.take_storage_id());
        let mut is_other = false;
        for table in catalog.tables.values_mut().filter(|table| table.laid().is_none()) {
            let table = Arc::make_mut(table);
            let spread = table.spread.get_or_insert_with(|| Spread::of_way(SpreadWay::Whole));
            spread.nodes = vec![own];
            table.version = version;
            is_other = true;
        }
        if is_other {
            catalog.version = version;
            catalog.next_id = catalog.next_id.max(partition.next_storage_id);
            placed.push((database.facts.id, Arc::new(catalog)));
        }
    }
    placed
}
