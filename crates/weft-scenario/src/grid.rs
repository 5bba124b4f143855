//! A grid: one scenario with other delays, losses or sizes, one run for each combination.

use crate::file::GridFile;
use crate::{App, Scenario};
use std::time::Duration;

/// What takes which values; nothing: as the scenario says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Grid {
    /// One-way delays of all links.
    pub delays: Vec<Duration>,
    /// Losses of all links, each way, 0 to 1.
    pub losses: Vec<f64>,
    /// Bytes of the transfers of all flows.
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
    /// The scenario at each point of its grid, under a name that says where; itself without one.
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

/// Every cell at every value.
fn each<T>(cells: &mut Vec<Scenario>, values: &[T], change: impl Fn(&mut Scenario, &T)) {
    if !values.is_empty() {
        let at = |cell: &Scenario, value| {
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
