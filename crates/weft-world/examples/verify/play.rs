//! Runs scenarios in virtual time, and reads figures from their results.

use crate::topic::Context;
use std::path::Path;
use weft_scenario::{FlowResult, RunResult, Scenario, Variant, VariantKind, VariantResult};
use weft_world::pair::{EngineSettings, PairOptions, PairRun, run};
use weft_world::side_by_side;

/// Runs one scenario on this thread. A trace that `traces` does not contain is generated from the seed.
///
/// # Errors
/// Returns an error if a trace cannot be read or the scenario cannot be run.
pub fn play(scenario: &Scenario, traces: Option<&Path>) -> Result<PairRun, String> {
    let traces = scenario.load_traces(traces).map_err(|why| why.to_string())?;
    let options = PairOptions { threads: 1, ..PairOptions::default() };
    run(scenario, &traces, &options, &|_| Ok(EngineSettings::default()), &|_, _| ())
}

/// Does `work` for every case, on all threads. Returns the results in the order of the cases.
pub fn for_each<C: Sync, R: Send>(context: &Context, what: &str, cases: &[C], work: impl Fn(&C) -> R + Sync) -> Vec<R> {
    side_by_side(context.threads, cases, work, &|done, all| context.progress.tell(what, done, all))
}

/// Returns the scenario without bulk flows, with one variant for each link without a tunnel.
///
/// Its result shows how the links alone affect sparse flows.
pub fn idle(scenario: &Scenario) -> Scenario {
    let mut idle = Scenario { variants: vec![Variant::plain(VariantKind::EachLink)], ..scenario.clone() };
    idle.flows.retain(|flow| !flow.app.is_tcp());
    idle
}

/// Returns the variant with this name.
pub fn variant<'a>(result: &'a RunResult, name: &str) -> Option<&'a VariantResult> {
    result.variants.iter().find(|variant| variant.name == name)
}

/// Returns the flow with this name.
pub fn flow<'a>(variant: &'a VariantResult, name: &str) -> Option<&'a FlowResult> {
    variant.flows.iter().find(|flow| flow.name == name)
}

/// Returns the goodput of a variant, in bit/s.
pub fn goodput_bps(result: &RunResult, name: &str) -> Option<f64> {
    variant(result, name).map(|variant| variant.goodput_bps)
}

/// Returns the greatest goodput of the variants whose names begin with `prefix`, in bit/s.
pub fn best_bps(result: &RunResult, prefix: &str) -> Option<f64> {
    let each = result.variants.iter().filter(|variant| variant.name.starts_with(prefix));
    crate::judge::greatest(each.map(|variant| variant.goodput_bps))
}
