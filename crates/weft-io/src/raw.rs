//! Sends complete IP packets out of one interface, unchanged (raw(7)).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::sys::{check, open_socket, retry, set_option, set_option_bytes};
use crate::udp::RawAddress;

/// Sends packets that include their IP header, over one interface and with a mark.
#[derive(Debug)]
pub struct RawSender {
    v4: OwnedFd,
    /// IPv6 socket, if the kernel supports IPv6.
    v6: Option<OwnedFd>,
}

impl RawSender {
    /// Opens sockets that send over `interface`, with the firewall mark `mark`.
    ///
    /// # Errors
    /// Fails without CAP_NET_RAW or CAP_NET_ADMIN, or if the interface does not exist.
    pub fn open(interface: &str, mark: u32) -> io::Result<RawSender> {
        let open = |family| {
            let socket = open_socket(family, libc::SOCK_RAW, libc::IPPROTO_RAW)?;
            set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MARK, mark as i32)?;
            set_option_bytes(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes())?;
            Ok::<_, io::Error>(socket)
        };
        Ok(RawSender { v4: open(libc::AF_INET)?, v6: open(libc::AF_INET6).ok() })
    }

    /// Sends a packet to the destination address in its header, which the caller repeats as `to`.
    ///
    /// # Errors
    /// Fails if the kernel does not accept the packet: no route, a full buffer, or no IPv6.
    pub fn send(&self, packet: &[u8], to: IpAddr) -> io::Result<()> {
        let socket = match to {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => self.v6.as_ref().ok_or(io::ErrorKind::Unsupported)?,
        };
        // Raw sockets have no ports, so the port in the address is zero.
        let (address, len) = RawAddress::encode(SocketAddr::new(to, 0), to.is_ipv6());
        let send = || {
            // SAFETY: pointers and lengths describe `packet` and `address`, which the kernel only reads and which
            // outlive the call.
            let sent = unsafe {
                let (bytes, address) = (packet.as_ptr().cast(), (&raw const address).cast());
                libc::sendto(socket.as_raw_fd(), bytes, packet.len(), libc::MSG_DONTWAIT, address, len)
            };
            check(sent as i32)
        };
        retry(send).map(drop)
    }
}
