//! Data over routes that the overlay finds by itself (paper 001 §II and §IV-B).

use crate::check::{Bound, Check};
use crate::claim::{self, LIB, claim};
use crate::play::for_each;
use crate::topic::Context;
use serde_json::json;
use weft_units::Duration;
use weft_world::found_routes::{DeathGap, Knowledge, deaths, knowledge, map_cost_bps, two_routes};

/// Number of members in the experiments.
const MEMBERS: usize = 50;
/// Time after which each member's link map must contain all links.
const KNOWN_AFTER: Duration = Duration::from_secs(10);
/// Number of nodes that die in one network. If more deaths are needed, more networks are drawn.
const DEATHS_EACH: usize = 10;

/// Runs and judges the part.
pub fn run(context: &Context) -> Vec<Check> {
    let mut checks = claim::run(
        context,
        &[
            claim("routes on 10,000 random maps against an oracle", "weft-core", &["--test", "link_map_routes"], ""),
            claim("claims: order, repetition, liars", "weft-core", &["--test", "link_map_claims"], ""),
            claim("forged and replayed claims end at the first honest node", "weft-engine", LIB, "node::mapping"),
            claim("nodes that share no link find each other", "weft-engine", &["--test", "overlay"], "routes::"),
        ],
    );
    if context.full {
        let kernel = claim("two routes on a kernel, and a relay killed", "weft", &["--test", "membership"], "routes::");
        checks.extend(claim::run(context, &[kernel]));
    }
    checks.extend(both_routes(context));
    checks.extend(map(context));
    checks.extend(gaps(context));
    checks
}

/// Checks that two routes without a common relay carry the sum of their rates.
fn both_routes(context: &Context) -> Vec<Check> {
    let seeds: Vec<u64> = (1..=context.pick(2, 10)).collect();
    let rates = for_each(context, "two routes", &seeds, |seed| two_routes(*seed));
    let least = rates.iter().copied().reduce(f64::min).map(|bps| bps / 80e6);
    let name = "two relayed routes of 50 and 30 Mbit/s: goodput of the sum";
    vec![Check::new(name, least, Bound::AtLeast(0.9), "×").with(json!({ "bps": rates }))]
}

/// Checks how much of all links the members' link maps contain, and the rate at which members send for the maps.
fn map(context: &Context) -> Vec<Check> {
    let seeds: Vec<u64> = (1..=context.pick(1, 4)).collect();
    let known = for_each(context, "the map", &seeds, |seed| knowledge(*seed, MEMBERS, KNOWN_AFTER));
    let least = |of: fn(&Knowledge) -> f64| known.iter().map(of).reduce(f64::min).map(|share| 100.0 * share);
    let time = Duration::from_secs(context.pick(60, 600));
    let costs = for_each(context, "what the map costs", &seeds, |seed| map_cost_bps(*seed, MEMBERS, time));
    let most = costs.into_iter().reduce(f64::max).map(|bps| bps / 1e3);
    vec![
        Check::new("50 members: links known to each after 10 s", least(|of| of.least_known), Bound::AtLeast(95.0), "%"),
        Check::new("50 members: of those, RTT within 15 %", least(|of| of.least_right), Bound::AtLeast(95.0), "%"),
        Check::new("50 members: sent for the map by each", most, Bound::AtMost(8.0), "kbit/s"),
    ]
}

/// Checks the gap of a flow after a relay on its route has died.
fn gaps(context: &Context) -> Vec<Check> {
    let seeds: Vec<u64> = (1..=context.pick(1, 100)).collect();
    let all: Vec<DeathGap> =
        for_each(context, "deaths", &seeds, |seed| deaths(*seed, MEMBERS, DEATHS_EACH)).into_iter().flatten().collect();
    let mut beyond: Vec<f64> =
        all.iter().map(|death| (death.gap.as_secs_f64() - death.rtt.as_secs_f64()) * 1e3).collect();
    beyond.sort_by(f64::total_cmp);
    let at = (beyond.len() * 99).div_ceil(100).checked_sub(1);
    let p99 = at.and_then(|at| beyond.get(at)).copied();
    let name = format!("50 members: gap without the RTT after {} deaths of a relay, p99", beyond.len());
    vec![Check::new(name, p99, Bound::AtMost(100.0), "ms")]
}
