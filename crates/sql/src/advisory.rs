//! Advisory locks, names that sessions agree upon, and locks of tables, which `LOCK TABLE` and changes of definitions take: held by a session or
//! up to the end of its transaction.
//!
//! They have nothing to do with rows, and are not in the log: after a restart nobody holds any.
//!
//! Invariants:
//! - Two sessions hold a lock at once only if their modes do not exclude each other ([`LockMode::excludes`]).
//! - Who waits is served in order of arrival; whoever may go on is named by [`AdvisoryLocks::take_woken`].

use crate::databases::DatabaseId;
use rubato_base::{Error, Result, SessionId, SqlState};
use rubato_formula::{AdvisoryKey, AdvisoryRequest, AdvisoryScope};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Locked {
    /// A name that sessions agree upon.
    Key(AdvisoryKey),
    /// A relation, by its number in the catalog.
    Relation(u32),
}

impl Locked {
    /// The mode that excludes all that is asked for of it.
    fn alone(self) -> LockMode {
        match self {
            Locked::Key(_) => LockMode::Exclusive,
            Locked::Relation(_) => LockMode::AccessExclusive,
        }
    }
}

/// A lock: a name means something within a database.
pub type LockName = (DatabaseId, Locked);

/// How something is locked: the modes of PostgreSQL. Advisory locks are `Share` and `Exclusive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs)]
pub enum LockMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

impl LockMode {
    /// Whether two sessions may not have these at once: the table of "Table-Level Lock Modes" in PostgreSQL's manual.
    pub fn excludes(self, other: LockMode) -> bool {
        use LockMode::*;
        let (weaker, stronger) = (self.min(other), self.max(other));
        match weaker {
            AccessShare => stronger == AccessExclusive,
            RowShare => stronger >= Exclusive,
            RowExclusive => stronger >= Share,
            ShareUpdateExclusive => true,
            Share => stronger != Share,
            ShareRowExclusive | Exclusive | AccessExclusive => true,
        }
    }

    /// Of an advisory lock.
    fn of_key(shared: bool) -> LockMode {
        if shared { LockMode::Share } else { LockMode::Exclusive }
    }

    /// As `pg_locks` has it.
    pub fn name(self) -> &'static str {
        match self {
            LockMode::AccessShare => "AccessShareLock",
            LockMode::RowShare => "RowShareLock",
            LockMode::RowExclusive => "RowExclusiveLock",
            LockMode::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            LockMode::Share => "ShareLock",
            LockMode::ShareRowExclusive => "ShareRowExclusiveLock",
            LockMode::Exclusive => "ExclusiveLock",
            LockMode::AccessExclusive => "AccessExclusiveLock",
        }
    }
}

/// Locks that may be held or waited for at once, by all sessions together.
const LOCKS_MAX: usize = 100_000;

/// How often a session holds a lock.
#[derive(Debug)]
struct Holder {
    session: SessionId,
    mode: LockMode,
    scope: AdvisoryScope,
    count: u64,
    /// When it came to hold it, in holds taken by anybody.
    since: u64,
}

#[derive(Debug, Default)]
struct Lock {
    holders: Vec<Holder>,
    /// Who waits, and how they want it.
    queue: VecDeque<(SessionId, LockMode)>,
}

impl Lock {
    /// Whether `session` may have it now, as far as those who hold it are concerned.
    fn is_free_for(&self, session: SessionId, mode: LockMode) -> bool {
        let mut others = self.holders.iter().filter(|holder| holder.session != session);
        others.all(|holder| !holder.mode.excludes(mode))
    }

    /// Whether someone waits in front of `session` whose lock excludes this one.
    fn is_behind_others(&self, session: SessionId, mode: LockMode) -> bool {
        let before = self.queue.iter().take_while(|(waiter, _)| *waiter != session);
        before.into_iter().any(|(_, other)| other.excludes(mode))
    }

    fn is_waited_for_by(&self, session: SessionId) -> bool {
        self.queue.iter().any(|(waiter, _)| *waiter == session)
    }

    fn is_held_by(&self, session: SessionId) -> bool {
        self.holders.iter().any(|holder| holder.session == session)
    }

    fn may_have(&self, session: SessionId, mode: LockMode) -> bool {
        self.is_free_for(session, mode) && (self.is_held_by(session) || !self.is_behind_others(session, mode))
    }
}

