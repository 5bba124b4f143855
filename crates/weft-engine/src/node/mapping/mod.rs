//! The link map: sends claims about this node's links, forwards the claims of others, and requests missing claims.
//!
//! Claims travel in the sessions with other members. Each node checks a claim's signature before it stores the claim
//! or passes it on, so a forged claim ends at the first honest node. A claim is valid only for the links of the
//! member that signed it.

mod digests;
mod found_routes;

use super::Engine;
use crate::api::{LinkMapStatus, MapMember};
use crate::overlay::mapping::{DIGEST_DELAY, HEADER_BYTES, LOOK_INTERVAL, LinkMapping};
use crate::peer::Peer;
use crate::relay::{label, label_of};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;
use weft_core::route::link_map::ClaimReceipt;
use weft_session::{Certificate, CertificateError, PublicKey};
use weft_units::{Duration, Instant, NodeId, PeerId};
use weft_wire::er_sig::Rate16;
use weft_wire::link_map::{ClaimedLink, LinkClaim, LinkMapMessage, MAX_MESSAGE, emit_certificate, emit_claim};
use weft_wire::relay::Label;

/// First bytes of the text that the author of a claim signs. The bytes of the claim follow them.
const OF_CLAIM: &[u8] = b"weft links";
/// Time from the start of a session until the first digest is sent in it.
///
/// By then, both ends should have registered each other as members.
const FIRST_DIGEST_AFTER: Duration = Duration::from_millis(50);
/// Number of measurements of a link from which on the claim about the link states the highest confidence.
const MOST_CONFIDENT: u8 = 127;

impl Engine {
    /// Begins an empty link map, or ends the link map if this node takes no part in the overlay.
    pub(super) fn restart_mapping(&mut self, now: Instant) {
        let most = self.overlay.config.as_ref().map(|config| config.routes);
        let own = label(&self.sessions.public_key());
        let rng = self.rng.split(now.as_nanos().rotate_left(48));
        self.overlay.mapping = most.map(|most| Box::new(LinkMapping::new(now, own, most, rng)));
        self.admit_own(now);
    }

    fn admit_own(&mut self, now: Instant) {
        let Some(certificate) = self.trust.own_certificate().cloned() else { return };
        if self.admit(now, &certificate) {
            self.pass_on_certificate(&certificate, None);
        }
    }

    fn admit(&mut self, now: Instant, certificate: &Certificate) -> bool {
        let Some(mapping) = &mut self.overlay.mapping else { return false };
        let claims = certificate.claims();
        let (label, key) = (label(&claims.public_key), claims.public_key.0);
        let is_new = mapping.map.member(label).is_none();
        let is_news =
            mapping.map.admit(now, label, key, certificate.encoded(), claims.may_relay, claims.not_after_unix_s);
        if is_new && is_news {
            mapping.on_member(now);
        }
        is_news
    }

    /// Returns the certificate that a member has presented, or `None` if the peer is not a member.
    fn certificate_of_member(&self, peer: PeerId) -> Option<Certificate> {
        if let Some(certificate) = self.trust.certificate_of(peer) {
            return Some(certificate.clone());
        }
        let is_member = self.overlay.members.contains(&peer);
        Certificate::decode(self.sessions.shown_certificate(peer)).ok().filter(|_| is_member)
    }

    fn is_member(&self, peer: PeerId) -> bool {
        self.trust.is_certified(peer) || self.overlay.members.contains(&peer)
    }

    /// Handles a new session with a peer that is a member of the overlay.
    ///
    /// Sends the peer's certificate to other members if it is new, and schedules a digest, which compares the claims
    /// that the two ends store.
    pub(super) fn map_member(&mut self, now: Instant, peer: PeerId) {
        if self.overlay.mapping.is_none() {
            return;
        }
        let Some(certificate) = self.certificate_of_member(peer) else { return };
        if self.admit(now, &certificate) {
            self.pass_on_certificate(&certificate, Some(peer));
        }
        if let Some(mapping) = &mut self.overlay.mapping {
            mapping.owe_digest(peer, now + FIRST_DIGEST_AFTER);
        }
    }

    /// Returns the number of signatures checked so far for the link map, or zero without a link map.
    pub(super) fn map_checks(&self) -> u64 {
        self.overlay.mapping.as_ref().map_or(0, |mapping| mapping.limits.checks())
    }

