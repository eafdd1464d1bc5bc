//! A node's side of the timestamp stage: asks for ticks, and says which of its transactions are live.

use super::run::SayAgain;
use super::stage::{StageMessage, TICKS_MAX};
use rubato_base::{GlobalId, Timestamp};
use std::collections::VecDeque;

/// How many may wait for a tick.
pub const WANTED_MAX: usize = 4096;

/// What a tick is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickFor {
    /// The participant of this node is born.
    Birth,
    /// A client of this number begins a transaction.
    Begin(u64),
    /// The transaction of a session, by the ticket that the session has.
    Session(u64),
    /// A transaction commits above where it began.
    Place(GlobalId),
}

/// What the stage has told a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Ticks for those who wanted one.
    Ticks(Vec<(TickFor, Timestamp)>),
    /// The live transactions of the grid below a timestamp, from which on any may come.
    Live(Vec<Timestamp>, Timestamp),
    /// Nothing of use.
    Nothing,
}

/// Asks for ticks, one question at a time: for all who want one at that moment.
///
/// `want` says who wants one, `is_urgent` whether it is not only for who begins, `poll_question` gives what is to be asked, `on_timer` asks again, `on_message` takes the answers.
#[derive(Clone, Debug)]
pub struct TickAsker {
    life: u64,
    /// The term of the agreement that this node is in.
    term: u64,
    /// The last life of the stage that was heard of.
    stage_life: u64,
    number: u64,
    above: Timestamp,
    wanted: VecDeque<TickFor>,
    is_urgent: bool,
    /// Those that the last question was for, until it is answered.
    asked: Vec<TickFor>,
    /// Timers since that.
    silent_rounds: u32,
    /// Timers since the first question that nobody has answered.
    unanswered_rounds: u32,
    say_again: SayAgain,
    reports: u64,
    /// The last word on live transactions.
    heard_report: u64,
    /// From where on, by the words so far, transactions begin that nobody knows of: no tick below that is handed out any more.
    open_from: Timestamp,
    refused: u64,
}

impl TickAsker {
    /// In a life of the node that has not been before, and never will be again. It takes no tick up to `above`.
    pub fn new(life: u64, above: Timestamp) -> TickAsker {
        TickAsker {
            life,
            term: 0,
            stage_life: 0,
            number: 0,
            above,
            wanted: VecDeque::new(),
            is_urgent: false,
            asked: Vec::new(),
            silent_rounds: 0,
            unanswered_rounds: 0,
            say_again: SayAgain::default(),
            reports: 0,
            heard_report: 0,
            open_from: Timestamp::ZERO,
            refused: 0,
        }
    }

    /// Messages that changed nothing since the start.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Says only every so many timers again what was not answered, not at each.
    pub fn say_again_every(&mut self, rounds: u32) {
        self.say_again = SayAgain::every(rounds);
    }

    /// The node has come to a term of the agreement, which is said with each question. What was asked in an earlier one is said again
    /// at the next timer: another node may be the one to answer it.
    pub fn set_term(&mut self, term: u64) {
        if term != self.term {
            self.silent_rounds = self.say_again.almost();
        }
        self.term = term;
    }

    /// Somebody wants a tick; false if too many do.
    pub fn want(&mut self, what: TickFor) -> bool {
        if self.wanted.len() >= WANTED_MAX {
            return false;
        }
        self.is_urgent |= matches!(what, TickFor::Birth | TickFor::Place(_));
        self.wanted.push_back(what);
        true
    }

