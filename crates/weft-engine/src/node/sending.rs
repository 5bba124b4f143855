//! Sends this node's own datagrams: handshakes first, then those of the peers in turn.

use super::Engine;
use crate::api::Transmit;
use crate::links::room_for_relays;
use weft_units::Instant;

impl Engine {
    /// Returns this node's next own datagram, inside a relay header if it leaves by a relayed route.
    pub(super) fn poll_wrapped(&mut self, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        while let Some(transmit) = self.poll_own(now, out) {
            if self.is_cut(transmit.link, &transmit.destination) {
                continue;
            }
            let path = transmit.link;
            let wrapped = self.wrap(transmit, out);
            if let Some(leaves) = wrapped.filter(|transmit| !self.is_cut(transmit.link, &transmit.destination)) {
                self.note_own(now, path, &leaves);
                return Some(leaves);
            }
        }
        None
    }

    /// Returns this node's next own datagram.
    ///
    /// A datagram for a relayed route is written with space for the relay header.
    fn poll_own(&mut self, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        if let Some((transmit, datagram)) = self.handshakes.waiting.pop_front() {
            let (before, _) = room_for_relays(&transmit.destination);
            out.get_mut(before..before + datagram.len())?.copy_from_slice(&datagram);
            return Some(transmit);
        }
        while let Some(index) = self.peers.next_awake(self.wire.turn) {
            if let Some(Some(transmit)) = self.with_peer(now, index, |p, cx| p.poll_transmit(cx, out)) {
                self.wire.turn = index;
                return Some(transmit);
            }
            self.peers.rest(index);
        }
        self.peers.note_deadlines(now);
        None
    }
}
