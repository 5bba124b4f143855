//! Rate limits per node by the generic cell rate algorithm (ITU-T I.371).
//!
//! It stores only one time per node.

use alloc::collections::BTreeMap;
use weft_units::{Duration, Instant, NodeId};

/// Maximum number of nodes that have an entry. A node that may send its full burst needs none.
///
/// Messages of further nodes are refused.
const MOST: usize = 1_024;

/// The same rate and burst limit for each of many nodes.
#[derive(Clone, Debug)]
pub struct PerNodeLimit {
    apart: Duration,
    ahead: Duration,
    /// Time at which each node's next message would arrive if the node sent at exactly the rate limit.
    next: BTreeMap<NodeId, Instant>,
}

impl PerNodeLimit {
    /// Returns a limit of `per_second` messages per second with bursts of `burst` messages.
    pub fn new((per_second, burst): (u32, u32)) -> PerNodeLimit {
        let apart = Duration::from_secs(1) / per_second;
        PerNodeLimit { apart, ahead: apart * burst.saturating_sub(1), next: BTreeMap::new() }
    }

    /// True if another message of `id` is within its limit. The message is then subtracted from the limit.
    pub fn allow(&mut self, now: Instant, id: NodeId) -> bool {
        if self.next.len() >= MOST {
            self.next.retain(|_, next| *next > now);
        }
        let next = self.next.get(&id).copied().unwrap_or(now).max(now);
        let is_allowed = next - now <= self.ahead && (self.next.len() < MOST || self.next.contains_key(&id));
        if is_allowed {
            self.next.insert(id, next + self.apart);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u16) -> NodeId {
        let mut bytes = [0; NodeId::LEN];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        NodeId::new(bytes)
    }

    #[test]
    fn a_burst_then_the_rate_each_for_itself() {
        let mut rates = PerNodeLimit::new((10, 5));
        let mut taken = |ms, who| (0..100).filter(|_| rates.allow(Instant::from_millis(ms), id(who))).count();
        assert_eq!((taken(0, 1), taken(0, 2)), (5, 5));
        assert_eq!((taken(99, 1), taken(100, 1), taken(350, 1)), (0, 1, 2));
        assert_eq!(taken(60_000, 1), 5, "no more than the burst, however long the rest");
    }

    #[test]
    fn memory_is_bounded_and_the_idle_make_room() {
        let mut rates = PerNodeLimit::new((10, 5));
        assert!((0..1_024).all(|n| rates.allow(Instant::ZERO, id(n))));
        assert!(!rates.allow(Instant::ZERO, id(2_000)));
        assert!(rates.allow(Instant::ZERO, id(3)), "who is known goes on");
        assert!(rates.allow(Instant::from_millis(100), id(2_000)));
        assert!(rates.next.len() <= MOST);
    }
}
