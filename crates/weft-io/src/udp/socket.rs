//! Opens UDP sockets with the options that weft needs.

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::address::RawAddress;
use crate::sys::{check, open_socket, set_option, set_option_bytes};

/// Requested size of each socket buffer, in bytes: 8 MiB hold 64 ms of traffic at 1 Gbit/s.
const BUFFER_BYTES: c_int = 8 << 20;

/// Binding of a [`UdpLink`].
#[derive(Clone, Debug, Default)]
pub struct UdpConfig {
    /// Use only this device, regardless of the routing tables (`SO_BINDTODEVICE`).
    pub device: Option<String>,
    /// Local address. `None` is `::`, which also serves IPv4 unless `v6only` is set.
    pub local: Option<IpAddr>,
    /// Local port; 0 lets the kernel choose.
    pub port: u16,
    /// True if an IPv6 socket does not serve IPv4.
    pub v6only: bool,
}

/// A bound, non-blocking UDP socket. It never fragments datagrams (DF), regardless of the kernel's path MTU.
#[derive(Debug)]
pub struct UdpLink {
    pub(super) socket: OwnedFd,
    pub(super) is_ipv6: bool,
    /// True if the kernel and the device cut batches into datagrams.
    pub(super) has_gso: Cell<bool>,
    /// Number of dropped datagrams that the kernel reported last.
    pub(super) dropped_total: u32,
    /// Address and port to which the socket is bound.
    local: SocketAddr,
}

impl UdpLink {
    /// Opens and binds a socket.
    ///
    /// Errors are the kernel's: `AddrInUse`, `AddrNotAvailable`, `ENODEV` for an unknown device.
    pub fn bind(config: &UdpConfig) -> io::Result<Self> {
        let local = SocketAddr::new(config.local.unwrap_or(Ipv6Addr::UNSPECIFIED.into()), config.port);
        let family = if local.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
        let socket = UdpSocket::from(open_socket(family, libc::SOCK_DGRAM, 0)?);
        let fd = socket.as_fd();
        if let Some(device) = &config.device {
            set_option_bytes(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_bytes())?;
        }
        if local.is_ipv6() {
            set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, config.v6only.into())?;
            set_ipv6_options(fd)?;
        }
        if local.is_ipv4() || !config.v6only {
            set_ipv4_options(fd)?;
        }
        set_buffers(fd)?;
        set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
        set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // Kernels before 5.0 have no GRO. Each datagram then arrives alone.
        let _ = set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1);
        let has_gso = set_option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        bind(fd, local)?;
        Ok(Self {
            local: socket.local_addr()?,
            socket: socket.into(),
            is_ipv6: local.is_ipv6(),
            has_gso: Cell::new(has_gso),
            dropped_total: 0,
        })
    }

    /// Queues ICMP errors for [`UdpLink::take_bounce`] from now on.
    ///
    /// The socket is reported as readable while errors are queued.
    pub fn keep_bounces(&self) -> io::Result<()> {
        if self.is_ipv6 {
            set_option(self.socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        }
        // An IPv6 socket accepts this option too, for the IPv4 traffic that it carries.
        set_option(self.socket.as_fd(), libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    }

    /// Sets the hop limit of outgoing datagrams, 1 to 255.
    ///
    /// The router at which it expires reports through [`UdpLink::take_bounce`].
    pub fn set_hop_limit(&self, hops: u8) -> io::Result<()> {
        if self.is_ipv6 {
            set_option(self.socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, hops.into())?;
        }
        set_option(self.socket.as_fd(), libc::IPPROTO_IP, libc::IP_TTL, hops.into())
    }

    /// Marks all datagrams from now on (`SO_MARK`), for rules of nftables and of routing.
    ///
    /// # Errors
    /// Returns the kernel's error; without CAP_NET_ADMIN that is `PermissionDenied`.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        set_option(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
    }

    /// Returns the address and port to which the socket is bound.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// True if the kernel cuts batches into datagrams. Otherwise each datagram takes one system call.
    pub fn has_gso(&self) -> bool {
        self.has_gso.get()
    }

    /// Number of datagrams that the kernel has dropped because the receive buffer was full. Wraps around.
    pub fn dropped_total(&self) -> u32 {
        self.dropped_total
    }
}

impl AsFd for UdpLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UdpLink {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn bind(socket: BorrowedFd, local: SocketAddr) -> io::Result<()> {
    let (address, len) = RawAddress::encode(local, local.is_ipv6());
    // SAFETY: the descriptor is open. `len` bytes of `address` are a socket address, which the kernel only reads.
    check(unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), len) }).map(drop)
}

fn set_ipv4_options(socket: BorrowedFd) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
    set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
    set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
}

fn set_ipv6_options(socket: BorrowedFd) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
}

/// Sets the sizes of both socket buffers.
///
/// With CAP_NET_ADMIN, they may exceed the administrator's limits (such as `net.core.rmem_max`). Otherwise they end at
/// these limits.
fn set_buffers(socket: BorrowedFd) -> io::Result<()> {
    for (force, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        set_option(socket, libc::SOL_SOCKET, force, BUFFER_BYTES)
            .or_else(|_| set_option(socket, libc::SOL_SOCKET, plain, BUFFER_BYTES))?;
    }
    Ok(())
}
