//! What another thread reads is what would have been read without it, however many threads there are.

use super::data::*;
use super::lent;
use crate::world::*;
use rubato_sql::client::Request;

const TABLE: &str =
    "create table t (id int primary key, n int, note text not null, amount numeric(12,2), made timestamp,
    flag bool default true, code char(3), check (id > 0)); create index on t (n); create unique index on t (note)";
const ROWS: usize = 50_000;

fn text() -> Vec<u8> {
    let mut data = String::new();
    for id in 1..=ROWS {
        let n = if id % 7 == 0 {
            "\\N".into()
        } else {
            (id % 1000).to_string()
        };
        let note = "é\\t\\\\\\x41\\\n".repeat(id % 5);
        data += &format!(
            "{id}\t{n}\t{id} {note}\t{id}.25\t2024-02-29 12:00:{:02}\t{}\tab\n",
            id % 60,
            id % 2
        );
    }
    data += "\\.\nnothing behind the end counts\n";
    data.into_bytes()
}

fn csv() -> Vec<u8> {
    let mut data = String::from("id,n,note,amount,made,flag,code\r\n");
    for id in 1..=ROWS {
        let n = if id % 7 == 0 {
            String::new()
        } else {
            (id % 1000).to_string()
        };
        let note = "two\nlines, \"\"quoted\"\" é".repeat(id % 3);
        data += &format!("{id},{n},\"{id} {note}\",{id}.25,2024-02-29,{},\"\"\r\n", id % 2 == 0);
    }
    // The last line needs no end.
    data.truncate(data.len() - 2);
    data.into_bytes()
}

/// `(id, n, note)`; no field of a row ends where a piece does but by chance.
fn binary() -> Vec<u8> {
    let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for id in 1..=ROWS as i32 {
        data.extend([0, 3, 0, 0, 0, 4]);
        data.extend(id.to_be_bytes());
        if id % 7 == 0 {
            data.extend((-1_i32).to_be_bytes());
        } else {
            data.extend([0, 0, 0, 4]);
            data.extend((id % 1000).to_be_bytes());
        }
        let note = format!("{id} {}", "é\n".repeat(id as usize % 30));
        data.extend((note.len() as i32).to_be_bytes());
        data.extend(note.as_bytes());
    }
    data.extend([255, 255]);
    data
}

