//! Tables of a sweep over all classes of links: one by mix and one by class.

use crate::table::{ReportTable, number};
use std::collections::BTreeMap;
use weft_scenario::{DrawnMix, MixResult, SweepResult, median, percentile};

/// Number of links of a mix that the table describes. It only counts the others.
const NAMED_LINKS: usize = 2;

/// Returns two tables: one has a row for each random mix of links, the other for each class of links and kind of loss.
pub(crate) fn drawn_table(result: &SweepResult) -> String {
    let mut table = ReportTable::new([
        "seed: links (down/up, RTT, loss, class)",
        "flows",
        "weft",
        "× weft alone",
        "× plain",
        "× BBR",
        "efficiency",
        "ping p95 ms",
        "plain",
        "base",
        "pass",
    ]);
    for mix in &result.mixes {
        let drawn = mix.drawn.as_ref();
        let of = |value: fn(&DrawnMix) -> Option<f64>| drawn.and_then(value);
        table.row([
            format!("{}: {}{}", mix.seed, links(mix), why_not(mix)),
            drawn.map_or(String::new(), |drawn| drawn.flows.clone()),
            number(mix.bonded_bps.map(|bps| bps / 1e6), 2),
            number(mix.of_best_link_through_weft, 2),
            number(mix.of_best_link, 2),
            number(of(|drawn| drawn.of_bbr), 2),
            number(of(|drawn| drawn.efficiency), 2),
            number(of(|drawn| drawn.ping_ms_p95), 0),
            number(of(|drawn| drawn.plain_ping_ms_p95), 0),
            number(of(|drawn| Some(drawn.base_rtt_ms)), 0),
            if mix.pass { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    let passed = result.mixes.iter().filter(|mix| mix.pass).count();
    format!(
        "{}: goodput in Mbit/s\n\n{}\n{}\n{passed} of {} mixes passed\n",
        result.sweep,
        table.render(),
        class_table(&result.mixes),
        result.mixes.len()
    )
}

/// Returns the reason why weft did not run on a mix, in parentheses. Empty if it ran.
fn why_not(mix: &MixResult) -> String {
    let skipped = mix.run.skipped.iter().find(|skipped| skipped.name == "weft");
    skipped.map_or(String::new(), |skipped| format!(" ({})", skipped.reason))
}

/// Returns the descriptions of the first links of a mix, and the number of its other links.
fn links(mix: &MixResult) -> String {
    let named = mix.links.iter().take(NAMED_LINKS).cloned().collect::<Vec<_>>().join(", ");
    match mix.links.len().saturating_sub(NAMED_LINKS) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Returns the table by class: medians and extremes over the mixes that have a link of the class or kind of loss.
fn class_table(mixes: &[MixResult]) -> String {
    let mut by_class: BTreeMap<&str, Vec<&MixResult>> = BTreeMap::new();
    for mix in mixes {
        let classes = mix.drawn.iter().flat_map(|drawn| &drawn.classes);
        let mut words: Vec<&str> = classes.flat_map(|class| class.split('+')).collect();
        words.sort_unstable();
        words.dedup();
        words.into_iter().for_each(|word| by_class.entry(word).or_default().push(mix));
    }
    let mut table = ReportTable::new([
        "class",
        "mixes",
        "passed",
        "× plain least",
        "p10",
        "median",
        "× BBR least",
        "p10",
        "median",
        "ping over base p95 ms",
    ]);
    for (class, mixes) in by_class {
        let all = |value: fn(&MixResult) -> Option<f64>| mixes.iter().filter_map(|mix| value(mix)).collect::<Vec<_>>();
        let three = |values: Vec<f64>| {
            let least = values.iter().copied().min_by(f64::total_cmp);
            [least, percentile(values.iter().copied(), 0.1), median(values)].map(|value| number(value, 2))
        };
        let [least, p10, mid] = three(all(|mix| mix.of_best_link));
        let [bbr_least, bbr_p10, bbr_mid] = three(all(|mix| mix.drawn.as_ref()?.of_bbr));
        let above = all(|mix| mix.drawn.as_ref().and_then(|drawn| Some(drawn.ping_ms_p95? - drawn.base_rtt_ms)));
        table.row([
            class.to_owned(),
            mixes.len().to_string(),
            mixes.iter().filter(|mix| mix.pass).count().to_string(),
            least,
            p10,
            mid,
            bbr_least,
            bbr_p10,
            bbr_mid,
            number(median(above), 0),
        ]);
    }
    table.render()
}
