//! The timestamp stage as a node of the grid: hands out ticks to those who ask, and says which snapshots may still be read.
//!
//! **Ticks and real time.** A node asks for the ticks of those who wait for one when it asks ([`super::TickAsker`]): a tick is handed
//! out after its transaction began, and so is above whatever was acknowledged before that. A tick that comes too late for its
//! question, or that an earlier life of the node or of the stage is concerned with, is never used: it could be below a commit that
//! was acknowledged meanwhile.
//!
//! **Snapshots.** Each node says from time to time which of its transactions are live and which of its questions have been
//! answered. What was handed out to it for later questions counts as live too. So no transaction can come any more that is
//! neither among the live ones nor from the oldest unaccounted tick on; that is what the stage tells everybody (rule F-3). It is
//! true for ever once it is true, so that a late word does no harm. A node that is silent for long is left out, with all that it has begun
//! (rule F-6): participants refuse what is neither live by the last word nor begins behind it, and the node takes no such tick any more.

use super::ticks::TickSource;
use crate::rules::{Rule, is_kept};
use rubato_base::{NodeId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Ticks handed out by one answer.
pub const TICKS_MAX: u16 = 64;
/// Stretches of ticks kept apart for one node until it says that it has had them.
const STRETCHES_MAX: usize = 256;
/// How far a node that joins may have the stage skip: it has rows up to there.
const SKIPPED_TICKS_MAX: u64 = 1 << 40;

/// What nodes and the timestamp stage say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageMessage {
    /// A node wants ticks.
    Wanted {
        /// Its life.
        life: u64,
        /// Counts its questions; it has one at a time.
        number: u64,
        /// How many, at most [`TICKS_MAX`].
        count: u16,
        /// They must be above this.
        above: Timestamp,
        /// The term of the agreement that it is in: a word of a voter, by which the stage may know that there is no newer one.
        term: u64,
    },
    /// The ticks that were wanted.
    Handed {
        /// The life of the stage.
        stage_life: u64,
        /// The life of the node that asked.
        life: u64,
        /// Its question.
        number: u64,
        /// The first; the others stand behind it.
        first: Timestamp,
        /// How many.
        count: u16,
        /// Whoever begins at them has to know catalogs of this version.
        catalogs: u64,
    },
    /// Which transactions of a node are live.
    LiveHere {
        /// Its life.
        life: u64,
        /// Counts what it says of this.
        report: u64,
        /// The life of the stage that it says it to. It takes no ticks of an earlier one any more.
        stage_life: u64,
        /// Its questions up to this one are answered.
        answered: u64,
        /// Where its live transactions began, in order.
        live: Vec<Timestamp>,
    },
    /// Which transactions of the grid are live.
    LiveEverywhere {
        /// The life of the stage.
        stage_life: u64,
        /// Counts what it says of this.
        report: u64,
        /// Where those below `open_from` began, in order.
        live: Vec<Timestamp>,
        /// From here on any may come.
        open_from: Timestamp,
    },
    /// The stage is in this life.
    Alive {
        /// The life of the stage.
        stage_life: u64,
    },
}

/// What the stage knows of a node.
#[derive(Clone, Debug, Default)]
struct Known {
    life: u64,
    /// Its last question.
    number: u64,
    /// The number of its last report, and who is live.
    report: Option<(u64, Vec<Timestamp>)>,
    /// What was handed out and is not in a report: up to which question, and the first tick.
    handed: Vec<(u64, Timestamp)>,
    /// Timers since its last report.
    silent_timers: u32,
    /// What began below this was left out while it was silent, and stays so.
    left_out_below: Timestamp,
}

impl Known {
    /// Rule F-6: whoever has been silent for longer than that is taken to have no transactions. All its ticks so far are below `next`.
    fn on_timer(&mut self, patience_timers: u32, next: Timestamp) {
        self.silent_timers = self.silent_timers.saturating_add(1);
        if self.silent_timers > patience_timers {
            let number = self.report.take().map_or(0, |(number, _)| number);
            self.report = Some((number, Vec::new()));
            self.handed.clear();
            self.left_out_below = next;
        }
    }
}

/// A question that waits for a bound.
#[derive(Clone, Copy, Debug)]
struct Question {
    number: u64,
    count: u16,
    above: Timestamp,
}

