//! Runs a whole scenario of two nodes: every variant and every repeat, in parallel on the processor's cores.
//!
//! Collects the result.

use super::lane::{SimLane, lanes};
use super::measure::{LaneRun, SimRunInputs};
use super::world::EngineSettings;
use crate::check_duration;
use crate::observers::{self, Observers};
use crate::side_by_side::side_by_side;
use std::collections::BTreeMap;
use std::path::PathBuf;
use weft_scenario::measure::{arrange, predict, variants_to_run, wanted_variants};
use weft_scenario::{
    Capacity, RunResult, RunSeries, SCHEMA, Scenario, Skipped, Traces, Variant, VariantKind, VariantResult, VariantRun,
    median,
};

/// The options of a scenario run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PairOptions {
    /// Names of the variants to run. An empty list selects all variants of the scenario.
    pub variants: Vec<String>,
    /// Number of runs of each variant. `None` selects the scenario's number.
    pub repeat: Option<u32>,
    /// Seed of the first repeat. Each next repeat has the next number. `None` selects the scenario's seed.
    pub seed: Option<u64>,
    /// Number of threads, at least one. The result does not depend on this number.
    pub threads: usize,
    /// The records that each run makes, and the directory for their files. `None`: no records.
    ///
    /// File names contain scenario, variant and run.
    pub looks: Option<(Observers, PathBuf)>,
}

/// The outcome of all runs of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct PairRun {
    /// The figures in the format of all results.
    pub result: RunResult,
    /// The time series of all runs of each lane, by the lane's name.
    pub series: BTreeMap<String, Vec<RunSeries>>,
}

/// Runs a scenario in virtual time.
///
/// `settings` returns the weft settings of a variant. The function calls `done` with the number of finished runs and
/// the number of all runs.
///
/// # Errors
/// Returns an error if the scenario is too long, if there is no such variant, link or flow, or if a variant's settings
/// are wrong. A variant that the simulator cannot run is no error. [`RunResult::skipped`] lists it with the reason.
pub fn run(
    scenario: &Scenario,
    traces: &Traces,
    options: &PairOptions,
    settings: &dyn Fn(&Variant) -> Result<EngineSettings, String>,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<PairRun, String> {
    check_duration(scenario.duration)?;
    let wanted = wanted_variants(scenario, &options.variants)?;
    let to_run = variants_to_run(&wanted);
    let settings_of: BTreeMap<&str, EngineSettings> = (to_run.iter().filter(|variant| variant.kind.is_weft()))
        .map(|variant| Ok((variant.name.as_str(), settings(variant)?)))
        .collect::<Result<_, String>>()?;
    let repeats = options.repeat.unwrap_or(scenario.repeats).max(1);
    let first_seed = options.seed.unwrap_or(scenario.seed);
    // The result contains an upper bound of goodput. It depends on the links' capacities, and these on the seed.
    let scenario = &Scenario { seed: first_seed, ..scenario.clone() };
    check_looks(scenario, options)?;
    let bench = SimRunInputs { scenario, traces, looks: options.looks.as_ref() };
    let mut campaign = Campaign {
        bench: &bench,
        seeds: (0..repeats).map(|n| first_seed.wrapping_add(u64::from(n))).collect(),
        threads: options.threads,
        runs: Vec::new(),
        skipped: Vec::new(),
    };
    let settings_for = |variant: &Variant| settings_of.get(variant.name.as_str()).cloned().unwrap_or_default();
    let (alone, others): (Vec<&Variant>, Vec<&Variant>) = to_run.iter().partition(|v| v.kind == VariantKind::EachLink);
    for stage in [alone, others] {
        let best = campaign.best_link();
        let mut planned = Vec::new();
        for variant in stage {
            if let Some(reason) = lacking(variant) {
                campaign.skipped.push(Skipped { name: variant.name.clone(), reason: reason.to_owned() });
                continue;
            }
            planned.extend(lanes(variant, scenario, settings_for(variant), best));
        }
        campaign.run(&planned, done);
    }
    Ok(campaign.finish(&wanted, &to_run, first_seed, repeats))
}

/// Returns the reason why the simulator cannot run a variant, or `None` if it can.
fn lacking(variant: &Variant) -> Option<&'static str> {
    if !variant.kind.is_weft() {
        return (variant.kind == VariantKind::Ospf).then_some("the simulator has no OSPF: use `weft-lab run`");
    }
    let has = |section| variant.weft.contains_key(section);
    match () {
        () if variant.openvpn.is_some() => Some("the simulator has no OpenVPN inside of weft"),
        () if has("proxy") => Some("the simulator has no proxies"),
        () if has("signal") => Some("the simulator's two nodes do not signal rates"),
        () => None,
    }
}

