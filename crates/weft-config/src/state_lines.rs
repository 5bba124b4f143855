//! Parsers for the lines of state files.

use crate::config::peer_name;
use std::net::Ipv4Addr;
use weft_session::PublicKey;

/// Highest valid stamp: nanoseconds since 1970 until the year 2262, the range of an `i64`.
///
/// If a file with a stamp near the highest 64-bit number were accepted, no later handshake could have a higher stamp.
pub const MAX_STAMP: u64 = i64::MAX as u64;

/// Parses a stamp. Returns `None` above [`MAX_STAMP`].
pub fn parse_stamp(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|stamp| *stamp <= MAX_STAMP)
}

/// Parses a line with a peer's public key and the highest stamp that was accepted from this peer.
pub fn parse_accepted(line: &str) -> Option<(PublicKey, u64)> {
    let (key, stamp) = line.split_once(' ')?;
    Some((key.parse().ok()?, parse_stamp(stamp)?))
}

/// Parses the name, address and key of an admitted client.
pub fn parse_client(line: &str) -> Option<(String, Ipv4Addr, PublicKey)> {
    let mut words = line.split(' ');
    let name = peer_name(words.next()?).ok()?;
    let (address, public_key) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some((name, address, public_key))
}