    /// Handles a message of a member about the link map.
    pub(super) fn on_map_message(&mut self, now: Instant, from: PeerId, bytes: &[u8]) {
        let (Some(mapping), Some(key)) = (&self.overlay.mapping, self.key_of(from)) else { return };
        if mapping.limits.is_barred(now, &key) {
            return;
        }
        match LinkMapMessage::parse(bytes) {
            Ok(LinkMapMessage::Claim(claim)) => self.on_claim(now, from, &claim, bytes),
            Ok(LinkMapMessage::Certificate(certificate)) => self.on_map_certificate(now, from, certificate),
            Ok(LinkMapMessage::Digest(digest)) => self.on_digest(now, from, &digest),
            Err(_) => {}
        }
    }

    fn on_claim(&mut self, now: Instant, from: PeerId, claim: &LinkClaim<'_>, bytes: &[u8]) {
        let unix_ms = self.unix_ms(now);
        let Some(mapping) = &mut self.overlay.mapping else { return };
        let key = PublicKey(*claim.public_key);
        let author = label(&key);
        if author == mapping.own {
            return;
        }
        let (map, limits) = (&mut mapping.map, &mut mapping.limits);
        let mut is_checked = false;
        let verify = || {
            is_checked = limits.takes_check(now, from);
            is_checked && key.has_signed(OF_CLAIM, claim.covered, claim.signature)
        };
        match map.receive((now, unix_ms), author, claim, bytes, verify) {
            ClaimReceipt::News => {
                mapping.on_news(now, from);
                self.pass_on_map_message(bytes, Some(from));
            }
            ClaimReceipt::Forged if is_checked => self.bar(now, from),
            // The signature was not checked, because the peer has caused too many checks, or the author is unknown.
            // Claims may thus be missing here, so the peer is sent a digest later.
            ClaimReceipt::Forged | ClaimReceipt::UnknownAuthor => mapping.owe_digest(from, now + DIGEST_DELAY),
            ClaimReceipt::Stale | ClaimReceipt::TooOften | ClaimReceipt::OutOfTime | ClaimReceipt::OtherOwner => {}
        }
    }

    /// Returns the public key of a peer.
    fn key_of(&self, peer: PeerId) -> Option<PublicKey> {
        self.peers.get(usize::from(peer.0)).map(|peer| peer.config.public_key)
    }

    fn bar(&mut self, now: Instant, from: PeerId) {
        if let (Some(key), Some(mapping)) = (self.key_of(from), &mut self.overlay.mapping) {
            mapping.forged += 1;
            mapping.limits.bar(now, key);
        }
    }

    fn on_map_certificate(&mut self, now: Instant, from: PeerId, bytes: &[u8]) {
        let Ok(certificate) = Certificate::decode(bytes) else { return };
        let key = certificate.claims().public_key;
        if !self.is_worth_a_check(now, from, &certificate) {
            return;
        }
        let Some(config) = &self.trust.config else { return };
        match self.trust.check(now, config, &certificate) {
            Ok(()) if self.admit(now, &certificate) => {
                // The member of this certificate may now be reachable over a route, so it may be contacted again.
                self.overlay.meetings.resting.remove(&key);
                self.relaying.look_soon(now);
                if let Some(mapping) = &mut self.overlay.mapping {
                    mapping.on_news(now, from);
                }
                self.pass_on_certificate(&certificate, Some(from));
            }
            Err(CertificateError::OtherRoot) => self.bar(now, from),
            _ => {}
        }
    }

    /// True if a certificate's signature should be checked: it may change the map, and `from` may cause a check.
    ///
    /// All other fields are examined first. A check of the signature then either changes the map or bars the peer.
    fn is_worth_a_check(&mut self, now: Instant, from: PeerId, certificate: &Certificate) -> bool {
        let claims = certificate.claims();
        let is_early = self.trust.unix_s(now) < claims.not_before_unix_s;
        if is_early || self.trust.has_lapsed(now, certificate.encoded()) {
            return false;
        }
        let (label, key) = (label(&claims.public_key), &claims.public_key.0);
        self.overlay.mapping.as_mut().is_some_and(|mapping| {
            label != mapping.own
                && mapping.map.would_admit(label, key, claims.not_after_unix_s)
                && mapping.limits.takes_check(now, from)
        })
    }

