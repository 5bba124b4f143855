//! Revocations: a list that only grows and is shared by all nodes of the network.
//!
//! Only revocations signed by the root key are stored.

use crate::api::RevokeError;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use weft_session::{PublicKey, Revocation, RootPublicKey};

/// Maximum number of revocations that are stored: 1.7 MB on the wire. A network with more needs a new root key.
const MAX_REVOCATIONS: usize = 16_384;

/// The revocations that this node has learnt, in the order in which it learnt them.
#[derive(Default)]
pub struct Revocations {
    pub list: Vec<Revocation>,
    pub keys: BTreeSet<PublicKey>,
    /// Number of revocations, from the beginning of the list, that this node has acted upon.
    pub done: usize,
}

impl Revocations {
    /// Returns all revocations. Each peer is sent the revocations that it lacks.
    pub fn list(&self) -> &[Revocation] {
        &self.list
    }

    pub fn has(&self, key: &PublicKey) -> bool {
        self.keys.contains(key)
    }

    /// True if some revocations were not acted upon yet.
    pub fn are_new(&self) -> bool {
        self.done < self.list.len()
    }

    /// Adds a revocation signed by `root`. Returns false if it is already stored.
    pub fn take(&mut self, root: &RootPublicKey, revocation: &Revocation) -> Result<bool, RevokeError> {
        if self.has(&revocation.public_key()) {
            return Ok(false);
        }
        if self.list.len() >= MAX_REVOCATIONS {
            return Err(RevokeError::TooMany);
        }
        if !root.has_revoked(revocation) {
            return Err(RevokeError::OtherRoot);
        }
        self.list.push(*revocation);
        self.keys.insert(revocation.public_key());
        Ok(true)
    }
}
