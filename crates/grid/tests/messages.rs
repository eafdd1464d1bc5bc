//! Messages as bytes: what is written is read, and bytes that nobody wrote are errors.

#[path = "messages/grid.rs"]
mod grid;

#[path = "messages/said.rs"]
mod said;

use proptest::prelude::*;
use rubato_base::trace::{Effort, SpanId, TraceContext, TraceId};
use rubato_base::{
    ColumnSet, ColumnType, DataType, Draws, Error, GlobalId, Key, LastNumbers, NodeId, RandomPlace, Row, SqlState,
    TableId, Timestamp, Value,
};
use rubato_formula::{
    Bounds, Change, Comparison, Expr, Formula, PartialAggregate, PartialCall, RowBounds, resolve_aggregate,
};
use rubato_grid::GridMessage;
use rubato_grid::agreement::{Agreed, AgreementMessage, Proposed};
use rubato_grid::catalogs::CatalogMessage;
use rubato_grid::channel::GridId;
use rubato_grid::members::{Member, MemberMessage, Members};
use rubato_grid::numbers::NumbersMessage;
use rubato_grid::onward::{Onward, OnwardMessage};
use rubato_grid::sessions::{Asked, SessionsMessage};
use rubato_grid::telling::{TellMessage, Telling};
use rubato_grid::traced::TracedMessage;
use rubato_grid::work::{
    WorkCall, WorkCatalog, WorkContent, WorkDataEnd, WorkEnd, WorkMessage, WorkOutcome, WorkRun, WorkStatus,
};
use rubato_protocol::grid::{
    Answer, Body, EntriesRead, EntryRow, Message, Operation, Passed, RelayJoin, RelayPart, RelayStep, Reply, Request,
    Sieve, StageMessage,
};
use rubato_protocol::{BlindUpdate, KeyRange};
use std::ops::Bound;

