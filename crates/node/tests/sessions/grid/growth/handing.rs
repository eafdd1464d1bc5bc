//! Another node comes to keep what there is once.

use super::*;
use rubato_grid::catalogs::CatalogMessage;
use rubato_sql::partition::Attachment;

const WHOLE: &str =
    "CREATE TABLE whole (id serial PRIMARY KEY, name text UNIQUE, v int NOT NULL) WITH (spread = false);
    INSERT INTO whole (name, v) SELECT 'row ' || n, n FROM generate_series(1, 12) n;
    CREATE TABLE notes (note text) WITH (spread = false); INSERT INTO notes VALUES ('one'), ('two'), ('two');
    CREATE INDEX ON notes (note);
    CREATE MATERIALIZED VIEW sums AS SELECT sum(v) AS all_v FROM accounts;
    CREATE SEQUENCE numbers";

/// What is made where there is one node, what is spread over two, and what is whole.
fn kept() -> Sites {
    let mut sites = Sites::of(1);
    sites.ask(
        0,
        "CREATE TABLE early (id int PRIMARY KEY, v int); INSERT INTO early SELECT n, n FROM generate_series(1, 9) n",
    );
    sites.join();
    let told = sites.ask(1, MADE);
    assert!(told.contains(&"C INSERT 0 60".to_owned()), "{told:?}");
    sites.join();
    let told = sites.ask(2, WHOLE);
    assert!(told.contains(&"C CREATE SEQUENCE".to_owned()), "{told:?}");
    sites
}

/// The tags of what was done.
fn tags(told: &[String]) -> Vec<&str> {
    told.iter().filter_map(|told| told.strip_prefix("C ")).collect()
}

impl Sites {
    /// What nodes have to say to each other is said; clients do nothing.
    fn rest_but_for_clients(&mut self) {
        for _ in 0..5 {
            pass(60_000);
            for node in self.there() {
                self.at(node).node.on_timer(clock_us());
            }
            self.talk(usize::MAX);
        }
    }

    fn keepers(&self) -> Vec<Option<NodeId>> {
        let there = self.sites.iter().flatten();
        there.map(|site| site.node.keeper()).collect()
    }

    /// All tables go to the nodes 1 and 2.
    fn empty_first(&mut self) {
        for (table, to) in [
            ("early", "1,2"),
            ("accounts", "1,2"),
            ("whole", "1"),
            ("notes", "1"),
            ("sums", "1,2"),
        ] {
            for _ in 0..300 {
                if self.state(table) == format!("D {to}|rests") {
                    break;
                }
                self.step(1, table, "1,2", &mut |_| {});
            }
            assert_eq!(self.state(table), format!("D {to}|rests"), "{table}");
        }
        for table in ["early", "accounts", "whole", "notes"] {
            assert_eq!(self.rows_on(0, table), 0, "{table}");
        }
    }

