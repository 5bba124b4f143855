//! A hub with two peers, one of which is an attacker with a valid certificate.
//!
//! The attacker seals arbitrary plaintexts of up to 1,500 bytes and repeats its handshake with other certificates. The
//! hub may forward the attacker's datagrams only to the other peer. The hub relays, signals rates, and belongs to an
//! overlay.
#![no_main]

mod node;

use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_engine::{Departing, Engine, OverlayConfig, Policy, RateController, SignalConfig, SignalKey, TrustConfig};
use weft_session::{Certificate, Cipher, Claims, Identity, RootKey, SessionPeerConfig, Sessions};
use weft_units::{Duration, Instant, PathId, PeerId};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::relay::{Label, Way};

const HUB: PeerId = PeerId(0);
const UNIX_S: u64 = 1_800_000_000;
/// Longest plaintext, in bytes: the link's MTU less the headers of IPv4, UDP and the hop, and the tag.
const MOST: usize = 1_500 - 28 - HOP_HEADER_LEN - TAG_LEN;
const SECRETS: [u8; 3] = [2, 1, 4];

fn identity(node: usize) -> Identity {
    Identity::from_secret([SECRETS[node]; 32])
}

fn place(node: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, node as u8], 40_000))
}

fn root() -> RootKey {
    RootKey::from_seed([3; 32])
}

fn certificate(node: usize, third: u8, length: u8, days: u8) -> Option<Certificate> {
    let claims = Claims {
        public_key: identity(node).public_key(),
        name: format!("node{node}"),
        not_before_unix_s: UNIX_S - 86_400,
        not_after_unix_s: UNIX_S + 86_400 * u64::from(days),
        may_relay: true,
        prefixes: vec![(IpAddr::V4(Ipv4Addr::new(10, 9, third, 0)), length)],
        groups: vec![],
    };
    root().sign(&claims).ok()
}

struct Hub {
    engine: Engine,
    now: Instant,
    out: Vec<u8>,
}

impl Hub {
    fn new() -> Hub {
        let peer = node::peer("honest", identity(2).public_key(), Ipv4Addr::new(10, 9, 2, 0).into());
        let now = Instant::from_millis(1);
        let mut engine = node::engine(identity(0), peer, Vec::new(), now);
        engine.set_relaying(true);
        let trust = TrustConfig {
            root: root().public_key(),
            certificate: certificate(0, 0, 24, 9),
            own: vec![Ipv4Addr::new(10, 9, 0, 1).into()],
            policy: Policy::default(),
            revocations: Vec::new(),
        };
        engine.set_trust(now, UNIX_S, Some(trust));
        engine.set_overlay(now, Some(OverlayConfig { endpoints: vec![place(0)], ..OverlayConfig::default() }));
        let signals = SignalConfig {
            key: Some(SignalKey::new([5; 32])),
            controller: RateController::Pi,
            reservable: 0.5,
            answers: true,
            quick_start: true,
            plain_routers: false,
            own_addresses: vec![Ipv4Addr::new(10, 9, 0, 1).into()],
            rules: Vec::new(),
        };
        engine.set_signalling(now, Some(signals));
        node::set_link_up(&mut engine, now);
        Hub { engine, now, out: vec![0; 65_536] }
    }

    /// Processes a datagram that `from` sends, and returns the datagrams that leave for `from`.
    fn turn(&mut self, from: usize, datagram: &[u8], wait: Duration) -> Vec<Vec<u8>> {
        self.now += wait;
        node::receive(&mut self.engine, self.now, place(from), datagram);
        self.engine.handle_timeout(self.now);
        let mut left = Vec::new();
        while let Some(departing) = self.engine.poll_departing(self.now, &mut self.out) {
            let transmit = match departing {
                Departing::Own(transmit) => transmit,
                Departing::Relayed(forward) => {
                    assert!(forward.transmit.len <= datagram.len(), "a relay adds nothing");
                    assert!((1..3).any(|node| forward.transmit.destination == place(node)), "it goes to a peer");
                    self.engine.pool().release(forward.buf);
                    continue;
                }
            };
            if transmit.destination == place(from) {
                let size = transmit.segment_size.map_or(transmit.len, usize::from).max(1);
                left.extend(self.out[..transmit.len].chunks(size).map(<[u8]>::to_vec));
            }
        }
        self.engine.deliver(self.now, |_, pieces| assert!(pieces.concat().len() <= 10 + 65_535));
        while self.engine.poll_event().is_some() {}
        left
    }
}

