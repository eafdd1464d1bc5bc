//! Nodes of a grid are started again, on real logs and stores, in the midst of a commit over several of them.

use rubato_base::{ColumnSet, ColumnType, DataType, Key, NodeId, TableId, Value};
use rubato_formula::{Change, Formula, RowBounds};
use rubato_log::{Options, PowerLoss};
use rubato_node::grid::{ClientTold, GridMessage, GridNode, GridSettings};
use rubato_node::{Node, NodeSettings};
use rubato_protocol::grid::{Answer, Ending, Operation};
use rubato_protocol::{Rule, break_rule};
use rubato_simulation::direct::Direct;
use rubato_simulation::disk::Disk;

/// Rounds in which everything has to have been said.
const ROUNDS: usize = 200;

/// Whether a message gets through.
type Passes = fn(NodeId, NodeId, &GridMessage) -> bool;

fn everything(_: NodeId, _: NodeId, _: &GridMessage) -> bool {
    true
}

fn no_promises(_: NodeId, _: NodeId, message: &GridMessage) -> bool {
    message.name() != "message: prepared"
}

fn no_decisions(_: NodeId, _: NodeId, message: &GridMessage) -> bool {
    !message.name().starts_with("message: decide")
}

fn nothing_of_the_first(from: NodeId, to: NodeId, _: &GridMessage) -> bool {
    from != NodeId(0) && to != NodeId(0)
}

struct Grid {
    disks: Vec<Disk>,
    nodes: Vec<GridNode>,
    table: TableId,
    now_us: i64,
    passes: Passes,
    /// Its clock stands still.
    stopped: Option<usize>,
    told: Vec<(usize, u64, ClientTold)>,
}

fn options() -> Options {
    Options {
        segment_bytes: 4096,
        segment_bytes_first: 4096,
        prepare_in_background: false,
        ..Options::default()
    }
}

fn open(disk: &Disk, id: usize, count: usize) -> GridNode {
    let settings = GridSettings::of(id as u32, count as u32);
    let opened = GridNode::open(
        disk.store(),
        disk.directory(),
        options(),
        NodeSettings::default(),
        settings,
    );
    opened.expect("the node starts").0
}

impl Grid {
    /// Nodes with a row each, under the node's number, of the value 100.
    fn new(count: usize) -> Grid {
        let disks: Vec<Disk> = (0..count).map(|_| Disk::default()).collect();
        for (id, disk) in disks.iter().enumerate() {
            let opened = Node::open(disk.store(), disk.directory(), options(), NodeSettings::default());
            let node = opened.expect("an empty folder").0;
            let mut direct = Direct::new(&node, 0).expect("a session");
            let script = format!("create table t (id int primary key, n bigint); insert into t values ({id}, 100)");
            direct.sql(&script).expect("the table");
        }
        let nodes: Vec<GridNode> = disks
            .iter()
            .enumerate()
            .map(|(id, disk)| open(disk, id, count))
            .collect();
        let table = nodes[0].storage_of("t").expect("the table").0;
        let mut grid = Grid {
            disks,
            nodes,
            table,
            now_us: 0,
            passes: everything,
            stopped: None,
            told: Vec::new(),
        };
        grid.run(everything);
        assert!(grid.nodes.iter().all(|node| node.figures().is_born));
        grid
    }

    /// Forces logs and carries messages until nobody has anything to say, with some timers.
    fn run(&mut self, passes: Passes) {
        self.passes = passes;
        self.go_on();
    }

    fn go_on(&mut self) {
        for round in 0..ROUNDS {
            if round % 20 == 0 {
                self.now_us += 1_000_000;
                let runs = |(at, _): &(usize, &GridNode)| self.stopped != Some(*at);
                let running = self.nodes.iter().enumerate().filter(runs);
                running.for_each(|(_, node)| node.on_timer(self.now_us));
            }
            for at in 0..self.nodes.len() {
                let forced = self.nodes[at].force().expect("the log is forced");
                self.nodes[at].on_forced(forced);
                let told = self.nodes[at].poll_told();
                self.told
                    .extend(told.into_iter().map(|(ticket, told)| (at, ticket, told)));
                let from = self.nodes[at].id();
                for (to, message) in self.nodes[at].poll_outgoing() {
                    if (self.passes)(from, to, &message) {
                        self.nodes[to.0 as usize].on_message(from, message);
                    }
                }
            }
        }
    }

    /// The power of a node goes, and what its log has not forced.
    fn restart(&mut self, at: usize) {
        self.disks[at].power_comes_back(PowerLoss::DropAll, 0);
        self.nodes[at] = open(&self.disks[at], at, self.disks.len());
        let own = NodeId(at as u32);
        for other in self.nodes.iter().filter(|node| node.id() != own) {
            other.on_node_down(own);
            other.on_node_up(own);
        }
    }

    fn begin(&mut self, at: usize) -> u64 {
        let ticket = self.nodes[at].begin(false).expect("a ticket");
        self.go_on();
        ticket
    }

