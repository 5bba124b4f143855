//! Tests explicit congestion notification (RFC 3168), opening and closing.
//!
//! It also tests the receiver's reports (RFC 2018, RFC 2883).

use crate::script::{MSS, Script, acknowledgment, config};
use weft_sim::tcp::{AckRule, Flags, ReceiverConfig, SenderConfig, TcpReceiver, TcpSegment};
use weft_units::Instant;

const NOW: Instant = Instant::ZERO;

fn receiver(ecn: bool) -> TcpReceiver {
    let delayed_ack = AckRule::None;
    TcpReceiver::new(ReceiverConfig { mss: MSS as u32, delayed_ack, ecn, ..ReceiverConfig::default() })
}

fn data(n: u64) -> TcpSegment {
    TcpSegment { seq: n * MSS, len: MSS as u32, flags: Flags::ACK, ..TcpSegment::default() }
}

fn answer(receiver: &mut TcpReceiver, segment: TcpSegment, ce: bool) -> TcpSegment {
    receiver.receive(NOW, &segment, ce);
    receiver.transmit(NOW).expect("an acknowledgment")
}

/// The receiver echoes a mark until the sender reports a window reduction (§6.1.3).
#[test]
fn a_mark_is_echoed_until_cwr() {
    let mut r = receiver(true);
    assert!(!answer(&mut r, data(0), false).flags.has(Flags::ECE));
    assert!(answer(&mut r, data(1), true).flags.has(Flags::ECE));
    assert!(answer(&mut r, data(2), false).flags.has(Flags::ECE));
    let reduced = TcpSegment { flags: Flags::ACK.with(Flags::CWR), ..data(3) };
    assert!(!answer(&mut r, reduced, false).flags.has(Flags::ECE));
    assert!(!answer(&mut receiver(false), data(0), true).flags.has(Flags::ECE));
}

/// An echo reduces the window at most once in a window of data (§6.1.2).
///
/// Nothing is retransmitted, and the next new segment carries CWR.
#[test]
fn an_echo_halves_the_window_once() {
    let mut s = Script::new(SenderConfig { ecn: true, ..config() });
    assert!(s.sends().iter().all(|segment| !segment.flags.has(Flags::CWR)));
    s.pass(100);
    let echo = |n| TcpSegment { flags: Flags::ACK.with(Flags::ECE), ..acknowledgment(n, &[]) };
    (1..10).for_each(|n| s.sender.receive(s.now, &echo(n)));
    assert_eq!((s.sender.counters().ecn_reductions, s.ssthresh()), (1, 4.5));
    let sent = s.sends();
    assert!(sent[0].flags.has(Flags::CWR) && !sent[1].flags.has(Flags::CWR));
    assert!(sent.iter().all(|segment| s.sender.is_ecn_capable(segment)));
    s.sender.receive(s.now, &echo(10));
    assert_eq!(s.sender.counters().ecn_reductions, 2);
}

/// A retransmission is not ECN-capable (§6.1.5).
#[test]
fn retransmissions_are_not_ecn_capable() {
    let mut s = Script::new(SenderConfig { ecn: true, ..config() });
    s.out();
    s.now = s.sender.deadline().expect("a timer");
    s.sender.wake(s.now);
    let again = s.sends();
    assert!(again[0].flags.has(Flags::RETRANSMIT) && !s.sender.is_ecn_capable(&again[0]));
}

/// The handshake measures the RTT (RFC 9293 §3.5, RFC 6298 §2) and negotiates ECN (RFC 3168 §6.1.1).
#[test]
fn the_handshake_opens_and_measures() {
    let mut s = Script::new(SenderConfig { handshake: true, ecn: true, ..config() });
    let syn = s.sends();
    assert_eq!(syn.len(), 1);
    assert!(syn[0].flags.has(Flags::SYN.with(Flags::ECE).with(Flags::CWR)) && syn[0].len == 0);
    let syn_ack = answer(&mut receiver(true), syn[0], false);
    assert!(syn_ack.flags.has(Flags::SYN.with(Flags::ACK).with(Flags::ECE)));
    s.pass(80);
    s.sender.receive(s.now, &syn_ack);
    assert_eq!(s.sender.srtt().map(|srtt| srtt.as_millis()), Some(80));
    let sent = s.sends();
    assert_eq!(sent.len(), 10);
    assert!(s.sender.is_ecn_capable(&sent[0]));
}

/// A lost SYN is retransmitted after a second, and the sender then starts with caution.
///
/// The window is one segment (RFC 5681 §3.1) and the timeout three seconds (RFC 6298 §5.7).
#[test]
fn a_lost_syn_makes_cautious() {
    let mut s = Script::new(SenderConfig { handshake: true, ..config() });
    s.sends();
    assert_eq!(s.timer_ms(), Some(1000));
    assert_eq!(s.expire().len(), 1);
    assert_eq!(s.timer_ms(), Some(2000));
    s.pass(50);
    s.sender.receive(
        s.now,
        &answer(&mut receiver(false), TcpSegment { flags: Flags::SYN, ..TcpSegment::default() }, false),
    );
    assert_eq!((s.out().len(), s.timer_ms()), (1, Some(3000)));
}

/// A FIN follows the data, takes a sequence number, and is retransmitted when lost.
#[test]
fn closing_is_reliable() {
    let mut s = Script::finite(config(), 1);
    s.sender.close();
    let sent = s.sends();
    assert!(sent.len() == 1 && sent[0].flags.has(Flags::FIN));
    s.now = s.sender.deadline().expect("a timer");
    s.sender.wake(s.now);
    let again = s.sends();
    assert!(again.len() == 1 && again[0].flags.has(Flags::FIN) && u64::from(again[0].len) == MSS);
    let mut r = receiver(false);
    let ack = answer(&mut r, again[0], false);
    assert_eq!((ack.ack, r.delivered_bytes(), r.is_finished()), (MSS + 1, MSS, true));
    s.sender.receive(s.now, &ack);
    assert_eq!((s.sender.is_finished(), s.sender.acked_bytes(), s.timer_ms()), (true, MSS, None));
}

/// The most recently extended SACK block comes first (RFC 2018 §4).
///
/// A duplicate is reported once, before the other blocks (RFC 2883 §4).
#[test]
fn sack_and_dsack_blocks() {
    let mut r = receiver(false);
    let blocks = |ack: &TcpSegment| {
        let each = ack.sacks().iter().map(|block| (block.offset / MSS as i32, u64::from(block.len) / MSS));
        (ack.ack / MSS, ack.flags.has(Flags::DSACK), each.collect::<Vec<_>>())
    };
    assert_eq!(blocks(&answer(&mut r, data(0), false)), (1, false, vec![]));
    answer(&mut r, data(2), false);
    answer(&mut r, data(4), false);
    answer(&mut r, data(6), false);
    assert_eq!(blocks(&answer(&mut r, data(8), false)), (1, false, vec![(7, 1), (5, 1), (3, 1)]));
    // The first duplicate lies below the acknowledgment, and the second within a block beyond the gap.
    assert_eq!(blocks(&answer(&mut r, data(0), false)), (1, true, vec![(-1, 1), (7, 1), (5, 1)]));
    assert_eq!(blocks(&answer(&mut r, data(4), false)), (1, true, vec![(3, 1), (3, 1), (7, 1)]));
    assert_eq!(blocks(&answer(&mut r, data(3), false)), (1, false, vec![(1, 3), (7, 1), (5, 1)]));
    assert_eq!(blocks(&answer(&mut r, data(1), false)), (5, false, vec![(3, 1), (1, 1)]));
}