/// The state machine of the timestamp stage.
///
/// `on_message` takes what nodes say, `poll_outgoing` gives what is to be sent; `wanted_bound` says which bound has to be made
/// durable next, `on_bound_durable` that it is; `on_timer` tells everybody which transactions are live.
#[derive(Clone, Debug)]
pub struct TimestampStage {
    life: u64,
    ticks: TickSource,
    nodes: BTreeMap<NodeId, Known>,
    /// Nodes that membership has declared gone, with their last life.
    gone: BTreeMap<NodeId, u64>,
    /// The last question of each node that could not be answered yet.
    waiting: BTreeMap<NodeId, Question>,
    /// Whether there may be another stage without this node's having a part in it (rule T-5).
    is_alone: bool,
    /// Questions that came since it was last asked whether this stage is the newest, and those before.
    asked: BTreeMap<NodeId, Question>,
    confirming: BTreeMap<NodeId, Question>,
    catalogs: u64,
    reports: u64,
    /// Timers for which a node may be silent before it is left out of what everybody is told.
    patience_timers: u32,
    refused: u64,
    outgoing: Vec<(NodeId, StageMessage)>,
}

impl TimestampStage {
    /// The stage of a grid of these nodes, in a life of its own.
    pub fn new(life: u64, ticks: TickSource, nodes: impl IntoIterator<Item = NodeId>) -> TimestampStage {
        TimestampStage {
            life,
            ticks,
            nodes: nodes.into_iter().map(|node| (node, Known::default())).collect(),
            gone: BTreeMap::new(),
            waiting: BTreeMap::new(),
            is_alone: true,
            asked: BTreeMap::new(),
            confirming: BTreeMap::new(),
            catalogs: 0,
            reports: 0,
            patience_timers: u32::MAX,
            refused: 0,
            outgoing: Vec::new(),
        }
    }

    /// Leaves a node that has not said for so many timers which of its transactions are live out of what everybody is told: none of them
    /// can begin anywhere any more.
    ///
    /// Rule F-6: no version is kept for it meanwhile.
    pub fn leave_out_after(&mut self, timers: u32) {
        self.patience_timers = timers;
    }

    /// A node has joined the grid. It has no ticks yet, so that nothing waits for its first word; where it was in the grid before,
    /// it is heard in a later life only.
    pub fn add_node(&mut self, node: NodeId) {
        if self.nodes.contains_key(&node) {
            return;
        }
        let known = Known {
            life: self.gone.remove(&node).map_or(0, |life| life.saturating_add(1)),
            report: Some((0, Vec::new())),
            ..Known::default()
        };
        self.nodes.insert(node, known);
    }

    /// Membership has declared a node gone: its transactions will not come to anybody any more, and what it asked for is not
    /// answered.
    ///
    /// Rule F-4: versions are not kept for it, and no life of it so far is heard again.
    pub fn remove_node(&mut self, node: NodeId) {
        if let Some(known) = self.nodes.remove(&node) {
            self.gone.insert(node, known.life);
        }
        self.forget_questions(node);
    }

    fn forget_questions(&mut self, node: NodeId) {
        for questions in [&mut self.waiting, &mut self.asked, &mut self.confirming] {
            questions.remove(&node);
        }
    }

