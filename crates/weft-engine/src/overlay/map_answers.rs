//! Answers to the digests of the link map that peers send.
//!
//! Each answer is sent in small parts, so that it does not delay packets.

use crate::overlay::map_limits::MAX_ANSWERS;
use alloc::collections::BTreeMap;
use weft_core::route::link_map::Comparison;
use weft_units::{Duration, Instant, PeerId};
use weft_wire::link_map::Digest;

/// Number of members whose claims one part of an answer compares with the peer's digest.
///
/// *Derived*: a part sends at most eight messages, which are copied in about 10 µs.
pub const AUTHORS_IN_PART: usize = 4;
/// Interval between two parts of answers to digests.
///
/// *Derived*: the claims of 256 members are compared within the interval of a peer's digests.
pub const PART_INTERVAL: Duration = Duration::from_millis(1);

/// The rest of the answer to a peer's digest.
pub struct MapAnswer {
    pub comparison: Comparison,
    /// True if the peer has requested a digest from this node, because this node may lack claims.
    pub wants_digest: bool,
    /// Number of messages of this answer that may still be sent.
    pub messages_left: usize,
}

/// The answers to digests that are not finished, by peer.
#[derive(Default)]
pub struct MapAnswers {
    by_peer: BTreeMap<PeerId, MapAnswer>,
    last: Option<PeerId>,
    at: Option<Instant>,
}

impl MapAnswers {
    /// Begins the answer to a peer's digest, in place of the answer to an earlier digest.
    pub fn begin(&mut self, now: Instant, peer: PeerId, digest: &Digest<'_>) {
        let answer = MapAnswer {
            comparison: Comparison::new(digest),
            wants_digest: digest.wants_answer,
            messages_left: MAX_ANSWERS,
        };
        self.by_peer.insert(peer, answer);
        self.at.get_or_insert(now);
    }

    /// Returns the time at which the next part of an answer is due, or `None` if no answer is left.
    pub fn next_at(&self) -> Option<Instant> {
        self.at
    }

    /// Removes and returns the answer of which the next part is due now, and its peer. The peers take turns.
    pub fn take_due(&mut self, now: Instant) -> Option<(PeerId, MapAnswer)> {
        if self.at.is_none_or(|at| at > now) {
            return None;
        }
        let after = self.last.and_then(|last| self.by_peer.keys().find(|peer| **peer > last));
        let peer = *after.or(self.by_peer.keys().next())?;
        self.last = Some(peer);
        self.by_peer.remove_entry(&peer)
    }

    /// Stores an answer again of which parts are left. `None`: the answer is finished.
    pub fn put_back(&mut self, now: Instant, peer: PeerId, answer: Option<MapAnswer>) {
        self.by_peer.extend(answer.map(|answer| (peer, answer)));
        self.at = (!self.by_peer.is_empty()).then_some(now + PART_INTERVAL);
    }

    pub fn forget_peer(&mut self, peer: PeerId) {
        self.by_peer.remove(&peer);
        self.at = self.at.filter(|_| !self.by_peer.is_empty());
    }
}
