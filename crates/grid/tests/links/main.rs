//! The channels of several nodes over a network that delays, breaks and is silent.

mod network;

use network::Network;
use proptest::prelude::*;
use rubato_base::NodeId;
use rubato_grid::GridMessage;
use rubato_grid::channel::{
    APPLICANT, Dialling, Greeted, GridId, Identity, Integrity, Progress, Secret, VERSIONS, life_with_lot,
};
use rubato_grid::frame::Received;
use rubato_grid::links::{
    APPLICATION_US, Action, CONNECT_TIME_US, ConnectionId, Event, GREETINGS_MAX, Links, PeerState, SILENT_US, Sent,
    TOGETHER_US, WAIT_US_MAX,
};
use rubato_grid::members::{MemberMessage, Members};
use rubato_protocol::grid::StageMessage;

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

fn alive(stage_life: u64) -> GridMessage {
    GridMessage::Stage(StageMessage::Alive { stage_life })
}

fn links(identity: Identity) -> Links {
    let seed = [identity.node.0 as u8; 32];
    Links::new(identity, seed, 1000)
}

/// Nodes that know of each other.
fn network(nodes: u32) -> Network {
    let mut network = Network::new((0..nodes).map(|node| links(identity(node))).collect());
    for node in 0..nodes {
        for other in 0..nodes {
            network.set_peer(node, other);
        }
    }
    network
}

fn is_up(event: &Event) -> bool {
    matches!(event, Event::Up { .. })
}

fn refusals(events: &[Event]) -> Vec<&str> {
    let refused = events.iter().filter_map(|event| match event {
        Event::Refused { why, .. } => Some(why.as_str()),
        _ => None,
    });
    refused.collect()
}

#[test]
fn nodes_find_each_other_and_messages_come_in_order() {
    let mut network = network(3);
    network.run_us(1_000_000);
    for node in 0..3 {
        assert_eq!(network.events(node).iter().filter(|event| is_up(event)).count(), 2);
        for other in (0..3).filter(|other| *other != node) {
            for number in 0..20 {
                assert_eq!(
                    network.nodes[node as usize].send(NodeId(other), &alive(number)),
                    Sent::Queued
                );
            }
        }
    }
    network.run_us(100_000);
    for node in 0..3 {
        let messages = network.messages(node);
        assert_eq!(messages.len(), 40);
        for other in (0..3).filter(|other| *other != node) {
            let of_other = messages.iter().filter(|(from, _)| *from == NodeId(other));
            assert!(
                of_other
                    .map(|(_, message)| message)
                    .eq(&(0..20).map(alive).collect::<Vec<_>>())
            );
        }
        for status in network.nodes[node as usize].status() {
            assert!(matches!(status.state, PeerState::Up { .. }), "{status:?}");
            assert_eq!((status.figures.messages_out, status.figures.messages_in), (20, 20));
            assert!(status.figures.frames_out < 20, "messages share frames: {status:?}");
            assert_eq!(status.buffered_bytes, 0);
        }
    }
}

/// Three nodes that know no other's address.
fn moved() -> Network {
    let mut network = network(3);
    for node in 0..3_u32 {
        for other in (0..3).filter(|other| *other != node) {
            // Nobody listens there.
            network.nodes[node as usize].set_peer(NodeId(other), Some("nowhere"), 0);
        }
    }
    network
}

#[test]
fn nodes_whose_addresses_are_all_others_find_each_other_by_a_place_to_look() {
    let mut network = moved();
    network.nodes[1].set_lookout(Some("nowhere"));
    network.run_us(10_000_000);
    let said = network.events(1);
    let not_found: Vec<&Event> = said
        .iter()
        .filter(|event| matches!(event, Event::NotFound { .. }))
        .collect();
    assert_eq!(not_found.len(), 1, "{said:?}");
    let found = |network: &mut Network, node| network.events(node).iter().filter(|event| is_up(event)).count();
    network.run_us(20_000_000);
    assert_eq!([0, 1, 2].map(|node| found(&mut network, node)), [0, 0, 0]);
    // Neither the place itself, which finds nobody there, nor one of another number is in the way.
    for node in 0..3 {
        network.nodes[node].set_lookout(Some("0"));
    }
    network.run_us(5_000_000);
    assert_eq!([0, 1, 2].map(|node| found(&mut network, node)), [2, 1, 1]);
    assert!(network.nodes[0].is_up(NodeId(1)) && network.nodes[0].is_up(NodeId(2)));
    // It is not looked for where there is somebody; the other two still do not know each other's place.
    network.run_us(20_000_000);
    assert_eq!([0, 1, 2].map(|node| found(&mut network, node)), [0, 0, 0]);
    assert_eq!(network.open_connections(), 2);
    network.set_peer(1, 2);
    network.run_us(10_000_000);
    assert!(network.nodes[2].is_up(NodeId(1)));
}

