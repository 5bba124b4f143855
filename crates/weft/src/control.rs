//! The control protocol: one JSON object per line, a request and its response, over a Unix socket.
//!
//! Commands of the command line and other programs send a [`Request`]; the node answers with a [`Response`]. Names in a
//! response come from other nodes, so the client escapes them before it prints them.

use crate::escape;
use crate::files;
use crate::outcome::{Failure, Outcome};
use crate::status::{Drill, Explanation, FlowQuestion, PathHistory, Prefixes, Qos, Status};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use weft_core::service::{DEFAULT_GAMMA, Service};
use weft_engine::{DrillTarget, VpnChange};
use weft_units::Rate;

/// Maximum length of a line that either side accepts, in bytes.
pub const MAX_LINE: u64 = 8 << 20;

/// Time by which a client waits longer than the node does.
///
/// The client thus receives the node's answer that it is busy.
const MARGIN: Duration = Duration::from_secs(2);

/// End of the name of the file beside a configuration that has its changed text.
pub const CANDIDATE_SUFFIX: &str = ".new";

/// A request to a running node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Returns the node's whole status.
    Status,
    /// Sets the weights of links; `None` makes weights follow the measured capacity again.
    SetWeights {
        /// Link name and weight.
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
    /// Returns the state of flows, users and ports.
    Qos {
        /// Number of flows to return.
        most: u32,
    },
    /// Silences a link or a node for a while.
    Drill {
        /// The link or node.
        cut: DrillCut,
        /// Duration in milliseconds.
        time_ms: u64,
        /// True to drill even if no other path to a peer would remain.
        force: bool,
    },
    /// Returns the state of the current or the last drill.
    DrillReport,
    /// Forgets the handshake stamps of a peer.
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
        /// Text of the revocation, base64.
        revocation: String,
    },
    /// Calls the root of a key in the overlay, and waits for its answer.
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
    /// The node accepts calls for an application as long as a client requests them.
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
    /// Returns the changes of paths after a given one, or nothing after some seconds.
    Watch {
        /// Number of the last change that the client has; 0: all changes that the node keeps.
        after: u64,
    },
    /// Reads the table of clients again.
    AccessChanged,
    /// Returns each admitted WireGuard client and its state.
    AccessClients,
    /// Returns each connected OpenVPN client.
    OpenvpnClients,
    /// Reads the configuration again.
    Reload,
    /// Runs the changed configuration that stands in the file beside it.
    ///
    /// Unless [`Request::Confirm`] comes in time, the configuration before it counts again.
    Try {
        /// Absolute path of the node's configuration, for a check that this is the node that is meant.
        file: String,
        /// Time to wait for the confirmation, in milliseconds; 0: none is needed.
        confirm_ms: u64,
    },
    /// Ends the trial of a changed configuration, which stays in force.
    Confirm,
    /// Ends the trial of a changed configuration, and the one before it counts again.
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

/// Target of a drill, by its name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum DrillCut {
    /// A link, or a relayed route such as `via hub`.
    Link(String),
    /// A peer.
    Node(String),
}

impl DrillCut {
    /// Returns the target in the engine's type.
    pub fn to_engine(&self) -> DrillTarget {
        match self {
            DrillCut::Link(name) => DrillTarget::Link(name.clone()),
            DrillCut::Node(name) => DrillTarget::Node(name.clone()),
        }
    }
}

/// Changes to a VPN's share; an absent setting keeps its value.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct VpnSetting {
    /// Weight, above zero.
    pub weight: Option<u32>,
    /// Assured rate in bits per second; 0 removes it.
    pub assured_bps: Option<u64>,
    /// Leased rate in bits per second; 0 removes it.
    pub leased_bps: Option<u64>,
}

impl VpnSetting {
    /// Returns the change in the engine's type.
    pub fn to_engine(self) -> VpnChange {
        let promise = |service: fn(Rate) -> Service, bps| match bps {
            0 => Service::BestEffort,
            bps => service(Rate::from_bps(bps)),
        };
        let assured = self.assured_bps.map(|bps| promise(|rate| Service::Assured { rate, gamma: DEFAULT_GAMMA }, bps));
        let leased = self.leased_bps.map(|bps| promise(|rate| Service::LeasedLine { rate }, bps));
        VpnChange { weight: self.weight, service: leased.or(assured) }
    }
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

/// Answer of one path to a ping.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
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
pub struct PathChange {
    /// Number of the change; each change adds one.
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

/// VPN program of a client.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum ClientProgram {
    /// WireGuard, which the node terminates itself.
    Wireguard,
    /// OpenVPN, which a separate server process terminates.
    Openvpn,
}

/// Counters of packets and handshakes of clients that the edge rejected since the start.
///
/// The edge answers none of them.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default, Debug)]
pub struct Refusals {
    /// Packets whose source address was not their client's.
    pub strays: u64,
    /// Handshakes for another edge's key, or for an earlier key of this edge.
    pub for_another_edge: u64,
    /// Handshakes with a key that no client of this edge has, or no longer has.
    pub from_no_client: u64,
    /// Source of the last of these handshakes.
    pub last_from: Option<SocketAddr>,
}

/// A client of this edge.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct AccessClient {
    /// Name of the client, for readers of output.
    pub name: String,
    /// Address of the client in the pool.
    pub address: Ipv4Addr,
    /// VPN program of the client.
    pub with: ClientProgram,
    /// WireGuard public key in base64, or common name in the OpenVPN certificate.
    pub key: String,
    /// Seconds since the last handshake, or since an OpenVPN client connected; absent: it is not connected.
    pub handshake_s_ago: Option<u64>,
    /// Address and port of the client; absent: unknown.
    pub remote: Option<SocketAddr>,
    /// Bytes in packets received from the client.
    pub received_bytes: u64,
    /// Bytes in packets sent to the client.
    pub sent_bytes: u64,
}

