//! Rows found by several ranges of a key are those that a scan of everything finds: over random rows with NULLs and duplicates,
//! for the same statements on a table with keys and indexes and on one without.

use crate::world::*;

const COLUMNS: &str = "id int, w int, d int, k int, s smallint, b bigint, r real, n numeric, c char(4), v text, day date, at timestamp, tz timestamptz";
const INDEXES: [&str; 11] = ["k", "s", "b", "r", "n", "c", "v", "day", "at", "tz", "d, k"];

/// A small generator: the same numbers each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.roll(items.len() as u64) as usize]
    }
}

/// A value of each column as SQL: few different ones, NULLs, and the ends of the type.
fn value(dice: &mut Dice, column: &str) -> String {
    if dice.roll(7) == 0 {
        return "NULL".to_owned();
    }
    let small = dice.roll(12) as i64 - 2;
    let extreme = dice.roll(9) == 0;
    match column {
        "s" if extreme => dice.pick(&["32767", "-32768"]).to_owned(),
        "k" if extreme => dice.pick(&["2147483647", "-2147483648"]).to_owned(),
        "b" if extreme => dice
            .pick(&[
                "9223372036854775807",
                "-9223372036854775808",
                "9007199254740992",
                "9007199254740993",
            ])
            .to_owned(),
        "r" if extreme => dice
            .pick(&["'NaN'", "'Infinity'", "'-Infinity'", "1.1", "16777217"])
            .to_owned(),
        "n" if extreme => dice.pick(&["'NaN'", "'Infinity'", "1e20", "0.1"]).to_owned(),
        "r" | "n" => format!("{small}.5"),
        "c" | "v" => dice
            .pick(&["'a'", "'ab'", "'abc'", "'b'", "'ab '", "''", "'a%'", "'\u{e4}'", "'aB'"])
            .to_owned(),
        "day" if extreme => dice.pick(&["'infinity'", "'-infinity'"]).to_owned(),
        "at" | "tz" if extreme => dice
            .pick(&["'infinity'", "'-infinity'", "'2024-03-31 02:30'", "'2024-10-27 02:30'"])
            .to_owned(),
        "day" => format!("'2024-03-{:02}'", 26 + dice.roll(6)),
        "at" | "tz" => format!("'2024-03-{:02} 0{}:{}0'", 26 + dice.roll(6), dice.roll(5), dice.roll(4)),
        _ => small.to_string(),
    }
}

fn row(dice: &mut Dice, id: usize) -> String {
    let values: Vec<String> = ["k", "s", "b", "r", "n", "c", "v", "day", "at", "tz"]
        .iter()
        .map(|column| value(dice, column))
        .collect();
    format!("({id}, {}, {}, {})", dice.roll(3), dice.roll(4), values.join(", "))
}

/// `keyed` has a primary key and an index of each column, `bare` nothing: both hold the same rows.
fn two_tables(dice: &mut Dice, rows: usize) -> World {
    let mut world = World::new(2);
    world.must(0, &format!("create table keyed ({COLUMNS}, primary key (w, d, id))"));
    world.must(0, &format!("create table bare ({COLUMNS})"));
    for index in INDEXES {
        world.must(0, &format!("create index on keyed ({index})"));
    }
    let rows: Vec<String> = (0..rows).map(|id| row(dice, id)).collect();
    for table in ["keyed", "bare"] {
        world.must(0, &format!("insert into {table} values {}", rows.join(", ")));
    }
    world
}

