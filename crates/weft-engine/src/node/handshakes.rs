//! Handshakes: answers those of other nodes, and initiates those of this node.
//!
//! Outgoing handshake datagrams wait in a bounded queue. Under load, initiators must return a cookie before they are
//! answered (`weft-session`). An initiation by certificate is checked by `trust` before it is answered.

use super::Engine;
use super::stamps::Stamps;
use crate::api::{Received, Transmit};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_session::{Outcome, route_source};
use weft_units::{Duration, Instant, LinkId, PeerId};
use weft_wire::handshake::MAX_INITIATION_LEN;
use weft_wire::hop::PacketType;

/// Maximum number of initiations answered in each [`HANDSHAKE_WINDOW`] before initiators must return a cookie.
const HANDSHAKES_PER_WINDOW: u32 = 20;
const HANDSHAKE_WINDOW: Duration = Duration::from_millis(100);
/// Size of the longest handshake datagram, in bytes.
pub(super) const HANDSHAKE_MAX: usize = MAX_INITIATION_LEN;
/// Maximum number of handshake datagrams that wait to be sent.
///
/// *Derived*: the initiations that a socket buffer holds between two turns.
const MAX_WAITING: usize = 1_024;
/// Maximum number of pairs of a link and an address to which one initiation is sent.
const MAX_CALLED: usize = 64;

/// Handshake datagrams that wait to be sent, and the recent number of initiations.
pub(super) struct Handshakes {
    pub(super) waiting: VecDeque<(Transmit, Vec<u8>)>,
    load: (Instant, u32),
    pub(super) stamps: Stamps,
}

impl Handshakes {
    pub(super) fn new(now: Instant, stamps: Stamps) -> Handshakes {
        Handshakes { waiting: VecDeque::new(), load: (now, 0), stamps }
    }

    /// Counts an initiation with a valid MAC1. Returns true if the load requires cookies.
    fn count(&mut self, now: Instant) -> bool {
        let (since, count) = &mut self.load;
        if now - *since > HANDSHAKE_WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count > HANDSHAKES_PER_WINDOW
    }
}

impl Engine {
    pub(super) fn on_handshake(&mut self, now: Instant, received: &Received, datagram: &[u8]) {
        // Without space for the answer, drop the initiation before it is processed. Otherwise this node would record
        // its stamp, and refuse the same initiation later.
        let is_initiation = matches!(PacketType::of(datagram), Ok(PacketType::HandshakeInitiation));
        if is_initiation && self.handshakes.waiting.len() >= MAX_WAITING {
            self.wire.rejected_datagrams += 1;
            return;
        }
        let (source, source_len) = self.source_of(received);
        let mut out = [0u8; HANDSHAKE_MAX];
        let source = &source[..source_len];
        let load = &mut self.handshakes;
        let mut outcome = self.sessions.handle_counted(now, datagram, source, || load.count(now), &mut out);
        if let Ok(Outcome::Introduced { certificate }) = outcome {
            // The sender has proved its address, if a cookie was required.
            let answer = |node: &mut Engine| node.sessions.handle(now, datagram, source, false, &mut out);
            outcome = self.introduce(now, *certificate, received.source, answer);
        }
        let reply = match outcome {
            Ok(Outcome::Reply { len, peer, repeated }) => {
                self.with_peer(now, peer.0.into(), |p, _| p.on_handshake_from(received.source, repeated));
                if self.peers.get(usize::from(peer.0)).is_some_and(|peer| !peer.is_established()) {
                    self.diagnosis.facts.on_answered(now, peer, received.source);
                }
                self.on_shown(now, peer).then_some(len)
            }
            Ok(Outcome::Cookie { len }) => Some(len),
            Ok(Outcome::CookieReceived { peer }) => {
                self.initiate(now, peer);
                None
            }
            Ok(Outcome::Established { peer, fresh }) => {
                let is_new = fresh || self.peers.get(usize::from(peer.0)).is_some_and(|p| !p.is_established());
                self.watch_shared_keys(now, peer);
                if self.on_shown(now, peer) {
                    let (link, remote) = (received.link, received.source);
                    self.with_peer(now, peer.0.into(), |p, cx| p.open_answered(cx, link, remote));
                    if is_new {
                        self.begin_session(now, peer, fresh);
                    }
                }
                None
            }
            Ok(Outcome::Refused { peer, refused, call_again }) => {
                self.on_refused(now, peer, refused, call_again);
                None
            }
            Ok(Outcome::Introduced { .. }) | Err(_) => {
                self.wire.rejected_datagrams += 1;
                self.note_rejected(now, received, datagram, outcome.err());
                self.answer_refused(now, received);
                None
            }
        };
        if let Some(len) = reply {
            self.queue_handshake(received.link, received.source, received.destination, &out[..len]);
        }
    }

