//! Transparent TCP proxies at the two edges of a tunnel (papers 001 and 002): between them a connection goes by explicit rates,
//! without either end host knowing.
//!
//! A proxy is a process of its own beside the daemon, one thread. What it diverts lives and dies with it: the nftables table by its
//! owner ([`crate::nft`]), the routing by the daemon ([`detour`]), and every connection is reset by the kernel, since it is closed with the
//! option to do so until it has ended in order.

mod connection;
pub mod detour;
mod direction;
mod granting;
mod listeners;
pub mod nft;
mod orders;
pub mod policy;
mod pool;
mod rates;
mod relay;
mod ruleset;
mod share;
mod status;
mod sys;
mod table;

pub use orders::Order;
pub use rates::{Total, Totals};
pub use ruleset::Names;
pub use share::level;
pub use status::Status;

use std::io;

/// Descriptors beside those of connections and pipes.
const OTHERS: usize = 96;
/// Connections that may come while the diversion is taken back, as a part of those there is room for.
const SPARE: usize = 64;
/// Pipes that may be in use; who finds none is copied for.
const PIPES: usize = 256;

/// What there is room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Connections that are taken in.
    pub connections: usize,
    /// Those that come on top while it is being said that there is no more room.
    pub spare: usize,
    /// Pipes.
    pub pipes: usize,
}

/// What `descriptors` are enough for, `wanted` connections at most: each has two, so has each pipe.
pub fn room_in(descriptors: usize, wanted: usize) -> Room {
    let pipes = PIPES.min(descriptors / 32);
    let most = descriptors.saturating_sub(OTHERS + 2 * pipes) / 2;
    let connections = wanted.min(most - most / SPARE);
    Room { connections, spare: (most - connections).min(connections / SPARE + 1), pipes }
}

/// Descriptors that `connections` want.
pub fn descriptors_for(connections: usize) -> usize {
    OTHERS + 2 * PIPES + 2 * (connections + connections / (SPARE - 1) + 1)
}

/// Raises the limit of descriptors for `wanted` connections, and says for how many it is enough.
///
/// # Errors
/// When the kernel does not tell the limit.
pub fn room(wanted: usize) -> io::Result<Room> {
    let descriptors = sys::raise_descriptors(descriptors_for(wanted) as u64)?;
    Ok(room_in(usize::try_from(descriptors).unwrap_or(usize::MAX), wanted))
}

/// The first of these congestion controls that a socket gets here; `None` when it is none of them.
///
/// # Errors
/// When there is no socket.
pub fn congestion(names: &[String]) -> io::Result<Option<&str>> {
    let socket = sys::Socket::new((std::net::Ipv4Addr::LOCALHOST, 0).into(), 0)?;
    Ok(names.iter().map(String::as_str).find(|name| socket.set_congestion(name).is_ok()))
}

/// Proxies for the device `tun` until standard input ends, as the orders there say. The routing is the daemon's to set up; it is taken
/// back here too, in case nobody else is left to do so.
///
/// # Errors
/// When the kernel or nft refuse.
pub fn run(tun: &str) -> io::Result<()> {
    let names = Names::of(tun);
    let result = relay::Relay::new(names.clone()).and_then(|mut relay| relay.run());
    detour::unlead(&names);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_within_the_descriptors() {
        for descriptors in [0, 100, 256, 1_024, 20_000, 1 << 20] {
            for wanted in [0, 1, 100, 16_384] {
                let Room { connections, spare, pipes } = room_in(descriptors, wanted);
                assert!(connections <= wanted);
                assert!(connections == 0 || OTHERS + 2 * (connections + spare + pipes) <= descriptors);
            }
        }
        for wanted in [1, 500, 10_000, 16_384] {
            assert_eq!(room_in(descriptors_for(wanted), wanted).connections, wanted);
        }
    }
}