    fn operate(&mut self, at: usize, ticket: u64, to: usize, operation: Operation) -> Answer {
        assert!(self.nodes[at].operate(ticket, NodeId(to as u32), operation));
        self.go_on();
        match self.told.pop() {
            Some((_, of, ClientTold::Answer(_, answer))) if of == ticket => answer,
            other => panic!("an answer was expected, not {other:?}"),
        }
    }

    fn add(&mut self, at: usize, ticket: u64, to: usize, amount: i64) {
        let change = Change::add(1, ColumnType::plain(DataType::Int8), Value::Int8(amount));
        let operation = Operation::Blind {
            table: self.table,
            key: Key::of(&[Value::Int4(to as i32)]),
            formula: Formula::new([change]).expect("one column"),
            bounds: RowBounds::None,
        };
        self.operate(at, ticket, to, operation);
    }

    /// Adds on two nodes, and asks for the commit.
    fn add_on_both(&mut self, at: usize, (one, other): (usize, usize), amount: i64) -> u64 {
        let ticket = self.begin(at);
        self.add(at, ticket, one, amount);
        self.add(at, ticket, other, amount);
        self.nodes[at].commit(ticket);
        ticket
    }

    fn ending(&self, at: usize, ticket: u64) -> Option<&Ending> {
        let endings = self.told.iter().filter(|(node, of, _)| (*node, *of) == (at, ticket));
        endings.into_iter().find_map(|(_, _, told)| match told {
            ClientTold::Ended(ending) => Some(ending),
            _ => None,
        })
    }

    /// The value of a node's row, as a client of the other end sees it.
    fn value(&mut self, of: usize) -> i64 {
        let at = self.nodes.len() - 1 - of;
        let ticket = self.begin(at);
        self.value_at(at, ticket, of)
    }

    fn value_at(&mut self, at: usize, ticket: u64, of: usize) -> i64 {
        let operation = Operation::Read {
            table: self.table,
            key: Key::of(&[Value::Int4(of as i32)]),
            columns: ColumnSet::ALL,
        };
        let answer = self.operate(at, ticket, of, operation);
        self.nodes[at].roll_back(ticket);
        self.go_on();
        match answer {
            Answer::Row(Some(row)) => row.get(1).as_i64().expect("a number"),
            other => panic!("a row was expected, not {other:?}"),
        }
    }

    /// Two checkpoints, so that nothing but what is carried over is left of the log before.
    fn checkpoint(&mut self, at: usize) {
        for _ in 0..2 {
            let forced = self.nodes[at].force().expect("the log is forced");
            self.nodes[at].on_forced(forced);
            self.nodes[at].checkpoint().expect("a checkpoint");
        }
    }
}

#[test]
fn a_decision_outlives_checkpoints_and_a_restart_of_its_coordinator_until_all_have_carried_it_out() {
    let mut grid = Grid::new(2);
    let ticket = grid.add_on_both(0, (0, 1), 7);
    grid.run(no_decisions);
    assert!(matches!(grid.ending(0, ticket), Some(Ending::Committed(_))));
    assert_eq!(grid.nodes[1].figures().prepared, 1);
    let before = grid.nodes[0].force().expect("forced");
    grid.checkpoint(0);
    grid.restart(0);
    let figures = grid.nodes[0].figures();
    assert_eq!(figures.undone_decisions, 1, "the log before {before} is gone");
    grid.run(everything);
    for node in &grid.nodes {
        let figures = node.figures();
        let held = (
            figures.prepared,
            figures.open_branches,
            figures.undone_decisions,
            figures.undecided_since,
        );
        assert_eq!(held, (0, 0, 0, None));
    }
    assert_eq!((grid.value(0), grid.value(1)), (107, 107));
    // Everybody has carried it out, and the log says so.
    grid.restart(0);
    assert_eq!(grid.nodes[0].figures().undone_decisions, 0);
}

#[test]
fn a_prepared_branch_outlives_checkpoints_and_a_restart_until_it_is_decided() {
    for decided in [true, false] {
        let mut grid = Grid::new(2);
        let ticket = grid.add_on_both(0, (0, 1), 7);
        grid.run(if decided { no_decisions } else { no_promises });
        // A formula above its floor commits meanwhile, and cannot be folded.
        let above = grid.begin(1);
        grid.add(1, above, 1, 1);
        grid.nodes[1].commit(above);
        grid.go_on();
        assert!(matches!(grid.ending(1, above), Some(Ending::Committed(_))));
        if !decided {
            // Nothing is known of the transaction any more.
            grid.restart(0);
        }
        grid.checkpoint(1);
        grid.restart(1);
        let figures = grid.nodes[1].figures();
        assert_eq!((figures.prepared, figures.is_born), (1, false));
        grid.run(everything);
        assert_eq!(grid.nodes[1].figures().prepared, 0);
        if decided {
            assert!(matches!(grid.ending(0, ticket), Some(Ending::Committed(_))));
        }
        assert_eq!(grid.value(1), if decided { 108 } else { 101 });
    }
}