/// Conditions that a key or index serves.
fn condition(dice: &mut Dice) -> String {
    let whole = |dice: &mut Dice| (dice.roll(14) as i64 - 3).to_string();
    let list = |dice: &mut Dice, column: &str| {
        let count = 1 + dice.roll(4);
        (0..count).map(|_| value(dice, column)).collect::<Vec<_>>().join(", ")
    };
    let (one, two, three) = (whole(dice), whole(dice), whole(dice));
    let (w, d) = (dice.roll(3), dice.roll(4));
    let comparison = dice.pick(&["<", "<=", ">", ">=", "="]);
    match dice.roll(36) {
        0 => format!("(w, d) in (({w}, {d}), (0, {d}), (1, 2))"),
        1 => format!("w = {w} and d in ({d}, 1, {d}) and id = {}", dice.roll(200)),
        2 => format!("w in (0, {w}) and d in ({d}, 2) and id between {one} and 50"),
        3 => format!("w = any ('{{{w}, NULL, 7}}') and d = {d}"),
        4 => format!("(w = 1 and d = {d}) or (w = 2 and d in (1, {d}) and id < 90) or (w = 0 and id > 100)"),
        5 => format!("k in ({})", list(dice, "k")),
        6 => format!("k = any ('{{{one}, {two}, NULL, {one}}}'::int[]) and id > 20"),
        7 => "k = any ('{}'::int[])".to_owned(),
        8 => format!("k = {one} or k = {two} or k between {three} and 6"),
        9 => format!("k between {one} and {two} or k between 3 and {three}"),
        10 => format!("(k = {one} and id > 30) or k in ({two}, {three})"),
        11 => format!("k is null and id < 150 or k = {one}"),
        12 => "k is null".to_owned(),
        13 => format!("d = {d} and k is null"),
        14 => format!("d in (1, {d}) and k in ({})", list(dice, "k")),
        15 => format!(
            "(w, d, id) {} (1, {d}, {})",
            dice.pick(&["<", "<=", ">", ">="]),
            dice.roll(200)
        ),
        16 => format!("(d, k) {} ({d}, {one})", dice.pick(&["<", "<=", ">", ">="])),
        17 => format!("v like '{}%'", dice.pick(&["a", "ab", "a\\%", "\u{e4}", "", "b"])),
        18 => format!("c like '{}%'", dice.pick(&["a", "ab", "ab  ", "abc"])),
        19 => format!("c {comparison} {}", value(dice, "c")),
        20 => format!("c {comparison} {}::text", value(dice, "c")),
        21 => format!(
            "s {comparison} {}",
            dice.pick(&["5", "5.5", "40000", "-40000", "'NaN'::numeric", "3::bigint"])
        ),
        22 => format!(
            "k {comparison} {}",
            dice.pick(&[
                "5.5",
                "-0.5",
                "5000000000",
                "1e300::float8",
                "'NaN'::float8",
                "'-Infinity'::numeric",
                "4::float8",
                "7.0"
            ])
        ),
        23 => format!(
            "b {comparison} {}",
            dice.pick(&[
                "5.5",
                "1e25",
                "9007199254740992::float8",
                "9007199254740993.5",
                "9223372036854775807.5",
                "-1e300::float8",
                "2::real"
            ])
        ),
        24 => format!(
            "r {comparison} {}",
            dice.pick(&[
                "1.5",
                "1.1",
                "1.1::float8",
                "1e300::float8",
                "'NaN'::float8",
                "'Infinity'::float8",
                "3",
                "16777217"
            ])
        ),
        25 => format!(
            "n {comparison} {}",
            dice.pick(&["5", "0.1", "'NaN'", "1e20", "2::smallint"])
        ),
        26 => {
            let other = dice.pick(&["day", "at", "tz"]);
            let to = dice.pick(&["date", "timestamp", "timestamptz"]);
            let mut constant = value(dice, "at");
            if constant == "NULL" {
                constant = "now()".to_owned();
            }
            format!("{other} {comparison} {constant}::{to}")
        }
        27 => format!(
            "at between {}::timestamptz and '2024-03-31 12:00'::timestamptz",
            value(dice, "at")
        ),
        28 => format!("k not in ({one}, {two}) and k is not null and k < 6"),
        29 => format!(
            "k = {one} or v = {} or (w = 1 and d = {d} and id < 50)",
            value(dice, "v")
        ),
        30 => format!("(b = {one} and id > 20) or s in ({two}, {three}) or c like 'a%'"),
        31 => format!("k = any ('{{{one}, {two}}}'::int[]) or n = {three}.5 or day is null"),
        32 => format!("(k = {one} or v = 'ab') and (s = {two} or b between {two} and {three} or d = {d})"),
        33 => format!("(w, d, id) in (({w}, {d}, {one}), (1, 2, {two})) or k between {two} and {three} or r = {one}.5"),
        34 => format!("(k = {one} or b = {two} or k = {three} or s is null) and id > 30"),
        _ => format!("(k, id) > ({one}, {}) and k < 7", dice.roll(100)),
    }
}

fn same(world: &mut World, sql: &str) {
    let keyed = world.rows(0, &sql.replace("TABLE", "keyed"));
    let bare = world.rows(0, &sql.replace("TABLE", "bare"));
    assert_eq!(keyed, bare, "{sql}");
}

