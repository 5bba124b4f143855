//! Redundant: a copy on every usable path, of bulk on those that have room; the far end keeps what comes first.

use super::{Choice, Eligible, PathView, UnitView};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Redundant;

impl Redundant {
    /// Everywhere, unless no good path has room for bulk.
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
