//! Addresses of the internet: `inet` and `cidr`.
//!
//! Texts are read and written as PostgreSQL does it, which has it from BIND: an `inet` may have bits to the right of its mask, a `cidr`
//! may not, and may leave out octets that are zero.

mod calculate;
mod parse;
mod show;

pub use calculate::{ip_difference, merged};

use crate::codec::{ByteReader, damaged};
use crate::{DataType, Error, Result, SqlState};
use std::cmp::Ordering;

/// Numbers of the families in the binary forms.
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 3;

/// An address with the length of its network's mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// The address, from the first byte; of IPv4 the last twelve bytes are zero.
    bytes: [u8; 16],
    is_v6: bool,
    mask_bits: u8,
}

impl Network {
    /// An address of IPv4 by its number.
    pub fn v4(address: u32, mask_bits: u8) -> Network {
        Network::of_number(u128::from(address) << 96, false, mask_bits)
    }

    /// An address of IPv6 by its number.
    pub fn v6(address: u128, mask_bits: u8) -> Network {
        Network::of_number(address, true, mask_bits)
    }

    fn of_number(number: u128, is_v6: bool, mask_bits: u8) -> Network {
        let bits_max = if is_v6 { 128 } else { 32 };
        Network {
            bytes: number.to_be_bytes(),
            is_v6,
            mask_bits: mask_bits.min(bits_max),
        }
    }

    /// The bits of the address, from the highest of the number.
    fn number(self) -> u128 {
        u128::from_be_bytes(self.bytes)
    }

    fn address_bytes(&self) -> &[u8] {
        &self.bytes[..if self.is_v6 { 16 } else { 4 }]
    }

    /// Whether the address is one of IPv6.
    pub fn is_v6(self) -> bool {
        self.is_v6
    }

    /// 4 or 6.
    pub fn family(self) -> i32 {
        if self.is_v6 { 6 } else { 4 }
    }

    /// How many bits of the address say which network it is in.
    pub fn mask_bits(self) -> u8 {
        self.mask_bits
    }

    /// How many bits an address of the family has.
    pub fn bits_max(self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// Whether nothing is set to the right of the mask, as it has to be in a `cidr`.
    pub fn is_network(self) -> bool {
        self.masked() == self.number()
    }

    /// The address without what is to the right of the mask.
    fn masked(self) -> u128 {
        self.number() & mask(self.mask_bits)
    }

    /// Whether the first `bits` of both are the same.
    fn agrees(self, other: Network, bits: u8) -> bool {
        (self.number() ^ other.number()) & mask(bits) == 0
    }

    /// Whether `other` is a network within this one; with `or_equal`, or this one.
    pub fn contains(self, other: Network, or_equal: bool) -> bool {
        let is_wider = self.mask_bits < other.mask_bits || (or_equal && self.mask_bits == other.mask_bits);
        self.is_v6 == other.is_v6 && is_wider && self.agrees(other, self.mask_bits)
    }

    /// Whether one contains the other.
    pub fn overlaps(self, other: Network) -> bool {
        self.is_v6 == other.is_v6 && self.agrees(other, self.mask_bits.min(other.mask_bits))
    }

    /// In the order of values.
    fn rank(self) -> (bool, u128, u8, u128) {
        (self.is_v6, self.masked(), self.mask_bits, self.number())
    }

    /// The bytes of keys, in order as the values are: family, network, length of the mask, address.
    pub(crate) fn encode_key(self, mut push: impl FnMut(&[u8])) {
        push(&[if self.is_v6 { FAMILY_V6 } else { FAMILY_V4 }]);
        push(&self.masked().to_be_bytes()[..self.address_bytes().len()]);
        push(&[self.mask_bits]);
        push(self.address_bytes());
    }

    /// How many bytes [`Network::encode_key`] writes of a family.
    pub(crate) fn key_length(family: u8) -> usize {
        if family == FAMILY_V6 { 34 } else { 10 }
    }

    /// Reads what [`Network::encode_key`] wrote.
    pub(crate) fn decode_key(bytes: &[u8]) -> Result<Network> {
        let mut reader = ByteReader::new(bytes);
        let family = reader.u8()?;
        let length = if family == FAMILY_V6 { 16 } else { 4 };
        reader.take(length)?;
        let mask_bits = reader.u8()?;
        let address = reader.take(length)?;
        let whole = reader.is_empty() && matches!(family, FAMILY_V4 | FAMILY_V6);
        match Network::of_bytes(address, mask_bits) {
            Some(network) if whole => Ok(network),
            _ => Err(damaged("an address of the internet")),
        }
    }

    /// Appends the bytes that rows hold.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.push(if self.is_v6 { FAMILY_V6 } else { FAMILY_V4 });
        out.push(self.mask_bits);
        out.extend_from_slice(self.address_bytes());
    }

