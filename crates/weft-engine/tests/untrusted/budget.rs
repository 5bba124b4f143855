//! No action of one peer may delay the packets of another.
//!
//! Peers take turns at the TUN device, and give up buffers in proportion to the buffers that they hold.

use crate::lies::udp_packet;
use crate::net::{address, config, inner};
use std::net::SocketAddr;
use weft_engine::{Engine, EngineConfig, PeerConfig, Policy, Prefix, Received};
use weft_session::{Cipher, Identity, Outcome, SessionPeerConfig as SessionPeer, Sessions};
use weft_units::{Duration, FlowId, FlowSeq, Instant, LinkId, PathId, PeerId, Rng};
use weft_wire::frame::{Frame, FrameWriter};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};
use weft_wire::inner::{InnerHeader, PartHeader};

const HUB: PeerId = PeerId(0);
/// Maximum number of writes of the daemon in one turn.
const WRITES: usize = 1_024;
/// Tunnel addresses of the peers' nodes. The hub is node 1.
const NODES: [usize; 2] = [0, 2];

/// A hub with two peers, whose datagrams the test chooses.
struct Hub {
    engine: Engine,
    sessions: [Sessions; 2],
    now: Instant,
}

fn identity(node: usize) -> Identity {
    Identity::from_secret([node as u8 + 1; 32])
}

fn source(peer: usize) -> SocketAddr {
    SocketAddr::new(address(NODES[peer], 0), 40_000)
}

fn hub_config() -> EngineConfig {
    let mut config = config(1, 1, &Policy::default(), 1);
    let other = PeerConfig {
        name: "other".into(),
        public_key: identity(NODES[1]).public_key(),
        prefixes: vec![Prefix { address: inner(NODES[1]).into(), length: 32 }],
        ..config.peers[0].clone()
    };
    config.peers.push(other);
    config
}

impl Hub {
    fn new() -> Hub {
        let now = Instant::from_millis(1_000);
        let engine = Engine::new(hub_config(), now, [1; 32]).unwrap();
        let hub = SessionPeer::from(identity(1).public_key());
        let sessions = [0, 1].map(|peer| {
            Sessions::new(
                identity(NODES[peer]),
                std::slice::from_ref(&hub),
                Cipher::Aes256Gcm,
                [2 + peer as u8; 32],
                now,
            )
            .unwrap()
        });
        let mut hub = Hub { engine, sessions, now };
        (0..2).for_each(|peer| hub.shake_hands(peer));
        hub
    }

    fn shake_hands(&mut self, peer: usize) {
        let (mut out, mut reply) = ([0; 512], vec![0; 65_536]);
        let len = self.sessions[peer].initiate(self.now, HUB, 7, &mut out).unwrap();
        self.take(peer, &out[..len]);
        loop {
            let transmit = self.engine.poll_transmit(self.now, &mut reply).expect("an answer to a true initiation");
            if transmit.destination != source(peer) {
                continue;
            }
            let bytes = &reply[..transmit.len];
            if let Ok(Outcome::Established { .. }) = self.sessions[peer].handle(self.now, bytes, &[], false, &mut out) {
                break;
            }
        }
        self.frames(peer, &[Frame::Ping { token: 1 }]);
    }

    fn take(&mut self, peer: usize, datagram: &[u8]) {
        let pool = self.engine.pool();
        let Some(buf) = pool.alloc(datagram.len()) else { return };
        pool.bytes_mut(buf)[..datagram.len()].copy_from_slice(datagram);
        let (at, len) = (self.now, datagram.len());
        let (source, destination) = (source(peer), Some(address(1, 0)));
        let received = Received { at, link: LinkId(1), source, destination, tos: 0, buf, len, stride: len };
        self.engine.handle_datagrams(at, received);
    }

    fn say(&mut self, peer: usize, packet_type: PacketType, plaintext: &[u8]) {
        let mut datagram = vec![0; HOP_HEADER_LEN];
        datagram.extend(plaintext);
        datagram.resize(datagram.len() + TAG_LEN, 0);
        self.sessions[peer].seal(HUB, PathId(0), packet_type, &mut datagram).unwrap();
        self.take(peer, &datagram);
    }

