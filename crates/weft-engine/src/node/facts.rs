//! Records the handshakes to peers that do not answer, and the errors that these handshakes caused.
//!
//! The program turns these facts into text. ICMP errors can be forged, and strangers can send anything. Nothing here
//! therefore changes the node's behaviour.

use super::Engine;
use super::strangers::Strangers;
use crate::api::{PathSnapshot, Received, SessionFacts, Shown, Stranger, Tried, Unreachable};
use crate::path::Path;
use crate::peer::Peer;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_session::{HandshakeError, RefusedStamp};
use weft_units::{Duration, Instant, LinkId, PeerId};
use weft_wire::hop::PacketType;

/// Maximum number of pairs of a link and an address whose handshakes are recorded for each peer.
const MAX_PAIRS: usize = 64;
/// Time for which an error about an address of a peer is reported after it arrived.
///
/// *Derived*: slow handshakes are 15 to 20 s apart ([`weft_session::SLOW_RETRY_INTERVAL`]), so the error of one is kept
/// until the next handshake.
const FRESH_FOR: Duration = Duration::from_secs(30);
/// Number of handshakes without an error, on each link, after which an earlier error is not reported any more.
///
/// Routers and destinations send about one ICMP error a second, independent of the number of links (RFC 1812
/// §4.3.2.8).
const SILENT_AFTER: u32 = 4;
/// Time after the refusal of a stamp for which the refusal is reported.
const STAMP_FOR: Duration = Duration::from_secs(600);
/// Least interval between two searches through all peers for those that use the link and address of an error.
///
/// The reason for an interval is that many datagrams may fail at once.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Pair {
    link: LinkId,
    remote: SocketAddr,
    sent: u32,
    came_back: Option<CameBack>,
}

#[derive(Clone, Copy, Debug)]
struct CameBack {
    at: Instant,
    /// Number of handshakes sent on this link to this address before the error.
    sent: u32,
    why: Unreachable,
    reporter: Option<IpAddr>,
}

/// Facts about handshakes with one peer.
#[derive(Debug, Default)]
struct PeerFacts {
    pairs: Vec<Pair>,
    refused_stamp: Option<(Instant, RefusedStamp, bool)>,
    unreadable: Option<(Instant, SocketAddr)>,
    unfollowed: Option<(Instant, u32, SocketAddr)>,
}

/// Facts about handshakes with all peers, and the strangers that sent handshakes.
#[derive(Debug, Default)]
pub(super) struct Facts {
    peers: BTreeMap<PeerId, PeerFacts>,
    /// Links and addresses to which handshakes for a peer were sent.
    ///
    /// An error concerns only peers with an entry for its link and address.
    callers: BTreeSet<(LinkId, SocketAddr, PeerId)>,
    strangers: Strangers,
    looked_at: Option<Instant>,
}

impl PeerFacts {
    fn find(&mut self, link: LinkId, remote: SocketAddr) -> Option<&mut Pair> {
        self.pairs.iter_mut().find(|pair| (pair.link, pair.remote) == (link, remote))
    }

    /// Returns the last error that handshakes on a pair of a link and an address caused.
    ///
    /// Returns `None` if the error is too old, or if several later handshakes caused no error, unless another pair with
    /// this address has a newer error.
    fn came_back(&self, now: Instant, pair: &Pair) -> Option<CameBack> {
        let speaks = |other: &Pair| {
            let since = other.came_back.map(|back| (now - back.at, other.sent.saturating_sub(back.sent)));
            since.is_some_and(|(time, sent)| time < FRESH_FOR && sent < SILENT_AFTER)
        };
        let is_told = self.pairs.iter().any(|other| other.remote.ip() == pair.remote.ip() && speaks(other));
        pair.came_back.filter(|_| is_told)
    }
}

impl Facts {
    /// Records that a handshake for a peer was sent on a link to an address.
    pub(super) fn on_called(&mut self, peer: PeerId, link: LinkId, remote: SocketAddr) {
        let pair = self.pair(peer, link, remote);
        pair.sent = pair.sent.saturating_add(1);
    }

    /// Returns the entry of a pair of a link and an address. A new entry replaces the oldest if the table is full.
    fn pair(&mut self, peer: PeerId, link: LinkId, remote: SocketAddr) -> &mut Pair {
        let Facts { peers, callers, .. } = self;
        let pairs = &mut peers.entry(peer).or_default().pairs;
        let known = pairs.iter().position(|pair| (pair.link, pair.remote) == (link, remote));
        let at = known.unwrap_or_else(|| {
            if pairs.len() >= MAX_PAIRS {
                let oldest = pairs.remove(0);
                callers.remove(&(oldest.link, oldest.remote, peer));
            }
            callers.insert((link, remote, peer));
            pairs.push(Pair { link, remote, sent: 0, came_back: None });
            pairs.len() - 1
        });
        &mut pairs[at]
    }

