//! Small transactions in chosen orders, and the definition that they are held against: some serial order of the committed ones,
//! in agreement with real time, explains every value read, every row count and the final state.

use rubato_base::{
    ColumnSet, ColumnType, DataType, Error, Key, Lsn, Result, Row, SessionId, SqlState, TableId, Timestamp,
    TransactionId, Value,
};
use rubato_formula::{Bounds, Change as ColumnFormula, Comparison, Expr, Formula, RowBounds, resolve_operator};
use rubato_protocol::{
    BeginOptions, BlindUpdate, CommitLog, CommitPolicy, CommitRecord, FormulaDatabase, Insertion, KeyRange, OnBusy,
    OrderedRead, Outcome, Policies, QueuePolicy, RowSource, Savepoint, ScanEnd, Stop, StoredRow,
};
use std::collections::BTreeMap;
use std::ops::Bound;

pub const TABLE: TableId = TableId(1);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
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
    /// The same of all rows, by segments, of which what a reader before has seen is not read again.
    All,
    /// A sum under the limits [`LIMITS`]: blind while escrow lets it through, read to write and checked where it does not.
    Within(i32, i64),
    /// What is no plain sum, under the same limits: a product, and TPC-C's stock, which is filled up when it would run out.
    Grow(i32, i64),
    Refill(i32, i64),
    /// A sum with RETURNING: always read to write.
    WithinShown(i32, i64),
    /// An assignment under the same limits.
    Put(i32, i64),
    /// FOR UPDATE that needs to know only that the row is there.
    Stand(i32),
    /// SAVEPOINT, and ROLLBACK TO it.
    Save,
    Back,
    C,
    Rollback,
}
use Op::*;

/// What `Within`, `Grow`, `Refill` and `Put` must keep; rows start with 100.
pub const LIMITS: std::ops::RangeInclusive<i64> = 0..=150;

fn limits() -> RowBounds {
    RowBounds::new(vec![Bounds {
        low: Some(Value::Int8(*LIMITS.start())),
        high: Some(Value::Int8(*LIMITS.end())),
    }])
}

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
pub struct CountingLog(u64);

impl CommitLog for CountingLog {
    fn append(&mut self, _: &CommitRecord<'_>) -> Result<Lsn> {
        self.0 += 1;
        Ok(Lsn(self.0))
    }
}

pub fn key(x: i32) -> Key {
    Key::of(&[Value::Int4(x)])
}

pub fn row(v: i64) -> Row {
    Row::from_values(&[Value::Int8(v)])
}

pub fn plus(n: i64) -> Formula {
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

fn refill(n: i64) -> Formula {
    let call = |symbol: &str, left: Expr, right: i64| {
        let function = resolve_operator(symbol, Some(DataType::Int8), DataType::Int8)
            .unwrap()
            .function;
        let arguments = vec![left, Expr::Literal(Value::Int8(right))];
        Expr::Call { function, arguments }
    };
    let left = || call("-", Expr::Column(0), n);
    let enough = Expr::Compare(
        Comparison::GreaterOrEqual,
        Box::new(left()),
        Box::new(Expr::Literal(Value::Int8(10))),
    );
    let refilled = Expr::Case {
        branches: vec![(enough, left())],
        otherwise: Box::new(call("+", left(), 91)),
    };
    Formula::new([ColumnFormula::evaluate(0, ColumnType::plain(DataType::Int8), refilled)]).unwrap()
}

fn refilled(v: i64, n: i64) -> i64 {
    if v - n >= 10 { v - n } else { v - n + 91 }
}

fn set(n: i64) -> Formula {
    Formula::new([ColumnFormula::set(0, ColumnType::plain(DataType::Int8), Value::Int8(n))]).unwrap()
}

/// What a transaction saw, in order: one entry an operation that shows something.
type Seen = Vec<Option<i64>>;
pub type State = BTreeMap<i32, i64>;

/// The definition: the operation on the whole state, alone. False if it fails.
fn apply(state: &mut State, op: Op, seen: &mut Seen) -> bool {
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
        All => return apply(state, Count(i32::MIN, i32::MAX), seen),
        Count(from, to) => {
            seen.push(Some(state.range(from..=to).count() as i64));
            seen.push(Some(state.range(from..=to).map(|(_, v)| *v).sum()));
        }
        Within(x, n) | WithinShown(x, n) => change(state, x, |v| v + n),
        Grow(x, n) => change(state, x, |v| v * n),
        Refill(x, n) => change(state, x, |v| refilled(v, n)),
        Put(x, n) => change(state, x, |_| n),
        Stand(_) | Save | Back | C | Rollback => {}
    }
    match op {
        WithinShown(x, _) => seen.push(state.get(&x).copied()),
        Within(x, _) | Grow(x, _) | Refill(x, _) | Put(x, _) | Stand(x) => seen.push(state.get(&x).map(|_| 1)),
        _ => return true,
    }
    state.values().all(|v| LIMITS.contains(v))
}

