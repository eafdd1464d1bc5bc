use super::*;
use rubato_base::codec::ByteReader;

/// Nodes whose messages are kept, and whose disks lose what was not forced.
struct World {
    nodes: Vec<Agreement>,
    /// What each disk has, and what is on its way there.
    disks: Vec<AgreementRecord>,
    writing: Vec<Vec<(u64, AgreementRecord)>>,
    held: Vec<Vec<(NodeId, AgreementMessage)>>,
    under_way: Vec<(NodeId, NodeId, AgreementMessage)>,
    random: u64,
    /// By term, who led it, and the largest value that was agreed on.
    leaders: std::collections::BTreeMap<u64, NodeId>,
    largest: Agreed,
    /// What each node waits for: a round, and the newest term of a leader when that was asked for.
    asks: Vec<Option<(u64, u64)>>,
}

fn ids(count: u32) -> Vec<NodeId> {
    (0..count).map(NodeId).collect()
}

impl World {
    fn new(count: u32, seed: u64) -> World {
        let nodes = ids(count).into_iter().map(|id| match id.0 {
            0 => Agreement::found(id, Timestamp(7)),
            _ => Agreement::resume(id, AgreementRecord::default()),
        });
        let mut world = World {
            nodes: nodes.collect(),
            disks: vec![AgreementRecord::default(); count as usize],
            writing: vec![Vec::new(); count as usize],
            held: vec![Vec::new(); count as usize],
            under_way: Vec::new(),
            random: seed * 2 + 1,
            leaders: std::collections::BTreeMap::new(),
            largest: Agreed::default(),
            asks: vec![None; count as usize],
        };
        world.disks[0] = world.nodes[0].known().clone();
        world
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below.max(1)
    }

    /// Takes what a node has to write and to say; the latter leaves when the former is forced.
    fn take(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if let Some((number, record)) = node.record() {
            let record = record.clone();
            node.on_written(number);
            self.writing[at].push((number, record));
        }
        self.held[at].extend(self.nodes[at].poll_outgoing());
    }

    fn force(&mut self, at: usize) {
        self.take(at);
        for (number, record) in std::mem::take(&mut self.writing[at]) {
            self.disks[at] = record;
            self.nodes[at].on_durable(number);
        }
        let from = NodeId(at as u32);
        let said = std::mem::take(&mut self.held[at]);
        self.under_way
            .extend(said.into_iter().map(|(to, message)| (from, to, message)));
        self.take(at);
        self.look(at);
    }

    /// A term has one leader, and what was agreed on is never lost.
    fn look(&mut self, at: usize) {
        let node = &self.nodes[at];
        if let Some(term) = node.leads() {
            let leader = *self.leaders.entry(term).or_insert(node.own);
            assert_eq!(leader, node.own, "two leaders of term {term}");
            let agreed = node.agreed().expect("something is agreed on");
            let newest = self.leaders.keys().last() == Some(&term);
            if newest {
                assert!(agreed.tick_bound >= self.largest.tick_bound, "a bound is lost");
                assert!(agreed.catalogs >= self.largest.catalogs, "a version is lost");
                self.largest = agreed.clone();
            }
        }
    }

    /// A node asks whether it leads still; if it hears that it does, nobody led in a newer term when it asked (rule T-5).
    fn ask(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        match self.asks[at] {
            Some((round, newest)) if node.confirmed_round() >= round => {
                assert!(newest <= node.term(), "it was confirmed after another one led");
                self.asks[at] = None;
            }
            None if node.leads().is_some() => {
                let newest = self.leaders.keys().last().copied().unwrap_or(0);
                self.asks[at] = Some((node.want_round(BTreeSet::new()), newest));
            }
            Some(_) if node.leads().is_none() => self.asks[at] = None,
            _ => {}
        }
    }

    fn crash(&mut self, at: usize) {
        self.asks[at] = None;
        self.writing[at].clear();
        self.held[at].clear();
        self.nodes[at] = Agreement::resume(NodeId(at as u32), self.disks[at].clone());
    }

