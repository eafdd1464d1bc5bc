//! Who has the grid grow and shrink: joins, and the statements of `rubato grid rebalance`, `drain` and `remove`.

use super::clients::UNKNOWN_OUTCOME;
use super::plan::GrowthTrouble;
use super::sites::Running;
use super::world::{Event, Phase, World};
use crate::answer::Answer;
use crate::check::Violation;
use crate::history::Table;
use crate::programs::{TWIN, schema};
use rubato_base::NodeId;
use rubato_sql::client::Request;
use std::collections::VecDeque;

/// Pause after a step that could do nothing.
const PAUSE_US: i64 = 20_000;
/// Pause between two steps, at most.
const STEP_US_MAX: i64 = 4_000;
/// Pause between two changes of the grid, at most.
const CHANGE_US_MAX: i64 = 60_000;
/// Nodes that there are and were, at most.
const NODES_MAX: usize = 6;
/// Steps of one change beyond which it gets nowhere.
const STEPS_MAX: u32 = 20_000;
/// The table that is whole in some runs.
const WHOLE: Table = Table::Bounded;
/// Rows that one step moves.
const STEP_ROWS: (i64, i64) = (1, 6);
/// Errors that may be different when it is tried again, as for the command.
const PASSES: [&str; 6] = ["40001", "55P03", "55006", "57P03", "58030", UNKNOWN_OUTCOME];

/// What the operator is at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    /// Makes the tables.
    Make,
    /// Takes the next number of a sequence.
    Draw,
    /// Thinks of what to do next.
    Choose,
    /// Has the tables lie on all nodes, or on all but one, which goes then.
    Move {
        without: Option<NodeId>,
        table: usize,
    },
    /// Has a node keep what there is once, in place of one that goes then, or of one that stays.
    HandOver {
        to: NodeId,
        leaves: Option<NodeId>,
    },
    /// Sees to it that the clients of a node have gone.
    Desert(NodeId),
    /// Takes a node out of the grid.
    Remove(NodeId),
    Done,
}

/// What was asked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Schema,
    State,
    Step,
    Ticket,
    HandOver,
    Removal,
}

/// The operator of a run.
pub(super) struct Operator {
    task: Task,
    asked: Option<Asked>,
    /// The node that it is connected to.
    at: Option<usize>,
    inbox: Option<Answer>,
    changes_left: usize,
    /// Rows that had moved when it looked last.
    moved: i64,
    steps: u32,
    /// The number that the sequence gave last.
    ticket: i64,
    /// Counts what it waits for: what comes later is not heard.
    generation: u64,
    pub(super) waits_since_us: Option<i64>,
}

impl Operator {
    pub(super) fn new(changes: usize) -> Operator {
        Operator {
            task: Task::Make,
            asked: None,
            at: None,
            inbox: None,
            changes_left: changes,
            moved: 0,
            steps: 0,
            ticket: 0,
            generation: 0,
            waits_since_us: None,
        }
    }

    /// Whether the grid stays as it is now.
    pub(super) fn is_done(&self) -> bool {
        self.task == Task::Done
    }

    /// Whether it has rows move.
    pub(super) fn moves(&self) -> bool {
        matches!(self.task, Task::Move { .. })
    }
}

