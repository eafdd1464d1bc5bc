//! Every interleaving of small transactions, against the definition: some serial order of the committed ones, in agreement with
//! real time, explains every value read and the final state. Schedules A, B, E, F and H of the design are among them.

use rubato_base::{
    ColumnSet, ColumnType, DataType, Key, Lsn, Result, Row, SessionId, TableId, Timestamp, TransactionId, Value,
};
use rubato_formula::{Bounds, Change as ColumnFormula, Expr, Formula, resolve_operator};
use rubato_protocol::{
    BeginOptions, BlindUpdate, ColumnBounds, CommitLog, CommitPolicy, CommitRecord, FormulaDatabase, Insertion,
    KeyRange, OnBusy, OrderedRead, Outcome, Policies, QueuePolicy, RowSource, ScanEnd, Stop, StoredRow,
};
use std::collections::BTreeMap;
use std::ops::Bound;

const TABLE: TableId = TableId(1);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    /// Snapshot read.
    R(i32),
    /// Blind formulas.
    Plus(i32, i64),
    Times(i32, i64),
    Set(i32, i64),
    /// Read to write: value + n.
    U(i32, i64),
    /// SELECT FOR UPDATE, no write.
    L(i32),
    Insert(i32),
    Delete(i32),
    /// How many rows there are in the range, and their sum.
    Count(i32, i32),
    C,
    Rollback,
}
use Op::*;

struct NoRows;

impl RowSource for NoRows {
    fn get(&self, _: TableId, _: &[u8]) -> Result<Option<StoredRow>> {
        Ok(None)
    }
    fn scan(&self, _: TableId, _: Bound<&[u8]>, _: Bound<&[u8]>, _: bool, _: usize) -> Result<Vec<(Key, StoredRow)>> {
        Ok(Vec::new())
    }
}

#[derive(Default)]
struct CountingLog(u64);

impl CommitLog for CountingLog {
    fn append(&mut self, _: &CommitRecord<'_>) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }
}

fn key(x: i32) -> Key {
    Key::of(&[Value::Int4(x)])
}

fn row(v: i64) -> Row {
    Row::from_values(&[Value::Int8(v)])
}

fn plus(n: i64) -> Formula {
    Formula::new([ColumnFormula::add(0, ColumnType::plain(DataType::Int8), Value::Int8(n))]).unwrap()
}

fn times(n: i64) -> Formula {
    let function = resolve_operator("*", Some(DataType::Int8), DataType::Int8)
        .unwrap()
        .function;
    let arguments = vec![Expr::Column(0), Expr::Literal(Value::Int8(n))];
    let product = Expr::Call { function, arguments };
    Formula::new([ColumnFormula::evaluate(0, ColumnType::plain(DataType::Int8), product)]).unwrap()
}

fn set(n: i64) -> Formula {
    Formula::new([ColumnFormula::set(0, ColumnType::plain(DataType::Int8), Value::Int8(n))]).unwrap()
}

/// What a transaction saw, in order: one entry an operation that shows something.
type Seen = Vec<Option<i64>>;
type State = BTreeMap<i32, i64>;

/// The definition: the operation on the whole state, alone.
fn apply(state: &mut State, op: Op, seen: &mut Seen) {
    match op {
        R(x) | L(x) => seen.push(state.get(&x).copied()),
        Plus(x, n) => change(state, x, |v| v + n),
        Times(x, n) => change(state, x, |v| v * n),
        Set(x, n) => change(state, x, |_| n),
        U(x, n) => {
            seen.push(state.get(&x).copied());
            change(state, x, |v| v + n);
        }
        Insert(x) => {
            seen.push(state.get(&x).map(|_| 1));
            state.entry(x).or_insert(100);
        }
        Delete(x) => seen.push(state.remove(&x)),
        Count(from, to) => {
            seen.push(Some(state.range(from..=to).count() as i64));
            seen.push(Some(state.range(from..=to).map(|(_, v)| *v).sum()));
        }
        C | Rollback => {}
    }
}

fn change(state: &mut State, x: i32, f: impl Fn(i64) -> i64) {
    if let Some(v) = state.get_mut(&x) {
        *v = f(*v);
    }
}

struct Run {
    database: FormulaDatabase,
    log: CountingLog,
    ids: Vec<Option<TransactionId>>,
    at: Vec<usize>,
    seen: Vec<Seen>,
    waiting: Vec<bool>,
    ended: Vec<Option<bool>>,
    /// (begin, end) in steps, for real time.
    span: Vec<(usize, usize)>,
    clock: usize,
    waits: usize,
}

impl Run {
    fn new(count: usize, policies: Policies, start: &[i32]) -> Run {
        let mut database = FormulaDatabase::new(Box::new(NoRows), policies, Timestamp::ZERO);
        let mut log = CountingLog::default();
        database.create_table(TABLE);
        let t = database.begin(BeginOptions {
            session: SessionId(99),
            read_only: false,
        });
        for x in start {
            database.insert(t, TABLE, key(*x), row(100)).unwrap();
        }
        database.commit(t, None, &mut log).unwrap();
        Run {
            database,
            log,
            ids: vec![None; count],
            at: vec![0; count],
            seen: vec![Vec::new(); count],
            waiting: vec![false; count],
            ended: vec![None; count],
            span: vec![(0, usize::MAX); count],
            clock: 0,
            waits: 0,
        }
    }

