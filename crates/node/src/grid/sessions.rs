//! Ticks for the sessions of a node of the grid: those that are asked for, and those that have come.

use super::state::GridState;
use parking_lot::Mutex;
use rubato_base::trace::TraceContext;
use rubato_base::{Error, Lsn, NodeId, Result, SessionId, SqlState, Timestamp, TransactionId, Value};
use rubato_grid::placement::Placement;
use rubato_protocol::grid::{Operation, TickFor};
use rubato_protocol::{CommitLog, DecisionRecord, FormulaDatabase};
use rubato_sql::catalog::Catalog;
use rubato_sql::channels::Told;
use rubato_sql::databases::{DatabaseId, Databases};
use rubato_sql::far::Whereabouts;
use rubato_sql::grid::{Answer, Call, FarTold, Followed, GridDesk, Home, OfOthers};
use rubato_sql::outcomes::never_given;
use rubato_sql::plan::Plan;
use rubato_sql::route::{Route, needs_numbers_only};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rounds after which a tick that its session has not come for is given up. The versions that it could read are kept until then.
const READY_ROUNDS_MAX: u32 = 20;

/// A session that waits, for so many rounds.
struct Waiting {
    session: SessionId,
    rounds: u32,
}

/// What came for a session, so many rounds ago: a tick, or nothing for too long.
struct Ready {
    session: SessionId,
    tick: Option<Timestamp>,
    rounds: u32,
}

/// The tickets of sessions.
#[derive(Default)]
pub(super) struct SessionTicks {
    waiting: BTreeMap<u64, Waiting>,
    ready: BTreeMap<u64, Ready>,
    last_ticket: u64,
    woken: Vec<SessionId>,
}

impl SessionTicks {
    /// Ticks that have come and are not begun at.
    pub(super) fn ready(&self) -> impl Iterator<Item = Timestamp> {
        self.ready.values().filter_map(|ready| ready.tick)
    }

    /// Sessions to be woken.
    pub(super) fn take_woken(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.woken)
    }

    /// A tick for whoever has this ticket.
    pub(super) fn on_tick(&mut self, ticket: u64, tick: Timestamp) {
        self.answer(ticket, Some(tick));
    }

    /// Ticks that nobody has begun at yet are not used: their sessions wait for others. Gives their tickets.
    fn renew(&mut self) -> Vec<u64> {
        let unused = self.ready.iter().filter(|(_, ready)| ready.tick.is_some());
        let unused: Vec<u64> = unused.map(|(ticket, _)| *ticket).collect();
        for ticket in &unused {
            if let Some(Ready { session, .. }) = self.ready.remove(ticket) {
                self.waiting.insert(*ticket, Waiting { session, rounds: 0 });
            }
        }
        unused
    }

    /// The stage cannot be reached: nobody waits for it.
    pub(super) fn give_up(&mut self) {
        for ticket in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.answer(ticket, None);
        }
    }

    /// Gives up what has taken longer than so many rounds.
    pub(super) fn on_round(&mut self, patience_rounds: u32) {
        let mut late = Vec::new();
        for (ticket, waiting) in &mut self.waiting {
            waiting.rounds += 1;
            if waiting.rounds > patience_rounds {
                late.push(*ticket);
            }
        }
        self.ready.retain(|_, ready| {
            ready.rounds += 1;
            ready.rounds <= READY_ROUNDS_MAX
        });
        for ticket in late {
            self.answer(ticket, None);
        }
    }

    fn answer(&mut self, ticket: u64, tick: Option<Timestamp>) {
        if let Some(waiting) = self.waiting.remove(&ticket) {
            let session = waiting.session;
            self.ready.insert(
                ticket,
                Ready {
                    session,
                    tick,
                    rounds: 0,
                },
            );
            self.woken.push(session);
        }
    }
}

/// The part of the grid that sessions and whoever drives it have in common.
pub(super) struct GridShared {
    /// Taken by those only who have the partition, or want nothing of it.
    pub(super) state: Mutex<GridState>,
    news: AtomicBool,
    /// Set where a change of catalogs holds back answers.
    answers_held: Arc<AtomicBool>,
    /// Whether it does: see [`GridState::note_keeper`].
    holds_for_others: Arc<AtomicBool>,
}

impl GridShared {
    pub(super) fn new(answers_held: Arc<AtomicBool>, state: GridState) -> GridShared {
        GridShared {
            holds_for_others: Arc::clone(&state.holds_for_others),
            state: Mutex::new(state),
            news: AtomicBool::new(false),
            answers_held,
        }
    }
}

impl GridState {
    /// Rule T-6: catalogs have changed, and ticks of before are for those who know the ones of before.
    pub(super) fn renew_ticks(&mut self) {
        for ticket in self.sessions.renew() {
            // If too many want one, the session is told when it has waited for too long.
            self.asker.want(TickFor::Session(ticket));
        }
    }
}

