//! Joins that go from node to node, over a network that loses, doubles and delays messages.

mod partners;

use crate::site::*;
use rubato_base::{ColumnSet, ColumnType, DataType, GlobalId, Lsn, NodeId, Row, SqlState, TableId, Timestamp, Value};
use rubato_formula::{
    Change as ColumnFormula, Comparison, Expr, Formula, PartialAggregate, PartialCall, resolve_aggregate,
};
use rubato_protocol::grid::{
    Answer, Body, Coordinator, Ending, Message, Notes, Operation, Outgoing, Participant, Passed, RelayJoin, RelayStep,
    Reply, Request, SILENT_ROUNDS_MAX, TickSource, Told,
};
use rubato_protocol::{Change, FormulaDatabase, KeyRange, Policies};
use std::collections::VecDeque;
use std::ops::Bound;

/// Columns: id, and the id of a part.
const ITEM: TableId = TableId(1);
/// Columns: id, v.
const PART: TableId = TableId(2);
/// Columns: the id of a part, which its rows lie by, a number, and the id of an item. The key is the first two.
const PIECE: TableId = TableId(3);
const NODES: u32 = 3;
const ITEMS: i32 = 30;

/// Items and parts of one id lie on different nodes.
fn node_of(table: TableId, id: i32) -> NodeId {
    NodeId((id as u32 / table.0) % NODES)
}

type NodeOfKey = Box<dyn Fn(&[u8]) -> Option<NodeId>>;

fn route_of(places: &[u8]) -> Option<NodeOfKey> {
    let table = TableId(u32::from(*places.first()?));
    Some(Box::new(move |bytes| {
        let id = (-ITEMS..=ITEMS).find(|id| bytes.starts_with(key(*id).as_bytes()))?;
        Some(node_of(table, id))
    }))
}

fn join(round: u32) -> RelayJoin {
    let step = |table: TableId, first_slot: usize| RelayStep {
        table,
        places: Vec::new(),
        key: Vec::new(),
        has_several: false,
        bounds: [None, None],
        by_entry: false,
        entries: None,
        reads: ColumnSet::ALL,
        columns: vec![0, 1],
        first_slot,
        conditions: Vec::new(),
        keeps_all: false,
        conditions_after: Vec::new(),
    };
    RelayJoin {
        round,
        nodes: (0..NODES).map(NodeId).collect(),
        range: Some(KeyRange::WHOLE),
        rows_max: 100,
        parts: Vec::new(),
        width: 4,
        steps: vec![
            step(ITEM, 0),
            RelayStep {
                places: vec![PART.0 as u8],
                key: vec![(Expr::Column(1), DataType::Int4)],
                ..step(PART, 2)
            },
        ],
        aggregate: None,
    }
}

/// Nodes with all that they are made of, and what is under way between them.
struct Grid {
    sites: Vec<(Participant, CountingLog, FormulaDatabase)>,
    coordinator: Coordinator,
    ticks: TickSource,
    under_way: VecDeque<(NodeId, Outgoing)>,
    chance: u64,
    told: Vec<Told>,
}

impl Grid {
    fn new(seed: u64) -> Grid {
        let sites = (0..NODES).map(|node| {
            let mut database = FormulaDatabase::new(Box::new(NoRows), Policies::default(), Timestamp::ZERO);
            for table in [ITEM, PART] {
                database.create_table(table);
                for id in (0..ITEMS).filter(|id| node_of(table, *id) == NodeId(node)) {
                    let other = if table == ITEM { ITEMS - 1 - id } else { id * 10 };
                    let row = Row::from_values(&[Value::Int4(id), Value::Int4(other)]);
                    let change = Change::Insert(row);
                    database.replay(Timestamp(1), table, &key(id), change).expect("a row");
                }
            }
            partners::fill(NodeId(node), &mut database);
            let mut participant = Participant::new(NodeId(node), &mut database, tick(2));
            participant.route_by(route_of);
            (participant, CountingLog::default(), database)
        });
        let mut ticks = TickSource::default();
        ticks.on_bound_durable(ticks.next_bound());
        // Those before the participants were born.
        for _ in 0..4 {
            ticks.next_tick().expect("a tick");
        }
        Grid {
            sites: sites.collect(),
            coordinator: Coordinator::new(HOME),
            ticks,
            under_way: VecDeque::new(),
            chance: seed,
            told: Vec::new(),
        }
    }