    /// Runs the next operation of transaction `i`; its program counter stays where it is if it must wait.
    fn step(&mut self, i: usize, program: &[Op]) {
        self.clock += 1;
        if self.ended[i].is_some() {
            return;
        }
        let id = *self.ids[i].get_or_insert_with(|| {
            self.span[i].0 = self.clock;
            self.database.begin(BeginOptions {
                session: SessionId(i as u64),
                read_only: false,
            })
        });
        let savepoint = self.database.savepoint(id);
        let seen_before = self.seen[i].len();
        match self.operation(i, id, program[self.at[i]]) {
            Ok(()) => self.at[i] += 1,
            Err(Stop::Wait(_)) => {
                self.waits += 1;
                self.seen[i].truncate(seen_before);
                self.database.rollback_to(id, savepoint);
                self.waiting[i] = true;
            }
            Err(Stop::Abort(error) | Stop::Fail(error)) => {
                assert_eq!(error.code().as_str(), "40001", "{error}");
                self.database.rollback(id);
                self.end(i, false);
            }
        }
        for (_, session) in self.database.take_woken() {
            self.waiting[session.0 as usize] = false;
        }
        // Deleted rows leave as soon as they may, at every step of every schedule.
        self.database.set_durable(Lsn(u64::MAX));
    }

    fn end(&mut self, i: usize, committed: bool) {
        self.ended[i] = Some(committed);
        self.span[i].1 = self.clock;
    }

    fn operation(&mut self, i: usize, id: TransactionId, op: Op) -> Outcome<()> {
        let all = ColumnSet::ALL;
        let value = |row: &Row| row.get(0).as_i64().unwrap();
        match op {
            R(x) => {
                let seen = self
                    .database
                    .read(id, TABLE, key(x).as_bytes(), all)?
                    .map(|row| value(&row));
                self.seen[i].push(seen);
            }
            Plus(x, n) => self.blind(id, x, plus(n))?,
            Times(x, n) => self.blind(id, x, times(n))?,
            Set(x, n) => self.blind(id, x, set(n))?,
            U(x, _) | L(x) | Delete(x) => {
                let read = self
                    .database
                    .read_for_update(id, TABLE, key(x).as_bytes(), all, OnBusy::Queue)?;
                let OrderedRead::Row(row) = read else { panic!("queued") };
                self.seen[i].push(row.as_ref().map(value));
                if row.is_some() {
                    match op {
                        U(_, n) => self.database.update(id, TABLE, key(x).as_bytes(), plus(n))?,
                        Delete(_) => self.database.delete(id, TABLE, key(x).as_bytes())?,
                        _ => {}
                    }
                }
            }
            Insert(x) => {
                let inserted = self.database.insert(id, TABLE, key(x), row(100))?;
                self.seen[i].push(matches!(inserted, Insertion::Exists(_)).then_some(1));
            }
            Count(from, to) => {
                let range = KeyRange {
                    from: Bound::Included(key(from)),
                    to: Bound::Included(key(to)),
                };
                let (mut count, mut sum) = (0, 0);
                let end = self.database.scan(id, TABLE, &range, false, all, &mut |_, row| {
                    count += 1;
                    sum += row.get(0).as_i64().unwrap();
                    true
                })?;
                assert_eq!(end, ScanEnd::Exhausted);
                self.seen[i].extend([Some(count), Some(sum)]);
            }
            C => {
                self.database.commit(id, None, &mut self.log)?;
                self.end(i, true);
            }
            Rollback => {
                self.database.rollback(id);
                self.end(i, false);
            }
        }
        Ok(())
    }

