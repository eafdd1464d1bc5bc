//! Steps on the way of a table's rows to other nodes (decision 0036): what is to be done next is said here, as a schema change.

use super::Session;
use super::far::FOR_OTHERS;
use crate::catalog::{Catalog, RelationName, Spread, SpreadWay, Table};
use crate::databases::DatabaseId;
use crate::executor::MoveWork;
use crate::grid::GridDesk;
use crate::handing::hand_over;
use crate::moves::{Due, Searched};
use crate::partition::Partition;
use crate::statement::{AlterAction, SchemaChange};
use crate::system_tables::{IN_DOUBT, InDoubt, in_doubt_of};
use rubato_base::{Error, NodeId, Result, SessionId, SqlState, Timestamp};
use rubato_protocol::{Outcome, Stop};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The tag of what is said to the grid.
const TAG: &str = "ALTER GRID";

impl Session {
    /// The schema change with what its step is now, if it is one.
    ///
    /// Errors: 25001 within a block; 55000 for a table that cannot move; 22023 for nodes that are none.
    pub(super) fn resolved_step(
        &self,
        change: &SchemaChange,
        before: &Catalog,
        partition: &Partition,
    ) -> Result<Option<SchemaChange>> {
        let Some((name, nodes, rows_max)) = step_in(change) else {
            return Ok(None);
        };
        let Some(table) = before.tables.get(name) else {
            return Ok(None);
        };
        self.check_alone("ALTER TABLE ... SET (spread_nodes = ...)")?;
        let step = self.step((table, before), (nodes, rows_max), partition)?;
        let SchemaChange::AlterTable {
            table, if_exists, kind, ..
        } = change
        else {
            return Ok(None);
        };
        Ok(Some(SchemaChange::AlterTable {
            table: table.clone(),
            if_exists: *if_exists,
            actions: step.into_iter().collect(),
            kind: *kind,
        }))
    }

