//! One partition's part in the transactions of the grid.

mod late;
mod relaying;
mod several;
mod waiting;

use super::message::{Answer, Body, Message, Notes, Operation, Outgoing, Reply, Request};
use super::probe::Waiting;
use super::relay::{RelayWork, RouteOf};
use super::run::{SILENT_ROUNDS_MAX, SayAgain};
use crate::api::{CommitLog, Outcome, Savepoint, Stop};
use crate::database::FormulaDatabase;
use crate::rules::{Rule, is_kept};
use crate::sketch::Sketch;
use relaying::Early;
use rubato_base::{Error, GlobalId, Lsn, NodeId, SqlState, Timestamp, TransactionId};
use std::collections::{BTreeMap, BTreeSet};

/// What became of a branch that has ended here.
#[derive(Clone, Debug, PartialEq)]
enum Ended {
    /// Rolled back because the coordinator said so.
    RolledBack,
    /// Committed at this place: alone, or because the coordinator said so.
    Committed(Timestamp, Lsn),
    /// Given up here: the coordinator must roll it back everywhere.
    GivenUp(Error),
}

#[derive(Clone, Debug)]
struct Branch {
    transaction: TransactionId,
    /// Operations done.
    done: u32,
    /// How it stood before each operation, by number.
    before: Vec<Savepoint>,
    /// Of several that were asked for together, and are not all done: the answers so far.
    so_far: Vec<Answer>,
    /// The answer of the last one, in case it was lost.
    last: Option<Reply>,
    /// What waits.
    waiting: Option<Request>,
    /// Its part of the relay join that was asked for last.
    relaying: Option<Box<RelayWork>>,
    /// It is prepared, and this was said.
    prepared: Option<(Reply, Lsn)>,
    /// Timers since its coordinator was heard of.
    silent_rounds: u32,
    /// Timers since it is open.
    rounds: u32,
    /// Its coordinator was told that another one waits for it.
    is_awaited: bool,
    /// Its coordinator was told that it waits, since it has answered last.
    waits: bool,
}

/// The state machine of one partition: holds the branches, and does what coordinators ask. The partition's rows are the caller's,
/// who hands in the same database each time.
///
/// Invariants:
/// - A message that is repeated, late, or from somebody who does not coordinate the transaction changes nothing (rule P-8).
/// - A branch that is not prepared can be given up at any time; one that is prepared only on its coordinator's word.
#[derive(Clone)]
pub struct Participant {
    node: NodeId,
    /// Handed out by the timestamp stage when this participant was started.
    birth: Timestamp,
    branches: BTreeMap<GlobalId, Branch>,
    ended: BTreeMap<GlobalId, Ended>,
    by_transaction: BTreeMap<TransactionId, GlobalId>,
    /// Nodes that are not heard of: nobody can tell when what they coordinate ends.
    unreached: BTreeSet<NodeId>,
    /// Why no operation may change anything, if none may.
    refuses_writes: Option<Error>,
    route_of: Option<RouteOf>,
    early: Early,
    say_again: SayAgain,
    refused: u64,
    outgoing: Vec<Outgoing>,
}

impl Participant {
    /// A participant that is the whole database: waits end by finding circles (rule Q-4), and old versions are kept for the
    /// snapshots that are live here.
    pub fn alone(node: NodeId, database: &mut FormulaDatabase, birth: Timestamp) -> Participant {
        Participant::start(node, database, birth)
    }

    /// A participant over an empty or recovered partition. `birth` is a fresh tick of the timestamp stage: nothing that began
    /// before it can still be served, except what was prepared.
    pub fn new(node: NodeId, database: &mut FormulaDatabase, birth: Timestamp) -> Participant {
        database.join_grid();
        Participant::start(node, database, birth)
    }

    fn start(node: NodeId, database: &mut FormulaDatabase, birth: Timestamp) -> Participant {
        database.raise_clock(birth);
        database.raise_low_water(birth);
        let mut participant = Participant {
            node,
            birth,
            branches: BTreeMap::new(),
            ended: BTreeMap::new(),
            by_transaction: BTreeMap::new(),
            unreached: BTreeSet::new(),
            refuses_writes: None,
            route_of: None,
            early: Early::default(),
            say_again: SayAgain::default(),
            refused: 0,
            outgoing: Vec::new(),
        };
        let prepared: Vec<_> = database.prepared_branches().collect();
        for (global, transaction) in prepared {
            participant.hold(global, transaction);
            participant.on_reach(global.coordinator, global.coordinator == node);
            let floor = database.floor_of(transaction).unwrap_or(birth);
            if let Some(branch) = participant.branches.get_mut(&global) {
                let reply = Reply::Prepared {
                    floor,
                    check_above: true,
                    held: None,
                };
                branch.prepared = Some((reply, Lsn(0)));
            }
        }
        participant
    }

