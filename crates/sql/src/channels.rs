//! LISTEN and NOTIFY: channels by name, who listens to them, and what was told to whom.
//!
//! What a transaction tells is told when it commits, in the order of commits. A session takes its notifications out of its inbox when it
//! is between two transactions; others wake it for that.

use crate::databases::DatabaseId;
use crate::executor::sorting::FixedHasher;
use rubato_base::{Error, Lsn, Result, SessionId, SqlState};
use rubato_stages::worker::{Signal, Signals};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Notifications that wait for one session at the most.
const INBOX_MAX: usize = 100_000;
/// What they may take, in bytes.
const INBOX_BYTES_MAX: usize = 32 << 20;
/// PostgreSQL's longest payload, in bytes.
const PAYLOAD_BYTES_MAX: usize = 7_999;
/// PostgreSQL's longest name, in bytes.
const CHANNEL_BYTES_MAX: usize = 63;

/// What a session is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The channel.
    pub channel: Arc<str>,
    /// What is told; empty if nothing was said.
    pub payload: Arc<str>,
    /// Who told it, as clients know him.
    pub backend_id: i32,
    /// It may be told once the log is forced up to here.
    pub durable_at: Lsn,
}

/// A channel, and what is told on it.
pub type Told = (Arc<str>, Arc<str>);

/// What waits for a session.
#[derive(Debug, Default)]
pub struct Inbox(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    notifications: VecDeque<Notification>,
    bytes: usize,
    /// What came from other nodes while there was no room for it.
    lost: u64,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.notifications.len() >= INBOX_MAX || self.bytes >= INBOX_BYTES_MAX
    }

    fn push(&mut self, notification: Notification) {
        self.bytes += bytes_of(&notification.payload);
        self.notifications.push_back(notification);
    }
}

impl Inbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self) -> bool {
        self.waiting().is_full()
    }

    fn push(&self, notification: Notification) {
        self.waiting().push(notification);
    }

    /// The same if there is room; else it is counted as lost.
    fn push_if_room(&self, notification: Notification) {
        let mut waiting = self.waiting();
        match waiting.is_full() {
            true => waiting.lost += 1,
            false => waiting.push(notification),
        }
    }

    /// How many notifications were lost since this was asked last.
    pub(crate) fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.waiting().lost)
    }

    /// Takes everything out, oldest first.
    pub(crate) fn take(&self) -> VecDeque<Notification> {
        let mut waiting = self.waiting();
        waiting.bytes = 0;
        std::mem::take(&mut waiting.notifications)
    }
}

/// A name means something within a database.
type Channel = (DatabaseId, Arc<str>);

/// Who listens to what.
#[derive(Debug, Default)]
pub struct Channels {
    listeners: BTreeMap<Channel, BTreeMap<SessionId, Listener>>,
}

#[derive(Clone, Debug)]
struct Listener {
    backend_id: i32,
    inbox: Arc<Inbox>,
    signals: Option<Arc<dyn Signals>>,
}

/// What a transaction does to channels when it commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChannelAction {
    Listen(Arc<str>),
    /// `None`: from all.
    Unlisten(Option<Arc<str>>),
    Notify {
        channel: Arc<str>,
        payload: Arc<str>,
    },
}

impl ChannelAction {
    /// NOTIFY. 22023 for a channel or payload that PostgreSQL does not take.
    pub(crate) fn notify(channel: &str, payload: &str) -> Result<ChannelAction> {
        let invalid = |message: &str| Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        if channel.is_empty() {
            return invalid("channel name cannot be empty");
        }
        if channel.len() > CHANNEL_BYTES_MAX {
            return invalid("channel name too long");
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return invalid("payload string too long");
        }
        Ok(ChannelAction::Notify {
            channel: channel.into(),
            payload: payload.into(),
        })
    }
}

/// What a transaction does to channels when it commits, in order.
#[derive(Debug, Default)]
pub(crate) struct ChannelActions {
    actions: Vec<ChannelAction>,
    /// What is told by them: the same twice in one transaction is told once.
    told: HashSet<Told, FixedHasher>,
    bytes: usize,
}

