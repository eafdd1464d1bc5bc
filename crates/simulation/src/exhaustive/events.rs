//! What may happen next in a world, less what makes no difference.

use super::log::RecordLog;
use super::world::{COORDINATOR, Content, Crash, Event, Packet, World};
use rubato_protocol::Sketch;
use rubato_protocol::grid::TickSource;
use std::rc::Rc;

/// How often everybody may say again what was not answered, when nothing is under way.
const TIMER_ROUNDS_MAX: u8 = 4;

impl World {
    /// Everything that may happen next. Where the order of an event against all others cannot be noticed, only that one.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(at) = self.unnoticed() {
            self.add_delivery(at, &mut events);
            return events;
        }
        for (i, client) in self.clients.iter().enumerate() {
            if client.global.is_none() && client.end.is_none() && !self.has_equal_before(i) {
                events.push(Event::Begin(i));
            }
            if client.is_ready && client.end.is_none() {
                events.push(Event::Step(i));
            }
        }
        (0..self.packets.len()).for_each(|at| self.add_deliveries(at, &mut events));
        if self.crashes > 0 && self.clients.iter().any(|client| client.global.is_some()) {
            self.add_crashes(&mut events);
        }
        if events.is_empty() && !self.is_finished() && self.has_faults() && self.timer_rounds < TIMER_ROUNDS_MAX {
            events.push(Event::Timer);
        }
        events
    }

    fn has_faults(&self) -> bool {
        let configuration = &self.configuration;
        configuration.lost + configuration.repeated > 0 || configuration.crash.is_some()
    }

    /// A message to the coordinator from which no tick is taken: it changes only its own transaction's state there, so nobody can
    /// tell when it arrived, except that an acknowledgement that comes sooner binds more. Not while a crash may come.
    fn unnoticed(&self) -> Option<usize> {
        if self.crashes > 0 {
            return None;
        }
        let candidates = self.packets.iter().enumerate();
        let to_coordinator = |packet: &Packet| packet.to == COORDINATOR && !packet.is_copy;
        let mut candidates = candidates.filter(|(_, packet)| to_coordinator(&packet.0));
        candidates.find(|(at, _)| !self.takes_a_tick(*at)).map(|(at, _)| at)
    }

    fn takes_a_tick(&self, at: usize) -> bool {
        let Content::Message(message) = &self.packets[at].0.content else {
            return false;
        };
        let (mut coordinator, mut ticks, mut log) =
            (self.coordinator.value.clone(), self.ticks.clone(), RecordLog::default());
        coordinator.on_message(self.packets[at].0.from, message.clone(), &mut ticks, &mut log);
        let next = |ticks: &TickSource| ticks.clone().next_tick();
        next(&ticks) != next(&self.ticks)
    }

    /// Of transactions that do the same, the first begins first.
    fn has_equal_before(&self, i: usize) -> bool {
        let programs = &self.configuration.programs;
        (0..i).any(|j| programs[j] == programs[i] && self.clients[j].global.is_none())
    }

    fn add_deliveries(&self, at: usize, events: &mut Vec<Event>) {
        let equal = |other: &Rc<(Packet, Sketch)>| {
            let (a, b) = (&other.0, &self.packets[at].0);
            a.from == b.from && a.to == b.to && same_content(&a.content, &b.content)
        };
        // Two messages that are the same need not be tried twice.
        if !self.packets[..at].iter().any(equal) {
            self.add_delivery(at, events);
        }
    }

    fn add_delivery(&self, at: usize, events: &mut Vec<Event>) {
        events.push(Event::Deliver(at));
        if matches!(self.packets[at].0.content, Content::Told(..)) {
            return;
        }
        if self.lost > 0 {
            events.push(Event::Lose(at));
        }
        if self.repeated > 0 {
            events.push(Event::Repeat(at));
        }
    }

    fn add_crashes(&self, events: &mut Vec<Event>) {
        let processes = match self.configuration.crash {
            Some(Crash::Participant) => 0..self.participants.len(),
            Some(Crash::Coordinator) => self.participants.len()..self.participants.len() + 1,
            None => 0..0,
        };
        for process in processes {
            let log = &self.logs[process];
            for kept in log.forced..=log.records.len() {
                events.push(Event::Crash(process, kept, false));
                let concerned = |node| self.process(node) == Some(process);
                let under_way = |packet: &Packet| concerned(packet.to) || concerned(packet.from);
                if self.packets.iter().any(|packet| under_way(&packet.0)) {
                    events.push(Event::Crash(process, kept, true));
                }
            }
        }
    }

    /// What an event is, for a counterexample.
    pub fn describe(&self, event: Event) -> String {
        let packet = |at: usize| {
            let packet = &self.packets[at].0;
            match &packet.content {
                Content::Message(message) => {
                    let body = format!("{:?}", message.body);
                    format!(
                        "{} -> {} about {}: {body}",
                        packet.from, packet.to, message.transaction.tick
                    )
                }
                Content::Told(global, told) => format!("client of {} is told {told:?}", global.tick),
            }
        };
        match event {
            Event::Begin(i) => format!("transaction {i} begins"),
            Event::Step(i) => format!("transaction {i} goes on where its session is"),
            Event::Deliver(at) => packet(at),
            Event::Lose(at) => format!("LOST {}", packet(at)),
            Event::Repeat(at) => format!("TWICE {}", packet(at)),
            Event::Crash(process, kept, cuts_off) => {
                let cut = if cuts_off {
                    ", what was on its way to and from it is lost"
                } else {
                    ""
                };
                format!("CRASH of process {process}, {kept} records kept{cut}")
            }
            Event::Timer => "TIMER".to_string(),
        }
    }
}

fn same_content(a: &Content, b: &Content) -> bool {
    match (a, b) {
        (Content::Message(a), Content::Message(b)) => a == b,
        _ => false,
    }
}
