//! Peers that come by certificate: who may join, and when they go.

use super::{CertifiedPeer, Clash, Outside, Rejection, Revocations, Trust, TrustConfig};
use crate::config::{PeerConfig, Prefix};
use crate::event::Event;
use crate::node::Engine;
use crate::overlay::Unmet;
use crate::peer::Peer;
use crate::relay::is_route;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_session::{Certificate, CertificateError, Claims, HandshakeError, Outcome, PublicKey};
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, PeerId};

/// Peers that came by certificate at most.
const MAX_CERTIFIED: usize = 4_096;
/// One without a session is forgotten after this.
const KEEP_WITHOUT_SESSION: Duration = Duration::from_secs(180);
/// The same where the overlay finds it again when it is there.
const KEEP_IN_OVERLAY: Duration = Duration::from_secs(10);
/// How often they are looked after.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A node that goes on trying is reported as refused so often.
const REPORT_INTERVAL: Duration = Duration::from_secs(600);
/// Refused nodes remembered, so that each is not reported at every try.
const MAX_REFUSALS: usize = 256;

/// A peer that came by certificate.
pub(super) struct Certified {
    pub(super) certificate: Certificate,
    /// Since when there has been no session; none while there is one.
    alone_since: Option<Instant>,
}

/// Who was refused lately, and when that was reported.
#[derive(Default)]
pub(super) struct Refusals(Vec<(PublicKey, Instant)>);

impl Refusals {
    /// Whether to report it.
    fn are_news(&mut self, now: Instant, key: PublicKey) -> bool {
        self.0.retain(|(_, at)| now - *at < REPORT_INTERVAL);
        let is_new = self.0.len() < MAX_REFUSALS && !self.0.iter().any(|(known, _)| *known == key);
        if is_new {
            self.0.push((key, now));
        }
        is_new
    }
}

fn prefixes(claims: &Claims) -> impl Iterator<Item = Prefix> {
    claims.prefixes.iter().map(|&(address, length)| Prefix { address, length })
}

impl Trust {
    fn peer_config(&self, claims: &Claims) -> Option<PeerConfig> {
        Some(PeerConfig {
            preshared_key: None,
            name: claims.name.clone(),
            public_key: claims.public_key,
            endpoints: Vec::new(),
            routes: Vec::new(),
            prefixes: prefixes(claims).collect(),
            policy: self.config.as_ref()?.policy.clone(),
        })
    }

    /// Whether a certificate holds now.
    fn check(&self, now: Instant, config: &TrustConfig, certificate: &Certificate) -> Result<(), CertificateError> {
        config.root.check(certificate, self.unix_s(now))?;
        if self.revocations.has(&certificate.claims().public_key) && !planted::is(Fault::RevokedMayJoin) {
            return Err(CertificateError::Revoked);
        }
        Ok(())
    }

    /// For how many seconds a certificate still holds, if it does now.
    pub(crate) fn holds_for_s(&self, now: Instant, certificate: &Certificate) -> Option<u64> {
        self.check(now, self.config.as_ref()?, certificate).ok()?;
        Some(certificate.claims().not_after_unix_s - self.unix_s(now))
    }

    /// Those whose time is over, and why.
    fn leaving(&mut self, now: Instant, peers: &[Peer], keep: Duration) -> Vec<(PeerId, &'static str)> {
        let unix_s = self.unix_s(now);
        let leaves = |(id, certified): (&PeerId, &mut Certified)| {
            let has_session = peers.get(usize::from(id.0)).is_some_and(Peer::is_established);
            let alone_since = certified.alone_since.filter(|_| !has_session);
            certified.alone_since = if has_session { None } else { Some(alone_since.unwrap_or(now)) };
            if unix_s > certified.certificate.claims().not_after_unix_s && !planted::is(Fault::ExpiryNotSeen) {
                Some((*id, "its certificate has expired"))
            } else if alone_since.is_some_and(|since| now - since >= keep) {
                Some((*id, "no session any more"))
            } else {
                None
            }
        };
        self.certified.iter_mut().filter_map(leaves).collect()
    }
}