    fn begin(&mut self) -> GlobalId {
        let tick = self.ticks.next_tick().expect("a tick");
        self.coordinator.begin(tick, false)
    }

    fn of(&mut self, count: u64) -> u64 {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % count
    }

    /// Takes up what is to be sent, of which some is lost and some comes twice.
    fn gather(&mut self) {
        let mut sent: Vec<(NodeId, Outgoing)> = Vec::new();
        sent.extend(self.coordinator.poll_outgoing().into_iter().map(|out| (HOME, out)));
        for (node, (participant, ..)) in self.sites.iter_mut().enumerate() {
            let outgoing = participant.poll_outgoing().into_iter();
            sent.extend(outgoing.map(|out| (NodeId(node as u32), out)));
        }
        for message in sent {
            let copies = if self.chance == 0 {
                1
            } else {
                [0, 1, 1, 1, 2][self.of(5) as usize]
            };
            (0..copies).for_each(|_| self.under_way.push_back(message.clone()));
        }
        self.told
            .extend(self.coordinator.poll_events().into_iter().map(|event| event.told));
    }

    /// Delivers one of the messages that are under way; false if there is none.
    fn deliver(&mut self) -> bool {
        self.gather();
        if self.under_way.is_empty() {
            return false;
        }
        let count = self.under_way.len() as u64;
        let at = if self.chance == 0 { 0 } else { self.of(count) as usize };
        let (from, out) = self.under_way.remove(at).expect("a message");
        if out.to == HOME {
            let mut log = CountingLog::default();
            self.coordinator
                .on_message(from, out.message, &mut self.ticks, &mut log);
        } else {
            let (participant, log, database) = &mut self.sites[out.to.0 as usize];
            participant.on_message(database, from, out.message, log);
        }
        self.gather();
        true
    }

    /// Until so much is told, however often that takes a timer.
    fn hear(&mut self, count: usize) -> Vec<Told> {
        for _ in 0..60 {
            while self.told.len() < count && self.deliver() {}
            if self.told.len() >= count {
                return std::mem::take(&mut self.told);
            }
            self.coordinator.on_timer();
        }
        panic!("nothing more is told: {:?}", self.told);
    }

    fn relay(&mut self, global: GlobalId, join: &RelayJoin) -> Vec<Answer> {
        for node in 0..NODES {
            let operation = Operation::Relay {
                join: Box::new(join.clone()),
            };
            assert!(self.coordinator.operate(global, NodeId(node), operation));
        }
        let told = self.hear(NODES as usize).into_iter();
        let answer = |told| match told {
            Told::Answer(_, answer) => answer,
            other => panic!("{other:?}"),
        };
        told.map(answer).collect()
    }

    fn commit(&mut self, global: GlobalId) -> Ending {
        let mut log = CountingLog::default();
        self.coordinator.commit(global, &mut self.ticks, &mut log);
        match self.hear(1).remove(0) {
            Told::Ended(ending) => ending,
            other => panic!("{other:?}"),
        }
    }
}

/// The tuples of an answer.
fn joined(answer: &Answer) -> &[Row] {
    let Answer::Joined {
        tuples,
        is_too_much: false,
        ..
    } = answer
    else {
        panic!("{answer:?}");
    };
    tuples
}

/// Tuples in order of the items.
fn tuples(answers: &[Answer]) -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    for answer in answers {
        let tuples = joined(answer);
        let values = |tuple: &Row| (0..4).map(|slot| tuple.get(slot).as_i64().expect("a number")).collect();
        all.extend(tuples.iter().map(values));
    }
    all.sort();
    all
}

#[test]
fn lost_doubled_and_late_pieces_change_nothing() {
    let expected: Vec<Vec<i64>> = (0..i64::from(ITEMS))
        .map(|id| vec![id, 29 - id, 29 - id, (29 - id) * 10])
        .collect();
    for seed in 0..300 {
        let mut grid = Grid::new(seed);
        let global = grid.begin();
        for round in 1..3 {
            let answers = grid.relay(global, &join(round));
            assert_eq!(tuples(&answers), expected, "seed {seed}, round {round}");
        }
        assert!(matches!(grid.commit(global), Ending::Committed(_)), "seed {seed}");
    }
}

