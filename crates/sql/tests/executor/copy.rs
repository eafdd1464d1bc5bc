use crate::world::*;
use bytes::Bytes;
use rubato_base::{DataType, Error, SqlState};
use rubato_protocol::{Outcome, Stop};
use rubato_sql::catalog::Table;
use rubato_sql::client::OutputColumn;
use rubato_sql::executor::{CopyOut, CopyReader, ExecutionContext};
use rubato_sql::statement::{CopyFormat, CopyStatement, Utility};
use rubato_stages::{Helpers, Job};
use std::sync::Arc;

pub fn statement(table: &Arc<Table>, from: bool, format: CopyFormat) -> CopyStatement {
    let column = |place: usize| OutputColumn {
        name: table.columns[place].name.clone(),
        data_type: table.columns[place].column_type.data_type,
        modifier: -1,
        table: None,
        column_number: 0,
        told_type: None,
    };
    CopyStatement {
        from,
        table: Some(Arc::clone(table)),
        columns: vec![0, 1, 2],
        query: (!from).then(|| {
            plan(rubato_sql::plan::PlanBody::Select(select_plan(vec![step(
                table,
                full(),
                0,
            )])))
        }),
        output: (0..3).map(column).collect(),
        format,
        delimiter: if format == CopyFormat::Csv { b',' } else { b'\t' },
        null: if format == CopyFormat::Csv {
            String::new()
        } else {
            "\\N".into()
        },
        header: false,
        quote: b'"',
        escape: b'"',
        force_quote: vec![],
        match_header: false,
        force_null: vec![],
        force_not_null: vec![],
        filter: None,
    }
}

fn thread(job: Job) -> bool {
    std::thread::spawn(job);
    true
}

fn finish(reader: &mut CopyReader, context: &mut ExecutionContext<'_>) -> Outcome<u64> {
    loop {
        if let Some(rows) = reader.finish(context)? {
            return Ok(rows);
        }
    }
}

/// Loads data in pieces of `piece` bytes; another thread reads those of odd sizes.
fn load(world: &mut World, statement: &CopyStatement, data: &[u8], piece: usize) -> Result<u64, Error> {
    let transaction = world.begin();
    let mut reader = CopyReader::new(statement).unwrap();
    let outcome = world.with_context(transaction, &[], |context| {
        if piece % 2 == 1 {
            reader.read_ahead(&Helpers::new(Some(thread), 1), context.evaluation);
        }
        data.chunks(piece).try_for_each(|piece| {
            reader.pack(Bytes::copy_from_slice(piece), context.evaluation);
            reader.place(context)
        })?;
        finish(&mut reader, context)
    });
    match outcome {
        Ok(rows) => world.commit(transaction).map(|()| rows).map_err(error_of),
        Err(stop) => {
            world.database.rollback(transaction);
            Err(error_of(stop))
        }
    }
}

fn unload(world: &mut World, statement: CopyStatement) -> Vec<u8> {
    let transaction = world.begin();
    let mut out = CopyOut::new(&Utility::Copy(statement)).unwrap();
    let mut data = Vec::new();
    loop {
        let done = world.with_context(transaction, &[], |context| {
            out.run(context, &mut |message| {
                data.extend_from_slice(message);
                data.len() % 3 != 0
            })
        });
        if done.unwrap().is_some() {
            break;
        }
    }
    world.commit(transaction).unwrap();
    data
}

fn world_with_table() -> (World, Arc<Table>) {
    let mut world = World::new();
    let t = world.create(table("t", 1));
    (world, t)
}

#[test]
fn text_comes_in_whatever_pieces() {
    let data = b"1\t10\tplain\n2\t\\N\ttab\\tnew\\nline\\\\ \\x41\\101\n3\t-3\t\\\n\n4\t4\tlast";
    for piece in 1..data.len() {
        let (mut world, t) = world_with_table();
        assert_eq!(
            load(&mut world, &statement(&t, true, CopyFormat::Text), data, piece).unwrap(),
            4
        );
        assert_eq!(
            world.rows(&t),
            ["1|10|plain", "2|NULL|tab\tnew\nline\\ AA", "3|-3|\n", "4|4|last"]
        );
    }
}

