//! What may be wrong with a direction of a link, beside its rate, delay, independent loss and wandering delay.

use serde::Deserialize;
use std::time::Duration;
use weft_core::queue::{Measure, QueueConfig, QueueKind, RedConfig};
use weft_units::{Rate, Rng};

/// How a delay changes from packet to packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JitterKind {
    /// Wanders between zero and the limit; see [`crate::jitter::Wander`].
    Wander,
    /// Packets leave at grant instants only, spaced evenly between half the limit and the limit, as LTE and 5G schedule them.
    Grants,
    /// Packets are collected until the next transmit opportunity, as Wi-Fi aggregates them: exponential spacing, cut at the limit.
    Aggregation,
    /// Each packet draws its own delay between zero and the limit, so that packets overtake each other.
    Independent,
    /// Every 1 to 2 s the delay jumps by up to the limit and falls back within twice that time.
    Spikes,
}

/// Extra delay of a kind other than [`JitterKind::Wander`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Jitter {
    /// Its kind.
    pub kind: JitterKind,
    /// The longest delay it adds.
    pub limit: Duration,
}

/// Loss in bursts: the chain of Gilbert and Elliott, which loses every packet in its bad state and none in its good one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BurstLoss {
    /// Long-run share of packets lost.
    pub share: f64,
    /// Mean length of a burst, in packets.
    pub length: f64,
}

/// Loss of long packets, as on a path with a broken MTU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LongLoss {
    /// Only packets with more IP bytes than this are lost.
    pub over: u64,
    /// Share of them that is lost.
    pub share: f64,
}

/// Packets that arrive late and are overtaken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reorder {
    /// Share of packets that are late.
    pub share: f64,
    /// How late.
    pub by: Duration,
}

/// Silent cuts that repeat.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outage {
    /// Mean time between the beginnings of two outages.
    pub every: Duration,
    /// Length of each.
    pub lasting: Duration,
    /// Whether the pauses between outages are exponential; otherwise outages are periodic, with a drawn phase.
    pub spread: bool,
    /// Whether packets wait in the queue meanwhile; otherwise they vanish.
    pub hold: bool,
}

/// How a swinging rate moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwingShape {
    /// Alternates between low and high, each for `every`.
    Square,
    /// A random walk of the rate's logarithm, reflected at low and high: eight steps each `every`.
    Walk,
}

/// A rate that swings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Swing {
    /// Least rate.
    pub low: Rate,
    /// Greatest rate.
    pub high: Rate,
    /// Time scale of the changes.
    pub every: Duration,
    /// How it moves.
    pub shape: SwingShape,
}

/// Periodic handovers: a stall, and then another delay and another rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Handover {
    /// The period.
    pub every: Duration,
    /// How long nothing is transmitted; packets wait.
    pub stall: Duration,
    /// After each handover the delay grows by a new value between zero and this.
    pub step: Duration,
    /// After each handover the rate is multiplied by a new factor in this range.
    pub rate: [f64; 2],
}

/// A token bucket that drops what exceeds it, before the queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PolicerSpec {
    /// Long-run rate, in IP bytes.
    pub rate: Rate,
    /// Bytes that may pass at once.
    pub bucket_bytes: u64,
    /// When it begins, from the beginning of the run.
    pub after: Duration,
    /// Whether only UDP is policed.
    pub only_udp: bool,
}

/// A managed bottleneck queue, with the parameters of its RFC or paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aqm {
    /// RFC 8289.
    #[serde(rename = "codel")]
    CoDel,
    /// Random early detection (Floyd and Jacobson 1993), gentle, between a quarter and three quarters of the queue.
    Red,
    /// RFC 8290.
    #[serde(rename = "fq-codel")]
    FqCoDel,
}

impl Aqm {
    /// The queue of `weft-core` for at most `limit_bytes` at a link of `rate`.
    pub fn queue(self, limit_bytes: u64, rate: Rate) -> (QueueKind, QueueConfig) {
        let config = QueueConfig { limit_bytes, limit_units: usize::MAX, ..QueueConfig::default() };
        match self {
            Aqm::CoDel => (QueueKind::Codel, config),
            Aqm::FqCoDel => (QueueKind::FqCodel, config),
            Aqm::Red => {
                let red = RedConfig {
                    measure: Measure::Bytes,
                    min_threshold: limit_bytes as f64 * 0.25,
                    max_threshold: limit_bytes as f64 * 0.75,
                    mean_transmission: rate.time_for(crate::PACKET_BYTES),
                    ..RedConfig::default()
                };
                (QueueKind::Red, QueueConfig { red, ..config })
            }
        }
    }

    /// The word used in files.
    pub fn word(self) -> &'static str {
        match self {
            Aqm::CoDel => "codel",
            Aqm::Red => "red",
            Aqm::FqCoDel => "fq-codel",
        }
    }
}

/// Everything that impairs one direction of a link beyond a plain one. The default impairs nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Impairments {
    /// Jitter, unless it wanders.
    pub jitter: Option<Jitter>,
    /// Loss in bursts.
    pub burst_loss: Option<BurstLoss>,
    /// Loss of long packets.
    pub long_loss: Option<LongLoss>,
    /// Late packets.
    pub reorder: Option<Reorder>,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Repeated silent cuts.
    pub outage: Option<Outage>,
    /// A rate that swings.
    pub swing: Option<Swing>,
    /// Periodic handovers.
    pub handover: Option<Handover>,
    /// A policer before the queue.
    pub policer: Option<PolicerSpec>,
    /// The bottleneck queue's discipline, unless it is drop-tail.
    pub aqm: Option<Aqm>,
}

impl Impairments {
    /// Whether nothing is impaired.
    pub fn is_none(&self) -> bool {
        *self == Impairments::default()
    }

    /// Whether the capacity changes with time.
    pub fn is_timed(&self) -> bool {
        self.outage.is_some() || self.swing.is_some() || self.handover.is_some()
    }
}

/// What a world gives its model of a direction, beside the plain properties.
#[derive(Clone, PartialEq, Debug)]
pub struct Impaired {
    /// What is wrong with the direction.
    pub impairments: Impairments,
    /// Seed of what happens by the clock. Both directions of a link share it, so that an outage hits both at once.
    pub schedule: u64,
    /// Whether outages, swings and handovers wait for [`crate::channel::Channel::restart`], so that each variant meets them at the same
    /// time of its run.
    pub waits: bool,
}

impl Impaired {
    /// The seed of a link's schedule in a run with this seed.
    pub fn schedule(seed: u64, link: &str) -> u64 {
        Rng::new(seed).split(crate::traces::hash(link)).next_u64()
    }
}
