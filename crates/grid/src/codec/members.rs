//! What is said about members as bytes.

use super::{damaged, put_u32, put_u64, work::put_text, work::read_text};
use crate::channel::GridId;
use crate::members::{MEMBERS_MAX, Member, MemberMessage, Members};
use rubato_base::codec::{ByteReader, put_length};
use rubato_base::{NodeId, Result};
use std::collections::BTreeMap;

pub(super) fn put_member_message(out: &mut Vec<u8>, message: &MemberMessage) {
    match message {
        MemberMessage::Apply { applicant, address } => {
            out.push(1);
            out.extend_from_slice(applicant);
            put_text(out, address);
        }
        MemberMessage::Admitted(node, members) => {
            out.push(2);
            put_u32(out, node.0);
            put_members(out, members);
        }
        MemberMessage::AskAt(address) => {
            out.push(3);
            put_text(out, address);
        }
        MemberMessage::NotAdmitted(why) => {
            out.push(4);
            put_text(out, why);
        }
        MemberMessage::List(members) => {
            out.push(5);
            put_members(out, members);
        }
        MemberMessage::Listed(version) => {
            out.push(9);
            put_u64(out, *version);
        }
        MemberMessage::MovedTo(address) => {
            out.push(6);
            put_text(out, address);
        }
        MemberMessage::Written(log_end) => {
            out.push(7);
            put_u64(out, *log_end);
        }
        MemberMessage::SeenAt(node, address) => {
            out.push(8);
            put_u32(out, node.0);
            put_text(out, address);
        }
    }
}

pub(super) fn read_member_message(reader: &mut ByteReader<'_>) -> Result<MemberMessage> {
    Ok(match reader.u8()? {
        1 => MemberMessage::Apply {
            applicant: read_sixteen(reader)?,
            address: read_text(reader)?,
        },
        2 => MemberMessage::Admitted(NodeId(reader.u32()?), read_members(reader)?),
        3 => MemberMessage::AskAt(read_text(reader)?),
        4 => MemberMessage::NotAdmitted(read_text(reader)?),
        5 => MemberMessage::List(read_members(reader)?),
        6 => MemberMessage::MovedTo(read_text(reader)?),
        7 => MemberMessage::Written(reader.u64()?),
        8 => MemberMessage::SeenAt(NodeId(reader.u32()?), read_text(reader)?),
        9 => MemberMessage::Listed(reader.u64()?),
        _ => return Err(damaged("an unknown message about members")),
    })
}

fn put_members(out: &mut Vec<u8>, members: &Members) {
    out.extend_from_slice(&members.grid.0);
    put_u64(out, members.version);
    put_length(out, members.entries().count());
    for (node, member) in members.entries() {
        put_u32(out, node.0);
        out.extend_from_slice(&member.applicant);
        put_text(out, &member.address);
    }
}

fn read_members(reader: &mut ByteReader<'_>) -> Result<Members> {
    let grid = GridId(read_sixteen(reader)?);
    let version = reader.u64()?;
    let count = reader.length()?;
    if count > MEMBERS_MAX + 1 {
        return Err(damaged("a list of too many members"));
    }
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let node = NodeId(reader.u32()?);
        let applicant = read_sixteen(reader)?;
        let address = read_text(reader)?;
        entries.insert(node, Member { address, applicant });
    }
    Ok(Members::of_entries(grid, version, entries))
}

fn read_sixteen(reader: &mut ByteReader<'_>) -> Result<[u8; 16]> {
    let bytes = reader.take(16)?;
    bytes.try_into().map_err(|_| damaged("too few bytes"))
}
