//! Tests each impairment model against its definition.
//!
//! Parameters are drawn from the whole allowed range.

mod capacity;
mod delays;
mod losses;
mod whole;

use super::*;
use weft_core::queue::QueueKind;
use weft_units::{Duration, FlowId, Instant, Rate, Rng};

/// Returns a value between the two limits, drawn from a log-uniform distribution.
fn log_even(rng: &mut Rng, least: f64, most: f64) -> f64 {
    (least.ln() + (most / least).ln() * rng.unit()).exp()
}

fn drop_tail(rate: Rate) -> Plain {
    Plain {
        capacity: LinkCapacity::Rate(rate),
        delay: Duration::from_millis(20),
        jitter: Duration::ZERO,
        loss: 0.0,
        queue: QueueSpec::DropTail { limit_packets: usize::MAX, limit_bytes: u64::MAX },
    }
}

fn impaired(impairments: Impairments) -> Impaired {
    Impaired { impairments, schedule: 7, waits: false }
}

fn channel(plain: Plain, impairments: Impairments, seed: u64) -> Channel<u64> {
    Channel::new(plain, impaired(impairments), &Rng::new(seed), Instant::ZERO)
}

fn about(bytes: u32) -> About {
    About { bytes, flow: FlowId(0), is_udp: true, ecn_capable: false }
}

/// The fates of the packets that a test sent into a channel.
#[derive(Default, Debug, PartialEq)]
struct ChannelFates {
    /// Number and arrival time of each packet that arrived. Packets are numbered from 0 in sending order.
    arrived: Vec<(u64, Instant)>,
    gone: Vec<(u64, LossCause)>,
}

impl ChannelFates {
    fn gone_by(&self, cause: LossCause) -> usize {
        self.gone.iter().filter(|(_, other)| *other == cause).count()
    }
}

/// Offers packets to a channel and waits until each one is gone or has arrived.
///
/// The packets have `bytes` bytes, are numbered from 0 and are offered at `times`.
fn run(channel: &mut Channel<u64>, bytes: u32, times: impl Iterator<Item = Instant>) -> ChannelFates {
    let mut outcome = ChannelFates::default();
    let mut end = Instant::ZERO;
    for (number, now) in (0..).zip(times) {
        let gone = &mut outcome.gone;
        channel.offer(now, number, about(bytes), &mut |happened| note(gone, happened));
        end = now;
    }
    loop {
        let gone = &mut outcome.gone;
        channel.advance(end, &mut |happened| note(gone, happened));
        match channel.next_departure() {
            Instant::FAR_FUTURE => break,
            next => end = next,
        }
    }
    while let Some(arrived) = channel.arrive(Instant::FAR_FUTURE) {
        outcome.arrived.push((arrived.packet, arrived.due));
    }
    outcome
}

fn note(gone: &mut Vec<(u64, LossCause)>, happened: ChannelEvent<u64>) {
    if let ChannelEvent::Gone(packet, cause) = happened {
        gone.push((packet, cause));
    }
}

/// Returns the send times of `count` packets that follow each other in the interval `apart`.
fn steady(count: u64, apart: Duration) -> impl Iterator<Item = Instant> {
    (0..count).map(move |n| Instant::ZERO + Duration::from_nanos(n * apart.as_nanos() as u64))
}

/// Draws a random combination of all impairments.
fn anything(rng: &mut Rng) -> Impairments {
    let ms = |rng: &mut Rng, least: f64, most: f64| Duration::from_secs_f64(log_even(rng, least, most) / 1e3);
    let kinds = [JitterKind::Grants, JitterKind::Aggregation, JitterKind::Independent, JitterKind::Spikes];
    let jitter = Jitter { kind: kinds[rng.below(4) as usize], limit: ms(rng, 1.0, 50.0) };
    let every = ms(rng, 500.0, 20_000.0);
    let swing = Swing {
        low: Rate::from_bps(log_even(rng, 5e5, 5e6) as u64),
        high: Rate::from_bps(log_even(rng, 5e6, 1e8) as u64),
        every: ms(rng, 50.0, 5_000.0),
        shape: if rng.chance(0.5) { SwingShape::Square } else { SwingShape::Walk },
    };
    let some = |rng: &mut Rng| rng.chance(0.5);
    Impairments {
        jitter: some(rng).then_some(jitter),
        burst_loss: some(rng).then(|| BurstLoss { share: log_even(rng, 1e-3, 0.1), length: log_even(rng, 1.0, 30.0) }),
        long_loss: some(rng).then_some(LongLoss { over: 1_200, share: 0.05 }),
        reorder: some(rng).then_some(ReorderSpec { share: 0.02, by: Duration::from_millis(5) }),
        duplicate: if some(rng) { 0.01 } else { 0.0 },
        outage: some(rng).then(|| OutageSpec { every, lasting: every / 10, spread: some(rng), hold: some(rng) }),
        swing: some(rng).then_some(swing),
        handover: some(rng).then(|| HandoverSpec {
            every,
            stall: every / 50,
            step: Duration::from_millis(15),
            rate: [0.5, 1.5],
        }),
        policer: some(rng).then(|| PolicerSpec {
            rate: Rate::from_bps(log_even(rng, 1e6, 5e7) as u64),
            bucket_bytes: log_even(rng, 1e4, 3e6) as u64,
            after: Duration::ZERO,
            only_udp: some(rng),
        }),
        aqm: None,
    }
}
