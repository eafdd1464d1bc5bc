//! What goes wrong in a run.

use super::{Event, LOOK_US, World};
use crate::plan::Trouble;
use rubato_storage::Faults as StoreFaults;

/// An hour: how far clocks are set wrong, at most.
const HOUR_US: i64 = 3_600_000_000;

impl World<'_> {
    /// The background's turn.
    pub(super) fn on_background(&mut self) {
        let Some(node) = self.node.clone() else { return };
        let eager = self.plan.has(Trouble::Checkpoints);
        if eager || node.checkpoint_is_due() {
            match node.checkpoint() {
                Ok(report) => {
                    self.coverage.count("checkpoints");
                    self.note(format_args!("checkpoint, log starts at {}", report.log_start));
                }
                Err(error) => {
                    self.coverage.count("checkpoints that failed");
                    self.note(format_args!("checkpoint failed: {error}"));
                }
            }
        }
        let pause_us = if eager {
            self.random.uniform(100, LOOK_US)
        } else {
            LOOK_US
        };
        self.at(pause_us, Event::Background(self.life));
    }

    /// Something goes wrong, of what may.
    pub(super) fn make_trouble(&mut self) {
        let pause_us = self.random.uniform(200, 20_000);
        self.at(pause_us, Event::Trouble(self.life));
        let (trouble, _) = Trouble::ALL[self.random.uniform(0, Trouble::ALL.len() as i64 - 1) as usize];
        if !self.plan.has(trouble) || self.troubles_left == 0 {
            return;
        }
        self.troubles_left -= 1;
        let times = self.random.uniform(1, 3) as u32;
        match trouble {
            Trouble::ForceFailures => self.fail_forces(times),
            Trouble::ReadErrors => self.fail_store(StoreFaults {
                failing_reads: times,
                ..StoreFaults::default()
            }),
            Trouble::StoreFailures => {
                let forces = self.random.uniform(0, 1) == 1;
                self.fail_store(StoreFaults {
                    failing_changes: if forces { 0 } else { times },
                    failing_forces: if forces { times } else { 0 },
                    ..StoreFaults::default()
                });
            }
            Trouble::FullDisk => self.fill_disk(),
            Trouble::ClockJumps => {
                let far = self.random.uniform(0, 2) == 0;
                let most_us = if far { HOUR_US } else { 50_000 };
                self.offset_us += self.random.uniform(-most_us, most_us);
                self.coverage.count("clock jumps");
                let offset_us = self.offset_us;
                self.note(format_args!("the clock is off by {offset_us} us"));
            }
            Trouble::Disconnects => {
                let client = self.random.uniform(1, self.plan.clients as i64) as usize;
                self.hang_up(client);
            }
            Trouble::Cancels => {
                let client = self.random.uniform(1, self.plan.clients as i64) as usize;
                if self.clients[client].waits_since_us.is_some() {
                    self.coverage.count("cancels");
                    self.note(format_args!("client {client} cancels"));
                    let worker = self.clients[client].worker;
                    self.workers[worker].cancel(client);
                    self.soon(worker);
                }
            }
            Trouble::Crashes
            | Trouble::SlowDisk
            | Trouble::SlowClients
            | Trouble::Pauses
            | Trouble::Checkpoints
            | Trouble::SmallMemory => {}
        }
    }

    fn fail_forces(&mut self, times: u32) {
        let mut faults = self.disk.log.faults();
        if self.random.uniform(0, 1) == 1 {
            faults.failing_forces = times;
        } else {
            faults.failing_writes = times;
        }
        self.disk.log.set_faults(faults);
        self.coverage.count("log writes and forces made to fail");
        self.note(format_args!("the next writes of the log fail"));
    }

    fn fail_store(&mut self, faults: StoreFaults) {
        self.disk.rows.set_faults(faults);
        self.coverage.count("operations of the store made to fail");
        self.note(format_args!("the store is going to fail"));
    }

    fn fill_disk(&mut self) {
        let mut faults = self.disk.log.faults();
        if faults.space_bytes.is_some() {
            return;
        }
        faults.space_bytes = Some(self.random.uniform(0, 8_000) as u64);
        self.disk.log.set_faults(faults);
        self.coverage.count("full disks");
        self.note(format_args!("the disk is full"));
        let lasts_us = self.random.uniform(1_000, 400_000);
        self.at(lasts_us, Event::Room);
    }

    /// There is room on the disk again.
    pub(super) fn make_room(&mut self) {
        let mut faults = self.disk.log.faults();
        faults.space_bytes = None;
        self.disk.log.set_faults(faults);
        self.note(format_args!("the disk has room"));
    }
}
