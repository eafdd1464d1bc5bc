//! One transaction of a coordinator: where it stands, and what was asked of its participants.

use super::message::{Notes, Operation, Reply, Request};
use super::probe;
use crate::rules::{Rule, is_kept};
use rubato_base::{GlobalId, Lsn, NodeId, Timestamp};

/// Timers without an answer after which a transaction that is not decided is given up: a node that it needs is gone, or who holds
/// what it needs is. A decision is told for as long as it takes.
pub const SILENT_ROUNDS_MAX: u32 = 100;

/// Says every so many timers what was not answered, counted from when it was said first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SayAgain(u32);

/// At every timer.
impl Default for SayAgain {
    fn default() -> SayAgain {
        SayAgain(1)
    }
}

impl SayAgain {
    pub(super) fn every(rounds: u32) -> SayAgain {
        SayAgain(rounds.max(1))
    }

    /// Whether it is time, after so many timers.
    pub(super) fn is_due(self, silent_rounds: u32) -> bool {
        silent_rounds.is_multiple_of(self.0)
    }

    /// After so many timers it is time at the next one.
    pub(super) fn almost(self) -> u32 {
        self.0 - 1
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) node: NodeId,
    /// Operations sent.
    pub(super) sent: u32,
    pub(super) notes: Notes,
    /// It was asked for what others may change meanwhile.
    pub(super) only_reads: bool,
    /// It was asked to confirm what it had read so far, after so many operations, at this place.
    confirmed: Option<(u32, Timestamp)>,
    /// Its branch was a session's, which goes on with it: what was noted is not all.
    pub(super) is_adopted: bool,
    pub(super) check_above: bool,
    pub(super) floor: Option<Timestamp>,
    /// What it has read holds at this place.
    pub(super) held: Option<Timestamp>,
    /// It is to be asked to prepare, or what a reader is asked for then, when others have answered.
    pub(super) comes_later: bool,
    /// What was asked last and is not answered.
    pub(super) asked: Option<Request>,
    /// Timers since that was asked.
    pub(super) silent_rounds: u32,
    /// Timers since its branch has come to wait for another one, if it does.
    pub(super) waiting_rounds: Option<u32>,
    /// Another one waits for it, or did.
    pub(super) is_awaited: bool,
}

impl Member {
    pub(super) fn new(node: NodeId) -> Member {
        Member {
            node,
            sent: 0,
            notes: Notes::default(),
            only_reads: false,
            confirmed: None,
            is_adopted: false,
            check_above: true,
            floor: None,
            held: None,
            comes_later: false,
            asked: None,
            silent_rounds: 0,
            waiting_rounds: None,
            is_awaited: false,
        }
    }

    /// Whether it has to say that what was seen of it is so at a place, for a transaction that began at `tick`, before an error is told
    /// (`is_failing`) or rows are.
    pub(super) fn must_confirm(&self, (at, tick): (Timestamp, Timestamp), is_failing: bool) -> bool {
        let is_below = self.notes.moved_to.unwrap_or(tick) < at;
        let is_open = match is_failing {
            true => self.notes.through || is_below,
            // What stands on a row nobody changes, and what was read through others is shown at once.
            false => self.only_reads && is_below,
        };
        is_open && !self.is_adopted && self.confirmed != Some((self.sent, at))
    }

    /// The next operation, numbered. What was asked before is answered.
    pub(super) fn operate(&mut self, read_only: bool, operation: Operation) {
        let number = self.sent;
        self.sent += operation.count();
        self.only_reads |= operation.only_reads();
        if let Operation::Confirm { at } = operation {
            self.confirmed = Some((self.sent, at));
        }
        self.asked = Some(Request::Operate {
            number,
            read_only,
            operation,
        });
    }
}

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its client works.
    Running,
    /// Branches that stood behind somebody wait for their turn.
    Settling,
    /// Those that wrote prepare; those that only read make durable what they have read.
    Preparing,
    /// It can commit neither where it began nor at a step of its coordinator, and waits for the fresh tick that the timestamp stage was
    /// asked for.
    Placing,
    /// Reads are checked at the place.
    Checking(Timestamp),
    /// Its only participant commits it.
    Alone,
    /// It is committed, and everybody must carry that out.
    Committed(Timestamp),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) read_only: bool,
    pub(super) phase: Phase,
    pub(super) members: Vec<Member>,
    /// Where those that prepare were asked to hold.
    pub(super) proposed: Option<Timestamp>,
    /// Its commit is in the log, which has to know when everybody has carried it out.
    pub(super) is_logged: bool,
    /// Behind the record of the commit, if there is one.
    pub(super) decided_at: Lsn,
}

