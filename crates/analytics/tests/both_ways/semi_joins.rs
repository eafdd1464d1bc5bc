//! What of a join's second side comes from other nodes: rows that have a partner on the first one, where no other are wanted.

use crate::elsewhere::Elsewhere;
use crate::scripts::{run, run_within};
use crate::world::World;
use rubato_analytics::DataFusion;
use rubato_base::{Error, Result};
use rubato_sql::analytics::{Engine, Run, Setting, Tree};
use std::cell::RefCell;

/// A table of so many rows of 120 bytes or more, and one of `few` that name a `v` and a `word` of the first, which no key leads to.
fn fill(world: &mut World, (few, many): (u32, u32)) {
    let made = [
        "create table t (id int primary key, v int, word text, note text)".to_owned(),
        format!(
            "insert into t select n, nullif(n % 100, 50), 'word ' || n % 100, repeat('x', 100)
            from generate_series(1, {many}) n"
        ),
        "create table few (id int primary key, wanted bigint, price numeric(10,2), word text)".to_owned(),
        format!("insert into few select n, n % 5, n % 5, 'word ' || n % 5 from generate_series(1, {few}) n"),
        "insert into few values (0, null, null, null)".to_owned(),
        "create table third (id int primary key, v smallint, few_id int)".to_owned(),
        "insert into third select n, n % 20, n from generate_series(1, 40) n".to_owned(),
    ];
    made.iter().for_each(|sql| drop(run(world, sql).unwrap()));
}

/// One node, or three with every row on one of them at random.
fn filled(rows: (u32, u32), is_over_nodes: bool) -> World {
    let mut world = World::with_engine(crate::engine());
    world.elsewhere = is_over_nodes.then(Elsewhere::new);
    fill(&mut world, rows);
    world
}

