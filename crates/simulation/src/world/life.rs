//! The node's lives: how it starts, goes down, recovers, and what is looked at in the end.

use super::{DRAIN_US_MAX, Event, LOG_US, LOOK_US, Phase, WATCH_US, World};
use crate::check::Violation;
use crate::clock;
use crate::connections::Connections;
use crate::direct::Direct;
use crate::history::Fate;
use crate::plan::{Load, Plan, Trouble, Weakness};
use crate::programs::{schema, tpcc};
use rubato_log::{Faults, Options};
use rubato_node::{Node, NodeSettings, verify};
use rubato_storage::Faults as StoreFaults;
use rubato_workload::{Placement, tpcc as population};

/// Memory for rows where it is not small, and while the tables are loaded.
const LOADING_BYTES: usize = 64 << 20;
/// Attempts to recover that are disturbed.
const DISTURBED_MAX: i64 = 3;

/// A log of small segments.
pub(crate) fn log_options() -> Options {
    Options {
        segment_bytes: 32 * 1024,
        segment_bytes_first: 12 * 1024,
        reserve_bytes: 1024,
        prepare_in_background: false,
        ..Options::default()
    }
}

fn settings(plan: &Plan) -> NodeSettings {
    NodeSettings {
        memory_bytes: if plan.has(Trouble::SmallMemory) {
            plan.memory_bytes
        } else {
            LOADING_BYTES
        },
        policies: plan.policies,
        admission: plan.admission,
        checkpoint_log_bytes: 64 * 1024,
        clock_us: clock::now_us,
        ..NodeSettings::default()
    }
}

fn failed(what: &'static str) -> impl Fn(rubato_base::Error) -> Violation {
    move |error| Violation::new(what, error.to_string())
}

