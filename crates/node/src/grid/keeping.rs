//! Which node keeps what there is once, and how it goes from one to another (decision 0042).
//!
//! The one that has it writes down that it has it no more, with everything that the next one needs, and tells that until the other has written
//! it down, too. Between the two nobody keeps it. No transaction over both is needed: what is kept is one thing that is passed on.

use super::calls::cannot_be_reached;
use super::catalogs::LIFE_SHIFT;
use super::state::GridState;
use super::{GridMessage, GridSettings};
use crate::attached::all_of;
use crate::node::Shared;
use rubato_base::{Error, Lsn, NodeId, Result, SqlState, Timestamp};
use rubato_grid::catalogs::CatalogMessage;
use rubato_sql::databases::{Databases, Keeping};
use rubato_sql::grid::Followed;
use rubato_sql::partition::{Attachment, Partition};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// What a node knows of handing over, beside what its catalogs say.
pub(super) struct HandingOver {
    /// The number of what this node goes by.
    followed: u64,
    /// Every version of the catalogs that another keeper has told is below this.
    pub(super) version_base: u64,
    /// The next keeper is to be told now.
    is_due: bool,
    /// The number that the next keeper is known to have heard of.
    taken_over: u64,
}

impl HandingOver {
    /// What a node begins with.
    pub(super) fn of(settings: &GridSettings, keeping: Option<&Keeping>) -> HandingOver {
        let own = keeping.filter(|keeping| keeping.node == settings.id);
        HandingOver {
            followed: keeping.map_or(0, |keeping| keeping.number),
            version_base: own.map_or(0, |keeping| keeping.version_base),
            is_due: true,
            taken_over: 0,
        }
    }
}

impl GridSettings {
    /// Nodes that were members.
    pub(super) fn gone(&self) -> BTreeSet<NodeId> {
        let given = (0..=self.last.0).map(NodeId);
        given.filter(|node| !self.nodes.contains(node)).collect()
    }
}

impl GridState {
    /// Whether sessions hold their answers back when catalogs change: on the keeper, where there are other nodes.
    pub(super) fn note_keeper(&self) {
        let keeps = self.keeps_catalogs() && self.settings.nodes.len() > 1;
        self.holds_for_others.store(keeps, Ordering::Release);
    }

    /// See [`rubato_sql::grid::GridDesk::follow_keeper`].
    pub(super) fn follow_keeper(&mut self, databases: &Databases) -> Option<Followed> {
        let keeping = *databases.keeping()?;
        if self.settings.keeper.is_none() || keeping.number <= self.handing.followed {
            return None;
        }
        self.handing.followed = keeping.number;
        let was_keeper = self.keeps_catalogs();
        if was_keeper {
            self.stop_keeping();
        }
        self.settings.keeper = Some(keeping.node);
        self.layout = None;
        let is_here = self.keeps_catalogs();
        if is_here {
            self.handing.version_base = keeping.version_base;
            self.begin_keeping();
        }
        self.handing.is_due = true;
        self.note_keeper();
        Some(Followed {
            own: self.settings.id,
            life: self.standing.life,
            is_here,
        })
    }

    /// See [`rubato_sql::grid::GridDesk::version_for_next`].
    pub(super) fn version_for_next(&self, keeper: NodeId) -> Result<u64> {
        if !self.calls.is_up(keeper) {
            return Err(cannot_be_reached(keeper));
        }
        if !self.is_known_to(keeper) {
            let message = format!("node {} does not have all catalogs yet", keeper.0);
            return Err(Error::new(SqlState::OBJECT_IN_USE, message).with_hint("Try again."));
        }
        Ok(self.handing.version_base + ((self.standing.life + 1) << LIFE_SHIFT))
    }

    /// The next keeper may not have heard that it is that.
    pub(super) fn hand_over_again(&mut self) {
        self.handing.is_due = true;
    }

    /// What is owed to the next keeper: it has not said that it has heard of it.
    fn owed(&self, databases: &Databases) -> Option<Keeping> {
        let keeping = databases.keeping().copied()?;
        let own = self.settings.id;
        let is_owed = keeping.from == own && keeping.node != own && self.handing.taken_over < keeping.number;
        (is_owed && self.settings.nodes.contains(&keeping.node)).then_some(keeping)
    }

    /// Tells the next keeper that it is that, once this node's log says so.
    pub(super) fn tell_next_keeper(&mut self, partition: &Partition, appended: Lsn) {
        if !std::mem::take(&mut self.handing.is_due) {
            return;
        }
        let Some(keeping) = self
            .owed(&partition.databases)
            .filter(|next| self.calls.is_up(next.node))
        else {
            return;
        };
        let attachment = Attachment {
            sequences: partition.sequences.given(),
            ..all_of(&partition.databases)
        };
        let message = CatalogMessage::HandOver {
            last_tick: self.last_tick_before(),
            content: attachment.encode(),
            last_node: self.settings.last,
        };
        self.outgoing
            .push_anyway(appended, (keeping.node, GridMessage::Catalog(message)));
    }

    /// This node is to keep what there is once. A log that cannot take it gets it again.
    pub(super) fn on_hand_over(
        &mut self,
        partition: &mut Partition,
        shared: &Shared,
        from: NodeId,
        (last_tick, content): (Timestamp, &[u8]),
    ) {
        let Ok(told) = Attachment::decode(content) else {
            self.refused += 1;
            return;
        };
        let Some(keeping) = told.keeping.filter(|keeping| keeping.node == self.settings.id) else {
            self.refused += 1;
            return;
        };
        let known = partition.databases.keeping().map_or(0, |known| known.number);
        if known < keeping.number {
            for (id, value) in &told.sequences {
                partition.sequences.recover(*id, *value);
            }
            if self.take_over(partition, shared, (None, last_tick), told).is_err() {
                return;
            }
        }
        let message = GridMessage::Catalog(CatalogMessage::TakenOver(known.max(keeping.number)));
        let durable_at = Lsn(shared.forcer.appended_lsn().0);
        self.outgoing.push_anyway(durable_at, (from, message));
    }

    /// The next keeper knows that it is that.
    pub(super) fn on_taken_over(&mut self, number: u64) {
        self.handing.taken_over = self.handing.taken_over.max(number);
    }
}
