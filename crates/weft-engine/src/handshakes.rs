//! Handshakes: answering those of others, and calling.

use crate::interface::{Received, Transmit};
use crate::node::Engine;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_session::Outcome;
use weft_units::{Duration, Instant, LinkId, PeerId};
use weft_wire::handshake::MAX_INITIATION_LEN;

/// Handshakes answered per 100 ms before a cookie is asked for.
const HANDSHAKES_PER_WINDOW: u32 = 20;
const HANDSHAKE_WINDOW: Duration = Duration::from_millis(100);
/// Bytes of the longest handshake datagram.
pub(crate) const HANDSHAKE_MAX: usize = MAX_INITIATION_LEN;
/// Handshake datagrams that wait to be sent at most.
const MAX_WAITING: usize = 64;

/// Handshake datagrams that wait to be sent, and how many have come lately.
pub(crate) struct Handshakes {
    pub(crate) waiting: VecDeque<(Transmit, Vec<u8>)>,
    load: (Instant, u32),
}

impl Handshakes {
    pub(crate) fn new(now: Instant) -> Handshakes {
        Handshakes { waiting: VecDeque::new(), load: (now, 0) }
    }
}

impl Engine {
    pub(crate) fn on_handshake(&mut self, now: Instant, received: &Received, datagram: &[u8]) {
        let (source, source_len) = address_bytes(&received.source);
        let under_load = self.count_handshake(now);
        let mut out = [0u8; HANDSHAKE_MAX];
        let source = &source[..source_len];
        let mut outcome = self.sessions.handle(now, datagram, source, under_load, &mut out);
        if let Ok(Outcome::Introduced { certificate }) = outcome {
            // It has proved its address, where that was asked for.
            let answer = |node: &mut Engine| node.sessions.handle(now, datagram, source, false, &mut out);
            outcome = self.introduce(now, *certificate, received.source, answer);
        }
        let reply = match outcome {
            Ok(Outcome::Reply { len, peer, repeated }) => {
                self.with_peer(now, peer.0.into(), |p, _| p.on_handshake_from(received.source, repeated));
                if self.peers.get(usize::from(peer.0)).is_some_and(|peer| !peer.is_established()) {
                    self.facts.on_answered(now, peer, received.source);
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
                self.rejected_datagrams += 1;
                self.note_rejected(now, received, datagram, outcome.err());
                self.answer_refused(now, received);
                None
            }
        };
        if let Some(len) = reply {
            self.queue_handshake(received.link, received.source, received.destination, &out[..len]);
        }
    }

    pub(crate) fn begin_session(&mut self, now: Instant, peer: PeerId, fresh: bool) {
        self.facts.on_session(peer);
        self.with_peer(now, peer.0.into(), |p, cx| p.on_established(cx, fresh));
        self.on_session(now, peer);
    }

    /// Mixes 32 fresh secret bytes into the random generator.
    pub fn reseed(&mut self, entropy: [u8; 32]) {
        self.sessions.reseed(entropy);
    }

    /// Whether a handshake has used randomness since fresh entropy came in by [`Engine::reseed`].
    pub fn wants_entropy(&self) -> bool {
        self.sessions.wants_entropy()
    }

    /// Ends all sessions and starts new handshakes with the same peers.
    ///
    /// The caller uses it after the machine slept, or when it may be a copy of another machine. A copy has the same keys and packet numbers,
    /// so nothing may be sent under them. `entropy` makes the copies draw different keys. `unix_ns` is the wall clock in nanoseconds;
    /// handshake stamps continue there, because the other copy may have used those before it.
    pub fn renew_sessions(&mut self, now: Instant, entropy: [u8; 32], unix_ns: u64, cause: &'static str) {
        self.sessions.reseed(entropy);
        self.stamps.raise(now, unix_ns);
        self.handshakes.waiting.clear();
        for index in 0..self.peers.len() {
            let Some((peer, had_session)) = self.peers.get(index).map(|peer| (peer.id, peer.is_established())) else {
                continue;
            };
            self.sessions.forget_keys(peer);
            if had_session {
                // Before the paths are forgotten: a peer without endpoints is called at its last address.
                let _ = self.sessions.force_initiate(now, peer);
                self.initiate(now, peer);
            }
            self.with_peer(now, index, |p, cx| p.on_lost(cx, cause));
        }
        self.start_handshakes(now);
    }

    /// Counts handshakes; true while there are more than can be answered at ease.
    fn count_handshake(&mut self, now: Instant) -> bool {
        let (since, count) = &mut self.handshakes.load;
        if now - *since > HANDSHAKE_WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count > HANDSHAKES_PER_WINDOW
    }

    pub(crate) fn queue_handshake(
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

    /// Calls every peer that has an address and no session.
    pub(crate) fn start_handshakes(&mut self, now: Instant) {
        for peer in self.peers.iter().filter(|p| !p.is_established() && p.endpoints().next().is_some()) {
            let _ = self.sessions.force_initiate(now, peer.id);
        }
    }

    /// Sends a handshake over every path, and at the addresses beside, as far as there is room: all have their turn in calls to come.
    pub(crate) fn initiate(&mut self, now: Instant, peer: PeerId) {
        let Some(p) = self.peers.get(usize::from(peer.0)) else { return };
        if p.endpoints().next().is_none() && p.paths.is_empty() {
            return;
        }
        let mut out = [0u8; HANDSHAKE_MAX];
        let stamp = self.next_stamp(now);
        let Ok(len) = self.sessions.initiate(now, peer, stamp, &mut out) else { return };
        let Some(p) = self.peers.get_mut(usize::from(peer.0)) else { return };
        let mut ways: Vec<_> =
            p.paths.iter().filter(|p| p.link_up && !p.barred).map(|p| (p.link, p.remote, p.local)).collect();
        let others = p.pairs_to_call(&self.links, MAX_WAITING.saturating_sub(ways.len()));
        ways.extend(others.into_iter().map(|(link, remote)| (link, remote, None)));
        let is_established = p.is_established();
        for (link, remote, local) in ways {
            if !is_established {
                self.facts.on_called(peer, link, remote);
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