    fn frames(&mut self, peer: usize, frames: &[Frame<'_>]) {
        let mut room = [0; 1_200];
        let mut writer = FrameWriter::new(&mut room);
        frames.iter().for_each(|frame| writer.write(frame).unwrap());
        let len = writer.len();
        self.say(peer, PacketType::Control, &room[..len]);
    }

    /// Sends a unit whose packet contains the flow and the unit's number.
    fn unit(&mut self, peer: usize, flow: u16, seq: u32) {
        let mut bytes = vec![0; 6];
        InnerHeader::packet(false, FlowId(flow), FlowSeq::new(seq)).emit(&mut bytes).unwrap();
        let mut packet = udp_packet([inner(NODES[peer]), inner(1)], 8);
        packet[28..30].copy_from_slice(&flow.to_be_bytes());
        packet[30..34].copy_from_slice(&seq.to_be_bytes());
        bytes.extend(packet);
        self.say(peer, PacketType::Data, &bytes);
    }

    /// Sends the first part of a unit without the remaining parts.
    fn half(&mut self, peer: usize, flow: u16, seq: u32) {
        let unit = InnerHeader::packet(false, FlowId(flow), FlowSeq::new(seq));
        let mut bytes = vec![0; 7];
        PartHeader { unit, first: 0, of: 10 }.emit(&mut bytes).unwrap();
        bytes.extend([0; 512]);
        self.say(peer, PacketType::DataPart, &bytes);
    }

    /// Returns the packets of one turn of the daemon (peer, flow and number of each), and whether more remain.
    fn written(&mut self) -> (Vec<(usize, u16, u32)>, bool) {
        let mut written = Vec::new();
        let is_more = self.engine.deliver_some(self.now, WRITES, |_, pieces| {
            let packet = pieces.concat();
            let packet = &packet[10..];
            let peer = NODES.iter().position(|node| packet[12..16] == inner(*node).octets()).unwrap();
            let flow = u16::from_be_bytes([packet[28], packet[29]]);
            written.push((peer, flow, u32::from_be_bytes(packet[30..34].try_into().unwrap())));
        });
        (written, is_more)
    }

    fn work(&mut self) {
        let mut out = vec![0; 65_536];
        self.engine.handle_timeout(self.now);
        while self.engine.poll_transmit(self.now, &mut out).is_some() {}
        while self.engine.poll_event().is_some() {}
    }

    fn in_use(&self) -> u32 {
        self.engine.snapshot(self.now).buffers_in_use as u32
    }
}

/// Releases all held units: the hold time ends, the sender gives up the missing units, or they arrive after all.
fn release(hub: &mut Hub, way: usize, flows: u16, holes: u32) {
    match way {
        0 => {
            hub.frames(0, &[Frame::Hold { hold_us: 0 }]);
            hub.engine.handle_timeout(hub.now);
        }
        1 => {
            let skip = |flow| Frame::Skip { flow: FlowId(flow), first: FlowSeq::new(1), count: 2 * holes };
            (0..flows).for_each(|flow| hub.frames(0, &[skip(flow)]));
        }
        _ => (0..flows).for_each(|flow| hub.unit(0, flow, 1)),
    }
}

#[test]
fn the_saved_credit_of_a_peer_delays_no_other_peer() {
    let mut rng = Rng::new(11);
    for round in 0..9 {
        let mut hub = Hub::new();
        hub.frames(0, &[Frame::Hold { hold_us: 5_000_000 }]);
        // Use few flows with many units, or many flows with few. If one unit fills the gap, use a single flow.
        let way = round % 3;
        let flows = 1 + rng.below(60) as u16;
        let held = (2_000 + rng.below(28_000) as u32).div_ceil(flows.into()).min(8_000);
        for flow in 0..flows {
            hub.unit(0, flow, 0);
            for n in 1..=held {
                hub.unit(0, flow, if way == 2 { n + 1 } else { 2 * n });
            }
        }
        while hub.written().1 {}
        release(&mut hub, way, flows, held);
        hub.unit(1, 3, 0);
        let (first, is_more) = hub.written();
        let place = first.iter().position(|(peer, ..)| *peer == 1).expect("the other peer's packet in the same turn");
        assert!(first.len() <= WRITES && place <= 32, "place {place} of {}", first.len());
        assert!(is_more, "{flows} flows with {held} units each were not too many for a turn");
        let (mut all, mut is_more) = (first, is_more);
        while is_more {
            let (some, more) = hub.written();
            assert!(some.len() <= WRITES);
            (is_more, all) = (more, [all, some].concat());
        }
        for flow in 0..flows {
            let came: Vec<u32> = all.iter().filter(|w| (w.0, w.1) == (0, flow)).map(|w| w.2).collect();
            assert!(came.len() >= held as usize && came.is_sorted(), "flow {flow}: {} of {held}", came.len());
        }
        hub.work();
        assert_eq!(hub.in_use(), 0);
    }
}

/// Checks that buffers are taken from the peer that holds most.
///
/// One peer fills buffers in every possible way while the daemon writes little. The other peer's packets must still
/// pass in turn.
#[test]
fn buffers_are_taken_from_the_peer_that_holds_most() {
    let mut rng = Rng::new(12);
    for way in 0..3 {
        let mut hub = Hub::new();
        hub.frames(0, &[Frame::Hold { hold_us: 5_000_000 }]);
        for n in 0..90_000u32 {
            let flow = rng.below(2_048) as u16;
            match way {
                0 => hub.unit(0, flow, n * 2),
                1 => hub.unit(0, n as u16, n >> 16),
                _ if n % 3 == 0 => hub.half(0, flow, n),
                _ => hub.unit(0, flow, n),
            }
            hub.now += Duration::from_micros(1);
        }
        for seq in 0..200 {
            hub.unit(1, 3, seq);
            let (written, _) = hub.written();
            assert!(written.contains(&(1, 3, seq)), "way {way}: packet {seq} of the other peer");
        }
        assert!(hub.in_use() < 60_000, "{} buffers are in use", hub.in_use());
    }
}
