//! Round robin, packet by packet (paper 000's packet-level forwarding). Like TEQL it passes over a path that is full.

use super::{Choice, Eligible, PathView, UnitView};

/// One unit to each path in turn.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

impl RoundRobin {
    /// The next path in the ring that is usable and, for bulk, has room.
    pub fn pick(&mut self, paths: &[PathView], unit: UnitView) -> Choice {
        let eligible = Eligible::among(paths);
        let mut blocked = Choice::NoPath;
        let mut at = self.next;
        for _ in 0..paths.len() {
            at = if at < paths.len() { at } else { 0 };
            let path = &paths[at];
            if eligible.includes(path) {
                if path.room || unit.urgent {
                    self.next = at + 1;
                    return Choice::Path(at);
                }
                blocked = Choice::Hold;
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
        assert_eq!(turns(&mut s, &paths), [0, 1, 2, 0].map(Choice::Path));
        paths[1].usable = false;
        assert_eq!(turns(&mut s, &paths), [2, 0, 2, 0].map(Choice::Path));
        paths[2].room = false;
        assert_eq!(turns(&mut s, &paths), [0, 0, 0, 0].map(Choice::Path));
        assert_eq!(s.pick(&paths[..1], BULK), Choice::Path(0), "a path was removed");
    }
}
