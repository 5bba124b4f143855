//! Links that the configuration names and that are not in use.

use serde::{Deserialize, Serialize};

/// A name or pattern of the configuration without a link in use.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct UnusedLink {
    /// The name, or a pattern with `*`.
    pub name: String,
    /// Why no link is in use.
    pub why: String,
    /// The configuration names this very interface, so that it should work. A pattern may match none.
    pub is_expected: bool,
}