/// Decisions, taken from bytes: whatever they are, they make a message.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn of(&mut self, count: u8) -> u8 {
        self.byte() % count
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn small(&mut self) -> u32 {
        u32::from(self.byte()) << (self.of(4) * 8)
    }

    fn truth(&mut self) -> bool {
        self.of(2) == 1
    }

    fn timestamp(&mut self) -> Timestamp {
        Timestamp(self.number())
    }

    fn text(&mut self) -> String {
        (0..self.of(20)).map(|_| char::from(self.byte())).collect()
    }

    fn value(&mut self) -> Value {
        match self.of(5) {
            0 => Value::Null,
            1 => Value::Int8(self.number() as i64),
            2 => Value::text(&self.text().replace('\0', "")),
            3 => Value::Bool(self.truth()),
            _ => Value::Int4(self.small() as i32),
        }
    }

    fn values(&mut self, most: u8) -> Vec<Value> {
        (0..self.of(most)).map(|_| self.value()).collect()
    }

    fn key(&mut self) -> Key {
        Key::of(&self.values(4))
    }

    fn row(&mut self) -> Row {
        Row::from_values(&self.values(6))
    }

    fn bound(&mut self) -> Bound<Key> {
        match self.of(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        }
    }

    fn formula(&mut self) -> Formula {
        let plain = ColumnType::plain(DataType::Int8);
        let columns = 1 + u16::from(self.of(3));
        let added = Value::Int8(self.small().into());
        Formula::new((0..columns).map(|column| Change::add(column, plain, added.clone()))).unwrap()
    }

    fn term(&mut self) -> Expr {
        let column = Box::new(Expr::Column(usize::from(self.byte())));
        match self.of(3) {
            0 => Expr::IsNull(column),
            1 => Expr::Not(Box::new(Expr::IsNull(column))),
            _ => Expr::Compare(Comparison::Less, column, Box::new(Expr::Literal(self.value()))),
        }
    }

    fn sieve(&mut self) -> Sieve {
        let takes_columns = self.truth();
        Sieve::new((0..self.of(4)).map(|_| self.term()).collect(), takes_columns)
    }

    fn aggregate(&mut self) -> PartialAggregate {
        let keys = (0..self.of(3)).map(|_| self.term()).collect();
        let calls = (0..self.of(4)).map(|_| {
            let name = ["sum", "avg", "min", "count"][usize::from(self.of(4))];
            let aggregate = resolve_aggregate(name, &[DataType::Int4], false).unwrap().unwrap();
            PartialCall {
                aggregate,
                arguments: vec![Expr::Column(usize::from(self.byte()))],
                filter: self.truth().then(|| self.term()),
            }
        });
        PartialAggregate::new(keys, calls.collect()).unwrap()
    }

    fn limit(&mut self) -> Option<Value> {
        self.truth().then(|| self.value())
    }

    fn bounds(&mut self) -> RowBounds {
        match self.of(3) {
            0 => RowBounds::None,
            1 => RowBounds::Unknown,
            _ => {
                let columns = (0..1 + self.of(3)).map(|_| Bounds {
                    low: self.limit(),
                    high: self.limit(),
                });
                RowBounds::Columns(columns.collect())
            }
        }
    }

    fn error(&mut self) -> Error {
        let mut error = Error::new(SqlState::SERIALIZATION_FAILURE, self.text());
        if self.truth() {
            error = error.with_detail(self.text());
        }
        if self.truth() {
            error = error.with_hint(self.text());
        }
        error.with_position(self.truth().then(|| 1 + self.small()))
    }

    fn operation(&mut self) -> Operation {
        let (table, key) = (TableId(self.small()), self.key());
        let columns = ColumnSet(self.number());
        match self.of(21) {
            20 => Operation::Upsert {
                table,
                key,
                row: self.row(),
                formula: self.formula(),
            },
            0 => Operation::Read { table, key, columns },
            1 => {
                let (from, to) = (self.bound(), self.bound());
                let range = KeyRange { from, to };
                Operation::Scan { table, range, columns }
            }
            2 => Operation::Lock { table, key, columns },
            3 => Operation::Blind {
                table,
                key,
                formula: self.formula(),
                bounds: self.bounds(),
            },
            4 => Operation::Update {
                table,
                key,
                columns,
                formula: self.formula(),
            },
            5 => Operation::Insert {
                table,
                key,
                row: self.row(),
            },
            6 => Operation::Delete { table, key },
            7 if self.truth() => Operation::Confirm { at: self.timestamp() },
            7 => Operation::Settle,
            8 => Operation::Page {
                table,
                range: KeyRange {
                    from: self.bound(),
                    to: self.bound(),
                },
                reverse: self.truth(),
                columns: self.truth().then_some(columns),
                rows_max: self.small(),
                sieve: self.sieve(),
            },
            9 => Operation::Peek { table, key },
            10 => Operation::TryLock { table, key, columns },
            11 => Operation::Close { tables: self.tables() },
            12 => Operation::Create { storage: self.tables() },
            13 => Operation::Lengthen {
                table,
                tail: self.truth().then(|| self.row()),
            },
            14 => Operation::Attach {
                content: self.text().into_bytes(),
            },
            15 => Operation::Aggregate {
                table,
                range: KeyRange {
                    from: self.bound(),
                    to: self.bound(),
                },
                columns,
                sieve: self.sieve(),
                aggregate: self.aggregate(),
                rows_max: self.small(),
            },
            17 => Operation::Entries {
                read: Box::new(EntriesRead {
                    index: table,
                    range: KeyRange {
                        from: self.bound(),
                        to: self.bound(),
                    },
                    reverse: self.truth(),
                    entry_columns: columns,
                    rows_max: self.small(),
                    row_key: self.entry_row(),
                    table: TableId(self.small()),
                    columns: ColumnSet(u64::from(self.small())),
                }),
            },
            18 => Operation::Lay {
                table,
                rows: (0..self.of(5)).map(|_| (self.key(), self.row())).collect(),
            },
            16 => Operation::Relay {
                join: Box::new(self.relay_join()),
            },
            _ => Operation::Undo { kept: self.small() },
        }
    }

    fn entry_row(&mut self) -> EntryRow {
        match self.truth() {
            true => EntryRow::InContent,
            false => EntryRow::Behind(vec![DataType::Int4; usize::from(self.of(4))]),
        }
    }

    /// One or several.
    fn operations(&mut self) -> Operation {
        let count = usize::from(self.of(4));
        let single = std::iter::repeat_with(|| self.operation());
        let operations: Vec<Operation> = single.filter(Operation::may_be_one_of_several).take(count).collect();
        match operations.is_empty() {
            true => self.operation(),
            false => Operation::Several { operations },
        }
    }

    fn answers(&mut self) -> Answer {
        match self.of(3) {
            0 => Answer::Several((0..self.of(5)).map(|_| self.answer()).collect()),
            _ => self.answer(),
        }
    }

    fn relay_join(&mut self) -> RelayJoin {
        let range = KeyRange {
            from: self.bound(),
            to: self.bound(),
        };
        RelayJoin {
            round: self.small(),
            nodes: (0..self.of(4)).map(|_| NodeId(self.small())).collect(),
            range: self.truth().then_some(range),
            rows_max: self.small(),
            parts: (0..self.of(3)).map(|_| self.relay_part()).collect(),
            width: usize::from(self.of(9)),
            steps: (0..self.of(4)).map(|_| self.relay_step()).collect(),
            aggregate: self.truth().then(|| self.aggregate()),
        }
    }

    fn relay_part(&mut self) -> RelayPart {
        let range = KeyRange {
            from: self.bound(),
            to: self.bound(),
        };
        RelayPart {
            range: self.truth().then_some(range),
            has_partner: self.truth(),
        }
    }

    fn relay_step(&mut self) -> RelayStep {
        let sieve = self.sieve();
        RelayStep {
            table: TableId(self.small()),
            places: self.text().into_bytes(),
            key: sieve
                .terms()
                .iter()
                .map(|term| (term.clone(), DataType::Int8))
                .collect(),
            has_several: self.truth(),
            bounds: [(), ()].map(|()| {
                let term = self.sieve().terms().first().cloned()?;
                Some((term, DataType::Int4, self.truth()))
            }),
            by_entry: self.truth(),
            entries: self.truth().then(|| self.entry_row()),
            reads: ColumnSet(u64::from(self.small())),
            columns: (0..self.of(4)).map(usize::from).collect(),
            first_slot: usize::from(self.of(9)),
            conditions: sieve.terms().to_vec(),
            keeps_all: self.truth(),
            conditions_after: self.sieve().terms().to_vec(),
        }
    }

    fn passed(&mut self) -> Passed {
        let (round, step) = (self.small(), self.small());
        match self.of(3) {
            0 => Passed::Wanted { round, step },
            1 => Passed::Piece {
                round,
                step,
                tuples: None,
            },
            _ => Passed::Piece {
                round,
                step,
                tuples: Some((0..self.of(5)).map(|_| self.row()).collect()),
            },
        }
    }

    fn tables(&mut self) -> Vec<TableId> {
        (0..self.of(5)).map(|_| TableId(self.small())).collect()
    }

    fn answer(&mut self) -> Answer {
        match self.of(17) {
            0 => Answer::Row(None),
            1 => Answer::Row(Some(self.row())),
            2 => Answer::Rows((0..self.of(5)).map(|_| (self.key(), self.row())).collect()),
            3 => Answer::Blind(BlindUpdate::Pending),
            4 => Answer::Blind(BlindUpdate::Missing),
            5 => Answer::Blind(BlindUpdate::MustBeOrdered),
            6 => Answer::Settled,
            7 => Answer::Undone,
            8 => Answer::Busy,
            9 => Answer::Page {
                rows: (0..self.of(5)).map(|_| (self.key(), self.row())).collect(),
                reached: self.truth().then(|| self.key()),
            },
            10 => Answer::Done,
            11 => Answer::NotDone,
            15 => Answer::Laid {
                taken: self.truth().then(|| self.small()),
            },
            12 => Answer::Groups {
                groups: (0..self.of(5)).map(|_| self.row()).collect(),
                reached: self.truth().then(|| self.key()),
                has_partner: self.truth(),
            },
            13 => Answer::Joined {
                tuples: (0..self.of(5)).map(|_| self.row()).collect(),
                reached: self.truth().then(|| self.key()),
                has_partner: self.truth(),
                is_too_much: self.truth(),
            },
            14 => Answer::Entries {
                entries: (0..self.of(5)).map(|_| (self.key(), self.row())).collect(),
                reached: self.truth().then(|| self.key()),
                rows: (0..self.of(5))
                    .map(|_| (self.key(), self.truth().then(|| self.row())))
                    .collect(),
            },
            _ => Answer::Failed(self.error()),
        }
    }

    fn place(&mut self) -> Option<Timestamp> {
        let place = self.truth().then(|| self.timestamp());
        place.filter(|place| *place != Timestamp::ZERO)
    }

    fn request(&mut self) -> Request {
        let operations = self.small();
        match self.of(6) {
            0 => Request::Prepare {
                operations,
                place: self.place(),
            },
            1 => Request::Check {
                place: self.timestamp(),
                operations,
            },
            2 => Request::CommitAlone { operations },
            3 => Request::Decide(self.truth().then(|| self.timestamp())),
            _ => Request::Operate {
                number: operations,
                read_only: self.truth(),
                operation: self.operations(),
            },
        }
    }

    fn stage_message(&mut self) -> StageMessage {
        let (life, number) = (self.number(), self.number());
        let count = self.small() as u16;
        let live: Vec<Timestamp> = (0..self.of(5)).map(|_| self.timestamp()).collect();
        match self.of(5) {
            0 => StageMessage::Wanted {
                life,
                number,
                count,
                above: self.timestamp(),
                term: self.number(),
            },
            1 => StageMessage::Handed {
                stage_life: self.number(),
                life,
                number,
                first: self.timestamp(),
                count,
                catalogs: self.number(),
            },
            2 => StageMessage::LiveHere {
                life,
                report: number,
                stage_life: self.number(),
                answered: self.number(),
                live,
            },
            3 => StageMessage::LiveEverywhere {
                stage_life: life,
                report: number,
                live,
                open_from: self.timestamp(),
            },
            _ => StageMessage::Alive { stage_life: life },
        }
    }

    fn texts(&mut self) -> Vec<(String, String)> {
        (0..self.of(4)).map(|_| (self.text(), self.text())).collect()
    }

    fn run(&mut self) -> WorkRun {
        let (portal, max_rows) = (self.text(), self.small());
        match self.of(5) {
            4 => WorkRun::LayAnew(self.text()),
            0 => WorkRun::Text(self.text()),
            1 => WorkRun::More { portal, max_rows },
            2 => WorkRun::Data {
                data: self.text().into_bytes(),
                end: match self.of(3) {
                    0 => WorkDataEnd::More,
                    1 => WorkDataEnd::Done,
                    _ => WorkDataEnd::Failed(self.text()),
                },
            },
            _ => WorkRun::Prepared {
                sql: self.text(),
                types: (0..self.of(3)).map(|_| DataType::Int8).collect(),
                values: self.values(4),
                columns: self.truth().then(|| (0..self.of(3)).map(|_| DataType::Text).collect()),
                binary: (0..self.of(4)).map(|_| self.truth()).collect(),
                portal,
                max_rows,
            },
        }
    }

    fn end(&mut self) -> WorkEnd {
        WorkEnd {
            outcome: match self.of(5) {
                0 => WorkOutcome::Tag(self.text()),
                1 => WorkOutcome::Suspended,
                2 => WorkOutcome::Empty,
                3 => WorkOutcome::AwaitsData,
                _ => WorkOutcome::Failed(self.error()),
            },
            status: match self.of(3) {
                0 => WorkStatus::Idle,
                1 => WorkStatus::Open,
                _ => WorkStatus::Failed,
            },
            temporary: self.small(),
            locks: self.truth(),
            catalog: match self.of(3) {
                0 => WorkCatalog::AsBefore,
                1 => WorkCatalog::Committed,
                _ => WorkCatalog::Own(self.text().into_bytes()),
            },
            numbers: self.last_numbers(),
            settings: (0..self.of(3))
                .map(|_| (self.text(), self.text(), self.truth()))
                .collect(),
            is_taken_in: self.truth(),
        }
    }

    fn last_numbers(&mut self) -> LastNumbers {
        LastNumbers {
            by_sequence: (0..self.of(3)).map(|_| (self.small(), self.number() as i64)).collect(),
            last: self.truth().then(|| self.number() as i64),
        }
    }

    fn draws(&mut self) -> Draws {
        Draws {
            random: self.truth().then(|| RandomPlace {
                shown: [self.number(), self.number()],
                key: [self.number(), self.number()],
                statement: self.number(),
            }),
            numbers: (0..self.of(3)).map(|_| (self.small(), self.number() as i64)).collect(),
        }
    }

    fn work(&mut self) -> WorkMessage {
        let (session, number) = (self.number(), self.number());
        let content = match self.of(5) {
            0 => WorkContent::More,
            1 => WorkContent::GiveUp,
            9 => WorkContent::Cancel,
            2 => WorkContent::Leave,
            3 => WorkContent::Answer {
                told: self.text().into_bytes(),
                end: self.truth().then(|| self.end()),
            },
            _ => WorkContent::Call(Box::new(WorkCall {
                user: self.text(),
                database: self.text(),
                database_id: self.small(),
                backend_id: self.small() as i32,
                settings: self.truth().then(|| self.texts()),
                in_block: self.truth(),
                begin: self.truth().then(|| self.text()),
                temporary: self.small(),
                trace: self.context(),
                draws: self.truth().then(|| self.draws()),
                numbers: self.truth().then(|| self.last_numbers()),
                began_us: self.truth().then(|| self.number() as i64),
                run: self.run(),
            })),
        };
        WorkMessage {
            session,
            number,
            content,
        }
    }

    fn message(&mut self) -> GridMessage {
        match self.of(12) {
            11 => return self.onward(),
            10 => return GridMessage::Sessions(self.sessions_message()),
            9 => return GridMessage::Traced(Box::new(self.traced())),
            5 => return GridMessage::Tell(self.tell_message()),
            8 => return GridMessage::Numbers(self.numbers_message()),
            4 => return GridMessage::Agreement(self.agreement_message()),
            2 => return GridMessage::Member(self.member_message()),
            3 => return GridMessage::Catalog(self.catalog_message()),
            0 => return GridMessage::Stage(self.stage_message()),
            1 => return GridMessage::Work(self.work()),
            _ => {}
        }
        GridMessage::Transaction(self.transaction_message())
    }

    fn transaction_message(&mut self) -> Message {
        let transaction = GlobalId {
            tick: self.timestamp(),
            coordinator: NodeId(self.small()),
        };
        let body = match self.of(6) {
            0 | 1 => Body::Request(self.request()),
            2 | 3 => Body::Reply(self.reply()),
            4 => Body::Waiting(self.waiting()),
            _ => Body::Passed(self.passed()),
        };
        Message { transaction, body }
    }

    fn context(&mut self) -> Option<TraceContext> {
        self.truth().then(|| TraceContext {
            trace: TraceId(u128::from(self.number()) << 64 | u128::from(self.number())),
            parent: SpanId(self.number()),
        })
    }

    fn traced(&mut self) -> TracedMessage {
        TracedMessage {
            context: self.context(),
            effort: self.truth().then(|| Effort {
                queued_us: self.number(),
                worked_us: self.number(),
                waited_us: self.number(),
            }),
            message: self.transaction_message(),
        }
    }
}