    fn send_map_message(&mut self, to: PeerId, message: &[u8]) {
        let is_member = self.is_member(to);
        if let Some(peer) = self.peers.get_mut(to.0.into()).filter(|peer| is_member && peer.is_established()) {
            peer.send_overlay(message);
            if let Some(mapping) = &mut self.overlay.mapping {
                mapping.sent_bytes += message.len() as u64 + HEADER_BYTES;
            }
        }
    }

    /// Returns the members that this node reaches without relays.
    fn direct_members(&self) -> Vec<(NodeId, PeerId)> {
        let is_direct =
            |peer: &&Peer| peer.is_established() && self.is_member(peer.id) && peer.fastest_direct_path().is_some();
        self.peers.iter().filter(is_direct).map(|peer| (peer.node, peer.id)).collect()
    }

    fn pass_on_map_message(&mut self, message: &[u8], except: Option<PeerId>) {
        let (places, own) = (self.direct_members(), self.sessions.public_key().node_id());
        let Some(mapping) = &mut self.overlay.mapping else { return };
        for listener in mapping.listeners(own, &places, except) {
            self.send_map_message(listener, message);
        }
    }

    fn pass_on_certificate(&mut self, certificate: &Certificate, except: Option<PeerId>) {
        let mut out = [0; MAX_MESSAGE];
        if let Ok(len) = emit_certificate(&mut out, certificate.encoded()) {
            self.pass_on_map_message(out.get(..len).unwrap_or_default(), except);
        }
    }

    fn unix_ms(&self, now: Instant) -> u64 {
        let (at, unix_s) = self.trust.clock;
        unix_s.saturating_mul(1_000).saturating_add((now - at).as_millis() as u64)
    }

    /// True if this node relays, and its certificate allows it.
    fn is_certified_relay(&self) -> bool {
        self.relaying.is_relay && self.trust.own_certificate().is_some_and(|own| own.claims().may_relay)
    }

    /// Runs the timers of the link map that are due.
    pub(super) fn refresh_mapping(&mut self, now: Instant) {
        let Some(mapping) = self.overlay.mapping.as_ref().filter(|mapping| mapping.next_timeout() <= now) else {
            return;
        };
        let due = mapping.digests.iter().filter(|(_, at)| **at <= now);
        let due: Vec<PeerId> = due.map(|(peer, _)| *peer).collect();
        due.into_iter().for_each(|peer| self.send_digest(now, peer, true));
        self.answer_digests(now);
        if let Some(peer) = self.overlay.mapping.as_mut().and_then(|mapping| mapping.next_to_hear(now)) {
            self.take_overlay_messages(now, usize::from(peer.0));
        }
        if self.overlay.mapping.as_ref().is_some_and(|mapping| mapping.look_at <= now) {
            self.tell_own_links(now);
            self.compare_with_one(now);
        }
        if let Some(mapping) = self.overlay.mapping.as_mut().filter(|mapping| mapping.look_at <= now) {
            mapping.look_at = now + LOOK_INTERVAL;
        }
    }

    /// Sends claims about this node's own links if the links have changed, or when it is time to repeat the claims.
    fn tell_own_links(&mut self, now: Instant) {
        let (unix_ms, is_relay) = (self.unix_ms(now), self.is_certified_relay());
        let Some(mapping) = &self.overlay.mapping else { return };
        let tells_of = |peer: &&Peer| {
            let is_useful = is_relay || mapping.map.is_relay(label_of(&peer.node));
            peer.is_established() && self.is_member(peer.id) && is_useful
        };
        let links = self.peers.iter().filter(tells_of).filter_map(|peer| own_link(now, peer)).collect();
        let Some(mapping) = &mut self.overlay.mapping else { return };
        let (own, key) = (mapping.own, self.sessions.public_key().0);
        let Some((seq, links)) = mapping.claim_due(now, unix_ms, is_relay, links) else { return };
        let mut out = [0; MAX_MESSAGE];
        let sign = |covered: &[u8]| self.sessions.sign(OF_CLAIM, covered);
        let Ok(len) = emit_claim(&mut out, (&key, seq, is_relay), &links, sign) else { return };
        let bytes = out.get(..len).unwrap_or_default();
        if let Ok(LinkMapMessage::Claim(claim)) = LinkMapMessage::parse(bytes) {
            mapping.map.receive((now, unix_ms), own, &claim, bytes, || true);
        }
        self.pass_on_map_message(bytes, None);
    }

