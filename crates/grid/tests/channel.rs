//! The hello of two nodes, each refusal, and what an attacker between them can do.

use proptest::prelude::*;
use rubato_base::NodeId;
use rubato_grid::GridMessage;
use rubato_grid::channel::{
    Accepting, Claim, Dialling, Greeted, GridId, HELLO_TIME_US, Identity, Integrity, Progress, Refusal, Secret,
    VERSIONS, Versions,
};
use rubato_grid::frame::Received;
use rubato_protocol::grid::StageMessage;
use std::sync::Arc;

fn identity(node: u32) -> Identity {
    Identity {
        grid: GridId([7; 16]),
        node: NodeId(node),
        life: 5,
        log_end: 100,
        secret: Secret::new(b"sixteen bytes or more").unwrap(),
        integrity: Integrity::Codes,
        versions: VERSIONS,
    }
}

fn everybody(_: Claim) -> Result<(), Refusal> {
    Ok(())
}

fn dialling(identity: Identity, out: &mut Vec<u8>) -> Dialling {
    Dialling::new(Arc::new(identity), Some(NodeId(2)), [1; 32], 0, out)
}

fn accepting(identity: Identity) -> Accepting {
    Accepting::new(Arc::new(identity), [2; 32], 0)
}

/// What each end has come to: `None` if it waits for more.
type End = Option<Result<Box<Greeted>, Refusal>>;

fn end_of(progress: Progress) -> End {
    match progress {
        Progress::More => None,
        Progress::Done(greeted) => Some(Ok(greeted)),
        Progress::Refused(refusal) => Some(Err(refusal)),
    }
}

/// A hello of two nodes in which `tamper` sees, and may change, what goes by: first the direction (does the dialling end say it).
fn hello(one: Identity, two: Identity, tamper: &mut dyn FnMut(bool, &mut Vec<u8>)) -> (End, End) {
    let mut to_two = Vec::new();
    let mut dialling = dialling(one, &mut to_two);
    let mut accepting = accepting(two);
    let (mut first, mut second) = (None, None);
    while !to_two.is_empty() {
        tamper(true, &mut to_two);
        let mut to_one = Vec::new();
        second = end_of(accepting.on_bytes(&std::mem::take(&mut to_two), &everybody, &mut to_one)).or(second);
        if !to_one.is_empty() {
            tamper(false, &mut to_one);
            first = end_of(dialling.on_bytes(&to_one, &everybody, &mut to_two)).or(first);
        }
    }
    (first, second)
}

fn untouched(_: bool, _: &mut Vec<u8>) {}

/// The sentences of both ends.
fn refusals(one: Identity, two: Identity) -> (String, String) {
    let sentence = |end: End| end.expect("it ends").expect_err("it is refused").to_string();
    let (first, second) = hello(one, two, &mut untouched);
    (sentence(first), sentence(second))
}

/// Who refuses says the sentence, and the other end shows it.
#[track_caller]
fn the_dialled_refuses(one: Identity, two: Identity, expected: &str) {
    let (first, second) = refusals(one, two);
    assert_eq!(second, expected);
    assert_eq!(first, format!("the other end refuses: {expected}"));
}

fn alive(stage_life: u64) -> GridMessage {
    GridMessage::Stage(StageMessage::Alive { stage_life })
}

#[test]
fn both_ends_know_each_other_and_understand_each_others_frames() {
    for integrity in [Integrity::Codes, Integrity::Checksums] {
        let of = |node| Identity {
            integrity,
            ..identity(node)
        };
        let (first, second) = hello(of(1), of(2), &mut untouched);
        let (first, second) = (first.unwrap().unwrap(), second.unwrap().unwrap());
        assert_eq!(
            (first.node, first.life, first.version),
            (NodeId(2), 5, VERSIONS.highest)
        );
        assert_eq!(
            (second.node, second.life, second.version),
            (NodeId(1), 5, VERSIONS.highest)
        );
        let (mut writer_one, mut reader_one, rest_one) = first.into_channel(1000);
        let (mut writer_two, mut reader_two, rest_two) = second.into_channel(1000);
        assert!(rest_one.is_empty() && rest_two.is_empty());
        for number in 0..3 {
            for (writer, reader) in [(&mut writer_one, &mut reader_two), (&mut writer_two, &mut reader_one)] {
                writer.push(&alive(number)).unwrap();
                let mut received = Vec::new();
                reader.read(&writer.take(), &mut received).unwrap();
                assert_eq!(received, [Received::Message(alive(number))]);
            }
        }
    }
}

