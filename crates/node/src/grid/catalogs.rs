//! How a node comes to have the catalogs of its grid (see [`rubato_grid::catalogs`]).
//!
//! The *keeper* is the only node that changes them. It has the version of each change agreed on before it answers whoever made it, and
//! every answer with ticks tells the version that is agreed on. A node takes no tick before it has catalogs of that version, from the
//! keeper or from any other node: so whatever begins there begins with every schema change that was acknowledged before (rule T-6).

use super::GridMessage;
use super::state::GridState;
use crate::attached::{all_of, changed_tables, leave, redefined_storage, tables, with_newer};
use crate::checkpoint::with_attached;
use crate::node::Shared;
use rubato_base::{Lsn, NodeId, Result, TableId, Timestamp, TransactionId};
use rubato_grid::agreement::AgreementMessage;
use rubato_grid::catalogs::CatalogMessage;
use rubato_protocol::grid::{Body, ClientEvent, Ending, Message, Reply, TimestampStage, Told};
use rubato_protocol::{CommitRecord, EndedDefinition};
use rubato_sql::databases::{DatabaseId, Databases, Heard};
use rubato_sql::partition::{Attachment, Partition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Operations that wait for catalogs, at most: the others come again by themselves.
const DEFERRED_MAX: usize = 256;

/// Rounds of the clock in which answers wait for other nodes to have what they tell of: a node that takes longer finds it when it
/// begins a transaction, but may not know the names in a text before.
const PATIENCE_ROUNDS: u32 = 20;

/// Changes in one life of the keeper are counted below this bit, its lives above.
pub(super) const LIFE_SHIFT: u32 = 32;

/// What a node has told, or heard, of catalogs.
pub(super) struct Catalogs {
    /// The keeper's: what it has now, the log position behind its commit, and whether that is not agreed on yet.
    told: Option<Arc<Databases>>,
    told_lsn: Lsn,
    changes: u64,
    is_telling: bool,
    /// Whether the leader is to be told now.
    wish_is_due: bool,
    /// Answers wait while something is not agreed on, or not known to the nodes that are heard of.
    held: Arc<AtomicBool>,
    /// The definition that all nodes have agreed to commit, until it is carried out here: there is a version to tell of only then.
    decided: Option<TransactionId>,
    known: BTreeMap<NodeId, u64>,
    held_rounds: u32,
    /// Another node's: the version that it has, until when others may have begun without it, and the version that there is at least.
    version: u64,
    last_tick: Timestamp,
    wanted: u64,
    /// Definitions that branches here have committed, and that the keeper has not told of yet.
    untold: Vec<Untold>,
    /// What was asked of tables that this node has not heard of, or not all of; and whether others were asked since the last round.
    pub(super) deferred: Vec<(NodeId, Message)>,
    has_asked: bool,
}

/// A definition that is known before the keeper tells when the last transaction began that may know the tables as they were.
struct Untold {
    database: DatabaseId,
    /// Of its catalog.
    version: u64,
    tables: Vec<TableId>,
}

impl Catalogs {
    /// A node begins with what its log says that it has heard; with nothing, if it has something that was not told.
    pub(super) fn new(held: Arc<AtomicBool>, databases: &Databases) -> Catalogs {
        let heard = databases.heard_of_all();
        Catalogs {
            told: None,
            told_lsn: Lsn(0),
            changes: 0,
            is_telling: false,
            wish_is_due: false,
            held,
            decided: None,
            known: BTreeMap::new(),
            held_rounds: 0,
            version: heard.map_or(0, |heard| heard.version),
            last_tick: heard.map_or(Timestamp::ZERO, |heard| heard.last_tick),
            wanted: 0,
            untold: Vec::new(),
            deferred: Vec::new(),
            has_asked: false,
        }
    }

    /// Rule T-6: there is this version, so that none before it will do.
    pub(super) fn want(&mut self, version: u64) {
        self.wanted = self.wanted.max(version);
    }

    /// Nothing that the keeper says of transactions may leave before its log is forced up to here: it could overtake a catalog.
    pub(super) fn told_lsn(&self) -> Lsn {
        self.told_lsn
    }

    /// Whether a node that knows the table as it was may come to write to it, and cannot be told from others yet.
    pub(super) fn is_untold(&self, table: TableId) -> bool {
        self.untold.iter().any(|own| own.tables.contains(&table))
    }
}

impl GridState {
    pub(super) fn keeps_catalogs(&self) -> bool {
        self.settings.keeper == Some(self.settings.id)
    }

    /// Whether ticks may be taken: not while a catalog is known to be missing, nor while one is here that is not agreed on.
    pub(super) fn has_catalogs(&self) -> bool {
        let catalogs = &self.catalogs;
        let Some(keeper) = self.settings.keeper.filter(|_| self.settings.nodes.len() > 1) else {
            return true;
        };
        if self.keeps_catalogs() {
            return !catalogs.is_telling && !catalogs.held.load(Ordering::Acquire);
        }
        // Where the keeper is gone nobody can tell when: whoever begins may be refused by others.
        let is_agreed = catalogs.untold.is_empty() || !self.calls.is_up(keeper);
        catalogs.version > 0 && catalogs.version >= catalogs.wanted && is_agreed
    }

    /// Rule T-6: whether a tick that comes with this version of the catalogs may be taken. Not if newer ones are here already: others
    /// would take whoever begins at it for one who has not heard of them.
    pub(super) fn knows_catalogs(&mut self, version: u64) -> bool {
        self.catalogs.want(version);
        let is_early = self.settings.keeper.is_some() && self.settings.nodes.len() > 1 && version < self.own_version();
        self.has_catalogs() && !is_early
    }

    /// Ticks that were refused for want of catalogs are asked for again now.
    fn ask_for_ticks_again(&mut self) {
        if let Some(again) = self.asker.ask_again() {
            self.send_to_stage(again);
        }
    }

    /// An operation on a table of which this node has not heard all: it is done when it has. Whoever asked is told that it waits,
    /// if that is certain to end.
    pub(super) fn defer(&mut self, from: NodeId, message: Message) {
        let keeper = self.settings.keeper;
        if keeper.is_some_and(|keeper| self.calls.is_up(keeper)) && !self.has_catalogs() {
            let waits = Message {
                transaction: message.transaction,
                body: Body::Reply(Reply::Waits),
            };
            self.send(from, GridMessage::Transaction(waits), Lsn(0));
        }
        let deferred = &mut self.catalogs.deferred;
        match deferred.len() < DEFERRED_MAX && !deferred.iter().any(|(_, known)| *known == message) {
            true => deferred.push((from, message)),
            false => self.refused += 1,
        }
        if !std::mem::replace(&mut self.catalogs.has_asked, true) {
            self.ask_all_for_catalogs();
        }
    }

    /// Catalogs have changed: goes on with what has waited for that.
    fn go_on_with_catalogs(&mut self, partition: &mut Partition, shared: &Shared) {
        for (from, message) in std::mem::take(&mut self.catalogs.deferred) {
            self.deliver(partition, shared, from, GridMessage::Transaction(message));
        }
        self.ask_for_ticks_again();
    }

    /// The keeper: takes note of what has changed, and holds its answers until that is agreed on.
    pub(super) fn tell_catalogs(&mut self, partition: &Partition, appended: Lsn) {
        let is_told = |told: &Arc<Databases>| Arc::ptr_eq(told, &partition.databases);
        if !self.keeps_catalogs() || self.catalogs.told.as_ref().is_some_and(is_told) {
            return;
        }
        let catalogs = &mut self.catalogs;
        catalogs.told = Some(Arc::clone(&partition.databases));
        catalogs.told_lsn = appended;
        catalogs.changes += 1;
        (catalogs.is_telling, catalogs.wish_is_due) = (true, true);
        catalogs.held_rounds = 0;
        if self.settings.nodes.len() > 1 {
            self.renew_ticks();
            self.hold_until_told();
        }
    }

    /// The keeper: answers wait for what it has told to be agreed on. Not before this life has its first tick, though: until then nothing is
    /// done for clients, and without most of the voters they are to be told so.
    pub(super) fn hold_until_told(&mut self) {
        let is_born = self.participant.is_some();
        let version = self.told_version();
        let is_agreed = self.agreed_catalogs().is_some_and(|(agreed, _)| agreed >= version);
        if is_born && self.keeps_catalogs() && self.settings.nodes.len() > 1 && !is_agreed {
            self.catalogs.held.store(true, Ordering::Release);
        }
    }

    /// The keeper: has the version agreed on, and tells the others when it is.
    pub(super) fn agree_on_catalogs(&mut self, partition: &mut Partition, shared: &Shared) {
        if !self.keeps_catalogs() {
            return self.release_what_is_told(shared);
        }
        if self.settings.nodes.len() == 1 {
            return;
        }
        let version = self.told_version();
        if self.agreed_catalogs().is_none_or(|(agreed, _)| agreed < version) {
            if !self.agreement.agreement.want_catalogs(version) && self.catalogs.wish_is_due {
                self.catalogs.wish_is_due = false;
                let (leader, told_lsn) = (self.leader(), self.catalogs.told_lsn);
                if let Some(leader) = leader {
                    let wish = GridMessage::Agreement(AgreementMessage::Catalogs(version));
                    self.send(leader, wish, told_lsn);
                }
            }
            return;
        }
        if std::mem::take(&mut self.catalogs.is_telling) {
            partition.database.settle_definitions_changed(self.last_tick_before());
            let own = self.settings.id;
            for node in self.settings.nodes.clone() {
                if node != own && self.calls.is_up(node) {
                    self.tell_all_to(node, partition);
                }
            }
        }
        let is_held = self.catalogs.held.load(Ordering::Acquire) && self.catalogs.decided.is_none();
        if is_held && (self.is_known_everywhere(version) || self.catalogs.held_rounds > PATIENCE_ROUNDS) {
            shared.release_answers();
            self.ask_for_ticks_again();
        }
    }

    /// Another node: what its sessions have done behind a definition that it has carried out, and of which the keeper has not told, may be
    /// answered when it has. Until then others begin without it, and would not find what was acknowledged (promise 1). Where the keeper is
    /// gone nobody can tell when.
    fn release_what_is_told(&self, shared: &Shared) {
        let is_gone = || self.settings.keeper.is_none_or(|keeper| !self.calls.is_up(keeper));
        if self.catalogs.held.load(Ordering::Acquire) && (self.catalogs.untold.is_empty() || is_gone()) {
            shared.release_answers();
        }
    }

    /// The keeper: answers are held from the decision to commit a definition on. It is carried out when the log says that it is decided,
    /// and that is when the session that has made it may answer, too: whichever of the two comes first.
    pub(super) fn hold_for_decided(&mut self, events: &[ClientEvent], partition: &Partition) {
        if !self.holds_for_others.load(Ordering::Acquire) {
            return;
        }
        for event in events {
            let committed = matches!(event.told, Told::Ended(Ending::Committed(_)));
            let transaction = self.far.transaction_of(event.transaction).filter(|_| committed);
            if let Some(transaction) = transaction.filter(|own| partition.schema_changes.is_committing_of(*own)) {
                self.catalogs.decided = Some(transaction);
                self.catalogs.held.store(true, Ordering::Release);
            }
        }
    }

    /// Whether the nodes that are heard of have said that they have the version.
    fn is_known_everywhere(&self, version: u64) -> bool {
        let own = self.settings.id;
        let others = self.settings.nodes.iter().filter(|node| **node != own);
        let mut reached = others.filter(|node| self.calls.is_up(**node));
        reached.all(|node| self.catalogs.known.get(node).is_some_and(|known| *known >= version))
    }

    /// Whether all that this node has told of catalogs is agreed on, and known to another one.
    pub(super) fn is_known_to(&self, node: NodeId) -> bool {
        let told = self.told_version();
        let is_agreed = self.agreed_catalogs().is_some_and(|(agreed, _)| agreed >= told);
        let is_known = self.catalogs.known.get(&node).is_some_and(|known| *known >= told);
        is_agreed && is_known && !self.catalogs.is_telling && !self.catalogs.held.load(Ordering::Acquire)
    }

    /// The keeper keeps nothing any more: it has the catalogs as it has told them last.
    pub(super) fn stop_keeping(&mut self) {
        let (version, last_tick) = (self.told_version(), self.last_tick_before());
        let catalogs = &mut self.catalogs;
        (catalogs.version, catalogs.last_tick) = (version, last_tick);
        (catalogs.told, catalogs.is_telling) = (None, false);
    }

    /// This node is the keeper from now on: what it has is told anew, as a version of its own.
    pub(super) fn begin_keeping(&mut self) {
        let catalogs = &mut self.catalogs;
        catalogs.told = None;
        catalogs.known.clear();
        catalogs.untold.clear();
    }

    fn agreed_catalogs(&self) -> Option<(u64, Timestamp)> {
        let agreed = self.agreement.agreement.agreed();
        agreed.map(|agreed| (agreed.catalogs, agreed.catalogs_tick))
    }

    /// Until when others may have begun without the catalogs that are agreed on.
    pub(super) fn last_tick_before(&self) -> Timestamp {
        self.agreed_catalogs().map_or(Timestamp::ZERO, |(_, tick)| tick)
    }

    /// The version that this node can tell others of.
    fn own_version(&self) -> u64 {
        match self.keeps_catalogs() {
            true if self.catalogs.is_telling => 0,
            true => self.told_version(),
            false => self.catalogs.version,
        }
    }

    fn told_version(&self) -> u64 {
        self.handing.version_base + (self.standing.life << LIFE_SHIFT) + self.catalogs.changes
    }

    fn tell_all_to(&mut self, node: NodeId, partition: &Partition) {
        let message = CatalogMessage::All {
            version: self.own_version(),
            last_tick: match self.keeps_catalogs() {
                true => self.last_tick_before(),
                false => self.catalogs.last_tick,
            },
            content: all_of(&partition.databases).encode(),
        };
        self.say_of_catalogs(node, message);
    }

    fn say_of_catalogs(&mut self, node: NodeId, message: CatalogMessage) {
        let durable_at = self.catalogs.told_lsn;
        self.outgoing
            .push_anyway(durable_at, (node, GridMessage::Catalog(message)));
    }

    /// A channel to another node stands, or one may have what is missing here: asks what it has.
    pub(super) fn ask_for_catalogs(&mut self, node: NodeId) {
        if self.settings.keeper.is_some() && !self.keeps_catalogs() {
            self.say_of_catalogs(node, CatalogMessage::Have(self.catalogs.version));
        }
    }

    /// If something is missing, asks all that can be reached; the keeper asks the leader again.
    pub(super) fn look_for_catalogs(&mut self) {
        self.catalogs.wish_is_due = true;
        if !self.has_catalogs() {
            self.ask_all_for_catalogs();
        }
    }

    /// What is deferred for longer than a round comes again.
    pub(super) fn on_round_of_catalogs(&mut self) {
        self.catalogs.has_asked = false;
        self.catalogs.held_rounds = self.catalogs.held_rounds.saturating_add(1);
        self.end_deferred();
        self.look_for_catalogs();
    }

    fn ask_all_for_catalogs(&mut self) {
        let own = self.settings.id;
        for node in self.settings.nodes.clone() {
            if node != own && self.calls.is_up(node) {
                self.ask_for_catalogs(node);
            }
        }
    }

    /// Takes in what another node says of catalogs.
    pub(super) fn on_catalogs(
        &mut self,
        partition: &mut Partition,
        shared: &Shared,
        from: NodeId,
        message: CatalogMessage,
    ) {
        match message {
            CatalogMessage::Have(version) if self.settings.keeper.is_some() => {
                self.catalogs.known.insert(from, version);
                if version < self.own_version() {
                    self.tell_all_to(from, partition);
                }
            }
            CatalogMessage::All {
                version,
                last_tick,
                content,
            } if self.settings.keeper.is_some() && !self.keeps_catalogs() && version > self.catalogs.version => {
                // A log that cannot take them is tried again: see `GridState::on_round`.
                let taken = Attachment::decode(&content).and_then(|mut told| {
                    // Who it is said to be is that when it was handed over to it: with the numbers of sequences.
                    told.keeping.take_if(|keeping| keeping.node == self.settings.id);
                    self.take_over(partition, shared, (Some(version), last_tick), told)
                });
                if taken.is_ok() {
                    (self.catalogs.version, self.catalogs.last_tick) = (version, last_tick);
                    self.say_of_catalogs(from, CatalogMessage::Have(version));
                    self.go_on_with_catalogs(partition, shared);
                }
            }
            // Somebody else has told them before: who tells them is to know, too.
            CatalogMessage::All { .. } if self.settings.keeper == Some(from) => {
                self.say_of_catalogs(from, CatalogMessage::Have(self.catalogs.version));
            }
            // It is told again until this one has heard of all nodes, and would not give a number twice.
            CatalogMessage::HandOver { last_node, .. } if last_node > self.settings.last => {}
            CatalogMessage::HandOver { last_tick, content, .. } if self.settings.keeper.is_some() => {
                self.on_hand_over(partition, shared, from, (last_tick, &content));
            }
            CatalogMessage::TakenOver(number) => self.on_taken_over(number),
            CatalogMessage::Have(_) | CatalogMessage::All { .. } | CatalogMessage::HandOver { .. } => self.refused += 1,
        }
    }

    /// Makes the catalogs of the keeper those of this node, in its log too, but for those of which it has newer ones by a branch. A keeper
    /// that comes to be one has none to hear a version from.
    pub(super) fn take_over(
        &mut self,
        partition: &mut Partition,
        shared: &Shared,
        (version, last_tick): (Option<u64>, Timestamp),
        mut told: Attachment,
    ) -> Result<()> {
        // The decision of a change may have come with the same frame. Its definitions are to be known by its place, which nobody notes who
        // finds them here already.
        while self.end_definitions(partition, shared) {}
        let versions = told.catalogs.iter().map(|(database, own)| (*database, own.version));
        let versions: BTreeMap<DatabaseId, u64> = versions.collect();
        told.heard = version.map(|version| Heard {
            version,
            last_tick,
            catalogs: versions
                .iter()
                .map(|(database, version)| (*database, *version))
                .collect(),
        });
        told.catalogs
            .retain(|(database, own)| partition.databases.catalog(*database).version <= own.version);
        let content = told.encode();
        let databases = with_attached(&partition.databases, told.databases, told.catalogs, told.keeping);
        let databases = databases.with_heard(told.heard);
        let appended = partition.log.append(&CommitRecord {
            cts: Timestamp::ZERO,
            changes: &(),
            attachment: Some(&content),
        })?;
        partition.database.note_log_position(appended);
        // The decision of the change may come later than what the keeper tells of it, and changes nothing here then.
        let (floor, redefined) = match partition.database.prepared_change() {
            Some(floor) => (floor, redefined_storage(&partition.databases, &databases)),
            None => (last_tick, Vec::new()),
        };
        let mut changed = change_to(Arc::new(databases), (None, last_tick), partition, shared);
        for storage in redefined {
            partition.database.note_redefined(storage, floor, last_tick);
        }
        self.renew_ticks();
        let is_told = |own: &mut Untold| versions.get(&own.database).is_none_or(|told| *told >= own.version);
        let now_told = self.catalogs.untold.extract_if(.., is_told);
        changed.extend(now_told.flat_map(|own| own.tables));
        for table in changed {
            partition.database.settle_definition_changed(table, last_tick);
        }
        if self.catalogs.untold.is_empty() {
            partition.database.settle_redefined(last_tick);
        }
        if let Some(followed) = self.follow_keeper(&partition.databases) {
            partition.keeper_is_another(followed);
            self.tell_catalogs(partition, Lsn(shared.forcer.appended_lsn().0));
        }
        Ok(())
    }

    /// Carries out what branches have done to definitions that have ended, or takes it back.
    /// False if there were none.
    pub(super) fn end_definitions(&mut self, partition: &mut Partition, shared: &Shared) -> bool {
        let ended = partition.database.take_ended_definitions();
        ended
            .iter()
            .for_each(|ended| self.end_definition(partition, shared, ended));
        !ended.is_empty()
    }

    fn end_definition(&mut self, partition: &mut Partition, shared: &Shared, ended: &EndedDefinition) {
        let EndedDefinition {
            transaction,
            committed_at,
            definition,
        } = ended;
        let committing = partition.schema_changes.take_committing(*transaction);
        self.catalogs.decided.take_if(|decided| decided == transaction);
        let attached = definition.attachment.as_deref().map(Attachment::decode);
        if let Some(outcomes) = attached.and_then(|own| own.ok()?.outcomes) {
            let appended = Lsn(shared.forcer.appended_lsn().0);
            partition
                .sequences
                .outcomes
                .settle(&outcomes, committed_at.is_some(), appended);
        }
        let place = committed_at.unwrap_or_default();
        let content = definition.attachment.as_deref().filter(|_| committed_at.is_some());
        let databases = match (content, committing) {
            (None, _) => None,
            (Some(_), Some(committing)) => Some(Arc::new(committing.installed(partition))),
            // It was read when it was attached, or read back.
            (Some(content), None) => {
                let newer = with_newer(&partition.databases, content).ok().flatten();
                newer.map(|(databases, _)| Arc::new(databases))
            }
        };
        if let (Some(databases), Some(content)) = (databases, content) {
            let redefined = redefined_storage(&partition.databases, &databases);
            let changed = change_to(databases, (Some(*transaction), place), partition, shared);
            for storage in redefined {
                partition.database.note_redefined(storage, place, self.last_tick());
            }
            self.renew_ticks();
            if self.keeps_catalogs() {
                let last_tick = self.last_tick();
                for table in changed {
                    partition.database.note_definition_changed(table, last_tick);
                }
                // Before anybody hears of the commit, or begins behind it.
                self.tell_catalogs(partition, Lsn(shared.forcer.appended_lsn().0));
            } else if let Ok(attached) = Attachment::decode(content) {
                let tables: Vec<TableId> = changed.into_iter().collect();
                // Who has waited for the change here began before it. What comes later waits until it is told of.
                for table in &tables {
                    partition.database.note_definition_changed(*table, Timestamp::MAX);
                }
                let untold = attached.catalogs.into_iter().map(|(database, own)| Untold {
                    database,
                    version: own.version,
                    tables: tables.clone(),
                });
                self.catalogs.untold.extend(untold);
                self.catalogs.held.store(true, Ordering::Release);
            }
        }
        leave(&mut partition.database, &partition.databases, definition);
        partition.schema_changes.end(*transaction);
    }

    /// The last tick at which somebody may begin with the keeper's catalogs as they are: known when the next version is agreed on.
    pub(super) fn last_tick(&self) -> Timestamp {
        match self.settings.nodes.len() {
            1 => self.stage.as_ref().map_or(Timestamp::ZERO, TimestampStage::last_tick),
            _ => Timestamp::MAX,
        }
    }
}

/// Makes these the databases of the node, as the transaction has them that has ended, and committed at `place`; or as the keeper has told of them:
/// then whoever knows them has begun above `place`, and nobody can tell for whom storage that they do not have is still right. Gives the tables
/// that have changed.
fn change_to(
    databases: Arc<Databases>,
    (ended, place): (Option<TransactionId>, Timestamp),
    partition: &mut Partition,
    shared: &Shared,
) -> BTreeSet<TableId> {
    let changed = changed_tables(&partition.databases, &databases);
    let before: BTreeSet<TableId> = partition.databases.storage().into_iter().collect();
    let after: BTreeSet<TableId> = databases.storage().into_iter().collect();
    for new in after.difference(&before) {
        // A branch that is about to commit may have made it.
        partition.database.create_table(*new);
        partition.database.publish_table_above(*new, place);
        shared.stored.lock().insert(*new);
    }
    let lengthened = in_change(ended, partition);
    for table in tables(&databases) {
        if !lengthened.contains(&table.id) && !partition.database.is_lengthened(table.id) {
            partition.database.set_tail(table.id, table.tail());
        }
    }
    partition.next_storage_id = partition.next_storage_id.max(databases.next_id());
    partition.set_databases(databases);
    let replaced_at = ended.map_or(Timestamp::ZERO, |_| place);
    for gone in before.difference(&after) {
        partition.database.note_replaced(*gone, replaced_at);
    }
    partition.drop_storage(before.difference(&after).copied());
    changed
}

/// The storage of tables whose definitions open transactions of this node's sessions change, but for the one that has ended: what their rows
/// lack is what these transactions say.
fn in_change(ended: Option<TransactionId>, partition: &Partition) -> BTreeSet<TableId> {
    let changing = partition.schema_changes.of_others(ended);
    let storage = changing.filter_map(|(database, name)| partition.databases.catalog(database).tables.get(name));
    storage.map(|table| table.id).collect()
}
