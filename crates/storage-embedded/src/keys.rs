//! How tables share one tree.
//!
//! Every key of the tree begins with four bytes, the number of the *space* it belongs to. A table has a space of its
//! own, given on its first put and never to another one. Space 0 belongs to this room, and lies, all but the version, in a tree of its own, the notes:
//!
//! | key behind the four zeros | value |
//! |---|---|
//! | `v` | format version |
//! | `n` | the next space to give |
//! | `t`, table | the table's space |
//! | `g`, space | – : a dropped table's space, its keys still to be removed |
//!
//! All numbers are four bytes, big-endian. Dropping a table writes two of these keys, however large the table is. The format version lies
//! among the rows, where older versions look for it.

/// Since version 2 rows go to the engine as files only, never through its journal; before, both ways were taken. Since version 3 what is noted
/// about tables is in a tree of its own; before, it lay among the rows.
pub(crate) const FORMAT_VERSION: u32 = 3;
/// The first version that has the tree of notes.
pub(crate) const NOTES_VERSION: u32 = 3;

pub(crate) const VERSION_KEY: [u8; 5] = [0, 0, 0, 0, b'v'];
pub(crate) const NEXT_SPACE_KEY: [u8; 5] = [0, 0, 0, 0, b'n'];
const TABLE: u8 = b't';
const GARBAGE: u8 = b'g';

/// The version of the format, as it stands among the rows.
pub(crate) fn version(rows: &fjall::Keyspace) -> fjall::Result<Option<u32>> {
    Ok(rows.get(VERSION_KEY)?.and_then(|value| number(&value)))
}

/// The key of `key` in a space.
pub(crate) fn in_space(space: u32, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(4 + key.len());
    full.extend_from_slice(&space.to_be_bytes());
    full.extend_from_slice(key);
    full
}

/// The key under which the space of a table is noted.
pub(crate) fn table_key(table: u32) -> Vec<u8> {
    own_key(TABLE, table)
}

/// The key that says that a space is to be removed.
pub(crate) fn garbage_key(space: u32) -> Vec<u8> {
    own_key(GARBAGE, space)
}

fn own_key(kind: u8, number: u32) -> Vec<u8> {
    let mut key = vec![0, 0, 0, 0, kind];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// What a key of space 0 says.
pub(crate) enum OwnKey {
    Table(u32),
    Garbage(u32),
    Other,
}

pub(crate) fn parse_own_key(key: &[u8]) -> OwnKey {
    match (key.get(4), key.get(5..).and_then(number)) {
        (Some(&TABLE), Some(table)) => OwnKey::Table(table),
        (Some(&GARBAGE), Some(space)) => OwnKey::Garbage(space),
        _ => OwnKey::Other,
    }
}

pub(crate) fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}
