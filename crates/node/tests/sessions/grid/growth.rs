//! Nodes that come to a grid and go from it, while its rows move.

mod apart;
mod cut;
mod doubt;
mod handing;
mod left_out;
mod ranges;
mod renamed;
mod unkeyed;

use super::*;
use crate::world::pass;
use rubato_protocol::KeyRange;

/// Nodes of one grid, by number; what is said to one that is not there is lost.
struct Sites {
    sites: Vec<Option<Site>>,
    /// Of nodes that come; [`ByRows`] if there is none.
    router: Option<Arc<dyn Router>>,
    /// What comes to nobody.
    is_lost: fn(NodeId, &GridMessage) -> bool,
    /// Two nodes that do not reach each other.
    cut: Option<[usize; 2]>,
}

impl Sites {
    fn of(count: u32) -> Sites {
        let mut sites = Sites {
            sites: Vec::new(),
            router: None,
            is_lost: |_, _| false,
            cut: None,
        };
        for _ in 0..count {
            sites.join();
        }
        sites
    }

    fn at(&mut self, node: usize) -> &mut Site {
        self.sites[node].as_mut().expect("the node is there")
    }

    fn there(&self) -> Vec<usize> {
        let numbers = 0..self.sites.len();
        numbers.filter(|number| self.sites[*number].is_some()).collect()
    }

    /// One more node.
    fn join(&mut self) {
        let id = self.sites.len() as u32;
        let router = self.router.clone().unwrap_or_else(|| Arc::new(ByRows));
        let site = Site::kept_by(Some(NodeId(0)), id, id + 1, Some(router));
        self.sites.push(Some(site));
        self.agree();
    }

    /// All know who is there, and speak with each other.
    fn agree(&mut self) {
        let nodes: Vec<NodeId> = self.there().into_iter().map(|node| NodeId(node as u32)).collect();
        for node in self.there() {
            self.at(node).node.set_members(nodes.clone(), nodes[nodes.len() - 1]);
            for other in self.there().into_iter().filter(|other| *other != node) {
                self.at(node).node.on_node_up(NodeId(other as u32));
            }
        }
        self.rest();
    }

    /// A node ends without a word and begins again.
    fn restart(&mut self, victim: usize) {
        self.at(victim).restart();
        let others: Vec<usize> = self.there().into_iter().filter(|other| *other != victim).collect();
        for other in others {
            self.at(other).node.on_node_down(NodeId(victim as u32));
        }
        self.agree();
    }

    /// Hands over so many messages at most; says how many of them were not there.
    fn talk(&mut self, mut left: usize) -> usize {
        for _ in 0..40 {
            let mut said = 0;
            for from in self.there() {
                self.at(from).node.on_wake();
                self.at(from).turn();
                self.at(from).settle();
                for (to, message) in self.at(from).node.poll_outgoing() {
                    if left == 0 {
                        return 0;
                    }
                    left -= 1;
                    said += 1;
                    let is_cut = self
                        .cut
                        .is_some_and(|cut| cut.contains(&from) && cut.contains(&(to.0 as usize)));
                    if is_cut || (self.is_lost)(to, &message) {
                        continue;
                    }
                    if let Some(Some(site)) = self.sites.get_mut(to.0 as usize) {
                        site.node.on_message(NodeId(from as u32), message);
                    }
                }
            }
            if said == 0 {
                return left;
            }
        }
        left
    }

    /// Time passes until nothing is under way.
    fn rest(&mut self) {
        for _ in 0..400 {
            pass(60_000);
            for node in self.there() {
                self.at(node).node.on_timer(clock_us());
            }
            self.talk(usize::MAX);
            let there = self.there().len();
            let votes = there - 1 + there % 2;
            let is_at_rest = |node: usize| {
                let site = self.sites[node].as_ref();
                site.is_some_and(|site| {
                    let (own, keeper) = (site.node.figures(), site.node.keeper());
                    // The only vote is where the rest is kept that there is once.
                    let has_votes = own.voters.len() == votes && (votes > 1 || own.voters.first() == keeper.as_ref());
                    let is_idle = own.open_branches + own.open_transactions == 0;
                    has_votes && own.has_catalogs && own.is_born && is_idle
                })
            };
            if self.there().into_iter().all(is_at_rest) {
                return;
            }
        }
        panic!("something stays under way");
    }

