//! Tests loss recovery with SACK (RFC 6675), its reversal (RFC 3708, RFC 4015) and DSACK (RFC 2883).

use crate::script::{Script, config};
use weft_sim::tcp::{LossRecovery, SenderConfig};

fn sack_config() -> SenderConfig {
    SenderConfig { recovery: LossRecovery::Sack, ..config() }
}

/// Returns a sender with twenty segments outstanding.
fn twenty(config: SenderConfig) -> Script {
    let mut s = Script::new(SenderConfig { initial_window_segments: 20, ..config });
    assert_eq!(s.out().len(), 20);
    s.pass(100);
    s
}

/// DupThresh acknowledgments with new SACKs begin recovery (§5 step 1).
///
/// Before that, limited transmit sends new segments as the pipe empties (§5 step 3).
#[test]
fn the_third_duplicate_enters_recovery() {
    let mut s = twenty(sack_config());
    assert_eq!(s.sack(0, &[(1, 2)]), [20]);
    assert_eq!(s.sack(0, &[(1, 3)]), [21]);
    assert_eq!(s.sack(0, &[(1, 4)]), [0]);
    // The window becomes half of FlightSize without the segments of limited transmit (step 4.2).
    assert_eq!((s.cwnd(), s.ssthresh()), (10.0, 10.0));
    // The pipe is 22 - 3 - 1 + 1 = 19 segments, so nine more must leave it before the next one is sent.
    for n in 5..14 {
        assert_eq!(s.sack(0, &[(1, n)]), [0; 0], "{n}");
    }
    assert_eq!(s.sack(0, &[(1, 14)]), [22]);
}

/// IsLost alone begins recovery: one acknowledgment can show three SACKed segments (§5 step 2).
#[test]
fn one_acknowledgment_may_show_the_loss() {
    let mut s = twenty(sack_config());
    assert_eq!(s.sack(0, &[(1, 3)]), [20, 21]);
    assert_eq!(s.sender.counters().fast_retransmits, 0);
    assert_eq!(s.sack(0, &[(1, 4)])[0], 0);
    assert_eq!(s.sender.counters().fast_retransmits, 1);
}

/// A segment is lost if three separate SACKed runs lie above it (§4, IsLost).
///
/// It is also lost if more SACKed bytes than those of two segments lie above it.
#[test]
fn discontiguous_runs_count() {
    let mut s = twenty(sack_config());
    s.sack(0, &[(5, 6)]);
    s.sack(0, &[(7, 8), (5, 6)]);
    let retransmitted = s.sack(0, &[(9, 10), (7, 8), (5, 6)]);
    // All segments below the third run from the top are lost: 0 to 4, but not 6 and 8. The pipe is 22 - 3 - 5 + 1 = 15
    // > 10.
    assert_eq!(retransmitted, [0]);
    // Segments 6 and 8 are now lost too. The pipe is 22 - 9 - 7 + 1 = 7, so three more holes are retransmitted.
    assert_eq!(s.sack(0, &[(9, 16), (7, 8), (5, 6)]), [1, 2, 3]);
}

/// Holes are retransmitted in order before new data is sent (§4, NextSeg rules 1 and 2).
#[test]
fn holes_leave_before_new_data() {
    let mut s = twenty(sack_config());
    // The pipe is empty, and the window is 10 segments.
    assert_eq!(s.sack(0, &[(12, 20), (4, 8), (1, 2)]), [0, 2, 3, 8, 9, 10, 11, 20, 21, 22]);
}

/// Without new data the sender retransmits a hole that is not lost by IsLost (§4, NextSeg rule 3).
#[test]
fn without_new_data_an_uncertain_hole_leaves() {
    let mut s = Script::finite(SenderConfig { initial_window_segments: 20, ..sack_config() }, 20);
    s.out();
    s.pass(100);
    // Segment 18 has one SACKed segment above it, so it is not lost, but segment 0 is.
    assert_eq!(s.sack(0, &[(19, 20), (1, 18)]), [0, 18]);
}

