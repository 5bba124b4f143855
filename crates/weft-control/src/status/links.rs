//! Links that the configuration names and that are not in use.

use serde::{Deserialize, Serialize};

/// A name or pattern in the configuration without a link in use.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnusedLink {
    /// The name, or a pattern with `*`.
    pub name: String,
    /// Reason why no link is in use.
    pub why: String,
    /// True if the configuration names exactly this interface, so that it should work.
    ///
    /// A pattern may match none.
    pub is_expected: bool,
}