    /// Asks only every so many timers for the outcome of a branch, not at each, and at the next one for what it was started with.
    pub fn say_again_every(&mut self, rounds: u32) {
        self.say_again = SayAgain::every(rounds);
        let prepared = self.branches.values_mut().filter(|branch| branch.prepared.is_some());
        prepared.for_each(|branch| branch.rounds = self.say_again.almost());
    }

    /// Its node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Messages that changed nothing since the start.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Branches that have not ended here.
    pub fn open_branches(&self) -> usize {
        self.branches.len()
    }

    /// What to send.
    pub fn poll_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// Takes in a message.
    pub fn on_message(
        &mut self,
        database: &mut FormulaDatabase,
        from: NodeId,
        message: Message,
        log: &mut dyn CommitLog,
    ) {
        let global = message.transaction;
        let request = match message.body {
            Body::Request(request) => request,
            Body::Passed(passed) => {
                self.on_passed(database, (from, global), passed, log);
                return self.go_on(database, log);
            }
            Body::Waiting(Waiting::Ahead(probe)) if from == global.coordinator => {
                return self.on_probe(database, global, probe);
            }
            Body::Reply(_) | Body::Waiting(_) => {
                self.refused += 1;
                return;
            }
        };
        if from != global.coordinator || !global.tick.is_tick() {
            self.refused += 1;
            return;
        }
        self.on_request(database, global, request, log);
        self.go_on(database, log);
    }

    /// Takes the transaction of a session, which began here at the tick of `global`, as this node's branch of that one. The session
    /// goes on with it as before, until the coordinator ([`super::Coordinator::adopt`]) is told to commit or to roll back; then, or
    /// when the branch is given up here, it hears of the end from the coordinator, and from the database as by rule Q-8. From when
    /// it has asked for the commit until it hears of the end it leaves the transaction alone.
    ///
    /// Rule P-10: false if the transaction has ended or must be rolled back, began elsewhere in time, or is a branch already.
    pub fn adopt(&mut self, database: &mut FormulaDatabase, global: GlobalId, transaction: TransactionId) -> bool {
        let is_known = self.branches.contains_key(&global)
            || self.ended.contains_key(&global)
            || self.by_transaction.contains_key(&transaction);
        if is_known || !database.adopt(transaction, global.tick) {
            return false;
        }
        self.hold(global, transaction);
        true
    }

    /// The node is heard of, or is not any more. Who waits for a transaction that is coordinated where nothing is heard of does not:
    /// that one is in doubt before long ([`Participant::end_waits_in_doubt`]). Who waits for any other hears that he does
    /// ([`Reply::Waits`]).
    pub fn on_reach(&mut self, node: NodeId, is_reached: bool) {
        match is_reached {
            true => self.unreached.remove(&node),
            false => self.unreached.insert(node),
        };
    }

    /// From now on operations that change something fail with this error, `None`: they do not. What they have changed already may still
    /// be prepared and committed, as far as the log takes it.
    pub fn refuse_writes(&mut self, why: Option<Error>) {
        self.refuses_writes = why;
    }

    /// Asks again for the outcome of every branch that is open. One that is not prepared, and whose coordinator has not been heard of
    /// for [`SILENT_ROUNDS_MAX`] timers, is given up by the next [`Participant::go_on`].
    pub fn on_timer(&mut self) {
        for (global, branch) in &mut self.branches {
            let is_silent = self.unreached.contains(&global.coordinator);
            branch.silent_rounds = if is_silent { branch.silent_rounds + 1 } else { 0 };
            branch.rounds = branch.rounds.saturating_add(1);
        }
        let due = |branch: &&Branch| self.say_again.is_due(branch.rounds);
        let open = self.branches.iter().filter(|(_, branch)| due(branch));
        let open = open.map(|(global, branch)| (*global, branch.is_awaited));
        for (global, is_awaited) in open.collect::<Vec<_>>() {
            self.reply(global, Reply::Inquire, Lsn(0));
            if is_awaited {
                self.reply(global, Reply::Awaited, Lsn(0));
            }
        }
    }

