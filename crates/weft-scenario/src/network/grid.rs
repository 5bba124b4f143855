//! Expands the grid of a network: one run for each combination of windows, delays and losses.

use super::NetworkScenario;
use super::file::NetworkGridFile;
use crate::error::{Checked, Source};
use crate::grid::each;
use crate::pattern::matching;
use crate::{DirectionSpec, Link};
use std::time::Duration;

/// The values that each parameter of a network's grid takes.
///
/// An empty list leaves the network's own value.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NetworkGrid {
    /// Indices of the links to which the delays and losses apply, in the network's list of links.
    pub links: Vec<usize>,
    /// Receive windows in full segments, each applied to all TCP flows.
    pub windows_segments: Vec<u32>,
    /// One-way delays, each applied to both directions of the links.
    pub delays: Vec<Duration>,
    /// Loss probabilities from 0 to 1, each applied to both directions of the links.
    pub losses: Vec<f64>,
}

pub(super) fn read(source: &Source<'_>, file: &NetworkGridFile, links: &[Link]) -> Checked<NetworkGrid> {
    let names: Vec<String> = links.iter().map(|link| link.name.clone()).collect();
    Ok(NetworkGrid {
        links: match &file.links {
            Some(pattern) => matching(source, pattern, "link", &names)?,
            None => (0..links.len()).collect(),
        },
        windows_segments: file.window.iter().map(|window| u32::from(*window)).collect(),
        delays: file.delay.iter().map(|delay| delay.0).collect(),
        losses: file.loss.iter().map(|loss| loss.0.0).collect(),
    })
}

impl NetworkScenario {
    /// Returns one network for each combination of the grid's values, or the network itself if it has no grid.
    ///
    /// The name of each returned network states its values.
    pub fn cells(&self) -> Vec<NetworkScenario> {
        let Some(grid) = &self.grid else { return vec![self.clone()] };
        let mut cells = vec![NetworkScenario { grid: None, ..self.clone() }];
        each(&mut cells, &grid.windows_segments, |cell, segments| {
            cell.name += &format!(" {segments} segments");
            cell.flows.iter_mut().for_each(|flow| flow.tcp.window_segments = *segments);
        });
        each(&mut cells, &grid.delays, |cell, delay| {
            cell.name += &format!(" {} ms", delay.as_secs_f64() * 1e3);
            ways(cell, &grid.links).for_each(|way| way.delay = *delay);
        });
        each(&mut cells, &grid.losses, |cell, loss| {
            cell.name += &format!(" {} %", loss * 100.0);
            ways(cell, &grid.links).for_each(|way| way.loss = *loss);
        });
        cells
    }
}

/// Returns both directions of each of the links with the indices `links`, for a change.
fn ways<'a>(network: &'a mut NetworkScenario, links: &'a [usize]) -> impl Iterator<Item = &'a mut DirectionSpec> {
    let chosen = network.links.iter_mut().enumerate().filter(|(link, _)| links.contains(link));
    chosen.flat_map(|(_, link)| link.directions_mut())
}
