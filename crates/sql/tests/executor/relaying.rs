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
    [None, Some(Elsewhere::new())].map(|elsewhere| {
        let mut world = World::with_engine(crate::engine());
        world.elsewhere = elsewhere;
        TABLES.iter().for_each(|sql| drop(run(&mut world, sql).unwrap()));
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