#[test]
fn a_node_that_is_missing_is_looked_for_by_those_that_have_another_too() {
    let mut network = moved();
    network.set_peer(1, 2);
    network.run_us(5_000_000);
    assert!(network.nodes[1].is_up(NodeId(2)) && !network.nodes[1].is_up(NodeId(0)));
    network.nodes[1].set_lookout(Some("0"));
    network.run_us(5_000_000);
    assert!(network.nodes[1].is_up(NodeId(0)));
    // Who is found has a channel already: it stays, and nobody is disturbed again.
    for node in 0..3 {
        network.events(node);
    }
    let connected = network.connected;
    network.nodes[2].set_lookout(Some("01"));
    network.run_us(20_000_000);
    for node in 0..3 {
        let said = network.events(node);
        assert!(
            !said
                .iter()
                .any(|event| matches!(event, Event::Up { .. } | Event::Down { .. })),
            "{said:?}"
        );
    }
    assert_eq!(network.open_connections(), 2);
    assert_eq!(network.connected, connected + 1, "it is looked for once");
}

#[test]
fn a_channel_on_which_nothing_is_heard_is_closed_and_made_again_when_the_node_is_back() {
    let mut network = network(2);
    network.run_us(2_000_000);
    assert!(network.nodes[0].status().all(|peer| matches!(
        peer.state,
        PeerState::Up {
            round_trip_us: Some(_),
            ..
        }
    )));
    network.events(0);
    network.is_silent = true;
    network.run_us(SILENT_US + 1_000_000);
    assert_eq!(
        network.events(0)[0],
        Event::Down {
            node: NodeId(1),
            why: "nothing was heard for 5 seconds".to_string()
        }
    );
    assert_eq!(network.nodes[0].send(NodeId(1), &alive(1)), Sent::Down);
    // However long it lasts, it comes back soon, and the attempts are told of once.
    network.run_us(20 * WAIT_US_MAX);
    let events = network.events(0);
    assert_eq!(
        refusals(&events),
        ["it cannot be reached: no connection within 3 seconds"]
    );
    network.is_silent = false;
    network.run_us(WAIT_US_MAX + CONNECT_TIME_US + 1_000_000);
    assert!(network.nodes[0].is_up(NodeId(1)) && network.nodes[1].is_up(NodeId(0)));
    assert_eq!(network.open_connections(), 1);
}

/// What all nodes have sent behind the hello.
fn frames(network: &Network) -> u64 {
    let peers = network.nodes.iter().flat_map(Links::status);
    peers.map(|peer| peer.figures.frames_out).sum()
}

#[test]
fn nodes_that_have_nothing_to_say_ask_seldom_and_all_others_at_the_same_moment() {
    let mut network = network(5);
    network.run_us(2_000_000);
    let sent = frames(&network);
    for _ in 0..1000 {
        let next_us = network.nodes[0].next_timer_us().unwrap();
        assert_eq!(next_us % TOGETHER_US, 0);
        network.run_us(100_000);
    }
    let pairs = 10;
    let asked_each = (frames(&network) - sent) / 2 / pairs;
    // Both of two nodes ask, since their clocks are one here, and then hear the answer a little behind the moment.
    assert!((150..=160).contains(&asked_each), "{asked_each} in 100 s");
    let state = network.nodes[0].status().map(|peer| peer.state);
    assert!(state.into_iter().all(|state| matches!(
        state,
        PeerState::Up {
            round_trip_us: Some(1000),
            ..
        }
    )));
}

#[test]
fn a_node_that_was_started_anew_takes_the_place_of_its_former_life_and_not_the_other_way_round() {
    let mut network = network(2);
    network.run_us(1_000_000);
    network.events(0);
    // The former life is gone without a word.
    let restarted = Identity { life: 6, ..identity(1) };
    network.replace(1, links(restarted), false);
    network.set_peer(1, 0);
    network.run_us(3_000_000);
    let events = network.events(0);
    assert!(
        events.contains(&Event::Up {
            node: NodeId(1),
            life: 6
        }),
        "{events:?}"
    );
    assert!(network.nodes[0].is_up(NodeId(1)) && network.nodes[1].is_up(NodeId(0)));
    // A copy of its folder is of an older life.
    network.replace(1, links(identity(1)), true);
    network.set_peer(1, 0);
    network.run_us(3_000_000);
    assert!(!network.nodes[0].is_up(NodeId(1)));
    let sentence = "node 1 is in its life 5, and its life 6 has been seen: its folder is an old copy, or runs twice";
    assert!(refusals(&network.events(0)).contains(&sentence));
}

