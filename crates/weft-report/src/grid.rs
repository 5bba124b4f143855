//! Tables of a grid's results: a row for each combination of values, a column for each variant.

use crate::table::ReportTable;
use std::collections::BTreeMap;
use weft_scenario::{App, PacketSizeCount, RunResult, Scenario, VariantResult};

/// Returns a table of the goodput in Mbit/s for each combination of values of the scenario's grid.
///
/// If all flows are transfers, the table shows their mean time in ms.
pub fn grid_table(scenario: &Scenario, cells: &[RunResult]) -> String {
    let is_transfer = scenario.flows.iter().all(|flow| flow.app == App::Transfer);
    let shapes = scenario.cells();
    let bits_of = |cell: usize| -> f64 {
        let flows = shapes.get(cell).map_or(&[][..], |shape| &shape.flows);
        flows.iter().map(|flow| flow.size_bytes as f64 * 8.0).sum()
    };
    let figure = |cell: usize, variant: &VariantResult| match is_transfer {
        true => format!("{:.0}", bits_of(cell) / variant.goodput_bps * 1e3),
        false => format!("{:.2}", variant.goodput_bps / 1e6),
    };
    let what = if is_transfer { "ms from connect to last byte" } else { "Mbit/s" };
    table_of(&scenario.name, what, cells, figure)
}

/// Returns tables of TCP's goodput for each combination of a network's grid, and of the packet lengths on its links.
///
/// Goodput is in Mbit/s. The packet lengths are those of the first combination.
pub fn network_grid_table(name: &str, cells: &[RunResult]) -> String {
    let mut text = table_of(name, "Mbit/s", cells, |_, variant| format!("{:.2}", variant.goodput_bps / 1e6));
    let Some(first) = cells.first().filter(|cell| has_sizes(cell)) else { return text };
    let mut table = ReportTable::with_head(["", "link", "packets of the most frequent lengths"]);
    for variant in &first.variants {
        for link in variant.links.iter().filter(|link| !link.packet_sizes.is_empty()) {
            let size = |size: &PacketSizeCount| format!("{} packets of {} B", size.packets, size.bytes);
            let sizes = link.packet_sizes.iter().take(SIZES_SHOWN).map(size).collect::<Vec<_>>().join(", ");
            table.line([variant.name.clone(), format!("{} {}", link.name, link.direction), sizes].into_iter());
        }
    }
    text += &format!(
        "\nscenario {}: the most frequent lengths of large packets on each link, in IP bytes\n\n{}",
        first.scenario,
        table.render()
    );
    text
}

/// Number of different packet lengths that the table shows for each link.
const SIZES_SHOWN: usize = 3;

fn has_sizes(cell: &RunResult) -> bool {
    cell.variants.iter().flat_map(|variant| &variant.links).any(|link| !link.packet_sizes.is_empty())
}

fn table_of(name: &str, what: &str, cells: &[RunResult], figure: impl Fn(usize, &VariantResult) -> String) -> String {
    let of = |result: &RunResult| result.scenario.trim_start_matches(name).trim().to_owned();
    let mut names: Vec<&str> = Vec::new();
    for variant in cells.iter().flat_map(|cell| &cell.variants) {
        if !names.contains(&variant.name.as_str()) {
            names.push(&variant.name);
        }
    }
    let mut table = ReportTable::with_head([""].into_iter().chain(names.iter().copied()));
    for (number, cell) in cells.iter().enumerate() {
        let of_variant = |name: &&str| {
            let variant = cell.variants.iter().find(|variant| variant.name == **name);
            variant.map_or(String::new(), |variant| figure(number, variant))
        };
        table.line([of(cell)].into_iter().chain(names.iter().map(of_variant)));
    }
    let mut text = format!("{name}: {what}\n\n{}", table.render());
    let skipped: BTreeMap<&str, &str> =
        cells.iter().flat_map(|cell| &cell.skipped).map(|skipped| (&*skipped.name, &*skipped.reason)).collect();
    for (name, reason) in skipped {
        text += &format!("variant {name} was skipped: {reason}\n");
    }
    text
}