/// Once in a recovery the last segment is retransmitted (§4, NextSeg rule 4).
///
/// Acknowledgments therefore continue.
#[test]
fn one_rescue_a_recovery() {
    let mut s = Script::finite(SenderConfig { initial_window_segments: 20, ..sack_config() }, 20);
    s.out();
    s.pass(100);
    // Segments 0, 18 and 19 were dropped, but the sender can detect only the loss of 0.
    assert_eq!(s.sack(0, &[(1, 18)]), [0]);
    s.pass(100);
    assert_eq!(s.ack(18), [19]);
    assert_eq!(s.sack(18, &[(19, 20)]), [18]);
    s.pass(100);
    assert_eq!(s.ack(20), [0; 0]);
    assert_eq!((s.sender.counters().timeouts, s.timer_ms()), (0, None));
}

/// Recovery ends when RecoveryPoint is acknowledged, and does not begin again before that (§5 step A).
#[test]
fn one_reduction_for_one_window() {
    let mut s = twenty(sack_config());
    s.sack(0, &[(1, 10), (11, 20)]);
    assert_eq!(s.ssthresh(), 10.0);
    s.pass(100);
    s.sack(10, &[(11, 20)]);
    s.ack(20);
    assert_eq!((s.sender.counters().fast_retransmits, s.ssthresh()), (1, 10.0));
}

/// After a timeout all segments without a SACK are retransmitted in slow start (§5.1).
#[test]
fn a_timeout_keeps_what_was_sacked() {
    let mut s = twenty(SenderConfig { dup_thresh: 30, limited_transmit: false, ..sack_config() });
    s.sack(0, &[(2, 18)]);
    assert_eq!(s.expire(), [0]);
    assert_eq!((s.cwnd(), s.ssthresh()), (1.0, 10.0));
    s.pass(100);
    assert_eq!(s.sack(1, &[(2, 18)]), [1, 18]);
    assert_eq!(s.ack(18), [19, 20]);
}

/// A larger threshold applies to runs, bytes and duplicates (paper 000).
#[test]
fn a_larger_threshold_needs_more_sacks() {
    let mut s = twenty(SenderConfig { dup_thresh: 9, ..sack_config() });
    for n in 2..10 {
        s.sack(0, &[(1, n)]);
        assert_eq!(s.sender.counters().fast_retransmits, 0, "{n}");
    }
    assert_eq!(s.sack(0, &[(1, 10)]), [0]);
}

/// The old window is restored if every retransmission was a duplicate (RFC 3708, RFC 4015).
///
/// Nothing was lost in that case.
#[test]
fn a_reduction_for_nothing_is_undone() {
    for undo in [true, false] {
        let mut s = twenty(SenderConfig { undo, ..sack_config() });
        assert_eq!(s.sack(0, &[(1, 4)])[0], 0);
        assert_eq!(s.cwnd(), 10.0);
        s.pass(1);
        s.ack(4);
        s.pass(99);
        s.dsack(5, &[(0, 1)]);
        assert_eq!(s.sender.counters().spurious, u64::from(undo));
        assert_eq!(s.cwnd() >= 20.0, undo);
    }
}

/// The reduction stays if only some of the retransmissions were duplicates (RFC 3708 §3).
#[test]
fn a_reduction_for_something_stays() {
    let mut s = twenty(SenderConfig { undo: true, ..sack_config() });
    s.sack(0, &[(2, 20)]);
    s.pass(100);
    s.dsack(20, &[(0, 1)]);
    assert_eq!((s.sender.counters().spurious, s.sender.counters().retransmits), (0, 2));
}

/// A late segment raises the threshold to its lateness, as in Linux.
#[test]
fn the_threshold_learns_from_reordering() {
    let mut s = twenty(SenderConfig { adaptive_reordering: true, ..sack_config() });
    s.sack(0, &[(1, 3)]);
    s.ack(3);
    assert_eq!(s.sender.dup_thresh(), 3);
    s.sack(3, &[(10, 12)]);
    s.sack(3, &[(5, 6), (10, 12)]);
    assert_eq!(s.sender.dup_thresh(), 7);
}