/// What the silence of others means for a transaction.
pub(super) enum Silence {
    /// It is asked again.
    Bearable,
    /// It is not decided, and is given up.
    Undecided,
    /// It may have committed.
    Unknown,
}

impl Run {
    pub(super) fn new(read_only: bool, phase: Phase) -> Run {
        Run {
            read_only,
            phase,
            members: Vec::new(),
            proposed: None,
            is_logged: false,
            decided_at: Lsn(0),
        }
    }

    /// Each member is waited for by itself: that others answer says nothing of it.
    pub(super) fn on_silence(&mut self) -> Silence {
        let mut silent_rounds = 0;
        for member in self.members.iter_mut().filter(|member| member.asked.is_some()) {
            member.silent_rounds = member.silent_rounds.saturating_add(1);
            silent_rounds = silent_rounds.max(member.silent_rounds);
        }
        match self.phase {
            _ if silent_rounds <= SILENT_ROUNDS_MAX => Silence::Bearable,
            Phase::Committed(_) => Silence::Bearable,
            Phase::Alone => Silence::Unknown,
            _ => Silence::Undecided,
        }
    }

    /// Rule Q-5: a timer more for those that wait; whether it is time for a probe again.
    pub(super) fn on_waiting(&mut self) -> bool {
        let waiting = self
            .members
            .iter_mut()
            .filter_map(|member| member.waiting_rounds.as_mut());
        let rounds = waiting.map(|rounds| {
            *rounds = rounds.saturating_add(1);
            *rounds
        });
        rounds.fold(false, |is_due, rounds| is_due | probe::is_due(rounds))
    }