/// Returns a node that has completed a handshake with the hub.
fn join(hub: &mut Hub, node: usize) -> Sessions {
    let peer = SessionPeerConfig::from(identity(0).public_key());
    let mut sessions = Sessions::new(identity(node), &[peer], Cipher::Aes256Gcm, [node as u8; 32], hub.now).unwrap();
    sessions.set_certificate(certificate(node, 1, 24, 9).filter(|_| node == 1).as_ref());
    call(hub, &mut sessions, node, 1);
    assert!(sessions.is_established(HUB), "node {node} is let in");
    let mut first = [0; HOP_HEADER_LEN + TAG_LEN];
    sessions.seal(HUB, PathId(0), PacketType::Control, &mut first).unwrap();
    hub.turn(node, &first, Duration::ZERO);
    sessions
}

fn call(hub: &mut Hub, sessions: &mut Sessions, node: usize, stamp: u64) {
    let mut out = [0; 1_500];
    let Ok(len) = sessions.initiate(hub.now, HUB, stamp, &mut out) else { return };
    for answer in hub.turn(node, &out[..len], Duration::ZERO) {
        let _ = sessions.handle(hub.now, &answer, b"", false, &mut out);
    }
}

fn sealed(sessions: &mut Sessions, how: u8, plaintext: &[u8]) -> Option<Vec<u8>> {
    let mut datagram = [&[0; HOP_HEADER_LEN], plaintext, &[0; TAG_LEN]].concat();
    let packet_type = match how & 7 {
        0 => PacketType::Data,
        1 => PacketType::DataWithReport,
        2 => PacketType::DataPart,
        3 => PacketType::LoopData,
        4 | 5 => PacketType::Control,
        _ => {
            let label = if how & 8 == 0 { identity(2).public_key() } else { identity(1).public_key() };
            let label = label.node_id().as_bytes().first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            let way = Way::new(&[Label(label)]).ok()?;
            let mut datagram = [&[0; HOP_HEADER_LEN], plaintext, &[0; 4], &[0; TAG_LEN]].concat();
            sessions.seal_relayed(HUB, &way, &mut datagram).ok()?;
            return Some(datagram);
        }
    };
    sessions.seal(HUB, PathId(how >> 3 & 1), packet_type, &mut datagram).ok()?;
    Some(datagram)
}

fuzz_target!(|bytes: &[u8]| {
    let mut hub = Hub::new();
    let mut liar = join(&mut hub, 1);
    let mut honest = join(&mut hub, 2);
    let (mut rest, mut stamp) = (bytes, 2);
    while let [how, low, high, after @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, high & 7])).min(MOST - 4).min(after.len());
        let (plaintext, after) = after.split_at(len);
        rest = after;
        let wait = Duration::from_millis(u64::from(how >> 4));
        if how & 15 == 15 {
            // Another certificate in a live session: validly signed, or any bytes that parse as one.
            let shown = match plaintext {
                [third, length, days, ..] if how & 16 == 0 => certificate(1, *third, *length, *days),
                other => Certificate::decode(other).ok(),
            };
            liar.set_certificate(shown.as_ref());
            hub.now += Duration::from_secs(6);
            stamp += 1;
            call(&mut hub, &mut liar, 1, stamp);
            continue;
        }
        let Some(datagram) = sealed(&mut liar, *how, plaintext) else { return };
        for mut answer in hub.turn(1, &datagram, wait) {
            let _ = liar.open(&mut answer);
        }
    }
    let mut last = [0; HOP_HEADER_LEN + TAG_LEN];
    if hub.now < Instant::from_millis(100_000) && honest.seal(HUB, PathId(0), PacketType::Control, &mut last).is_ok() {
        let rejected = hub.engine.rejected_datagrams();
        hub.turn(2, &last, Duration::ZERO);
        assert_eq!(hub.engine.rejected_datagrams(), rejected, "the other peer's session goes on");
    }
});
