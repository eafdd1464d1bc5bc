//! What is computed of addresses.

use super::{Network, mask};
use crate::{Error, Result, SqlState};

fn out_of_range() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "result is out of range")
}

impl Network {
    /// The network of the address.
    pub fn network(self) -> Network {
        Network::of_number(self.masked(), self.is_v6, self.mask_bits)
    }

    /// The last address of the network.
    pub fn broadcast(self) -> Network {
        Network::of_number(self.number() | self.host_mask(), self.is_v6, self.mask_bits)
    }

    /// The bits that say which network it is.
    pub fn net_mask(self) -> Network {
        Network::of_number(mask(self.mask_bits), self.is_v6, self.bits_max())
    }

    /// The bits that say which host of the network it is.
    pub fn host_mask_address(self) -> Network {
        Network::of_number(self.host_mask(), self.is_v6, self.bits_max())
    }

    fn host_mask(self) -> u128 {
        !mask(self.mask_bits) & mask(self.bits_max())
    }

    /// The same address with another mask; -1 means all of it. 22023 for one that the family has not.
    pub fn with_mask_bits(self, mask_bits: i32) -> Result<Network> {
        let bits = if mask_bits == -1 {
            Some(self.bits_max())
        } else {
            u8::try_from(mask_bits).ok().filter(|bits| *bits <= self.bits_max())
        };
        let bits = bits.ok_or_else(|| {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid mask length: {mask_bits}"),
            )
        })?;
        Ok(Network::of_number(self.number(), self.is_v6, bits))
    }

    /// The address with all bits the other way round.
    pub fn complement(self) -> Network {
        Network::of_number(!self.number() & mask(self.bits_max()), self.is_v6, self.mask_bits)
    }

    /// The bits of both, combined. 22023 for addresses of two families, which `verb` names.
    pub fn combined(self, other: Network, verb: &str, combine: fn(u128, u128) -> u128) -> Result<Network> {
        check_families(self, other, verb)?;
        let mask_bits = self.mask_bits.max(other.mask_bits);
        let number = combine(self.number(), other.number());
        Ok(Network::of_number(number, self.is_v6, mask_bits))
    }

    /// The address so much further. 22003 beyond the first and the last one.
    pub fn plus(self, distance: i128) -> Result<Network> {
        let moved = if self.is_v6 {
            self.number().checked_add_signed(distance)
        } else {
            let moved = i128::from((self.number() >> 96) as u32) + distance;
            u32::try_from(moved).ok().map(|moved| u128::from(moved) << 96)
        };
        let moved = moved.ok_or_else(out_of_range)?;
        Ok(Network::of_number(moved, self.is_v6, self.mask_bits))
    }
}

fn check_families(one: Network, two: Network, verb: &str) -> Result<()> {
    if one.is_v6 == two.is_v6 {
        return Ok(());
    }
    Err(Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("cannot {verb} inet values of different sizes"),
    ))
}

/// How far two addresses lie apart. 22003 beyond 64 bits, 22023 for addresses of two families.
pub fn ip_difference(one: Network, two: Network) -> Result<i64> {
    check_families(one, two, "subtract")?;
    if one.is_v6 {
        // As PostgreSQL has it, the distance is taken around the end of the addresses.
        let distance = one.number().wrapping_sub(two.number()) as i128;
        return i64::try_from(distance).map_err(|_| out_of_range());
    }
    let address = |network: Network| i64::from((network.number() >> 96) as u32);
    Ok(address(one) - address(two))
}

/// The smallest network that both are in. 22023 for addresses of two families.
pub fn merged(one: Network, two: Network) -> Result<Network> {
    if one.is_v6 != two.is_v6 {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "cannot merge addresses from different families",
        ));
    }
    let common = (one.number() ^ two.number()).leading_zeros() as u8;
    let mask_bits = common.min(one.mask_bits).min(two.mask_bits);
    Ok(Network::of_number(one.number(), one.is_v6, mask_bits).network())
}
