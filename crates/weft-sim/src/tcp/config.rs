//! Defines the settings of a TCP sender.

use super::congestion::CongestionKind;
use std::time::Duration;

/// The method by which a TCP sender detects and repairs losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossRecovery {
    /// NewReno: detects losses by duplicate acknowledgments, without SACK (RFC 5681, RFC 6582).
    NewReno,
    /// Detects losses by SACK blocks, and estimates the data in flight from them (RFC 6675).
    Sack,
    /// RACK-TLP: detects losses by time, and probes for losses at the end of data (RFC 8985).
    ///
    /// It requires SACK.
    RackTlp,
}

/// The settings of a TCP sender.
///
/// The default follows the RFCs: Reno, NewReno recovery, an initial window of ten segments, a minimum retransmission
/// timeout of one second, and no undo.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SenderConfig {
    /// Payload of a full segment in bytes (SMSS of RFC 5681), at least 1.
    pub mss: u32,
    /// Congestion control of the sender.
    pub congestion: CongestionKind,
    /// Loss recovery of the sender.
    pub recovery: LossRecovery,
    /// Number of duplicate acknowledgments at which a segment is regarded as lost (DupThresh), at least 1.
    ///
    /// It is fixed unless `adaptive_reordering` is set.
    pub dup_thresh: u32,
    /// True if DupThresh rises to the extent of reordering that the sender observes, as in Linux.
    ///
    /// It requires SACK.
    pub adaptive_reordering: bool,
    /// True if the sender takes back a reduction of its window when DSACKs show that nothing was lost.
    ///
    /// The rules are those of RFC 3708 and RFC 4015. It requires SACK.
    pub undo: bool,
    /// True if the sender sends new data on the first duplicate acknowledgments.
    ///
    /// Without SACK it follows RFC 3042, with SACK RFC 6675 §5 step 3.
    pub limited_transmit: bool,
    /// Initial congestion window in segments, at least 1.
    ///
    /// RFC 6928 recommends 10.
    pub initial_window_segments: u32,
    /// Receive window in segments that the sender assumes before the receiver has announced one, at least 1.
    pub max_window_segments: u32,
    /// True if the sender requests ECN (RFC 3168).
    pub ecn: bool,
    /// True if the connection begins with SYN and SYN-ACK.
    ///
    /// Otherwise it begins with data.
    pub handshake: bool,
    /// Retransmission timeout before the first RTT measurement (RFC 6298 §2.1).
    pub initial_rto: Duration,
    /// Minimum retransmission timeout.
    ///
    /// RFC 6298 §2.4 sets 1 s, and Linux uses 200 ms.
    pub min_rto: Duration,
    /// Maximum retransmission timeout.
    ///
    /// RFC 6298 §2.5 requires at least 60 s.
    pub max_rto: Duration,
    /// Maximum time by which the receiver may delay an acknowledgment (TLP.max_ack_delay of RFC 8985 §7.2).
    pub max_ack_delay: Duration,
}

impl Default for SenderConfig {
    fn default() -> SenderConfig {
        SenderConfig {
            mss: 1448,
            congestion: CongestionKind::Reno { abc_limit_segments: 1 },
            recovery: LossRecovery::NewReno,
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

/// Returns the threshold T(N) = 3(1 + ⌊log₂ N⌋) for a flow over `paths` paths (paper 000, equation 1).
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
