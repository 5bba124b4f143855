//! Lets a new connection follow an earlier one between the same two ends.

use super::{SenderCounters, TcpSender};
use crate::tcp::SenderConfig;
use weft_units::Instant;

impl TcpSender {
    /// Returns the settings of the sender.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }

    /// Returns the sender of a new connection to the same receiver.
    ///
    /// Its sequence numbers continue where those of this sender end. Segments that are still in flight are therefore
    /// old for the new connection.
    pub fn successor(&self, now: Instant) -> TcpSender {
        let mut next = TcpSender::new(self.config, now);
        let room = next.right_edge;
        (next.una, next.nxt, next.written, next.high_sacked) = (self.nxt, self.nxt, self.nxt, self.nxt);
        next.right_edge = self.nxt.saturating_add(room);
        next
    }
}

impl SenderCounters {
    /// Returns the sum of these counters and `other`.
    pub fn plus(&self, other: &SenderCounters) -> SenderCounters {
        SenderCounters {
            segments: self.segments + other.segments,
            retransmits: self.retransmits + other.retransmits,
            fast_retransmits: self.fast_retransmits + other.fast_retransmits,
            timeouts: self.timeouts + other.timeouts,
            spurious: self.spurious + other.spurious,
            ecn_reductions: self.ecn_reductions + other.ecn_reductions,
            probes: self.probes + other.probes,
        }
    }
}