    fn blind(&mut self, id: TransactionId, x: i32, formula: Formula) -> Outcome<()> {
        let answer = self.database.update_blind(id, TABLE, key(x).as_bytes(), formula, &[])?;
        assert_ne!(answer, BlindUpdate::MustBeOrdered);
        Ok(())
    }

    fn final_state(&mut self) -> State {
        let id = self.database.begin(BeginOptions {
            session: SessionId(98),
            read_only: true,
        });
        let range = KeyRange {
            from: Bound::Unbounded,
            to: Bound::Unbounded,
        };
        let mut state = State::new();
        let mut visit = |key: &[u8], row: rubato_base::RowRef<'_>| {
            let x = rubato_base::KeyReader::new(key).next(DataType::Int4).unwrap();
            state.insert(x.as_i64().unwrap() as i32, row.get(0).as_i64().unwrap());
            true
        };
        self.database
            .scan(id, TABLE, &range, false, ColumnSet::ALL, &mut visit)
            .unwrap();
        self.database.rollback(id);
        assert_eq!(self.database.live_transactions(), 0);
        state
    }
}

fn permutations(items: &[usize], visit: &mut dyn FnMut(&[usize]) -> bool) -> bool {
    fn extend(chosen: &mut Vec<usize>, left: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize]) -> bool) -> bool {
        if left.is_empty() {
            return visit(chosen);
        }
        for at in 0..left.len() {
            let item = left.remove(at);
            chosen.push(item);
            let found = extend(chosen, left, visit);
            chosen.pop();
            left.insert(at, item);
            if found {
                return true;
            }
        }
        false
    }
    extend(&mut Vec::new(), &mut items.to_vec(), visit)
}

fn is_serializable(programs: &[&[Op]], run: &Run, start: &[i32], last: &State) -> bool {
    let done: Vec<usize> = (0..programs.len()).filter(|i| run.ended[*i] == Some(true)).collect();
    permutations(&done, &mut |order| {
        let real_time = order
            .iter()
            .enumerate()
            .all(|(at, i)| order[at..].iter().all(|j| run.span[*j].1 >= run.span[*i].0));
        let mut state: State = start.iter().map(|x| (*x, 100)).collect();
        real_time
            && order.iter().all(|i| {
                let mut seen = Seen::new();
                programs[*i].iter().for_each(|op| apply(&mut state, *op, &mut seen));
                seen == run.seen[*i]
            })
            && state == *last
    })
}

#[derive(Debug, Default, PartialEq)]
struct Figures {
    orders: usize,
    aborting: usize,
    waiting: usize,
}

/// Runs every interleaving; panics at the first that is not serializable or gets stuck.
fn explore(programs: &[&[Op]], start: &[i32], policies: Policies) -> Figures {
    let mut figures = Figures::default();
    let mut left: Vec<usize> = programs.iter().map(|program| program.len()).collect();
    let mut order = Vec::new();
    fn extend(left: &mut Vec<usize>, order: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize])) {
        if left.iter().all(|n| *n == 0) {
            return visit(order);
        }
        for i in 0..left.len() {
            if left[i] > 0 {
                left[i] -= 1;
                order.push(i);
                extend(left, order, visit);
                order.pop();
                left[i] += 1;
            }
        }
    }
    extend(&mut left, &mut order, &mut |order| {
        let run = replay(programs, start, policies, order);
        figures.orders += 1;
        figures.aborting += usize::from(run.ended.contains(&Some(false)));
        figures.waiting += usize::from(run.waits > 0);
    });
    figures
}

fn replay(programs: &[&[Op]], start: &[i32], policies: Policies, order: &[usize]) -> Run {
    let mut run = Run::new(programs.len(), policies, start);
    let mut turns: Vec<usize> = vec![0; programs.len()];
    for i in order {
        turns[*i] += 1;
        // Whoever has turns left and does not wait goes on, also those that were woken.
        let mut again = true;
        while again {
            again = false;
            for i in 0..programs.len() {
                while turns[i] > 0 && !run.waiting[i] && run.ended[i].is_none() {
                    let at = run.at[i];
                    run.step(i, programs[i]);
                    if run.at[i] > at || run.ended[i].is_some() {
                        turns[i] -= 1;
                        again = true;
                    }
                }
            }
        }
    }
    assert!(
        run.ended.iter().all(Option::is_some),
        "stuck: {programs:?} {order:?} {:?}",
        run.ended
    );
    let last = run.final_state();
    assert!(
        is_serializable(programs, &run, start, &last),
        "not serializable under {policies:?}: {programs:?}\norder {order:?}\nseen {:?}\nended {:?}\nfinal {last:?}",
        run.seen,
        run.ended
    );
    run
}