#[test]
fn the_highest_common_version_is_taken_and_none_is_refused_by_both_ranges() {
    let speaks = |node, lowest, highest| Identity {
        versions: Versions { lowest, highest },
        ..identity(node)
    };
    let (first, second) = hello(speaks(1, 2, 7), speaks(2, 1, 4), &mut untouched);
    assert_eq!(
        (first.unwrap().unwrap().version, second.unwrap().unwrap().version),
        (4, 4)
    );
    the_dialled_refuses(
        speaks(1, 3, 4),
        speaks(2, 1, 2),
        "there is no version of the channel in common: the node that dials speaks 3 to 4, the other 1 to 2",
    );
}

#[test]
fn a_later_version_may_append_to_its_hello_and_this_one_may_not() {
    // A hello by hand: the magic, a frame whose checksum goes over a sequence of zero, and `more` behind the fields.
    let hello = |highest: u16, more: &[u8]| {
        let mut content = vec![16];
        content.extend_from_slice(&1u16.to_le_bytes());
        content.extend_from_slice(&highest.to_le_bytes());
        content.extend_from_slice(&[7; 16]);
        content.extend_from_slice(&1u32.to_le_bytes());
        content.extend_from_slice(&5u64.to_le_bytes());
        content.push(1);
        content.extend_from_slice(&[9; 32]);
        content.extend_from_slice(&100u64.to_le_bytes());
        content.extend_from_slice(more);
        let mut bytes = b"\x89Rubato\n".to_vec();
        bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&[0; 8]), &content);
        bytes.extend_from_slice(&content);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    };
    let answer = |bytes: &[u8]| {
        let mut out = Vec::new();
        (
            end_of(accepting(identity(2)).on_bytes(bytes, &everybody, &mut out)),
            out,
        )
    };
    let own = VERSIONS.highest;
    for (highest, more) in [(own, &b""[..]), (own + 1, b""), (own + 1, b"more")] {
        let (end, out) = answer(&hello(highest, more));
        assert!(end.is_none() && !out.is_empty());
    }
    let (end, _) = answer(&hello(own, b"more"));
    assert!(matches!(end, Some(Err(Refusal::Damaged(_)))), "{end:?}");
}

#[test]
fn each_refusal_is_a_sentence_at_both_ends() {
    the_dialled_refuses(
        Identity {
            grid: GridId([8; 16]),
            ..identity(1)
        },
        identity(2),
        "two grids: the node that refuses is of 07070707070707070707070707070707, the other of 08080808080808080808080808080808",
    );
    the_dialled_refuses(identity(2), identity(2), "node 2 has dialled itself");
    the_dialled_refuses(
        Identity {
            integrity: Integrity::Checksums,
            ..identity(1)
        },
        identity(2),
        "the node that refuses wants codes behind frames, the other checksums: the setting has to be the same on all nodes",
    );
    // The end that dials sees the first proof.
    let other_secret = Identity {
        secret: Secret::new(b"another secret of enough bytes").unwrap(),
        ..identity(1)
    };
    let (first, second) = refusals(other_secret, identity(2));
    assert_eq!(
        first,
        "node 2 and the node at the other end have different secrets: all nodes of a grid have the same"
    );
    assert_eq!(second, format!("the other end refuses: {first}"));
    let (first, second) = refusals(identity(1), identity(3));
    assert_eq!(first, "node 2 was dialled and node 3 answers");
    assert_eq!(second, format!("the other end refuses: {first}"));
}

