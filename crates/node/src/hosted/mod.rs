//! Sessions for clients of other nodes, whose transactions run here because their rows are here (decision 0030, point 2).
//!
//! A call is run as the requests that a client of this node would have sent: first what its transaction needs (`ROLLBACK` of one that
//! nobody knows any more, `BEGIN`), then the statement. Its answer leaves when the log is forced as far as it depends on.
//!
//! Invariants: a session has one call under way, and those behind it are bounded ([`CALLS_MAX`]): its client waits for the last one at
//! most, and of those that were given up only what ends a transaction stays, each such end once. What it answers waits until the last piece
//! was taken.

mod responder;

use crate::node::Shared;
use crate::relay::SessionWork;
use parking_lot::Mutex;
use responder::{Hears, HostedResponder};
use rubato_base::{Error, LastNumbers, Lsn, NodeId, SessionId, SqlState};
use rubato_grid::work::{
    WorkCall, WorkCatalog, WorkContent, WorkDataEnd, WorkEnd, WorkMessage, WorkOutcome, WorkRun, WorkStatus,
};
use rubato_sql::catalog::{Catalog, SchemaId};
use rubato_sql::catalog_codec::encode_catalog;
use rubato_sql::client::{Format, Request, Responder, TransactionStatus};
use rubato_sql::databases::DatabaseId;
use rubato_sql::session::Session;
use rubato_stages::worker::{SessionStart, Work};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The connection of work that no connection here has sent.
pub(crate) const NO_CONNECTION: usize = usize::MAX;
/// Calls of one session that wait for the one under way: a COMMIT and a ROLLBACK that nobody waits for any more, what comes after them,
/// and as many again.
const CALLS_MAX: usize = 8;
const GIVEN_UP: &str = "the client has given it up";
/// Set in the ids of sessions for clients of other nodes: those of this node's own clients are below.
const HOSTED_SESSIONS: u64 = 1 << 40;

/// What the worker that hosts sessions and the node's part in its grid leave for each other.
#[derive(Default)]
pub(crate) struct Hosting {
    /// What other nodes have said.
    pub(crate) heard: Mutex<VecDeque<Heard>>,
    /// What is to be said to them, when the log is forced so far.
    pub(crate) said: Mutex<Vec<(Lsn, NodeId, WorkMessage)>>,
}

/// Something about the work for clients of other nodes.
pub(crate) enum Heard {
    Message(NodeId, WorkMessage),
    /// The node cannot be reached: its clients are gone.
    Down(NodeId),
}

/// A client's session, by its node and the number that it has there.
pub(crate) type Client = (NodeId, u64);

/// The sessions that one worker hosts.
#[derive(Default)]
pub(crate) struct HostedSessions {
    hosted: BTreeMap<Client, Hosted>,
    clients: BTreeMap<SessionId, Client>,
    /// Long statements that let others have their turn.
    resting: Vec<SessionWork>,
    last_session: u64,
}

struct Hosted {
    /// As its worker knows it.
    session_id: SessionId,
    /// While it runs nothing.
    idle: Option<(Box<Session>, Box<dyn Responder>)>,
    /// The call under way.
    number: u64,
    /// What of it is still to be run, and whether the client hears of it.
    steps: VecDeque<Step>,
    /// It waits until the client's node has taken a piece.
    paused: Option<SessionWork>,
    calls: VecDeque<(u64, WorkCall)>,
    /// What calls said of the client that were given up before their turn came.
    said: Said,
    /// The call under way ends a transaction: it is run to its end although nobody waits for it.
    ends_transaction: bool,
    /// The catalog of its transaction's own that the client's node was told.
    told_catalog: Option<Arc<Catalog>>,
    /// Nobody waits for the call under way.
    is_given_up: bool,
    /// It is to be cancelled as soon as it has begun.
    is_to_be_cancelled: bool,
    /// The client is gone.
    is_leaving: bool,
    /// It was given its Terminate. That nothing has come of what it ran does not say so: nothing comes of a COPY either that has begun.
    is_terminated: bool,
}

