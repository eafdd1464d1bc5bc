//! Joins from node to node of rows that may have any number of partners.

use super::*;
use rubato_base::Key;
use rubato_protocol::grid::{EntryRow, RELAY_BYTES_MAX, RelayPart};

/// Entries of an index of items: the last digit of a number to the base of 5, behind which is the key of the item.
const ENTRY: TableId = TableId(4);
const DIGITS: i32 = 5;

/// Pieces of a part: none of every fourth, and many of one.
fn pieces_of(part: i32) -> i32 {
    match part {
        7 => 40,
        part => part % 4,
    }
}

/// The item that a piece names.
fn item_of(part: i32, number: i32) -> i32 {
    (part * 3 + number * 5) % ITEMS
}

fn piece_key(part: i32, number: i32) -> Key {
    Key::of(&[Value::Int4(part), Value::Int4(number)])
}

fn piece(part: i32, number: i32) -> Row {
    let values = [part, number, item_of(part, number)].map(Value::Int4);
    Row::from_values(&[&values[..], &[Value::text("")]].concat())
}

/// The pieces of one node.
pub(super) fn fill(node: NodeId, database: &mut FormulaDatabase) {
    fill_entries(node, database);
    database.create_table(PIECE);
    for part in (0..ITEMS).filter(|part| node_of(PIECE, *part) == node) {
        for number in 1..=pieces_of(part) {
            let change = Change::Insert(piece(part, number));
            database
                .replay(Timestamp(1), PIECE, &piece_key(part, number), change)
                .expect("a row");
        }
    }
}

/// The entries of one node.
fn fill_entries(node: NodeId, database: &mut FormulaDatabase) {
    database.create_table(ENTRY);
    for item in (0..ITEMS).filter(|item| node_of(ENTRY, item % DIGITS) == node) {
        let change = Change::Insert(Row::from_values(&[]));
        let entry = Key::of(&[Value::Int4(item % DIGITS), Value::Int4(item)]);
        database.replay(Timestamp(1), ENTRY, &entry, change).expect("a row");
    }
}

/// Items, the pieces of the part that each names, and the pieces of the part whose number is the item's that a piece names.
fn of_pieces(round: u32) -> RelayJoin {
    let pieces = |slot: usize, first_slot: usize| RelayStep {
        table: PIECE,
        places: vec![PIECE.0 as u8],
        key: vec![(Expr::Column(slot), DataType::Int4)],
        has_several: true,
        bounds: [None, None],
        by_entry: false,
        entries: None,
        reads: ColumnSet::ALL,
        columns: vec![1, 2, 3],
        first_slot,
        conditions: Vec::new(),
        keeps_all: false,
        conditions_after: Vec::new(),
    };
    let mut join = join(round);
    join.steps.truncate(1);
    join.steps.extend([pieces(1, 2), pieces(3, 5)]);
    RelayJoin { width: 8, ..join }
}

/// An item, a piece of its part, and a piece of the part that has the number of that one's item.
type Tuple = [Option<i64>; 3];

/// What the tuples have to be, where a piece counts for the first step if it `is_first`, and for the second if it `is_second`.
fn expected(keeps_all: [bool; 2], is_first: impl Fn(i32) -> bool, is_second: impl Fn(i32) -> bool) -> Vec<Tuple> {
    let of = |part: i32, counts: &dyn Fn(i32) -> bool, keeps_all: bool| {
        let numbers = (1..=pieces_of(part)).filter(|number| counts(*number));
        let mut all: Vec<Option<i32>> = numbers.map(Some).collect();
        if all.is_empty() && keeps_all {
            all.push(None);
        }
        all
    };
    let mut tuples = Vec::new();
    for id in 0..ITEMS {
        let part = ITEMS - 1 - id;
        for first in of(part, &is_first, keeps_all[0]) {
            let seconds = match first {
                Some(number) => of(item_of(part, number), &is_second, keeps_all[1]),
                None if keeps_all[1] => vec![None],
                None => Vec::new(),
            };
            let tuple = |second: Option<i32>| [Some(id), first, second].map(|number| number.map(i64::from));
            tuples.extend(seconds.into_iter().map(tuple));
        }
    }
    tuples.sort();
    tuples
}

fn tuples_of(answers: &[Answer]) -> Vec<Tuple> {
    let tuple = |row: &Row| [0, 2, 5].map(|slot| row.get(slot).as_i64());
    let mut all: Vec<Tuple> = answers.iter().flat_map(joined).map(tuple).collect();
    all.sort();
    all
}

