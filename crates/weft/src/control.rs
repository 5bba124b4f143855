//! The control protocol: one JSON object a line, a request and its response, over a Unix socket.

use crate::escape;
use crate::files;
use crate::outcome::{Failure, Outcome};
use crate::status::{Drill, Explanation, FlowQuestion, PathHistory, Prefixes, Status};
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

/// Longest line either side accepts, in bytes.
pub const MAX_LINE: u64 = 8 << 20;

/// How much longer than the node a client waits, so that it hears that the node is busy.
const MARGIN: Duration = Duration::from_secs(2);

/// What can be asked of a running node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Everything there is to show.
    Status,
    /// Weights by link name; `None`: measured again.
    SetWeights {
        /// Link name and weight.
        weights: Option<Vec<(String, u32)>>,
    },
    /// Change a VPN's share.
    SetVpn {
        /// The VPN's name.
        vpn: String,
        /// What of it.
        change: VpnSetting,
    },
    /// Ping a peer through each path.
    Ping {
        /// The peer's name.
        peer: String,
    },
    /// Why a flow goes where it goes.
    Explain {
        /// Which.
        flow: FlowQuestion,
    },
    /// Who has which prefix.
    Prefixes {
        /// Only this peer's.
        peer: Option<String>,
        /// Only this VPN's.
        vpn: Option<String>,
    },
    /// Let a link or a node fall silent for a while.
    Drill {
        /// Which.
        cut: DrillCut,
        /// For how long, in milliseconds.
        time_ms: u64,
        /// Even where no other path would remain.
        force: bool,
    },
    /// How the drill under way, or the last one, goes.
    DrillReport,
    /// Forget which handshake stamps a peer has used.
    ResetPeer {
        /// The peer's name.
        peer: String,
    },
    /// What the paths to a peer were like.
    History {
        /// The peer's name.
        peer: String,
    },
    /// Take in a revocation.
    Revoke {
        /// Its text, base64.
        revocation: String,
    },
    /// Call the root of a key in the overlay, and wait for its answer.
    Call {
        /// A node's identifier, or any text: its hash is the key.
        key: String,
        /// Which program is to answer, not 0.
        application: u16,
        /// What to say, base64; at most 1,024 bytes.
        body: String,
    },
    /// The next call that comes to this node for a program; after some seconds there is nothing. Calls come here as long as somebody asks.
    Receive {
        /// The program's number, not 0.
        application: u16,
    },
    /// Answer a call.
    Answer {
        /// Its number, as [`Response::Asked`] told it.
        call: u64,
        /// What to say, base64; at most 1,024 bytes.
        body: String,
    },
    /// What paths have done since; after some seconds there is nothing.
    Watch {
        /// The number of the last known change; 0: all that are kept.
        after: u64,
    },
    /// Read the table of clients again.
    AccessChanged,
    /// Each WireGuard client that may come in, and how it is.
    AccessClients,
    /// Each OpenVPN client that is there.
    OpenvpnClients,
    /// Read the configuration again.
    Reload,
    /// Stop.
    Down,
}

impl Request {
    /// How long the node may take to answer. A reload that opens devices may take seconds.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(if *self == Request::Reload { 30 } else { 5 })
    }
}

/// What falls silent in a drill, by its name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum DrillCut {
    /// A link, or a route: `via hub`.
    Link(String),
    /// A peer.
    Node(String),
}

impl DrillCut {
    /// The same in the engine's words.
    pub fn to_engine(&self) -> DrillTarget {
        match self {
            DrillCut::Link(name) => DrillTarget::Link(name.clone()),
            DrillCut::Node(name) => DrillTarget::Node(name.clone()),
        }
    }
}

/// What of a VPN's share changes; what is left out stays.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct VpnSetting {
    /// Above zero.
    pub weight: Option<u32>,
    /// The assured rate in bits per second; 0: none any more.
    pub assured_bps: Option<u64>,
    /// The leased rate in bits per second; 0: none any more.
    pub leased_bps: Option<u64>,
}

impl VpnSetting {
    /// The same in the engine's words.
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

/// The answer of one path to a ping.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Pong {
    /// The path's number.
    pub path: u8,
    /// The link here.
    pub link: String,
    /// The address there.
    pub remote: String,
    /// Round-trip time in microseconds; absent: no answer.
    pub rtt_us: Option<u64>,
}

/// A path has another state than before.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct PathChange {
    /// Rises by one from change to change.
    pub number: u64,
    /// The peer it leads to.
    pub peer: String,
    /// The path's number.
    pub path: u8,
    /// The link here.
    pub link: String,
    /// The address there.
    pub remote: String,
    /// opening, good, degraded, suspect or down.
    pub state: String,
    /// Why.
    pub cause: String,
}

