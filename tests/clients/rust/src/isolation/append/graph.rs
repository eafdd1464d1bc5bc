//! Who stands before whom: edges with their reasons, and the search for a circle.

use std::collections::VecDeque;
use std::fmt;

/// Why one transaction stands before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its append comes directly before the other's in this list.
    WriteWrite(i32),
    /// The other read its append.
    WriteRead(i32),
    /// The other appended directly behind what it read.
    ReadWrite(i32),
    /// It was acknowledged before the other began.
    RealTime,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::WriteWrite(list) => write!(f, "ww list {list}"),
            Reason::WriteRead(list) => write!(f, "wr list {list}"),
            Reason::ReadWrite(list) => write!(f, "rw list {list}"),
            Reason::RealTime => f.write_str("real time"),
        }
    }
}

/// A directed graph.
#[derive(Default)]
pub struct Graph {
    /// By node: where edges lead.
    next: Vec<Vec<(usize, Reason)>>,
    edges: usize,
}

impl Graph {
    /// A graph of so many nodes without edges.
    pub fn new(nodes: usize) -> Graph {
        Graph {
            next: vec![Vec::new(); nodes],
            edges: 0,
        }
    }

    /// One more node.
    pub fn add_node(&mut self) -> usize {
        self.next.push(Vec::new());
        self.next.len() - 1
    }

    /// `from` stands before `to`. A node stands not before itself.
    pub fn add_edge(&mut self, from: usize, to: usize, reason: Reason) {
        if from != to {
            self.next[from].push((to, reason));
            self.edges += 1;
        }
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.edges
    }

    /// A shortest circle through one of the nodes that stand in one: each node with the reason why it stands before the next.
    pub fn circle(&self) -> Option<Vec<(usize, Reason)>> {
        let left = self.nodes_in_circles();
        let start = left.iter().position(|is_left| *is_left)?;
        // Not every node that is left stands in a circle itself (it may stand behind one): try them in turn.
        (start..self.next.len())
            .filter(|node| left[*node])
            .find_map(|node| self.circle_through(node, &left))
    }

    /// Takes away what nothing stands before, again and again. Circles, and what stands behind them, are left.
    fn nodes_in_circles(&self) -> Vec<bool> {
        let mut before = vec![0usize; self.next.len()];
        for (to, _) in self.next.iter().flatten() {
            before[*to] += 1;
        }
        let mut free: Vec<usize> = (0..before.len()).filter(|node| before[*node] == 0).collect();
        let mut left = vec![true; before.len()];
        while let Some(node) = free.pop() {
            left[node] = false;
            for (to, _) in &self.next[node] {
                before[*to] -= 1;
                if before[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        left
    }

    fn circle_through(&self, start: usize, left: &[bool]) -> Option<Vec<(usize, Reason)>> {
        let mut from: Vec<Option<(usize, Reason)>> = vec![None; self.next.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for (to, reason) in self.next[node].iter().filter(|(to, _)| left[*to]) {
                if *to == start {
                    return Some(trace(start, node, *reason, &from));
                }
                if from[*to].is_none() {
                    from[*to] = Some((node, *reason));
                    queue.push_back(*to);
                }
            }
        }
        None
    }
}

fn trace(start: usize, last: usize, reason: Reason, from: &[Option<(usize, Reason)>]) -> Vec<(usize, Reason)> {
    let mut circle = vec![(last, reason)];
    let mut node = last;
    while node != start {
        let Some((before, reason)) = from[node] else { break };
        circle.push((before, reason));
        node = before;
    }
    circle.reverse();
    circle
}
