//! Columns that are added with a default: rows that are there have it, and none of them is written.

use crate::world::*;

fn filled(sessions: usize, rows: usize) -> World {
    let mut world = World::new(sessions);
    world.must(0, "create table t (id int primary key, n int not null)");
    world.must(
        0,
        &format!("insert into t select g, g % 10 from generate_series(1, {rows}) g"),
    );
    world
}

/// The row, by its key and in two scans.
fn row_of(world: &mut World, session: usize, columns: &str, id: usize) -> String {
    let found = world.rows(session, &format!("select {columns} from t where id = {id}"));
    assert_eq!(
        world.rows(
            session,
            &format!("select {columns} from t where id + 0 = {id} order by id")
        ),
        found
    );
    assert_eq!(found.len(), 1);
    found[0].clone()
}

#[test]
fn no_row_is_written_and_all_have_the_value() {
    let mut world = filled(1, 1000);
    let before = world.node.figures().log_bytes;
    world.must(0, "alter table t add column c int not null default 7 check (c > 0)");
    world.must(
        0,
        "alter table t add column s text default 'it''s', add column at timestamptz default now()",
    );
    assert!(world.node.figures().log_bytes - before < 8_000);
    assert_eq!(
        world.rows(
            0,
            "select count(*), sum(c), min(s), count(distinct at), bool_and(at <= now()) from t"
        ),
        ["1000|7000|it's|1|t"]
    );
    assert_eq!(row_of(&mut world, 0, "n, c, s", 5), "5|7|it's");
    world.must(
        0,
        "insert into t (id, n, s) values (2000, 1, null); update t set n = 11 where id = 6",
    );
    world.must(0, "update t set c = c + 1, s = null where id = 5");
    assert_eq!(row_of(&mut world, 0, "n, c, s", 2000), "1|7|");
    assert_eq!(row_of(&mut world, 0, "n, c, s", 5), "5|8|");
    assert_eq!(row_of(&mut world, 0, "n, c, s", 6), "11|7|it's");
    assert!(world.ask(0, "update t set c = -1 where id = 9")[0].starts_with("E 23514"));
    assert!(world.ask(0, "update t set c = null where id = 9")[0].starts_with("E 23502"));
    // Another default is for rows to come.
    world.must(0, "alter table t alter c set default 9, alter s drop default");
    world.must(0, "insert into t (id, n) values (2001, 1)");
    assert_eq!(row_of(&mut world, 0, "n, c, s", 2001), "1|9|");
    assert_eq!(row_of(&mut world, 0, "n, c, s", 10), "0|7|it's");
    for _ in 0..2 {
        world = world.restart();
        assert_eq!(row_of(&mut world, 0, "n, c, s", 10), "0|7|it's");
        assert_eq!(row_of(&mut world, 0, "n, c, s", 5), "5|8|");
        assert_eq!(row_of(&mut world, 0, "n, c, s", 6), "11|7|it's");
        world.node.checkpoint().expect("a checkpoint");
    }
}

#[test]
fn what_is_rolled_back_leaves_nothing_and_others_see_nothing() {
    let mut world = filled(2, 100);
    world.must(0, "begin; alter table t add column c int not null default 7");
    world.must(
        0,
        "update t set c = c + n where id <= 3; insert into t values (200, 1, 2)",
    );
    assert_eq!(row_of(&mut world, 0, "*", 3), "3|3|10");
    assert_eq!(row_of(&mut world, 0, "*", 50), "50|0|7");
    assert_eq!(row_of(&mut world, 1, "*", 3), "3|3");
    assert_eq!(world.rows(1, "select count(*), sum(n) from t"), ["100|450"]);
    world.must(0, "rollback; alter table t add column d int default 9");
    assert_eq!(row_of(&mut world, 0, "*", 3), "3|3|9");
    // Back to a savepoint, and further from there.
    world.must(0, "begin; alter table t add column e int default 1; savepoint a");
    world.must(
        0,
        "alter table t add column f int default 2, add column g int default 3; update t set f = 0, n = 99 where id = 4",
    );
    assert_eq!(row_of(&mut world, 0, "*", 4), "4|99|9|1|0|3");
    assert_eq!(row_of(&mut world, 0, "*", 5), "5|5|9|1|2|3");
    world.must(
        0,
        "rollback to a; update t set n = 98 where id = 4; alter table t add column h text default 'x'",
    );
    assert_eq!(row_of(&mut world, 0, "*", 4), "4|98|9|1|x");
    world.must(0, "commit");
    assert_eq!(row_of(&mut world, 1, "*", 4), "4|98|9|1|x");
    assert_eq!(row_of(&mut world, 1, "*", 5), "5|5|9|1|x");
    // A statement that fails in the middle of it.
    world.must(0, "begin; savepoint a");
    assert!(world.ask(0, "alter table t add column u int default 4 unique")[0].starts_with("E 23505"));
    world.must(0, "rollback to a; alter table t add column v int default 5; commit");
    assert_eq!(row_of(&mut world, 1, "*", 5), "5|5|9|1|x|5");
    let mut world = world.restart();
    assert_eq!(row_of(&mut world, 0, "*", 5), "5|5|9|1|x|5");
}

