//! Sweeps: many random mixes of links, one for each seed of a fixed list.

use crate::error::Source;
use crate::file::SweepFile;
use crate::{App, Flow, Kind, Link, QueueSize, RunResult, Scenario, ScenarioError, Variant};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use toml::Spanned;
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
    /// Runs of each variant of a mix whose first run is not clear; its medians count.
    pub repeats: u32,
    /// A mix is clear where it passes with so much to spare, as a fraction of what is asked for.
    pub clear_by: f64,
    /// Least accepted ratio of bonded goodput to the best link's through weft.
    pub least_of_weft: f64,
    /// Least accepted ratio of bonded goodput to the best link's without a tunnel.
    pub least_of_plain: f64,
}

impl Sweep {
    /// Reads and checks a sweep; `file` names the text in errors.
    ///
    /// # Errors
    /// When the text is not TOML, a key or unit is unknown, or a range is empty.
    pub fn parse(text: &str, file: &str) -> Result<Sweep, ScenarioError> {
        let source = Source { file, text };
        let read: SweepFile = toml::from_str(text).map_err(|e| source.toml_error(&e))?;
        let rate = ordered(&source, &read.rate, |q| q.0)?;
        let delay = ordered(&source, &read.delay, |q| q.0)?;
        let loss = ordered(&source, &read.loss, |q| q.0.0)?;
        let links = ordered(&source, &read.links, |n| *n)?;
        if !(1..=16).contains(&links[0]) || links[1] > 16 {
            return Err(source.error(read.links.span().start, "a mix has 1 to 16 links"));
        }
        if read.seeds.get_ref().is_empty() {
            return Err(source.error(read.seeds.span().start, "at least one seed is needed"));
        }
        let duration = read.duration.get_ref().0;
        let warmup = read.warmup.as_ref().map_or(Duration::ZERO, |w| w.get_ref().0);
        if warmup >= duration {
            let place = read.warmup.as_ref().map_or(read.duration.span().start, |w| w.span().start);
            return Err(source.error(place, "the warm-up must be shorter than the run"));
        }
        Ok(Sweep {
            name: read.name,
            description: read.description,
            seeds: read.seeds.into_inner(),
            links,
            rate,
            delay,
            loss,
            queue: read.queue.map_or(QueueSize::Bdp(1.5), |q| q.0),
            duration,
            warmup,
            repeats: read.repeats.into_inner().max(1),
            clear_by: read.clear_by.map_or(0.0, |q| q.0.0),
            least_of_weft: read.least.of_weft,
            least_of_plain: read.least.of_plain,
        })
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
        let first = self.judge(seed, &scenario.links, run(&once)?);
        if scenario.repeats == 1 || self.passes(&first, 1.0 + self.clear_by) {
            return Ok(first);
        }
        Ok(self.judge(seed, &scenario.links, run(&scenario)?))
    }

    /// The scenario of one seed: each link alone without and with weft, and weft over all of them.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let mut rng = Rng::new(seed);
        let count = self.links[0] + rng.below(self.links[1] - self.links[0] + 1);
        let links = (0..count).map(|n| self.link(n, &mut rng)).collect();
        Scenario {
            name: format!("{}-{seed}", self.name),
            description: self.description.clone(),
            nodes: ["home".into(), "hub".into()],
            duration: self.duration,
            warmup: self.warmup,
            repeats: self.repeats,
            seed,
            links,
            vpns: Vec::new(),
            leasable: None,
            flows: vec![Flow::plain("bulk", App::Iperf3, self.duration)],
            events: Vec::new(),
            variants: [Kind::EachLink, Kind::BestLink, Kind::WeftEachLink, Kind::Weft].map(Variant::plain).into(),
            grid: None,
        }
    }

    fn link(&self, number: u64, rng: &mut Rng) -> Link {
        let [least, most] = self.rate.map(|rate| (rate.bps() as f64).ln());
        let rate = Rate::from_bps((least + (most - least) * rng.unit()).exp() as u64);
        let delay = self.delay[0] + (self.delay[1] - self.delay[0]).mul_f64(rng.unit());
        let loss = self.loss[0] + (self.loss[1] - self.loss[0]) * rng.unit();
        Link::symmetric(format!("link{number}"), rate, delay, loss, self.queue)
    }

    fn judge(&self, seed: u64, links: &[Link], run: RunResult) -> MixResult {
        let goodput = |name: &str| run.variants.iter().find(|v| v.name == name).map(|v| v.goodput_bps);
        let best_of = |prefix: &str| {
            let each = run.variants.iter().filter(|v| v.name.starts_with(prefix)).map(|v| v.goodput_bps);
            each.max_by(f64::total_cmp)
        };
        let (bonded, of_weft, of_plain) = (goodput("weft"), best_of("weft:"), best_of("link:"));
        let ratio = |other: Option<f64>| Some(bonded? / other.filter(|bps| *bps > 0.0)?);
        let mut mix = MixResult {
            seed,
            links: links.iter().map(describe).collect(),
            bonded_bps: bonded,
            best_link_through_weft_bps: of_weft,
            best_link_bps: of_plain,
            of_best_link_through_weft: ratio(of_weft),
            of_best_link: ratio(of_plain),
            pass: false,
            run,
        };
        mix.pass = self.passes(&mix, 1.0);
        mix
    }

    fn passes(&self, mix: &MixResult, factor: f64) -> bool {
        let reaches = |ratio: Option<f64>, least: f64| ratio.is_some_and(|r| r >= least * factor);
        reaches(mix.of_best_link_through_weft, self.least_of_weft) && reaches(mix.of_best_link, self.least_of_plain)
    }
}

