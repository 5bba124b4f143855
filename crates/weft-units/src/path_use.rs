/// Rank of a path: it carries data only while no path of a lower tier answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PathTier {
    /// Used whenever it answers.
    #[default]
    Primary,
    /// Used while no primary path answers.
    Secondary,
    /// Used while no primary and no secondary path answers.
    Backup,
    /// A route over relays that nobody configured. It is used while no other path answers.
    Detour,
}

/// Traffic for which a node and its peer may use a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PathUse {
    /// Rank of the path.
    pub tier: PathTier,
    /// True if the path carries only sparse flows, because its link's data quota is nearly used up.
    pub is_sparse_only: bool,
}

impl PathUse {
    /// Returns the use that both ends allow.
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
