//! Statements that change many rows of other nodes: what these are asked is asked together, and comes to the same as row by row.

use crate::copy::statement;
use crate::elsewhere::Elsewhere;
use crate::scripts::run;
use crate::world::{World, error_of};
use bytes::Bytes;
use rubato_base::Result;
use rubato_protocol::Stop;
use rubato_sql::executor::{CopyReader, ExecutionContext};
use rubato_sql::statement::CopyFormat;

/// A world whose rows are on this node, and one whose rows are on three.
struct Both {
    here: World,
    spread: World,
}

impl Both {
    fn new(definitions: &[&str]) -> Both {
        let (here, mut spread) = (World::new(), World::new());
        spread.elsewhere = Some(Elsewhere::new());
        let mut both = Both { here, spread };
        definitions.iter().for_each(|sql| both.same(sql));
        both
    }

    /// Does it in both, where it has to come to the same.
    fn same(&mut self, sql: &str) {
        let (expected, found) = (run(&mut self.here, sql), run(&mut self.spread, sql));
        assert_eq!(shown(found), shown(expected), "{sql}");
    }

    /// The same; in how many messages.
    fn messages(&mut self, sql: &str) -> u64 {
        let before = messages(&self.spread);
        self.same(sql);
        messages(&self.spread) - before
    }
}

fn messages(world: &World) -> u64 {
    world.elsewhere.as_ref().map_or(0, |elsewhere| elsewhere.messages)
}

fn shown(outcome: Result<(Vec<String>, String)>) -> String {
    match outcome {
        Ok(done) => format!("{done:?}"),
        Err(error) => {
            let detail = error.fields().detail.clone().unwrap_or_default();
            format!("{} {} {detail}", error.code().as_str(), error.message())
        }
    }
}

const TABLES: [&str; 3] = [
    "CREATE TABLE parent (id int PRIMARY KEY, v int NOT NULL CHECK (v < 5000), name text UNIQUE)",
    "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE INDEX child_parent ON child (parent)",
];

const ALL: &str = "SELECT count(*), sum(id), sum(v), min(name), max(name) FROM parent";

#[test]
fn a_thousand_rows_take_tens_of_messages() {
    let mut both = Both::new(&TABLES);
    let statements = [
        (
            "INSERT INTO parent SELECT n, n, 'p' || n FROM generate_series(1, 1000) n",
            60,
        ),
        ("INSERT INTO child SELECT n, n FROM generate_series(1, 1000) n", 80),
        ("UPDATE parent SET v = v + 1", 40),
        ("UPDATE parent SET v = v * 2, name = 'q' || id", 100),
        (
            "INSERT INTO parent SELECT n, 1, 'n' || n FROM generate_series(501, 1500) n ON CONFLICT (id) DO UPDATE SET v = excluded.v + 7",
            120,
        ),
        ("UPDATE parent SET id = id + 10000 WHERE id < 1000", 250),
        ("DELETE FROM parent WHERE id > 10000", 250),
    ];
    for (sql, messages_max) in statements {
        let messages = both.messages(sql);
        println!("{messages} messages: {sql}");
        assert!(messages <= messages_max, "{messages} messages: {sql}");
        both.same(ALL);
        both.same("SELECT count(*), sum(id), sum(parent) FROM child");
    }
}

