//! The nodes next to this one on the ring (Pastry's and Chimera's leaf set).
//!
//! For a key near this node, the node that is nearest to the key is one of these nodes, or this node.

use alloc::vec::Vec;
use weft_units::NodeId;

/// Maximum number of leaves on each side of a node. Leaves are the nodes next to it on the ring.
pub const LEAVES: usize = 4;

/// The leaves of a node: up to [`LEAVES`] nodes on each side of it on the ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafSet {
    own: NodeId,
    clockwise: Vec<NodeId>,
    counterclockwise: Vec<NodeId>,
}

impl LeafSet {
    /// Returns the leaves of `own`, given all usable nodes in clockwise and in counterclockwise order.
    pub fn new(
        own: NodeId,
        clockwise: impl Iterator<Item = NodeId>,
        counterclockwise: impl Iterator<Item = NodeId>,
    ) -> LeafSet {
        let (clockwise, counterclockwise) = (clockwise.take(LEAVES).collect(), counterclockwise.take(LEAVES).collect());
        LeafSet { own, clockwise, counterclockwise }
    }

    /// Iterates over all leaves. In a small network a node may be on both sides and appear twice.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.clockwise.iter().chain(&self.counterclockwise).copied()
    }

    /// True if the node `id` is a leaf: one of the next nodes to this one on the ring.
    pub fn contains(&self, id: NodeId) -> bool {
        self.iter().any(|leaf| leaf == id)
    }

    /// True if the node `id` is a leaf, or lies so near on the ring that it would be one if it were usable.
    pub fn is_place_for(&self, id: NodeId) -> bool {
        let own = self.own;
        self.clockwise.get(LEAVES - 1).is_none_or(|last| own.clockwise_to(&id) <= own.clockwise_to(last))
            || self.counterclockwise.get(LEAVES - 1).is_none_or(|last| id.clockwise_to(&own) <= last.clockwise_to(&own))
    }

    /// True if, as far as known, the node nearest to `key` is this node or a leaf.
    ///
    /// The key then lies between the outermost leaves.
    pub fn covers(&self, key: NodeId) -> bool {
        self.is_place_for(key) || self.closes_the_ring()
    }

    /// Returns the mean distance between neighbours on the ring, in units of 2^-64 of the ring.
    ///
    /// If no other node is known, it returns the whole ring.
    pub fn spacing(&self) -> u64 {
        let (Some(first), Some(last)) = (self.counterclockwise.last(), self.clockwise.last()) else { return u64::MAX };
        if self.closes_the_ring() {
            let others =
                self.clockwise.iter().chain(self.counterclockwise.iter().filter(|id| !self.clockwise.contains(id)));
            return u64::MAX / (others.count() as u64 + 1);
        }
        first.clockwise_to(last).share() / (2 * LEAVES as u64)
    }

    /// True if a leaf is on both sides of this node, so that there are no other nodes than the leaves.
    fn closes_the_ring(&self) -> bool {
        self.clockwise.iter().any(|leaf| self.counterclockwise.contains(leaf))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sides(own: NodeId, ids: &[NodeId]) -> LeafSet {
        let mut ring: Vec<NodeId> = ids.iter().copied().filter(|id| *id != own).collect();
        ring.sort_by_key(|id| own.clockwise_to(id));
        ring.dedup();
        LeafSet::new(own, ring.iter().copied(), ring.iter().rev().copied())
    }

    proptest! {
        #[test]
        fn whom_it_has_and_would_have(seed: u64, nodes in 0usize..14) {
            let mut rng = weft_units::Rng::new(seed);
            let ids: Vec<NodeId> = (0..nodes).map(|_| NodeId::random(&mut rng)).collect();
            let (own, other) = (NodeId::random(&mut rng), NodeId::random(&mut rng));
            let leaves = sides(own, &ids);
            prop_assert!(leaves.iter().all(|leaf| leaves.is_place_for(leaf)));
            let with_other: Vec<NodeId> = ids.iter().copied().chain([other]).collect();
            prop_assert_eq!(leaves.is_place_for(other), sides(own, &with_other).contains(other));
            let nearest = ids.iter().chain([&own]).min_by_key(|id| id.distance_to(&other)).unwrap();
            let knows_root = *nearest == own || leaves.contains(*nearest);
            prop_assert!(knows_root || !leaves.covers(other), "what it covers has its root here");
            let spans_all = nodes <= 2 * LEAVES;
            prop_assert!(!spans_all || leaves.iter().collect::<alloc::collections::BTreeSet<_>>().len() == nodes);
            prop_assert!(nodes >= 2 * LEAVES || leaves.covers(other));
            let even = u64::MAX / (nodes as u64 + 1);
            let spacing = leaves.spacing();
            let is_plausible =
                if nodes < 2 * LEAVES { spacing.abs_diff(even) <= even >> 20 } else { spacing <= u64::MAX / 8 };
            prop_assert!(is_plausible);
        }
    }
}
