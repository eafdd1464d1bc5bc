//! The checker of list-append histories. It knows nothing but what clients did and saw.
//!
//! The last state of a list is the order of all appends to it; what a transaction read of it must be its beginning. From that
//! follow the edges: write-write between neighbours, write-read to whoever read an append last, read-write to whoever appended
//! behind what was read, and real time. A history is strictly serializable only if they form no circle. An append must be there
//! once if it was acknowledged, at most once if its outcome is unknown, and not at all if its transaction was refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::graph::{Graph, Reason};

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The list and what was in it, own appends included.
    Read(i32, Vec<i64>),
    /// The list and the number.
    Append(i32, i64),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was acknowledged, at this time.
    Committed(u64),
    /// It was refused: it must have left nothing.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// What one transaction did and saw.
#[derive(Clone, Debug)]
pub struct Record {
    /// When its client began it: it stands behind everything that was acknowledged before.
    pub begun: u64,
    /// How it ended.
    pub ended: Ended,
    /// Its steps, in order.
    pub operations: Vec<Operation>,
}

/// What was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Committed transactions.
    pub transactions: usize,
    /// Of them, those whose client was not told.
    pub untold: usize,
    /// Refused ones.
    pub refused: usize,
    edges: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} committed transactions ({} of them untold), {} refused, {} edges, no circle",
            self.transactions, self.untold, self.refused, self.edges
        )
    }
}

/// Lists by number: the appends in order.
type Lists = BTreeMap<i32, Vec<i64>>;

/// Checks a history against the lists as they are in the end; an error says what is wrong.
pub fn check(records: &[Record], last: &Lists) -> Result<Summary, String> {
    let writers = writers(records)?;
    let placed = placed(last, &writers, records)?;
    let committed: Vec<bool> = records
        .iter()
        .map(|record| match record.ended {
            Ended::Committed(_) => true,
            Ended::Refused => false,
            Ended::Unknown => appends(record).any(|(_, number)| placed.contains(&number)),
        })
        .collect();
    for (index, record) in records.iter().enumerate().filter(|(index, _)| committed[*index]) {
        if let Some((list, number)) = appends(record).find(|(_, number)| !placed.contains(number)) {
            let half = matches!(record.ended, Ended::Unknown);
            let what = if half { "is there by half" } else { "was acknowledged" };
            return Err(format!(
                "transaction {index} {what}: {number} is missing in list {list}"
            ));
        }
    }
    let mut graph = Graph::new(records.len());
    add_orders(last, &writers, &mut graph);
    for (index, record) in records.iter().enumerate().filter(|(index, _)| committed[*index]) {
        add_reads(index, record, last, &writers, &mut graph)?;
    }
    add_real_time(records, &committed, &mut graph);
    match graph.circle() {
        Some(circle) => Err(told(&circle, records)),
        None => Ok(Summary {
            transactions: committed.iter().filter(|is| **is).count(),
            untold: (0..records.len())
                .filter(|index| committed[*index] && records[*index].ended == Ended::Unknown)
                .count(),
            refused: records.iter().filter(|record| record.ended == Ended::Refused).count(),
            edges: graph.edges(),
        }),
    }
}

fn appends(record: &Record) -> impl Iterator<Item = (i32, i64)> + '_ {
    record.operations.iter().filter_map(|operation| match operation {
        Operation::Append(list, number) => Some((*list, *number)),
        Operation::Read(..) => None,
    })
}

/// Who appended which number.
fn writers(records: &[Record]) -> Result<BTreeMap<i64, usize>, String> {
    let mut writers = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        for (_, number) in appends(record) {
            if writers.insert(number, index).is_some() {
                return Err(format!("the history itself uses {number} twice"));
            }
        }
    }
    Ok(writers)
}

/// The numbers that are in the lists, each once and none of a refused transaction.
fn placed(last: &Lists, writers: &BTreeMap<i64, usize>, records: &[Record]) -> Result<BTreeSet<i64>, String> {
    let mut placed = BTreeSet::new();
    for (list, numbers) in last {
        for number in numbers {
            let Some(writer) = writers.get(number) else {
                return Err(format!("list {list} has {number}, which nobody appended"));
            };
            if records[*writer].ended == Ended::Refused {
                return Err(format!("list {list} has {number} of a transaction that was refused"));
            }
            if !placed.insert(*number) {
                return Err(format!("list {list} has {number} twice: it was applied again"));
            }
        }
    }
    Ok(placed)
}