/// The last key that one of the nodes has come to, and whether there was a partner up to it.
fn reached(answers: &[Answer]) -> Option<(Key, bool)> {
    answers.iter().find_map(|answer| match answer {
        Answer::Joined {
            reached, has_partner, ..
        }
        | Answer::Groups {
            reached, has_partner, ..
        } => Some((reached.clone()?, *has_partner)),
        other => panic!("{other:?}"),
    })
}

fn only(key: Key) -> KeyRange {
    KeyRange {
        from: Bound::Included(key.clone()),
        to: Bound::Included(key),
    }
}

fn is_small(column: usize, limit: i32) -> Expr {
    let limit = Box::new(Expr::Literal(Value::Int4(limit)));
    Expr::Compare(Comparison::Less, Box::new(Expr::Column(column)), limit)
}

#[test]
fn any_number_of_partners_comes_over_a_network_that_loses_doubles_and_delays() {
    let all = expected([false; 2], |_| true, |_| true);
    assert!(all.len() > 60, "{}", all.len());
    for seed in 0..150 {
        let mut grid = Grid::new(seed);
        let global = grid.begin();
        for round in 1..3 {
            let answers = grid.relay(global, &of_pieces(round));
            assert_eq!(tuples_of(&answers), all, "seed {seed}, round {round}");
        }
        let mut left = of_pieces(3);
        left.steps.iter_mut().skip(1).for_each(|step| step.keeps_all = true);
        left.steps[1].conditions = vec![is_small(2, 3)];
        left.steps[2].bounds[0] = Some((Expr::Column(2), DataType::Int4, true));
        left.steps[2].bounds[1] = Some((Expr::Literal(Value::Int4(20)), DataType::Int4, false));
        let answers = grid.relay(global, &left);
        let of_second = |first: Option<i64>, second: Option<i64>| second.is_none_or(|second| Some(second) >= first);
        let given = tuples_of(&answers);
        assert!(given.iter().all(|[_, first, second]| of_second(*first, *second)));
        let firsts = |tuples: &[Tuple]| {
            let mut firsts: Vec<_> = tuples.iter().map(|tuple| (tuple[0], tuple[1])).collect();
            firsts.dedup();
            firsts
        };
        let model = expected([true; 2], |number| number < 3, |number| number < 20);
        assert_eq!(firsts(&given), firsts(&model), "seed {seed}");
        let kept = model
            .iter()
            .filter(|[_, first, second]| second.is_some() && of_second(*first, *second));
        let kept: Vec<_> = kept.copied().collect();
        let with: Vec<_> = given.iter().filter(|tuple| tuple[2].is_some()).copied().collect();
        assert_eq!(with, kept, "seed {seed}");
        assert!(matches!(grid.commit(global), Ending::Committed(_)), "seed {seed}");
    }
}

/// Goes through the partners of one item, so many at a time.
fn in_parts(grid: &mut Grid, global: GlobalId, item: i32, rows_max: u32, mut how: RelayJoin) -> (Vec<Tuple>, u32) {
    let first_round = how.round;
    how.rows_max = rows_max;
    how.parts = vec![RelayPart::ALL];
    let mut all = Vec::new();
    loop {
        let mut answers = Vec::new();
        for node in 0..NODES {
            let is_there = node_of(ITEM, item) == NodeId(node);
            let join = Box::new(RelayJoin {
                range: is_there.then(|| only(key(item))),
                ..how.clone()
            });
            assert!(
                grid.coordinator
                    .operate(global, NodeId(node), Operation::Relay { join })
            );
        }
        answers.extend(grid.hear(NODES as usize).into_iter().map(|told| match told {
            Told::Answer(_, answer) => answer,
            other => panic!("{other:?}"),
        }));
        all.extend(tuples_of(&answers));
        how.round += 1;
        let Some((key, has_partner)) = reached(&answers) else {
            break;
        };
        let part = &mut how.parts[0];
        part.range = Some(KeyRange::WHOLE.rest_behind(&key, false));
        part.has_partner |= has_partner;
    }
    all.sort();
    (all, how.round - first_round)
}