    pub(super) fn begin_session(&mut self, now: Instant, peer: PeerId, fresh: bool) {
        self.diagnosis.facts.on_session(peer);
        self.with_peer(now, peer.0.into(), |p, cx| p.on_established(cx, fresh));
        self.on_session(now, peer);
    }

    /// Mixes 32 fresh secret bytes into the random generator of the sessions.
    pub fn reseed(&mut self, entropy: [u8; 32]) {
        self.sessions.reseed(entropy);
    }

    /// True if a handshake has used randomness since the last [`Engine::reseed`].
    pub fn wants_entropy(&self) -> bool {
        self.sessions.wants_entropy()
    }

    /// Ends all sessions and starts new handshakes with the same peers.
    ///
    /// The caller uses it after the machine slept, or when the machine may be a copy of another one. A copy has the
    /// same keys and packet numbers, so nothing may be sent under them. `entropy` makes the copies draw different
    /// keys. `unix_ns` is the wall clock in nanoseconds since 1970. Handshake stamps continue from `unix_ns`, because
    /// the other copy may have used earlier stamps.
    pub fn renew_sessions(&mut self, now: Instant, entropy: [u8; 32], unix_ns: u64, cause: &'static str) {
        self.sessions.reseed(entropy);
        self.handshakes.stamps.raise(now, unix_ns);
        self.handshakes.waiting.clear();
        for index in 0..self.peers.len() {
            let Some((peer, had_session)) = self.peers.get(index).map(|peer| (peer.id, peer.is_established())) else {
                continue;
            };
            self.sessions.forget_keys(peer);
            if had_session {
                // Initiate before the paths are forgotten: a peer without endpoints is sent the initiation at its
                // last address.
                let _ = self.sessions.force_initiate(now, peer);
                self.initiate(now, peer);
            }
            self.with_peer(now, index, |p, cx| p.on_lost(cx, cause));
        }
        self.start_handshakes(now);
    }

    /// Returns bytes that identify a handshake's source, and their number.
    ///
    /// The source is an address, or a relay and a route over the relay.
    fn source_of(&self, received: &Received) -> ([u8; 18], usize) {
        let Some((via, _)) = self.relaying.routes.way_of(received.link) else { return address_bytes(&received.source) };
        let mut out = [0; 18];
        let source = route_source(via, received.link.0);
        out[..source.len()].copy_from_slice(&source);
        (out, source.len())
    }

    pub(super) fn queue_handshake(
        &mut self,
        link: LinkId,
        destination: SocketAddr,
        source: Option<IpAddr>,
        datagram: &[u8],
    ) {
        let transmit = Transmit { link, destination, source, tos: 0xc0, len: datagram.len(), segment_size: None };
        if self.handshakes.waiting.len() < MAX_WAITING {
            self.handshakes.waiting.push_back((transmit, datagram.to_vec()));
        }
    }

    /// Initiates a handshake with every peer that has an address and no session.
    pub(super) fn start_handshakes(&mut self, now: Instant) {
        for peer in self.peers.iter().filter(|p| !p.is_established() && p.endpoints().next().is_some()) {
            let _ = self.sessions.force_initiate(now, peer.id);
        }
    }

