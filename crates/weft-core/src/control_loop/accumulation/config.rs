use crate::control_loop::Losses;
use weft_units::{Duration, Rate};

/// The numbers of [`Accumulation`](super::Accumulation), by default the paper's (§7), with τ and T derived from measured delay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AccumulationConfig {
    /// β: the part of what arrives that is sent during an epoch; below one.
    pub beta: f32,
    /// α: packets per τ that a loop of weight one adds in each τ. Keep Σα below (1 − β)C, or long routes starve (§6.2).
    pub increase_packets: f32,
    /// What α and the hold-down window count, in bytes.
    pub packet_bytes: u32,
    /// σ: the most that leaves at once, in bytes: a packet, or a super-packet that is not paced below.
    pub burst_bytes: u32,
    /// H: an epoch begins above so many bursts, for a loop of weight one.
    pub high_bursts: f32,
    /// L: an epoch ends below so many bursts.
    pub low_bursts: f32,
    /// A shorter delay is no queue: busy machines make markers late by as much, and at 100 Mbit/s the paper's H is 240 µs.
    pub resolution: Duration,
    /// w_max: packets sent less in an interval while a resynchronisation is paid back; below α.
    pub hold_packets: f32,
    /// τ: the least round trip measured, within 10 ms to 1 s, where none is given.
    pub tau: Option<Duration>,
    /// T: τ where none is given.
    pub interval: Option<Duration>,
    /// How it comes to know of losses.
    pub losses: Losses,
    /// How late a waiting packet may be let go, the processor being busy, without λ being missed for it. What has been missed
    /// leaves at once, for the paths below to pace.
    pub late: Duration,
    /// Whether λ grows by half each τ at the start and after idling. The paper's law does not.
    pub startup: bool,
    /// λ at the start.
    pub initial: Rate,
    /// λ is never below.
    pub floor: Rate,
    /// λ is never above: the access link.
    pub cap: Rate,
}

impl Default for AccumulationConfig {
    fn default() -> AccumulationConfig {
        AccumulationConfig {
            beta: 0.95,
            increase_packets: 1.0,
            packet_bytes: 1_500,
            burst_bytes: 1_500,
            high_bursts: 2.0,
            low_bursts: 1.5,
            resolution: Duration::from_micros(500),
            hold_packets: 0.2,
            tau: None,
            interval: None,
            losses: Losses::Counted,
            late: Duration::from_micros(500),
            startup: true,
            initial: Rate::from_bps(256_000),
            floor: Rate::from_bps(16_000),
            cap: Rate::from_mbps(100_000),
        }
    }
}

impl AccumulationConfig {
    /// τ where none is given: longer than the way there and back, so that a change of rate is seen before the next.
    pub fn derived_tau(rtt_min: Duration) -> Duration {
        rtt_min.clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    pub(super) fn high_bytes(&self) -> f64 {
        f64::from(self.high_bursts) * f64::from(self.burst_bytes)
    }

    pub(super) fn low_bytes(&self) -> f64 {
        f64::from(self.low_bursts) * f64::from(self.burst_bytes)
    }

    pub(super) fn hold_bytes(&self) -> f64 {
        f64::from(self.hold_packets) * f64::from(self.packet_bytes)
    }

    pub(super) fn increase_bytes(&self) -> f64 {
        f64::from(self.increase_packets) * f64::from(self.packet_bytes)
    }
}
