//! Ports for processes that tell each other beforehand where they listen.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports are looked for from here on. Below what systems take for connections that go out (32768 on Linux, 49152 elsewhere): one of those
/// may be taken between the look at it and the start of who is to listen there.
const FIRST: u16 = 10_000;
/// So many are looked at.
const COUNT: u16 = 20_000;

/// How many were looked at in this process.
static LOOKED_AT: AtomicU16 = AtomicU16::new(0);

/// Addresses on loopback where nobody listens; within a process none comes twice before all others have. Processes begin at places of their
/// own.
///
/// Errors: that of the last attempt if there are not as many.
pub fn free_addresses(count: usize) -> std::io::Result<Vec<SocketAddr>> {
    let begin = std::process::id().wrapping_mul(97) % u32::from(COUNT);
    let mut free = Vec::new();
    let mut left = COUNT;
    while free.len() < count {
        let looked_at = LOOKED_AT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + ((begin + u32::from(looked_at)) % u32::from(COUNT)) as u16;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match TcpListener::bind(address) {
            Ok(_) => free.push(address),
            Err(error) if left == 0 => return Err(error),
            Err(_) => left -= 1,
        }
    }
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_comes_twice_and_none_where_somebody_listens() {
        let first = free_addresses(3).expect("three ports");
        let _held = TcpListener::bind(first[0]).expect("it is free");
        let more = free_addresses(200).expect("more ports");
        assert!(more.iter().all(|address| !first.contains(address)));
    }
}
