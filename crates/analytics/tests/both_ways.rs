//! The scripts of `sql`, whose answers are PostgreSQL's and the relay's, with the engine wherever it can run a query.

#[path = "../../sql/tests/executor/scripts.rs"]
mod scripts;
#[allow(dead_code)]
#[path = "../../sql/tests/executor/world.rs"]
mod world;

use rubato_analytics::DataFusion;
use rubato_base::Result;
use rubato_sql::analytics::{Engine, Run, Setting, Tree};

const ENGINE: Option<&'static dyn Engine> = Some(&Insisting);

/// The engine; a tree that it refuses fails the test, where else the relay would answer and nobody would know.
#[derive(Debug)]
struct Insisting;

impl Engine for Insisting {
    fn start(&self, tree: Tree, setting: Setting) -> Result<Box<dyn Run>> {
        let shown = format!("{tree:#?}");
        let started = DataFusion.start(tree, setting);
        if let Err(error) = &started {
            panic!("{error:?} for {shown}");
        }
        started
    }

    fn explain(&self, tree: Tree, setting: Setting) -> Result<Vec<String>> {
        DataFusion.explain(tree, setting)
    }
}

/// What only the engine runs.
#[test]
fn windows() {
    let script = include_str!("../../sql/tests/scripts/windows.slt");
    for rows_left in [rubato_sql::executor::ExecutionContext::UNBOUNDED, 1, 3] {
        scripts::run_script(script, rows_left);
    }
}
