//! Reads the rows of one relation for one outer tuple, in pieces: the common part of the query stage and the join stage.

mod ahead;
mod computed;
mod entries;
mod hashing;
mod queries;
mod system;
mod waiting;

use super::batch::Batch;
use super::generated::{FunctionRows, Generated, generate};
use super::keys::{distinct_keys, element_keys, entry_key, point_key};
use super::lock::read_locked;
use super::ranges::{access_range, access_ranges, in_ranges};
use super::seen::SeenKeys;
use super::semi_join::Gathering;
use super::sieving::sieve_of;
use super::{BATCH_TUPLES, ExecutionContext, Limits};
use crate::catalog::{Index, Table};
use crate::far::Passage;
use crate::plan::{Access, LockWait, RangesAccess, Relation, Step};
use ahead::{keys_ahead, look_ahead};
use computed::{Computing, LateralRun, read_computed, read_lateral};
pub(crate) use entries::read_entries;
use hashing::{Hashing, prepare_hashing, read_hashed};
use queries::{Nested, keep_rows, offer_from, read_kept};
use rubato_base::{ColumnSet, Key, Result, Row, RowRef, Value};
use rubato_formula::{EvalContext, Tuple};
use rubato_protocol::{KeyRange, OrderedRead, Outcome, ScanEnd, Stop};
use std::cell::OnceCell;
use system::{SystemReading, read_system};
use waiting::Mark;

pub(crate) use queries::read_query;

/// How a step's rows are read to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepLock {
    /// The hidden slot that keeps the row's key.
    pub(crate) key_slot: usize,
    /// Whether the row is read to write at once, in place of a snapshot read.
    pub(crate) at_once: bool,
    /// What to do about a busy row.
    pub(crate) wait: LockWait,
}

impl StepLock {
    /// Whether rows are only looked at until it is known that they are wanted: SKIP LOCKED protects nothing but what it gives,
    /// so that those who empty one queue never refuse each other.
    pub(crate) fn peeks(&self) -> bool {
        self.wait == LockWait::SkipLocked
    }
}

/// Where the reading of a step stands.
#[derive(Debug, Default)]
pub(crate) struct StepState {
    /// Tuples of the earlier steps, and which of them is being joined.
    pub(crate) input: Batch,
    pub(crate) next_input: usize,
    /// For how many of them partners of other nodes were asked for ahead.
    asked_ahead: usize,
    /// Whether the tuple being joined has found a partner.
    pub(crate) matched: bool,
    /// Whether the earlier steps have no more tuples.
    pub(crate) exhausted: bool,
    /// What is known of all tuples of the earlier steps.
    pub(crate) gathering: Gathering,
    /// How rows are locked here.
    pub(crate) lock: Option<StepLock>,
    /// Tuples joined, rows given, and rows or entries looked at, for EXPLAIN ANALYZE.
    pub(crate) loops: u64,
    pub(crate) rows: u64,
    pub(crate) lookups: u64,
    /// The ranges of an access that is the same for every tuple, for asking whether a row is still within.
    pub(crate) reach: OnceCell<Vec<KeyRange>>,
    position: Position,
    generated: Option<Generated>,
    hashing: Hashing,
    nested: Option<Nested>,
    computing: Option<Box<Computing>>,
    lateral: Option<Box<LateralRun>>,
    system: Option<Box<SystemReading>>,
}

/// Where the reading for one outer tuple stands.
#[derive(Clone, Debug, Default)]
pub(super) enum Position {
    #[default]
    Start,
    /// The next of these keys.
    Keys(Vec<Key>, usize),
    /// What is left of the range.
    Range(KeyRange),
    /// The next of these ranges in the direction of the scan, and what is left of it if it was begun.
    Ranges(Vec<KeyRange>, usize, Option<KeyRange>),
    /// The next of the rows that are known.
    Generated(usize),
    /// What is left of the rows of functions.
    Functions(FunctionRows),
    /// Which of several ways comes next, where that stands, and the rows that were found.
    Union(usize, Box<Position>, SeenKeys),
}

