//! The overlay in the status.

use serde::{Deserialize, Serialize};

/// This node's part in the network's overlay.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Overlay {
    /// Its place on the ring.
    pub id: String,
    /// It has found its place.
    pub ready: bool,
    /// Other nodes it knows.
    pub members: Vec<OverlayMember>,
    /// Nodes that were called and have not answered yet.
    pub calling: usize,
    /// How often a member has fallen silent since the start.
    pub losses: u64,
    /// Those that the configuration names to begin with.
    pub contacts: Vec<OverlayContact>,
    /// Owners of prefixes whose whereabouts this node keeps for the others.
    pub kept_owners: usize,
    /// Their prefixes.
    pub kept_prefixes: usize,
}

/// Another node of the overlay.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct OverlayMember {
    /// Its place on the ring.
    pub id: String,
    /// Its name; absent: there is no session with it.
    pub name: Option<String>,
    /// member, candidate or lost.
    pub standing: String,
    /// It is one of the next nodes on the ring.
    pub leaf: bool,
    /// good, degraded, suspect or down.
    pub link: String,
    /// Round-trip time; absent: it has not answered yet.
    pub rtt_us: Option<u64>,
    /// What is lost of questions and answers together, 0…1.
    pub loss: f64,
    /// Only relays lead there.
    pub relayed: bool,
}

/// A node that the configuration names to begin with.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct OverlayContact {
    /// Its key.
    pub public_key: String,
    /// Where it is called.
    pub endpoints: Vec<String>,
    /// Its name; absent: there is no session with it.
    pub name: Option<String>,
    /// Why it was not met at the last try.
    pub why_not: Option<String>,
}

impl Overlay {
    /// Nobody was met of those it was to begin with, nor anybody else.
    pub fn is_alone(&self) -> bool {
        !self.contacts.is_empty() && !self.members.iter().any(|member| member.standing == "member")
    }
}

impl OverlayContact {
    /// What is wrong with it, if something is.
    pub fn trouble(&self) -> Option<String> {
        let why = self.why_not.as_ref().filter(|_| self.name.is_none())?;
        Some(format!("contact {} not met: {why}", self.endpoints.join(" ")))
    }
}
