//! A relay's latest report about each peer, in the order of the reports.
//!
//! All peers that receive the reports share the list, and each peer has a position in it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use weft_wire::frame::Neighbour;

/// The latest report of this relay about each of its peers.
#[derive(Debug, Default)]
pub struct Bulletin {
    /// Latest report about each peer, with its position in the order of all reports. The index is the peer's number.
    words: Vec<Option<(u64, Neighbour)>>,
    order: BTreeMap<u64, usize>,
    end: u64,
}

impl Bulletin {
    /// Adds a report about a peer, which replaces the earlier one.
    pub fn add(&mut self, of: usize, neighbour: Neighbour) {
        if of >= self.words.len() {
            self.words.resize(of + 1, None);
        }
        let Some(word) = self.words.get_mut(of) else { return };
        if let Some((place, _)) = word.replace((self.end, neighbour)) {
            self.order.remove(&place);
        }
        self.order.insert(self.end, of);
        self.end += 1;
    }

    /// True if the latest report states that the peer is reachable.
    pub fn reports_reachable(&self, of: usize) -> bool {
        self.words.get(of).copied().flatten().is_some_and(|(_, neighbour)| neighbour.is_reachable)
    }

    /// Returns the position after the last report.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the reports from the position `place` on, each with the position after it.
    ///
    /// Reports about the peer `listener` itself are omitted.
    pub fn read(&self, place: u64, listener: usize) -> impl Iterator<Item = (u64, Neighbour)> {
        let others = self.order.range(place..).filter(move |(_, of)| **of != listener);
        others.filter_map(|(place, of)| Some((place + 1, self.words.get(*of).copied().flatten()?.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec;
    use weft_units::Rng;
    use weft_wire::relay::Label;

    /// Checks that a peer that reads at any pace has the latest report about every other peer.
    #[test]
    fn listeners_at_any_pace_know_the_last_word() {
        let mut rng = Rng::new(9);
        let mut bulletin = Bulletin::default();
        let mut last = BTreeMap::new();
        let mut listeners: Vec<(u64, BTreeMap<u32, Neighbour>)> = vec![(0, BTreeMap::new()); 8];
        for step in 0..5_000 {
            let of = rng.below(8) as usize;
            let (node, is_reachable) = (Label(of as u32), rng.chance(0.5));
            let neighbour = Neighbour { node, is_reachable, rtt_us: step, loss: 0 };
            bulletin.add(of, neighbour);
            last.insert(of as u32, neighbour);
            assert_eq!(bulletin.reports_reachable(of), is_reachable);
            let listener = rng.below(8) as usize;
            let (place, known) = &mut listeners[listener];
            for (after, neighbour) in bulletin.read(*place, listener).take(rng.below(20) as usize) {
                *place = after;
                known.insert(neighbour.node.0, neighbour);
            }
        }
        for (listener, (place, mut known)) in listeners.into_iter().enumerate() {
            known.extend(bulletin.read(place, listener).map(|(_, neighbour)| (neighbour.node.0, neighbour)));
            let mut expected = last.clone();
            expected.remove(&(listener as u32));
            assert_eq!(known, expected);
        }
    }
}
