//! Packet-by-packet round robin (paper 000's packet-level forwarding).
//!
//! Like TEQL it skips a full path.

use super::{Eligible, PathChoice, PathView, UnitView};

/// Sends one unit on each path in turn.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

impl RoundRobin {
    /// Picks the next usable path in cyclic order. Bulk skips paths that are full, and is held if all are.
    pub fn pick(&mut self, paths: &[PathView], unit: UnitView) -> PathChoice {
        let eligible = Eligible::among(paths);
        let mut blocked = PathChoice::NoPath;
        let mut at = self.next;
        for _ in 0..paths.len() {
            at = if at < paths.len() { at } else { 0 };
            let path = &paths[at];
            if eligible.includes(path) {
                if path.room || unit.urgent {
                    self.next = at + 1;
                    return PathChoice::Path(at);
                }
                blocked = PathChoice::Hold;
            }
            at += 1;
        }
        blocked
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BULK, path};
    use super::*;

    #[test]
    fn takes_turns_and_passes_over_what_is_full_or_down() {
        let mut s = RoundRobin::default();
        let mut paths = [path(1, 0); 3];
        let turns = |s: &mut RoundRobin, paths: &[PathView]| [0; 4].map(|_| s.pick(paths, BULK));
        assert_eq!(turns(&mut s, &paths), [0, 1, 2, 0].map(PathChoice::Path));
        paths[1].usable = false;
        assert_eq!(turns(&mut s, &paths), [2, 0, 2, 0].map(PathChoice::Path));
        paths[2].room = false;
        assert_eq!(turns(&mut s, &paths), [0, 0, 0, 0].map(PathChoice::Path));
        assert_eq!(s.pick(&paths[..1], BULK), PathChoice::Path(0), "a path was removed");
    }
}