impl World<'_> {
    /// The first start, with an empty disk.
    pub(super) fn start(&mut self) -> Result<(), Violation> {
        self.set_clock();
        // Loading is no part of the run: it gets the memory that it wants.
        let plenty = Plan {
            memory_bytes: LOADING_BYTES,
            ..self.plan.clone()
        };
        let node = self.open(&plenty).map_err(failed("does not start"))?;
        let mut direct = Direct::new(&node, self.now_us).map_err(failed("does not start"))?;
        match self.plan.load {
            Load::Tables(_) => drop(direct.sql(&schema()).map_err(failed("no schema"))?),
            Load::Tpcc => {
                let loaded = population::create_tables(&mut direct, Placement::AsIs)
                    .and_then(|()| {
                        let jobs = population::load_jobs(tpcc::SCALE, self.plan.seed);
                        jobs.iter().try_for_each(|job| job.run(&mut direct, &|_| {}).map(drop))
                    })
                    .and_then(|()| population::create_indexes(&mut direct));
                loaded.map_err(|error| Violation::new("does not load", error.to_string()))?;
            }
        }
        drop((direct, node));
        let node = self.open(self.plan).map_err(failed("does not start"))?;
        self.at(WATCH_US, Event::Watch);
        self.begin_life(node)
    }

    fn open(&mut self, plan: &Plan) -> rubato_base::Result<Node> {
        let (node, report) = Node::open(self.disk.store(), self.disk.directory(), log_options(), settings(plan))?;
        self.coverage.add("records recovered", report.transactions);
        if report.cut_bytes > 0 {
            self.coverage.count("torn tails cut");
        }
        Ok(node)
    }

    fn begin_life(&mut self, node: Node) -> Result<(), Violation> {
        self.life += 1;
        self.coverage.count("lives");
        let slow = self.plan.has(Trouble::SlowClients);
        let piece_bytes = if slow {
            rubato_sql::session::RESPONSE_BYTES_MAX / 3
        } else {
            1
        };
        let early = self.plan.weakness == Some(Weakness::EarlyAnswers);
        for worker in 0..self.plan.workers {
            let connections = Connections::new(&node, worker, piece_bytes, early).map_err(failed("no worker"))?;
            self.workers.push(connections);
            self.scheduled[worker] = Default::default();
        }
        self.node = Some(node);
        self.clients[0].left = 1;
        for client in 0..self.clients.len() {
            let delay_us = self.random.uniform(0, 1_000);
            self.act_in(delay_us, client);
        }
        self.at(LOOK_US, Event::Background(self.life));
        self.at(LOG_US, Event::LooksAfterLog(self.life));
        if self.phase == Phase::Working {
            let delay_us = self.random.uniform(100, 20_000);
            self.at(delay_us, Event::Trouble(self.life));
        }
        Ok(())
    }

    /// The node is gone; what it had not forced may be lost. It recovers, maybe after attempts that are cut short too.
    pub(super) fn go_down_and_up(&mut self) -> Result<(), Violation> {
        self.note(format_args!("the node goes down"));
        self.coverage.count("crashes");
        self.cut_all_off();
        self.count_figures();
        self.workers.clear();
        self.node = None;
        self.calm_down();
        self.lose_power();
        if self.phase == Phase::Working {
            self.disturb_recovery();
        }
        self.set_clock();
        let found = verify(&self.disk.store(), self.disk.directory());
        found.map_err(failed("cannot be recovered"))?;
        let node = self.open(self.plan).map_err(failed("does not recover"))?;
        if self.plan.load == Load::Tpcc {
            self.check_conditions(&node)?;
        }
        self.begin_life(node)
    }

    fn lose_power(&mut self) {
        let loss = self.disk.goes_off_and_on(&mut self.random);
        self.note(format_args!("{loss}"));
    }

    /// Crashes and errors of reading while the node recovers.
    fn disturb_recovery(&mut self) {
        for _ in 0..self.random.uniform(0, DISTURBED_MAX) {
            if self.plan.has(Trouble::ReadErrors) && self.random.uniform(0, 1) == 0 {
                let failing_reads = self.random.uniform(1, 2) as u32;
                self.disk.log.set_faults(Faults {
                    failing_reads,
                    ..Faults::default()
                });
            } else {
                let operations = self.random.uniform(0, 25) as u64;
                self.disk.power.goes_after(operations);
            }
            self.set_clock();
            let opened = self.open(self.plan);
            self.coverage.count(match &opened {
                Ok(_) => "recoveries that went on in spite of trouble",
                Err(_) => "recoveries cut short",
            });
            drop(opened);
            self.calm_down();
            self.lose_power();
        }
    }

    /// Nothing goes wrong any more for the time being.
    fn calm_down(&mut self) {
        self.disk.power.stays();
        self.disk.log.set_faults(Faults::default());
        self.disk.rows.set_faults(StoreFaults::default());
    }

    /// The node may have to go down now, or the run may have come to its next phase.
    pub(super) fn enter_next_phase(&mut self) -> Result<(), Violation> {
        if self.phase == Phase::Working && self.crashes_at.first().is_some_and(|at| *at <= self.ended_transactions) {
            self.crashes_at.remove(0);
            // At some operation of the disk that comes next.
            let operations = self.random.uniform(0, 40) as u64;
            self.disk.power.goes_after(operations);
        }
        let busy = |client: &crate::client::Client| {
            client.left > 0 || client.under_way.is_some() || client.dying.is_some() || client.rolls_back
        };
        if self.clients.iter().any(busy) {
            return Ok(());
        }
        match self.phase {
            Phase::Working => {
                self.phase = Phase::Reading;
                self.calm_down();
                self.read_everything();
                Ok(())
            }
            Phase::Reading => {
                if self.is_drained()? {
                    self.phase = Phase::ReadingAgain;
                    self.go_down_and_up()?;
                }
                Ok(())
            }
            Phase::ReadingAgain => {
                if self.is_drained()? {
                    self.count_figures();
                    self.phase = Phase::Over;
                }
                Ok(())
            }
            Phase::Over => Ok(()),
        }
    }

    fn read_everything(&mut self) {
        self.clients[0].left = 1;
        self.act_in(1, 0);
    }

    /// When nobody does anything, nothing is kept for anybody: soon, since the statement of a client that has just hung up may
    /// be between two of its turns.
    fn is_drained(&mut self) -> Result<bool, Violation> {
        let Some(node) = &self.node else { return Ok(true) };
        let figures = node.figures();
        if figures.live_transactions == 0 && figures.pending_bytes == 0 {
            self.drains_since_us = None;
            return Ok(true);
        }
        let since_us = *self.drains_since_us.get_or_insert(self.now_us);
        if self.now_us - since_us < DRAIN_US_MAX {
            return Ok(false);
        }
        let what = format!(
            "{} transactions live, {} bytes pending after all have ended",
            figures.live_transactions, figures.pending_bytes
        );
        Err(Violation::new("not drained", what))
    }

    fn check_conditions(&mut self, node: &Node) -> Result<(), Violation> {
        let mut direct = Direct::new(node, self.now_us).map_err(failed("no session"))?;
        let checked = population::check_conditions(&mut direct, tpcc::SCALE);
        let results = checked.map_err(|error| Violation::new("conditions not checked", error.to_string()))?;
        for result in results {
            if let Some(violation) = result.violation {
                let what = format!("{} {}: {violation}", result.number, result.text);
                return Err(Violation::new("TPC-C condition", what));
            }
        }
        self.coverage.count("TPC-C conditions checked");
        let answer = direct.sql("select count(*) from orders").map_err(failed("no count"))?;
        let orders = answer.rows().first().and_then(|row| row.first()?.as_i64()).unwrap_or(0);
        let added = orders - population::DISTRICTS * tpcc::SCALE.customers;
        let of = |fate: Fate| {
            let transactions = self.history.transactions.iter();
            let new_orders = transactions.filter(|one| one.name == population::Kind::NAMES[0] && one.fate == fate);
            new_orders.count() as i64
        };
        let (least, most) = (of(Fate::Committed), of(Fate::Committed) + of(Fate::Unknown));
        if added < least || added > most {
            let what = format!("{added} orders added; acknowledged {least}, at most {most} can be there");
            return Err(Violation::new("TPC-C orders", what));
        }
        Ok(())
    }

    /// Adds the figures of the life that ends.
    fn count_figures(&mut self) {
        let Some(node) = &self.node else { return };
        let figures = node.figures();
        let protocol = figures.protocol;
        for (name, count) in [
            ("aborts: read changed", protocol.aborts[0]),
            ("aborts: range changed", protocol.aborts[1]),
            ("aborts: deadlock", protocol.aborts[2]),
            ("aborts: cascade", protocol.aborts[3]),
            ("aborts: formula failed", protocol.aborts[4]),
            ("waits: queue", protocol.waits[0]),
            ("waits: after whom it follows", protocol.waits[1]),
            ("waits: behind an ordered one", protocol.waits[2]),
            ("waits: earlier reader", protocol.waits[3]),
            ("evictions", protocol.evictions),
            ("blind updates", protocol.blind_updates),
            ("blind updates refused by bounds", protocol.bounds_refused),
            ("reads to write", protocol.ordered_reads),
        ] {
            self.coverage.add(name, count);
        }
        let yields = self.workers.iter().map(|worker| worker.yields).sum();
        self.coverage.add("answers read slowly", yields);
    }
}