/// A row seen as the slots of its step, over the outer tuple.
pub(crate) struct StepView<'a> {
    pub(crate) outer: &'a [Value],
    pub(crate) step: &'a Step,
    pub(crate) row: RowRef<'a>,
}

impl Tuple for StepView<'_> {
    fn column(&self, slot: usize) -> Value {
        match slot
            .checked_sub(self.step.first_slot)
            .and_then(|place| self.step.columns.get(place))
        {
            Some(&column) => self.row.get(column),
            None => self.outer.column(slot),
        }
    }

    fn column_ref(&self, slot: usize) -> Option<&Value> {
        let place = slot.checked_sub(self.step.first_slot);
        match place.and_then(|place| self.step.columns.get(place)) {
            Some(_) => None,
            None => self.outer.get(slot),
        }
    }
}

/// Reading one step: its plan, its outer tuple, and where matches go.
struct Reader<'a> {
    step: &'a Step,
    outer: &'a [Value],
    lock: Option<StepLock>,
    evaluation: &'a EvalContext<'a>,
    output: &'a mut Batch,
    matched: &'a mut bool,
    rows: &'a mut u64,
    lookups: &'a mut u64,
    /// What `lookups` was before, and ranges gone through since.
    looked_at: u64,
    ranges: u64,
    /// Where several ways may lead to one row.
    seen: Option<SeenKeys>,
    limits: Limits,
}

impl Reader<'_> {
    /// How many more rows it may look at in this call.
    fn rows_left(&self, context: &ExecutionContext<'_>) -> usize {
        let spent = (*self.lookups - self.looked_at).saturating_add(self.ranges);
        context
            .rows_left
            .saturating_sub(usize::try_from(spent).unwrap_or(usize::MAX))
    }

    /// Takes a row if it satisfies the step's conditions.
    fn offer(&mut self, key: &[u8], row: RowRef<'_>) -> Result<()> {
        *self.lookups += 1;
        if !self.is_new(key)? {
            return Ok(());
        }
        let view = StepView {
            outer: self.outer,
            step: self.step,
            row,
        };
        if self.accepts(&view)? {
            self.take(key, row);
        }
        Ok(())
    }

    /// Whether no other way has led to the row. 53200 if more rows were found than may be held.
    fn is_new(&mut self, key: &[u8]) -> Result<bool> {
        match &mut self.seen {
            Some(seen) => seen.insert(Key::from_bytes(key), &self.limits),
            None => Ok(true),
        }
    }

    fn take(&mut self, key: &[u8], row: RowRef<'_>) {
        let tuple = self.output.push_copy(self.outer);
        fill(tuple, self.step, row);
        if let Some(lock) = self.lock {
            tuple[lock.key_slot] = Value::bytea(key);
        }
        *self.rows += 1;
    }

    /// Takes a generated row if it satisfies the step's conditions.
    fn offer_generated(&mut self, row: &[Value]) -> Result<()> {
        *self.lookups += 1;
        let tuple = self.output.push_copy(self.outer);
        for (place, &column) in self.step.columns.iter().enumerate() {
            tuple[self.step.first_slot + place] = row.get(column).cloned().unwrap_or_default();
        }
        let (step, evaluation) = (self.step, self.evaluation);
        let accepted = accepts(step, self.matched, self.output.last(), evaluation)?;
        if accepted {
            *self.rows += 1;
        } else {
            self.output.drop_last();
        }
        Ok(())
    }

    fn accepts<T: Tuple + ?Sized>(&mut self, tuple: &T) -> Result<bool> {
        accepts(self.step, self.matched, tuple, self.evaluation)
    }
}

