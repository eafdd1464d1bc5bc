//! From what clients saw to the order of versions, and from that to edges.

use super::super::{Violation, effects};
use super::graph::{Graph, Kind};
use crate::history::{Change, Fate, History, Key, Step, Transaction};
use std::collections::{BTreeMap, BTreeSet};

/// The edges that lists and registers show, and what contradicts itself already.
pub(super) fn graph(transactions: &[&Transaction]) -> (Graph, Vec<Violation>) {
    let mut graph = Graph::new(transactions.len());
    let mut violations = lists(transactions, &mut graph);
    violations.extend(registers(transactions, &mut graph));
    (graph, violations)
}

/// A value of a list or a register, by which a transaction is known.
pub(super) type Value = (Key, i64);

/// The elements and numbers that a transaction wrote for good.
pub(super) fn written(transaction: &Transaction) -> Vec<Value> {
    let set = |step: &&Step| match step {
        Step::Change(key, Change::Set(number), true) | Step::Attempt(key, Change::Set(number)) => Some((*key, *number)),
        _ => None,
    };
    let mut written = effects::appended(transaction);
    written.extend(
        transaction
            .lasting_steps()
            .iter()
            .filter_map(set)
            .filter(|(_, number)| *number != 0),
    );
    written
}

/// What those read whose commit was acknowledged.
pub(super) fn seen(history: &History) -> BTreeSet<Value> {
    let mut seen = BTreeSet::new();
    for reader in history.transactions.iter().filter(|one| one.fate == Fate::Committed) {
        for (key, elements) in effects::texts_read(reader) {
            seen.extend(elements.into_iter().map(|element| (key, element)));
        }
        for step in &reader.steps {
            if let Step::ReadNumber(key, Some(number)) = step {
                seen.insert((*key, *number));
            }
        }
    }
    seen
}

fn lists(transactions: &[&Transaction], graph: &mut Graph) -> Vec<Violation> {
    let mut writers: BTreeMap<(Key, i64), usize> = BTreeMap::new();
    for (at, transaction) in transactions.iter().enumerate() {
        writers.extend(
            effects::appended(transaction)
                .into_iter()
                .map(|appended| (appended, at)),
        );
    }
    let mut readings: BTreeMap<Key, Vec<(usize, Vec<i64>)>> = BTreeMap::new();
    for (at, transaction) in transactions.iter().enumerate() {
        for (key, elements) in effects::texts_read(transaction) {
            // What it had appended itself by then stands at the end, and says nothing of others; also what it has taken back since.
            let own = effects::appended_at_all(transaction);
            let foreign = |element: &i64| !own.contains(&(key, *element));
            let elements = elements.into_iter().take_while(foreign).collect();
            readings.entry(key).or_default().push((at, elements));
        }
    }
    let mut violations = Vec::new();
    for (key, readings) in readings {
        let longest = readings
            .iter()
            .map(|(_, elements)| elements)
            .max_by_key(|elements| elements.len());
        let Some(order) = longest.cloned() else { continue };
        for (at, elements) in &readings {
            if !order.starts_with(elements) {
                let what = format!("{key:?} was {order:?}, but {elements:?} for {}", transactions[*at]);
                violations.push(Violation::new("incompatible order", what));
            }
        }
        order_of_list(key, &order, &readings, &writers, graph);
    }
    violations
}

fn order_of_list(
    key: Key,
    order: &[i64],
    readings: &[(usize, Vec<i64>)],
    writers: &BTreeMap<(Key, i64), usize>,
    graph: &mut Graph,
) {
    let writer = |element: &i64| writers.get(&(key, *element)).copied();
    for pair in order.windows(2) {
        if let (Some(before), Some(after)) = (writer(&pair[0]), writer(&pair[1])) {
            graph.add(before, after, Kind::WriteWrite);
        }
    }
    for (reader, elements) in readings {
        if let Some(last) = elements.last().and_then(writer) {
            graph.add(last, *reader, Kind::WriteRead);
        }
        if let Some(next) = order.get(elements.len()).and_then(writer) {
            graph.add(*reader, next, Kind::ReadWrite);
        }
    }
}

/// What transactions did with one register.
#[derive(Default)]
struct Register {
    /// Who wrote each value, if it was written last by that transaction.
    writers: BTreeMap<i64, usize>,
    /// Who read each value from others.
    readers: Vec<(usize, i64)>,
    /// Who read a value and then wrote.
    followed: Vec<(usize, i64)>,
}

fn registers(transactions: &[&Transaction], graph: &mut Graph) -> Vec<Violation> {
    let mut registers: BTreeMap<Key, Register> = BTreeMap::new();
    let mut others: BTreeSet<Key> = BTreeSet::new();
    for (at, transaction) in transactions.iter().enumerate() {
        note_registers(at, transaction, &mut registers, &mut others);
    }
    registers.retain(|key, _| !others.contains(key));
    let mut violations = Vec::new();
    for (key, register) in &registers {
        violations.extend(order_of_register(*key, register, transactions, graph));
    }
    violations
}

fn note_registers(
    at: usize,
    transaction: &Transaction,
    registers: &mut BTreeMap<Key, Register>,
    others: &mut BTreeSet<Key>,
) {
    let mut read: BTreeMap<Key, i64> = BTreeMap::new();
    let mut written: BTreeMap<Key, i64> = BTreeMap::new();
    for step in transaction.lasting_steps() {
        match step {
            Step::ReadNumber(key, Some(number)) if !written.contains_key(key) => {
                registers.entry(*key).or_default().readers.push((at, *number));
                read.entry(*key).or_insert(*number);
            }
            Step::Change(key, Change::Set(number), true) | Step::Attempt(key, Change::Set(number)) => {
                written.insert(*key, *number);
            }
            Step::Change(_, Change::Append(_), _) | Step::Attempt(_, Change::Append(_)) => {}
            Step::Change(key, _, true) | Step::Attempt(key, _) | Step::Insert(key, _, true) => {
                others.insert(*key);
            }
            _ => {}
        }
    }
    for (key, number) in written {
        let register = registers.entry(key).or_default();
        // Zero is what they begin with: who writes that, or what another wrote, says nothing of the order.
        if register.writers.insert(number, at).is_some() || number == 0 {
            others.insert(key);
        }
        if let Some(before) = read.get(&key) {
            register.followed.push((at, *before));
        }
    }
}

fn order_of_register(
    key: Key,
    register: &Register,
    transactions: &[&Transaction],
    graph: &mut Graph,
) -> Option<Violation> {
    let mut next: BTreeMap<i64, usize> = BTreeMap::new();
    let mut lost = None;
    for (at, before) in register.followed.iter().copied() {
        if let Some(writer) = register.writers.get(&before) {
            graph.add(*writer, at, Kind::WriteWrite);
        }
        if let Some(first) = next.insert(before, at) {
            let what = format!(
                "both read {before} in {key:?} and wrote: {} and {}",
                transactions[first], transactions[at]
            );
            lost = Some(Violation::new("lost update", what));
        }
    }
    for (reader, number) in &register.readers {
        if let Some(writer) = register.writers.get(number) {
            graph.add(*writer, *reader, Kind::WriteRead);
        }
        if let Some(overwriter) = next.get(number) {
            graph.add(*reader, *overwriter, Kind::ReadWrite);
        }
    }
    lost
}
