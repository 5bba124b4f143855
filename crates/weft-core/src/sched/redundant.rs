//! Redundant scheduling: sends a copy on every usable path. Bulk waits while all paths are full.
//!
//! The receiver keeps the copy that arrives first.

use super::{Eligible, PathChoice, PathView, UnitView};

/// The redundant scheduler: it sends a copy of each unit on every usable path.
#[derive(Clone, Copy, Debug)]
pub struct Redundant;

impl Redundant {
    /// Returns [`PathChoice::All`], or [`PathChoice::Hold`] if the unit is bulk and every eligible path is full.
    pub fn pick(&mut self, paths: &[PathView], unit: UnitView) -> PathChoice {
        let eligible = Eligible::among(paths);
        let mut candidates = paths.iter().filter(|path| eligible.includes(path)).peekable();
        if candidates.peek().is_none() {
            PathChoice::NoPath
        } else if candidates.any(|path| path.room || unit.urgent) {
            PathChoice::All
        } else {
            PathChoice::Hold
        }
    }
}
