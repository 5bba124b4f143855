//! Holds the time series of a run and writes them to a CSV file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The values of one measured quantity over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Name of the series: that of a flow, or `LINK.up` or `LINK.down` followed by the measured quantity.
    pub name: String,
    /// Unit of the values, such as `bit/s` or `ms`.
    pub unit: &'static str,
    /// Points of the series: seconds since the start of the run, and the value at that time.
    pub points: Vec<(f64, f64)>,
}

/// All time series of one run of one variant.
#[derive(Clone, PartialEq, Debug)]
pub struct RunSeries {
    /// Total goodput of the run in bit/s.
    ///
    /// It identifies the run with the median goodput.
    pub goodput_bps: f64,
    /// The time series of the run.
    pub series: Vec<Series>,
}

impl Series {
    /// Returns the mean of the values in each step of `step_s` seconds, with the time at the end of the step.
    pub fn averaged(&self, step_s: f64) -> Vec<(f64, f64)> {
        let mut averaged: Vec<(f64, f64)> = Vec::new();
        let mut step: Option<(u64, f64, u32)> = None;
        let close = |(number, sum, count): (u64, f64, u32)| ((number + 1) as f64 * step_s, sum / f64::from(count));
        for (time, value) in &self.points {
            // A value belongs to the step in which its time lies. A time at the end of a step still belongs to this
            // step.
            let number = ((time / step_s - 1e-3).ceil() as u64).saturating_sub(1);
            step = match step {
                Some((n, sum, count)) if n == number => Some((n, sum + value, count + 1)),
                old => {
                    averaged.extend(old.map(close));
                    Some((number, *value, 1))
                }
            };
        }
        averaged.extend(step.map(close));
        averaged
    }
}

/// Writes all series to a CSV file with one line for each value: `time_s,series,unit,value`.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_csv(file: &Path, series: &[Series]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    writeln!(out, "time_s,series,unit,value")?;
    for Series { name, unit, points } in series {
        for (time_s, value) in points {
            writeln!(out, "{time_s:.4},{name},{unit},{value:.3}")?;
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_taken_per_step() {
        let series =
            Series { name: "s".into(), unit: "ms", points: vec![(0.5, 1.0), (1.0, 3.0), (1.5, 10.0), (3.2, 7.0)] };
        assert_eq!(series.averaged(1.0), [(1.0, 2.0), (2.0, 10.0), (4.0, 7.0)]);
    }
}
