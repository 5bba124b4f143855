//! Random mixes of links, and functions that all checks of such mixes share.

use crate::topic::Context;
use serde_json::{Value, json};
use weft_scenario::{MixResult, Sweep};
use weft_world::pair::run_sweep;

/// First seed of those that are used only to judge weft, and never to tune it.
pub const FIRST_SEED: u64 = 20_001;
/// Number of the worst mixes that a check lists.
const LISTED: usize = 20;

/// Returns the sweep in `text`, with `count` judging seeds instead of the seeds in `text`.
///
/// # Errors
/// Returns an error if the text is no sweep.
pub fn sweep(text: &str, count: u64) -> Result<Sweep, String> {
    let sweep = Sweep::parse(text, "sweep").map_err(|why| why.to_string())?;
    Ok(Sweep { seeds: (FIRST_SEED..FIRST_SEED + count).collect(), ..sweep })
}

/// Runs all mixes of a sweep in virtual time.
///
/// # Errors
/// Returns an error if a mix cannot be run.
pub fn run_all(context: &Context, sweep: &Sweep) -> Result<Vec<MixResult>, String> {
    let tell = |done, all| context.progress.tell("mixes", done, all);
    let mixes = run_sweep(sweep, context.threads, |_| true, &tell)?;
    Ok(mixes.into_iter().map(|(_, mix)| mix).collect())
}

/// Returns the fraction of the capacity that weft used in each mix. It is zero if weft did not run.
pub fn efficiencies(mixes: &[MixResult]) -> impl Iterator<Item = f64> {
    mixes.iter().map(|mix| mix.drawn.as_ref().and_then(|drawn| drawn.efficiency).unwrap_or(0.0))
}

/// Returns the mixes with the least figures, the worst first. Mixes without a figure are left out.
pub fn worst(mixes: &[MixResult], figure: impl Fn(&MixResult) -> Option<f64>) -> Value {
    let mut known: Vec<(&MixResult, f64)> = mixes.iter().filter_map(|mix| Some((mix, figure(mix)?))).collect();
    known.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let row = |(mix, figure): &(&MixResult, f64)| {
        let flows = mix.drawn.as_ref().map(|drawn| drawn.flows.as_str());
        json!({ "seed": mix.seed, "links": mix.links, "flows": flows, "figure": figure })
    };
    let first_seed = mixes.first().map(|mix| mix.seed);
    let worst: Vec<Value> = known.iter().take(LISTED).map(row).collect();
    json!({ "mixes": mixes.len(), "first_seed": first_seed, "worst": worst })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use weft_scenario::{DrawnMix, RunResult, SCHEMA};

    /// Returns a mix with the given goodputs.
    ///
    /// The goodputs are those of weft, the best link through weft, the best link without weft, and BBR.
    pub fn mix(seed: u64, [weft, of_weft, plain, bbr]: [Option<f64>; 4], ping_ms_p95: Option<f64>) -> MixResult {
        let drawn = DrawnMix {
            classes: Vec::new(),
            flows: "1 down".into(),
            bbr_bps: bbr,
            of_bbr: None,
            efficiency: weft.map(|bps| bps / 100.0),
            ping_ms_p95,
            plain_ping_ms_p95: None,
            base_rtt_ms: 30.0,
        };
        let run = RunResult {
            schema: SCHEMA,
            scenario: "t".into(),
            world: "sim".into(),
            seed,
            duration_s: 1.0,
            warmup_s: 0.0,
            repeats: 1,
            bound_bps: 100.0,
            variants: Vec::new(),
            skipped: Vec::new(),
        };
        MixResult {
            seed,
            links: Vec::new(),
            bonded_bps: weft,
            best_link_through_weft_bps: of_weft,
            best_link_bps: plain,
            of_best_link_through_weft: None,
            of_best_link: None,
            drawn: Some(drawn),
            pass: false,
            run,
        }
    }

    #[test]
    fn the_worst_mixes_come_first() {
        let mixes = [0.9, 0.3, 0.6].map(|weft| mix((weft * 10.0) as u64, [Some(weft), None, None, None], None));
        let listed = worst(&mixes, |mix| mix.bonded_bps);
        let seeds: Vec<u64> =
            listed["worst"].as_array().unwrap().iter().filter_map(|row| row["seed"].as_u64()).collect();
        assert_eq!(seeds, [3, 6, 9]);
    }

    #[test]
    fn a_sweep_gets_the_judging_seeds() {
        let sweep = sweep(super::super::one_link::SWEEP, 3).unwrap();
        assert_eq!(sweep.seeds, [20_001, 20_002, 20_003]);
        assert!(super::sweep("name = 1", 3).is_err());
    }
}
