//! Long lists as conditions: one question to a set for each row, not one comparison for each element.

use crate::world::*;
use rubato_sql::client::Request;
use std::fmt::Write;
use std::time::{Duration, Instant};

const ROWS: usize = 100_000;
const ELEMENTS: usize = 50_000;

fn list(elements: usize) -> String {
    let mut list = String::new();
    for number in 0..elements {
        write!(list, "{}{}", if number > 0 { "," } else { "" }, number * 2).unwrap();
    }
    list
}

/// Row by row through the list it would be ten thousand million comparisons for the first three.
#[test]
fn a_list_of_thousands_is_asked_once_for_each_row() {
    let mut world = World::new(1);
    world.must(0, "create table t (id int primary key, n int, word text, f real)");
    world.must(
        0,
        &format!("insert into t select g, g, 'w' || g, g from generate_series(1, {ROWS}) g"),
    );
    let list = list(ELEMENTS);
    let words = list
        .split(',')
        .map(|number| format!("'w{number}'"))
        .collect::<Vec<_>>()
        .join(",");
    let began = Instant::now();
    for (condition, expected) in [
        (format!("n in ({list})"), 49_999),
        (format!("n not in ({list})"), 50_001),
        (format!("n = any ('{{{list}}}')"), 49_999),
        (format!("n <> all ('{{{list}}}'::bigint[])"), 50_001),
        (format!("word in ({words})"), 49_999),
        (format!("f in ({list})"), 49_999),
        (format!("n in ({list}, null)"), 49_999),
        (format!("n not in ({list}, null)"), 0),
    ] {
        let said = world.rows(0, &format!("select count(*) from t where {condition}"));
        assert_eq!(said, [expected.to_string()], "{}", &condition[..20]);
    }
    let updated = world.must(
        0,
        &format!("update t set word = word || '!' where n in ({list}) and f > 0"),
    );
    assert!(updated.contains(&"C UPDATE 49999".to_owned()), "{updated:?}");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// The sets are those of one execution: other parameters, another set.
#[test]
fn each_execution_has_its_own_list() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table t (n int); insert into t select g from generate_series(1, 30) g",
    );
    let places = (1..=10).map(|place| format!("${place}")).collect::<Vec<_>>().join(",");
    world.tell(
        0,
        [
            parse("s", &format!("select count(*), max(n) from t where n in ({places})")),
            parse("a", "select count(*), max(n) from t where n = any ($1)"),
        ],
    );
    for first in [1, 11, 25] {
        let values: Vec<String> = (first..first + 10).map(|number: i32| number.to_string()).collect();
        let texts: Vec<&str> = values.iter().map(String::as_str).collect();
        let expected = format!("D {}|{}", (31 - first).min(10), (first + 9).min(30));
        let said = world.tell(0, [bind_to("", "s", &texts), execute("", 0), Request::Sync]);
        assert!(said.contains(&expected), "{said:?} {expected}");
        let array = format!("{{{}}}", values.join(","));
        let said = world.tell(0, [bind_to("", "a", &[&array]), execute("", 0), Request::Sync]);
        assert!(said.contains(&expected), "{said:?} {expected}");
    }
}