/// The advisory locks of a partition.
#[derive(Debug, Default)]
pub struct AdvisoryLocks {
    locks: BTreeMap<LockName, Lock>,
    /// What each session holds or waits for.
    of_session: BTreeMap<SessionId, BTreeSet<LockName>>,
    /// Who waits, and for what.
    waiting: BTreeMap<SessionId, BTreeSet<LockName>>,
    /// Whether others hold locks, or wait for them, than when that was looked at last.
    has_changed: bool,
    woken: Vec<SessionId>,
    /// How many holds have been taken.
    taken: u64,
}

impl AdvisoryLocks {
    /// Whether nobody holds one, or waits for one.
    pub(crate) fn is_empty(&self) -> bool {
        self.of_session.is_empty()
    }

    /// Takes an advisory lock, as [`AdvisoryLocks::take`] does.
    pub fn lock(&mut self, session: SessionId, database: DatabaseId, request: AdvisoryRequest) -> Result<bool> {
        let name = (database, Locked::Key(request.key));
        let how = (LockMode::of_key(request.shared), request.scope);
        self.take(session, name, how, request.waits)
    }

    /// Takes a lock: `false` if others hold it. Who wants to wait then waits in its queue, and asks again when woken. 40P01 if
    /// those who wait would wait for one another.
    pub fn take(
        &mut self,
        session: SessionId,
        name: LockName,
        (mode, scope): (LockMode, AdvisoryScope),
        waits: bool,
    ) -> Result<bool> {
        if self.locks.len() >= LOCKS_MAX && !self.locks.contains_key(&name) {
            let error = Error::new(SqlState::OUT_OF_MEMORY, "too many advisory locks are held");
            return Err(error.with_hint("Release locks that are no longer needed."));
        }
        let lock = self.locks.entry(name).or_default();
        if lock.may_have(session, mode) {
            let has_waited = lock.is_waited_for_by(session);
            lock.queue.retain(|(waiter, _)| *waiter != session);
            let held = lock
                .holders
                .iter_mut()
                .find(|holder| holder.session == session && holder.mode == mode && holder.scope == scope);
            match held {
                Some(holder) => holder.count += 1,
                None => {
                    self.taken += 1;
                    lock.holders.push(Holder {
                        session,
                        mode,
                        scope,
                        count: 1,
                        since: self.taken,
                    });
                }
            }
            self.of_session.entry(session).or_default().insert(name);
            if has_waited {
                self.waits_no_longer(session, &name);
            }
            return Ok(true);
        }
        if waits {
            if !lock.is_waited_for_by(session) {
                lock.queue.push_back((session, mode));
                self.waiting.entry(session).or_default().insert(name);
                self.has_changed = true;
            }
            self.of_session.entry(session).or_default().insert(name);
            if self.waits_for_itself(session) {
                self.stop_waiting(session);
                return Err(Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected"));
            }
        }
        Ok(false)
    }

    /// Gives one hold of a session's lock back; `false` if it has none.
    pub fn unlock(
        &mut self,
        session: SessionId,
        (database, key): (DatabaseId, AdvisoryKey),
        shared: bool,
        scope: AdvisoryScope,
    ) -> bool {
        let (key, mode) = ((database, Locked::Key(key)), LockMode::of_key(shared));
        let Some(lock) = self.locks.get_mut(&key) else {
            return false;
        };
        let found = lock
            .holders
            .iter()
            .position(|holder| holder.session == session && holder.mode == mode && holder.scope == scope);
        let Some(place) = found else { return false };
        lock.holders[place].count -= 1;
        if lock.holders[place].count == 0 {
            lock.holders.remove(place);
            self.settle(session, key);
        }
        true
    }

    /// Whether the session has one beyond its transaction.
    pub fn are_kept_by(&self, session: SessionId) -> bool {
        let is_kept = |holder: &Holder| holder.session == session && holder.scope == AdvisoryScope::Session;
        let mut names = self.of_session.get(&session).into_iter().flatten();
        names.any(|name| { self.locks.get(name) }.is_some_and(|lock| lock.holders.iter().any(is_kept)))
    }

    /// For a savepoint: what [`AdvisoryLocks::roll_back_to`] takes.
    pub fn mark(&self) -> u64 {
        self.taken
    }

    /// The session's transaction goes back to a savepoint: locks that it took for itself since then are free again; those that the
    /// session took stay, as they do when the transaction ends.
    pub fn roll_back_to(&mut self, session: SessionId, mark: u64) {
        self.release(session, |holder| {
            holder.scope == AdvisoryScope::Transaction && holder.since > mark
        });
    }

    /// The session's transaction has ended.
    pub fn end_transaction(&mut self, session: SessionId) {
        self.release(session, |holder| holder.scope == AdvisoryScope::Transaction);
    }

    /// `pg_advisory_unlock_all`.
    pub fn unlock_all(&mut self, session: SessionId) {
        self.release(session, |holder| holder.scope == AdvisoryScope::Session);
    }

    /// The session has ended.
    pub fn leave(&mut self, session: SessionId) {
        self.stop_waiting(session);
        self.release(session, |_| true);
    }

    /// The session waits no longer.
    pub fn stop_waiting(&mut self, session: SessionId) {
        self.stop_waiting_but(session, None);
    }

    /// The session waits for no lock but this one: what it asks for may mean another one by now.
    pub fn stop_waiting_but(&mut self, session: SessionId, kept: Option<LockName>) {
        let mut left = self.waiting.remove(&session).unwrap_or_default();
        if let Some(kept) = kept.and_then(|kept| left.take(&kept)) {
            self.waiting.insert(session, BTreeSet::from([kept]));
        }
        for key in left {
            if let Some(lock) = self.locks.get_mut(&key) {
                lock.queue.retain(|(waiter, _)| *waiter != session);
                self.settle(session, key);
            }
        }
    }

    /// Sessions that may have got what they wait for: they ask again.
    pub fn take_woken(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.woken)
    }