fn all_policies() -> Vec<Policies> {
    let mut all = Vec::new();
    for commit in [CommitPolicy::Optimistic, CommitPolicy::Pessimistic] {
        for queue in [QueuePolicy::Wait, QueuePolicy::Pipeline] {
            all.push(Policies { commit, queue });
        }
    }
    all
}

fn explore_all(programs: &[&[Op]], start: &[i32]) -> Figures {
    let mut figures = Vec::new();
    for policies in all_policies() {
        figures.push(explore(programs, start, policies));
    }
    figures.swap_remove(0)
}

#[test]
fn schedule_a_the_skipped_formula() {
    let figures = explore_all(&[&[Times(1, 2), C], &[R(1), C], &[Plus(1, 7), C]], &[1]);
    assert_eq!((figures.aborting, figures.waiting), (0, 0));
    let figures = explore_all(&[&[Times(1, 2), C], &[R(1), C], &[Plus(1, 7), Plus(2, 7), C]], &[1, 2]);
    assert_eq!((figures.aborting, figures.waiting), (0, 0));
}

#[test]
fn schedule_b_the_forgotten_reader() {
    explore_all(&[&[R(2), Plus(1, 7), C], &[R(1), Plus(2, 7), C]], &[1, 2]);
    explore_all(&[&[R(1), Plus(1, 7), C], &[R(1), Plus(1, 5), C]], &[1]);
    explore_all(
        &[&[R(1), R(2), Plus(1, 7), C], &[Times(2, 2), C], &[R(1), R(2), C]],
        &[1, 2],
    );
}

#[test]
fn schedule_e_phantoms() {
    explore_all(&[&[Count(1, 9), Insert(3), C], &[Count(1, 9), Insert(4), C]], &[1]);
    explore_all(&[&[Count(1, 9), Plus(20, 1), C], &[R(20), Insert(4), C]], &[1, 20]);
    explore_all(&[&[Count(1, 9), Delete(1), C], &[Count(1, 9), Delete(2), C]], &[1, 2]);
    explore_all(&[&[Insert(5), C], &[Insert(5), C], &[R(5), C]], &[]);
    explore_all(&[&[Delete(1), Insert(1), C], &[Plus(1, 7), C], &[R(1), C]], &[1]);
    explore_all(&[&[Insert(5), Delete(5), C], &[Insert(5), Rollback], &[R(5), C]], &[]);
}

#[test]
fn schedule_f_a_formula_that_fails_fails_before_commit_is_answered() {
    let mut run = Run::new(0, Policies::default(), &[1]);
    let bounds = [ColumnBounds {
        column: 0,
        bounds: Bounds {
            low: Some(Value::Int8(0)),
            high: None,
        },
    }];
    let mut pending = Vec::new();
    // 100 are there: a hundred takes of one are blind, the next could be one too many and must be ordered.
    for session in 0..101 {
        let id = run.database.begin(BeginOptions {
            session: SessionId(session),
            read_only: false,
        });
        let answer = run
            .database
            .update_blind(id, TABLE, key(1).as_bytes(), plus(-1), &bounds)
            .unwrap();
        assert_eq!(
            answer,
            if session < 100 {
                BlindUpdate::Pending
            } else {
                BlindUpdate::MustBeOrdered
            }
        );
        pending.push(id);
    }
    run.database.rollback(pending.pop().unwrap());
    for id in pending {
        run.database.commit(id, None, &mut run.log).unwrap();
    }
    assert_eq!(run.final_state(), State::from([(1, 0)]));
    // A formula outside any bounds is evaluated at commit, and only that transaction is refused.
    let id = run.database.begin(BeginOptions {
        session: SessionId(0),
        read_only: false,
    });
    for _ in 0..2 {
        run.database
            .update_blind(id, TABLE, key(1).as_bytes(), plus(i64::MAX), &[])
            .unwrap();
    }
    let Err(Stop::Fail(error)) = run.database.commit(id, None, &mut run.log) else {
        panic!("it overflows")
    };
    assert_eq!(error.code().as_str(), "22003");
    run.database.rollback(id);
    assert_eq!(run.final_state(), State::from([(1, 0)]));
}

