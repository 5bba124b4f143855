//! Defines how VPNs enter the tunnel: the queue and the rate-control loop of each VPN, and their form in a file.

use crate::error::{Checked, Source};
use crate::quantity::{Bytes, Quantity};
use crate::queue::{self, QueueFile};
use crate::{Discipline, QueueSize};
use serde::Deserialize;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// The rate-control algorithm of a VPN's loop.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum ControlLaw {
    /// No rate control: the ingress edge sends every packet at once.
    None,
    /// An AIMD window: the bytes in flight between two edges grow until a loss and then shrink (paper 003).
    AimdWindow,
    /// A rate that rises until too many of the loop's bytes wait in queues along the route, then falls (paper 004).
    Accumulation,
    /// The rate that the nodes along the route grant, which the loop requests in its markers.
    ExplicitRate,
}

/// The way in which the accumulation algorithm measures the bytes in queues.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "kebab-case")]
pub enum AccumulationBy {
    /// Queueing delay of the markers, times the rate at which packets arrive at the egress edge.
    #[default]
    Delay,
    /// Bytes that the ingress edge sent less those that the egress edge received, in fixed intervals (paper 004).
    Counted,
}

/// The way in which a loop's markers reach the egress edge.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Markers {
    /// Inside the packets that the loop sends anyway, so that no further packets are necessary.
    Carried,
    /// As separate packets behind the packets of the loop, as in papers 003 and 004.
    Packets,
}

/// The method that corrects the parameters of AIMD windows, so that VPNs share by their weights.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Steering {
    /// No correction: the parameters stay at the values that the weight implies.
    Off,
    /// The rule of paper 003, from measured loss and round-trip times.
    Rule,
    /// The rule of paper 003 once, and closed-loop correction afterwards.
    ClosedLoop,
}

/// The AIMD parameter that depends on the weight of a VPN.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum WeightBy {
    /// The increase parameter a: a greater weight lets the window grow faster.
    Increase,
    /// The decrease parameter b: a greater weight lets the window shrink less after a loss (paper 003).
    Decrease,
}

/// The settings of the queue and the loop through which the packets of a VPN enter the tunnel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct IngressSpec {
    /// Algorithm that sets the rate or window of the loop.
    pub law: ControlLaw,
    /// The way in which the accumulation algorithm measures the bytes in queues.
    pub accumulation: AccumulationBy,
    /// Maximum length of the VPN's queue at the ingress edge.
    pub queue: QueueSize,
    /// Discipline of the VPN's queue at the ingress edge.
    pub discipline: Discipline,
    /// The way in which markers reach the egress edge: inside the loop's packets or as separate ones.
    pub markers: Markers,
    /// Number of IP bytes that the loop counts as one packet.
    pub packet_bytes: u32,
    /// Increase parameter: a in packets for each round trip (AIMD), or α in packets for each `tau` (accumulation).
    ///
    /// `None` uses the default of the algorithm.
    pub increase: Option<f64>,
    /// Decrease parameter b of an AIMD window: the fraction by which a loss event reduces it.
    pub decrease: f64,
    /// Number of packets from one marker to the next (Δ).
    pub marker_every: u8,
    /// True if the loop searches for its rate at the start.
    ///
    /// An AIMD window doubles in each round trip. The rate of the accumulation algorithm grows by half in each τ.
    pub startup: bool,
    /// Method that corrects the AIMD parameters a and b.
    pub steering: Steering,
    /// The AIMD parameter that depends on a VPN's weight: increase or decrease.
    pub weight_by: WeightBy,
    /// True if a loss event of one window counts for all windows between the same two edges.
    pub shared_events: bool,
    /// Fraction β of the arrival rate at which the accumulation algorithm sends in a congestion epoch (paper 004).
    pub beta: f64,
    /// Time τ in which the rate grows by α (paper 004), or `None` for a value from the measured round-trip time.
    pub tau: Option<Duration>,
    /// Time T between two markers of the accumulation algorithm (paper 004), or `None` for the value of τ.
    pub interval: Option<Duration>,
    /// Accumulation H, in packets in queues, above which a congestion epoch begins (paper 004).
    pub high: f64,
    /// Accumulation L, in packets in queues, below which a congestion epoch ends (paper 004).
    pub low: f64,
    /// Packets (w_max) by which a loop sends less in each interval while it drains a hidden queue (paper 004).
    ///
    /// A queue is hidden if the loop has taken its delay for that of a longer path.
    pub hold: f64,
    /// Rate λ at which the loop begins to send.
    pub initial: Rate,
    /// Maximum of the loop's sending rate λ.
    pub cap: Rate,
}