/// How many items there are below 10 and not, and the sum of what their parts have.
fn grouped(round: u32) -> RelayJoin {
    let few = Expr::Compare(
        Comparison::Less,
        Box::new(Expr::Column(0)),
        Box::new(Expr::Literal(Value::Int4(10))),
    );
    let call = |name: &str, types: &[DataType], arguments: Vec<Expr>| PartialCall {
        aggregate: resolve_aggregate(name, types, false).unwrap().expect("an aggregate"),
        arguments,
        filter: None,
    };
    let calls = vec![
        call("count", &[], Vec::new()),
        call("sum", &[DataType::Int4], vec![Expr::Column(3)]),
    ];
    RelayJoin {
        aggregate: PartialAggregate::new(vec![few], calls),
        ..join(round)
    }
}

/// Groups of all nodes, put together.
fn put_together(answers: &[Answer]) -> Vec<[i64; 3]> {
    let mut all = [[0; 3], [1, 0, 0]];
    for answer in answers {
        let Answer::Groups { groups, .. } = answer else {
            panic!("{answer:?}");
        };
        for group in groups {
            // The count, and of the sum the high and the low half and of how many it is.
            let parts: Vec<i64> = (1..5).map(|slot| group.get(slot).as_i64().expect("a number")).collect();
            assert_eq!((parts[0], parts[1]), (parts[3], 0), "{group:?}");
            let whole = &mut all[usize::from(group.get(0) == Value::Bool(true))];
            whole[1] += parts[0];
            whole[2] += parts[2];
        }
    }
    all.to_vec()
}

/// What comes twice, late or only when it is asked for again is in its group once.
#[test]
fn lost_doubled_and_late_pieces_change_no_group() {
    let sum = |ids: std::ops::Range<i64>| ids.map(|id| (29 - id) * 10).sum::<i64>();
    let expected = [[0, 20, sum(10..30)], [1, 10, sum(0..10)]];
    for seed in 0..300 {
        let mut grid = Grid::new(seed);
        let global = grid.begin();
        for round in 1..3 {
            let answers = grid.relay(global, &grouped(round));
            assert_eq!(put_together(&answers), expected, "seed {seed}, round {round}");
            let groups = |answer: &Answer| matches!(answer, Answer::Groups { groups, .. } if groups.len() <= 2);
            assert!(answers.iter().all(groups), "{answers:?}");
        }
        // An aggregate that fails on one node fails the statement, and nobody waits.
        let mut failing = grouped(3);
        let bad = PartialCall {
            aggregate: resolve_aggregate("bool_or", &[DataType::Bool], false)
                .unwrap()
                .expect("an aggregate"),
            arguments: vec![Expr::Column(3)],
            filter: None,
        };
        failing.aggregate = PartialAggregate::new(Vec::new(), vec![bad]);
        let answers = grid.relay(global, &failing);
        assert!(
            answers.iter().any(|answer| matches!(answer, Answer::Failed(_))),
            "{answers:?}"
        );
        assert!(matches!(grid.commit(global), Ending::Committed(_)), "seed {seed}");
    }
}

