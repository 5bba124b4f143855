//! A tournament tree: one value for each of many players, and the combination of all values.

use crate::Instant;
use alloc::vec;
use alloc::vec::Vec;

/// Values that combine associatively, such as the earliest of two times, a sum, or the larger of two backlogs.
pub trait Join: Copy + PartialEq {
    /// Neutral value, which is the combination of no values.
    const NOTHING: Self;

    /// Returns the combination of two values.
    #[must_use]
    fn join(self, other: Self) -> Self;
}

/// Combines two times to the earlier one. [`Instant::FAR_FUTURE`] stands for never.
impl Join for Instant {
    const NOTHING: Instant = Instant::FAR_FUTURE;

    fn join(self, other: Instant) -> Instant {
        self.min(other)
    }
}

/// A complete binary tree over the players' values.
///
/// The combination of all values is available at once. A change costs the logarithm of the number of players.
#[derive(Clone, Debug)]
pub struct Tournament<T> {
    /// The values of the tree's nodes. Node `n` has the children `2n` and `2n + 1`.
    ///
    /// The root is node 1. The second half of the nodes holds the players.
    nodes: Vec<T>,
}

impl<T: Join> Default for Tournament<T> {
    fn default() -> Tournament<T> {
        Tournament { nodes: vec![T::NOTHING; 2] }
    }
}

impl<T: Join> Tournament<T> {
    fn players(&self) -> usize {
        self.nodes.len() / 2
    }

    /// Returns the combination of all players' values.
    pub fn total(&self) -> T {
        self.nodes.get(1).copied().unwrap_or(T::NOTHING)
    }

    /// Returns the value of a player, which is [`Join::NOTHING`] until it is set.
    pub fn get(&self, player: usize) -> T {
        self.nodes.get(self.players() + player).copied().unwrap_or(T::NOTHING)
    }

    /// Sets the value of a player. The tree grows to hold it.
    pub fn set(&mut self, player: usize, value: T) {
        while player >= self.players() {
            self.grow();
        }
        let mut node = self.players() + player;
        let mut value = value;
        while let Some(place) = self.nodes.get_mut(node).filter(|place| **place != value) {
            *place = value;
            if node == 1 {
                return;
            }
            value = self.child(node & !1).join(self.child(node | 1));
            node /= 2;
        }
    }

    fn child(&self, node: usize) -> T {
        self.nodes.get(node).copied().unwrap_or(T::NOTHING)
    }

    /// Doubles the number of players. The old tree becomes the left half of the new one.
    fn grow(&mut self) {
        let old = core::mem::take(&mut self.nodes);
        let mut nodes = vec![T::NOTHING; old.len() * 2];
        let mut first = 1;
        while first < old.len() {
            if let (Some(to), Some(from)) = (nodes.get_mut(first * 2..first * 3), old.get(first..first * 2)) {
                to.copy_from_slice(from);
            }
            first *= 2;
        }
        if let (Some(root), Some(total)) = (nodes.get_mut(1), old.get(1)) {
            *root = *total;
        }
        self.nodes = nodes;
    }

    /// Returns the first player from `start` on whose value meets the condition.
    ///
    /// If a value meets the condition, every combination that contains it must meet it too.
    pub fn next(&self, start: usize, meets: impl Fn(T) -> bool) -> Option<usize> {
        if start >= self.players() {
            return None;
        }
        let mut node = self.players() + start;
        // Climb to the first subtree that begins at or after `start` and contains a player whose value meets the
        // condition.
        while !meets(self.child(node)) {
            while node & 1 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < self.players() {
            node *= 2;
            if !meets(self.child(node)) {
                node += 1;
            }
        }
        meets(self.child(node)).then(|| node - self.players())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn it_agrees_with_a_list() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let most = 1 + rng.below(300);
            let (mut tournament, mut list) = (Tournament::default(), Vec::new());
            for _ in 0..600 {
                let player = rng.below(most) as usize;
                let at = if rng.chance(0.3) { Instant::FAR_FUTURE } else { Instant::from_nanos(rng.below(100)) };
                list.resize(list.len().max(player + 1), Instant::FAR_FUTURE);
                list[player] = at;
                tournament.set(player, at);
                assert_eq!(tournament.total(), list.iter().copied().min().unwrap());
                assert_eq!(tournament.get(player), at);
                let (start, due) = (rng.below(most + 2) as usize, Instant::from_nanos(rng.below(100)));
                let expected = (start..list.len()).find(|player| list[*player] <= due);
                assert_eq!(tournament.next(start, |at| at <= due), expected, "seed {seed}");
            }
        }
    }
}
