use crate::control_loop::Losses;
use weft_units::{Duration, Rate};

/// Method by which the loop measures how many of its bytes stand in queues (the accumulation).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccumulationMeasure {
    /// By delay: the accumulation a is the arriving rate μ times the time q that a marker spent in queues.
    #[default]
    Delay,
    /// By counts over fixed intervals (paper 004 §6.1): bytes sent minus bytes arrived at the end of an interval.
    ///
    /// For interval k of length T, with the rate sent λ and the rate arrived μ: a(k) = a(k − 1) + (λ(k) − μ(k)) T.
    Counted,
}

/// Parameters of [`Accumulation`](super::Accumulation). The defaults are those of paper 004 §7.
///
/// The times τ and T follow from the measured RTT unless they are set.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AccumulationConfig {
    /// The way in which the accumulation is measured.
    pub measure: AccumulationMeasure,
    /// β: fraction of the arriving rate at which the loop sends during a congestion epoch; below one.
    pub beta: f32,
    /// α: number of packets per τ by which the rate of a loop of weight one grows in each τ.
    ///
    /// The sum of all loops' α must be below (1 − β)C, with C the capacity, or loops on long routes get nothing (paper
    /// 004 §6.2).
    pub increase_packets: f32,
    /// Packet size in bytes for α and the hold-down window.
    pub packet_bytes: u32,
    /// σ: largest burst that leaves at once, in bytes.
    ///
    /// It is one packet, or one super-packet if the paths send a super-packet without pacing its segments.
    pub burst_bytes: u32,
    /// H: an epoch of congestion begins when the accumulation exceeds this number of bursts (σ), for a loop of weight
    /// one.
    pub high_bursts: f32,
    /// L: an epoch of congestion ends when the accumulation falls below this number of bursts (σ), for a loop of weight
    /// one.
    ///
    /// The accumulation is the number of the loop's bytes that stand in queues. During an epoch the loop sends more
    /// slowly than its bytes arrive, by the factor β, so that the accumulation falls.
    pub low_bursts: f32,
    /// Shortest delay that is treated as a queue.
    ///
    /// A busy machine delays markers by about this time. At 100 Mbit/s the paper's threshold H of two packets is a
    /// delay of only 240 µs.
    pub resolution: Duration,
    /// w_max: packets per interval that the hold-down window withholds; below α.
    ///
    /// After a resynchronisation that may have hidden a queue, the loop sends up to this number of packets less in each
    /// interval, until the queue has drained.
    pub hold_packets: f32,
    /// τ: time in which the rate grows by α. By default it is the minimum RTT, clamped to 10 ms to 1 s.
    pub tau: Option<Duration>,
    /// T: time between markers. By default it is τ.
    pub interval: Option<Duration>,
    /// Source from which the loop learns of losses.
    pub losses: Losses,
    /// Delay with which a busy processor may release a waiting packet, without a loss of rate.
    ///
    /// The bytes that should have left in this time leave together, and the paths pace them.
    pub late: Duration,
    /// If set, λ grows by half each τ at the start and after idle times.
    ///
    /// Paper 004's law does not do this.
    pub startup: bool,
    /// Initial value of the rate λ.
    pub initial: Rate,
    /// Minimum of the rate λ.
    pub floor: Rate,
    /// Maximum of the rate λ: the rate of the access link.
    pub cap: Rate,
}

impl Default for AccumulationConfig {
    fn default() -> AccumulationConfig {
        AccumulationConfig {
            measure: AccumulationMeasure::Delay,
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
    /// Returns the default of τ: the minimum RTT, clamped to 10 ms to 1 s.
    ///
    /// It is at least one round trip, so that the loop sees the effect of one change of rate before the next.
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
