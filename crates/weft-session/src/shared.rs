//! Detects that two running nodes use the same static key.

use weft_units::{Duration, Instant};

/// Number of a peer's earlier associations that this node stores.
///
/// A second node with the same key is detected if it returns after at most this number of other associations.
const FORMER: usize = 4;
/// Time for which this node reports a second node with the same key after its detection.
const LATELY: Duration = Duration::from_secs(600);

/// Detects a second node with the same key by its association, a random number that each run of the program keeps.
///
/// If an earlier association returns after another one, two runs with the same key are active.
#[derive(Clone, Copy, Default)]
pub(crate) struct SharedKeys {
    /// Earlier associations of the peer, the latest first. The present one may be among them.
    former: [Option<u64>; FORMER],
    /// Time at which two nodes with the peer's key were last detected.
    peers: Option<Instant>,
    /// Time at which the peer last reported two nodes with this node's key.
    own: Option<Instant>,
}

impl SharedKeys {
    /// Records that the peer's association has changed from `before` to `now_met`, because a new run was met.
    pub(crate) fn on_change(&mut self, now: Instant, before: Option<u64>, now_met: u64) {
        if self.former.contains(&Some(now_met)) {
            self.peers = Some(now);
        }
        if let Some(before) = before.filter(|before| !self.former.contains(&Some(*before))) {
            self.former.rotate_right(1);
            self.former[0] = Some(before);
        }
    }

    /// True if the association `met_again` was in use earlier, and another one has been in use since.
    ///
    /// `present` is the association of the peer's run that made the latest session.
    pub(crate) fn returns(&self, present: Option<u64>, met_again: u64) -> bool {
        present != Some(met_again) && self.former.contains(&Some(met_again))
    }

    /// True if the run with this association has most likely ended.
    ///
    /// It has ended if another association followed it and no second node was detected.
    pub(crate) fn has_ended(&self, now: Instant, association: u64) -> bool {
        self.former.contains(&Some(association)) && !self.is_peers(now)
    }

    /// Stores the peer's report on whether two nodes use this node's key.
    pub(crate) fn on_shared_report(&mut self, now: Instant, is_shared: bool) {
        self.own = is_shared.then_some(now);
    }

    /// True if two nodes with the peer's key were detected recently.
    pub(crate) fn is_peers(&self, now: Instant) -> bool {
        self.peers.is_some_and(|at| now.since(at) < LATELY)
    }

    /// True if the peer recently reported that two nodes use this node's key.
    pub(crate) fn is_own(&self, now: Instant) -> bool {
        self.own.is_some_and(|at| now.since(at) < LATELY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_association_that_comes_back_is_a_second_node_and_a_new_one_a_restart() {
        let mut shared = SharedKeys::default();
        let at = Instant::from_millis;
        for (time, before, met) in [(1, None, 10), (2, Some(10), 11), (3, Some(11), 12)] {
            shared.on_change(at(time), before, met);
            assert!(!shared.is_peers(at(time)), "restarts");
        }
        shared.on_change(at(4), Some(12), 11);
        assert!(shared.is_peers(at(5)) && !shared.is_own(at(5)));
        assert!(!shared.is_peers(at(4) + LATELY), "it is over some day");
        shared.on_shared_report(at(6), true);
        assert!(shared.is_own(at(7)));
        shared.on_shared_report(at(8), false);
        assert!(!shared.is_own(at(9)));
    }
}
