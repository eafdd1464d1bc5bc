//! Addresses of the internet and of network cards.
//!
//! PostgreSQL's functions take an `inet`, to which a `cidr` is converted by itself; those that say another thing of a `cidr` have an
//! overload of their own.

use super::FunctionEntry;
use super::argument::{Cidr, Inet, MacAddr, MacAddr8, entry, typed};
use rubato_base::network::{ip_difference, merged};
use rubato_base::{Network, Result};

fn same_shown(network: Network) -> String {
    if network.mask_bits() == network.bits_max() {
        network.host()
    } else {
        network.to_text()
    }
}

/// The address of a `cidr` keeps nothing to the right of its new mask.
fn network_with_mask(network: Network, mask_bits: i32) -> Result<Cidr> {
    Ok(Cidr(network.with_mask_bits(mask_bits)?.network()))
}

fn moved(address: Network, distance: i64, back: bool) -> Result<Inet> {
    let distance = i128::from(distance);
    address.plus(if back { -distance } else { distance }).map(Inet)
}

fn both<const N: usize>(one: [u8; N], two: [u8; N], combine: fn(u8, u8) -> u8) -> [u8; N] {
    std::array::from_fn(|place| combine(one[place], two[place]))
}

/// The manufacturer's part.
fn maker<const N: usize>(mut address: [u8; N]) -> [u8; N] {
    for byte in address.iter_mut().skip(3) {
        *byte = 0;
    }
    address
}

fn with_seventh_bit([first, rest @ ..]: [u8; 8]) -> [u8; 8] {
    let [b, c, d, e, f, g, h] = rest;
    [first | 2, b, c, d, e, f, g, h]
}

pub(super) static NETWORK: &[FunctionEntry] = &[
    entry!("<<" (Inet, Inet) -> Bool, typed!(|a: Inet, b: Inet| b.0.contains(a.0, false))),
    entry!("<<=" (Inet, Inet) -> Bool, typed!(|a: Inet, b: Inet| b.0.contains(a.0, true))),
    entry!(">>" (Inet, Inet) -> Bool, typed!(|a: Inet, b: Inet| a.0.contains(b.0, false))),
    entry!(">>=" (Inet, Inet) -> Bool, typed!(|a: Inet, b: Inet| a.0.contains(b.0, true))),
    entry!("&&" (Inet, Inet) -> Bool, typed!(|a: Inet, b: Inet| a.0.overlaps(b.0))),
    entry!("~" (Inet) -> Inet, typed!(|a: Inet| Inet(a.0.complement()))),
    entry!("&" (Inet, Inet) -> Inet, typed!(|a: Inet, b: Inet| a.0.combined(b.0, "AND", |a, b| a & b).map(Inet))),
    entry!("|" (Inet, Inet) -> Inet, typed!(|a: Inet, b: Inet| a.0.combined(b.0, "OR", |a, b| a | b).map(Inet))),
    entry!("+" (Inet, Int8) -> Inet, typed!(|a: Inet, b: i64| moved(a.0, b, false))),
    entry!("+" (Int8, Inet) -> Inet, typed!(|a: i64, b: Inet| moved(b.0, a, false))),
    entry!("-" (Inet, Int8) -> Inet, typed!(|a: Inet, b: i64| moved(a.0, b, true))),
    entry!("-" (Inet, Inet) -> Int8, typed!(|a: Inet, b: Inet| ip_difference(a.0, b.0))),
    entry!("abbrev" (Inet) -> Text, typed!(|a: Inet| same_shown(a.0))),
    entry!("abbrev" (Cidr) -> Text, typed!(|a: Cidr| a.0.abbreviated())),
    entry!("broadcast" (Inet) -> Inet, typed!(|a: Inet| Inet(a.0.broadcast()))),
    entry!("family" (Inet) -> Int4, typed!(|a: Inet| a.0.family())),
    entry!("host" (Inet) -> Text, typed!(|a: Inet| a.0.host())),
    entry!("hostmask" (Inet) -> Inet, typed!(|a: Inet| Inet(a.0.host_mask_address()))),
    entry!("inet_merge" (Inet, Inet) -> Cidr, typed!(|a: Inet, b: Inet| merged(a.0, b.0).map(Cidr))),
    entry!("inet_same_family" (Inet, Inet) -> Bool, typed!(|a: Inet, b: Inet| a.0.is_v6() == b.0.is_v6())),
    entry!("masklen" (Inet) -> Int4, typed!(|a: Inet| i32::from(a.0.mask_bits()))),
    entry!("netmask" (Inet) -> Inet, typed!(|a: Inet| Inet(a.0.net_mask()))),
    entry!("network" (Inet) -> Cidr, typed!(|a: Inet| Cidr(a.0.network()))),
    entry!("set_masklen" (Inet, Int4) -> Inet, typed!(|a: Inet, bits: i32| a.0.with_mask_bits(bits).map(Inet))),
    entry!("set_masklen" (Cidr, Int4) -> Cidr, typed!(|a: Cidr, bits: i32| network_with_mask(a.0, bits))),
    entry!("~" (MacAddr) -> MacAddr, typed!(|a: MacAddr| MacAddr(a.0.map(|byte| !byte)))),
    entry!("&" (MacAddr, MacAddr) -> MacAddr, typed!(|a: MacAddr, b: MacAddr| MacAddr(both(a.0, b.0, |a, b| a & b)))),
    entry!("|" (MacAddr, MacAddr) -> MacAddr, typed!(|a: MacAddr, b: MacAddr| MacAddr(both(a.0, b.0, |a, b| a | b)))),
    entry!("trunc" (MacAddr) -> MacAddr, typed!(|a: MacAddr| MacAddr(maker(a.0)))),
    entry!("~" (MacAddr8) -> MacAddr8, typed!(|a: MacAddr8| MacAddr8(a.0.map(|byte| !byte)))),
    entry!("&" (MacAddr8, MacAddr8) -> MacAddr8, typed!(|a: MacAddr8, b: MacAddr8| {
        MacAddr8(both(a.0, b.0, |a, b| a & b))
    })),
    entry!("|" (MacAddr8, MacAddr8) -> MacAddr8, typed!(|a: MacAddr8, b: MacAddr8| {
        MacAddr8(both(a.0, b.0, |a, b| a | b))
    })),
    entry!("trunc" (MacAddr8) -> MacAddr8, typed!(|a: MacAddr8| MacAddr8(maker(a.0)))),
    entry!("macaddr8_set7bit" (MacAddr8) -> MacAddr8, typed!(|a: MacAddr8| MacAddr8(with_seventh_bit(a.0)))),
];
