//! Joining a network of nodes by an invitation: the code that a person copies, and the exchange over TCP.
//!
//! `weft invite` prints the code and answers one applicant. `weft join` reads the code, connects to the inviting node
//! and receives its certificate and the network's settings. Frames are a length of two bytes and a message of
//! `weft_session::enrolment`.

mod code;
mod frame;
mod member;

pub use code::{Code, MAX_ENDPOINTS};
pub use frame::{receive, send};
pub use member::{MemberDirectory, how_to_start};

use serde::{Deserialize, Serialize};

/// The data that a new member receives.
#[derive(Clone, Serialize, Deserialize, Debug, PartialEq)]
pub struct Welcome {
    /// Version of this form; always 1.
    pub version: u32,
    /// Name of the new member.
    pub name: String,
    /// Certificate of the new member, in base64.
    pub certificate: String,
    /// Public half of the network's root key.
    pub root: String,
    /// Addresses of the new member's TUN device, each with the prefix length of the VPN's IP network.
    pub addresses: Vec<String>,
    /// The inviting node.
    pub host: HostNode,
}

/// The inviting node, as a new member reaches it.
#[derive(Clone, Serialize, Deserialize, Debug, PartialEq)]
pub struct HostNode {
    /// Name in the inviting node's certificate.
    pub name: String,
    /// Public key of the inviting node, in base64.
    pub public_key: String,
    /// Addresses and UDP ports at which the inviting node answers.
    pub endpoints: Vec<String>,
    /// True if members may reach the Internet through the inviting node.
    pub is_exit: bool,
}
