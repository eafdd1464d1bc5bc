//! Joins that go from node to node, beside the same ones over tables that lie on one node.

use crate::elsewhere::Elsewhere;
use crate::scripts::{run, run_within};
use crate::world::World;

/// Tables of which some rows have no partner, name none, or name what there cannot be.
const TABLES: [&str; 8] = [
    "create table item (id int primary key, part_id bigint, n int, amount numeric, kind_name text, note text)",
    "create table part (id int primary key, kind text, v int, price numeric(10, 2))",
    "create table kind (name text primary key, rank smallint, part_id int)",
    "create table none (id int primary key, v int)",
    "insert into part select n, nullif('k' || n % 7, 'k3'), nullif(n % 10, 4), n * 0.75 from generate_series(1, 150) n",
    "insert into kind select 'k' || n, n % 3, n * 20 from generate_series(0, 4) n",
    "insert into item select n, case when n % 9 <> 0 then n * 7 % 190 end, n % 6, n * 1.5,
        case when n % 5 <> 0 then 'k' || n % 8 end, repeat('i', n % 4) from generate_series(1, 400) n",
    "insert into item values (1001, 3000000000, 1, 1, 'none', null), (1002, -1, null, null, null, null)",
];

const PAIRS: &str = "from item i join part p on p.id = i.part_id";

/// The same tables on one node, and with each row on one of three.
fn worlds(rows_left: usize) -> [World; 2] {
    worlds_with(&TABLES, Elsewhere::new(), rows_left)
}

fn worlds_with(tables: &[&str], elsewhere: Elsewhere, rows_left: usize) -> [World; 2] {
    [None, Some(elsewhere)].map(|elsewhere| {
        let mut world = World::with_engine(crate::engine());
        world.elsewhere = elsewhere;
        tables.iter().for_each(|sql| drop(run(&mut world, sql).unwrap()));
        world.rows_left = rows_left;
        world
    })
}

/// Tuples that have come from other nodes.
fn sent(world: &World) -> u64 {
    world.elsewhere.as_ref().expect("other nodes").counts()[1]
}

/// Asks both, in a transaction that has changed something or not: the answers are the same, and as many tuples come as are said to.
fn compare(changes: &[&str], queries: &[(String, Option<u64>)]) {
    compare_over(&worlds, changes, queries);
}

fn compare_over(worlds: &dyn Fn(usize) -> [World; 2], changes: &[&str], queries: &[(String, Option<u64>)]) {
    for rows_left in [usize::MAX, 3] {
        let [mut alone, mut world] = worlds(rows_left);
        let transactions = [&mut alone, &mut world].map(|world| {
            let transaction = world.begin();
            for change in changes {
                run_within(world, transaction, change).unwrap();
            }
            transaction
        });
        for (sql, tuples) in queries {
            let before = sent(&world);
            let given = run_within(&mut world, transactions[1], sql).map_err(|error| error.message().to_owned());
            let come = sent(&world) - before;
            let expected = run_within(&mut alone, transactions[0], sql).map_err(|error| error.message().to_owned());
            assert_eq!(given, expected, "{sql}");
            if let Some(tuples) = tuples {
                assert!(come <= *tuples, "{come} tuples for {sql}");
            }
        }
        alone.roll_back(transactions[0]);
        world.roll_back(transactions[1]);
    }
}