#[test]
fn csv_comes_in_whatever_pieces() {
    let data = b"id,a,b\r\n1,10,\"a \"\"quoted\"\", field\"\r\n2,,\"\"\r\n3,3,\"two\nlines\"\r\n\"4\",4,x\"y\"z\r\n\\.\r\nrest";
    for piece in 1..data.len() {
        let (mut world, t) = world_with_table();
        let statement = CopyStatement {
            header: true,
            ..statement(&t, true, CopyFormat::Csv)
        };
        assert_eq!(load(&mut world, &statement, data, piece).unwrap(), 4);
        assert_eq!(
            world.rows(&t),
            ["1|10|a \"quoted\", field", "2|NULL|", "3|3|two\nlines", "4|4|xyz"]
        );
    }
}

#[test]
fn what_goes_out_comes_back_in_all_formats() {
    for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
        let (mut world, t) = world_with_table();
        let texts = ["plain", "", "a,b\t\"c\"", "\\N", "two\r\nlines", "\\."];
        let rows = texts.iter().zip(1..).map(|(b, id)| vec![int(id), int(-id), text(b)]);
        world
            .run(insert(&t, rows.chain([vec![int(9), null(), null()]]).collect()), &[])
            .unwrap();
        let data = unload(&mut world, statement(&t, false, format));
        let before = world.rows(&t);
        let (mut world, t) = world_with_table();
        assert_eq!(load(&mut world, &statement(&t, true, format), &data, 5).unwrap(), 7);
        assert_eq!(world.rows(&t), before);
    }
}

#[test]
fn the_bytes_are_postgresqls() {
    let (mut world, t) = world_with_table();
    world
        .run(insert(&t, vec![vec![int(1), null(), text("a,\\b")]]), &[])
        .unwrap();
    assert_eq!(
        unload(&mut world, statement(&t, false, CopyFormat::Text)),
        b"1\t\\N\ta,\\\\b\n"
    );
    let csv = CopyStatement {
        header: true,
        ..statement(&t, false, CopyFormat::Csv)
    };
    assert_eq!(unload(&mut world, csv), b"id,a,b\n1,,\"a,\\b\"\n");
    let mut expected =
        b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff\0\0\0\x04a,\\b".to_vec();
    expected.extend_from_slice(&[255, 255]);
    assert_eq!(unload(&mut world, statement(&t, false, CopyFormat::Binary)), expected);
}

#[test]
fn bad_data_is_named_and_nothing_is_loaded() {
    let cases: [(&[u8], SqlState, &str, &str); 8] = [
        (
            b"1\t1\tx\nz\t1\tx\n",
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type integer: \"z\"",
            "COPY t, line 2, column id: \"z\"",
        ),
        (
            b"1\t1\n",
            SqlState::BAD_COPY_FILE_FORMAT,
            "missing data for column \"b\"",
            "COPY t, line 1: \"1\t1\"",
        ),
        (
            b"1\t1\tx\t\n",
            SqlState::BAD_COPY_FILE_FORMAT,
            "extra data after last expected column",
            "COPY t, line 1: \"1\t1\tx\t\"",
        ),
        (
            b"1\t1\tx\n1\t1\tx\n",
            SqlState::UNIQUE_VIOLATION,
            "duplicate key value violates unique constraint \"t_pkey\"",
            "COPY t, line 2",
        ),
        (
            b"\\N\t1\tx\n",
            SqlState::NOT_NULL_VIOLATION,
            "null value in column \"id\" of relation \"t\" violates not-null constraint",
            "COPY t, line 1: \"\\N\t1\tx\"",
        ),
        (
            b"1\t1\tx\ny\n",
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type integer: \"y\"",
            "COPY t, line 2, column id: \"y\"",
        ),
        (
            b"1\t1\t\xff\n",
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0xff",
            "COPY t, line 1, column b: \"\u{fffd}\"",
        ),
        (
            b"1\t99999999999\tx\n",
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value \"99999999999\" is out of range for type integer",
            "COPY t, line 1, column a: \"99999999999\"",
        ),
    ];
    for (data, code, message, context) in cases {
        let (mut world, t) = world_with_table();
        let error = load(&mut world, &statement(&t, true, CopyFormat::Text), data, 1000).unwrap_err();
        assert_eq!((error.code(), error.message()), (code, message));
        assert_eq!(error.fields().context.as_deref(), Some(context));
        assert_eq!(world.rows(&t).len(), 0);
    }
}

