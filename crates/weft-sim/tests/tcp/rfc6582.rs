//! RFC 6582: NewReno.

use crate::script::{MSS, Script, config};
use weft_sim::tcp::SenderConfig;

/// Ten segments out, the first lost, and as many duplicates as are asked for.
fn lost_first(config: SenderConfig, duplicates: usize) -> (Script, Vec<Vec<u64>>) {
    let mut s = Script::new(config);
    assert_eq!(s.out(), (0..10).collect::<Vec<_>>());
    s.pass(100);
    let sent = (0..duplicates).map(|_| s.ack(0)).collect();
    (s, sent)
}

/// §3.2 step 2, RFC 5681 §3.2 steps 2 to 5, RFC 3042 §2.
#[test]
fn three_duplicates_retransmit_the_first_and_each_further_one_inflates() {
    let (s, sent) = lost_first(config(), 9);
    assert_eq!(sent[..3], [vec![10], vec![11], vec![0]]);
    assert_eq!((s.cwnd(), s.ssthresh()), (5.0, 5.0));
    // Twelve are out and the window is 5 + 3: the fifth of the further duplicates opens it for the next.
    assert_eq!(sent[3..], [vec![], vec![], vec![], vec![], vec![12], vec![13]]);
}

/// §3.2 step 2: ssthresh follows FlightSize without what limited transmit added.
#[test]
fn without_limited_transmit_nothing_leaves_before_the_third_duplicate() {
    let (s, sent) = lost_first(SenderConfig { limited_transmit: false, ..config() }, 9);
    assert_eq!(sent[..3], [vec![], vec![], vec![0]]);
    assert_eq!(s.ssthresh(), 5.0);
    assert_eq!(sent[3..], [vec![], vec![], vec![10], vec![11], vec![12], vec![13]]);
}

/// §3.2 step 3, partial acknowledgment: the next hole, the window deflated by what was acknowledged and inflated by one segment.
#[test]
fn a_partial_acknowledgment_retransmits_the_next_hole() {
    let (mut s, _) = lost_first(SenderConfig { limited_transmit: false, ..config() }, 8);
    // 0 and 4 were lost: 13 out, window 5 + 8 = 13.
    s.pass(100);
    // window 13 - 4 + 1 = 10, out 13 - 4 = 9 with the copy of 4: one new segment.
    assert_eq!(s.ack(4), [4, 13]);
    assert_eq!(s.sender.counters().fast_retransmits, 1);
}

/// §3.2 step 3, full acknowledgment, first choice: cwnd = min(ssthresh, max(FlightSize, SMSS) + SMSS).
#[test]
fn a_full_acknowledgment_leaves_recovery_without_a_burst() {
    let (mut s, _) = lost_first(SenderConfig { limited_transmit: false, ..config() }, 9);
    s.pass(100);
    // 0..14 out, 10..14 in flight after the acknowledgment of 0..10: min(5, 4 + 1).
    assert_eq!(s.ack(10), [14]);
    assert_eq!(s.cwnd(), 5.0);
    // Nothing in flight: min(5, 1 + 1), and slow start from there.
    let (mut s, _) = lost_first(SenderConfig { limited_transmit: false, ..config() }, 3);
    s.pass(100);
    assert_eq!(s.ack(10), [10, 11]);
    s.pass(100);
    assert_eq!(s.ack(11), [12, 13]);
    assert_eq!(s.ack(12), [14, 15]);
}

/// §3.2 step 3: "impatient": the timer restarts at the first partial acknowledgment only.
#[test]
fn the_timer_restarts_at_the_first_partial_acknowledgment_only() {
    let (mut s, _) = lost_first(SenderConfig { limited_transmit: false, ..config() }, 3);
    assert_eq!(s.timer_ms(), Some(1000));
    s.pass(400).ack(2);
    assert_eq!(s.timer_ms(), Some(1000));
    s.pass(400).ack(4);
    assert_eq!(s.timer_ms(), Some(600));
}

/// §3.2 steps 2 and 4: after a timeout, duplicates for what was sent before it start no fast retransmit.
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

/// Paper 000, equation 1: T duplicates, and the window is inflated by T segments.
#[test]
fn a_larger_threshold_waits_for_as_many_duplicates() {
    for dup_thresh in [1, 3, 6, 9] {
        let config = SenderConfig { dup_thresh, limited_transmit: false, ..config() };
        let (s, sent) = lost_first(config, dup_thresh as usize);
        let (last, before) = sent.split_last().expect("at least one");
        assert!(before.iter().all(Vec::is_empty));
        // The window is 5 + T, and ten are out.
        let new = (5 + u64::from(dup_thresh)).saturating_sub(10);
        assert_eq!(*last, std::iter::once(0).chain(10..10 + new).collect::<Vec<_>>());
        assert_eq!(s.sender.cwnd_bytes(), 5 * MSS);
    }
}
