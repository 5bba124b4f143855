//! A node that a target drives: its configuration, its link, and what it takes in.

use std::net::{IpAddr, SocketAddr};
use weft_engine::{Engine, EngineConfig, LinkEvent, PeerConfig, Policy, Prefix, Received, VpnConfig};
use weft_session::{Cipher, Identity, PublicKey};
use weft_units::{Instant, LinkId};

const LINK: LinkId = LinkId(1);

/// A peer with a /24 behind it, which calls and is not called.
pub fn peer(name: &str, public_key: PublicKey, prefix: IpAddr) -> PeerConfig {
    PeerConfig {
        preshared_key: None,
        name: name.into(),
        public_key,
        endpoints: Vec::new(),
        routes: Vec::new(),
        prefixes: vec![Prefix { address: prefix, length: 24 }],
        policy: Policy::default(),
    }
}

/// A node with one peer. It has no link before [`set_link_up`].
pub fn engine(identity: Identity, peer: PeerConfig, vpns: Vec<VpnConfig>, now: Instant) -> Engine {
    let config = EngineConfig {
        identity,
        cipher: Cipher::Aes256Gcm,
        peers: vec![peer],
        vpns,
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base: 1,
        inner_mtu: None,
    };
    Engine::new(config, now, [2; 32]).unwrap()
}

/// The node's only link comes up.
pub fn set_link_up(engine: &mut Engine, now: Instant) {
    let link = LinkEvent::Up { link: LINK, name: "link".into(), mtu: 1500, ipv4: true, ipv6: false };
    engine.handle_link(now, link);
}

/// The node takes in a datagram that comes by the link.
pub fn receive(engine: &mut Engine, now: Instant, source: SocketAddr, datagram: &[u8]) {
    let buf = engine.pool().alloc_large().expect("buffers come back");
    engine.pool().bytes_mut(buf)[..datagram.len()].copy_from_slice(datagram);
    let len = datagram.len();
    let received = Received { at: now, link: LINK, source, destination: None, tos: 0, buf, len, stride: len };
    engine.handle_datagrams(now, received);
}