#[test]
fn a_column_that_was_dropped_and_another_one_are_two() {
    let mut world = filled(1, 50);
    world.must(
        0,
        "alter table t add column c int default 7; alter table t drop column c",
    );
    world.must(
        0,
        "alter table t add column c text; alter table t add column d int default 9",
    );
    assert_eq!(row_of(&mut world, 0, "*", 5), "5|5||9");
    world.must(
        0,
        "update t set c = 'x' where id = 5; update t set d = d + 1 where id = 6",
    );
    world.must(
        0,
        "begin; alter table t drop column d; alter table t add column d int default 3; commit",
    );
    for _ in 0..2 {
        assert_eq!(row_of(&mut world, 0, "*", 5), "5|5|x|3");
        assert_eq!(row_of(&mut world, 0, "*", 6), "6|6||3");
        world = world.restart();
    }
    let shown = "select attname, atthasmissing, attmissingval from pg_attribute where attrelid = 't'::regclass and attnum > 0 order by attnum";
    assert_eq!(
        world.rows(0, shown),
        [
            "id|f|",
            "n|f|",
            "........pg.dropped.3........|f|",
            "c|f|",
            "........pg.dropped.5........|f|",
            "d|t|{3}"
        ]
    );
}

#[test]
fn constraints_and_indexes_of_the_same_statement_are_about_all_rows() {
    let mut world = filled(1, 300);
    world.must(
        0,
        "create table one (id int primary key); insert into one values (1), (2)",
    );
    for (change, code) in [
        ("add column c int default 7 unique", "23505"),
        ("add column c int default 7 check (c > 7)", "23514"),
        ("add column c int default 7, add check (c > n + 1)", "23514"),
        ("add column c int not null default null", "23502"),
        ("add column c int default 7 references one", "23503"),
        ("add column c int default 1 / 0", "22012"),
        ("add column c varchar(2) default 'long'", "22001"),
        (
            "add column c int default 7, drop constraint t_pkey, add primary key (c)",
            "23505",
        ),
    ] {
        let said = world.ask(0, &format!("alter table t {change}"));
        assert!(said[0].starts_with(&format!("E {code}")), "{change}: {said:?}");
    }
    assert_eq!(row_of(&mut world, 0, "*", 5), "5|5");
    // An empty table satisfies everything but what cannot be evaluated.
    world.must(0, "create table none (id int)");
    world.must(
        0,
        "alter table none add column c int default 7 check (c > 7), add column d int not null default null",
    );
    assert!(world.ask(0, "alter table none add column e int default 1 / 0")[0].starts_with("E 22012"));
    world.must(
        0,
        "alter table t add column c int default 2 references one, add unique (id, c), add check (c < 3)",
    );
    world.must(0, "create index on t (c) where c = 2; create index on t ((c + n))");
    for _ in 0..2 {
        assert_eq!(world.rows(0, "select id from t where id = 7 and c = 2"), ["7"]);
        assert_eq!(world.rows(0, "select count(*) from t where c = 2"), ["300"]);
        assert_eq!(
            world.rows(0, "select count(*), min(id) from t where c + n = 6"),
            ["30|4"]
        );
        world = world.restart();
    }
    assert!(world.ask(0, "delete from one where id = 2")[0].starts_with("E 23503"));
    world.must(0, "delete from one where id = 1");
}

