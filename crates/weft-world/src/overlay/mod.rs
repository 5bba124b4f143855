//! Whole overlays in virtual time.
//!
//! Many [`weft_core::route::overlay::OverlayState`]s run over a simulated network that delays, loses and splits.
//! The tests check the requirements of `docs/operate/overlay.md`. Messages of the protocol are real bytes. Data
//! packets are headers only, and there is no engine.

pub mod brownout;
pub mod churn;
pub mod deaths;
mod judge;
pub mod ownership;
pub mod quiet;
pub mod scale;
mod sites;
mod terrain;
mod world;

pub use judge::{Roots, Walk, missing_in_cells, walk};
pub use sites::{Lie, LookupResult, Registry};
pub use terrain::{Terrain, TerrainShape};
pub use world::{OverlayTraffic, OverlayWorld, RootArrival};

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls `one` for each of `seeds`, on `threads` threads.
///
/// Returns the results in the order of the seeds.
pub fn for_seeds<T: Send>(seeds: std::ops::Range<u64>, threads: usize, one: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = one(seed);
                    let Ok(mut all) = all.lock() else { return };
                    all.push((seed, result));
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap_or_default();
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Returns the smallest value that at least the fraction `p` of `values` does not exceed.
///
/// Returns zero if there are no values.
pub fn percentile<T: Copy + PartialOrd + Default>(values: &[T], p: f64) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}
