//! Compares weft over a random bundle of two to twelve links with the best of these links.

use super::draws;
use crate::check::{Bound, Check};
use crate::judge::{least, ratio, reaches, share_percent};
use crate::topic::Context;
use weft_scenario::{MixResult, median};

/// The sweep that draws the bundles.
pub const SWEEP: &str = include_str!("../../../../../scenarios/sweeps/bundles.toml");
/// Number of draws in a short run, and in a full one.
const DRAWS: [u64; 2] = [12, 500];

/// Runs and judges the draws.
pub fn run(context: &Context) -> Vec<Check> {
    let draws = || draws::run_all(context, &draws::sweep(SWEEP, context.pick(DRAWS[0], DRAWS[1]))?);
    match draws() {
        Ok(mixes) => checks("bundles", &mixes),
        Err(why) => vec![Check::skipped("bundles", Bound::AtLeast(99.0), "%", why)],
    }
}

/// Returns the checks on random bundles. `title` states whether they ran in virtual time or on a kernel.
pub fn checks(title: &str, mixes: &[MixResult]) -> Vec<Check> {
    let is_well = |mix: &MixResult| reaches(of_weft(mix), 0.98) && reaches(of_plain(mix), 0.95);
    let share = share_percent(mixes.iter().map(is_well));
    vec![
        Check::new(
            format!("{title}: draws >= 0.98 of best link through weft, >= 0.95 without"),
            share,
            Bound::AtLeast(99.0),
            "%",
        )
        .with(draws::worst(mixes, lesser)),
        Check::new(
            format!("{title}: slowest draw"),
            least(mixes.iter().filter_map(lesser)),
            Bound::AtLeast(0.9),
            "of best link",
        ),
        Check::new(
            format!("{title}: median efficiency"),
            median(draws::efficiencies(mixes)),
            Bound::AtLeast(0.85),
            "of capacity",
        ),
    ]
}

fn of_weft(mix: &MixResult) -> Option<f64> {
    ratio(mix.bonded_bps, mix.best_link_through_weft_bps)
}

fn of_plain(mix: &MixResult) -> Option<f64> {
    ratio(mix.bonded_bps, mix.best_link_bps)
}

fn lesser(mix: &MixResult) -> Option<f64> {
    least([of_weft(mix), of_plain(mix)].into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::draws::tests::mix;

    #[test]
    fn a_bundle_is_judged_by_the_best_link_through_weft_and_without() {
        let bundle = |weft, of_weft, plain| mix(1, [Some(weft), Some(of_weft), Some(plain), None], None);
        let figures = |mixes: &[MixResult]| {
            checks("t", mixes).iter().map(|check| check.json()["figure"].as_f64()).collect::<Vec<_>>()
        };
        let well = bundle(98.0, 100.0, 103.0);
        assert_eq!(figures(&[well.clone(), bundle(97.0, 100.0, 50.0)])[..2], [Some(50.0), Some(98.0 / 103.0)]);
        assert_eq!(figures(&[well.clone(), bundle(90.0, 50.0, 100.0)])[..2], [Some(50.0), Some(0.9)]);
        assert_eq!(figures(&[well])[2], Some(0.98));
    }
}
