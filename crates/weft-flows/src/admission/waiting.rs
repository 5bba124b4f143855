//! Grants that wait for capacity, ordered by age, with a fast search for the oldest that fits.
//!
//! A treap (Seidel and Aragon 1996) orders grants by age. Each node knows the least rate of its subtree, so the oldest
//! grant that needs at most a given rate is found in logarithmic time. Many treaps share one pool of nodes.

use alloc::vec::Vec;

/// Index that stands for no node. An empty treap has this root.
pub(super) const NO_NODE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct WaitingNode {
    age: u64,
    slot: u32,
    bps: u64,
    /// Least rate of the grants in the node's subtree, in bit/s.
    least_bps: u64,
    weight: u64,
    left: u32,
    right: u32,
}

/// A pool of nodes for treaps of waiting grants.
#[derive(Debug)]
pub(super) struct WaitingIndex {
    nodes: Vec<WaitingNode>,
    free: Vec<u32>,
    seed: u64,
}

impl WaitingIndex {
    /// Returns an empty pool. `seed` balances the treaps, so that an attacker cannot choose ages that unbalance them.
    pub(super) fn new(seed: u64) -> WaitingIndex {
        WaitingIndex { nodes: Vec::new(), free: Vec::new(), seed }
    }

    /// Adds a grant to the treap at `root`. `age` is the grant's number in order of age.
    pub(super) fn insert(&mut self, root: &mut u32, age: u64, slot: u32, bps: u64) {
        let weight = mixed(self.seed ^ age);
        let node = WaitingNode { age, slot, bps, least_bps: bps, weight, left: NO_NODE, right: NO_NODE };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        let (older, younger) = self.split(*root, age);
        let older = self.merge(older, at);
        *root = self.merge(older, younger);
    }

    /// Removes the grant of this age from the treap at `root`.
    pub(super) fn remove(&mut self, root: &mut u32, age: u64) {
        let (older, rest) = self.split(*root, age);
        let (own, younger) = self.split(rest, age + 1);
        if own != NO_NODE {
            self.free.push(own);
        }
        *root = self.merge(older, younger);
    }

    /// Returns age and slot of the oldest grant that needs at most `free_bps`, or `None` if all need more.
    pub(super) fn first_fitting(&self, root: u32, free_bps: u64) -> Option<(u64, u32)> {
        let mut at = if self.least(root) <= free_bps { root } else { NO_NODE };
        while let Some(node) = self.nodes.get(at as usize) {
            if self.least(node.left) <= free_bps {
                at = node.left;
            } else if node.bps <= free_bps {
                return Some((node.age, node.slot));
            } else {
                at = node.right;
            }
        }
        None
    }

    fn least(&self, at: u32) -> u64 {
        self.nodes.get(at as usize).map_or(u64::MAX, |node| node.least_bps)
    }

    /// Splits a treap, and returns the roots of the grants older than `age` and of the remaining ones.
    fn split(&mut self, at: u32, age: u64) -> (u32, u32) {
        let Some(node) = self.nodes.get(at as usize).copied() else { return (NO_NODE, NO_NODE) };
        if node.age < age {
            let (older, younger) = self.split(node.right, age);
            self.nodes[at as usize].right = older;
            self.renew(at);
            (at, younger)
        } else {
            let (older, younger) = self.split(node.left, age);
            self.nodes[at as usize].left = younger;
            self.renew(at);
            (older, at)
        }
    }

    fn merge(&mut self, older: u32, younger: u32) -> u32 {
        let (Some(a), Some(b)) = (self.nodes.get(older as usize).copied(), self.nodes.get(younger as usize).copied())
        else {
            return older.min(younger);
        };
        if a.weight > b.weight {
            let right = self.merge(a.right, younger);
            self.nodes[older as usize].right = right;
            self.renew(older);
            older
        } else {
            let left = self.merge(older, b.left);
            self.nodes[younger as usize].left = left;
            self.renew(younger);
            younger
        }
    }

    fn renew(&mut self, at: u32) {
        let WaitingNode { bps, left, right, .. } = self.nodes[at as usize];
        self.nodes[at as usize].least_bps = bps.min(self.least(left)).min(self.least(right));
    }
}

/// Returns a well mixed number (SplitMix64's finalizer).
fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use weft_units::Rng;

    #[test]
    fn agrees_with_a_search_through_a_sorted_map() {
        let (mut rng, mut index) = (Rng::new(4), WaitingIndex::new(9));
        let mut roots = [NO_NODE; 3];
        let mut models: [BTreeMap<u64, u64>; 3] = Default::default();
        for _ in 0..60_000 {
            let at = rng.below(3) as usize;
            let (age, bps) = (rng.below(300), 1 + rng.below(1_000));
            match models[at].remove(&age) {
                Some(_) => index.remove(&mut roots[at], age),
                None => {
                    index.insert(&mut roots[at], age, age as u32, bps);
                    models[at].insert(age, bps);
                }
            }
            let free = rng.below(1_000);
            let expected = models[at].iter().find(|(_, bps)| **bps <= free).map(|(age, _)| (*age, *age as u32));
            assert_eq!(index.first_fitting(roots[at], free), expected);
        }
    }
}
