//! Interpretations of the delays in Figure 7 of paper 000.
//!
//! The paper sets delays "in proportion to the distance" and gives neither distances nor a factor. Each
//! interpretation is one assumption about the delays.

use crate::reproduce::case::{FIGURE_7, case};
use crate::reproduce::laboratory::{Case, Laboratory, Outcomes};
use weft_scenario::{Link, NetworkScenario};
use weft_units::{Duration, Rate};

/// The loads of Figure 8 of paper 000: the name, and the peak rate of each Pareto source in Mbit/s.
pub(super) const LOADS: [(&str, u64); 3] = [("light", 30), ("heavy", 60), ("congested", 70)];

/// One interpretation of the paper: an assumption about the delays.
pub(super) struct PaperReading {
    /// The name of the interpretation.
    pub name: &'static str,
    change: fn(&mut NetworkScenario),
}

/// The interpretation by which rows A9 and A10 are judged.
pub(super) const JUDGED: PaperReading = PaperReading { name: "by distance", change: |_| {} };
/// Other interpretations. Their results are only recorded.
pub(super) const BESIDE: [PaperReading; 2] = [
    PaperReading {
        name: "a third of it",
        change: |network| core_links(network).for_each(|link| link.scale_delay(1.0 / 3.0)),
    },
    PaperReading { name: "equal routes", change: even_out },
];

fn core_links(network: &mut NetworkScenario) -> impl Iterator<Item = &mut Link> {
    network.links.iter_mut().filter(|link| !link.name.starts_with("access"))
}

/// Scales the delays of the links so that every route has the delay of the fastest route.
fn even_out(network: &mut NetworkScenario) {
    let routes: Vec<Vec<usize>> = network.paths.iter().map(|path| path.nodes.clone()).collect();
    let delays: Vec<Duration> = routes.iter().map(|route| delay(network, route)).collect();
    let fastest = delays.iter().min().copied().unwrap_or_default();
    for (route, delay) in routes.iter().zip(delays) {
        let factor = fastest.as_secs_f64() / delay.as_secs_f64();
        network.links.iter_mut().filter(|link| is_on(link, route)).for_each(|link| link.scale_delay(factor));
    }
}

fn is_on(link: &Link, route: &[usize]) -> bool {
    route.windows(2).any(|hop| hop.iter().all(|node| link.ends.contains(node)))
}

fn delay(network: &NetworkScenario, route: &[usize]) -> Duration {
    network.links.iter().filter(|link| is_on(link, route)).map(|link| link.up.delay).sum()
}

impl PaperReading {
    /// Returns the case of one variant under one load.
    pub fn case(&self, (load, peak): (&str, u64), variant: &str) -> Result<Case, String> {
        let mut network = FIGURE_7.read()?;
        network.flows_mut("*").for_each(|flow| flow.set_peak(Rate::from_mbps(peak)));
        (self.change)(&mut network);
        case(&network, &format!("{}, {load}", self.name), variant)
    }

    /// Returns the results of these variants: one list for each load, with one entry for each variant.
    pub fn under_loads<const N: usize>(
        &self,
        lab: &mut Laboratory,
        variants: [&str; N],
    ) -> Result<Vec<Vec<Outcomes>>, String> {
        let cases = LOADS.iter().flat_map(|load| variants.map(|variant| self.case(*load, variant)));
        let cases = cases.collect::<Result<Vec<_>, _>>()?;
        Ok(lab.measure(&cases)?.chunks(N).map(<[Outcomes]>::to_vec).collect())
    }

    /// Returns the one-way delay of each route in ms, without the access links.
    pub fn route_delays_ms(&self) -> Result<Vec<f64>, String> {
        let mut network = FIGURE_7.read()?;
        (self.change)(&mut network);
        Ok(network.paths.iter().map(|path| delay(&network, &path.nodes).as_secs_f64() * 1e3).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readings_differ_by_their_delays() {
        let delays = |reading: &PaperReading| reading.route_delays_ms().unwrap();
        let differences = [&JUDGED, &BESIDE[0], &BESIDE[1]].map(|reading| {
            let delays = delays(reading);
            (delays[1] - delays[0], delays[0])
        });
        let expected = [(3.94, 20.15), (1.31, 6.72), (0.0, 20.15)];
        for ((difference, fast), (expected, expected_fast)) in differences.iter().zip(expected) {
            assert!((difference - expected).abs() < 0.01 && (fast - expected_fast).abs() < 0.01, "{differences:?}");
        }
    }
}
