//! Redundant scheduling: sends a copy on every usable path, of bulk only on paths that are not full.
//!
//! The receiver keeps the copy that arrives first.

use super::{Choice, Eligible, PathView, UnitView};

/// The redundant scheduler. See the module.
#[derive(Clone, Copy, Debug)]
pub struct Redundant;

impl Redundant {
    /// Returns [`Choice::All`], or [`Choice::Hold`] if the unit is bulk and every eligible path is full.
    pub fn pick(&mut self, paths: &[PathView], unit: UnitView) -> Choice {
        let eligible = Eligible::among(paths);
        let mut candidates = paths.iter().filter(|path| eligible.includes(path)).peekable();
        if candidates.peek().is_none() {
            Choice::NoPath
        } else if candidates.any(|path| path.room || unit.urgent) {
            Choice::All
        } else {
            Choice::Hold
        }
    }
}