impl AccessClient {
    /// Creates the entry of an admitted client that is not connected.
    pub fn absent(name: String, address: Ipv4Addr, with: ClientProgram, key: String) -> AccessClient {
        AccessClient { name, address, with, key, handshake_s_ago: None, remote: None, received_bytes: 0, sent_bytes: 0 }
    }
}

/// Response of a node.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
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
    /// Response to [`Request::Prefixes`].
    Prefixes(Prefixes),
    /// Response to [`Request::DrillReport`].
    Drill(Box<Drill>),
    /// Response to [`Request::Call`].
    Answered {
        /// Identifier of the node that answered, as the nodes on the route report it.
        by: String,
        /// Body of the answer, base64.
        body: String,
    },
    /// Response to [`Request::Receive`].
    Asked {
        /// Number of the call, for the answer.
        call: u64,
        /// Identifier of the calling node, as the nodes on the route report it.
        source: String,
        /// Key to which the call was sent.
        key: String,
        /// Body of the call, base64.
        body: String,
    },
    /// Response to [`Request::Confirm`]: the changed text may replace the configuration.
    Kept {
        /// The node's configuration.
        file: String,
    },
    /// Response to [`Request::Watch`].
    Changes {
        /// The changes, in order.
        changes: Vec<PathChange>,
    },
    /// Nothing arrived in time.
    Nothing,
    /// Response to [`Request::History`].
    Histories {
        /// One history per path.
        paths: Vec<PathHistory>,
    },
    /// Response to [`Request::AccessClients`] and [`Request::OpenvpnClients`].
    Clients {
        /// Clients, by address.
        clients: Vec<AccessClient>,
        /// Counters of rejected packets and handshakes.
        refused: Refusals,
    },
    /// The request was executed.
    Done,
    /// The request was executed, with less effect than its sender may expect.
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

/// Sends a request to the node at `socket` and returns its response.
///
/// # Errors
/// Fails if no node listens there, if the node refuses, or if it does not answer in time.
pub fn ask(socket: &Path, request: &Request) -> Result<Response, Failure> {
    let stream = files::connect(socket).map_err(|why| unreachable_node(socket, &why))?;
    let node = getsockopt(&stream, PeerCredentials).ok().map(|credentials| credentials.pid());
    match exchange(stream, request) {
        Ok(Response::Refused { why }) => Err(Failure::new(why)),
        Ok(response) => Ok(response),
        Err(why) => Err(Failure::new(format!(
            "no answer from the node at {}: {}",
            socket.display(),
            silence(&why, node, request.patience() + MARGIN)
        ))),
    }
}

/// Returns the reason why no response arrived, with advice.
///
/// A node that is stopped or hangs still has its socket, so the connection succeeds.
fn silence(why: &io::Error, node: Option<i32>, waited: Duration) -> String {
    match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let process = node.map_or_else(|| "its process".to_owned(), |id| format!("its process, {id},"));
            let look = node.map_or_else(String::new, |id| format!(": ps -o stat,wchan {id}"));
            format!("{process} did not answer for {} s: it is stopped or hangs{look}", waited.as_secs())
        }
        io::ErrorKind::UnexpectedEof => "it ended, or has too many clients: try again".to_owned(),
        _ => why.to_string(),
    }
}

fn exchange(mut stream: UnixStream, request: &Request) -> io::Result<Response> {
    stream.set_read_timeout(Some(request.patience() + MARGIN))?;
    stream.set_write_timeout(Some(MARGIN))?;
    write_line(&mut stream, request)?;
    let mut response: serde_json::Value = read_line(stream)?;
    // Certificates and peers chose names in the response, and the response is printed to a terminal or a script. A
    // refusal may contain line ends; the failure that prints it escapes the rest.
    if response.get("answer").and_then(serde_json::Value::as_str) != Some("refused") {
        escape::strings(&mut response);
    }
    Ok(serde_json::from_value(response)?)
}

/// Writes one message.
pub fn write_line(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads one message.
pub fn read_line<T: for<'de> Deserialize<'de>>(stream: UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_LINE)).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}

fn unreachable_node(socket: &Path, why: &io::Error) -> Failure {
    let path = socket.display();
    match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            let text = format!("no node is running at {path}: start one with: weft up -c FILE");
            Failure::with(Outcome::NoDaemon, text)
        }
        io::ErrorKind::PermissionDenied => {
            Failure::new(format!("{path}: permission denied: run this as root or as the node's user"))
        }
        io::ErrorKind::WouldBlock => {
            let text = "too many requests already wait for the node: it is stopped or hangs";
            Failure::new(format!("{path}: {text}"))
        }
        _ => Failure::with(Outcome::NoDaemon, format!("{path}: {why}")),
    }
}