    /// Everything that there is once does what it does, whoever is asked; `given` numbers were given before.
    fn is_served(&mut self, given: &mut i64, context: &str) {
        for node in self.there() {
            *given += 1;
            let next = self.row(node, "SELECT nextval('numbers')");
            assert_eq!(next, format!("D {given}"), "{context}: node {node}");
            let told = self.ask(
                node,
                "INSERT INTO whole (name, v) VALUES ('of all', 7) RETURNING v; DELETE FROM whole WHERE name = 'of all'",
            );
            assert_eq!(tags(&told), ["INSERT 0 1", "DELETE 1"], "{context}: {told:?}");
            let told = self.ask(node, "INSERT INTO whole (name, v) VALUES ('row 3', 1)");
            assert!(told[0].starts_with("E 23505"), "{context}: {told:?}");
            let all = "SELECT (SELECT count(*) FROM whole), (SELECT count(*) FROM notes WHERE note = 'two'), (SELECT all_v FROM sums)";
            assert_eq!(self.row(node, all), "D 12|2|6000", "{context}: node {node}");
            assert_eq!(
                self.row(node, "SELECT name FROM whole WHERE id = 5"),
                "D row 5",
                "{context}"
            );
            let name = format!("made_at_{node}");
            let told = self.ask(
                node,
                &format!(
                    "CREATE TABLE {name} (id int PRIMARY KEY, v int UNIQUE); INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3);
                     ALTER TABLE whole ADD COLUMN {name} int DEFAULT 4"
                ),
            );
            assert_eq!(tags(&told).last(), Some(&"ALTER TABLE"), "{context}: {told:?}");
            for other in self.there() {
                let seen = format!("SELECT sum(w.{name}), (SELECT count(*) FROM {name}) FROM whole w");
                assert_eq!(self.row(other, &seen), "D 48|3", "{context}: node {other}");
            }
            let told = self.ask(
                node,
                &format!("DROP TABLE {name}; ALTER TABLE whole DROP COLUMN {name}; REFRESH MATERIALIZED VIEW sums"),
            );
            assert_eq!(
                tags(&told).last(),
                Some(&"REFRESH MATERIALIZED VIEW"),
                "{context}: {told:?}"
            );
            let told = self.ask(
                node,
                "CREATE TEMPORARY TABLE own (v int); INSERT INTO own VALUES (1); SELECT v FROM own; DROP TABLE own",
            );
            assert!(told.contains(&"D 1".to_owned()), "{context}: node {node}: {told:?}");
            let told = self.ask(node, "SELECT pg_advisory_lock(7), pg_advisory_unlock(7)");
            assert!(told.contains(&"D |t".to_owned()), "{context}: node {node}: {told:?}");
        }
    }
}

#[test]
fn another_node_keeps_what_there_is_once_and_the_first_one_goes() {
    let mut sites = kept();
    let mut given = 0;
    sites.is_served(&mut given, "before");
    sites.empty_first();
    sites.is_served(&mut given, "moved");
    let told = sites.ask(2, "ALTER GRID HAND OVER TO NODE 1");
    assert_eq!(tags(&told), ["ALTER GRID"]);
    sites.rest();
    assert_eq!(sites.keepers(), [Some(NodeId(1)); 3]);
    sites.is_served(&mut given, "handed over");
    for victim in 0..3 {
        for node in sites.there() {
            sites.at(node).settle();
        }
        sites.restart(victim);
        assert_eq!(sites.keepers(), [Some(NodeId(1)); 3], "{victim}");
        // Numbers that the log has ahead are skipped, as after any crash.
        if victim == 1 {
            given = sites.row(0, "SELECT nextval('numbers')")[2..]
                .parse()
                .expect("a number");
        }
        sites.is_served(&mut given, &format!("node {victim} was started again"));
    }
    // Back and forth: numbers go on, of sequences and of rows.
    for (to, asked) in [(2, 0), (1, 2), (2, 1)] {
        sites.is_served(&mut given, "before it goes on");
        let told = sites.ask(asked, &format!("ALTER GRID HAND OVER TO NODE {to}"));
        assert_eq!(tags(&told), ["ALTER GRID"], "{to}");
        sites.rest();
        assert_eq!(sites.keepers(), [Some(NodeId(to)); 3]);
        sites.is_served(&mut given, "it goes on");
        let told = sites.ask(
            asked,
            "INSERT INTO notes VALUES ('more'); INSERT INTO notes VALUES ('more')",
        );
        assert_eq!(tags(&told), ["INSERT 0 1", "INSERT 0 1"], "{told:?}");
    }
    assert_eq!(sites.row(0, "SELECT count(*) FROM notes"), "D 9");
    // The node that the grid began with is one like others.
    let told = sites.ask(0, "ALTER GRID REMOVE NODE 2");
    assert!(told[0].starts_with("E 55000"), "{told:?}");
    let told = sites.ask(1, "ALTER GRID REMOVE NODE 0");
    assert_eq!(tags(&told), ["ALTER GRID"]);
    assert_eq!(sites.at(2).node.removed(), [NodeId(0)]);
    sites.sites[0] = None;
    for node in [1, 2] {
        sites.at(node).node.on_node_down(NodeId(0));
    }
    sites.agree();
    sites.is_served(&mut given, "without the first");
    sites.join();
    assert_eq!(sites.keepers(), [Some(NodeId(2)); 3], "one that comes hears who it is");
    sites.is_served(&mut given, "with another one");
}