#[test]
fn the_partners_of_one_row_come_a_part_at_a_time_each_once() {
    // Of the part with many pieces.
    let item = ITEMS - 1 - 7;
    let of_item = |tuples: Vec<Tuple>| -> Vec<Tuple> {
        let own = |tuple: &Tuple| tuple[0] == Some(i64::from(item));
        tuples.into_iter().filter(own).collect()
    };
    for seed in 0..40 {
        let mut grid = Grid::new(seed);
        let global = grid.begin();
        let (given, rounds) = in_parts(&mut grid, global, item, 3, of_pieces(1));
        assert_eq!(given, of_item(expected([false; 2], |_| true, |_| true)), "seed {seed}");
        assert!((14..=15).contains(&rounds), "{rounds} rounds");
        // Without a partner it goes on once, and not because a part of them are none.
        for (limit, next_round) in [(2, 100), (41, 200), (0, 300)] {
            let mut left = of_pieces(next_round);
            left.steps[1].keeps_all = true;
            left.steps[2].keeps_all = true;
            left.steps[1].conditions = vec![is_small(2, limit)];
            let (given, _) = in_parts(&mut grid, global, item, 1, left);
            let expected = of_item(expected([true; 2], |number| number < limit, |_| true));
            assert_eq!(given, expected, "seed {seed}, below {limit}");
        }
        // Nor where WHERE leaves its only partner out.
        let mut left = of_pieces(400);
        left.steps[1].keeps_all = true;
        left.steps[1].conditions = vec![is_small(2, 2)];
        left.steps[1].conditions_after = vec![Expr::IsNull(Box::new(Expr::Column(2)))];
        let (given, _) = in_parts(&mut grid, global, item, 1, left);
        assert!(given.is_empty(), "seed {seed}: {given:?}");
        assert!(matches!(grid.commit(global), Ending::Committed(_)), "seed {seed}");
    }
}

/// Who makes one more partner of a row that was joined, changes one or takes it away is noticed.
#[test]
fn whoever_makes_another_partner_is_noticed() {
    let insert = |part: i32, number: i32| Operation::Insert {
        table: PIECE,
        key: piece_key(part, number),
        row: piece(part, number),
    };
    let delete = |part: i32, number: i32| Operation::Delete {
        table: PIECE,
        key: piece_key(part, number),
    };
    let commits = |in_parts_of: Option<i32>, changed: Option<(i32, Operation)>| {
        let mut grid = Grid::new(0);
        let global = grid.begin();
        let mut how = of_pieces(1);
        how.steps.truncate(2);
        match in_parts_of {
            Some(item) => drop(in_parts(&mut grid, global, item, 2, how)),
            None => {
                // The last item's part is not among them.
                how.range = Some(KeyRange {
                    from: Bound::Unbounded,
                    to: Bound::Excluded(key(ITEMS - 1)),
                });
                grid.relay(global, &how);
            }
        }
        let writer = grid.begin();
        for (part, operation) in changed.into_iter().chain([(0, insert(0, 1))]) {
            assert!(grid.coordinator.operate(writer, node_of(PIECE, part), operation));
            assert!(matches!(grid.hear(1)[0], Told::Answer(..)));
        }
        assert!(matches!(grid.commit(writer), Ending::Committed(_)));
        // It reads to write what the other has made, so its place is behind that one's.
        assert!(grid.coordinator.operate(global, node_of(PIECE, 0), delete(0, 1)));
        match grid.hear(1).remove(0) {
            Told::Ended(Ending::RolledBack(_)) => false,
            _ => matches!(grid.commit(global), Ending::Committed(_)),
        }
    };
    assert!(commits(None, None));
    for part in [1, 7, 8, 20] {
        assert!(!commits(None, Some((part, insert(part, 70)))), "part {part}");
    }
    assert!(!commits(None, Some((2, delete(2, 1)))));
    let many = Some(ITEMS - 1 - 7);
    assert!(commits(many, None));
    assert!(commits(many, Some((8, insert(8, 70)))));
    for number in [-1, 70] {
        assert!(!commits(many, Some((7, insert(7, number)))), "piece {number}");
    }
}

