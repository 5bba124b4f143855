//! RFC 6675: loss recovery with SACK; RFC 3708 and RFC 4015: undoing it; RFC 2883: DSACK.

use crate::script::{Script, config};
use weft_sim::tcp::{Recovery, SenderConfig};

fn sack_config() -> SenderConfig {
    SenderConfig { recovery: Recovery::Sack, ..config() }
}

/// Twenty segments out.
fn twenty(config: SenderConfig) -> Script {
    let mut s = Script::new(SenderConfig { initial_window_segments: 20, ..config });
    assert_eq!(s.out().len(), 20);
    s.pass(100);
    s
}

/// §5 steps 1 and 3: DupThresh acknowledgments with new SACKs; before, limited transmit as the pipe empties.
#[test]
fn the_third_duplicate_enters_recovery() {
    let mut s = twenty(sack_config());
    assert_eq!(s.sack(0, &[(1, 2)]), [20]);
    assert_eq!(s.sack(0, &[(1, 3)]), [21]);
    assert_eq!(s.sack(0, &[(1, 4)]), [0]);
    // Step 4.2: half of FlightSize without what limited transmit added.
    assert_eq!((s.cwnd(), s.ssthresh()), (10.0, 10.0));
    // The pipe is 22 - 3 - 1 + 1 = 19: nine more have to leave it before anything follows.
    for n in 5..14 {
        assert_eq!(s.sack(0, &[(1, n)]), [0; 0], "{n}");
    }
    assert_eq!(s.sack(0, &[(1, 14)]), [22]);
}

/// §5 step 2: IsLost alone is enough: three SACKed segments in one acknowledgment.
#[test]
fn one_acknowledgment_may_show_the_loss() {
    let mut s = twenty(sack_config());
    assert_eq!(s.sack(0, &[(1, 3)]), [20, 21]);
    assert_eq!(s.sender.counters().fast_retransmits, 0);
    assert_eq!(s.sack(0, &[(1, 4)])[0], 0);
    assert_eq!(s.sender.counters().fast_retransmits, 1);
}

/// §4, IsLost: three separate runs above, or more than two segments' bytes.
#[test]
fn discontiguous_runs_count() {
    let mut s = twenty(sack_config());
    s.sack(0, &[(5, 6)]);
    s.sack(0, &[(7, 8), (5, 6)]);
    let retransmitted = s.sack(0, &[(9, 10), (7, 8), (5, 6)]);
    // Everything below the third run from the top is lost: 0 to 4; not 6 and 8. Pipe 22 - 3 - 5 + 1 = 15 > 10.
    assert_eq!(retransmitted, [0]);
    // 6 and 8 too are lost now. Pipe 22 - 9 - 7 + 1 = 7: three more holes.
    assert_eq!(s.sack(0, &[(9, 16), (7, 8), (5, 6)]), [1, 2, 3]);
}

/// §4, NextSeg rules 1 and 2: holes in order, then new data.
#[test]
fn holes_leave_before_new_data() {
    let mut s = twenty(sack_config());
    // Nothing is left in the pipe, and the window is 10.
    assert_eq!(s.sack(0, &[(12, 20), (4, 8), (1, 2)]), [0, 2, 3, 8, 9, 10, 11, 20, 21, 22]);
}

/// §4, NextSeg rule 3: with nothing new to send, a hole that is not lost by IsLost.
#[test]
fn without_new_data_an_uncertain_hole_leaves() {
    let mut s = Script::finite(SenderConfig { initial_window_segments: 20, ..sack_config() }, 20);
    s.out();
    s.pass(100);
    // 18 has one segment above it: not lost. 0 is.
    assert_eq!(s.sack(0, &[(19, 20), (1, 18)]), [0, 18]);
}

/// §4, NextSeg rule 4: once a recovery, the last segment, so that the acknowledgments do not stop.
#[test]
fn one_rescue_a_recovery() {
    let mut s = Script::finite(SenderConfig { initial_window_segments: 20, ..sack_config() }, 20);
    s.out();
    s.pass(100);
    // 0 and 18, 19 are lost; only 0 can be known to be.
    assert_eq!(s.sack(0, &[(1, 18)]), [0]);
    s.pass(100);
    assert_eq!(s.ack(18), [19]);
    assert_eq!(s.sack(18, &[(19, 20)]), [18]);
    s.pass(100);
    assert_eq!(s.ack(20), [0; 0]);
    assert_eq!((s.sender.counters().timeouts, s.timer_ms()), (0, None));
}

/// §5 step A: recovery ends when RecoveryPoint is acknowledged, and does not begin again before.
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

/// §5.1: after a timeout everything that is not SACKed leaves again, in slow start.
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

/// Paper 000: the threshold counts runs, bytes and duplicates.
#[test]
fn a_larger_threshold_needs_more_sacks() {
    let mut s = twenty(SenderConfig { dup_thresh: 9, ..sack_config() });
    for n in 2..10 {
        s.sack(0, &[(1, n)]);
        assert_eq!(s.sender.counters().fast_retransmits, 0, "{n}");
    }
    assert_eq!(s.sack(0, &[(1, 10)]), [0]);
}

/// RFC 3708, RFC 4015: every copy was a duplicate, so nothing was lost, and the window is as it was.
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

/// RFC 3708 §3: not if only some of the copies were.
#[test]
fn a_reduction_for_something_stays() {
    let mut s = twenty(SenderConfig { undo: true, ..sack_config() });
    s.sack(0, &[(2, 20)]);
    s.pass(100);
    s.dsack(20, &[(0, 1)]);
    assert_eq!((s.sender.counters().spurious, s.sender.counters().retransmits), (0, 2));
}

/// As Linux: a segment that comes late raises the threshold to how late it was.
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
