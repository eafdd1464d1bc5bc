//! What a session does itself while its transaction runs on another node of the grid: what it is to tell, and its settings.

use super::away::Away;
use super::replay::sets_only;
use super::{Block, Current, Session};
use crate::client::{Format, Formats, Responder};
use crate::grid::{Call, Home, Run};
use crate::partition::Partition;
use crate::statement::{CursorOptions, Discarded, Statement, Utility};
use rubato_base::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Savepoints of a transaction that runs elsewhere, in their order.
#[derive(Debug, Default)]
pub(super) struct MarksAway(Vec<MarkAway>);

#[derive(Debug)]
struct MarkAway {
    name: String,
    /// How many things the transaction was to tell on channels.
    told: usize,
    /// See [`super::settings::Settings::mark`].
    settings: usize,
}

/// Cursors whose rows another node has: clients ask here what rows they give.
#[derive(Debug, Default)]
pub(super) struct CursorsAway(BTreeMap<String, CursorAway>);

#[derive(Debug)]
struct CursorAway {
    query: Statement,
    options: CursorOptions,
    node: NodeId,
}

impl CursorsAway {
    /// The query of a cursor, and how it gives its values.
    fn get(&self, name: &str) -> Option<(&Statement, Formats)> {
        let own = self.0.get(name)?;
        let formats = own.options.binary.then_some(Format::Binary).into_iter().collect();
        Some((&own.query, formats))
    }

    /// These were declared in a transaction that has committed.
    pub(super) fn outlast(&mut self, cursors: CursorsAway) {
        self.0.extend(cursors.0.into_iter().filter(|(_, own)| own.options.hold));
    }

    fn open(&mut self, name: &str, query: &Statement, options: CursorOptions, node: NodeId) {
        let query = query.clone();
        self.0.insert(name.to_owned(), CursorAway { query, options, node });
    }

    /// The nodes that have them, which are forgotten here.
    fn take_nodes(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.0).into_values().map(|own| own.node).collect()
    }
}

impl MarksAway {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().rposition(|own| own.name == name)
    }
}

impl Session {
    /// A statement was run elsewhere: cursors that it opens or closes are known here.
    pub(super) fn follow_cursor(&mut self, current: &Current, node: NodeId, partition: &Partition) {
        let Statement::Utility(utility) = &current.statement else {
            return;
        };
        let of_block = self.away.as_mut().map(|away| &mut away.cursors);
        match &**utility {
            Utility::Declare {
                name,
                options,
                statement,
                ..
            } => of_block
                .unwrap_or(&mut self.portals.elsewhere)
                .open(name, statement, *options, node),
            Utility::Close(Some(name)) => {
                self.portals.elsewhere.0.remove(name);
                if let Some(of_block) = of_block {
                    of_block.0.remove(name);
                }
            }
            Utility::Close(None) => {
                if let Some(of_block) = of_block {
                    of_block.0.clear();
                }
                self.portals.close_all(current.portal());
                self.close_held_elsewhere(partition);
            }
            _ => {}
        }
    }

    /// CLOSE ALL: what has outlasted its transaction on other nodes goes there, too. That is not waited for: whatever a node is asked next
    /// comes behind it, and one that cannot be reached keeps nothing for the session.
    pub(super) fn close_held_elsewhere(&mut self, partition: &Partition) {
        let nodes = self.portals.elsewhere.take_nodes();
        let Some(desk) = &partition.grid else { return };
        // Where the block runs, it has closed them itself.
        let of_block = self.away.as_ref().map(Away::node);
        for node in nodes.into_iter().filter(|node| Some(*node) != of_block) {
            let call = Call {
                only_reads: true,
                ..self.unheard_call(Run::Text("CLOSE ALL".to_owned()))
            };
            // See above.
            let _ = desk.call(self.id, node, call);
        }
    }

    /// The node that has the cursor that a statement reads or closes, if that has outlasted its transaction there.
    pub(super) fn node_of_held(&self, statement: &Statement) -> Option<NodeId> {
        let Statement::Utility(utility) = statement else {
            return None;
        };
        match &**utility {
            Utility::Fetch { name, .. } | Utility::Close(Some(name)) => Some(self.portals.elsewhere.0.get(name)?.node),
            _ => None,
        }
    }

