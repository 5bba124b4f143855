//! Selects the variants of a scenario that must run, and puts their results in order.

use crate::{Prediction, Scenario, Variant, VariantKind, VariantResult};
use std::collections::BTreeMap;
use weft_units::nearest;

/// Returns the requested variants, or all variants of the scenario if `chosen` is empty.
///
/// # Errors
/// Fails if no variant has a name in `chosen`. The message suggests the nearest existing name.
pub fn wanted_variants(scenario: &Scenario, chosen: &[String]) -> Result<Vec<Variant>, String> {
    let names = || scenario.variants.iter().map(|v| v.name.as_str());
    for name in chosen {
        if names().any(|known| known == name) || VariantKind::ALL.iter().any(|(word, _)| word == name) {
            continue;
        }
        let all = names().chain(VariantKind::ALL.iter().map(|(word, _)| *word));
        let hint = nearest(name, all).map_or(String::new(), |known| format!("; did you mean `{known}`?"));
        let list = names().collect::<Vec<_>>().join(", ");
        return Err(format!("there is no variant `{name}` (the scenario has {list}){hint}"));
    }
    if chosen.is_empty() {
        return Ok(scenario.variants.clone());
    }
    let of_name = |name: &String| {
        let known = scenario.variants.iter().find(|v| v.name == *name).cloned();
        known.or_else(|| VariantKind::ALL.iter().find(|(word, _)| word == name).map(|(_, kind)| Variant::plain(*kind)))
    };
    Ok(chosen.iter().filter_map(of_name).collect())
}

/// Returns the variants that must run to produce the wanted results.
///
/// `each-link` runs in place of `best-link`, and first, because other variants use the link that proves best.
pub fn variants_to_run(wanted: &[Variant]) -> Vec<Variant> {
    let needs_each = |v: &Variant| matches!(v.kind, VariantKind::EachLink | VariantKind::BestLink);
    let first = wanted.iter().any(needs_each).then(|| Variant::plain(VariantKind::EachLink));
    first.into_iter().chain(wanted.iter().filter(|v| !needs_each(v)).cloned()).collect()
}

/// Returns the results of the wanted variants, in their order.
///
/// The result of `best-link` is the best one of `each-link`. `to_run` are the variants that ran.
pub fn arrange(wanted: &[Variant], measured: &[(String, VariantResult)], to_run: &[Variant]) -> Vec<VariantResult> {
    let each_link = to_run.iter().find(|v| v.kind == VariantKind::EachLink).map(|v| v.name.clone()).unwrap_or_default();
    let of = |name: &str| {
        measured.iter().filter(|(variant, _)| variant == name).map(|(_, result)| result.clone()).collect::<Vec<_>>()
    };
    let results = wanted.iter().flat_map(|variant| match variant.kind {
        VariantKind::EachLink => of(&each_link),
        VariantKind::BestLink => {
            let best = of(&each_link).into_iter().max_by(|a, b| a.goodput_bps.total_cmp(&b.goodput_bps));
            best.map(|best| VariantResult { name: variant.name.clone(), ..best }).into_iter().collect()
        }
        _ => of(&variant.name),
    });
    results.collect()
}

/// Adds the predicted goodput to the result of every weft variant with static link weights.
///
/// Weighted round robin with static weights carries the minimum over links of Cᵢ·Σw/wᵢ. Cᵢ is the goodput of weft over
/// link i alone, and wᵢ is the link's weight.
pub fn predict(scenario: &Scenario, wanted: &[Variant], results: &mut [VariantResult]) {
    let Some(alone) = wanted.iter().find(|v| v.kind == VariantKind::WeftEachLink) else { return };
    let prefix = if alone.name == alone.kind.word() { "weft" } else { &alone.name };
    let capacity = |link: &str| results.iter().find(|r| r.name == format!("{prefix}:{link}")).map(|r| r.goodput_bps);
    let capacities: BTreeMap<&str, f64> =
        scenario.links.iter().filter_map(|l| Some((l.name.as_str(), capacity(&l.name)?))).collect();
    for variant in wanted.iter().filter(|v| v.kind == VariantKind::Weft) {
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
        let wanted = [VariantKind::BestLink, VariantKind::Mptcp].map(Variant::plain);
        let kinds: Vec<VariantKind> = variants_to_run(&wanted).iter().map(|v| v.kind).collect();
        assert_eq!(kinds, [VariantKind::EachLink, VariantKind::Mptcp]);
    }

    #[test]
    fn an_unknown_variant_is_refused_with_the_nearest() {
        let scenario =
            Scenario::parse("name=\"t\"\nduration=\"1 s\"\n[[link]]\nname=\"a\"\nrate=\"1 Mbit/s\"", "t").unwrap();
        let error = wanted_variants(&scenario, &["mptpc".into()]).unwrap_err();
        assert!(error.contains("did you mean `mptcp`?"), "{error}");
    }
}
