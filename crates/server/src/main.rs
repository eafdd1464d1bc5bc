//! The program `rubato`. What it does is in `rubato_server::program`; here it gets its engine.

mod engine;
mod resident;

use rubato_stages::worker::STACK_BYTES;
use std::process::ExitCode;

/// The system's allocator took a tenth of the time of a TPC-B statement; this one takes a third of that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Recovery applies what workers have written, and needs as much stack as they.
    let program = std::thread::Builder::new()
        .name("main".to_owned())
        .stack_size(STACK_BYTES);
    let begun = program.spawn(rubato_server::program::main::<engine::NodeEngine>);
    match begun.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(wrong) => {
            eprintln!("rubato: no thread for the program: {wrong}");
            ExitCode::FAILURE
        }
    }
}
