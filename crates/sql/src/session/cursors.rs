//! Cursors of SQL: portals that DECLARE opens and FETCH reads from.

use super::execute::is_current;
use super::portals::{Hold, Portal, cannot_be_run};
use super::prepared::Prepared;
use super::scroll::{Keeps, Scroll, Walk, forward_only};
use super::{Next, Origin, Session, SessionContext, ToBind};
use crate::client::{Format, Formats, Responder};
use crate::executor::Cursor;
use crate::partition::Partition;
use crate::plan::{Plan, PlanBody};
use crate::statement::{CursorOptions, Movement, Statement, Utility};
use rubato_base::{Error, Result, SqlState};
use rubato_protocol::{Outcome, Stop};
use rubato_stages::StageKind;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What the statement under way reads from.
pub(super) struct Fetch {
    /// The cursor.
    pub(super) name: String,
    /// Whether its rows are passed over.
    pub(super) is_move: bool,
    /// The place of the cursor, and what is left to do. Without it the portal is not DECLARE's, and reads on as it is run.
    pub(super) scroll: Option<(Box<Scroll>, Walk)>,
}

impl Fetch {
    /// What it is answered with that has given or passed over so many rows.
    pub(super) fn tag(&self, rows: usize) -> String {
        tag(self.is_move, rows)
    }
}

fn no_cursor(name: &str) -> Error {
    Error::new(
        SqlState::INVALID_CURSOR_NAME,
        format!("cursor \"{name}\" does not exist"),
    )
}

impl Session {
    /// DECLARE: a portal of that name. One that outlasts its transaction reads all of its rows at once.
    pub(super) fn declare(
        &mut self,
        (name, options): (&str, CursorOptions),
        statement: &Statement,
        sql: &str,
        partition: &mut Partition,
        context: &SessionContext<'_>,
        responder: &mut dyn Responder,
    ) -> Outcome<Next> {
        self.portals.may_open(name)?;
        let catalog = self.catalog(partition);
        let path = Arc::clone(&self.path_in(&catalog).searched);
        let (Statement::Planned(plan), Some(current)) = (statement, &mut self.current) else {
            return Err(Error::internal("DECLARE of a statement that is not planned").into());
        };
        if current.cursor.is_none() && !is_current(plan, &catalog, &path) {
            self.to_bind = Some(ToBind::Again);
            return Ok(Next::To(StageKind::Optimizer));
        }
        let (alone, parameters) = (current.alone, Arc::clone(&current.parameters));
        let whole = Arc::clone(&current.sql);
        self.ensure_transaction(partition, alone && plan.read_only, context.now_us)?;
        let mut portal_cursor = None;
        if options.hold {
            portal_cursor = self.read_held(plan, partition, context)?;
            if portal_cursor.is_none() {
                self.deadline_us = self.statement_deadline_us();
                return Ok(Next::Yield);
            }
        }
        let prepared = Prepared {
            path,
            statement: statement.clone(),
            catalog_version: catalog.version,
            sql: Arc::from(sql),
            types: plan.parameter_types.clone(),
            declared: Some(whole),
            since_us: self.now_us,
            runs: AtomicU64::new(0),
        };
        let formats = options.binary.then_some(Format::Binary).into_iter().collect();
        let mut portal = Portal::new(Arc::new(prepared), parameters, formats, self.now_us);
        portal.cursor = portal_cursor;
        if let PlanBody::Select(select) = &plan.body {
            let keeps = Keeps::of(select, options.scrolls);
            portal.is_scrollable = keeps != Keeps::None;
            portal.scroll = Some(Box::new(Scroll::new(keeps)));
        }
        portal.hold = if options.hold { Hold::Declared } else { Hold::No };
        self.portals.insert(name.to_owned(), portal);
        Ok(self.answered("DECLARE CURSOR".to_owned(), partition, responder))
    }

    /// Reads all rows of a cursor that outlasts its transaction; `None` when others have their turn first.
    fn read_held(
        &mut self,
        plan: &Arc<Plan>,
        partition: &mut Partition,
        context: &SessionContext<'_>,
    ) -> Outcome<Option<Box<Cursor>>> {
        self.see_definitions(&plan.table_versions, partition)?;
        let Some(current) = &mut self.current else {
            return Ok(None);
        };
        let parameters = Arc::clone(&current.parameters);
        let cursor = current.cursor.take();
        let mut cursor = cursor.unwrap_or_else(|| Box::new(Cursor::new(Arc::clone(plan))));
        let limits = self.portals.limits_beside(context.limits);
        let (mut rows_left, began_us) = (self.slices.rows(), self.slices.begin(context.clock_us));
        let mut outcome = Ok(());
        while outcome.is_ok() && rows_left > 0 && !cursor.knows_all_rows() {
            outcome = self.read_ahead(&mut cursor, &parameters, limits, &mut rows_left, partition, context);
        }
        if let Some(error) = cursor.failure() {
            return Err(Stop::Fail(error.clone()));
        }
        if outcome.is_ok() && cursor.knows_all_rows() {
            return Ok(Some(cursor));
        }
        self.slices
            .end(began_us, (outcome.is_ok(), rows_left == 0), context.clock_us);
        // Run again, it begins anew.
        if let Some(current) = &mut self.current
            && matches!(outcome, Ok(()) | Err(Stop::Wait(_)))
        {
            current.cursor = Some(cursor);
        }
        outcome.map(|()| None)
    }

