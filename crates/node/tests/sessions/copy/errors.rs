//! What is wrong with the data of a COPY is told with its line, wherever that is; nothing is loaded, and the session goes on.

use super::data::*;
use super::lent;
use crate::world::*;
use rubato_sql::client::Request;

const ROWS: usize = 20_000;
const TABLES: &str =
    "create table parent (id int primary key); insert into parent select g from generate_series(0, 99) g;
    create table t (id int primary key, n int not null references parent, note text not null unique, check (n < 1000));
    insert into t values (1000001, 1, 'first')";

/// Read by the session itself, the first that another thread reads, one far behind, and the last.
const LINES: [usize; 4] = [10, 5_000, ROWS / 2, ROWS];

/// A wrong line, its error, and what is told of its place behind the number of the line.
const WRONG: [(&str, &str, &str); 9] = [
    (
        "x1\t1\ta",
        "E 22P02 invalid input syntax for type integer: \"x1\"",
        ", column id: \"x1\"",
    ),
    (
        "1000002\t99999999999\ta",
        "E 22003 value \"99999999999\" is out of range for type integer",
        ", column n: \"99999999999\"",
    ),
    (
        "1000002\t1",
        "E 22P04 missing data for column \"note\"",
        ": \"1000002\t1\"",
    ),
    (
        "1000002\t1\ta\tb",
        "E 22P04 extra data after last expected column",
        ": \"1000002\t1\ta\tb\"",
    ),
    (
        "1000002\t1\t\\N",
        "E 23502 null value in column \"note\" of relation \"t\" violates not-null constraint",
        ": \"1000002\t1\t\\N\"",
    ),
    (
        "1000002\t2000\ta",
        "E 23514 new row for relation \"t\" violates check constraint \"t_n_check\"",
        ": \"1000002\t2000\ta\"",
    ),
    (
        "1000001\t1\ta",
        "E 23505 duplicate key value violates unique constraint \"t_pkey\"",
        "",
    ),
    (
        "1000002\t1\tfirst",
        "E 23505 duplicate key value violates unique constraint \"t_note_key\"",
        "",
    ),
    (
        "1\t1\ta",
        "E 23505 duplicate key value violates unique constraint \"t_pkey\"",
        "",
    ),
];

/// The data with a wrong line in the place of one of it, and rows behind it.
fn with_wrong_line(line: usize, wrong: &str) -> Vec<u8> {
    let mut data = rows(1, line - 1);
    data.extend_from_slice(wrong.as_bytes());
    if line < ROWS {
        data.push(b'\n');
        data.extend(rows(line + 1, ROWS));
    }
    data
}

