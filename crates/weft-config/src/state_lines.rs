//! The lines of state files.

use crate::config::peer_name;
use std::net::Ipv4Addr;
use weft_session::PublicKey;

/// No true stamp is higher: nanoseconds since 1970 until the year 2262. A damaged one could not be followed by a higher one.
pub const MAX_STAMP: u64 = i64::MAX as u64;

/// A stamp that a true one may be.
pub fn parse_stamp(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|stamp| *stamp <= MAX_STAMP)
}

/// A peer's key, and the highest stamp accepted from it.
pub fn parse_accepted(line: &str) -> Option<(PublicKey, u64)> {
    let (key, stamp) = line.split_once(' ')?;
    Some((key.parse().ok()?, parse_stamp(stamp)?))
}

/// The name, address and key of a client that may come in.
pub fn parse_client(line: &str) -> Option<(String, Ipv4Addr, PublicKey)> {
    let mut words = line.split(' ');
    let name = peer_name(words.next()?).ok()?;
    let (address, public_key) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some((name, address, public_key))
}