impl ChannelActions {
    /// Adds one. 54000 if the transaction tells more than any session could take.
    pub(crate) fn add(&mut self, action: ChannelAction) -> Result<()> {
        if let ChannelAction::Notify { channel, payload } = &action {
            let told = (Arc::clone(channel), Arc::clone(payload));
            if self.told.contains(&told) {
                return Ok(());
            }
            if self.told.len() >= INBOX_MAX || self.bytes >= INBOX_BYTES_MAX {
                let message = "too many notifications in one transaction";
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                    .with_detail("They are kept in memory until it commits.")
                    .with_hint("Tell them in several transactions."));
            }
            self.bytes += bytes_of(payload);
            self.told.insert(told);
        }
        self.actions.push(action);
        Ok(())
    }

    pub(crate) fn as_slice(&self) -> &[ChannelAction] {
        &self.actions
    }

    /// Forgets what was added since there were so many.
    pub(crate) fn truncate(&mut self, count: usize) {
        for action in self.actions.drain(count.min(self.actions.len())..) {
            if let ChannelAction::Notify { channel, payload } = action {
                self.bytes -= bytes_of(&payload);
                self.told.remove(&(channel, payload));
            }
        }
    }
}

/// What a notification takes while it waits.
fn bytes_of(payload: &str) -> usize {
    payload.len() + size_of::<Notification>()
}

/// Who tells something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Teller<'a> {
    pub session: SessionId,
    pub backend_id: i32,
    pub database: DatabaseId,
    /// Where he is told something himself.
    pub inbox: &'a Arc<Inbox>,
    /// What wakes him for that.
    pub signals: Option<&'a Arc<dyn Signals>>,
}