impl Default for IngressSpec {
    fn default() -> IngressSpec {
        IngressSpec {
            law: ControlLaw::AimdWindow,
            accumulation: AccumulationBy::Delay,
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

/// The changes that an `ingress` table of a file makes to an [`IngressSpec`]. `None` changes nothing.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct IngressChange {
    /// Algorithm that sets the rate or window of the loop.
    pub law: Option<ControlLaw>,
    /// The way in which the accumulation algorithm measures the bytes in queues.
    pub accumulation: Option<AccumulationBy>,
    /// Maximum length and discipline of the VPN's queue at the ingress edge.
    pub queue: Option<(QueueSize, Discipline)>,
    /// The way in which markers reach the egress edge: inside the loop's packets or as separate ones.
    pub markers: Option<Markers>,
    /// Number of IP bytes that the loop counts as one packet.
    pub packet_bytes: Option<u32>,
    /// Increase parameter: a in packets for each round trip (AIMD), or α in packets for each `tau` (accumulation).
    pub increase: Option<f64>,
    /// Decrease parameter b of an AIMD window: the fraction by which a loss event reduces it.
    pub decrease: Option<f64>,
    /// Number of packets from one marker to the next (Δ).
    pub marker_every: Option<u8>,
    /// True if the loop searches for its rate at the start.
    pub startup: Option<bool>,
    /// Method that corrects the AIMD parameters a and b.
    pub steering: Option<Steering>,
    /// The AIMD parameter that depends on a VPN's weight: increase or decrease.
    pub weight_by: Option<WeightBy>,
    /// True if a loss event of one window counts for all windows between the same two edges.
    pub shared_events: Option<bool>,
    /// Fraction β of the arrival rate at which the accumulation algorithm sends in a congestion epoch (paper 004).
    pub beta: Option<f64>,
    /// Time τ in which the rate of the accumulation algorithm grows by α (paper 004).
    pub tau: Option<Duration>,
    /// Time T between two markers of the accumulation algorithm (paper 004).
    pub interval: Option<Duration>,
    /// Accumulation H, in packets in queues, above which a congestion epoch begins (paper 004).
    pub high: Option<f64>,
    /// Accumulation L, in packets in queues, below which a congestion epoch ends (paper 004).
    pub low: Option<f64>,
    /// Packets (w_max) by which a loop sends less in each interval while it drains a hidden queue (paper 004).
    ///
    /// A queue is hidden if the loop has taken its delay for that of a longer path.
    pub hold: Option<f64>,
    /// Rate λ at which the loop begins to send.
    pub initial: Option<Rate>,
    /// Maximum of the loop's sending rate λ.
    pub cap: Option<Rate>,
}

impl IngressChange {
    /// Returns `spec` with these changes applied.
    pub fn apply(&self, spec: IngressSpec) -> IngressSpec {
        let (queue, discipline) = self.queue.unwrap_or((spec.queue, spec.discipline));
        IngressSpec {
            law: self.law.unwrap_or(spec.law),
            accumulation: self.accumulation.unwrap_or(spec.accumulation),
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

/// The keys of an `ingress` table, as the file gives them.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct IngressFile {
    #[serde(rename = "loop")]
    law: Option<ControlLaw>,
    accumulation: Option<AccumulationBy>,
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
    /// Returns the changes that the table makes, after a check of their limits.
    pub fn change(&self, source: &Source<'_>) -> Checked<IngressChange> {
        let positive = |value: &Option<Spanned<f64>>, what| within(source, value, what, 0.0, f64::MAX);
        let high = positive(&self.high, "`high`")?;
        let low = positive(&self.low, "`low`")?;
        if let (Some(file), Some(low), Some(high)) = (&self.low, low, high)
            && low >= high
        {
            return Err(source.at(file, LOW_ABOVE_HIGH));
        }
        Ok(IngressChange {
            law: self.law,
            accumulation: self.accumulation,
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
            return Err(source.at(file, "the limit of a VPN's queue is in packets or bytes: limit = \"128 packets\""));
        }
        Ok(Some((size, discipline)))
    }

    fn packet_bytes(&self, source: &Source<'_>) -> Checked<Option<u32>> {
        let Some(file) = &self.packet_size else { return Ok(None) };
        let fits = u32::try_from(file.get_ref().0.0).ok().filter(|bytes| (40..=65_535).contains(bytes));
        fits.map(Some).ok_or_else(|| source.at(file, "a packet must have 40 B to 65535 B"))
    }
}

/// Error message for `low` and `high` of the accumulation algorithm in the wrong order.
const LOW_ABOVE_HIGH: &str = "`low`, where an epoch ends, must be below `high`, where it starts";

/// Checks that `low` is below `high` for one VPN in one variant, after all tables were applied.
///
/// `low` and `high` may come from different tables or from the defaults, so the check of one table cannot show a
/// conflict. `tables` contains the tables that were applied, the last one first. The error is reported at the key `low`
/// or `high` of the last table that sets one of them.
pub(super) fn check<'a>(
    source: &Source<'_>,
    mut tables: impl Iterator<Item = &'a IngressFile>,
    spec: &IngressSpec,
) -> Checked<()> {
    if spec.low < spec.high {
        return Ok(());
    }
    let Some(file) = tables.find_map(|table| table.low.as_ref().or(table.high.as_ref())) else { return Ok(()) };
    let (low, high) = (spec.low, spec.high);
    Err(source.at(
        file,
        format!(
            "{LOW_ABOVE_HIGH}; with the `ingress` tables of the scenario, the VPN and the variant, `low` is {low} and \
             `high` is {high}: change one"
        ),
    ))
}

/// Returns the number of a file after a check that it is above `least` and below `most`.
///
/// `what` names the number in the error. Returns `None` if the file does not set it.
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
    Err(source.at(file, format!("{what} must be above {least}{bound}")))
}

fn time(source: &Source<'_>, value: &Option<Spanned<Quantity<Duration>>>) -> Checked<Option<Duration>> {
    let Some(file) = value else { return Ok(None) };
    if file.get_ref().0.is_zero() {
        return Err(source.at(file, "the time must be greater than zero"));
    }
    Ok(Some(file.get_ref().0))
}
