//! Tables that move while a transaction goes on that the timestamp stage has left out (rule F-6): nobody waits for it.

use super::*;

impl Sites {
    /// As [`Sites::move_to`], asked at the keeper.
    fn move_by_keeper(&mut self, table: &str, nodes: &str) {
        for _ in 0..300 {
            if self.state(table) == format!("D {nodes}|rests") {
                return;
            }
            self.step(0, table, nodes, &mut |_| {});
        }
        panic!("{}", self.state(table));
    }

    /// Node 1 stands still for so many rounds of the clock of node 0, and nothing reaches it.
    fn stand_still(&mut self, rounds: usize) {
        self.cut = Some([0, 1]);
        for _ in 0..rounds {
            pass(60_000);
            self.at(0).node.on_timer(clock_us());
            self.talk(usize::MAX);
        }
        self.cut = None;
    }
}

/// What it has read of the table was so where the rows were, and nothing keeps it so where they come to be.
#[test]
fn what_was_read_of_a_table_that_has_moved_since_holds_no_more_for_who_was_left_out() {
    for rounds in [0, 260] {
        let mut sites = Sites::of(2);
        for made in [
            "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)",
            "CREATE TABLE a (id int PRIMARY KEY, v int); INSERT INTO a VALUES (1, 0)",
        ] {
            sites.ask(0, made);
        }
        sites.move_by_keeper("t", "1");
        sites.move_by_keeper("a", "1");
        sites.rest();
        let told = sites.ask(1, "BEGIN; SELECT count(*) FROM t WHERE id = 5");
        assert!(told.contains(&"D 0".to_owned()), "{told:?}");
        sites.stand_still(rounds);
        if rounds == 0 {
            // Nothing moves as long as it is known to be there.
            (0..20).for_each(|_| sites.step(0, "t", "0", &mut |_| {}));
            assert_eq!(sites.state("t"), "D 0|waits to begin");
            continue;
        }
        sites.move_by_keeper("t", "0");
        let other = "BEGIN; SELECT v FROM a WHERE id = 1; INSERT INTO t VALUES (5, 5); COMMIT";
        let told = sites.ask(0, other);
        assert!(
            told.contains(&"D 0".to_owned()) && told.contains(&"C COMMIT".to_owned()),
            "{told:?}"
        );
        let told = sites.ask(1, "UPDATE a SET v = v + 1 WHERE id = 1; COMMIT");
        let refused = told.iter().any(|told| told.starts_with("E 40001"));
        assert!(refused && !told.contains(&"C COMMIT".to_owned()), "{told:?}");
        assert_eq!(sites.row(0, "SELECT v FROM a"), "D 0");
    }
}