impl GridDesk for GridShared {
    fn home_of(&self, plan: &Plan, parameters: &[Value]) -> Result<Home> {
        let state = self.state.lock();
        let Some(router) = &state.settings.router else {
            return Ok(Home::Here);
        };
        let own = state.settings.id;
        let nodes = (own, state.settings.keeper.unwrap_or(own));
        let route = router.route_of(plan, parameters, nodes);
        if let Route::OutcomeAt(node, id) = route {
            return match state.settings.nodes.contains(&node) {
                false if node > state.settings.last => Err(never_given(id)),
                // Who has gone has taken along what it knew: that is said here.
                false => Ok(Home::Here),
                true if node == own => Ok(Home::Here),
                true => Ok(Home::At(node)),
            };
        }
        // Where everything is here, nobody has to look.
        if state.keeps_catalogs() && matches!(state.layout, Some((_, None))) {
            return Ok(Home::Here);
        }
        Ok(match (route, state.settings.keeper) {
            (Route::Nowhere, _) => Home::Anywhere,
            (Route::Several, _) => Home::OverSeveral,
            (Route::Catalogs, _) => Home::Catalogs,
            // They come by way of another node.
            (Route::Keeper, Some(keeper)) if state.is_by_way_only(keeper) && needs_numbers_only(plan, parameters) => {
                Home::Here
            }
            (Route::Keeper, Some(keeper)) if keeper != own => Home::AtKeeper(keeper),
            (Route::Kept, Some(keeper)) if keeper != own => Home::At(keeper),
            (Route::At(node), _) if node != own => Home::At(node),
            (Route::Keeper | Route::Kept | Route::At(_) | Route::OutcomeAt(..), _) => Home::Here,
        })
    }

    fn keeper(&self) -> Option<NodeId> {
        let state = self.state.lock();
        state.settings.keeper.filter(|keeper| *keeper != state.settings.id)
    }

    fn follow_keeper(&self, databases: &Databases) -> Option<Followed> {
        self.news.store(true, Ordering::Release);
        self.state.lock().follow_keeper(databases)
    }

    fn version_for_next(&self, keeper: NodeId) -> Result<u64> {
        self.state.lock().version_for_next(keeper)
    }

    fn is_up(&self, node: NodeId) -> bool {
        self.state.lock().reaches(node)
    }

    fn write_down(&self, log: &mut dyn CommitLog) -> Result<()> {
        let state = self.state.lock();
        let decisions = state.coordinator.undone_decisions();
        for (transaction, place, participants) in &decisions {
            log.append_decision(&DecisionRecord {
                transaction: *transaction,
                cts: Some(*place),
                participants,
            })?;
        }
        log.append_agreement(&state.agreement.agreement.known().encode())?;
        log.append_standing(&state.standing).map(drop)
    }

    fn call(&self, session: SessionId, to: NodeId, call: Call) -> Result<()> {
        self.news.store(true, Ordering::Release);
        let mut state = self.state.lock();
        state.check_member()?;
        state.call(session, to, call)
    }

    fn take_answer(&self, session: SessionId) -> Option<Answer> {
        self.news.store(true, Ordering::Release);
        self.state.lock().take_answer(session)
    }

    fn cancel(&self, session: SessionId) -> bool {
        self.news.store(true, Ordering::Release);
        self.state.lock().cancel(session)
    }

    fn give_up(&self, session: SessionId) {
        self.news.store(true, Ordering::Release);
        self.state.lock().give_up(session);
    }

    fn leave(&self, session: SessionId) {
        self.news.store(true, Ordering::Release);
        let state = &mut *self.state.lock();
        state.traces.end(session);
        state.forget_questions(session);
        state.leave(session);
    }

    fn forget_questions(&self, session: SessionId) {
        self.state.lock().forget_questions(session);
    }

    fn take_sessions(&self, session: SessionId, shown: (u8, DatabaseId)) -> Option<OfOthers> {
        self.news.store(true, Ordering::Release);
        self.state.lock().take_sessions(session, shown)
    }

    fn tell(&self, who: (DatabaseId, i32), told: &[Told], durable_at: Lsn) -> Lsn {
        self.news.store(true, Ordering::Release);
        self.state.lock().tell(who, told, durable_at)
    }

    fn keeps_session(&self, session: SessionId) -> bool {
        let state = self.state.lock();
        let keeper = state.settings.keeper;
        keeper.is_some_and(|keeper| state.calls.is_kept_by(session, keeper))
    }

    fn take_numbers(&self, session: SessionId, sequence: u32, count: u32) -> Result<Option<Vec<i64>>> {
        self.news.store(true, Ordering::Release);
        self.state.lock().take_numbers(session, sequence, count)
    }

