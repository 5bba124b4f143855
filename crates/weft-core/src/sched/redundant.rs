//! Redundant: a copy on every usable path; the far end keeps what comes first.

use super::{Choice, PathView, UnitView};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Redundant;

impl Redundant {
    /// Everywhere, unless no path has room for bulk.
    pub fn pick(&mut self, paths: &[PathView], unit: UnitView) -> Choice {
        let usable = || paths.iter().filter(|p| p.usable);
        if usable().any(|p| (p.room && !p.suspect) || unit.urgent) {
            Choice::All
        } else if usable().all(|p| p.suspect) && usable().any(|p| p.room) {
            Choice::All
        } else if usable().next().is_some() {
            Choice::Hold
        } else {
            Choice::NoPath
        }
    }
}