/// What a call says of the client beside what it runs, if that is news.
#[derive(Default)]
struct Said {
    settings: Option<Vec<(String, String)>>,
    numbers: Option<LastNumbers>,
}

/// What is run of a call in one go, and how much of what comes of it is heard of.
type Step = (Hears, Vec<Request>);

/// What the worker has to do for its hosted sessions.
pub(crate) enum Task {
    /// To open a session for a client.
    Open(Client, Box<SessionStart>, DatabaseId, Box<dyn Responder>),
    /// To run something.
    Run(Box<SessionWork>),
    /// To cancel what a session runs.
    Cancel(SessionId),
}

impl HostedSessions {
    /// Whether something goes on without being woken.
    pub(crate) fn is_busy(&self) -> bool {
        !self.resting.is_empty()
    }

    /// What the session has under way was cancelled, or there was nothing yet.
    pub(crate) fn on_cancelled(&mut self, session: SessionId, is_cancelled: bool) {
        let client = self.clients.get(&session);
        if let Some(hosted) = client.and_then(|client| self.hosted.get_mut(client)) {
            hosted.is_to_be_cancelled = !is_cancelled && hosted.idle.is_none();
        }
    }

    /// Whether what the session has under way is to be cancelled, now that it has begun.
    pub(crate) fn is_to_be_cancelled(&self, session: SessionId) -> bool {
        let client = self.clients.get(&session);
        let hosted = client.and_then(|client| self.hosted.get(client));
        hosted.is_some_and(|hosted| hosted.is_to_be_cancelled && !hosted.ends_transaction)
    }

    /// Long statements that have let others have their turn.
    pub(crate) fn take_resting(&mut self) -> Vec<SessionWork> {
        std::mem::take(&mut self.resting)
    }

    /// Takes in what was heard; what is to be done.
    pub(crate) fn on_heard(&mut self, heard: Heard, shared: &Shared) -> Vec<Task> {
        match heard {
            Heard::Message(from, message) => self.on_message(from, message, shared),
            Heard::Down(node) => {
                // What ended before and is still held back is for clients that are gone: others come by the next channel.
                shared.hosting.said.lock().retain(|(_, to, _)| *to != node);
                let gone: Vec<Client> = self.hosted.keys().filter(|client| client.0 == node).copied().collect();
                gone.into_iter().flat_map(|client| self.on_gone(client)).collect()
            }
        }
    }

    fn on_message(&mut self, from: NodeId, message: WorkMessage, shared: &Shared) -> Vec<Task> {
        let client = (from, message.session);
        match message.content {
            WorkContent::Call(call) => self.on_call(client, message.number, *call, shared),
            WorkContent::More => self.on_more(client, message.number),
            WorkContent::GiveUp => self.on_give_up(client, message.number),
            WorkContent::Cancel => self.on_cancel(client, message.number),
            WorkContent::Leave => self.on_gone(client),
            WorkContent::Answer { .. } => Vec::new(),
        }
    }

    fn on_call(&mut self, client: Client, number: u64, call: WorkCall, shared: &Shared) -> Vec<Task> {
        let Some(hosted) = self.hosted.get_mut(&client) else {
            let Some(responder) = shared.settings.hosted_responder else {
                let error = Error::unsupported("running a transaction for a client of another node");
                say_end(shared, client, number, WorkEnd::lost(error), Lsn(0));
                return Vec::new();
            };
            return self.open(client, VecDeque::from([(number, call)]), responder());
        };
        if hosted.calls.len() >= CALLS_MAX {
            let error = Error::new(SqlState::OUT_OF_MEMORY, "too many calls of one session wait");
            say_end(shared, client, number, WorkEnd::lost(error), Lsn(0));
            return Vec::new();
        }
        // Two in a row, since what stood between them was given up, are one.
        let is_again = |(_, last): &(u64, WorkCall)| is_rollback(last) && is_rollback(&call);
        if hosted.calls.back().is_some_and(is_again) {
            hosted.remove_call(hosted.calls.len() - 1);
        }
        hosted.calls.push_back((number, call));
        self.next_call(client, shared)
    }

