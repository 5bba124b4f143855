//! The nodes that a relay reaches, as it reports, and the intervals at which reports are repeated.
//!
//! A false report concerns only the sender's own links. The resulting route is measured from end to end before
//! anything depends on it.

use alloc::collections::BTreeMap;
use weft_units::{Duration, Instant};
use weft_wire::frame::Neighbour;
use weft_wire::relay::Label;

/// Shortest interval at which all reports are repeated, whether or not they changed.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Number of repetition intervals after which a report that was not repeated is forgotten.
const FORGET_INTERVALS: f64 = 3.2;
/// Time for which a relay sends no report after each report to a peer. It limits reports to 20,000 a second.
///
/// Tuned: these reports take 2 Mbit/s. With 4,095 peers and a pause of 5 µs, they took 30 Mbit/s, and the peers had to
/// acknowledge each datagram that carried them.
const WORD: Duration = Duration::from_micros(50);
/// Maximum number of nodes behind one relay that are remembered. Further nodes are ignored.
const MAX_REACHED: usize = 4_096;

/// Returns the repetition interval of a relay that reaches `nodes` nodes.
///
/// With many nodes, repeated reports take half of the time that all reports may take.
pub fn repeat_interval(nodes: usize) -> Duration {
    REPEAT_INTERVAL.max(words(2 * nodes, nodes))
}

pub fn words(count: usize, listeners: usize) -> Duration {
    WORD.saturating_mul(u32::try_from(count.saturating_mul(listeners)).unwrap_or(u32::MAX))
}

/// The nodes that a relay can reach according to its reports.
#[derive(Debug, Default)]
pub struct ReachableNodes {
    nodes: BTreeMap<Label, (Neighbour, Instant)>,
    has_changed: bool,
}

impl ReachableNodes {
    pub fn hear(&mut self, now: Instant, neighbour: &Neighbour) {
        let node = neighbour.node;
        let was_known = self.nodes.contains_key(&node);
        self.has_changed |= was_known != neighbour.is_reachable;
        if !neighbour.is_reachable {
            self.nodes.remove(&node);
        } else if was_known || self.nodes.len() < MAX_REACHED {
            self.nodes.insert(node, (*neighbour, now));
        }
    }

    /// True if the set of reached nodes has changed since the last call.
    pub fn take_change(&mut self) -> bool {
        core::mem::take(&mut self.has_changed)
    }

    /// Returns the time after which a report that is not repeated is forgotten.
    ///
    /// It follows from the number of nodes that the relay reaches.
    fn forget_after(&self) -> Duration {
        repeat_interval(self.nodes.len()).mul_f64(FORGET_INTERVALS)
    }

    /// Returns the latest report about a node, if it is recent.
    pub fn of(&self, now: Instant, node: Label) -> Option<Neighbour> {
        let (neighbour, at) = self.nodes.get(&node)?;
        (now - *at < self.forget_after()).then_some(*neighbour)
    }

    /// Returns all recent reports.
    pub fn iter(&self, now: Instant) -> impl Iterator<Item = Neighbour> {
        let forget_after = self.forget_after();
        self.nodes.values().filter(move |(_, at)| now - *at < forget_after).map(|(neighbour, _)| *neighbour)
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}
