//! The scripts of `sql`, whose answers are PostgreSQL's and the relay's, with the engine wherever it can run a query.

#[path = "../../sql/tests/executor/elsewhere.rs"]
mod elsewhere;
#[path = "../../sql/tests/executor/scripts.rs"]
mod scripts;
#[path = "both_ways/semi_joins.rs"]
mod semi_joins;
#[path = "../../sql/tests/executor/undecided.rs"]
mod undecided;
#[allow(dead_code)]
#[path = "../../sql/tests/executor/world.rs"]
mod world;

use rubato_analytics::DataFusion;
use rubato_base::Result;
use rubato_sql::analytics::{Engine, Run, Setting, Tree};
use std::cell::Cell;

/// An engine for one database: it keeps columns by the numbers of tables.
fn engine() -> Option<&'static dyn Engine> {
    Some(Box::leak(Box::new(Insisting(DataFusion::new(16 << 20)))))
}

/// The engine; a tree that it refuses fails the test, where else the relay would answer and nobody would know. Joins of values that it
/// cannot compare by bytes are the relay's.
#[derive(Debug)]
struct Insisting(DataFusion);

thread_local! {
    /// Trees with groups that were started.
    static GROUPED: Cell<usize> = const { Cell::new(0) };
}

impl Engine for Insisting {
    fn start(&self, tree: Tree, setting: Setting) -> Result<Box<dyn Run>> {
        let shown = format!("{tree:#?}");
        GROUPED.set(GROUPED.get() + usize::from(shown.contains("Aggregate {")));
        let started = self.0.start(tree, setting);
        if let Err(error) = &started
            && error.message() != "a join without an equality is not supported"
        {
            panic!("{error:?} for {shown}");
        }
        started
    }

    fn explain(&self, tree: Tree, setting: Setting) -> Result<Vec<String>> {
        self.0.explain(tree, setting)
    }
}

/// What only the engine runs.
#[test]
fn windows() {
    on_the_engine(include_str!("../../sql/tests/scripts/windows.slt"));
}

#[test]
fn functions_of_rows_beside_windows() {
    on_the_engine(include_str!("../../sql/tests/scripts/list_sets_of_windows.slt"));
}

fn on_the_engine(script: &str) {
    for rows_left in [rubato_sql::executor::ExecutionContext::UNBOUNDED, 1, 3] {
        scripts::run_script(script, rows_left, scripts::Beside::Nothing);
        scripts::run_script(script, rows_left, scripts::Beside::Branches(undecided::Lot::new(3)));
        scripts::run_script(script, rows_left, scripts::Beside::Nodes);
        scripts::run_script(script, rows_left, scripts::Beside::Moving { move_after: 5 });
    }
}

/// Values of two types that only the evaluator compares: the relay joins them, also where windows stand above.
#[test]
fn a_join_that_the_engine_has_not() {
    let script = "statement ok CREATE TABLE
create table whole (i int primary key)

statement ok CREATE TABLE
create table broken (f float8 primary key)

statement ok INSERT 0 10
insert into whole select g from generate_series(1, 10) g

statement ok INSERT 0 10
insert into broken select g / 2.0 from generate_series(1, 10) g

query
select i, f from whole join broken on i = f order by 1
----
1|1
2|2
3|3
4|4
5|5

query
select i, sum(i) over (order by f) from whole join broken on i = f order by 1
----
1|1
2|3
3|6
4|10
5|15
";
    for rows_left in [rubato_sql::executor::ExecutionContext::UNBOUNDED, 1, 3] {
        scripts::run_script(script, rows_left, scripts::Beside::Nothing);
    }
}

/// A number that leaves the form of its column when thousands of rows were given: the tree starts again, and each row is given once.
#[test]
fn a_number_that_is_none_behind_many_rows() {
    let script = "statement ok CREATE TABLE
create table late (id int primary key, m numeric(10, 2), n numeric(20, 4))

statement ok INSERT 0 20000
insert into late select g, case g when 15000 then 'NaN'::numeric else g % 7 end, case g when 16000 then 9999999999999999 else 2 end from generate_series(1, 20000) g

statement ok CREATE TABLE
create table few (k int primary key)

statement ok INSERT 0 10
insert into few select g from generate_series(0, 9) g

statement ok CREATE TABLE
create table joined (id int, m numeric)

statement ok INSERT 0 20000
insert into joined select id, m from few join late on k = id % 10

query
select count(*), count(distinct id), sum(m) filter (where m <> 'NaN'), max(m) from joined
----
20000|20000|59992.00|NaN

statement ok CREATE TABLE
create table cubes (id int, cube numeric)

statement ok INSERT 0 20000
insert into cubes select id, n * n * n as cube from few join late on k = id % 10

query
select count(*), count(distinct id), max(cube), min(cube) from cubes
----
20000|20000|999999999999999700000000000000029999999999999999.000000000000|8.000000000000
";
    scripts::run_script(
        script,
        rubato_sql::executor::ExecutionContext::UNBOUNDED,
        scripts::Beside::Nothing,
    );
}

