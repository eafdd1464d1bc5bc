//! The definition itself: is there one order of all committed transactions, agreeing with real time, in which each sees what
//! its client was told? A transaction whose outcome the client never learned may stand in it or not.
//!
//! A search in depth over the orders that real time allows. Few transactions are under way at once, and states that were
//! visited are not visited again, so it ends soon; if not, it is given up and says so.

use super::model::{Contents, State, Undo};
use crate::history::{Fate, History, Transaction};
use std::collections::{BTreeSet, HashSet};

/// Transactions tried before a search is given up.
pub const EXPANSIONS_MAX: usize = 200_000;

/// Bytes of what is said of a search in vain.
const REASON_BYTES_MAX: usize = 4_000;

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// There is an order.
    Found,
    /// There is none; what could not be placed where the search came farthest.
    None(String),
    /// It was given up.
    GivenUp,
}

/// One place of the order, and what else might stand there.
struct Place {
    chosen: usize,
    undo: Undo,
    /// Others that may be tried here.
    others: Vec<usize>,
    /// The largest beginning among what stands up to here.
    began_max: u64,
}

struct Searching<'h> {
    /// Sorted by their beginnings.
    transactions: Vec<&'h Transaction>,
    state: State,
    done: Vec<bool>,
    /// All before are done.
    first_open: usize,
    left: usize,
    visited: HashSet<(u64, u64)>,
    places: Vec<Place>,
    /// A sum of what is done.
    done_sum: u64,
    farthest: usize,
    reason: String,
}

/// Looks for an order.
pub fn search(history: &History, contents: &Contents, expansions_max: usize) -> Search {
    let mut searching = Searching::new(history, contents);
    let mut expansions = 0;
    let mut candidates = searching.candidates();
    loop {
        if searching.left == 0 {
            return Search::Found;
        }
        expansions += 1;
        if expansions > expansions_max {
            return Search::GivenUp;
        }
        match searching.advance(candidates) {
            true => candidates = searching.candidates(),
            false => match searching.go_back() {
                Some(others) => candidates = others,
                None => return Search::None(searching.reason),
            },
        }
    }
}

