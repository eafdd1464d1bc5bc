//! The way of one statement through stages and nodes, where somebody has asked for it.

use super::{Next, Session};
use crate::explain::{NodeFigures, SliceFigures, WayFigures};
use crate::grid::FarCall;
use crate::partition::Partition;
use rubato_base::NodeId;
use rubato_stages::StageKind;
use std::collections::BTreeMap;

/// What is recorded of a statement. Times are in microseconds since 2000-01-01 UTC.
pub(super) struct Way {
    pub(super) began_us: i64,
    /// By the index of the stage.
    slices: BTreeMap<usize, SliceFigures>,
    nodes: BTreeMap<NodeId, NodeFigures>,
    /// The slice under way: where, and since when.
    under_way: Option<(StageKind, i64)>,
    /// When the last one ended, and whether it was to wait for others.
    left: Option<(i64, bool)>,
}

impl Way {
    pub(super) fn new(stage: StageKind, now_us: i64) -> Way {
        Way {
            began_us: now_us,
            slices: BTreeMap::new(),
            nodes: BTreeMap::new(),
            under_way: Some((stage, now_us)),
            left: None,
        }
    }

    fn begin_slice(&mut self, stage: StageKind, now_us: i64) {
        let slice = self
            .slices
            .entry(stage.index())
            .or_insert_with(|| SliceFigures::of(stage));
        if let Some((left_us, is_parked)) = self.left.take() {
            let rested_us = between(left_us, now_us);
            match is_parked {
                true => slice.parked_us += rested_us,
                false => slice.queued_us += rested_us,
            }
        }
        self.under_way = Some((stage, now_us));
    }

    fn end_slice(&mut self, is_parked: bool, now_us: i64) {
        if let Some((stage, began_us)) = self.under_way.take() {
            let slice = self
                .slices
                .entry(stage.index())
                .or_insert_with(|| SliceFigures::of(stage));
            slice.slices += 1;
            slice.worked_us += between(began_us, now_us);
        }
        self.left = Some((now_us, is_parked));
    }

    /// A node has answered.
    pub(super) fn on_call(&mut self, call: &FarCall) {
        let node = self
            .nodes
            .entry(call.node)
            .or_insert_with(|| NodeFigures::of(call.node));
        node.operations += u64::from(call.operations);
        node.messages += u64::from(call.messages);
        node.bytes_sent += call.bytes_sent;
        node.bytes_received += call.bytes_received;
        node.rows += call.rows;
        node.waited_us += between(call.asked_us, call.answered_us);
        node.effort.add(call.effort);
    }

    fn figures(&mut self, own: Option<NodeId>, now_us: i64) -> WayFigures {
        if self.under_way.is_some() {
            self.end_slice(false, now_us);
        }
        WayFigures {
            node: own,
            nodes: self.nodes.values().cloned().collect(),
            slices: self.slices.values().cloned().collect(),
        }
    }
}

fn between(from_us: i64, to_us: i64) -> u64 {
    to_us.saturating_sub(from_us).max(0) as u64
}

impl Session {
    /// Whether the way of the statement under way is recorded.
    pub fn is_recorded(&self) -> bool {
        self.way.is_some()
    }

    /// A stage begins its part of the work.
    pub fn begin_slice(&mut self, stage: StageKind, now_us: i64) {
        if let Some(way) = &mut self.way {
            way.begin_slice(stage, now_us);
        }
    }

    /// It has ended.
    pub fn end_slice(&mut self, next: Next, now_us: i64) {
        if let Some(way) = &mut self.way {
            way.end_slice(matches!(next, Next::Park(_)), now_us);
        }
    }

    /// The statement's way is recorded from here on.
    pub(super) fn record(&mut self, partition: &Partition, now_us: i64) {
        if let Some(desk) = &partition.grid {
            desk.trace(self.id, None);
        }
        self.way = Some(Box::new(Way::new(StageKind::Transaction, now_us)));
    }

    /// What has been recorded until now.
    pub(super) fn recorded(&mut self, partition: &Partition, now_us: i64) -> Option<WayFigures> {
        let own = partition.grid.as_ref().and_then(|desk| desk.node());
        self.way.as_mut().map(|way| way.figures(own, now_us))
    }

    /// The statement has ended.
    pub(super) fn end_record(&mut self, partition: &Partition) {
        if self.way.take().is_some()
            && let Some(desk) = &partition.grid
        {
            desk.end_trace(self.id);
        }
    }
}
