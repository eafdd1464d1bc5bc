//! The log of one process, as records, of which a crash may take the tail that was not forced.

use rubato_base::{ColumnSet, GlobalId, Key, Lsn, NodeId, Result, TableId, Timestamp};
use rubato_protocol::{Change, CommitLog, CommitRecord, DecisionRecord, PrepareRecord, Sketch};
use std::ops::ControlFlow;

pub(super) type Changes = Vec<(TableId, Key, Change)>;

/// A record.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Commit(Timestamp, Changes),
    Prepare(GlobalId, Timestamp, Changes, Vec<(TableId, Key, ColumnSet)>),
    Decision(GlobalId, Option<Timestamp>, Vec<NodeId>),
}

/// Records in order; position `n` is behind the `n`th.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordLog {
    pub(super) records: Vec<Record>,
    /// As many are safe.
    pub(super) forced: usize,
}

impl RecordLog {
    pub(super) fn force(&mut self, up_to: Lsn) {
        self.forced = self.forced.max(up_to.0 as usize).min(self.records.len());
    }

    fn push(&mut self, record: Record) -> Lsn {
        self.records.push(record);
        Lsn(self.records.len() as u64)
    }

    pub(super) fn sketch(&self, sketch: &mut Sketch) {
        sketch.number(self.forced as u64);
        sketch.number(self.records.len() as u64);
        for record in &self.records {
            match record {
                Record::Commit(cts, changes) => {
                    sketch.number(1);
                    sketch.stamp(*cts);
                    sketch_changes(changes, sketch);
                }
                Record::Prepare(global, floor, changes, places) => {
                    sketch.number(2);
                    sketch.stamp(global.tick);
                    sketch.stamp(*floor);
                    sketch_changes(changes, sketch);
                    sketch.number(places.len() as u64);
                }
                Record::Decision(global, cts, _) => {
                    sketch.number(3);
                    sketch.stamp(global.tick);
                    sketch.stamp_or_none(*cts);
                }
            }
        }
    }
}

fn sketch_changes(changes: &Changes, sketch: &mut Sketch) {
    sketch.number(changes.len() as u64);
    for (_, key, change) in changes {
        sketch.bytes(key.as_bytes());
        sketch.change(change);
    }
}

fn collect(changes: &dyn rubato_protocol::Changes) -> Changes {
    let mut all = Vec::new();
    changes.visit(&mut |table, key, change| {
        all.push((table, key.clone(), change.clone()));
        ControlFlow::Continue(())
    });
    all
}

impl CommitLog for RecordLog {
    fn append(&mut self, record: &CommitRecord<'_>) -> Result<Lsn> {
        Ok(self.push(Record::Commit(record.cts, collect(record.changes))))
    }

    fn append_prepare(&mut self, record: &PrepareRecord<'_>) -> Result<Lsn> {
        let changes = collect(record.changes);
        Ok(self.push(Record::Prepare(
            record.transaction,
            record.floor,
            changes,
            record.places.to_vec(),
        )))
    }

    fn append_decision(&mut self, record: &DecisionRecord<'_>) -> Result<Lsn> {
        let participants = record.participants.to_vec();
        Ok(self.push(Record::Decision(record.transaction, record.cts, participants)))
    }
}