    /// Whether no other node has a part in saying which stage is the newest: then questions are answered at once.
    pub fn set_alone(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    /// Catalogs of this version are agreed on: only ticks above this one are handed out from now on, and all with that version.
    pub fn set_catalogs(&mut self, version: u64, above: Timestamp) {
        // Rule T-6: whoever has a tick above has the version with it.
        if version > self.catalogs {
            self.catalogs = version;
            self.ticks.skip_to(above);
        }
    }

    /// Whether questions have come for which it has to be asked anew whether this stage is the newest. They count as asked now.
    pub fn asks(&mut self) -> bool {
        if !self.confirming.is_empty() || self.asked.is_empty() {
            return false;
        }
        self.confirming = std::mem::take(&mut self.asked);
        true
    }

    /// At some moment since [`TimestampStage::asks`] there was no newer stage: what was asked before is answered.
    pub fn on_confirmed(&mut self) {
        for (node, question) in std::mem::take(&mut self.confirming) {
            self.hand_out(node, question);
        }
    }

    /// At some moment since its question there was no newer stage, as the node's own word shows.
    pub fn on_vouched(&mut self, node: NodeId) {
        if let Some(question) = self.asked.remove(&node) {
            self.confirming.remove(&node);
            self.hand_out(node, question);
        }
    }

    /// Its life.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Messages that changed nothing since the start.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The last tick that was handed out.
    pub fn last_tick(&self) -> Timestamp {
        self.ticks.last()
    }

    /// To whom something is to be sent.
    pub fn spoken_to(&self) -> BTreeSet<NodeId> {
        self.outgoing.iter().map(|(node, _)| *node).collect()
    }

    /// What to send.
    pub fn poll_outgoing(&mut self) -> Vec<(NodeId, StageMessage)> {
        std::mem::take(&mut self.outgoing)
    }

    /// The bound to make durable next, if one is needed.
    pub fn wanted_bound(&self) -> Option<Timestamp> {
        (self.ticks.is_low() || !self.waiting.is_empty()).then(|| self.ticks.next_bound())
    }

    /// The bound is durable: who waited for it gets ticks.
    pub fn on_bound_durable(&mut self, bound: Timestamp) {
        self.ticks.on_bound_durable(bound);
        for (node, question) in std::mem::take(&mut self.waiting) {
            self.hand_out(node, question);
        }
    }

    /// Takes in what a node says.
    pub fn on_message(&mut self, from: NodeId, message: StageMessage) {
        let taken = match message {
            StageMessage::Wanted {
                life,
                number,
                count,
                above,
                term: _,
            } => self.on_wanted(from, life, Question { number, count, above }),
            StageMessage::LiveHere {
                life,
                report,
                stage_life,
                answered,
                live,
            } => self.knows(from, life) && self.on_report(from, report, stage_life, answered, live),
            _ => false,
        };
        self.refused += u64::from(!taken);
    }

    /// A tick for a transaction of the stage's own node, without a question; `None` until a bound is durable, and where other nodes
    /// have to say whether this stage is the newest. The node says which
    /// of its transactions are live each time before [`TimestampStage::on_timer`], so that none of these is missed (rule F-5).
    pub fn take_here(&mut self) -> Option<Timestamp> {
        self.is_alone.then(|| self.ticks.next_tick()).flatten()
    }

    /// Tells everybody which transactions are live, once every node has said which of its are.
    pub fn on_timer(&mut self) {
        let mut open_from = self.ticks.last().next_tick();
        let mut live = Vec::new();
        let next = open_from;
        let patience_timers = self.patience_timers;
        self.nodes
            .values_mut()
            .for_each(|known| known.on_timer(patience_timers, next));
        for known in self.nodes.values() {
            let Some((_, reported)) = &known.report else { return };
            open_from = known.handed.first().map_or(open_from, |handed| open_from.min(handed.1));
            live.extend_from_slice(reported);
        }
        live.retain(|tick| *tick < open_from);
        live.sort_unstable();
        live.dedup();
        self.reports += 1;
        let message = StageMessage::LiveEverywhere {
            stage_life: self.life,
            report: self.reports,
            live,
            open_from,
        };
        let told = self.nodes.keys().map(|node| (*node, message.clone()));
        self.outgoing.extend(told);
    }

    /// Whether this is the present life of a node of the grid. A new life knows nothing of the questions of the one before, and its
    /// transactions have ended.
    fn knows(&mut self, from: NodeId, life: u64) -> bool {
        let Some(known) = self.nodes.get_mut(&from) else {
            return false;
        };
        if life > known.life {
            *known = Known {
                life,
                ..Known::default()
            };
            self.forget_questions(from);
            return true;
        }
        life == known.life
    }

    fn on_wanted(&mut self, from: NodeId, life: u64, question: Question) -> bool {
        let far = question.above.0.saturating_sub(self.ticks.last().0) / Timestamp::ZERO.next_tick().0;
        let sensible = (1..=TICKS_MAX).contains(&question.count) && far < SKIPPED_TICKS_MAX;
        if !sensible || !self.knows(from, life) {
            return false;
        }
        let is_late = |known: &Known| question.number < known.number || question.number == 0;
        if self.nodes.get(&from).is_none_or(is_late) {
            return false;
        }
        // Rule T-5: a newer stage may have handed out ticks above those of this one before the question was asked.
        if self.is_alone || !is_kept(Rule::T5) {
            self.hand_out(from, question);
        } else {
            self.asked.insert(from, question);
        }
        true
    }

    fn hand_out(&mut self, node: NodeId, question: Question) {
        let Some(known) = self.nodes.get_mut(&node) else {
            return;
        };
        known.number = question.number;
        self.ticks.skip_to(question.above);
        let Some(first) = self.ticks.take(u64::from(question.count)) else {
            self.waiting.insert(node, question);
            return;
        };
        let is_full = known.handed.len() >= STRETCHES_MAX;
        match known.handed.last_mut() {
            // Counted as handed out earlier than it was: then more is kept, never less.
            Some(last) if last.0 == question.number || is_full => last.0 = question.number,
            _ => known.handed.push((question.number, first)),
        }
        let message = StageMessage::Handed {
            stage_life: self.life,
            life: known.life,
            number: question.number,
            first,
            count: question.count,
            catalogs: self.catalogs,
        };
        self.outgoing.push((node, message));
    }

    fn on_report(
        &mut self,
        from: NodeId,
        report: u64,
        stage_life: u64,
        answered: u64,
        mut live: Vec<Timestamp>,
    ) -> bool {
        if stage_life < self.life {
            // It may still take ticks of the life before.
            let stage_life = self.life;
            self.outgoing.push((from, StageMessage::Alive { stage_life }));
            return false;
        }
        let Some(known) = self.nodes.get_mut(&from) else {
            return false;
        };
        if known.report.as_ref().is_some_and(|(last, _)| *last >= report) {
            return false;
        }
        known.handed.retain(|(number, _)| *number > answered);
        known.silent_timers = 0;
        live.retain(|tick| *tick >= known.left_out_below);
        known.report = Some((report, live));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: NodeId = NodeId(0);
    const THERE: NodeId = NodeId(1);

    fn tick(n: u64) -> Timestamp {
        (0..n).fold(Timestamp::ZERO, |tick, _| tick.next_tick())
    }

    fn stage() -> TimestampStage {
        let mut stage = TimestampStage::new(7, TickSource::default().reserving(8), [HERE, THERE]);
        stage.on_bound_durable(tick(8));
        stage
    }

    fn wanted(number: u64, count: u16) -> StageMessage {
        StageMessage::Wanted {
            life: 1,
            number,
            count,
            above: Timestamp::ZERO,
            term: 0,
        }
    }

    fn report(life: u64, report: u64, answered: u64, live: &[u64]) -> StageMessage {
        StageMessage::LiveHere {
            life,
            report,
            stage_life: 7,
            answered,
            live: live.iter().map(|n| tick(*n)).collect(),
        }
    }

    /// What everybody is told to be live.
    fn told(stage: &mut TimestampStage) -> Option<(Vec<Timestamp>, Timestamp)> {
        stage.poll_outgoing();
        stage.on_timer();
        let told = stage.poll_outgoing().into_iter().next_back();
        told.map(|(_, message)| match message {
            StageMessage::LiveEverywhere { live, open_from, .. } => (live, open_from),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn ticks_are_handed_out_below_a_durable_bound_only() {
        let mut stage = stage();
        stage.on_message(THERE, wanted(1, 6));
        assert_eq!(stage.poll_outgoing().len(), 1);
        assert_eq!(stage.wanted_bound(), Some(tick(16)));
        stage.on_message(THERE, wanted(2, 4));
        assert_eq!(stage.poll_outgoing(), []);
        stage.on_bound_durable(tick(16));
        let handed = StageMessage::Handed {
            stage_life: 7,
            life: 1,
            number: 2,
            first: tick(7),
            count: 4,
            catalogs: 0,
        };
        assert_eq!(stage.poll_outgoing(), [(THERE, handed)]);
        assert_eq!(stage.refused(), 0);
    }

    #[test]
    fn what_is_late_repeated_senseless_or_from_a_stranger_is_refused() {
        let mut stage = stage();
        stage.on_message(THERE, wanted(2, 1));
        stage.poll_outgoing();
        let far = StageMessage::Wanted {
            life: 1,
            number: 3,
            count: 1,
            above: Timestamp::MAX,
            term: 0,
        };
        let alive = StageMessage::Alive { stage_life: 9 };
        let refused = [wanted(1, 1), wanted(3, 0), wanted(3, TICKS_MAX + 1), far, alive];
        for (count, message) in refused.into_iter().enumerate() {
            stage.on_message(THERE, message.clone());
            assert_eq!(stage.refused(), count as u64 + 1, "{message:?}");
        }
        stage.on_message(NodeId(9), wanted(3, 1));
        assert_eq!((stage.refused(), stage.poll_outgoing().len()), (6, 0));
        // A new life of the node: the one before is late.
        stage.on_message(THERE, report(2, 1, 0, &[]));
        stage.on_message(THERE, wanted(4, 1));
        assert_eq!(stage.refused(), 7);
    }

    #[test]
    fn what_was_handed_out_and_is_not_accounted_for_counts_as_live() {
        let mut stage = stage();
        assert_eq!(told(&mut stage), None, "nobody has said anything");
        stage.on_message(HERE, report(1, 1, 0, &[]));
        stage.on_message(THERE, wanted(1, 1));
        stage.on_message(THERE, wanted(2, 1));
        stage.on_message(THERE, report(1, 1, 1, &[1]));
        assert_eq!(told(&mut stage), Some((vec![tick(1)], tick(2))));
        stage.on_message(THERE, report(1, 2, 2, &[2]));
        assert_eq!(told(&mut stage), Some((vec![tick(2)], tick(3))));
        // A late report brings nothing back.
        stage.on_message(THERE, report(1, 1, 1, &[1]));
        assert_eq!(told(&mut stage), Some((vec![tick(2)], tick(3))));
        // A node that was started anew has not said yet what is live.
        stage.on_message(THERE, report(2, 1, 0, &[]));
        assert_eq!(told(&mut stage), Some((vec![], tick(3))));
        stage.on_message(
            THERE,
            StageMessage::Wanted {
                life: 3,
                number: 1,
                count: 1,
                above: Timestamp::ZERO,
                term: 0,
            },
        );
        assert_eq!(told(&mut stage), None);
    }

    #[test]
    fn a_tick_taken_at_the_stage_itself_counts_as_live_until_its_node_says_otherwise() {
        let mut stage = stage();
        stage.on_message(THERE, report(1, 1, 0, &[]));
        stage.on_message(HERE, report(1, 1, 0, &[]));
        let taken = stage.take_here();
        assert_eq!(taken, Some(tick(1)));
        // The node says so before the stage tells others, as rule F-5 asks of it.
        stage.on_message(HERE, report(1, 2, 0, &[1]));
        stage.on_message(THERE, wanted(1, 1));
        assert_eq!(told(&mut stage), Some((vec![tick(1)], tick(2))));
        stage.on_message(HERE, report(1, 3, 0, &[]));
        assert_eq!(told(&mut stage), Some((vec![], tick(2))));
        let rest: Vec<_> = std::iter::from_fn(|| stage.take_here()).collect();
        assert_eq!(
            rest,
            (3..=8).map(tick).collect::<Vec<_>>(),
            "none above the durable bound"
        );
    }

    #[test]
    fn a_node_that_is_gone_holds_up_nothing_and_does_not_come_back_with_the_same_life() {
        let mut stage = stage();
        stage.on_message(HERE, report(1, 1, 0, &[]));
        stage.on_message(THERE, wanted(1, 1));
        stage.on_message(THERE, report(1, 1, 0, &[]));
        assert_eq!(told(&mut stage), Some((vec![], tick(1))), "it may begin at its tick");
        // It waits for more when it goes: nobody answers, and nobody waits for its word.
        stage.on_message(THERE, wanted(2, 8));
        stage.remove_node(THERE);
        stage.poll_outgoing();
        stage.on_bound_durable(tick(16));
        assert_eq!(stage.poll_outgoing(), []);
        assert_eq!(told(&mut stage), Some((vec![], tick(2))));
        let late = [wanted(3, 1), report(1, 2, 2, &[1])];
        for message in late.clone() {
            stage.on_message(THERE, message);
        }
        // Membership takes it in again, and messages of the life before still arrive.
        stage.add_node(THERE);
        for message in late {
            stage.on_message(THERE, message);
        }
        assert_eq!((stage.refused(), stage.poll_outgoing().len()), (4, 0));
        assert_eq!(
            told(&mut stage),
            Some((vec![], tick(2))),
            "nothing waits for its first word"
        );
        let anew = StageMessage::Wanted {
            life: 2,
            number: 1,
            count: 1,
            above: Timestamp::ZERO,
            term: 0,
        };
        stage.on_message(THERE, anew);
        assert_eq!(stage.poll_outgoing().len(), 1);
        stage.on_message(THERE, report(2, 1, 0, &[]));
        assert_eq!(
            told(&mut stage),
            Some((vec![], tick(2))),
            "what it was handed is not accounted for"
        );
        stage.on_message(THERE, report(2, 2, 1, &[]));
        assert_eq!(told(&mut stage), Some((vec![], tick(3))));
        assert_eq!(stage.refused(), 4);
        // One that is there already stays as it is.
        stage.add_node(THERE);
        assert_eq!(told(&mut stage), Some((vec![], tick(3))));
    }

    #[test]
    fn a_node_that_is_silent_for_long_holds_up_nothing_and_what_it_has_begun_is_left_out_for_ever() {
        let mut stage = stage();
        stage.leave_out_after(2);
        stage.on_message(HERE, report(1, 1, 1, &[]));
        stage.on_message(THERE, report(1, 1, 1, &[]));
        stage.on_message(THERE, wanted(1, 3));
        stage.poll_outgoing();
        stage.on_message(THERE, report(1, 2, 1, &[2]));
        // Its second question is answered, and it has not heard that.
        stage.on_message(THERE, wanted(2, 1));
        stage.poll_outgoing();
        assert_eq!(told(&mut stage), Some((vec![tick(2)], tick(4))));
        for number in 2..4 {
            stage.on_message(HERE, report(1, number, 1, &[]));
            let still_waits = told(&mut stage);
            assert_eq!(still_waits.is_some_and(|told| told.1 == tick(4)), number == 2);
        }
        // Silent for longer than that: neither what was live nor what it may have been handed is waited for.
        assert_eq!(told(&mut stage), Some((vec![], tick(5))));
        // What it says later of that time changes nothing: versions are gone. What it begins from now on counts.
        stage.on_message(THERE, report(1, 3, 1, &[2, 4]));
        assert_eq!(told(&mut stage), Some((vec![], tick(5))));
        stage.on_message(THERE, wanted(3, 1));
        stage.poll_outgoing();
        stage.on_message(THERE, report(1, 4, 3, &[2, 5]));
        stage.on_message(HERE, wanted(1, 1));
        stage.poll_outgoing();
        stage.on_message(HERE, report(1, 4, 1, &[]));
        assert_eq!(told(&mut stage), Some((vec![tick(5)], tick(7))));
    }

    #[test]
    fn a_tick_is_handed_out_when_no_newer_stage_was_there_since_it_was_asked_for() {
        let mut stage = stage();
        stage.set_alone(false);
        assert_eq!(stage.take_here(), None);
        stage.on_message(HERE, wanted(1, 1));
        assert!(stage.asks() && !stage.asks());
        // Who asks meanwhile is not served by what was begun before.
        stage.on_message(THERE, wanted(1, 1));
        assert!(!stage.asks() && stage.poll_outgoing().is_empty());
        stage.on_confirmed();
        let told: Vec<NodeId> = stage.poll_outgoing().into_iter().map(|(to, _)| to).collect();
        assert_eq!(told, [HERE]);
        // A voter's own word may be enough.
        stage.set_catalogs(9, tick(4));
        stage.on_vouched(THERE);
        let answer = stage.poll_outgoing().pop().map(|(_, message)| message);
        let first_and_version = match answer {
            Some(StageMessage::Handed { first, catalogs, .. }) => Some((first, catalogs)),
            _ => None,
        };
        assert_eq!(first_and_version, Some((tick(5), 9)));
        assert!(!stage.asks());
    }

    #[test]
    fn a_node_that_may_still_take_ticks_of_an_earlier_life_of_the_stage_is_told_first() {
        let mut stage = stage();
        let mut early = report(1, 1, 0, &[]);
        if let StageMessage::LiveHere { stage_life, .. } = &mut early {
            *stage_life = 6;
        }
        stage.on_message(THERE, early);
        assert_eq!(stage.poll_outgoing(), [(THERE, StageMessage::Alive { stage_life: 7 })]);
    }
}