/// The folder was copied while its node ran, and put back: its next life has a number that nobody has seen, and its log ends before what its
/// node has said.
#[test]
fn a_life_that_begins_with_a_shorter_log_is_let_in_no_more() {
    let begun = |life, log_end| {
        links(Identity {
            life,
            log_end,
            ..identity(1)
        })
    };
    for is_started_anew in [false, true] {
        let mut network = network(2);
        network.run_us(3_000_000);
        assert!(network.nodes[0].is_up(NodeId(1)));
        network.nodes[0].know_log(NodeId(1), 300);
        network.nodes[0].know_log(NodeId(1), 250);
        // The channel was broken, and the node lives as it did.
        network.replace(1, begun(5, 100), true);
        network.set_peer(1, 0);
        network.run_us(3_000_000);
        assert!(network.nodes[0].is_up(NodeId(1)));
        if is_started_anew {
            network.replace(0, links(identity(0)), true);
            network.set_peer(0, 1);
            network.nodes[0].know_life(NodeId(1), 5);
            network.nodes[0].know_log(NodeId(1), 300);
        }
        network.replace(1, begun(6, 299), true);
        network.set_peer(1, 0);
        network.run_us(3_000_000);
        assert!(!network.nodes[0].is_up(NodeId(1)));
        let told = network.events(1);
        let is_outdated = |event: &Event| matches!(event, Event::Outdated { why } if why.contains("ended at 299 when it was started, and it had reached 300"));
        assert!(told.iter().any(is_outdated), "{told:?}");
        // The folder that has all of it is let in.
        network.replace(1, begun(7, 300), true);
        network.set_peer(1, 0);
        network.run_us(9_000_000);
        assert!(network.nodes[0].is_up(NodeId(1)));
    }
}

/// What a stranger sends to have a node take its folder for an old one.
fn forged_refusal() -> Vec<u8> {
    let content = b"\x14\x03you are old";
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&0u64.to_le_bytes()), content);
    let length = (content.len() as u32).to_le_bytes();
    [&b"\x89Rubato\n"[..], &length, content, &checksum.to_le_bytes()].concat()
}

/// By whoever dials, and by whoever listens where a node was: it is an attempt that failed, which is made again.
#[test]
fn a_stranger_does_not_make_a_node_outdated() {
    let mut node = links(identity(0));
    let stranger = node.on_accepted("10.0.0.9:1", 0).unwrap();
    node.on_bytes(stranger, &forged_refusal(), 0);
    node.set_peer(NodeId(1), Some("elsewhere"), 0);
    let mut dials = 0;
    for round in 0..100 {
        let now_us = round * 100_000;
        node.on_timer(now_us);
        while let Some(action) = node.poll_action() {
            if let Action::Dial { connection, .. } = action {
                dials += 1;
                node.on_connected(connection, now_us);
                node.on_bytes(connection, &forged_refusal(), now_us);
            }
        }
    }
    assert!(dials > 3, "{dials}");
    let events: Vec<Event> = std::iter::from_fn(|| node.poll_event()).collect();
    let is_refused = |event: &Event| matches!(event, Event::Refused { .. });
    assert!(events.len() == 2 && events.iter().all(is_refused), "{events:?}");
}

/// The folder was put back, and counts on where it was: its next life has the number of one that was seen, and another lot. That is known
/// to a node that was started meanwhile, too; the node that is refused hears why.
#[test]
fn another_life_of_the_same_number_is_let_in_no_more() {
    for is_started_anew in [false, true] {
        let mut network = network(2);
        let seen = life_with_lot(6, 11);
        network.replace(
            1,
            links(Identity {
                life: seen,
                ..identity(1)
            }),
            false,
        );
        network.set_peer(1, 0);
        network.run_us(3_000_000);
        let life = |event: &Event| match event {
            Event::Up { life, .. } => Some(*life),
            _ => None,
        };
        assert_eq!(network.events(0).iter().rev().find_map(life), Some(seen));
        if is_started_anew {
            network.replace(0, links(identity(0)), true);
            network.set_peer(0, 1);
            network.nodes[0].know_life(NodeId(1), seen);
        }
        let copy = life_with_lot(6, 99);
        network.replace(
            1,
            links(Identity {
                life: copy,
                ..identity(1)
            }),
            true,
        );
        network.set_peer(1, 0);
        network.run_us(3_000_000);
        assert!(!network.nodes[0].is_up(NodeId(1)));
        let told = network.events(1);
        let is_outdated =
            |event: &Event| matches!(event, Event::Outdated { why } if why.contains("another life 6 has been seen"));
        assert!(told.iter().any(is_outdated), "{told:?}");
        // The next life of the folder that goes on is let in.
        network.replace(
            1,
            links(Identity {
                life: life_with_lot(7, 5),
                ..identity(1)
            }),
            true,
        );
        network.set_peer(1, 0);
        network.run_us(9_000_000);
        assert!(network.nodes[0].is_up(NodeId(1)));
    }
}

