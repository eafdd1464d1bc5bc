//! The configurations that are explored.

use super::definition::{Op, Program};
use super::world::{Configuration, Crash};
use Op::*;
use rubato_protocol::QueuePolicy;

/// Programs with a name.
struct Shape {
    name: &'static str,
    programs: fn() -> Vec<Program>,
    /// The rows that exist at first.
    start: &'static [u8],
}

/// Rows 0 and 2 are kept by node 0, rows 1 and 3 by node 1.
const SHAPES: &[Shape] = &[
    Shape {
        name: "blind formulas that commute, over both nodes",
        programs: || vec![vec![Plus(0, 7), Plus(1, 7)], vec![Plus(0, 5), Plus(1, 5)]],
        start: &[0, 1],
    },
    Shape {
        name: "blind formulas that do not commute, over both nodes",
        programs: || vec![vec![Plus(0, 10), Plus(1, 10)], vec![Times(0, 2), Times(1, 2)]],
        start: &[0, 1],
    },
    Shape {
        name: "a blind pair and a reader of both",
        programs: || vec![vec![Times(0, 2), Plus(1, 7)], vec![Read(0), Read(1)]],
        start: &[0, 1],
    },
    Shape {
        name: "a blind pair and a local formula",
        programs: || vec![vec![Times(0, 2), Plus(1, 7)], vec![Plus(0, 5)]],
        start: &[0, 1],
    },
    Shape {
        name: "write skew over both nodes",
        programs: || vec![vec![Read(0), Plus(1, 7)], vec![Read(1), Plus(0, 5)]],
        start: &[0, 1],
    },
    Shape {
        name: "lost update over both nodes",
        programs: || {
            vec![
                vec![Read(0), Plus(0, 7), Plus(1, 1)],
                vec![Read(0), Plus(0, 5), Plus(1, 2)],
            ]
        },
        start: &[0, 1],
    },
    Shape {
        name: "read to write in opposite orders",
        programs: || vec![vec![ReadAdd(0, 7), ReadAdd(1, 1)], vec![ReadAdd(1, 5), ReadAdd(0, 3)]],
        start: &[0, 1],
    },
    Shape {
        name: "read to write and blind",
        programs: || vec![vec![ReadAdd(0, 7), Plus(1, 1)], vec![Times(0, 2), ReadAdd(1, 3)]],
        start: &[0, 1],
    },
    Shape {
        name: "locks and formulas",
        programs: || vec![vec![Lock(0), Plus(1, 7)], vec![Lock(1), Plus(0, 5)]],
        start: &[0, 1],
    },
    Shape {
        name: "insert and delete of one key",
        programs: || vec![vec![Insert(2), Plus(1, 1)], vec![Delete(2), Plus(1, 2)]],
        start: &[0, 1],
    },
    Shape {
        name: "one key inserted twice",
        programs: || vec![vec![Insert(2), Plus(1, 1)], vec![Insert(2), Times(1, 2)]],
        start: &[0, 1],
    },
    Shape {
        name: "one key inserted or added to twice",
        programs: || vec![vec![Upsert(2, 7), Plus(1, 1)], vec![Upsert(2, 5), Times(1, 2)]],
        start: &[0, 1],
    },
    Shape {
        name: "a row added to or inserted, and deleted",
        programs: || vec![vec![Upsert(0, 7), Plus(1, 1)], vec![Delete(0), Plus(1, 2)]],
        start: &[0, 1],
    },
    Shape {
        name: "a formula and the deletion of its row",
        programs: || vec![vec![Plus(0, 7), Plus(1, 7)], vec![Delete(0), Plus(1, 2)]],
        start: &[0, 1],
    },
    Shape {
        name: "range reads and inserts",
        programs: || vec![vec![Count(0), Insert(3)], vec![Count(1), Insert(2)]],
        start: &[0, 1],
    },
    Shape {
        name: "a range reader and an insert",
        programs: || vec![vec![Count(0), Count(1)], vec![Insert(2), Insert(3)]],
        start: &[0, 1],
    },
    Shape {
        name: "own writes read back",
        programs: || vec![vec![Plus(0, 7), Read(0), Plus(1, 1)], vec![Times(0, 2), Read(1)]],
        start: &[0, 1],
    },
    Shape {
        name: "a rollback in between",
        programs: || {
            vec![
                vec![Plus(0, 7), ReadAdd(1, 1), Rollback],
                vec![ReadAdd(0, 5), Plus(1, 3)],
            ]
        },
        start: &[0, 1],
    },
];