#[test]
fn what_would_be_left_behind_is_in_the_way() {
    let mut sites = kept();
    let refused = |sites: &mut Sites, why: &str, code: &str| {
        let told = sites.ask(2, "ALTER GRID HAND OVER TO NODE 1");
        let is_said = told
            .iter()
            .any(|told| told.starts_with(&format!("E {code}")) && told.contains(why));
        assert!(is_said, "{why}: {told:?}");
        assert_eq!(sites.keepers(), [Some(NodeId(0)); 3]);
    };
    sites.ask(2, "CREATE TEMPORARY TABLE own (v int)");
    refused(&mut sites, "temporary relations", "55006");
    sites.ask(2, "DROP TABLE own");
    sites.ask(1, "SELECT pg_advisory_lock(9)");
    refused(&mut sites, "advisory locks", "55006");
    sites.ask(1, "SELECT pg_advisory_unlock(9)");
    sites.ask(1, "BEGIN; ALTER TABLE whole ADD COLUMN w int");
    refused(&mut sites, "definition", "55006");
    sites.ask(1, "ROLLBACK");
    let told = sites.ask(1, "BEGIN; ALTER GRID HAND OVER TO NODE 1");
    assert!(told[1].starts_with("E 25001"), "{told:?}");
    sites.ask(1, "ROLLBACK");
    for (sql, code) in [
        ("ALTER GRID HAND OVER TO NODE 7", "42704"),
        ("ALTER GRID HAND OVER NODE 1", "42601"),
    ] {
        let told = sites.ask(1, sql);
        assert!(told[0].starts_with(&format!("E {code}")), "{told:?}");
    }
    sites.at(0).node.on_node_down(NodeId(1));
    refused_by_first(&mut sites, "57P03");
    sites.agree();
    // To itself: it has it.
    for node in 0..2 {
        let told = sites.ask(0, &format!("ALTER GRID HAND OVER TO NODE {node}"));
        assert_eq!(tags(&told), ["ALTER GRID"], "{told:?}");
    }
    sites.rest();
    assert_eq!(sites.keepers(), [Some(NodeId(1)); 3]);
}

#[test]
fn tables_that_are_named_no_place_stay_where_they_are() {
    let mut sites = kept();
    let mut given = 0;
    sites.is_served(&mut given, "before");
    assert_eq!(sites.state("early"), "D |rests");
    for (to, asked) in [(1, 2), (2, 0), (0, 1)] {
        let told = sites.ask(asked, &format!("ALTER GRID HAND OVER TO NODE {to}"));
        assert_eq!(tags(&told), ["ALTER GRID"], "{told:?}");
        sites.is_served(&mut given, "handed over");
        for table in ["early", "whole", "notes"] {
            assert_eq!(sites.state(table), "D 0|rests", "{table}");
        }
        assert_eq!((sites.rows_on(0, "early"), sites.rows_on(0, "whole")), (9, 12));
        // What is made there has no name of a place, again.
        let name = format!("later_{to}");
        let made = format!("CREATE TABLE {name} (id int) WITH (spread = false); INSERT INTO {name} VALUES (1), (2)");
        assert_eq!(tags(&sites.ask(asked, &made)), ["CREATE TABLE", "INSERT 0 2"]);
        assert_eq!(sites.state(&name), "D |rests");
        assert_eq!(sites.rows_on(to, &name), 2);
    }
    sites.move_to("early", "0,1,2", &mut |_| {});
    sites.is_served(&mut given, "moved");
    for node in sites.there() {
        sites.at(node).settle();
    }
    (0..3).for_each(|victim| sites.restart(victim));
    given = sites.row(0, "SELECT nextval('numbers')")[2..]
        .parse()
        .expect("a number");
    sites.is_served(&mut given, "all were started again");
    for to in 0..3 {
        assert_eq!(sites.row(2, &format!("SELECT count(*) FROM later_{to}")), "D 2");
    }
}