#[test]
fn who_does_not_read_is_not_sent_more_than_the_bound() {
    let mut network = network(2);
    network.run_us(1_000_000);
    network.is_silent = true;
    let mut sent = 0;
    while network.nodes[0].send(NodeId(1), &alive(sent)) == Sent::Queued {
        sent += 1;
        network.step();
        assert!(sent < 1000, "there is a bound");
    }
    let status = network.nodes[0].status().next().expect("a peer");
    assert!((1000..1100).contains(&status.buffered_bytes), "{status:?}");
    assert_eq!(status.figures.full, 1);
    network.is_silent = false;
    network.run_us(1_000_000);
    assert_eq!(network.messages(1).len() as u64, sent);
    assert_eq!(network.nodes[0].send(NodeId(1), &alive(0)), Sent::Queued);
}

#[test]
fn strangers_are_told_so_and_are_few() {
    let mut network = network(2);
    network.run_us(1_000_000);
    network.events(0);
    // A client of PostgreSQL.
    let client = network.nodes[0]
        .on_accepted("10.0.0.9:1", network.now_us)
        .expect("room");
    let startup = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    network.nodes[0].on_bytes(client, &startup, network.now_us);
    network.step();
    let told = refusals(&network.events(0)).join(";");
    assert_eq!(
        told,
        "this port is for the nodes of a Rubato grid, not for clients of PostgreSQL"
    );
    // Those that say nothing have their time, and others come behind them.
    let now_us = network.now_us;
    for _ in 0..GREETINGS_MAX {
        assert!(network.nodes[0].on_accepted("10.0.0.9:1", now_us).is_ok());
    }
    assert_eq!(
        network.nodes[0].on_accepted("10.0.0.9:1", now_us),
        Err("too many connections of strangers")
    );
    network.run_us(6_000_000);
    assert!(network.nodes[0].on_accepted("10.0.0.9:1", network.now_us).is_ok());
    assert!(network.nodes[0].is_up(NodeId(1)), "nobody else is disturbed");
}

#[test]
fn nodes_that_do_not_belong_together_say_why() {
    let other_grid = Identity {
        grid: GridId([8; 16]),
        ..identity(1)
    };
    let other_secret = Identity {
        secret: Secret::new(b"another sixteen bytes").unwrap(),
        ..identity(1)
    };
    let no_member = identity(3);
    let cases = [
        (other_grid, "two grids: "),
        (other_secret, "have different secrets"),
        (no_member, "node 3 is no member of the grid"),
    ];
    for (other, expected) in cases {
        let node = other.node;
        let mut network = Network::new(vec![links(identity(0)), links(other)]);
        network.number_of = vec![NodeId(0), node];
        network.nodes[1].set_peer(NodeId(0), Some("0"), 0);
        if node == NodeId(1) {
            network.set_peer(0, 1);
        }
        network.run_us(2_000_000);
        for node in 0..2 {
            let events = network.events(node);
            assert!(refusals(&events).iter().any(|why| why.contains(expected)), "{events:?}");
            assert!(!events.iter().any(is_up));
        }
    }
}

/// What a node writes to a connection, and whether it closes it.
fn written(node: &mut Links, connection: ConnectionId) -> (Vec<u8>, bool) {
    let (mut bytes, mut closes) = (Vec::new(), false);
    while let Some(action) = node.poll_action() {
        match action {
            Action::Write { bytes: more, .. } => {
                node.on_written(connection, more.len());
                bytes.extend(more);
            }
            Action::Close { .. } => closes = true,
            Action::Dial { .. } => {}
        }
    }
    (bytes, closes)
}