    /// Who has a vote, as the nodes know it.
    fn voters(&self) -> Vec<Vec<NodeId>> {
        let there = self.sites.iter().flatten();
        there.map(|site| site.node.figures().voters).collect()
    }

    fn ask(&mut self, node: usize, sql: &str) -> Vec<String> {
        self.at(node).send(sql);
        self.come_to_an_end(node, sql);
        self.at(node).said()
    }

    /// What the client of a node has asked is answered.
    fn come_to_an_end(&mut self, node: usize, context: &str) {
        for _ in 0..400 {
            self.talk(usize::MAX);
            if self.at(node).idle.is_some() {
                return;
            }
            pass(60_000);
            for node in self.there() {
                self.at(node).node.on_timer(clock_us());
            }
        }
        panic!("node {node} does not answer: {context}");
    }

    /// The only row.
    fn row(&mut self, node: usize, sql: &str) -> String {
        let told = self.ask(node, sql);
        told.iter()
            .find(|told| told.starts_with("D "))
            .unwrap_or_else(|| panic!("{sql}: {told:?}"))
            .clone()
    }

    /// How many rows of a table a node has.
    fn rows_on(&mut self, node: usize, table: &str) -> usize {
        let (table, _) = self.at(node).node.storage_of(table).expect("the table");
        let ticket = self.at(node).node.begin(true).expect("a ticket");
        self.talk(usize::MAX);
        let _ = self.at(node).told();
        let operation = Operation::Scan {
            table,
            range: KeyRange::WHOLE,
            columns: ColumnSet::EXISTENCE,
        };
        assert!(self.at(node).node.operate(ticket, NodeId(node as u32), operation));
        let told = self.at(node).told();
        let [ClientTold::Answer(_, Answer::Rows(rows))] = &told[..] else {
            panic!("{told:?}");
        };
        let count = rows.len();
        self.at(node).node.roll_back(ticket);
        count
    }

    fn rows(&mut self, table: &str) -> Vec<usize> {
        self.there().into_iter().map(|node| self.rows_on(node, table)).collect()
    }

    fn state(&mut self, table: &str) -> String {
        self.row(
            0,
            &format!("SELECT nodes, state FROM rubato.moves WHERE relation = '{table}'"),
        )
    }

    /// One step of a table's way, and what is done between two steps.
    fn step(&mut self, asked: usize, table: &str, nodes: &str, between: &mut dyn FnMut(&mut Sites)) {
        let step = format!("ALTER TABLE {table} SET (spread_nodes = '{nodes}', spread_rows = 7)");
        let told = self.ask(asked, &step);
        assert!(told[0] == "C ALTER TABLE" || told[0].starts_with("E 40001"), "{told:?}");
        pass(60_000);
        for node in self.there() {
            self.at(node).node.on_timer(clock_us());
        }
        between(self);
    }

    /// Steps until all rows are there.
    fn move_to(&mut self, table: &str, nodes: &str, between: &mut dyn FnMut(&mut Sites)) {
        for _ in 0..300 {
            if self.state(table) == format!("D {nodes}|rests") {
                return;
            }
            self.step(1, table, nodes, between);
        }
        panic!("{}", self.state(table));
    }
}

const MADE: &str =
    "CREATE TABLE accounts (id int PRIMARY KEY, v int NOT NULL CHECK (v >= 0), name text UNIQUE, kind int);
                    CREATE INDEX ON accounts (kind);
                    INSERT INTO accounts SELECT n, 100, 'account ' || n, n % 5 FROM generate_series(1, 60) n";