/// What a query gives on three nodes, and how many rows came for it. It is what one node gives.
fn asked(worlds: &mut [World; 2], sql: &str) -> (Vec<String>, u64) {
    let [one, three] = worlds;
    let sent = |world: &World| world.elsewhere.as_ref().expect("other nodes").counts()[1];
    let before = sent(three);
    let (rows, _) = run(three, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    assert_eq!(rows, run(one, sql).unwrap().0, "{sql}");
    let sent = sent(three) - before;
    println!("{sent} rows came for {sql}");
    (rows, sent)
}

fn worlds(few: u32, many: u32) -> [World; 2] {
    [false, true].map(|is_over_nodes| filled((few, many), is_over_nodes))
}

/// Rows of `t` that have one of the five values of `few`, and all rows of the other tables: at most so many come.
const FEW_COME: u64 = 150 + 11 + 40;

#[test]
fn rows_without_a_partner_stay_where_they_are() {
    let mut worlds = worlds(10, 3000);
    for sql in [
        "select few.id, t.id from few join t on t.v = few.wanted order by 1, 2",
        "select count(*), sum(t.id) from t join few on t.word = few.word",
        "select count(*), sum(t.id) from t join few on t.v = few.price",
        "select count(*), sum(t.id) from t join few on t.v = few.wanted and t.word = few.word",
        "select count(*), sum(t.id) from t join few on t.v = few.wanted and t.id > few.id * 100",
        "select count(*), sum(t.id) from t join few on t.v = few.wanted where t.id between 100 and 2000 and t.word like 'w%'",
        "select few.id, count(t.id) from few left join t on t.v = few.wanted and t.id > 7 group by 1 order by 1",
        "select few.id, count(t.id) from t right join few on t.v = few.wanted group by 1 order by 1",
        "select count(*), sum(id) from few where exists (select 1 from t where t.v = few.wanted)",
        "select count(*), sum(id) from few where exists (select 1 from t where t.v = few.wanted and t.id > few.id + 900)",
        "select count(*), sum(id) from t where exists (select 1 from few where t.v = few.wanted)",
        "select count(*), sum(id) from t where v in (select wanted from few)",
        "select count(*), sum(id) from few where not exists (select 1 from t where t.v = few.wanted)",
        "select count(*), sum(id) from few where not exists (select 1 from t where t.v = few.wanted and t.id > few.id + 2990)",
        "select few.id, t.id from few join t on t.v = few.wanted order by 1, 2 limit 3",
        // A leaf of a join that is itself the second side, and of a query in FROM.
        "select count(*), sum(t.id) from few join t on t.v = few.wanted join third on third.v = t.v",
        "select count(*), sum(j.id) from few join (select t.id, t.v from t left join third on third.v = t.v) j on j.v = few.wanted",
        "select count(*), sum(j.id) from few join (select t.id, t.v from t where not exists (select 1 from third where third.id = t.id)) j on j.v = few.wanted",
    ] {
        let (rows, sent) = asked(&mut worlds, sql);
        assert!(!rows.is_empty() && sent <= FEW_COME, "{sent} rows for {sql}");
    }
    // None has a partner, or there is no row on the first side.
    for sql in [
        "select count(*) from few join t on t.v = few.wanted where few.id = 0",
        "select count(*) from few join t on t.v = few.wanted where few.id > 100 and few.word like '%'",
    ] {
        let (rows, sent) = asked(&mut worlds, sql);
        assert_eq!((&*rows[0], sent), ("0", 0), "{sql}");
    }
}

/// Where rows without a partner are wanted, all come.
#[test]
fn rows_that_are_wanted_without_a_partner_come() {
    let mut worlds = worlds(10, 3000);
    for (sql, expected) in [
        (
            "select count(*), count(few.id) from t left join few on t.v = few.wanted",
            "3150|300",
        ),
        (
            "select count(*), count(few.id) from few right join t on t.v = few.wanted",
            "3150|300",
        ),
        (
            "select count(*), count(few.id), count(t.id) from t full join few on t.v = few.wanted",
            "3151|301|3150",
        ),
        (
            "select count(*) from t where not exists (select 1 from few where t.v = few.wanted)",
            "2850",
        ),
        (
            "select count(*) from t where v not in (select wanted from few where wanted is not null)",
            "2820",
        ),
        // What is made of rows depends on others.
        (
            "select count(*), sum(j.n) from few join (select v, count(*) n from t group by v) j on j.v = few.wanted",
            "10|300",
        ),
        (
            "select count(*), sum(j.id) from few join (select distinct on (v % 2) id, v from t where id > 102 order by v % 2, id) j on j.v = few.wanted",
            "4|414",
        ),
        (
            "select count(*), max(j.r) from few join (select id, v, rank() over (order by id) r from t) j on j.v = few.wanted",
            "300|3000",
        ),
    ] {
        let (rows, sent) = asked(&mut worlds, sql);
        assert_eq!(rows, [expected], "{sql}");
        assert!(sent > 1500 || sql.contains("group by v"), "{sent} rows for {sql}");
    }
}

/// Values that are many, or long, stay here, and so do those that are equal with rounding.
#[test]
fn values_beyond_the_bounds_do_not_go_along() {
    let mut worlds = worlds(5000, 9000);
    for (range, goes_along) in [("1 and 4096", true), ("0 and 4096", false)] {
        let joined = format!(
            "select count(*), count(distinct t.v) from few join t on t.v = few.wanted where few.id between {range}"
        );
        let (rows, sent) = asked(&mut worlds, &joined);
        assert_eq!(rows, ["368640|5"]);
        assert_eq!(sent < 4096 + 450, goes_along, "{sent} rows");
    }
    for world in &mut worlds {
        let made = [
            "create table long (id int primary key, word text, f float8)",
            "insert into long select n, 'word ' || n || repeat('y', 1000), n from generate_series(1, 100) n",
        ];
        made.iter().for_each(|sql| drop(run(world, sql).unwrap()));
    }
    for (sql, expected, goes_along) in [
        (
            "select count(*) from long join t on t.word = long.word where long.id <= 60",
            "0",
            true,
        ),
        ("select count(*) from long join t on t.word = long.word", "0", false),
        (
            "select count(*) from long join t on t.v::float8 = long.f where long.id < 4",
            "270",
            false,
        ),
    ] {
        let (rows, sent) = asked(&mut worlds, sql);
        assert_eq!(rows, [expected], "{sql}");
        assert_eq!(sent < 450, goes_along, "{sent} rows for {sql}");
    }
}

/// What fails for a row does so whether it has a partner or not, as if all rows were here. Some of these rows lie on other nodes.
#[test]
fn errors_are_told_of_rows_without_a_partner() {
    let mut worlds = worlds(10, 3000);
    let mut failed = 0;
    let long = "long ".repeat(4096);
    for id in [17, 77, 177, 278, 1311, 2999] {
        let fails = format!("100 / (t.id - {id})");
        for sql in [
            format!("select count(*) from few join t on t.v = few.wanted where {fails} > -1000"),
            format!("select count(*) from few join t on t.v = few.wanted and {fails} < few.id"),
            format!("select count(*) from few join t on t.v = few.wanted and {fails} = few.id"),
            format!(
                "select count(*) from few where exists (select 1 from t where t.v = few.wanted and {fails} = few.id)"
            ),
            format!("select count(*) from few join t on t.v = few.wanted join third on {fails} = third.v"),
            format!(
                "select count(*) from few join (select id, v, {fails} as w from t) t on t.v = few.wanted and t.w < few.id"
            ),
            format!(
                "select count(*) from few join (select t.id, t.v from t left join third on {fails} = third.v) j on j.v = few.wanted"
            ),
            // Nobody else looks at these conditions.
            format!(
                "select count(*) from few join t on t.v = few.wanted where {fails} + floor(random() / 2)::int > -1000"
            ),
            format!("select count(*) from few join t on t.v = few.wanted where {fails} > -1000 or t.note = '{long}'"),
        ] {
            let told = worlds
                .each_mut()
                .map(|world| run(world, &sql).map_err(|error| error.message().to_owned()));
            assert_eq!(told[0], told[1], "{id}: {}", &sql[..sql.len().min(200)]);
            failed += usize::from(told[0].is_err());
        }
    }
    assert!(failed >= 6 * 4, "{failed} failed");
}

/// What the transaction has changed itself is joined too.
#[test]
fn what_the_transaction_has_changed_is_joined() {
    let mut world = filled((10, 300), true);
    let joined = "select count(*), count(distinct t.id) from few join t on t.v = few.wanted";
    let transaction = world.begin();
    let mut within = |sql: &str| run_within(&mut world, transaction, sql).unwrap();
    assert_eq!(within(joined), ["30|15"]);
    within("update t set v = 3 where id = 77");
    within("delete from t where id = 101");
    assert_eq!(within(joined), ["30|15"]);
    within("insert into few values (100, 77, 0, null)");
    within("insert into t values (1000, 77, null, null)");
    assert_eq!(within(joined), ["33|18"]);
    world.roll_back(transaction);
    assert_eq!(run(&mut world, joined).unwrap().0, ["30|15"]);
}

/// A query within an expression begins anew when it has waited, and ends all the same; so does what is written of joined rows.
#[test]
fn joins_within_expressions_end() {
    let mut world = filled((10, 300), true);
    let pairs = "from few join t on t.v = few.wanted";
    for (sql, expected) in [
        (format!("select (select count(*) {pairs})"), "30"),
        (format!("select 1 where 101 in (select t.id {pairs})"), "1"),
        (
            format!("select array(select t.id {pairs} and few.id = 1 order by 1)"),
            "{1,101,201}",
        ),
        (format!("with w as (select t.id {pairs}) select count(*) from w"), "30"),
        (
            format!("select count(*) from third where exists (select 1 {pairs} and t.id = third.id)"),
            "4",
        ),
        (
            format!("select sum(case when id in (select t.id {pairs}) then 1 else 0 end) from third"),
            "4",
        ),
    ] {
        assert_eq!(run(&mut world, &sql).unwrap().0, [expected], "{sql}");
    }
    for changed in [
        format!("insert into third select 1000 + t.id, t.v, few.id {pairs} and few.id < 3"),
        format!("update third set v = (select max(t.v) {pairs}) where id > 1000 and exists (select 1 {pairs})"),
        "delete from third using few, t where t.v = few.wanted and third.id = 1000 + t.id and few.id = 1".to_owned(),
    ] {
        run(&mut world, &changed).unwrap();
    }
    let left = "select count(*), min(id), max(v) from third where id > 1000";
    assert_eq!(run(&mut world, left).unwrap().0, ["3|1002|4"]);
}

thread_local! {
    static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes what EXPLAIN says, and leaves the work to the relay.
#[derive(Debug)]
struct Telling(DataFusion);

impl Engine for Telling {
    fn start(&self, tree: Tree, setting: Setting) -> Result<Box<dyn Run>> {
        let told = self.0.explain(tree, setting)?;
        TOLD.set(told);
        Err(Error::unsupported("only told"))
    }

    fn explain(&self, tree: Tree, setting: Setting) -> Result<Vec<String>> {
        self.0.explain(tree, setting)
    }
}

#[test]
fn it_is_told_which_values_go_along() {
    let joined = "select count(*) from few join t on t.v = few.wanted where t.id > 5";
    for is_over_nodes in [false, true] {
        let telling: &'static Telling = Box::leak(Box::new(Telling(DataFusion::new(0))));
        let mut world = World::with_engine(Some(telling));
        world.elsewhere = is_over_nodes.then(Elsewhere::new);
        fill(&mut world, (10, 3000));
        run(&mut world, joined).unwrap();
        let told = TOLD.take().join("\n");
        assert_eq!(
            told.contains("t by key range (id > 5), semi-join by c0"),
            is_over_nodes,
            "{told}"
        );
        assert_eq!(
            told.contains("GatherExec: c0 for the other side"),
            is_over_nodes,
            "{told}"
        );
    }
}