fn formats() -> [(&'static str, Vec<u8>); 3] {
    [
        ("copy t from stdin", text()),
        ("copy t from stdin (format csv, header)", csv()),
        ("copy t (id, n, note) from stdin (format binary)", binary()),
    ]
}

/// Loads the data; what the table has then, and what an index finds of it.
fn load(mut world: World, sql: &str, data: &[u8], at_once: bool) -> (Vec<String>, Vec<String>) {
    world.must(0, TABLE);
    let said = if at_once {
        let mut requests = vec![query(sql)];
        requests.extend(pieces(data).iter().map(|piece| copy_data(piece)));
        requests.push(Request::CopyDone);
        let said = world.tell(0, requests);
        said[1..].to_vec()
    } else {
        world.copy(0, sql, data)
    };
    assert_eq!(said, [format!("C COPY {ROWS}"), "Z I".into()], "{sql}");
    let by_index = world.rows(
        0,
        "select n, count(*), min(note), max(id) from t where n between 3 and 9 group by n",
    );
    (world.dump(0, "t"), by_index)
}

#[test]
fn a_table_that_another_thread_has_read_is_the_same() {
    for (sql, data) in formats() {
        assert!(data.len() > 1 << 20, "{sql}: {}", data.len());
        let expected = load(World::new(1), sql, &data, false);
        assert_eq!(expected.0.len(), ROWS);
        for at_once in [false, true] {
            assert!(load(lent::world(1), sql, &data, at_once) == expected, "{sql}");
            assert_eq!(lent::jobs(), 1, "{sql}");
            lent::wait_for_running(0);
        }
    }
}

const THREADS_MAX: usize = 4;

/// So many read at a time; the others read their data themselves, until a thread is free.
#[test]
fn more_copies_than_threads_all_end() {
    const COPIES: usize = 7;
    let mut world = lent::world(COPIES);
    for copy in 0..COPIES {
        world.must(
            0,
            &format!("create table t{copy} (id int primary key, n int, note text)"),
        );
    }
    for copy in 0..COPIES {
        world.start_copy(copy, &format!("copy t{copy} from stdin"));
    }
    let data = rows(1, 20_000);
    let pieces = pieces(&data);
    let (first, others) = pieces.split_at(pieces.len() / 2);
    for piece in first {
        for copy in 0..COPIES {
            world.send(copy, [copy_data(piece)]);
        }
        world.run();
    }
    assert_eq!((lent::jobs(), lent::running()), (THREADS_MAX, THREADS_MAX));
    // One that has a thread ends: the next that comes with enough data is given it.
    for piece in others {
        world.send(0, [copy_data(piece)]);
        world.run();
    }
    assert_eq!(world.copy_done(0)[0], "C COPY 20000");
    lent::wait_for_running(THREADS_MAX - 1);
    for piece in others {
        for copy in 1..COPIES {
            world.send(copy, [copy_data(piece)]);
        }
        world.run();
    }
    assert_eq!((lent::jobs(), lent::running()), (THREADS_MAX + 1, THREADS_MAX));
    for copy in (1..COPIES).rev() {
        assert_eq!(world.copy_done(copy)[0], "C COPY 20000");
    }
    lent::wait_for_running(0);
    let expected = world.dump(0, "t0");
    assert_eq!(expected.len(), 20_000);
    for copy in 1..COPIES {
        assert!(world.dump(0, &format!("t{copy}")) == expected, "t{copy}");
    }
}

/// Into one table, all at the same time and without a word between the pieces.
#[test]
fn copies_into_one_table_all_end() {
    const COPIES: usize = 7;
    let mut world = lent::world(COPIES);
    world.must(0, "create table t (id int primary key, n int, note text unique)");
    for copy in 0..COPIES {
        let data = rows(copy * 10_000 + 1, (copy + 1) * 10_000);
        let mut requests = vec![query("copy t from stdin")];
        requests.extend(pieces(&data).iter().map(|piece| copy_data(piece)));
        requests.push(Request::CopyDone);
        world.send(copy, requests);
    }
    world.run();
    for copy in 0..COPIES {
        assert_eq!(world.said(copy), ["G", "C COPY 10000", "Z I"]);
    }
    assert_eq!(
        world.rows(0, "select count(*), min(id), max(id) from t"),
        ["70000|1|70000"]
    );
    assert!(lent::jobs() >= THREADS_MAX);
    lent::wait_for_running(0);
}

/// Where there is no thread, the session reads its data itself, and asks again when as much has come once more.
#[test]
fn a_copy_without_a_thread_reads_its_data_itself_until_there_is_one() {
    let mut world = lent::world(1);
    world.must(0, "create table t (id int primary key, n int, note text)");
    lent::refuse();
    world.start_copy(0, "copy t from stdin");
    world.feed(0, &rows(1, 10_000));
    assert_eq!(lent::jobs(), 0);
    lent::let_go();
    world.feed(0, &rows(10_001, 20_000));
    assert_eq!(lent::jobs(), 1);
    assert_eq!(world.copy_done(0)[0], "C COPY 20000");
    lent::wait_for_running(0);
    // Defaults that draw on sequences, or on the clock, are taken where the session is.
    world.must(
        0,
        "create table s (id serial primary key, n int, note text, made timestamptz default now())",
    );
    let said = world.copy(0, "copy s (id, n, note) from stdin", &rows(1, 10_000));
    assert_eq!(said[0], "C COPY 10000");
    let data: Vec<u8> = (1..=20_000).flat_map(|n| format!("{n}\tx\n").into_bytes()).collect();
    world.must(0, "truncate s");
    assert_eq!(world.copy(0, "copy s (n, note) from stdin", &data)[0], "C COPY 20000");
    assert_eq!(lent::jobs(), 1);
    assert_eq!(
        world.rows(0, "select count(*), min(id), max(id) from s where id = n"),
        ["20000|1|20000"]
    );
}