/// Aggregates over joins of which only groups come.
fn aggregates() -> Vec<(String, Option<u64>)> {
    let of_pairs = [
        (
            "count(*), count(p.v), sum(p.v), avg(p.v), avg(p.price), min(p.kind), max(i.note)",
            "",
        ),
        (
            "p.kind, count(*), avg(i.n), avg(i.amount), sum(i.amount)",
            "group by p.kind order by p.kind",
        ),
        (
            "i.amount % 4, bool_and(p.v > 2), bool_or(p.v > 8)",
            "group by 1 order by 1 desc",
        ),
        (
            "p.kind, p.v, count(*)",
            "where i.n > 2 group by 1, 2 having sum(i.n) > 6 order by 3, 1, 2 limit 9",
        ),
        (
            "p.v, count(*) filter (where i.kind_name = p.kind), sum(p.price) filter (where i.note is null or p.v is null)",
            "group by p.v order by 1 nulls first",
        ),
        ("bit_and(p.v), bit_or(i.n), bit_xor(p.id)", "where p.price > 20.5"),
        ("count(*), sum(p.v)", "where p.id = i.n"),
        ("i.kind_name, max(length(i.note))", "where p.id < 0 group by 1"),
        ("count(*), sum(p.v), max(p.kind)", "where p.id < 0"),
        (
            "count(*), max(k.rank)",
            "join kind k on k.name = p.kind where k.rank + p.v > 3",
        ),
        (
            "k.rank, avg(q.v), count(q.kind)",
            "join kind k on k.name = p.kind join part q on q.id = k.part_id group by 1 order by 1",
        ),
        ("count(*), sum(o.v)", "join none o on o.id = p.v"),
    ];
    let shown = of_pairs.map(|(shown, rest)| format!("select {shown} {PAIRS} {rest}"));
    let nested = format!("select count(*), sum(c) from (select p.v, count(*) c {PAIRS} group by p.v) g where c > 20");
    shown.into_iter().chain([nested]).map(|sql| (sql, Some(0))).collect()
}

#[test]
fn groups_of_joined_tuples_are_those_of_one_node() {
    compare(&[], &aggregates());
}

#[test]
fn groups_have_what_the_transaction_has_changed() {
    let changes = [
        "update part set kind = 'k1', v = v + 1 where id between 20 and 60",
        "delete from part where id % 11 = 0",
        "insert into part values (180, 'new', 7, 7.5), (181, null, null, null)",
        "update item set part_id = 180 where n = 2 and id < 50",
        "insert into item select 2000 + n, 181, n, n, 'k1', 'own' from generate_series(1, 20) n",
        "insert into none select n, n from generate_series(1, 5) n",
        "delete from kind where rank = 1",
    ];
    compare(&changes, &aggregates());
}

/// Left joins, of which tuples come or groups; how many at most.
fn left_joins() -> Vec<(String, Option<u64>)> {
    let outer = "from item i left join part p on p.id = i.part_id";
    let tuples = [
        ("i.id, p.id, p.kind, p.v", "order by i.id", 402),
        (
            "i.id, p.id, p.v",
            "and p.v > 5 and i.n < 3 where i.id % 4 = 1 order by i.id",
            101,
        ),
        ("i.id, p.v", "where p.v is null and i.n > 1 order by i.id", 200),
        ("i.id, p.id", "where coalesce(p.v, 100) > 8 order by i.id", 200),
        ("i.id", "where p.id is null order by 1", 150),
        (
            "i.id, o.v, p.v",
            "left join none o on o.id = p.v where i.id < 50 order by 1",
            50,
        ),
        // Keys of later steps that come from what is not there.
        (
            "i.id, p.id, k.rank",
            "left join kind k on k.name = p.kind where i.id < 100 order by 1",
            100,
        ),
        (
            "i.id, k.rank, q.v",
            "left join kind k on k.name = p.kind left join part q on q.id = k.part_id order by 1",
            402,
        ),
        (
            "i.id, k.name",
            "join kind k on k.name = p.kind where i.id < 100 order by 1",
            100,
        ),
        (
            "i.id, p.v, k.rank",
            "left join kind k on k.name = i.kind_name and p.v > 3 where k.rank = 1 or p.v is null order by 1",
            402,
        ),
        (
            "i.id, k.rank",
            "join kind k on k.name = i.kind_name where p.id is null order by 1",
            402,
        ),
    ];
    let groups = [
        ("count(*), count(p.id), sum(p.v), count(i.part_id)", ""),
        ("p.kind, count(*), avg(p.v)", "group by p.kind order by 1"),
        (
            "k.rank, count(*), count(p.id), sum(i.amount)",
            "left join kind k on k.name = p.kind group by 1 order by 1",
        ),
        (
            "count(*) filter (where p.id is null), max(o.v)",
            "left join none o on o.id = p.id",
        ),
        (
            "i.n, count(p.v)",
            "and p.price < 50 where i.id > 100 and (p.kind = 'k1' or p.kind is null) group by 1 having count(*) > 1 order by 1",
        ),
        ("count(*), sum(10 / (p.id - 151))", ""),
        ("sum(10 / (p.id - 7))", ""),
        ("sum(10 / (coalesce(p.id, 7) - 7))", "where i.part_id is null"),
        ("sum(10 / coalesce(p.id, 1))", "where i.part_id is null or p.id > 7"),
    ];
    let tuples = tuples.map(|(shown, rest, most)| (format!("select {shown} {outer} {rest}"), Some(most)));
    let groups = groups.map(|(shown, rest)| (format!("select {shown} {outer} {rest}"), Some(0)));
    let empty = "select o.id, p.id from none o left join part p on p.id = o.v order by 1, 2".to_owned();
    tuples.into_iter().chain(groups).chain([(empty, None)]).collect()
}