    /// Ends the waits for branches that are in doubt: prepared, with a coordinator that has not been heard of for [`SILENT_ROUNDS_MAX`]
    /// timers.
    ///
    /// Rule Q-9: whoever comes to wait for one later is told at the next call of this. A branch that waits is given up, and its coordinator
    /// is told why: its own patience would end with an error after which a session runs the transaction again, without end.
    pub fn end_waits_in_doubt(&self, database: &mut FormulaDatabase) {
        let is_in_doubt = |branch: &Branch| branch.prepared.is_some() && branch.silent_rounds > SILENT_ROUNDS_MAX;
        for (global, branch) in self.branches.iter().filter(|(_, branch)| is_in_doubt(branch)) {
            let node = global.coordinator;
            let message = format!(
                "node {} cannot be reached, and only it knows how a transaction has ended",
                node.0
            );
            let error = Error::new(SqlState::CANNOT_CONNECT_NOW, message)
                .with_detail(format!("Transaction {global} has changed what the statement needs."))
                .with_hint("Try again when it is back.");
            database.end_waits_for(branch.transaction, &error);
        }
    }

    /// The transactions of the grid that are still live below `open_from`: what is known of older ones can be forgotten, and
    /// the versions that only they could read.
    pub fn on_live_transactions(&mut self, database: &mut FormulaDatabase, live: &[Timestamp], open_from: Timestamp) {
        self.ended
            .retain(|global, _| global.tick >= open_from || live.contains(&global.tick));
        self.early.forget_all_but(live, open_from);
        self.birth = self
            .birth
            .max(live.first().copied().unwrap_or(open_from).min(open_from));
        database.expect_snapshots(live.to_vec(), open_from);
    }

    /// Writes down what distinguishes this state. How many messages were refused does not.
    pub fn sketch(&self, sketch: &mut Sketch) {
        sketch.stamp(self.birth);
        sketch.number(self.branches.len() as u64);
        for (global, branch) in &self.branches {
            sketch.stamp(global.tick);
            sketch.number(u64::from(branch.done));
            sketch.number(branch.so_far.len() as u64);
            branch.so_far.iter().for_each(|answer| answer.sketch(sketch));
            sketch.number(u64::from(branch.last.is_some()));
            branch.last.iter().for_each(|reply| reply.sketch(sketch));
            sketch.number(u64::from(branch.waiting.is_some()));
            branch.waiting.iter().for_each(|request| request.sketch(sketch));
            sketch.number(u64::from(branch.relaying.is_some()));
            sketch.number(u64::from(branch.is_awaited));
            sketch.number(u64::from(branch.waits));
            sketch.number(u64::from(branch.prepared.is_some()));
            if let Some((reply, lsn)) = &branch.prepared {
                reply.sketch(sketch);
                sketch.lsn(*lsn);
            }
        }
        sketch.number(self.ended.len() as u64);
        for (global, ended) in &self.ended {
            sketch.stamp(global.tick);
            match ended {
                Ended::RolledBack => sketch.number(1),
                Ended::GivenUp(_) => sketch.number(2),
                Ended::Committed(cts, lsn) => {
                    sketch.number(3);
                    sketch.stamp(*cts);
                    sketch.lsn(*lsn);
                }
            }
        }
    }

    fn on_request(
        &mut self,
        database: &mut FormulaDatabase,
        global: GlobalId,
        request: Request,
        log: &mut dyn CommitLog,
    ) {
        if let Some(ended) = self.ended.get(&global) {
            return self.on_late(global, request, ended.clone());
        }
        let known = self.branches.contains_key(&global);
        match request {
            Request::Operate {
                number: 0,
                read_only,
                ref operation,
            } if !known && operation.is_wellformed(self.node) && self.may_begin(database, global) => {
                let transaction = database.begin_branch(global.tick, read_only);
                self.hold(global, transaction);
            }
            Request::Decide(None) if !known => {
                // It overtook the operation that would have begun the branch.
                self.refused += 1;
                if global.tick >= self.birth {
                    self.ended.insert(global, Ended::RolledBack);
                }
                return;
            }
            _ if !known => return self.on_unknown(database, global, &request),
            _ => {}
        }
        if self.is_expected(database, global, &request, log) {
            self.attempt(database, global, request, log);
        }
    }

