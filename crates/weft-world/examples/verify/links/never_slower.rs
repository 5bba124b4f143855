//! Random mixes of plain links. Earlier versions of the project drew only such links.

use super::draws;
use crate::check::{Bound, Check};
use crate::judge::share_percent;
use crate::topic::Context;

const SWEEP: &str = include_str!("../../../../../scenarios/sweeps/never-slower.toml");
const DRAWS: u64 = 100;

/// Runs and judges the draws, in full runs only.
pub fn run(context: &Context) -> Vec<Check> {
    if !context.full {
        return Vec::new();
    }
    let name = "never slower: draws >= 0.98 of best link through weft, >= 0.95 without";
    let bound = Bound::AtLeast(99.0);
    let draws = || draws::run_all(context, &draws::sweep(SWEEP, DRAWS)?);
    vec![match draws() {
        Ok(mixes) => {
            let is_well = |of_weft: Option<f64>, of_plain: Option<f64>| of_weft >= Some(0.98) && of_plain >= Some(0.95);
            let verdicts = mixes.iter().map(|mix| is_well(mix.of_best_link_through_weft, mix.of_best_link));
            Check::new(name, share_percent(verdicts), bound, "%")
                .with(draws::worst(&mixes, |mix| mix.of_best_link_through_weft))
        }
        Err(why) => Check::skipped(name, bound, "%", why),
    }]
}