#[test]
fn what_has_no_partner_comes_once_with_nulls() {
    compare(&[], &left_joins());
    let changes = [
        "delete from part where id % 3 = 0",
        "update item set part_id = null where n = 3",
        "update part set kind = 'k9' where id between 40 and 90",
        "insert into none values (1, 1), (2, 500), (3, null)",
        "insert into part values (188, 'k1', 1, 1)",
    ];
    compare(&changes, &left_joins());
}

/// What fails for a tuple fails, and what would fail for one that is not joined, or not of the group, does not.
#[test]
fn errors_in_aggregates_are_told_as_on_one_node() {
    let of_pairs = [
        "sum(100 / (p.id - 7))",
        "count(*) filter (where 10 / (p.id - 7) > 0)",
        "10 / (p.id - 7), count(*)",
        // Item 9 names no part, and item 1001 one that there is not.
        "sum(100 / (i.id - 9))",
        "sum(100 / (i.id - 1001))",
        "sum(100 / (p.id - 7)) filter (where p.id > 7)",
        "max(10 / (i.n - 3)) filter (where i.n < 3)",
    ];
    let grouped = |shown: &str| {
        if shown.ends_with("count(*)") {
            " group by 1 order by 1"
        } else {
            ""
        }
    };
    let queries = of_pairs.map(|shown| (format!("select {shown} {PAIRS}{}", grouped(shown)), Some(0)));
    let [mut alone, _] = worlds(usize::MAX);
    let fails = queries.each_ref().map(|(sql, _)| run(&mut alone, sql).is_err());
    assert_eq!(fails, [true, true, true, false, false, false, false]);
    compare(&[], &queries);
    let changes = [
        "delete from part where id = 7",
        "insert into part values (190, null, null, null)",
    ];
    compare(&changes, &queries);
}

/// Tables whose rows are reached by the beginnings of their keys.
const LINES: [&str; 10] = [
    "create table ord (w int, d int, o int, c bigint, note text, primary key (w, d, o))",
    "create table line (w int, d int, o smallint, n int, item_id bigint, amount numeric, note text, primary key (w, d, o, n))",
    "create table stock (id int primary key, v int, kind text)",
    "create table mark (w int, place int, v int, primary key (w, place))",
    "create table few (id int primary key, w int, d bigint)",
    "insert into ord select w, d, o, (w * 7 + d + o) % 9, repeat('o', o % 3)
        from generate_series(1, 6) w, generate_series(1, 3) d, generate_series(1, 5) o",
    "insert into line select w, d, o, n, (w * 31 + d * 7 + o * 3 + n) % 50, n * 1.5, nullif('l' || n % 3, 'l1')
        from generate_series(1, 7) w, generate_series(1, 3) d, generate_series(1, 6) o, generate_series(1, 9) n
        where n <= (w + d * 2 + o * 5) % 10",
    "insert into stock select n, nullif(n % 7, 3), 'k' || n % 4 from generate_series(1, 45) n",
    "insert into mark select w, p, w * p from generate_series(1, 8) w, generate_series(1, 4) p where p < w",
    "insert into few select n, nullif(n % 10, 3), case n % 5 when 0 then null when 1 then 3000000000 else n % 5 - 1 end
        from generate_series(1, 60) n",
];

fn worlds_of_lines(rows_left: usize) -> [World; 2] {
    worlds_with(&LINES, Elsewhere::by_first_number(), rows_left)
}

const OF_ORDER: &str = "join line l on l.w = o.w and l.d = o.d and l.o = o.o";