/// Returns an error if a link or flow that the options want to record does not exist, or if the flow is not TCP.
fn check_looks(scenario: &Scenario, options: &PairOptions) -> Result<(), String> {
    let Some((observers, _)) = &options.looks else { return Ok(()) };
    for name in &observers.captured {
        observers::position(scenario.links.iter().map(|link| link.name.as_str()), name, "link", "capture from")?;
    }
    let Some(name) = &observers.traced else { return Ok(()) };
    let flow = observers::position(scenario.flows.iter().map(|flow| flow.name.as_str()), name, "flow", "trace")?;
    match scenario.flows[flow].app {
        app if app.is_tcp() => Ok(()),
        _ => Err(format!("flow `{name}` does not go over TCP")),
    }
}

impl LaneRun {
    /// Splits the run into its figures and its time series.
    fn apart(self) -> (VariantRun, RunSeries) {
        let series = RunSeries { goodput_bps: self.run.goodput_bps, series: self.series };
        (self.run, series)
    }
}

/// The runs of a scenario so far, and the inputs of all its runs.
struct Campaign<'a> {
    bench: &'a SimRunInputs<'a>,
    seeds: Vec<u64>,
    threads: usize,
    runs: Vec<(SimLane, Vec<LaneRun>)>,
    skipped: Vec<Skipped>,
}

impl Campaign<'_> {
    /// Runs each of these lanes once for each seed.
    fn run(&mut self, lanes: &[SimLane], done: &(dyn Fn(usize, usize) + Sync)) {
        let jobs: Vec<(&SimLane, usize, u64)> = (lanes.iter())
            .flat_map(|lane| self.seeds.iter().zip(1..).map(move |(seed, number)| (lane, number, *seed)))
            .collect();
        let one = |(lane, number, seed): &(&SimLane, usize, u64)| {
            let variant = self.bench.scenario.variants.iter().find(|variant| variant.name == lane.variant);
            let scenario =
                variant.map_or_else(|| self.bench.scenario.clone(), |variant| self.bench.scenario.under(variant));
            SimRunInputs { scenario: &scenario, ..*self.bench }.run(lane, *number, *seed)
        };
        let mut results = side_by_side(self.threads, &jobs, one, done).into_iter();
        for lane in lanes {
            let runs: Result<Vec<LaneRun>, String> = results.by_ref().take(self.seeds.len()).collect();
            match runs {
                Ok(runs) => self.runs.push((lane.clone(), runs)),
                Err(reason) if self.skipped.iter().all(|skipped| skipped.name != lane.variant) => {
                    self.skipped.push(Skipped { name: lane.variant.clone(), reason });
                }
                Err(_) => {}
            }
        }
    }

    /// Returns the position in the scenario of the best single link.
    ///
    /// It is the link with the highest measured goodput, or before any measurement the one with the highest rate.
    fn best_link(&self) -> usize {
        let goodput = |runs: &[LaneRun]| median(runs.iter().map(|lane| lane.run.goodput_bps)).unwrap_or(0.0);
        let measured = self.runs.iter().filter_map(|(lane, runs)| Some((lane.link?, goodput(runs))));
        if let Some((link, _)) = measured.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
            return link;
        }
        let direction = self.bench.direction();
        let rate = |link: &weft_scenario::Link| match &link.towards(direction).capacity {
            Capacity::Rate(rate) => rate.bps(),
            Capacity::Trace(name) => self.bench.traces.get(name).map_or(0, |trace| trace.mean_rate().bps()),
        };
        let links = self.bench.scenario.links.iter().enumerate();
        links.max_by_key(|(n, link)| (rate(link), std::cmp::Reverse(*n))).map_or(0, |(position, _)| position)
    }

    fn finish(self, wanted: &[Variant], to_run: &[Variant], seed: u64, repeats: u32) -> PairRun {
        let Campaign { bench, runs, skipped, .. } = self;
        let scenario = bench.scenario;
        let mut measured = Vec::new();
        let mut series = BTreeMap::new();
        for (lane, runs) in runs {
            let (single, own): (Vec<_>, Vec<_>) = runs.into_iter().map(LaneRun::apart).unzip();
            let link = lane.link.and_then(|l| scenario.links.get(l)).map(|link| link.name.clone());
            let mut result = VariantResult::from_runs(lane.name.clone(), link, single);
            result.note = lane.note.map(str::to_owned);
            measured.push((lane.variant, result));
            series.insert(lane.name, own);
        }
        let mut variants = arrange(wanted, &measured, to_run);
        predict(scenario, wanted, &mut variants);
        let result = RunResult {
            schema: SCHEMA,
            scenario: scenario.name.clone(),
            world: "sim".into(),
            seed,
            duration_s: scenario.duration.as_secs_f64(),
            warmup_s: scenario.warmup.as_secs_f64(),
            repeats,
            bound_bps: bench.bound_bps(),
            variants,
            skipped,
        };
        PairRun { result, series }
    }
}
