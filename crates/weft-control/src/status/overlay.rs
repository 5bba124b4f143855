//! Status of the overlay.

use serde::{Deserialize, Serialize};

/// State of this node in the network's overlay.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Overlay {
    /// Identifier of this node, which is its position on the overlay's ring.
    pub id: String,
    /// True if this node has joined the ring, so that other nodes route through it.
    pub ready: bool,
    /// Other nodes of the overlay that this node has learnt.
    pub members: Vec<OverlayMember>,
    /// Number of nodes to which this node has sent a handshake and that have not yet answered.
    pub calling: usize,
    /// Number of members that have stopped answering since the start. A member counts each time.
    pub losses: u64,
    /// Contacts that the configuration names.
    pub contacts: Vec<OverlayContact>,
    /// Number of nodes whose prefixes and addresses this node stores, so that other nodes can ask for them.
    pub kept_owners: usize,
    /// Number of prefixes that belong to the nodes counted in `kept_owners`.
    pub kept_prefixes: usize,
}

/// Another node of the overlay.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OverlayMember {
    /// Identifier of the node, which is its position on the overlay's ring.
    pub id: String,
    /// Name of the node; absent: there is no session with it.
    pub name: Option<String>,
    /// Standing: `member`, `candidate` (not yet a member) or `lost` (it stopped answering).
    pub standing: String,
    /// True if the node is one of this node's nearest neighbours on the ring.
    pub leaf: bool,
    /// State of the link: good, degraded, suspect or down.
    pub link: String,
    /// Round-trip time to the node, in microseconds; absent: the node has not yet answered.
    pub rtt_us: Option<u64>,
    /// Fraction of probes without an answer, 0 to 1: the loss of both directions together.
    pub loss: f64,
    /// True if the node is reached only over relays.
    pub relayed: bool,
}

/// A contact that the configuration names.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OverlayContact {
    /// Public key of the contact.
    pub public_key: String,
    /// Addresses to which this node sends handshakes in order to reach the contact.
    pub endpoints: Vec<String>,
    /// Name of the contact; absent: there is no session with it.
    pub name: Option<String>,
    /// Reason why the last handshake with the contact failed.
    pub why_not: Option<String>,
}

impl Overlay {
    /// Returns true if contacts are configured, but no other node is a member.
    pub fn is_alone(&self) -> bool {
        !self.contacts.is_empty() && !self.members.iter().any(|member| member.standing == "member")
    }
}

impl OverlayContact {
    /// Returns the reason why the contact was not reached, or `None` if it was.
    pub fn trouble(&self) -> Option<String> {
        let why = self.why_not.as_ref().filter(|_| self.name.is_none())?;
        Some(format!("the overlay contact at {} was not reached: {why}", self.endpoints.join(" ")))
    }
}
