//! Where `/dev/net/tun` cannot be opened: the node gets one end of a veth pair, the emulator a packet socket on the other, in a
//! namespace of its own. There is no ARP: the node's interface does without, and the emulator knows its address.

use crate::net::{Node, context, sys};
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Locally administered; two hosts on a wire of their own, so the same for every pair.
const NODE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const RECEIVE_BUFFER_BYTES: c_int = 16 << 20;

/// Offloads that would let packets above the MTU, or without a checksum, reach the socket (`linux/ethtool.h`).
const SET_OFFLOADS: [u32; 6] = [
    0x15, // ETHTOOL_SRXCSUM
    0x17, // ETHTOOL_STXCSUM
    0x19, // ETHTOOL_SSG
    0x1f, // ETHTOOL_STSO
    0x24, // ETHTOOL_SGSO
    0x2c, // ETHTOOL_SGRO
];

/// The interface of the emulator's end of wire number `number`.
pub(super) fn wire_name(number: usize) -> String {
    format!("wire{number}")
}

/// The emulator's end of a wire to a node: IP packets without their Ethernet header.
#[derive(Debug)]
pub(super) struct PacketSocket {
    socket: OwnedFd,
    interface: c_int,
}

impl PacketSocket {
    /// Creates interface `name` in `node` and its counterpart, number `number`, in `wires`.
    pub(super) fn open(wires: &Node, number: usize, node: &Node, name: &str) -> io::Result<PacketSocket> {
        let outer = wire_name(number);
        wires.ip(&format!(
            "link add {outer} type veth peer name {name} address 02:00:00:00:00:01 netns {}",
            node.netns_path()
        ))?;
        node.ip(&format!("link set dev {name} arp off"))?;
        node.run(|| turn_offloads_off(name))?.map_err(|e| context(format_args!("offloads of {name} on {node}"), e))?;
        // The longest IP packet: the node's side alone sets the MTU.
        wires.ip(&format!("link set dev {outer} mtu 65535 addrgenmode none up"))?;
        wires
            .run(|| PacketSocket::bind(&outer))?
            .map_err(|e| context(format_args!("packet socket to {name} on {node}"), e))
    }

    fn bind(interface: &str) -> io::Result<PacketSocket> {
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: the name is a C string that outlives the call.
        let interface = unsafe { libc::if_nametoindex(name.as_ptr()) } as c_int;
        if interface == 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers. Protocol 0: nothing is received before the bind below.
        let fd = sys::check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the descriptor is new and nobody else's.
        let socket = PacketSocket { socket: unsafe { OwnedFd::from_raw_fd(fd) }, interface };
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
        // SAFETY: `pointer` is to an integer of `length` bytes that outlives the call.
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

    /// The next packet the node sent.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`.
        let n = unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// Hands a packet to the node.
    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        let version = packet.first().map_or(0, |byte| byte >> 4);
        let address = self.address(if version == 6 { libc::ETH_P_IPV6 } else { libc::ETH_P_IP } as u16);
        let (data, length) = (packet.as_ptr().cast(), packet.len());
        // SAFETY: `packet` and `address` are read for their lengths and outlive the call.
        let n = unsafe {
            libc::sendto(self.socket.as_raw_fd(), data, length, 0, (&raw const address).cast(), ADDRESS_LENGTH)
        };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The socket for epoll.
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// A counter of the packets that found the socket's buffer full.
    pub(super) fn drop_counter(&self) -> io::Result<SocketDrops> {
        Ok(SocketDrops { socket: self.socket.try_clone()?, total: AtomicU64::new(0) })
    }
}

const ADDRESS_LENGTH: libc::socklen_t = size_of::<libc::sockaddr_ll>() as libc::socklen_t;

/// Adds up what the kernel reports and forgets (PACKET_STATISTICS).
#[derive(Debug)]
pub(super) struct SocketDrops {
    socket: OwnedFd,
    total: AtomicU64,
}

impl SocketDrops {
    pub(super) fn read(&self) -> io::Result<u64> {
        // struct tpacket_stats: packets, drops.
        let mut statistics = [0u32; 2];
        let mut length = size_of_val(&statistics) as libc::socklen_t;
        let (level, option, value) = (libc::SOL_PACKET, libc::PACKET_STATISTICS, (&raw mut statistics).cast());
        // SAFETY: the kernel writes at most `length` bytes into `statistics`, which outlives the call.
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

/// Turns the offloads of an interface of the calling thread's namespace off.
fn turn_offloads_off(interface: &str) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    for command in SET_OFFLOADS {
        let mut value = EthtoolValue { command, data: 0 };
        // SAFETY: an all-zero ifreq is valid: integers, byte arrays and pointers only.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: SIOCETHTOOL reads one ifreq and the value it points to; both outlive the call.
        sys::check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })?;
    }
    Ok(())
}
