//! Lost or invented effects: of lists, whose elements are unique and never leave.
//!
//! What was acknowledged is there for everybody who begins later; what was refused is there for nobody; a transaction is there as
//! a whole or not at all, and once.

use super::Violation;
use crate::history::{Change, Fate, History, Key, Step, Table, Transaction, elements};
use std::collections::{BTreeMap, BTreeSet};

/// What a transaction appended for good, in order.
pub(super) fn appended(transaction: &Transaction) -> Vec<(Key, i64)> {
    let append = |step: &&Step| match step {
        Step::Change(key, Change::Append(element), true) | Step::Attempt(key, Change::Append(element)) => {
            Some((*key, *element))
        }
        _ => None,
    };
    transaction.lasting_steps().iter().filter_map(append).collect()
}

/// The texts that a transaction read, in order.
pub(super) fn texts_read(transaction: &Transaction) -> Vec<(Key, Vec<i64>)> {
    let mut read = Vec::new();
    for step in &transaction.steps {
        match step {
            Step::ReadText(key, Some(text)) => read.push((*key, elements(text))),
            Step::ReadAll(table, rows) => {
                let texts = rows.iter().map(|(id, row)| ((*table, *id), elements(&row.text)));
                read.extend(texts);
            }
            _ => {}
        }
    }
    read
}

/// Whether a transaction read every list.
pub(super) fn reads_everything(transaction: &Transaction) -> bool {
    let reads_all = |step: &Step| matches!(step, Step::ReadAll(Table::Plain, _));
    transaction.steps.iter().any(reads_all)
}

struct Writer<'h> {
    transaction: &'h Transaction,
    /// Whether it took the element back to a savepoint.
    taken_back: bool,
}

/// Everything lost, invented, doubled or there by halves.
pub fn check(history: &History) -> Vec<Violation> {
    let writers = writers(history);
    let mut violations = Vec::new();
    let committed = || history.transactions.iter().filter(|one| one.fate == Fate::Committed);
    for reader in committed() {
        let own: BTreeSet<i64> = appended_at_all(reader)
            .into_iter()
            .map(|(_, element)| element)
            .collect();
        for (key, elements) in texts_read(reader) {
            let foreign = |element: &i64| !own.contains(element);
            let foreign: Vec<i64> = elements.into_iter().filter(foreign).collect();
            violations.extend(judge_reading(reader, key, &foreign, &writers));
        }
        violations.extend(sees_what_it_took_back(reader));
    }
    for reader in committed().filter(|reader| reads_everything(reader)) {
        let read: BTreeSet<(Key, i64)> = (texts_read(reader).into_iter())
            .flat_map(|(key, elements)| elements.into_iter().map(move |element| (key, element)))
            .collect();
        violations.extend(judge_everything(reader, &read, history));
    }
    violations
}

/// Whether a transaction saw an element of its own after it had gone back to a savepoint before that.
fn sees_what_it_took_back(transaction: &Transaction) -> Option<Violation> {
    let (mut standing, mut taken_back, mut saved) = (Vec::new(), BTreeSet::new(), 0);
    for step in &transaction.steps {
        let seen = match step {
            Step::Change(key, Change::Append(element), true) => {
                standing.push((*key, *element));
                continue;
            }
            Step::Save => {
                saved = standing.len();
                continue;
            }
            Step::Back => {
                taken_back.extend(standing.drain(saved..));
                continue;
            }
            Step::ReadText(key, Some(text)) => vec![(*key, elements(text))],
            Step::ReadAll(table, rows) => {
                let texts = rows.iter().map(|(id, row)| ((*table, *id), elements(&row.text)));
                texts.collect()
            }
            _ => continue,
        };
        let of_key = |(key, elements): (Key, Vec<i64>)| elements.into_iter().map(move |element| (key, element));
        if let Some((key, element)) = seen.into_iter().flat_map(of_key).find(|it| taken_back.contains(it)) {
            let what = format!("{element} in {key:?} was seen after it had been taken back: {transaction}");
            return Some(Violation::new("taken back and seen", what));
        }
    }
    None
}

/// What a transaction appended, also if it took it back to a savepoint.
pub(super) fn appended_at_all(transaction: &Transaction) -> Vec<(Key, i64)> {
    let append = |step: &Step| match step {
        Step::Change(key, Change::Append(element), true) | Step::Attempt(key, Change::Append(element)) => {
            Some((*key, *element))
        }
        _ => None,
    };
    transaction.steps.iter().filter_map(append).collect()
}

fn writers(history: &History) -> BTreeMap<(Key, i64), Writer<'_>> {
    let mut writers = BTreeMap::new();
    for transaction in &history.transactions {
        let lasting: BTreeSet<(Key, i64)> = appended(transaction).into_iter().collect();
        for appended in appended_at_all(transaction) {
            let taken_back = !lasting.contains(&appended);
            writers.insert(
                appended,
                Writer {
                    transaction,
                    taken_back,
                },
            );
        }
    }
    writers
}

fn judge_reading(
    reader: &Transaction,
    key: Key,
    elements: &[i64],
    writers: &BTreeMap<(Key, i64), Writer<'_>>,
) -> Option<Violation> {
    let mut seen = BTreeSet::new();
    for element in elements {
        if !seen.insert(*element) {
            let what = format!("{element} stands twice in {key:?} for {reader}");
            return Some(Violation::new("applied twice", what));
        }
        match writers.get(&(key, *element)) {
            None => {
                let what = format!("nobody appended {element} to {key:?}, seen by {reader}");
                return Some(Violation::new("invented", what));
            }
            Some(writer) if writer.transaction.fate == Fate::Aborted => {
                let what = format!("{reader} saw {element} in {key:?} of {}", writer.transaction);
                return Some(Violation::new("G1a: aborted read", what));
            }
            Some(writer) if writer.taken_back => {
                let what = format!(
                    "{reader} saw {element} in {key:?}, taken back by {}",
                    writer.transaction
                );
                return Some(Violation::new("G1b: intermediate read", what));
            }
            Some(_) => {}
        }
    }
    // A transaction that appended several times to one list is seen with its last element or with none.
    for element in elements {
        let Some(writer) = writers.get(&(key, *element)) else {
            continue;
        };
        let missing = (appended(writer.transaction).into_iter())
            .find(|(other, element)| *other == key && !seen.contains(element));
        if let Some((_, missing)) = missing {
            let what = format!(
                "{reader} saw {element} without {missing} in {key:?} of {}",
                writer.transaction
            );
            return Some(Violation::new("G1b: intermediate read", what));
        }
    }
    None
}

/// Against one reading of all lists.
fn judge_everything(reader: &Transaction, read: &BTreeSet<(Key, i64)>, history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    for writer in &history.transactions {
        let appended = appended(writer);
        let is_there = |appended: &&(Key, i64)| read.contains(*appended);
        let there = appended.iter().filter(is_there).count();
        if writer.fate == Fate::Committed && writer.ended < reader.began && there < appended.len() {
            let what = format!("acknowledged, and not seen by {reader}: {writer}");
            violations.push(Violation::new("lost", what));
        } else if writer.fate != Fate::Aborted && there > 0 && there < appended.len() {
            let what = format!("{there} of {} elements seen by {reader}: {writer}", appended.len());
            violations.push(Violation::new("by halves", what));
        }
    }
    violations
}
