//! The portals of a session: statements bound to values, run in pieces.
//!
//! A portal shows the rows as they were when it was opened, whatever its own transaction writes afterwards. What it reads piece by piece
//! would see those writes: before the first of them, portals that are still reading read on to their end, and keep their rows.

use super::execute::is_current;
use super::follow::CursorsAway;
use super::prepared::{NAMES_MAX, Prepared};
use super::running::Part;
use super::scroll::Scroll;
use super::{Block, Next, Session, SessionContext};
use crate::catalog::Catalog;
use crate::client::Formats;
use crate::executor::{Cursor, Limits};
use crate::partition::Partition;
use crate::plan::{Plan, PlanBody};
use crate::schema_change::changed_in_place;
use crate::statement::{SchemaChange, Statement};
use rubato_base::{Error, Result, SqlState, Value};
use rubato_protocol::Outcome;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The portals of a session. Nearly always there is the unnamed one and no other: it needs no look-up.
#[derive(Default)]
pub(super) struct Portals {
    unnamed: Option<Portal>,
    named: BTreeMap<String, Portal>,
    /// How many have been opened so far.
    opened: u64,
    /// Cursors that have outlasted their transaction on another node.
    pub(super) elsewhere: CursorsAway,
}

/// A statement bound to values.
pub(super) struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) parameters: Arc<[Value]>,
    pub(super) formats: Formats,
    pub(super) cursor: Option<Box<Cursor>>,
    pub(super) done: Option<String>,
    /// Whether it ended with an error.
    pub(super) has_failed: bool,
    /// Its place, and the rows that it can go back to, if DECLARE has opened it.
    pub(super) scroll: Option<Box<Scroll>>,
    pub(super) hold: Hold,
    /// Whether it may go back, at least as long as its rows are few.
    pub(super) is_scrollable: bool,
    /// What it is called on the other node that runs it, if it is read in pieces there.
    pub(super) name_away: Option<String>,
    /// When it was opened.
    pub(super) since_us: i64,
    /// How many were opened before it.
    opened: u64,
}

/// Whether a portal outlasts its transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hold {
    /// It does not.
    #[default]
    No,
    /// It will, if its transaction commits. All of its rows are known.
    Declared,
    /// It has.
    Kept,
}

impl Portal {
    pub(super) fn new(prepared: Arc<Prepared>, parameters: Arc<[Value]>, formats: Formats, since_us: i64) -> Portal {
        Portal {
            prepared,
            parameters,
            formats,
            cursor: None,
            done: None,
            has_failed: false,
            scroll: None,
            hold: Hold::No,
            is_scrollable: false,
            name_away: None,
            since_us,
            opened: 0,
        }
    }

    /// WITH HOLD.
    pub(super) fn is_holdable(&self) -> bool {
        self.hold != Hold::No
    }

    /// The query whose rows it has not all given.
    fn open_query(&self) -> Option<&Arc<Plan>> {
        match &self.prepared.statement {
            Statement::Planned(plan)
                if matches!(plan.body, PlanBody::Select(_))
                    && self.done.is_none()
                    && !self.has_failed
                    && self.hold != Hold::Kept =>
            {
                Some(plan)
            }
            _ => None,
        }
    }

    /// Whether it has yet to read what the transaction could change. Rows are locked all at once, when the first is asked for; a
    /// portal that has not begun, and whose tables have changed, is bound again.
    fn is_reading(&self, catalog: &Catalog) -> bool {
        let Some(plan) = self.open_query() else { return false };
        match &self.cursor {
            Some(cursor) => cursor.is_reading(),
            None => Cursor::is_read_in_pieces(plan) && is_current(plan, catalog, &plan.path),
        }
    }
}

impl Portals {
    pub(super) fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() {
            self.unnamed.as_ref()
        } else {
            self.named.get(name)
        }
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Portal> {
        if name.is_empty() {
            self.unnamed.as_mut()
        } else {
            self.named.get_mut(name)
        }
    }

    /// 42P03 if there is a portal of this name; there may always be another unnamed one.
    pub(super) fn may_open(&self, name: &str) -> Result<()> {
        if self.named.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_CURSOR, message));
        }
        if self.named.len() >= NAMES_MAX {
            let message = "too many portals in one session";
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, name: String, portal: Portal) {
        let portal = Portal {
            opened: self.opened,
            ..portal
        };
        self.opened += 1;
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name, portal);
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if name.is_empty() {
            self.unnamed = None;
        } else {
            self.named.remove(name);
        }
    }

    /// Forgets all but those that outlast their transaction.
    pub(super) fn clear(&mut self) {
        self.unnamed = None;
        self.named.retain(|_, portal| portal.hold == Hold::Kept);
    }

    /// The same, but for this one.
    pub(super) fn clear_but(&mut self, name: &str) {
        self.retain(|other, portal| other == name || portal.hold == Hold::Kept);
    }

    /// Forgets all but this one, those that outlast their transaction too.
    pub(super) fn close_all(&mut self, but: Option<&str>) {
        self.retain(|name, _| Some(name) == but);
    }

    /// The transaction has committed.
    pub(super) fn keep_held(&mut self) {
        let declared = self.named.values_mut().filter(|portal| portal.hold == Hold::Declared);
        declared.for_each(|portal| portal.hold = Hold::Kept);
    }

    /// The transaction is undone.
    pub(super) fn forget_unkept(&mut self) {
        self.named.retain(|_, portal| portal.hold != Hold::Declared);
    }

    /// A statement of this portal has failed: it gives no more rows.
    pub(super) fn fail(&mut self, name: &str) {
        if let Some(portal) = self.get_mut(name) {
            portal.has_failed = true;
            portal.cursor = None;
            portal.scroll = None;
        }
    }

    /// What [`Portals::close_since`] goes by.
    pub(super) fn mark(&self) -> u64 {
        self.opened
    }

    /// Forgets those that were opened since `mark`, but not this one.
    pub(super) fn close_since(&mut self, mark: u64, but: Option<&str>) {
        self.retain(|name, portal| portal.opened < mark || Some(name) == but);
    }

    fn retain(&mut self, mut keeps: impl FnMut(&str, &Portal) -> bool) {
        self.unnamed.take_if(|portal| !keeps("", portal));
        self.named.retain(|name, portal| keeps(name, portal));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Portal)> {
        let unnamed = self.unnamed.iter().map(|portal| ("", portal));
        unnamed.chain(self.named.iter().map(|(name, portal)| (name.as_str(), portal)))
    }

    /// What is left for one portal to hold beside the rows that all of them hold already.
    pub(super) fn limits_beside(&self, limits: Limits) -> Limits {
        let read_ahead = |portal: &Portal| portal.cursor.as_ref().map_or(0, |cursor| cursor.kept_bytes());
        let read = |portal: &Portal| portal.scroll.as_ref().map_or(0, |scroll| scroll.bytes());
        let bytes: usize = self.iter().map(|(_, portal)| read_ahead(portal) + read(portal)).sum();
        Limits {
            bytes_max: limits.bytes_max.saturating_sub(bytes),
            ..limits
        }
    }
}

