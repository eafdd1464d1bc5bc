//! What is said of waits between transactions, as bytes.

use super::{damaged, put_global, put_u32, read_global};
use rubato_base::codec::{ByteReader, put_length};
use rubato_base::{NodeId, Result};
use rubato_protocol::grid::{PROBE_STEPS_MAX, Probe, Waiter, Waiting};

/// Tags of what is said of waits begin here.
pub(super) const WAITING: u8 = 192;

pub(super) fn put_waiting(out: &mut Vec<u8>, waiting: &Waiting) {
    match waiting {
        Waiting::Ahead(probe) => put_probe(out, WAITING, probe),
        Waiting::Behind(probe) => put_probe(out, WAITING + 1, probe),
        Waiting::GiveWay => out.push(WAITING + 2),
    }
}

pub(super) fn read_waiting(tag: u8, reader: &mut ByteReader<'_>) -> Result<Waiting> {
    Ok(match tag.wrapping_sub(WAITING) {
        0 => Waiting::Ahead(read_probe(reader)?),
        1 => Waiting::Behind(read_probe(reader)?),
        2 => Waiting::GiveWay,
        _ => return Err(damaged("an unknown word of waits")),
    })
}

fn put_probe(out: &mut Vec<u8>, tag: u8, probe: &Probe) {
    out.push(tag);
    put_u32(out, probe.steps);
    put_length(out, probe.path.len());
    for waiter in &probe.path {
        put_global(out, waiter.transaction);
        put_u32(out, waiter.at.0);
    }
}

fn read_probe(reader: &mut ByteReader<'_>) -> Result<Probe> {
    let steps = reader.u32()?;
    let count = reader.length()?;
    if (steps as usize).saturating_add(count) > PROBE_STEPS_MAX as usize {
        return Err(damaged("a probe of more waits than there may be"));
    }
    let mut path = Vec::with_capacity(count);
    for _ in 0..count {
        path.push(Waiter {
            transaction: read_global(reader)?,
            at: NodeId(reader.u32()?),
        });
    }
    Ok(Probe { path, steps })
}