/// What clients write to tables that are about to be named a place is neither lost nor refused for that.
#[test]
fn writers_of_a_table_that_is_named_its_place_go_on() {
    let mut sites = kept();
    for node in 0..3 {
        sites.ask(
            node,
            &format!("BEGIN; UPDATE whole SET v = v + 1 WHERE id = {}", node + 1),
        );
    }
    // By another session of the node: those of the nodes are within their blocks.
    sites.at(0).node.hand_over(NodeId(1)).expect("handed over");
    sites.rest_but_for_clients();
    for node in 0..3 {
        let told = sites.ask(
            node,
            &format!("UPDATE whole SET v = v + 1 WHERE id = {}; COMMIT", node + 4),
        );
        assert_eq!(tags(&told).last(), Some(&"COMMIT"), "node {node}: {told:?}");
    }
    assert_eq!(sites.row(2, "SELECT sum(v) FROM whole"), "D 84", "78 and six");
}

fn refused_by_first(sites: &mut Sites, code: &str) {
    let told = sites.ask(0, "ALTER GRID HAND OVER TO NODE 1");
    assert!(told[0].starts_with(&format!("E {code}")), "{told:?}");
}

/// What has begun on the node that hands over, and needs what is there, is told to begin again.
#[test]
fn whoever_has_begun_where_it_was_begins_again() {
    let mut sites = kept();
    sites.empty_first();
    // It has a catalog of its own that nobody has heard of.
    sites.ask(0, "BEGIN; CREATE VIEW of_numbers AS SELECT 1 AS one");
    let told = sites.ask(2, "ALTER GRID HAND OVER TO NODE 1");
    assert_eq!(tags(&told), ["ALTER GRID"], "a view is nobody's table");
    sites.rest();
    let told = sites.ask(0, "COMMIT");
    assert!(told[0].starts_with("E 40001"), "{told:?}");
    assert!(sites.ask(2, "SELECT * FROM of_numbers")[0].starts_with("E 42P01"));
    let told = sites.ask(0, "BEGIN; CREATE VIEW of_numbers AS SELECT 1 AS one; COMMIT");
    assert_eq!(tags(&told).last(), Some(&"COMMIT"), "{told:?}");
    assert_eq!(sites.row(2, "SELECT one FROM of_numbers"), "D 1");
    // A block that has begun there with other things goes on.
    let told = sites.ask(2, "ALTER GRID HAND OVER TO NODE 2");
    assert_eq!(tags(&told), ["ALTER GRID"]);
    sites.rest();
    sites.ask(1, "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 3");
    let told = sites.ask(0, "ALTER GRID HAND OVER TO NODE 1");
    assert_eq!(tags(&told), ["ALTER GRID"]);
    let told = sites.ask(
        1,
        "SELECT nextval('numbers'); UPDATE accounts SET v = v - 1 WHERE id = 3; COMMIT",
    );
    assert!(told.contains(&"C COMMIT".to_owned()), "{told:?}");
}

/// A node is killed when so many messages have come since another was to keep what there is once. False if it was over before.
fn kill_one(victim: usize, messages: usize, is_forced: bool) -> bool {
    let context = format!("node {victim} killed after {messages} messages, forced {is_forced}");
    let mut sites = kept();
    sites.empty_first();
    let mut given = 0;
    for _ in 0..2 {
        given += 1;
        assert_eq!(sites.row(2, "SELECT nextval('numbers')"), format!("D {given}"));
    }
    for node in sites.there() {
        sites.at(node).settle();
    }
    sites.at(0).send("ALTER GRID HAND OVER TO NODE 1");
    let left = sites.talk(messages);
    if is_forced {
        sites.at(victim).node.force().expect("forced");
    }
    sites.restart(victim);
    sites.come_to_an_end(0, &context);
    let told = sites.at(0).said();
    sites.rest();
    let keepers = sites.keepers();
    assert!(
        keepers.iter().all(|keeper| *keeper == keepers[0]),
        "{context}: {keepers:?}"
    );
    if victim != 0 {
        assert_eq!(
            (tags(&told), keepers[0]),
            (vec!["ALTER GRID"], Some(NodeId(1))),
            "{context}"
        );
    }
    // Never a number twice; some are skipped.
    let next: i64 = sites.row(1, "SELECT nextval('numbers')")[2..]
        .parse()
        .expect("a number");
    assert!(next > given, "{context}: {next}");
    given = next;
    sites.is_served(&mut given, &context);
    left == 0
}

