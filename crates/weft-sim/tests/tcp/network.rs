//! Runs a sender and a receiver over a small network that drops, duplicates and reorders packets.

use std::collections::BTreeMap;
use std::time::Duration;
use weft_sim::tcp::{Flags, ReceiverConfig, SenderConfig, TcpReceiver, TcpSegment, TcpSender};
use weft_units::{Instant, Rng};

/// The faults of the network, as probabilities.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: f64,
    pub duplicate: f64,
    /// Probability that a packet is delayed further.
    pub late: f64,
    /// Maximum additional delay of a packet that is delayed further.
    pub late_by: Duration,
    pub mark: f64,
}

/// The result of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub finished: bool,
    pub delivered: u64,
    pub ended_at: Instant,
    pub segments: u64,
    pub retransmits: u64,
    /// Hash of every segment and its transmission time.
    pub trace: u64,
    pub most_outstanding: u64,
    /// True if new data was sent although the window was full.
    pub beyond_window: bool,
}

struct Network {
    faults: Faults,
    rng: Rng,
    order: u64,
    /// Packets in flight, by arrival time.
    ///
    /// Each entry has a flag for the direction to the receiver and a flag for a congestion mark.
    packets: BTreeMap<(Instant, u64), (bool, bool, TcpSegment)>,
}

impl Network {
    fn send(&mut self, now: Instant, forward: bool, segment: TcpSegment) {
        let copies = 1 + u32::from(self.rng.chance(self.faults.duplicate));
        for _ in 0..copies {
            if self.rng.chance(self.faults.loss) {
                continue;
            }
            let mut at = now + Duration::from_millis(20);
            if self.rng.chance(self.faults.late) {
                at += Duration::from_nanos(self.rng.below(self.faults.late_by.as_nanos() as u64 + 1));
            }
            let marked = self.rng.chance(self.faults.mark);
            self.packets.insert((at, self.order), (forward, marked, segment));
            self.order += 1;
        }
    }
}

/// Transfers `bytes` and closes the connection. It stops after an hour of virtual time.
pub fn transfer(sender: SenderConfig, receiver: ReceiverConfig, faults: Faults, bytes: u64, seed: u64) -> Outcome {
    let mut network = Network { faults, rng: Rng::new(seed), order: 0, packets: BTreeMap::new() };
    let mut now = Instant::ZERO;
    let mut sender = TcpSender::new(sender, now);
    let mut receiver = TcpReceiver::new(receiver);
    sender.write(bytes);
    sender.close();
    let (mut trace, mut high, mut most_outstanding, mut beyond_window) = (0u64, 0, 0, false);
    while now < Instant::from_millis(3_600_000) {
        let mut probes = sender.counters().probes;
        while let Some(segment) = sender.transmit(now) {
            let is_probe = sender.counters().probes > probes;
            probes = sender.counters().probes;
            beyond_window |= segment.len > 0
                && !is_probe
                && !segment.flags.has(Flags::RETRANSMIT)
                && sender.flight_bytes() > sender.window_bytes() + u64::from(segment.flags.has(Flags::FIN));
            high = high.max(segment.seq + u64::from(segment.len));
            most_outstanding = most_outstanding.max(high.saturating_sub(sender.acked_bytes()));
            trace = hash(trace, now.as_nanos() ^ segment.seq.rotate_left(32) ^ u64::from(segment.len));
            network.send(now, true, segment);
        }
        while let Some(ack) = receiver.transmit(now) {
            assert!(ack.flags.has(Flags::ACK));
            network.send(now, false, ack);
        }
        let arrival = network.packets.keys().next().map(|key| key.0);
        let Some(next) = [sender.deadline(), receiver.deadline(), arrival].into_iter().flatten().min() else { break };
        assert!(next >= now, "a deadline in the past is not served");
        now = next;
        if arrival == Some(now)
            && let Some((_, (forward, marked, segment))) = network.packets.pop_first()
        {
            match forward {
                true => receiver.receive(now, &segment, marked && sender.is_ecn_capable(&segment)),
                false => sender.receive(now, &segment),
            }
        }
        for (at, wake) in [(sender.deadline(), true), (receiver.deadline(), false)] {
            if at.is_some_and(|at| at <= now) {
                if wake { sender.wake(now) } else { receiver.wake(now) }
            }
        }
    }
    Outcome {
        finished: sender.is_finished() && receiver.is_finished(),
        delivered: receiver.delivered_bytes(),
        ended_at: now,
        segments: sender.counters().segments,
        retransmits: sender.counters().retransmits,
        trace,
        most_outstanding,
        beyond_window,
    }
}

fn hash(state: u64, value: u64) -> u64 {
    (state ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}