/// The statements that are compared for one condition.
fn compare(world: &mut World, dice: &mut Dice, condition: &str) {
    same(world, &format!("select * from TABLE where {condition} order by id"));
    let order = dice.pick(&[
        "w, d, id",
        "w desc, d desc, id desc",
        "k, id",
        "k, w, d, id",
        "k desc, w desc, d desc, id desc",
        "d, k, w, id",
        "v, id",
        "at desc, id",
    ]);
    let limit = dice.roll(6);
    same(
        world,
        &format!(
            "select id, k from TABLE where {condition} order by {order} limit {limit} offset {}",
            dice.roll(3)
        ),
    );
    same(
        world,
        &format!("select count(*), sum(id), max(k), min(v) from TABLE where {condition}"),
    );
    let extreme = dice.pick(&["max", "min"]);
    let column = dice.pick(&["k", "v", "at", "n", "d", "r"]);
    same(
        world,
        &format!("select {extreme}({column}) from TABLE where {condition}"),
    );
    same(world, &format!("select {extreme}({column}) from TABLE"));
    same(
        world,
        &format!("select id from (select 1) as one(x), TABLE where {condition} order by id")
            .replace("(select 1) as one(x)", "(values (1)) as one(x)"),
    );
    let wait = dice.pick(&["", " skip locked"]);
    let locked = |table: &str| format!("select id from {table} where {condition} for update{wait}");
    for sort in ["", " order by"] {
        let lock = |table: &str| match sort {
            "" => locked(table),
            _ => format!("select id from {table} where {condition} order by v, id for update{wait}"),
        };
        let (mut keyed, mut bare) = (world.rows(0, &lock("keyed")), world.rows(0, &lock("bare")));
        keyed.sort();
        bare.sort();
        assert_eq!(keyed, bare, "{condition} for update{wait}");
    }
}

/// Changes the rows of a condition, also in the columns by which they are found, and compares everything; then takes it back.
fn change(world: &mut World, dice: &mut Dice, condition: &str) {
    world.must(0, "savepoint before");
    let change = match dice.roll(6) {
        0 => "update TABLE set k = case when k < 100 then k + 1 else 3 end where".to_owned(),
        1 => "update TABLE set v = v || 'a', at = at + interval '1 day' where".to_owned(),
        2 => "update TABLE set k = 3, b = 2 where".to_owned(),
        3 => "delete from TABLE where".to_owned(),
        4 => "update TABLE set n = 0 where".to_owned(),
        _ => "update TABLE set id = id + 1000, s = 3 where".to_owned(),
    };
    let sql = format!("{change} {condition}");
    let keyed = world.must(0, &sql.replace("TABLE", "keyed"));
    let bare = world.must(0, &sql.replace("TABLE", "bare"));
    assert_eq!(keyed, bare, "{sql}");
    same(world, "select * from TABLE order by id");
    world.must(0, "rollback to before");
}

#[test]
fn ranges_find_what_a_scan_finds() {
    for zone in ["UTC", "Europe/Berlin"] {
        let mut dice = Dice(zone.len() as u64);
        let mut world = two_tables(&mut dice, 200);
        world.must(0, &format!("set time zone '{zone}'"));
        for round in 0..120 {
            let condition = condition(&mut dice);
            world.must(0, "begin");
            if round % 3 > 0 {
                // Own changes that are not committed.
                let rows: Vec<String> = (500..520).map(|id| row(&mut dice, id)).collect();
                let (gone, moved) = (dice.roll(200), dice.roll(12));
                for table in ["keyed", "bare"] {
                    world.must(0, &format!("insert into {table} values {}", rows.join(", ")));
                    world.must(
                        0,
                        &format!("delete from {table} where id between {gone} and {gone} + 9"),
                    );
                    world.must(0, &format!("update {table} set k = {moved} where id % 7 = 3"));
                }
            }
            compare(&mut world, &mut dice, &condition);
            change(&mut world, &mut dice, &condition);
            world.must(0, "rollback");
        }
    }
}