/// A tuple without a partner goes on once, with NULLs: from where its partner would lie, or from where it is.
#[test]
fn what_has_no_partner_goes_on_once() {
    let small = |column, limit| {
        let limit = Box::new(Expr::Literal(Value::Int4(limit)));
        Expr::Compare(Comparison::Less, Box::new(Expr::Column(column)), limit)
    };
    for seed in 0..100 {
        let mut grid = Grid::new(seed);
        let global = grid.begin();
        // Parts from the tenth on are partners of none, and then those of no item's below 5 are left out.
        let mut left = join(1);
        left.steps[1].keeps_all = true;
        left.steps[1].conditions = vec![small(3, 100)];
        left.steps[1].conditions_after = vec![Expr::Or(vec![small(0, 5), small(3, 100)])];
        let answers = grid.relay(global, &left);
        let mut given: Vec<(i64, Option<i64>)> = Vec::new();
        for answer in &answers {
            let tuples = joined(answer);
            let pair = |tuple: &Row| (tuple.get(0).as_i64().expect("a number"), tuple.get(3).as_i64());
            given.extend(tuples.iter().map(pair));
        }
        given.sort();
        let without = (0..5).map(|id| (id, None));
        let with = (20..30).map(|id| (id, Some((29 - id) * 10)));
        assert_eq!(given, without.chain(with).collect::<Vec<_>>(), "seed {seed}");
        // A key that is of no row.
        let mut left = join(2);
        left.steps[1].keeps_all = true;
        left.steps[1].key = vec![(Expr::Literal(Value::Null), DataType::Int4)];
        let answers = grid.relay(global, &left);
        let count = |answer: &Answer| match answer {
            Answer::Joined { tuples, .. } => tuples.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(answers.iter().map(count).sum::<usize>(), ITEMS as usize, "seed {seed}");
        assert!(matches!(grid.commit(global), Ending::Committed(_)), "seed {seed}");
    }
}

#[test]
fn of_pieces_few_are_needed() {
    let mut grid = Grid::new(0);
    let global = grid.begin();
    for node in 0..NODES {
        let operation = Operation::Relay {
            join: Box::new(join(1)),
        };
        assert!(grid.coordinator.operate(global, NodeId(node), operation));
    }
    let mut passed = 0;
    while grid.deliver() {
        let is_piece = |out: &Outgoing| matches!(out.message.body, Body::Passed(_));
        passed = passed.max(grid.under_way.iter().filter(|(_, out)| is_piece(out)).count());
    }
    assert_eq!(grid.told.len(), NODES as usize);
    assert!(passed <= (NODES * (NODES - 1)) as usize, "{passed} pieces");
}

fn set(table: TableId, id: i32) -> Operation {
    let plain = ColumnType::plain(DataType::Int4);
    Operation::Update {
        table,
        key: key(id),
        columns: ColumnSet::ALL,
        formula: Formula::new([ColumnFormula::set(1, plain, Value::Int4(77))]).expect("a formula"),
    }
}

/// Another transaction changes a row that was joined, or not, and one that the first then reads to write: what it has read must hold there.
#[test]
fn whoever_changes_what_was_joined_is_noticed() {
    let commits = |makes_groups: bool, changed: Option<(TableId, i32)>| {
        let mut grid = Grid::new(0);
        let global = grid.begin();
        // Nobody comes to part 0, which the last item names.
        let most = KeyRange {
            from: Bound::Unbounded,
            to: Bound::Excluded(key(ITEMS - 1)),
        };
        let range = Some(most);
        let how = if makes_groups { grouped(1) } else { join(1) };
        let answers = grid.relay(global, &RelayJoin { range, ..how });
        match makes_groups {
            true => assert_eq!(put_together(&answers)[0][1], i64::from(ITEMS) - 11),
            false => assert_eq!(tuples(&answers).len(), ITEMS as usize - 1),
        }
        let writer = grid.begin();
        for (table, id) in changed.into_iter().chain([(PART, 0)]) {
            assert!(grid.coordinator.operate(writer, node_of(table, id), set(table, id)));
            assert!(matches!(grid.hear(1)[0], Told::Answer(..)));
        }
        assert!(matches!(grid.commit(writer), Ending::Committed(_)));
        assert!(grid.coordinator.operate(global, node_of(PART, 0), set(PART, 0)));
        match grid.hear(1).remove(0) {
            Told::Ended(Ending::RolledBack(_)) => false,
            _ => matches!(grid.commit(global), Ending::Committed(_)),
        }
    };
    for makes_groups in [false, true] {
        assert!(commits(makes_groups, None));
        for id in [1, 5, 12, 28] {
            assert!(!commits(makes_groups, Some((PART, id))), "part {id}");
            assert!(!commits(makes_groups, Some((ITEM, id))), "item {id}");
        }
    }
}

#[test]
fn what_fails_on_one_node_is_told_and_the_others_do_not_wait() {
    for seed in 0..50 {
        let mut grid = Grid::new(seed);
        let global = grid.begin();
        let mut failing = join(1);
        failing.steps[1].key = vec![(Expr::Literal(Value::text("no number")), DataType::Uuid)];
        let answers = grid.relay(global, &failing);
        assert!(
            answers.iter().any(|answer| matches!(answer, Answer::Failed(_))),
            "{answers:?}"
        );
        let others = |answer: &Answer| matches!(answer, Answer::Failed(_) | Answer::Joined { is_too_much: true, .. });
        assert!(answers.iter().all(others), "{answers:?}");
        // The transaction can go on.
        assert_eq!(tuples(&grid.relay(global, &join(2))).len(), ITEMS as usize);
    }
}

/// Rule P-12: what a round was made of is gone when it has been answered. Asked for again by one who has forgotten that, or only some of it,
/// it would be a round without rows, which says that it came as far as before.
#[test]
fn a_round_that_has_been_answered_is_answered_to_no_other_operation() {
    let how: [fn(u32) -> RelayJoin; 2] = [join, grouped];
    for (seed, how) in (0..50).flat_map(|seed| how.map(|how| (seed, how))) {
        // The last one, or one before it; of all nodes, or of one.
        for (again, nodes) in [(2, 0..NODES), (1, 0..NODES), (2, 1..2), (1, 2..3)] {
            let mut grid = Grid::new(seed);
            let global = grid.begin();
            for round in 1..3 {
                assert_eq!(grid.relay(global, &how(round)).len(), NODES as usize);
            }
            for node in nodes {
                let join = Box::new(how(again));
                assert!(
                    grid.coordinator
                        .operate(global, NodeId(node), Operation::Relay { join })
                );
            }
            let told = grid.hear(1).remove(0);
            let Told::Ended(Ending::RolledBack(error)) = &told else {
                panic!("seed {seed}, round {again}: {told:?}");
            };
            assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE);
        }
    }
}