    /// Returns the link map, or `None` without an overlay.
    pub fn link_map(&mut self) -> Option<LinkMapStatus> {
        let mapping = self.overlay.mapping.as_mut()?;
        let member = |label: Label| {
            let (_, certificate) = mapping.map.member(label)?;
            let name = Certificate::decode(certificate).ok()?.claims().name.to_owned();
            Some(MapMember { label: label.0, name, is_relay: mapping.map.is_relay(label) })
        };
        let members = mapping.map.labels().filter_map(member).collect();
        let (forged_claims, sent_bytes) = (mapping.forged, mapping.sent_bytes);
        Some(LinkMapStatus { members, links: mapping.links(), forged_claims, sent_bytes })
    }
}

/// Returns this node's claim about its link to a peer, or `None` if the peer is reached only over relays.
fn own_link(now: Instant, peer: &Peer) -> Option<ClaimedLink> {
    let path = peer.fastest_direct_path().filter(|path| path.health.answers() && path.rtt().is_known())?;
    let sensed = path.sensing.known();
    let rate = |rate: Option<weft_units::Rate>| rate.map_or(Rate16::ZERO, Rate16::floor);
    let age = sensed.map_or(Duration::ZERO, |(at, _)| now - *at);
    Some(ClaimedLink {
        to: label_of(&peer.node),
        is_down: false,
        confidence: u8::try_from(path.totals.received_datagrams).unwrap_or(MOST_CONFIDENT).min(MOST_CONFIDENT),
        rtt_us: u32::try_from(path.rtt().smoothed().as_micros()).unwrap_or(u32::MAX),
        jitter_10us: u16::try_from(path.rtt().variation().as_micros() / 10).unwrap_or(u16::MAX),
        loss: (path.loss().fraction() * 256.0) as u8,
        capacity: rate(path.rate.capacity().or_else(|| sensed.and_then(|(_, estimate)| estimate.capacity))),
        available: rate(sensed.and_then(|(_, estimate)| estimate.available)),
        age_s: u8::try_from(age.as_secs()).unwrap_or(u8::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{EngineConfig, OverlayConfig, PeerConfig, Policy, TrustConfig};
    use crate::overlay::map_limits::BAR_TIME;
    use alloc::format;
    use weft_session::{Cipher, Claims, Identity, RootKey};

    const NOW: Instant = Instant::from_millis(5_000);
    const NOW_UNIX_S: u64 = 1_800_000_000;
    const LIAR: PeerId = PeerId(3);
    const HONEST: PeerId = PeerId(4);

    fn identity(node: u8) -> Identity {
        Identity::from_secret([node + 1; 32])
    }

    fn certificate(root: u8, node: u8) -> Certificate {
        certificate_until(root, node, NOW_UNIX_S + 10_000)
    }

    fn certificate_until(root: u8, node: u8, not_after_unix_s: u64) -> Certificate {
        let claims = Claims {
            public_key: identity(node).public_key(),
            name: format!("n{node}"),
            not_before_unix_s: NOW_UNIX_S - 100,
            not_after_unix_s,
            may_relay: true,
            prefixes: Vec::new(),
            groups: Vec::new(),
        };
        RootKey::from_seed([root; 32]).sign(&claims).unwrap()
    }

    fn peer(node: u8) -> PeerConfig {
        PeerConfig {
            name: format!("n{node}"),
            public_key: identity(node).public_key(),
            preshared_key: None,
            endpoints: Vec::new(),
            routes: Vec::new(),
            prefixes: Vec::new(),
            policy: Policy::default(),
        }
    }

    /// Returns the engine of a node in the overlay. It has six configured peers, and no session.
    fn member() -> Engine {
        let config = EngineConfig {
            identity: identity(0),
            cipher: Cipher::Aes256Gcm,
            peers: (50..56).map(peer).collect(),
            vpns: Vec::new(),
            links: Vec::new(),
            accepted_stamps: Vec::new(),
            stamp_base: 1,
            inner_mtu: None,
        };
        let mut engine = Engine::new(config, NOW, [9; 32]).unwrap();
        let trust = TrustConfig {
            root: RootKey::from_seed([1; 32]).public_key(),
            certificate: Some(certificate(1, 0)),
            own: Vec::new(),
            policy: Policy::default(),
            revocations: Vec::new(),
        };
        engine.set_trust(NOW, NOW_UNIX_S, Some(trust));
        engine.set_overlay(NOW, Some(OverlayConfig::default()));
        engine
    }

    fn hear_certificate(engine: &mut Engine, from: PeerId, certificate: &Certificate) {
        let mut out = [0; MAX_MESSAGE];
        let len = emit_certificate(&mut out, certificate.encoded()).unwrap();
        engine.on_map_message(NOW, from, &out[..len]);
    }

    /// Returns a claim in the name of `author` about its link to node 9, signed by `signer`.
    fn claim(author: u8, signer: u8, seq: u64, rtt_us: u32) -> Vec<u8> {
        let link = ClaimedLink {
            to: label(&identity(9).public_key()),
            is_down: false,
            confidence: 0,
            rtt_us,
            jitter_10us: 0,
            loss: 0,
            capacity: Rate16(0),
            available: Rate16(0),
            age_s: 0,
        };
        let mut out = [0; MAX_MESSAGE];
        let sign = |covered: &[u8]| identity(signer).sign(OF_CLAIM, covered);
        let len = emit_claim(&mut out, (&identity(author).public_key().0, seq, true), &[link], sign).unwrap();
        out[..len].to_vec()
    }

    fn told_rtt(engine: &Engine, author: u8) -> Option<u32> {
        let (of, to) = (label(&identity(author).public_key()), label(&identity(9).public_key()));
        engine.overlay.mapping.as_ref().unwrap().map.claim(of, to).map(|link| link.rtt_us)
    }

    #[test]
    fn a_claim_counts_only_with_its_author_s_certificate_and_signature() {
        let mut engine = member();
        let now_ms = NOW_UNIX_S * 1_000;
        engine.on_map_message(NOW, HONEST, &claim(2, 2, now_ms, 7_000));
        assert_eq!(told_rtt(&engine, 2), None, "nobody knows the author");
        hear_certificate(&mut engine, HONEST, &certificate(1, 2));
        engine.on_map_message(NOW, LIAR, &claim(2, 3, now_ms, 1_000));
        assert_eq!(told_rtt(&engine, 2), None, "the liar signed for another");
        engine.on_map_message(NOW, HONEST, &claim(2, 2, now_ms, 7_000));
        assert_eq!(told_rtt(&engine, 2), Some(7_000));
        assert_eq!(engine.link_map().unwrap().forged_claims, 1);
    }

    #[test]
    fn claims_of_a_peer_that_forwards_a_forgery_are_ignored_for_a_minute() {
        let mut engine = member();
        let now_ms = NOW_UNIX_S * 1_000;
        hear_certificate(&mut engine, HONEST, &certificate(1, 2));
        engine.on_map_message(NOW, LIAR, &claim(2, 3, now_ms, 1_000));
        engine.on_map_message(NOW, LIAR, &claim(2, 2, now_ms, 7_000));
        assert_eq!(told_rtt(&engine, 2), None);
        engine.on_map_message(NOW + BAR_TIME, LIAR, &claim(2, 2, now_ms, 7_000));
        assert_eq!(told_rtt(&engine, 2), Some(7_000));
    }

    /// Returns the number of signature checks that messages of a peer may still cause.
    fn checks_left(engine: &mut Engine, peer: PeerId) -> usize {
        let limits = &mut engine.overlay.mapping.as_mut().unwrap().limits;
        (0..1_000).filter(|_| limits.takes_check(NOW, peer)).count()
    }

    #[test]
    fn certificates_that_can_tell_nothing_are_not_checked() {
        let mut engine = member();
        let known = certificate(1, 2);
        hear_certificate(&mut engine, HONEST, &known);
        let before = engine.link_map().unwrap().members.len();
        for _ in 0..100 {
            hear_certificate(&mut engine, LIAR, &known);
            hear_certificate(&mut engine, LIAR, &certificate_until(1, 2, NOW_UNIX_S + 9_000));
            hear_certificate(&mut engine, LIAR, &certificate_until(1, 6, NOW_UNIX_S - 1));
            // The contents of the last two certificates above again, but signed by another root.
            hear_certificate(&mut engine, LIAR, &certificate_until(2, 2, NOW_UNIX_S + 9_000));
            hear_certificate(&mut engine, LIAR, &certificate_until(2, 6, NOW_UNIX_S - 1));
        }
        assert_eq!(checks_left(&mut engine, LIAR), 32, "all of them");
        let map = engine.link_map().unwrap();
        assert_eq!((map.members.len(), map.forged_claims), (before, 0));
    }

    #[test]
    fn a_peer_has_few_signatures_checked_and_takes_none_of_the_others() {
        let mut engine = member();
        for node in 100..200 {
            hear_certificate(&mut engine, LIAR, &certificate(1, node));
        }
        assert_eq!(engine.link_map().unwrap().members.len(), 1 + 32);
        hear_certificate(&mut engine, HONEST, &certificate(1, 2));
        assert_eq!(engine.link_map().unwrap().members.len(), 1 + 33);
        assert_eq!((checks_left(&mut engine, LIAR), checks_left(&mut engine, HONEST)), (0, 31));
    }

    #[test]
    fn claims_under_a_key_other_than_the_known_one_bar_nobody() {
        let mut engine = member();
        let now_ms = NOW_UNIX_S * 1_000;
        let known = identity(2).public_key();
        hear_certificate(&mut engine, HONEST, &certificate(1, 2));
        // The claim gets another key, as if that key's node had the same label (first 32 bits of the node id). Honest
        // nodes that have learnt only the other key forward its claims.
        let mut bytes = claim(2, 2, now_ms, 7_000);
        let at = bytes.windows(32).position(|window| window == known.0).unwrap();
        bytes[at + 31] ^= 1;
        assert_ne!(label(&PublicKey(bytes[at..at + 32].try_into().unwrap())), label(&known));
        let mapping = engine.overlay.mapping.as_mut().unwrap();
        let Ok(LinkMapMessage::Claim(other)) = LinkMapMessage::parse(&bytes) else { panic!("a claim") };
        let receipt = mapping.map.receive((NOW, now_ms), label(&known), &other, &bytes, || panic!("nothing to check"));
        assert_eq!(receipt, ClaimReceipt::OtherOwner);
    }

    #[test]
    fn a_bar_does_not_end_with_the_peer() {
        let mut engine = member();
        hear_certificate(&mut engine, HONEST, &certificate(1, 2));
        engine.on_map_message(NOW, LIAR, &claim(2, 3, NOW_UNIX_S * 1_000, 1_000));
        engine.overlay.forget_peer(LIAR);
        engine.on_map_message(NOW, LIAR, &claim(2, 2, NOW_UNIX_S * 1_000, 7_000));
        assert_eq!(told_rtt(&engine, 2), None);
    }

    #[test]
    fn certificates_of_another_root_make_no_member() {
        let mut engine = member();
        hear_certificate(&mut engine, LIAR, &certificate(2, 5));
        let map = engine.link_map().unwrap();
        assert_eq!((map.members.len(), map.forged_claims), (1, 1), "only the node itself");
    }

    #[test]
    fn a_replayed_claim_changes_nothing() {
        let mut engine = member();
        let now_ms = NOW_UNIX_S * 1_000;
        hear_certificate(&mut engine, HONEST, &certificate(1, 2));
        let (older, newer) = (claim(2, 2, now_ms, 7_000), claim(2, 2, now_ms + 500, 9_000));
        for bytes in [&older, &newer, &older, &newer] {
            engine.on_map_message(NOW, LIAR, bytes);
        }
        assert_eq!(told_rtt(&engine, 2), Some(9_000));
        let hours_old = claim(2, 2, now_ms - 3 * 3_600_000, 3_000);
        let mut fresh = member();
        hear_certificate(&mut fresh, HONEST, &certificate(1, 2));
        fresh.on_map_message(NOW, LIAR, &hours_old);
        fresh.on_map_message(NOW, LIAR, &claim(2, 2, now_ms + 3_600_000, 3_000));
        assert_eq!(told_rtt(&fresh, 2), None, "too old, and from the future");
    }

    #[test]
    fn claims_in_this_nodes_name_from_others_are_refused() {
        let mut engine = member();
        engine.on_map_message(NOW, LIAR, &claim(0, 0, NOW_UNIX_S * 1_000, 1_000));
        assert_eq!(told_rtt(&engine, 0), None);
    }
}