/// Three nodes with four rows each: 3, 4 and 5 are on the nodes 0, 1 and 2.
fn few() -> Sites {
    let mut sites = Sites::of(3);
    sites.ask(0, "CREATE TABLE few (id int PRIMARY KEY, v int NOT NULL)");
    sites.ask(0, "INSERT INTO few SELECT n, n + 1 FROM generate_series(1, 12) n");
    assert_eq!(sites.rows("few"), [4, 4, 4]);
    sites.rest();
    sites
}

fn made() -> Sites {
    let mut sites = Sites::of(2);
    let told = sites.ask(1, MADE);
    assert!(told.contains(&"C INSERT 0 60".to_owned()), "{told:?}");
    sites
}

/// Everything that can be asked of the table is as if it lay on one node.
fn is_whole(sites: &mut Sites, rows: usize) {
    for node in sites.there() {
        let all = format!("D {rows}|{}", rows * 100);
        assert_eq!(sites.row(node, "SELECT count(*), sum(v) FROM accounts"), all);
        assert_eq!(
            sites.row(node, "SELECT count(*) FROM (SELECT id FROM accounts ORDER BY id) s"),
            format!("D {rows}")
        );
        for id in [1, 2, 3, 13, 24] {
            assert_eq!(
                sites.row(node, &format!("SELECT v >= 0, name FROM accounts WHERE id = {id}")),
                format!("D t|account {id}")
            );
            let named = format!("SET enable_seqscan = off; SELECT id FROM accounts WHERE name = 'account {id}'");
            assert_eq!(sites.row(node, &named), format!("D {id}"));
        }
        let kinds = "SET enable_seqscan = off; SELECT count(*) FROM accounts WHERE kind = 3 AND id <= 60";
        assert_eq!(sites.row(node, kinds), "D 12");
        for taken in [
            "(7, 1, 'other')",
            "(8, 1, 'other')",
            "(9, 1, 'other')",
            "(1000, 1, 'account 5')",
            "(1001, 1, 'account 6')",
        ] {
            let told = sites.ask(node, &format!("INSERT INTO accounts VALUES {taken}"));
            assert!(told[0].starts_with("E 23505"), "{taken}: {told:?}");
        }
    }
}

#[test]
fn a_third_node_takes_over_rows_beneath_transfers() {
    let mut sites = made();
    assert_eq!(sites.rows("accounts"), [30, 30]);
    sites.join();
    assert_eq!(sites.state("accounts"), "D 0,1|rests");
    let (mut turn, mut rows) = (0, 60);
    let mut transfer = |sites: &mut Sites| {
        turn += 1;
        let (node, from, to) = (turn % 3, 1 + turn * 7 % 60, 1 + turn * 11 % 60);
        let block = format!(
            "BEGIN; UPDATE accounts SET v = v - 1 WHERE id = {from}; UPDATE accounts SET v = v + 1 WHERE id = {to};
             INSERT INTO accounts VALUES ({0}, 50, 'new {0}', 1), ({1}, 50, 'new {1}', 2);
             UPDATE accounts SET v = v + 50, name = 'named ' || id WHERE id IN ({0}, {1}); DELETE FROM accounts WHERE id = {1}; COMMIT",
            1000 + turn * 2,
            1001 + turn * 2,
        );
        let told = sites.ask(node, &block);
        assert!(told.contains(&"C COMMIT".to_owned()), "{turn}: {told:?}");
        rows += 1;
        assert_eq!(
            sites.row((node + 1) % 3, "SELECT count(*), sum(v) FROM accounts"),
            format!("D {rows}|{}", rows * 100)
        );
    };
    sites.move_to("accounts", "0,1,2", &mut transfer);
    let lie = sites.rows("accounts");
    assert!(lie.iter().all(|count| *count >= 15), "{lie:?}");
    assert_eq!(lie.iter().sum::<usize>(), rows);
    is_whole(&mut sites, rows);
}