#[test]
fn a_node_that_is_killed_while_it_is_handed_over_leaves_one_that_keeps_it() {
    for victim in 0..3 {
        for is_forced in [false, true] {
            let goes_on = |messages: &usize| kill_one(victim, *messages, is_forced);
            let steps = (0..).take_while(goes_on).count();
            assert!(steps > 3, "{steps}");
        }
    }
}

/// What clients of other nodes ask when so many messages have come since another was to keep what there is once: they get it, or are told to
/// begin again. False if it was over before.
fn ask_meanwhile(messages: usize) -> bool {
    let mut sites = kept();
    sites.empty_first();
    sites.at(0).send("ALTER GRID HAND OVER TO NODE 1");
    let left = sites.talk(messages);
    let asked = [
        "SELECT nextval('numbers')",
        "INSERT INTO whole (name, v) SELECT 'some ' || n, n FROM generate_series(100, 102) n",
        "BEGIN; UPDATE accounts SET v = v + 1 WHERE id = 1; SELECT nextval('numbers'); COMMIT",
        "CREATE TABLE own (id serial PRIMARY KEY)",
        "CREATE TEMPORARY TABLE passing (v int); INSERT INTO passing VALUES (1); SELECT v FROM passing; DROP TABLE passing",
        "SELECT count(*) FROM whole",
    ];
    sites.at(2).send(asked[messages % asked.len()]);
    sites.come_to_an_end(2, asked[messages % asked.len()]);
    let told = sites.at(2).said();
    let is_served = |told: &String| !told.starts_with("E ") || told.starts_with("E 40001");
    assert!(told.iter().all(is_served), "{messages}: {told:?}");
    sites.ask(2, "ROLLBACK");
    sites.come_to_an_end(0, "the hand-over");
    assert_eq!(tags(&sites.at(0).said()).last(), Some(&"ALTER GRID"), "{messages}");
    sites.rest();
    // What was told may be lost with the rest: whoever begins the next transaction asks for it.
    let given = sites.row(2, "SELECT count(*) FROM accounts WHERE name IS NULL");
    assert_eq!(given, "D 0");
    assert_eq!(sites.keepers(), [Some(NodeId(1)); 3], "{messages}");
    left == 0
}

#[test]
fn clients_of_other_nodes_are_served_while_it_is_handed_over() {
    let steps = (0..).take_while(|messages| ask_meanwhile(*messages)).count();
    assert!(steps > 6, "{steps}");
}

/// The catalogs say who is to keep them, and may come before what was given with numbers: it is not kept without these.
#[test]
fn who_is_to_keep_it_does_not_before_the_numbers_of_sequences_have_come() {
    let mut sites = kept();
    sites.empty_first();
    let mut given = 1;
    assert_eq!(sites.row(2, "SELECT nextval('numbers')"), "D 1");
    // Who has not heard of it tells nothing either.
    sites.is_lost = |_, message| match message {
        GridMessage::Catalog(CatalogMessage::HandOver { .. }) => true,
        GridMessage::Catalog(CatalogMessage::All { content, .. }) => {
            Attachment::decode(content).is_ok_and(|told| told.keeping.is_none())
        }
        _ => false,
    };
    assert_eq!(tags(&sites.ask(0, "ALTER GRID HAND OVER TO NODE 1")), ["ALTER GRID"]);
    for node in sites.there() {
        sites.at(node).settle();
    }
    sites.restart(1);
    assert_eq!(
        sites.keepers()[..2],
        [Some(NodeId(1)), Some(NodeId(0))],
        "nobody keeps it now"
    );
    sites.at(2).send("SELECT nextval('numbers')");
    sites.talk(usize::MAX);
    sites.is_lost = |_, _| false;
    sites.come_to_an_end(2, "a number");
    let told = sites.at(2).said();
    assert!(
        told.contains(&"D 2".to_owned()) || told[0].starts_with("E 40001"),
        "{told:?}"
    );
    given += i64::from(told.contains(&"D 2".to_owned()));
    sites.rest();
    sites.is_served(&mut given, "it has come");
    assert_eq!(sites.keepers(), [Some(NodeId(1)); 3]);
}

