//! Scenarios in virtual time, and what their results say.

use crate::topic::Context;
use std::path::Path;
use weft_scenario::{FlowResult, Kind, RunResult, Scenario, Variant, VariantResult};
use weft_world::pair::{EngineSettings, PairOptions, PairRun, run};
use weft_world::side_by_side;

/// Runs one scenario on this thread. Traces that `traces` does not hold are made from the seed.
///
/// # Errors
/// When a trace cannot be read or the scenario cannot be run.
pub fn play(scenario: &Scenario, traces: Option<&Path>) -> Result<PairRun, String> {
    let traces = scenario.load_traces(traces).map_err(|why| why.to_string())?;
    let options = PairOptions { threads: 1, ..PairOptions::default() };
    run(scenario, &traces, &options, &|_| Ok(EngineSettings::default()), &|_, _| ())
}

/// Does `work` for every case, on all threads. The results are in the order of the cases.
pub fn for_each<C: Sync, R: Send>(context: &Context, what: &str, cases: &[C], work: impl Fn(&C) -> R + Sync) -> Vec<R> {
    side_by_side(context.threads, cases, work, &|done, all| context.progress.tell(what, done, all))
}

/// The same scenario without bulk, over each link without a tunnel: what the links do to sparse traffic by themselves.
pub fn idle(scenario: &Scenario) -> Scenario {
    let mut idle = Scenario { variants: vec![Variant::plain(Kind::EachLink)], ..scenario.clone() };
    idle.flows.retain(|flow| !flow.app.is_tcp());
    idle
}

/// The variant of this name.
pub fn variant<'a>(result: &'a RunResult, name: &str) -> Option<&'a VariantResult> {
    result.variants.iter().find(|variant| variant.name == name)
}

/// The flow of this name.
pub fn flow<'a>(variant: &'a VariantResult, name: &str) -> Option<&'a FlowResult> {
    variant.flows.iter().find(|flow| flow.name == name)
}

/// The goodput of a variant, in bit/s.
pub fn goodput_bps(result: &RunResult, name: &str) -> Option<f64> {
    variant(result, name).map(|variant| variant.goodput_bps)
}

/// The greatest goodput of the variants whose names begin so, in bit/s.
pub fn best_bps(result: &RunResult, prefix: &str) -> Option<f64> {
    let each = result.variants.iter().filter(|variant| variant.name.starts_with(prefix));
    crate::judge::greatest(each.map(|variant| variant.goodput_bps))
}