fn add_orders(last: &Lists, writers: &BTreeMap<i64, usize>, graph: &mut Graph) {
    for (list, numbers) in last {
        for pair in numbers.windows(2) {
            graph.add_edge(writers[&pair[0]], writers[&pair[1]], Reason::WriteWrite(*list));
        }
    }
}

/// The edges of what one transaction read; its own appends stand at the end of what it sees.
fn add_reads(
    index: usize,
    record: &Record,
    last: &Lists,
    writers: &BTreeMap<i64, usize>,
    graph: &mut Graph,
) -> Result<(), String> {
    let mut own: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    for operation in &record.operations {
        let (list, seen) = match operation {
            Operation::Append(list, number) => {
                own.entry(*list).or_default().push(*number);
                continue;
            }
            Operation::Read(list, seen) => (*list, seen),
        };
        let mine = own.get(&list).map_or(&[][..], Vec::as_slice);
        let Some(others) = seen.strip_suffix(mine) else {
            return Err(format!(
                "transaction {index} does not see its own appends to list {list}"
            ));
        };
        let all = last.get(&list).map_or(&[][..], Vec::as_slice);
        if !all.starts_with(others) {
            let strange = others.iter().find(|number| !all.contains(number));
            let why = strange.map_or("in another order".to_owned(), |number| {
                format!("with {number}, which is not there in the end")
            });
            return Err(format!("transaction {index} read list {list} {why}"));
        }
        if let Some(newest) = others.last() {
            graph.add_edge(writers[newest], index, Reason::WriteRead(list));
        }
        if let Some(next) = all.get(others.len()) {
            graph.add_edge(index, writers[next], Reason::ReadWrite(list));
        }
    }
    Ok(())
}

/// Real time as a chain of moments at which commits were acknowledged: who began after a moment stands behind it.
fn add_real_time(records: &[Record], committed: &[bool], graph: &mut Graph) {
    let mut ends: Vec<(u64, usize)> = records
        .iter()
        .enumerate()
        .filter_map(|(index, record)| match record.ended {
            Ended::Committed(at) => Some((at, index)),
            Ended::Refused | Ended::Unknown => None,
        })
        .collect();
    ends.sort_unstable();
    let mut moments = Vec::new();
    for (at, index) in ends {
        let moment = graph.add_node();
        graph.add_edge(index, moment, Reason::RealTime);
        if let Some((_, before)) = moments.last() {
            graph.add_edge(*before, moment, Reason::RealTime);
        }
        moments.push((at, moment));
    }
    for (index, record) in records.iter().enumerate().filter(|(index, _)| committed[*index]) {
        let earlier = moments.partition_point(|(at, _)| *at < record.begun);
        if let Some((_, moment)) = earlier.checked_sub(1).and_then(|last| moments.get(last)) {
            graph.add_edge(*moment, index, Reason::RealTime);
        }
    }
}

