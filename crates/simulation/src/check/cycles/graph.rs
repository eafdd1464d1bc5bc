//! A graph of dependencies, and the worst circle in it.

use std::collections::{BTreeSet, VecDeque};

/// Why one transaction stands before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Its write was overwritten by the other.
    WriteWrite,
    /// Its write was read by the other.
    WriteRead,
    /// What it read was overwritten by the other.
    ReadWrite,
    /// It had ended when the other began.
    RealTime,
}

/// A circle: each transaction with the kind of the edge to the next.
pub(super) type Circle = Vec<(usize, Kind)>;

/// The names of circles, the worst first: edges that may stand in them, whether exactly one rw edge does, and the name.
const CLASSES: [(&[Kind], bool, &str); 8] = [
    (&[Kind::WriteWrite], false, "G0: write cycle"),
    (
        &[Kind::WriteWrite, Kind::WriteRead],
        false,
        "G1c: circular information flow",
    ),
    (&[Kind::WriteWrite, Kind::WriteRead], true, "G-single: read skew"),
    (
        &[Kind::WriteWrite, Kind::WriteRead, Kind::ReadWrite],
        false,
        "G2: anti-dependency cycle",
    ),
    (&[Kind::WriteWrite, Kind::RealTime], false, "G0 in real time"),
    (
        &[Kind::WriteWrite, Kind::WriteRead, Kind::RealTime],
        false,
        "G1c in real time",
    ),
    (
        &[Kind::WriteWrite, Kind::WriteRead, Kind::RealTime],
        true,
        "G-single in real time: stale read",
    ),
    (
        &[Kind::WriteWrite, Kind::WriteRead, Kind::ReadWrite, Kind::RealTime],
        false,
        "G2 in real time",
    ),
];

/// Transactions by number, and who stands before whom.
pub(super) struct Graph {
    edges: Vec<BTreeSet<(usize, Kind)>>,
}

impl Graph {
    pub(super) fn new(count: usize) -> Graph {
        Graph {
            edges: vec![BTreeSet::new(); count],
        }
    }

    pub(super) fn add(&mut self, before: usize, after: usize, kind: Kind) {
        if before != after {
            self.edges[before].insert((after, kind));
        }
    }

    /// A circle of the worst class there is, with its name.
    pub(super) fn worst_circle(&self) -> Option<(&'static str, Circle)> {
        let suspects = self.in_circles();
        if suspects.is_empty() {
            return None;
        }
        CLASSES.iter().find_map(|(kinds, one_rw, name)| {
            let circle = suspects.iter().find_map(|from| match one_rw {
                false => self.path(*from, *from, kinds),
                true => self.circle_with_one_read_write(*from, kinds),
            });
            circle.map(|circle| (*name, circle))
        })
    }

    fn circle_with_one_read_write(&self, from: usize, kinds: &[Kind]) -> Option<Circle> {
        let overwriters = self.edges[from].iter().filter(|(_, kind)| *kind == Kind::ReadWrite);
        overwriters.clone().find_map(|(to, kind)| {
            let mut circle = vec![(from, *kind)];
            circle.extend(self.path(*to, from, kinds)?);
            Some(circle)
        })
    }

    /// What is left when everything without predecessors or without successors is taken away, again and again.
    fn in_circles(&self) -> Vec<usize> {
        let mut left: BTreeSet<usize> = (0..self.edges.len()).collect();
        loop {
            let mut reached = BTreeSet::new();
            for from in &left {
                reached.extend(self.edges[*from].iter().map(|(to, _)| *to));
            }
            let goes_on = |at: &usize| self.edges[*at].iter().any(|(to, _)| left.contains(to));
            let kept: BTreeSet<usize> = left
                .iter()
                .copied()
                .filter(|at| reached.contains(at) && goes_on(at))
                .collect();
            if kept.len() == left.len() {
                return left.into_iter().collect();
            }
            left = kept;
        }
    }

    /// The shortest way of at least one edge.
    fn path(&self, from: usize, to: usize, kinds: &[Kind]) -> Option<Circle> {
        let mut came_from: Vec<Option<(usize, Kind)>> = vec![None; self.edges.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for (next, kind) in self.edges[at].iter().filter(|(_, kind)| kinds.contains(kind)) {
                if came_from[*next].is_none() {
                    came_from[*next] = Some((at, *kind));
                    queue.push_back(*next);
                }
            }
            if came_from[to].is_some() {
                break;
            }
        }
        let mut path = Vec::new();
        let mut at = to;
        loop {
            let (before, kind) = came_from[at]?;
            path.push((before, kind));
            at = before;
            if at == from {
                break;
            }
        }
        path.reverse();
        Some(path)
    }
}
