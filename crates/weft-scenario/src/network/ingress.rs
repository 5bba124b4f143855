//! How VPNs enter the tunnel: the queue, the loop, and how a file writes them.

use super::queue::{self, Discipline, QueueFile};
use crate::QueueSize;
use crate::error::{Checked, Source};
use crate::quantity::{Bytes, Quantity};
use serde::Deserialize;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// The law of the loops.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum LoopLaw {
    /// No loop: what comes leaves at once.
    None,
    /// AIMD window between edges (paper 003).
    AimdWindow,
    /// Accumulation-based rate (paper 004).
    Accumulation,
    /// The rate that the nodes on the way grant.
    ExplicitRate,
}

/// How markers travel.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Markers {
    /// On packets of the loop.
    Carried,
    /// As packets of their own behind them, as in the papers.
    Packets,
}

/// What corrects the windows' parameters.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Steering {
    /// Nothing: they stay what the weight asks for.
    Off,
    /// The paper's rule, from measured loss and round trips.
    Rule,
    /// The rule once, then the closed loop.
    ClosedLoop,
}

/// Which parameter of a window carries its weight.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum WeightBy {
    /// a.
    Increase,
    /// b, as in the paper.
    Decrease,
}

/// How a VPN enters the tunnel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct IngressSpec {
    /// The law of its loops.
    pub law: LoopLaw,
    /// How long its queue may be.
    pub queue: QueueSize,
    /// What its queue does.
    pub discipline: Discipline,
    /// How markers travel.
    pub markers: Markers,
    /// IP bytes of what counts as one packet.
    pub packet_bytes: u32,
    /// a, packets a round trip, or α, packets per τ; the law's own where none is given.
    pub increase: Option<f64>,
    /// b.
    pub decrease: f64,
    /// Δ: packets from marker to marker.
    pub marker_every: u8,
    /// Whether the loop looks for its rate by doubling (window) or by half as much again (accumulation) at the start.
    pub startup: bool,
    /// What corrects a and b.
    pub steering: Steering,
    /// Which of them carries the weight.
    pub weight_by: WeightBy,
    /// Whether the windows of an edge pair hear of each other's losses.
    pub shared_events: bool,
    /// β.
    pub beta: f64,
    /// τ, as measured where none is given.
    pub tau: Option<Duration>,
    /// T, as τ where none is given.
    pub interval: Option<Duration>,
    /// H, in packets.
    pub high: f64,
    /// L, in packets.
    pub low: f64,
    /// w_max, in packets.
    pub hold: f64,
    /// λ at the start.
    pub initial: Rate,
    /// λ is never above.
    pub cap: Rate,
}

impl Default for IngressSpec {
    fn default() -> IngressSpec {
        IngressSpec {
            law: LoopLaw::AimdWindow,
            queue: QueueSize::Packets(128),
            discipline: Discipline::DropTail,
            markers: Markers::Carried,
            packet_bytes: 1_500,
            increase: None,
            decrease: 0.1,
            marker_every: 4,
            startup: true,
            steering: Steering::ClosedLoop,
            weight_by: WeightBy::Increase,
            shared_events: true,
            beta: 0.95,
            tau: None,
            interval: None,
            high: 2.0,
            low: 1.5,
            hold: 0.2,
            initial: Rate::from_bps(256_000),
            cap: Rate::from_mbps(100_000),
        }
    }
}

/// What an `ingress` table of a file changes in an [`IngressSpec`]; by default nothing.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct IngressChange {
    /// The law of the loops.
    pub law: Option<LoopLaw>,
    /// Length and discipline of the queues.
    pub queue: Option<(QueueSize, Discipline)>,
    /// How markers travel.
    pub markers: Option<Markers>,
    /// IP bytes of what counts as one packet.
    pub packet_bytes: Option<u32>,
    /// a or α.
    pub increase: Option<f64>,
    /// b.
    pub decrease: Option<f64>,
    /// Δ.
    pub marker_every: Option<u8>,
    /// Whether the loop looks for its rate faster at the start.
    pub startup: Option<bool>,
    /// What corrects a and b.
    pub steering: Option<Steering>,
    /// Which of them carries the weight.
    pub weight_by: Option<WeightBy>,
    /// Whether windows hear of each other's losses.
    pub shared_events: Option<bool>,
    /// β.
    pub beta: Option<f64>,
    /// τ.
    pub tau: Option<Duration>,
    /// T.
    pub interval: Option<Duration>,
    /// H, in packets.
    pub high: Option<f64>,
    /// L, in packets.
    pub low: Option<f64>,
    /// w_max, in packets.
    pub hold: Option<f64>,
    /// λ at the start.
    pub initial: Option<Rate>,
    /// λ is never above.
    pub cap: Option<Rate>,
}