/// In a grid of two only one has a vote, without which nobody would begin a transaction any more: who keeps what there is once.
/// Who has not heard of the newest node would give its number again.
#[test]
fn who_is_to_keep_it_does_not_before_it_has_heard_of_all_nodes() {
    let mut sites = Sites::of(3);
    // It begins again from a list of when it joined.
    sites.at(1).restart();
    for other in [0, 2] {
        sites.at(other).node.on_node_down(NodeId(1));
    }
    for (node, other) in [(0, 1), (1, 0)] {
        sites.at(node).node.on_node_up(NodeId(other));
    }
    sites.rest_but_for_clients();
    let told = sites.ask(0, "ALTER GRID HAND OVER TO NODE 1");
    assert_eq!(tags(&told), ["ALTER GRID"]);
    sites.rest_but_for_clients();
    assert_ne!(sites.at(1).node.keeper(), Some(NodeId(1)));
    sites.agree();
    sites.rest_but_for_clients();
    assert_eq!(sites.at(1).node.keeper(), Some(NodeId(1)));
}

#[test]
fn the_only_vote_of_two_nodes_goes_to_the_one_that_keeps_what_there_is_once() {
    let mut sites = Sites::of(2);
    sites.ask(
        1,
        "CREATE TABLE few (id int PRIMARY KEY); INSERT INTO few VALUES (1), (2), (3)",
    );
    for _ in 0..100 {
        if sites.state("few") == "D 1|rests" {
            break;
        }
        sites.step(1, "few", "1", &mut |_| {});
    }
    sites.rest();
    assert_eq!(sites.voters(), [[NodeId(0)]; 2]);
    // It is not there yet.
    sites.at(1).send("ALTER GRID HAND OVER TO NODE 1");
    sites.talk(usize::MAX);
    assert_eq!(tags(&sites.at(1).said()), ["ALTER GRID"]);
    sites.at(1).send("ALTER GRID REMOVE NODE 0");
    sites.talk(usize::MAX);
    let told = sites.at(1).said();
    assert!(told[0].starts_with("E 55006"), "{told:?}");
    sites.rest();
    assert_eq!(sites.voters(), [[NodeId(1)]; 2]);
    assert_eq!(sites.row(0, "SELECT count(*) FROM few"), "D 3");
    // The one that has neither may be away, or go.
    let told = sites.ask(1, "ALTER GRID REMOVE NODE 0");
    assert_eq!(tags(&told), ["ALTER GRID"], "{told:?}");
    sites.sites[0] = None;
    sites.at(1).node.on_node_down(NodeId(0));
    sites.agree();
    assert_eq!(sites.row(1, "SELECT count(*) FROM few"), "D 3");
    assert_eq!(tags(&sites.ask(1, "INSERT INTO few VALUES (4)")), ["INSERT 0 1"]);
}

/// One whose log has lost who keeps what there is once, and whose list of nodes has not, does not take itself for that node.
#[test]
fn who_does_not_know_who_keeps_it_asks_others() {
    let guessed = |own: u32, nodes: &[u32]| {
        let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
        GridSettings::keeper_unless_known(NodeId(own), &nodes).0
    };
    assert_eq!((guessed(0, &[0, 1]), guessed(1, &[0, 1]), guessed(0, &[0])), (0, 0, 0));
    assert_eq!((guessed(1, &[1, 2, 3]), guessed(2, &[1, 2, 3])), (2, 1));
}