    /// FETCH and MOVE: the current statement becomes that of the cursor.
    pub(super) fn fetch(
        &mut self,
        name: &str,
        movement: Movement,
        is_move: bool,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Result<Next> {
        let portal = self.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
        let Some(current) = &mut self.current else {
            return Ok(Next::To(StageKind::Parser));
        };
        if portal.has_failed || current.portal() == Some(name) {
            return Err(cannot_be_run(name));
        }
        let prepared = Arc::clone(&portal.prepared);
        let Statement::Planned(plan) = &prepared.statement else {
            return Err(cannot_be_run(name));
        };
        if !matches!(plan.body, PlanBody::Select(_)) {
            return Err(cannot_be_run(name));
        }
        let is_binary = portal.formats.first() == Some(&Format::Binary);
        if current.origin == Origin::Script && is_binary {
            current.formats = Formats::from_elem(Format::Binary, 1);
        }
        current.describe &= !is_move;
        let walk = match &portal.scroll {
            Some(scroll) => scroll.walk(movement, is_move),
            None => walk_of_portal(movement),
        };
        // An error within a portal ends it.
        portal.has_failed = walk.is_err();
        let walk = walk?;
        let Some(walk) = walk.filter(|_| portal.done.is_none()) else {
            if std::mem::take(&mut current.describe) {
                responder.row_description(&plan.output, &current.formats);
            }
            let on_row = is_move && movement == Movement::Forward(0);
            let passed = usize::from(on_row && portal.scroll.as_ref().is_some_and(|scroll| scroll.is_on_row()));
            return Ok(self.answered(tag(is_move, passed), partition, responder));
        };
        current.statement = prepared.statement.clone();
        current.catalog_version = prepared.catalog_version;
        current.sql = Arc::clone(&prepared.sql);
        current.is_prepared = true;
        current.parameters = Arc::clone(&portal.parameters);
        current.cursor = portal.cursor.take();
        current.rows = 0;
        current.max_rows = match walk {
            Walk::Forward { next, until } if portal.scroll.is_none() => {
                usize::try_from((until - next).saturating_add(1)).unwrap_or(usize::MAX)
            }
            _ => usize::MAX,
        };
        let name = name.to_owned();
        let scroll = portal.scroll.take().map(|scroll| (scroll, walk));
        current.fetch = Some(Fetch { name, is_move, scroll });
        // What it has shown cannot be shown again.
        self.replay.forget();
        Ok(Next::To(StageKind::Security))
    }

    /// FETCH has read what it was to, or all that is left: its cursor keeps its place.
    pub(super) fn end_fetch(
        &mut self,
        is_over: bool,
        partition: &mut Partition,
        responder: &mut dyn Responder,
    ) -> Next {
        self.deadline_us = None;
        if let Some(current) = &mut self.current
            && let Some(fetch) = &mut current.fetch
        {
            let tag = fetch.tag(current.rows);
            if let Some(portal) = self.portals.get_mut(&fetch.name) {
                portal.scroll = fetch.scroll.take().map(|(scroll, _)| scroll);
                if is_over && portal.scroll.is_none() {
                    portal.done = Some("SELECT 0".to_owned());
                } else {
                    portal.cursor = current.cursor.take();
                }
            }
            current.tag = Some(tag);
        }
        self.finish(partition, responder)
    }

    /// CLOSE; of all without a name.
    pub(super) fn close_cursor(&mut self, name: Option<&str>, partition: &Partition) -> Result<String> {
        let current = self.current.as_ref().and_then(super::Current::portal);
        match name {
            None => {
                self.portals.close_all(current);
                self.close_held_elsewhere(partition);
                Ok("CLOSE CURSOR ALL".to_owned())
            }
            Some(name) if self.portals.get(name).is_none() || current == Some(name) => Err(no_cursor(name)),
            Some(name) => {
                self.portals.remove(name);
                Ok("CLOSE CURSOR".to_owned())
            }
        }
    }

    /// The statement whose columns a statement answers with: of FETCH, that of its cursor, of EXECUTE, the prepared one.
    pub(super) fn answering<'s>(&'s self, statement: &'s Statement) -> &'s Statement {
        let Statement::Utility(utility) = statement else {
            return statement;
        };
        match &**utility {
            Utility::Fetch {
                name, is_move: false, ..
            } => {
                let elsewhere = || self.cursor_elsewhere(name).map(|(query, _)| query);
                let here = self.portals.get(name).map(|portal| &portal.prepared.statement);
                here.or_else(elsewhere).unwrap_or(statement)
            }
            Utility::Execute { name, .. } => self.prepared(name).map_or(statement, |prepared| &prepared.statement),
            _ => statement,
        }
    }
}

fn tag(is_move: bool, rows: usize) -> String {
    let verb = if is_move { "MOVE" } else { "FETCH" };
    format!("{verb} {rows}")
}

/// What a movement comes to in a portal that only reads on.
fn walk_of_portal(movement: Movement) -> Result<Option<Walk>> {
    match movement {
        Movement::Forward(0) => Ok(None),
        Movement::Forward(count) => Ok(Some(Walk::Forward { next: 1, until: count })),
        _ => Err(forward_only()),
    }
}
