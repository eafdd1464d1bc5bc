//! How a node comes into a grid: it asks one of its nodes, which may send it on to the one that keeps the list.

use rubato_base::NodeId;
use rubato_grid::GridMessage;
use rubato_grid::channel::{APPLICANT, Dialling, Greeted, GridId, Identity, Integrity, Progress, Secret, VERSIONS};
use rubato_grid::frame::Received;
use rubato_grid::members::{Applicant, MemberMessage, Members};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How often an applicant is sent on without a pause.
const HOPS_MAX: usize = 3;
/// A node that has just been started may not listen yet: it is asked again for so long.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(200);
/// How long one of the two may be silent.
const SILENCE: Duration = Duration::from_secs(5);
/// The same where the answer is not needed.
const GLANCE: Duration = Duration::from_secs(1);
/// Room for the one message that an applicant sends.
const BYTES_MAX: usize = 1 << 20;

/// Why there was no answer.
enum Failure {
    /// It may come to one later.
    Unreachable(String),
    Refused(String),
}

/// Asks the node at an address for a place in its grid, until there is an answer or this node is stopped.
///
/// Errors: a sentence.
pub(super) fn apply(
    at: &str,
    secret: &Secret,
    (applicant, address): (Applicant, &str),
    is_stopped: &mut dyn FnMut() -> bool,
) -> Result<(NodeId, Members), String> {
    let first = at;
    let mut at = at.to_owned();
    let until = Instant::now() + PATIENCE;
    let mut is_said = false;
    for hop in 0.. {
        // While what there is once is handed over, two nodes may send on to each other.
        if hop >= HOPS_MAX {
            if Instant::now() > until {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let answer = loop {
            if is_stopped() {
                return Err("stopped before it has joined the grid".to_owned());
            }
            match ask(&at, secret, applicant, address) {
                Ok(answer) => break answer,
                Err(Failure::Unreachable(why)) if Instant::now() < until => {
                    if !std::mem::replace(&mut is_said, true) {
                        let patience_s = PATIENCE.as_secs();
                        tracing::warn!(
                            at,
                            why,
                            patience_s,
                            "no node of the grid answers there: it is asked again for so long"
                        );
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(Failure::Unreachable(why) | Failure::Refused(why)) => return Err(no_place(first, &at, &why)),
            }
        };
        match answer {
            MemberMessage::Admitted(node, members) => return Ok((node, members)),
            MemberMessage::AskAt(other) => at = other,
            MemberMessage::NotAdmitted(why) => return Err(no_place(first, &at, &why)),
            other => return Err(no_place(first, &at, &format!("it answers {other:?}"))),
        }
    }
    Err(format!("cannot join the grid: {at} sends on to others again and again"))
}

/// Why there is no place: what the node that was asked last says, or that it says nothing.
fn no_place(first: &str, at: &str, why: &str) -> String {
    match at == first {
        true => format!("cannot join the grid by {at}: {why}"),
        false => {
            format!("cannot join the grid by {first}, which sends on to {at}, the node that keeps the list: {why}")
        }
    }
}

/// It may be reached later.
fn unreachable(wrong: std::io::Error) -> Failure {
    Failure::Unreachable(match wrong.kind() {
        // What a socket says whose time-out has passed.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("nothing is heard from it for {} s", SILENCE.as_secs())
        }
        _ => wrong.to_string(),
    })
}

fn ask(at: &str, secret: &Secret, applicant: Applicant, address: &str) -> Result<MemberMessage, Failure> {
    let mut found = at.to_socket_addrs().map_err(unreachable)?;
    let target = found
        .next()
        .ok_or_else(|| Failure::Refused("the name has no address".to_owned()))?;
    let mut stream = TcpStream::connect_timeout(&target, SILENCE).map_err(unreachable)?;
    stream.set_read_timeout(Some(SILENCE)).map_err(unreachable)?;
    let greeted = greet(&mut stream, secret)?;
    let (mut writer, mut reader, mut bytes) = greeted.into_channel(BYTES_MAX);
    let message = MemberMessage::Apply {
        applicant,
        address: address.to_owned(),
    };
    // Nothing waits yet, so there is room.
    let _ = writer.push(&GridMessage::Member(message));
    stream.write_all(&writer.take()).map_err(unreachable)?;
    loop {
        let mut received = Vec::new();
        let read = reader.read(&bytes, &mut received);
        for received in received {
            match received {
                Received::Message(GridMessage::Member(answer)) => return Ok(answer),
                Received::Ping(number) => writer.pong(number),
                Received::Closing(why) => return Err(Failure::Refused(why)),
                Received::Message(_) | Received::Pong(_) => {}
            }
        }
        read.map_err(|error| Failure::Refused(error.message().to_owned()))?;
        stream.write_all(&writer.take()).map_err(unreachable)?;
        bytes = more(&mut stream)?;
    }
}

/// Of which grid the node at an address is; `None` if that is not said at once.
pub(super) fn grid_of(at: &str, secret: &Secret) -> Option<GridId> {
    let target = at.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&target, GLANCE).ok()?;
    stream.set_read_timeout(Some(GLANCE)).ok()?;
    greet(&mut stream, secret).ok().map(|greeted| greeted.grid)
}

/// The hello of a node that is of no grid yet.
fn greet(stream: &mut TcpStream, secret: &Secret) -> Result<Greeted, Failure> {
    let identity = Identity {
        grid: GridId::NONE,
        node: APPLICANT,
        life: 0,
        log_end: 0,
        secret: secret.clone(),
        integrity: Integrity::Codes,
        versions: VERSIONS,
    };
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|wrong| Failure::Refused(format!("no random numbers: {wrong}")))?;
    let mut out = Vec::new();
    let mut dialling = Dialling::new(identity.into(), None, nonce, 0, &mut out);
    loop {
        let written = stream.write_all(&std::mem::take(&mut out));
        written.map_err(unreachable)?;
        match dialling.on_bytes(&more(stream)?, &|_| Ok(()), &mut out) {
            Progress::More => {}
            Progress::Done(greeted) => return Ok(*greeted),
            Progress::Refused(refusal) => {
                // The other end logs why, if it hears it.
                let _ = stream.write_all(&out);
                return Err(Failure::Refused(refusal.to_string()));
            }
        }
    }
}

fn more(stream: &mut TcpStream) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; 16 << 10];
    match stream.read(&mut bytes) {
        Ok(0) => Err(Failure::Refused("it has closed the connection".to_owned())),
        Ok(count) => {
            bytes.truncate(count);
            Ok(bytes)
        }
        Err(wrong) => Err(unreachable(wrong)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The system takes a connection for a process that is stopped.
    #[test]
    fn who_takes_a_connection_and_says_nothing_is_said_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let Err(Failure::Unreachable(why)) = more(&mut stream) else {
            panic!("it is no refusal, and no answer");
        };
        assert_eq!(why, "nothing is heard from it for 5 s");
        assert_eq!(
            no_place("a:1", "b:2", &why),
            "cannot join the grid by a:1, which sends on to b:2, the node that keeps the list: nothing is heard from it for 5 s"
        );
    }
}
