//! ICMP errors that datagrams of a socket met, from its error queue (`IP_RECVERR`, ip(7)).
//!
//! Anyone who knows the addresses and ports can forge such an error: it is a hint for people, and takes nothing out of use.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use super::address::RawAddress;
use super::control::{Control, messages};
use super::socket::UdpLink;
use crate::sys::{check, retry};

/// What an ICMP error says (RFC 792, RFC 1812 §5.2.7.1, RFC 4443 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpError {
    /// The host has nobody at this port.
    Port,
    /// The last router, or this machine, does not reach the host.
    Host,
    /// A router knows no way to the network.
    Network,
    /// A firewall on the way, or at the host, rejects the datagram.
    Prohibited,
    /// The datagram is longer than a link on the way takes.
    TooBig,
    /// The datagram passed more routers than it may.
    HopLimit,
    /// Anything else.
    Other,
}

/// An ICMP error about a datagram sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounce {
    /// Where the datagram was to go.
    pub destination: SocketAddr,
    /// What came back.
    pub error: IcmpError,
    /// Who says so.
    pub reporter: Option<IpAddr>,
}

/// Bytes of a `struct sock_extended_err`; the reporter's socket address follows it.
const EXTENDED_LEN: usize = 16;
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;

impl UdpLink {
    /// Takes the oldest ICMP error that waits, or `None`. What is not understood is passed over.
    pub fn take_bounce(&self) -> Option<Bounce> {
        loop {
            match self.next_error() {
                Ok(Some(bounce)) => return Some(bounce),
                Ok(None) => {}
                Err(_) => return None,
            }
        }
    }

    /// The oldest entry of the error queue; `None` where it is no ICMP error.
    fn next_error(&self) -> io::Result<Option<Bounce>> {
        let (mut address, mut control) = (RawAddress::EMPTY, Control::EMPTY);
        // SAFETY: all-zero bytes are a valid, empty msghdr: no room for the datagram that comes back.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut address).cast();
        message.msg_namelen = RawAddress::CAPACITY;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = Control::CAPACITY as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the descriptor is ours; `message` points to buffers of the given lengths that live until the call returns.
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

/// Reads a `struct sock_extended_err`: errno u32, origin, type, code, padding, info u32, data u32.
fn icmp_error(data: &[u8]) -> Option<IcmpError> {
    let [_, _, _, _, origin, kind, code, ..] = *data.first_chunk::<EXTENDED_LEN>()?;
    match origin {
        ORIGIN_ICMP => Some(match (kind, code) {
            (3, 0 | 6) => IcmpError::Network,
            (3, 1 | 7) => IcmpError::Host,
            (3, 3) => IcmpError::Port,
            (3, 4) => IcmpError::TooBig,
            (3, 9 | 10 | 13) => IcmpError::Prohibited,
            (11, _) => IcmpError::HopLimit,
            _ => IcmpError::Other,
        }),
        ORIGIN_ICMP6 => Some(match (kind, code) {
            (1, 0 | 6) => IcmpError::Network,
            (1, 1 | 5) => IcmpError::Prohibited,
            (1, 2 | 3) => IcmpError::Host,
            (1, 4) => IcmpError::Port,
            (2, _) => IcmpError::TooBig,
            (3, _) => IcmpError::HopLimit,
            _ => IcmpError::Other,
        }),
        _ => None,
    }
}

fn reporter(data: &[u8]) -> Option<IpAddr> {
    RawAddress::of(data.get(EXTENDED_LEN..)?).decode().map(|address| address.ip())
}