    /// Whether nobody waits for a tick.
    pub fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.wanted.is_empty()
    }

    /// Whether there is something to ask.
    pub fn has_question(&self) -> bool {
        self.asked.is_empty() && !self.wanted.is_empty()
    }

    /// Whether more waits for a tick than clients that begin: whoever commits holds rows meanwhile.
    pub fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// What to ask the stage, if nothing is asked already.
    pub fn poll_question(&mut self) -> Option<StageMessage> {
        if !self.has_question() {
            return None;
        }
        self.is_urgent = false;
        self.number += 1;
        let count = self.wanted.len().min(usize::from(TICKS_MAX));
        self.asked = self.wanted.drain(..count).collect();
        self.silent_rounds = 0;
        self.question()
    }

    /// Asks again what was not answered, if it is time.
    pub fn on_timer(&mut self) -> Option<StageMessage> {
        self.silent_rounds += 1;
        if !self.asked.is_empty() {
            self.unanswered_rounds = self.unanswered_rounds.saturating_add(1);
        }
        self.say_again.is_due(self.silent_rounds).then(|| self.question())?
    }

    /// For how many timers the stage has owed an answer.
    pub fn unanswered_rounds(&self) -> u32 {
        self.unanswered_rounds
    }

    /// Asks again what was not answered, or was answered in vain.
    pub fn ask_again(&mut self) -> Option<StageMessage> {
        self.silent_rounds = 0;
        self.question()
    }

    /// What to tell the stage of the live transactions, which began at these ticks.
    pub fn report(&mut self, live: Vec<Timestamp>) -> StageMessage {
        self.reports += 1;
        StageMessage::LiveHere {
            life: self.life,
            report: self.reports,
            stage_life: self.stage_life,
            answered: self.number - u64::from(!self.asked.is_empty()),
            live,
        }
    }

    /// Takes in what the stage says.
    pub fn on_message(&mut self, message: StageMessage) -> Heard {
        let heard = match message {
            StageMessage::Handed {
                stage_life,
                life,
                number,
                first,
                count,
                catalogs: _,
            } if self.is_answer(stage_life, life, number, first, count) => {
                self.stage_life = stage_life;
                self.unanswered_rounds = 0;
                let mut next = first;
                let asked = self.asked.drain(..).map(|what| {
                    let tick = next;
                    next = next.next_tick();
                    (what, tick)
                });
                Heard::Ticks(asked.collect())
            }
            StageMessage::LiveEverywhere {
                stage_life,
                report,
                live,
                open_from,
            } if (stage_life, report) > (self.stage_life, self.heard_report) && live.is_sorted() => {
                (self.stage_life, self.heard_report) = (stage_life, report);
                self.open_from = self.open_from.max(open_from);
                Heard::Live(live, open_from)
            }
            StageMessage::Alive { stage_life } if stage_life > self.stage_life => {
                (self.stage_life, self.heard_report) = (stage_life, 0);
                return Heard::Nothing;
            }
            _ => Heard::Nothing,
        };
        self.refused += u64::from(heard == Heard::Nothing);
        heard
    }

    fn question(&self) -> Option<StageMessage> {
        let count = u16::try_from(self.asked.len()).unwrap_or(TICKS_MAX);
        (count > 0).then_some(StageMessage::Wanted {
            life: self.life,
            number: self.number,
            count,
            above: self.above,
            term: self.term,
        })
    }

    /// Whether these are the ticks that were asked for last: others may be below what has been acknowledged meanwhile. Rule F-6: ticks that
    /// were left out meanwhile are not taken.
    fn is_answer(&self, stage_life: u64, life: u64, number: u64, first: Timestamp, count: u16) -> bool {
        let expected = life == self.life && number == self.number && usize::from(count) == self.asked.len();
        let is_new = first > self.above && first >= self.open_from;
        expected && count > 0 && stage_life >= self.stage_life && first.is_tick() && is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(n: u64) -> Timestamp {
        (0..n).fold(Timestamp::ZERO, |tick, _| tick.next_tick())
    }

    fn handed(stage_life: u64, life: u64, number: u64, first: u64, count: u16) -> StageMessage {
        StageMessage::Handed {
            stage_life,
            life,
            number,
            first: tick(first),
            count,
            catalogs: 0,
        }
    }

    #[test]
    fn a_tick_is_used_for_those_who_waited_when_it_was_asked_for_and_once() {
        let mut asker = TickAsker::new(3, tick(2));
        assert!(asker.want(TickFor::Birth) && asker.want(TickFor::Begin(5)));
        let question = asker.poll_question();
        assert!(question.is_some() && asker.poll_question().is_none());
        // Who comes now is not served by what was asked before.
        asker.want(TickFor::Begin(6));
        assert_eq!(asker.on_timer(), question);
        let heard = asker.on_message(handed(1, 3, 1, 4, 2));
        let ticks = vec![(TickFor::Birth, tick(4)), (TickFor::Begin(5), tick(5))];
        assert_eq!(heard, Heard::Ticks(ticks));
        assert_eq!(asker.on_message(handed(1, 3, 1, 4, 2)), Heard::Nothing, "a repetition");
        assert!(asker.poll_question().is_some());
        let late = [
            handed(1, 3, 1, 6, 1),
            handed(0, 3, 2, 6, 1),
            handed(1, 2, 2, 6, 1),
            handed(1, 3, 2, 6, 2),
            handed(1, 3, 2, 2, 1),
        ];
        for message in late {
            assert_eq!(asker.on_message(message.clone()), Heard::Nothing, "{message:?}");
        }
        assert_eq!(asker.refused(), 6);
        assert!(matches!(asker.on_message(handed(2, 3, 2, 6, 1)), Heard::Ticks(_)));
    }

    #[test]
    fn whoever_commits_is_urgent_and_whoever_begins_is_not() {
        let mut asker = TickAsker::new(1, Timestamp::ZERO);
        assert!(!asker.has_question());
        assert!(asker.want(TickFor::Session(1)) && asker.want(TickFor::Begin(2)));
        assert!(asker.has_question() && !asker.is_urgent());
        let coordinator = rubato_base::NodeId(0);
        assert!(asker.want(TickFor::Place(GlobalId {
            tick: tick(1),
            coordinator
        })));
        assert!(asker.is_urgent());
        assert!(asker.poll_question().is_some() && !asker.is_urgent() && !asker.has_question());
    }

    #[test]
    fn after_it_has_heard_of_a_new_life_of_the_stage_it_takes_no_tick_of_the_one_before() {
        let mut asker = TickAsker::new(1, Timestamp::ZERO);
        asker.want(TickFor::Begin(1));
        asker.poll_question();
        asker.on_message(StageMessage::Alive { stage_life: 2 });
        assert_eq!(asker.on_message(handed(1, 1, 1, 4, 1)), Heard::Nothing);
        let report = asker.report(vec![tick(1)]);
        let expected = StageMessage::LiveHere {
            life: 1,
            report: 1,
            stage_life: 2,
            answered: 0,
            live: vec![tick(1)],
        };
        assert_eq!(report, expected);
    }
}
