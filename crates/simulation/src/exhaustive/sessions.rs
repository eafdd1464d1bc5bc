//! Clients that are sessions on node 0: their transactions begin there, and become branches while they run.

use super::operations::run_at_home;
use super::world::{Site, World};
use rubato_base::{NodeId, SessionId, Timestamp};
use rubato_protocol::grid::{Answer, Coordinator};
use rubato_protocol::{BeginOptions, Stop};
use std::rc::Rc;

/// The node of the sessions.
const HOME: usize = 0;

impl World {
    /// The session's transaction begins on its node.
    pub(super) fn begin_session(&mut self, i: usize, tick: Timestamp, read_only: bool) {
        let options = BeginOptions {
            session: SessionId(i as u64),
            read_only,
        };
        let mut site = self.home();
        self.clients[i].session = Some(site.database.begin_at(tick, options));
        self.put_home(site);
    }

    /// The session does its next step on its own node. If it has to wait, it does it again when it is woken.
    pub(super) fn step_at_home(&mut self, i: usize) {
        let (Some(transaction), Some(op)) = (
            self.clients[i].session,
            self.configuration.programs[i].get(self.clients[i].at).copied(),
        ) else {
            return;
        };
        self.clients[i].is_ready = false;
        let mut site = self.home();
        let savepoint = site.database.savepoint(transaction);
        let done = run_at_home(op, &mut site.database, transaction);
        if done.is_err() {
            site.database.undo_statement(transaction, savepoint);
        }
        self.put_home(site);
        let mut coordinator = self.coordinator.value.clone();
        match done {
            Ok(answer) => self.on_answer(i, &answer, &mut coordinator),
            Err(Stop::Wait(_)) => {}
            Err(Stop::Fail(error)) => self.on_answer(i, &Answer::Failed(error), &mut coordinator),
            Err(Stop::Abort(_)) => self.roll_back(i, &mut coordinator),
        }
        self.put_coordinator(coordinator);
    }

    /// What the session did on its node takes part in the rest; false if that is lost.
    pub(super) fn joins(&mut self, i: usize, coordinator: &mut Coordinator) -> bool {
        let (Some(transaction), Some(global)) = (self.clients[i].session, self.clients[i].global) else {
            return true;
        };
        if !coordinator.adopt(global, NodeId(HOME as u32)) {
            return true;
        }
        let mut site = self.home();
        let adopted = site.participant.adopt(&mut site.database, global, transaction);
        self.put_home(site);
        adopted
    }

    /// The session has heard that its transaction has not committed.
    pub(super) fn end_session(&mut self, i: usize) {
        self.clients[i].is_ready = false;
        if let Some(transaction) = self.clients[i].session {
            let mut site = self.home();
            site.database.rollback(transaction);
            self.put_home(site);
        }
    }

    fn home(&self) -> Site {
        self.participants[HOME].value.fork()
    }

    /// Sessions have worked on the rows: branches go on that waited for them.
    fn put_home(&mut self, mut site: Site) {
        let log = Rc::make_mut(&mut self.logs[HOME]);
        site.participant.go_on(&mut site.database, log);
        self.put_participant(HOME, site);
    }
}