#[test]
fn a_node_that_is_drained_has_no_rows_any_more() {
    let mut sites = made();
    sites.join();
    sites.move_to("accounts", "0,1,2", &mut |_| {});
    assert_eq!(
        sites.rows("accounts"),
        [20, 20, 20],
        "a third of each of the two has moved"
    );
    is_whole(&mut sites, 60);
    let mut steps = 0;
    sites.move_to("accounts", "0,2", &mut |sites| {
        steps += 1;
        if steps % 4 == 0 {
            is_whole(sites, 60);
        }
    });
    assert_eq!(sites.rows("accounts"), [30, 0, 30]);
    is_whole(&mut sites, 60);
    // And back to one node.
    sites.move_to("accounts", "0", &mut |_| {});
    assert_eq!(sites.rows("accounts"), [60, 0, 0]);
    is_whole(&mut sites, 60);
}

/// A grid that grows, one of whose nodes is killed when so many messages have come: every row is there once, and the move goes on. False if
/// it was over before.
fn kill_one(victim: usize, messages: usize, is_forced: bool) -> bool {
    let mut sites = Sites::of(2);
    sites.ask(0, "CREATE TABLE few (id int PRIMARY KEY, v int NOT NULL UNIQUE)");
    sites.ask(0, "INSERT INTO few SELECT n, n * 10 FROM generate_series(1, 12) n");
    sites.join();
    let mut left = messages;
    for _ in 0..40 {
        sites
            .at(0)
            .send("ALTER TABLE few SET (spread_nodes = '0,1,2', spread_rows = 3)");
        left = sites.talk(left);
        if left == 0 || sites.at(0).idle.is_none() {
            break;
        }
        pass(60_000);
        for node in sites.there() {
            sites.at(node).node.on_timer(clock_us());
        }
    }
    if is_forced {
        sites.at(victim).node.force().expect("forced");
    }
    sites.restart(victim);
    let context = format!("node {victim} killed after {messages} messages, forced {is_forced}");
    sites.come_to_an_end(0, &context);
    let _ = sites.at(0).said();
    for node in 0..3 {
        let all = sites.row(node, "SELECT count(*), sum(v), count(DISTINCT id) FROM few");
        assert_eq!(all, "D 12|780|12", "{context}");
        let told = sites.ask(
            node,
            &format!("UPDATE few SET v = v + 1 - 1 WHERE id IN (3, {}, 11)", 4 + node),
        );
        assert_eq!(told[0], "C UPDATE 3", "{context}");
        let told = sites.ask(node, "INSERT INTO few VALUES (5, 1)");
        assert!(told[0].starts_with("E 23505"), "{context}: {told:?}");
        let told = sites.ask(node, "INSERT INTO few VALUES (50, 110)");
        assert!(told[0].starts_with("E 23505"), "{context}: {told:?}");
    }
    sites.move_to("few", "0,1,2", &mut |_| {});
    assert_eq!(sites.rows("few"), [4, 4, 4], "{context}");
    assert_eq!(
        sites.row(2, "SELECT count(*), sum(v) FROM few"),
        "D 12|780",
        "{context}"
    );
    left == 0
}

#[test]
fn a_node_that_is_killed_in_the_midst_of_a_move_leaves_every_row_once() {
    for victim in 0..3 {
        for is_forced in [false, true] {
            let goes_on = |messages: &usize| kill_one(victim, *messages, is_forced);
            let steps = (victim..).step_by(5).take_while(goes_on).count();
            assert!(steps > 10, "{steps}");
        }
    }
}