#[test]
fn a_branch_that_is_prepared_behind_a_checkpoint_does_not_ask_for_the_log_before_it() {
    let mut grid = Grid::new(3);
    // The coordinator's records are none of its partition's.
    for _ in 0..30 {
        let ticket = grid.add_on_both(0, (1, 2), 1);
        grid.run(everything);
        assert!(matches!(grid.ending(0, ticket), Some(Ending::Committed(_))));
    }
    grid.checkpoint(0);
    grid.add_on_both(1, (0, 1), 7);
    grid.run(no_decisions);
    assert_eq!(grid.nodes[0].figures().prepared, 1);
    grid.checkpoint(0);
    grid.restart(0);
    grid.run(everything);
    assert_eq!((grid.value(0), grid.value(1)), (107, 137));
}

#[test]
fn what_was_begun_before_a_node_was_started_again_and_not_prepared_is_refused() {
    let mut grid = Grid::new(2);
    let ticket = grid.begin(0);
    grid.add(0, ticket, 0, 7);
    grid.add(0, ticket, 1, 7);
    grid.restart(1);
    grid.run(everything);
    grid.nodes[0].commit(ticket);
    grid.run(everything);
    assert!(
        matches!(grid.ending(0, ticket), Some(Ending::RolledBack(_))),
        "{:?}",
        grid.told
    );
    assert_eq!((grid.value(0), grid.value(1)), (100, 100));
    assert!(grid.nodes.iter().all(|node| node.figures().open_branches == 0));
}

#[test]
fn strangers_are_refused_and_counted_and_a_folder_of_a_grid_is_not_opened_by_itself() {
    let mut grid = Grid::new(2);
    let ticket = grid.begin(0);
    let read = Operation::Read {
        table: grid.table,
        key: Key::of(&[Value::Int4(1)]),
        columns: ColumnSet::ALL,
    };
    assert!(grid.nodes[0].operate(ticket, NodeId(1), read));
    assert!(
        !grid.nodes[0].operate(ticket, NodeId(9), Operation::Settle),
        "there is no such node"
    );
    let (to, message) = grid.nodes[0].poll_outgoing().pop().expect("a message");
    let before = grid.nodes[1].figures();
    for stranger in [NodeId(9), to] {
        grid.nodes[1].on_message(stranger, message.clone());
    }
    let after = grid.nodes[1].figures();
    assert_eq!(
        (after.refused, after.open_branches),
        (before.refused + 2, before.open_branches)
    );
    drop(grid.nodes);
    let disk = &grid.disks[1];
    let opened = Node::open(disk.store(), disk.directory(), options(), NodeSettings::default());
    assert_eq!(
        opened.err().map(|error| error.code().as_str().to_owned()).as_deref(),
        Some("0A000")
    );
    let settings = GridSettings::of(5, 2);
    let opened = GridNode::open(
        disk.store(),
        disk.directory(),
        options(),
        NodeSettings::default(),
        settings,
    );
    assert!(opened.is_err(), "it is none of the grid's nodes");
}

/// The first node leads, stands still and is cut off until others have elected another one, and a transaction has committed that it knows
/// nothing of. Whether a client of it begins by then, and what that client reads when all is whole again.
fn begin_where_a_leader_was_cut_off() -> (bool, i64) {
    let mut grid = Grid::new(3);
    (0..4).for_each(|_| grid.run(everything));
    assert!(grid.nodes[0].figures().leads);
    grid.stopped = Some(0);
    (0..8).for_each(|_| grid.run(nothing_of_the_first));
    let leads = |node: usize| grid.nodes[node].figures().leads;
    assert!(
        leads(0) && leads(1) != leads(2),
        "it does not know that another one leads"
    );
    let ticket = grid.begin(1);
    grid.add(1, ticket, 1, 7);
    grid.nodes[1].commit(ticket);
    grid.go_on();
    assert!(matches!(grid.ending(1, ticket), Some(Ending::Committed(_))));
    let late = grid.begin(0);
    let has_begun = |grid: &Grid| {
        let told = grid.told.iter();
        let mut own = told.filter(|(at, of, _)| (*at, *of) == (0, late));
        own.any(|(_, _, told)| matches!(told, ClientTold::Began(_)))
    };
    let is_early = has_begun(&grid);
    grid.stopped = None;
    (0..3).for_each(|_| grid.run(everything));
    assert!(has_begun(&grid) && !grid.nodes[0].figures().leads);
    (is_early, grid.value_at(0, late, 1))
}

#[test]
fn a_leader_that_was_cut_off_hands_out_no_tick_below_what_was_acknowledged() {
    assert_eq!(begin_where_a_leader_was_cut_off(), (false, 107));
    break_rule(Some(Rule::T5));
    let broken = begin_where_a_leader_was_cut_off();
    break_rule(None);
    assert_eq!(broken, (true, 100), "nobody notices that T-5 is broken");
}
