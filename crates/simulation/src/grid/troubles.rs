//! What goes wrong in a run of the grid.

use super::plan::GridTrouble;
use super::sites::Site;
use super::world::{Event, Phase, World};
use rubato_base::NodeId;
use rubato_storage::Faults as StoreFaults;

/// An hour: how far clocks are set wrong, at most.
const HOUR_US: i64 = 3_600_000_000;
/// How long nodes cannot reach each other, or are slow.
const CUT_US: (i64, i64) = (2_000, 1_500_000);
/// A node that the grid has not.
const STRANGER: NodeId = NodeId(99);

impl World<'_> {
    pub(super) fn trouble_soon(&mut self) {
        let pause_us = self.random.uniform(200, 15_000);
        self.at(pause_us, Event::Trouble);
    }

    fn any_site(&mut self) -> usize {
        self.random.uniform(0, self.sites.len() as i64 - 1) as usize
    }

    /// Something goes wrong, of what may.
    pub(super) fn make_trouble(&mut self) {
        if self.phase != Phase::Working {
            return;
        }
        self.trouble_soon();
        let kinds = GridTrouble::ALL.len() as i64;
        let (trouble, name) = GridTrouble::ALL[self.random.uniform(0, kinds - 1) as usize];
        if !self.plan.has(trouble) || self.troubles_left == 0 {
            return;
        }
        self.troubles_left -= 1;
        let at = self.any_site();
        self.note(format_args!("trouble: {name}, node {at}"));
        let times = self.random.uniform(1, 3) as u32;
        match trouble {
            GridTrouble::Crashes => self.crash_somebody(),
            GridTrouble::Partitions => self.cut_ways(),
            GridTrouble::SlowNodes => {
                self.coverage.count("nodes made slow");
                self.network.slow.insert(NodeId(at as u32));
                self.mend_later();
            }
            GridTrouble::ClockJumps => {
                let far = self.random.uniform(0, 2) == 0;
                let most_us = if far { HOUR_US } else { 50_000 };
                self.sites[at].offset_us += self.random.uniform(-most_us, most_us);
                self.coverage.count("clock jumps");
            }
            GridTrouble::Strangers => self.send_as_stranger(at),
            GridTrouble::ForceFailures => self.fail_log(at, times),
            GridTrouble::ReadErrors => self.fail_store(
                at,
                StoreFaults {
                    failing_reads: times,
                    ..StoreFaults::default()
                },
            ),
            GridTrouble::StoreFailures => {
                let forces = self.random.uniform(0, 1) == 1;
                let faults = StoreFaults {
                    failing_changes: if forces { 0 } else { times },
                    failing_forces: if forces { times } else { 0 },
                    ..StoreFaults::default()
                };
                self.fail_store(at, faults);
            }
            GridTrouble::FullDisk => self.fill_disk(at),
            GridTrouble::Losses
            | GridTrouble::Repetitions
            | GridTrouble::Delays
            | GridTrouble::SlowDisk
            | GridTrouble::Checkpoints
            | GridTrouble::SmallMemory
            | GridTrouble::Pauses => {}
        }
    }

    /// A node goes down: any, the one of the timestamp stage, one with prepared branches, or one that has decided and not told
    /// all; at once, or at some operation of its disk.
    fn crash_somebody(&mut self) {
        if self.crashes_left == 0 {
            return;
        }
        self.crashes_left -= 1;
        let wanted = self.random.uniform(0, 4);
        let fits = |at: &usize| {
            let Some(node) = &self.sites[*at].node else {
                return false;
            };
            match wanted {
                0 => node.figures().leads,
                1 | 2 => node.figures().prepared > 0,
                3 => node.figures().undone_decisions > 0,
                _ => false,
            }
        };
        let chosen = (0..self.sites.len()).find(fits);
        let at = chosen.unwrap_or_else(|| self.any_site());
        if chosen.is_some() && self.random.uniform(0, 1) == 0 {
            return self.go_down(at);
        }
        let operations = self.random.uniform(0, 12) as u64;
        self.sites[at].disk.power.goes_after(operations);
    }

    /// Some nodes and the others cannot reach each other, or one way only; often the one that leads and all others.
    fn cut_ways(&mut self) {
        let count = self.sites.len() as i64;
        let mut side = self.random.uniform(1, (1 << count) - 2);
        let leads = |site: &Site| site.node.as_ref().is_some_and(|node| node.figures().leads);
        if let Some(leader) = self.sites.iter().position(leads)
            && self.random.uniform(0, 1) == 0
        {
            self.coverage.count("leaders cut off");
            side = 1 << leader;
            // Its clock runs behind that of the others: they elect anew long before it gives up.
            if self.plan.has(GridTrouble::SlowNodes) {
                self.network.slow.insert(NodeId(leader as u32));
            }
        }
        let one_way = self.random.uniform(0, 1) == 0;
        self.coverage
            .count(if one_way { "partitions, one way" } else { "partitions" });
        for from in 0..count {
            for to in 0..count {
                let (here, there) = (side >> from & 1, side >> to & 1);
                if here != there && (!one_way || here == 1) {
                    self.network.cut(NodeId(from as u32), NodeId(to as u32));
                }
            }
        }
        self.mend_later();
    }

    fn mend_later(&mut self) {
        let lasts_us = self.random.uniform(CUT_US.0, CUT_US.1);
        self.at(lasts_us, Event::Mends);
    }

    /// What somebody has sent comes from a stranger as well.
    fn send_as_stranger(&mut self, at: usize) {
        let Some(packet) = self.network.any(&mut self.random) else {
            return;
        };
        let (to, message) = (packet.to, packet.message());
        let Some(node) = self.sites.get_mut(to.0 as usize).and_then(|site| site.node.as_mut()) else {
            return;
        };
        self.coverage.count("messages from strangers");
        // What the node has still to say to itself is done first: it may refuse some of that too, which is not counted here.
        node.on_wake();
        let before = node.figures().refused;
        node.on_message(STRANGER, message.clone());
        node.on_message(to, message);
        let refused = node.figures().refused - before;
        self.note(format_args!(
            "node {to} refuses {refused} of 2 from strangers, node {at} looks on"
        ));
        self.coverage.add("messages from strangers refused", refused);
        self.drain(to.0 as usize);
    }

    fn fail_log(&mut self, at: usize, times: u32) {
        let mut faults = self.sites[at].disk.log.faults();
        if self.random.uniform(0, 1) == 1 {
            faults.failing_forces = times;
        } else {
            faults.failing_writes = times;
        }
        self.sites[at].disk.log.set_faults(faults);
        self.coverage.count("log writes and forces made to fail");
    }

    fn fail_store(&mut self, at: usize, faults: StoreFaults) {
        self.sites[at].disk.rows.set_faults(faults);
        self.coverage.count("operations of the store made to fail");
    }

    fn fill_disk(&mut self, at: usize) {
        let mut faults = self.sites[at].disk.log.faults();
        if faults.space_bytes.is_some() {
            return;
        }
        faults.space_bytes = Some(self.random.uniform(0, 8_000) as u64);
        self.sites[at].disk.log.set_faults(faults);
        self.coverage.count("full disks");
        let lasts_us = self.random.uniform(1_000, 400_000);
        self.at(lasts_us, Event::Room(at));
    }
}
