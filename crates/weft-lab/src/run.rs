//! Runs a whole scenario: every variant and every repeat, one after another. Collects the result.

use crate::LabError;
use crate::measure::{LabLaneRun, LabRunInputs};
use crate::options::RunOptions;
use crate::progress::RunProgress;
use crate::{interrupt, net, scratch};
use std::collections::BTreeMap;
use std::time::Duration;
use weft_scenario::measure::{arrange, predict, variants_to_run, wanted_variants};
use weft_scenario::{RunResult, RunSeries, SCHEMA, Scenario, Skipped, Variant, VariantResult};

/// Maximum number of times that a run is repeated because the emulator delivered its packets too late.
///
/// The last run is then reported.
const LATE_REPEATS: u32 = 2;

/// Runs a scenario on this machine's kernel, with real namespaces and applications.
///
/// If this process is not root, call the function before the process starts a thread (see
/// [`crate::net::acquire_privilege`]).
///
/// # Errors
/// Returns an error if the lab cannot be built or if the user interrupts. Also fails if the scenario or the
/// options name something that does not exist. A variant whose program is not installed or did not start is
/// no error. [`RunResult::skipped`] lists it with the reason.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunResult, LabError> {
    // This must precede the progress display, which starts the first thread.
    net::acquire_privilege()?;
    interrupt::watch();
    scratch::remove_stale();
    let traces = scenario.load_traces(options.traces.as_deref()).map_err(|e| LabError::Scenario(e.to_string()))?;
    let bench = LabRunInputs { scenario, traces: &traces, options };
    let repeats = options.repeat.unwrap_or(scenario.repeats).max(1);
    let wanted = wanted_variants(scenario, &options.variants).map_err(LabError::Scenario)?;
    let to_run = variants_to_run(&wanted);
    let mut campaign = LabCampaign {
        bench: &bench,
        progress: RunProgress::new(options.progress, to_run.len() * repeats as usize, scenario.duration),
        runs: BTreeMap::new(),
        order: Vec::new(),
        skipped: Vec::new(),
        done: 0,
    };
    for repeat in 0..repeats {
        for variant in &to_run {
            campaign.step(variant, repeat, repeats)?;
        }
    }
    let LabCampaign { runs, order, skipped, .. } = campaign;
    let mut result = RunResult {
        schema: SCHEMA,
        scenario: scenario.name.clone(),
        world: "lab".into(),
        seed: scenario.seed,
        duration_s: scenario.duration.as_secs_f64(),
        warmup_s: scenario.warmup.as_secs_f64(),
        repeats,
        bound_bps: bench.bound_bps(),
        variants: Vec::new(),
        skipped,
    };
    let measured = measured_results(scenario, &runs, &order);
    result.variants = arrange(&wanted, &measured, &to_run);
    predict(scenario, &wanted, &mut result.variants);
    if let Some(out) = &options.out {
        let of_run = |lane: LabLaneRun| RunSeries { goodput_bps: lane.run.goodput_bps, series: lane.series };
        let series = runs.into_iter().map(|(name, lanes)| (name, lanes.into_iter().map(of_run).collect())).collect();
        weft_report::save_run(out, scenario, &result, &series)?;
    }
    Ok(result)
}

/// The scenario with its options, and the runs that have finished.
struct LabCampaign<'a> {
    bench: &'a LabRunInputs<'a>,
    progress: RunProgress,
    /// The finished runs of each lane, by the name under which the result lists the lane.
    runs: BTreeMap<String, Vec<LabLaneRun>>,
    /// Names of the lanes, each with its variant's name, in the order in which the lanes first ran.
    order: Vec<(String, String)>,
    skipped: Vec<Skipped>,
    done: usize,
}

impl LabCampaign<'_> {
    /// Runs one variant once, and again if the emulator delivered packets too late.
    fn step(&mut self, variant: &Variant, repeat: u32, repeats: u32) -> Result<(), LabError> {
        let number = self.done;
        self.done += 1;
        if self.skipped.iter().any(|skipped| skipped.name == variant.name) {
            return Ok(());
        }
        self.progress.begin(number, format!("{} {}/{repeats}", variant.name, repeat + 1));
        let seed = self.bench.scenario.seed.wrapping_add(u64::from(repeat));
        let mut late = 0;
        let lanes = loop {
            let tick = |into: Duration| self.progress.tick(number, into);
            match self.bench.run(variant, seed, self.best_link(), &tick) {
                Ok(lanes) if lanes.iter().all(|lane| lane.is_sound) => break lanes,
                Ok(lanes) => {
                    let lateness_ms = lanes.first().map_or(0.0, |lane| lane.run.lateness_ms_p999);
                    let verdict =
                        if late == LATE_REPEATS { "the result is reported anyway" } else { "the run is repeated" };
                    self.progress.print_line(&format!(
                        "variant {}: the machine was too busy, so packets left {lateness_ms:.1} ms late (p99.9): \
                         {verdict}",
                        variant.name
                    ));
                    if late == LATE_REPEATS {
                        break lanes;
                    }
                    late += 1;
                }
                Err(LabError::Missing(reason)) => {
                    self.progress.print_line(&format!("variant {} is skipped: {reason}", variant.name));
                    self.skipped.push(Skipped { name: variant.name.clone(), reason });
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        };
        for lane in lanes {
            if !self.runs.contains_key(&lane.name) {
                self.order.push((lane.name.clone(), variant.name.clone()));
            }
            self.runs.entry(lane.name.clone()).or_default().push(lane);
        }
        Ok(())
    }

    /// Returns the index of the best single link in the scenario's list of links.
    ///
    /// The best link is the one with the most goodput in its own runs, or without such runs the one with the highest
    /// rate.
    fn best_link(&self) -> usize {
        let measured = self.runs.iter().filter(|(name, _)| name.starts_with("link:"));
        let best = measured.max_by(|(_, a), (_, b)| median_goodput(a).total_cmp(&median_goodput(b)));
        if let Some(link) = best.and_then(|(_, lanes)| lanes.first()?.link) {
            return link;
        }
        let direction = self.bench.direction();
        let rate = |link: &weft_scenario::Link| match &link.towards(direction).capacity {
            weft_scenario::Capacity::Rate(rate) => rate.bps(),
            weft_scenario::Capacity::Trace(name) => {
                self.bench.traces.get(name).map_or(0, |trace| trace.mean_rate().bps())
            }
        };
        let links = self.bench.scenario.links.iter().enumerate();
        links
            .max_by_key(|(position, link)| (rate(link), std::cmp::Reverse(*position)))
            .map_or(0, |(position, _)| position)
    }
}

fn median_goodput(lanes: &[LabLaneRun]) -> f64 {
    weft_scenario::median(lanes.iter().map(|lane| lane.run.goodput_bps)).unwrap_or(0.0)
}

/// The name of a variant in the result, and its measured figures.
type NamedFigures = (String, VariantResult);

fn measured_results(
    scenario: &Scenario,
    runs: &BTreeMap<String, Vec<LabLaneRun>>,
    order: &[(String, String)],
) -> Vec<NamedFigures> {
    let of = |(name, variant): &(String, String)| {
        let lanes = runs.get(name)?;
        let link = lanes.first()?.link.and_then(|l| scenario.links.get(l)).map(|l| l.name.clone());
        let single = lanes.iter().map(|lane| lane.run.clone()).collect();
        Some((variant.clone(), VariantResult::from_runs(name.clone(), link, single)))
    };
    order.iter().filter_map(of).collect()
}
