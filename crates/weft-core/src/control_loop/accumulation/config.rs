use crate::control_loop::Losses;
use weft_units::{Duration, Rate};

/// The way in which the law measures how many bytes stand in queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccumulationMeasure {
    /// By delay: the accumulation a is the arriving rate μ times the time q that a marker spent in queues.
    #[default]
    Delay,
    /// By counts over fixed intervals (paper 004 §6.1): bytes sent minus bytes arrived at the end of an interval.
    ///
    /// a(k) = a(k − 1) + (λ(k) − μ(k)) T.
    Counted,
}

/// Parameters of [`Accumulation`](super::Accumulation). The defaults are those of paper 004 §7.
///
/// τ and T are derived from measured delay unless set.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AccumulationConfig {
    /// The way in which the accumulation is measured.
    pub measure: AccumulationMeasure,
    /// β: fraction of the arriving rate that the loop sends during an epoch, below one.
    pub beta: f32,
    /// α: packets per τ by which the rate of a loop of weight one grows in each τ.
    ///
    /// Keep Σα below (1 − β)C, or long routes starve (paper 004 §6.2).
    pub increase_packets: f32,
    /// Packet size in bytes for α and the hold-down window.
    pub packet_bytes: u32,
    /// σ: largest burst that leaves at once, in bytes.
    ///
    /// It is a packet, or a super-packet that no lower layer paces.
    pub burst_bytes: u32,
    /// H: an epoch begins when the accumulation exceeds this number of bursts, for a loop of weight one.
    pub high_bursts: f32,
    /// L: an epoch ends when the accumulation falls below this number of bursts, for a loop of weight one.
    pub low_bursts: f32,
    /// Shortest delay that is treated as a queue.
    ///
    /// A busy machine delays markers by about this time. At 100 Mbit/s the paper's H is a delay of only 240 µs.
    pub resolution: Duration,
    /// w_max: packets per interval that the hold-down window withholds; below α.
    ///
    /// While the loop pays back a resynchronisation, it sends this number of packets less.
    pub hold_packets: f32,
    /// τ: time in which the rate grows by α. By default it is the minimum RTT, clamped to 10 ms to 1 s.
    pub tau: Option<Duration>,
    /// T: time between markers. By default it is τ.
    pub interval: Option<Duration>,
    /// The way in which the loop learns of losses.
    pub losses: Losses,
    /// Time by which a busy processor may release a waiting packet late without a loss of rate.
    ///
    /// The bytes that were missed leave at once, and the paths pace them.
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