    /// A session for a client's first calls.
    fn open(&mut self, client: Client, calls: VecDeque<(u64, WorkCall)>, responder: Box<dyn Responder>) -> Vec<Task> {
        let Some((_, first)) = calls.front() else {
            return Vec::new();
        };
        self.last_session += 1;
        let session_id = SessionId(HOSTED_SESSIONS | self.last_session);
        let start = Box::new(SessionStart {
            session: session_id,
            user: first.user.clone(),
            database: first.database.clone(),
            ..SessionStart::default()
        });
        let database = DatabaseId(first.database_id);
        self.hosted.insert(client, Hosted::new(session_id, calls));
        vec![Task::Open(client, start, database, responder)]
    }

    /// The session that was asked for.
    pub(crate) fn on_opened(
        &mut self,
        client: Client,
        opened: rubato_base::Result<(Box<Session>, Box<dyn Responder>)>,
        shared: &Shared,
    ) -> Vec<Task> {
        let Some(hosted) = self.hosted.get_mut(&client) else {
            return Vec::new();
        };
        match opened {
            Ok((mut session, responder)) => {
                let is_sent_on = client.1 & HOSTED_SESSIONS != 0;
                session.serve_another_node(SchemaId::temporary_of_hosted(self.last_session), is_sent_on);
                self.clients.insert(session.id, client);
                hosted.idle = Some((session, Box::new(HostedResponder::new(responder))));
                self.next_call(client, shared)
            }
            Err(error) => {
                let calls = self.hosted.remove(&client).map(|hosted| hosted.calls);
                for (number, _) in calls.into_iter().flatten() {
                    say_end(shared, client, number, WorkEnd::lost(error.clone()), Lsn(0));
                }
                Vec::new()
            }
        }
    }

    /// A piece was taken: its session goes on.
    fn on_more(&mut self, client: Client, number: u64) -> Vec<Task> {
        let hosted = self.hosted.get_mut(&client).filter(|hosted| hosted.number == number);
        let paused = hosted.and_then(|hosted| hosted.paused.take());
        paused.into_iter().map(|work| Task::Run(Box::new(work))).collect()
    }

    fn on_give_up(&mut self, client: Client, number: u64) -> Vec<Task> {
        let Some(hosted) = self.hosted.get_mut(&client) else {
            return Vec::new();
        };
        // Whatever was said of a catalog may not have been heard.
        hosted.told_catalog = None;
        let waiting = hosted.calls.iter().position(|(waiting, _)| *waiting == number);
        match waiting {
            // What ends a transaction is run all the same, and its answer dropped where it was asked for. Anything else would only leave
            // something behind that nobody knows of: a transaction with its locks.
            Some(at) if !ends_transaction(&hosted.calls[at].1) => hosted.remove_call(at),
            Some(_) => {}
            None if hosted.number != number => {}
            None if hosted.idle.is_none() => return hosted.give_up(),
            None => {
                hosted.is_given_up = true;
                return hosted.fail_given_up().into_iter().collect();
            }
        }
        Vec::new()
    }

    /// What has not ended is cancelled, and its answer says so. What waits for its turn comes too late for that, as what has ended.
    fn on_cancel(&mut self, client: Client, number: u64) -> Vec<Task> {
        let running = |hosted: &&mut Hosted| hosted.number == number && hosted.idle.is_none();
        let running = self.hosted.get_mut(&client).filter(running);
        running.map(Hosted::cancel).unwrap_or_default()
    }

    /// The client is gone: what its session runs is given up, and its transaction rolled back.
    fn on_gone(&mut self, client: Client) -> Vec<Task> {
        let Some(hosted) = self.hosted.get_mut(&client) else {
            return Vec::new();
        };
        hosted.is_leaving = true;
        hosted.calls.clear();
        if hosted.idle.is_some() {
            return hosted.leave().into_iter().collect();
        }
        hosted.give_up()
    }

