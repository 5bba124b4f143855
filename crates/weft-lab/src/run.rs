//! A whole scenario: every variant, every repeat, in turn, and the result.

use crate::LabError;
use crate::measure::{Bench, LaneRun};
use crate::options::RunOptions;
use crate::progress::Progress;
use crate::{interrupt, net, scratch};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use weft_scenario::{
    Kind, Prediction, RunResult, SCHEMA, Scenario, Series, Skipped, Variant, VariantResult, nearest, write_csv,
};

/// How often a run in which the emulator was late is made again.
const LATE_REPEATS: u32 = 2;

/// Runs a scenario on this machine's kernel: real namespaces, real applications.
///
/// Call it from a process that has started no thread yet where that process is not root (see [`crate::net::acquire_privilege`]).
///
/// # Errors
/// When the lab cannot be built, a scenario asks for what is not there, or the user interrupts. A variant that cannot be run, because its program is not
/// installed or did not start, is no error: it is listed in [`RunResult::skipped`] with the reason.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunResult, LabError> {
    // Before the progress display starts the first thread.
    net::acquire_privilege()?;
    interrupt::watch();
    scratch::remove_stale();
    let traces = scenario.load_traces(options.traces.as_deref()).map_err(|e| LabError::Scenario(e.to_string()))?;
    let bench = Bench { scenario, traces: &traces, options };
    let repeats = options.repeat.unwrap_or(scenario.repeats).max(1);
    let wanted = wanted_variants(scenario, options)?;
    let to_run = variants_to_run(&wanted);
    let mut campaign = Campaign {
        bench: &bench,
        progress: Progress::new(options.progress, to_run.len() * repeats as usize, scenario.duration),
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
    let Campaign { runs, order, skipped, .. } = campaign;
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
        fs::create_dir_all(out)?;
        save(out, scenario, &runs, &result)?;
    }
    Ok(result)
}

/// The variants asked for, in the scenario's order.
fn wanted_variants(scenario: &Scenario, options: &RunOptions) -> Result<Vec<Variant>, LabError> {
    let names = || scenario.variants.iter().map(|v| v.name.as_str());
    for name in &options.variants {
        if names().any(|known| known == name) || Kind::ALL.iter().any(|(word, _)| word == name) {
            continue;
        }
        let all = names().chain(Kind::ALL.iter().map(|(word, _)| *word));
        let hint = nearest(name, all).map_or(String::new(), |known| format!("; did you mean `{known}`?"));
        let list = names().collect::<Vec<_>>().join(", ");
        return Err(LabError::Scenario(format!("there is no variant `{name}` (the scenario has {list}){hint}")));
    }
    if options.variants.is_empty() {
        return Ok(scenario.variants.clone());
    }
    let of_name = |name: &String| {
        let known = scenario.variants.iter().find(|v| v.name == *name).cloned();
        known.or_else(|| Kind::ALL.iter().find(|(word, _)| word == name).map(|(_, kind)| Variant::plain(*kind)))
    };
    Ok(options.variants.iter().filter_map(of_name).collect())
}

/// What must really be run: `each-link` stands in for `best-link` and goes first, because others ask which link is best.
fn variants_to_run(wanted: &[Variant]) -> Vec<Variant> {
    let needs_each = |v: &Variant| matches!(v.kind, Kind::EachLink | Kind::BestLink);
    let first = wanted.iter().any(needs_each).then(|| Variant::plain(Kind::EachLink));
    first.into_iter().chain(wanted.iter().filter(|v| !needs_each(v)).cloned()).collect()
}

/// The runs so far.
struct Campaign<'a> {
    bench: &'a Bench<'a>,
    progress: Progress,
    /// Per name in the results.
    runs: BTreeMap<String, Vec<LaneRun>>,
    /// Names in the order they first came, with the variant they belong to.
    order: Vec<(String, String)>,
    skipped: Vec<Skipped>,
    done: usize,
}

