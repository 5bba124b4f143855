//! Stamps of this node's handshakes, and reports about refused stamps and shared keys.
//!
//! A stamp follows the wall clock and always rises. If a peer refuses a stamp of this node, the next one continues from
//! the value that the peer returned.

use super::Engine;
use crate::api::Received;
use crate::api::{CommandError, Event};
use crate::path::Path;
use alloc::collections::BTreeMap;
use weft_session::{PublicKey, RefusedStamp};
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, PeerId};

/// Maximum time since the last datagram of a peer with a session at which the peer still counts as reachable.
///
/// A refused initiation in the name of such a peer is taken for a replay and gets no answer.
const WELL_FOR: Duration = Duration::from_secs(2);
/// Least interval between two reports of the same kind about one peer.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Refused,
    WasRefused,
    PeerKeyShared,
    OwnKeyShared,
}

/// Generates the stamps of handshakes, and remembers recent reports about stamps and keys.
pub(super) struct Stamps {
    /// Wall-clock time at the start, in nanoseconds since 1970. Stamps follow the clock as long as they rise.
    base: u64,
    /// Highest stamp that this node has used, or may have used before it started.
    used: u64,
    said: BTreeMap<(PeerId, Topic), Instant>,
}

impl Stamps {
    pub(super) fn new(base: u64) -> Stamps {
        Stamps { base, used: 0, said: BTreeMap::new() }
    }

    /// Returns the next stamp: the clock's time, or the last stamp plus one if the clock is behind.
    fn next(&mut self, now: Instant) -> u64 {
        self.used = self.base.saturating_add(now.as_nanos()).max(self.used.saturating_add(1));
        self.used
    }

    /// Raises the clock to the wall-clock time `unix_ns` at `now`. Later stamps are not lower.
    pub(super) fn raise(&mut self, now: Instant, unix_ns: u64) {
        self.base = self.base.max(unix_ns.saturating_sub(now.as_nanos()));
    }

    fn is_news(&mut self, now: Instant, peer: PeerId, topic: Topic) -> bool {
        let is_news = self.said.get(&(peer, topic)).is_none_or(|said| now - *said >= REPORT_INTERVAL);
        if is_news {
            self.said.insert((peer, topic), now);
        }
        is_news
    }
}

impl Engine {
    /// Excludes all stamps up to `stamp`, because an earlier run of the program used them or may have used them.
    pub fn set_used_stamp(&mut self, stamp: u64) {
        self.handshakes.stamps.used = self.handshakes.stamps.used.max(stamp);
    }

    /// Returns the highest handshake stamp that this node has used so far.
    pub fn used_stamp(&self) -> u64 {
        self.handshakes.stamps.used
    }

    /// Returns the stamp for the next handshake, and marks it as used.
    pub(super) fn next_stamp(&mut self, now: Instant) -> u64 {
        self.handshakes.stamps.next(now)
    }

    /// Deletes the stamps accepted from a peer, and what the peer's refusals of this node's stamps have set.
    ///
    /// It then initiates a handshake if there is no session. Returns the peer's key.
    pub fn reset_peer(&mut self, now: Instant, name: &str) -> Result<PublicKey, CommandError> {
        let id = self.present_peer(name)?;
        let key = self.peers[usize::from(id.0)].config.public_key;
        self.sessions.reset_stamps(id);
        self.trust.forget_stamp(&key);
        if self.peers.get(usize::from(id.0)).is_some_and(|peer| !peer.is_established()) {
            // Initiate at once. Otherwise the handshake would wait until this node or the peer tries again. Nothing
            // is sent to a peer without an address, which must itself initiate.
            let _ = self.sessions.force_initiate(now, id);
            self.initiate(now, id);
        }
        Ok(key)
    }

    /// Answers an authentic initiation that was refused with the reason, unless it is probably a replay.
    pub(super) fn answer_refused(&mut self, now: Instant, received: &Received) {
        let refusal = self.sessions.take_refusal().filter(|_| !planted::is(Fault::RefusalNotAnswered));
        let Some(refusal) = refusal else { return };
        let peer = self.peers.get(usize::from(refusal.peer.0));
        let peer = peer.filter(|peer| peer.is_established());
        // If the peer's next handshake is overdue, the refused initiation is probably that handshake. If it is a
        // replay all the same, the answer does no harm.
        let is_expected = self.sessions.awaits_renewal(now, refusal.peer);
        if !is_expected && peer.is_some_and(|peer| peer.session.heard_at.is_some_and(|at| now - at < WELL_FOR)) {
            return;
        }
        // A session is kept for minutes after its peer is gone, so it does not prove that the peer is reachable. If
        // all paths of the peer are silent, the initiation is not taken for a replay: another node with the same key
        // may have sent it.
        let is_there = planted::is(Fault::SilentPeerIsThere) && peer.is_some()
            || peer.is_some_and(|peer| peer.usable_paths().any(Path::shows_peer));
        let is_recording = is_there && refusal.is_of_known_run && !is_expected;
        if !is_recording && !refusal.answer.is_empty() {
            self.queue_handshake(received.link, received.source, received.destination, &refusal.answer);
        }
        self.diagnosis.facts.on_refused_stamp(now, refusal.peer, refusal.refused, false);
        if self.handshakes.stamps.is_news(now, refusal.peer, Topic::Refused) {
            self.events.queue.push_back(Event::StampRefused {
                peer: refusal.peer,
                refused: refusal.refused,
                by_peer: false,
            });
        }
    }

    /// Handles a peer's refusal of the stamp in this node's handshake.
    ///
    /// The next stamp continues from the value that the peer returned.
    pub(super) fn on_refused(&mut self, now: Instant, peer: PeerId, refused: RefusedStamp, call_again: bool) {
        self.diagnosis.facts.on_refused_stamp(now, peer, refused, true);
        if self.handshakes.stamps.is_news(now, peer, Topic::WasRefused) {
            self.events.queue.push_back(Event::StampRefused { peer, refused, by_peer: true });
        }
        if call_again {
            self.initiate(now, peer);
        }
    }

    /// Reports that two running nodes use the peer's key, or this node's key, if the sessions show it.
    pub(super) fn watch_shared_keys(&mut self, now: Instant, peer: PeerId) {
        let (is_peers, is_own) = self.sessions.shared_keys(now, peer);
        for (is_shared, is_own, topic) in [(is_peers, false, Topic::PeerKeyShared), (is_own, true, Topic::OwnKeyShared)]
        {
            if is_shared && self.handshakes.stamps.is_news(now, peer, topic) {
                self.events.queue.push_back(Event::KeyShared { peer, is_own });
            }
        }
    }
}
