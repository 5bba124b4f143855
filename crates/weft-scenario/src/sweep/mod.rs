//! Runs sweeps: many random mixes of links, one for each seed of a list.
//!
//! For each seed, a sweep makes a scenario, passes it to the caller's `run` function, and judges the result. It never
//! runs a scenario itself.

mod file;

use crate::draw::{draw_mix, log_even};
use crate::error::Source;
use crate::{
    App, Capacity, DirectionSpec, Flow, FlowDirection, FlowResult, Link, QueueSize, RunResult, Scenario, ScenarioError,
    Variant, VariantKind, VariantResult,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use weft_units::{Rate, Rng};

/// The description of a sweep: how mixes are drawn, how often they run, and what they must reach.
#[derive(Clone, PartialEq, Debug)]
pub struct Sweep {
    /// Name of the sweep in the results.
    pub name: String,
    /// One sentence that describes the sweep to people.
    pub description: String,
    /// Seeds of the sweep, one for each mix.
    pub seeds: Vec<u64>,
    /// The links from which mixes are drawn.
    pub source: MixSource,
    /// Number of runs of each variant in the second round of a mix.
    ///
    /// A mix gets a second round if its first run did not pass by the margin `clear_by`. The medians of the second
    /// round then decide.
    pub repeats: u32,
    /// Margin by which the first run of a mix must exceed every required ratio to be accepted without a second round.
    ///
    /// It is a fraction of the required ratio.
    pub clear_by: f64,
    /// The ratios of goodputs that each mix must reach to pass.
    pub least: Least,
}

/// The links from which the mixes of a sweep are drawn.
#[derive(Clone, PartialEq, Debug)]
pub enum MixSource {
    /// Links without impairments, whose properties are drawn from given ranges.
    Ranges(MixRanges),
    /// A single link from the whole range of real links ([`crate::draw::draw_mix`]).
    OneLink,
    /// Two to twelve links from the whole range of real links.
    Bundle,
}

/// Ranges of the properties of links without impairments, and the length of their runs.
#[derive(Clone, PartialEq, Debug)]
pub struct MixRanges {
    /// Least and greatest number of links in a mix.
    pub links: [u64; 2],
    /// Least and greatest rate of a link, which is drawn from a log-uniform distribution.
    pub rate: [Rate; 2],
    /// Least and greatest one-way delay, drawn from a uniform distribution.
    pub delay: [Duration; 2],
    /// Least and greatest loss probability, drawn from a uniform distribution.
    pub loss: [f64; 2],
    /// Queue size of every link.
    pub queue: QueueSize,
    /// Duration of a run.
    pub duration: Duration,
    /// Time at the start of a run that the results leave out.
    pub warmup: Duration,
}

/// Least accepted ratios of weft's goodput over all links to other goodputs.
///
/// `None` sets no requirement.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Least {
    /// Least ratio of weft's goodput over all links to that of weft over the best link alone.
    pub of_weft: Option<f64>,
    /// Least ratio of weft's goodput over all links to that of the best link without a tunnel.
    pub of_plain: Option<f64>,
    /// Least ratio of weft's goodput over all links to that of BBR on the first link without a tunnel.
    pub of_bbr: Option<f64>,
}

impl Sweep {
    /// Reads and checks a sweep. `file` is the name that error messages give to the text.
    ///
    /// # Errors
    /// Fails if the text is not TOML, a key or unit is unknown, or a range is empty.
    pub fn parse(text: &str, file: &str) -> Result<Sweep, ScenarioError> {
        file::read(&Source { file, text })
    }

    /// Runs and judges the mix of one seed.
    ///
    /// It runs the mix once, and again `repeats` times if the first run did not pass by the margin `clear_by`. It runs
    /// scenarios by `run`.
    ///
    /// # Errors
    /// Returns the errors of `run`.
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

    /// Returns the scenario of the mix with this seed.
    ///
    /// It compares each link without a tunnel with weft over all links. A mix from ranges also has weft over each link.
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
            hosts: Vec::new(),
            flows: vec![Flow::plain("bulk", App::Iperf3, ranges.duration)],
            events: Vec::new(),
            variants: [VariantKind::EachLink, VariantKind::BestLink, VariantKind::WeftEachLink, VariantKind::Weft]
                .map(Variant::plain)
                .into(),
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
        let [least, most] = self.rate.map(|rate| rate.bps() as f64);
        let rate = Rate::from_bps(log_even(rng, least, most) as u64);
        let delay = self.delay[0] + (self.delay[1] - self.delay[0]).mul_f64(rng.unit());
        let loss = self.loss[0] + (self.loss[1] - self.loss[0]) * rng.unit();
        Link::symmetric(format!("link{number}"), rate, delay, loss, self.queue)
    }
}

