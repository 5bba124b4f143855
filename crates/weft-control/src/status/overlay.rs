//! Status of the overlay.

use serde::{Deserialize, Serialize};

/// This node's part in the network's overlay.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Overlay {
    /// Identifier of this node, which is its position on the overlay's ring.
    pub id: String,
    /// True if this node has joined the ring, so that other nodes route through it.
    pub ready: bool,
    /// Other known nodes.
    pub members: Vec<OverlayMember>,
    /// Number of nodes that have not yet answered this node's handshakes.
    pub calling: usize,
    /// Number of times since the start that a member stopped answering.
    pub losses: u64,
    /// Contacts that the configuration names.
    pub contacts: Vec<OverlayContact>,
    /// Number of owners whose prefixes and addresses this node stores for other nodes.
    pub kept_owners: usize,
    /// Number of prefixes of these owners.
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
    /// Standing: member, candidate or lost.
    pub standing: String,
    /// True if the node is one of this node's nearest neighbours on the ring.
    pub leaf: bool,
    /// State of the link: good, degraded, suspect or down.
    pub link: String,
    /// Round-trip time, in microseconds; absent: it has not yet answered.
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
    /// Addresses to which this node sends handshakes for the contact.
    pub endpoints: Vec<String>,
    /// Name of the contact; absent: there is no session with it.
    pub name: Option<String>,
    /// Reason why the last handshake with the contact failed.
    pub why_not: Option<String>,
}

impl Overlay {
    /// Returns true if this node has reached none of its contacts and no other member.
    pub fn is_alone(&self) -> bool {
        !self.contacts.is_empty() && !self.members.iter().any(|member| member.standing == "member")
    }
}

impl OverlayContact {
    /// Returns the reason why the contact was not reached, if it was not.
    pub fn trouble(&self) -> Option<String> {
        let why = self.why_not.as_ref().filter(|_| self.name.is_none())?;
        Some(format!("contact {} not reached: {why}", self.endpoints.join(" ")))
    }
}
