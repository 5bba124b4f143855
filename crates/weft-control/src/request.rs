//! Requests of a client.

#[cfg(doc)]
use crate::Response;
use crate::status::FlowQuestion;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use weft_units::Rate;

/// Suffix of the file with the changed text of a configuration. The rest of its name is the configuration's name.
pub const CANDIDATE_SUFFIX: &str = ".new";

/// A request to a running node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Returns the node's whole status.
    Status,
    /// Sets the weights of links. Without weights, the weights follow the measured capacity again.
    SetWeights {
        /// Name of each link, and its new weight.
        weights: Option<Vec<(String, u32)>>,
    },
    /// Changes the weight or the promised rates of a VPN.
    SetVpn {
        /// Name of the VPN.
        vpn: String,
        /// The settings to change.
        change: VpnSetting,
    },
    /// Pings a peer through each path.
    Ping {
        /// Name of the peer.
        peer: String,
    },
    /// Explains how the node forwards a flow.
    Explain {
        /// The flow.
        flow: FlowQuestion,
    },
    /// Returns the prefixes and their owners.
    Prefixes {
        /// Only the prefixes of this peer.
        peer: Option<String>,
        /// Only the prefixes of this VPN.
        vpn: Option<String>,
    },
    /// Returns the sockets and devices of the node, so that its traffic can be captured.
    Sockets {
        /// Name of a peer whose remote addresses the answer should contain.
        peer: Option<String>,
    },
    /// Returns the links between all members of the overlay, and the routes found on them.
    LinkMap {
        /// Only the links of this member.
        from: Option<String>,
    },
    /// Returns the state of flows, users and ports.
    Qos {
        /// Maximum number of flows in the answer, those with the highest rates first.
        most: u32,
    },
    /// Starts a drill, which cuts a link or a peer for a given time.
    Drill {
        /// The link or node that the drill cuts.
        cut: DrillCut,
        /// Duration of the cut, in milliseconds.
        time_ms: u64,
        /// True to start the drill even if it leaves no path to a peer.
        force: bool,
    },
    /// Returns the state of the current or the last drill.
    DrillReport,
    /// Deletes the handshake stamps that were accepted from a peer. Its next handshake may have any stamp.
    ResetPeer {
        /// Name of the peer.
        peer: String,
    },
    /// Returns the measurement history of the paths to a peer.
    History {
        /// Name of the peer.
        peer: String,
    },
    /// Applies a revocation.
    Revoke {
        /// The revocation as base64 text.
        revocation: String,
    },
    /// Sends a request of an application to the node nearest to a key in the overlay, and waits for its answer.
    Call {
        /// A node's identifier, or any other text, whose hash is the key.
        key: String,
        /// Number of the application that is to answer, not 0.
        application: u16,
        /// Body of the call, base64; at most 1,024 bytes.
        body: String,
    },
    /// Returns the next call for an application, or nothing after some seconds.
    ///
    /// The node accepts calls for an application as long as a client sends this request again and again.
    Receive {
        /// Number of the application, not 0.
        application: u16,
    },
    /// Answers a call.
    Answer {
        /// Number of the call, from [`Response::Asked`].
        call: u64,
        /// Body of the answer, base64; at most 1,024 bytes.
        body: String,
    },
    /// Returns the changes of paths' states after change number `after`, or nothing after some seconds.
    Watch {
        /// Number of the last change that the client has received; 0 requests all changes that the node stores.
        after: u64,
    },
    /// Reads the file of the admitted clients again.
    AccessChanged,
    /// Returns each admitted WireGuard client and its state.
    AccessClients,
    /// Returns each connected OpenVPN client.
    OpenvpnClients,
    /// Reads the configuration again.
    Reload,
    /// Applies the changed configuration in the file whose name ends in [`CANDIDATE_SUFFIX`].
    ///
    /// Unless [`Request::Confirm`] arrives in time, the node returns to the previous configuration.
    Try {
        /// Absolute path of the node's configuration. The node compares it with its own path, as a check.
        file: String,
        /// Time to wait for the confirmation, in milliseconds; 0: none is needed.
        confirm_ms: u64,
    },
    /// Ends the trial of a changed configuration, which stays in effect. The client then writes it to the file.
    Confirm {
        /// Absolute path of the node's configuration. The node compares it with its own path, as a check.
        file: String,
    },
    /// Ends the trial of a changed configuration. The node returns to the previous configuration.
    Undo,
    /// Stops the node.
    Down,
}

impl Request {
    /// Returns the time within which the node must answer. A reload that opens devices may take seconds.
    pub fn patience(&self) -> Duration {
        let opens_devices = matches!(self, Request::Reload | Request::Try { .. } | Request::Undo);
        Duration::from_secs(if opens_devices { 30 } else { 5 })
    }
}

/// The link or node that a drill cuts.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DrillCut {
    /// Name of a link, or of a relayed route, such as `via hub`.
    Link(String),
    /// A peer.
    Node(String),
}

/// Changes to a VPN's weight and promised rates. An absent setting keeps its value.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VpnSetting {
    /// Weight, above zero.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub weight: Option<u32>,
    /// Assured rate in bits per second; 0 removes it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub assured_bps: Option<u64>,
    /// Leased rate in bits per second; 0 removes it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub leased_bps: Option<u64>,
}

impl fmt::Display for VpnSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |name, bps: Option<u64>| bps.map(|bps| format!("{name} {}", Rate::from_bps(bps)));
        let parts = [
            self.weight.map(|weight| format!("weight {weight}")),
            rate("assured", self.assured_bps),
            rate("leased", self.leased_bps),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}