#[test]
fn who_has_proved_himself_is_judged_by_both_ends() {
    let unknown = |claim: Claim| Err(Refusal::Unknown(claim.node));
    let older = |Claim { node, life, .. }| Err(Refusal::OlderLife { node, life, seen: 9 });
    let shorter = |Claim { node, log_end, .. }| {
        let seen = 101;
        Err(Refusal::ShorterLog { node, log_end, seen })
    };
    let connected = |claim: Claim| Err(Refusal::Connected(claim.node));
    let mut to_two = Vec::new();
    let _ = dialling(identity(1), &mut to_two);
    for (judge, sentence, told) in [
        (
            &unknown as &dyn Fn(Claim) -> _,
            "node 1 is no member of the grid",
            "the other end refuses: node 1 is no member of the grid",
        ),
        (
            &older,
            "node 1 is in its life 5, and its life 9 has been seen: its folder is an old copy, or runs twice",
            "the other end refuses: node 1 is in its life 5, and its life 9 has been seen: its folder is an old copy, or runs twice",
        ),
        (
            &shorter,
            "the log of node 1 ended at 100 when it was started, and it had reached 101 before: its folder is an old copy, or has lost \
             what was written",
            "the other end refuses: the log of node 1 ended at 100 when it was started, and it had reached 101 before: its folder is an old \
             copy, or has lost what was written",
        ),
        (
            &connected,
            "node 1 has a channel already",
            "node 1 has a channel already",
        ),
    ] {
        let (mut to_two, mut to_one) = (Vec::new(), Vec::new());
        let mut dialling = dialling(identity(1), &mut to_two);
        let mut accepting = accepting(identity(2));
        // A stranger is not told who is known: the hello itself is answered.
        assert!(end_of(accepting.on_bytes(&std::mem::take(&mut to_two), judge, &mut to_one)).is_none());
        assert!(end_of(dialling.on_bytes(&std::mem::take(&mut to_one), &everybody, &mut to_two)).is_none());
        assert!(dialling.has_proved());
        let refused = end_of(accepting.on_bytes(&to_two, judge, &mut to_one))
            .unwrap()
            .unwrap_err();
        assert_eq!(refused.to_string(), sentence);
        let refused = end_of(dialling.on_bytes(&to_one, &everybody, &mut to_two))
            .unwrap()
            .unwrap_err();
        assert_eq!(refused.to_string(), told);
    }
    let mut to_one = Vec::new();
    let mut accepting = accepting(identity(2));
    accepting.on_bytes(&to_two, &everybody, &mut to_one);
    let mut out = Vec::new();
    let refused =
        end_of(dialling(identity(1), &mut out).on_bytes(&to_one, &|claim| Err(Refusal::Unknown(claim.node)), &mut out));
    assert_eq!(refused.unwrap().unwrap_err(), Refusal::Unknown(NodeId(2)));
}

/// A frame of the hello by hand: sealed as anybody can.
fn frame(number: u64, kind: u8, body: &[u8]) -> Vec<u8> {
    let content = [&[kind], body].concat();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), &content);
    let length = (content.len() as u32).to_le_bytes();
    [&length[..], &content, &checksum.to_le_bytes()].concat()
}

const MAGIC: &[u8] = b"\x89Rubato\n";
const REFUSED: u8 = 20;

/// A hello whose end that judges has seen a later life of the other: what the other end, a node of the grid, comes to once what it is told
/// has gone through `tamper`. `is_dialled` is whether the end that judges was dialled.
fn outdated(is_dialled: bool, tamper: &mut dyn FnMut(&mut Vec<u8>)) -> Refusal {
    let older = |Claim { node, life, .. }| Err(Refusal::OlderLife { node, life, seen: 9 });
    let (mut to_two, mut to_one) = (Vec::new(), Vec::new());
    let mut dialling = dialling(identity(1), &mut to_two);
    let mut accepting = accepting(identity(2));
    assert!(end_of(accepting.on_bytes(&std::mem::take(&mut to_two), &everybody, &mut to_one)).is_none());
    let end = if is_dialled {
        assert!(end_of(dialling.on_bytes(&std::mem::take(&mut to_one), &everybody, &mut to_two)).is_none());
        accepting.on_bytes(&to_two, &older, &mut to_one);
        tamper(&mut to_one);
        dialling.on_bytes(&to_one, &everybody, &mut to_two)
    } else {
        dialling.on_bytes(&std::mem::take(&mut to_one), &older, &mut to_two);
        tamper(&mut to_two);
        accepting.on_bytes(&to_two, &everybody, &mut to_one)
    };
    end_of(end).unwrap().unwrap_err()
}

