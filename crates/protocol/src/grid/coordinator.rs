//! A node's coordinator: runs the transactions of its clients over the participants, and decides them.

mod waiting;

use super::message::{Answer, Body, Message, Operation, Outgoing, Reply, Request};
use super::run::{Member, Phase, Run, SayAgain, Silence, answers};
use super::ticks::TickSource;
use crate::api::{CommitLog, DecisionRecord};
use crate::rules::{Rule, is_kept};
use crate::sketch::Sketch;
use rubato_base::{Error, GlobalId, Lsn, NodeId, SqlState, Timestamp};
use std::collections::BTreeMap;

/// How a transaction ended, as its client is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// It is committed at this place.
    Committed(Timestamp),
    /// It left no trace.
    RolledBack(Error),
    /// The node that was to commit it was restarted: it may have committed or not.
    Unknown,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientEvent {
    /// Its transaction.
    pub transaction: GlobalId,
    /// What happened.
    pub told: Told,
    /// Not before the coordinator's log is forced up to here.
    pub durable_at: Lsn,
}

/// What happened to a client's transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// The answer of its operation at this node.
    Answer(NodeId, Answer),
    /// It has ended.
    Ended(Ending),
}

/// A decision read back from the log: (transaction, place, participants).
pub type Recovered = (GlobalId, Timestamp, Vec<NodeId>);

/// Transactions that a coordinator has committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitCounts {
    /// By their only participant: one round.
    pub in_one_round: u64,
    /// By a decision over several participants: two phases.
    pub in_two_phases: u64,
}

/// The state machine of a node's coordinator.
///
/// Commands (`begin`, `operate`, `commit`, `roll_back`) come from clients, `on_message` takes replies, `on_timer` says again
/// what was not answered, `poll_outgoing` and `poll_events` give what is to be sent and told. Where the timestamp stage is on
/// another node the [`TickSource`] handed in has nothing: `poll_tick_requests` says who wants a tick, and `on_tick` brings it.
#[derive(Clone, Debug)]
pub struct Coordinator {
    node: NodeId,
    runs: BTreeMap<GlobalId, Run>,
    refused: u64,
    commits: CommitCounts,
    /// Transactions rolled back since they were in circles or long lines of waits, and that were not asked for yet.
    in_circles: u64,
    say_again: SayAgain,
    outgoing: Vec<Outgoing>,
    events: Vec<ClientEvent>,
    /// Those that want a fresh tick.
    wanting_ticks: Vec<GlobalId>,
    /// The last place that it has given. Whoever begins after a restart does so above it.
    given: Timestamp,
    /// The newest tick that it has heard of.
    newest: Timestamp,
}

impl Coordinator {
    /// A coordinator with nothing to do.
    pub fn new(node: NodeId) -> Coordinator {
        Coordinator {
            node,
            runs: BTreeMap::new(),
            refused: 0,
            commits: CommitCounts::default(),
            in_circles: 0,
            say_again: SayAgain::default(),
            outgoing: Vec::new(),
            events: Vec::new(),
            wanting_ticks: Vec::new(),
            given: Timestamp::ZERO,
            newest: Timestamp::ZERO,
        }
    }

    /// A coordinator after a restart, with the decisions that its log has: it tells the participants again until each has
    /// carried them out. Everything else that it coordinated was rolled back (rule D-4).
    pub fn recovered(node: NodeId, decisions: Vec<Recovered>) -> Coordinator {
        let mut coordinator = Coordinator::new(node);
        for (global, place, participants) in decisions {
            let member = |node| {
                let mut member = Member::new(node);
                (member.notes.writes, member.check_above) = (true, false);
                member.asked = Some(Request::Decide(Some(place)));
                member
            };
            let run = Run {
                members: participants.into_iter().map(member).collect(),
                is_logged: true,
                ..Run::new(false, Phase::Committed(place))
            };
            coordinator.runs.insert(global, run);
            coordinator.send_asked(global, |_| true);
        }
        coordinator
    }

    /// Says only every so many timers again what was not answered, not at each: an answer takes its time where nodes have much to do.
    pub fn say_again_every(&mut self, rounds: u32) {
        self.say_again = SayAgain::every(rounds);
    }

    /// Messages that changed nothing since the start.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The transactions that it has committed since the start.
    pub fn commits(&self) -> CommitCounts {
        self.commits
    }