    fn step(
        &self,
        (table, catalog): (&Table, &Catalog),
        (nodes, rows_max): (&[NodeId], usize),
        partition: &Partition,
    ) -> Result<Option<AlterAction>> {
        let wrong = |message: String| Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
        let Some(desk) = &partition.grid else {
            return Err(wrong(
                "this node is alone: there is no other one that rows could lie on".to_owned(),
            ));
        };
        if table.schema.is_temporary() {
            let message = format!("table \"{}\" is temporary: it stays where it is", table.name);
            return Err(wrong(message));
        }
        let whole = Spread::of_way(SpreadWay::Whole);
        let spread = table.spread.as_ref().unwrap_or(&whole);
        let members = desk.members();
        if let Some(none) = nodes.iter().find(|node| !members.contains(node)) {
            let message = format!("node {} is none of the grid", none.0);
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        if spread.is_moving() {
            return Ok(self.step_of_moving(table, spread, rows_max, partition));
        }
        let mut moves = partition.insight.moves();
        moves.forget(table.id);
        let databases = &partition.databases;
        moves.keep(|moving| {
            let mut catalogs = databases.iter().map(|database| &database.catalog);
            catalogs.any(|catalog| catalog.table_names.contains_key(&moving))
        });
        drop(moves);
        if spread.nodes == nodes {
            return Ok(None);
        }
        if spread.way == SpreadWay::Whole {
            return Ok(whole_step(spread, nodes, &**desk));
        }
        Ok(Some(match spread.way {
            SpreadWay::Everywhere => AlterAction::Lay(Some(Spread {
                nodes: nodes.to_vec(),
                ..Spread::of_way(SpreadWay::Everywhere)
            })),
            _ => AlterAction::Place(begun((spread, catalog), nodes, &**desk)),
        }))
    }

    fn step_of_moving(
        &self,
        table: &Table,
        spread: &Spread,
        rows_max: usize,
        partition: &Partition,
    ) -> Option<AlterAction> {
        let begun = self.begun(partition)?;
        let database = &partition.database;
        let open = [database.oldest_snapshot(), database.oldest_begun()];
        let oldest = open.into_iter().flatten().min()?;
        match partition
            .insight
            .moves()
            .due((table.id, spread.takes_new), begun, oldest)
        {
            Due::Nothing => None,
            Due::Open => Some(AlterAction::Place(Spread {
                takes_new: true,
                ..spread.clone()
            })),
            Due::Search(from) => Some(AlterAction::Move(MoveWork::Search { from, rows_max })),
            Due::Move(keys) => Some(AlterAction::Move(MoveWork::Move(keys))),
            Due::End => Some(AlterAction::Place(Spread {
                former: Vec::new(),
                takes_new: false,
                ..spread.clone()
            })),
        }
    }

    fn begun(&self, partition: &Partition) -> Option<Timestamp> {
        let transaction = self.transaction.as_ref()?;
        partition.database.begun(transaction.id).map(|(begun, _)| begun)
    }

    /// ALTER GRID HAND OVER: another node keeps from now on what there is once. Its tag.
    ///
    /// Errors: 25001 within a block; those of [`hand_over`].
    pub(super) fn hand_over(&mut self, to: NodeId, partition: &mut Partition) -> Result<String> {
        self.check_alone("ALTER GRID HAND OVER")?;
        let durable_at = hand_over(partition, to)?;
        self.raise_durable(durable_at);
        Ok(TAG.to_owned())
    }

    /// ALTER GRID REMOVE NODE: it is no member any more, if it has nothing that others need. Its tag.
    ///
    /// Errors: 42704 for a node that is none; 55000 for this one; 2BP01 as long as it has rows; 55006 while a definition is changed or a transaction waits for its decision, and if the others
    /// cannot agree on anything without it; 57P03 if a node that may have such a transaction cannot be asked. [`Stop::Wait`] until all have said so.
    pub(super) fn remove_node(&mut self, node: NodeId, partition: &Partition) -> Outcome<String> {
        let desk = self.may_be_removed(node, partition)?;
        nothing_ends_with(node, (self.id, self.identity.database_id), &**desk, partition)?;
        if !desk.may_do_without(node) {
            let message = format!("without node {} the others have no majority of the votes", node.0);
            let hint = "`rubato grid status` shows who has a vote: one of one or two nodes, three of three or four. Others are given one within a second, if they can be reached.";
            return Err(Error::new(SqlState::OBJECT_IN_USE, message).with_hint(hint).into());
        }
        desk.remove_node(node);
        Ok(TAG.to_owned())
    }

    /// Whether a node has nothing that others need, as far as the catalogs say so.
    fn may_be_removed<'a>(&self, node: NodeId, partition: &'a Partition) -> Result<&'a Arc<dyn GridDesk>> {
        self.check_alone("ALTER GRID REMOVE NODE")?;
        let Some(desk) = partition.grid.as_ref().filter(|desk| desk.members().contains(&node)) else {
            let message = format!("node {} is none of the grid", node.0);
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
        };
        if desk.node() == Some(node) {
            let message = format!("node {} cannot be removed: it keeps what there is once", node.0);
            let hint = format!("`rubato grid drain {}` hands that over to another node.", node.0);
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint(hint));
        }
        if !partition.schema_changes.is_empty() {
            let message = "a definition is being changed, which may come to need the node";
            return Err(Error::new(SqlState::OBJECT_IN_USE, message).with_hint("Try again when it has ended."));
        }
        for database in partition.databases.iter() {
            // Those that are named no place lie here.
            let has_rows = |table: &&Arc<Table>| table.spread.iter().any(|spread| spread.holders().contains(&node));
            if let Some(table) = database.catalog.tables.values().find(has_rows) {
                let message = format!("node {} may have rows of table \"{}\"", node.0, table.key());
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .with_detail(format!("The table is in database \"{}\".", database.facts.name))
                    .with_hint(format!("`rubato grid drain {}` moves all rows to other nodes.", node.0)));
            }
        }
        Ok(desk)
    }

    /// A step has looked for rows that are to move.
    pub(super) fn note_searched(
        &self,
        change: &SchemaChange,
        searched: Option<Searched>,
        catalog: &Catalog,
        partition: &Partition,
    ) {
        let table = step_in(change).and_then(|(name, ..)| catalog.tables.get(name));
        if let (Some(table), Some(searched), Some(begun)) = (table, searched, self.begun(partition)) {
            partition.insight.moves().on_searched(table.id, begun, searched);
        }
    }
}