#[test]
fn schedule_h_an_idle_reader_holds_nobody_up() {
    let mut run = Run::new(0, Policies::default(), &[1]);
    let reader = run.database.begin(BeginOptions {
        session: SessionId(0),
        read_only: false,
    });
    let before = run
        .database
        .read(reader, TABLE, key(1).as_bytes(), ColumnSet::ALL)
        .unwrap()
        .unwrap()
        .into_owned();
    for session in 1..200 {
        let id = run.database.begin(BeginOptions {
            session: SessionId(session),
            read_only: false,
        });
        run.database
            .update_blind(id, TABLE, key(1).as_bytes(), plus(1), &[])
            .unwrap();
        run.database.commit(id, None, &mut run.log).unwrap();
    }
    let after = run
        .database
        .read(reader, TABLE, key(1).as_bytes(), ColumnSet::ALL)
        .unwrap()
        .unwrap()
        .into_owned();
    assert_eq!(before, after);
    run.database.commit(reader, None, &mut run.log).unwrap();
    assert_eq!(run.final_state(), State::from([(1, 299)]));
}

#[test]
fn blind_formulas_neither_wait_nor_abort() {
    let programs: [&[Op]; 3] = [
        &[Plus(1, 7), Times(2, 2), C],
        &[R(1), R(2), C],
        &[Times(1, 3), Plus(2, 5), C],
    ];
    let figures = explore(&programs, &[1, 2], Policies::default());
    assert_eq!((figures.orders, figures.aborting, figures.waiting), (1680, 0, 0));
    let figures = explore(
        &[&[Plus(1, 7), Plus(1, 1), C], &[Set(1, 5), C], &[Times(1, 2), C]],
        &[1],
        Policies::default(),
    );
    assert_eq!((figures.aborting, figures.waiting), (0, 0));
}

#[test]
fn whoever_reads_what_he_has_added_to_follows_and_does_not_abort() {
    let figures = explore(
        &[&[Plus(1, 7), R(1), C], &[Plus(1, 5), R(1), C], &[Plus(1, 3), R(1), C]],
        &[1],
        Policies::default(),
    );
    assert_eq!((figures.orders, figures.aborting), (1680, 0));
    explore_all(
        &[
            &[Plus(1, 7), R(1), Rollback],
            &[Plus(1, 5), R(1), C],
            &[Times(1, 2), R(1), C],
        ],
        &[1],
    );
    explore_all(
        &[
            &[Plus(1, 7), R(1), Plus(1, 2), C],
            &[Set(1, 5), R(1), C],
            &[U(1, 2), R(1), C],
        ],
        &[1],
    );
}

#[test]
fn read_to_write_queues_instead_of_aborting() {
    let figures = explore(
        &[&[U(1, 7), C], &[U(1, 5), C], &[U(1, 3), C]],
        &[1],
        Policies::default(),
    );
    assert_eq!(figures.aborting, 0);
    explore_all(&[&[U(1, 7), U(2, 1), C], &[U(2, 5), U(1, 3), C]], &[1, 2]);
    explore_all(&[&[U(1, 7), Rollback], &[U(1, 5), C], &[Plus(1, 3), C]], &[1]);
    explore_all(
        &[&[L(1), Plus(1, 7), C], &[L(1), Plus(1, 5), C], &[Times(1, 2), C]],
        &[1],
    );
    explore_all(
        &[&[L(1), Plus(2, 7), C], &[L(2), Plus(1, 5), C], &[R(1), R(2), C]],
        &[1, 2],
    );
}

#[test]
fn random_programs_in_random_orders() {
    let mut state = 88172645463325252u64;
    let mut next = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let mut aborted = 0;
    for _ in 0..30_000 {
        let count = 2 + next(3) as usize;
        let programs: Vec<Vec<Op>> = (0..count)
            .map(|_| {
                let mut program: Vec<Op> = (0..1 + next(4))
                    .map(|_| {
                        let x = next(4) as i32;
                        match next(12) {
                            0..=2 => R(x),
                            3 | 4 => Plus(x, 7),
                            5 => Times(x, 2),
                            6 => Set(x, 5),
                            7 | 8 => U(x, 3),
                            9 => Insert(x),
                            10 => Delete(x),
                            _ => Count(x, 3),
                        }
                    })
                    .collect();
                program.push(if next(10) == 0 { Rollback } else { C });
                program
            })
            .collect();
        let programs: Vec<&[Op]> = programs.iter().map(Vec::as_slice).collect();
        let mut order: Vec<usize> = (0..count).flat_map(|i| vec![i; programs[i].len()]).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, next(at as u64 + 1) as usize);
        }
        for policies in all_policies() {
            let run = replay(&programs, &[0, 1, 2], policies, &order);
            aborted += run.ended.iter().filter(|ended| **ended == Some(false)).count();
        }
    }
    assert!(aborted > 0, "some of them must conflict");
}