    /// Work of a hosted session has come out of the stages.
    pub(crate) fn on_completed(&mut self, mut work: SessionWork, shared: &Shared) -> Vec<Task> {
        let Some(client) = self.clients.get(&work.session.id).copied() else {
            return Vec::new();
        };
        let Some(hosted) = self.hosted.get_mut(&client) else {
            return Vec::new();
        };
        let told = if hosted.is_given_up || own(&mut work.responder).hears != Hears::All {
            work.responder.take_answer();
            Vec::new()
        } else if work.session.holds_answer() || (work.requests.is_empty() && !hosted.steps.is_empty()) {
            Vec::new()
        } else {
            work.responder.take_answer()
        };
        if !work.requests.is_empty() {
            if told.is_empty() {
                self.resting.push(work);
            } else {
                let content = WorkContent::Answer { told, end: None };
                say(shared, client, hosted.number, content, work.durable_at);
                hosted.paused = Some(work);
            }
            return Vec::new();
        }
        let outcome = own(&mut work.responder).take_outcome();
        if hosted.is_terminated {
            debug_assert!(!work.session.in_transaction(), "a session that has left keeps nothing");
            // Who has come back since then gets another.
            self.clients.remove(&work.session.id);
            let calls = self.hosted.remove(&client).map(|hosted| hosted.calls);
            let responder = shared.settings.hosted_responder.map(|responder| responder());
            return match (calls, responder) {
                (Some(calls), Some(responder)) => self.open(client, calls, responder),
                _ => Vec::new(),
            };
        }
        let has_failed = matches!(outcome, Some(WorkOutcome::Failed(_)));
        let is_over = has_failed || hosted.is_leaving || (hosted.is_given_up && !hosted.ends_transaction);
        if !is_over && hosted.steps.front().is_some() {
            hosted.idle = Some((work.session, work.responder));
            return hosted.next_step().into_iter().collect();
        }
        hosted.steps.clear();
        if !hosted.is_given_up {
            let status = match own(&mut work.responder).status() {
                TransactionStatus::Idle => WorkStatus::Idle,
                TransactionStatus::InTransaction => WorkStatus::Open,
                TransactionStatus::Failed => WorkStatus::Failed,
            };
            let outcome = outcome.unwrap_or(match work.session.awaits_data() {
                true => WorkOutcome::AwaitsData,
                false => WorkOutcome::Empty,
            });
            let end = Some(WorkEnd {
                outcome,
                status,
                temporary: work.session.temporary_here().map_or(0, |schema| schema.0),
                locks: work.session.keeps_locks(),
                catalog: hosted.catalog_of(&work.session),
                numbers: work.session.new_numbers(),
                settings: work.session.new_settings(),
                is_taken_in: true,
            });
            let content = WorkContent::Answer { told, end };
            say(shared, client, hosted.number, content, work.durable_at);
        }
        hosted.idle = Some((work.session, work.responder));
        if hosted.is_leaving {
            return hosted.leave().into_iter().collect();
        }
        self.next_call(client, shared)
    }

    /// Begins with the next call of a session that runs nothing.
    fn next_call(&mut self, client: Client, shared: &Shared) -> Vec<Task> {
        let Some(hosted) = self.hosted.get_mut(&client) else {
            return Vec::new();
        };
        while let Some((session, _)) = &mut hosted.idle {
            let Some((number, call)) = hosted.calls.pop_front() else {
                break;
            };
            (hosted.number, hosted.is_given_up) = (number, false);
            hosted.is_to_be_cancelled = false;
            hosted.ends_transaction = ends_transaction(&call);
            let Said { settings, numbers } = std::mem::take(&mut hosted.said);
            if let Some(settings) = call.settings.as_ref().or(settings.as_ref()) {
                session.take_settings_over(settings);
            }
            if let Some(numbers) = call.numbers.as_ref().or(numbers.as_ref()) {
                session.take_numbers_over(numbers);
            }
            session.belongs_to(call.trace);
            session.draw_again(call.draws.clone());
            session.begins_as_of(call.began_us);
            session.is_known_as(call.backend_id);
            session.know_temporary((call.temporary != 0).then_some(SchemaId(call.temporary)));
            match steps(call, session.status(), session.awaits_data()) {
                Ok(steps) => {
                    hosted.steps = steps.into();
                    return hosted.next_step().into_iter().collect();
                }
                Err(end) => {
                    let locks = session.keeps_locks();
                    let is_taken_in = true;
                    say_end(
                        shared,
                        client,
                        number,
                        WorkEnd {
                            locks,
                            is_taken_in,
                            ..end
                        },
                        Lsn(0),
                    );
                }
            }
        }
        hosted.fail_given_up().into_iter().collect()
    }
}

