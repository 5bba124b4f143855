//! Parsing of `[[class]]`: a class that is changed or added.

use super::figures::{self, KeySpans};
use crate::config::parse::peer_name;
use crate::config::read::{At, Section};
use weft_flows::rules::Overrides;
use weft_flows::{Classes, Treatment};

/// A `[[class]]` table.
#[derive(Clone, Debug)]
pub struct ClassSetting {
    /// Name of the class. The name of a built-in class changes that class.
    pub name: At<String>,
    /// Rates, delays and precedence that the table sets. They replace those of the built-in class, or of `bulk`.
    pub figures: Overrides,
    /// Byte ranges of the rates, delays and precedence in the file.
    pub(super) spans: KeySpans,
}

impl ClassSetting {
    /// Returns the treatment of a flow of this class.
    ///
    /// `classes` are the built-in classes as the earlier `[[class]]` tables of the file change them.
    pub fn treatment(&self, classes: &Classes) -> Treatment {
        let before = classes.find(&self.name.value).and_then(|id| classes.get(id));
        self.figures.apply(&before.map_or_else(|| classes.default_treatment(), |class| class.treatment)).treatment
    }
}

/// Parses a `[[class]]` table.
pub fn read(mut section: Section<'_, '_>) -> Option<ClassSetting> {
    let name = section.parsed("name", "\"backup\"", peer_name);
    if !section.has("name") {
        section.missing("name", "voice, video, interactive, bulk, background, or a name of your own");
    }
    let mut spans = KeySpans::default();
    let figures = figures::read(&mut section, &mut spans);
    section.finish();
    Some(ClassSetting { name: name?, figures, spans })
}
