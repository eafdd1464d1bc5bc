//! A COPY that is cancelled, given up, or left by its client: nothing is loaded, and no thread is left over.

use super::data::*;
use super::lent;
use crate::world::*;
use rubato_node::NodeSettings;
use rubato_sql::client::Request;
use rubato_stages::worker::CancelReason;

const ROWS: usize = 30_000;
const COPY: &str = "copy t from stdin";

/// How a COPY ends early, and what is told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Cancelled,
    TimedOut,
    Shutdown,
    GivenUp,
    Left,
}

const ENDS: [End; 5] = [End::Cancelled, End::TimedOut, End::Shutdown, End::GivenUp, End::Left];

impl End {
    fn told(self) -> &'static str {
        match self {
            End::Cancelled => "E 57014 canceling statement due to user request",
            End::TimedOut => "E 57014 canceling statement due to statement timeout",
            End::Shutdown => "E 57P01 terminating connection due to administrator command",
            End::GivenUp => "E 57014 COPY from stdin failed: no more",
            End::Left => "",
        }
    }

    /// Ends the COPY of a session that awaits data, as a server does.
    fn comes(self, world: &mut World) {
        match self {
            End::Cancelled | End::Shutdown => {
                world.send(0, []);
                let is_client = self == End::Cancelled;
                world.cancel(
                    0,
                    if is_client {
                        CancelReason::ClientRequest
                    } else {
                        CancelReason::Shutdown
                    },
                );
            }
            End::TimedOut => {
                world.pass(6_000_000);
                world.send(0, [copy_data(b"9")]);
            }
            End::GivenUp => world.send(0, [Request::CopyFail("no more".into())]),
            End::Left => world.send(0, [Request::Terminate]),
        }
        world.run();
        assert!(world.is_idle(0), "{self:?}");
    }
}

fn world() -> World {
    let mut world = lent::world(2);
    world.must(
        0,
        "create table t (id int primary key, n int, note text); create index on t (n)",
    );
    world.must(0, "set statement_timeout = '5s'");
    world
}

/// Nothing of the COPY is left: neither rows nor pending changes, neither a transaction nor a thread.
fn assert_nothing_is_left(world: &mut World, what: &str) {
    lent::wait_for_running(0);
    let figures = world.node.figures();
    assert_eq!((figures.live_transactions, figures.pending_bytes), (0, 0), "{what}");
    assert_eq!(figures.dirty_rows, 0, "{what}");
    assert_eq!(world.rows(1, "select count(*) from t"), ["0"], "{what}");
    assert_eq!(world.rows(1, "select count(*) from t where n >= 0"), ["0"], "{what}");
}

/// Neither before anything has been read, nor while the thread reads, nor when all has been placed.
#[test]
fn a_copy_that_ends_early_leaves_nothing() {
    for end in ENDS {
        for held in [true, false] {
            for bytes in [1000, 300_000] {
                let what = format!("{end:?}, held {held}, {bytes} bytes");
                let mut world = world();
                if held {
                    lent::hold();
                }
                world.start_copy(0, COPY);
                world.feed(0, &rows(1, ROWS)[..bytes]);
                assert_eq!(lent::running(), usize::from(bytes > 1000), "{what}");
                end.comes(&mut world);
                lent::let_go();
                assert_nothing_is_left(&mut world, &what);
                if end == End::Left {
                    assert_eq!(world.said(0), Vec::<String>::new());
                    continue;
                }
                if end == End::Shutdown {
                    // Nothing follows: the session is over.
                    assert_eq!(world.said(0), [end.told()], "{what}");
                    continue;
                }
                assert_eq!(world.said(0), [end.told(), "Z I"], "{what}");
                // What the client had sent before it learnt of it.
                world.feed(0, &rows(1, 1000));
                assert_eq!(world.copy_done(0), Vec::<String>::new(), "{what}");
                assert_eq!(
                    world.copy(0, COPY, &rows(1, ROWS))[0],
                    format!("C COPY {ROWS}"),
                    "{what}"
                );
                lent::wait_for_running(0);
            }
        }
    }
}

