//! Functions of PostgreSQL's extension `pgcrypto` that hash, and random bytes. Those that hash passwords are not here: each call is to take long,
//! and a worker runs the statements of many clients.

use super::FunctionEntry;
use super::argument::{entry, typed};
use crate::context::EvalContext;
use hmac::digest::block_api::EagerHash;
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use rubato_base::{Error, Result, SqlState};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

/// How many random bytes one call gives, as in PostgreSQL.
const RANDOM_BYTES_MAX: i32 = 1024;

fn no_such_hash(name: &str) -> Error {
    let message = format!("Cannot use \"{name}\": No such hash algorithm");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn digest(data: &[u8], name: &str) -> Result<Vec<u8>> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "md5" => Md5::digest(data).to_vec(),
        "sha1" => Sha1::digest(data).to_vec(),
        "sha224" => Sha224::digest(data).to_vec(),
        "sha256" => Sha256::digest(data).to_vec(),
        "sha384" => Sha384::digest(data).to_vec(),
        "sha512" => Sha512::digest(data).to_vec(),
        _ => return Err(no_such_hash(name)),
    })
}

fn authenticated<D: EagerHash>(data: &[u8], key: &[u8]) -> Result<Vec<u8>> {
    let keyed = Hmac::<D>::new_from_slice(key);
    let mut keyed = keyed.map_err(|wrong| Error::internal(format!("hmac refuses its key: {wrong}")))?;
    keyed.update(data);
    Ok(keyed.finalize().into_bytes().to_vec())
}

fn hmac(data: &[u8], key: &[u8], name: &str) -> Result<Vec<u8>> {
    match name.to_ascii_lowercase().as_str() {
        "md5" => authenticated::<Md5>(data, key),
        "sha1" => authenticated::<Sha1>(data, key),
        "sha224" => authenticated::<Sha224>(data, key),
        "sha256" => authenticated::<Sha256>(data, key),
        "sha384" => authenticated::<Sha384>(data, key),
        "sha512" => authenticated::<Sha512>(data, key),
        _ => Err(no_such_hash(name)),
    }
}

fn random_bytes(context: &EvalContext<'_>, count: i32) -> Result<Vec<u8>> {
    if !(1..=RANDOM_BYTES_MAX).contains(&count) {
        return Err(Error::new(SqlState(*b"39000"), "Length not in range"));
    }
    let mut bytes = Vec::new();
    while bytes.len() < count as usize {
        bytes.extend(context.environment.secret_bytes()?);
    }
    bytes.truncate(count as usize);
    Ok(bytes)
}

pub(super) static DIGESTS: &[FunctionEntry] = &[
    entry!("digest" (Text, Text) -> Bytea, typed!(|data: &str, name: &str| digest(data.as_bytes(), name))),
    entry!("digest" (Bytea, Text) -> Bytea, typed!(|data: &[u8], name: &str| digest(data, name))),
    entry!("hmac" (Text, Text, Text) -> Bytea, typed!(|data: &str, key: &str, name: &str| {
        hmac(data.as_bytes(), key.as_bytes(), name)
    })),
    entry!("hmac" (Bytea, Bytea, Text) -> Bytea, typed!(|data: &[u8], key: &[u8], name: &str| hmac(data, key, name))),
    entry!("gen_random_bytes" (Int4) -> Bytea, typed!(with c |count: i32| random_bytes(c, count))).volatile(),
];
