//! The backend for machines where `/dev/net/tun` cannot be opened.
//!
//! The node gets one end of a veth pair. The emulator has a packet socket on the other end, in a separate
//! namespace. There is no ARP: it is off on the node's interface, and the emulator has a fixed address for
//! the node.

use crate::net::{NetNamespace, context, sys};
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// MAC address of each node's end, locally administered.
///
/// The MAC address need not be unique, because each veth pair is a separate network with one node.
const NODE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Size of the packet socket's receive buffer, in bytes.
const RECEIVE_BUFFER_BYTES: c_int = 16 << 20;

/// Offloads to turn off (`linux/ethtool.h`).
///
/// With these offloads the socket would get packets above the MTU, or without a checksum.
const SET_OFFLOADS: [u32; 6] = [
    0x15, // ETHTOOL_SRXCSUM
    0x17, // ETHTOOL_STXCSUM
    0x19, // ETHTOOL_SSG
    0x1f, // ETHTOOL_STSO
    0x24, // ETHTOOL_SGSO
    0x2c, // ETHTOOL_SGRO
];

/// Returns the name of the emulator's interface of veth pair number `number`.
pub(super) fn wire_name(number: usize) -> String {
    format!("wire{number}")
}

/// The emulator's end of a veth pair to a node. It carries IP packets without Ethernet headers.
#[derive(Debug)]
pub(super) struct WireSocket {
    socket: OwnedFd,
    interface: c_int,
}

impl WireSocket {
    /// Creates interface `name` in `node`, and the pair's other end, number `number`, in `wires`.
    pub(super) fn open(wires: &NetNamespace, number: usize, node: &NetNamespace, name: &str) -> io::Result<WireSocket> {
        let outer = wire_name(number);
        wires.ip(&format!(
            "link add {outer} type veth peer name {name} address 02:00:00:00:00:01 netns {}",
            node.netns_path()
        ))?;
        node.ip(&format!("link set dev {name} arp off"))?;
        node.run(|| turn_offloads_off(name))?
            .map_err(|e| context(format_args!("cannot turn off the offloads of interface {name} on node {node}"), e))?;
        // This end must accept the longest IP packet. Only the MTU of the node's end then limits packets.
        wires.ip(&format!("link set dev {outer} mtu 65535 addrgenmode none up"))?;
        wires
            .run(|| WireSocket::bind(&outer))?
            .map_err(|e| context(format_args!("cannot open a packet socket to interface {name} on node {node}"), e))
    }

    fn bind(interface: &str) -> io::Result<WireSocket> {
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: The name is a C string that outlives the call.
        let interface = unsafe { libc::if_nametoindex(name.as_ptr()) } as c_int;
        if interface == 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: The call takes no pointers. With protocol 0 the socket receives nothing before the bind
        // below.
        let fd = sys::check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: The descriptor is new and has no other owner.
        let socket = WireSocket { socket: unsafe { OwnedFd::from_raw_fd(fd) }, interface };
        socket.set_option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        if socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES).is_err() {
            socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES)?;
        }
        let address = socket.address(libc::ETH_P_ALL as u16);
        // SAFETY: `address` is a sockaddr_ll of the given length and outlives the call.
        sys::check(unsafe { libc::bind(socket.socket.as_raw_fd(), (&raw const address).cast(), ADDRESS_LENGTH) })?;
        Ok(socket)
    }

    fn set_option(&self, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
        let (pointer, length) = ((&raw const value).cast::<c_void>(), size_of::<c_int>() as libc::socklen_t);
        // SAFETY: `pointer` points to an integer of `length` bytes that outlives the call.
        sys::check(unsafe { libc::setsockopt(self.socket.as_raw_fd(), level, option, pointer, length) }).map(drop)
    }

    fn address(&self, protocol: u16) -> libc::sockaddr_ll {
        let [a, b, c, d, e, f] = NODE_MAC;
        libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: self.interface,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: [a, b, c, d, e, f, 0, 0],
        }
    }

    /// Reads the next packet that the node sent.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: The kernel writes at most `buffer.len()` bytes into `buffer`.
        let n = unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// Sends a packet to the node.
    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        let version = packet.first().map_or(0, |byte| byte >> 4);
        let address = self.address(if version == 6 { libc::ETH_P_IPV6 } else { libc::ETH_P_IP } as u16);
        let (data, length) = (packet.as_ptr().cast(), packet.len());
        // SAFETY: The kernel reads `packet` and `address` within their lengths. Both outlive the call.
        let n = unsafe {
            libc::sendto(self.socket.as_raw_fd(), data, length, 0, (&raw const address).cast(), ADDRESS_LENGTH)
        };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns the socket, for epoll.
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Returns a counter of the packets that the kernel dropped at a full socket buffer.
    pub(super) fn drop_counter(&self) -> io::Result<SocketDrops> {
        Ok(SocketDrops { socket: self.socket.try_clone()?, total: AtomicU64::new(0) })
    }
}

const ADDRESS_LENGTH: libc::socklen_t = size_of::<libc::sockaddr_ll>() as libc::socklen_t;

/// Adds up the drop counts of PACKET_STATISTICS, which the kernel resets at each read.
#[derive(Debug)]
pub(super) struct SocketDrops {
    socket: OwnedFd,
    total: AtomicU64,
}

impl SocketDrops {
    pub(super) fn read(&self) -> io::Result<u64> {
        // The fields of struct tpacket_stats: packets, drops.
        let mut statistics = [0u32; 2];
        let mut length = size_of_val(&statistics) as libc::socklen_t;
        let (level, option, value) = (libc::SOL_PACKET, libc::PACKET_STATISTICS, (&raw mut statistics).cast());
        // SAFETY: The kernel writes at most `length` bytes into `statistics`, which outlives the call.
        sys::check(unsafe { libc::getsockopt(self.socket.as_raw_fd(), level, option, value, &raw mut length) })?;
        let [_, drops] = statistics;
        Ok(self.total.fetch_add(drops.into(), Ordering::Relaxed) + u64::from(drops))
    }
}

#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Turns off the offloads of an interface in the calling thread's namespace.
fn turn_offloads_off(interface: &str) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    for command in SET_OFFLOADS {
        let mut value = EthtoolValue { command, data: 0 };
        // SAFETY: An all-zero ifreq is valid, because it contains only integers, byte arrays and pointers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: SIOCETHTOOL reads one ifreq and the value that it points to. Both outlive the call.
        sys::check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })?;
    }
    Ok(())
}
