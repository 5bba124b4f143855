//! Which peer a label names. A label is 32 bits of a node's id, so two peers may have the same one: by chance, or because somebody drew keys until
//! they had it. Then one of them keeps it and the other is not relayed, which is said.

use super::{Label, label_of};
use crate::event::Event;
use crate::node::Engine;
use alloc::vec::Vec;
use weft_units::PeerId;

/// The labels of the peers.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    /// By the peer's number; none for a peer whose label another one keeps.
    of: Vec<Option<Label>>,
    /// In order.
    owners: Vec<(Label, PeerId)>,
    /// Peers without a label, and who keeps it.
    clashes: Vec<(PeerId, PeerId)>,
}

impl Labels {
    /// The label of a peer, by its number.
    pub(super) fn of(&self, index: usize) -> Option<Label> {
        self.of.get(index).copied().flatten()
    }

    /// The peer of that label.
    pub(super) fn peer(&self, label: Label) -> Option<PeerId> {
        let at = self.owners.binary_search_by_key(&label, |(label, _)| *label).ok()?;
        self.owners.get(at).map(|(_, peer)| *peer)
    }

    /// The peers that have a label, the one that keeps it first.
    pub(crate) fn all(&self, label: Label) -> impl Iterator<Item = PeerId> {
        let keeper = self.peer(label);
        let others = self.clashes.iter().filter(move |(_, owner)| Some(*owner) == keeper).map(|(peer, _)| *peer);
        keeper.into_iter().chain(others)
    }

    /// Takes the peers there are: label, whether it came by certificate, number. A configured peer keeps its label; among others the one that
    /// has had it. Gives the clashes that were not there before.
    fn set(&mut self, places: usize, mut peers: Vec<(Label, bool, PeerId)>) -> Vec<(PeerId, PeerId)> {
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

impl Engine {
    /// Takes the labels of the peers there are.
    pub(super) fn set_labels(&mut self) {
        let present = self.peers.iter().filter(|peer| self.is_present(peer));
        let peers = present.map(|peer| (label_of(&peer.node), self.trust.is_certified(peer.id), peer.id)).collect();
        let clashes = self.relaying.labels.set(self.peers.len(), peers);
        self.events.extend(clashes.into_iter().map(|(peer, owner)| Event::LabelClash { peer, owner }));
    }

    /// Peers that are not relayed, because their relay label is another's: each with the name of that one.
    pub fn label_clashes(&self) -> impl Iterator<Item = (&str, &str)> {
        let name = |id: PeerId| self.peers.get(usize::from(id.0)).map(|peer| peer.config.name.as_str());
        self.relaying.labels.clashes.iter().filter_map(move |(peer, owner)| Some((name(*peer)?, name(*owner)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};
    use weft_units::Rng;

    #[test]
    fn each_label_has_one_owner_who_keeps_it() {
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
