//! Mutated data: rows are taken or the COPY is refused, and the session goes on.

#[path = "../../../../sql/tests/mutations/mutate.rs"]
#[allow(dead_code, reason = "statements are mutated in the room `sql`")]
mod mutate;

use super::data::copy_data;
use crate::world::*;
use rubato_sql::client::Request;

const TEXT: &[u8] = b"1\tone\t1.50\t2024-02-29\t{1,2}\n2\t\\N\t-0.1\t\\N\t{}\n3\ttab\\tand\\\\\\x41\tNaN\t1999-12-31\t{\"4\",null}\n\\.\n";
const CSV: &[u8] =
    b"1,\"one, \"\"quoted\"\"\",1.50,2024-02-29,\"{1,2}\"\n2,,-0.1,,{}\n3,\"line\nbreak\",NaN,1999-12-31,\n";

/// The rows of a binary COPY, with its heading and its end.
fn binary() -> Vec<u8> {
    let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for id in 1..=3_i32 {
        data.extend_from_slice(&5_i16.to_be_bytes());
        let array = [
            &1_i32.to_be_bytes()[..],
            &[0; 4],
            &23_i32.to_be_bytes(),
            &1_i32.to_be_bytes(),
            &1_i32.to_be_bytes(),
            &4_i32.to_be_bytes(),
            &[0, 0, 0, 7],
        ]
        .concat();
        for field in [
            &id.to_be_bytes()[..],
            b"text",
            b"\0\x02\0\0\0\0\0\x02\0\x01\x13\x88",
            &[0, 0, 1, 0],
            &array,
        ] {
            data.extend_from_slice(&(field.len() as i32).to_be_bytes());
            data.extend_from_slice(field);
        }
    }
    data.extend_from_slice(&(-1_i16).to_be_bytes());
    data
}

#[test]
fn mutated_data_are_taken_or_refused() {
    let mut world = World::new(1);
    world.must(0, "create table m (id int, t text, n numeric, d date, a int[])");
    for (format, data) in [("text", TEXT.to_vec()), ("csv", CSV.to_vec()), ("binary", binary())] {
        let sql = format!("copy m from stdin (format {format})");
        let said = world.copy(0, &sql, &data);
        assert!(said.iter().any(|line| line == "C COPY 3"), "{format}: {said:?}");
        let corpus = [data];
        mutate::survive(
            |random| mutate::bytes(random, &corpus),
            |data| {
                world.start_copy(0, &sql);
                world.send(0, [copy_data(data)]);
                world.run();
                let said = world.tell(0, [Request::CopyDone]);
                assert!(
                    said.iter()
                        .any(|line| line.starts_with("C COPY") || line.starts_with("E ")),
                    "{said:?}"
                );
                assert_eq!(world.rows(0, "select 1"), ["1"]);
            },
        );
        world.must(0, "truncate m");
    }
}
