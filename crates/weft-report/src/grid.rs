//! A table of a grid's results: a row for each point, a column for each variant.

use crate::table::ReportTable;
use std::collections::BTreeMap;
use weft_scenario::{App, RunResult, Scenario};

/// Returns the goodput in Mbit/s at each point of the scenario's grid.
///
/// If all flows are transfers, the table shows their mean time in ms.
pub fn grid_table(scenario: &Scenario, cells: &[RunResult]) -> String {
    let is_transfer = scenario.flows.iter().all(|flow| flow.app == App::Transfer);
    let of = |result: &RunResult| result.scenario.trim_start_matches(&scenario.name).trim().to_owned();
    let mut names: Vec<&str> = Vec::new();
    for variant in cells.iter().flat_map(|cell| &cell.variants) {
        if !names.contains(&variant.name.as_str()) {
            names.push(&variant.name);
        }
    }
    let mut table = ReportTable::with_head([""].into_iter().chain(names.iter().copied()));
    for (cell, shape) in cells.iter().zip(scenario.cells()) {
        let bits: f64 = shape.flows.iter().map(|flow| flow.size_bytes as f64 * 8.0).sum();
        let figure = |name: &&str| {
            let variant = cell.variants.iter().find(|variant| variant.name == **name);
            variant.map_or(String::new(), |variant| match is_transfer {
                true => format!("{:.0}", bits / variant.goodput_bps * 1e3),
                false => format!("{:.2}", variant.goodput_bps / 1e6),
            })
        };
        table.line([of(cell)].into_iter().chain(names.iter().map(figure)));
    }
    let what = if is_transfer { "ms from connect to last byte" } else { "Mbit/s" };
    let mut text = format!("{}: {what}\n\n{}", scenario.name, table.render());
    let skipped: BTreeMap<&str, &str> =
        cells.iter().flat_map(|cell| &cell.skipped).map(|skipped| (&*skipped.name, &*skipped.reason)).collect();
    for (name, reason) in skipped {
        text += &format!("{name} was skipped: {reason}\n");
    }
    text
}