/// The types that drivers declare for parameters are wider than the columns.
#[test]
fn parameters_bound_keys_whatever_their_types() {
    let mut dice = Dice(5);
    let mut world = two_tables(&mut dice, 200);
    let statements = [
        ("bigint, bigint", "k between $1 and $2", "k"),
        ("numeric, bigint", "k > $1 and k <= $2", "k"),
        ("float8, smallint", "k >= $1 and k < $2", "k"),
        ("bigint, bigint", "s >= $1 and s <= $2", "s"),
        ("numeric, float8", "b > $1 and b < $2", "b"),
        ("float8, numeric", "r >= $1 and r <= $2", "r"),
        ("bigint, bigint", "(d, k) > ($1, $2)", "k"),
        ("bigint[], bigint", "k = any ($1) or k = $2", "k"),
        ("int[], int", "d = any ($1) and k = $2", "k"),
    ];
    for (number, (types, condition, column)) in statements.iter().enumerate() {
        for table in ["keyed", "bare"] {
            let sql = format!(
                "prepare {table}{number} ({types}) as select id, {column} from {table} where {condition} order by id"
            );
            world.must(0, &sql);
        }
        for _ in 0..12 {
            let number_of = |dice: &mut Dice, data_type: &str| {
                let wide = if matches!(data_type, "smallint" | "int") {
                    30_000
                } else {
                    5_000_000_000i64
                };
                match dice.roll(8) {
                    0 => "NULL".to_owned(),
                    1 => wide.to_string(),
                    2 => (-wide).to_string(),
                    3 if matches!(data_type, "numeric" | "float8") => dice
                        .pick(&["'NaN'", "'Infinity'", "'-Infinity'", "2.5", "1e25"])
                        .to_owned(),
                    _ => (dice.roll(12) as i64 - 2).to_string(),
                }
            };
            let given: Vec<String> = types
                .split(", ")
                .map(|data_type| match data_type.strip_suffix("[]") {
                    Some(_) => format!("'{{{}, NULL, {}}}'", dice.roll(9), dice.roll(9)),
                    None => number_of(&mut dice, data_type),
                })
                .collect();
            let given = given.join(", ");
            let answer = |world: &mut World, table: &str| world.rows(0, &format!("execute {table}{number} ({given})"));
            let (keyed, bare) = (answer(&mut world, "keyed"), answer(&mut world, "bare"));
            assert_eq!(keyed, bare, "{condition} with {given}");
        }
    }
}

/// Rows that were visited come with ranges of their own: a row that appears in one of them meanwhile is a conflict, one between
/// them is none.
#[test]
fn what_appears_in_a_range_conflicts_and_what_appears_between_does_not() {
    let conditions = [
        "k in (10, 30)",
        "k = any ('{10, 30}')",
        "k between 9 and 11 or k between 29 and 31",
        "k = 10 or k = 30 or k is null",
        "v like 'x%' or v = 'z'",
        "w = 1 and d in (10, 30)",
        "(w, d) in ((1, 10), (1, 30))",
        "(k, id) > (29, 5)",
        "k = 30 or v like 'x%'",
        "v in ('z', 'xb') or (w = 1 and d = 10)",
        "(w = 1 and d = 30) or k = 10",
    ];
    for condition in conditions {
        for (inside, value) in [(true, 30), (false, 20)] {
            let mut world = World::new(2);
            world.must(
                0,
                "create table t (w int, d int, id int, k int, v text, primary key (w, d, id))",
            );
            world.must(0, "create index on t (k); create index on t (v)");
            world.must(0, "create table hot (n int); insert into hot values (0)");
            world.must(
                0,
                "insert into t values (1, 10, 1, 10, 'xa'), (1, 30, 2, 30, 'z'), (1, 50, 3, 50, 'a')",
            );
            world.must(0, "begin");
            let seen = world.rows(0, &format!("select id from t where {condition}"));
            assert!(seen.contains(&"2".to_owned()), "{condition}: {seen:?}");
            let text = if inside { "xb" } else { "y" };
            let appears = format!("insert into t values (1, {value}, 9, {value}, '{text}')");
            world.must(1, &format!("begin; {appears}; update hot set n = 5; commit"));
            // It has to stand behind the other one, whose row it has not seen.
            let said = world.ask(0, "update hot set n = n + 1 returning n");
            let refused = said.iter().any(|line| line.starts_with("E 40001"));
            assert_eq!(refused, inside, "{condition}, {value}: {said:?}");
            let said = world.ask(0, "commit");
            assert_eq!(said[0] == "C COMMIT", !inside, "{condition}: {said:?}");
        }
    }
}

/// An UPDATE that moves rows from one of its ranges to another changes each once.
#[test]
fn a_row_that_moves_from_range_to_range_is_changed_once() {
    let mut world = World::new(1);
    world.must(0, "create table t (id int primary key, k int); create index on t (k)");
    world.must(0, "insert into t select g, g % 5 from generate_series(1, 2000) g");
    for condition in ["k in (1, 2, 3)", "k = any ('{1, 2, 3}')", "k = 1 or k between 2 and 3"] {
        world.must(0, "begin");
        let said = world.must(0, &format!("update t set k = k + 1 where {condition}"));
        assert!(said.contains(&"C UPDATE 1200".to_owned()), "{said:?}");
        assert_eq!(
            world.rows(0, "select k, count(*) from t group by k order by k"),
            ["0|400", "2|400", "3|400", "4|800"]
        );
        world.must(0, "rollback");
    }
}

