//! Sweeps in Parquet files: a file for each part that ran separately, and a file that joins them.
//!
//! The whole sweep is part 0 of 1. A sweep that was joined from parts is thus the same file, byte for byte,
//! as one that ran in one piece.

mod columns;
mod shard;
mod summary;

pub use shard::Shard;
pub use summary::{Spread, SweepSummary, VariantSummary};

use parquet::errors::ParquetError;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::{fmt, mem};
use weft_scenario::{MixResult, SCHEMA};

/// The result of one run of one variant on one mix.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepRow {
    /// The index of the mix in the sweep, from 0.
    pub mix: u32,
    /// The mix's seed.
    pub seed: u64,
    /// Descriptions of the mix's links, joined by commas.
    pub links: String,
    /// The variant's name.
    pub variant: String,
    /// The number of this run among the variant's runs on the mix, from 0.
    pub run: u32,
    /// Goodput of this run, in bit/s.
    pub goodput_bps: f64,
    /// Goodput of the run divided by the greatest goodput that the mix's links allow.
    pub efficiency: f64,
    /// Goodput of weft over all links of the mix, divided by that of weft over the mix's best link.
    pub of_best_link_through_weft: Option<f64>,
    /// Goodput of weft over all links of the mix, divided by that over the mix's best link without a tunnel.
    pub of_best_link: Option<f64>,
    /// True if the mix passed: weft's goodput reached all ratios to other goodputs that the sweep's file requires.
    pub pass: bool,
}

/// The properties of a sweep, which are the same in the files of all its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AboutSweep {
    /// The sweep's name.
    pub sweep: String,
    /// The world in which the sweep ran: `lab` or `sim`.
    pub world: String,
    /// The text of the sweep's file, so that only parts of the same sweep are joined.
    pub recipe: String,
    /// Number of mixes in the whole sweep.
    pub mixes: u32,
}

/// The results of one part of a sweep, as its Parquet file contains them.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepFile {
    about: AboutSweep,
    shard: Shard,
    rows: Vec<SweepRow>,
}

impl SweepFile {
    /// Returns a part of a sweep that has no results yet.
    pub fn new(about: AboutSweep, shard: Shard) -> SweepFile {
        SweepFile { about, shard, rows: Vec::new() }
    }

    /// Adds the results of the mix with this index in the sweep, from 0. Call it in the order of the indices.
    pub fn add(&mut self, position: u32, mix: &MixResult) {
        for variant in &mix.run.variants {
            for (run, result) in (0..).zip(&variant.runs) {
                self.rows.push(SweepRow {
                    mix: position,
                    seed: mix.seed,
                    links: mix.links.join(", "),
                    variant: variant.name.clone(),
                    run,
                    goodput_bps: result.goodput_bps,
                    efficiency: result.efficiency,
                    of_best_link_through_weft: mix.of_best_link_through_weft,
                    of_best_link: mix.of_best_link,
                    pass: mix.pass,
                });
            }
        }
    }

    /// Returns which part of the sweep this is.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Returns the results of the part, one row for each run of each variant on each mix.
    pub fn rows(&self) -> &[SweepRow] {
        &self.rows
    }

    /// Writes the part to `out` as a Parquet file. The same results give the same bytes.
    ///
    /// # Errors
    /// Returns an error if `out` cannot be written.
    pub fn write<W: Write + Send>(&self, out: W) -> Result<(), SweepFileError> {
        let AboutSweep { sweep, world, recipe, mixes } = &self.about;
        let about = [
            ("weft.schema", SCHEMA.to_string()),
            ("weft.sweep", sweep.clone()),
            ("weft.world", world.clone()),
            ("weft.recipe", recipe.clone()),
            ("weft.mixes", mixes.to_string()),
            ("weft.shard", self.shard.to_string()),
        ];
        columns::write(out, &about, &self.rows)
    }

