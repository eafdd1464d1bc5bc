//! The scripts of `sql`, whose answers are PostgreSQL's and the relay's, with the engine wherever it can run a query.

#[path = "../../sql/tests/executor/scripts.rs"]
mod scripts;
#[allow(dead_code)]
#[path = "../../sql/tests/executor/world.rs"]
mod world;

use rubato_analytics::DataFusion;
use rubato_sql::analytics::Engine;

const ENGINE: Option<&'static dyn Engine> = Some(&DataFusion);

/// What only the engine runs.
#[test]
fn windows() {
    let script = include_str!("../../sql/tests/scripts/windows.slt");
    for rows_left in [rubato_sql::executor::ExecutionContext::UNBOUNDED, 1, 3] {
        scripts::run_script(script, rows_left);
    }
}