    /// Rule D-7: what began before this participant was started may have left something here that is lost. Rule F-6 too.
    fn may_begin(&self, database: &FormulaDatabase, global: GlobalId) -> bool {
        (global.tick >= self.birth || !is_kept(Rule::D7)) && database.may_come(global.tick)
    }

    /// Rule P-8: whether the request is the next one of a branch that is open; what is repeated is answered again.
    fn is_expected(
        &mut self,
        database: &mut FormulaDatabase,
        global: GlobalId,
        request: &Request,
        log: &mut dyn CommitLog,
    ) -> bool {
        let Some(branch) = self.branches.get(&global) else {
            return false;
        };
        if branch.waiting.as_ref() == Some(request) {
            self.refused += 1;
            if matches!(request, Request::Operate { .. })
                && self.waits_for_a_reachable_one(database, branch.transaction)
            {
                self.reply(global, Reply::Waits, Lsn(0));
            }
            self.want_missing(database, global, log);
            return false;
        }
        if !is_kept(Rule::P8) {
            return true;
        }
        let (done, last, prepared) = (branch.done, branch.last.clone(), branch.prepared.clone());
        let waits = branch.waiting.is_some();
        match request {
            Request::Operate { number, operation, .. }
                if *number == done && !waits && prepared.is_none() && operation.is_wellformed(self.node) =>
            {
                true
            }
            Request::Operate { number, .. } => {
                self.refused += 1;
                if let Some(last @ Reply::Answer { number: answered, .. }) = last
                    && answered == *number
                {
                    self.reply(global, last, Lsn(0));
                }
                false
            }
            Request::Prepare { .. } if prepared.is_some() => {
                self.refused += 1;
                let (reply, durable_at) = prepared.unwrap_or((Reply::Done, Lsn(0)));
                self.reply(global, reply, durable_at);
                false
            }
            Request::Prepare { operations, .. }
            | Request::Check { operations, .. }
            | Request::CommitAlone { operations }
                if *operations != done && prepared.is_none() =>
            {
                // Rule P-7: something that the coordinator believes to be done is not.
                if is_kept(Rule::P7) {
                    self.refused += 1;
                    return false;
                }
                true
            }
            Request::CommitAlone { .. } if prepared.is_some() => {
                self.refused += 1;
                false
            }
            Request::Decide(Some(_)) if prepared.is_none() && database.changes_anything(branch.transaction) => {
                self.refused += 1;
                false
            }
            _ => true,
        }
    }

    /// Whether whom it waits for will end: a session of this node, or a branch whose coordinator is heard of.
    fn waits_for_a_reachable_one(&self, database: &FormulaDatabase, transaction: TransactionId) -> bool {
        let owner = database.waits_for(transaction);
        owner.is_some_and(|owner| {
            let global = self.by_transaction.get(&owner);
            global.is_none_or(|global| !self.unreached.contains(&global.coordinator))
        })
    }

    fn hold(&mut self, global: GlobalId, transaction: TransactionId) {
        self.by_transaction.insert(transaction, global);
        let branch = Branch {
            transaction,
            done: 0,
            before: Vec::new(),
            so_far: Vec::new(),
            last: None,
            waiting: None,
            relaying: None,
            prepared: None,
            silent_rounds: 0,
            rounds: 0,
            is_awaited: false,
            waits: false,
        };
        self.branches.insert(global, branch);
    }

    /// Does what was asked, or keeps it until whom it waits for has ended.
    fn attempt(&mut self, database: &mut FormulaDatabase, global: GlobalId, request: Request, log: &mut dyn CommitLog) {
        let Some(branch) = self.branches.get_mut(&global) else {
            return;
        };
        let transaction = branch.transaction;
        branch.waiting = None;
        database.wait_for_coordinator(transaction, false);
        let mut savepoint = database.savepoint(transaction);
        if let Request::Operate { number, operation, .. } = &request {
            branch.before.resize(*number as usize + branch.so_far.len(), savepoint);
            branch.before.push(savepoint);
            if let Operation::Several { operations } = operation {
                let several = (*number, &operations[..]);
                let outcome = self.perform_several(database, global, several, &mut savepoint);
                return self.on_several(database, global, request, (outcome, savepoint), log);
            }
            if let Operation::Relay { .. } = operation {
                return self.relay(database, global, (request, savepoint), log);
            }
        }
        let performed = self.perform(database, global, transaction, &request, log);
        match settled(database, transaction, performed) {
            Ok(()) => {}
            Err(Stop::Wait(_)) => {
                database.undo_statement(transaction, savepoint);
                database.wait_for_coordinator(transaction, true);
                if let Some(branch) = self.branches.get_mut(&global) {
                    branch.waiting = Some(request);
                }
            }
            Err(Stop::Fail(error)) => {
                database.undo_statement(transaction, savepoint);
                match request {
                    Request::Operate { number, .. } => self.answer(database, global, number, Answer::Failed(error)),
                    _ => self.give_up(database, global, error, log),
                }
            }
            Err(Stop::Abort(error)) => self.give_up(database, global, error, log),
        }
    }

