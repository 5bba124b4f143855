/// Rank of a path among the paths to a peer.
///
/// A path carries data only while no path of a better rank answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PathTier {
    /// The path is used whenever it answers.
    #[default]
    Primary,
    /// The path is used while no primary path answers.
    Secondary,
    /// The path is used while no primary and no secondary path answers.
    Backup,
    /// A route over relays that nobody configured. It is used while no other path answers.
    Detour,
}

/// The traffic for which a node or its peer lets a path be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PathUse {
    /// Rank of the path: which other paths must have failed before it carries data.
    pub tier: PathTier,
    /// True if the path carries only sparse flows, because its link's data quota is nearly used up.
    pub is_sparse_only: bool,
}

impl PathUse {
    /// Returns the use that both ends allow.
    ///
    /// It has the worse rank of the two, and allows only sparse flows if either end demands that.
    pub fn both(self, other: PathUse) -> PathUse {
        let is_sparse_only = self.is_sparse_only || other.is_sparse_only;
        PathUse { tier: self.tier.max(other.tier), is_sparse_only }
    }
}

impl From<PathTier> for PathUse {
    fn from(tier: PathTier) -> PathUse {
        PathUse { tier, is_sparse_only: false }
    }
}