/// Thousands of keys are looked up one by one, in slices, forwards and backwards.
#[test]
fn a_list_of_thousands_of_values_is_looked_up_in_an_index() {
    let mut world = World::new(1);
    world.must(0, "create table t (id int primary key, k int); create index on t (k)");
    world.must(0, "insert into t select g, g * 3 from generate_series(1, 20000) g");
    let list = (0..10_000)
        .map(|number| (number * 2).to_string())
        .collect::<Vec<_>>()
        .join(",");
    // Every third number is there, of every second one.
    assert_eq!(
        world.rows(0, &format!("select count(*) from t where k = any ('{{{list}}}')")),
        ["3333"]
    );
    assert_eq!(
        world.rows(0, &format!("select count(*) from t where k in ({list})")),
        ["3333"]
    );
    let longer = (0..20_000)
        .map(|number| number.to_string())
        .collect::<Vec<_>>()
        .join(",");
    let counted = world.rows(0, &format!("select count(*) from t where k in ({longer})"));
    assert_eq!(counted, ["6666"]);
    let last = format!("select k from t where k = any ('{{{list}}}') order by k desc limit 2");
    assert_eq!(world.rows(0, &last), ["19998", "19992"]);
    let explained = world.rows(0, &format!("explain analyze {last}"));
    assert!(
        explained[0].contains("by index t_k_idx (k = ANY ("),
        "{}",
        &explained[0][..80]
    );
    assert!(
        explained[0].contains("rows read 4, rows 2,"),
        "{}",
        &explained[0][explained[0].len() - 80..]
    );
    let updated = world.must(
        0,
        &format!("update t set k = -k where k = any ('{{{list}}}') and id > 100"),
    );
    assert!(updated.iter().any(|line| line.starts_with("C UPDATE 3")), "{updated:?}");
}

/// An OR whose branches use different keys goes each branch's way, and gives what several of them lead to once.
#[test]
fn an_or_over_different_keys_is_the_union_of_their_ways() {
    let mut world = World::new(1);
    world.must(
        0,
        "create table t (id int primary key, name text, k int); create index on t (name); create index on t (k)",
    );
    world.must(
        0,
        "insert into t select g, 'n' || g, g % 1000 from generate_series(1, 20000) g",
    );
    for (condition, way, rows, lookups) in [
        (
            "id = 5 or name = 'n5' or name = 'n77'",
            "by key (id = 5) or by index t_name_idx (name in ('n5', 'n77'))",
            "5 77",
            2..12,
        ),
        (
            "id in (7, 8) or k = 7 and id < 2000",
            "by 2 keys (id) in ((7), (8)) or by index",
            "7 8 1007",
            2..60,
        ),
        (
            "id between 100 and 102 or name = 'n101'",
            "by key range (id >= 100, id <= 102) or by index",
            "100 101 102",
            3..12,
        ),
    ] {
        let read = world.rows(0, &format!("select id from t where {condition} order by id"));
        assert_eq!(read.join(" "), rows, "{condition}");
        let explained = world.rows(0, &format!("explain analyze select id from t where {condition}"));
        let known =
            ["name = 'n5'", "k = 7"].iter().any(|term| explained[0].contains(term)) || explained[0].contains(" or by ");
        assert!(known, "{explained:?}");
        let figure = explained[0]
            .split("rows read ")
            .nth(1)
            .and_then(|rest| rest.split(',').next());
        let looked_at: usize = figure.and_then(|figure| figure.parse().ok()).expect("rows read");
        assert!(lookups.contains(&looked_at), "{condition}: {explained:?} {way}");
        let updated = world.must(0, &format!("update t set k = -1, name = name || '!' where {condition}"));
        let count = rows.split(' ').count();
        assert!(
            updated.contains(&format!("C UPDATE {count}")),
            "{condition}: {updated:?}"
        );
        let deleted = world.must(0, &format!("begin; delete from t where {condition}; rollback"));
        assert!(deleted.iter().any(|line| line.starts_with("C DELETE")), "{deleted:?}");
    }
    // What leads to most of the table is a scan.
    let explained = world.rows(0, "explain select * from t where id > 5 or k < 900");
    assert!(explained[0].contains("by full scan"), "{explained:?}");
}