/// What an aggregate is of is evaluated of no row that its FILTER leaves out, alone, by groups, over windows and of values in an order.
#[test]
fn what_a_filter_leaves_out_is_not_evaluated() {
    on_the_engine(
        "statement ok CREATE TABLE
create table kept (id int primary key, n int, s text)

statement ok INSERT 0 12
insert into kept select g, nullif(g % 4, 3), case when g % 4 = 1 then 'none' else (g * 10)::text end from generate_series(1, 12) g

query
select sum(12 / n) filter (where n <> 0), count(distinct 12 / n) filter (where n <> 0), sum(s::int) filter (where s ~ '^[0-9]+$') from kept
----
54|2|630

query
select id % 2, sum(12 / n) filter (where n <> 0), count(*), string_agg(s, ',' order by 12 / n, id) filter (where n > 0) from kept group by 1 order by 1
----
0|18|6|20,60,100
1|36|6|none,none,none

query
select id % 2, min(s::int) filter (where s ~ '^[0-9]+$'), bool_and(12 / n > 6) filter (where n <> 0) from kept group by rollup (1) order by 1
----
0|20|f
1|30|t
NULL|20|f

query
select id, sum(12 / n) filter (where n <> 0) over (order by id) from kept where id < 6 order by id
----
1|12
2|18
3|18
4|18
5|30

query
select sum(1 / n) filter (where n <> 0) over () from (values (1, 0), (2, 2), (3, null)) q (id, n)
----
0
0
0

query
select percentile_disc(0.5) within group (order by 12 / n) filter (where n <> 0), mode() within group (order by s::int) filter (where s ~ '^[0-9]+$'), percentile_cont(0.5) within group (order by 12 / n) filter (where n <> 0 and n < 2) from kept
----
6|20|12

query
select n is null, mode() within group (order by 1 / coalesce(n, 0)) filter (where n <> 0) from kept group by 1 order by 1
----
f|0
t|NULL
",
    );
}

/// The tree starts again with numbers of any length, which are joined with integers too.
#[test]
fn integers_are_joined_with_numbers_of_which_one_is_none() {
    on_the_engine(
        "statement ok CREATE TABLE
create table whole (k int primary key, n bigint, s smallint)

statement ok INSERT 0 20
insert into whole select g, g, g from generate_series(1, 20) g

statement ok CREATE TABLE
create table exact (id int primary key, x numeric(8, 2), y numeric, z numeric(20, 4))

statement ok INSERT 0 22
insert into exact select g, case g when 21 then 'NaN' when 22 then 3.5 else g end, case g when 21 then 'NaN' else g / 2.0 end, case g when 22 then 9999999999999999.9999 else 1 end from generate_series(1, 22) g

query
select k, count(*) over () from whole join exact on k = x order by k limit 2
----
1|20
2|20

query
select n, id, count(*) over () from whole join exact on n = y order by n limit 2
----
1|2|11
2|4|11

query
select k, id, rank() over (order by id) from whole left join exact on x = s and id > 18 order by id nulls last, k limit 3
----
19|19|1
20|20|2
1|NULL|3

query
select count(*) over (), k from exact join whole on k = z * z * z where id > 18 order by id limit 1
----
3|1

query
select distinct on (k % 2) k % 2, id from whole join exact on k = x order by 1, id
----
0|2
1|1

query
select count(*), sum(k) from whole where exists (select from exact where x = k)
----
20|210

query
select count(*), sum(k) from whole where not exists (select from exact where y = k)
----
9|144

query
select count(*), count(k), count(id) from whole full join exact on n = x
----
22|20|22
",
    );
}

/// An aggregate that is asked for by two columns, of the larger side of a join.
#[test]
fn correlated_by_two_columns() {
    let script = "statement ok CREATE TABLE
create table ps (a int, b int, q int not null, primary key (a, b))

statement ok CREATE TABLE
create table li (o int, n int, a int not null, b int not null, quantity numeric(15,2) not null, primary key (o, n))

statement ok INSERT 0 50
insert into ps select g % 10, g / 10, g from generate_series(0, 49) g

statement ok INSERT 0 20
insert into li select g, 1, g % 10, 1, g from generate_series(0, 19) g

query
select a, b, q from ps where q > (select 0.5 * sum(quantity) from li where li.a = ps.a and li.b = ps.b) order by a
----
0|1|10
1|1|11
2|1|12
3|1|13
4|1|14
5|1|15
6|1|16
7|1|17
8|1|18
9|1|19
";
    scripts::run_script(
        script,
        rubato_sql::executor::ExecutionContext::UNBOUNDED,
        scripts::Beside::Nothing,
    );
}

/// A query that is asked before the statement begins, and itself asks an aggregate for each of its rows: one tree.
#[test]
fn correlated_within_what_is_asked_first() {
    let script = "statement ok CREATE TABLE
create table s (k int primary key)

statement ok CREATE TABLE
create table ps (a int, k int, q int not null, primary key (a, k))

statement ok CREATE TABLE
create table li (n int primary key, a int not null, k int not null)

statement ok INSERT 0 5
insert into s select generate_series(1, 5)

statement ok INSERT 0 10
insert into ps select g, 1 + g % 5, g from generate_series(0, 9) g

statement ok INSERT 0 20
insert into li select g, g % 10, 1 + g % 5 from generate_series(0, 19) g

query
select k from s where k in (select ps.k from ps where q > (select 2 * count(*) from li where li.a = ps.a and li.k = ps.k)) order by k
----
1
2
3
4
5
";
    let before = GROUPED.get();
    scripts::run_script(
        script,
        rubato_sql::executor::ExecutionContext::UNBOUNDED,
        scripts::Beside::Nothing,
    );
    assert_eq!(GROUPED.get() - before, 1, "the relay asked for each row");
}
