//! Digests of the link map. They show which claims a node lacks that another node has.

use crate::node::Engine;
use crate::overlay::map_answers::AUTHORS_IN_PART;
use crate::overlay::mapping::DIGEST_INTERVAL;
use alloc::vec::Vec;
use weft_core::route::link_map::Lacked;
use weft_units::{Instant, PeerId};
use weft_wire::link_map::{Digest, MAX_ENTRIES, MAX_MESSAGE, emit_certificate, emit_digest};
use weft_wire::relay::Label;

impl Engine {
    pub(super) fn on_digest(&mut self, now: Instant, from: PeerId, digest: &Digest<'_>) {
        let Some(mapping) = &mut self.overlay.mapping else { return };
        if !mapping.limits.takes_digest(now, from) {
            return;
        }
        mapping.answers.begin(now, from, digest);
    }

    /// Sends a part of the answer to a digest that a peer sent, if one is due.
    ///
    /// A digest lists for each member a fingerprint of the claims that its sender stores.
    pub(super) fn answer_digests(&mut self, now: Instant) {
        let Some(mapping) = &mut self.overlay.mapping else { return };
        let Some((to, mut answer)) = mapping.answers.take_due(now) else { return };
        let mut messages: Vec<Vec<u8>> = Vec::new();
        for lacked in answer.comparison.advance(&mapping.map, AUTHORS_IN_PART) {
            let mut out = [0; MAX_MESSAGE];
            let message = match lacked {
                Lacked::Claim(claim) => claim,
                Lacked::Certificate(bytes) => {
                    let len = emit_certificate(&mut out, bytes).unwrap_or_default();
                    out.get(..len).unwrap_or_default()
                }
            };
            let is_allowed = answer.messages_left > 0 && mapping.limits.takes_answer(now, to, message.len());
            answer.messages_left = if is_allowed { answer.messages_left - 1 } else { 0 };
            messages.extend(is_allowed.then(|| message.to_vec()));
        }
        let lacks_here = answer.comparison.is_complete() && answer.comparison.lacks_here();
        let sends_digest = lacks_here && core::mem::take(&mut answer.wants_digest);
        let has_ended = answer.comparison.has_ended() || (answer.comparison.is_complete() && answer.messages_left == 0);
        mapping.answers.put_back(now, to, (!has_ended).then_some(answer));
        for message in messages {
            self.send_map_message(to, &message);
        }
        if sends_digest {
            self.send_digest(now, to, false);
        }
    }

    /// Sends a peer a digest of a part of the map: for each member, a fingerprint of the claims stored here.
    ///
    /// With `wants_answer`, the peer answers with the claims that this node lacks. In a large map, each digest lists
    /// another part of the members.
    pub(super) fn send_digest(&mut self, now: Instant, to: PeerId, wants_answer: bool) {
        let Some(mapping) = &mut self.overlay.mapping else { return };
        mapping.digests.remove(&to);
        mapping.news_from.remove(&to);
        let members = mapping.map.members();
        let skipped = if members > MAX_ENTRIES { mapping.rng.below((members - 1) as u64) as usize } else { 0 };
        let first = if skipped == 0 { Label(0) } else { mapping.map.labels().nth(skipped).unwrap_or(Label(0)) };
        let entries = mapping.map.digest(first, MAX_ENTRIES);
        let is_end = entries.len() < MAX_ENTRIES;
        let last = entries.last().filter(|_| !is_end).map_or(Label(u32::MAX), |(label, _)| *label);
        if members > MAX_ENTRIES && wants_answer {
            mapping.owe_digest(to, now + DIGEST_INTERVAL);
        }
        let mut out = [0; MAX_MESSAGE];
        if let Ok(len) = emit_digest(&mut out, wants_answer, (first, last), &entries) {
            self.send_map_message(to, out.get(..len).unwrap_or_default());
        }
    }

    /// Sends a digest to a member chosen at random, and deletes old claims and members, if the time has come.
    pub(super) fn compare_with_one(&mut self, now: Instant) {
        let unix_ms = self.unix_ms(now);
        let members = self.direct_members();
        let Some(mapping) = &mut self.overlay.mapping else { return };
        if !mapping.takes_digest_due(now) {
            return;
        }
        mapping.map.forget_old(unix_ms);
        let at = mapping.rng.below(members.len().max(1) as u64) as usize;
        let lapsed: Vec<Label> = mapping
            .map
            .labels()
            .filter(|label| mapping.map.member(*label).is_some_and(|(_, bytes)| self.trust.has_lapsed(now, bytes)))
            .collect();
        lapsed.into_iter().for_each(|label| mapping.map.remove(label));
        if let Some((_, peer)) = members.get(at) {
            self.send_digest(now, *peer, true);
        }
        self.admit_own(now);
    }
}