    /// Writes the part into a file. If this fails, the file does not exist or is unchanged.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn save(&self, file: &Path) -> Result<(), SweepFileError> {
        let mut part = file.as_os_str().to_owned();
        part.push(".part");
        let saved = File::create(&part).map_err(SweepFileError::from).and_then(|out| self.write(out));
        let renamed = saved.and_then(|()| Ok(fs::rename(&part, file)?));
        if renamed.is_err() {
            let _ = fs::remove_file(&part);
        }
        renamed
    }

    /// Reads the file of one part of a sweep.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or contains no sweep.
    pub fn read(file: &Path) -> Result<SweepFile, SweepFileError> {
        let (mut about, rows) = columns::read(File::open(file)?)?;
        let mut take = |key: &str| {
            let missing = || SweepFileError::NotASweep(format!("the entry `{key}` is missing in its metadata"));
            about.remove(key).ok_or_else(missing)
        };
        if take("weft.schema")? != SCHEMA.to_string() {
            return Err(SweepFileError::NotASweep(format!(
                "its format version is not {SCHEMA}, the only one that this program reads: run the sweep again"
            )));
        }
        let mixes = take("weft.mixes")?;
        let shard = take("weft.shard")?;
        Ok(SweepFile {
            about: AboutSweep {
                sweep: take("weft.sweep")?,
                world: take("weft.world")?,
                recipe: take("weft.recipe")?,
                mixes: mixes.parse().map_err(|_| {
                    SweepFileError::NotASweep(format!("its number of mixes, `{mixes}`, is not a number"))
                })?,
            },
            shard: shard.parse().map_err(SweepFileError::NotASweep)?,
            rows,
        })
    }

    /// Joins all parts of a sweep, in any order. Returns the whole sweep as part 0 of 1.
    ///
    /// # Errors
    /// Returns an error if there is no part, if one is missing, or if one occurs twice. Also fails if the
    /// parts belong to different sweeps, or if a part contains results of another part's mixes.
    pub fn merge(mut parts: Vec<SweepFile>) -> Result<SweepFile, SweepFileError> {
        parts.sort_by_key(|part| part.shard);
        let first = parts.first().ok_or_else(|| SweepFileError::Missing("all".into()))?;
        let (about, shard) = (first.about.clone(), first.shard);
        if let Some(other) = parts.iter().find(|part| part.about != about) {
            return Err(SweepFileError::Different(format!("sweep {} and sweep {}", about.sweep, other.about.sweep)));
        }
        for expected in shard.siblings() {
            match parts.iter().filter(|part| part.shard == expected).count() {
                0 => return Err(SweepFileError::Missing(expected.to_string())),
                1 => {}
                _ => return Err(SweepFileError::Twice(expected)),
            }
        }
        let is_foreign = |part: &&SweepFile| {
            !shard.siblings().any(|s| s == part.shard)
                || part.rows.iter().any(|row| row.mix >= about.mixes || !part.shard.takes(row.mix))
        };
        if let Some(part) = parts.iter().find(is_foreign) {
            return Err(SweepFileError::Foreign(part.shard));
        }
        let mut rows: Vec<SweepRow> = parts.iter_mut().flat_map(|part| mem::take(&mut part.rows)).collect();
        // The sort is stable, so the runs on a mix keep their order.
        rows.sort_by_key(|row| row.mix);
        Ok(SweepFile { about, shard: Shard::WHOLE, rows })
    }
}

/// The reason why a sweep's file cannot be read, written or joined to others.
#[derive(Debug)]
pub enum SweepFileError {
    /// The file cannot be opened or written.
    Io(io::Error),
    /// The file is not a Parquet file, or is damaged.
    Parquet(ParquetError),
    /// The Parquet file contains no sweep of this schema. The text names the reason.
    NotASweep(String),
    /// The parts belong to different sweeps. The text names the two sweeps.
    Different(String),
    /// This part of the sweep is missing.
    Missing(String),
    /// This part of the sweep occurs twice.
    Twice(Shard),
    /// This part belongs to a sweep that was divided into another number of parts.
    ///
    /// Or it contains results of mixes that belong to other parts.
    Foreign(Shard),
}

impl fmt::Display for SweepFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepFileError::Io(why) => why.fmt(f),
            SweepFileError::Parquet(why) => why.fmt(f),
            SweepFileError::NotASweep(why) => write!(f, "the file does not contain readable results of a sweep: {why}"),
            SweepFileError::Different(names) => write!(
                f,
                "the files are parts of different sweeps or settings: {names}: merge only the parts of one sweep"
            ),
            SweepFileError::Missing(shard) => write!(f, "missing parts of the sweep: {shard}; give their files too"),
            SweepFileError::Twice(shard) => write!(f, "two files are part {shard} of the sweep: leave one out"),
            SweepFileError::Foreign(shard) => write!(
                f,
                "part {shard} does not fit the other parts: run all parts of the sweep with the same number of parts"
            ),
        }
    }
}

impl std::error::Error for SweepFileError {}

impl From<io::Error> for SweepFileError {
    fn from(why: io::Error) -> SweepFileError {
        SweepFileError::Io(why)
    }
}

impl From<ParquetError> for SweepFileError {
    fn from(why: ParquetError) -> SweepFileError {
        SweepFileError::Parquet(why)
    }
}

#[cfg(test)]
mod tests;
