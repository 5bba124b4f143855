//! Relayed traffic over a link with a rate limit: within the limit, in equal shares by peer, and after the relay's
//! own control datagrams.

use crate::mesh::{Knows, Mesh, key, wire};
use weft_engine::{EngineConfig, LinkConfig, PathState, Received};
use weft_session::{Cipher, Identity, Outcome, SessionPeerConfig, Sessions};
use weft_units::{Duration, LinkId, PathId, PathUse, PeerId, Rate, Rng};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::relay::{Label, Way, overhead};

const EDGE: usize = 0;
const RELAY: usize = 1;
const END: usize = 2;
const FLOODER: usize = 3;
/// Number of the wire between the relay and the far end, on which the relay has a limit.
const UPLINK: usize = 1;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn label(node: usize) -> Label {
    let [a, b, c, d, ..] = *key(node).node_id().as_bytes();
    Label(u32::from_be_bytes([a, b, c, d]))
}

/// A peer of the relay that ignores all limits. It consists of its sessions alone.
struct Flooder {
    sessions: Sessions,
    way: Way,
}

impl Flooder {
    fn meet(mesh: &mut Mesh) -> Flooder {
        let identity = Identity::from_secret([FLOODER as u8 + 1; 32]);
        let relay = SessionPeerConfig::from(key(RELAY));
        let mut sessions = Sessions::new(identity, &[relay], Cipher::Aes256Gcm, [9; 32], mesh.now).unwrap();
        let mut message = [0; 512];
        let len = sessions.initiate(mesh.now, PeerId(0), u64::MAX / 2, &mut message).unwrap();
        give(mesh, &message[..len]);
        let mut out = vec![0; 65_536];
        let answer = std::iter::from_fn(|| {
            let transmit = mesh.nodes[RELAY].poll_transmit(mesh.now, &mut out)?;
            Some(out[..transmit.len].to_vec())
        });
        let is_met = answer.collect::<Vec<_>>().iter().any(|answer| {
            let outcome = sessions.handle(mesh.now, answer, &[], false, &mut message);
            matches!(outcome, Ok(Outcome::Established { .. }))
        });
        assert!(is_met, "the relay answers");
        let mut first = vec![0; HOP_HEADER_LEN + TAG_LEN];
        sessions.seal(PeerId(0), PathId(0), PacketType::Control, &mut first).unwrap();
        give(mesh, &first);
        Flooder { sessions, way: Way::new(&[label(END)]).unwrap() }
    }

    fn send(&mut self, mesh: &mut Mesh, len: usize) {
        let mut datagram = vec![0; len + overhead(1)];
        datagram[HOP_HEADER_LEN] = PacketType::Data.byte();
        self.sessions.seal_relayed(PeerId(0), &self.way, &mut datagram).unwrap();
        give(mesh, &datagram);
    }
}

/// Delivers a datagram of the flooder to the relay.
fn give(mesh: &mut Mesh, datagram: &[u8]) {
    let (now, node, len) = (mesh.now, &mut mesh.nodes[RELAY], datagram.len());
    let buf = node.pool().alloc(len).expect("room for what comes in");
    node.pool().bytes_mut(buf)[..len].copy_from_slice(datagram);
    let source = ([10, 77, 0, 1], 51_900).into();
    let received = Received { at: now, link: LinkId(77), source, destination: None, tos: 0, buf, len, stride: len };
    node.handle_datagrams(now, received);
}

/// Returns a mesh in which the edge reaches the far end over the relay.
///
/// `cap` limits the relay's rate toward the far end.
fn relayed(cap: Option<Rate>) -> Mesh {
    let wires = [wire(EDGE, RELAY), wire(RELAY, END)];
    let knows = [
        Knows { direct: vec![RELAY], routed: vec![(END, vec![vec![RELAY]])], is_relay: false },
        Knows { direct: vec![EDGE, END, FLOODER], is_relay: true, ..Knows::default() },
        Knows { direct: vec![RELAY], routed: vec![(EDGE, Vec::new())], is_relay: false },
    ];
    let limit = |config: EngineConfig| match config.identity.public_key() == key(RELAY) {
        true => {
            let name = format!("wire{UPLINK}");
            EngineConfig { links: vec![LinkConfig { name, cap, send: true, allowed: PathUse::default() }], ..config }
        }
        false => config,
    };
    let mut mesh = Mesh::with(&wires, &knows, limit);
    mesh.run_for(Duration::from_secs(4));
    mesh
}

fn sent_to_end(mesh: &Mesh) -> u64 {
    mesh.wires[UPLINK].sent[0]
}

struct Outcomes {
    /// Share of the edge's packets that arrived.
    arrived: f64,
    /// 99th percentile of the delay of the edge's packets that arrived.
    delay: Duration,
    /// Rate of the relay toward the far end.
    rate: f64,
    /// RTT between the relay and the far end, and the state of their path.
    own: (Duration, PathState),
}

