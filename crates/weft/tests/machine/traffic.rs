//! Traffic that leaves a machine, and captures of its links.

use crate::common::inside::within;
use nix::sys::socket::{ControlMessageOwned, LinkAddr, MsgFlags, recvmsg};
use nix::sys::time::TimeSpec;
use std::io::IoSliceMut;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Port of the nodes' datagrams.
const TUNNEL: u16 = 51900;
/// Protocol numbers of UDP and ICMPv6.
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Packets that the links carried from the machine to its routers.
#[derive(Default)]
pub struct Seen {
    /// Time from which packets count, on the clock of the kernel's stamps.
    since: Mutex<Duration>,
    /// Datagrams of the tunnel.
    pub tunnel: AtomicU64,
    /// Packets in clear.
    pub clear: AtomicU64,
    /// The first packets in clear, in words.
    pub examples: Mutex<Vec<String>>,
}

impl Seen {
    /// Begins to count. Packets that a link carried earlier do not count, even if they still wait in a capture's socket.
    pub fn begin(&self) {
        thread::sleep(Duration::from_millis(300));
        *self.since.lock().unwrap() = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        self.tunnel.store(0, Relaxed);
        self.clear.store(0, Relaxed);
        self.examples.lock().unwrap().clear();
    }

    /// Counts a packet that `link` carried at a time on the clock of the kernel's stamps.
    fn note(&self, link: &str, packet: &[u8], at: Duration) {
        if at < *self.since.lock().unwrap() {
            return;
        }
        match judge(packet) {
            Kind::Tunnel => drop(self.tunnel.fetch_add(1, Relaxed)),
            Kind::Link => {}
            Kind::Clear(what) => {
                self.clear.fetch_add(1, Relaxed);
                let mut examples = self.examples.lock().unwrap();
                if examples.len() < 10 {
                    examples.push(format!("{link}: {what}"));
                }
            }
        }
    }
}

enum Kind {
    Tunnel,
    /// Neighbour discovery, router discovery, multicast listeners, and errors to a neighbour about those.
    Link,
    Clear(String),
}

/// Judges an IP packet that left the machine by a link.
fn judge(packet: &[u8]) -> Kind {
    let address = |at: usize, length: usize| packet.get(at..at + length);
    let (protocol, to, payload) = match packet.first().map(|byte| byte >> 4) {
        Some(4) => {
            let to = address(16, 4).map(|octets| IpAddr::from(<[u8; 4]>::try_from(octets).unwrap()));
            (packet.get(9), to, usize::from(packet[0] & 15) * 4)
        }
        Some(6) => {
            let to = address(24, 16).map(|octets| IpAddr::from(<[u8; 16]>::try_from(octets).unwrap()));
            (packet.get(6), to, 40)
        }
        // ARP.
        _ => return Kind::Link,
    };
    let port = |at: usize| packet.get(at..at + 2).map(|two| u16::from_be_bytes(two.try_into().unwrap()));
    let port = port(payload + 2).unwrap_or(0);
    let kind = packet.get(payload).copied().unwrap_or(0);
    match protocol {
        Some(&UDP) if port == TUNNEL => Kind::Tunnel,
        Some(&ICMPV6) if (130..=137).contains(&kind) || kind == 143 => Kind::Link,
        // The kernel reports to a neighbour that an address is gone. Such an error quotes no program's packet.
        Some(&ICMPV6) if is_link_local(to) && !has_inner_address(packet) => Kind::Link,
        // A hop-by-hop header carries reports of multicast listeners.
        Some(0) if to.is_some_and(|to| to.is_multicast()) => Kind::Link,
        _ => Kind::Clear(format!(
            "protocol {protocol:?} to {to:?} port {port}: {:02x?}",
            &packet[..packet.len().min(80)]
        )),
    }
}

fn is_link_local(to: Option<IpAddr>) -> bool {
    matches!(to, Some(IpAddr::V6(to)) if to.is_unicast_link_local())
}

/// True if an address of the far hosts or of the tunnel is anywhere in the packet.
fn has_inner_address(packet: &[u8]) -> bool {
    let prefixes: [&[u8]; 4] = [&[198, 51, 100], &[0x20, 1, 0xd, 0xb8, 0, 9], &[10, 9, 0], &[0xfd, 0, 0, 9]];
    prefixes.iter().any(|prefix| packet.windows(prefix.len()).any(|bytes| bytes == *prefix))
}

/// Captures all packets that arrive at `interface` in a namespace, until `stop`.
pub fn capture(namespace: &str, interface: &str, seen: &Arc<Seen>, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (name, seen, stop) = (interface.to_owned(), Arc::clone(seen), Arc::clone(stop));
    within(namespace, move || {
        let socket = packet_socket(&name);
        let mut buffer = vec![0_u8; 65_536];
        while !stop.load(Relaxed) {
            if let Some((length, at)) = receive(&socket, &mut buffer) {
                seen.note(&name, &buffer[..length], at);
            }
        }
        assert_eq!(dropped(&socket), 0, "the capture at {name} missed packets");
    })
}