/// In a block: the block has failed, and ends as it would have otherwise.
#[test]
fn a_copy_in_a_block_that_ends_early_fails_the_block() {
    for end in [End::Cancelled, End::TimedOut, End::GivenUp] {
        for savepoint in [false, true] {
            let mut world = world();
            world.must(0, "begin; insert into t values (1000000, 1, 'before')");
            if savepoint {
                world.must(0, "savepoint a");
            }
            world.start_copy(0, COPY);
            world.feed(0, &rows(1, ROWS)[..300_000]);
            end.comes(&mut world);
            assert_eq!(world.said(0), [end.told(), "Z E"]);
            lent::wait_for_running(0);
            if savepoint {
                world.must(0, "rollback to a");
                world.must(0, "commit");
            } else {
                assert_eq!(world.ask(0, "commit"), ["C ROLLBACK", "Z I"]);
            }
            let kept = if savepoint { "1" } else { "0" };
            assert_eq!(world.rows(1, "select count(*) from t"), [kept]);
            assert_eq!(world.node.figures().pending_bytes, 0);
        }
    }
}

/// The data is over, and what is left of it is placed a few pieces at a time: others have their turn, and so has who ends it.
#[test]
fn a_copy_whose_data_is_over_ends_early_as_well() {
    for end in ENDS {
        let mut world = world();
        lent::hold();
        world.start_copy(0, COPY);
        world.feed(0, &rows(1, ROWS));
        lent::let_go();
        world.send(0, [Request::CopyDone]);
        world.turn();
        world.send(1, [query("select 1")]);
        world.turn();
        assert!(
            world.is_idle(1) && !world.is_idle(0),
            "others have their turn between two slices"
        );
        world.said(1);
        match end {
            End::Cancelled => world.cancel(0, CancelReason::ClientRequest),
            End::Shutdown => world.cancel(0, CancelReason::Shutdown),
            End::TimedOut => world.pass(6_000_000),
            // It is too late to give up.
            End::GivenUp => continue,
            End::Left => world.client_leaves(0),
        }
        world.turn();
        world.turn();
        assert!(world.is_idle(0), "{end:?}");
        let said = world.said(0);
        if end == End::Left {
            assert_eq!(said, Vec::<String>::new());
        } else if end == End::Shutdown {
            assert_eq!(said, [end.told()]);
        } else {
            assert_eq!(said, [end.told(), "Z I"]);
        }
        assert_nothing_is_left(&mut world, &format!("{end:?}"));
    }
}

/// Rows of which nothing came leave memory like others, however many COPYs do not end.
#[test]
fn copies_that_end_early_do_not_fill_the_memory() {
    let memory_bytes = 16 << 20;
    let settings = NodeSettings {
        memory_bytes,
        ..NodeSettings::default()
    };
    let mut world = lent::world_with(2, settings);
    world.must(
        0,
        "create table t (id int primary key, n int, note text); create index on t (n)",
    );
    for round in 0..30 {
        world.start_copy(0, COPY);
        world.feed(0, &rows(round * 10_000 + 1, round * 10_000 + 7000));
        End::GivenUp.comes(&mut world);
        assert_nothing_is_left(&mut world, "given up");
        let held = world.node.figures().memory_bytes;
        assert!(held <= memory_bytes + memory_bytes / 8, "{round}: {held}");
    }
}

/// A thread that is lost loses no data unseen.
#[test]
fn a_copy_whose_thread_is_lost_fails() {
    let mut world = world();
    lent::lose();
    let said = world.copy(0, COPY, &rows(1, ROWS));
    assert_eq!(
        said,
        ["E XX000 the thread that reads the data of COPY has ended early", "Z I"]
    );
    lent::let_go();
    assert_nothing_is_left(&mut world, "lost");
    assert_eq!(world.copy(0, COPY, &rows(1, ROWS))[0], format!("C COPY {ROWS}"));
}
