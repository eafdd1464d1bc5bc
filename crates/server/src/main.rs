//! The program `rubato`. What it does is in `rubato_server::program`; here it gets its engine.

mod engine;

use std::process::ExitCode;

fn main() -> ExitCode {
    rubato_server::program::main::<engine::NodeEngine>()
}