#[test]
fn a_node_without_rows_is_removed_and_new_tables_do_not_come_to_lie_on_it() {
    let mut sites = made();
    sites.join();
    sites.move_to("accounts", "0,1,2", &mut |_| {});
    let fails = |sites: &mut Sites, sql: &str, code: &str| {
        let told = sites.ask(2, sql);
        assert!(
            told.iter().any(|told| told.starts_with(&format!("E {code}"))),
            "{sql}: {told:?}"
        );
        sites.ask(2, "ROLLBACK");
    };
    fails(&mut sites, "ALTER GRID REMOVE NODE 1", "2BP01");
    fails(&mut sites, "ALTER GRID REMOVE NODE 0", "55000");
    fails(&mut sites, "ALTER GRID REMOVE NODE 7", "42704");
    fails(&mut sites, "ALTER GRID REMOVE NODE one", "42601");
    fails(&mut sites, "BEGIN; ALTER GRID REMOVE NODE 1", "25001");
    fails(
        &mut sites,
        "BEGIN; ALTER TABLE accounts SET (spread_nodes = '0')",
        "25001",
    );
    for wrong in [
        "spread_nodes = '0,9'",
        "spread_nodes = 'x'",
        "spread_nodes = ''",
        "spread_rows = 5",
    ] {
        fails(&mut sites, &format!("ALTER TABLE accounts SET ({wrong})"), "22023");
    }
    sites.ask(0, "CREATE TABLE whole (id int PRIMARY KEY) WITH (spread = false)");
    // One that is where everything is that there is once stays there as long as it may.
    sites.ask(2, "ALTER TABLE whole SET (spread_nodes = '0,1')");
    assert_eq!(sites.state("whole"), "D |rests");
    // Tables of which each node has all rows, and those without a key, go too.
    sites.ask(
        0,
        "CREATE TABLE items (id int PRIMARY KEY) WITH (spread = everywhere); INSERT INTO items VALUES (1), (2)",
    );
    sites.ask(1, "CREATE TABLE notes (note text); INSERT INTO notes VALUES ('at 1')");
    sites.ask(2, "INSERT INTO notes VALUES ('at 2')");
    for table in ["accounts", "items", "notes"] {
        sites.move_to(table, "0,2", &mut |_| {});
        assert_eq!(sites.rows(table)[1], 0, "{table}");
    }
    assert_eq!(
        sites.row(1, "SELECT (SELECT count(*) FROM items), count(*) FROM notes"),
        "D 2|2"
    );
    let removed = sites.ask(2, "ALTER GRID REMOVE NODE 1");
    assert_eq!(removed[0], "C ALTER GRID", "{removed:?}");
    assert_eq!(sites.at(0).node.removed(), [NodeId(1)]);
    sites.ask(
        0,
        "CREATE TABLE later (id int PRIMARY KEY); INSERT INTO later VALUES (1), (2), (3)",
    );
    assert_eq!(sites.state("later"), "D 0,2|rests");
    // Whoever keeps the list has written that down, and told it.
    let mut gone = sites.sites[1].take().expect("the node");
    for node in [0, 2] {
        sites.at(node).node.on_node_down(NodeId(1));
    }
    sites.agree();
    assert_eq!(sites.at(0).node.removed(), []);
    is_whole(&mut sites, 60);
    // It is waited for no more: versions go, and tables change.
    let before = sites.at(0).node.figures().oldest_live;
    for _ in 0..10 {
        sites.ask(
            2,
            "UPDATE accounts SET v = v + 1 WHERE id = 1; UPDATE accounts SET v = v - 1 WHERE id = 1",
        );
        sites.rest();
    }
    let after = sites.at(0).node.figures().oldest_live;
    assert!(after > before, "{before:?} {after:?}");
    let altered = sites.ask(2, "ALTER TABLE accounts ADD COLUMN w int DEFAULT 1");
    assert_eq!(altered[0], "C ALTER TABLE", "{altered:?}");
    // What it says is heard by nobody.
    gone.settle();
    let refused = sites.at(0).node.figures().refused;
    for (to, message) in gone.node.poll_outgoing() {
        if to == NodeId(0) {
            sites.at(0).node.on_message(NodeId(1), message);
        }
    }
    for round in 1..=2 {
        gone.node.on_timer(clock_us() + round * 1_000_000);
        for (to, message) in gone.node.poll_outgoing() {
            if to == NodeId(0) {
                sites.at(0).node.on_message(NodeId(1), message);
            }
        }
    }
    assert!(sites.at(0).node.figures().refused > refused);
    // It knows that, and says so to whoever asks it: at once.
    gone.node.on_removed();
    for sql in [
        "SELECT count(*) FROM accounts",
        "CREATE TABLE made (id int)",
        "ALTER GRID REMOVE NODE 2",
        "BEGIN; SELECT 1 FROM accounts",
    ] {
        gone.send(sql);
        for _ in 0..8 {
            gone.node.on_wake();
            gone.settle();
            gone.turn();
        }
        let told = gone.said();
        let is_told = |told: &String| told.starts_with("E 57P03 node 1 was removed from its grid");
        assert!(told.iter().any(is_told), "{sql}: {told:?}");
    }
}