    fn release(&mut self, session: SessionId, which: impl Fn(&Holder) -> bool) {
        let keys: Vec<LockName> = self.of_session.get(&session).into_iter().flatten().copied().collect();
        for key in keys {
            let Some(lock) = self.locks.get_mut(&key) else { continue };
            let before = lock.holders.len();
            lock.holders
                .retain(|holder| holder.session != session || !which(holder));
            if lock.holders.len() != before {
                self.settle(session, key);
            }
        }
    }

    /// What `session` has to do with a lock has become less: wakes who may go on, and forgets what nobody needs.
    fn settle(&mut self, session: SessionId, key: LockName) {
        self.has_changed = true;
        let Some(lock) = self.locks.get(&key) else { return };
        let free = lock.queue.iter().filter(|(waiter, mode)| lock.may_have(*waiter, *mode));
        self.woken.extend(free.map(|(waiter, _)| *waiter));
        if !lock.is_held_by(session)
            && !lock.is_waited_for_by(session)
            && let Some(keys) = self.of_session.get_mut(&session)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.of_session.remove(&session);
            }
        }
        if lock.holders.is_empty() && lock.queue.is_empty() {
            self.locks.remove(&key);
        }
    }

    /// Whether a circle of waiting sessions goes through `session`.
    fn waits_for_itself(&self, session: SessionId) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![session];
        while let Some(waiter) = open.pop() {
            for other in self.blockers(waiter) {
                if other == session {
                    return true;
                }
                if seen.insert(other) {
                    open.push(other);
                }
            }
        }
        false
    }

    /// The session has come to hold a lock that it has waited for.
    fn waits_no_longer(&mut self, session: SessionId, key: &LockName) {
        self.has_changed = true;
        if let Some(keys) = self.waiting.get_mut(&session) {
            keys.remove(key);
            if keys.is_empty() {
                self.waiting.remove(&session);
            }
        }
    }

    /// All locks: what, who has it or waits for it, how, and whether they have it.
    pub fn all(&self) -> impl Iterator<Item = (LockName, SessionId, LockMode, bool)> + '_ {
        self.locks.iter().flat_map(|(name, lock)| {
            let held = lock.holders.iter().map(|holder| (holder.session, holder.mode, true));
            let awaited = lock.queue.iter().map(|(session, mode)| (*session, *mode, false));
            held.chain(awaited)
                .map(|(session, mode, is_held)| (*name, session, mode, is_held))
        })
    }

    /// Whether anybody waits for a lock.
    pub fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Who waits for whom, if that may be otherwise than when it was asked for last.
    pub(crate) fn changed_waits(&mut self) -> Option<BTreeMap<SessionId, Vec<SessionId>>> {
        let has_changed = std::mem::replace(&mut self.has_changed, false);
        let waits = || self.waiting.keys().map(|session| (*session, self.blockers(*session)));
        has_changed.then(|| waits().collect())
    }

    /// For whom a session waits: those who hold the lock, and those who wait for it before others that wait for the same ones.
    pub fn blockers(&self, session: SessionId) -> Vec<SessionId> {
        let mut blockers = Vec::new();
        for key in self.waiting.get(&session).into_iter().flatten() {
            let Some(lock) = self.locks.get(key) else { continue };
            let Some(place) = lock.queue.iter().position(|(waiter, _)| *waiter == session) else {
                continue;
            };
            let mode = lock.queue[place].1;
            let holders = lock.holders.iter().map(|holder| (holder.session, holder.mode));
            let before = lock.queue.iter().take(place).rev().copied();
            let excludes = |(_, other): &(SessionId, LockMode)| other.excludes(mode);
            // Whoever waits for the lock alone waits for all that are before it.
            let alone = before.clone().position(|(_, other)| other == key.1.alone());
            let before = before.take(alone.map_or(usize::MAX, |place| place + 1));
            let excluding = holders
                .filter(|(other, _)| *other != session)
                .chain(before)
                .filter(excludes);
            blockers.extend(excluding.map(|(other, _)| other));
        }
        blockers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);
    const C: SessionId = SessionId(3);
    const ONE: (DatabaseId, AdvisoryKey) = (DatabaseId::RUBATO, AdvisoryKey::One(1));

    fn request(number: i64, shared: bool) -> AdvisoryRequest {
        AdvisoryRequest {
            key: AdvisoryKey::One(number),
            shared,
            scope: AdvisoryScope::Session,
            waits: true,
        }
    }

    #[test]
    fn who_waits_is_served_in_order_and_shared_locks_are_shared() {
        let mut locks = AdvisoryLocks::default();
        assert!(locks.lock(A, DatabaseId::RUBATO, request(1, true)).unwrap());
        assert!(locks.lock(B, DatabaseId::RUBATO, request(1, true)).unwrap());
        assert!(!locks.lock(C, DatabaseId::RUBATO, request(1, false)).unwrap());
        // Behind one who waits for it alone, unless it is held already.
        assert!(!locks.lock(SessionId(4), DatabaseId::RUBATO, request(1, true)).unwrap());
        assert!(locks.lock(A, DatabaseId::RUBATO, request(1, true)).unwrap());
        locks.leave(A);
        assert!(locks.take_woken().is_empty());
        assert!(locks.unlock(B, ONE, true, AdvisoryScope::Session));
        assert_eq!(locks.take_woken(), vec![C]);
        assert!(locks.lock(C, DatabaseId::RUBATO, request(1, false)).unwrap());
        locks.leave(C);
        assert_eq!(locks.take_woken(), vec![SessionId(4)]);
        locks.leave(SessionId(4));
        assert!(locks.locks.is_empty() && locks.of_session.is_empty());
    }

    /// The rows of "Conflicting Lock Modes" in PostgreSQL's manual.
    #[test]
    fn modes_exclude_each_other_as_in_postgresql() {
        use LockMode::*;
        let modes = [
            (AccessShare, "-------X"),
            (RowShare, "------XX"),
            (RowExclusive, "----XXXX"),
            (ShareUpdateExclusive, "---XXXXX"),
            (Share, "--XX-XXX"),
            (ShareRowExclusive, "--XXXXXX"),
            (Exclusive, "-XXXXXXX"),
            (AccessExclusive, "XXXXXXXX"),
        ];
        for (mode, excluded) in modes {
            let found: String = { modes.iter() }
                .map(|(other, _)| if mode.excludes(*other) { 'X' } else { '-' })
                .collect();
            assert_eq!(found, excluded, "{mode:?}");
        }
    }

    #[test]
    fn holds_are_counted_and_keys_of_two_numbers_are_others() {
        let mut locks = AdvisoryLocks::default();
        let two = AdvisoryRequest {
            key: AdvisoryKey::Two(0, 1),
            ..request(1, false)
        };
        assert!(
            locks.lock(A, DatabaseId::RUBATO, request(1, false)).unwrap()
                && locks.lock(B, DatabaseId::RUBATO, two).unwrap()
        );
        assert!(locks.lock(A, DatabaseId::RUBATO, request(1, false)).unwrap());
        assert!(locks.unlock(A, ONE, false, AdvisoryScope::Session));
        assert!(!locks.lock(B, DatabaseId::RUBATO, request(1, false)).unwrap());
        assert!(!locks.unlock(A, ONE, true, AdvisoryScope::Session));
        assert!(locks.unlock(A, ONE, false, AdvisoryScope::Session));
        assert!(!locks.unlock(A, ONE, false, AdvisoryScope::Session));
        assert_eq!(locks.take_woken(), vec![B]);
    }

    #[test]
    fn who_waits_for_whom_is_told_when_it_has_changed() {
        let database = DatabaseId::RUBATO;
        let mut locks = AdvisoryLocks::default();
        let waits = |locks: &mut AdvisoryLocks| locks.changed_waits().map(Vec::from_iter);
        assert_eq!(waits(&mut locks), None);
        assert!(locks.lock(A, database, request(1, false)).unwrap());
        let (d, e) = (SessionId(4), SessionId(5));
        for (session, shared) in [(B, false), (C, true), (d, true), (e, false)] {
            assert!(!locks.lock(session, database, request(1, shared)).unwrap());
        }
        // Those behind B wait for it, which waits for A; the last one for all back to it.
        let all = [(B, vec![A]), (C, vec![A, B]), (d, vec![A, B]), (e, vec![A, d, C, B])];
        assert_eq!(waits(&mut locks), Some(Vec::from(all)));
        assert_eq!(waits(&mut locks), None);
        locks.leave(A);
        assert!(locks.lock(B, database, request(1, false)).unwrap());
        let all = [(C, vec![B]), (d, vec![B]), (e, vec![B, d, C])];
        assert_eq!(waits(&mut locks), Some(Vec::from(all)));
        locks.stop_waiting(e);
        locks.leave(B);
        for session in [C, d] {
            assert!(locks.lock(session, database, request(1, true)).unwrap());
        }
        assert_eq!(waits(&mut locks), Some(Vec::new()));
        assert!(!locks.is_waited_for());
    }

    /// Giving back takes no longer for each than there are: twice as many in twice the time, or nobody else is served meanwhile.
    #[test]
    fn as_many_as_there_may_be_are_given_back_at_once() {
        let mut locks = AdvisoryLocks::default();
        for number in 0..LOCKS_MAX as i64 {
            assert!(locks.lock(A, DatabaseId::RUBATO, request(number, false)).unwrap());
        }
        assert!(!locks.lock(B, DatabaseId::RUBATO, request(7, false)).unwrap());
        assert!(
            locks.lock(B, DatabaseId::RUBATO, request(-1, false)).is_err(),
            "there are enough"
        );
        locks.unlock_all(A);
        assert_eq!((locks.take_woken(), locks.locks.len()), (vec![B], 1));
        assert!(locks.lock(B, DatabaseId::RUBATO, request(7, false)).unwrap());
        assert!(!locks.is_waited_for());
        locks.leave(B);
        assert!(locks.is_empty() && locks.locks.is_empty());
    }

    #[test]
    fn a_circle_of_waits_is_refused() {
        let mut locks = AdvisoryLocks::default();
        assert!(
            locks.lock(A, DatabaseId::RUBATO, request(1, false)).unwrap()
                && locks.lock(B, DatabaseId::RUBATO, request(2, false)).unwrap()
        );
        assert!(!locks.lock(A, DatabaseId::RUBATO, request(2, false)).unwrap());
        let error = locks.lock(B, DatabaseId::RUBATO, request(1, false)).unwrap_err();
        assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED);
        locks.leave(B);
        assert_eq!(locks.take_woken(), vec![A]);
    }

    #[test]
    fn the_same_name_in_another_database_is_another_lock() {
        let mut locks = AdvisoryLocks::default();
        assert!(locks.lock(A, DatabaseId::RUBATO, request(1, false)).unwrap());
        assert!(locks.lock(B, DatabaseId(20_000), request(1, false)).unwrap());
        assert!(!locks.unlock(B, ONE, false, AdvisoryScope::Session));
        assert!(locks.unlock(A, ONE, false, AdvisoryScope::Session));
        assert!(!locks.lock(A, DatabaseId(20_000), request(1, false)).unwrap());
    }
}
