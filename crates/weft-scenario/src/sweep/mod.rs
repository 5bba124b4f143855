//! Sweeps: many random mixes of links, one for each seed of a list.

mod file;

use crate::draw::draw_mix;
use crate::error::Source;
use crate::{
    App, Capacity, DirectionSpec, Flow, FlowDirection, FlowResult, Kind, Link, QueueSize, RunResult, Scenario,
    ScenarioError, Variant, VariantResult,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use weft_units::{Rate, Rng};

/// A recipe for random mixes of links.
#[derive(Clone, PartialEq, Debug)]
pub struct Sweep {
    /// Its name in the results.
    pub name: String,
    /// One sentence for people.
    pub description: String,
    /// One mix for each.
    pub seeds: Vec<u64>,
    /// What mixes are drawn from.
    pub source: MixSource,
    /// Runs of each variant of a mix whose first run is not clear; its medians count.
    pub repeats: u32,
    /// A mix is clear where it passes with so much to spare, as a fraction of what is asked for.
    pub clear_by: f64,
    /// What each mix must reach.
    pub least: Least,
}

/// What mixes are drawn from.
#[derive(Clone, PartialEq, Debug)]
pub enum MixSource {
    /// Ranges of plain links.
    Ranges(MixRanges),
    /// A single link from the whole class of real ones ([`crate::draw::draw_mix`]).
    OneLink,
    /// Two to twelve links from the whole class of real ones.
    Bundle,
}

/// Ranges of plain links, and the length of their runs.
#[derive(Clone, PartialEq, Debug)]
pub struct MixRanges {
    /// Least and greatest number of links.
    pub links: [u64; 2],
    /// Least and greatest rate; drawn log-uniformly.
    pub rate: [Rate; 2],
    /// Least and greatest one-way delay; drawn uniformly.
    pub delay: [Duration; 2],
    /// Least and greatest loss; drawn uniformly.
    pub loss: [f64; 2],
    /// Queue of every link.
    pub queue: QueueSize,
    /// Length of a run.
    pub duration: Duration,
    /// The beginning of a run that does not count.
    pub warmup: Duration,
}

/// Least accepted ratios of weft's goodput over all links to that of others; what is none is not asked for.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Least {
    /// To the best link's through weft.
    pub of_weft: Option<f64>,
    /// To the best link's without a tunnel.
    pub of_plain: Option<f64>,
    /// To BBR's on the first link without a tunnel.
    pub of_bbr: Option<f64>,
}

impl Sweep {
    /// Reads and checks a sweep; `file` names the text in errors.
    ///
    /// # Errors
    /// When the text is not TOML, a key or unit is unknown, or a range is empty.
    pub fn parse(text: &str, file: &str) -> Result<Sweep, ScenarioError> {
        file::read(&Source { file, text })
    }