    /// Sends an initiation for a peer over each of its paths, and to as many of its other addresses as allowed.
    ///
    /// If the address of a path is unproven, the initiation is sent to the last proven address. It is sent to the
    /// unproven address as well, if the limit on bytes to unproven addresses allows it.
    ///
    /// Later initiations are sent to the remaining addresses in turn.
    pub(super) fn initiate(&mut self, now: Instant, peer: PeerId) {
        let Some(p) = self.peers.get(usize::from(peer.0)) else { return };
        if p.endpoints().next().is_none() && p.paths.is_empty() {
            return;
        }
        let mut out = [0u8; HANDSHAKE_MAX];
        let stamp = self.next_stamp(now);
        let Ok(len) = self.sessions.initiate(now, peer, stamp, &mut out) else { return };
        let Some(p) = self.peers.get_mut(usize::from(peer.0)) else { return };
        let mut ways: Vec<_> = Vec::new();
        for path in p.paths.iter_mut().filter(|p| p.link_up && !p.barred) {
            ways.extend(path.proof.last_proven().map(|proven| (path.link, proven, path.local)));
            if path.proof.charge((path.outer_header_len() + len) as u64) {
                ways.push((path.link, path.remote, path.local));
            }
        }
        let others = p.pairs_to_call(&self.links, MAX_CALLED.saturating_sub(ways.len()));
        ways.extend(others.into_iter().map(|(link, remote)| (link, remote, None)));
        let is_established = p.is_established();
        for (link, remote, local) in ways {
            if !is_established {
                self.diagnosis.facts.on_called(peer, link, remote);
            }
            self.queue_handshake(link, remote, local, &out[..len]);
        }
    }
}

fn address_bytes(address: &SocketAddr) -> ([u8; 18], usize) {
    let mut out = [0u8; 18];
    out[..2].copy_from_slice(&address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(a) => {
            out[2..6].copy_from_slice(&a.octets());
            (out, 6)
        }
        IpAddr::V6(a) => {
            out[2..].copy_from_slice(&a.octets());
            (out, 18)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::api::Received;
    use crate::api::{EngineConfig, PeerConfig, Policy};
    use crate::node::Engine;
    use alloc::vec::Vec;
    use weft_session::{Cipher, Identity};
    use weft_units::{Instant, LinkId, PeerId};
    use weft_wire::relay::{Label, Way};

    fn node() -> Engine {
        let peer = |number: u8| PeerConfig {
            preshared_key: None,
            name: "relay".into(),
            public_key: Identity::from_secret([number; 32]).public_key(),
            endpoints: Vec::new(),
            routes: Vec::new(),
            prefixes: Vec::new(),
            policy: Policy::default(),
        };
        let config = EngineConfig {
            identity: Identity::from_secret([9; 32]),
            cipher: Cipher::Aes256Gcm,
            peers: [1, 2].map(peer).into(),
            vpns: Vec::new(),
            links: Vec::new(),
            accepted_stamps: Vec::new(),
            stamp_base: 1,
            inner_mtu: None,
        };
        Engine::new(config, Instant::ZERO, [7; 32]).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn handshakes_over_relays_are_distinguished_by_relay_and_route() {
        let mut node = node();
        let Some(buf) = node.pool.alloc_small() else { panic!("a buffer") };
        let mut source = |via: u16, label: u32| {
            let way = Way::new(&[Label(label)]).unwrap_or_else(|why| panic!("{why:?}"));
            let route = node.relaying.routes.found(Instant::ZERO, PeerId(via), way, true);
            let (link, source) = (route.link.id, route.address);
            let received =
                Received { at: Instant::ZERO, link, source, destination: None, tos: 0, buf, len: 0, stride: 0 };
            let (bytes, len) = node.source_of(&received);
            bytes[..len].to_vec()
        };
        let (one, same, other) = (source(0, 1), source(0, 1), source(0, 2));
        let over_another = source(1, 1);
        assert!(one == same && one != other && one[..2] == other[..2] && one[..2] != over_another[..2]);
        let direct = Received {
            at: Instant::ZERO,
            link: LinkId(1),
            source: ([192, 0, 2, 1], 258).into(),
            destination: None,
            tos: 0,
            buf,
            len: 0,
            stride: 0,
        };
        let (bytes, len) = node.source_of(&direct);
        assert_eq!(bytes[..len], [1, 2, 192, 0, 2, 1]);
    }
}
