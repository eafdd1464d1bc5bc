//! Dependency cycles, as Elle finds them: whose write was read by whom (wr), whose write followed whose (ww), whose read was
//! overwritten by whom (rw), and who began after whose end (real time). Any circle means that no order exists.
//!
//! The order of versions comes from what clients saw: a list shows the order of its elements; a register whose values are
//! unique shows it where a transaction read before it wrote.

mod graph;
mod versions;

use super::Violation;
use crate::history::{Fate, History, Transaction};
use graph::{Graph, Kind};

/// Everything that the lists and registers of a history contradict.
pub fn check(history: &History) -> Vec<Violation> {
    let seen = versions::seen(history);
    // One of unknown outcome takes part if somebody saw what it wrote.
    let takes_part = |transaction: &&Transaction| match transaction.fate {
        Fate::Committed => true,
        Fate::Aborted => false,
        Fate::Unknown => versions::written(transaction)
            .iter()
            .any(|written| seen.contains(written)),
    };
    let transactions: Vec<&Transaction> = history.transactions.iter().filter(takes_part).collect();
    let (mut graph, mut violations) = versions::graph(&transactions);
    real_time(&transactions, &mut graph);
    if let Some((name, circle)) = graph.worst_circle() {
        let around: Vec<String> = circle
            .iter()
            .map(|(at, kind)| format!("\n    {} --{kind:?}-->", transactions[*at]))
            .collect();
        violations.push(Violation::new(name, around.concat()));
    }
    violations
}

/// Who began after whose end, without what follows from the rest.
fn real_time(transactions: &[&Transaction], graph: &mut Graph) {
    for (before, first) in transactions.iter().enumerate() {
        let later = transactions
            .iter()
            .enumerate()
            .filter(|(_, one)| one.began > first.ended);
        let Some(earliest_end) = later.clone().map(|(_, one)| one.ended).min() else {
            continue;
        };
        for (after, _) in later.filter(|(_, one)| one.began <= earliest_end) {
            graph.add(before, after, Kind::RealTime);
        }
    }
}