fn assert_nothing_is_loaded(world: &mut World, what: &str) {
    lent::wait_for_running(0);
    let figures = world.node.figures();
    assert_eq!((figures.live_transactions, figures.pending_bytes), (0, 0), "{what}");
    assert_eq!(
        world.rows(0, "select id, n, note from t where id > 0"),
        ["1000001|1|first"],
        "{what}"
    );
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_nothing_is_loaded() {
    for line in LINES {
        let mut world = lent::world(1);
        world.must(0, TABLES);
        for (wrong, error, place) in WRONG {
            let what = format!("line {line}: {wrong}");
            let said = world.copy(0, "copy t from stdin", &with_wrong_line(line, wrong));
            assert_eq!(said, [error, "Z I"], "{what}");
            assert_eq!(world.context(0), format!("COPY t, line {line}{place}"), "{what}");
            assert_nothing_is_loaded(&mut world, &what);
        }
        assert_eq!(lent::jobs(), if line == LINES[0] { 0 } else { WRONG.len() }, "{line}");
        let said = world.copy(0, "copy t from stdin", &rows(1, ROWS));
        assert_eq!(said, [format!("C COPY {ROWS}"), "Z I".into()]);
        assert_eq!(world.rows(0, "select count(*) from t"), [(ROWS + 1).to_string()]);
    }
}

/// All requests are there before the first of them is looked at: what follows the error is passed over up to the next statement.
#[test]
fn what_is_wrong_is_told_to_a_client_that_does_not_wait() {
    let mut world = lent::world(1);
    world.must(0, TABLES);
    for line in LINES {
        for simple in [true, false] {
            let data = with_wrong_line(line, "x1\t1\ta");
            let sql = "copy t from stdin";
            let mut requests = if simple {
                vec![query(sql)]
            } else {
                Vec::from(unnamed(sql))
            };
            requests.extend(pieces(&data).iter().map(|piece| copy_data(piece)));
            requests.push(Request::CopyDone);
            requests.extend((!simple).then_some(Request::Sync));
            requests.push(query("select 'goes on'"));
            let mut said = world.tell(0, requests);
            if !simple {
                assert_eq!(said.drain(..2).collect::<Vec<_>>(), ["1", "2"]);
            }
            let error = "E 22P02 invalid input syntax for type integer: \"x1\"";
            assert_eq!(
                said,
                ["G", error, "Z I", "T 1", "D goes on", "C SELECT 1", "Z I"],
                "{line} {simple}"
            );
            assert_eq!(world.context(0), format!("COPY t, line {line}, column id: \"x1\""));
            assert_nothing_is_loaded(&mut world, "not waited for");
        }
    }
}

/// Of two wrong lines the first is told, whether its data or its row is what is wrong with it.
#[test]
fn the_first_wrong_line_is_told() {
    let mut world = lent::world(1);
    world.must(0, TABLES);
    for (first, second, code) in [("1\t1\ta", "x1\t1\ta", "E 23505"), ("x1\t1\ta", "1\t1\ta", "E 22P02")] {
        for (held, distance) in [(false, 1), (true, 1), (false, 3000), (true, 3000)] {
            if held {
                lent::hold();
            }
            let mut data = rows(1, 9_999);
            data.extend(format!("{first}\n").bytes());
            data.extend(rows(10_001, 10_000 + distance));
            data.extend(format!("{second}\n").bytes());
            world.start_copy(0, "copy t from stdin");
            world.feed(0, &data);
            lent::let_go();
            let said = world.copy_done(0);
            assert!(said[0].starts_with(code), "{said:?}");
            assert!(world.context(0).starts_with("COPY t, line 10000"));
            assert_nothing_is_loaded(&mut world, first);
        }
    }
}

#[test]
fn a_missing_parent_is_told_wherever_it_is() {
    let mut world = lent::world(1);
    world.must(0, TABLES);
    for line in LINES {
        let said = world.copy(0, "copy t from stdin", &with_wrong_line(line, "1000002\t500\ta"));
        let error = "E 23503 insert or update on table \"t\" violates foreign key constraint \"t_n_fkey\"";
        assert_eq!(said, [error, "Z I"], "{line}");
        assert_nothing_is_loaded(&mut world, "a missing parent");
    }
    assert!(lent::jobs() >= 3);
}

/// Records of several lines, and a header, count with all their lines.
#[test]
fn lines_of_csv_are_counted_through_records_of_several() {
    let mut world = lent::world(1);
    world.must(0, "create table t (id int primary key, n int, note text)");
    let record = |id: usize| format!("{id},{id},\"two\nlines {id}\"\n");
    for (wrong, error, place) in [
        (
            "1,x,a\n",
            "E 22P02 invalid input syntax for type integer: \"x\"",
            ", column n: \"x\"",
        ),
        (
            "1,\"\nx\",a\n",
            "E 22P02 invalid input syntax for type integer: \"\nx\"",
            ", column n: \"\nx\"",
        ),
        ("1,\"x", "E 22P04 unterminated CSV quoted field", ": \"1,\"x\""),
    ] {
        let mut data = String::from("id,n,note\n");
        data.extend((1..=ROWS).map(record));
        data += wrong;
        let said = world.copy(0, "copy t from stdin (format csv, header)", data.as_bytes());
        assert_eq!(said, [error, "Z I"]);
        let line = 1 + 2 * ROWS + 1 + usize::from(wrong.starts_with("1,\"\n"));
        assert_eq!(world.context(0), format!("COPY t, line {line}{place}"));
        assert_eq!(world.rows(0, "select count(*) from t"), ["0"]);
        lent::wait_for_running(0);
    }
    assert_eq!(lent::jobs(), 3);
}

/// Rows of `(n int, note text)`.
fn binary(rows: u32) -> Vec<u8> {
    let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for id in 1..=rows {
        data.extend([0, 2, 0, 0, 0, 4]);
        data.extend(id.to_be_bytes());
        data.extend([0, 0, 0, 5, b'a', b'b', b'c', b'd', b'e']);
    }
    data
}

#[test]
fn binary_data_that_ends_early_or_is_wrong_is_refused() {
    let mut world = lent::world(1);
    world.must(0, "create table t (n int, note text)");
    for (behind, error, context) in [
        (&[0, 2, 0, 0][..], "E 22P04 unexpected EOF in COPY data", ""),
        (
            &[0, 3, 0, 0],
            "E 22P04 row field count is 3, expected 2",
            "COPY t, line 10001",
        ),
        (
            &[0, 2, 0, 0, 0, 1, 7, 255, 255, 255, 255],
            "E 22P03 incorrect binary data format",
            "COPY t, line 10001, column n",
        ),
        (
            &[255, 255, 0],
            "E 22P04 received copy data after EOF marker",
            "COPY t, line 10001",
        ),
    ] {
        let mut data = binary(10_000);
        data.extend_from_slice(behind);
        let said = world.copy(0, "copy t from stdin (format binary)", &data);
        assert_eq!(said, [error, "Z I"]);
        assert_eq!(world.context(0), context);
        assert_eq!(world.rows(0, "select count(*) from t"), ["0"]);
        lent::wait_for_running(0);
    }
    // The end of the data may take the place of the trailer, as pgx has it; of the count of another record there may be one byte.
    for (rows, behind) in [
        (10_000, &[255, 255][..]),
        (10_000, &[]),
        (10_000, &[0]),
        (0, &[]),
        (0, &[255, 255]),
    ] {
        let mut data = binary(rows);
        data.extend(behind);
        let said = world.copy(0, "copy t from stdin (format binary)", &data);
        assert_eq!(said, [&format!("C COPY {rows}"), "Z I"], "{behind:?}");
        lent::wait_for_running(0);
    }
    let said = world.copy(0, "copy t from stdin (format binary)", b"");
    assert_eq!(said, ["E 22P04 COPY file signature not recognized", "Z I"]);
    // The trailer and what follows it may come in different messages.
    world.start_copy(0, "copy t from stdin (format binary)");
    let mut data = binary(1);
    data.extend([255, 255]);
    world.send(0, [copy_data(&data), copy_data(b"x"), Request::CopyDone]);
    world.run();
    assert_eq!(world.said(0), ["E 22P04 received copy data after EOF marker", "Z I"]);
    assert_eq!(lent::jobs(), 7);
}

/// In a block: what was done before is rolled back with it, or kept by a savepoint.
#[test]
fn an_error_in_a_block_is_undone_up_to_its_savepoint() {
    let mut world = lent::world(1);
    world.must(0, TABLES);
    for savepoint in [false, true] {
        world.must(0, "begin; insert into t values (5000000, 1, 'before')");
        if savepoint {
            world.must(0, "savepoint a");
        }
        let said = world.copy(0, "copy t from stdin", &with_wrong_line(ROWS / 2, "x1\t1\ta"));
        assert_eq!(said[1..], ["Z E"]);
        if savepoint {
            world.must(0, "rollback to a");
            assert_eq!(world.copy(0, "copy t from stdin", &rows(1, ROWS))[1..], ["Z T"]);
            world.must(0, "commit");
            assert_eq!(world.rows(0, "select count(*) from t"), [(ROWS + 2).to_string()]);
        } else {
            world.must(0, "rollback");
            assert_nothing_is_loaded(&mut world, "rolled back");
        }
    }
}
