//! Peers that join by certificate: admission, renewal and removal.
//!
//! A certificate must be signed by the network's root and not revoked. Its name and prefixes must not conflict with
//! configured peers, with other peers or with this machine's networks. Only then does its owner become a peer.

use super::Engine;
use crate::api::{CertifiedPeer, Clash, Event, Outside, PeerConfig, Prefix, Rejection, TrustConfig, Unmet};
use crate::links::is_route;
use crate::peer::Peer;
use crate::trust::Revocations;
use crate::trust::certified::{Certified, prefixes};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_session::{Certificate, CertificateError, Claims, HandshakeError, Outcome, PublicKey};
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, PeerId};

/// Maximum number of peers that joined by certificate at one time.
const MAX_CERTIFIED: usize = 4_096;
/// Time without a session after which a certified peer is removed if this node is not in the overlay.
const KEEP_WITHOUT_SESSION: Duration = Duration::from_secs(180);
/// Time without a session after which a certified peer is removed if the overlay can find the peer again.
const KEEP_IN_OVERLAY: Duration = Duration::from_secs(10);
/// Interval at which certified peers that must be removed are searched for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl Engine {
    /// Sets the configuration of trust in certificates; `None` removes it.
    ///
    /// `unix_s` is the wall clock in seconds since 1970. With another root key, all peers that joined by certificate
    /// are removed and revocations are forgotten. Configured peers that were revoked stay barred.
    pub fn set_trust(&mut self, now: Instant, unix_s: u64, mut config: Option<TrustConfig>) {
        self.set_unix_time(now, unix_s);
        self.sessions.set_certificate(config.as_ref().and_then(|config| config.certificate.as_ref()));
        if self.trust.config.as_ref().map(|config| config.root) != config.as_ref().map(|config| config.root) {
            self.trust.revocations = Revocations::default();
            self.peers.iter_mut().for_each(Peer::restart_revocation_sync);
            let all: Vec<PeerId> = self.trust.certified.keys().copied().collect();
            all.into_iter().for_each(|peer| self.dismiss(now, peer, "its root key is no longer trusted"));
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

    /// Sets the IP networks and addresses that no peer's prefix may cover, such as this machine's local networks.
    ///
    /// Removes each certified peer whose prefix covers a local network.
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

    /// Returns the first conflict of a certificate's claims with this machine's networks or with outer addresses.
    ///
    /// `source` is the sender's address.
    ///
    /// If a path has moved to an address that is not proven, that address is ignored, because anybody can forge it.
    fn taken_from_outside(&self, claims: &Claims, source: Option<IpAddr>) -> Option<Rejection> {
        let paths = self.peers.iter().flat_map(|peer| &peer.paths);
        let proved = paths.filter(|path| path.proof.is_proven() && !is_route(&path.remote));
        let endpoints: Vec<IpAddr> = source.into_iter().chain(proved.map(|path| path.remote.ip())).collect();
        let of_paths = Outside { networks: Vec::new(), endpoints };
        let clash = |prefix| self.trust.outside.clash(prefix).or_else(|| of_paths.clash(prefix));
        prefixes(claims).find_map(|prefix| Some(Rejection::Outside { prefix, clash: clash(prefix)? }))
    }

    /// Sets the wall clock to `unix_s` seconds since 1970. Call it at the start and after clock changes.
    pub fn set_unix_time(&mut self, now: Instant, unix_s: u64) {
        self.trust.clock = (now, unix_s);
        self.sessions.set_unix_time(now, unix_s.saturating_mul(1_000_000_000));
    }

    /// Returns the peers that joined by certificate, in order of their numbers.
    pub fn certified_peers(&self) -> impl Iterator<Item = CertifiedPeer<'_>> {
        self.trust
            .certified
            .iter()
            .map(|(peer, certified)| CertifiedPeer { peer: *peer, certificate: &certified.certificate })
    }

    /// Checks whether the owner of a certificate may be a peer. If not, the error states the reason.
    ///
    /// `known` is the owner's peer number, if an earlier certificate has made the owner a peer. `source` is the owner's
    /// outer address, if it is known.
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

    /// Returns all present peers except `known`.
    fn others(&self, known: Option<PeerId>) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(move |peer| Some(peer.id) != known && self.is_present(peer))
    }

    /// Checks that a certificate's claims do not conflict with the name or the prefixes of another peer.
    ///
    /// A prefix within a configured peer's prefix is allowed, as in the configuration.
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

    /// Makes the stranger at `source` a peer if its certificate allows it, and answers its initiation.
    ///
    /// This function calls `answer` to process the initiation again, once its sender is a peer.
    pub(super) fn introduce(
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
                self.events.queue.push_back(Event::Joined { peer: id });
            }
            None => drop(self.sessions.remove_peer(id)),
        }
        outcome
    }

    /// Examines the certificate that a certified peer sent in a further handshake, and adopts it if it is new.
    pub(super) fn renew(&mut self, now: Instant, peer: PeerId) {
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

    /// Makes a peer that this node contacted by key a certified peer, by the certificate that the peer presented.
    ///
    /// # Errors
    /// Fails with the reason why the peer does not become certified.
    pub(super) fn certify(&mut self, now: Instant, peer: PeerId) -> Result<(), Unmet> {
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

    /// True if a peer has presented a certificate for its key that is valid now.
    pub(super) fn has_shown_good(&self, now: Instant, peer: PeerId) -> bool {
        let key = self.peers.get(usize::from(peer.0)).map(|peer| peer.config.public_key);
        let holds = |shown: &Certificate| {
            let config = self.trust.config.as_ref();
            config.is_some_and(|config| self.trust.check(now, config, shown).is_ok())
        };
        let shown = Certificate::decode(self.sessions.shown_certificate(peer));
        shown.is_ok_and(|shown| Some(shown.claims().public_key) == key && holds(&shown))
    }

    /// Adopts the valid certificate of a peer: sets the peer's name, prefixes and policy.
    fn accept(&mut self, now: Instant, peer: PeerId, certificate: Certificate) {
        let Some(config) = self.trust.peer_config(certificate.claims()) else { return };
        self.set_peer_config(now, peer, config);
        self.trust.next_look.get_or_insert(now + LOOK_INTERVAL);
        self.trust.certified.insert(peer, Certified { certificate, alone_since: None });
        self.on_peer_changed(now, peer);
        self.events.queue.push_back(Event::Joined { peer });
        self.send_what_waited(now);
    }

    /// Sets a peer's configuration, but keeps its endpoints.
    fn set_peer_config(&mut self, now: Instant, peer: PeerId, mut config: PeerConfig) {
        if let Some(known) = self.peers.get(usize::from(peer.0)) {
            config.endpoints.clone_from(&known.config.endpoints);
        }
        let rng = self.rng.clone();
        self.with_peer(now, usize::from(peer.0), |p, cx| p.set_config(cx, config, &rng));
    }

    /// Reports that a certificate was rejected.
    ///
    /// Certificates of another root are not reported, because any stranger can send one.
    fn report_refusal(&mut self, now: Instant, certificate: &Certificate, why: Rejection) {
        let Claims { public_key, name, .. } = certificate.claims();
        let is_strange = why == Rejection::Certificate(CertificateError::OtherRoot);
        if !is_strange && self.trust.refusals.are_news(now, *public_key) {
            self.events.queue.push_back(Event::Refused { public_key: *public_key, name: name.clone(), why });
        }
    }

    /// Removes a peer that joined by certificate.
    pub(super) fn dismiss(&mut self, now: Instant, peer: PeerId, cause: &'static str) {
        let index = usize::from(peer.0);
        let Some(config) = self.peers.get(index).map(|peer| &peer.config) else { return };
        let (name, key) = (config.name.clone(), config.public_key);
        if let Some((_, stamp)) = self.sessions.accepted_stamps().find(|(of, _)| *of == key) {
            self.trust.stamps.insert(key, stamp);
        }
        self.trust.certified.remove(&peer);
        self.remove_peer(now, index, cause);
        self.on_peer_changed(now, peer);
        self.events.queue.push_back(Event::Left { name, cause });
    }

    /// Removes the peers whose certificate has expired, and certified peers that had no session for too long.
    pub(super) fn look_after_certified(&mut self, now: Instant) {
        if self.trust.next_timeout().is_none_or(|due| due > now) {
            return;
        }
        self.trust.next_look = Some(now + LOOK_INTERVAL);
        let keep = if self.overlay.is_on() { KEEP_IN_OVERLAY } else { KEEP_WITHOUT_SESSION };
        let peers = &self.peers;
        let has_session = |id: PeerId| peers.get(usize::from(id.0)).is_some_and(Peer::is_established);
        for (peer, cause) in self.trust.leaving(now, has_session, keep) {
            self.dismiss(now, peer, cause);
        }
    }

    /// Resolves conflicts of certified peers with the peers of a new configuration.
    ///
    /// A certified peer that is now configured is no longer treated as certified. A certified peer whose claims
    /// conflict with the configuration is removed.
    pub(super) fn give_way_to_configured(&mut self, now: Instant, configured: &[PeerConfig]) {
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
            .for_each(|peer| self.dismiss(now, peer, "the configuration assigns its name or prefix to another peer"));
    }
}
