//! ICMP echo over one interface (RFC 792, RFC 4443 §4).
//!
//! It tests whether a host answers at all, and which packet lengths pass the path without fragmentation.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::sys::{check, open_socket, past_old_errors, set_option, set_option_bytes};
use crate::udp::RawAddress;

/// Length of an ICMP echo header, in bytes.
const HEADER_LEN: usize = 8;
/// Length of an IPv4 header without options, in bytes.
const IPV4_HEADER_LEN: usize = 20;
/// Length of an IPv6 header, in bytes.
const IPV6_HEADER_LEN: usize = 40;
/// Length of the longest echo request, in bytes.
const MOST: usize = 9_000;

/// A socket that sends echo requests to one host over one interface.
#[derive(Debug)]
pub struct EchoSocket {
    socket: OwnedFd,
    /// Address of the host that is tested.
    to: IpAddr,
    /// Identifier of this process's echo requests.
    id: u16,
    /// Sequence number of the last request.
    sequence: u16,
}

impl EchoSocket {
    /// Opens a socket for echo requests to `to` over `interface`.
    ///
    /// # Errors
    /// Fails without CAP_NET_RAW, or if the interface does not exist.
    pub fn open(interface: &str, to: IpAddr) -> io::Result<EchoSocket> {
        let (family, protocol) = match to {
            IpAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_ICMP),
            IpAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_ICMPV6),
        };
        let socket = open_socket(family, libc::SOCK_RAW, protocol)?;
        set_option_bytes(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes())?;
        match to {
            IpAddr::V4(_) => {
                set_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?
            }
            IpAddr::V6(_) => {
                set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
            }
        }
        Ok(EchoSocket { socket, to, id: std::process::id() as u16, sequence: 0 })
    }

    /// Sends an unfragmented echo request of `ip_bytes` bytes and returns the round-trip time.
    ///
    /// `ip_bytes` includes the IP header. Returns `None` if no answer arrives within `patience`.
    ///
    /// # Errors
    /// Fails if the kernel does not send the request.
    pub fn ask(&mut self, ip_bytes: usize, patience: Duration) -> io::Result<Option<Duration>> {
        self.sequence = self.sequence.wrapping_add(1);
        let began = Instant::now();
        self.send(ip_bytes.min(MOST))?;
        while began.elapsed() < patience {
            if self.is_answered()? {
                return Ok(Some(began.elapsed()));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(None)
    }

    fn send(&self, ip_bytes: usize) -> io::Result<()> {
        let (kind, header) = if self.to.is_ipv4() { (8, IPV4_HEADER_LEN) } else { (128, IPV6_HEADER_LEN) };
        let mut packet = vec![0; ip_bytes.saturating_sub(header).max(HEADER_LEN)];
        packet[0] = kind;
        packet[4..6].copy_from_slice(&self.id.to_be_bytes());
        packet[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        if self.to.is_ipv4() {
            // For IPv6 the kernel computes the checksum (RFC 3542 §3.1).
            let sum = checksum(&packet);
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        let (address, len) = RawAddress::encode(SocketAddr::new(self.to, 0), self.to.is_ipv6());
        past_old_errors(|| {
            // SAFETY: pointers and lengths describe `packet` and `address`, which the kernel only reads and which
            // outlive the call.
            let sent = unsafe {
                let (bytes, to) = (packet.as_ptr().cast(), (&raw const address).cast());
                libc::sendto(self.socket.as_raw_fd(), bytes, packet.len(), libc::MSG_DONTWAIT, to, len)
            };
            check(sent as i32)
        })
        .map(drop)
    }

    /// Reads all received packets. Returns true if the answer to the last request is among them.
    fn is_answered(&self) -> io::Result<bool> {
        let mut buffer = [0u8; MOST];
        loop {
            // SAFETY: pointer and length describe `buffer`, which this function owns.
            let len = unsafe {
                libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
            };
            let Ok(len) = usize::try_from(len) else { return Ok(false) };
            if self.is_ours(&buffer[..len.min(MOST)]) {
                return Ok(true);
            }
        }
    }

    fn is_ours(&self, packet: &[u8]) -> bool {
        // The kernel delivers IPv4 packets with their header, IPv6 packets without it.
        let header = if self.to.is_ipv4() { packet.first().map_or(0, |first| usize::from(first & 15) * 4) } else { 0 };
        let reply = if self.to.is_ipv4() { 0 } else { 129 };
        let Some(icmp) = packet.get(header..).and_then(<[u8]>::first_chunk::<HEADER_LEN>) else { return false };
        icmp[0] == reply && icmp[4..6] == self.id.to_be_bytes() && icmp[6..8] == self.sequence.to_be_bytes()
    }
}

/// Returns the Internet checksum (RFC 1071) of a packet whose checksum field is zero.
fn checksum(packet: &[u8]) -> u16 {
    let words = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