impl World<'_> {
    /// Its number among the clients of a node.
    pub(super) fn operator_number(&self) -> usize {
        self.clients.len()
    }

    /// Has the operator go on in a while.
    pub(super) fn operate_in(&mut self, delay_us: i64) {
        self.operator.generation += 1;
        self.operator.waits_since_us = None;
        let generation = self.operator.generation;
        self.at(delay_us, Event::Operates(generation));
    }

    pub(super) fn operator_hears_in(&mut self, delay_us: i64, answer: Answer) {
        self.operator.inbox = Some(answer);
        let generation = self.operator.generation;
        self.at(delay_us, Event::Operates(generation));
    }

    /// The node where it was has gone.
    pub(super) fn cut_off_operator(&mut self, at: usize) {
        if self.operator.at == Some(at) {
            self.operator.at = None;
            self.operator.inbox = None;
            self.operator.asked = None;
            self.operate_in(PAUSE_US);
        }
    }

    /// The operator goes on.
    pub(super) fn operate(&mut self, generation: u64) -> Result<(), Violation> {
        if self.operator.generation != generation {
            return Ok(());
        }
        if let Some(answer) = self.operator.inbox.take() {
            self.note_answer(format_args!("the operator"), &answer);
            return self.operator_hears(answer);
        }
        match self.operator.task.clone() {
            Task::Make => {
                if self.sites.iter().all(|site| site.members.len() > 1) && self.all_are_ready() {
                    let mut script = format!("{}create sequence tickets; ", schema());
                    if self.plan.has_twin() {
                        script.push_str(&format!("create table {TWIN} (like board including all); "));
                    }
                    if self.random.uniform(0, 2) == 0 {
                        script.push_str(&format!("alter table {} set (spread = false); ", WHOLE.name()));
                    }
                    if let Some(copied) = self.plan.copied {
                        script.push_str(&format!("alter table {} set (spread = everywhere); ", copied.name()));
                    }
                    return self.operator_asks(Asked::Schema, script);
                }
                self.operate_in(PAUSE_US);
            }
            Task::Draw => return self.operator_asks(Asked::Ticket, "select nextval('tickets')".to_owned()),
            Task::Choose => self.choose()?,
            Task::HandOver { to, leaves } => return self.hand_over(to, leaves),
            Task::Move { without, table } => return self.ask_for_state(without, table),
            Task::Desert(node) => self.see_to_desertion(node),
            Task::Remove(node) => {
                if !self.sites[self.first].members.contains(&node) {
                    self.note(format_args!("{node} is none of the grid any more"));
                    self.choose_in();
                } else {
                    self.count_step()?;
                    let sql = format!("alter grid remove node {}", node.0);
                    return self.operator_asks(Asked::Removal, sql);
                }
            }
            Task::Done => {}
        }
        Ok(())
    }

    fn choose_in(&mut self) {
        self.operator.task = Task::Draw;
        let pause_us = self.random.uniform(1, CHANGE_US_MAX);
        self.operate_in(pause_us);
    }

    /// What is changed next.
    fn choose(&mut self) -> Result<(), Violation> {
        if self.operator.changes_left == 0 {
            self.operator.task = Task::Done;
            return Ok(());
        }
        if self.sites[self.first].running.is_none() {
            self.operate_in(PAUSE_US);
            return Ok(());
        }
        self.operator.changes_left -= 1;
        (self.operator.steps, self.operator.moved) = (0, 0);
        let members: Vec<NodeId> = self.sites[self.first].members.iter().copied().collect();
        let wants_growth = members.len() < 3 || self.random.uniform(0, 1) == 0;
        if wants_growth && self.sites.len() < NODES_MAX {
            self.join()?;
            self.operator.task = Task::Move {
                without: None,
                table: 0,
            };
        } else if self.random.uniform(0, 2) == 0 {
            let to = self.random.uniform(0, members.len() as i64 - 1) as usize;
            let (to, leaves) = (members[to], None);
            self.operator.task = Task::HandOver { to, leaves };
        } else if members.len() > 2 {
            let at = self.random.uniform(0, members.len() as i64 - 1) as usize;
            self.coverage.count("drains");
            self.note(format_args!("{} is drained", members[at]));
            self.operator.task = Task::Move {
                without: Some(members[at]),
                table: 0,
            };
        }
        let pause_us = self.random.uniform(1, PAUSE_US);
        self.operate_in(pause_us);
        Ok(())
    }

    /// The nodes that tables are to lie on, as the statement has them.
    fn wanted(&self, without: Option<NodeId>) -> String {
        let members = self.sites[self.first]
            .members
            .iter()
            .filter(|node| Some(**node) != without);
        let numbers: Vec<String> = members.map(|node| node.0.to_string()).collect();
        numbers.join(",")
    }

    fn ask_for_state(&mut self, without: Option<NodeId>, table: usize) -> Result<(), Violation> {
        // Who has rows move sees to it first that all nodes reach each other.
        if self.operator.steps == 0 && !self.all_are_ready() {
            self.operate_in(PAUSE_US);
            return Ok(());
        }
        self.count_step()?;
        if let Some(table) = self.plan.table(table) {
            let sql = format!("select nodes, state, rows_moved, way from rubato.moves where relation = '{table}'");
            return self.operator_asks(Asked::State, sql);
        }
        match without {
            Some(node) if node.0 as usize == self.first => {
                let others = self.sites[self.first].members.iter().filter(|other| **other != node);
                let others: Vec<NodeId> = others.copied().collect();
                let to = others[self.random.uniform(0, others.len() as i64 - 1) as usize];
                self.operator.task = Task::HandOver { to, leaves: Some(node) };
                self.operate_in(1);
            }
            Some(node) => {
                self.sites[node.0 as usize].is_leaving = true;
                self.operator.task = Task::Desert(node);
                self.operate_in(PAUSE_US);
            }
            None => {
                self.coverage.count("rebalanced");
                self.choose_in();
            }
        }
        Ok(())
    }

    /// One more step of what it is at.
    fn count_step(&mut self) -> Result<(), Violation> {
        self.operator.steps += 1;
        match self.operator.steps > STEPS_MAX {
            true => Err(Violation::new(
                "a change of the grid that gets nowhere",
                format!("{:?}", self.operator.task),
            )),
            false => Ok(()),
        }
    }

    /// Another node is to keep what there is once.
    fn hand_over(&mut self, to: NodeId, leaves: Option<NodeId>) -> Result<(), Violation> {
        self.count_step()?;
        if self.first == to.0 as usize {
            match leaves {
                Some(node) => {
                    self.sites[node.0 as usize].is_leaving = true;
                    self.operator.task = Task::Desert(node);
                    self.operate_in(PAUSE_US);
                }
                None => self.choose_in(),
            }
            return Ok(());
        }
        if !self.all_are_ready() {
            self.operate_in(PAUSE_US);
            return Ok(());
        }
        self.operator_asks(Asked::HandOver, format!("alter grid hand over to node {}", to.0))
    }

    fn see_to_desertion(&mut self, node: NodeId) {
        let number = self.operator_number();
        if let Some(at) = self.operator.at.take_if(|at| *at == node.0 as usize) {
            if let Some(running) = &mut self.sites[at].running {
                running.connections.hang_up(number);
            }
            self.drain(at);
        }
        if self.is_deserted(node.0 as usize) {
            self.operator.task = Task::Remove(node);
        }
        self.operate_in(PAUSE_US);
    }

    /// Connects the operator to any node that takes clients.
    fn operator_enters(&mut self) -> Result<Option<usize>, Violation> {
        let number = self.operator_number();
        if let Some(at) = self.operator.at
            && self.sites[at].running.is_some()
            && !self.sites[at].is_leaving
        {
            return Ok(Some(at));
        }
        if let Some(running) = self.operator.at.take().and_then(|at| self.sites[at].running.as_mut()) {
            running.connections.hang_up(number);
        }
        let is_open = |at: &usize| {
            let site = &self.sites[*at];
            let running = site.running.as_ref();
            let is_free = |running: &Running| running.is_open(self.now_us) && !running.connections.is_connected(number);
            !site.is_leaving && running.is_some_and(is_free)
        };
        let open: Vec<usize> = (0..self.sites.len()).filter(is_open).collect();
        let chosen = self.random.uniform(0, open.len() as i64 - 1) as usize;
        let Some(at) = open.get(chosen).copied() else {
            return Ok(None);
        };
        self.next_session += 1;
        let session = self.next_session;
        if let Some(running) = &mut self.sites[at].running {
            let connected = running.connections.connect(number, session);
            connected.map_err(|error| Violation::new("no session", error.to_string()))?;
        }
        self.operator.at = Some(at);
        Ok(Some(at))
    }

    fn operator_asks(&mut self, asked: Asked, sql: String) -> Result<(), Violation> {
        let number = self.operator_number();
        let Some(at) = self.operator_enters()? else {
            self.operate_in(PAUSE_US);
            return Ok(());
        };
        self.note(format_args!("the operator asks node {at}: {sql}"));
        self.operator.asked = Some(asked);
        self.operator.generation += 1;
        self.operator.waits_since_us = Some(self.now_us);
        let requests = VecDeque::from([Request::Query { sql }]);
        if let Some(running) = &mut self.sites[at].running {
            running.connections.submit(number, requests);
        }
        self.drain(at);
        Ok(())
    }

    fn operator_hears(&mut self, answer: Answer) -> Result<(), Violation> {
        let asked = self.operator.asked.take();
        if let Some(error) = &answer.error {
            let code = answer.code();
            let is_calm = !self.plan.has(GrowthTrouble::Crashes) && !self.plan.has(GrowthTrouble::Partitions);
            let may_be_refused = !is_calm && asked != Some(Asked::Schema);
            // Another change of the catalogs may not be known everywhere yet, or votes not be given.
            let is_early = matches!(asked, Some(Asked::HandOver | Asked::Removal)) && code == "55006";
            let is_left = asked == Some(Asked::Removal) && code == "2BP01" && self.plan.has_twin();
            let is_expected = code == "40001" || is_early || may_be_refused;
            if !is_left && (!PASSES.contains(&code.as_str()) || !is_expected) {
                let what = format!("the operator, {asked:?}: {code} {error}");
                return Err(Violation::new("unexpected error", what));
            }
            self.coverage.count("steps of the operator that were refused");
            // A table that took another name while they were gone through one by one.
            if let (Task::Remove(node), "2BP01") = (&self.operator.task, &*code) {
                self.operator.task = Task::Move {
                    without: Some(*node),
                    table: 0,
                };
            }
            self.operate_in(PAUSE_US);
            return Ok(());
        }
        match (asked, self.operator.task.clone()) {
            (Some(Asked::Schema), _) => {
                self.begin_working();
                self.choose_in();
            }
            (Some(Asked::State), Task::Move { without, table }) => return self.on_state(without, table, &answer),
            (Some(Asked::Ticket), Task::Draw) => {
                let drawn = answer.rows().first().and_then(|row| row.first()?.as_i64());
                let last = self.operator.ticket;
                self.operator.ticket = drawn.filter(|drawn| *drawn > last).ok_or_else(|| {
                    let what = format!("{drawn:?} behind {last}");
                    Violation::new("a number that was given before", what)
                })?;
                self.operator.task = Task::Choose;
                self.operate_in(1);
            }
            (Some(Asked::Step), _) => {
                self.coverage.count("steps of moves");
                let pause_us = self.random.uniform(1, STEP_US_MAX);
                self.operate_in(pause_us);
            }
            _ => self.operate_in(PAUSE_US),
        }
        Ok(())
    }

    fn on_state(&mut self, without: Option<NodeId>, table: usize, answer: &Answer) -> Result<(), Violation> {
        let row = answer.rows().first().map(Vec::as_slice).unwrap_or_default();
        let [nodes, state, moved, way] = row else {
            return Err(Violation::new("no table to move", format!("{answer:?}")));
        };
        let (nodes, state) = (nodes.as_str().unwrap_or_default(), state.as_str().unwrap_or_default());
        let moved = moved.as_i64().unwrap_or(0);
        let wanted = self.wanted(without);
        let is_there = match way.as_str() {
            Some("whole") => {
                let node = nodes.parse().unwrap_or(self.first as u32);
                without != Some(NodeId(node)) && self.sites[self.first].members.contains(&NodeId(node))
            }
            _ => nodes == wanted,
        };
        if state == "rests" && is_there {
            self.coverage.count("tables moved");
            self.operator.moved = 0;
            self.operator.task = Task::Move {
                without,
                table: table + 1,
            };
            self.operate_in(1);
            return Ok(());
        }
        if state.starts_with("waits") && moved == self.operator.moved && self.random.uniform(0, 1) == 0 {
            self.operator.moved = -1;
            self.operate_in(PAUSE_US);
            return Ok(());
        }
        self.operator.moved = moved;
        let rows = self.random.uniform(STEP_ROWS.0, STEP_ROWS.1);
        let table = self.plan.table(table).unwrap_or_default();
        let sql = format!("alter table {table} set (spread_nodes = '{wanted}', spread_rows = {rows})");
        self.operator_asks(Asked::Step, sql)
    }

    /// The tables are there: clients begin, and things go wrong.
    fn begin_working(&mut self) {
        (self.phase, self.since_us) = (Phase::Working, self.now_us);
        for client in 1..self.clients.len() {
            let delay_us = self.random.uniform(0, 5_000);
            self.act_in(delay_us, client);
        }
        self.trouble_soon();
    }
}