    /// The query of a cursor that is elsewhere, one of the block under way or one that has outlasted its own, and how it gives its values.
    pub(super) fn cursor_elsewhere(&self, name: &str) -> Option<(&Statement, Formats)> {
        let of_block = self.away.as_ref().and_then(|away| away.cursors.get(name));
        of_block.or_else(|| self.portals.elsewhere.get(name))
    }

    /// A savepoint was set, released or gone back to where the transaction runs: what it tells goes back as well, and settings.
    pub(super) fn follow_savepoint(&mut self, statement: &Statement, responder: &mut dyn Responder) {
        let Statement::Utility(utility) = statement else { return };
        let (told, settings) = (self.channels.actions().len(), self.settings.mark());
        let Some(marks) = self.away.as_mut().map(|away| &mut away.marks) else {
            return;
        };
        match &**utility {
            Utility::Savepoint(name) => marks.0.push(MarkAway {
                name: name.clone(),
                told,
                settings,
            }),
            Utility::Release(name) => {
                if let Some(at) = marks.position(name) {
                    marks.0.truncate(at);
                }
            }
            Utility::RollbackTo(name) => {
                let Some(at) = marks.position(name) else { return };
                marks.0.truncate(at + 1);
                let (told, settings) = (marks.0[at].told, marks.0[at].settings);
                self.channels.truncate(told);
                let reports = self.settings.roll_back_to(settings);
                self.after_settings(reports, responder);
            }
            _ => {}
        }
    }

    /// Functions have set something where the statement ran: that is the session's wherever its next one runs.
    pub(super) fn follow_settings(&mut self, set: &[(String, String, bool)], responder: &mut dyn Responder) {
        if set.is_empty() {
            return;
        }
        let has_ended = self.block == Block::None && self.away.is_none();
        for (name, value, local) in set.iter().filter(|(_, _, local)| !(*local && has_ended)) {
            // It was checked there.
            let _ = self.settings.set_within(name, value, *local);
        }
        let mut reports = self.settings.take_untold();
        if has_ended {
            reports.extend(self.settings.end_transaction(true));
        }
        self.after_settings(reports, responder);
    }

    /// Whether the statement does no more than to set something of the session, whose transaction runs elsewhere: its settings are here,
    /// and go along with what it runs there.
    pub(super) fn sets_its_own(&self, partition: &Partition) -> bool {
        let (Some(desk), Some(current), Some(away)) = (&partition.grid, &self.current, &self.away) else {
            return false;
        };
        match &current.statement {
            Statement::Planned(plan) if !away.waits() && sets_only(&current.statement) => {
                matches!(desk.home_of(plan, &current.parameters), Ok(Home::Anywhere))
            }
            _ => false,
        }
    }

    /// Such a statement has ended: so has what it ran in here.
    pub(super) fn end_what_set_its_own(&mut self, partition: &mut Partition) {
        if self.away.is_some()
            && let Some(own) = self.transaction.take()
        {
            partition.database.rollback(own.id);
        }
    }
}

/// Whether a utility is about the transaction and its rows, which can be reached from everywhere.
pub(super) fn runs_anywhere(utility: &Utility) -> bool {
    matches!(
        utility,
        Utility::Savepoint(_)
            | Utility::Release(_)
            | Utility::RollbackTo(_)
            | Utility::SetConstraints { .. }
            | Utility::Declare { .. }
            | Utility::Fetch { .. }
            | Utility::Close(_)
            | Utility::Explain { .. }
            | Utility::OnRelations { .. }
            | Utility::Notify { .. }
    )
}

/// Whether a statement belongs to the transaction, and so runs where that runs. The others are about the client's own words.
pub(super) fn goes_along(statement: &Statement) -> bool {
    let Statement::Utility(utility) = statement else {
        return !matches!(statement, Statement::Empty);
    };
    !matches!(
        **utility,
        Utility::Begin(_)
            | Utility::Commit { .. }
            | Utility::Rollback { .. }
            | Utility::SetTransaction { .. }
            | Utility::Set { .. }
            | Utility::Show(_)
            | Utility::Reset(_)
            | Utility::Prepare { .. }
            | Utility::Execute { .. }
            | Utility::Deallocate(_)
            | Utility::Discard(Discarded::All | Discarded::Plans | Discarded::Sequences)
            | Utility::Listen(_)
            | Utility::Unlisten(_)
            | Utility::Notify { .. }
            | Utility::Checkpoint
    )
}
