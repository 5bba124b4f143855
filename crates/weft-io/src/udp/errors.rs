//! ICMP errors about datagrams of a socket, from its error queue (`IP_RECVERR`, ip(7)).
//!
//! An attacker with knowledge of the addresses and ports can forge such an error. It is a hint for people and never
//! takes a path out of use.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use super::address::RawAddress;
use super::control::{ControlBuffer, messages};
use super::socket::UdpLink;
use crate::sys::{check, retry};

/// Meaning of an ICMP error (RFC 792, RFC 1812 §5.2.7.1, RFC 4443 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BounceReason {
    /// No socket at the host uses this port.
    Port,
    /// The last router, or this machine, does not reach the host.
    Host,
    /// A router has no route to the destination's IP network.
    Network,
    /// A firewall on the path or at the host rejects the datagram.
    Prohibited,
    /// The datagram exceeds the MTU of a link on the path.
    TooBig,
    /// The datagram's hop limit expired.
    HopLimit,
    /// Any other error.
    Other,
}

/// An ICMP error about a datagram that was sent earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounce {
    /// Destination of the datagram.
    pub destination: SocketAddr,
    /// Meaning of the error.
    pub error: BounceReason,
    /// Address of the router or host that reported it.
    pub reporter: Option<IpAddr>,
}

/// Length of a `struct sock_extended_err`, in bytes. The reporter's socket address follows it.
const EXTENDED_LEN: usize = 16;
/// Origin value of an ICMP error (`SO_EE_ORIGIN_ICMP`).
const ORIGIN_ICMP: u8 = 2;
/// Origin value of an ICMPv6 error (`SO_EE_ORIGIN_ICMP6`).
const ORIGIN_ICMP6: u8 = 3;

impl UdpLink {
    /// Returns and removes the oldest queued ICMP error, or `None`. Skips entries that it cannot parse.
    pub fn take_bounce(&self) -> Option<Bounce> {
        loop {
            match self.next_error() {
                Ok(Some(bounce)) => return Some(bounce),
                Ok(None) => {}
                Err(_) => return None,
            }
        }
    }

    /// Removes the oldest entry of the error queue. Returns it if it is an ICMP error. Fails if the queue is empty.
    fn next_error(&self) -> io::Result<Option<Bounce>> {
        let (mut address, mut control) = (RawAddress::EMPTY, ControlBuffer::EMPTY);
        // SAFETY: all-zero bytes are a valid, empty msghdr, without a buffer for the returned datagram.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut address).cast();
        message.msg_namelen = RawAddress::CAPACITY;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = ControlBuffer::CAPACITY as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: this object owns the descriptor. `message` points to buffers of the given lengths that live until the
        // call returns.
        retry(|| check(unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, flags) } as c_int))?;
        let mut parts = messages(control.bytes(message.msg_controllen as _));
        let extended = parts.find(|(level, kind, _)| {
            matches!((*level, *kind), (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR))
        });
        let found = extended.and_then(|(_, _, data)| Some((icmp_error(data)?, reporter(data))));
        let destination = address.decode();
        Ok(found.zip(destination).map(|((error, reporter), destination)| Bounce { destination, error, reporter }))
    }
}

/// Parses a `struct sock_extended_err`. Returns `None` if the error is not one of ICMP.
///
/// Its fields are: errno u32, origin, type, code, padding, info u32, data u32.
fn icmp_error(data: &[u8]) -> Option<BounceReason> {
    let [_, _, _, _, origin, kind, code, ..] = *data.first_chunk::<EXTENDED_LEN>()?;
    match origin {
        ORIGIN_ICMP => Some(match (kind, code) {
            (3, 0 | 6) => BounceReason::Network,
            (3, 1 | 7) => BounceReason::Host,
            (3, 3) => BounceReason::Port,
            (3, 4) => BounceReason::TooBig,
            (3, 9 | 10 | 13) => BounceReason::Prohibited,
            (11, _) => BounceReason::HopLimit,
            _ => BounceReason::Other,
        }),
        ORIGIN_ICMP6 => Some(match (kind, code) {
            (1, 0 | 6) => BounceReason::Network,
            (1, 1 | 5) => BounceReason::Prohibited,
            (1, 2 | 3) => BounceReason::Host,
            (1, 4) => BounceReason::Port,
            (2, _) => BounceReason::TooBig,
            (3, _) => BounceReason::HopLimit,
            _ => BounceReason::Other,
        }),
        _ => None,
    }
}

fn reporter(data: &[u8]) -> Option<IpAddr> {
    RawAddress::of(data.get(EXTENDED_LEN..)?).decode().map(|address| address.ip())
}
