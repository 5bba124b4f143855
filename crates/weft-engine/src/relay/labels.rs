//! Maps relay labels to peers.
//!
//! A label is the first 32 bits of a node's id. Two peers may therefore have the same one, by chance or because an
//! attacker generated keys until their labels matched. One of the peers then keeps the label. Relays forward nothing
//! for the other one, which is reported.

use alloc::vec::Vec;
use weft_session::PublicKey;
use weft_units::{NodeId, PeerId};
use weft_wire::relay::Label;

/// Returns the label of a node in relay headers: the first 32 bits of its id.
pub fn label_of(id: &NodeId) -> Label {
    let [a, b, c, d, ..] = *id.as_bytes();
    Label(u32::from_be_bytes([a, b, c, d]))
}

pub fn label(key: &PublicKey) -> Label {
    label_of(&key.node_id())
}

/// The labels by which relay headers name the peers.
#[derive(Debug, Default)]
pub struct Labels {
    /// Relay labels. The index is the peer's number. `None` for a peer whose label another peer keeps.
    pub of: Vec<Option<Label>>,
    /// Relay labels and the peers that keep them, sorted by label.
    pub owners: Vec<(Label, PeerId)>,
    /// Peers without a relay label, each with the peer that keeps the label.
    pub clashes: Vec<(PeerId, PeerId)>,
}

impl Labels {
    /// Returns the label that names the peer with the number `index` in relay headers.
    ///
    /// Returns `None` if another peer has the same label and keeps it.
    pub fn of(&self, index: usize) -> Option<Label> {
        self.of.get(index).copied().flatten()
    }

    /// Returns the peer that keeps a relay label, or `None` if no peer has this label.
    pub fn peer(&self, label: Label) -> Option<PeerId> {
        let at = self.owners.binary_search_by_key(&label, |(label, _)| *label).ok()?;
        self.owners.get(at).map(|(_, peer)| *peer)
    }

    /// Returns all peers whose relay label is `label`, beginning with the peer that keeps it.
    pub fn all(&self, label: Label) -> impl Iterator<Item = PeerId> {
        let keeper = self.peer(label);
        let others = self.clashes.iter().filter(move |(_, owner)| Some(*owner) == keeper).map(|(peer, _)| *peer);
        keeper.into_iter().chain(others)
    }

    /// Replaces all labels. Returns the new clashes: each peer without a label, with the peer that keeps the label.
    ///
    /// Each entry of `peers` states the label, true if the peer joined by certificate, and the peer number. All peer
    /// numbers are below `places`.
    ///
    /// A configured peer gets a label before a certified one. Otherwise, the peer that already had the label keeps
    /// it.
    pub fn set(&mut self, places: usize, mut peers: Vec<(Label, bool, PeerId)>) -> Vec<(PeerId, PeerId)> {
        let had = |label: Label, peer: PeerId| self.peer(label) == Some(peer);
        peers.sort_by_key(|(label, is_certified, peer)| (*label, *is_certified, !had(*label, *peer), *peer));
        let before = core::mem::take(&mut self.clashes);
        (self.of, self.owners) = (alloc::vec![None; places], Vec::with_capacity(peers.len()));
        for (label, _, peer) in peers {
            match self.owners.last() {
                Some((last, owner)) if *last == label => self.clashes.push((peer, *owner)),
                _ => {
                    self.owners.push((label, peer));
                    if let Some(place) = self.of.get_mut(usize::from(peer.0)) {
                        *place = Some(label);
                    }
                }
            }
        }
        self.clashes.iter().filter(|clash| !before.contains(clash)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};
    use weft_units::Rng;

    #[test]
    fn each_label_has_one_owner_that_keeps_it() {
        let mut rng = Rng::new(4);
        let mut labels = Labels::default();
        let mut peers: BTreeMap<PeerId, (Label, bool)> = BTreeMap::new();
        for _ in 0..3_000 {
            let id = PeerId(rng.below(40) as u16);
            if peers.remove(&id).is_none() {
                peers.insert(id, (Label(rng.below(12) as u32), rng.chance(0.7)));
            }
            let before: BTreeMap<Label, PeerId> = labels.owners.iter().copied().collect();
            let had: BTreeSet<_> = labels.clashes.iter().copied().collect();
            let new = labels.set(40, peers.iter().map(|(id, (label, certified))| (*label, *certified, *id)).collect());
            for (label, owner) in labels.owners.clone() {
                assert_eq!((labels.peer(label), labels.of(owner.0.into())), (Some(owner), Some(label)));
                let (_, by_certificate) = peers[&owner];
                let all = || peers.iter().filter(move |(_, (other, _))| *other == label);
                assert!(!by_certificate || all().all(|(_, (_, certified))| *certified), "a configured one goes first");
                let kept = before.get(&label).filter(|kept| all().any(|(id, _)| id == *kept));
                if let Some(kept) = kept.filter(|kept| peers[kept].1 == by_certificate) {
                    assert_eq!(owner, *kept, "nobody takes a label away");
                }
            }
            let without: BTreeSet<PeerId> = labels.clashes.iter().map(|(peer, _)| *peer).collect();
            assert!(peers.keys().all(|id| labels.of(id.0.into()).is_none() == without.contains(id)));
            for (id, (label, _)) in &peers {
                assert!(labels.all(*label).any(|other| other == *id), "each is found by its label");
            }
            assert!(new.iter().all(|clash| !had.contains(clash)));
        }
    }
}