#[test]
fn the_first_row_that_fails_decides_and_nothing_is_left() {
    let mut both = Both::new(&TABLES);
    both.same("INSERT INTO parent SELECT n, n, 'p' || n FROM generate_series(1, 300) n");
    let failing = [
        // The key of a row of before, of one of the same statement, and both.
        "INSERT INTO parent SELECT 500 - n, 0, 'x' || n FROM generate_series(1, 300) n",
        "INSERT INTO parent SELECT 500 + n % 77, 0, 'x' || n FROM generate_series(1, 200) n",
        "INSERT INTO parent SELECT 500 + n % 77, 0, 'p' || n + 240 FROM generate_series(1, 200) n",
        // An entry of a unique index, of a row of before and of one of the same statement.
        "INSERT INTO parent SELECT 500 + n, 0, 'p' || 400 - n FROM generate_series(1, 200) n",
        "INSERT INTO parent SELECT 500 + n, 0, 'x' || n % 50 FROM generate_series(1, 200) n",
        // What one row is, whatever those before it do.
        "INSERT INTO parent SELECT 500 + n, 4990 + n, 'x' || n FROM generate_series(1, 200) n",
        "INSERT INTO parent SELECT 500 + n, 10 / (n - 90), 'x' || n FROM generate_series(1, 200) n",
        "UPDATE parent SET v = 5050 - id",
        "UPDATE parent SET name = 'p' || (id % 150 + 1)",
        "UPDATE parent SET id = id % 100",
        "INSERT INTO parent SELECT n % 90 + 290, 1, 'y' || n FROM generate_series(1, 200) n ON CONFLICT (id) DO UPDATE SET v = parent.v + 1",
        // Foreign keys.
        "INSERT INTO child SELECT n, n + 200 FROM generate_series(1, 200) n",
    ];
    for sql in failing {
        both.same(sql);
        both.same(ALL);
        both.same("SELECT count(*) FROM child");
    }
    // Where nothing fails, rows of one statement meet as they do row by row.
    let meeting = [
        "INSERT INTO parent SELECT n % 90 + 290, n, 'z' || n % 60 FROM generate_series(1, 200) n ON CONFLICT DO NOTHING",
        "INSERT INTO parent SELECT n % 90 + 400, n, 'w' || n FROM generate_series(1, 200) n ON CONFLICT (id) DO NOTHING RETURNING id, v, name",
        "UPDATE parent SET id = -id, name = name || name WHERE id % 3 = 0 RETURNING id",
        "WITH gone AS (DELETE FROM parent WHERE id < 0 RETURNING *) INSERT INTO parent SELECT -id, v, name || '!' FROM gone",
        "MERGE INTO parent p USING (SELECT n, n % 2 AS even FROM generate_series(200, 600) n) s ON p.id = s.n \
         WHEN MATCHED AND s.even = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 0 \
         WHEN NOT MATCHED THEN INSERT VALUES (s.n, s.n, 'merged ' || s.n)",
        "DELETE FROM parent WHERE v = 0 RETURNING id",
    ];
    for sql in meeting {
        both.same(sql);
        both.same(ALL);
    }
}

#[test]
fn keys_in_a_list_are_read_together() {
    let mut both = Both::new(&TABLES);
    both.same("INSERT INTO parent SELECT n, n, 'p' || n FROM generate_series(1, 300) n");
    let keys: Vec<String> = (1..=300).step_by(3).map(|key| key.to_string()).collect();
    let sql = format!("SELECT count(*), sum(v) FROM parent WHERE id IN ({})", keys.join(", "));
    let messages = both.messages(&sql);
    assert!(messages <= 6, "{messages} messages");
}

#[test]
fn data_of_copy_is_placed_together() {
    let mut both = Both::new(&["CREATE TABLE copied (id int PRIMARY KEY, a int, b text UNIQUE)"]);
    let line = |n: u32| format!("{n}\t{}\tname {n}\n", n * 2);
    let data: String = (1..=1000).map(line).collect();
    let before = messages(&both.spread);
    for world in [&mut both.here, &mut both.spread] {
        assert_eq!(load(world, &data).unwrap(), 1000);
    }
    let took = messages(&both.spread) - before;
    assert!(took <= 60, "{took} messages");
    both.same("SELECT count(*), sum(id), sum(a), min(b) FROM copied");
    // One whose key is there already, in the midst.
    let data: String = (1001..=1200).chain([17]).chain(1201..=1300).map(line).collect();
    let told: Vec<String> = [&mut both.here, &mut both.spread]
        .map(|world| load(world, &data).unwrap_err())
        .iter()
        .map(|error| format!("{error} {:?}", error.fields()))
        .collect();
    assert_eq!(told[0], told[1]);
    both.same("SELECT count(*), sum(id), sum(a), min(b) FROM copied");
}

/// Loads data in one go.
fn load(world: &mut World, data: &str) -> Result<u64> {
    let table = world.catalog.tables.values().next().expect("a table").clone();
    let statement = statement(&table, true, CopyFormat::Text);
    let transaction = world.begin();
    let mut reader = CopyReader::new(&statement).unwrap();
    world.with_context(transaction, &[], |context| {
        reader.pack(Bytes::copy_from_slice(data.as_bytes()), context.evaluation);
    });
    loop {
        let outcome = world.with_context(transaction, &[], |context| {
            context.rows_left = ExecutionContext::UNBOUNDED;
            reader.finish(context)
        });
        match outcome {
            Ok(Some(rows)) => return world.commit(transaction).map(|()| rows).map_err(error_of),
            Ok(None) => {}
            Err(Stop::Wait(wait)) => assert!(world.hear(&wait), "{wait:?}"),
            Err(stop) => {
                world.roll_back(transaction);
                return Err(error_of(stop));
            }
        }
    }
}
