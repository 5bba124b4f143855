//! Reports of results: tables and pictures for readers, and Parquet files for large sweeps.
//!
//! Parts of a large sweep run on many machines. The lab and the simulator produce results of the same format.
//! This crate reads that format only and never depends on either of them. The same result always gives the
//! same bytes.
#![forbid(unsafe_code)]

mod charts;
mod disturbances;
mod drawn;
mod grid;
mod heat_map;
mod panels;
mod parity;
mod run_picture;
mod save;
mod style;
mod sweep_file;
mod table;

pub use charts::{Chart, Curve, charts_picture};
pub use grid::{grid_table, network_grid_table};
pub use heat_map::{HeatMap, heat_maps_picture};
pub use parity::{ParityRow, parity, parity_table};
pub use run_picture::run_picture;
pub use save::{picture_of, save_run};
pub use sweep_file::{AboutSweep, Shard, Spread, SweepFile, SweepFileError, SweepRow, SweepSummary, VariantSummary};
pub use table::{run_table, sweep_table};
