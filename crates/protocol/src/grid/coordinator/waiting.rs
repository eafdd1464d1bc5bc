//! What a coordinator does to find the circles in which its transactions wait (rule Q-5).

use super::Coordinator;
use crate::grid::message::{Body, Outgoing, Request};
use crate::grid::probe::{PROBE_STEPS_MAX, Probe, Waiting};
use crate::grid::run::{Phase, Run};
use rubato_base::{Error, GlobalId, NodeId};

impl Coordinator {
    /// How many transactions were rolled back since the last call because they were in circles or long lines of waits.
    pub fn take_in_circles(&mut self) -> u64 {
        std::mem::take(&mut self.in_circles)
    }

    /// The branch at this node has come to wait, or waits still, or another one has come to wait for it.
    pub(super) fn on_wait(&mut self, from: NodeId, global: GlobalId, waits: bool) {
        let run = self.runs.get_mut(&global);
        let Some(member) = run.and_then(|run| run.members.iter_mut().find(|member| member.node == from)) else {
            self.refused += 1;
            return;
        };
        if waits {
            if matches!(member.asked, Some(Request::Operate { .. })) {
                member.silent_rounds = 0;
            } else if member.asked.is_none() && !member.is_adopted {
                // It has come behind the answer.
                self.refused += 1;
                return;
            }
            member.waiting_rounds.get_or_insert(0);
        } else {
            member.is_awaited = true;
        }
        self.probe(global);
    }

    /// Has a probe go from the transaction along what it waits for, if it may be in a circle.
    pub(super) fn probe(&mut self, global: GlobalId) {
        if self.runs.get(&global).is_some_and(Run::may_be_in_a_circle) {
            let (path, steps) = (Vec::new(), PROBE_STEPS_MAX);
            self.follow(global, Probe { path, steps });
        }
    }

    pub(super) fn on_waiting(&mut self, global: GlobalId, waiting: Waiting) {
        let is_own = global.coordinator == self.node;
        match waiting {
            Waiting::Behind(probe) if is_own => self.follow(global, probe),
            Waiting::GiveWay if is_own => self.give_way(global),
            _ => self.refused += 1,
        }
    }

    /// The steps that are left are shared, so that a probe does not grow where a transaction waits on many nodes.
    fn follow(&mut self, global: GlobalId, probe: Probe) {
        let at: Vec<NodeId> = self
            .runs
            .get(&global)
            .map_or(Vec::new(), |run| run.waits_at().collect());
        let steps = probe.steps.checked_div(at.len() as u32).unwrap_or(0);
        for to in at.into_iter().filter(|_| steps > 0) {
            let path = probe.path.clone();
            let body = Body::Waiting(Waiting::Ahead(Probe { path, steps }));
            self.outgoing.push(Outgoing::at_once(to, global, body));
        }
    }

    /// It may have gone on, or be decided, since the probe has passed.
    fn give_way(&mut self, global: GlobalId) {
        let is_open = |phase| !matches!(phase, Phase::Alone | Phase::Committed(_));
        let run = self.runs.get(&global).filter(|run| is_open(run.phase));
        if run.is_some_and(|run| run.waits_at().next().is_some()) {
            self.in_circles += 1;
            let message =
                "transactions on several nodes wait for each other in a circle, or in a line that is too long";
            self.on_refused(global, Error::serialization(message, format!("transaction {global}")));
        }
    }
}
