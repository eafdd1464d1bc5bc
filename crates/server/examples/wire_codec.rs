//! What reading and writing one prepared point select costs: our own codec against that of the library (decision 0004).
//!
//! `cargo run --release -p rubato-server --example wire_codec`

use bytes::{BufMut, BytesMut};
use pgwire::messages::data::DataRow;
use pgwire::messages::extendedquery::BindComplete;
use pgwire::messages::response::{CommandComplete, ReadyForQuery, TransactionStatus as PgwireStatus};
use pgwire::messages::{DecodeContext, Message, PgWireFrontendMessage, ProtocolVersion};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use rubato_base::text_format::TextContext;
use rubato_base::{DataType, Value};
use rubato_server::wire::{MESSAGE_BYTES_MAX, PgResponder, decode_requests};
use rubato_sql::client::{OutputColumn, Responder, TransactionStatus};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 1_000_000;

fn select(parameters: &[&str]) -> BytesMut {
    let mut out = BytesMut::new();
    let value = |value: &&str, buffer: &mut BytesMut| {
        buffer.put_slice(value.as_bytes());
        Ok(IsNull::No)
    };
    if frontend::bind("", "P0_1", [], parameters, value, [0], &mut out).is_err() {
        println!("the message could not be made");
    }
    // Names without zero bytes always encode.
    let _ = frontend::describe(b'P', "", &mut out).and_then(|()| frontend::execute("", 0, &mut out));
    frontend::sync(&mut out);
    out
}

fn measure(what: &str, mut round: impl FnMut()) {
    (0..ROUNDS / 10).for_each(|_| round());
    let started = Instant::now();
    (0..ROUNDS).for_each(|_| round());
    println!(
        "{what}: {:.0} ns",
        started.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
    );
}

fn main() {
    for parameters in [&["4711"][..], &["4711", "12", "-300", "5"]] {
        let input = select(parameters);
        let count = parameters.len();
        let mut requests = VecDeque::new();
        measure(&format!("decode, {count} parameters, own"), || {
            requests.clear();
            black_box(decode_requests(&input, MESSAGE_BYTES_MAX, &mut requests));
        });
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        context.awaiting_frontend_ssl = false;
        context.awaiting_frontend_startup = false;
        let mut buffer = BytesMut::with_capacity(64 << 10);
        measure(&format!("decode, {count} parameters, pgwire"), || {
            buffer.reserve(input.len());
            buffer.extend_from_slice(&input);
            while let Ok(Some(message)) = PgWireFrontendMessage::decode(&mut buffer, &context) {
                black_box(message);
            }
        });
    }
    let column = OutputColumn {
        name: "v".to_owned(),
        data_type: DataType::Text,
        modifier: -1,
        table: None,
        column_number: 0,
        told_type: None,
    };
    let (values, columns, text) = ([Value::text("1234567")], [column], TextContext::default());
    let mut responder = PgResponder::new();
    measure("encode a row and its frame, own", || {
        responder.clear();
        responder.bind_complete();
        responder.data_row(&values, &columns, &[], &text);
        responder.command_complete("SELECT 1");
        responder.ready_for_query(TransactionStatus::Idle);
        black_box(responder.bytes());
    });
    let mut out = BytesMut::with_capacity(64 << 10);
    measure("encode a row and its frame, pgwire", || {
        out.clear();
        let mut row = BytesMut::with_capacity(16);
        row.put_i32(7);
        row.put_slice(b"1234567");
        let done = CommandComplete::new("SELECT 1".to_owned());
        let encoded = BindComplete::new()
            .encode(&mut out)
            .and_then(|()| DataRow::new(row, 1).encode(&mut out))
            .and_then(|()| done.encode(&mut out))
            .and_then(|()| ReadyForQuery::new(PgwireStatus::Idle).encode(&mut out));
        let _ = black_box(encoded);
    });
}
