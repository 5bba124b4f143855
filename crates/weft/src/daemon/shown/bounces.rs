//! Conversion of send errors and ICMP errors from the kernel's types to the engine's.

use std::io;
use weft_engine::Unreachable;
use weft_io::udp::{Bounce, BounceReason, UdpLink};

/// Maximum number of ICMP errors to take from a socket in a turn. Further errors wake the packet loop again.
pub const MOST: usize = 16;

/// Moves the ICMP errors that wait at a socket to `bounces`.
pub fn take(socket: &UdpLink, bounces: &mut Vec<Bounce>) {
    bounces.extend(std::iter::from_fn(|| socket.take_bounce()).take(MOST));
}

/// Converts an ICMP error to the engine's type.
pub fn unreachable(error: BounceReason) -> Unreachable {
    match error {
        BounceReason::Port => Unreachable::Port,
        BounceReason::Host => Unreachable::Host,
        BounceReason::Network => Unreachable::Network,
        BounceReason::Prohibited => Unreachable::Prohibited,
        BounceReason::TooBig => Unreachable::TooBig,
        BounceReason::HopLimit | BounceReason::Other => Unreachable::Other,
    }
}

/// Converts the error with which the kernel refused to send to the engine's type.
pub fn unsent(why: &io::Error) -> Unreachable {
    match why.kind() {
        io::ErrorKind::PermissionDenied => Unreachable::Filtered,
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => Unreachable::NoRoute,
        io::ErrorKind::NetworkDown => Unreachable::LinkDown,
        _ => Unreachable::Other,
    }
}