fn encoded(message: &GridMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn messages_come_back_as_they_were(choices in proptest::collection::vec(any::<u8>(), 0..300)) {
        let message = Choices(&choices).message();
        let bytes = encoded(&message);
        prop_assert_eq!(GridMessage::decode(&bytes).unwrap(), message);
        // A message says itself where it ends.
        for end in 0..bytes.len() {
            prop_assert!(GridMessage::decode(&bytes[..end]).is_err());
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert!(GridMessage::decode(&longer).is_err());
    }

    #[test]
    fn damaged_messages_are_errors_or_other_messages(
        choices in proptest::collection::vec(any::<u8>(), 0..300),
        place in any::<prop::sample::Index>(),
        flipped in 1..=u8::MAX,
    ) {
        let mut bytes = encoded(&Choices(&choices).message());
        let place = place.index(bytes.len());
        bytes[place] ^= flipped;
        if let Ok(other) = GridMessage::decode(&bytes) {
            prop_assert_eq!(GridMessage::decode(&encoded(&other)).unwrap(), other);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = GridMessage::decode(&bytes);
    }
}

/// The tests above are about all of them.
#[test]
fn choices_make_every_kind_of_message() {
    let mut names = Vec::new();
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(60)
        .collect();
        names.push(Choices(&bytes).message().name());
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 59, "{names:?}");
}

/// A length that a message claims makes no room for what is not there.
#[test]
fn lengths_beyond_the_message_are_errors() {
    let mut bytes = vec![2, 3];
    bytes.extend([0; 32]);
    bytes.extend([0xff; 8]);
    bytes.push(0x7f);
    let error = GridMessage::decode(&bytes).unwrap_err();
    assert_eq!(error.code(), SqlState::DATA_CORRUPTED);
}
