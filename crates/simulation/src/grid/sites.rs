//! The nodes of a run with their disks: how they start, force their logs, go down and come back.

use super::network::SLOWNESS;
use super::plan::{GridPlan, GridTrouble, GridWeakness};
use super::talk::Layout;
use super::tpcc;
use super::world::{Event, Phase, World};
use crate::check::{Contents, Violation};
use crate::clock;
use crate::direct::Direct;
use crate::disk::Disk;
use crate::history::Table;
use crate::programs::{contents, schema_of};
use crate::world::log_options;
use rubato_base::{Lsn, NodeId};
use rubato_log::Faults;
use rubato_node::grid::{ClientTold, GridMessage, GridNode, GridSettings};
use rubato_node::{Node, NodeSettings, verify};
use rubato_storage::Faults as StoreFaults;
use std::collections::BTreeMap;

/// How often nodes say again what was not answered.
const RETRY_US: i64 = 20_000;
/// How often a node looks whether a checkpoint is due.
const LOOK_US: i64 = 20_000;
/// Pause after a force that failed.
const FORCE_PAUSE_US: i64 = 20_000;
/// How far clocks are off when a run begins, at most.
const WRONG_US: i64 = 10_000_000;
/// How long a node is down, at most.
const DOWN_US_MAX: i64 = 400_000;
/// Attempts to start that are disturbed, one after the other.
const DISTURBED_MAX: u32 = 3;

/// A node of the grid, up or down, with its disk.
pub(super) struct Site {
    number: u32,
    pub(super) disk: Disk,
    pub(super) node: Option<GridNode>,
    pub(super) life: u64,
    /// How far its clock is off.
    pub(super) offset_us: i64,
    /// The clients that its tickets were given to.
    pub(super) tickets: BTreeMap<u64, usize>,
    is_forcing: bool,
    disturbed: u32,
}

impl Site {
    pub(super) fn new(number: u32, plan: &GridPlan) -> Site {
        let disk = Disk::default();
        if plan.weakness == Some(GridWeakness::LyingDisk) {
            disk.power.lies();
        }
        Site {
            number,
            disk,
            node: None,
            life: 0,
            offset_us: 0,
            tickets: BTreeMap::new(),
            is_forcing: false,
            disturbed: 0,
        }
    }

    pub(super) fn id(&self) -> NodeId {
        NodeId(self.number)
    }

    /// What the node has to send and to tell.
    pub(super) fn poll(&mut self, plan: &GridPlan) -> (Vec<(NodeId, GridMessage)>, Vec<(u64, ClientTold)>) {
        let Some(node) = &mut self.node else {
            return (Vec::new(), Vec::new());
        };
        if plan.weakness == Some(GridWeakness::EarlyMessages) {
            node.on_forced(Lsn(u64::MAX));
        }
        (node.poll_outgoing(), node.poll_told())
    }

    pub(super) fn make_room(&self) {
        let mut faults = self.disk.log.faults();
        faults.space_bytes = None;
        self.disk.log.set_faults(faults);
    }

    /// Nothing goes wrong with the disk any more for the time being.
    pub(super) fn calm_down(&self) {
        self.disk.power.stays();
        self.disk.log.set_faults(Faults::default());
        self.disk.rows.set_faults(StoreFaults::default());
    }
}

fn node_settings(plan: &GridPlan) -> NodeSettings {
    NodeSettings {
        memory_bytes: plan.row_bytes(),
        policies: plan.policies(),
        checkpoint_log_bytes: 24 * 1024,
        clock_us: clock::now_us,
        ..NodeSettings::default()
    }
}

fn failed(what: &'static str) -> impl Fn(rubato_base::Error) -> Violation {
    move |error| Violation::new(what, error.to_string())
}

