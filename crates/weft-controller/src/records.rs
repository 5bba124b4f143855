//! The records of the store, as JSON.

use crate::secret::SecretHash;
use serde::{Deserialize, Serialize};

/// Key of the record that every commit changes.
///
/// A change reads this record's revision before it reads other records. Its commit fails if the revision is then
/// another one.
pub const GENERATION: &str = "generation";
/// Key of the policy.
pub const POLICY: &str = "policy";
/// Beginning of the keys of nodes.
pub const NODES: &str = "node/";
/// Beginning of the keys of configurations.
pub const CONFIGURATIONS: &str = "configuration/";
/// Beginning of the keys of invitations.
pub const INVITATIONS: &str = "invitation/";

/// A node. Its key is [`NODES`] followed by the node's name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NodeRecord {
    /// Public key, base64; absent until the node joins.
    pub public_key: Option<String>,
    /// Prefixes behind the node.
    pub addresses: Vec<String>,
    /// Groups, which the policy names.
    pub groups: Vec<String>,
    /// E-mail address of the user who may invite machines for the node.
    #[serde(default)]
    pub owner: Option<String>,
    /// Hash of the secret with which the node reads its configuration.
    pub secret: Option<SecretHash>,
}

/// A text in TOML: the policy, or the desired configuration of a node.
///
/// The key of a configuration is [`CONFIGURATIONS`] followed by the node's name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct TextRecord {
    /// The text.
    pub toml: String,
}

/// An invitation. Its key is [`INVITATIONS`] followed by its identifier.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct InvitationRecord {
    /// Name of the node as which a machine may join.
    pub node: String,
    /// Hash of the secret that the code contains.
    pub secret: SecretHash,
    /// Time at which the invitation expires, in seconds since 1970.
    pub expires_at: u64,
    /// Public key of the machine that has used the invitation; absent: it is unused.
    pub used_by: Option<String>,
    /// Maker of the invitation: `administrator`, or a user of the identity provider.
    pub made_by: String,
}