    fn take_tick(&self, session: SessionId, ticket: &mut Option<u64>) -> Result<Option<Timestamp>> {
        let state = &mut *self.state.lock();
        state.check_member()?;
        if let Some(number) = *ticket {
            if state.sessions.waiting.contains_key(&number) {
                return Ok(None);
            }
            *ticket = None;
            if let Some(ready) = state.sessions.ready.remove(&number) {
                return ready.tick.map(Some).ok_or_else(stage_is_silent);
            }
        }
        // A participant that is not born could not take part.
        let has_catalogs = state.has_catalogs();
        if let (Some(stage), Some(_), true) = (&mut state.stage, &state.participant, has_catalogs)
            && let Some(tick) = stage.take_here()
        {
            return Ok(Some(tick));
        }
        if !state.has_majority() {
            return Err(stage_is_silent());
        }
        let number = state.sessions.last_ticket + 1;
        if !state.asker.want(TickFor::Session(number)) {
            let message = "too many transactions wait for the timestamp stage of the grid";
            return Err(Error::new(SqlState::TOO_MANY_CONNECTIONS, message));
        }
        state.sessions.last_ticket = number;
        state.sessions.waiting.insert(number, Waiting { session, rounds: 0 });
        *ticket = Some(number);
        self.news.store(true, Ordering::Release);
        Ok(None)
    }

    fn node(&self) -> Option<NodeId> {
        Some(self.state.lock().settings.id)
    }

    fn members(&self) -> Vec<NodeId> {
        let state = self.state.lock();
        let is_there = |node: &&NodeId| !state.removed.contains(node);
        let mut nodes: Vec<NodeId> = state.settings.nodes.iter().filter(is_there).copied().collect();
        nodes.sort_unstable();
        nodes
    }

    fn turns(&self, now: &[NodeId], nodes: &[NodeId]) -> Vec<NodeId> {
        let placement = Placement::in_turns(now, nodes.len());
        let mut turns = placement.nodes().to_vec();
        for one in placement.moves_to(nodes) {
            if let Some(turn) = turns.get_mut(usize::from(one.shard.number())) {
                *turn = one.to;
            }
        }
        turns
    }

    fn serves(&self) -> Result<()> {
        self.state.lock().check_member()
    }

    fn may_do_without(&self, node: NodeId) -> bool {
        self.state.lock().may_do_without(node)
    }

    fn remove_node(&self, node: NodeId) {
        self.news.store(true, Ordering::Release);
        self.state.lock().removed.insert(node);
    }

    fn last_tick(&self) -> Option<Timestamp> {
        let state = self.state.lock();
        state.keeps_catalogs().then(|| state.last_tick())
    }

    fn catalogs_change(&self) {
        if self.holds_for_others.load(Ordering::Acquire) {
            self.answers_held.store(true, Ordering::Release);
            self.news.store(true, Ordering::Release);
        }
    }

    fn whereabouts(&self, databases: &Arc<Databases>, made: &[Arc<Catalog>]) -> Option<Arc<dyn Whereabouts>> {
        self.state.lock().whereabouts(databases, made)
    }

    fn operate(
        &self,
        who: (SessionId, TransactionId),
        operations: Vec<(NodeId, Operation)>,
        database: &mut FormulaDatabase,
    ) {
        self.news.store(true, Ordering::Release);
        self.state.lock().operate_far(who, operations, database);
    }

    fn take_told(&self, session: SessionId) -> Vec<FarTold> {
        self.state.lock().far.take_told(session)
    }

    fn to_confirm(&self, session: SessionId, own: Timestamp, is_failing: bool) -> (Timestamp, Vec<NodeId>) {
        self.state.lock().to_confirm(session, own, is_failing)
    }

    fn commit(&self, session: SessionId, log: &mut dyn CommitLog) {
        self.news.store(true, Ordering::Release);
        self.state.lock().commit_far(session, log);
    }

    fn give_up_commit(&self, session: SessionId) -> bool {
        self.news.store(true, Ordering::Release);
        self.state.lock().give_up_far_commit(session)
    }

    fn roll_back(&self, session: SessionId) -> bool {
        self.news.store(true, Ordering::Release);
        self.state.lock().roll_back_far(session)
    }

    fn trace(&self, session: SessionId, context: Option<TraceContext>) {
        self.state.lock().traces.begin(session, context);
    }

    fn end_trace(&self, session: SessionId) {
        self.state.lock().traces.end(session);
    }

    fn has_news(&self) -> bool {
        self.news.swap(false, Ordering::AcqRel)
    }
}

/// What those are told who have waited for a tick for too long.
pub(super) fn stage_is_silent() -> Error {
    let message = "the timestamp stage of the grid does not answer";
    Error::new(SqlState::CANNOT_CONNECT_NOW, message)
}
