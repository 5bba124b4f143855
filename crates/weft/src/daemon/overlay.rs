//! Texts about the overlay, for status and log.

use crate::status::{Overlay, OverlayContact, OverlayMember};
use weft_engine::{ClaimVerdict, Conflict, ContactStatus, LinkQuality, NodeStanding, OverlayStatus};
use weft_units::NodeId;

/// Converts the overlay's state for `weft status`.
pub fn status(status: &OverlayStatus) -> Overlay {
    Overlay {
        id: status.id.to_string(),
        ready: status.is_ready,
        members: status.members.iter().map(member).collect(),
        calling: status.calling,
        losses: status.losses,
        contacts: status.contacts.iter().map(contact).collect(),
        kept_owners: status.kept_owners,
        kept_prefixes: status.kept_prefixes,
    }
}

/// Returns the log line for a node that stores claims and refuses this node's claim.
pub fn refused(holder: &NodeId, why: ClaimVerdict) -> String {
    let why = match why {
        ClaimVerdict::Owned => {
            "other nodes have older certificates for all of this node's prefixes: give this node other prefixes"
        }
        ClaimVerdict::Uncertified => "this node's certificate is not valid, or belongs to another node: run weft check",
        ClaimVerdict::Full => "the refusing node's table of prefixes is full",
        ClaimVerdict::Outdated => "the refusing node stores a newer claim of this node: check this machine's clock",
        ClaimVerdict::Taken | ClaimVerdict::Elsewhere => {
            "the refusing node is not responsible for any of this node's prefixes"
        }
    };
    format!("node {holder} refuses to store this node's prefixes, so other nodes possibly do not find them: {why}")
}

/// Returns the log line for two certificates with one prefix.
pub fn conflict(Conflict { prefix: (address, length), owner, refused }: &Conflict) -> String {
    format!(
        "two certificates contain the prefix {address}/{length}: that of node {owner} is older and applies: sign a new \
         one without this prefix for node {refused}"
    )
}

fn member(member: &weft_engine::OverlayMember) -> OverlayMember {
    let standing = match member.standing {
        NodeStanding::Member => "member",
        NodeStanding::Candidate => "candidate",
        NodeStanding::Lost => "lost",
    };
    let link = match member.quality {
        LinkQuality::Good => "good",
        LinkQuality::Degraded => "degraded",
        LinkQuality::Suspect => "suspect",
        LinkQuality::Down => "down",
    };
    OverlayMember {
        id: member.id.to_string(),
        name: member.name.clone(),
        standing: standing.to_owned(),
        leaf: member.is_leaf,
        link: link.to_owned(),
        rtt_us: member.rtt.map(|rtt| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX)),
        loss: member.loss,
        relayed: member.is_relayed,
    }
}

fn contact(status: &ContactStatus) -> OverlayContact {
    OverlayContact {
        public_key: status.contact.public_key.to_string(),
        endpoints: status.contact.endpoints.iter().map(ToString::to_string).collect(),
        name: status.name.clone(),
        why_not: status.why_not.as_ref().map(ToString::to_string),
    }
}
