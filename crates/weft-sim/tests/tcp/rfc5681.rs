//! Tests slow start, congestion avoidance, acknowledgments and restart (RFC 5681).
//!
//! It also tests the timer of RFC 6298.

use crate::script::{MSS, Script, acknowledgment, config};
use std::time::Duration;
use weft_sim::tcp::{AckRule, Flags, ReceiverConfig, SenderConfig, TcpReceiver, TcpSegment};
use weft_units::Instant;

/// Each segment acknowledged in slow start opens the window by one segment, so two segments are sent (§3.1).
#[test]
fn slow_start_sends_two_for_one() {
    let mut s = Script::new(SenderConfig { initial_window_segments: 2, ..config() });
    assert_eq!(s.out(), [0, 1]);
    s.pass(100);
    assert_eq!(s.ack(1), [2, 3]);
    assert_eq!(s.ack(2), [4, 5]);
    assert_eq!(s.cwnd(), 4.0);
}

/// The sender never sends beyond the receive window (§2).
#[test]
fn the_receive_window_holds() {
    let mut s = Script::new(SenderConfig { max_window_segments: 4, ..config() });
    assert_eq!(s.out(), [0, 1, 2, 3]);
    s.sender.receive(s.now, &TcpSegment { window: 2 * MSS as u32, ..acknowledgment(3, &[]) });
    assert_eq!(s.out(), [4]);
}

/// An acknowledgment that changes the window is not a duplicate (§2).
#[test]
fn window_updates_are_no_duplicates() {
    let mut s = Script::new(config());
    s.out();
    for window in 0..5 {
        s.sender.receive(s.now, &TcpSegment { window: 500_000 + window, ..acknowledgment(0, &[]) });
    }
    assert_eq!(s.out(), [0; 0]);
    assert_eq!(s.sender.counters().fast_retransmits, 0);
}

/// After an idle time above the timeout the window is at most the initial window (§4.1).
#[test]
fn a_long_idle_time_closes_the_window() {
    let mut s = Script::finite(config(), 40);
    s.out();
    s.pass(100);
    (1..=40).for_each(|n| drop(s.ack(n)));
    assert!(s.cwnd() > 20.0);
    s.pass(100_000);
    s.sender.write(100 * MSS);
    assert_eq!(s.out().len(), 10);
}

/// The retransmission timer follows RFC 6298 §5.
///
/// It runs while data is outstanding, restarts when data is acknowledged, and doubles when it expires.
#[test]
fn the_timer_follows_rfc_6298() {
    let mut s = Script::finite(SenderConfig { min_rto: Duration::from_millis(200), ..config() }, 3);
    assert_eq!(s.timer_ms(), None);
    s.out();
    assert_eq!(s.timer_ms(), Some(1000));
    s.pass(100).ack(1);
    assert_eq!(s.timer_ms(), Some(300));
    assert_eq!(s.expire(), [1]);
    assert_eq!(s.timer_ms(), Some(600));
    assert_eq!(s.expire(), [1]);
    assert_eq!(s.timer_ms(), Some(1200));
    assert_eq!((s.sender.counters().timeouts, s.cwnd()), (2, 1.0));
    // A retransmitted segment gives no measurement (§3, Karn's algorithm), so the timeout stays backed off.
    s.pass(100).ack(2);
    assert_eq!(s.timer_ms(), Some(1200));
    s.pass(100).ack(3);
    assert_eq!(s.timer_ms(), None);
}

fn receiver(delayed_ack: AckRule) -> TcpReceiver {
    TcpReceiver::new(ReceiverConfig { mss: MSS as u32, delayed_ack, ..ReceiverConfig::default() })
}

fn data(n: u64) -> TcpSegment {
    TcpSegment { seq: n * MSS, len: MSS as u32, flags: Flags::ACK, ..TcpSegment::default() }
}

/// Returns the acknowledgments that the receiver sends as each of `segments` arrives.
///
/// The segments arrive at intervals of 1 ms.
fn acks(receiver: &mut TcpReceiver, segments: &[u64]) -> Vec<Option<u64>> {
    let at = |n: usize| Instant::from_millis(n as u64);
    let each = |(n, &segment): (usize, &u64)| {
        receiver.receive(at(n), &data(segment), false);
        let ack = receiver.transmit(at(n)).map(|ack| ack.ack / MSS);
        assert!(receiver.transmit(at(n)).is_none());
        ack
    };
    segments.iter().enumerate().map(each).collect()
}

const STANDARD: AckRule = AckRule::Standard { delay: Duration::from_millis(200) };

/// The receiver acknowledges every second full-sized segment (§4.2).
///
/// It acknowledges at once a segment that is out of order or fills a gap.
#[test]
fn standard_delayed_acknowledgments() {
    let got = acks(&mut receiver(STANDARD), &[0, 1, 2, 4, 5, 3, 6, 7]);
    assert_eq!(got, [None, Some(2), None, Some(3), Some(3), Some(6), None, Some(8)]);
}

/// The receiver acknowledges after the delay if no second segment arrives (§4.2).
#[test]
fn the_delay_is_bounded() {
    let mut r = receiver(STANDARD);
    assert_eq!(acks(&mut r, &[0]), [None]);
    assert_eq!(r.deadline(), Some(Instant::from_millis(200)));
    r.wake(Instant::from_millis(199));
    assert!(r.transmit(Instant::from_millis(199)).is_none());
    r.wake(Instant::from_millis(200));
    assert_eq!(r.transmit(Instant::from_millis(200)).map(|ack| ack.ack), Some(MSS));
    assert_eq!(r.deadline(), None);
}

/// Without delayed acknowledgments the receiver acknowledges every segment at once.
#[test]
fn every_segment_is_acknowledged_without_delay() {
    assert_eq!(acks(&mut receiver(AckRule::None), &[0, 2, 1, 3]), [Some(1), Some(1), Some(3), Some(4)]);
}

/// The modified rule acknowledges every second segment in any order (paper 000 §3.1.2).
///
/// It acknowledges at once a segment that fills the first gap.
#[test]
fn modified_delayed_acknowledgments() {
    let rule = AckRule::Modified { delay: Duration::from_millis(200), oracle: false };
    let got = acks(&mut receiver(rule), &[0, 2, 3, 4, 5, 1, 6, 7]);
    assert_eq!(got, [None, Some(1), None, Some(1), None, Some(6), None, Some(8)]);
}

/// With the oracle, a retransmission is acknowledged at once (paper 000 §3.1.2).
///
/// A segment that is only late is acknowledged after a delay.
#[test]
fn the_oracle_distinguishes_late_from_repeated() {
    let rule = AckRule::Modified { delay: Duration::from_millis(200), oracle: true };
    let mut r = receiver(rule);
    assert_eq!(acks(&mut r, &[1, 0, 3]), [None, Some(2), None]);
    let again = TcpSegment { flags: Flags::ACK.with(Flags::RETRANSMIT), ..data(2) };
    r.receive(Instant::from_millis(9), &again, false);
    assert_eq!(r.transmit(Instant::from_millis(9)).map(|ack| ack.ack / MSS), Some(4));
    let mut r = receiver(rule);
    assert_eq!(acks(&mut r, &[1, 2, 3, 0, 4]), [None, Some(0), None, Some(4), None]);
}

/// Linux's rule acknowledges the first segments of a connection at once.
#[test]
fn quick_acknowledgments_at_the_start() {
    let got = acks(&mut receiver(AckRule::Quick), &(0..20).collect::<Vec<_>>());
    assert!(got[..16].iter().all(Option::is_some));
    assert_eq!(got[16..], [None, Some(18), None, Some(20)]);
}
