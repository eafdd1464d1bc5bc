//! The checkers can fail: histories made by hand, each with one mistake that a database may not make, and good ones beside them.

use rubato_simulation::check::order::{EXPANSIONS_MAX, Search, search};
use rubato_simulation::check::{Contents, check, cycles, effects};
use rubato_simulation::history::{Change, Fate, History, Key, Row, Step, Table, Transaction};

const X: Key = (Table::Plain, 1);
const Y: Key = (Table::Plain, 2);

/// A transaction over `began..ended` that was acknowledged.
fn committed(began: u64, ended: u64, steps: Vec<Step>) -> Transaction {
    Transaction {
        name: "by hand",
        client: began as usize,
        began,
        ended,
        fate: Fate::Committed,
        steps,
    }
}

fn with_fate(fate: Fate, began: u64, ended: u64, steps: Vec<Step>) -> Transaction {
    Transaction {
        fate,
        ..committed(began, ended, steps)
    }
}

fn append(key: Key, element: i64) -> Step {
    Step::Change(key, Change::Append(element), true)
}

fn list(key: Key, elements: &[i64]) -> Step {
    let text = elements.iter().map(|element| format!(" {element}")).collect();
    Step::ReadText(key, Some(text))
}

fn set(key: Key, number: i64) -> Step {
    Step::Change(key, Change::Set(number), true)
}

fn number(key: Key, number: i64) -> Step {
    Step::ReadNumber(key, Some(number))
}

fn add(key: Key, amount: i64) -> Step {
    Step::Change(key, Change::Add(amount), true)
}

fn contents() -> Contents {
    [(X, Row::default()), (Y, Row::default())].into()
}

fn history(transactions: Vec<Transaction>) -> History {
    History { transactions }
}

fn everything(began: u64, ended: u64, x: &[i64], y: &[i64]) -> Transaction {
    let row = |elements: &[i64]| Row {
        text: elements.iter().map(|element| format!(" {element}")).collect(),
        ..Row::default()
    };
    committed(
        began,
        ended,
        vec![Step::ReadAll(Table::Plain, vec![(1, row(x)), (2, row(y))])],
    )
}

/// The kinds that the checkers of cycles and effects find; the definition has to refuse the history too.
fn kinds(transactions: Vec<Transaction>) -> Vec<&'static str> {
    let history = history(transactions);
    let found = search(&history, &contents(), EXPANSIONS_MAX);
    assert!(
        matches!(found, Search::None(_)),
        "the definition finds nothing wrong: {found:?}"
    );
    let mut violations = cycles::check(&history);
    violations.extend(effects::check(&history));
    violations.iter().map(|violation| violation.kind).collect()
}

fn assert_good(transactions: Vec<Transaction>) {
    let verdict = check(&history(transactions), &contents());
    assert_eq!((verdict.violations, verdict.undecided), (vec![], false));
}

#[test]
fn good_histories_pass() {
    assert_good(vec![]);
    // At once, in either order.
    for seen in [vec![], vec![1]] {
        assert_good(vec![
            committed(1, 10, vec![append(X, 1), append(Y, 2)]),
            committed(2, 9, vec![list(X, &seen)]),
            everything(11, 12, &[1], &[2]),
        ]);
    }
    // Own changes are seen; what is taken back to a savepoint is not.
    assert_good(vec![
        committed(
            1,
            2,
            vec![
                append(X, 1),
                list(X, &[1]),
                Step::Save,
                append(X, 2),
                list(X, &[1, 2]),
                Step::Back,
                list(X, &[1]),
            ],
        ),
        everything(3, 4, &[1], &[]),
    ]);
    // Behind what others appended, who go on.
    assert_good(vec![
        committed(1, 2, vec![append(X, 1)]),
        committed(3, 4, vec![Step::Save, append(X, 2), list(X, &[1, 2]), Step::Back]),
        committed(5, 6, vec![append(X, 3)]),
        everything(7, 8, &[1, 3], &[]),
    ]);
    // Unknown outcomes: there, and not there.
    for there in [&[7][..], &[]] {
        assert_good(vec![
            with_fate(Fate::Unknown, 1, 2, vec![append(X, 7)]),
            everything(3, 4, there, &[]),
        ]);
    }
}