/// The body of a refusal behind the first frame of an end.
fn refusal_within(bytes: &[u8]) -> &[u8] {
    assert_eq!(bytes[4], REFUSED);
    &bytes[5..bytes.len() - 4]
}

#[test]
fn an_outdated_node_is_told_so_by_either_end_with_a_proof() {
    for is_dialled in [true, false] {
        let told = outdated(is_dialled, &mut |_| {});
        assert!(
            matches!(&told, Refusal::ToldOutdated(why) if why.ends_with("its folder is an old copy, or runs twice")),
            "{told:?}"
        );
        // A word changed in it, by somebody who can make checksums, or the proof taken away.
        let changed: [fn(&mut Vec<u8>); 3] = [
            |body| body[1] ^= 1,
            |body| body.truncate(1),
            |body| {
                body.pop();
            },
        ];
        for change in changed {
            let told = outdated(is_dialled, &mut |bytes| {
                let mut body = refusal_within(bytes).to_vec();
                change(&mut body);
                *bytes = frame(1, REFUSED, &body);
            });
            assert!(matches!(told, Refusal::ToldWithoutProof(_)), "{told:?}");
        }
        // Said by this end itself before, or by the same one in another hello.
        let mut said = Vec::new();
        let _ = outdated(!is_dialled, &mut |bytes| said = refusal_within(bytes).to_vec());
        let told = outdated(is_dialled, &mut |bytes| *bytes = frame(1, REFUSED, &said));
        assert!(matches!(told, Refusal::ToldWithoutProof(_)), "{told:?}");
    }
}

/// A stranger put any node out of service for ever with one frame.
#[test]
fn who_has_proved_nothing_is_not_believed_that_a_node_is_outdated() {
    let with_proof = [&b"\x03you are old"[..], &[7; 32]].concat();
    let connected = [&b"\x02connected"[..], &[7; 32]].concat();
    for body in [&b"\x03you are old"[..], b"\x03", b"\x02", &with_proof, &connected] {
        // By a first word, and by one behind a hello.
        let (mut first, mut out) = (accepting(identity(2)), Vec::new());
        let told = first.on_bytes(&[MAGIC, &frame(0, REFUSED, body)].concat(), &everybody, &mut out);
        assert_eq!(end_of(told).unwrap().unwrap_err(), Refusal::OutOfTurn);
        let (mut second, mut to_two) = (accepting(identity(2)), Vec::new());
        let _ = dialling(identity(1), &mut to_two);
        assert!(end_of(second.on_bytes(&to_two, &everybody, &mut out)).is_none());
        let told = end_of(second.on_bytes(&frame(1, REFUSED, body), &everybody, &mut out));
        let told = told.unwrap().unwrap_err();
        assert!(matches!(told, Refusal::ToldWithoutProof(_)), "{told:?}");
        // By whoever listens where another node was.
        let mut third = dialling(identity(1), &mut out);
        out.clear();
        let told = end_of(third.on_bytes(&[MAGIC, &frame(0, REFUSED, body)].concat(), &everybody, &mut out));
        let told = told.unwrap().unwrap_err();
        assert!(matches!(told, Refusal::ToldWithoutProof(_)), "{told:?}");
        assert!(out.is_empty(), "a refusal is not answered");
    }
}