/// What a client comes with.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum ClientProgram {
    /// Ended in the node.
    Wireguard,
    /// Ended in a server beside the node.
    Openvpn,
}

/// What clients' side of this edge turned away, since the start. Those who call get no answer.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default, Debug)]
pub struct Refusals {
    /// Packets whose source was not their client's.
    pub strays: u64,
    /// Handshakes of who has another edge's key, or an earlier one of this edge.
    pub for_another_edge: u64,
    /// Handshakes of who is no client of this edge, or not any more.
    pub from_no_client: u64,
    /// Where the last of these handshakes came from.
    pub last_from: Option<SocketAddr>,
}

/// A client of this edge.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct AccessClient {
    /// Name for people.
    pub name: String,
    /// Its address in the pool.
    pub address: Ipv4Addr,
    /// What it comes with.
    pub with: ClientProgram,
    /// Its WireGuard public key in base64, or what its certificate calls it.
    pub key: String,
    /// Seconds since its last handshake, with OpenVPN since it came; absent: it is not there.
    pub handshake_s_ago: Option<u64>,
    /// Where it is; absent: not known.
    pub remote: Option<SocketAddr>,
    /// Bytes of packets from it.
    pub received_bytes: u64,
    /// Bytes of packets to it.
    pub sent_bytes: u64,
}

impl AccessClient {
    /// One that may come in and is not there.
    pub fn absent(name: String, address: Ipv4Addr, with: ClientProgram, key: String) -> AccessClient {
        AccessClient { name, address, with, key, handshake_s_ago: None, remote: None, received_bytes: 0, sent_bytes: 0 }
    }
}

/// What a node answers.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Ping`].
    Pongs {
        /// One per path.
        paths: Vec<Pong>,
    },
    /// To [`Request::Explain`].
    Explanation(Box<Explanation>),
    /// To [`Request::Prefixes`].
    Prefixes(Prefixes),
    /// To [`Request::DrillReport`].
    Drill(Box<Drill>),
    /// To [`Request::Call`].
    Answered {
        /// Who answered, as those on the way say.
        by: String,
        /// What it says, base64.
        body: String,
    },
    /// To [`Request::Receive`].
    Asked {
        /// Its number, to answer it.
        call: u64,
        /// Who calls, as those on the way say.
        source: String,
        /// To which key.
        key: String,
        /// What it says, base64.
        body: String,
    },
    /// To [`Request::Watch`].
    Changes {
        /// In order.
        changes: Vec<PathChange>,
    },
    /// Nothing came.
    Nothing,
    /// To [`Request::History`].
    Histories {
        /// One per path.
        paths: Vec<PathHistory>,
    },
    /// To [`Request::AccessClients`] and [`Request::OpenvpnClients`].
    Clients {
        /// By address.
        clients: Vec<AccessClient>,
        /// What was turned away.
        refused: Refusals,
    },
    /// It was done.
    Done,
    /// It was done, with less effect than may be expected.
    DoneBut {
        /// Why, for people.
        note: String,
    },
    /// It was not done.
    Refused {
        /// Why, for people.
        why: String,
    },
}

/// Asks the node at `socket`.
///
/// # Errors
/// When no node listens there, it refuses, or does not answer in time.
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

/// Why there is no answer, and what to do. A node that is stopped, or hung, still has its socket.
fn silence(why: &io::Error, node: Option<i32>, waited: Duration) -> String {
    match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let process = node.map_or_else(|| "its process".to_owned(), |id| format!("its process, {id},"));
            let look = node.map_or_else(String::new, |id| format!(": ps -o stat,wchan {id}"));
            format!("{process} has been silent for {} s; it is stopped or hangs{look}", waited.as_secs())
        }
        io::ErrorKind::UnexpectedEof => "it ended, or has too many clients; ask again".to_owned(),
        _ => why.to_string(),
    }
}

fn exchange(mut stream: UnixStream, request: &Request) -> io::Result<Response> {
    stream.set_read_timeout(Some(request.patience() + MARGIN))?;
    stream.set_write_timeout(Some(MARGIN))?;
    write_line(&mut stream, request)?;
    let mut response: serde_json::Value = read_line(stream)?;
    // Certificates and peers chose names in it, and all of it goes to a terminal or a script. A refusal may have lines of its own;
    // the failure that shows it escapes the rest.
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
            let text = format!("no node is running at {path}; start one with: weft up -c FILE");
            Failure::with(Outcome::NoDaemon, text)
        }
        io::ErrorKind::PermissionDenied => {
            Failure::new(format!("{path}: permission denied; ask as root or as the user the node runs as"))
        }
        io::ErrorKind::WouldBlock => {
            let text = "too many wait for the node there already; it is stopped or hangs";
            Failure::new(format!("{path}: {text}"))
        }
        _ => Failure::with(Outcome::NoDaemon, format!("{path}: {why}")),
    }
}
