//! Memory of a peer and of a flow: `cargo run --release -p weft-engine --example state_bytes`.
//!
//! Each line is a name, a tab and bytes.
//!
//! The example measures the growth of the resident set with very many of them. The overhead of the allocator and of
//! the cipher library is thus included.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_core::flow::table::FlowTable;
use weft_core::queue::{Arrival, FlowQueue, QueueConfig, QueueKind};
use weft_core::reorder::resequencer::{Resequencer, ResequencerLimits};
use weft_engine::{Engine, EngineConfig, LinkEvent, PeerConfig, Policy, Prefix};
use weft_session::{Cipher, Identity, Outcome, Sessions};
use weft_units::{Duration, FlowId, FlowSeq, Instant, LinkId, PathId, PeerId};
use weft_wire::handshake::{INITIATION_LEN, RESPONSE_LEN};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::ip::FlowKey;

const FLOWS: u16 = 60_000;
const PEERS: u16 = 2_000;
const SESSIONS: u16 = 500;
const PATHS: u8 = 3;
const PAGE_BYTES: u64 = 4_096;

/// Returns the resident memory of this process, in bytes.
fn resident() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.map(|pages| pages * PAGE_BYTES).ok_or_else(|| io::Error::other("/proc/self/statm"))
}

/// Prints the memory for each of the `count` objects that `make` creates.
fn measure<T>(name: &str, count: u16, make: impl FnOnce() -> T) -> io::Result<T> {
    let before = resident()?;
    let made = make();
    println!("{name}\t{}", resident()?.saturating_sub(before) / u64::from(count));
    Ok(made)
}

fn address(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

fn identity(number: u16) -> Identity {
    let mut secret = [7; 32];
    // X25519 overwrites some bits of the secret (RFC 7748 §5). These bytes are not affected.
    secret[8..10].copy_from_slice(&number.to_be_bytes());
    Identity::from_secret(secret)
}

fn flow_table() -> FlowTable<FlowKey> {
    let mut table = FlowTable::new(1, usize::from(u16::MAX));
    for n in 0..FLOWS {
        let (src, dst) = (IpAddr::V4(address(n)), IpAddr::V4(Ipv4Addr::LOCALHOST));
        table.lookup(Instant::ZERO, &FlowKey { src, dst, protocol: 6, src_port: n, dst_port: 443, flow_label: 0 });
    }
    table
}

fn flow_queue() -> FlowQueue<u32> {
    let config = QueueConfig { limit_bytes: u32::MAX as _, ..QueueConfig::default() };
    let mut queue = FlowQueue::new(QueueKind::FqCodel, config);
    for n in 0..FLOWS {
        let arrival = Arrival { flow: FlowId(n), bytes: 1_448, ecn_capable: false };
        queue.enqueue(Instant::ZERO, arrival, u32::from(n), &mut |_| ());
    }
    queue
}

fn resequencer() -> Resequencer<u32> {
    let mut resequencer = Resequencer::new(Duration::from_millis(50), ResequencerLimits::default());
    for n in 0..FLOWS {
        resequencer.insert(Instant::ZERO, FlowId(n), FlowSeq::new(0), u32::from(n), &mut |_, _, _| ());
    }
    resequencer
}

fn engine() -> Engine {
    let peer = |n: u16| PeerConfig {
        preshared_key: None,
        name: format!("peer{n}"),
        public_key: identity(n).public_key(),
        endpoints: vec![SocketAddr::new(address(n).into(), 51_900)],
        routes: Vec::new(),
        prefixes: vec![Prefix { address: address(n).into(), length: 32 }],
        policy: Policy::default(),
    };
    let config = EngineConfig {
        identity: identity(u16::MAX),
        cipher: Cipher::Aes256Gcm,
        peers: (0..PEERS).map(peer).collect(),
        vpns: Vec::new(),
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base: 1,
        inner_mtu: None,
    };
    Engine::new(config, Instant::ZERO, [9; 32]).expect("every key is another")
}

fn plug_in(engine: &mut Engine) {
    for n in 1..=u32::from(PATHS) {
        let event = LinkEvent::Up { link: LinkId(n), name: format!("link{n}"), mtu: 1500, ipv4: true, ipv6: false };
        engine.handle_link(Instant::ZERO, event);
    }
}

/// Performs a handshake with each of the first peers, and sends a packet from each on every path.
fn connect(hub: &mut Sessions, far: &mut [Sessions]) {
    const HUB: PeerId = PeerId(0);
    let mut out = ([0; INITIATION_LEN], [0; RESPONSE_LEN], [0; RESPONSE_LEN]);
    for far in far {
        let len = far.initiate(Instant::ZERO, HUB, 1, &mut out.0).expect("the hub is known");
        let outcome = hub.handle(Instant::ZERO, &out.0[..len], &[], false, &mut out.1).expect("the peer is known");
        let Outcome::Reply { len, peer, .. } = outcome else { panic!("{outcome:?}") };
        far.handle(Instant::ZERO, &out.1[..len], &[], false, &mut out.2).expect("an answer to its question");
        for path in (0..PATHS).map(PathId) {
            let mut datagram = [0; HOP_HEADER_LEN + TAG_LEN];
            far.seal(HUB, path, PacketType::Control, &mut datagram).expect("established");
            hub.open(&mut datagram).expect("sealed for it");
            hub.seal(peer, path, PacketType::Control, &mut datagram).expect("established");
        }
    }
}

fn main() -> io::Result<()> {
    let _flows = (
        measure("flow at the ingress edge (flow table)", FLOWS, flow_table)?,
        measure("flow with one unit waiting (FQ-CoDel)", FLOWS, flow_queue)?,
        measure("flow at the egress edge (resequencer)", FLOWS, resequencer)?,
    );
    let mut engine = measure("peer, no path yet (engine)", PEERS, engine)?;
    measure(&format!("peer's {PATHS} paths, no packet yet (engine)"), PEERS, || plug_in(&mut engine))?;
    let sessions = |own: u16, peers: &[u16]| {
        let peers: Vec<_> = peers.iter().map(|n| identity(*n).public_key().into()).collect();
        Sessions::new(identity(own), &peers, Cipher::Aes256Gcm, [own as u8; 32], Instant::ZERO)
            .expect("every key is another")
    };
    let mut far: Vec<Sessions> = (0..SESSIONS).map(|n| sessions(n, &[u16::MAX])).collect();
    let mut hub = sessions(u16::MAX, &(0..SESSIONS).collect::<Vec<_>>());
    let name = format!("established session over {PATHS} paths: keys, windows, numbers");
    // Both ends are in this process.
    measure(&name, 2 * SESSIONS, || connect(&mut hub, &mut far))
}
