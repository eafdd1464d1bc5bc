//! The program `rubato-simulation`.

use std::process::ExitCode;

fn main() -> ExitCode {
    rubato_simulation::program::main()
}