impl Engine {
    /// Trusts certificates by `config` from now on, or none. `unix_s` is the wall clock in seconds since 1970. With another root key
    /// all who came by certificate go, and revocations are forgotten; configured peers that were revoked stay barred.
    pub fn set_trust(&mut self, now: Instant, unix_s: u64, mut config: Option<TrustConfig>) {
        self.set_unix_time(now, unix_s);
        self.sessions.set_certificate(config.as_ref().and_then(|config| config.certificate.as_ref()));
        if self.trust.config.as_ref().map(|config| config.root) != config.as_ref().map(|config| config.root) {
            self.trust.revocations = Revocations::default();
            self.peers.iter_mut().for_each(Peer::forget_told);
            let all: Vec<PeerId> = self.trust.certified.keys().copied().collect();
            all.into_iter().for_each(|peer| self.dismiss(now, peer, "its root key is trusted no more"));
        }
        let before = config.as_mut().map_or_else(Vec::new, |config| core::mem::take(&mut config.revocations));
        let is_other = self.trust.own_certificate() != config.as_ref().and_then(|config| config.certificate.as_ref());
        self.trust.config = config;
        if is_other {
            self.claim_own(now);
        }
        self.restore_revocations(now, &before);
        let configs = self.trust.certified.iter();
        let configs: Vec<_> =
            configs.map(|(peer, of)| (*peer, self.trust.peer_config(of.certificate.claims()))).collect();
        for (peer, config) in configs.into_iter().filter_map(|(peer, config)| Some((peer, config?))) {
            self.set_peer_config(now, peer, config);
        }
    }

    /// Says what lies outside the network. A peer that came by certificate and claims some of this machine's networks goes.
    pub fn set_outside(&mut self, now: Instant, outside: Outside) {
        if self.trust.outside == outside {
            return;
        }
        self.trust.outside = outside;
        let outside = &self.trust.outside;
        let covers = |prefix| matches!(outside.clash(prefix), Some(Clash::Network(_)));
        let clashing = self.trust.certified.iter().filter(|(_, of)| prefixes(of.certificate.claims()).any(covers));
        let leaving: Vec<PeerId> = clashing.map(|(peer, _)| *peer).collect();
        leaving.into_iter().for_each(|peer| self.dismiss(now, peer, "its prefix covers a network of this machine"));
    }

    /// What claims take away from this machine; `source` is where they came from. Addresses that paths moved to and that are not proved
    /// do not count, for anybody can name them.
    fn taken_from_outside(&self, claims: &Claims, source: Option<IpAddr>) -> Option<Rejection> {
        let paths = self.peers.iter().flat_map(|peer| &peer.paths);
        let proved = paths.filter(|path| path.proof.is_proven() && !is_route(&path.remote));
        let endpoints: Vec<IpAddr> = source.into_iter().chain(proved.map(|path| path.remote.ip())).collect();
        let of_paths = Outside { networks: Vec::new(), endpoints };
        let clash = |prefix| self.trust.outside.clash(prefix).or_else(|| of_paths.clash(prefix));
        prefixes(claims).find_map(|prefix| Some(Rejection::Outside { prefix, clash: clash(prefix)? }))
    }

    /// Tells the wall clock, in seconds since 1970: at the start, and when it was set.
    pub fn set_unix_time(&mut self, now: Instant, unix_s: u64) {
        self.trust.clock = (now, unix_s);
        self.sessions.set_unix_time(now, unix_s.saturating_mul(1_000_000_000));
    }