    fn perform(
        &mut self,
        database: &mut FormulaDatabase,
        global: GlobalId,
        transaction: TransactionId,
        request: &Request,
        log: &mut dyn CommitLog,
    ) -> Outcome<()> {
        match request {
            Request::Operate { number, operation, .. } => {
                let answer = match operation {
                    Operation::Undo { kept } => self.undo(database, global, *kept)?,
                    other => self.run(database, transaction, other)?,
                };
                self.answer(database, global, *number, answer);
            }
            Request::Prepare { place, .. } => {
                let prepared = database.prepare(transaction, global, log)?;
                // Rule P-5: a round later for those of which that is not so.
                let place = place.filter(|place| prepared.check_above && *place >= prepared.floor);
                let held = place.and_then(|place| Some((place, database.hold_at(transaction, place)?)));
                let reply = Reply::Prepared {
                    floor: prepared.floor,
                    check_above: prepared.check_above,
                    held: held.map(|(place, _)| place),
                };
                // Rule P-2: the answer waits for the log; on the coordinator's node the decision, which stands behind it there, does.
                let waits = is_kept(Rule::P2) && global.coordinator != self.node;
                let prepared_at = if waits { prepared.durable_at } else { Lsn(0) };
                let durable_at = held.map_or(prepared_at, |(_, reads_at)| prepared_at.max(reads_at));
                if let Some(branch) = self.branches.get_mut(&global) {
                    branch.prepared = Some((reply.clone(), durable_at));
                }
                self.reply(global, reply, durable_at);
            }
            Request::Check { place, .. } => {
                let durable_at = database.check_at(transaction, *place)?;
                self.reply(global, Reply::Holds { place: *place }, durable_at);
            }
            Request::CommitAlone { .. } => {
                let committed = database.commit(transaction, None, log)?;
                // Rule D-1: the acknowledgement waits for the log.
                let durable_at = if is_kept(Rule::D1) {
                    committed.durable_at
                } else {
                    Lsn(0)
                };
                self.end(global, Ended::Committed(committed.cts, durable_at));
                self.reply(global, Reply::Committed { cts: committed.cts }, durable_at);
            }
            Request::Decide(Some(cts)) => {
                if let Some(lsn) = database.commit_at(transaction, global, *cts, log)? {
                    self.end(global, Ended::Committed(*cts, lsn));
                    self.reply(global, Reply::Done, lsn);
                }
            }
            Request::Decide(None) => {
                database.roll_back_branch(transaction, global, log);
                self.end(global, Ended::RolledBack);
            }
        }
        Ok(())
    }

    fn run(
        &self,
        database: &mut FormulaDatabase,
        transaction: TransactionId,
        operation: &Operation,
    ) -> Outcome<Answer> {
        if let Some(table) = operation.changed_table() {
            if let Some(why) = &self.refuses_writes {
                return Err(Stop::Fail(why.clone()));
            }
            database.announce_branch_write(transaction, table)?;
        }
        operation.run(database, transaction)
    }

    /// Rule P-9: what was told of the operations that are taken back stays told, so that reads stay read.
    fn undo(&mut self, database: &mut FormulaDatabase, global: GlobalId, kept: u32) -> Outcome<Answer> {
        let Some(branch) = self.branches.get_mut(&global) else {
            return Err(Stop::Fail(Error::internal("the branch has ended")));
        };
        let Some((savepoint, later)) = (branch.before.get_mut(kept as usize..)).and_then(|from| from.split_first_mut())
        else {
            let message = format!("transaction {global} has done no operation {kept}");
            return Err(Stop::Fail(Error::internal(message)));
        };
        database.rollback_to(branch.transaction, *savepoint);
        // There is no way back to between operations that are undone.
        later.fill(*savepoint);
        Ok(Answer::Undone)
    }