/// One that does not pass anything on is not waited for longer than one that does not answer.
#[test]
fn a_node_that_is_silent_ends_the_transaction() {
    let mut grid = Grid::new(0);
    let global = grid.begin();
    for node in 0..NODES {
        let operation = Operation::Relay {
            join: Box::new(join(1)),
        };
        assert!(grid.coordinator.operate(global, NodeId(node), operation));
    }
    for _ in 0..SILENT_ROUNDS_MAX + 2 {
        let mut rest = true;
        while rest {
            grid.gather();
            // What goes from the first node to the others is lost.
            grid.under_way
                .retain(|(from, out)| *from != NodeId(0) || out.to == HOME);
            rest = grid.deliver();
        }
        grid.coordinator.on_timer();
    }
    grid.gather();
    let ended = |told: &Told| matches!(told, Told::Ended(Ending::RolledBack(_)));
    assert!(grid.told.iter().any(ended), "{:?}", grid.told);
}

#[test]
fn strangers_pieces_and_pieces_of_other_rounds_are_not_taken() {
    let mut grid = Grid::new(0);
    let global = grid.begin();
    let stray = |round, step, id: i32| Message {
        transaction: global,
        body: Body::Passed(Passed::Piece {
            round,
            step,
            tuples: Some(vec![Row::from_values(&[Value::Int4(id), Value::Int4(0)])]),
        }),
    };
    let say = |grid: &mut Grid, from, message| {
        let (participant, log, database) = &mut grid.sites[0];
        participant.on_message(database, NodeId(from), message, log);
    };
    // One that takes no part, one for a step that there is not, one of a round before, and a question for what there is not.
    say(&mut grid, 7, stray(1, 1, 900));
    say(&mut grid, 1, stray(1, 9, 901));
    say(&mut grid, 1, stray(0, 1, 902));
    let wanted = Passed::Wanted { round: 4, step: 1 };
    let body = Body::Passed(wanted);
    say(
        &mut grid,
        1,
        Message {
            transaction: global,
            body,
        },
    );
    let answers = grid.relay(global, &join(1));
    assert_eq!(tuples(&answers).len(), ITEMS as usize);
    say(&mut grid, 2, stray(1, 1, 903));
    let answers = grid.relay(global, &join(2));
    assert_eq!(tuples(&answers).len(), ITEMS as usize);
}

/// Rule P-10: the session may have changed something behind what its node was asked for.
#[test]
fn what_a_session_did_is_asked_for_also_when_its_branch_was_asked_before() {
    let (mut coordinator, mut ticks, mut log) = (Coordinator::new(HOME), TickSource::default(), CountingLog::default());
    let global = coordinator.begin(tick(10), false);
    assert!(coordinator.adopt(global, HERE));
    for (number, node) in [(0, HERE), (0, NodeId(2))] {
        assert!(coordinator.operate(global, node, read(1)));
        let notes = Notes::default();
        let answer = Answer::Row(None);
        let answered = reply(global, Reply::Answer { number, answer, notes });
        coordinator.on_message(node, answered, &mut ticks, &mut log);
    }
    coordinator.poll_outgoing();
    coordinator.commit(global, &mut ticks, &mut log);
    let asked = coordinator.poll_outgoing();
    let settles = |out: &Outgoing| {
        let Body::Request(Request::Operate { operation, .. }) = &out.message.body else {
            return false;
        };
        out.to == HERE && *operation == Operation::Settle && out.durable_at == Lsn(0)
    };
    assert!(asked.iter().any(settles), "{asked:?}");
}