impl<'h> Searching<'h> {
    fn new(history: &'h History, contents: &Contents) -> Searching<'h> {
        let seen = elements_seen(history);
        let takes_part = |transaction: &&Transaction| match transaction.fate {
            Fate::Committed => true,
            Fate::Aborted => false,
            Fate::Unknown => transaction.changes(),
        };
        let mut transactions: Vec<&Transaction> = history.transactions.iter().filter(takes_part).collect();
        // One whose element somebody read has committed; one whose element the last reading does not show has not.
        transactions.retain(|transaction| transaction.fate == Fate::Committed || !seen.is_absent(transaction));
        transactions.sort_by_key(|transaction| transaction.began);
        let left = transactions.iter().filter(|one| one.fate == Fate::Committed).count();
        Searching {
            done: vec![false; transactions.len()],
            transactions,
            state: State::new(contents),
            first_open: 0,
            left,
            visited: HashSet::new(),
            places: Vec::new(),
            done_sum: 0,
            farthest: 0,
            reason: String::new(),
        }
    }

    fn began_max(&self) -> u64 {
        self.places.last().map_or(0, |place| place.began_max)
    }

    /// What real time allows to stand next, the likeliest last.
    fn candidates(&self) -> Vec<usize> {
        let mut earliest_end = u64::MAX;
        let open = || (self.first_open..self.transactions.len()).filter(|at| !self.done[*at]);
        for at in open() {
            let transaction = self.transactions[at];
            if transaction.began > earliest_end {
                break;
            }
            if transaction.fate == Fate::Committed {
                earliest_end = earliest_end.min(transaction.ended);
            }
        }
        let began_max = self.began_max();
        let mut candidates: Vec<usize> = open()
            .take_while(|at| self.transactions[*at].began <= earliest_end)
            .filter(|at| self.transactions[*at].ended >= began_max)
            .collect();
        candidates.sort_by_key(|at| {
            let transaction = self.transactions[*at];
            (
                transaction.fate == Fate::Committed,
                std::cmp::Reverse(transaction.ended),
            )
        });
        candidates
    }

    /// Places one of the candidates; false if none fits.
    fn advance(&mut self, mut candidates: Vec<usize>) -> bool {
        // What only reads and fits here may as well stand here: it changes nothing for the others.
        let began_max = self.began_max();
        let unknown = |at: &usize| self.transactions[*at].fate == Fate::Unknown;
        let doubtful: Vec<u64> = (candidates.iter().filter(|at| unknown(at)))
            .map(|at| self.transactions[*at].ended.max(began_max))
            .collect();
        // (Unless it began after the end of one whose outcome is unknown: that one could not be placed behind it any more.)
        let only_reads = |at: &usize| {
            let transaction = self.transactions[*at];
            let excludes = doubtful.iter().any(|ended| *ended < transaction.began);
            !transaction.changes() && transaction.fate == Fate::Committed && !excludes
        };
        for at in candidates.iter().copied().filter(only_reads) {
            if let Ok(undo) = self.state.run(self.transactions[at]) {
                self.place(at, undo, Vec::new());
                return true;
            }
        }
        while let Some(at) = candidates.pop() {
            match self.state.run(self.transactions[at]) {
                Ok(undo) => {
                    self.place(at, undo, candidates);
                    if self.visited.insert((self.done_sum, self.state.sum())) {
                        return true;
                    }
                    let place = self.unplace();
                    candidates = place.map_or(Vec::new(), |place| place.others);
                }
                Err(step) => {
                    if self.places.len() > self.farthest || self.reason.is_empty() {
                        self.farthest = self.places.len();
                        self.reason = format!("after {} placed", self.farthest);
                    }
                    if self.places.len() == self.farthest && self.reason.len() < REASON_BYTES_MAX {
                        let transaction = self.transactions[at];
                        self.reason
                            .push_str(&format!("\n    does not fit: {step:?} of {transaction}"));
                    }
                }
            }
        }
        false
    }

    fn place(&mut self, at: usize, undo: Undo, others: Vec<usize>) {
        let transaction = self.transactions[at];
        let began_max = self.began_max().max(transaction.began);
        self.done[at] = true;
        self.done_sum ^= mixed(at);
        self.left -= usize::from(transaction.fate == Fate::Committed);
        while self.done.get(self.first_open) == Some(&true) {
            self.first_open += 1;
        }
        self.places.push(Place {
            chosen: at,
            undo,
            others,
            began_max,
        });
    }

    fn unplace(&mut self) -> Option<Place> {
        let mut place = self.places.pop()?;
        let at = place.chosen;
        self.state.take_back(std::mem::take(&mut place.undo));
        self.done[at] = false;
        self.done_sum ^= mixed(at);
        self.left += usize::from(self.transactions[at].fate == Fate::Committed);
        self.first_open = self.first_open.min(at);
        Some(place)
    }

    /// Back to the last place at which something else may be tried.
    fn go_back(&mut self) -> Option<Vec<usize>> {
        loop {
            let place = self.unplace()?;
            if !place.others.is_empty() {
                return Some(place.others);
            }
        }
    }
}

fn mixed(at: usize) -> u64 {
    let mut mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

/// The elements of lists, which are unique and never leave, as far as anybody read them.
struct ElementsSeen {
    all: BTreeSet<i64>,
    /// The last reading of everything, by its beginning.
    last_reading: u64,
}

impl ElementsSeen {
    /// Whether a transaction appended something that is not there in a later reading of everything.
    fn is_absent(&self, transaction: &Transaction) -> bool {
        let appends = super::effects::appended(transaction);
        transaction.ended < self.last_reading && appends.iter().any(|(_, element)| !self.all.contains(element))
    }
}

fn elements_seen(history: &History) -> ElementsSeen {
    let mut seen = ElementsSeen {
        all: BTreeSet::new(),
        last_reading: 0,
    };
    for transaction in history.transactions.iter().filter(|one| one.fate == Fate::Committed) {
        for (_, elements) in super::effects::texts_read(transaction) {
            seen.all.extend(elements);
        }
        if super::effects::reads_everything(transaction) {
            seen.last_reading = seen.last_reading.max(transaction.began);
        }
    }
    seen
}
