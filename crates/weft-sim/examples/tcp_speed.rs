//! Measures the CPU time of one sender and one receiver without a network.
//!
//! It prints the CPU nanoseconds to send, receive and acknowledge a segment and to process the acknowledgment.
//!
//! `cargo run --release -p weft-sim --example tcp_speed [SEGMENTS]`

use std::collections::VecDeque;
use std::time::Duration;
use weft_sim::tcp::{AckRule, LossRecovery, ReceiverConfig, SenderConfig, TcpReceiver, TcpSegment, TcpSender};
use weft_units::Instant;

const ROUND_TRIP: Duration = Duration::from_millis(20);
const BETWEEN_SEGMENTS: Duration = Duration::from_micros(50);

fn main() {
    let segments = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5_000_000);
    for recovery in [LossRecovery::NewReno, LossRecovery::Sack, LossRecovery::RackTlp] {
        for drop_every in [0, 1000] {
            let nanos = nanos_per_segment(recovery, drop_every, segments);
            println!("{recovery:?}, one of {drop_every} lost: {nanos:.1} ns a segment");
        }
    }
}

/// Sends `segments` segments with a window of 100 segments and returns the CPU nanoseconds for each.
///
/// Every `drop_every`-th segment is lost. If `drop_every` is 0, no segment is lost.
fn nanos_per_segment(recovery: LossRecovery, drop_every: u64, segments: u64) -> f64 {
    let config = SenderConfig { mss: 512, recovery, max_window_segments: 100, ..SenderConfig::default() };
    let mut now = Instant::ZERO;
    let mut sender = TcpSender::new(config, now);
    sender.write(u64::MAX);
    let mut receiver = TcpReceiver::new(ReceiverConfig {
        mss: 512,
        delayed_ack: AckRule::None,
        sack: recovery != LossRecovery::NewReno,
        ..ReceiverConfig::default()
    });
    let mut acks: VecDeque<(Instant, TcpSegment)> = VecDeque::with_capacity(256);
    let started = cpu_nanos();
    while sender.counters().segments < segments {
        while let Some(segment) = sender.transmit(now) {
            if drop_every == 0 || !sender.counters().segments.is_multiple_of(drop_every) {
                receiver.receive(now, &segment, false);
                while let Some(ack) = receiver.transmit(now) {
                    acks.push_back((now + ROUND_TRIP, ack));
                }
            }
        }
        match acks.pop_front() {
            Some((at, ack)) => {
                now = at.max(now + BETWEEN_SEGMENTS);
                sender.receive(now, &ack);
            }
            None => {
                now = now.max(sender.deadline().unwrap_or(now));
                sender.wake(now);
            }
        }
    }
    (cpu_nanos() - started) as f64 / sender.counters().segments as f64
}

/// Returns the CPU time of this process in nanoseconds, from Linux's scheduler.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
}
