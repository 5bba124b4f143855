//! Traffic that leaves a machine, and captures of its links.

use crate::common::inside::within;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weft_io::packet::{PacketFilter, PacketSocket};

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
        let index = nix::net::if_::if_nametoindex(name.as_str()).unwrap();
        let mut socket = PacketSocket::open(index, &PacketFilter::First { bytes: u32::MAX }).unwrap();
        while !stop.load(Relaxed) {
            let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            poll(&mut ready, PollTimeout::from(50_u8)).unwrap();
            while let Some(packet) = socket.receive().unwrap() {
                assert!(packet.unix_ns > 0, "each packet has a stamp");
                if !packet.is_outgoing {
                    seen.note(&name, packet.packet, Duration::from_nanos(packet.unix_ns));
                }
            }
        }
        assert_eq!(socket.take_drops().unwrap(), 0, "the capture at {name} missed packets");
    })
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