#[test]
fn clients_of_postgres_get_an_error_that_they_can_show() {
    let startup = |code: u32| [&9u32.to_be_bytes()[..], &code.to_be_bytes(), &[0]].concat();
    for code in [196_608, 80_877_103, 80_877_102, 80_877_104] {
        let (mut accepting, mut out) = (accepting(identity(2)), Vec::new());
        let mut end = None;
        for byte in startup(code) {
            end = end_of(accepting.on_bytes(&[byte], &everybody, &mut out)).or(end);
        }
        assert_eq!(end.unwrap().unwrap_err(), Refusal::PostgresClient);
        let text = String::from_utf8(out[5..].to_vec()).unwrap();
        assert_eq!(out[0], b'E');
        assert_eq!(
            u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize,
            out.len() - 1
        );
        assert_eq!(
            text,
            "SFATAL\0VFATAL\0C08P01\0Mthis port is for the nodes of a Rubato grid, not for clients of PostgreSQL\0\0"
        );
    }
}

#[test]
fn strangers_are_told_nothing() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\x02",
        b"S",
        &[0, 0, 0, 9, 1, 1, 1, 1],
    ] {
        let (mut accepting, mut out) = (accepting(identity(2)), Vec::new());
        let refused = end_of(accepting.on_bytes(bytes, &everybody, &mut out))
            .unwrap()
            .unwrap_err();
        assert_eq!(refused, Refusal::NoNode);
        assert!(out.is_empty());
        assert!(
            end_of(accepting.on_bytes(b"more", &everybody, &mut out)).is_none(),
            "it is over"
        );
        // At the other end: what answers is no node.
        let mut dialling = dialling(identity(1), &mut Vec::new());
        let refused = end_of(dialling.on_bytes(bytes, &everybody, &mut out))
            .unwrap()
            .unwrap_err();
        assert_eq!(refused, Refusal::NoNode);
    }
}

#[test]
fn who_is_slow_is_given_up_and_told_if_he_is_a_node() {
    let mut out = Vec::new();
    let mut silent = accepting(identity(2));
    assert_eq!(silent.on_timer(HELLO_TIME_US - 1, &mut out), None);
    assert_eq!(silent.on_timer(HELLO_TIME_US, &mut out), Some(Refusal::TooSlow));
    assert_eq!(silent.on_timer(HELLO_TIME_US, &mut out), None);
    assert!(out.is_empty());
    let mut to_two = Vec::new();
    let mut dialling = dialling(identity(1), &mut to_two);
    let (mut half, mut to_one) = (accepting(identity(2)), Vec::new());
    half.on_bytes(&to_two, &everybody, &mut to_one);
    assert_eq!(half.on_timer(HELLO_TIME_US, &mut to_one), Some(Refusal::TooSlow));
    let refused = end_of(dialling.on_bytes(&to_one, &everybody, &mut out))
        .unwrap()
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the other end refuses: no whole hello came within 5 seconds"
    );
}

#[test]
fn our_own_bytes_sent_back_prove_nothing() {
    // As they are, on the same connection.
    let mut ours = Vec::new();
    let mut dialling_one = dialling(identity(1), &mut ours);
    let mut out = Vec::new();
    let refused = end_of(dialling_one.on_bytes(&ours, &everybody, &mut out))
        .unwrap()
        .unwrap_err();
    assert_eq!(refused, Refusal::OutOfTurn);
    // Through a second connection to ourselves, with the node's number changed on both ways: the proof is of other words.
    let number_at = 8 + 4 + 1 + 2 + 2 + 16;
    let swapped = |bytes: &mut Vec<u8>, at: usize, node: u8| {
        bytes[at] = node;
        let content = &bytes[12..bytes.len() - 4];
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&[0; 8]), content);
        let end = bytes.len() - 4;
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    };
    let mut ours = Vec::new();
    let mut dialling_one = dialling(identity(1), &mut ours);
    swapped(&mut ours, number_at, 2);
    let (mut accepting_one, mut answer) = (accepting(identity(1)), Vec::new());
    assert!(end_of(accepting_one.on_bytes(&ours, &everybody, &mut answer)).is_none());
    swapped(&mut answer, number_at + 2, 2);
    let refused = end_of(dialling_one.on_bytes(&answer, &everybody, &mut out))
        .unwrap()
        .unwrap_err();
    assert_eq!(refused, Refusal::WrongSecret(NodeId(2)));
}