#[test]
fn g0_writes_of_two_transactions_are_interleaved() {
    let kinds = kinds(vec![
        committed(1, 10, vec![append(X, 1), append(Y, 1)]),
        committed(2, 9, vec![append(X, 2), append(Y, 2)]),
        everything(11, 12, &[1, 2], &[2, 1]),
    ]);
    assert!(kinds[0].starts_with("G0"), "{kinds:?}");
}

#[test]
fn g1a_something_rolled_back_was_read() {
    let kinds = kinds(vec![
        with_fate(Fate::Aborted, 1, 10, vec![append(X, 1)]),
        committed(2, 9, vec![list(X, &[1])]),
    ]);
    assert_eq!(kinds, ["G1a: aborted read"]);
}

#[test]
fn g1b_something_unfinished_was_read() {
    let kinds = kinds(vec![
        committed(1, 10, vec![append(X, 1), append(X, 2)]),
        committed(2, 9, vec![list(X, &[1])]),
        everything(11, 12, &[1, 2], &[]),
    ]);
    assert!(kinds.contains(&"G1b: intermediate read"), "{kinds:?}");
    let taken_back = vec![
        committed(1, 10, vec![Step::Save, append(X, 1), Step::Back]),
        committed(2, 9, vec![list(X, &[1])]),
    ];
    assert_eq!(self::kinds(taken_back), ["G1b: intermediate read"]);
    let by_itself = vec![committed(
        1,
        10,
        vec![Step::Save, append(X, 1), Step::Back, list(X, &[1])],
    )];
    assert!(self::kinds(by_itself).contains(&"taken back and seen"));
}

#[test]
fn g1c_two_saw_each_other() {
    let kinds = kinds(vec![
        committed(1, 10, vec![append(X, 1), list(Y, &[2])]),
        committed(2, 9, vec![append(Y, 2), list(X, &[1])]),
        everything(11, 12, &[1], &[2]),
    ]);
    assert!(kinds[0].starts_with("G1c"), "{kinds:?}");
}

#[test]
fn g_single_a_read_is_torn() {
    let kinds = kinds(vec![
        committed(1, 10, vec![append(X, 1), append(Y, 2)]),
        committed(2, 9, vec![list(X, &[]), list(Y, &[2])]),
        everything(11, 12, &[1], &[2]),
    ]);
    assert_eq!(kinds, ["G-single: read skew"]);
}

#[test]
fn g2_write_skew() {
    let kinds = kinds(vec![
        committed(1, 10, vec![list(X, &[]), append(Y, 2)]),
        committed(2, 9, vec![list(Y, &[]), append(X, 1)]),
        everything(11, 12, &[1], &[2]),
    ]);
    assert!(kinds[0].starts_with("G2"), "{kinds:?}");
    let of_registers = vec![
        committed(1, 10, vec![number(X, 0), number(Y, 0), set(Y, 2)]),
        committed(2, 9, vec![number(Y, 0), number(X, 0), set(X, 1)]),
    ];
    assert!(self::kinds(of_registers)[0].starts_with("G2"));
}

#[test]
fn an_update_is_lost() {
    let kinds = kinds(vec![
        committed(1, 10, vec![number(X, 0), set(X, 1)]),
        committed(2, 9, vec![number(X, 0), set(X, 2)]),
    ]);
    assert!(kinds.contains(&"lost update"), "{kinds:?}");
    // Of sums the definition alone can tell.
    let sums = history(vec![
        committed(1, 10, vec![add(X, 5)]),
        committed(2, 9, vec![add(X, 7)]),
        committed(11, 12, vec![number(X, 7)]),
    ]);
    assert!(matches!(search(&sums, &contents(), EXPANSIONS_MAX), Search::None(_)));
}

#[test]
fn real_time_is_turned_round() {
    let stale = kinds(vec![
        committed(1, 2, vec![append(X, 1)]),
        committed(3, 4, vec![list(X, &[])]),
        everything(5, 6, &[1], &[]),
    ]);
    assert!(stale[0].contains("real time"), "{stale:?}");
    let registers = kinds(vec![
        committed(1, 2, vec![number(X, 0), set(X, 1)]),
        committed(3, 4, vec![number(X, 0)]),
    ]);
    assert!(registers[0].contains("real time"), "{registers:?}");
}

