//! Tests RACK and tail loss probes (RFC 8985).

use crate::script::{Script, config};
use std::time::Duration;
use weft_sim::tcp::{LossRecovery, SenderConfig};

fn rack_config() -> SenderConfig {
    SenderConfig {
        recovery: LossRecovery::RackTlp,
        initial_window_segments: 20,
        min_rto: Duration::from_millis(200),
        ..config()
    }
}

/// Returns a sender after a first round trip of 100 ms.
///
/// Segments 0 to 9 are acknowledged, and 10 to 29 are outstanding.
fn measured(config: SenderConfig, segments: u64) -> Script {
    let mut s = Script::finite(config, segments);
    assert_eq!(s.out().len() as u64, segments.min(20));
    s.pass(100);
    s.ack(10);
    s
}

/// An overtaken segment is lost a quarter of the shortest RTT later (§6.2 step 5).
///
/// No threshold of duplicates is needed.
#[test]
fn loss_is_detected_by_time() {
    let mut s = Script::finite(rack_config(), 4);
    s.out();
    s.pass(100);
    assert_eq!(s.sack(0, &[(1, 2)]), [0; 0]);
    assert_eq!(s.timer_ms(), Some(25));
    assert_eq!(s.expire(), [0]);
    assert_eq!((s.sender.counters().fast_retransmits, s.sender.counters().timeouts), (1, 0));
    assert_eq!(s.ssthresh(), 2.0);
}

/// Without observed reordering, DupThresh SACKed segments reveal a loss at once (§6.2 step 4).
#[test]
fn three_sacked_segments_need_no_window() {
    let mut s = Script::finite(rack_config(), 20);
    s.out();
    s.pass(100);
    assert_eq!(s.sack(0, &[(1, 4)]), [0]);
}

/// After observed reordering, the reordering window stays open whatever is SACKed (§6.2 steps 3 and 4).
#[test]
fn reordering_opens_the_window() {
    let mut s = Script::finite(rack_config(), 20);
    s.out();
    s.pass(100);
    s.sack(0, &[(1, 2)]);
    s.pass(10);
    s.ack(2);
    s.pass(1);
    assert_eq!(s.sack(2, &[(3, 10)]), [0; 0]);
    assert_eq!(s.sender.counters().fast_retransmits, 0);
    assert!(s.timer_ms().is_some_and(|ms| ms <= 25), "{:?}", s.timer_ms());
    assert_eq!(s.expire(), [2]);
}

/// Each round with a DSACK widens the reordering window by a quarter of the shortest RTT (§6.2 step 4).
#[test]
fn dsacks_widen_the_window() {
    let window_ms = |dsacks: u64| {
        let mut s = Script::finite(rack_config(), 40);
        s.out();
        for n in 0..=dsacks {
            s.pass(100);
            let ack = 20 + n;
            if n < dsacks {
                s.dsack(ack, &[(0, 1)])
            } else {
                s.ack(ack)
            };
        }
        s.pass(100);
        let una = 20 + dsacks;
        s.sack(una, &[(una + 1, una + 2)]);
        s.timer_ms()
    };
    assert_eq!(window_ms(0), Some(25));
    assert_eq!(window_ms(1), Some(50));
}

/// Segments sent after a retransmission reveal its loss (§6.2 steps 1, 2 and 5).
#[test]
fn a_lost_retransmission_is_found() {
    let mut s = Script::new(rack_config());
    s.out();
    s.pass(100);
    assert_eq!(s.sack(0, &[(1, 11)])[0], 0);
    // Segments sent after the copy of 0 arrive a round trip later.
    s.pass(1);
    let later = s.sack(0, &[(1, 14)]);
    assert!(later.iter().all(|&n| n >= 20), "{later:?}");
    s.pass(1);
    let later = s.sack(0, &[(1, 20)]);
    let new = *later.last().expect("new data");
    s.pass(110);
    let again = s.sack(0, &[(new, new + 1), (1, 20)]);
    assert_eq!(again.first(), Some(&0));
    assert_eq!((s.sender.counters().timeouts, s.sender.counters().fast_retransmits), (0, 1));
}

/// A timeout declares lost the first segment and otherwise only segments that are old enough (§6.3).
#[test]
fn a_timeout_spares_what_was_just_sent() {
    let mut s = Script::finite(SenderConfig { max_ack_delay: Duration::ZERO, ..rack_config() }, 4);
    s.out();
    s.pass(100);
    s.ack(3);
    assert_eq!(s.expire(), [3], "a probe");
    assert_eq!(s.expire(), [3], "a timeout");
    s.sender.write(2000);
    assert_eq!(s.out(), [0; 0]);
    assert_eq!((s.sender.counters().timeouts, s.cwnd()), (1, 1.0));
}

/// A probe follows two round trips after the last new data (§7.2).
///
/// With one segment in flight, the maximum acknowledgment delay is added.
#[test]
fn a_probe_leaves_after_two_round_trips() {
    let mut s = measured(rack_config(), 12);
    assert_eq!(s.timer_ms(), Some(200));
    s.pass(50);
    s.ack(11);
    let one_in_flight = s.timer_ms();
    let mut s = measured(SenderConfig { max_ack_delay: Duration::from_millis(25), ..rack_config() }, 11);
    assert_eq!(s.timer_ms(), Some(225));
    assert!(one_in_flight > Some(225), "bounded by the retransmission timer only");
    assert_eq!(s.expire(), [10]);
    assert_eq!((s.sender.counters().probes, s.sender.counters().timeouts), (1, 0));
}

/// A probe without an RTT measurement waits for a second (§7.2).
///
/// It never waits longer than the retransmission timer.
#[test]
fn a_probe_without_a_measurement_waits_a_second() {
    let mut s = Script::finite(SenderConfig { initial_rto: Duration::from_secs(3), ..rack_config() }, 2);
    s.out();
    assert_eq!(s.timer_ms(), Some(1000));
    let mut s = Script::finite(SenderConfig { initial_rto: Duration::from_millis(500), ..rack_config() }, 2);
    s.out();
    assert_eq!(s.timer_ms(), Some(500));
    assert_eq!(s.expire(), [1]);
    assert_eq!(s.timer_ms(), Some(500), "the retransmission timer, from the probe on");
}

/// A probe sends new data if there is any, even beyond the window (§7.3).
#[test]
fn a_probe_is_new_data_if_there_is_any() {
    let mut s = Script::new(rack_config());
    s.out();
    assert_eq!(s.expire(), [20]);
}

/// A probe that filled a hole is treated as a loss (§7.4.1).
#[test]
fn a_repaired_tail_halves_the_window() {
    let mut s = measured(rack_config(), 20);
    let before = s.cwnd();
    s.pass(10);
    s.ack(19);
    assert_eq!(s.expire(), [19]);
    s.sender.write(5000);
    s.out();
    s.pass(100);
    s.ack(25);
    assert!(s.cwnd() < before, "{} of {before}", s.cwnd());
    assert_eq!(s.sender.counters().fast_retransmits, 0);
}

/// A probe that the receiver reports as a duplicate is not a loss (§7.4.1).
#[test]
fn a_superfluous_probe_changes_nothing() {
    let mut s = measured(rack_config(), 20);
    s.pass(10);
    s.ack(19);
    let before = s.cwnd();
    assert_eq!(s.expire(), [19]);
    s.pass(100);
    s.ack(20);
    s.pass(1);
    s.dsack(20, &[(19, 20)]);
    s.sender.write(5000);
    assert_eq!(s.out().len(), 5);
    s.pass(100);
    s.ack(25);
    assert!(s.cwnd() >= before);
}
