//! Expands a grid: one scenario for each combination of several delays, losses and transfer sizes.

use crate::file::GridFile;
use crate::{App, Scenario};
use std::time::Duration;

/// The values that each parameter of the grid takes.
///
/// An empty list leaves the scenario's own value.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Grid {
    /// One-way delays, each applied to all links.
    pub delays: Vec<Duration>,
    /// Loss probabilities from 0 to 1, each applied to all links in both directions.
    pub losses: Vec<f64>,
    /// Transfer sizes in bytes, each applied to all flows with transfers.
    pub sizes_bytes: Vec<u64>,
}

impl Grid {
    pub(crate) fn read(file: GridFile) -> Grid {
        Grid {
            delays: file.delay.into_iter().map(|q| q.0).collect(),
            losses: file.loss.into_iter().map(|q| q.0.0).collect(),
            sizes_bytes: file.size.into_iter().map(|q| q.0.0).collect(),
        }
    }
}

impl Scenario {
    /// Returns one scenario for each combination of the grid's values, or the scenario itself if it has no grid.
    ///
    /// The name of each returned scenario states its values.
    pub fn cells(&self) -> Vec<Scenario> {
        let Some(grid) = &self.grid else { return vec![self.clone()] };
        let mut cells = vec![Scenario { grid: None, ..self.clone() }];
        each(&mut cells, &grid.delays, |cell, delay| {
            cell.name += &format!(" {} ms", delay.as_secs_f64() * 1e3);
            cell.links.iter_mut().for_each(|link| (link.up.delay, link.down.delay) = (*delay, *delay));
        });
        each(&mut cells, &grid.losses, |cell, loss| {
            cell.name += &format!(" {} %", loss * 100.0);
            cell.links.iter_mut().for_each(|link| (link.up.loss, link.down.loss) = (*loss, *loss));
        });
        each(&mut cells, &grid.sizes_bytes, |cell, bytes| {
            cell.name += &format!(" {} kB", *bytes as f64 / 1e3);
            let transfers = cell.flows.iter_mut().filter(|flow| matches!(flow.app, App::Http | App::Transfer));
            transfers.for_each(|flow| flow.size_bytes = *bytes);
        });
        cells
    }
}

/// Replaces each of `cells` by one copy for each value, and applies `change` with the value to the copy.
///
/// If there are no values, the cells stay as they are.
pub(crate) fn each<C: Clone, T>(cells: &mut Vec<C>, values: &[T], change: impl Fn(&mut C, &T)) {
    if !values.is_empty() {
        let at = |cell: &C, value| {
            let mut cell = cell.clone();
            change(&mut cell, value);
            cell
        };
        *cells = cells.iter().flat_map(|cell| values.iter().map(|value| at(cell, value)).collect::<Vec<_>>()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        name = "grid"
        duration = "2 s"
        variants = ["each-link"]
        [grid]
        delay = ["5 ms", "50 ms"]
        loss = ["0 %", "0.5 %", "5 %"]
        [[link]]
        name = "line"
        rate = "100 Mbit/s"
        delay = "1 ms"
        [[flow]]
        app = "iperf3"
    "#;

    #[test]
    fn every_combination_once() {
        let scenario = Scenario::parse(TEXT, "grid.toml").unwrap();
        let cells = scenario.cells();
        let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "grid 5 ms 0 %",
                "grid 5 ms 0.5 %",
                "grid 5 ms 5 %",
                "grid 50 ms 0 %",
                "grid 50 ms 0.5 %",
                "grid 50 ms 5 %"
            ]
        );
        let up = &cells[4].links[0].up;
        assert_eq!((up.delay, up.loss), (Duration::from_millis(50), 0.005));
    }
}