fn describe(link: &Link) -> String {
    let crate::Capacity::Rate(rate) = &link.up.capacity else { return link.name.clone() };
    format!("{rate} {:.0} ms {:.2} %", link.up.delay.as_secs_f64() * 1e3, link.up.loss * 100.0)
}

fn ordered<Q, T: PartialOrd + Copy>(
    source: &Source,
    range: &Spanned<[Q; 2]>,
    value: fn(&Q) -> T,
) -> Result<[T; 2], ScenarioError> {
    let [least, most] = range.get_ref().each_ref().map(value);
    if least <= most {
        Ok([least, most])
    } else {
        Err(source.error(range.span().start, "the range must be written [least, most]"))
    }
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
    /// Whether both ratios are reached.
    pub pass: bool,
    /// The whole result.
    pub run: RunResult,
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
mod tests {
    use super::*;
    use crate::VariantResult;

    const SWEEP: &str = r#"
name = "s"
seeds = [1, 2, 3]
links = [2, 4]
rate = ["1 Mbit/s", "100 Mbit/s"]
delay = ["1 ms", "200 ms"]
loss = ["0 %", "3 %"]
duration = "20 s"
warmup = "5 s"
least = { of-best-link-through-weft = 0.98, of-best-link = 0.93 }
"#;

    #[test]
    fn a_seed_always_gives_the_same_mix_within_the_ranges() {
        let sweep = Sweep::parse(SWEEP, "s.toml").unwrap();
        assert_eq!(sweep.scenario(7), sweep.scenario(7));
        assert_ne!(sweep.scenario(7).links, sweep.scenario(8).links);
        for seed in 0..200 {
            let links = sweep.scenario(seed).links;
            assert!((2..=4).contains(&links.len()));
            for link in links {
                let crate::Capacity::Rate(rate) = link.up.capacity else { panic!("a constant rate is drawn") };
                assert!((Rate::from_bps(999_999)..=Rate::from_mbps(100)).contains(&rate), "{rate}");
                assert!((Duration::from_millis(1)..=Duration::from_millis(200)).contains(&link.up.delay));
                assert!((0.0..=0.03).contains(&link.up.loss));
            }
        }
    }

    /// What a run gives whose bonded goodput is `bonded` and whose best link's is 1.
    fn ran(scenario: &Scenario, bonded: f64) -> RunResult {
        let variant = |name: &str, goodput_bps| VariantResult {
            name: name.into(),
            goodput_bps,
            efficiency: goodput_bps,
            link: None,
            note: None,
            setup_ms: None,
            prediction: None,
            flows: Vec::new(),
            links: Vec::new(),
            vpn_fairness: None,
            vpns: Vec::new(),
            events: Vec::new(),
            disturbances: Vec::new(),
            runs: Vec::new(),
        };
        RunResult {
            schema: crate::SCHEMA,
            scenario: scenario.name.clone(),
            world: "sim".into(),
            seed: 1,
            duration_s: 1.0,
            warmup_s: 0.0,
            repeats: scenario.repeats,
            bound_bps: 1.0,
            variants: vec![variant("weft", bonded), variant("weft:link0", 1.0), variant("link:link0", 1.0)],
            skipped: Vec::new(),
        }
    }

    #[test]
    fn what_is_not_clear_after_one_run_is_judged_by_all() {
        let text = SWEEP.replace("least", "repeats = 3\nclear-by = \"20 %\"\nleast");
        let sweep = Sweep::parse(&text, "s.toml").unwrap();
        for (first, later, runs, pass) in [
            (1.2, 0.5, vec![1], true),
            (1.1, 1.0, vec![1, 3], true),
            (1.1, 0.9, vec![1, 3], false),
            (0.1, 1.0, vec![1, 3], true),
        ] {
            let mut made = Vec::new();
            let mix = sweep.examine(1, |scenario| {
                made.push(scenario.repeats);
                Ok::<_, ()>(ran(scenario, if scenario.repeats == 1 { first } else { later }))
            });
            assert_eq!((made, mix.unwrap().pass), (runs, pass), "{first}, then {later}");
        }
    }

    #[test]
    fn an_empty_range_is_refused_at_its_place() {
        let error = Sweep::parse(&SWEEP.replace("[2, 4]", "[4, 2]"), "s.toml").unwrap_err();
        assert_eq!((error.line, error.column), (4, 9));
        assert!(error.message.contains("[least, most]"));
    }
}
