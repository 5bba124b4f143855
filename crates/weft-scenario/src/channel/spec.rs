//! Declares the impairments of a link direction.
//!
//! They are added to the properties that every link has: rate, delay, independent loss and wandering delay.

use serde::Deserialize;
use std::time::Duration;
use weft_core::queue::{Measure, QueueConfig, QueueKind, RedConfig};
use weft_units::{Rate, Rng};

/// The way in which a delay changes from packet to packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JitterKind {
    /// The delay wanders between zero and the limit; see [`crate::jitter::Wander`].
    Wander,
    /// Packets leave only at grant instants, as LTE and 5G schedule them.
    ///
    /// The spacing is uniform between half the limit and the limit.
    Grants,
    /// Packets wait for the next transmit opportunity and leave together, as with Wi-Fi aggregation.
    ///
    /// The spacing is exponential and never exceeds the limit.
    Aggregation,
    /// Each packet draws its own delay between zero and the limit, so that packets overtake each other.
    Independent,
    /// Every 1 to 2 s the delay jumps by up to the limit, and then falls by 1 ms every 2 ms.
    Spikes,
}

/// Additional delay of a kind other than [`JitterKind::Wander`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Jitter {
    /// Kind of the jitter.
    pub kind: JitterKind,
    /// Maximum delay that the jitter adds.
    pub limit: Duration,
}

/// Burst loss in the Gilbert-Elliott model.
///
/// It loses every packet in the bad state and none in the good state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BurstLoss {
    /// Fraction of the packets that is lost in the long run, from 0 to 1.
    pub share: f64,
    /// Mean number of successive packets that one burst drops.
    pub length: f64,
}

/// Loss of packets above a certain size, as on a path with a wrong MTU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LongLoss {
    /// Size in IP bytes above which packets can be lost.
    pub over: u64,
    /// Fraction of the packets above this size that is lost, from 0 to 1.
    pub share: f64,
}

/// Single packets that arrive late, so that later packets overtake them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReorderSpec {
    /// Fraction of the packets that arrive late, from 0 to 1.
    pub share: f64,
    /// Additional delay of a packet that arrives late.
    pub by: Duration,
}

/// Outages that happen again and again, of which the sender gets no signal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OutageSpec {
    /// Mean time between the starts of two outages.
    pub every: Duration,
    /// Length of each outage.
    pub lasting: Duration,
    /// True if the pauses between outages are exponentially distributed.
    ///
    /// Otherwise the outages are periodic with a random phase.
    pub spread: bool,
    /// True if packets wait in the queue during an outage.
    ///
    /// Otherwise the link drops them.
    pub hold: bool,
}

/// The way in which a swinging rate changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwingShape {
    /// The rate alternates between low and high and stays at each for `every`.
    Square,
    /// The logarithm of the rate does a random walk with eight steps in each `every`.
    ///
    /// The walk is reflected at low and high.
    Walk,
}

/// A rate that swings between two limits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Swing {
    /// Least rate that the direction has.
    pub low: Rate,
    /// Greatest rate that the direction has.
    pub high: Rate,
    /// Time scale of the rate's changes, as [`SwingShape`] defines it.
    pub every: Duration,
    /// Shape of the rate over time: square or random walk.
    pub shape: SwingShape,
}

/// Periodic handovers: a stall, followed by a new delay and a new rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HandoverSpec {
    /// Time between the starts of two handovers.
    pub every: Duration,
    /// Time without transmission at each handover, during which packets wait.
    pub stall: Duration,
    /// Maximum of the additional delay, which each handover draws anew from zero up.
    pub step: Duration,
    /// Least and greatest factor by which the link's rate is multiplied.
    ///
    /// Each handover draws a new factor between them.
    pub rate: [f64; 2],
}

/// A token bucket in front of the queue that drops excess packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PolicerSpec {
    /// Rate at which packets pass in the long run, counted in IP bytes.
    pub rate: Rate,
    /// Depth of the bucket, in IP bytes: a burst of this size passes at any rate.
    pub bucket_bytes: u64,
    /// Time after the start of the run at which the policing begins.
    pub after: Duration,
    /// True if the policer lets all packets pass that are not UDP.
    pub only_udp: bool,
}

/// Active queue management of the bottleneck, with the parameters of its RFC or paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aqm {
    /// CoDel (RFC 8289).
    #[serde(rename = "codel")]
    CoDel,
    /// Gentle RED (Floyd and Jacobson 1993), with thresholds at a quarter and three quarters of the queue.
    Red,
    /// FQ-CoDel (RFC 8290).
    #[serde(rename = "fq-codel")]
    FqCoDel,
}

impl Aqm {
    /// Returns the kind and settings of a queue of `weft-core` that this discipline manages.
    ///
    /// The queue holds at most `limit_bytes`, and the link has the rate `rate`.
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

    /// Returns the keyword of the queue discipline in scenario files.
    pub fn word(self) -> &'static str {
        match self {
            Aqm::CoDel => "codel",
            Aqm::Red => "red",
            Aqm::FqCoDel => "fq-codel",
        }
    }
}

/// All impairments of one direction of a link. The default has none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Impairments {
    /// Jitter of any kind except [`JitterKind::Wander`].
    pub jitter: Option<Jitter>,
    /// Burst loss.
    pub burst_loss: Option<BurstLoss>,
    /// Loss of packets above a certain size. `None`: no such loss.
    pub long_loss: Option<LongLoss>,
    /// Packets that arrive late, so that later packets overtake them. `None`: no such packets.
    pub reorder: Option<ReorderSpec>,
    /// Fraction of the packets that arrive twice, from 0 to 1.
    pub duplicate: f64,
    /// Repeated outages. `None`: no outages.
    pub outage: Option<OutageSpec>,
    /// A rate that changes between two limits. `None`: the rate does not change.
    pub swing: Option<Swing>,
    /// Periodic handovers. `None`: no handovers.
    pub handover: Option<HandoverSpec>,
    /// A token bucket before the queue. `None`: no policer.
    pub policer: Option<PolicerSpec>,
    /// Active queue management of the queue before the transmitter. `None`: the queue is drop-tail.
    pub aqm: Option<Aqm>,
}

impl Impairments {
    /// True if the direction has no impairment.
    pub fn is_none(&self) -> bool {
        *self == Impairments::default()
    }

    /// True if outages, swings or handovers change the capacity with time.
    pub fn is_timed(&self) -> bool {
        self.outage.is_some() || self.swing.is_some() || self.handover.is_some()
    }
}

/// The impairments of a direction with the seed of their schedule, as the channel model takes them.
///
/// The simulator and the emulator pass them to the channel model together with the rate, delay, independent loss and
/// queue.
#[derive(Clone, PartialEq, Debug)]
pub struct Impaired {
    /// Impairments of the direction.
    pub impairments: Impairments,
    /// Seed of the outages, swings and handovers.
    ///
    /// Both directions of a link share it, so that an outage hits both at once.
    pub schedule: u64,
    /// True if outages, swings and handovers wait for [`crate::channel::Channel::restart`].
    ///
    /// Each variant then meets them at the same time of its run.
    pub waits: bool,
}

impl Impaired {
    /// Returns the seed of the outages, swings and handovers of `link` in a run with the seed `seed`.
    pub fn schedule(seed: u64, link: &str) -> u64 {
        Rng::new(seed).split(crate::load_traces::hash(link)).next_u64()
    }
}