#[test]
fn what_is_owed_to_a_node_that_was_removed_is_owed_no_more() {
    let mut sites = Sites::of(3);
    sites.ask(0, "CREATE TABLE few (id int PRIMARY KEY)");
    sites.at(0).send("DROP TABLE few");
    'decided: loop {
        for from in 0..3 {
            sites.at(from).node.on_wake();
            sites.at(from).turn();
            sites.at(from).settle();
            for (to, message) in sites.at(from).node.poll_outgoing() {
                sites.at(to.0 as usize).node.on_message(NodeId(from as u32), message);
                if sites.at(0).node.figures().undone_decisions > 0 {
                    break 'decided;
                }
            }
        }
    }
    // That the others had carried it out was not written down, and one of them is never there again.
    sites.at(0).settle();
    sites.at(0).restart();
    sites.sites[1] = None;
    assert_eq!(sites.at(0).node.figures().undone_decisions, 1);
    sites.agree();
    assert_eq!(sites.at(0).node.figures().undone_decisions, 0);
    let told = sites.ask(2, "CREATE TABLE few (id int PRIMARY KEY)");
    assert_eq!(told[0], "C CREATE TABLE", "{told:?}");
}

#[test]
fn a_block_that_ran_on_a_node_that_was_removed_is_to_be_run_again() {
    let mut sites = made();
    sites.join();
    let runs_elsewhere = |sites: &mut Sites, id: u32| {
        sites.ask(2, &format!("BEGIN; UPDATE accounts SET v = v + 1 WHERE id = {id}"));
        let live = |sites: &mut Sites, node| sites.at(node).node.figures().node.live_transactions;
        let is_there = live(sites, 1) > 0 && live(sites, 2) == 0;
        if !is_there {
            sites.ask(2, "ROLLBACK");
        }
        is_there
    };
    assert!((1..=60).any(|id| runs_elsewhere(&mut sites, id)));
    sites.sites[1] = None;
    for node in [0, 2] {
        sites.at(node).node.on_node_down(NodeId(1));
    }
    sites.agree();
    let told = sites.ask(2, "COMMIT");
    assert!(told[0].starts_with("E 40001") && told[1] == "Z I", "{told:?}");
}

#[test]
fn what_one_node_has_of_a_table_is_recovered_and_verified() {
    let mut sites = made();
    sites.ask(0, "CREATE INDEX by_v ON accounts (v)");
    for node in 0..2 {
        sites.at(node).settle();
        let kept = &sites.at(node).kept;
        let store = Arc::clone(&kept.store) as Arc<dyn rubato_storage::Store>;
        let found = rubato_node::verify(&store, Arc::clone(&kept.directory) as _).expect("verified");
        assert_eq!((found.tables, found.rows), (1, 30), "{found:?}");
    }
}