fn told(circle: &[(usize, Reason)], records: &[Record]) -> String {
    let mut text = String::from("a circle:");
    for (node, reason) in circle {
        // Moments of real time are nodes too: they say nothing that the edges do not.
        if let Some(record) = records.get(*node) {
            text += &format!(" transaction {node} {:?}", record.operations);
        }
        text += &format!(" -{reason}->");
    }
    text.truncate(text.char_indices().nth(900).map_or(text.len(), |(at, _)| at));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: i32, numbers: &[i64]) -> Operation {
        Operation::Read(list, numbers.to_vec())
    }

    fn append(list: i32, number: i64) -> Operation {
        Operation::Append(list, number)
    }

    /// A transaction that ran from `begun` to `ended`.
    fn run(begun: u64, ended: u64, operations: &[Operation]) -> Record {
        Record {
            begun,
            ended: Ended::Committed(ended),
            operations: operations.to_vec(),
        }
    }

    fn refused(operations: &[Operation]) -> Record {
        Record {
            begun: 0,
            ended: Ended::Refused,
            operations: operations.to_vec(),
        }
    }

    fn unknown(operations: &[Operation]) -> Record {
        Record {
            begun: 0,
            ended: Ended::Unknown,
            operations: operations.to_vec(),
        }
    }

    fn judged(records: &[Record], last: &[(i32, &[i64])]) -> Result<Summary, String> {
        let last = last.iter().map(|(list, numbers)| (*list, numbers.to_vec())).collect();
        check(records, &last)
    }

    #[test]
    fn a_good_history_is_accepted() {
        let records = [
            run(0, 9, &[append(1, 1), append(2, 2)]),
            run(1, 8, &[read(1, &[1]), append(1, 3), read(1, &[1, 3])]),
            run(10, 11, &[read(1, &[1, 3]), read(2, &[2])]),
            refused(&[read(1, &[]), append(1, 4)]),
            unknown(&[append(2, 5)]),
            unknown(&[append(2, 6)]),
        ];
        let summary = judged(&records, &[(1, &[1, 3]), (2, &[2, 5])]).unwrap();
        assert_eq!((summary.transactions, summary.untold, summary.refused), (4, 1, 1));
    }

    /// Every anomaly by its name: a history that has it, and a word of the complaint.
    #[test]
    fn every_anomaly_is_found() {
        let g0 = (
            vec![
                run(0, 9, &[append(1, 1), append(2, 2)]),
                run(0, 9, &[append(1, 3), append(2, 4)]),
            ],
            vec![(1, &[1i64, 3][..]), (2, &[4, 2][..])],
            "ww",
        );
        let aborted_read = (
            vec![refused(&[append(1, 1)]), run(0, 9, &[read(1, &[1])])],
            vec![(1, &[][..])],
            "not there in the end",
        );
        let intermediate_read = (
            vec![run(0, 9, &[append(1, 1), append(1, 2)]), run(0, 9, &[read(1, &[1])])],
            vec![(1, &[1, 2][..])],
            "circle",
        );
        let circular = (
            vec![
                run(0, 9, &[append(1, 1), read(2, &[2])]),
                run(0, 9, &[append(2, 2), read(1, &[1])]),
            ],
            vec![(1, &[1][..]), (2, &[2][..])],
            "wr",
        );
        let lost_update = (
            vec![
                run(0, 9, &[read(1, &[]), append(1, 1)]),
                run(0, 9, &[read(1, &[]), append(1, 2)]),
            ],
            vec![(1, &[1, 2][..])],
            "rw",
        );
        let g_single = (
            vec![
                run(0, 9, &[read(1, &[]), read(2, &[2])]),
                run(0, 9, &[append(1, 1), append(2, 2)]),
            ],
            vec![(1, &[1][..]), (2, &[2][..])],
            "rw",
        );
        let g2 = (
            vec![
                run(0, 9, &[read(1, &[]), append(2, 2)]),
                run(0, 9, &[read(2, &[]), append(1, 1)]),
            ],
            vec![(1, &[1][..]), (2, &[2][..])],
            "rw",
        );
        let stale = (
            vec![run(0, 1, &[append(1, 1)]), run(2, 3, &[read(1, &[])])],
            vec![(1, &[1][..])],
            "real time",
        );
        let lost = (vec![run(0, 1, &[append(1, 1)])], vec![(1, &[][..])], "missing");
        let half = (
            vec![unknown(&[append(1, 1), append(2, 2)])],
            vec![(1, &[1][..]), (2, &[][..])],
            "by half",
        );
        let twice = (vec![run(0, 1, &[append(1, 1)])], vec![(1, &[1, 1][..])], "twice");
        let invented = (vec![run(0, 1, &[read(1, &[])])], vec![(1, &[7][..])], "nobody");
        let undone = (vec![refused(&[append(1, 1)])], vec![(1, &[1][..])], "refused");
        let own = (
            vec![run(0, 1, &[append(1, 1), read(1, &[])])],
            vec![(1, &[1][..])],
            "own appends",
        );
        for (records, last, word) in [
            g0,
            aborted_read,
            intermediate_read,
            circular,
            lost_update,
            g_single,
            g2,
            stale,
            lost,
            half,
            twice,
            invented,
            undone,
            own,
        ] {
            let complaint = judged(&records, &last).expect_err(word);
            assert!(complaint.contains(word), "{word}: {complaint}");
        }
    }
}
