//! What is asked of other nodes, and what they send: rows that are wanted, and of these what is read.

use crate::elsewhere::Elsewhere;
use crate::scripts::{run, run_within};
use crate::world::World;

/// A table over three nodes with so many rows, of 120 bytes or more each.
fn filled(rows: u32) -> World {
    let mut world = World::with_engine(crate::engine());
    world.elsewhere = Some(Elsewhere::new());
    let made = "create table t (id int primary key, v int not null, g int, note text)";
    run(&mut world, made).unwrap();
    let fill = format!(
        "insert into t select n, n % 100, nullif(n % 7, 0), repeat('x', 100) from generate_series(1, {rows}) n"
    );
    run(&mut world, &fill).unwrap();
    world
}

/// What a query gives, and how many operations, rows and bytes of rows that took.
fn asked(world: &mut World, sql: &str) -> (Vec<String>, [u64; 3]) {
    let counted = |world: &World| world.elsewhere.as_ref().expect("other nodes").counts();
    let before = counted(world);
    let (rows, _) = run(world, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let after = counted(world);
    (rows, std::array::from_fn(|place| after[place] - before[place]))
}

#[test]
fn rows_that_are_not_wanted_stay_where_they_are() {
    let mut world = filled(3000);
    let (rows, [operations, sent, bytes]) = asked(&mut world, "select id from t where v = 17 and note like 'x%'");
    assert_eq!(rows.len(), 30);
    assert!(operations <= 4, "{operations} operations");
    assert!(sent <= 30, "{sent} rows");
    assert!(bytes > 100 * sent, "the condition is asked again here");
    let (rows, [_, sent, bytes]) = asked(&mut world, "select id from t where v = 17");
    assert_eq!(rows.len(), 30);
    assert!(sent <= 30 && bytes < 40 * sent, "{bytes} bytes of {sent} rows");
    let (rows, [_, sent, _]) = asked(&mut world, "select id from t where v > 50 and id > 100 limit 10");
    assert_eq!(rows.len(), 10);
    assert!(sent <= 20, "{sent} rows");
}

/// What is changed is looked for as what is read is.
#[test]
fn rows_that_are_not_changed_stay_where_they_are() {
    let mut world = filled(3000);
    let (_, [_, sent, bytes]) = asked(&mut world, "update t set g = 10 where v = 17 and note like 'x%'");
    assert!(sent <= 30, "{sent} rows");
    assert!(bytes > 100 * sent, "the condition is asked again here");
    let (_, [_, sent, bytes]) = asked(&mut world, "update t set note = 'y' where v = 17");
    assert!(sent <= 30 && bytes < 40 * sent, "{bytes} bytes of {sent} rows");
    let (rows, [_, sent, _]) = asked(
        &mut world,
        "select id from t where v = 17 order by id limit 2 for update",
    );
    assert_eq!(rows, ["17", "117"]);
    assert!(sent <= 30, "{sent} rows");
    let (_, [_, sent, _]) = asked(&mut world, "delete from t where v = 17 and g = 10");
    assert!(sent <= 30, "{sent} rows");
    let (rows, _) = asked(&mut world, "select count(*), count(*) filter (where v = 17) from t");
    assert_eq!(rows, ["2970|0"]);
    let failed = run(&mut world, "update t set v = 0 where 100 / (id - 7) > 0").unwrap_err();
    assert_eq!(failed.message(), "division by zero");
}

/// Whoever waits for the next page does not go through all before it again.
#[test]
fn a_change_of_many_rows_goes_on_where_it_waited() {
    let mut world = filled(30_000);
    let (_, [operations, sent, _]) = asked(&mut world, "delete from t where v >= 0 and note like '%x'");
    assert!(sent < 21_000, "{sent} rows");
    assert!(operations < 45_000, "{operations} operations");
    let (rows, _) = asked(&mut world, "select count(*) from t");
    assert_eq!(rows, ["0"]);
}

/// A condition fails for the row for which it fails where all rows are on one node, and for no other.
#[test]
fn errors_in_conditions_are_told_here() {
    let mut world = filled(300);
    let failed = run(&mut world, "select id from t where 100 / (id - 7) > 0").unwrap_err();
    assert_eq!(failed.message(), "division by zero");
    // What comes first leaves the row out.
    let (rows, [_, sent, _]) = asked(&mut world, "select id from t where id > 290 and 100 / (id - 7) > 0");
    assert_eq!((rows.len(), sent), (0, 0));
    let (rows, _) = asked(
        &mut world,
        "select id from t where id <> 7 and 1000 / (id - 7) > 200 order by id",
    );
    assert_eq!(rows, ["8", "9", "10", "11"]);
}

/// The next page is asked for where the last one ended, not where its last row is.
#[test]
fn a_page_that_finds_nothing_ends_and_the_next_one_goes_on() {
    let mut world = filled(60_000);
    let (rows, [operations, sent, _]) = asked(&mut world, "select id from t where v = 17 and id > 59000 and g is null");
    assert!(!rows.is_empty() && sent <= rows.len() as u64);
    assert!(operations <= 8, "{operations} operations");
    let (rows, [operations, sent, _]) = asked(&mut world, "select id from t where v = 1000");
    assert_eq!((rows.len(), sent), (0, 0));
    assert!((4..=8).contains(&operations), "{operations} operations");
    let (rows, _) = asked(
        &mut world,
        "select id from t where v = 99 and g = 6 order by id desc limit 2",
    );
    assert_eq!(rows, ["59499", "58799"]);
}

#[test]
fn nodes_aggregate_their_own_rows() {
    let mut world = filled(10_000);
    let (rows, [operations, sent, _]) = asked(&mut world, "select count(*), sum(v), min(id), max(note) from t");
    assert_eq!(rows, [format!("10000|495000|1|{}", "x".repeat(100))]);
    assert!(operations <= 8 && sent == 0, "{operations} operations, {sent} rows");
    let grouped = "select g, count(*) filter (where v > 50), avg(v), bool_or(id > 9990) from t
        where id <= 7000 group by g having count(*) > 1 order by g";
    let (rows, [operations, sent, _]) = asked(&mut world, grouped);
    assert_eq!(rows.len(), 7);
    assert_eq!(rows[0], "1|490|49.5000000000000000|f");
    assert!(operations <= 4 && sent == 0, "{operations} operations, {sent} rows");
    // Beyond what an answer may hold groups come in pieces.
    let (rows, [operations, sent, _]) = asked(
        &mut world,
        "select count(*) from (select id, count(*) from t group by id, note) s",
    );
    assert_eq!((&rows[..], sent), (&["10000".to_owned()][..], 0));
    assert!(operations > 2, "{operations} operations");
    // What each node cannot do for itself is done here.
    let (rows, [_, sent, _]) = asked(&mut world, "select count(distinct v) from t where id <= 1000");
    assert_eq!(rows, ["100"]);
    assert!(sent > 500, "{sent} rows");
    let failed = run(&mut world, "select sum(100 / (id - 7)) from t").unwrap_err();
    assert_eq!(failed.message(), "division by zero");
    let (rows, _) = asked(
        &mut world,
        "select count(*), sum(v), avg(v), max(v), bool_and(v > 0) from t where id < 0",
    );
    assert_eq!(rows, ["0|NULL|NULL|NULL|NULL"]);
}

/// A table of few rows, each of which names a `v` and a `note` of the other, which no index leads to.
fn filled_with_few(rows: u32) -> World {
    let mut world = filled(3000);
    run(
        &mut world,
        "create table few (id int primary key, wanted bigint, note text)",
    )
    .unwrap();
    let fill = format!("insert into few select n, n % 5, 'x' from generate_series(1, {rows}) n");
    run(&mut world, &fill).unwrap();
    run(&mut world, "insert into few values (0, null, null)").unwrap();
    world
}

#[test]
fn the_values_of_one_side_of_a_join_go_along_to_the_other() {
    let mut world = filled_with_few(10);
    // Without it, all rows come.
    let joined = "select few.id, t.id from few join t on t.v = few.wanted order by 1, 2 limit 3";
    let (rows, [_, sent, bytes]) = asked(&mut world, joined);
    assert_eq!(rows, ["1|1", "1|101", "1|201"]);
    assert!(sent <= 150 + 11 && bytes < 40 * sent, "{bytes} bytes of {sent} rows");
    let outer = "select few.id, count(t.id) from few left join t on t.v = few.wanted and t.g > 3 group by 1 order by 1";
    let (rows, [_, sent, _]) = asked(&mut world, outer);
    assert_eq!((rows.len(), &*rows[0], &*rows[1]), (11, "0|0", "1|12"));
    assert!(sent <= 150 + 11, "{sent} rows");
    // None has a partner: nobody else is asked.
    let (rows, [_, sent, _]) = asked(
        &mut world,
        "select t.id from few join t on t.v = few.wanted where few.id = 0",
    );
    assert_eq!((rows.len(), sent), (0, 0));
}

#[test]
fn many_tuples_are_joined_as_they_come() {
    let mut world = filled_with_few(5000);
    let joined = "select count(*), sum(t.id) from few join t on t.v = few.wanted where few.id > 4000 and few.id < 4011";
    let (rows, [_, sent, _]) = asked(&mut world, joined);
    assert_eq!(rows, ["300|441600"]);
    assert!(sent <= 161, "{sent} rows");
    let (rows, _) = asked(&mut world, "select count(*) from few join t on t.v = few.wanted");
    assert_eq!(rows, ["150000"]);
}

/// Two tables of so many rows, each of which names one of the other, all over three nodes.
fn filled_with_pairs(rows: u32) -> World {
    let mut world = World::with_engine(crate::engine());
    world.elsewhere = Some(Elsewhere::new());
    let made = [
        "create table part (id int primary key, v int, note text)".to_owned(),
        "create table item (id int primary key, part_id bigint, n int, note text)".to_owned(),
        "create table kind (id int primary key, name text)".to_owned(),
        format!("insert into part select n, n % 100, repeat('p', 100) from generate_series(1, {rows}) n"),
        format!(
            "insert into item select n, {rows} + 1 - n, n % 10, repeat('i', 100) from generate_series(1, {rows}) n"
        ),
        "insert into kind select n, 'kind ' || n from generate_series(0, 99) n".to_owned(),
    ];
    made.iter().for_each(|sql| drop(run(&mut world, sql).unwrap()));
    world
}

#[test]
fn joined_rows_go_from_node_to_node() {
    let mut world = filled_with_pairs(3000);
    let passed = |world: &World| world.elsewhere.as_ref().expect("other nodes").passed;
    let joined = "select item.id, part.id from item join part on part.id = item.part_id where part.v = 17 order by part.v, item.id limit 3";
    let before = passed(&world);
    let (rows, [operations, sent, bytes]) = asked(&mut world, joined);
    assert_eq!(rows, ["84|2917", "184|2817", "284|2717"]);
    // Only what comes out comes here, and notes are not among that.
    assert!(sent <= 30 && bytes < 40 * sent, "{bytes} bytes of {sent} rows");
    assert_eq!(operations, 2);
    let after = passed(&world);
    assert!(
        (1500..=3000).contains(&(after[0] - before[0])),
        "{} passed on",
        after[0] - before[0]
    );
    let three = "select count(*), min(kind.name), sum(item.n) from item join part on part.id = item.part_id
        join kind on kind.id = part.v where item.n = 3 and kind.name like '%7'";
    let (rows, [operations, sent, _]) = asked(&mut world, three);
    assert_eq!((&rows[..], operations), (&["0|NULL|NULL".to_owned()][..], 2));
    assert_eq!(sent, 0);
    let (rows, _) = asked(&mut world, &three.replace("item.n = 3", "item.n = 4"));
    assert_eq!(rows, ["300|kind 17|1200"]);
}

/// A query within an expression begins anew when it has waited, and ends all the same.
#[test]
fn joins_within_expressions_end() {
    let mut world = filled_with_pairs(300);
    let pairs = "from item join part on part.id = item.part_id where part.v = 17";
    for (sql, expected) in [
        (format!("select 1 where exists (select 1 {pairs})"), "1"),
        (format!("select (select max(item.id) {pairs})"), "284"),
        (
            format!("select array(select item.id {pairs} order by 1)"),
            "{84,184,284}",
        ),
        (format!("select 1 where 217 in (select part.id {pairs})"), "1"),
        (
            format!("select count(*) from kind k where exists (select 1 {pairs} and item.n = k.id)"),
            "1",
        ),
        (
            format!("with w as (select item.id {pairs}) select sum(id) from w"),
            "552",
        ),
    ] {
        assert_eq!(asked(&mut world, &sql).0, [expected], "{sql}");
    }
    let changed = format!("insert into kind select 1000 + item.id, 'new' {pairs}");
    asked(&mut world, &changed);
    let changed = format!(
        "update kind set name = (select max(part.note) {pairs}) where id >= 1000 and exists (select 1 {pairs})"
    );
    asked(&mut world, &changed);
    asked(
        &mut world,
        "delete from kind using item join part on part.id = item.part_id where kind.id = 1000 + item.id and part.v = 17 and item.id > 84",
    );
    assert_eq!(
        asked(
            &mut world,
            "select count(*), max(length(name)) from kind where id >= 1000"
        )
        .0,
        ["1|100"]
    );
}

/// What the transaction has changed itself is joined, and what fails is told.
#[test]
fn a_relay_join_sees_what_the_transaction_has_changed() {
    let mut world = filled_with_pairs(300);
    let transaction = world.begin();
    let mut within = |sql: &str| run_within(&mut world, transaction, sql);
    within("update part set note = 'changed' where id between 100 and 109").unwrap();
    within("delete from part where id between 105 and 300").unwrap();
    within("insert into item values (1001, 101, 0, 'new'), (1002, 3000, 0, 'of none')").unwrap();
    let joined = "select count(*), count(*) filter (where part.note = 'changed')
        from item join part on part.id = item.part_id";
    assert_eq!(within(joined).unwrap(), ["105|6"]);
    let failed = within("select count(*) from item join part on part.id = item.part_id and 10 / (part.id - 7) < 100");
    assert_eq!(failed.unwrap_err().message(), "division by zero");
    // What was asked of others has been answered by all.
    assert_eq!(within(joined).unwrap(), ["105|6"]);
    world.roll_back(transaction);
}

/// Rows that are too much for one message come in smaller rounds.
#[test]
fn a_relay_join_that_is_too_much_goes_in_smaller_rounds() {
    let mut world = filled_with_pairs(200);
    run(&mut world, "update part set note = repeat('long', 50000)").unwrap();
    let pairs = "from item join part on part.id = item.part_id";
    let of_tuples = format!("select count(distinct item.id), sum(length(part.note)) {pairs}");
    // A group for each tuple takes as much as the tuples.
    let of_groups = format!("select count(*), sum(length(note)) from (select part.note {pairs} group by part.id) s");
    for joined in [of_tuples, of_groups] {
        let (rows, [operations, ..]) = asked(&mut world, &joined);
        assert_eq!(rows, ["200|40000000"], "{joined}");
        assert!(operations > 4, "{operations} operations for {joined}");
    }
    // What is made of them takes little.
    let (rows, [operations, sent, _]) = asked(&mut world, &format!("select sum(length(part.note)) {pairs}"));
    assert_eq!((&*rows[0], operations, sent), ("40000000", 2, 0));
}

/// What has no partner goes from node to node, too, and comes when it is wanted.
#[test]
fn left_joins_go_from_node_to_node() {
    let mut world = filled_with_pairs(3000);
    run(&mut world, "delete from part where id % 10 = 0").unwrap();
    let outer = "from item left join part on part.id = item.part_id";
    let (rows, [operations, sent, bytes]) = asked(
        &mut world,
        &format!("select item.id {outer} where part.id is null and item.n = 1 order by item.n, item.id limit 2"),
    );
    assert_eq!((&rows[..], operations), (&["1".to_owned(), "11".to_owned()][..], 2));
    assert!(sent <= 300 && bytes < 40 * sent, "{bytes} bytes of {sent} tuples");
    let (rows, [operations, sent, _]) = asked(&mut world, &format!("select count(*), count(part.id) {outer}"));
    assert_eq!((&*rows[0], operations, sent), ("3000|2700", 2, 0));
}

/// Of joined tuples come groups alone, where nodes can make them.
#[test]
fn nodes_aggregate_what_they_have_joined() {
    let mut world = filled_with_pairs(3000);
    let pairs = "from item join part on part.id = item.part_id";
    let grouped = format!(
        "select part.v % 3, count(*), avg(item.n), max(part.note), sum(part.v) filter (where item.n > 5) {pairs}
         where part.v > 10 group by 1 having count(*) > 1 order by 1"
    );
    let (rows, [operations, sent, _]) = asked(&mut world, &grouped);
    assert_eq!((rows.len(), operations, sent), (3, 2, 0));
    world.elsewhere.as_mut().expect("other nodes").see(false);
    assert_eq!(asked(&mut world, &grouped).0, rows);
    // Each of several rounds brings its groups.
    let mut world = filled_with_pairs(20_000);
    let (rows, [operations, sent, _]) = asked(&mut world, &format!("select count(*), min(item.id) {pairs}"));
    assert_eq!((&*rows[0], operations, sent), ("20000|1", 8, 0));
    // What nodes cannot do for themselves is done here.
    let (rows, [_, sent, _]) = asked(
        &mut world,
        &format!("select count(distinct part.v) {pairs} where item.id <= 900"),
    );
    assert_eq!(rows, ["100"]);
    assert!((300..=900).contains(&sent), "{sent} tuples");
}

/// Orders, of which each has so many lines that begin with its number, all over three nodes.
fn filled_with_lines(orders: u32, lines: u32) -> World {
    let mut world = World::with_engine(crate::engine());
    world.elsewhere = Some(Elsewhere::by_first_number());
    let made = [
        "create table ord (id int primary key, k int, c int, note text)".to_owned(),
        "create table line (o int, n int, v int, note text, primary key (o, n))".to_owned(),
        format!("insert into ord select n, n, n % 10, repeat('o', 100) from generate_series(1, {orders}) n"),
        format!(
            "insert into line select o, n, (o + n) % 100, repeat('l', 100)
             from generate_series(1, {orders}) o, generate_series(1, {lines}) n"
        ),
    ];
    made.iter().for_each(|sql| drop(run(&mut world, sql).unwrap()));
    world
}

/// Partners by the beginning of their keys are joined where they are.
#[test]
fn rows_go_from_node_to_node_to_any_number_of_partners() {
    let mut world = filled_with_lines(1000, 10);
    let lines = "from ord join line on line.o = ord.k";
    let (rows, [operations, sent, _]) = asked(
        &mut world,
        &format!("select count(*), sum(line.v), max(line.note) {lines} where ord.c = 3"),
    );
    assert_eq!(&*rows[0], format!("1000|49500|{}", "l".repeat(100)));
    assert_eq!((operations, sent), (2, 0));
    let left = lines.replace(" join", " left join");
    let (rows, [operations, sent, bytes]) = asked(
        &mut world,
        &format!("select ord.id, line.n {left} and line.n > 9 and line.v < 50 where ord.c = 3 order by 2, 1"),
    );
    assert_eq!((rows.len(), &*rows[0], &*rows[99]), (100, "3|10", "983|NULL"));
    assert_eq!(operations, 2);
    assert!(sent <= 100 && bytes < 40 * sent, "{bytes} bytes of {sent} tuples");
    // More than one node looks at before others have their turn comes in smaller rounds.
    let mut world = filled_with_lines(50, 3000);
    let (rows, [operations, sent, _]) = asked(&mut world, &format!("select count(*), sum(line.n) {lines}"));
    assert_eq!((&*rows[0], sent), ("150000|225075000", 0));
    assert!((4..60).contains(&operations), "{operations} operations");
}

/// Few rows with very many partners do not hold up all the others, whichever nodes they are on.
#[test]
fn rows_with_few_partners_do_not_wait_for_those_with_many() {
    let mut world = filled_with_lines(1000, 2);
    let fill = "insert into line select o, n, 0, null from generate_series(5, 8) o, generate_series(11, 33010) n";
    run(&mut world, fill).unwrap();
    let lines = "from ord join line on line.o = ord.k";
    let (rows, [operations, sent, _]) = asked(&mut world, &format!("select count(*), count(distinct ord.id) {lines}"));
    assert_eq!(&*rows[0], "134000|1000");
    assert!(operations < 300 && sent > 0, "{operations} operations");
    let (rows, [operations, sent, _]) = asked(&mut world, &format!("select count(*), max(line.o) {lines}"));
    assert_eq!((&*rows[0], sent), ("134000|1000", 0));
    assert!(operations < 300, "{operations} operations");
}

/// The same of rows with any number of partners.
#[test]
fn a_relay_join_with_many_partners_spares_the_links_of_the_node_that_is_asked() {
    let joined = "select count(*), sum(line.v) from ord join line on line.o = ord.k where ord.c = 3";
    let [[questions, asked, answered], [pulled, asked_to_pull, answered_to_pull]] =
        costs_of(|| filled_with_lines(1000, 10), joined, "1000|49500");
    assert!(questions * 5 < pulled, "{questions} and {pulled} questions");
    assert!((asked + answered) * 2 < asked_to_pull + answered_to_pull);
}

/// What crosses the links of the node that was asked: messages, and about how many bytes, there and back. With rows that go from node to
/// node, and without.
fn costs_of(filled: impl Fn() -> World, joined: &str, expected: &str) -> [[u64; 3]; 2] {
    [true, false].map(|relays| {
        let mut world = filled();
        let elsewhere = world.elsewhere.as_mut().expect("other nodes");
        elsewhere.see(relays);
        let counted = |world: &World| {
            let elsewhere = world.elsewhere.as_ref().expect("other nodes");
            [elsewhere.messages, elsewhere.links[0], elsewhere.links[1]]
        };
        let before = counted(&world);
        assert_eq!(run(&mut world, joined).unwrap().0, [expected]);
        let after = counted(&world);
        let cost: [u64; 3] = std::array::from_fn(|place| after[place] - before[place]);
        println!("relays: {relays}, questions, bytes asked and bytes answered: {cost:?}");
        cost
    })
}

#[test]
fn a_relay_join_spares_the_links_of_the_node_that_is_asked() {
    let joined = "select count(*), sum(part.v) from item join part on part.id = item.part_id where part.v = 17";
    let costs = costs_of(|| filled_with_pairs(10_000), joined, "100|1700");
    let [[questions, ..], [pulled, ..]] = costs;
    assert!(questions * 5 < pulled, "{costs:?}");
    let bytes = costs.map(|[_, asked, answered]| asked + answered);
    assert!(bytes[0] * 2 < bytes[1], "{costs:?}");
}
