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
