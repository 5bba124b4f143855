//! Reads a scenario file whose kind the caller does not know: two nodes or a whole network.

use crate::error::{Checked, Source};
use crate::{NetworkScenario, Scenario, ScenarioError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

/// A scenario of one of the two kinds.
#[derive(Clone, PartialEq, Debug)]
pub enum AnyScenario {
    /// Two nodes and the links between them, for the lab and the simulator.
    Pair(Scenario),
    /// A whole network, for the simulator and, with limits, for the lab.
    Network(NetworkScenario),
}

impl AnyScenario {
    /// Reads and checks a scenario. `file` is the name that error messages give to the text.
    ///
    /// # Errors
    /// The same as those of [`Scenario::parse`] and [`NetworkScenario::parse`].
    pub fn parse(text: &str, file: &str) -> Result<AnyScenario, ScenarioError> {
        let source = Source { file, text };
        match Shape::of(&source)? {
            Shape::Pair => Scenario::parse_pair(&source).map(AnyScenario::Pair),
            Shape::Network { .. } => NetworkScenario::read(&source).map(AnyScenario::Network),
        }
    }
}

/// The kind of scenario that a file describes.
pub(crate) enum Shape {
    /// Two nodes and the links between them.
    Pair,
    /// A network.
    ///
    /// `told_at` is the byte offset in the file of the first key that only the file of a network has.
    Network { told_at: usize },
}

/// The keys that only the file of a network has.
#[derive(Deserialize)]
struct NetworkKeys {
    node: Option<Spanned<IgnoredAny>>,
    path: Option<Spanned<IgnoredAny>>,
    routing: Option<Spanned<IgnoredAny>>,
}

impl Shape {
    pub fn of(source: &Source<'_>) -> Checked<Shape> {
        let keys: NetworkKeys = crate::read::read(source)?;
        let told_at = [keys.node, keys.path, keys.routing].into_iter().flatten().map(|key| key.span().start).min();
        Ok(told_at.map_or(Shape::Pair, |told_at| Shape::Network { told_at }))
    }
}