#[test]
fn what_was_acknowledged_is_lost_and_what_was_not_is_invented() {
    let lost = kinds(vec![committed(1, 2, vec![append(X, 1)]), everything(3, 4, &[], &[])]);
    assert!(lost.contains(&"lost"), "{lost:?}");
    let invented = kinds(vec![everything(3, 4, &[9], &[])]);
    assert!(invented.contains(&"invented"), "{invented:?}");
    let twice = kinds(vec![
        committed(1, 2, vec![append(X, 1)]),
        everything(3, 4, &[1, 1], &[]),
    ]);
    assert!(twice.contains(&"applied twice"), "{twice:?}");
    let halves = kinds(vec![
        with_fate(Fate::Unknown, 1, 2, vec![append(X, 1), append(Y, 2)]),
        everything(3, 4, &[1], &[]),
    ]);
    assert!(halves.contains(&"by halves"), "{halves:?}");
}

/// What only the definition sees: each with the same history made good.
#[test]
fn phantoms_formulas_and_constraints_are_explained() {
    let member = |id| (Table::Member, id);
    let insert = |id, done| Step::Insert(member(id), Row::default(), done);
    let count = |count| Step::Total(Table::Member, 0, 9, count, 0);
    let group = |keys: &[i64]| Step::ReadGroup(Table::Member, 0, keys.to_vec());
    let cases: Vec<(&str, Vec<Transaction>, bool)> = vec![
        (
            "two counted the same and both inserted",
            vec![
                committed(1, 9, vec![count(0), insert(1, true)]),
                committed(2, 8, vec![count(0), insert(2, true)]),
            ],
            false,
        ),
        (
            "the second counted the first",
            vec![
                committed(1, 9, vec![count(0), insert(1, true)]),
                committed(2, 8, vec![count(1), insert(2, true)]),
            ],
            true,
        ),
        (
            "the index has not what the table has",
            vec![
                committed(1, 2, vec![insert(1, true)]),
                committed(3, 4, vec![count(1), group(&[])]),
            ],
            false,
        ),
        (
            "one key was inserted twice",
            vec![
                committed(1, 9, vec![insert(1, true)]),
                committed(2, 8, vec![insert(1, true)]),
            ],
            false,
        ),
        (
            "formulas that do not commute, in one of their orders",
            vec![
                committed(1, 9, vec![add(X, 5)]),
                committed(2, 8, vec![Step::Change(X, Change::Negate, true)]),
                committed(10, 11, vec![number(X, -5)]),
            ],
            true,
        ),
        (
            "in none of them",
            vec![
                committed(1, 9, vec![add(X, 5)]),
                committed(2, 8, vec![Step::Change(X, Change::Negate, true), add(X, 1)]),
                committed(10, 11, vec![number(X, -5)]),
            ],
            false,
        ),
        (
            "an unknown one that was seen and then was gone",
            vec![
                with_fate(Fate::Unknown, 1, 2, vec![add(X, 5)]),
                committed(3, 4, vec![number(X, 5)]),
                committed(5, 6, vec![number(X, 0)]),
            ],
            false,
        ),
        (
            "an unknown one that took effect after its session had ended",
            vec![
                with_fate(Fate::Unknown, 1, 2, vec![add(X, 5)]),
                committed(3, 4, vec![number(X, 0)]),
                committed(5, 6, vec![number(X, 5)]),
            ],
            false,
        ),
    ];
    for (name, transactions, good) in cases {
        let found = search(&history(transactions), &contents(), EXPANSIONS_MAX);
        assert_eq!(found == Search::Found, good, "{name}: {found:?}");
        assert_ne!(found, Search::GivenUp, "{name}");
    }
    let stock = (Table::Bounded, 0);
    let one_left: Contents = [(
        stock,
        Row {
            number: 1,
            ..Row::default()
        },
    )]
    .into();
    let sold_twice = vec![
        committed(1, 9, vec![add(stock, -1)]),
        committed(2, 8, vec![add(stock, -1)]),
    ];
    assert!(matches!(
        search(&history(sold_twice), &one_left, EXPANSIONS_MAX),
        Search::None(_)
    ));
}

#[test]
fn a_search_that_is_too_long_says_so() {
    let many = (0..30)
        .map(|at| committed(at + 1, 100, vec![add(X, 1 << at)]))
        .collect();
    let mut history: History = history(many);
    history.transactions.push(committed(200, 201, vec![number(X, -1)]));
    assert_eq!(search(&history, &contents(), 1_000), Search::GivenUp);
}
