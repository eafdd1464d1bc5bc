//! The scripts of `sql`, whose answers are PostgreSQL's and the relay's, with the engine wherever it can run a query.

#[path = "../../sql/tests/executor/scripts.rs"]
mod scripts;
#[allow(dead_code)]
#[path = "../../sql/tests/executor/world.rs"]
mod world;

use rubato_analytics::DataFusion;
use rubato_sql::analytics::Engine;

const ENGINE: Option<&'static dyn Engine> = Some(&DataFusion);
