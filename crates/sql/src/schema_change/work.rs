//! What is to be done with rows, while a statement still changes what it is to be done for.

use super::StorageWork;
use super::apply::Change;
use crate::catalog::RelationName;

/// Something of a table that work knows by its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Index,
    Check,
    ForeignKey,
}

impl Change {
    /// Work that was decided for something of a table that goes is not done, and what stood behind it is one place further to the front.
    pub(super) fn forget_work(&mut self, table: &RelationName, part: Part, place: usize) {
        self.work.retain_mut(|work| match place_in(work, table, part) {
            Some(own) if *own == place => false,
            Some(own) => {
                *own -= usize::from(*own > place);
                true
            }
            None => true,
        });
    }

    /// Work that was decided earlier in the statement names a table by its old name.
    pub(super) fn rename_work(&mut self, old: &RelationName, new: &RelationName) {
        for work in &mut self.work {
            match work {
                StorageWork::FillIndex { table, .. }
                | StorageWork::Rewrite { table, .. }
                | StorageWork::VerifyNotNull { table, .. }
                | StorageWork::VerifyCheck { table, .. }
                | StorageWork::VerifyForeignKey { table, .. }
                | StorageWork::VerifyUnique { table, .. }
                | StorageWork::SetMissing { table, .. }
                | StorageWork::Move { table, .. } => {
                    if table == old {
                        table.clone_from(new);
                    }
                }
                StorageWork::Create { .. }
                | StorageWork::Drop { .. }
                | StorageWork::StartSequence { .. }
                | StorageWork::DropSequence { .. } => {}
            }
        }
    }
}

/// The place of a part of the table that work is about.
fn place_in<'w>(work: &'w mut StorageWork, table: &RelationName, wanted: Part) -> Option<&'w mut usize> {
    let (own, part, place) = match work {
        StorageWork::FillIndex { table, index } | StorageWork::VerifyUnique { table, index } => {
            (table, Part::Index, index)
        }
        StorageWork::VerifyCheck { table, check } => (table, Part::Check, check),
        StorageWork::VerifyForeignKey { table, foreign_key } => (table, Part::ForeignKey, foreign_key),
        _ => return None,
    };
    (own == table && part == wanted).then_some(place)
}