    /// Where the transaction waits.
    pub(super) fn waits_at(&self) -> impl Iterator<Item = NodeId> + '_ {
        let waiting = self.members.iter().filter(|member| member.waiting_rounds.is_some());
        waiting.map(|member| member.node)
    }

    /// Whether it waits, and is waited for: only then it may be in a circle.
    pub(super) fn may_be_in_a_circle(&self) -> bool {
        self.members.iter().any(|member| member.is_awaited) && self.waits_at().next().is_some()
    }

    /// Whether somebody has not answered yet.
    pub(super) fn awaits_answers(&self) -> bool {
        self.members.iter().any(|member| member.asked.is_some())
    }

    pub(super) fn place_of(&self, node: NodeId) -> Option<usize> {
        self.members.iter().position(|member| member.node == node)
    }

    pub(super) fn member_or_new(&mut self, node: NodeId) -> &mut Member {
        let at = self.place_of(node).unwrap_or_else(|| {
            self.members.push(Member::new(node));
            self.members.len() - 1
        });
        &mut self.members[at]
    }

    /// Those that wrote prepare. Those that only read are asked whether what they have read is durable, at the snapshot. One that has
    /// written on the coordinator's own node comes before the others: it answers at once, and then it is known better where the
    /// transaction may come to stand.
    pub(super) fn prepare(&mut self, global: GlobalId) {
        self.phase = Phase::Preparing;
        let is_first = |member: &Member| member.node == global.coordinator && member.notes.writes;
        for member in &mut self.members {
            member.comes_later = !is_first(member);
        }
        self.ask_to_prepare(global.tick, |member| !member.comes_later);
    }

    /// Whether some are to be asked to prepare that come behind others.
    pub(super) fn has_later(&self) -> bool {
        self.members.iter().any(|member| member.comes_later)
    }

    /// Asks those that come behind others, to prepare and to hold at the place, if there is one.
    pub(super) fn prepare_later(&mut self, global: GlobalId, place: Option<Timestamp>) {
        self.proposed = place;
        self.ask_to_prepare(global.tick, |member| member.comes_later);
        for member in &mut self.members {
            member.comes_later = false;
        }
    }

    fn ask_to_prepare(&mut self, tick: Timestamp, wanted: impl Fn(&Member) -> bool) {
        let place = self.proposed;
        for member in self.members.iter_mut().filter(|member| wanted(member)) {
            let operations = member.sent;
            member.asked = Some(if member.notes.writes {
                Request::Prepare { operations, place }
            } else {
                Request::Check {
                    place: tick,
                    operations,
                }
            });
        }
    }

    /// Where it may come to stand, as far as is known: a step of the coordinator's own above the floors that there are and `newest`, a
    /// timestamp within a tick that was handed out, and above `given`, the last one that it gave. The newer, the more floors allow it.
    pub(super) fn proposal(&self, global: GlobalId, given: Timestamp, newest: Timestamp) -> Option<Timestamp> {
        let floors = self.members.iter().filter_map(|member| member.floor);
        let above = floors.max().unwrap_or(global.tick).max(global.tick).max(newest);
        above.max(given.next()).first_of(global.coordinator)
    }

    /// Rule P-3: the begin tick, if every floor allows it and every branch has read there; else the coordinator's first own step that
    /// no floor is above, and that is above `given`, the last one that it gave. Rule T-4: so nobody else has this place. Nothing: it
    /// needs a fresh tick, since there is no such step, or a branch that has no floor has read above where it began.
    pub(super) fn place(&self, global: GlobalId, given: Timestamp) -> Option<Timestamp> {
        let at_tick =
            |member: &Member| member.notes.moved_to.is_none() && member.floor.is_none_or(|floor| floor == global.tick);
        if self.members.iter().all(at_tick) || !is_kept(Rule::P3) {
            return Some(global.tick);
        }
        let floor = self.members.iter().filter_map(|member| member.floor).max()?;
        if !is_kept(Rule::T4) {
            return Some(floor);
        }
        let is_known = |member: &Member| member.floor.is_some() || member.notes.moved_to.is_none();
        let knows_all = self.members.iter().all(is_known);
        if let Some(proposed) = self.proposed.filter(|proposed| knows_all && *proposed >= floor) {
            return Some(proposed);
        }
        knows_all.then(|| floor.max(given.next()).first_of(global.coordinator))?
    }

    /// Whether a place is above all floors.
    pub(super) fn is_above_floors(&self, place: Timestamp) -> bool {
        let floors = self.members.iter().filter_map(|member| member.floor);
        floors.max().is_none_or(|floor| floor < place)
    }

    pub(super) fn check(&mut self, place: Timestamp) {
        self.phase = Phase::Checking(place);
        let is_open = |member: &&mut Member| member.check_above && member.held != Some(place);
        for member in self.members.iter_mut().filter(is_open) {
            let operations = member.sent;
            member.asked = Some(Request::Check { place, operations });
        }
    }
}

/// Whether the reply is one to what was asked last. A branch may be given up at any time before it is prepared.
pub(super) fn answers(reply: &Reply, asked: Option<&Request>) -> bool {
    match (reply, asked) {
        (Reply::Refused(_), _) => true,
        (
            Reply::Answer { number, .. } | Reply::Unready { number, .. },
            Some(Request::Operate { number: awaited, .. }),
        ) => number == awaited,
        (Reply::Prepared { .. }, Some(Request::Prepare { .. })) => true,
        (Reply::Holds { place }, Some(Request::Check { place: awaited, .. })) => place == awaited,
        (Reply::Committed { .. }, Some(Request::CommitAlone { .. })) => true,
        (Reply::Forgotten, Some(asked)) => !matches!(asked, Request::Decide(_)),
        (Reply::Done, Some(Request::Decide(Some(_)))) => true,
        _ => false,
    }
}
