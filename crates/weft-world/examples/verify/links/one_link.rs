//! One random link: weft against CUBIC and BBR without a tunnel, and a ping while the bulk flow runs.

use super::draws;
use crate::check::{Bound, Check};
use crate::judge::{least, ping_bound_ms, ratio, reaches, share_percent};
use crate::play::{flow, for_each, idle, play};
use crate::topic::Context;
use serde_json::json;
use weft_scenario::{MixResult, Sweep, median};

/// The sweep that draws the links.
pub const SWEEP: &str = include_str!("../../../../../scenarios/sweeps/one-link.toml");
/// Number of draws in a short run, and in a full one.
const DRAWS: [u64; 2] = [40, 500];

/// Runs and judges the draws.
pub fn run(context: &Context) -> Vec<Check> {
    let draws = || {
        let sweep = draws::sweep(SWEEP, context.pick(DRAWS[0], DRAWS[1]))?;
        let mixes = draws::run_all(context, &sweep)?;
        let idle = for_each(context, "idle pings", &sweep.seeds, |seed| idle_ping_ms_p95(&sweep, *seed));
        Ok::<_, String>((mixes, idle.into_iter().collect::<Result<Vec<_>, _>>()?))
    };
    match draws() {
        Ok((mixes, idle)) => {
            goodput_checks("one link", &mixes).into_iter().chain([ping_check(&mixes, &idle)]).collect()
        }
        Err(why) => vec![Check::skipped("one link", Bound::AtLeast(99.0), "%", why)],
    }
}

/// Returns the goodput checks of random single links.
///
/// `title` states whether the runs were in virtual time or on a kernel.
pub fn goodput_checks(title: &str, mixes: &[MixResult]) -> Vec<Check> {
    let is_well = |mix: &MixResult| reaches(of_cubic(mix), 0.95) && reaches(of_bbr(mix), 0.90);
    let share = share_percent(mixes.iter().map(is_well));
    // The margin puts the ratios to CUBIC and to BBR on one scale. On this scale the required ratio is 1.
    let margin =
        |mix: &MixResult| least([of_cubic(mix).map(|r| r / 0.95), of_bbr(mix).map(|r| r / 0.90)].into_iter().flatten());
    vec![
        Check::new(format!("{title}: draws >= 0.95 of CUBIC and >= 0.90 of BBR"), share, Bound::AtLeast(99.0), "%")
            .with(draws::worst(mixes, margin)),
        Check::new(
            format!("{title}: slowest draw"),
            least(mixes.iter().filter_map(of_cubic)),
            Bound::AtLeast(0.85),
            "of CUBIC",
        )
        .with(draws::worst(mixes, of_cubic)),
        Check::new(
            format!("{title}: median efficiency"),
            median(draws::efficiencies(mixes)),
            Bound::AtLeast(0.93),
            "of capacity",
        ),
    ]
}

fn of_cubic(mix: &MixResult) -> Option<f64> {
    ratio(mix.bonded_bps, mix.best_link_bps)
}

fn of_bbr(mix: &MixResult) -> Option<f64> {
    ratio(mix.bonded_bps, mix.drawn.as_ref()?.bbr_bps)
}

/// Returns the p95 of a ping on this seed's idle link without weft.
///
/// Returns `None` if no reply arrived.
fn idle_ping_ms_p95(sweep: &Sweep, seed: u64) -> Result<Option<f64>, String> {
    let alone = play(&idle(&sweep.scenario(seed)), None)?.result;
    Ok(alone.variants.first().and_then(|link| flow(link, "ping")?.rtt_ms_p95))
}

/// Returns a check of the share of draws whose ping through loaded weft is within its bound.
///
/// Draws whose idle link answers no ping are left out.
fn ping_check(mixes: &[MixResult], idle: &[Option<f64>]) -> Check {
    let judged = || mixes.iter().zip(idle).filter_map(|(mix, idle)| Some((mix, ping_excess_ms(mix, (*idle)?)?)));
    let share = share_percent(judged().map(|(_, excess)| excess <= 0.0));
    let mut over: Vec<(&MixResult, f64)> = judged().filter(|(_, excess)| *excess > 0.0).collect();
    over.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let row = |(mix, excess): &(&MixResult, f64)| {
        let finite = excess.is_finite().then_some(excess);
        json!({ "seed": mix.seed, "links": mix.links, "ms_over_bound": finite })
    };
    let detail = json!({ "judged": judged().count(), "over": over.iter().take(20).map(row).collect::<Vec<_>>() });
    let name = "one link: draws with ping p95 <= idle p95 + max(20 ms, 2 x jitter)";
    Check::new(name, share, Bound::AtLeast(95.0), "%").with(detail)
}

/// Returns how far the ping of a mix exceeds its bound, in ms.
///
/// It is infinite if no ping was answered.
fn ping_excess_ms(mix: &MixResult, idle_p95_ms: f64) -> Option<f64> {
    let drawn = mix.drawn.as_ref()?;
    let bound = ping_bound_ms(idle_p95_ms, drawn.base_rtt_ms);
    Some(drawn.ping_ms_p95.map_or(f64::INFINITY, |p95| p95 - bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::draws::tests::mix;

    fn draw(weft: Option<f64>, cubic: f64, bbr: f64) -> MixResult {
        mix(1, [weft, None, Some(cubic), Some(bbr)], None)
    }

    #[test]
    fn a_draw_must_reach_both_cubic_and_bbr() {
        let share = |draws: &[MixResult]| goodput_checks("t", draws)[0].json()["figure"].as_f64();
        let (well, below_cubic, below_bbr) =
            (draw(Some(95.0), 100.0, 100.0), draw(Some(94.0), 100.0, 50.0), draw(Some(89.0), 50.0, 100.0));
        assert_eq!(share(&[well.clone(), below_cubic]), Some(50.0));
        assert_eq!(share(&[well.clone(), below_bbr]), Some(50.0));
        assert_eq!(share(&[well.clone(), draw(None, 100.0, 100.0)]), Some(50.0), "weft did not run");
        assert_eq!(share(&[well, draw(Some(0.0), 0.0, 0.0)]), Some(100.0), "nothing gets through without weft either");
    }

    #[test]
    fn the_slowest_draw_and_the_median_are_of_all_draws() {
        let checks = goodput_checks(
            "t",
            &[draw(Some(80.0), 100.0, 90.0), draw(Some(96.0), 100.0, 90.0), draw(None, 100.0, 90.0)],
        );
        assert_eq!(checks[1].json()["figure"], 0.0);
        assert_eq!(checks[2].json()["figure"], 0.8);
    }

    #[test]
    fn a_ping_is_judged_by_the_idle_link() {
        let loaded = |ms| mix(1, [Some(95.0), None, Some(100.0), Some(100.0)], ms);
        let share = |ms| ping_check(&[loaded(ms)], &[Some(31.0)]).json()["figure"].as_f64();
        assert_eq!([share(Some(51.0)), share(Some(51.1)), share(None)], [Some(100.0), Some(0.0), Some(0.0)]);
        assert!(!ping_check(&[loaded(Some(40.0))], &[None]).is_ok(), "no draw could be judged");
    }
}