impl Hosted {
    fn new(session_id: SessionId, calls: VecDeque<(u64, WorkCall)>) -> Hosted {
        Hosted {
            session_id,
            idle: None,
            number: 0,
            steps: VecDeque::new(),
            paused: None,
            calls,
            said: Said::default(),
            ends_transaction: false,
            told_catalog: None,
            is_given_up: false,
            is_to_be_cancelled: false,
            is_leaving: false,
            is_terminated: false,
        }
    }

    /// Removes a call whose turn has not come. What it says of the client stays.
    fn remove_call(&mut self, at: usize) {
        let Some((_, removed)) = self.calls.remove(at) else {
            return;
        };
        let before = at.checked_sub(1).and_then(|before| self.calls.get_mut(before));
        let (settings, numbers) = match before {
            Some((_, before)) => (&mut before.settings, &mut before.numbers),
            None => (&mut self.said.settings, &mut self.said.numbers),
        };
        *settings = removed.settings.or(settings.take());
        *numbers = removed.numbers.or(numbers.take());
    }

    /// What the client's node is to know of the catalog that the session's transaction sees.
    fn catalog_of(&mut self, session: &Session) -> WorkCatalog {
        let catalog = session.catalog_of_transaction();
        let is_told = |told: &Arc<Catalog>, own: &Arc<Catalog>| Arc::ptr_eq(told, own);
        let told = match (&self.told_catalog, &catalog) {
            (None, None) => WorkCatalog::AsBefore,
            (Some(_), None) => WorkCatalog::Committed,
            (Some(told), Some(own)) if is_told(told, own) => WorkCatalog::AsBefore,
            (_, Some(own)) => {
                let mut content = Vec::new();
                encode_catalog(own, &mut content);
                WorkCatalog::Own(content)
            }
        };
        self.told_catalog = catalog;
        told
    }

    fn next_step(&mut self) -> Option<Task> {
        let (session, mut responder) = self.idle.take()?;
        let (hears, requests) = self.steps.pop_front()?;
        own(&mut responder).hears = hears;
        Some(Task::Run(Box::new(Work {
            session,
            connection: NO_CONNECTION,
            requests: requests.into(),
            responder,
            durable_at: Lsn(0),
        })))
    }

    /// What was given up has ended all the same, or is a COPY whose data does not come any more: its block fails, as it has for the client.
    /// Until that says something else nothing would, and others would wait for its rows.
    fn fail_given_up(&mut self) -> Option<Task> {
        let (session, _) = self.idle.as_ref().filter(|_| self.is_given_up)?;
        let request = match (session.awaits_data(), session.status()) {
            (true, _) => copy_given_up(),
            (false, TransactionStatus::InTransaction) => Request::Invalid {
                error: Error::new(SqlState::QUERY_CANCELED, GIVEN_UP),
                simple: true,
            },
            (false, _) => return None,
        };
        self.steps = [(Hears::Nothing, vec![request])].into();
        self.next_step()
    }

    fn leave(&mut self) -> Option<Task> {
        self.is_terminated = true;
        self.steps = [(Hears::Errors, vec![Request::Terminate])].into();
        self.next_step()
    }

    /// Cancels the call under way, whose answer nobody waits for.
    fn give_up(&mut self) -> Vec<Task> {
        self.is_given_up = true;
        self.cancel()
    }

    fn cancel(&mut self) -> Vec<Task> {
        let paused = self.paused.take().map(|work| Task::Run(Box::new(work)));
        paused.into_iter().chain([Task::Cancel(self.session_id)]).collect()
    }
}

