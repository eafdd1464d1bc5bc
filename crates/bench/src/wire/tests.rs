//! The client against a scripted server on loopback: what it does with answers no good server would give.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rubato_workload::{Batch, Client, ClientError, Param};

use super::Connection;
use crate::error::BenchError;
use crate::url::Target;

const READY: &[u8] = b"Z\0\0\0\x05I";
const IN_TRANSACTION: &[u8] = b"Z\0\0\0\x05T";

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![tag];
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    message
}

fn welcome() -> Vec<u8> {
    [
        message(b'R', &[0; 4]),
        message(b'S', b"server_version\0 9.9\0"),
        READY.to_vec(),
    ]
    .concat()
}

/// The answer to Parse, Describe and Sync of a statement with one int4 parameter and one int4 column.
fn prepared() -> Vec<u8> {
    let parameters = message(b't', &[0, 1, 0, 0, 0, 23]);
    let column = [
        b"\0\x01c\0",
        &[0; 6][..],
        &23u32.to_be_bytes(),
        &[0, 4, 255, 255, 255, 255, 0, 0],
    ]
    .concat();
    [message(b'1', b""), parameters, message(b'T', &column), READY.to_vec()].concat()
}

fn row(value: i32) -> Vec<u8> {
    message(b'D', &[&[0, 1, 0, 0, 0, 4][..], &value.to_be_bytes()].concat())
}

/// Sends each answer when something has come in, then closes.
fn serve(answers: Vec<Vec<u8>>) -> (Target, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a timeout");
        for answer in answers {
            read_some(&mut stream);
            // Byte by byte: the client must cope with any cut.
            for byte in answer {
                // A client that has read enough hangs up.
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
            }
        }
    });
    let target = Target::parse(&format!("postgres://127.0.0.1:{port}/x?sslmode=disable")).expect("a URL");
    (target, server)
}

fn read_some(stream: &mut TcpStream) {
    let mut buffer = [0; 65536];
    assert!(stream.read(&mut buffer).expect("something to read") > 0);
}

fn failed(opened: Result<Connection, BenchError>) -> ClientError {
    match opened {
        Err(BenchError::Client { error, .. }) => error,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("connected"),
    }
}

#[test]
fn rows_come_back_typed_however_the_bytes_are_cut() {
    let done = message(b'C', b"SELECT 2\0");
    let answer = [message(b'2', b""), row(7), row(-1), done, IN_TRANSACTION.to_vec()].concat();
    let (target, server) = serve(vec![welcome(), prepared(), answer]);
    let mut connection = Connection::open(&target).expect("open");
    assert_eq!(connection.server_version(), " 9.9");
    let statement = connection.prepare("anything").expect("prepared");
    let rows = connection.execute(statement, &[Param::Int(1)]).expect("rows");
    assert_eq!(
        (rows.len(), rows.int(0, 0), rows.int(1, 0), rows.affected()),
        (2, Ok(7), Ok(-1), 2)
    );
    assert!(connection.in_transaction());
    server.join().expect("served");
}

#[test]
fn an_error_in_the_midst_of_a_batch_ends_it_and_leaves_the_session_usable() {
    let error = message(b'E', b"SERROR\0C40001\0Mtoo late\0Dby far\0\0");
    let first = [message(b'2', b""), row(7), message(b'C', b"SELECT 1\0")].concat();
    let second = [message(b'2', b""), row(8), message(b'C', b"SELECT 1\0"), READY.to_vec()].concat();
    let (target, server) = serve(vec![
        welcome(),
        prepared(),
        [first, error, IN_TRANSACTION.to_vec()].concat(),
        second,
    ]);
    let mut connection = Connection::open(&target).expect("open");
    let statement = connection.prepare("anything").expect("prepared");
    let mut batch = Batch::with_capacity(2);
    batch.push(statement, &[Param::Int(1)]);
    batch.push(statement, &[Param::Int(2)]);
    let error = connection
        .execute_batch(&batch)
        .expect_err("the error of the second call");
    assert!(error.is_retryable() && error.message() == "too late: by far", "{error}");
    assert_eq!(
        connection
            .execute(statement, &[Param::Int(3)])
            .and_then(|rows| rows.int(0, 0)),
        Ok(8)
    );
    server.join().expect("served");
}

#[test]
fn a_wrong_number_of_parameters_is_found_before_anything_is_sent() {
    let answer = [message(b'2', b""), row(7), message(b'C', b"SELECT 1\0"), READY.to_vec()].concat();
    let (target, server) = serve(vec![welcome(), prepared(), answer]);
    let mut connection = Connection::open(&target).expect("open");
    let statement = connection.prepare("anything").expect("prepared");
    assert!(connection.execute(statement, &[]).is_err());
    assert!(connection.execute(statement, &[Param::Int(1 << 40)]).is_err());
    assert_eq!(
        connection
            .execute(statement, &[Param::Int(1)])
            .and_then(|rows| rows.int(0, 0)),
        Ok(7)
    );
    server.join().expect("served");
}

#[test]
fn a_server_that_goes_away_is_a_lost_connection() {
    let (target, server) = serve(vec![welcome(), prepared(), b"D\0\0\0".to_vec()]);
    let mut connection = Connection::open(&target).expect("open");
    let statement = connection.prepare("anything").expect("prepared");
    let error = connection
        .execute(statement, &[Param::Int(1)])
        .expect_err("half a message");
    assert!(error.is_connection_lost(), "{error}");
    server.join().expect("served");
}

#[test]
fn garbage_and_refusals_are_errors() {
    let refused = message(b'E', b"SFATAL\0C28P01\0Mno\0\0");
    for (answer, sqlstate) in [
        (b"HTTP/1.1 400 Bad Request".to_vec(), "08006"),
        (message(b'R', &[0, 0, 0, 99]), "08006"),
        (b"R\0\0\0\0".to_vec(), "08006"),
        (refused, "28P01"),
        (message(b'R', &[0, 0, 0, 3]), "28P01"),
    ] {
        let (target, server) = serve(vec![answer]);
        assert_eq!(failed(Connection::open(&target)).sqlstate(), sqlstate);
        server.join().expect("served");
    }
}
