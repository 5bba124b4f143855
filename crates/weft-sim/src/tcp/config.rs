//! What a sender is set to.

use super::congestion::CongestionKind;
use std::time::Duration;

/// How a sender finds out what was lost, and repairs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// Duplicate acknowledgments, without SACK (RFC 5681, RFC 6582).
    NewReno,
    /// The SACK scoreboard and the pipe (RFC 6675).
    Sack,
    /// Time, and probes of the tail (RFC 8985); needs SACK.
    RackTlp,
}

/// A sender's settings. The default is what RFCs ask for: Reno, NewReno recovery, an initial window of ten segments, a minimum
/// timeout of one second, no undo.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SenderConfig {
    /// Payload bytes of a full segment (RFC 5681's SMSS); at least 1.
    pub mss: u32,
    /// The congestion control.
    pub congestion: CongestionKind,
    /// The loss recovery.
    pub recovery: Recovery,
    /// DupThresh: duplicate acknowledgments that mean a loss. Fixed, unless `adaptive_reordering`; at least 1.
    pub dup_thresh: u32,
    /// Raise DupThresh to the reordering seen, as Linux does; with SACK only.
    pub adaptive_reordering: bool,
    /// Undo a window reduction when DSACKs show that nothing had been lost (RFC 3708, RFC 4015); with SACK only.
    pub undo: bool,
    /// Send new data on the first duplicate acknowledgments (RFC 3042; with SACK, RFC 6675 §5 step 3).
    pub limited_transmit: bool,
    /// The initial window in segments (RFC 6928: 10); at least 1.
    pub initial_window_segments: u32,
    /// The most to be outstanding, in segments: the window that the receiver announces before it has said so itself; at least 1.
    pub max_window_segments: u32,
    /// Ask for ECN (RFC 3168).
    pub ecn: bool,
    /// Begin with SYN and wait for SYN-ACK, instead of with data.
    pub handshake: bool,
    /// The retransmission timeout before anything was measured (RFC 6298 §2.1).
    pub initial_rto: Duration,
    /// The least retransmission timeout (RFC 6298 §2.4: 1 s; Linux: 200 ms).
    pub min_rto: Duration,
    /// The greatest retransmission timeout (RFC 6298 §2.5: at least 60 s).
    pub max_rto: Duration,
    /// The longest that the receiver may delay an acknowledgment (RFC 8985 §7.2's TLP.max_ack_delay).
    pub max_ack_delay: Duration,
}

impl Default for SenderConfig {
    fn default() -> SenderConfig {
        SenderConfig {
            mss: 1448,
            congestion: CongestionKind::Reno { abc_limit_segments: 1 },
            recovery: Recovery::NewReno,
            dup_thresh: dup_thresh(1),
            adaptive_reordering: false,
            undo: false,
            limited_transmit: true,
            initial_window_segments: 10,
            max_window_segments: 100,
            ecn: false,
            handshake: false,
            initial_rto: Duration::from_secs(1),
            min_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(60),
            max_ack_delay: Duration::from_millis(200),
        }
    }
}

/// The threshold T(N) = 3(1 + ⌊log₂ N⌋) for a flow that is spread over `paths` paths (paper 000, equation 1).
pub fn dup_thresh(paths: u32) -> u32 {
    3 * (1 + paths.max(1).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_rises_with_the_logarithm_of_the_paths() {
        assert_eq!([1, 2, 3, 4, 5].map(dup_thresh), [3, 6, 6, 9, 9]);
        assert_eq!([7, 8, 15, 16].map(dup_thresh), [9, 12, 12, 15]);
    }
}