    /// Transactions that have not ended, or of which somebody has not carried out the decision.
    pub fn open_transactions(&self) -> impl Iterator<Item = GlobalId> + '_ {
        self.runs.keys().copied()
    }

    /// Those of them that have changed something.
    pub fn open_changes(&self) -> impl Iterator<Item = GlobalId> + '_ {
        let changes = |run: &Run| run.members.iter().any(|member| member.notes.writes);
        self.runs
            .iter()
            .filter(move |(_, run)| changes(run))
            .map(|(global, _)| *global)
    }

    /// Whether there are no such transactions.
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty()
    }

    /// The decisions that somebody has not carried out yet, with those who have not. A checkpoint takes them along, since the log
    /// before it goes (rule D-9).
    pub fn undone_decisions(&self) -> Vec<Recovered> {
        let logged = self.runs.iter().filter(|(_, run)| run.is_logged);
        let undone = logged.filter_map(|(global, run)| {
            let Phase::Committed(place) = run.phase else {
                return None;
            };
            let owing = run
                .members
                .iter()
                .filter(|member| member.notes.writes && member.asked.is_some());
            Some((*global, place, owing.map(|member| member.node).collect()))
        });
        undone
            .filter(|(_, _, participants): &Recovered| !participants.is_empty())
            .collect()
    }

    /// Transactions that want a fresh tick of the timestamp stage, each once.
    pub fn poll_tick_requests(&mut self) -> Vec<GlobalId> {
        std::mem::take(&mut self.wanting_ticks)
    }

    /// A tick was handed out, to whomever: transactions may come to stand within it.
    pub fn note_tick(&mut self, tick: Timestamp) {
        self.newest = self.newest.max(tick.tick());
    }

    /// A tick for a transaction that wanted one. It was handed out when all floors were known.
    pub fn on_tick(&mut self, global: GlobalId, tick: Timestamp, log: &mut dyn CommitLog) {
        let run = self.runs.get_mut(&global);
        let Some(run) = run.filter(|run| run.phase == Phase::Placing) else {
            return;
        };
        if !run.is_above_floors(tick) {
            return self.on_refused(global, Error::internal("a fresh tick is not above what was prepared"));
        }
        run.check(tick);
        self.send_asked(global, |_| true);
        self.go_on(global, &mut TickSource::default(), log);
    }

    /// A transaction that wanted a tick gets none, since too many want one: nobody can have been told that it committed.
    pub fn on_no_tick(&mut self, global: GlobalId) {
        let message = "too many transactions wait for the timestamp stage of the grid";
        self.on_refused(global, Error::new(SqlState::TOO_MANY_CONNECTIONS, message));
    }

    /// What to send.
    pub fn poll_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// What to tell clients.
    pub fn poll_events(&mut self) -> Vec<ClientEvent> {
        std::mem::take(&mut self.events)
    }

    /// Begins a transaction at a tick of the timestamp stage that nobody else was given.
    pub fn begin(&mut self, tick: Timestamp, read_only: bool) -> GlobalId {
        let global = GlobalId {
            tick,
            coordinator: self.node,
        };
        self.note_tick(tick);
        self.runs.insert(global, Run::new(read_only, Phase::Running));
        global
    }

    /// Whether the transaction's client still works: it is neither ended nor being committed.
    pub fn is_running(&self, global: GlobalId) -> bool {
        self.runs.get(&global).is_some_and(|run| run.phase == Phase::Running)
    }

    /// Sends an operation to the participant that has its rows. One at a time for each participant of a transaction, so that several
    /// can be asked at once: each answer comes as an event that names who gave it. Says no if there is no such transaction, or that
    /// participant has not answered yet.
    pub fn operate(&mut self, global: GlobalId, to: NodeId, operation: Operation) -> bool {
        let Some(run) = self.runs.get_mut(&global).filter(|run| run.phase == Phase::Running) else {
            return false;
        };
        if operation.count() == 0 {
            return false;
        }
        let read_only = run.read_only;
        let member = run.member_or_new(to);
        if member.asked.is_some() {
            return false;
        }
        member.operate(read_only, operation);
        self.ask(global, to);
        true
    }

    /// The transaction began as that of a session at `node`, whose participant has taken it as a branch
    /// ([`super::Participant::adopt`]): what the session did there takes part in the commit.
    ///
    /// Rule P-10: what it did is asked for first, so that it is prepared or checked like any other.
    pub fn adopt(&mut self, global: GlobalId, node: NodeId) -> bool {
        let run = self.runs.get_mut(&global);
        let Some(run) = run.filter(|run| run.phase == Phase::Running && run.place_of(node).is_none()) else {
            return false;
        };
        let member = run.member_or_new(node);
        (member.is_adopted, member.notes.behind) = (true, true);
        true
    }

    /// Commits. How it ended comes as an event. Does nothing while an answer is awaited.
    pub fn commit(&mut self, global: GlobalId, ticks: &mut TickSource, log: &mut dyn CommitLog) {
        let Some(run) = self.runs.get_mut(&global) else {
            return;
        };
        if run.phase != Phase::Running || run.awaits_answers() {
            return;
        }
        match &mut run.members[..] {
            [] => {
                self.end(global, Ending::Committed(global.tick), Lsn(0));
                return;
            }
            [only] => {
                only.asked = Some(Request::CommitAlone { operations: only.sent });
                run.phase = Phase::Alone;
            }
            _ => {
                run.phase = Phase::Settling;
                for member in run.members.iter_mut().filter(|member| member.notes.behind) {
                    member.operate(run.read_only, Operation::Settle);
                }
            }
        }
        self.send_asked(global, |_| true);
        self.go_on(global, ticks, log);
    }

    /// What has to be confirmed before what the transaction was told is taken for true ([`Operation::Confirm`], rule Q-7): it may have read
    /// at a later place on one partition than on another, and through formulas of others that are not committed. Gives the last place at
    /// which it has read, `own` being that of its session's branch, and the nodes that have to say that it is so there. Where there is no
    /// error to be told only those are asked that have read what others may change meanwhile.
    pub fn to_confirm(&self, global: GlobalId, own: Timestamp, is_failing: bool) -> (Timestamp, Vec<NodeId>) {
        let members = self.runs.get(&global).map_or(&[][..], |run| &run.members);
        let others = members.iter().filter(|member| !member.is_adopted);
        let at = others
            .filter_map(|member| member.notes.moved_to)
            .fold(own, Timestamp::max);
        let asked = members
            .iter()
            .filter(|member| member.must_confirm((at, global.tick), is_failing));
        (at, asked.map(|member| member.node).collect())
    }

    /// Rolls back. The client needs no answer; whoever is not reached asks later.
    pub fn roll_back(&mut self, global: GlobalId) {
        let Some(run) = self.runs.get(&global) else {
            return;
        };
        if matches!(run.phase, Phase::Running) {
            self.abandon(global);
        }
    }

    /// Rolls back although the commit was asked for, if nobody can have been told that it is committed (rule D-4). False if it is
    /// decided, may be decided by its only participant, or has ended.
    pub fn give_up(&mut self, global: GlobalId) -> bool {
        let phase = self.runs.get(&global).map(|run| run.phase);
        let is_undecided = !matches!(phase, None | Some(Phase::Alone | Phase::Committed(_)));
        if is_undecided {
            self.abandon(global);
        }
        is_undecided
    }

    /// Takes in a message.
    pub fn on_message(&mut self, from: NodeId, message: Message, ticks: &mut TickSource, log: &mut dyn CommitLog) {
        let global = message.transaction;
        let reply = match message.body {
            Body::Reply(reply) => reply,
            Body::Waiting(waiting) => return self.on_waiting(global, waiting),
            Body::Request(_) | Body::Passed(_) => {
                self.refused += 1;
                return;
            }
        };
        if global.coordinator != self.node {
            self.refused += 1;
            return;
        }
        if reply == Reply::Inquire {
            self.on_inquiry(from, global);
            return;
        }
        if let Reply::Waits | Reply::Awaited = reply {
            self.on_wait(from, global, reply == Reply::Waits);
            return;
        }
        let Some(run) = self.runs.get_mut(&global) else {
            self.refused += 1;
            return;
        };
        let Some(at) = run
            .place_of(from)
            .filter(|at| answers(&reply, run.members[*at].asked.as_ref()))
        else {
            self.refused += 1;
            return;
        };
        let member = &mut run.members[at];
        (member.silent_rounds, member.waiting_rounds) = (0, None);
        match reply {
            Reply::Refused(error) | Reply::Unready { error, .. } => return self.on_refused(global, error),
            Reply::Forgotten if run.phase == Phase::Alone => {
                self.end(global, Ending::Unknown, Lsn(0));
                return;
            }
            Reply::Forgotten => {
                let message = "the node was started after the transaction had begun";
                return self.on_refused(global, Error::serialization(message, format!("transaction {global}")));
            }
            Reply::Committed { cts } => {
                self.commits.in_one_round += 1;
                self.end(global, Ending::Committed(cts), Lsn(0));
                return;
            }
            Reply::Answer { answer, notes, .. } => {
                let settled = matches!(
                    member.asked,
                    Some(Request::Operate {
                        operation: Operation::Settle,
                        ..
                    })
                );
                (member.asked, member.notes) = (None, notes);
                if !settled {
                    member.only_reads |= answer.misses_a_row();
                    // Rule P-10: what the session does behind this is asked for before the commit.
                    member.notes.behind |= member.is_adopted;
                    self.tell(global, Told::Answer(from, answer), Lsn(0));
                    // Rule Q-5: others may stand behind what it has come to hold, while it waits elsewhere.
                    return self.probe(global);
                }
            }
            Reply::Prepared {
                floor,
                check_above,
                held,
            } => {
                (member.asked, member.floor) = (None, Some(floor));
                (member.check_above, member.held) = (check_above, held);
            }
            Reply::Holds { .. } | Reply::Done => member.asked = None,
            Reply::Inquire | Reply::Waits | Reply::Awaited => {}
        }
        self.go_on(global, ticks, log);
    }

    /// Says again what was not answered, and gives up who has waited too long.
    pub fn on_timer(&mut self) {
        let open: Vec<GlobalId> = self.runs.keys().copied().collect();
        let say_again = self.say_again;
        for global in open {
            match self.runs.get_mut(&global).map(Run::on_silence) {
                Some(Silence::Bearable) => self.send_asked(global, |member| say_again.is_due(member.silent_rounds)),
                Some(Silence::Undecided) => {
                    let message =
                        "a node of the grid, or a transaction that stands before, did not answer for too long";
                    self.on_refused(global, Error::serialization(message, format!("transaction {global}")));
                }
                Some(Silence::Unknown) => self.end(global, Ending::Unknown, Lsn(0)),
                None => {}
            }
            if self.runs.get_mut(&global).is_some_and(Run::on_waiting) {
                self.probe(global);
            }
        }
    }

    /// Writes down what distinguishes this state. How many messages were refused, and transactions committed, does not.
    pub fn sketch(&self, sketch: &mut Sketch) {
        sketch.number(self.runs.len() as u64);
        sketch.stamp(self.given);
        sketch.stamp(self.newest);
        for (global, run) in &self.runs {
            sketch.stamp(global.tick);
            sketch.number(match run.phase {
                Phase::Running => 0,
                Phase::Settling => 1,
                Phase::Preparing => 2,
                Phase::Checking(_) => 3,
                Phase::Alone => 4,
                Phase::Committed(_) => 5,
                Phase::Placing => 6,
            });
            if let Phase::Checking(place) | Phase::Committed(place) = run.phase {
                sketch.stamp(place);
            }
            sketch.stamp_or_none(run.proposed);
            for member in &run.members {
                sketch.number(1 + u64::from(member.node.0));
                sketch.number(u64::from(member.sent));
                let notes = [
                    member.notes.writes,
                    member.notes.moved_to.is_some(),
                    member.notes.behind,
                    member.check_above,
                ];
                notes.iter().for_each(|note| sketch.number(u64::from(*note)));
                sketch.stamp_or_none(member.floor);
                sketch.stamp_or_none(member.held);
                sketch.number(u64::from(member.comes_later));
                sketch.number(u64::from(member.asked.is_some()));
                sketch.number(u64::from(member.waiting_rounds.is_some()));
                sketch.number(u64::from(member.is_awaited));
                member.asked.iter().for_each(|asked| asked.sketch(sketch));
            }
            sketch.number(0);
        }
    }

    /// Rule D-4: of whom nothing is known here was rolled back. Rule D-3: who asks hears of a commit no sooner than others.
    fn on_inquiry(&mut self, from: NodeId, global: GlobalId) {
        let (outcome, durable_at) = match self.runs.get(&global).map(|run| (run.phase, run.decided_at)) {
            None => (None, Lsn(0)),
            Some((Phase::Committed(place), decided_at)) => (Some(place), decided_at),
            Some(_) => return,
        };
        self.send(global, from, Request::Decide(outcome), durable_at);
    }

    /// A participant cannot go on: nobody does, unless it was decided before.
    fn on_refused(&mut self, global: GlobalId, error: Error) {
        match self.runs.get(&global).map(|run| run.phase) {
            Some(Phase::Committed(_)) | None => self.refused += 1,
            Some(_) => {
                self.tell(global, Told::Ended(Ending::RolledBack(error)), Lsn(0));
                self.abandon(global);
            }
        }
    }

    /// Goes on with a commit for which nothing is outstanding.
    fn go_on(&mut self, global: GlobalId, ticks: &mut TickSource, log: &mut dyn CommitLog) {
        loop {
            let Some(run) = self.runs.get_mut(&global) else {
                return;
            };
            if run.awaits_answers() {
                return;
            }
            match run.phase {
                Phase::Running | Phase::Alone | Phase::Placing => return,
                Phase::Settling => run.prepare(global),
                Phase::Preparing if run.has_later() => {
                    let place = run.proposal(global, self.given, self.newest);
                    self.given = self.given.max(place.unwrap_or_default());
                    run.prepare_later(global, place);
                }
                Phase::Preparing => match run.place(global, self.given).or_else(|| ticks.next_tick()) {
                    Some(place) if place == global.tick => return self.decide(global, place, log),
                    Some(place) => {
                        self.given = self.given.max(place);
                        run.check(place);
                    }
                    None => {
                        run.phase = Phase::Placing;
                        self.wanting_ticks.push(global);
                        return;
                    }
                },
                Phase::Checking(place) => return self.decide(global, place, log),
                Phase::Committed(_) => {
                    // Without this record it is only told once more after a restart.
                    if run.is_logged {
                        let _ = log.append_end(global);
                    }
                    self.runs.remove(&global);
                    return;
                }
            }
            self.send_asked(global, |_| true);
        }
    }

    /// Rule D-3: the decision is durable before anybody is told, participant or client. Who placed nothing anywhere decides
    /// nothing.
    fn decide(&mut self, global: GlobalId, place: Timestamp, log: &mut dyn CommitLog) {
        let Some(run) = self.runs.get_mut(&global) else {
            return;
        };
        let writers: Vec<NodeId> = run
            .members
            .iter()
            .filter(|member| member.notes.writes)
            .map(|member| member.node)
            .collect();
        let mut durable_at = Lsn(0);
        if !writers.is_empty() {
            let appended = log.append_decision(&DecisionRecord {
                transaction: global,
                cts: Some(place),
                participants: &writers,
            });
            durable_at = match appended {
                Ok(lsn) => {
                    run.is_logged = true;
                    lsn
                }
                // What was not written down was not decided.
                Err(error) => return self.on_refused(global, error),
            };
        }
        if !is_kept(Rule::D3) {
            durable_at = Lsn(0);
        }
        (run.phase, run.decided_at) = (Phase::Committed(place), durable_at);
        self.commits.in_two_phases += 1;
        for member in &mut run.members {
            member.asked = Some(Request::Decide(Some(place)));
        }
        self.send_asked(global, |_| true);
        self.tell(global, Told::Ended(Ending::Committed(place)), durable_at);
        // Rule D-9: it is remembered until everybody has carried it out, durably.
        if !is_kept(Rule::D9) {
            self.runs.remove(&global);
        }
    }

    fn abandon(&mut self, global: GlobalId) {
        let Some(run) = self.runs.remove(&global) else {
            return;
        };
        for member in run.members {
            self.send(global, member.node, Request::Decide(None), Lsn(0));
        }
    }

    fn end(&mut self, global: GlobalId, ending: Ending, durable_at: Lsn) {
        self.runs.remove(&global);
        self.tell(global, Told::Ended(ending), durable_at);
    }

    fn tell(&mut self, transaction: GlobalId, told: Told, durable_at: Lsn) {
        self.events.push(ClientEvent {
            transaction,
            told,
            durable_at,
        });
    }

    /// Sends what those members were asked that the caller wants.
    fn send_asked(&mut self, global: GlobalId, wanted: impl Fn(&Member) -> bool) {
        let Some(run) = self.runs.get(&global) else {
            return;
        };
        // Nothing but a decision has to wait.
        let durable_at = run.decided_at;
        let asked: Vec<(NodeId, Request)> = run
            .members
            .iter()
            .filter(|member| wanted(member))
            .filter_map(|member| Some((member.node, member.asked.clone()?)))
            .collect();
        for (to, request) in asked {
            self.send(global, to, request, durable_at);
        }
    }

    /// Sends what one participant was asked.
    fn ask(&mut self, global: GlobalId, to: NodeId) {
        let run = self.runs.get(&global);
        let asked = run.and_then(|run| run.members[run.place_of(to)?].asked.clone());
        if let Some(request) = asked {
            self.send(global, to, request, Lsn(0));
        }
    }

    fn send(&mut self, transaction: GlobalId, to: NodeId, request: Request, durable_at: Lsn) {
        self.outgoing.push(Outgoing {
            to,
            message: Message {
                transaction,
                body: Body::Request(request),
            },
            durable_at,
        });
    }
}