impl Campaign<'_> {
    /// Runs one variant once, again if the emulator was late.
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
                    let verdict = if late == LATE_REPEATS { "reported all the same" } else { "run again" };
                    self.progress.say(&format!(
                        "{}: the machine was busy (p99.9 lateness {lateness_ms:.1} ms): {verdict}",
                        variant.name
                    ));
                    if late == LATE_REPEATS {
                        break lanes;
                    }
                    late += 1;
                }
                Err(LabError::Missing(reason)) => {
                    self.progress.say(&format!("{} is skipped: {reason}", variant.name));
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

    /// The position of the best single link: by what was measured, or else by its rate.
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

fn median_goodput(lanes: &[LaneRun]) -> f64 {
    weft_scenario::median(lanes.iter().map(|lane| lane.run.goodput_bps)).unwrap_or(0.0)
}

/// One measured result: the variant it belongs to, and its figures.
type Measured = (String, VariantResult);

fn measured_results(
    scenario: &Scenario,
    runs: &BTreeMap<String, Vec<LaneRun>>,
    order: &[(String, String)],
) -> Vec<Measured> {
    let of = |(name, variant): &(String, String)| {
        let lanes = runs.get(name)?;
        let link = lanes.first()?.link.and_then(|l| scenario.links.get(l)).map(|l| l.name.clone());
        let single = lanes.iter().map(|lane| lane.run.clone()).collect();
        Some((variant.clone(), VariantResult::from_runs(name.clone(), link, single)))
    };
    order.iter().filter_map(of).collect()
}

/// The results in the order of the scenario's variants, with `best-link` picked from `each-link`.
fn arrange(wanted: &[Variant], measured: &[Measured], to_run: &[Variant]) -> Vec<VariantResult> {
    let each_link = to_run.iter().find(|v| v.kind == Kind::EachLink).map(|v| v.name.clone()).unwrap_or_default();
    let of = |name: &str| {
        measured.iter().filter(|(variant, _)| variant == name).map(|(_, result)| result.clone()).collect::<Vec<_>>()
    };
    let results = wanted.iter().flat_map(|variant| match variant.kind {
        Kind::EachLink => of(&each_link),
        Kind::BestLink => {
            let best = of(&each_link).into_iter().max_by(|a, b| a.goodput_bps.total_cmp(&b.goodput_bps));
            best.map(|best| VariantResult { name: variant.name.clone(), ..best }).into_iter().collect()
        }
        _ => of(&variant.name),
    });
    results.collect()
}

/// Strict weighted round robin's law for every variant with static weights: min over links of Cᵢ·Σw/wᵢ.
fn predict(scenario: &Scenario, wanted: &[Variant], results: &mut [VariantResult]) {
    let Some(alone) = wanted.iter().find(|v| v.kind == Kind::WeftEachLink) else { return };
    let prefix = if alone.name == alone.kind.word() { "weft" } else { &alone.name };
    let capacity = |link: &str| results.iter().find(|r| r.name == format!("{prefix}:{link}")).map(|r| r.goodput_bps);
    let capacities: BTreeMap<&str, f64> =
        scenario.links.iter().filter_map(|l| Some((l.name.as_str(), capacity(&l.name)?))).collect();
    for variant in wanted.iter().filter(|v| v.kind == Kind::Weft) {
        let Some(goodput_bps) = variant.weights().and_then(|weights| weighted_law(&weights, &capacities)) else {
            continue;
        };
        for result in results.iter_mut().filter(|r| r.name == variant.name) {
            result.prediction = Some(Prediction { goodput_bps, deviation: result.goodput_bps / goodput_bps - 1.0 });
        }
    }
}

fn weighted_law(weights: &[(String, u32)], capacities: &BTreeMap<&str, f64>) -> Option<f64> {
    let sum: f64 = weights.iter().map(|(_, weight)| f64::from(*weight)).sum();
    let used = weights.iter().filter(|(_, weight)| *weight > 0);
    let shares = used.map(|(link, weight)| Some(capacities.get(link.as_str())? * sum / f64::from(*weight)));
    shares.collect::<Option<Vec<f64>>>()?.into_iter().min_by(f64::total_cmp)
}

fn save(
    out: &std::path::Path,
    scenario: &Scenario,
    runs: &BTreeMap<String, Vec<LaneRun>>,
    result: &RunResult,
) -> Result<(), LabError> {
    for (name, lanes) in runs {
        for (number, lane) in lanes.iter().enumerate() {
            let file = format!("{}-{}-{}.csv", scenario.name, name.replace([':', '/'], "-"), number + 1);
            write_csv(&out.join(file), &lane.series)?;
        }
    }
    let json = serde_json::to_string_pretty(result).map_err(std::io::Error::other)?;
    fs::write(out.join(format!("{}.json", scenario.name)), json)?;
    let shown: BTreeMap<&str, &[Series]> =
        runs.iter().filter_map(|(name, lanes)| Some((name.as_str(), middle(lanes)?.series.as_slice()))).collect();
    weft_report::run_picture(&out.join(format!("{}.svg", scenario.name)), scenario, result, &shown)?;
    Ok(())
}

/// The run whose goodput is the median's, or next above it.
fn middle(lanes: &[LaneRun]) -> Option<&LaneRun> {
    let mut sorted: Vec<&LaneRun> = lanes.iter().collect();
    sorted.sort_by(|a, b| a.run.goodput_bps.total_cmp(&b.run.goodput_bps));
    sorted.get(lanes.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_of_strict_round_robin_gives_table_one() {
        let capacities = BTreeMap::from([("a", 94.0), ("b", 94.0), ("c", 94.0)]);
        let law = |w: [u32; 3]| {
            let weights: Vec<(String, u32)> = ["a", "b", "c"].map(String::from).into_iter().zip(w).collect();
            weighted_law(&weights, &capacities).unwrap().round()
        };
        assert_eq!([law([2, 2, 2]), law([2, 2, 4]), law([2, 3, 3]), law([3, 4, 4])], [282.0, 188.0, 251.0, 259.0]);
    }

    #[test]
    fn best_link_needs_each_link_and_no_run_of_its_own() {
        let wanted = [Kind::BestLink, Kind::Mptcp].map(Variant::plain);
        let kinds: Vec<Kind> = variants_to_run(&wanted).iter().map(|v| v.kind).collect();
        assert_eq!(kinds, [Kind::EachLink, Kind::Mptcp]);
    }

    #[test]
    fn an_unknown_variant_is_refused_with_the_nearest() {
        let scenario =
            Scenario::parse("name=\"t\"\nduration=\"1 s\"\n[[link]]\nname=\"a\"\nrate=\"1 Mbit/s\"", "t").unwrap();
        let options = RunOptions { variants: vec!["mptpc".into()], ..RunOptions::default() };
        let error = wanted_variants(&scenario, &options).unwrap_err().to_string();
        assert!(error.contains("did you mean `mptcp`?"), "{error}");
    }
}