/// Three transactions.
const THREES: &[Shape] = &[
    Shape {
        name: "the skipped formula, over both nodes",
        programs: || {
            vec![
                vec![Times(0, 2), Plus(1, 1)],
                vec![Read(0), Read(1)],
                vec![Plus(0, 7), Plus(1, 7)],
            ]
        },
        start: &[0, 1],
    },
    Shape {
        name: "two blind pairs and a local formula",
        programs: || {
            vec![
                vec![Times(0, 2), Times(1, 2)],
                vec![Plus(0, 7), Plus(1, 7)],
                vec![Set(0, 5)],
            ]
        },
        start: &[0, 1],
    },
    Shape {
        name: "read-only anomaly over both nodes",
        programs: || {
            vec![
                vec![Read(0), Read(1), Plus(0, 7)],
                vec![Times(1, 2)],
                vec![Read(0), Read(1)],
            ]
        },
        start: &[0, 1],
    },
    Shape {
        name: "a blind pair, a local formula and a local reader",
        programs: || vec![vec![Times(0, 2), Plus(1, 1)], vec![Plus(0, 7)], vec![Read(0)]],
        start: &[0, 1],
    },
    Shape {
        name: "write skew in a circle",
        programs: || {
            vec![
                vec![Read(0), Plus(1, 7)],
                vec![Read(1), Plus(2, 5)],
                vec![Read(2), Plus(0, 3)],
            ]
        },
        start: &[0, 1, 2],
    },
    Shape {
        name: "read to write in a circle",
        programs: || {
            vec![
                vec![ReadAdd(0, 7), ReadAdd(1, 1)],
                vec![ReadAdd(1, 5), ReadAdd(0, 3)],
                vec![Times(0, 2), Plus(1, 1)],
            ]
        },
        start: &[0, 1],
    },
    Shape {
        name: "insert, delete and count",
        programs: || {
            vec![
                vec![Insert(2), Plus(1, 1)],
                vec![Delete(2), Plus(1, 2)],
                vec![Count(0), Read(1)],
            ]
        },
        start: &[0, 1],
    },
    Shape {
        name: "range reads in a circle",
        programs: || vec![vec![Count(0), Insert(3)], vec![Count(1), Insert(2)], vec![Delete(0)]],
        start: &[0, 1],
    },
];

/// Read to write is a pipeline, and some of what is written is taken back.
const PIPELINES: &[Shape] = &[
    Shape {
        name: "read to write behind what is taken back",
        programs: || {
            vec![
                vec![Plus(1, 1), ReadAdd(0, 7), Back(0)],
                vec![ReadAdd(0, 5), Plus(1, 3)],
            ]
        },
        start: &[0, 1],
    },
    Shape {
        name: "an insert behind one that is taken back",
        programs: || vec![vec![Plus(1, 1), Insert(2), Back(2)], vec![Insert(2), Plus(1, 2)]],
        start: &[0, 1],
    },
    Shape {
        name: "inserted or added to behind what is taken back",
        programs: || vec![vec![Plus(1, 1), Upsert(2, 7), Back(2)], vec![Upsert(2, 5), Plus(1, 2)]],
        start: &[0, 1],
    },
    Shape {
        name: "a lock behind what is taken back and written again",
        programs: || {
            vec![
                vec![Plus(1, 1), ReadAdd(0, 7), Back(0), Plus(0, 2)],
                vec![Lock(0), Read(1)],
            ]
        },
        start: &[0, 1],
    },
    Shape {
        name: "own formulas read back behind one that is taken back",
        programs: || {
            vec![
                vec![Plus(1, 1), Plus(0, 7), Back(0)],
                vec![Times(0, 2), Read(0), Plus(1, 3)],
            ]
        },
        start: &[0, 1],
    },
    Shape {
        name: "a line of three",
        programs: || {
            vec![
                vec![ReadAdd(0, 7), Back(0), Plus(1, 1)],
                vec![ReadAdd(0, 5), Plus(1, 2)],
                vec![ReadAdd(0, 3)],
            ]
        },
        start: &[0, 1],
    },
];

