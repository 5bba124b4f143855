//! The overlay: its configuration, contacts, the reasons why no session with a contact exists, and its state.

use super::trust::Rejection;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use weft_core::route::overlay::{NodeStanding, Quality};
use weft_session::PublicKey;
use weft_units::{Duration, NodeId, Rate};

/// Maximum number of addresses of a contact that are sent to other nodes.
pub const MAX_ENDPOINTS: usize = 4;

/// A node of the overlay, and the addresses to which handshakes for the node may be sent.
///
/// On the wire: public key (32 bytes), then for each endpoint the family (4 or 6), the address (4 or 16 bytes) and
/// the port (u16).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contact {
    /// The node's static key, which determines its id in the overlay.
    pub public_key: PublicKey,
    /// The node's addresses, starting with the one that most likely works.
    ///
    /// At most [`MAX_ENDPOINTS`] are sent to other nodes. Empty for a node that can be reached only over relays.
    pub endpoints: Vec<SocketAddr>,
}

/// Maximum number of relayed routes to a node that are found from the link map and kept ready.
pub const MAX_FOUND_ROUTES: usize = 3;

/// Configuration of the overlay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OverlayConfig {
    /// Addresses to which handshakes for this node can be sent.
    ///
    /// Other nodes add the source addresses from which this node's datagrams reach them.
    pub endpoints: Vec<SocketAddr>,
    /// Contacts through which the node joins the overlay, in addition to the configured peers.
    pub contacts: Vec<Contact>,
    /// Number of routes over relays that are found and kept ready for each peer, at most [`MAX_FOUND_ROUTES`].
    pub routes: usize,
}

impl Default for OverlayConfig {
    /// Returns a configuration without addresses and contacts, which finds routes.
    fn default() -> OverlayConfig {
        OverlayConfig { endpoints: Vec::new(), contacts: Vec::new(), routes: MAX_FOUND_ROUTES }
    }
}

/// The reason why a contact did not become a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unmet {
    /// The contact is this node itself.
    Myself,
    /// This node has no certificate to send in the handshake.
    NothingToShow,
    /// The network's root revoked the contact's key.
    Revoked,
    /// A handshake with the contact failed a short time ago.
    JustTried,
    /// The maximum number of peers that this node contacted by key is reached.
    TooMany,
    /// The contact did not answer.
    ///
    /// No node with this key has the address, the node does not have this network's root key, or datagrams are lost.
    Silent,
    /// The contact presented no certificate in the handshake.
    NoCertificate,
    /// This node rejected the contact's certificate, for this reason.
    Refused(Rejection),
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unmet::Myself => "it is this node itself",
            Unmet::NothingToShow => "this node has no certificate to present",
            Unmet::Revoked => "its key was revoked",
            Unmet::JustTried => "a recent call to it got no answer",
            Unmet::TooMany => "too many called peers: the limit is reached",
            Unmet::Silent => {
                "no answer: the address or the key is wrong, or it does not accept this node's certificate"
            }
            Unmet::NoCertificate => "it presented no certificate",
            Unmet::Refused(why) => return write!(f, "{why}"),
        })
    }
}

/// A node's state in the overlay.
#[derive(Clone, Debug)]
pub struct OverlayStatus {
    /// The node's id in the overlay.
    pub id: NodeId,
    /// True if the node has found its position on the ring of overlay ids.
    pub is_ready: bool,
    /// Nodes that are, were or may become members of this node's neighbourhood on the ring of ids, sorted by id.
    pub members: Vec<OverlayMember>,
    /// Number of times since the start that a member of the neighbourhood stopped answering.
    pub losses: u64,
    /// Number of nodes to which this node sent a handshake and that have not answered yet.
    pub calling: usize,
    /// State of each configured contact.
    pub contacts: Vec<ContactStatus>,
    /// Number of owners of prefixes whose claims this node stores for other nodes.
    pub kept_owners: usize,
    /// Number of prefixes in the claims that this node stores for other nodes.
    pub kept_prefixes: usize,
}

/// Another node of the overlay, as this node stores it.
#[derive(Clone, Debug)]
pub struct OverlayMember {
    /// The node's id in the overlay.
    pub id: NodeId,
    /// The node's name, if the node is a peer of this node.
    pub name: Option<String>,
    /// Whether the node is a candidate, a member of this node's neighbourhood, or silent.
    pub standing: NodeStanding,
    /// True if the node is one of this node's nearest nodes on the ring of ids.
    pub is_leaf: bool,
    /// Quality of the connection to the node, by the probes of the overlay.
    pub quality: Quality,
    /// Round-trip time to the node; `None` before its first answer.
    pub rtt: Option<Duration>,
    /// Fraction of the probes to the node that were lost or whose answer was lost, 0…1.
    pub loss: f64,
    /// True if only relayed routes lead to the node.
    pub is_relayed: bool,
}

/// State of a contact in the configuration, through which the node joins the overlay.
#[derive(Clone, Debug)]
pub struct ContactStatus {
    /// The key and addresses of the contact.
    pub contact: Contact,
    /// The contact's name, while there is a session with it.
    pub name: Option<String>,
    /// The reason why the last handshake with the contact failed. `None` if it did not fail.
    pub why_not: Option<Unmet>,
}

/// The links between all members of the overlay, as the members at both ends claim them.
#[derive(Clone, Debug, Default)]
pub struct LinkMapStatus {
    /// The members whose certificates are known.
    pub members: Vec<MapMember>,
    /// The links that both ends claim to be up.
    pub links: Vec<ReportedLink>,
    /// Number of claims and certificates refused as forged since the start.
    pub forged_claims: u64,
    /// Bytes that this node has sent to exchange the link map, with 60 bytes of headers for each message.
    pub sent_bytes: u64,
}

/// A member of the overlay in the link map.
#[derive(Clone, Debug)]
pub struct MapMember {
    /// The first 32 bits of the member's id.
    pub label: u32,
    /// The member's name in its certificate.
    pub name: String,
    /// True if the member forwards datagrams between other nodes, and its certificate allows this.
    pub is_relay: bool,
}

/// A link between two members. Each figure is the worse one of the figures that the two ends claim.
#[derive(Clone, Copy, Debug)]
pub struct ReportedLink {
    /// The first 32 bits of one end's id.
    pub from: u32,
    /// The first 32 bits of the other end's id.
    pub to: u32,
    /// Round-trip time of the link.
    pub rtt: Duration,
    /// Mean deviation of the link's round-trip time.
    pub jitter: Duration,
    /// Fraction of the datagrams that the link loses, 0…1.
    pub loss: f64,
    /// Available bandwidth of the link, or its capacity if the former is unknown. `None` if no end claims either.
    pub rate: Option<Rate>,
}

/// A route over relays to a peer, computed from the link map.
#[derive(Clone, Debug)]
pub struct RouteStatus {
    /// Name of the peer to which the route leads.
    pub to: String,
    /// Names of the relays, in order from this node to the peer.
    pub relays: Vec<String>,
    /// Round-trip time of the route according to the link map.
    pub rtt: Duration,
    /// Fraction of the datagrams that the route loses according to the link map, 0…1.
    pub loss: f64,
    /// Rate of the route's slowest link; `None` if the rate of one of its links is unknown.
    pub rate: Option<Rate>,
    /// True if the peer answers over the route.
    pub answers: bool,
    /// True if the route carries no data, because a better path to the peer answers.
    pub is_standby: bool,
}