    fn answer(&mut self, database: &mut FormulaDatabase, global: GlobalId, number: u32, answer: Answer) {
        let Some(transaction) = self.branches.get(&global).map(|branch| branch.transaction) else {
            return;
        };
        let notes = Notes {
            writes: database.changes_anything(transaction),
            moved_to: database.moved_to(transaction),
            behind: database.follows_anybody(transaction).unwrap_or(true),
            through: database.has_read_through(transaction),
        };
        let count = match &answer {
            Answer::Several(answers) => u32::try_from(answers.len()).unwrap_or(u32::MAX),
            _ => 1,
        };
        let reply = Reply::Answer { number, answer, notes };
        if let Some(branch) = self.branches.get_mut(&global) {
            branch.done = number + count;
            branch.last = Some(reply.clone());
            branch.waits = false;
        }
        self.reply(global, reply, Lsn(0));
    }

    /// Rolls back a branch that cannot go on, and says so.
    fn give_up(&mut self, database: &mut FormulaDatabase, global: GlobalId, error: Error, log: &mut dyn CommitLog) {
        if let Some(branch) = self.branches.get(&global) {
            if branch.prepared.is_some() {
                // Only its coordinator ends it, now that it is prepared.
                return self.reply(global, Reply::Refused(error), Lsn(0));
            }
            database.roll_back_branch(branch.transaction, global, log);
        }
        self.end(global, Ended::GivenUp(error.clone()));
        self.reply(global, Reply::Refused(error), Lsn(0));
    }

    fn end(&mut self, global: GlobalId, ended: Ended) {
        self.early.forget(global);
        if let Some(branch) = self.branches.remove(&global) {
            self.by_transaction.remove(&branch.transaction);
        }
        self.ended.insert(global, ended);
    }

    /// Rolls back those that must be, those of sessions too, goes on with the branches whose wait is over, and tells of those that have
    /// come to wait. Called when sessions have worked on the rows ([`FormulaDatabase::has_news_of_branches`]); the sessions that are woken by
    /// this are in [`FormulaDatabase::take_woken`].
    pub fn go_on(&mut self, database: &mut FormulaDatabase, log: &mut dyn CommitLog) {
        // Not looked for behind each message while all are heard of.
        if !self.unreached.is_empty() {
            self.give_up_unheard(database, log);
        }
        loop {
            database.roll_back_doomed();
            if database.has_ended_definitions() {
                return;
            }
            self.tell_waits(database);
            let doomed = database.take_doomed_branches();
            let woken = database.take_woken_branches();
            if doomed.is_empty() && woken.is_empty() {
                return;
            }
            for transaction in doomed {
                let error = database.doom_of(transaction).cloned();
                if let (Some(global), Some(error)) = (self.by_transaction.get(&transaction).copied(), error) {
                    self.give_up(database, global, error, log);
                }
            }
            for transaction in woken {
                let Some(global) = self.by_transaction.get(&transaction).copied() else {
                    continue;
                };
                let waiting = self.branches.get_mut(&global).and_then(|branch| branch.waiting.take());
                if let Some(request) = waiting {
                    self.attempt(database, global, request, log);
                }
            }
        }
    }

    fn give_up_unheard(&mut self, database: &mut FormulaDatabase, log: &mut dyn CommitLog) {
        let may_end = |branch: &Branch| branch.prepared.is_none() && branch.silent_rounds > SILENT_ROUNDS_MAX;
        let unheard = self.branches.iter().filter(|(_, branch)| may_end(branch));
        for global in unheard.map(|(global, _)| *global).collect::<Vec<_>>() {
            let message = "the node that coordinates the transaction was not heard of for too long";
            let error = Error::serialization(message, format!("transaction {global}"));
            self.give_up(database, global, error, log);
        }
    }

    fn reply(&mut self, global: GlobalId, reply: Reply, durable_at: Lsn) {
        self.outgoing.push(Outgoing {
            to: global.coordinator,
            message: Message {
                transaction: global,
                body: Body::Reply(reply),
            },
            durable_at,
        });
    }
}

/// Rule Q-7: what fails waits until what it has read through has settled, and is done anew.
fn settled<T>(database: &mut FormulaDatabase, transaction: TransactionId, performed: Outcome<T>) -> Outcome<T> {
    match performed {
        Err(Stop::Fail(error)) => Err(database
            .settle_read_through(transaction)
            .err()
            .unwrap_or(Stop::Fail(error))),
        other => other,
    }
}