/// Whether neither this node nor another one has changes of which only the node to be removed knows whether they have committed, and whether
/// it is committing nothing.
fn nothing_ends_with(
    node: NodeId,
    (session, database): (SessionId, DatabaseId),
    desk: &dyn GridDesk,
    partition: &Partition,
) -> Outcome<()> {
    let tables = partition.databases.iter().flat_map(|own| own.catalog.tables.values());
    let holders: BTreeSet<NodeId> = tables
        .flat_map(|table| &table.spread)
        .flat_map(Spread::holders)
        .collect();
    let own = desk.node();
    let unreached = |holder: &NodeId| Some(*holder) != own && !desk.is_up(*holder);
    if let Some(other) = holders.iter().copied().find(unreached) {
        return Err(cannot_ask(other, node).into());
    }
    let told = desk.take_sessions(session, (IN_DOUBT, database));
    let told = told.ok_or(Stop::Wait(FOR_OTHERS))?;
    let said = in_doubt_of(&told.rows);
    let has_said = |holder: &NodeId| Some(*holder) == own || said.iter().any(|said| said.node == *holder);
    if let Some(other) = holders.iter().copied().find(|holder| !has_said(holder)) {
        return Err(cannot_ask(other, node).into());
    }
    let mut here = partition.database.prepared_branches().map(|(global, _)| global);
    let here = here.find(|global| global.coordinator == node);
    let elsewhere = said.iter().find(|said| said.coordinator == Some(node));
    let detail = match (here, elsewhere) {
        (Some(transaction), _) => format!("Transaction {transaction} is prepared here."),
        (None, Some(InDoubt { node: at, example, .. })) if *at != node => {
            format!("Transaction {example} is prepared on node {}.", at.0)
        }
        (None, Some(InDoubt { example, .. })) => format!("It has transaction {example} under way."),
        (None, None) => return Ok(()),
    };
    let message = format!("only node {} knows how a transaction ends", node.0);
    Err(Error::new(SqlState::OBJECT_IN_USE, message)
        .with_detail(detail)
        .with_hint("Try again when it has ended: in a moment, if the node runs. If it does not, start it again first.")
        .into())
}

fn cannot_ask(other: NodeId, node: NodeId) -> Error {
    let message = format!("node {} cannot be reached", other.0);
    let detail = format!(
        "It may have changes of which only node {} knows whether they have committed.",
        node.0
    );
    Error::new(SqlState::CANNOT_CONNECT_NOW, message)
        .with_detail(detail)
        .with_hint("Try again when it is back.")
}

/// 0A000 for a step within a block of definitions: it is a transaction of its own.
pub(super) fn refuse_step(change: &SchemaChange) -> Result<()> {
    match step_in(change) {
        Some(_) => Err(Error::unsupported("ALTER TABLE ... SET (spread_nodes = ...) in DO")),
        None => Ok(()),
    }
}

/// Whether the change is a step of [`Session::resolved_step`].
pub(super) fn is_step(change: &SchemaChange) -> bool {
    step_in(change).is_some()
}

/// The table, the nodes and the number of rows, if the change is a step.
fn step_in(change: &SchemaChange) -> Option<(&RelationName, &[NodeId], usize)> {
    match change {
        SchemaChange::AlterTable { table, actions, .. } => match &actions[..] {
            [AlterAction::Step { nodes, rows_max }] => Some((table, nodes, *rows_max)),
            _ => None,
        },
        _ => None,
    }
}

/// What begins for a table that is whole: it stays if its node is one of these, else it goes to the first of them. One that is where all is
/// that there is once stays there by name, if that is the only one of them.
fn whole_step(spread: &Spread, nodes: &[NodeId], desk: &dyn GridDesk) -> Option<AlterAction> {
    let now = spread.nodes.first().copied().or_else(|| desk.node())?;
    let to = match nodes.contains(&now) {
        true if spread.is_laid() || nodes.len() > 1 => return None,
        true => now,
        false => *nodes.first()?,
    };
    Some(AlterAction::Place(Spread {
        nodes: vec![to],
        former: if to == now { Vec::new() } else { vec![now] },
        ..Spread::of_way(SpreadWay::Whole)
    }))
}

/// How rows lie that are about to move to these nodes.
fn begun((spread, catalog): (&Spread, &Catalog), nodes: &[NodeId], desk: &dyn GridDesk) -> Spread {
    let former = match spread.is_laid() {
        true => spread.turns().to_vec(),
        // All is here, where the catalogs are changed.
        false => desk.node().into_iter().collect(),
    };
    Spread {
        way: spread.way.clone(),
        nodes: nodes.to_vec(),
        turns: turns_of_others(catalog, nodes).unwrap_or_else(|| desk.turns(&former, nodes)),
        former,
        takes_new: false,
    }
}

/// The turns of another table on these nodes: what begins with equal values is to lie together.
pub(super) fn turns_of_others(catalog: &Catalog, nodes: &[NodeId]) -> Option<Vec<NodeId>> {
    let spreads = catalog.tables.values().filter_map(|table| table.laid());
    let by_parts =
        |spread: &&Spread| !matches!(spread.way, SpreadWay::Everywhere | SpreadWay::Whole) && spread.nodes == nodes;
    spreads.into_iter().find(by_parts).map(|spread| spread.turns().to_vec())
}