#[test]
fn rows_that_are_laid_out_anew_have_it() {
    for (change, expected) in [
        (
            "alter table t add column c int default 7; alter table t drop constraint t_pkey",
            "5|5|7",
        ),
        (
            "alter table t add column c int default 7, drop constraint t_pkey, add primary key (n, id)",
            "5|5|7",
        ),
        (
            "begin; alter table t add column c int default 7; alter table t drop constraint t_pkey; create index on t (c); commit",
            "5|5|7",
        ),
        (
            "alter table t add column c int default 7; alter table t alter n type text using n::text || c",
            "5|57|7",
        ),
        ("alter table t alter n type text, add column c int default 7", "5|5|7"),
        (
            "begin; alter table t add column b int default 1; alter table t alter n type text, add column c int default 7; alter table t drop b; commit",
            "5|5|7",
        ),
        (
            "alter table t add column c int default 7; alter table t alter c type numeric(6, 2)",
            "5|5|7.00",
        ),
        (
            "alter table t add column c varchar(5) default 'abc'; alter table t alter c type varchar(9)",
            "5|5|abc",
        ),
        (
            "alter table t add column c int default 7, add column g int generated always as (c * n) stored",
            "5|5|7|35",
        ),
        (
            "alter table t add column c int default 7, add column g int default (random() * 0)::int; alter table t drop g",
            "5|5|7",
        ),
        (
            "begin; update t set n = n + 1 where id = 5; alter table t add column c int default 7; update t set c = c + 1, n = n - 1 where id = 5; commit",
            "5|5|8",
        ),
        (
            "begin; update t set n = n + 1 where id = 5; alter table t add column c int default 7, drop constraint t_pkey; update t set n = n - 1 where id = 5; commit",
            "5|5|7",
        ),
        (
            "begin; delete from t where id = 5; insert into t values (5, 4); alter table t add column c int default 7; update t set n = n + 1 where id = 5; commit",
            "5|5|7",
        ),
    ] {
        for checkpoint in [false, true] {
            let mut world = filled(1, 300);
            if checkpoint {
                world.node.checkpoint().expect("a checkpoint");
            }
            world.must(0, change);
            for _ in 0..2 {
                assert_eq!(row_of(&mut world, 0, "*", 5), expected, "{change}");
                assert_eq!(world.rows(0, "select count(*) from t"), ["300"]);
                world = world.restart();
            }
            world.must(
                0,
                "alter table t add column z int default 1; update t set z = z + 1 where id = 5",
            );
            let mut world = world.restart();
            assert_eq!(row_of(&mut world, 0, "*", 5), format!("{expected}|2"), "{change}");
        }
    }
}

#[test]
fn a_copy_of_a_database_and_an_emptied_table_have_it() {
    let mut world = filled(1, 100);
    world.must(0, "alter table t add column c int default 7; create index on t (c)");
    world.must(0, "create database other template rubato");
    for _ in 0..2 {
        let session = world.enter("other").expect("a session");
        assert_eq!(row_of(&mut world, session, "*", 5), "5|5|7");
        assert_eq!(world.rows(session, "select count(*) from t where c = 7"), ["100"]);
        world.leave(session);
        world = world.restart();
    }
    world.must(
        0,
        "truncate t; insert into t (id, n) values (1, 1); insert into t values (2, 2, null)",
    );
    world.must(0, "alter table t add column d int default 8");
    assert_eq!(world.rows(0, "select * from t order by id"), ["1|1|7|8", "2|2||8"]);
}

#[test]
fn writers_that_were_there_before_come_first_and_those_behind_know_the_column() {
    let mut world = filled(3, 100);
    world.must(
        1,
        "begin; update t set n = n + 1 where id = 1; insert into t values (101, 1)",
    );
    world.begin(0, "alter table t add column c int default 7");
    world.begin(2, "update t set n = n + 10 where id = 1");
    assert!(!world.is_idle(0) && !world.is_idle(2));
    world.must(1, "commit");
    world.run();
    assert_eq!(row_of(&mut world, 1, "*", 1), "1|12|7");
    assert_eq!(row_of(&mut world, 1, "*", 101), "101|1|7");
    // A block that began before, and has read nothing yet.
    world.must(1, "begin");
    world.must(
        0,
        "alter table t add column d int default 8; update t set d = d + c where id = 2",
    );
    assert_eq!(row_of(&mut world, 1, "*", 2), "2|2|7|15");
    world.must(1, "commit");
}

/// Random programs over two tables. In one, columns come with their defaults; in the other they come empty, and are filled.
struct Twins {
    world: World,
    random: u64,
    columns: Vec<String>,
    next: usize,
    saved: Vec<(&'static str, Vec<String>)>,
    rows: usize,
}

impl Twins {
    fn new(seed: u64) -> Twins {
        let mut world = World::new(1);
        for table in ["swift", "slow"] {
            world.must(0, &format!("create table {table} (id int primary key, c0 int)"));
            world.must(
                0,
                &format!("insert into {table} select g, g % 5 from generate_series(1, 200) g"),
            );
        }
        Twins {
            world,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            columns: vec!["c0".into()],
            next: 1,
            saved: Vec::new(),
            rows: 200,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % bound as u64) as usize
    }