/// Returns the total goodput of all flows but the ping, in both directions, in bit/s.
fn bulk_bps(variant: &VariantResult) -> f64 {
    let is_bulk = |flow: &&FlowResult| flow.name != "ping";
    variant.flows.iter().filter(is_bulk).filter_map(|flow| flow.goodput_bps).sum()
}

fn ping_ms_p95(variant: &VariantResult) -> Option<f64> {
    variant.flows.iter().find(|flow| flow.name == "ping")?.rtt_ms_p95
}

/// Returns the number of bulk flows in each direction as text.
fn flow_counts(scenario: &Scenario) -> String {
    let count =
        |direction| scenario.flows.iter().filter(|flow| flow.app.is_tcp() && flow.direction == direction).count();
    match (count(FlowDirection::Down), count(FlowDirection::Up)) {
        (down, 0) => format!("{down} down"),
        (0, up) => format!("{up} up"),
        (down, up) => format!("{down} down, {up} up"),
    }
}

/// Returns the description of a link for people: rates, delay, loss and class. It begins with the rate.
fn describe(link: &Link) -> String {
    let (Capacity::Rate(rate), None) = (&link.up.capacity, &link.class) else { return describe_drawn(link) };
    format!("{rate} delay {:.0} ms loss {:.2} %", link.up.delay.as_secs_f64() * 1e3, link.up.loss * 100.0)
}

fn describe_drawn(link: &Link) -> String {
    let rate = |direction: &DirectionSpec| match &direction.capacity {
        Capacity::Rate(rate) => *rate,
        Capacity::Trace(name) => crate::load_traces::synthetic_rate(name),
    };
    let mbps = |direction: &DirectionSpec| rate(direction).bps() as f64 / 1e6;
    let bursts = link.down.impairments.burst_loss.map_or(0.0, |bursts| bursts.share);
    format!(
        "{:.1}/{:.1} Mbit/s down/up RTT {:.0} ms loss {:.2} % {}",
        mbps(&link.down),
        mbps(&link.up),
        link.base_rtt().as_secs_f64() * 1e3,
        link.down.loss.max(bursts) * 100.0,
        link.class.as_deref().unwrap_or("plain")
    )
}

/// The result of one mix: its links, and the goodputs over them with and without weft.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MixResult {
    /// Seed of the mix.
    pub seed: u64,
    /// Descriptions of the links for people.
    pub links: Vec<String>,
    /// Goodput of weft over all links of the mix, in bit/s.
    pub bonded_bps: Option<f64>,
    /// Goodput of weft over the best link alone, in bit/s.
    pub best_link_through_weft_bps: Option<f64>,
    /// Goodput of the best link without a tunnel, in bit/s.
    pub best_link_bps: Option<f64>,
    /// Goodput of weft over all links, divided by that of weft over the best link alone.
    pub of_best_link_through_weft: Option<f64>,
    /// Goodput of weft over all links, divided by that of the best link without a tunnel.
    pub of_best_link: Option<f64>,
    /// Further measurements, if the mix was drawn from the whole range of real links.
    #[serde(flatten, skip_serializing_if = "Option::is_none", default)]
    pub drawn: Option<DrawnMix>,
    /// True if weft's goodput reached all ratios that the sweep requires.
    pub pass: bool,
    /// The complete result of the run by which the mix was judged.
    pub run: RunResult,
}

/// Further measurements of a mix that was drawn from the whole range of real links.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DrawnMix {
    /// The class of each link, with its kind of loss.
    pub classes: Vec<String>,
    /// Number of bulk flows in each direction, as text.
    pub flows: String,
    /// Goodput of BBR on the first link without a tunnel, in bit/s.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bbr_bps: Option<f64>,
    /// Goodput of weft over all links divided by that of BBR on the first link without a tunnel.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_bbr: Option<f64>,
    /// Goodput of weft divided by the greatest goodput that the links allow, in the direction of the first bulk flow.
    pub efficiency: Option<f64>,
    /// 95th percentile of the ping's round-trip time through weft while the bulk flows send, in milliseconds.
    pub ping_ms_p95: Option<f64>,
    /// 95th percentile of the ping's round-trip time over the best link without a tunnel, in milliseconds.
    pub plain_ping_ms_p95: Option<f64>,
    /// Least of the links' round-trip times when their queues are empty, in milliseconds.
    pub base_rtt_ms: f64,
}

/// The result of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SweepResult {
    /// Version of the format: [`crate::SCHEMA`].
    pub schema: u32,
    /// Name of the sweep.
    pub sweep: String,
    /// The world in which the sweep ran: `lab` or `sim`.
    pub world: String,
    /// Results of the mixes, one for each seed.
    pub mixes: Vec<MixResult>,
    /// True if every mix passed: weft's goodput reached all required ratios on it.
    pub pass: bool,
}

#[cfg(test)]
mod tests;
