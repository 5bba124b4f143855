//! Runs one TCP flow over a path that only delays and loses packets.

use std::collections::VecDeque;
use std::time::Duration;
use weft_sim::tcp::congestion::CongestionKind;
use weft_sim::tcp::{AckRule, LossRecovery, ReceiverConfig, SenderConfig, TcpReceiver, TcpSegment, TcpSender};
use weft_units::{Instant, Rng};

/// Payload of a segment in bytes.
const MSS: u32 = 1000;
/// Receive window in segments.
///
/// It exceeds every window in these tests, so that only the congestion window limits the flow.
const WINDOW_SEGMENTS: u32 = 1_000_000;
/// Minimum retransmission timeout.
pub const MIN_RTO: Duration = Duration::from_millis(200);

/// The segments that the path loses.
///
/// All acknowledgments arrive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Loss {
    /// Each segment is lost with this probability.
    Bernoulli(f64),
    /// Every n-th segment is lost.
    Periodic(u64),
}

impl Loss {
    /// Returns the fraction of segments that are lost.
    pub fn probability(self) -> f64 {
        match self {
            Loss::Bernoulli(p) => p,
            Loss::Periodic(n) => 1.0 / n as f64,
        }
    }
}

/// A flow and its path.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Congestion control of the flow.
    pub congestion: CongestionKind,
    /// Loss recovery of the flow.
    pub recovery: LossRecovery,
    /// Rule for delaying acknowledgments.
    pub delayed_ack: AckRule,
    /// Round-trip time without queueing.
    pub rtt: Duration,
    /// Loss of the path.
    pub loss: Loss,
}

/// Measurements of a flow after its slow start.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Segments delivered in a round-trip time of the path without a queue.
    pub segments_per_rtt: f64,
    /// Window reductions for each segment sent: the p of the models when losses occur in bursts.
    pub loss_events: f64,
    /// Fraction of the reductions that were timeouts.
    pub timeouts: f64,
    /// Retransmission timeout, averaged over acknowledgments.
    pub rto: Duration,
}

struct Flow {
    sender: TcpSender,
    receiver: TcpReceiver,
    one_way: Duration,
    loss: Loss,
    rng: Rng,
    offered: u64,
    data: VecDeque<(Instant, TcpSegment)>,
    acks: VecDeque<(Instant, TcpSegment)>,
    rto_sum: Duration,
    ack_count: u32,
}

impl Case {
    /// Runs the flow for about `warm_up` losses and then for `losses` measured ones.
    ///
    /// Without a bottleneck, slow start ends at many times the window that the losses allow. About 25 losses reduce
    /// the window to that value.
    pub fn run(&self, seed: u64, warm_up: u64, losses: u64) -> Outcome {
        let segments = |losses: u64| (losses as f64 / self.loss.probability()) as u64;
        let mut flow = Flow::new(self, seed);
        let start = flow.run_until_offered(Instant::ZERO, segments(warm_up));
        let (before, delivered) = (*flow.sender.counters(), flow.sender.acked_bytes());
        (flow.rto_sum, flow.ack_count) = (Duration::ZERO, 0);
        let now = flow.run_until_offered(start, segments(warm_up + losses));
        let counters = flow.sender.counters();
        let timeouts = counters.timeouts - before.timeouts;
        let events = counters.fast_retransmits - before.fast_retransmits + timeouts;
        let rounds = (now - start).as_secs_f64() / self.rtt.as_secs_f64();
        Outcome {
            segments_per_rtt: (flow.sender.acked_bytes() - delivered) as f64 / f64::from(MSS) / rounds,
            loss_events: events as f64 / (counters.segments - before.segments) as f64,
            timeouts: timeouts as f64 / events.max(1) as f64,
            rto: flow.rto_sum / flow.ack_count.max(1),
        }
    }
}

impl Flow {
    fn new(case: &Case, seed: u64) -> Flow {
        let sender = SenderConfig {
            mss: MSS,
            congestion: case.congestion,
            recovery: case.recovery,
            max_window_segments: WINDOW_SEGMENTS,
            min_rto: MIN_RTO,
            ..SenderConfig::default()
        };
        let receiver = ReceiverConfig {
            mss: MSS,
            window_segments: WINDOW_SEGMENTS,
            delayed_ack: case.delayed_ack,
            sack: case.recovery != LossRecovery::NewReno,
            ..ReceiverConfig::default()
        };
        let mut sender = TcpSender::new(sender, Instant::ZERO);
        sender.write(u64::MAX);
        Flow {
            sender,
            receiver: TcpReceiver::new(receiver),
            one_way: case.rtt / 2,
            loss: case.loss,
            rng: Rng::new(seed),
            offered: 0,
            data: VecDeque::new(),
            acks: VecDeque::new(),
            rto_sum: Duration::ZERO,
            ack_count: 0,
        }
    }

    /// Runs until `segments` segments have been sent on the path, and returns the time.
    fn run_until_offered(&mut self, mut now: Instant, segments: u64) -> Instant {
        self.send(now);
        while self.offered < segments {
            let next = |line: &VecDeque<(Instant, TcpSegment)>| line.front().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
            let (data, ack) = (next(&self.data), next(&self.acks));
            let sender = self.sender.deadline().unwrap_or(Instant::FAR_FUTURE);
            let receiver = self.receiver.deadline().unwrap_or(Instant::FAR_FUTURE);
            now = data.min(ack).min(sender).min(receiver);
            if data == now {
                self.arrive(now);
            } else if ack == now {
                self.acknowledge(now);
            } else if receiver == now {
                self.receiver.wake(now);
                self.reply(now);
            } else {
                self.sender.wake(now);
                self.send(now);
            }
        }
        now
    }

    fn arrive(&mut self, now: Instant) {
        if let Some((_, segment)) = self.data.pop_front() {
            self.receiver.receive(now, &segment, false);
            self.reply(now);
        }
    }

    fn acknowledge(&mut self, now: Instant) {
        if let Some((_, ack)) = self.acks.pop_front() {
            self.sender.receive(now, &ack);
            self.rto_sum += self.sender.rto();
            self.ack_count += 1;
            self.send(now);
        }
    }

    fn send(&mut self, now: Instant) {
        while let Some(segment) = self.sender.transmit(now) {
            self.offered += 1;
            if !self.is_lost() {
                self.data.push_back((now + self.one_way, segment));
            }
        }
    }

    fn reply(&mut self, now: Instant) {
        while let Some(ack) = self.receiver.transmit(now) {
            self.acks.push_back((now + self.one_way, ack));
        }
    }

    fn is_lost(&mut self) -> bool {
        match self.loss {
            Loss::Bernoulli(p) => self.rng.chance(p),
            Loss::Periodic(n) => self.offered.is_multiple_of(n),
        }
    }
}