    /// Records an error for all peers to which handshakes were sent on this link to this address.
    ///
    /// `error` makes the record of the error for a peer's pair of link and address.
    fn on_error(&mut self, (link, remote): (LinkId, SocketAddr), error: impl Fn(&Pair) -> CameBack) {
        let Facts { peers, callers, .. } = self;
        for (_, _, peer) in callers.range((link, remote, PeerId(0))..=(link, remote, PeerId(u16::MAX))) {
            if let Some(pair) = peers.get_mut(peer).and_then(|facts| facts.find(link, remote)) {
                pair.came_back = Some(error(pair));
            }
        }
    }

    pub(super) fn on_refused_stamp(&mut self, now: Instant, peer: PeerId, refused: RefusedStamp, by_peer: bool) {
        self.peers.entry(peer).or_default().refused_stamp = Some((now, refused, by_peer));
    }

    /// Records that this node answered an initiation of a peer with which it has no session.
    pub(super) fn on_answered(&mut self, now: Instant, peer: PeerId, source: SocketAddr) {
        let facts = self.peers.entry(peer).or_default();
        let before = facts.unfollowed.map_or(0, |(_, times, _)| times);
        facts.unfollowed = Some((now, before.saturating_add(1), source));
    }

    /// Deletes the facts about a peer's handshakes but its refused stamp, because a session was established.
    pub(super) fn on_session(&mut self, peer: PeerId) {
        let stamp = self.take(peer).and_then(|facts| facts.refused_stamp);
        if stamp.is_some() {
            self.peers.insert(peer, PeerFacts { refused_stamp: stamp, ..PeerFacts::default() });
        }
    }

    /// Deletes all facts about a peer that was removed.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.take(peer);
    }

    fn take(&mut self, peer: PeerId) -> Option<PeerFacts> {
        let facts = self.peers.remove(&peer)?;
        facts.pairs.iter().for_each(|pair| _ = self.callers.remove(&(pair.link, pair.remote, peer)));
        Some(facts)
    }
}

impl Engine {
    /// Handles an error for a datagram: the kernel refused to send it, or an ICMP error about it arrived.
    ///
    /// Only the reported facts change.
    pub fn handle_unreachable(
        &mut self,
        now: Instant,
        (link, remote): (LinkId, SocketAddr),
        why: Unreachable,
        reporter: Option<IpAddr>,
    ) {
        let error = |pair: &Pair| CameBack { at: now, sent: pair.sent, why, reporter };
        self.diagnosis.facts.on_error((link, remote), error);
        if self.diagnosis.facts.looked_at.is_some_and(|at| now - at < LOOK_EVERY) {
            return;
        }
        self.diagnosis.facts.looked_at = Some(now);
        let is_silent = |p: &&Peer| {
            p.paths.iter().any(|p| (p.link, p.remote) == (link, remote) && p.link_up && !p.health.answers())
        };
        for peer in self.peers.iter().filter(|peer| peer.is_established()).filter(is_silent) {
            let pair = self.diagnosis.facts.pair(peer.id, link, remote);
            pair.came_back = Some(error(pair));
        }
    }

    /// Records why a received handshake datagram was rejected, and who sent it.
    pub(super) fn note_rejected(
        &mut self,
        now: Instant,
        received: &Received,
        datagram: &[u8],
        why: Option<HandshakeError>,
    ) {
        let key = self.sessions.take_stranger();
        let is_initiation = matches!(PacketType::of(datagram), Ok(PacketType::HandshakeInitiation));
        if let (Some(HandshakeError::BadCrypto), Some(peer)) = (why, self.sessions.answers(datagram)) {
            self.diagnosis.facts.peers.entry(peer).or_default().unreadable = Some((now, received.source));
        }
        let shown = match (why, key) {
            (Some(HandshakeError::Stranger), Some(key)) => Shown::Key(key),
            (Some(HandshakeError::BadMac), _) if is_initiation => Shown::OtherKey,
            (Some(HandshakeError::BadCrypto), _) if is_initiation => Shown::Unreadable,
            _ => return,
        };
        self.events.queue.extend(self.diagnosis.facts.strangers.note(now, received.source, shown));
    }

    /// Returns the strangers that sent handshakes in the last two minutes, the most recent first.
    pub fn strangers(&self, now: Instant) -> Vec<Stranger> {
        self.diagnosis.facts.strangers.lately(now)
    }

    /// Returns the facts about each peer's session.
    pub fn session_facts(&self, now: Instant) -> impl Iterator<Item = SessionFacts> {
        self.peers.iter().filter(|peer| self.is_present(peer)).map(move |peer| self.facts_of(now, peer))
    }

    /// Returns the peers that may have a problem, with their paths.
    ///
    /// Such a peer has no session, has recorded facts such as an error or a refused stamp, or has an active path that
    /// carries no packet of `least_mtu` bytes.
    pub fn unwell(&self, now: Instant, least_mtu: u16) -> impl Iterator<Item = (SessionFacts, Vec<PathSnapshot>)> {
        let is_narrow = move |path: &Path| path.active && path.mtu.is_settled() && path.mtu.current() < least_mtu;
        let is_unwell = move |peer: &&Peer| {
            !peer.is_established()
                || self.diagnosis.facts.peers.contains_key(&peer.id)
                || peer.paths.iter().any(is_narrow)
        };
        let unwell = self.peers.iter().filter(is_unwell).filter(|peer| self.is_present(peer));
        unwell.map(move |peer| (self.facts_of(now, peer), self.snapshot_of(now, peer).paths))
    }

