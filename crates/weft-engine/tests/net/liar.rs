//! An authentic peer that sends arbitrary datagrams.

use super::{World, address, config, direction, inner};
use std::net::SocketAddr;
use weft_engine::{Engine, EngineConfig, PeerConfig, Policy, Prefix, VpnConfig};
use weft_session::{Certificate, Cipher, Identity, Outcome, SessionPeerConfig, Sessions};
use weft_units::{Duration, Instant, PathId, PeerId};
use weft_wire::frame::{Frame, FrameWriter};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};

const LIAR_PORT: u16 = 40_000;
const HUB: PeerId = PeerId(0);

/// The liar's session with node 1 of a world in which node 0 sends nothing.
pub struct Liar {
    pub world: World,
    pub sessions: Sessions,
}

impl Liar {
    pub fn new(seed: u8) -> Liar {
        Liar::in_vpns(seed, Vec::new())
    }

    /// Returns a liar whose node 1 also has these VPNs.
    pub fn in_vpns(seed: u8, vpns: Vec<VpnConfig>) -> Liar {
        Liar::with(seed, vpns, None, |_, _| ())
    }

    /// Returns a liar that shows a certificate to node 1, which `prepare` has made part of a network.
    pub fn in_network(seed: u8, certificate: &Certificate, prepare: impl FnOnce(Instant, &mut Engine)) -> Liar {
        Liar::with(seed, Vec::new(), Some(certificate), prepare)
    }

    fn with(
        seed: u8,
        vpns: Vec<VpnConfig>,
        certificate: Option<&Certificate>,
        prepare: impl FnOnce(Instant, &mut Engine),
    ) -> Liar {
        let mut configs = [0, 1].map(|n| config(n, 1, &Policy::default(), 1));
        // The engine in the liar's place gets another key and stays silent.
        configs[0].identity = Identity::from_secret([99; 32]);
        configs[0].peers.clear();
        configs[1].vpns = vpns;
        Liar::among(seed, configs, Identity::from_secret([1; 32]), certificate, prepare)
    }

    /// Returns a liar whose node 1 also has node 0 as a peer.
    pub fn beside_another(seed: u8) -> Liar {
        let mut configs = [0, 1].map(|n| config(n, 1, &Policy::default(), 1));
        let me = Identity::from_secret([99; 32]);
        let liar = PeerConfig {
            name: "liar".into(),
            public_key: me.public_key(),
            prefixes: vec![Prefix { address: inner(2).into(), length: 32 }],
            ..configs[1].peers[0].clone()
        };
        configs[1].peers.push(liar);
        Liar::among(seed, configs, me, None, |_, _| ())
    }

    fn among(
        seed: u8,
        configs: [EngineConfig; 2],
        me: Identity,
        certificate: Option<&Certificate>,
        prepare: impl FnOnce(Instant, &mut Engine),
    ) -> Liar {
        let mut world = World::with(&[direction(100, 1, 0.0)], configs);
        prepare(world.now, &mut world.nodes[1]);
        let hub = SessionPeerConfig::from(Identity::from_secret([2; 32]).public_key());
        let mut sessions = Sessions::new(me, &[hub], Cipher::Aes256Gcm, [seed; 32], world.now).unwrap();
        sessions.set_certificate(certificate);
        let mut out = [0; 2_048];
        let len = sessions.initiate(world.now, HUB, 1 + u64::from(seed), &mut out).unwrap();
        world.inject(1, 0, Liar::source(), &out[..len]);
        world.run_for(Duration::from_millis(10));
        let reply = world.astray[1].pop().expect("an answer to a true initiation");
        let outcome = sessions.handle(world.now, &reply, &[], false, &mut out).unwrap();
        assert!(matches!(outcome, Outcome::Established { .. }));
        Liar { world, sessions }
    }

    /// Returns the source address of the liar's datagrams.
    pub fn source() -> SocketAddr {
        SocketAddr::new(address(0, 0), LIAR_PORT)
    }

    /// Returns a sealed datagram with this plaintext.
    pub fn seal(&mut self, path: u8, packet_type: PacketType, plaintext: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; HOP_HEADER_LEN];
        datagram.extend(plaintext);
        datagram.resize(datagram.len() + TAG_LEN, 0);
        self.sessions.seal(HUB, PathId(path), packet_type, &mut datagram).unwrap();
        datagram
    }

    pub fn say(&mut self, path: u8, packet_type: PacketType, plaintext: &[u8]) {
        let datagram = self.seal(path, packet_type, plaintext);
        self.world.inject(1, 0, Liar::source(), &datagram);
        self.world.run_for(Duration::from_micros(100));
    }

    /// Reads the hub's datagrams. Returns the largest packet number of path 0 so far, `before` included.
    pub fn largest_heard(&mut self, before: u64) -> u64 {
        let heard = std::mem::take(&mut self.world.astray[1]);
        let numbers = heard.into_iter().filter_map(|mut datagram| {
            let opened = self.sessions.open(&mut datagram).ok()?;
            (opened.path == PathId(0)).then_some(opened.packet_number)
        });
        numbers.fold(before, u64::max)
    }

    pub fn frames(&mut self, path: u8, frames: &[Frame<'_>]) {
        let mut room = [0; 1200];
        let mut writer = FrameWriter::new(&mut room);
        frames.iter().for_each(|frame| writer.write(frame).unwrap());
        let len = writer.len();
        self.say(path, PacketType::Control, &room[..len]);
    }
}