#[test]
fn what_was_said_in_one_hello_is_of_no_use_in_another() {
    let mut said = Vec::new();
    let record = &mut |from_dialling: bool, bytes: &mut Vec<u8>| {
        if from_dialling {
            said.push(bytes.clone());
        }
    };
    assert!(matches!(
        hello(identity(1), identity(2), record),
        (Some(Ok(_)), Some(Ok(_)))
    ));
    // The node that was dialled has another nonce now.
    let mut again = Accepting::new(Arc::new(identity(2)), [3; 32], 0);
    let mut out = Vec::new();
    assert!(end_of(again.on_bytes(&said[0], &everybody, &mut out)).is_none());
    let refused = end_of(again.on_bytes(&said[1], &everybody, &mut out))
        .unwrap()
        .unwrap_err();
    assert_eq!(refused, Refusal::WrongSecret(NodeId(1)));
}

#[test]
fn a_secret_is_long_enough_and_is_not_shown() {
    assert!(Secret::new(b"fifteen bytes..").is_err());
    assert!(!format!("{:?}", identity(1)).contains("sixteen"));
    assert_eq!(format!("{:?}", identity(1).secret), "Secret");
}

proptest! {
    /// Whatever one byte is changed to: no channel comes of it.
    #[test]
    fn one_changed_byte_leaves_no_channel(
        message in 0..4usize, place in any::<prop::sample::Index>(), flipped in 1..=u8::MAX,
    ) {
        let mut number = 0;
        let ends = hello(identity(1), identity(2), &mut |_, bytes| {
            if number == message {
                let place = place.index(bytes.len());
                bytes[place] ^= flipped;
            }
            number += 1;
        });
        // Only the last message may be lost without the end that was dialled knowing it: it accepted.
        prop_assert!(!matches!(ends.0, Some(Ok(_))));
        prop_assert_eq!(matches!(ends.1, Some(Ok(_))), message == 3);
    }

    #[test]
    fn bytes_at_random_lead_to_no_channel(bytes in proptest::collection::vec(any::<u8>(), 0..300), behind_magic in any::<bool>()) {
        let bytes = match behind_magic {
            true => [&b"\x89Rubato\n"[..], &bytes].concat(),
            false => bytes,
        };
        let mut out = Vec::new();
        let accepted = end_of(accepting(identity(2)).on_bytes(&bytes, &everybody, &mut out));
        prop_assert!(!matches!(accepted, Some(Ok(_))));
        let dialled = end_of(dialling(identity(1), &mut out).on_bytes(&bytes, &everybody, &mut Vec::new()));
        prop_assert!(!matches!(dialled, Some(Ok(_))));
    }

    #[test]
    fn pieces_of_a_hello_do_not_matter(cut in any::<prop::sample::Index>()) {
        let (mut to_two, mut to_one) = (Vec::new(), Vec::new());
        let mut dialling = dialling(identity(1), &mut to_two);
        let mut accepting = accepting(identity(2));
        let (mut first, mut second) = (None, None);
        while !to_two.is_empty() {
            let bytes = std::mem::take(&mut to_two);
            let cut_at = cut.index(bytes.len() + 1);
            for piece in [&bytes[..cut_at], &bytes[cut_at..]] {
                second = end_of(accepting.on_bytes(piece, &everybody, &mut to_one)).or(second);
            }
            let bytes = std::mem::take(&mut to_one);
            let cut_at = cut.index(bytes.len() + 1);
            for piece in [&bytes[..cut_at], &bytes[cut_at..]] {
                first = end_of(dialling.on_bytes(piece, &everybody, &mut to_two)).or(first);
            }
        }
        prop_assert!(matches!((first, second), (Some(Ok(_)), Some(Ok(_)))));
    }
}