/// What is run for a call, given where its session stands; or how it ends at once.
fn steps(call: WorkCall, status: TransactionStatus, awaits_data: bool) -> Result<Vec<Step>, WorkEnd> {
    let mut steps = Vec::new();
    match (&call.run, awaits_data) {
        (WorkRun::Data { .. }, true) => return Ok(vec![(Hears::All, requests(call.run))]),
        (WorkRun::Data { .. }, false) => return Err(lost()),
        // The client has given the COPY up.
        (_, true) => steps.push((Hears::Nothing, vec![copy_given_up()])),
        (_, false) => {}
    }
    let is_rollback = is_rollback(&call);
    match (call.in_block, status) {
        (true, TransactionStatus::Idle) if is_rollback && !awaits_data => {
            return Err(WorkEnd {
                outcome: WorkOutcome::Tag("ROLLBACK".to_owned()),
                ..WorkEnd::lost(Error::internal("a transaction that is not there"))
            });
        }
        (true, TransactionStatus::Idle) if !is_rollback => return Err(lost()),
        (false, TransactionStatus::InTransaction | TransactionStatus::Failed) => {
            steps.push((Hears::Errors, query("ROLLBACK".to_owned())));
        }
        _ => {}
    }
    if let Some(begin) = call.begin {
        steps.push((Hears::Errors, query(begin)));
    }
    steps.push((Hears::All, requests(call.run)));
    Ok(steps)
}

fn copy_given_up() -> Request {
    Request::CopyFail(GIVEN_UP.to_owned())
}

/// Whether it rolls back what nobody waits for.
fn is_rollback(call: &WorkCall) -> bool {
    matches!(&call.run, WorkRun::Text(text) if text == "ROLLBACK")
}

fn ends_transaction(call: &WorkCall) -> bool {
    is_rollback(call) || matches!(&call.run, WorkRun::Text(text) if text == "COMMIT")
}

fn lost() -> WorkEnd {
    let detail = "The node that ran it was started again, or could not be reached for a while.";
    WorkEnd::lost(Error::serialization("the transaction was lost", detail))
}

fn query(sql: String) -> Vec<Request> {
    vec![Request::Query { sql }]
}

fn requests(run: WorkRun) -> Vec<Request> {
    match run {
        WorkRun::Text(sql) => query(sql),
        WorkRun::LayAnew(sql) => vec![Request::LayAnew { sql }],
        WorkRun::Prepared {
            sql,
            types,
            values,
            columns,
            binary,
            portal,
            max_rows,
        } => {
            let format = |is_binary: bool| if is_binary { Format::Binary } else { Format::Text };
            vec![
                Request::CloseStatement(String::new()),
                Request::Parse {
                    name: String::new(),
                    sql,
                    parameter_types: types.into_iter().map(rubato_base::DataType::oid).collect(),
                },
                Request::BindValues {
                    portal: portal.clone(),
                    statement: String::new(),
                    values,
                    columns,
                    formats: binary.into_iter().map(format).collect(),
                },
                Request::Execute { portal, max_rows },
                Request::Sync,
            ]
        }
        WorkRun::More { portal, max_rows } => vec![Request::Execute { portal, max_rows }, Request::Sync],
        WorkRun::Data { data, end } => {
            let data = (!data.is_empty()).then(|| Request::CopyData(data.into()));
            let end = match end {
                WorkDataEnd::More => None,
                WorkDataEnd::Done => Some(Request::CopyDone),
                WorkDataEnd::Failed(why) => Some(Request::CopyFail(why)),
            };
            data.into_iter().chain(end).collect()
        }
    }
}

fn say_end(shared: &Shared, client: Client, number: u64, end: WorkEnd, durable_at: Lsn) {
    let content = WorkContent::Answer {
        told: Vec::new(),
        end: Some(end),
    };
    say(shared, client, number, content, durable_at);
}

fn say(shared: &Shared, (node, session): Client, number: u64, content: WorkContent, durable_at: Lsn) {
    let message = WorkMessage {
        session,
        number,
        content,
    };
    shared.hosting.said.lock().push((durable_at, node, message));
}

/// The concrete responder.
fn own(responder: &mut Box<dyn Responder>) -> &mut HostedResponder {
    let concrete = responder.as_any().downcast_mut();
    concrete.expect("the stages give back the responder that they were given")
}