    fn deliver(&mut self, which: usize) {
        let (from, to, message) = self.under_way.swap_remove(which);
        self.nodes[to.0 as usize].on_message(from, message);
    }

    fn round(&mut self, reached: &[usize]) {
        self.round_with(reached, None);
    }

    fn round_with(&mut self, reached: &[usize], first: Option<NodeId>) {
        let all = ids(self.nodes.len() as u32);
        for at in reached {
            self.nodes[*at].on_round(&all, first);
        }
        self.hand_over(reached);
    }

    fn hand_over(&mut self, reached: &[usize]) {
        for _ in 0..6 {
            reached.iter().for_each(|at| self.force(*at));
            let reaches = |id: NodeId| reached.contains(&(id.0 as usize));
            while let Some(which) = self
                .under_way
                .iter()
                .position(|(from, to, _)| reaches(*from) && reaches(*to))
            {
                self.deliver(which);
            }
            self.under_way.clear();
        }
    }

    fn leader(&self, among: &[usize]) -> Option<usize> {
        among.iter().copied().find(|at| self.nodes[*at].leads().is_some())
    }
}

#[test]
fn one_node_leads_alone_when_its_record_is_durable() {
    let mut node = Agreement::found(NodeId(3), Timestamp(7));
    assert!(node.is_alone() && node.leads().is_none(), "nothing is durable");
    let (number, record) = node.record().expect("a record");
    let record = record.clone();
    node.on_written(number);
    node.on_durable(number);
    assert_eq!((node.leads(), node.leader()), (Some(1), Some(NodeId(3))));
    let round = node.want_round(BTreeSet::new());
    assert!(node.confirmed_round() >= round, "nobody else has to answer");
    node.want_bound(Timestamp(70));
    assert_eq!(node.agreed().map(|agreed| agreed.tick_bound), Some(Timestamp(7)));
    let (number, _) = node.record().expect("another");
    node.on_written(number);
    node.on_durable(number);
    assert_eq!(node.agreed().map(|agreed| agreed.tick_bound), Some(Timestamp(70)));
    // After a crash before that it goes on in another term.
    let again = Agreement::resume(NodeId(3), record);
    assert_eq!(again.term(), 2);
}

#[test]
fn nodes_get_a_vote_when_they_are_heard_and_one_of_three_may_go() {
    let mut world = World::new(3, 1);
    (0..40).for_each(|_| world.round(&[0, 1, 2]));
    assert_eq!(world.nodes[2].voters().len(), 3);
    assert_eq!(world.nodes[2].leader(), Some(NodeId(0)));
    world.nodes[0].want_bound(Timestamp(99));
    (0..10).for_each(|_| world.round(&[0, 1, 2]));
    assert_eq!(
        world.nodes[1].agreed().map(|agreed| agreed.tick_bound),
        Some(Timestamp(99))
    );
    // The leader is cut off: it can confirm nothing, and another is elected.
    let round = world.nodes[0].want_round(BTreeSet::new());
    for _ in 0..40 {
        world.round(&[1, 2]);
        world.round(&[0]);
    }
    assert!(world.nodes[0].confirmed_round() < round);
    let next = world.leader(&[1, 2]).expect("a leader");
    assert!(
        world.nodes[next]
            .agreed()
            .is_some_and(|agreed| agreed.tick_bound >= Timestamp(99))
    );
    assert_eq!(world.nodes[0].leads(), None, "it has heard of nobody for too long");
    // It follows when it is back, and disturbs nobody.
    let term = world.nodes[next].term();
    (0..10).for_each(|_| world.round(&[0, 1, 2]));
    assert_eq!(world.nodes[0].leader(), Some(NodeId(next as u32)));
    assert_eq!(world.nodes[next].term(), term);
    // A minority leads nobody.
    for _ in 0..60 {
        world.round(&[0]);
        world.round(&[1]);
        world.round(&[2]);
    }
    assert_eq!(world.leader(&[0, 1, 2]), None);
}