/// The definition of a whole transaction.
fn apply_all(state: &mut State, program: &[Op], seen: &mut Seen) -> bool {
    let mut saved = None;
    program.iter().all(|op| {
        match op {
            Save => saved = Some(state.clone()),
            Back => *state = saved.clone().expect("saved before"),
            _ => {}
        }
        apply(state, *op, seen)
    })
}

fn change(state: &mut State, x: i32, f: impl Fn(i64) -> i64) {
    if let Some(v) = state.get_mut(&x) {
        *v = f(*v);
    }
}

pub struct Run {
    pub database: FormulaDatabase,
    pub log: CountingLog,
    ids: Vec<Option<TransactionId>>,
    at: Vec<usize>,
    seen: Vec<Seen>,
    saved: Vec<Option<Savepoint>>,
    waiting: Vec<bool>,
    pub ended: Vec<Option<bool>>,
    /// Transactions that ended because a statement would have left the limits.
    pub refused: usize,
    /// (begin, end) in steps, for real time.
    span: Vec<(usize, usize)>,
    clock: usize,
    pub waits: usize,
    /// Segments that were read: version, rows and their sum.
    kept: BTreeMap<usize, (u64, i64, i64)>,
    /// How many times one of them was not read again.
    pub kept_reads: usize,
}

impl Run {
    pub fn new(count: usize, policies: Policies, start: &[i32]) -> Run {
        let mut database = FormulaDatabase::new(Box::new(NoRows), policies, Timestamp::ZERO);
        let mut log = CountingLog::default();
        database.create_table(TABLE);
        let t = database.begin(BeginOptions {
            session: SessionId(99),
            read_only: false,
        });
        // Rows with odd numbers were written before the table had its column.
        for x in start {
            let written = if x % 2 == 0 { row(100) } else { Row::from_values(&[]) };
            database.insert(t, TABLE, key(*x), written).unwrap();
        }
        database.commit(t, None, &mut log).unwrap();
        database.set_tail(TABLE, Some(row(100)));
        Run {
            database,
            log,
            ids: vec![None; count],
            at: vec![0; count],
            seen: vec![Vec::new(); count],
            saved: vec![None; count],
            refused: 0,
            waiting: vec![false; count],
            ended: vec![None; count],
            span: vec![(0, usize::MAX); count],
            clock: 0,
            waits: 0,
            kept: BTreeMap::new(),
            kept_reads: 0,
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
                read_only: only_reads(program),
            })
        });
        let savepoint = self.database.savepoint(id);
        let seen_before = self.seen[i].len();
        match self.operation(i, id, program[self.at[i]]) {
            Ok(()) => self.at[i] += 1,
            Err(Stop::Wait(_)) => {
                self.waits += 1;
                self.seen[i].truncate(seen_before);
                self.database.undo_statement(id, savepoint);
                self.waiting[i] = true;
            }
            Err(Stop::Abort(error) | Stop::Fail(error)) => {
                assert!(!only_reads(program), "a reader was aborted: {error}");
                if error.code() == SqlState::CHECK_VIOLATION {
                    self.refused += 1;
                } else {
                    assert_eq!(error.code().as_str(), "40001", "{error}");
                }
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
            All => {
                let (count, sum) = self.all(id)?;
                self.seen[i].extend([Some(count), Some(sum)]);
            }
            Within(x, n) => self.within(i, id, x, |v| v + n, plus(n))?,
            Grow(x, n) => self.within(i, id, x, |v| v * n, times(n))?,
            Refill(x, n) => self.within(i, id, x, |v| refilled(v, n), refill(n))?,
            Put(x, n) => self.within(i, id, x, |_| n, set(n))?,
            WithinShown(x, n) => {
                let shown = self.change_within(id, x, |v| v + n)?;
                self.seen[i].push(shown);
            }
            Stand(x) => {
                let existence = ColumnSet::EXISTENCE;
                let read = self
                    .database
                    .read_for_update(id, TABLE, key(x).as_bytes(), existence, OnBusy::Queue)?;
                self.seen[i].push(matches!(read, OrderedRead::Row(Some(_))).then_some(1));
            }
            Save => self.saved[i] = Some(self.database.savepoint(id)),
            Back => self.database.rollback_to(id, self.saved[i].expect("saved before")),
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

    /// How many rows there are, and their sum.
    fn all(&mut self, id: TransactionId) -> Outcome<(i64, i64)> {
        let Some(segments) = self.database.segments(id, TABLE)? else {
            let all = KeyRange {
                from: Bound::Unbounded,
                to: Bound::Unbounded,
            };
            let (mut count, mut sum) = (0, 0);
            self.database
                .scan(id, TABLE, &all, false, ColumnSet::ALL, &mut |_, row| {
                    count += 1;
                    sum += row.get(0).as_i64().unwrap();
                    true
                })?;
            return Ok((count, sum));
        };
        let mut total = (0, 0);
        for (number, segment) in segments.segments.iter().enumerate() {
            let kept = self.kept.get(&number).filter(|kept| kept.0 == segment.version);
            let (count, sum) = match kept {
                Some(kept) if segment.is_settled => {
                    self.kept_reads += 1;
                    (kept.1, kept.2)
                }
                _ => {
                    let (mut count, mut sum) = (0, 0);
                    self.database.visit_segment(id, TABLE, number, &mut |row| {
                        count += 1;
                        sum += row.get(0).as_i64().unwrap();
                    })?;
                    (count, sum)
                }
            };
            if segment.is_settled {
                self.kept.insert(number, (segment.version, count, sum));
            }
            total = (total.0 + count, total.1 + sum);
        }
        self.database.protect_all(id, TABLE, ColumnSet::ALL)?;
        Ok(total)
    }

    fn blind(&mut self, id: TransactionId, x: i32, formula: Formula) -> Outcome<()> {
        let answer = self
            .database
            .update_blind(id, TABLE, key(x).as_bytes(), formula, &RowBounds::default())?;
        assert_ne!(answer, BlindUpdate::MustBeOrdered);
        Ok(())
    }

    /// A statement that SQL would run blind where it may, and read to write where it must.
    fn within(&mut self, i: usize, id: TransactionId, x: i32, f: impl Fn(i64) -> i64, formula: Formula) -> Outcome<()> {
        let found = match self
            .database
            .update_blind(id, TABLE, key(x).as_bytes(), formula, &limits())?
        {
            BlindUpdate::Pending => true,
            BlindUpdate::Missing => false,
            BlindUpdate::MustBeOrdered => self.change_within(id, x, f)?.is_some(),
        };
        self.seen[i].push(found.then_some(1));
        Ok(())
    }

    fn change_within(&mut self, id: TransactionId, x: i32, f: impl Fn(i64) -> i64) -> Outcome<Option<i64>> {
        let place = key(x);
        let read = self
            .database
            .read_for_update(id, TABLE, place.as_bytes(), ColumnSet::ALL, OnBusy::Queue)?;
        let OrderedRead::Row(row) = read else { panic!("queued") };
        let Some(row) = row else { return Ok(None) };
        let value = f(row.get(0).as_i64().unwrap());
        if !LIMITS.contains(&value) {
            let message = format!("{value} is outside the limits");
            return Err(Stop::Fail(Error::new(SqlState::CHECK_VIOLATION, message)));
        }
        self.database.update(id, TABLE, place.as_bytes(), set(value))?;
        Ok(Some(value))
    }

    pub fn final_state(&mut self) -> State {
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

/// Such a transaction is begun as one that only reads: it notes nothing of what it has read, and is never aborted.
fn only_reads(program: &[Op]) -> bool {
    program
        .iter()
        .all(|op| matches!(op, R(_) | Count(..) | All | C | Rollback))
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
                apply_all(&mut state, programs[*i], &mut seen) && seen == run.seen[*i]
            })
            && state == *last
    })
}