impl IngressChange {
    /// `spec` with what is changed here.
    pub fn apply(&self, spec: IngressSpec) -> IngressSpec {
        let (queue, discipline) = self.queue.unwrap_or((spec.queue, spec.discipline));
        IngressSpec {
            law: self.law.unwrap_or(spec.law),
            queue,
            discipline,
            markers: self.markers.unwrap_or(spec.markers),
            packet_bytes: self.packet_bytes.unwrap_or(spec.packet_bytes),
            increase: self.increase.or(spec.increase),
            decrease: self.decrease.unwrap_or(spec.decrease),
            marker_every: self.marker_every.unwrap_or(spec.marker_every),
            startup: self.startup.unwrap_or(spec.startup),
            steering: self.steering.unwrap_or(spec.steering),
            weight_by: self.weight_by.unwrap_or(spec.weight_by),
            shared_events: self.shared_events.unwrap_or(spec.shared_events),
            beta: self.beta.unwrap_or(spec.beta),
            tau: self.tau.or(spec.tau),
            interval: self.interval.or(spec.interval),
            high: self.high.unwrap_or(spec.high),
            low: self.low.unwrap_or(spec.low),
            hold: self.hold.unwrap_or(spec.hold),
            initial: self.initial.unwrap_or(spec.initial),
            cap: self.cap.unwrap_or(spec.cap),
        }
    }
}

/// An `ingress` table as a file has it.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct IngressFile {
    #[serde(rename = "loop")]
    law: Option<LoopLaw>,
    queue: Option<Spanned<QueueFile>>,
    markers: Option<Markers>,
    packet_size: Option<Spanned<Quantity<Bytes>>>,
    increase: Option<Spanned<f64>>,
    decrease: Option<Spanned<f64>>,
    marker_every: Option<std::num::NonZeroU8>,
    startup: Option<bool>,
    steering: Option<Steering>,
    weight_by: Option<WeightBy>,
    shared_events: Option<bool>,
    beta: Option<Spanned<f64>>,
    tau: Option<Spanned<Quantity<Duration>>>,
    interval: Option<Spanned<Quantity<Duration>>>,
    high: Option<Spanned<f64>>,
    low: Option<Spanned<f64>>,
    hold: Option<Spanned<f64>>,
    initial: Option<Quantity<Rate>>,
    cap: Option<Quantity<Rate>>,
}

impl IngressFile {
    /// What the table changes, if it makes sense.
    pub fn change(&self, source: &Source<'_>) -> Checked<IngressChange> {
        let positive = |value: &Option<Spanned<f64>>, what| within(source, value, what, 0.0, f64::MAX);
        let high = positive(&self.high, "`high`")?;
        let low = positive(&self.low, "`low`")?;
        if let (Some(file), Some(low), Some(high)) = (&self.low, low, high)
            && low >= high
        {
            return Err(source.at(file, "`low`, where an epoch ends, is below `high`, where it begins"));
        }
        Ok(IngressChange {
            law: self.law,
            queue: self.queue(source)?,
            markers: self.markers,
            packet_bytes: self.packet_bytes(source)?,
            increase: positive(&self.increase, "`increase`")?,
            decrease: within(source, &self.decrease, "`decrease`", 0.0, 1.0)?,
            marker_every: self.marker_every.map(u8::from),
            startup: self.startup,
            steering: self.steering,
            weight_by: self.weight_by,
            shared_events: self.shared_events,
            beta: within(source, &self.beta, "`beta`", 0.0, 1.0)?,
            tau: time(source, &self.tau)?,
            interval: time(source, &self.interval)?,
            high,
            low,
            hold: positive(&self.hold, "`hold`")?,
            initial: self.initial.map(|q| q.0),
            cap: self.cap.map(|q| q.0),
        })
    }

    fn queue(&self, source: &Source<'_>) -> Checked<Option<(QueueSize, Discipline)>> {
        let Some(file) = &self.queue else { return Ok(None) };
        let (size, discipline) = queue::read(source, Some(file))?;
        if matches!(size, QueueSize::Bdp(_)) {
            return Err(source.at(file, "a VPN's queue has a length in packets or bytes: limit = \"128 packets\""));
        }
        Ok(Some((size, discipline)))
    }

    fn packet_bytes(&self, source: &Source<'_>) -> Checked<Option<u32>> {
        let Some(file) = &self.packet_size else { return Ok(None) };
        let fits = u32::try_from(file.get_ref().0.0).ok().filter(|bytes| (40..=65_535).contains(bytes));
        fits.map(Some).ok_or_else(|| source.at(file, "a packet has 40 B to 65535 B"))
    }
}

/// A number above `least` and below `most`.
fn within(
    source: &Source<'_>,
    value: &Option<Spanned<f64>>,
    what: &str,
    least: f64,
    most: f64,
) -> Checked<Option<f64>> {
    let Some(file) = value else { return Ok(None) };
    let value = *file.get_ref();
    if value > least && value < most {
        return Ok(Some(value));
    }
    let bound = if most == f64::MAX { String::new() } else { format!(" and below {most}") };
    Err(source.at(file, format!("{what} is above {least}{bound}")))
}

fn time(source: &Source<'_>, value: &Option<Spanned<Quantity<Duration>>>) -> Checked<Option<Duration>> {
    let Some(file) = value else { return Ok(None) };
    if file.get_ref().0.is_zero() {
        return Err(source.at(file, "a time longer than nothing is expected"));
    }
    Ok(Some(file.get_ref().0))
}