impl Channels {
    /// 54000 if a listener has so much to take that no more may be told him.
    pub(crate) fn check_room(&self, database: DatabaseId, actions: &[ChannelAction]) -> Result<()> {
        let mut last = None;
        for action in actions {
            let ChannelAction::Notify { channel, .. } = action else {
                continue;
            };
            if last.replace(channel) == Some(channel) {
                continue;
            }
            let mut listeners = self.listeners_of(database, channel);
            if listeners.any(|listener| listener.inbox.is_full()) {
                let message = "too many notifications in the NOTIFY queue";
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                    .with_detail("A session that listens does not take what it is told.")
                    .with_hint("End its transaction, or the session."));
            }
        }
        Ok(())
    }

    fn listeners_of(&self, database: DatabaseId, channel: &Arc<str>) -> impl Iterator<Item = &Listener> {
        let listeners = self.listeners.get(&(database, Arc::clone(channel)));
        listeners.into_iter().flat_map(BTreeMap::values)
    }

    /// A transaction has committed: what it tells, which those who listen here have in their inboxes.
    pub(crate) fn commit(&mut self, teller: Teller<'_>, actions: ChannelActions, durable_at: Lsn) -> Vec<Told> {
        let mut told: Vec<Told> = Vec::new();
        for action in actions.actions {
            match action {
                ChannelAction::Listen(channel) => {
                    let listener = Listener {
                        backend_id: teller.backend_id,
                        inbox: Arc::clone(teller.inbox),
                        signals: teller.signals.cloned(),
                    };
                    self.listeners
                        .entry((teller.database, channel))
                        .or_default()
                        .insert(teller.session, listener);
                }
                ChannelAction::Unlisten(channel) => self.unlisten(teller.session, channel.as_deref()),
                ChannelAction::Notify { channel, payload } => told.push((channel, payload)),
            }
        }
        self.tell((teller.database, teller.backend_id), &told, durable_at);
        told
    }

    /// What a transaction of another node has told, whose commit could not be refused for those who listen here: who has so much to take
    /// that there is no room for more loses it, and is told so.
    pub fn hear(&self, teller: (DatabaseId, i32), told: &[Told]) {
        self.give(teller, told, |listener, notification| {
            listener.inbox.push_if_room(notification);
        });
    }

    /// Puts what somebody, as clients know him, tells into the inboxes of those who listen here, and wakes the others among them.
    fn tell(&self, teller: (DatabaseId, i32), told: &[Told], durable_at: Lsn) {
        self.give(teller, told, |listener, notification| {
            listener.inbox.push(Notification {
                durable_at,
                ..notification
            });
        });
    }

    fn give(&self, (database, backend_id): (DatabaseId, i32), told: &[Told], put: impl Fn(&Listener, Notification)) {
        let mut woken: Vec<&Listener> = Vec::new();
        for (channel, payload) in told {
            for listener in self.listeners_of(database, channel) {
                let notification = Notification {
                    channel: Arc::clone(channel),
                    payload: Arc::clone(payload),
                    backend_id,
                    durable_at: Lsn(0),
                };
                put(listener, notification);
                let own = listener.backend_id;
                if own != backend_id && woken.iter().all(|known| known.backend_id != own) {
                    woken.push(listener);
                }
            }
        }
        // Behind all of it: who is woken empties the inbox on a thread of its own, and what came later would stay there.
        for listener in woken {
            if let Some(signals) = &listener.signals {
                signals.signal(listener.backend_id, Signal::Deliver);
            }
        }
    }

    /// The session listens no longer, to one channel or to any.
    pub(crate) fn unlisten(&mut self, session: SessionId, channel: Option<&str>) {
        self.listeners.retain(|(_, name), listeners| {
            if channel.is_none_or(|channel| channel == &**name) {
                listeners.remove(&session);
            }
            !listeners.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(inbox: &Inbox) -> Vec<(String, String, i32)> {
        let notifications = inbox.take().into_iter();
        notifications
            .map(|told| (told.channel.to_string(), told.payload.to_string(), told.backend_id))
            .collect()
    }

    #[test]
    fn listeners_are_told_once_and_in_order() {
        let mut channels = Channels::default();
        let inboxes = [Arc::new(Inbox::default()), Arc::new(Inbox::default())];
        let teller = |number: usize| Teller {
            session: SessionId(number as u64),
            backend_id: number as i32 + 10,
            database: DatabaseId::RUBATO,
            inbox: &inboxes[number],
            signals: None,
        };
        let notify = |channel: &str, payload: &str| ChannelAction::notify(channel, payload).unwrap();
        let listen = |channel: &str| ChannelAction::Listen(channel.into());
        assert!(
            channels
                .commit(teller(0), all([listen("a"), listen("b")]), Lsn(1))
                .is_empty()
        );
        // Who listens in the same transaction is told what that transaction tells.
        let actions = all([
            notify("a", "1"),
            listen("a"),
            notify("a", "1"),
            notify("c", "x"),
            notify("a", ""),
        ]);
        assert_eq!(channels.commit(teller(1), actions, Lsn(2)).len(), 3);
        let expected = [
            ("a".to_owned(), "1".to_owned(), 11),
            ("a".to_owned(), String::new(), 11),
        ];
        assert_eq!(told(&inboxes[0]), expected);
        assert_eq!(told(&inboxes[1]), expected);
        channels.commit(teller(0), all([ChannelAction::Unlisten(Some("a".into()))]), Lsn(3));
        channels.commit(teller(0), all([notify("a", "2")]), Lsn(3));
        assert_eq!(inboxes.each_ref().map(|inbox| told(inbox).len()), [0, 1]);
        channels.unlisten(SessionId(1), None);
        channels.commit(teller(0), all([notify("a", "3")]), Lsn(3));
        assert_eq!(inboxes.each_ref().map(|inbox| told(inbox).len()), [0, 0]);
        channels.commit(teller(1), all([notify("b", "4")]), Lsn(3));
        assert_eq!(inboxes.each_ref().map(|inbox| told(inbox).len()), [1, 0]);
        // The channel of another database is another one.
        let elsewhere = Teller {
            database: DatabaseId(20_000),
            ..teller(1)
        };
        channels.commit(elsewhere, all([notify("b", "5")]), Lsn(4));
        assert_eq!(told(&inboxes[0]), []);
        // What is told on another node comes into the same inbox.
        channels.hear((DatabaseId::RUBATO, 77), &[("b".into(), "6".into())]);
        assert_eq!(told(&inboxes[0]), [("b".to_owned(), "6".to_owned(), 77)]);
    }

    /// Empties the inbox as soon as it is woken, as another worker may.
    #[derive(Debug)]
    struct Hasty(Arc<Inbox>, Mutex<usize>);

    impl Signals for Hasty {
        fn signal(&self, _: i32, _: Signal) -> bool {
            *self.1.lock().unwrap() += self.0.take().len();
            true
        }
    }

    #[test]
    fn who_is_woken_finds_all_of_it() {
        let inbox = Arc::new(Inbox::default());
        let hasty = Arc::new(Hasty(Arc::clone(&inbox), Mutex::default()));
        let signals: Arc<dyn Signals> = hasty.clone();
        let mut channels = Channels::default();
        let listener = Teller {
            session: SessionId(1),
            backend_id: 1,
            database: DatabaseId::RUBATO,
            inbox: &inbox,
            signals: Some(&signals),
        };
        channels.commit(listener, all([ChannelAction::Listen("a".into())]), Lsn(1));
        let own = Arc::new(Inbox::default());
        let teller = Teller {
            session: SessionId(2),
            backend_id: 2,
            inbox: &own,
            signals: None,
            ..listener
        };
        let notify = |payload: &str| ChannelAction::notify("a", payload).unwrap();
        channels.commit(teller, all([notify("1"), notify("2"), notify("3")]), Lsn(2));
        channels.hear(
            (DatabaseId::RUBATO, 77),
            &[("a".into(), "4".into()), ("a".into(), "5".into())],
        );
        assert_eq!(*hasty.1.lock().unwrap(), 5);
    }

    fn all<const N: usize>(actions: [ChannelAction; N]) -> ChannelActions {
        let mut all = ChannelActions::default();
        actions.into_iter().for_each(|action| all.add(action).unwrap());
        all
    }

    #[test]
    fn a_transaction_tells_so_much_and_the_same_once() {
        let notify = |payload: &str| ChannelAction::notify("a", payload).unwrap();
        let mut actions = all([notify("1"), notify("2"), notify("1"), notify("3")]);
        assert_eq!(actions.as_slice(), [notify("1"), notify("2"), notify("3")]);
        actions.truncate(1);
        assert!(actions.add(notify("2")).is_ok());
        assert_eq!(actions.as_slice(), [notify("1"), notify("2")]);
        for (payload, least) in [(String::new(), INBOX_MAX), ("x".repeat(PAYLOAD_BYTES_MAX - 8), 1_000)] {
            let mut actions = ChannelActions::default();
            let added = (0..).take_while(|n| actions.add(notify(&format!("{n}{payload}"))).is_ok());
            assert!((least..=INBOX_MAX).contains(&added.count()));
            assert!(
                actions.add(notify(&format!("0{payload}"))).is_ok(),
                "it is told already"
            );
        }
    }

    #[test]
    fn a_full_inbox_refuses_more() {
        let mut channels = Channels::default();
        let inbox = Arc::new(Inbox::default());
        let teller = Teller {
            session: SessionId(1),
            backend_id: 1,
            database: DatabaseId::RUBATO,
            inbox: &inbox,
            signals: None,
        };
        channels.commit(teller, all([ChannelAction::Listen("a".into())]), Lsn(1));
        let payload = "x".repeat(PAYLOAD_BYTES_MAX);
        let actions = || all([ChannelAction::notify("a", &payload).unwrap()]);
        let mut count = 0;
        while channels.check_room(DatabaseId::RUBATO, actions().as_slice()).is_ok() {
            channels.commit(teller, actions(), Lsn(1));
            count += 1;
        }
        assert!((1000..=INBOX_MAX).contains(&count));
        // Whose commit on another node was not refused is not heard.
        channels.hear(
            (DatabaseId::RUBATO, 77),
            &[("a".into(), "lost".into()), ("b".into(), "".into())],
        );
        assert_eq!(inbox.take().len(), count);
        assert_eq!([inbox.take_lost(), inbox.take_lost()], [1, 0]);
        channels.hear((DatabaseId::RUBATO, 77), &[("a".into(), "heard".into())]);
        assert_eq!((inbox.take().len(), inbox.take_lost()), (1, 0));
        assert!(channels.check_room(DatabaseId::RUBATO, actions().as_slice()).is_ok());
        assert!(ChannelAction::notify("a", &"x".repeat(8000)).is_err());
        assert!(ChannelAction::notify("", "x").is_err());
    }
}
