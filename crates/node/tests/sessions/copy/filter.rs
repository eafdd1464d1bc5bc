//! COPY FROM ... WHERE: rows that do not satisfy the condition are read and left out. Answers are those of PostgreSQL 15.

use super::lent;
use crate::world::*;
use std::fmt::Write;

#[test]
fn rows_are_chosen_by_what_they_hold_before_they_are_checked() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table c (a int not null unique, b text default 'd', n int check (n > 0), s serial)",
    );
    for (sql, data, rows) in [
        ("copy c (a, b) from stdin where a > 1", "1\tx\n2\ty\n3\tz\n", 2),
        ("copy c (a, n) from stdin where n > 0", "1\t-5\n\\N\t0\n5\t7\n", 1),
        ("copy c (a, n) from stdin where a is not null", "\\N\t1\n6\t1\n", 1),
        (
            "copy c (a, b) from stdin with (format csv) where b like 'q%' and s > 2",
            "7,qq\n8,r\n9,qr\n",
            2,
        ),
        ("copy c (a) from stdin csv header where c.a = 21;", "a\n20\n21\n", 1),
        ("copy c (a) from stdin where a not in (21, 2, 3, 5)", "2\n3\n21\n5\n", 0),
    ] {
        let said = world.copy(0, sql, data.as_bytes());
        assert!(said.contains(&format!("C COPY {rows}")), "{sql}: {said:?}");
    }
    assert_eq!(
        world.rows(0, "select a, b, n from c order by a"),
        ["2|y|", "3|z|", "5|d|7", "6|d|1", "7|qq|", "9|qr|", "21|d|"]
    );
    let said = world.copy(0, "copy c (a) from stdin where b = 'd' and 10 / a > 1", b"1\n0\n");
    assert!(said.contains(&"E 22012 division by zero".to_owned()), "{said:?}");
    assert_eq!(world.context(0), "COPY c, line 2: \"0\"");
}

#[test]
fn a_condition_that_is_none_is_refused_as_in_postgresql() {
    let mut world = World::new(1);
    world.must(0, "create table c (a int, b text)");
    for (rest, error) in [
        (
            "from stdin where count(*) > 1",
            "42803 aggregate functions are not allowed in COPY FROM WHERE conditions",
        ),
        (
            "from stdin where a",
            "42804 argument of WHERE must be type boolean, not type integer",
        ),
        ("from stdin where zz = 1", "42703 column \"zz\" does not exist"),
        (
            "from stdin where x.a = 1",
            "42P01 missing FROM-clause entry for table \"x\"",
        ),
        (
            "from stdin where a = 1 bogus",
            "42601 syntax error at or near \"bogus\"",
        ),
        ("from stdin where a = 1, b = 'x'", "42601 syntax error at or near \",\""),
        ("from stdin where", "42601 syntax error at end of input"),
        ("to stdout where a = 1", "42601 WHERE clause not allowed with COPY TO"),
        (
            "from stdin where a = 'x'",
            "22P02 invalid input syntax for type integer: \"x\"",
        ),
        ("from stdin where a = $1", "42P02 there is no parameter $1"),
    ] {
        let said = world.ask(0, &format!("copy c {rest}"));
        assert!(said.contains(&format!("E {error}")), "{rest}: {said:?}");
    }
    let said = world.ask(0, "copy (select 1) to stdout where true");
    assert!(
        said.contains(&"E 42601 syntax error at or near \"where\"".to_owned()),
        "{said:?}"
    );
    let said = world.ask(0, "copy c from stdin where a in (select 1)");
    assert!(said.iter().any(|line| line.starts_with("E 0A000")), "{said:?}");
}

/// Also where another thread reads the data.
#[test]
fn rows_of_much_data_are_chosen_by_a_list() {
    let mut world = lent::world(1);
    world.must(0, "create table c (a int primary key, b text)");
    let mut data = String::new();
    (0..60_000).for_each(|number| writeln!(data, "{number}\ttext").unwrap());
    let list = (0..20_000)
        .map(|number| (number * 3).to_string())
        .collect::<Vec<_>>()
        .join(",");
    let said = world.copy(
        0,
        &format!("copy c from stdin where a in ({list}) and a > 8"),
        data.as_bytes(),
    );
    assert_eq!(lent::jobs(), 1);
    assert!(said.contains(&"C COPY 19997".to_owned()), "{said:?}");
    assert_eq!(
        world.rows(0, "select count(*), min(a), max(a) from c where a % 3 = 0"),
        ["19997|9|59997"]
    );
}
