//! The peers of the node, and the sets of peers that have work to do.
//!
//! The work of a turn grows with the peers concerned, not with all peers. Mutable access to a peer marks it, because
//! it may then have something to send or another deadline. Reading marks nothing.

use crate::api::Reorder;
use crate::peer::Peer;
use crate::peer::inbound::egress::Output;
use alloc::vec::Vec;
use core::ops::{Deref, Index, IndexMut};
use weft_core::reorder::route_reordering_metric;
use weft_units::{Instant, Join, PeerId, Tournament};

/// A set of peers, by index: one bit for each.
#[derive(Debug, Default)]
struct Marks {
    words: Vec<u64>,
    count: usize,
}

impl Marks {
    /// Marks a peer. Returns true if it was not marked before.
    fn set(&mut self, index: usize) -> bool {
        let (word, bit) = (index / 64, 1 << (index % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word).filter(|word| **word & bit == 0) {
            *word |= bit;
            self.count += 1;
            return true;
        }
        false
    }

    fn clear(&mut self, index: usize) {
        let bit = 1 << (index % 64);
        if let Some(word) = self.words.get_mut(index / 64).filter(|word| **word & bit != 0) {
            *word &= !bit;
            self.count -= 1;
        }
    }

    fn has(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        core::iter::successors(self.next(0), |index| self.next(index + 1))
    }

    /// Returns the index of the first marked peer at or after `start`, or `None` if there is none.
    fn next(&self, start: usize) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let first = start / 64;
        let mut words = self.words.get(first..)?.iter().enumerate().map(|(at, word)| match at {
            0 => (first, word & (u64::MAX << (start % 64))),
            _ => (first + at, *word),
        });
        let (at, word) = words.find(|(_, word)| *word != 0)?;
        Some(at * 64 + word.trailing_zeros() as usize)
    }
}

/// Values that the node computes over all its peers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PeersSummary {
    /// Largest inner packet that every path in use carries whole, in bytes. [`usize::MAX`] if no path MTU is known.
    pub(crate) inner_limit: usize,
    /// TCP reordering metric for hosts. `None` if the units of all peers are delivered in order.
    ///
    /// It is computed by [`route_reordering_metric`].
    pub(crate) reordering: Option<u32>,
    /// Number of buffers that the peer with the most buffers holds.
    pub(crate) buffers: usize,
}

impl PeersSummary {
    fn of(peer: &Peer) -> PeersSummary {
        let settled = peer.usable_paths().filter(|path| path.mtu.is_settled());
        let is_unordered = peer.config.policy.reorder == Reorder::Off;
        PeersSummary {
            inner_limit: settled.map(|path| path.inner_limit()).min().unwrap_or(usize::MAX),
            reordering: is_unordered.then(|| route_reordering_metric(peer.usable_paths().count() as u32)),
            buffers: peer.buffers(),
        }
    }
}

impl Join for PeersSummary {
    const NOTHING: PeersSummary = PeersSummary { inner_limit: usize::MAX, reordering: None, buffers: 0 };

    fn join(self, other: PeersSummary) -> PeersSummary {
        PeersSummary {
            inner_limit: self.inner_limit.min(other.inner_limit),
            reordering: self.reordering.max(other.reordering),
            buffers: self.buffers.max(other.buffers),
        }
    }
}

/// All peers, by number, and which of them have work to do.
#[derive(Default)]
pub(crate) struct Peers {
    list: Vec<Peer>,
    /// Peers that may have something to send.
    awake: Marks,
    /// Peers that may have changed since their deadline was stored in `deadlines`.
    changed: Marks,
    /// Peers that may have changed since the relaying code last examined them.
    unseen: Marks,
    /// Peers that may have packets for a TUN device.
    unwritten: Marks,
    /// Time of the next work of each peer, except of changed ones.
    ///
    /// For an awake peer, the time of its next send is not included. Otherwise peers that wait for their turn to send
    /// would be examined in each turn.
    deadlines: Tournament<Instant>,
    standings: Tournament<PeersSummary>,
}

impl Peers {
    pub(crate) fn push(&mut self, peer: Peer) {
        self.list.push(peer);
        self.mark(self.list.len() - 1);
    }

    fn mark(&mut self, index: usize) {
        self.awake.set(index);
        if self.changed.set(index) {
            self.deadlines.set(index, Instant::FAR_FUTURE);
        }
        self.unseen.set(index);
        self.unwritten.set(index);
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Peer> {
        if index < self.list.len() {
            self.mark(index);
        }
        self.list.get_mut(index)
    }

    /// Returns all peers for modification, and marks them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.mark_all();
        self.list.iter_mut()
    }

    /// Marks every peer, so that the next turn examines all.
    pub(crate) fn mark_all(&mut self) {
        (0..self.list.len()).for_each(|index| self.mark(index));
    }

    /// Counts a datagram that claimed to be from a peer and was dropped unopened.
    pub(crate) fn count_unserved(&mut self, peer: PeerId) {
        if let Some(peer) = self.list.get_mut(usize::from(peer.0)) {
            peer.totals.unserved_datagrams += 1;
        }
    }

