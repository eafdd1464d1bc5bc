//! Memory that is full of nothing: what nobody needs leaves it, however little rows may take.

use crate::world::*;
use rubato_node::NodeSettings;

const MEMORY_BYTES: usize = 2 << 20;
const ROUNDS: usize = 12;

/// Rows that were deleted beside readers, and so kept what they had been for a while, were counted for ever: a node at whose memory others
/// drew, which leaves rows a quarter, wrote nothing any more until it was started again, with no transaction open and nothing to store.
#[test]
fn a_node_on_which_nothing_is_open_writes_again_however_little_rows_may_take() {
    let settings = NodeSettings {
        memory_bytes: MEMORY_BYTES,
        ..NodeSettings::default()
    };
    let mut world = World::with(2, settings);
    world.must(0, "create table t (id int primary key)");
    for _ in 0..ROUNDS {
        world.must(0, "insert into t select generate_series(1, 500)");
        world.must(1, "begin isolation level repeatable read; select count(*) from t");
        world.must(0, "delete from t");
        world.must(1, "rollback");
        // Each looks at some of what was deleted.
        (0..40).for_each(|_| drop(world.must(1, "select 1")));
        world.node.checkpoint().expect("a checkpoint");
    }
    // The process takes twice what it was given, rows or not.
    (0..200).for_each(|_| world.node.note_resident(2 << 30, 1 << 30));
    for number in 0..5 {
        world.begin(
            0,
            &format!("create table t{number} (id int primary key); insert into t{number} values (1)"),
        );
        for _ in 0..100 {
            if world.is_idle(0) {
                break;
            }
            world.pass(100_000);
            if world.node.checkpoint_is_due() {
                world.node.checkpoint().expect("a checkpoint");
            }
            world.run();
        }
        let said = world.said(0);
        assert_eq!(said, ["C CREATE TABLE", "C INSERT 0 1", "Z I"]);
    }
    let memory = world.node.figures().memory_bytes;
    assert!(memory < MEMORY_BYTES / 4, "{memory} bytes");
}