/// Sends a packet of the edge in each interval of `every`, against `flood` datagrams of the flooder a millisecond.
fn beside_a_flood(mesh: &mut Mesh, every: Duration, flood: u64, rng: &mut Rng) -> Outcomes {
    let mut flooder = Flooder::meet(mesh);
    mesh.run_for(ms(200));
    mesh.take_numbers(END);
    let (mut sent, mut delays) = (Vec::new(), Vec::new());
    let (begin, before) = (mesh.now, sent_to_end(mesh));
    let mut next = mesh.now;
    while mesh.now < begin + Duration::from_secs(4) {
        for _ in 0..flood {
            flooder.send(mesh, 100 + rng.below(1_200) as usize);
        }
        if mesh.now >= next {
            mesh.send(EDGE, END, sent.len() as u64, 300);
            sent.push(mesh.now);
            next += every;
        }
        mesh.run_for(ms(1));
    }
    let rate = (sent_to_end(mesh) - before) as f64 * 8.0 / (mesh.now - begin).as_secs_f64();
    mesh.run_for(ms(300));
    delays.extend(mesh.delivered[END].drain(..).map(|(at, number)| at - sent[number as usize]));
    delays.sort();
    let relay = mesh.nodes[RELAY].snapshot(mesh.now);
    let to_end = relay.peers.iter().find(|peer| peer.public_key == key(END).to_string()).unwrap();
    let path = to_end.paths.iter().find(|path| path.active).expect("a path to the far end");
    Outcomes {
        arrived: delays.len() as f64 / sent.len() as f64,
        delay: delays.get(delays.len() * 99 / 100).copied().unwrap_or(Duration::from_secs(9)),
        rate,
        own: (path.rtt.unwrap_or_default(), path.state),
    }
}

#[test]
fn a_flood_through_a_relay_leaves_others_their_share_and_the_limit_holds() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let cap = Rate::from_mbps(2 + rng.below(14));
        let mut mesh = relayed(Some(cap));
        // The fair share of the edge is half the relay's rate. It sends at most a third of that share.
        let every = Duration::from_micros(450 * 8 * 6 * 1_000 / cap.bps().div_euclid(1_000)).max(ms(1));
        let found = beside_a_flood(&mut mesh, every, 4 + rng.below(16), &mut rng);
        let (rtt, state) = found.own;
        assert!(found.arrived > 0.99, "seed {seed}, {cap}: {} arrived", found.arrived);
        assert!(found.delay < ms(13) + cap.time_for(1_500) * 4, "seed {seed}, {cap}: {:?}", found.delay);
        assert!(found.rate <= cap.bps() as f64 * 1.02, "seed {seed}, {cap}: {:.0} bit/s", found.rate);
        assert!(found.rate >= cap.bps() as f64 * 0.9, "seed {seed}, {cap}: {:.0} bit/s", found.rate);
        assert!(rtt < ms(20) && state == PathState::Good, "seed {seed}, {cap}: {rtt:?}, {state}");
        assert!(mesh.nodes[RELAY].relay_totals().dropped_datagrams > 0);
    }
}

#[test]
fn without_a_limit_all_leaves_at_once() {
    let mut mesh = relayed(None);
    let mut flooder = Flooder::meet(&mut mesh);
    let mut out = vec![0; 65_536];
    while mesh.nodes[RELAY].poll_transmit(mesh.now, &mut out).is_some() {}
    for _ in 0..500 {
        flooder.send(&mut mesh, 1_000);
    }
    let before = mesh.nodes[RELAY].relay_totals();
    while mesh.nodes[RELAY].poll_transmit(mesh.now, &mut out).is_some() {}
    let after = mesh.nodes[RELAY].relay_totals();
    assert_eq!((after.datagrams - before.datagrams, after.dropped_datagrams), (500, 0));
}

/// Checks that the relay's own bulk and the relayed traffic share the limit.
#[test]
fn the_relay_s_own_data_counts_against_the_limit() {
    let cap = Rate::from_mbps(6);
    let mut mesh = relayed(Some(cap));
    let mut flooder = Flooder::meet(&mut mesh);
    mesh.run_for(ms(200));
    let (mut number, mut before, mut relayed) = (0, 0, 0);
    for step in 0..6_000 {
        if step == 2_000 {
            (before, relayed) = (sent_to_end(&mesh), mesh.nodes[RELAY].relay_totals().bytes);
        }
        if mesh.nodes[RELAY].snapshot(mesh.now).peers.iter().all(|peer| peer.queue_bytes < 100_000) {
            mesh.send(RELAY, END, number, 1_300);
            number += 1;
        }
        (0..3).for_each(|_| flooder.send(&mut mesh, 1_200));
        mesh.run_for(ms(1));
    }
    let mbps = |bytes: u64| bytes as f64 * 8.0 / 4e6;
    let all = mbps(sent_to_end(&mesh) - before);
    let passed = mbps(mesh.nodes[RELAY].relay_totals().bytes - relayed);
    assert!(all <= 6.0 * 1.02, "{all:.2} Mbit/s in all");
    assert!((1.8..4.2).contains(&passed), "{passed:.2} of {all:.2} Mbit/s are relayed");
}