/// Somebody of no grid who has proved that he has the secret.
fn applicant(node: &mut Links, now_us: u64) -> (ConnectionId, Greeted) {
    let connection = node.on_accepted("10.0.0.9:1", now_us).expect("room");
    let identity = Identity {
        grid: GridId::NONE,
        node: APPLICANT,
        life: 0,
        ..identity(0)
    };
    let mut out = Vec::new();
    let mut dialling = Dialling::new(identity.into(), None, [9; 32], now_us, &mut out);
    for _ in 0..3 {
        node.on_bytes(connection, &std::mem::take(&mut out), now_us);
        let (bytes, _) = written(node, connection);
        if let Progress::Done(greeted) = dialling.on_bytes(&bytes, &|_| Ok(()), &mut out) {
            return (connection, *greeted);
        }
    }
    panic!("no channel");
}

#[test]
fn who_wants_to_be_a_member_says_so_and_nothing_else() {
    let mut node = links(identity(0));
    let (connection, greeted) = applicant(&mut node, 0);
    assert_eq!(greeted.node, NodeId(0));
    let (mut writer, mut reader, rest) = greeted.into_channel(1000);
    let mut received = Vec::new();
    reader.read(&rest, &mut received).unwrap();
    assert!(matches!(received[..], [Received::Ping(_)]), "as on every channel");
    let message = MemberMessage::Apply {
        applicant: [3; 16],
        address: "10.0.0.9:7000".to_owned(),
    };
    writer.push(&alive(1)).unwrap();
    writer.push(&GridMessage::Member(message.clone())).unwrap();
    node.on_bytes(connection, &writer.take(), 1);
    let applied = Event::Applied { connection, message };
    assert_eq!(node.poll_event(), Some(applied), "what members say is not heard of it");
    let members = Members::begin(GridId([7; 16]), [0; 16], "a:1".to_owned());
    let answer = MemberMessage::Admitted(NodeId(1), members);
    node.answer(connection, answer.clone());
    let (bytes, closes) = written(&mut node, connection);
    assert!(closes);
    reader.read(&bytes, &mut received).unwrap();
    assert_eq!(received[1], Received::Message(GridMessage::Member(answer)));
    // One that says nothing has its time.
    let (_, _greeted) = applicant(&mut node, 2);
    let mut now_us = 2;
    while now_us <= APPLICATION_US + 2 {
        now_us += 1_000_000;
        node.on_timer(now_us);
    }
    let events: Vec<Event> = std::iter::from_fn(|| node.poll_event()).collect();
    assert!(events.is_empty(), "{events:?}");
    assert!(node.next_timer_us().is_none(), "nothing is left of it");
}

#[test]
fn a_node_that_stops_or_is_removed_says_so() {
    let mut network = network(3);
    network.run_us(1_000_000);
    (0..3).for_each(|node| drop(network.events(node)));
    network.nodes[1].stop("the node is being stopped");
    network.run_us(500_000);
    let down = Event::Down {
        node: NodeId(1),
        why: "the other end closes the channel: the node is being stopped".to_string(),
    };
    assert!(network.events(0).contains(&down));
    assert_eq!(
        network.nodes[1].on_accepted("somebody", network.now_us),
        Err("this node is being stopped, or is none of the grid any more")
    );
    network.nodes[0].remove_peer(NodeId(2));
    network.run_us(WAIT_US_MAX);
    assert!(!network.nodes[0].is_up(NodeId(2)));
    let told = network.events(2);
    let refused = "the other end refuses: node 2 is no member of the grid";
    assert!(refusals(&told).contains(&refused), "{told:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the delays and whoever dials first, or loses a connection: in the end each two nodes have one channel, and messages pass.
    #[test]
    fn each_two_nodes_come_to_one_channel(seed: u64, breaks in 0usize..6) {
        let mut network = network(3);
        network.delay_by(seed);
        for _ in 0..breaks {
            network.run_us(70_000);
            network.break_one();
        }
        // Longer than a connection of which one end knows nothing can live.
        network.run_us(2 * SILENT_US + 2 * WAIT_US_MAX);
        prop_assert_eq!(network.open_connections(), 3);
        for node in 0..3 {
            let events = network.events(node);
            let is_down = |event: &Event| matches!(event, Event::Down { .. });
            prop_assert!(breaks > 0 || !events.iter().any(is_down), "a channel is not made to be dropped: {events:?}");
            network.messages(node);
            for other in (0..3).filter(|other| *other != node) {
                prop_assert_eq!(network.nodes[node as usize].send(NodeId(other), &alive(1)), Sent::Queued);
            }
        }
        network.run_us(1_000_000);
        for node in 0..3 {
            prop_assert_eq!(network.messages(node).len(), 2);
        }
    }
}