impl Session {
    /// Before the open transaction writes: other portals that are still reading do so now, to their end. `Some` when others have
    /// their turn first; call again then. 53200 if they would hold too much.
    pub(super) fn read_portals_ahead(
        &mut self,
        partition: &mut Partition,
        context: &SessionContext<'_>,
    ) -> Outcome<Option<Next>> {
        if self.block == Block::None {
            return Ok(None);
        }
        let (mut rows_left, began_us) = (self.slices.rows(), self.slices.begin(context.clock_us));
        while let Some(name) = self.reading_portal(partition) {
            if rows_left == 0 {
                self.slices.end(began_us, (true, true), context.clock_us);
                self.deadline_us = self.statement_deadline_us();
                return Ok(Some(Next::Yield));
            }
            self.read_portal_ahead(&name, &mut rows_left, partition, context)?;
        }
        Ok(None)
    }

    fn reading_portal(&self, partition: &Partition) -> Option<String> {
        let catalog = || self.catalog(partition);
        let current = self.current.as_ref().and_then(super::Current::portal);
        let mut others = self.portals.iter().filter(|(name, _)| Some(*name) != current);
        let reading = others.find(|(_, portal)| portal.is_reading(&catalog()));
        reading.map(|(name, _)| name.to_owned())
    }

    fn read_portal_ahead(
        &mut self,
        name: &str,
        rows_left: &mut usize,
        partition: &mut Partition,
        context: &SessionContext<'_>,
    ) -> Outcome<()> {
        // What it reads now could not be read again, should the block be run again without it.
        self.replay.forget();
        self.ensure_transaction(partition, false, context.now_us)?;
        let limits = self.portals.limits_beside(context.limits);
        let Some(plan) = self.portals.get(name).and_then(Portal::open_query).cloned() else {
            return Ok(());
        };
        self.see_definitions(&plan.table_versions, partition)?;
        let Some(portal) = self.portals.get_mut(name) else {
            return Ok(());
        };
        let parameters = Arc::clone(&portal.parameters);
        let cursor = portal.cursor.take();
        let mut cursor = cursor.unwrap_or_else(|| Box::new(Cursor::new(plan)));
        let outcome = self.read_ahead(&mut cursor, &parameters, limits, rows_left, partition, context);
        if let Some(portal) = self.portals.get_mut(name) {
            portal.cursor = Some(cursor);
        }
        outcome
    }

    /// Reads on with a cursor in the open transaction.
    pub(super) fn read_ahead(
        &mut self,
        cursor: &mut Cursor,
        parameters: &[Value],
        limits: Limits,
        rows_left: &mut usize,
        partition: &mut Partition,
        context: &SessionContext<'_>,
    ) -> Outcome<()> {
        let transaction = self.ensure_transaction(partition, false, context.now_us)?;
        let catalog = self.catalog(partition);
        let part = Part {
            transaction,
            catalog: &catalog,
            parameters,
            times_us: (context.now_us, context.now_us),
            limits,
            analytics: context.analytics,
        };
        self.run_part(partition, part, *rows_left, |execution| {
            let outcome = cursor.read_ahead(execution);
            *rows_left = execution.rows_left;
            outcome
        })
    }

    /// 55006 if an open portal reads a table that is to be changed.
    pub(super) fn refuse_tables_in_use(&self, change: &SchemaChange, catalog: &Catalog) -> Result<()> {
        let current = self.current.as_ref().and_then(super::Current::portal);
        let (verb, tables) = changed_in_place(change, catalog);
        for (name, portal) in self.portals.iter() {
            let Some(plan) = portal.open_query().filter(|_| Some(name) != current) else {
                continue;
            };
            if let Some((table, _)) = plan.table_versions.iter().find(|(table, _)| tables.contains(&table)) {
                let message =
                    format!("cannot {verb} \"{table}\" because it is being used by active queries in this session");
                return Err(Error::new(SqlState::OBJECT_IN_USE, message));
            }
        }
        Ok(())
    }
}

/// 55000.
pub(super) fn cannot_be_run(name: &str) -> Error {
    let message = format!("portal \"{name}\" cannot be run");
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}