/// Of how many orders: those in which somebody was aborted (40001), was refused by the limits, waited.
#[derive(Debug, Default, PartialEq)]
pub struct Figures {
    pub orders: usize,
    pub aborting: usize,
    pub refused: usize,
    pub waiting: usize,
    /// Transactions that committed, in all orders.
    pub commits: usize,
}

/// Runs every interleaving; panics at the first that is not serializable or gets stuck.
pub fn explore(programs: &[&[Op]], start: &[i32], policies: Policies) -> Figures {
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
        let unwilling = |i: &usize| programs[*i].last() != Some(&Rollback);
        let ended = (0..programs.len())
            .filter(unwilling)
            .filter(|i| run.ended[*i] == Some(false));
        figures.aborting += usize::from(ended.count() > run.refused);
        figures.refused += usize::from(run.refused > 0);
        figures.commits += run.ended.iter().filter(|ended| **ended == Some(true)).count();
        figures.waiting += usize::from(run.waits > 0);
    });
    figures
}

pub fn replay(programs: &[&[Op]], start: &[i32], policies: Policies, order: &[usize]) -> Run {
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

pub fn all_policies() -> Vec<Policies> {
    let mut all = Vec::new();
    for commit in [CommitPolicy::Optimistic, CommitPolicy::Pessimistic] {
        for queue in [QueuePolicy::Wait, QueuePolicy::Pipeline] {
            all.push(Policies { commit, queue });
        }
    }
    all
}

pub fn explore_all(programs: &[&[Op]], start: &[i32]) -> Figures {
    let mut figures = Vec::new();
    for policies in all_policies() {
        figures.push(explore(programs, start, policies));
    }
    figures.swap_remove(0)
}