#[test]
fn one_three_or_five_nodes_have_votes() {
    for (count, votes) in [(1_usize, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (7, 5)] {
        let mut world = World::new(count as u32, 1);
        let all: Vec<usize> = (0..count).collect();
        (0..80).for_each(|_| world.round(&all));
        assert_eq!(world.nodes[0].voters().len(), votes, "of {count}");
        // Where one goes for good another that is there gets its vote, or a second one loses its own.
        let members = ids(count as u32 - 1);
        for _ in 0..80 {
            all.iter().for_each(|at| world.nodes[*at].on_round(&members, None));
            world.hand_over(&all);
        }
        let left = [1, 1, 1, 3, 3, 5, 5][count - 1];
        assert_eq!(world.nodes[0].voters().len(), left, "of {count} less one");
    }
}

#[test]
fn of_two_nodes_the_second_may_be_away() {
    let mut world = World::new(2, 1);
    (0..80).for_each(|_| world.round(&[0, 1]));
    let round = world.nodes[0].want_round(BTreeSet::new());
    world.nodes[0].on_down(NodeId(1));
    world.round(&[0]);
    assert!(world.nodes[0].confirmed_round() >= round);
}

#[test]
fn the_one_vote_goes_where_it_is_to_be_and_whoever_had_it_may_leave() {
    let mut world = World::new(2, 1);
    (0..40).for_each(|_| world.round(&[0, 1]));
    assert!(world.nodes[0].is_alone());
    world.nodes[0].want_bound(Timestamp(99));
    let rounds = (1..40).find(|_| {
        world.round_with(&[0, 1], Some(NodeId(1)));
        world.nodes[1].leads().is_some()
    });
    assert!(rounds.is_some_and(|rounds| rounds <= 6), "after {rounds:?} rounds");
    for node in &world.nodes {
        assert_eq!(
            (node.leader(), node.voters()),
            (Some(NodeId(1)), &BTreeSet::from([NodeId(1)]))
        );
    }
    // It needs nobody, and the other one leads no more.
    world.nodes[1].on_down(NodeId(0));
    let round = world.nodes[1].want_round(BTreeSet::new());
    world.force(1);
    assert!(world.nodes[1].confirmed_round() >= round && world.nodes[0].leads().is_none());
    assert_eq!(
        world.nodes[1].agreed().map(|agreed| agreed.tick_bound),
        Some(Timestamp(99))
    );
    // Nobody has the vote that is not heard.
    (0..60).for_each(|_| world.round_with(&[1], Some(NodeId(0))));
    assert!(world.nodes[1].is_alone() && world.nodes[1].leads().is_some());
    (0..20).for_each(|_| world.round_with(&[0, 1], Some(NodeId(0))));
    assert!(world.nodes[0].is_alone() && world.nodes[0].leads().is_some());
}

/// Of two nodes that have votes the leader gives its own away, and both crash before the other has heard of that.
#[test]
fn whoever_has_given_its_vote_away_leads_until_that_is_agreed_on() {
    let mut world = World::new(2, 1);
    (0..40).for_each(|_| world.round(&[0, 1]));
    // The other one gets a vote, and the leader is about to lose its own.
    while world.nodes[0].voters().contains(&NodeId(0)) {
        world.hand_over(&[0, 1]);
        world.nodes[0].on_round(&ids(2), Some(NodeId(1)));
    }
    world.force(0);
    world.under_way.clear();
    (0..2).for_each(|at| world.crash(at));
    assert_eq!(world.nodes[0].voters().len(), 1);
    assert_eq!(world.nodes[1].voters().len(), 2);
    (0..80).for_each(|_| world.round_with(&[0, 1], Some(NodeId(1))));
    assert!(world.nodes[1].is_alone() && world.nodes[1].leads().is_some());
}

#[test]
fn a_node_that_was_never_heard_gets_no_vote() {
    let mut world = World::new(2, 1);
    for _ in 0..100 {
        world.force(0);
        world.nodes[0].on_round(&ids(2), None);
        world.under_way.clear();
    }
    assert!(world.nodes[0].leads().is_some() && world.nodes[0].is_alone());
}

/// After a restart it does not know that the value that gives it none is agreed on, and stands. The word of one voter of three says nothing
/// of the other two, which may have elected somebody else.
#[test]
fn a_leader_without_a_vote_needs_the_word_of_more_than_one() {
    let mut world = World::new(4, 1);
    (0..80).for_each(|_| world.round(&[0, 1, 2, 3]));
    assert_eq!(world.nodes[0].voters().len(), 3);
    let term = world.nodes[0].term();
    assert!(world.nodes[0].vouches(NodeId(1), term) && !world.nodes[0].vouches(NodeId(3), term));
    (0..4).for_each(|at| world.crash(at));
    // The others are slower than it.
    for _ in 0..200 {
        world.nodes[3].on_round(&ids(4), None);
        (0..4).for_each(|at| world.force(at));
        while !world.under_way.is_empty() {
            world.deliver(0);
            (0..4).for_each(|at| world.force(at));
        }
    }
    let term = world.nodes[3].leads().unwrap();
    assert!(!world.nodes[3].voters().contains(&NodeId(3)));
    assert!((0..3).all(|at| !world.nodes[3].vouches(NodeId(at), term)));
}

#[test]
fn a_leader_that_is_gone_is_replaced_soon() {
    let mut world = World::new(3, 1);
    (0..40).for_each(|_| world.round(&[0, 1, 2]));
    for at in [1, 2] {
        world.nodes[at].on_down(NodeId(0));
    }
    (0..12).for_each(|_| world.round(&[1, 2]));
    assert!(world.leader(&[1, 2]).is_some());
}

#[test]
fn a_round_asks_no_more_voters_than_make_a_majority_and_others_when_these_do_not_answer() {
    let mut world = World::new(5, 1);
    (0..80).for_each(|_| world.round(&[0, 1, 2, 3, 4]));
    assert_eq!(world.nodes[0].voters().len(), 5);
    let asks = |world: &mut World| -> Vec<u32> {
        let round = world.nodes[0].want_round(BTreeSet::new());
        let said = world.nodes[0].poll_outgoing();
        assert!(world.nodes[0].confirmed_round() < round);
        let asked = said.iter().map(|(to, _)| to.0).collect();
        let said = said.into_iter().map(|(to, message)| (NodeId(0), to, message));
        world.under_way.extend(said);
        asked
    };
    assert_eq!(asks(&mut world), [1, 2]);
    world.round(&[0, 1, 2, 3, 4]);
    // One is known to be away, another is not: the next round of the clock asks everybody.
    world.nodes[0].on_down(NodeId(1));
    assert_eq!(asks(&mut world), [2, 3]);
    let wanted = world.nodes[0].want_round(BTreeSet::new());
    (0..3).for_each(|_| world.round(&[0, 3, 4]));
    assert!(world.nodes[0].confirmed_round() >= wanted);
    (0..8).for_each(|_| world.round(&[0, 3, 4]));
    assert_eq!(asks(&mut world), [3, 4], "those that have not been heard come last");
    (0..8).for_each(|_| world.round(&[0, 1, 2, 3, 4]));
    assert_eq!(asks(&mut world), [1, 2]);
}

#[test]
fn a_version_of_the_catalogs_is_known_above_what_was_handed_out_before() {
    let mut world = World::new(2, 1);
    (0..40).for_each(|_| world.round(&[0, 1]));
    world.nodes[0].want_bound(Timestamp(500));
    (0..4).for_each(|_| world.round(&[0, 1]));
    world.nodes[0].on_message(NodeId(1), AgreementMessage::Catalogs(9));
    (0..10).for_each(|_| world.round(&[0, 1]));
    let agreed = world.nodes[1].agreed().expect("agreed");
    assert_eq!((agreed.catalogs, agreed.catalogs_tick), (9, Timestamp(500)));
}

#[test]
fn whatever_is_lost_repeated_late_or_crashed_there_is_one_leader_a_term_and_nothing_is_forgotten() {
    let mut elections = 0;
    for seed in 1..300 {
        let count = 2 + (seed % 4) as u32;
        let mut world = World::new(count, seed);
        let all = ids(count);
        for step in 0..4000_u64 {
            let at = world.draw(u64::from(count)) as usize;
            world.ask(at);
            match world.draw(20) {
                0..3 => {
                    let first = NodeId((step / 800) as u32 % count);
                    world.nodes[at].on_round(&all, Some(first).filter(|_| seed % 3 > 0));
                }
                3..8 => world.force(at),
                8..17 if !world.under_way.is_empty() => {
                    let which = world.draw(world.under_way.len() as u64) as usize;
                    if world.draw(12) == 0 {
                        let again = world.under_way[which].clone();
                        world.under_way.push(again);
                    }
                    match world.draw(12) {
                        0 => drop(world.under_way.swap_remove(which)),
                        _ => world.deliver(which),
                    }
                }
                17 if world.draw(30) == 0 => world.crash(at),
                18 => world.nodes[at].want_bound(Timestamp(step)),
                19 if world.nodes[at].leads().is_some() => drop(world.nodes[at].want_catalogs(step)),
                _ => {}
            }
        }
        elections += world.leaders.len();
        let everybody: Vec<usize> = (0..count as usize).collect();
        (0..200).for_each(|_| world.round(&everybody));
        assert!(
            world.leader(&everybody).is_some(),
            "seed {seed} has no leader in the end"
        );
    }
    assert!(elections > 600, "{elections} leaders");
}

#[test]
fn nonsense_of_a_peer_changes_nothing() {
    let mut world = World::new(3, 1);
    (0..40).for_each(|_| world.round(&[0, 1, 2]));
    let has = Proposed {
        term: u64::MAX,
        number: u64::MAX,
    };
    let term = u64::MAX;
    let lead = |term, has, agreed| AgreementMessage::Lead {
        term,
        round: 1,
        has,
        agreed,
        value: Some(Agreed::default()),
    };
    let current = world.nodes[0].term();
    let messages = [
        AgreementMessage::Stand {
            term,
            has,
            is_trial: false,
        },
        AgreementMessage::Vote {
            term,
            of: 1,
            is_trial: false,
            is_granted: true,
        },
        lead(term, has, 1),
        lead(
            current,
            Proposed {
                term: current,
                number: 1,
            },
            2,
        ),
        lead(
            current,
            Proposed {
                term: current,
                number: u64::MAX,
            },
            1,
        ),
        AgreementMessage::Follow {
            term,
            round: u64::MAX,
            has,
        },
        AgreementMessage::Follow {
            term: current,
            round: u64::MAX,
            has,
        },
    ];
    for (at, message) in messages.iter().enumerate() {
        let before = (world.nodes[0].known().clone(), world.nodes[0].refused());
        world.nodes[0].on_message(NodeId(2), message.clone());
        assert_eq!(world.nodes[0].known(), &before.0, "message {at}");
        assert_eq!(world.nodes[0].refused(), before.1 + 1, "message {at}");
    }
}

#[test]
fn a_record_comes_back_as_it_was_and_nothing_else_is_one() {
    let record = AgreementRecord {
        term: 7,
        voted: Some(NodeId(2)),
        has: Proposed { term: 6, number: 9 },
        value: Agreed {
            tick_bound: Timestamp(1 << 40),
            catalogs: 3,
            catalogs_tick: Timestamp(5),
            voters: ids(5).into_iter().collect(),
        },
    };
    let bytes = record.encode();
    assert_eq!(AgreementRecord::decode(&bytes).as_ref(), Ok(&record));
    for end in 0..bytes.len() {
        assert!(AgreementRecord::decode(&bytes[..end]).is_err());
    }
    assert!(AgreementRecord::decode(&[&bytes[..], &[0]].concat()).is_err());
    let mut many = Vec::new();
    record::put_agreed(
        &mut many,
        &Agreed {
            voters: ids(6).into_iter().collect(),
            ..Agreed::default()
        },
    );
    assert!(record::read_agreed(&mut ByteReader::new(&many)).is_err());
}