/// Pieces of one part that are more than an answer holds: no node says more than may travel, and parts of them come.
#[test]
fn partners_that_are_too_much_are_said_to_be_and_come_in_parts() {
    let mut grid = Grid::new(0);
    let large = Value::text("x".repeat(200_000).as_str());
    let (_, _, database) = &mut grid.sites[node_of(PIECE, 7).0 as usize];
    for number in 41..=80 {
        let values = [Value::Int4(7), Value::Int4(number), Value::Int4(0), large.clone()];
        let change = Change::Insert(Row::from_values(&values));
        database
            .replay(Timestamp(1), PIECE, &piece_key(7, number), change)
            .expect("a row");
    }
    let global = grid.begin();
    let item = ITEMS - 1 - 7;
    let mut how = of_pieces(1);
    how.steps[2].table = PART;
    how.steps[2].places = vec![PART.0 as u8];
    how.steps[2].has_several = false;
    how.steps[2].columns = vec![1];
    let bytes = |answers: &[Answer]| answers.iter().map(Answer::bytes).max().unwrap_or(0);
    let answers = grid.relay(global, &how);
    let is_too_much = |answer: &Answer| matches!(answer, Answer::Joined { is_too_much: true, .. });
    assert!(answers.iter().any(is_too_much) && bytes(&answers) < RELAY_BYTES_MAX + 300_000);
    // Also of one row: it is not said that it can be less when it cannot.
    how.round = 2;
    how.rows_max = 1;
    how.range = Some(only(key(item)));
    let answers = grid.relay(global, &how);
    assert!(answers.iter().any(is_too_much));
    assert_eq!(reached(&answers).map(|(key, _)| key), Some(key(item)));
    how.round = 3;
    let (given, rounds) = in_parts(&mut grid, global, item, 100, how);
    assert_eq!(given.len(), 80);
    assert!((13..=15).contains(&rounds), "{rounds} rounds");
}

/// An entry leads to a row that is on another node than the entry.
#[test]
fn entries_of_an_index_lead_on_to_their_rows() {
    let by_index = |round: u32, keeps_all: bool| {
        let mut join = of_pieces(round);
        join.steps[0].table = PART;
        let entries = &mut join.steps[1];
        entries.table = ENTRY;
        entries.places = vec![ENTRY.0 as u8];
        entries.key = vec![(Expr::Column(0), DataType::Int4)];
        entries.columns = Vec::new();
        entries.entries = Some(EntryRow::Behind(vec![DataType::Int4]));
        entries.keeps_all = keeps_all;
        let rows = &mut join.steps[2];
        rows.table = ITEM;
        rows.places = vec![ITEM.0 as u8];
        rows.key = vec![(Expr::Column(2), DataType::Bytea)];
        rows.has_several = false;
        rows.by_entry = true;
        rows.columns = vec![0, 1];
        rows.keeps_all = keeps_all;
        join
    };
    let pairs = |answers: &[Answer]| {
        let pair = |row: &Row| [0, 5].map(|slot| row.get(slot).as_i64());
        let mut all: Vec<_> = answers.iter().flat_map(joined).map(pair).collect();
        all.sort();
        all
    };
    let of_digit = |part: i32| (0..ITEMS).filter(move |item| item % DIGITS == part);
    let numbers = |pair: [i32; 2]| pair.map(|number| Some(i64::from(number)));
    let with: Vec<_> = (0..DIGITS)
        .flat_map(|part| of_digit(part).map(move |item| numbers([part, item])))
        .collect();
    let without = (DIGITS..ITEMS).map(|part| [Some(i64::from(part)), None]);
    let all: Vec<_> = with.iter().copied().chain(without).collect();
    for seed in 0..100 {
        let mut grid = Grid::new(seed);
        let global = grid.begin();
        assert_eq!(pairs(&grid.relay(global, &by_index(1, false))), with, "seed {seed}");
        assert_eq!(pairs(&grid.relay(global, &by_index(2, true))), all, "seed {seed}");
        assert!(matches!(grid.commit(global), Ending::Committed(_)), "seed {seed}");
    }
    // Another entry is noticed, though its row was there.
    let mut grid = Grid::new(0);
    let global = grid.begin();
    grid.relay(global, &by_index(1, false));
    let writer = grid.begin();
    let entry = Operation::Insert {
        table: ENTRY,
        key: Key::of(&[Value::Int4(7), Value::Int4(3)]),
        row: Row::from_values(&[]),
    };
    let changed = set(PART, 0);
    for (table, id, operation) in [(ENTRY, 7, entry), (PART, 0, changed.clone())] {
        assert!(grid.coordinator.operate(writer, node_of(table, id), operation));
        assert!(matches!(grid.hear(1)[0], Told::Answer(..)));
    }
    assert!(matches!(grid.commit(writer), Ending::Committed(_)));
    assert!(grid.coordinator.operate(global, node_of(PART, 0), changed));
    let ends = match grid.hear(1).remove(0) {
        Told::Ended(ending) => ending,
        _ => grid.commit(global),
    };
    assert!(matches!(ends, Ending::RolledBack(_)), "{ends:?}");
}