    /// The peers that came by certificate, by number.
    pub fn certified_peers(&self) -> impl Iterator<Item = CertifiedPeer<'_>> {
        self.trust
            .certified
            .iter()
            .map(|(peer, certified)| CertifiedPeer { peer: *peer, certificate: &certified.certificate })
    }

    /// Whether whoever shows this certificate may be a peer; `known` already is one by an earlier certificate.
    fn may_join(
        &self,
        now: Instant,
        certificate: &Certificate,
        known: Option<PeerId>,
        source: Option<IpAddr>,
    ) -> Result<(), Rejection> {
        let other_root = Rejection::Certificate(CertificateError::OtherRoot);
        let config = self.trust.config.as_ref().ok_or(other_root)?;
        self.trust.check(now, config, certificate).map_err(Rejection::Certificate)?;
        if known.is_none() && self.trust.certified.len() >= MAX_CERTIFIED {
            return Err(Rejection::TooMany);
        }
        let claims = certificate.claims();
        for prefix in prefixes(claims).filter(|prefix| prefix.length > 0) {
            if config.own.iter().any(|own| prefix.contains(*own)) && !planted::is(Fault::OwnPrefixGiven) {
                return Err(Rejection::Overlap { prefix, with: None });
            }
        }
        if let Some(why) = self.taken_from_outside(claims, source) {
            return Err(why);
        }
        self.others(known).try_for_each(|other| self.is_apart(claims, other))
    }

    /// The peers there are, but for `known`.
    fn others(&self, known: Option<PeerId>) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(move |peer| Some(peer.id) != known && self.is_present(peer))
    }

    /// Whether claims leave another peer what it has. Inside a prefix of a configured one there is room, as in the configuration.
    fn is_apart(&self, claims: &Claims, other: &Peer) -> Result<(), Rejection> {
        if other.config.name == claims.name {
            return Err(Rejection::Name);
        }
        let is_certified = self.trust.is_certified(other.id);
        let meets = |prefix: &Prefix| {
            other.config.prefixes.iter().any(|its| *its == *prefix || (is_certified && its.overlaps(*prefix)))
        };
        match prefixes(claims).find(meets) {
            Some(prefix) => Err(Rejection::Overlap { prefix, with: Some(other.config.name.clone()) }),
            None => Ok(()),
        }
    }

    /// Answers the initiation of a stranger that came from `source` and showed a certificate, if it may be a peer. `answer` hands the
    /// initiation in again.
    pub(crate) fn introduce(
        &mut self,
        now: Instant,
        certificate: Certificate,
        source: SocketAddr,
        answer: impl FnOnce(&mut Engine) -> Result<Outcome, HandshakeError>,
    ) -> Result<Outcome, HandshakeError> {
        if let Err(why) = self.may_join(now, &certificate, None, Some(source.ip()).filter(|_| !is_route(&source))) {
            self.report_refusal(now, &certificate, why);
            return Err(HandshakeError::Stranger);
        }
        let key = certificate.claims().public_key;
        let id = self.sessions.add_peer(key.into()).map_err(|_| HandshakeError::Stranger)?;
        self.trust.restore_stamp(&mut self.sessions, id, &key);
        let outcome = answer(self);
        match self.trust.peer_config(certificate.claims()).filter(|_| outcome.is_ok()) {
            Some(config) => {
                self.place_peer(now, id, config);
                self.trust.next_look.get_or_insert(now + LOOK_INTERVAL);
                self.trust.certified.insert(id, Certified { certificate, alone_since: Some(now) });
                self.on_peer_changed(now, id);
                self.events.push_back(Event::Joined { peer: id });
            }
            None => drop(self.sessions.remove_peer(id)),
        }
        outcome
    }

    /// A peer that came by certificate has shook hands again: perhaps it shows a new one.
    pub(crate) fn renew(&mut self, now: Instant, peer: PeerId) {
        let Some(known) = self.trust.certified.get(&peer) else { return };
        let shown = self.sessions.shown_certificate(peer);
        if shown.is_empty() || shown == known.certificate.encoded() {
            return;
        }
        let Ok(shown) = Certificate::decode(shown) else { return };
        if shown.claims().public_key != known.certificate.claims().public_key {
            return self.report_refusal(now, &shown, Rejection::Certificate(CertificateError::OtherKey));
        }
        if let Err(why) = self.may_join(now, &shown, Some(peer), None) {
            return self.report_refusal(now, &shown, why);
        }
        self.accept(now, peer, shown);
    }

    /// Makes a peer that was called by its key alone one by the certificate it has shown.
    ///
    /// # Errors
    /// Why it stays none.
    pub(crate) fn certify(&mut self, now: Instant, peer: PeerId) -> Result<(), Unmet> {
        let shown = Certificate::decode(self.sessions.shown_certificate(peer)).map_err(|_| Unmet::NoCertificate)?;
        let key = self.peers.get(usize::from(peer.0)).map(|peer| peer.config.public_key);
        if Some(shown.claims().public_key) != key {
            return Err(Unmet::Refused(Rejection::Certificate(CertificateError::OtherKey)));
        }
        if let Err(why) = self.may_join(now, &shown, Some(peer), None) {
            self.report_refusal(now, &shown, why.clone());
            return Err(Unmet::Refused(why));
        }
        self.accept(now, peer, shown);
        Ok(())
    }

    /// Whether a peer has shown a certificate for its key that holds now.
    pub(crate) fn has_shown_good(&self, now: Instant, peer: PeerId) -> bool {
        let key = self.peers.get(usize::from(peer.0)).map(|peer| peer.config.public_key);
        let holds = |shown: &Certificate| {
            let config = self.trust.config.as_ref();
            config.is_some_and(|config| self.trust.check(now, config, shown).is_ok())
        };
        let shown = Certificate::decode(self.sessions.shown_certificate(peer));
        shown.is_ok_and(|shown| Some(shown.claims().public_key) == key && holds(&shown))
    }

    /// A peer is what this certificate says.
    fn accept(&mut self, now: Instant, peer: PeerId, certificate: Certificate) {
        let Some(config) = self.trust.peer_config(certificate.claims()) else { return };
        self.set_peer_config(now, peer, config);
        self.trust.next_look.get_or_insert(now + LOOK_INTERVAL);
        self.trust.certified.insert(peer, Certified { certificate, alone_since: None });
        self.on_peer_changed(now, peer);
        self.events.push_back(Event::Joined { peer });
        self.send_what_waited(now);
    }

    /// Where it is called stays.
    fn set_peer_config(&mut self, now: Instant, peer: PeerId, mut config: PeerConfig) {
        if let Some(known) = self.peers.get(usize::from(peer.0)) {
            config.endpoints.clone_from(&known.config.endpoints);
        }
        let rng = self.rng.clone();
        self.with_peer(now, usize::from(peer.0), |p, cx| p.set_config(cx, config, &rng));
    }

    /// Whoever has no word of the root, strangers all, is not worth a line in a log.
    fn report_refusal(&mut self, now: Instant, certificate: &Certificate, why: Rejection) {
        let Claims { public_key, name, .. } = certificate.claims();
        let is_strange = why == Rejection::Certificate(CertificateError::OtherRoot);
        if !is_strange && self.trust.refusals.are_news(now, *public_key) {
            self.events.push_back(Event::Refused { public_key: *public_key, name: name.clone(), why });
        }
    }

    /// A peer that came by certificate goes.
    pub(crate) fn dismiss(&mut self, now: Instant, peer: PeerId, cause: &'static str) {
        let index = usize::from(peer.0);
        let Some(config) = self.peers.get(index).map(|peer| &peer.config) else { return };
        let (name, key) = (config.name.clone(), config.public_key);
        if let Some((_, stamp)) = self.sessions.accepted_stamps().find(|(of, _)| *of == key) {
            self.trust.stamps.insert(key, stamp);
        }
        self.trust.certified.remove(&peer);
        self.remove_peer(now, index, cause);
        self.on_peer_changed(now, peer);
        self.events.push_back(Event::Left { name, cause });
    }

    /// Lets those go whose certificate has expired, and those who are gone.
    pub(crate) fn look_after_certified(&mut self, now: Instant) {
        if self.trust.next_timeout().is_none_or(|due| due > now) {
            return;
        }
        self.trust.next_look = Some(now + LOOK_INTERVAL);
        let keep = if self.overlay.is_on() { KEEP_IN_OVERLAY } else { KEEP_WITHOUT_SESSION };
        for (peer, cause) in self.trust.leaving(now, &self.peers, keep) {
            self.dismiss(now, peer, cause);
        }
    }

    /// The configuration has become another: a peer in it is no longer one by certificate, and what it claims is others' no more.
    pub(crate) fn give_way_to_configured(&mut self, now: Instant, configured: &[PeerConfig]) {
        let is_configured = |key: &PublicKey| configured.iter().any(|peer| peer.public_key == *key);
        let met = self.peers.iter().filter(|peer| is_configured(&peer.config.public_key));
        met.for_each(|peer| self.overlay.meetings.forget(peer.id));
        self.trust.certified.retain(|_, certified| !is_configured(&certified.certificate.claims().public_key));
        let clashes = |certified: &Certified| {
            let claims = certified.certificate.claims();
            configured
                .iter()
                .any(|peer| peer.name == claims.name || prefixes(claims).any(|prefix| peer.prefixes.contains(&prefix)))
        };
        let clashing = self.trust.certified.iter().filter(|(_, certified)| clashes(certified));
        let leaving: Vec<PeerId> = clashing.map(|(peer, _)| *peer).collect();
        leaving
            .into_iter()
            .for_each(|peer| self.dismiss(now, peer, "the configuration gives its name or prefix to another"));
    }
}