/// Whether a row joins, noted in `matched`, and is wanted then.
fn accepts<T: Tuple + ?Sized>(
    step: &Step,
    matched: &mut bool,
    tuple: &T,
    evaluation: &EvalContext<'_>,
) -> Result<bool> {
    if let Some(condition) = &step.condition
        && !condition.is_true(tuple, evaluation)?
    {
        return Ok(false);
    }
    *matched = true;
    match &step.filter_after {
        Some(filter) => filter.is_true(tuple, evaluation),
        None => Ok(true),
    }
}

/// Fills the slots of a step from its row.
pub(crate) fn fill(tuple: &mut [Value], step: &Step, row: RowRef<'_>) {
    for (place, &column) in step.columns.iter().enumerate() {
        tuple[step.first_slot + place] = row.get(column);
    }
}

/// Appends matches of the current outer tuple until `output` holds `want` tuples; `true` when there are no more for this one.
pub(crate) fn read_step(
    step: &Step,
    state: &mut StepState,
    want: usize,
    context: &mut ExecutionContext<'_>,
    output: &mut Batch,
) -> Outcome<bool> {
    match &step.relation {
        Relation::Computed(expressions) => return read_computed(step, expressions, state, context, output),
        Relation::Lateral {
            query,
            outer,
            arguments,
        } => return read_lateral(step, (query, outer, arguments), state, want, context, output),
        Relation::System(name) => return read_system(step, name, state, want, context, output),
        _ => {}
    }
    let is_start = matches!(state.position, Position::Start);
    if let Relation::Query(plan) = &step.relation
        && is_start
        && !keep_rows(step, plan, state, context)?
    {
        return Ok(false);
    }
    if is_start && !prepare_hashing(step, state, context)? {
        return Ok(false);
    }
    if is_start {
        let left = want.saturating_sub(output.len());
        look_ahead(step, state, left, context);
        state.loops += 1;
    }
    let looked_at = state.lookups;
    let mut reader = Reader {
        step,
        outer: state.input.tuple(state.next_input),
        lock: state.lock,
        evaluation: context.evaluation,
        output,
        matched: &mut state.matched,
        rows: &mut state.rows,
        lookups: &mut state.lookups,
        looked_at,
        ranges: 0,
        seen: None,
        limits: context.limits,
    };
    let position = std::mem::take(&mut state.position);
    let mark = Mark::of(&reader, &position, context);
    let position = match &step.relation {
        Relation::Query(_) => match &state.nested {
            Some(nested) => read_kept(&nested.kept, &mut reader, position, want)?,
            None => None,
        },
        Relation::Table(table) => {
            let outcome = match (&state.hashing, &position) {
                (Hashing::Ready(hashed), Position::Start | Position::Generated(_)) => {
                    read_hashed(hashed, table, &mut reader, position, want, context)
                }
                _ => read_table(table, &step.access, &mut reader, position, want, context),
            };
            match (outcome, mark) {
                (Err(Stop::Wait(wait)), Some(mark)) => {
                    state.position = mark.go_back(&mut reader);
                    return Err(Stop::Wait(wait));
                }
                (outcome, _) => outcome?,
            }
        }
        _ => {
            let generated = match state.generated.take() {
                Some(generated) => generated,
                None => generate(step, reader.outer, context)?,
            };
            let candidates = match (&state.hashing, &position) {
                (Hashing::Ready(hashed), Position::Start | Position::Generated(_)) => {
                    hashed.candidates(step, reader.outer, context.evaluation)?
                }
                _ => None,
            };
            let next = match candidates {
                Some(candidates) => offer_from(candidates, &mut reader, position, want)?,
                None => read_generated(&generated, &mut reader, position, want, context)?,
            };
            // What does not see the outer tuple gives the same for each.
            state.generated = (next.is_some() || !step.relation.is_lateral()).then_some(generated);
            next
        }
    };
    let ranges = reader.ranges;
    context.spend(state.lookups - looked_at + ranges + 1);
    let done = position.is_none();
    state.position = position.unwrap_or_default();
    Ok(done)
}

