//! A server whose statements cost next to nothing: what remains is the wire. For measuring with pgbench and a script such as
//! `SELECT 1`:
//!
//! `cargo run --release -p rubato-server --example wire_alone -- 127.0.0.1:0 1`

#[path = "../tests/common/engine.rs"]
#[allow(dead_code, missing_docs)]
mod engine;

use engine::{TestEngine, World};
use rubato_server::{Server, ServerSecurity, ServerSettings};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let workers = arguments.next().map_or(Ok(1), |workers| workers.parse())?;
    let settings = ServerSettings {
        listen: vec![listen],
        workers,
        ..ServerSettings::default()
    };
    let world = Arc::new(World::default());
    let server = Server::start(settings, ServerSecurity::default(), |_, wake| {
        Ok(TestEngine::new(Arc::clone(&world), wake))
    })?;
    println!("serving at {:?}; enter ends it", server.addresses());
    std::io::stdin().read_line(&mut String::new())?;
    server.shut_down();
    Ok(())
}