    fn column(&mut self) -> String {
        let place = self.below(self.columns.len());
        self.columns[place].clone()
    }

    /// The same on both.
    fn both(&mut self, sql: &str) {
        for table in ["swift", "slow"] {
            self.world.must(0, &sql.replace("TABLE", table));
        }
    }

    fn add(&mut self) {
        let (column, value) = (format!("c{}", self.next), self.below(100));
        self.next += 1;
        let index = if self.below(4) == 0 {
            "; create index on TABLE (COLUMN)"
        } else {
            ""
        };
        let index = index.replace("COLUMN", &column);
        let swift = format!(
            "alter table swift add column {column} int default {value}{}",
            index.replace("TABLE", "swift")
        );
        let slow = format!(
            "alter table slow add column {column} int; update slow set {column} = {value}; alter table slow alter {column} set default {value}{}",
            index.replace("TABLE", "slow")
        );
        self.world.must(0, &swift);
        self.world.must(0, &slow);
        self.columns.push(column);
    }

    fn step(&mut self) {
        let (row, one, other) = (self.below(self.rows) + 1, self.column(), self.column());
        match self.below(20) {
            0..=2 => self.add(),
            3 => self.both(&format!("update TABLE set {one} = {one} + 1 where id = {row}")),
            4 => self.both(&format!(
                "update TABLE set {one} = {other} + {one} where id % 7 = {}",
                row % 7
            )),
            5 => self.both(&format!("update TABLE set {one} = null where id = {row}")),
            6 => self.both(&format!("delete from TABLE where id = {row}")),
            7 | 8 => {
                self.rows += 1;
                self.both(&format!("insert into TABLE (id, {one}) values ({}, {row})", self.rows));
            }
            9 if self.columns.len() > 2 => {
                let place = 1 + self.below(self.columns.len() - 1);
                let column = self.columns.remove(place);
                self.both(&format!("alter table TABLE drop column {column}"));
            }
            10 => self.both(&format!("alter table TABLE alter {one} set default {row}")),
            11 if self.below(3) == 0 => self.both(&format!("alter table TABLE alter {one} type int using {one} + 1")),
            12 if self.below(3) == 0 => {
                self.both("alter table TABLE drop constraint TABLE_pkey");
                self.both("alter table TABLE add primary key (id)");
            }
            13 if self.saved.is_empty() => {
                self.world.must(0, "begin");
                self.saved.push(("begin", self.columns.clone()));
            }
            14 if !self.saved.is_empty() => {
                self.world.must(0, "savepoint a");
                self.saved.truncate(1);
                self.saved.push(("a", self.columns.clone()));
            }
            15 if self.saved.len() == 2 => {
                self.world.must(0, "rollback to a");
                self.columns.clone_from(&self.saved[1].1);
            }
            16 if !self.saved.is_empty() => {
                self.world.must(0, "rollback");
                self.columns.clone_from(&self.saved[0].1);
                self.saved.clear();
            }
            17 if !self.saved.is_empty() => {
                self.world.must(0, "commit");
                self.saved.clear();
            }
            18 if self.saved.is_empty() => {
                self.world.node.checkpoint().expect("a checkpoint");
            }
            _ => {}
        }
    }

    fn compare(&mut self, what: &str) {
        let (one, order) = (self.column(), self.columns.join(", "));
        for question in [
            format!("select id, {order} from TABLE order by id"),
            format!("select {one}, count(*) from TABLE group by 1 order by 1"),
            format!("select id, {order} from TABLE where {one} between 3 and 40 order by id desc"),
        ] {
            let [swift, slow] = ["swift", "slow"].map(|table| self.world.rows(0, &question.replace("TABLE", table)));
            assert_eq!(swift, slow, "{what}: {question}");
        }
    }
}

#[test]
fn columns_with_defaults_are_as_if_every_row_had_been_written() {
    for seed in 1..=40 {
        let mut twins = Twins::new(seed);
        for step in 0..60 {
            twins.step();
            if step % 5 == 0 {
                twins.compare(&format!("seed {seed}, step {step}"));
            }
            if step % 20 == 19 {
                if let Some((_, columns)) = twins.saved.drain(..).next() {
                    twins.columns = columns;
                }
                // Half of the time rows are then in the store alone.
                if seed % 2 == 0 {
                    twins.world.node.checkpoint().expect("a checkpoint");
                }
                twins.world = twins.world.restart();
                twins.compare(&format!("seed {seed}, behind the restart at {step}"));
            }
        }
    }
}
