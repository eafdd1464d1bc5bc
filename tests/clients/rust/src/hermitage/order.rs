//! The definition: some order of the committed transactions, in agreement with real time, explains all that was seen.

use std::time::Instant;

use super::{Answer, Rows, Statement};

/// What one session did and saw.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    pub begun: Option<Instant>,
    pub ended: Option<Instant>,
    /// Statements with their answers; without one if it never came.
    pub steps: Vec<(Statement, Option<Answer>)>,
}

impl Transaction {
    /// Notes the answer of a step.
    pub fn take(&mut self, step: usize, answer: Answer, now: Instant) {
        if let Some((statement, slot)) = self.steps.get_mut(step) {
            *slot = Some(answer);
            if matches!(statement, Statement::Commit) {
                self.ended = Some(now);
            }
        }
    }

    /// The SQLSTATE with which it was refused, if it was.
    pub fn refusal(&self) -> Option<String> {
        self.steps.iter().find_map(|(_, answer)| match answer {
            Some(Answer::Refused(code)) => Some(code.clone()),
            _ => None,
        })
    }

    /// Whether its client was told that it committed.
    pub fn has_committed(&self) -> bool {
        let last = self.steps.last().map(|(statement, _)| *statement);
        self.refusal().is_none() && last == Some(Statement::Commit)
    }

    /// Whether it was acknowledged before the other began.
    fn is_before(&self, other: &Transaction) -> bool {
        matches!((self.ended, other.begun), (Some(ended), Some(begun)) if ended < begun)
    }

    /// Runs it alone on `rows`: whether it sees what it saw.
    fn sees_the_same(&self, rows: &mut Rows) -> bool {
        self.steps
            .iter()
            .all(|(statement, seen)| Some(run(*statement, rows)) == *seen)
    }
}

/// Whether some order of the committed ones leads from the opening rows to `last` and shows everyone what he saw.
pub fn explained(transactions: &[Transaction], last: &Rows) -> bool {
    let committed: Vec<&Transaction> = transactions.iter().filter(|one| one.has_committed()).collect();
    let opening = Rows::from([(1, 10), (2, 20)]);
    goes_on(&committed, &opening, last)
}

/// Tries each of those that are left as the next one.
fn goes_on(left: &[&Transaction], rows: &Rows, last: &Rows) -> bool {
    if left.is_empty() {
        return rows == last;
    }
    (0..left.len()).any(|index| {
        let next = left[index];
        let others: Vec<&Transaction> = left
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != index)
            .map(|(_, one)| *one)
            .collect();
        let mut rows = rows.clone();
        !others.iter().any(|other| other.is_before(next))
            && next.sees_the_same(&mut rows)
            && goes_on(&others, &rows, last)
    })
}

/// What a statement answers where it is alone.
fn run(statement: Statement, rows: &mut Rows) -> Answer {
    let matching = |rows: &Rows, is_wanted: &dyn Fn(i32, i64) -> bool| -> Rows {
        rows.iter()
            .map(|(id, value)| (*id, *value))
            .filter(|(id, value)| is_wanted(*id, *value))
            .collect()
    };
    let mut change = |is_wanted: &dyn Fn(i32, i64) -> bool, to: &dyn Fn(i64) -> Option<i64>| {
        let wanted = matching(rows, is_wanted);
        for (id, value) in &wanted {
            match to(*value) {
                Some(value) => rows.insert(*id, value),
                None => rows.remove(id),
            };
        }
        Answer::Count(wanted.len() as u64)
    };
    match statement {
        Statement::Set(id, value) => change(&|at, _| at == id, &|_| Some(value)),
        Statement::SetWhereValue(value, from) => change(&|_, old| old == from, &|_| Some(value)),
        Statement::Add(id, by) => change(&|at, _| at == id, &|old| Some(old + by)),
        Statement::AddToAll(by) => change(&|_, _| true, &|old| Some(old + by)),
        Statement::DeleteValue(value) => change(&|_, old| old == value, &|_| None),
        Statement::Insert(id, value) => {
            rows.insert(id, value);
            Answer::Count(1)
        }
        Statement::Commit | Statement::Abort => Answer::Count(0),
        Statement::Read(id) | Statement::ReadToWrite(id) => Answer::Rows(matching(rows, &|at, _| at == id)),
        Statement::ReadAll => Answer::Rows(rows.clone()),
        Statement::ReadMultiples(of) => Answer::Rows(matching(rows, &|_, value| value % of == 0)),
        Statement::ReadValue(wanted) => Answer::Rows(matching(rows, &|_, value| value == wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn told(steps: &[(Statement, Answer)], begun: Instant, ended: Instant) -> Transaction {
        let mut steps: Vec<_> = steps
            .iter()
            .map(|(statement, answer)| (*statement, Some(answer.clone())))
            .collect();
        steps.push((Statement::Commit, Some(Answer::Count(0))));
        Transaction {
            begun: Some(begun),
            ended: Some(ended),
            steps,
        }
    }

    fn read(id: i32, value: i64) -> (Statement, Answer) {
        (Statement::Read(id), Answer::Rows(Rows::from([(id, value)])))
    }

    fn set(id: i32, value: i64) -> (Statement, Answer) {
        (Statement::Set(id, value), Answer::Count(1))
    }

    #[test]
    fn a_serial_outcome_is_explained_and_anomalies_are_not() {
        let (start, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let run = |steps: &[(Statement, Answer)]| told(steps, start, later);
        let serial = [run(&[read(1, 10), set(1, 11)]), run(&[read(1, 11), set(1, 12)])];
        assert!(explained(&serial, &Rows::from([(1, 12), (2, 20)])));
        assert!(!explained(&serial, &Rows::from([(1, 11), (2, 20)])));
        let lost_update = [run(&[read(1, 10), set(1, 11)]), run(&[read(1, 10), set(1, 12)])];
        assert!(!explained(&lost_update, &Rows::from([(1, 12), (2, 20)])));
        let skew = [
            run(&[read(1, 10), read(2, 20), set(1, 11)]),
            run(&[read(1, 10), read(2, 20), set(2, 21)]),
        ];
        assert!(!explained(&skew, &Rows::from([(1, 11), (2, 21)])));
        let stale = [told(&[set(1, 11)], start, start), told(&[read(1, 10)], later, later)];
        assert!(!explained(&stale, &Rows::from([(1, 11), (2, 20)])));
    }
}
