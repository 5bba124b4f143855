//! Tests NewReno (RFC 6582).

use crate::script::{MSS, Script, config};
use weft_sim::tcp::SenderConfig;

/// Sends ten segments, of which the first is lost, and delivers `duplicates` duplicate acknowledgments.
fn lost_first(config: SenderConfig, duplicates: usize) -> (Script, Vec<Vec<u64>>) {
    let mut s = Script::new(config);
    assert_eq!(s.out(), (0..10).collect::<Vec<_>>());
    s.pass(100);
    let sent = (0..duplicates).map(|_| s.ack(0)).collect();
    (s, sent)
}

/// The third duplicate retransmits the first segment, and each further one inflates the window.
///
/// The rules are those of §3.2 step 2, RFC 5681 §3.2 steps 2 to 5 and RFC 3042 §2.
#[test]
fn three_duplicates_retransmit_the_first_and_each_further_one_inflates() {
    let (s, sent) = lost_first(config(), 9);
    assert_eq!(sent[..3], [vec![10], vec![11], vec![0]]);
    assert_eq!((s.cwnd(), s.ssthresh()), (5.0, 5.0));
    // Twelve segments are outstanding and the window is 5 + 3 segments, so the fifth further duplicate allows the next
    // segment.
    assert_eq!(sent[3..], [vec![], vec![], vec![], vec![], vec![12], vec![13]]);
}

/// The threshold ssthresh follows FlightSize without the segments of limited transmit (§3.2 step 2).
#[test]
fn without_limited_transmit_nothing_leaves_before_the_third_duplicate() {
    let (s, sent) = lost_first(SenderConfig { limited_transmit: false, ..config() }, 9);
    assert_eq!(sent[..3], [vec![], vec![], vec![0]]);
    assert_eq!(s.ssthresh(), 5.0);
    assert_eq!(sent[3..], [vec![], vec![], vec![10], vec![11], vec![12], vec![13]]);
}

/// A partial acknowledgment retransmits the next hole (§3.2 step 3).
///
/// It deflates the window by the acknowledged data and inflates it by one segment.
#[test]
fn a_partial_acknowledgment_retransmits_the_next_hole() {
    let (mut s, _) = lost_first(SenderConfig { limited_transmit: false, ..config() }, 8);
    // Segments 0 and 4 were lost. Thirteen segments are outstanding, and the window is 5 + 8 = 13.
    s.pass(100);
    // The window is 13 - 4 + 1 = 10. With the copy of 4, 13 - 4 = 9 segments are outstanding, so one new segment is
    // sent.
    assert_eq!(s.ack(4), [4, 13]);
    assert_eq!(s.sender.counters().fast_retransmits, 1);
}

/// A full acknowledgment sets cwnd = min(ssthresh, max(FlightSize, SMSS) + SMSS).
///
/// This is the first choice of §3.2 step 3.
#[test]
fn a_full_acknowledgment_leaves_recovery_without_a_burst() {
    let (mut s, _) = lost_first(SenderConfig { limited_transmit: false, ..config() }, 9);
    s.pass(100);
    // Segments 0..14 were sent, and 10..14 are in flight after the acknowledgment of 0..10: min(5, 4 + 1).
    assert_eq!(s.ack(10), [14]);
    assert_eq!(s.cwnd(), 5.0);
    // With nothing in flight the window is min(5, 1 + 1), and slow start follows.
    let (mut s, _) = lost_first(SenderConfig { limited_transmit: false, ..config() }, 3);
    s.pass(100);
    assert_eq!(s.ack(10), [10, 11]);
    s.pass(100);
    assert_eq!(s.ack(11), [12, 13]);
    assert_eq!(s.ack(12), [14, 15]);
}

/// The timer restarts only at the first partial acknowledgment (§3.2 step 3, the "impatient" variant).
#[test]
fn the_timer_restarts_at_the_first_partial_acknowledgment_only() {
    let (mut s, _) = lost_first(SenderConfig { limited_transmit: false, ..config() }, 3);
    assert_eq!(s.timer_ms(), Some(1000));
    s.pass(400).ack(2);
    assert_eq!(s.timer_ms(), Some(1000));
    s.pass(400).ack(4);
    assert_eq!(s.timer_ms(), Some(600));
}

/// After a timeout, duplicates for earlier segments start no fast retransmit (§3.2 steps 2 and 4).
#[test]
fn after_a_timeout_old_duplicates_mean_nothing() {
    let mut s = Script::new(SenderConfig { limited_transmit: false, ..config() });
    s.out();
    assert_eq!(s.expire(), [0]);
    assert_eq!((s.cwnd(), s.ssthresh()), (1.0, 5.0));
    for _ in 0..6 {
        assert_eq!(s.ack(0), [0; 0]);
    }
    assert_eq!(s.ack(1), [1, 2]);
    assert_eq!(s.sender.counters().fast_retransmits, 0);
    s.ack(10);
    for _ in 0..6 {
        s.ack(10);
    }
    assert_eq!(s.sender.counters().fast_retransmits, 0, "the acknowledgment must cover more than recover");
    s.ack(11);
    for _ in 0..3 {
        s.ack(11);
    }
    assert_eq!(s.sender.counters().fast_retransmits, 1);
}

/// With the threshold T, recovery begins after T duplicates (paper 000, equation 1).
///
/// The window is inflated by T segments.
#[test]
fn a_larger_threshold_waits_for_as_many_duplicates() {
    for dup_thresh in [1, 3, 6, 9] {
        let config = SenderConfig { dup_thresh, limited_transmit: false, ..config() };
        let (s, sent) = lost_first(config, dup_thresh as usize);
        let (last, before) = sent.split_last().expect("at least one");
        assert!(before.iter().all(Vec::is_empty));
        // The window is 5 + T segments, and ten are outstanding.
        let new = (5 + u64::from(dup_thresh)).saturating_sub(10);
        assert_eq!(*last, std::iter::once(0).chain(10..10 + new).collect::<Vec<_>>());
        assert_eq!(s.sender.cwnd_bytes(), 5 * MSS);
    }
}