    fn facts_of(&self, now: Instant, peer: &Peer) -> SessionFacts {
        let none = PeerFacts::default();
        let facts = self.diagnosis.facts.peers.get(&peer.id).unwrap_or(&none);
        let fresh = |at: Instant| now - at < FRESH_FOR;
        let pair = |pair: &Pair| Tried {
            link: self.link_name(pair.link),
            remote: pair.remote,
            sent: pair.sent,
            came_back: facts.came_back(now, pair).map(|back| (back.why, back.reporter)),
        };
        let answers = |tried: &Tried| {
            peer.paths.iter().any(|p| p.remote == tried.remote && p.link_name == tried.link && p.health.answers())
        };
        let matters = |tried: &Tried| match peer.is_established() {
            true => tried.came_back.is_some() && !answers(tried),
            false => tried.sent > 0,
        };
        let leads = |remote: &&SocketAddr| self.links.iter().any(|link| link.send && link.reaches(remote));
        let endpoints = peer.config.endpoints.clone();
        SessionFacts {
            id: peer.id,
            peer: peer.config.name.clone(),
            is_revoked: self.trust.revocations.has(&peer.config.public_key),
            without_session: (!peer.is_established()).then(|| now - peer.session.alone_since),
            out_of_reach: endpoints.iter().filter(|remote| !leads(remote)).copied().collect(),
            endpoints,
            links: self.links.iter().filter(|link| link.send).count(),
            tried: facts.pairs.iter().map(pair).filter(matters).collect(),
            refused_stamp: facts.refused_stamp.filter(|(at, ..)| now - *at < STAMP_FOR).map(|(_, r, by)| (r, by)),
            unreadable: facts.unreadable.filter(|(at, _)| fresh(*at)).map(|(_, source)| source),
            unfollowed: facts.unfollowed.filter(|(at, ..)| fresh(*at)).map(|(_, times, source)| (times, source)),
        }
    }

    fn link_name(&self, link: LinkId) -> String {
        let route = || self.route_name(link).map(ToString::to_string);
        self.links.get(link).map(|link| link.name.clone()).or_else(route).unwrap_or_else(|| "removed link".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    #[test]
    fn a_silent_host_is_silent_on_all_links_and_one_that_sends_little_is_not() {
        let (host, other): (SocketAddr, SocketAddr) = ("192.0.2.1:9".parse().unwrap(), "192.0.2.2:9".parse().unwrap());
        let at = |s: u64| Instant::from_millis(s * 1_000);
        for pairs in [1, 3, 12] {
            let (mut all, peer) = (Facts::default(), PeerId(3));
            let told = |all: &Facts, now| {
                let facts = &all.peers[&peer];
                facts.pairs.iter().filter(|pair| facts.came_back(now, pair).is_some()).count()
            };
            for second in 0..20u64 {
                for link in 0..pairs {
                    all.on_called(peer, LinkId(link), host);
                    all.on_called(peer, LinkId(link), other);
                }
                // In each of the first ten seconds an error arrives, each time about another pair of link and address.
                let pair = all.pair(peer, LinkId(second as u32 % pairs), host);
                if second < 10 {
                    let (sent, why) = (pair.sent, Unreachable::Port);
                    pair.came_back = Some(CameBack { at: at(second), sent, why, reporter: None });
                }
                let expected = match second {
                    0..10 => (second as usize + 1).min(pairs as usize),
                    10..13 => 10.min(pairs as usize),
                    _ => 0,
                };
                assert_eq!(told(&all, at(second)), expected, "{pairs} links, {second} s");
            }
        }
    }

    #[test]
    fn an_error_reaches_the_peers_that_were_called_there_and_no_others() {
        let mut rng = Rng::new(5);
        let mut facts = Facts::default();
        let ways: Vec<(LinkId, SocketAddr)> =
            (0..200).map(|n| (LinkId(n % 3), SocketAddr::from(([192, 0, 2, n as u8], 9)))).collect();
        for step in 0..20_000u64 {
            let peer = PeerId(rng.below(8) as u16);
            let way = ways[rng.below(200) as usize];
            match rng.below(100) {
                0 => facts.on_session(peer),
                1 => facts.forget(peer),
                _ => facts.on_called(peer, way.0, way.1),
            }
            let at = Instant::from_millis(step);
            let (why, reporter) = (Unreachable::Host, None);
            facts.on_error(way, |pair| CameBack { at, sent: pair.sent, why, reporter });
            for pair in facts.peers.values().flat_map(|facts| &facts.pairs) {
                let is_told = pair.came_back.is_some_and(|back| back.at == at);
                assert_eq!(is_told, (pair.link, pair.remote) == way, "step {step}");
            }
        }
        let pairs: usize = facts.peers.values().map(|facts| facts.pairs.len()).sum();
        assert!(facts.callers.len() == pairs && facts.peers.values().all(|facts| facts.pairs.len() <= MAX_PAIRS));
    }
}
