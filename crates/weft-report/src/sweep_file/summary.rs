//! Summarises a whole sweep in a few figures.

use super::{SweepFile, SweepRow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weft_scenario::{SCHEMA, median};

/// The most important figures of a whole sweep.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SweepSummary {
    /// Version of the format of this summary, [`weft_scenario::SCHEMA`].
    pub schema: u32,
    /// The sweep's name.
    pub sweep: String,
    /// The world in which the sweep ran: `lab` or `sim`.
    pub world: String,
    /// Number of mixes in the sweep.
    pub mixes: u32,
    /// Number of mixes on which weft reached all required ratios.
    pub passed: u32,
    /// True if every mix passed.
    pub pass: bool,
    /// Seeds of the mixes that have results and did not pass.
    pub failed_seeds: Vec<u64>,
    /// Goodput of weft over all links, divided by that of weft over the best link: least and median of all mixes.
    pub of_best_link_through_weft: Option<Spread>,
    /// Goodput of weft over all links, divided by the best link's without a tunnel: least and median of all mixes.
    pub of_best_link: Option<Spread>,
    /// The figures of each variant, in the order of the names.
    pub variants: Vec<VariantSummary>,
}

/// Least value and median of a ratio of goodputs over many mixes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// The least value of the ratio over the mixes.
    pub least: f64,
    /// The median of the ratio over the mixes.
    pub median: f64,
}

/// The figures of one variant over all mixes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VariantSummary {
    /// The variant's name.
    pub name: String,
    /// Number of runs of the variant on all mixes together.
    pub runs: usize,
    /// Median goodput over all runs, in bit/s.
    pub goodput_bps: f64,
    /// Median over all runs of the goodput divided by the greatest goodput that the mix's links allow.
    pub efficiency: f64,
}

impl SweepFile {
    /// Returns the summary of the sweep. It counts a mix without results as not passed.
    pub fn summary(&self) -> SweepSummary {
        let mixes: BTreeMap<u32, &SweepRow> = self.rows.iter().map(|row| (row.mix, row)).collect();
        let passed = mixes.values().filter(|row| row.pass).count() as u32;
        let spread =
            |ratio: fn(&SweepRow) -> Option<f64>| spread(mixes.values().filter_map(|row| ratio(row)).collect());
        SweepSummary {
            schema: SCHEMA,
            sweep: self.about.sweep.clone(),
            world: self.about.world.clone(),
            mixes: self.about.mixes,
            passed,
            pass: passed == self.about.mixes,
            failed_seeds: mixes.values().filter(|row| !row.pass).map(|row| row.seed).collect(),
            of_best_link_through_weft: spread(|row| row.of_best_link_through_weft),
            of_best_link: spread(|row| row.of_best_link),
            variants: self.variants(),
        }
    }

    fn variants(&self) -> Vec<VariantSummary> {
        let mut by_name: BTreeMap<&str, Vec<&SweepRow>> = BTreeMap::new();
        for row in &self.rows {
            by_name.entry(&row.variant).or_default().push(row);
        }
        let summary = |(name, rows): (&str, Vec<&SweepRow>)| VariantSummary {
            name: name.to_owned(),
            runs: rows.len(),
            goodput_bps: median(rows.iter().map(|row| row.goodput_bps)).unwrap_or(0.0),
            efficiency: median(rows.iter().map(|row| row.efficiency)).unwrap_or(0.0),
        };
        by_name.into_iter().map(summary).collect()
    }
}

fn spread(ratios: Vec<f64>) -> Option<Spread> {
    let least = ratios.iter().copied().min_by(f64::total_cmp)?;
    Some(Spread { least, median: median(ratios)? })
}