fn read_table(
    table: &Table,
    access: &Access,
    reader: &mut Reader<'_>,
    position: Position,
    want: usize,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Position>> {
    match access {
        Access::Point(key) => {
            if let Some(key) = point_key(table, key, reader.outer, context.evaluation)? {
                read_row(table, &key, reader, context)?;
            }
            Ok(None)
        }
        Access::Points(points) => {
            let (keys, next) = match position {
                Position::Keys(keys, next) => (keys, next),
                _ => (distinct_keys(table, points, reader.outer, context.evaluation)?, 0),
            };
            read_keys(table, (keys, next), reader, want, context)
        }
        Access::Elements(access) => {
            let (keys, next) = match position {
                Position::Keys(keys, next) => (keys, next),
                _ => (element_keys(table, access, reader.outer, context.evaluation)?, 0),
            };
            read_keys(table, (keys, next), reader, want, context)
        }
        Access::Full { reverse } => {
            let range = match position {
                Position::Range(range) => range,
                _ => KeyRange::WHOLE,
            };
            scan_rows(table, range, *reverse, reader, want, context)
        }
        Access::Range(access) => {
            let range = match position {
                Position::Range(range) => Some(range),
                _ => access_range(table, access, reader.outer, context.evaluation)?,
            };
            match (range, access.index) {
                (None, _) => Ok(None),
                (Some(range), None) => scan_rows(table, range, access.reverse, reader, want, context),
                (Some(range), Some(index)) => {
                    let found = Found {
                        index,
                        within: std::slice::from_ref(&range),
                        reverse: access.reverse,
                    };
                    scan_index(table, &found, range.clone(), reader, want, context)
                }
            }
        }
        Access::Ranges(access) => {
            let position = match position {
                Position::Ranges(ranges, next, rest) => (ranges, next, rest),
                _ => (access_ranges(table, access, reader.outer, context)?, 0, None),
            };
            read_ranges(table, access, position, reader, want, context)
        }
        Access::Union(ways) => read_union(table, ways, position, reader, want, context),
    }
}

/// Goes one way after the other, until enough is found or looked at.
fn read_union(
    table: &Table,
    ways: &[Access],
    position: Position,
    reader: &mut Reader<'_>,
    want: usize,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Position>> {
    let (mut next, mut within, seen) = match position {
        Position::Union(next, within, seen) => (next, *within, seen),
        _ => (0, Position::Start, SeenKeys::default()),
    };
    reader.seen = Some(seen);
    while next < ways.len() && reader.output.len() < want && reader.rows_left(context) > 0 {
        let position = std::mem::take(&mut within);
        match read_table(table, &ways[next], reader, position, want, context)? {
            Some(left) => within = left,
            None => next += 1,
        }
        reader.ranges += 1;
    }
    let seen = reader.seen.take().unwrap_or_default();
    Ok((next < ways.len()).then(|| Position::Union(next, Box::new(within), seen)))
}

/// Reads one range after the other, until enough is found or looked at.
fn read_ranges(
    table: &Table,
    access: &RangesAccess,
    (ranges, mut next, mut rest): (Vec<KeyRange>, usize, Option<KeyRange>),
    reader: &mut Reader<'_>,
    want: usize,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Position>> {
    while next < ranges.len() && reader.output.len() < want && reader.rows_left(context) > 0 {
        let place = if access.reverse { ranges.len() - 1 - next } else { next };
        let range = rest.take().unwrap_or_else(|| ranges[place].clone());
        let left = match access.index {
            None => scan_rows(table, range, access.reverse, reader, want, context)?,
            Some(index) => {
                let found = Found {
                    index,
                    within: &ranges,
                    reverse: access.reverse,
                };
                scan_index(table, &found, range, reader, want, context)?
            }
        };
        reader.ranges += 1;
        match left {
            Some(Position::Range(left)) => rest = Some(left),
            _ => next += 1,
        }
    }
    Ok((next < ranges.len()).then_some(Position::Ranges(ranges, next, rest)))
}

fn read_keys(
    table: &Table,
    (keys, from): (Vec<Key>, usize),
    reader: &mut Reader<'_>,
    want: usize,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Position>> {
    let mut next = from;
    while next < keys.len() && reader.output.len() < want {
        let ahead = (&keys[from..], next - from);
        keys_ahead(table, ahead, (reader.step.reads, want), reader, context);
        read_row(table, &keys[next], reader, context)?;
        next += 1;
    }
    Ok((next < keys.len()).then_some(Position::Keys(keys, next)))
}

fn read_row(table: &Table, key: &Key, reader: &mut Reader<'_>, context: &mut ExecutionContext<'_>) -> Outcome<()> {
    if let Some(lock) = reader.lock.filter(StepLock::peeks) {
        return read_unless_busy(table, key, None, lock, reader, context);
    }
    let columns = reader.step.reads;
    match reader.lock.filter(|lock| lock.at_once) {
        Some(lock) => {
            if let Some(row) = read_locked(table, key, columns, lock.wait, context)? {
                reader.offer(key.as_bytes(), row.as_ref())?;
            }
        }
        None => {
            if let Some(row) = context
                .database
                .read(context.transaction, table.id, key.as_bytes(), columns)?
            {
                reader.offer(key.as_bytes(), Row::as_ref(&row))?;
            }
        }
    }
    Ok(())
}

/// Takes a row that is wanted and that nobody else is about to write. Where another node has it, somebody may come between the look and
/// the lock: what has changed meanwhile is asked for again.
fn read_unless_busy(
    table: &Table,
    key: &Key,
    index: Option<(&Index, &[KeyRange])>,
    lock: StepLock,
    reader: &mut Reader<'_>,
    context: &mut ExecutionContext<'_>,
) -> Outcome<()> {
    let seen = context.database.peek(context.transaction, table.id, key.as_bytes())?;
    let OrderedRead::Row(Some(row)) = seen else {
        return Ok(());
    };
    *reader.lookups += 1;
    if !is_wanted(table, key, &row, index, reader)? || !reader.is_new(key.as_bytes())? {
        return Ok(());
    }
    if !lock.at_once {
        reader.take(key.as_bytes(), row.as_ref());
        return Ok(());
    }
    let indexed = index.map_or(ColumnSet::EMPTY, |(index, _)| table.read_by_index(index));
    let columns = reader.step.reads.union(indexed);
    let Some(locked) = read_locked(table, key, columns, lock.wait, context)? else {
        return Ok(());
    };
    if locked == row || is_wanted(table, key, &locked, index, reader)? {
        reader.take(key.as_bytes(), locked.as_ref());
    }
    Ok(())
}

/// Whether a row is where it was found, and satisfies the step's conditions.
fn is_wanted(
    table: &Table,
    key: &Key,
    row: &Row,
    index: Option<(&Index, &[KeyRange])>,
    reader: &mut Reader<'_>,
) -> Result<bool> {
    if let Some((index, within)) = index
        && !is_within(table, index, within, key, row)?
    {
        return Ok(false);
    }
    let (outer, step) = (reader.outer, reader.step);
    let row = row.as_ref();
    reader.accepts(&StepView { outer, step, row })
}

/// Whether a row has an entry within the ranges.
fn is_within(table: &Table, index: &Index, within: &[KeyRange], key: &Key, row: &Row) -> Result<bool> {
    let entry = entry_key(table, index, row, key.as_bytes())?;
    Ok(entry.is_some_and(|entry| in_ranges(within, &entry)))
}

fn scan_rows(
    table: &Table,
    range: KeyRange,
    reverse: bool,
    reader: &mut Reader<'_>,
    want: usize,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Position>> {
    let mut failure = None;
    let mut left = reader.rows_left(context);
    let peeks = reader.lock.is_some_and(|lock| lock.peeks());
    let sieve = sieve_of(reader.step, (table.id, &range), context.evaluation, &context.database);
    let how = Passage {
        reverse,
        columns: (!peeks).then_some(reader.step.reads),
        sieve: &sieve,
        useful: want.saturating_sub(reader.output.len()),
        along: None,
    };
    let mut visit = |key: &[u8], row: RowRef<'_>| match reader.offer(key, row) {
        Ok(()) => {
            left = left.saturating_sub(1);
            reader.output.len() < want && left > 0
        }
        Err(error) => {
            failure = Some(error);
            false
        }
    };
    let (database, transaction) = (&mut context.database, context.transaction);
    let end = database.pass(transaction, (table.id, &range), how, &mut visit)?;
    match failure {
        Some(error) => Err(Stop::Fail(error)),
        None => Ok(rest(&range, end, reverse).map(Position::Range)),
    }
}

fn rest(range: &KeyRange, end: ScanEnd, reverse: bool) -> Option<KeyRange> {
    match end {
        ScanEnd::Exhausted => None,
        ScanEnd::Stopped(key) => Some(range.rest_behind(&key, reverse)),
    }
}

/// How rows are found by a secondary index.
struct Found<'a> {
    index: usize,
    /// The ranges in which their entries must still be, in order.
    within: &'a [KeyRange],
    reverse: bool,
}

/// Entries first (at most as many as tuples are wanted), then the rows that they stand for.
fn scan_index(
    table: &Table,
    found: &Found<'_>,
    range: KeyRange,
    reader: &mut Reader<'_>,
    want: usize,
    context: &mut ExecutionContext<'_>,
) -> Outcome<Option<Position>> {
    let index = &table.indexes[found.index];
    let mut left = Some(range);
    // Where rows are locked, they are asked for by that.
    let rows_along = reader.lock.is_none().then_some(reader.step.reads);
    while let Some(part) = left.take() {
        let count_max = want.saturating_sub(reader.output.len()).clamp(1, BATCH_TUPLES);
        let peeks = reader.lock.filter(StepLock::peeks);
        let span = (&part, found.reverse);
        let (keys, end) = read_entries(
            table,
            found.index,
            span,
            (count_max, rows_along),
            peeks.is_none(),
            context,
        )?;
        *reader.lookups += keys.len() as u64;
        let columns = reader.step.reads.union(table.read_by_index(index));
        for (at, key) in keys.iter().enumerate() {
            keys_ahead(table, (&keys, at), (columns, want), reader, context);
            if let Some(lock) = peeks {
                read_unless_busy(table, key, Some((index, found.within)), lock, reader, context)?;
                continue;
            }
            match reader.lock.filter(|lock| lock.at_once) {
                Some(lock) => {
                    let Some(row) = read_locked(table, key, columns, lock.wait, context)? else {
                        continue;
                    };
                    // The row may have moved within the index since the snapshot.
                    if is_within(table, index, found.within, key, &row)? {
                        reader.offer(key.as_bytes(), row.as_ref())?;
                    }
                }
                None => read_row(table, key, reader, context)?,
            }
        }
        left = rest(&part, end, found.reverse);
        if reader.output.len() >= want || reader.rows_left(context) == 0 {
            break;
        }
    }
    Ok(left.map(Position::Range))
}

fn read_generated(
    generated: &Generated,
    reader: &mut Reader<'_>,
    position: Position,
    want: usize,
    context: &ExecutionContext<'_>,
) -> Outcome<Option<Position>> {
    let mut left = reader.rows_left(context);
    let mut position = position;
    while reader.output.len() < want && left > 0 {
        let Some(row) = generated.next(&mut position)? else {
            break;
        };
        reader.offer_generated(&row)?;
        left -= 1;
    }
    Ok((!generated.is_over(&position)).then_some(position))
}