impl World<'_> {
    /// Loads each node as a node alone, with the rows that are its own, and starts all.
    pub(super) fn set_up(&mut self) -> Result<(), Violation> {
        self.layout.nodes = self.plan.nodes;
        for at in 0..self.sites.len() {
            let id = self.sites[at].id();
            let own: Contents = (contents().into_iter())
                .filter(|(key, _)| self.layout.node_of(*key) == id)
                .collect();
            let disk = self.sites[at].disk.clone();
            let opened = Node::open(disk.store(), disk.directory(), log_options(), NodeSettings::default());
            let (node, _) = opened.map_err(failed("does not start"))?;
            let mut direct = Direct::new(&node, self.now_us).map_err(failed("does not start"))?;
            direct.sql(&schema_of(&own, false)).map_err(failed("no schema"))?;
            if self.plan.has_tpcc() {
                let script = tpcc::schema_of(|warehouse| self.layout.node_of_warehouse(warehouse) == id);
                direct.sql(&script).map_err(failed("no schema"))?;
            }
        }
        for at in 0..self.sites.len() {
            if self.plan.has(GridTrouble::ClockJumps) {
                self.sites[at].offset_us = self.random.uniform(-WRONG_US, WRONG_US);
            }
            self.start(at)?;
        }
        let Some(node) = self.sites.first().and_then(|site| site.node.as_ref()) else {
            return Err(Violation::new("does not start", "the first node"));
        };
        let tables = Table::ALL
            .iter()
            .map(|table| node.storage_of(table.name()).unwrap_or_default());
        // (Where the workload is not run, there are no such tables.)
        let tpcc = tpcc::names().map_while(|name| node.storage_of(name));
        self.layout = Layout {
            tables: tables.collect(),
            tpcc: tpcc.collect(),
            nodes: self.plan.nodes,
        };
        for client in 1..self.clients.len() {
            let delay_us = self.random.uniform(0, 2_000);
            self.act_in(delay_us, client);
        }
        Ok(())
    }

    /// Starts a node that is down. An attempt may be disturbed; then another follows.
    pub(super) fn start(&mut self, at: usize) -> Result<(), Violation> {
        let is_disturbed = self.disturb_start(at);
        let site = &mut self.sites[at];
        let settings = GridSettings {
            reserved_ticks: self.plan.reserved_ticks,
            left_out_rounds: self.plan.left_out_rounds,
            retry_us: RETRY_US,
            ..GridSettings::of(site.number, self.plan.nodes)
        };
        let (store, directory) = (site.disk.store(), site.disk.directory());
        let opened = GridNode::open(store, directory, log_options(), node_settings(self.plan), settings);
        let (node, report) = match opened {
            Ok(opened) => opened,
            Err(error) if is_disturbed => {
                self.note(format_args!("node {at} does not start: {error}"));
                self.coverage.count("recoveries cut short");
                self.lose_power(at);
                let pause_us = self.random.uniform(100, 5_000);
                let life = self.sites[at].life;
                self.at(pause_us, Event::Starts(at, life));
                return Ok(());
            }
            Err(error) => return Err(failed("does not recover")(error)),
        };
        self.coverage.count("lives");
        self.coverage.add("records recovered", report.transactions);
        if report.cut_bytes > 0 {
            self.coverage.count("torn tails cut");
        }
        let figures = node.figures();
        if figures.prepared > 0 {
            self.coverage.count("nodes started with prepared branches");
        }
        self.coverage
            .add("prepared branches recovered", figures.prepared as u64);
        self.coverage
            .add("decisions recovered", figures.undone_decisions as u64);
        self.note(format_args!(
            "node {at} starts: {} prepared, {} decisions to tell",
            figures.prepared, figures.undone_decisions
        ));
        let site = &mut self.sites[at];
        site.node = Some(node);
        site.disturbed = 0;
        let life = site.life;
        for (event, pause_us) in [
            (Event::Ticks(at, life), RETRY_US),
            (Event::Background(at, life), LOOK_US),
        ] {
            let delay_us = self.random.uniform(1, pause_us);
            self.at(delay_us, event);
        }
        self.drain(at);
        Ok(())
    }

    fn disturb_start(&mut self, at: usize) -> bool {
        let site = &mut self.sites[at];
        let may = self.phase == Phase::Working && site.life > 0 && site.disturbed < DISTURBED_MAX;
        if !may || self.random.uniform(0, 2) > 0 {
            site.calm_down();
            return false;
        }
        site.disturbed += 1;
        if self.plan.has(GridTrouble::ReadErrors) && self.random.uniform(0, 1) == 0 {
            let failing_reads = self.random.uniform(1, 2) as u32;
            site.disk.log.set_faults(Faults {
                failing_reads,
                ..Faults::default()
            });
        } else {
            site.disk.power.goes_after(self.random.uniform(0, 25) as u64);
        }
        true
    }

    /// A node goes down, with its clients, and will be started again.
    pub(super) fn go_down(&mut self, at: usize) {
        let Some(node) = self.sites[at].node.take() else {
            return;
        };
        let figures = node.figures();
        drop(node);
        self.note(format_args!(
            "node {at} goes down, {} branches prepared",
            figures.prepared
        ));
        self.coverage.count("crashes");
        if figures.leads {
            self.coverage.count("crashes of the timestamp stage");
        }
        if figures.prepared > 0 {
            self.coverage.count("crashes of a participant with prepared branches");
        }
        if figures.undone_decisions > 0 {
            self.coverage
                .count("crashes of a coordinator with decisions not carried out");
        }
        self.count_figures(&figures);
        let site = &mut self.sites[at];
        site.life += 1;
        site.is_forcing = false;
        site.tickets.clear();
        self.cut_off_clients_of(at);
        self.sites[at].calm_down();
        self.lose_power(at);
        let long = self.random.uniform(0, 3) == 0;
        let down_us = self.random.uniform(100, if long { DOWN_US_MAX } else { 20_000 });
        let life = self.sites[at].life;
        self.at(down_us, Event::Starts(at, life));
    }

    fn lose_power(&mut self, at: usize) {
        let loss = self.sites[at].disk.goes_off_and_on(&mut self.random);
        self.note(format_args!("node {at}: {loss}"));
    }

    /// Nodes whose power has gone go down.
    pub(super) fn notice_power_cuts(&mut self) {
        for at in 0..self.sites.len() {
            if self.sites[at].node.is_some() && self.sites[at].disk.power.is_gone() {
                self.go_down(at);
            }
        }
    }

    fn slowness(&self, at: usize) -> i64 {
        if self.network.slow.contains(&NodeId(at as u32)) {
            SLOWNESS
        } else {
            1
        }
    }

    /// Has a node know the time.
    pub(super) fn tell_time(&mut self, at: usize) {
        let local_us = self.now_us + self.sites[at].offset_us;
        if let Some(node) = &mut self.sites[at].node {
            node.look_after_log();
            node.on_timer(local_us);
        }
        let pause_us = self.random.uniform(RETRY_US / 4, RETRY_US) * self.slowness(at);
        let life = self.sites[at].life;
        self.at(pause_us, Event::Ticks(at, life));
        self.drain(at);
    }

    pub(super) fn force_if_wanted(&mut self, at: usize) {
        let early = self.plan.weakness == Some(GridWeakness::EarlyMessages);
        let site = &self.sites[at];
        let wants = site.node.as_ref().is_some_and(|node| early || node.waits_for_log());
        if !wants || site.is_forcing {
            return;
        }
        let longest_us = if self.plan.has(GridTrouble::SlowDisk) {
            40_000
        } else {
            600
        };
        let delay_us = self.random.uniform(50, longest_us) * self.slowness(at);
        self.force_in(at, delay_us);
    }

    fn force_in(&mut self, at: usize, delay_us: i64) {
        self.sites[at].is_forcing = true;
        let life = self.sites[at].life;
        self.at(delay_us, Event::Forces(at, life));
    }

    /// A node's log is forced, or that fails and is tried again.
    pub(super) fn force(&mut self, at: usize) {
        self.sites[at].is_forcing = false;
        let Some(node) = &mut self.sites[at].node else {
            return;
        };
        match node.force() {
            Ok(forced) => {
                node.on_forced(forced);
                self.coverage.count("log forced");
                self.drain(at);
            }
            Err(_) => {
                self.coverage.count("log not forced");
                self.force_in(at, FORCE_PAUSE_US);
            }
        }
    }

    /// The background's turn on a node.
    pub(super) fn in_background(&mut self, at: usize) {
        let eager = self.plan.has(GridTrouble::Checkpoints);
        let Some(node) = &self.sites[at].node else { return };
        if eager || node.checkpoint_is_due() {
            let undone = node.figures().undone_decisions;
            let made = node.checkpoint();
            self.coverage.count(match &made {
                Ok(_) => "checkpoints",
                Err(_) => "checkpoints that failed",
            });
            if undone > 0 && made.is_ok() {
                self.coverage.count("checkpoints that carried decisions over");
            }
            self.note(format_args!("node {at}: checkpoint {}", made.is_ok()));
        }
        let pause_us = if eager {
            self.random.uniform(100, LOOK_US)
        } else {
            LOOK_US
        };
        let life = self.sites[at].life;
        self.at(pause_us, Event::Background(at, life));
    }
}

/// Checks that what a node leaves on its disk can be recovered.
pub(super) fn verify_disk(site: &Site) -> Result<(), Violation> {
    let found = verify(&site.disk.store(), site.disk.directory());
    found.map(drop).map_err(failed("cannot be recovered"))
}
