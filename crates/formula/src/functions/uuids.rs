//! UUIDs: `gen_random_uuid`, and the functions of PostgreSQL's extension `uuid-ossp`.

use super::FunctionEntry;
use super::argument::{Uuid, entry, typed};
use crate::context::EvalContext;
use md5::{Digest, Md5};
use rubato_base::Result;
use sha1::Sha1;

/// Microseconds from 1582-10-15, where UUIDs count from, to 2000-01-01.
const UUID_EPOCH_US: i64 = 13_165_977_600_000_000;
/// The first name space of RFC 4122; the others count on in its first part.
const NAME_SPACE: u128 = 0x6ba7b810_9dad_11d1_80b4_00c04fd430c8;

/// Puts the version, and the variant of RFC 4122, in their places.
fn of_version(version: u8, mut bytes: [u8; 16]) -> Uuid {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid(bytes)
}

fn random(context: &EvalContext<'_>) -> Result<Uuid> {
    Ok(of_version(4, context.environment.secret_bytes()?))
}

/// By the clock, and random instead of the address of this machine: the bit of addresses that are several machines' says so.
fn by_time(context: &EvalContext<'_>) -> Result<Uuid> {
    let ticks = (context.environment.clock_time_us()? + UUID_EPOCH_US) as u64 * 10;
    let mut bytes = context.environment.secret_bytes()?;
    bytes[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
    bytes[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&((ticks >> 48) as u16).to_be_bytes());
    bytes[10] |= 1;
    Ok(of_version(1, bytes))
}

/// By a name within a name space.
fn by_name<D: Digest>(version: u8, space: Uuid, name: &str) -> Uuid {
    let hash = D::new().chain_update(space.0).chain_update(name).finalize();
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
    of_version(version, bytes)
}

/// The name space of this number.
fn name_space(number: u128) -> Uuid {
    Uuid((NAME_SPACE + (number << 96)).to_be_bytes())
}

pub(super) static UUIDS: &[FunctionEntry] = &[
    entry!("gen_random_uuid" () -> Uuid, typed!(with c || random(c))).volatile(),
    entry!("uuid_generate_v4" () -> Uuid, typed!(with c || random(c))).volatile(),
    entry!("uuid_generate_v1" () -> Uuid, typed!(with c || by_time(c))).volatile(),
    entry!("uuid_generate_v1mc" () -> Uuid, typed!(with c || by_time(c))).volatile(),
    entry!("uuid_generate_v3" (Uuid, Text) -> Uuid, typed!(|space: Uuid, name: &str| by_name::<Md5>(3, space, name))),
    entry!("uuid_generate_v5" (Uuid, Text) -> Uuid, typed!(|space: Uuid, name: &str| by_name::<Sha1>(5, space, name))),
    entry!("uuid_nil" () -> Uuid, typed!(|| Uuid([0; 16]))),
    entry!("uuid_ns_dns" () -> Uuid, typed!(|| name_space(0))),
    entry!("uuid_ns_url" () -> Uuid, typed!(|| name_space(1))),
    entry!("uuid_ns_oid" () -> Uuid, typed!(|| name_space(2))),
    entry!("uuid_ns_x500" () -> Uuid, typed!(|| name_space(4))),
];