    /// Runs and judges the mix of one seed: once, and as often as `repeats` says where that was not clear.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn examine<E>(
        &self,
        seed: u64,
        mut run: impl FnMut(&Scenario) -> Result<RunResult, E>,
    ) -> Result<MixResult, E> {
        let scenario = self.scenario(seed);
        let once = Scenario { repeats: 1, ..scenario.clone() };
        let first = self.judge(seed, &scenario, run(&once)?);
        if scenario.repeats == 1 || self.passes(&first, 1.0 + self.clear_by) {
            return Ok(first);
        }
        Ok(self.judge(seed, &scenario, run(&scenario)?))
    }

    /// The scenario of one seed: each link alone without a tunnel, and weft over all of them; from ranges also weft over each link.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let ranges = match &self.source {
            MixSource::Ranges(ranges) => ranges,
            drawn => {
                let mix = draw_mix(seed, *drawn == MixSource::OneLink);
                return Scenario { name: format!("{}-{seed}", self.name), repeats: self.repeats, ..mix };
            }
        };
        let mut rng = Rng::new(seed);
        let count = ranges.links[0] + rng.below(ranges.links[1] - ranges.links[0] + 1);
        let links = (0..count).map(|n| ranges.link(n, &mut rng)).collect();
        Scenario {
            name: format!("{}-{seed}", self.name),
            description: self.description.clone(),
            nodes: ["home".into(), "hub".into()],
            duration: ranges.duration,
            warmup: ranges.warmup,
            repeats: self.repeats,
            seed,
            links,
            vpns: Vec::new(),
            leasable: None,
            flows: vec![Flow::plain("bulk", App::Iperf3, ranges.duration)],
            events: Vec::new(),
            variants: [Kind::EachLink, Kind::BestLink, Kind::WeftEachLink, Kind::Weft].map(Variant::plain).into(),
            grid: None,
        }
    }

    fn judge(&self, seed: u64, scenario: &Scenario, run: RunResult) -> MixResult {
        let is_drawn = !matches!(self.source, MixSource::Ranges(_));
        let goodput = |variant: &VariantResult| if is_drawn { bulk_bps(variant) } else { variant.goodput_bps };
        let named = |name: &str| run.variants.iter().find(|v| v.name == name);
        let best_of = |prefix: &str| {
            let each = run.variants.iter().filter(|v| v.name.starts_with(prefix));
            each.max_by(|a, b| goodput(a).total_cmp(&goodput(b)))
        };
        let bonded = named("weft").map(goodput);
        let (of_weft, of_plain) = (best_of("weft:").map(goodput), best_of("link:").map(goodput));
        let ratio = |other: Option<f64>| Some(bonded? / other.filter(|bps| *bps > 0.0)?);
        let mut mix = MixResult {
            seed,
            links: scenario.links.iter().map(describe).collect(),
            bonded_bps: bonded,
            best_link_through_weft_bps: of_weft,
            best_link_bps: of_plain,
            of_best_link_through_weft: ratio(of_weft),
            of_best_link: ratio(of_plain),
            drawn: is_drawn.then(|| DrawnMix {
                classes: scenario.links.iter().filter_map(|link| link.class.clone()).collect(),
                flows: flow_counts(scenario),
                bbr_bps: named("bbr").map(goodput),
                of_bbr: ratio(named("bbr").map(goodput)),
                efficiency: named("weft").map(|variant| variant.efficiency),
                ping_ms_p95: named("weft").and_then(ping_ms_p95),
                plain_ping_ms_p95: best_of("link:").and_then(ping_ms_p95),
                base_rtt_ms: scenario.links.iter().map(Link::base_rtt).min().map_or(0.0, |rtt| rtt.as_secs_f64() * 1e3),
            }),
            pass: false,
            run,
        };
        mix.pass = self.passes(&mix, 1.0);
        mix
    }

    fn passes(&self, mix: &MixResult, factor: f64) -> bool {
        let Least { of_weft, of_plain, of_bbr } = self.least;
        let reaches = |ratio: Option<f64>, least: Option<f64>| {
            least.is_none_or(|least| ratio.is_some_and(|r| r >= least * factor))
        };
        reaches(mix.of_best_link_through_weft, of_weft)
            && reaches(mix.of_best_link, of_plain)
            && reaches(mix.drawn.as_ref().and_then(|drawn| drawn.of_bbr), of_bbr)
    }
}

impl MixRanges {
    fn link(&self, number: u64, rng: &mut Rng) -> Link {
        let [least, most] = self.rate.map(|rate| (rate.bps() as f64).ln());
        let rate = Rate::from_bps((least + (most - least) * rng.unit()).exp() as u64);
        let delay = self.delay[0] + (self.delay[1] - self.delay[0]).mul_f64(rng.unit());
        let loss = self.loss[0] + (self.loss[1] - self.loss[0]) * rng.unit();
        Link::symmetric(format!("link{number}"), rate, delay, loss, self.queue)
    }
}

/// What all bulk flows got together, both ways.
fn bulk_bps(variant: &VariantResult) -> f64 {
    let is_bulk = |flow: &&FlowResult| flow.name != "ping";
    variant.flows.iter().filter(is_bulk).filter_map(|flow| flow.goodput_bps).sum()
}