    /// Reads what [`Network::encode`] wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Network> {
        let network = match bytes {
            [FAMILY_V4 | FAMILY_V6, mask_bits, address @ ..] => Network::of_bytes(address, *mask_bits),
            _ => None,
        };
        let is_whole = |network: &Network| network.is_v6 == (bytes[0] == FAMILY_V6);
        network
            .filter(is_whole)
            .ok_or_else(|| damaged("an address of the internet"))
    }

    /// An address of 4 or 16 bytes; `None` of any other number, or with too long a mask.
    fn of_bytes(address: &[u8], mask_bits: u8) -> Option<Network> {
        let is_v6 = match address.len() {
            4 => false,
            16 => true,
            _ => return None,
        };
        let mut bytes = [0; 16];
        bytes[..address.len()].copy_from_slice(address);
        let network = Network {
            bytes,
            is_v6,
            mask_bits,
        };
        (mask_bits <= network.bits_max()).then_some(network)
    }

    /// Reads an `inet` or `cidr` from its text.
    pub(crate) fn parse(text: &str, is_cidr: bool) -> Result<Network> {
        let name = type_of(is_cidr).name();
        let network = parse::parse(text, is_cidr).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for type {name}: \"{text}\""),
            )
        })?;
        if is_cidr && !network.is_network() {
            let message = format!("invalid cidr value: \"{text}\"");
            return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(TO_THE_RIGHT));
        }
        Ok(network)
    }

    /// Reads the binary form.
    pub(crate) fn parse_binary(bytes: &[u8], is_cidr: bool) -> Result<Network> {
        let name = type_of(is_cidr).name();
        let refused = |what: &str| {
            Error::new(
                SqlState::INVALID_BINARY_REPRESENTATION,
                format!("invalid {what} in external \"{name}\" value"),
            )
        };
        let [family, mask_bits, _, length, address @ ..] = bytes else {
            return Err(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                "insufficient data left in message",
            ));
        };
        let (expected, bits_max) = match *family {
            FAMILY_V4 => (4, 32),
            FAMILY_V6 => (16, 128),
            _ => return Err(refused("address family")),
        };
        if *mask_bits > bits_max {
            return Err(refused("bits"));
        }
        if usize::from(*length) != expected {
            return Err(refused("length"));
        }
        let network = Network::of_bytes(address, *mask_bits).filter(|_| address.len() == expected);
        let network = network
            .ok_or_else(|| Error::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format"))?;
        if is_cidr && !network.is_network() {
            let message = "invalid external \"cidr\" value";
            return Err(Error::new(SqlState::INVALID_BINARY_REPRESENTATION, message).with_detail(TO_THE_RIGHT));
        }
        Ok(network)
    }

    /// Appends the binary form.
    pub(crate) fn write_binary(self, is_cidr: bool, out: &mut Vec<u8>) {
        let address = self.address_bytes();
        let family = if self.is_v6 { FAMILY_V6 } else { FAMILY_V4 };
        out.extend_from_slice(&[family, self.mask_bits, is_cidr.into(), address.len() as u8]);
        out.extend_from_slice(address);
    }
}

const TO_THE_RIGHT: &str = "Value has bits set to right of mask.";

fn type_of(is_cidr: bool) -> DataType {
    if is_cidr { DataType::Cidr } else { DataType::Inet }
}

/// The first `bits` bits.
fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

/// IPv4 first; then by network, the wider one first, then by address.
impl Ord for Network {
    fn cmp(&self, other: &Network) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Network {
    fn partial_cmp(&self, other: &Network) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