/// Receives the next packet from a link. Returns its length and the kernel's time stamp.
///
/// Returns `None` if none came in time, or if it was going out to the link.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Option<(usize, Duration)> {
    let mut space = nix::cmsg_space!(TimeSpec);
    let mut into = [IoSliceMut::new(buffer)];
    let got = recvmsg::<LinkAddr>(socket.as_raw_fd(), &mut into, Some(&mut space), MsgFlags::empty()).ok()?;
    let stamp = got.cmsgs().unwrap().find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
        _ => None,
    });
    (got.address?.pkttype() != libc::PACKET_OUTGOING).then(|| (got.bytes, stamp.expect("each packet has a stamp")))
}

/// Returns the number of packets that a capture lost because its buffer was full.
fn dropped(socket: &OwnedFd) -> u32 {
    // SAFETY: all pointers are to live values of the stated lengths.
    unsafe {
        let mut stats: libc::tpacket_stats = std::mem::zeroed();
        let mut size = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        let (fd, at) = (socket.as_raw_fd(), (&raw mut stats).cast());
        assert_eq!(libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, at, &raw mut size), 0);
        stats.tp_drops
    }
}

/// Opens a socket that receives all packets of an interface, without link headers.
fn packet_socket(interface: &str) -> OwnedFd {
    let index = nix::net::if_::if_nametoindex(interface).unwrap();
    // SAFETY: all pointers are to live values of the stated lengths, and the descriptor is new.
    unsafe {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, all.into());
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(socket);
        let (bytes, on, wait) = (16_i32 << 20, 1_i32, libc::timeval { tv_sec: 0, tv_usec: 50_000 });
        let set = |name, value: *const libc::c_void, size: usize| {
            assert_eq!(libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value, size as u32), 0);
        };
        set(libc::SO_RCVBUFFORCE, (&raw const bytes).cast(), size_of::<i32>());
        set(libc::SO_TIMESTAMPNS, (&raw const on).cast(), size_of::<i32>());
        set(libc::SO_RCVTIMEO, (&raw const wait).cast(), size_of::<libc::timeval>());
        let mut at: libc::sockaddr_ll = std::mem::zeroed();
        (at.sll_family, at.sll_protocol, at.sll_ifindex) = (libc::AF_PACKET as u16, all, index as i32);
        let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const at).cast(), size), 0);
        socket
    }
}

/// Sends to the far hosts all the time, from `namespace`: datagrams, queries, and connections that begin.
///
/// Each program's socket of `bound` is bound to that link, as programs do that choose their way themselves.
pub fn send(namespace: &str, to: &[SocketAddr], bound: &[&str], stop: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let (to, stop) = (to.to_vec(), Arc::clone(stop));
    let bound: Vec<String> = bound.iter().map(|link| (*link).to_owned()).collect();
    within(namespace, move || {
        let open = || {
            let socket = UdpSocket::bind("[::]:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let free = open();
        let mut sent = 0;
        for turn in 0_u64.. {
            if stop.load(Relaxed) {
                break;
            }
            for to in &to {
                sent += u64::from(free.send_to(b"in clear?", mapped(*to)).is_ok());
            }
            // A new socket for each, because the route of a link that was down is forgotten.
            for link in bound.iter().filter(|_| turn % 5 == 0) {
                let socket = open();
                let name = std::ffi::OsString::from(link);
                let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::BindToDevice, &name);
                for to in &to {
                    let _ = socket.send_to(b"by a link?", mapped(*to));
                }
            }
            if turn % 25 == 0 {
                for to in &to {
                    let _ = TcpStream::connect_timeout(to, Duration::from_millis(2));
                }
            }
            thread::sleep(Duration::from_millis(3));
        }
        sent
    })
}

/// Returns the address as an IPv6 socket takes it.
fn mapped(to: SocketAddr) -> SocketAddr {
    match to.ip() {
        IpAddr::V4(v4) => SocketAddr::new(v4.to_ipv6_mapped().into(), to.port()),
        IpAddr::V6(_) => to,
    }
}

/// Counts the datagrams that arrive at a port of a namespace, by address family.
pub fn count(namespace: &str, port: u16, stop: &Arc<AtomicBool>) -> (Arc<[AtomicU64; 2]>, JoinHandle<()>) {
    let (counts, stop) = (Arc::new([AtomicU64::new(0), AtomicU64::new(0)]), Arc::clone(stop));
    let counted = Arc::clone(&counts);
    let thread = within(namespace, move || {
        let socket = UdpSocket::bind(("::", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        while !stop.load(Relaxed) {
            if let Ok((_, SocketAddr::V6(from))) = socket.recv_from(&mut [0; 64]) {
                counts_of(&counted, from.ip().to_ipv4_mapped().is_none());
            }
        }
    });
    (counts, thread)
}

fn counts_of(counts: &[AtomicU64; 2], is_ipv6: bool) {
    counts[usize::from(is_ipv6)].fetch_add(1, Relaxed);
}