fn ping_ms_p95(variant: &VariantResult) -> Option<f64> {
    variant.flows.iter().find(|flow| flow.name == "ping")?.rtt_ms_p95
}

/// How many bulk flows go which way.
fn flow_counts(scenario: &Scenario) -> String {
    let count =
        |direction| scenario.flows.iter().filter(|flow| flow.app.is_tcp() && flow.direction == direction).count();
    match (count(FlowDirection::Down), count(FlowDirection::Up)) {
        (down, 0) => format!("{down} down"),
        (0, up) => format!("{up} up"),
        (down, up) => format!("{down} down, {up} up"),
    }
}

/// Rates, round trip, loss and class of a link, the rate first.
fn describe(link: &Link) -> String {
    let (Capacity::Rate(rate), None) = (&link.up.capacity, &link.class) else { return describe_drawn(link) };
    format!("{rate} {:.0} ms {:.2} %", link.up.delay.as_secs_f64() * 1e3, link.up.loss * 100.0)
}

fn describe_drawn(link: &Link) -> String {
    let rate = |direction: &DirectionSpec| match &direction.capacity {
        Capacity::Rate(rate) => *rate,
        Capacity::Trace(name) => crate::traces::synthetic_rate(name),
    };
    let mbps = |direction: &DirectionSpec| rate(direction).bps() as f64 / 1e6;
    let bursts = link.down.impairments.burst_loss.map_or(0.0, |bursts| bursts.share);
    format!(
        "{:.1}/{:.1} Mbit/s {:.0} ms {:.2} % {}",
        mbps(&link.down),
        mbps(&link.up),
        link.base_rtt().as_secs_f64() * 1e3,
        link.down.loss.max(bursts) * 100.0,
        link.class.as_deref().unwrap_or("plain")
    )
}

/// One mix of links and how weft did.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MixResult {
    /// The seed it came from.
    pub seed: u64,
    /// The links, for people.
    pub links: Vec<String>,
    /// weft over all links, in bit/s.
    pub bonded_bps: Option<f64>,
    /// The best link alone through weft, in bit/s.
    pub best_link_through_weft_bps: Option<f64>,
    /// The best link alone without a tunnel, in bit/s.
    pub best_link_bps: Option<f64>,
    /// bonded / best link through weft.
    pub of_best_link_through_weft: Option<f64>,
    /// bonded / best link without a tunnel.
    pub of_best_link: Option<f64>,
    /// What is asked of mixes from the whole class of links.
    #[serde(flatten, skip_serializing_if = "Option::is_none", default)]
    pub drawn: Option<DrawnMix>,
    /// Whether all ratios that are asked for are reached.
    pub pass: bool,
    /// The whole result.
    pub run: RunResult,
}

/// How weft did in a mix from the whole class of links.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DrawnMix {
    /// The class of each link.
    pub classes: Vec<String>,
    /// How many bulk flows go which way.
    pub flows: String,
    /// BBR on the first link without a tunnel, in bit/s.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bbr_bps: Option<f64>,
    /// weft / BBR.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_bbr: Option<f64>,
    /// Goodput of weft / bound, in the bound's direction.
    pub efficiency: Option<f64>,
    /// 95th percentile of the ping's round trip through loaded weft, in milliseconds.
    pub ping_ms_p95: Option<f64>,
    /// The same on the best link without a tunnel.
    pub plain_ping_ms_p95: Option<f64>,
    /// Least round trip of an empty link, in milliseconds.
    pub base_rtt_ms: f64,
}

/// The result of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SweepResult {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// The sweep's name.
    pub sweep: String,
    /// `lab` or `sim`.
    pub world: String,
    /// One for each seed.
    pub mixes: Vec<MixResult>,
    /// Whether every mix passed.
    pub pass: bool,
}

#[cfg(test)]
mod tests;
