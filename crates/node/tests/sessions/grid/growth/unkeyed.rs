//! Tables without a primary key, whose rows are told apart by a hidden number.

use super::*;

/// Rows that have moved away keep their numbers, of which the node that gave them knows nothing when it is started again: the first node
/// counted on from what it had left, and was refused with "duplicate key".
#[test]
fn numbers_of_rows_that_have_moved_are_not_given_again_after_a_restart() {
    let mut sites = Sites::of(3);
    sites.ask(0, "CREATE TABLE noted (v int)");
    for node in 0..3 {
        assert_eq!(
            sites.ask(node, "INSERT INTO noted SELECT n FROM generate_series(1, 10) n"),
            ["C INSERT 0 10", "Z I"]
        );
    }
    sites.move_to("noted", "1,2", &mut |_| {});
    assert_eq!(sites.rows("noted")[0], 0);
    for node in 0..3 {
        sites.restart(node);
        sites.rest();
        assert_eq!(
            sites.ask(node, "INSERT INTO noted SELECT n FROM generate_series(1, 20) n"),
            ["C INSERT 0 20", "Z I"],
            "{node}"
        );
    }
    assert_eq!(sites.row(1, "SELECT count(*) FROM noted"), "D 90");
}

/// Rows that a schema change has given numbers have these after a restart, which makes them again, whoever keeps what there is once. After a
/// hand-over they had others, so that changes behind it were lost, and the node was not the only one to say what is there.
#[test]
fn rows_that_recovery_makes_again_have_the_numbers_that_they_had() {
    for keeper in 0..2 {
        let mut sites = Sites::of(2);
        if keeper == 1 {
            let told = sites.ask(0, "ALTER GRID HAND OVER TO NODE 1");
            assert_eq!(told[0], "C ALTER GRID");
        }
        sites.ask(0, "CREATE TABLE kept (id int PRIMARY KEY, c int) WITH (spread = false)");
        sites.ask(0, "INSERT INTO kept SELECT n, n FROM generate_series(1, 8) n");
        let changed = "BEGIN; ALTER TABLE kept DROP CONSTRAINT kept_pkey; UPDATE kept SET c = c + 100 WHERE id = 1;
                       DELETE FROM kept WHERE id = 2; COMMIT";
        let told = sites.ask(0, changed);
        assert!(told.contains(&"C COMMIT".to_owned()), "{told:?}");
        assert_eq!(sites.ask(0, "INSERT INTO kept VALUES (9, 9)"), ["C INSERT 0 1", "Z I"]);
        for _ in 0..2 {
            sites.restart(keeper);
            sites.rest();
            // The first one may still be asked of the life before.
            sites.ask(1 - keeper, "SELECT count(*) FROM kept");
            for node in 0..2 {
                let whole = sites.row(node, "SELECT count(*), sum(c), sum(id) FROM kept");
                assert_eq!(whole, "D 8|143|43", "keeper {keeper}, asked at {node}");
            }
            sites.ask(
                keeper,
                "INSERT INTO kept VALUES (10, 10); DELETE FROM kept WHERE id = 10",
            );
        }
    }
}