/// Joins of rows that may have any number of partners.
fn of_beginnings() -> Vec<(String, Option<u64>)> {
    let from = "from ord o";
    let groups = [
        format!("select count(*), sum(l.n), min(l.note), max(l.amount) {from} {OF_ORDER}"),
        format!("select o.c, count(*), sum(l.amount), count(l.note) {from} {OF_ORDER} where l.n > 2 group by 1 order by 1"),
        format!("select o.w, count(*) filter (where l.n = 4) {from} {OF_ORDER} group by 1 having count(*) > 40 order by 1"),
        format!("select count(*), sum(l.n), count(l.o) {from} left {OF_ORDER} and l.n > 5"),
        format!("select l.n, count(*), sum(o.c) {from} left {OF_ORDER} where o.o > 2 group by 1 order by 1"),
        format!("select count(*), sum(o.c) {from} left {OF_ORDER} where l.n is null"),
        format!("select count(*), sum(s.v), count(s.kind) {from} {OF_ORDER} join stock s on s.id = l.item_id"),
        format!("select s.kind, count(*), sum(l.n) {from} left {OF_ORDER} left join stock s on s.id = l.item_id group by 1 order by 1"),
        format!("select s.kind, count(*), sum(m.v) {from} {OF_ORDER} join stock s on s.id = l.item_id join mark m on m.w = s.v
            group by 1 order by 1"),
        "select count(*), sum(l.n), sum(m.v) from few f join line l on l.w = f.w and l.d = f.d join mark m on m.w = l.n".to_owned(),
        "select f.d, count(*), count(l.n), sum(m.v) from few f left join line l on l.w = f.w and l.d = f.d and l.n > f.id % 9
            left join mark m on m.w = l.n and m.v > 6 group by 1 order by 1".to_owned(),
        "select count(*), sum(l.n), sum(m.place) from stock s left join line l on l.w = s.v left join mark m on m.w = l.w
            where s.id < 30 and (m.v > 10 or m.v is null)".to_owned(),
        "select count(*), count(m.v), sum(l.n) from few f join mark m on m.w = f.w and m.v > f.id
            join line l on l.w = m.place and l.d = 2".to_owned(),
        "select count(*), sum(m.v) from few f left join mark m on m.w = 4".to_owned(),
        "select count(*) from few f left join line l on l.w = f.w and l.d = 77".to_owned(),
    ];
    let tuples = [
        (
            format!("select o.w, o.d, o.o, l.n {from} {OF_ORDER} where l.n > 6 order by 4, 1, 2, 3"),
            200,
        ),
        (
            format!("select o.w, o.d, o.o, l.n {from} left {OF_ORDER} and l.n > 6 where o.c < 5 order by 4, 1, 2, 3"),
            200,
        ),
        (
            "select f.id, l.d, l.o, l.n, m.v from few f left join line l on l.w = f.w and l.d = f.d and l.n > 7
            left join mark m on m.w = l.n order by 5, 4, 3, 2, 1"
                .to_owned(),
            800,
        ),
        (
            "select f.id, m.v from few f left join mark m on m.w = f.w where f.id < 40 order by 2, 1".to_owned(),
            140,
        ),
    ];
    let groups = groups.into_iter().map(|sql| (sql, Some(0)));
    groups
        .chain(tuples.into_iter().map(|(sql, most)| (sql, Some(most))))
        .collect()
}

#[test]
fn partners_by_the_beginning_of_their_keys_are_those_of_one_node() {
    compare_over(&worlds_of_lines, &[], &of_beginnings());
}

#[test]
fn partners_by_the_beginning_of_their_keys_are_what_the_transaction_has_made_of_them() {
    let changes = [
        "delete from line where n = 2 or w = 3",
        "insert into line select 1, 1, 1, n, n, n, 'own' from generate_series(20, 60) n",
        "update line set amount = amount + 100, note = null where n > 6",
        "insert into mark values (1, 9, 9), (2, 9, null), (9, 1, 1)",
        "delete from mark where w = 5",
        "insert into ord values (9, 9, 9, 9, 'without'), (7, 1, 6, 1, 'with')",
        "update few set d = 1 where id % 7 = 0",
        "insert into few values (100, 9, 1), (101, null, null), (102, 1, 1)",
    ];
    compare_over(&worlds_of_lines, &changes, &of_beginnings());
}

#[test]
fn errors_among_several_partners_are_told_as_on_one_node() {
    let queries = [
        "select count(*), sum(10 / (l.n - 4)) from ord o join line l on l.w = o.w and l.d = o.d and l.o = o.o",
        "select count(*) from ord o join line l on l.w = o.w and l.d = o.d and l.o = o.o and 10 / (l.n - 4) > 1",
        "select count(*) from ord o left join line l on l.w = o.w and l.d = o.d and l.o = o.o where 10 / (coalesce(l.n, 4) - 4) > 1",
        "select count(*), sum(10 / (l.n - 4)) from ord o join line l on l.w = o.w and l.d = o.d and l.o = o.o where l.n > 4",
        "select count(*), sum(10 / (l.w - 7)) from ord o join line l on l.w = o.w and l.d = o.d and l.o = o.o",
    ];
    let [mut alone, _] = worlds_of_lines(usize::MAX);
    let fails = queries.map(|sql| run(&mut alone, sql).is_err());
    assert_eq!(fails, [true, true, true, false, false]);
    compare_over(&worlds_of_lines, &[], &queries.map(|sql| (sql.to_owned(), Some(0))));
}

/// A row with more partners than there is room for is joined a part of them at a time, of which each may again have too many.
#[test]
fn a_row_may_have_very_many_partners() {
    let tables = [
        "create table root (id int primary key, k int)",
        "create table branch (k int, n int, leaf int, note text, primary key (k, n))",
        "create table leaf (leaf int, n int, v int, note text, primary key (leaf, n))",
        "insert into root select n, n from generate_series(1, 40) n",
        // Those of 3 are very many, and those of 5 are much; the others have few, or none.
        "insert into branch select 3, n, n % 50, null from generate_series(1, 40000) n",
        "insert into branch select 5, n, n % 50, repeat('much', 60000) from generate_series(1, 30) n",
        "insert into branch select k, n, k, 'few' from generate_series(6, 38) k, generate_series(1, 4) n where n <= k % 5",
        "insert into leaf select 7, n, n, repeat('leaf', 20) from generate_series(1, 1000) n",
        "insert into leaf select l, n, n, repeat('much', 50000) from generate_series(8, 9) l, generate_series(1, 25) n",
        "insert into leaf select l, 1, 1, 'one' from generate_series(20, 49) l",
    ];
    let [mut alone, mut world] = worlds_with(&tables, Elsewhere::by_first_number(), usize::MAX);
    let joined = "from root r join branch b on b.k = r.k";
    let left = joined.replace(" join", " left join");
    let queries = [
        (format!("select count(*), sum(b.n), sum(length(b.note)) {joined}"), true),
        (format!("select b.k, count(*), max(b.note) {left} group by 1 order by 1"), true),
        (format!("select count(*), count(b.k), sum(r.id) {left} and b.n > 39999"), true),
        (format!("select count(*), count(b.k), sum(r.id) {left} and b.n < 2"), true),
        (format!("select count(*), count(b.k), sum(r.id) {left} and b.n = 20000 where b.n is null or b.leaf = 1"), true),
        (format!("select count(*), sum(l.v), sum(length(l.note)) {joined} join leaf l on l.leaf = b.leaf where b.n % 100 = 7 or r.k > 3"), true),
        (format!("select r.k, count(*), count(l.v), sum(length(l.note)) {left} left join leaf l on l.leaf = b.leaf and l.n > 20
            where r.k > 3 or b.n < 100 group by 1 order by 1"), true),
        // Of the parts of a row's partners only the first, only the last, or none has one that ON lets through.
        (format!("select r.k, count(*), count(b.k) {left} and b.n + 0 < 2 group by 1 order by 1"), true),
        (format!("select r.k, count(*), count(b.k) {left} and b.n + 0 > 39999 group by 1 order by 1"), true),
        (format!("select r.k, count(*), count(b.k) {left} and b.n + 0 < 0 group by 1 order by 1"), true),
        (format!("select r.k, count(*), count(b.k) {left} and b.n + 0 < 2 where b.n is null or b.n > 7 group by 1 order by 1"), true),
        // Tuples: of those of 5 all that there is comes.
        (format!("select r.id, b.n, b.note {joined} where r.k <> 3 order by 2, 1"), false),
        (format!("select r.id, b.n, l.n, length(l.note), l.note {left} left join leaf l on l.leaf = b.leaf where r.k = 8 or r.k = 9 order by 3, 2, 1"), false),
        // Here a row without a partner of the second table has too many of the third.
        (format!("select r.id, b.n, l.n, l.note {left} and b.n < 2 left join leaf l on l.leaf = 9 where r.k > 36 order by 3, 2, 1"), false),
        (format!("select r.id, b.n {joined} where b.n % 1000 = 5 order by 2, 1"), false),
    ];
    for (sql, are_groups) in queries {
        let before = sent(&world);
        let expected = run(&mut alone, &sql).unwrap().0;
        // They are too long to be shown.
        assert!(run(&mut world, &sql).unwrap().0 == expected, "{sql}");
        let come = sent(&world) - before;
        // What comes in a round that is too much for another node comes again.
        let most = if are_groups { 0 } else { 10 * expected.len() as u64 };
        assert!(come <= most, "{come} tuples for {sql}");
    }
}

/// Tables whose rows an index leads to: on another node than the row itself lies.
const KENNELS: [&str; 12] = [
    "create table own (id int primary key, k int, c bigint, name text)",
    "create table dog (id int primary key, k int, v int, note text)",
    "create index on dog (k, v)",
    "create table code (id int primary key, n int unique, note text)",
    "create table loose (a int, b int)",
    "create index on loose (a)",
    "create table part_of (k int, n int, v int, primary key (k, n))",
    "insert into own select n, nullif(n % 20, 7), case n % 9 when 1 then 3000000000 when 2 then null else n % 9 end, 'own ' || n % 3
        from generate_series(1, 80) n",
    "insert into dog select n, nullif(n * 7 % 25, 3), nullif(n % 8, 5), nullif('dog ' || n % 4, 'dog 2') from generate_series(1, 150) n",
    "insert into code select n, nullif(n * 2, 8), 'code ' || n from generate_series(1, 15) n",
    "insert into loose select nullif(n % 6, 2), n from generate_series(1, 40) n",
    "insert into part_of select k, n, k * n from generate_series(0, 10) k, generate_series(1, 3) n where n <= k % 4",
];

fn worlds_of_kennels(rows_left: usize) -> [World; 2] {
    worlds_with(&KENNELS, Elsewhere::by_first_number(), rows_left)
}

fn by_index() -> Vec<(String, Option<u64>)> {
    let from = "from own o";
    let groups = [
        "join dog d on d.k = o.k",
        "join dog d on d.k = o.c",
        "join dog d on d.k = o.k and d.v > o.c",
        "join dog d on d.k = o.k and d.v between 2 and 6 and d.note is not null where o.id > 5",
        "join dog d on d.k = o.k and d.v = o.c",
        "left join dog d on d.k = o.k",
        "left join dog d on d.k = o.k and d.v > 4",
        "left join dog d on d.k = o.k where d.v is null or d.note = 'dog 1'",
        "left join dog d on d.k = 77",
        "join code d on d.n = o.k",
        "left join code d on d.n = o.c",
        "left join code d on d.n = o.k where d.id is null",
        "join dog d on d.k = o.k join code e on e.n = d.v",
        "left join dog d on d.k = o.k left join code e on e.n = d.v where e.id is null or e.id > 1",
        "join dog d on d.k = o.k join part_of p on p.k = d.v and p.n > 1",
        "left join part_of p on p.k = o.c left join dog d on d.k = p.v",
        "join dog d on d.k = o.k join own e on e.id = d.v",
    ];
    let grouped = groups.map(|joins| {
        format!("select o.name, count(*), count(d.id), sum(d.id), max(d.note) {from} {joins} group by 1 order by 1")
    });
    let loose = [
        format!("select count(*), count(l.b), sum(l.b) {from} join loose l on l.a = o.k"),
        format!("select count(*), count(l.b), sum(l.b) {from} left join loose l on l.a = o.c where o.id < 40"),
    ];
    let tuples = [
        (
            format!("select o.id, d.id, d.note {from} join dog d on d.k = o.k and d.v < 3 order by 2, 1"),
            300,
        ),
        (
            format!("select o.id, d.id, d.v {from} left join dog d on d.k = o.k where o.name = 'own 1' order by 2, 1"),
            300,
        ),
    ];
    // What the row has to say decides whether a left join has a partner: that goes the other way.
    let other = format!("select count(*), count(d.id) {from} left join dog d on d.k = o.k and d.note = 'dog 1'");
    let groups = grouped.into_iter().chain(loose).map(|sql| (sql, Some(0)));
    let tuples = tuples.into_iter().map(|(sql, most)| (sql, Some(most)));
    groups.chain(tuples).chain([(other, None)]).collect()
}

#[test]
fn partners_by_an_index_are_those_of_one_node() {
    compare_over(&worlds_of_kennels, &[], &by_index());
    let changes = [
        "update dog set k = 6 where k = 9",
        "update dog set v = v + 1 where id % 5 = 0",
        "delete from dog where id % 7 = 0",
        "insert into dog select 1000 + n, n % 4, 9, 'new' from generate_series(1, 30) n",
        "update code set n = 7 where id = 4",
        "delete from loose where b % 3 = 0",
        "insert into loose values (3, 100), (null, 101)",
        "update own set k = 3 where id % 10 = 0",
        "insert into own values (200, 1, 4, 'more'), (201, null, null, null)",
    ];
    compare_over(&worlds_of_kennels, &changes, &by_index());
}

#[test]
fn very_many_partners_by_an_index_come_a_part_at_a_time() {
    let tables = [
        "create table root (id int primary key, k int)",
        "create table leaf (id int primary key, k int, note text)",
        "create index on leaf (k)",
        "insert into root select n, n from generate_series(1, 6) n",
        "insert into leaf select n, 3, null from generate_series(1, 40000) n",
        "insert into leaf select 50000 + n, 4 + n % 2, repeat('much', 50000) from generate_series(1, 60) n",
    ];
    let [mut alone, mut world] = worlds_with(&tables, Elsewhere::by_first_number(), usize::MAX);
    for (sql, are_groups) in [
        (
            "select r.k, count(*), sum(l.id), sum(length(l.note)) from root r left join leaf l on l.k = r.k group by 1 order by 1",
            true,
        ),
        (
            "select l.id, r.id, l.note from root r left join leaf l on l.k = r.k where r.k > 3 order by 1",
            false,
        ),
        (
            "select count(*), sum(a.id + b.id) from root r join leaf a on a.k = r.k join leaf b on b.k = r.k + 1 where r.k + 0 = 4",
            true,
        ),
    ] {
        let before = sent(&world);
        let expected = run(&mut alone, sql).unwrap().0;
        assert!(run(&mut world, sql).unwrap().0 == expected, "{sql}");
        let come = sent(&world) - before;
        let most = if are_groups { 0 } else { 10 * expected.len() as u64 };
        assert!(come <= most, "{come} tuples for {sql}");
    }
}

/// A large table refers to a smaller one that few rows are wanted of: only these rows are passed on, to those that refer to them.
#[test]
fn tables_are_joined_in_the_order_of_their_sizes() {
    let made = [
        "create table ord (id int primary key, c int, note text)",
        "create table line (o int, n int, v int, part_id int, primary key (o, n))",
        "create table part (id int primary key, name text)",
        "insert into ord select n, n % 10, repeat('o', 10) from generate_series(1, 2000) n",
        "insert into line select o, n, (o + n) % 100, (o * n) % 50 from generate_series(1, 2000) o, generate_series(1, 10) n",
        "insert into part select n, 'part ' || n from generate_series(0, 49) n",
    ];
    let lines =
        "from line join ord on ord.id = line.o left join part on part.id = line.part_id and part.name <> 'part 7'";
    let queries = [
        format!("select count(*), sum(line.v), min(part.name) {lines} where ord.c = 3"),
        format!("select ord.id, line.n, part.name, line.v {lines} where ord.c = 3 and ord.id < 50 order by 1, 2"),
        format!(
            "select part.name, count(*), max(ord.note) {lines} where ord.c = 3 and line.n > 8 group by 1 order by 2 desc, 1"
        ),
    ];
    for rows_left in [usize::MAX, 300] {
        let [mut alone, mut world] = worlds_with(&made, Elsewhere::by_first_number(), rows_left);
        for sql in &queries {
            let passed = |world: &World| world.elsewhere.as_ref().expect("other nodes").passed[0];
            let before = passed(&world);
            let given = run(&mut world, sql).unwrap();
            let passed_on = passed(&world) - before;
            assert_eq!(given, run(&mut alone, sql).unwrap(), "{sql}");
            assert!(passed_on < 5_000, "{passed_on} tuples were passed on for {sql}");
        }
    }
}