#[test]
fn random_bytes_are_errors_or_rows_but_never_panics() {
    let mut state = 12345u64;
    let mut byte = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        b"\t\n\r\\\",.xN01\xff\0PG-"[(state >> 33) as usize % 16]
    };
    for _ in 0..3000 {
        let data: Vec<u8> = (0..40).map(|_| byte()).collect();
        for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
            let (mut world, t) = world_with_table();
            let _ = load(&mut world, &statement(&t, true, format), &data, 7);
            let mut framed = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x03".to_vec();
            framed.extend_from_slice(&data);
            let _ = load(&mut world, &statement(&t, true, CopyFormat::Binary), &framed, 7);
        }
    }
}

#[test]
fn a_row_that_must_wait_is_loaded_once() {
    let (mut world, t) = world_with_table();
    let other = world.begin();
    world
        .run_in(other, insert(&t, vec![vec![int(2), int(0), text("other")]]), &[])
        .unwrap();
    let copying = world.begin();
    let mut reader = CopyReader::new(&statement(&t, true, CopyFormat::Text)).unwrap();
    let fed = world.with_context(copying, &[], |context| {
        reader.pack(Bytes::from_static(b"1\t1\tx\n2\t2\ty\n3\t3\tz\n"), context.evaluation);
        reader.place(context)
    });
    assert!(matches!(fed, Err(Stop::Wait(_))));
    world.database.rollback(other);
    assert_eq!(world.database.take_woken()[0].0, copying);
    let rows = world.with_context(copying, &[], |context| {
        reader.place(context)?;
        finish(&mut reader, context)
    });
    assert_eq!(rows.unwrap(), 3);
    world.commit(copying).unwrap();
    assert_eq!(world.rows(&t), ["1|1|x", "2|2|y", "3|3|z"]);
}

/// Enough data for another thread to be far ahead of the rows that are placed, or behind them.
#[test]
fn much_data_is_read_by_another_thread_in_order_and_errors_name_their_lines() {
    let rows = 60_000;
    let line = |row: i32| format!("{row}\t{}\t{}\n", row * 2, "x".repeat(row as usize % 40));
    let whole: String = (1..=rows).map(line).collect();
    for piece in [1001, 65_535] {
        let (mut world, t) = world_with_table();
        let statement = statement(&t, true, CopyFormat::Text);
        assert_eq!(
            load(&mut world, &statement, whole.as_bytes(), piece).unwrap(),
            rows as u64
        );
        let found = world.rows(&t);
        assert_eq!(found.len(), rows as usize);
        assert_eq!(found[41], format!("42|84|{}", "x".repeat(2)));
        for (wrong, state, told) in [
            (
                "no number",
                SqlState::INVALID_TEXT_REPRESENTATION,
                "line 100001, column id: \"no number\"",
            ),
            ("7", SqlState::UNIQUE_VIOLATION, "line 100001"),
        ] {
            let mut data: String = (1..=100_000).map(|row| line(row + rows)).collect();
            data.push_str(&format!("{wrong}\t1\tx\n"));
            data.extend((1..=100_000).map(|row| line(row + 200_000)));
            let error = load(&mut world, &statement, data.as_bytes(), piece).unwrap_err();
            assert_eq!(error.code(), state);
            assert!(
                error
                    .fields()
                    .context
                    .as_ref()
                    .is_some_and(|context| context.contains(told)),
                "{error:?}"
            );
            assert_eq!(world.rows(&t).len(), rows as usize, "nothing was loaded");
        }
    }
}

#[test]
fn missing_columns_take_their_defaults() {
    let mut world = World::new();
    let mut t = table("t", 1);
    t.columns[1].default = Some(int(42));
    t.columns.push(column("c", DataType::Int4));
    let t = world.create(t);
    let statement = CopyStatement {
        columns: vec![2, 0],
        ..statement(&t, true, CopyFormat::Text)
    };
    load(&mut world, &statement, b"x\t1\ny\t2\n", 100).unwrap();
    assert_eq!(world.rows(&t), ["1|42|x|NULL", "2|42|y|NULL"]);
}
