//! Mutated messages of clients: they are decoded or refused, and nothing panics.

#[path = "../../sql/tests/mutations/mutate.rs"]
#[allow(dead_code, reason = "statements are mutated in the room `sql`")]
mod mutate;

use rubato_server::wire::decode_requests;
use rubato_server::wire::startup::decode_startup;
use std::collections::VecDeque;

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag], length.as_slice(), body].concat()
}

/// One message of each kind, and a pipeline of all.
fn messages() -> Vec<Vec<u8>> {
    let bind = b"portal\0statement\0\0\x02\0\0\0\x01\0\x02\0\0\0\x031.5\0\0\0\x04\0\0\0\x07\0\x01\0\x01";
    let mut all = vec![
        message(b'Q', b"select 1; select 'x'\0"),
        message(
            b'P',
            b"statement\0select $1::numeric, $2::int4\0\0\x02\0\0\x06\xa4\0\0\0\x17",
        ),
        message(b'B', bind),
        message(b'D', b"Sstatement\0"),
        message(b'E', b"portal\0\0\0\0\x0a"),
        message(b'C', b"Pportal\0"),
        message(b'S', b""),
        message(b'H', b""),
        message(b'd', b"1\tx\n2\t\\N\n"),
        message(b'c', b""),
        message(b'f', b"given up\0"),
        message(b'F', b"\0\0\0\x2a\0\0\0\0\0\0"),
        message(b'X', b""),
    ];
    all.push(all.concat());
    all
}

#[test]
fn mutated_messages_are_decoded_or_refused() {
    let corpus = messages();
    mutate::survive(
        |random| mutate::bytes(random, &corpus),
        |input| {
            let mut requests = VecDeque::new();
            drop(decode_requests(input, 1 << 20, &mut requests));
        },
    );
}

#[test]
fn mutated_first_packets_are_decoded_or_refused() {
    let startup = b"\0\0\0\x3f\0\x03\0\0user\0rubato\0database\0rubato\0options\0-c a=b --c=d\0\0".to_vec();
    let corpus = [
        startup,
        b"\0\0\0\x08\x04\xd2\x16\x2f".to_vec(),
        b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02".to_vec(),
    ];
    mutate::survive(
        |random| mutate::bytes(random, &corpus),
        |input| drop(decode_startup(input)),
    );
}
