//! Figure 2 of paper 000 over the number of paths and over their delay difference, as in its Figures 3 to 5.

use super::case::figure_2;
use super::laboratory::{Laboratory, Outcomes};
use super::row::{Measured, RowChart, RowCurve};
use super::{Estimate, r_squared};

/// Delay difference from each path to the next, in percent of the first path's delay.
pub(super) const DIFFERENCES: [u32; 5] = [0, 25, 50, 75, 100];
/// The largest number of paths in Figure 2 of paper 000.
pub(super) const PATHS: u32 = 5;

/// The results of one variant of paper 000, Figure 2, for all numbers of paths and all delay differences.
pub(super) struct FigureSweep {
    single: Outcomes,
    /// Results of two and more paths: for each number of paths, one entry for each of [`DIFFERENCES`].
    several: Vec<Outcomes>,
}

impl FigureSweep {
    /// Runs a variant for all numbers of paths and all delay differences.
    pub fn run(lab: &mut Laboratory, variant: &str) -> Result<FigureSweep, String> {
        let grid = (2..=PATHS).flat_map(|paths| DIFFERENCES.map(|difference| (paths, difference)));
        let cases: Vec<_> =
            [(1, 0)].into_iter().chain(grid).map(|(n, x)| figure_2(n, x, variant)).collect::<Result<_, _>>()?;
        let mut outcomes = lab.measure(&cases)?.into_iter();
        let single = outcomes.next().unwrap_or_default();
        Ok(FigureSweep { single, several: outcomes.collect() })
    }

    /// Returns the results for a number of paths and a delay difference in percent.
    pub fn outcomes(&self, paths: u32, difference: u32) -> &Outcomes {
        let column = DIFFERENCES.iter().position(|known| *known == difference).unwrap_or(0);
        match paths.checked_sub(2) {
            None => &self.single,
            Some(row) => &self.several[row as usize * DIFFERENCES.len() + column],
        }
    }

    /// Returns the goodput divided by that of one path with the same TCP. Each seed gives one value.
    pub fn ratio(&self, paths: u32, difference: u32) -> Estimate {
        ratio(self.outcomes(paths, difference), &self.single)
    }

    /// Returns the goodput over one path, and the goodput ratios of all other numbers of paths and delay differences.
    ///
    /// The name of each value begins with `what`.
    pub fn ratios(&self, what: &str) -> Measured {
        let mut measured = Measured::default();
        measured.add(format!("{what}one path, Mbit/s"), "", goodput_mbps(&self.single));
        for paths in 2..=PATHS {
            for difference in DIFFERENCES {
                let column = format!("{difference} %");
                measured.add(format!("{what}N = {paths}"), column, self.ratio(paths, difference));
            }
        }
        measured
    }

    /// Returns R² of the straight line that best fits the goodput ratio over the number of paths.
    ///
    /// `difference` is the delay difference in percent.
    pub fn straightness(&self, difference: u32) -> f64 {
        let point = |paths| (f64::from(paths), self.ratio(paths, difference).mean);
        r_squared(&(1..=PATHS).map(point).collect::<Vec<_>>())
    }

    /// Returns a chart of the goodput ratio over the number of paths, with one curve for each delay difference.
    pub fn chart(&self, title: &str) -> RowChart {
        let curve = |difference: u32| RowCurve {
            name: format!("{difference} %"),
            points: (1..=PATHS).map(|paths| (f64::from(paths), self.ratio(paths, difference))).collect(),
        };
        RowChart {
            title: format!("{title}: goodput over that of one path, by delay difference"),
            x_label: "paths".into(),
            categories: Vec::new(),
            curves: DIFFERENCES.map(curve).into(),
        }
    }
}

/// Returns the goodput of `outcomes` divided by that of `reference`. Each seed gives one value.
pub(super) fn ratio(outcomes: &Outcomes, reference: &Outcomes) -> Estimate {
    Estimate::of(outcomes.iter().zip(reference).map(|(a, b)| a.run.goodput_bps / b.run.goodput_bps))
}

/// Returns the goodput in Mbit/s. Each run gives one value.
pub(super) fn goodput_mbps(outcomes: &Outcomes) -> Estimate {
    Estimate::of(outcomes.iter().map(|outcome| outcome.run.goodput_bps / 1e6))
}
