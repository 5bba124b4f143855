//! Responses of a node.

#[cfg(doc)]
use crate::Request;
use crate::status::{Drill, Explanation, FlowAccess, LinkMap, PathHistory, Prefixes, Qos, Sockets, Status};
use crate::{AccessClient, ClientRefusals};
use serde::{Deserialize, Serialize};

/// Response of a node.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// Response to [`Request::Status`].
    Status(Box<Status>),
    /// Response to [`Request::Ping`].
    Pongs {
        /// One answer per path.
        paths: Vec<Pong>,
    },
    /// State of flows, users and ports.
    Qos(Box<Qos>),
    /// Response to [`Request::Explain`].
    Explanation(Box<Explanation>),
    /// Response to [`Request::Explain`] about a flow whose destination is a host behind this node.
    Access(Box<FlowAccess>),
    /// Response to [`Request::Sockets`].
    Sockets(Box<Sockets>),
    /// Response to [`Request::Prefixes`].
    Prefixes(Prefixes),
    /// Response to [`Request::LinkMap`].
    LinkMap(Box<LinkMap>),
    /// Response to [`Request::DrillReport`].
    Drill(Box<Drill>),
    /// Response to [`Request::Call`]: the answer of the application at the other node.
    Answered {
        /// Identifier of the node that answered, as the nodes on the route report it.
        by: String,
        /// Body of the answer, base64.
        body: String,
    },
    /// Response to [`Request::Receive`]: a call that has arrived for the application.
    Asked {
        /// Number of the call, which the answer to it must contain.
        call: u64,
        /// Identifier of the calling node, as the nodes on the route report it.
        source: String,
        /// Key to which the call was sent.
        key: String,
        /// Body of the call, base64.
        body: String,
    },
    /// Response to [`Request::Watch`].
    Changes {
        /// The changes, in order.
        changes: Vec<PathChange>,
    },
    /// No call arrived, or no path changed, before the node's time limit.
    Nothing,
    /// Response to [`Request::History`].
    Histories {
        /// One history per path.
        paths: Vec<PathHistory>,
    },
    /// Response to [`Request::AccessClients`] and [`Request::OpenvpnClients`].
    Clients {
        /// Clients, in the order of their addresses.
        clients: Vec<AccessClient>,
        /// Counters of rejected packets and handshakes.
        refused: ClientRefusals,
    },
    /// The request was executed.
    Done,
    /// The request was executed, but it has less effect than the client may expect.
    DoneBut {
        /// Reason, as text for a reader.
        note: String,
    },
    /// The request was refused.
    Refused {
        /// Reason, as text for a reader.
        why: String,
    },
}

/// Result of the ping through one path.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pong {
    /// Id of the path.
    pub path: u8,
    /// Local link.
    pub link: String,
    /// Remote address.
    pub remote: String,
    /// Round-trip time in microseconds; absent: no answer arrived.
    pub rtt_us: Option<u64>,
}

/// Change of a path's state.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathChange {
    /// Sequence number of the state change at this node, from 1. Each state change of any path adds one.
    pub number: u64,
    /// Name of the peer.
    pub peer: String,
    /// Id of the path.
    pub path: u8,
    /// Local link.
    pub link: String,
    /// Remote address.
    pub remote: String,
    /// New state: opening, good, degraded, suspect or down.
    pub state: String,
    /// Reason for the change.
    pub cause: String,
}