/// The keeper is down, and all others are started again: they know the catalogs that they have heard of, and serve what they have.
#[test]
fn nodes_that_start_while_the_keeper_is_down_serve_what_they_have() {
    for has_checkpoint in [false, true] {
        let mut sites = Sites::of(3);
        sites.ask(0, "CREATE TABLE held (id int PRIMARY KEY, v int)");
        sites.ask(1, "INSERT INTO held SELECT n, n FROM generate_series(1, 30) n");
        sites.ask(2, "ALTER TABLE held ADD COLUMN note text DEFAULT 'none'");
        sites.rest();
        sites.sites[0] = None;
        for node in [1, 2] {
            if has_checkpoint {
                sites.at(node).node.checkpoint().expect("a checkpoint");
            }
            sites.at(node).restart();
        }
        for (node, other) in [(1, 2), (2, 1)] {
            let own = &sites.at(node).node;
            own.set_members((0..3).map(NodeId).collect(), NodeId(2));
            own.on_node_down(NodeId(0));
            own.on_node_up(NodeId(other));
        }
        let mut found = [0, 0];
        for key in 1..=30 {
            for node in [1, 2] {
                let told = sites.ask(
                    node,
                    &format!("UPDATE held SET v = v + 1 WHERE id = {key} RETURNING v, note"),
                );
                found[node - 1] += usize::from(
                    told.iter()
                        .any(|told| told.starts_with("D ") && told.ends_with("|none")),
                );
                let is_clear = told
                    .iter()
                    .all(|told| !told.starts_with('E') || told.contains("57P03 node 0"));
                assert!(is_clear, "{told:?}");
            }
        }
        assert!(found[0] > 0 && found[0] == found[1], "{found:?}");
    }
}

/// What lays all rows anew ends the move: they come to lie where the table was to.
#[test]
fn a_table_that_moves_and_is_laid_anew_has_moved() {
    for (ways, anew, tags) in [
        (1, "ALTER TABLE accounts ALTER kind TYPE bigint", &["C ALTER TABLE"][..]),
        (4, "ALTER TABLE accounts ALTER kind TYPE numeric", &["C ALTER TABLE"]),
        (
            2,
            "BEGIN; CREATE TABLE kept AS SELECT * FROM accounts; TRUNCATE accounts; INSERT INTO accounts SELECT * FROM kept; COMMIT",
            &[
                "C BEGIN",
                "C SELECT 60",
                "C TRUNCATE TABLE",
                "C INSERT 0 60",
                "C COMMIT",
            ],
        ),
        (
            5,
            "BEGIN; CREATE TEMP TABLE kept AS SELECT * FROM accounts; TRUNCATE accounts; INSERT INTO accounts SELECT * FROM kept; COMMIT",
            &[
                "C BEGIN",
                "C SELECT 60",
                "C TRUNCATE TABLE",
                "C INSERT 0 60",
                "C COMMIT",
            ],
        ),
    ] {
        let mut sites = made();
        sites.join();
        for _ in 0..ways {
            sites.step(1, "accounts", "0,1,2", &mut |_| {});
        }
        let state = sites.state("accounts");
        assert!(state.starts_with("D 0,1,2|") && !state.ends_with("rests"), "{state}");
        let told = sites.ask(ways % 3, anew);
        assert_eq!(told[..told.len() - 1], *tags, "{anew}: {told:?}");
        assert_eq!(sites.state("accounts"), "D 0,1,2|rests", "{anew}");
        is_whole(&mut sites, 60);
        let shares = sites.rows("accounts");
        assert!(
            shares.iter().sum::<usize>() == 60 && shares.iter().all(|rows| *rows > 0),
            "{anew}: {shares:?}"
        );
    }
}

/// Who fills a table anew again and again does not hold up its way.
#[test]
fn a_node_is_drained_beside_those_who_refill_a_table() {
    let mut sites = made();
    sites.join();
    let filled = sites.ask(
        1,
        "CREATE TABLE board (id int PRIMARY KEY, v int); INSERT INTO board SELECT g, 0 FROM generate_series(1, 30) g",
    );
    assert!(filled.contains(&"C INSERT 0 30".to_owned()), "{filled:?}");
    let mut round = 0;
    sites.move_to("board", "1,2", &mut |sites| {
        round += 1;
        let refill =
            format!("BEGIN; TRUNCATE board; INSERT INTO board SELECT g, {round} FROM generate_series(1, 30) g; COMMIT");
        let told = sites.ask(round % 3, &refill);
        assert!(told.contains(&"C COMMIT".to_owned()), "{told:?}");
        let seen = sites.row((round + 1) % 3, "SELECT count(*), min(v), max(v) FROM board");
        assert_eq!(seen, format!("D 30|{round}|{round}"));
    });
    assert!(round < 20, "{round}");
    assert_eq!(sites.rows("board")[0], 0);
}
