//! Tables of the goodput that each variant had during each disturbance: an event such as the cut of a link.

use crate::table::ReportTable;
use weft_scenario::{DisturbanceResult, RunResult, VariantResult};

/// Largest ratio that the table prints as a number. A larger one appears only as "more than" this.
const MOST: f64 = 999.0;

/// Returns a table for each `[[flow]]`: a row for each disturbance by an event, a column for each variant.
///
/// Next to each variant but the first, the table shows the ratio to the first variant's goodput.
pub(crate) fn disturbances_table(result: &RunResult) -> String {
    let with: Vec<&VariantResult> = result.variants.iter().filter(|v| !v.disturbances.is_empty()).collect();
    let Some(first) = with.first() else { return String::new() };
    let groups = first.disturbances.first().map_or(&[][..], |disturbance| &disturbance.flows);
    let mut text = String::new();
    for (number, group) in groups.iter().enumerate() {
        let title = format!("{}, Mbit/s", group.name);
        let others = with.iter().skip(1).flat_map(|variant| [variant.name.clone(), "×".into()]);
        let head: Vec<String> =
            [title, "from s".into(), "for s".into(), first.name.clone()].into_iter().chain(others).collect();
        let mut table = ReportTable::with_head(head.iter().map(String::as_str));
        for (row, disturbance) in first.disturbances.iter().enumerate() {
            let cells = with.iter().map(|variant| goodput(variant.disturbances.get(row), number)).collect::<Vec<_>>();
            table.line(line(disturbance, &cells).into_iter());
        }
        text.push('\n');
        text.push_str(&table.render());
    }
    text
}

fn goodput(disturbance: Option<&DisturbanceResult>, group: usize) -> f64 {
    disturbance.and_then(|disturbance| disturbance.flows.get(group)).map_or(0.0, |flow| flow.goodput_bps)
}

fn line(disturbance: &DisturbanceResult, goodputs: &[f64]) -> Vec<String> {
    let mbps = |bps: &f64| format!("{:.3}", bps / 1e6);
    let first = goodputs.first().copied().unwrap_or(0.0);
    let times = |bps: &f64| match bps / first {
        quotient if quotient <= MOST => format!("{quotient:.1}"),
        quotient if quotient > MOST => format!("> {MOST}"),
        _ => String::new(),
    };
    let is_quiet = disturbance.what.is_empty();
    let mut line = vec![
        if is_quiet { "undisturbed".to_owned() } else { disturbance.what.clone() },
        if is_quiet { String::new() } else { format!("{:.0}", disturbance.at_s) },
        format!("{:.0}", disturbance.lasted_s),
        mbps(&first),
    ];
    line.extend(goodputs.iter().skip(1).flat_map(|bps| [mbps(bps), times(bps)]));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_scenario::GroupGoodput;

    #[test]
    fn a_quotient_of_nothing_is_reported_as_such() {
        let disturbance = DisturbanceResult {
            what: "cut, geo".into(),
            at_s: 60.0,
            lasted_s: 30.0,
            flows: vec![GroupGoodput { name: "ftp".into(), goodput_bps: 0.0 }],
        };
        assert_eq!(line(&disturbance, &[0.0, 5e5, 0.0])[3..], ["0.000", "0.500", "> 999", "0.000", ""]);
        assert_eq!(line(&disturbance, &[2e5, 5e5])[3..], ["0.200", "0.500", "2.5"]);
    }
}