/// Three sessions of one node.
const SESSIONS: &[Shape] = &[
    // A circle over both nodes leads through one that stays (rule Q-5).
    Shape {
        name: "a session that stays between two that go over",
        programs: || {
            vec![
                vec![ReadAdd(0, 7), ReadAdd(1, 1)],
                vec![ReadAdd(2, 5), ReadAdd(0, 3)],
                vec![ReadAdd(1, 2), ReadAdd(2, 4)],
            ]
        },
        start: &[0, 1, 2],
    },
    // The reader has the deletion prepared above the newest place that its partition knows (rule P-5).
    Shape {
        name: "a formula, the deletion of its row unseen, and a reader",
        programs: || vec![vec![Plus(0, 7), Plus(1, 7)], vec![Remove(0), Read(1)], vec![Read(0)]],
        start: &[0, 1],
    },
];

/// Steps that are asked for together.
const TOGETHER: &[Shape] = &[
    Shape {
        name: "blind formulas together",
        programs: || {
            vec![
                vec![Plus(0, 7), Plus(2, 7), Plus(1, 7)],
                vec![Times(2, 2), Times(0, 2), Plus(1, 5)],
            ]
        },
        start: &[0, 1, 2],
    },
    Shape {
        name: "read to write together in opposite orders",
        programs: || {
            vec![
                vec![ReadAdd(0, 7), ReadAdd(2, 1), Plus(1, 1)],
                vec![ReadAdd(2, 5), ReadAdd(0, 3), Plus(1, 2)],
            ]
        },
        start: &[0, 1, 2],
    },
    Shape {
        name: "inserts and counts together",
        programs: || {
            vec![
                vec![Insert(2), Plus(0, 1), Plus(1, 1)],
                vec![Count(0), Times(0, 2), Read(1)],
            ]
        },
        start: &[0, 1],
    },
];

fn of(shape: &Shape, suffix: &str) -> Configuration {
    let mut configuration = Configuration::new(&format!("{}{suffix}", shape.name), (shape.programs)());
    configuration.start = shape.start.to_vec();
    configuration
}

/// Every configuration, the small ones first.
pub fn all() -> Vec<Configuration> {
    let mut all = Vec::new();
    all.extend(SHAPES.iter().map(|shape| of(shape, "")));
    all.extend(THREES.iter().map(|shape| of(shape, "")));
    for shape in SHAPES.iter().chain(PIPELINES) {
        let mut configuration = of(shape, ", as a pipeline");
        configuration.policies.queue = QueuePolicy::Pipeline;
        all.push(configuration);
    }
    for shape in SHAPES.iter().chain(SESSIONS) {
        let mut configuration = of(shape, ", by sessions");
        configuration.sessions = true;
        all.push(configuration);
    }
    for shape in TOGETHER {
        let faults = [("", 0, 0), (", one message lost", 1, 0), (", one message twice", 0, 1)];
        for (suffix, lost, repeated) in faults {
            let mut configuration = of(shape, suffix);
            (configuration.lost, configuration.repeated, configuration.together) = (lost, repeated, true);
            all.push(configuration);
        }
    }
    for shape in SHAPES {
        for (suffix, lost, repeated) in [(", one message lost", 1, 0), (", one message twice", 0, 1)] {
            let mut configuration = of(shape, suffix);
            (configuration.lost, configuration.repeated) = (lost, repeated);
            all.push(configuration);
        }
    }
    for shape in SHAPES {
        for (suffix, crash) in [
            (", a participant crashes", Crash::Participant),
            (", the coordinator crashes", Crash::Coordinator),
        ] {
            let mut configuration = of(shape, suffix);
            configuration.crash = Some(crash);
            all.push(configuration);
        }
    }
    all
}
