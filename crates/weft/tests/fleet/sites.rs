//! Many nodes in one thread: engines, each with a socket of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant, SystemTime};
use weft_engine::{Engine, EngineConfig, LinkEvent, PeerConfig, Policy, Prefix, Received};
use weft_io::wait::{Poller, Ready};
use weft_session::{Cipher, Identity};
use weft_units::LinkId;

/// Address at which the hub listens.
pub const HUB: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 34)), 51_900);
/// Number of the hub; sites are numbered from 1.
pub const HUB_NUMBER: usize = 0;
/// Id of the one link that each engine has.
const LINK: LinkId = LinkId(1);
/// Interval between two checks of the engines' deadlines.
const STEP: Duration = Duration::from_millis(5);

/// Returns the key pair of a node by its number.
pub fn identity(node: usize) -> Identity {
    let mut secret = [9; 32];
    // The number avoids the bits that X25519 sets itself (RFC 7748 §5).
    secret[8..10].copy_from_slice(&(node as u16).to_be_bytes());
    Identity::from_secret(secret)
}

/// Returns a node's address in `network`/16.
pub fn address(network: u8, node: usize) -> Ipv4Addr {
    let [high, low] = (node as u16).to_be_bytes();
    Ipv4Addr::new(10, network, high, low)
}

/// Second byte of the addresses outside the tunnel.
pub const OUTSIDE: u8 = 64;
/// Second byte of the addresses inside the tunnel.
pub const INSIDE: u8 = 9;

struct Site {
    engine: Engine,
    socket: UdpSocket,
    /// Time at which the engine is due.
    due: Option<weft_units::Instant>,
}

pub struct Sites {
    sites: Vec<Site>,
    poller: Poller,
    ready: Vec<Ready>,
    start: Instant,
    buffer: Vec<u8>,
    datagrams: Datagrams,
}

/// Datagrams of all sites.
#[derive(Clone, Copy, Default)]
pub struct Datagrams {
    pub received: u64,
    pub sent: u64,
}

impl Sites {
    pub fn start(count: usize) -> Sites {
        let mut sites = Sites {
            sites: Vec::new(),
            poller: Poller::new().unwrap(),
            ready: Vec::new(),
            start: Instant::now(),
            buffer: vec![0; 65_536],
            datagrams: Datagrams::default(),
        };
        let stamp_base = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        for number in 1..=count {
            let socket = UdpSocket::bind((address(OUTSIDE, number), 51_900)).unwrap();
            socket.set_nonblocking(true).unwrap();
            sites.poller.add(socket.as_raw_fd(), number as u64 - 1).unwrap();
            let mut engine = engine(number, stamp_base, sites.now());
            let link = LinkEvent::Up { link: LINK, name: "wan".into(), mtu: 1500, ipv4: true, ipv6: false };
            engine.handle_link(sites.now(), link);
            let due = Some(sites.now());
            sites.sites.push(Site { engine, socket, due });
        }
        sites
    }

    fn now(&self) -> weft_units::Instant {
        weft_units::Instant::from_millis(1) + self.start.elapsed()
    }

    /// Returns the number of datagrams that the sites have exchanged with the hub so far.
    pub fn datagrams(&self) -> Datagrams {
        self.datagrams
    }

    /// Runs all sites for some time.
    pub fn run_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let next = Instant::now() + STEP;
            while let Some(wait) = next.checked_duration_since(Instant::now()) {
                let mut ready = std::mem::take(&mut self.ready);
                self.poller.wait(Some(wait), &mut ready).unwrap();
                ready.iter().for_each(|ready| self.receive(ready.token as usize));
                self.ready = ready;
            }
            let now = self.now();
            for number in 0..self.sites.len() {
                if self.sites[number].due.is_some_and(|due| due <= now) {
                    self.sites[number].engine.handle_timeout(now);
                    self.give_out(number);
                }
            }
        }
    }

    fn receive(&mut self, number: usize) {
        let now = self.now();
        let site = &mut self.sites[number];
        while let Ok((len, source)) = site.socket.recv_from(&mut self.buffer) {
            self.datagrams.received += 1;
            let Some(buf) = site.engine.pool().alloc(len) else { break };
            site.engine.pool().bytes_mut(buf)[..len].copy_from_slice(&self.buffer[..len]);
            let received = Received { at: now, link: LINK, source, destination: None, tos: 0, buf, len, stride: len };
            site.engine.handle_datagrams(now, received);
        }
        self.give_out(number);
    }

    fn give_out(&mut self, number: usize) {
        let now = self.now();
        let Site { engine, socket, due } = &mut self.sites[number];
        while let Some(transmit) = engine.poll_transmit(now, &mut self.buffer) {
            let size = transmit.segment_size.map_or(transmit.len, usize::from);
            for datagram in self.buffer[..transmit.len].chunks(size.max(1)) {
                let _ = socket.send_to(datagram, transmit.destination);
                self.datagrams.sent += 1;
            }
        }
        engine.deliver(now, |_, _| {});
        while engine.poll_event().is_some() {}
        *due = engine.next_timeout(now);
    }
}

fn engine(number: usize, stamp_base: u64, now: weft_units::Instant) -> Engine {
    let hub = PeerConfig {
        preshared_key: None,
        name: "hub".to_owned(),
        public_key: identity(HUB_NUMBER).public_key(),
        endpoints: vec![HUB],
        routes: Vec::new(),
        prefixes: vec![Prefix { address: address(INSIDE, HUB_NUMBER).into(), length: 32 }],
        policy: Policy::default(),
    };
    let config = EngineConfig {
        identity: identity(number),
        cipher: Cipher::Aes256Gcm,
        peers: vec![hub],
        vpns: Vec::new(),
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base,
        inner_mtu: None,
    };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
    seed[8..16].copy_from_slice(&stamp_base.to_le_bytes());
    Engine::new(config, now, seed).unwrap()
}