    /// Returns the index of the next peer that may have something to send, or `None` if there is none.
    ///
    /// The search begins at `start` and is circular.
    pub(crate) fn next_awake(&self, start: usize) -> Option<usize> {
        self.awake.next(start).or_else(|| self.awake.next(0))
    }

    /// Records that a peer has nothing to send until it changes or its deadline passes.
    pub(crate) fn rest(&mut self, index: usize) {
        self.awake.clear(index);
    }

    /// Returns the index of the first peer at or after `start` that changed or whose deadline has passed.
    pub(crate) fn next_due(&self, now: Instant, start: usize) -> Option<usize> {
        let due = self.deadlines.next(start, |at| at <= now);
        self.changed.next(start).into_iter().chain(due).min()
    }

    /// Updates the contribution of one peer to the values over all peers ([`PeersSummary`]).
    pub(crate) fn note_standing(&mut self, index: usize) {
        if let Some(peer) = self.list.get(index) {
            self.standings.set(index, PeersSummary::of(peer));
        }
    }

    /// Stores the next deadlines of the peers that changed.
    pub(crate) fn note_deadlines(&mut self, now: Instant) {
        while let Some(index) = self.changed.next(0) {
            let is_awake = self.awake.has(index);
            let deadline = |peer: &Peer| if is_awake { peer.next_timer(now) } else { peer.next_timeout(now) };
            let deadline = self.list.get(index).and_then(deadline);
            self.deadlines.set(index, deadline.unwrap_or(Instant::FAR_FUTURE));
            self.changed.clear(index);
        }
    }

    /// Returns the earliest deadline of all peers, or one that has passed.
    ///
    /// A deadline that has passed ends the search: a busy node has many peers with something to send now.
    pub(crate) fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let noted = Some(self.deadlines.total()).filter(|at| *at != Instant::FAR_FUTURE);
        let awake = self.awake.iter().filter(|index| !self.changed.has(*index));
        let unnoted = self.changed.iter().chain(awake).filter_map(|index| self.list.get(index));
        let mut deadlines = noted.into_iter().chain(unnoted.filter_map(|peer| peer.next_timeout(now)));
        let mut earliest = deadlines.next()?;
        while earliest > now
            && let Some(at) = deadlines.next()
        {
            earliest = earliest.min(at);
        }
        Some(earliest)
    }

    /// Returns the values over all peers ([`PeersSummary`]), as of the last turn.
    pub(crate) fn standing(&self) -> PeersSummary {
        self.standings.total()
    }

    /// Returns the index of the peer that holds the most buffers.
    pub(crate) fn with_most_buffers(&mut self) -> Option<usize> {
        let mut index = 0;
        while let Some(changed) = self.changed.next(index) {
            self.note_standing(changed);
            index = changed + 1;
        }
        let most = self.standing().buffers;
        self.standings.next(0, |standing| standing.buffers >= most)
    }

    /// Returns the index and the output (packets for a TUN device) of the next peer that may have any.
    ///
    /// The search begins at `start` and is circular.
    pub(crate) fn next_output(&mut self, start: usize) -> Option<(usize, &mut Output)> {
        let index = self.unwritten.next(start).or_else(|| self.unwritten.next(0))?;
        self.list.get_mut(index).map(|peer| (index, &mut peer.output))
    }

    /// Returns a peer's output: its packets that wait to be written to a TUN device.
    pub(crate) fn output_mut(&mut self, index: usize) -> Option<&mut Output> {
        self.list.get_mut(index).map(|peer| &mut peer.output)
    }

    /// Records that a peer has nothing to write until it changes.
    pub(crate) fn all_written(&mut self, index: usize) {
        self.unwritten.clear(index);
    }

    /// Removes from `unseen` and returns a peer that changed since the relaying code last examined it.
    pub(crate) fn take_unseen(&mut self) -> Option<usize> {
        let index = self.unseen.next(0)?;
        self.unseen.clear(index);
        Some(index)
    }
}

impl Deref for Peers {
    type Target = [Peer];

    fn deref(&self) -> &[Peer] {
        &self.list
    }
}

impl Index<usize> for Peers {
    type Output = Peer;

    fn index(&self, index: usize) -> &Peer {
        &self.list[index]
    }
}

impl IndexMut<usize> for Peers {
    fn index_mut(&mut self, index: usize) -> &mut Peer {
        self.mark(index);
        &mut self.list[index]
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;
    use alloc::collections::BTreeSet;
    use weft_units::Rng;

    #[test]
    fn marks_agree_with_a_set() {
        let (mut marks, mut set, mut rng) = (Marks::default(), BTreeSet::new(), Rng::new(5));
        for _ in 0..20_000 {
            let index = rng.below(300) as usize;
            if rng.chance(0.4) {
                marks.set(index);
                set.insert(index);
            } else {
                marks.clear(index);
                set.remove(&index);
            }
            let start = rng.below(320) as usize;
            assert_eq!(marks.next(start), set.range(start..).next().copied());
            assert_eq!(marks.count, set.len());
        }
    }
}
