//! Requests of the command line to a running node.
//!
//! Names in a response come from other nodes. They are escaped here, before a command prints them.

use crate::config::unknown_name;
use crate::escape;
use crate::files;
use crate::outcome::{Failure, Outcome};
use crate::status::{PathHistory, Peer, Status};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use weft_control::socket::{self, longest_wait};
use weft_control::{Request, Response};

/// Sends a request to the node at `socket` and returns its response.
///
/// # Errors
/// Fails if no node listens at `socket`, if the node refuses, or if it does not answer in time.
pub fn ask(socket: &Path, request: &Request) -> Result<Response, Failure> {
    let stream = files::connect(socket).map_err(|why| unreachable_node(socket, &why))?;
    let node = getsockopt(&stream, PeerCredentials).ok().map(|credentials| credentials.pid());
    match exchange(stream, request) {
        Ok(Response::Refused { why }) => Err(Failure::new(why)),
        Ok(response) => Ok(response),
        Err(why) => Err(Failure::new(format!(
            "no answer on the node's control socket {}: {}",
            socket.display(),
            silence(&why, node, longest_wait(request))
        ))),
    }
}

/// Returns the reason why no response arrived, with advice.
///
/// `node` is the node's process id. A node that is stopped or hangs still has its socket, so the connection succeeds.
fn silence(why: &io::Error, node: Option<i32>, waited: Duration) -> String {
    match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let process = node.map_or_else(|| "the node's process".to_owned(), |id| format!("the node's process {id}"));
            let look =
                node.map_or_else(String::new, |id| format!(": look at this process with: ps -o stat,wchan {id}"));
            format!("{process} did not answer for {} s: it is stopped or hangs{look}", waited.as_secs())
        }
        io::ErrorKind::UnexpectedEof => "the node has ended, or serves too many clients: try again".to_owned(),
        _ => why.to_string(),
    }
}

/// Returns the failure for an answer that does not fit the request. A node that gives it has another version.
pub fn unexpected(answer: &Response) -> Failure {
    Failure::new(format!(
        "the running node gave an unexpected answer: if it runs another version of weft, restart it: {answer:?}"
    ))
}

/// Returns the histories of the paths to a peer.
///
/// # Errors
/// Fails as [`ask`] does.
pub fn histories(socket: &Path, peer: &str) -> Result<Vec<PathHistory>, Failure> {
    match ask(socket, &Request::History { peer: peer.to_owned() })? {
        Response::Histories { paths } => Ok(paths),
        other => Err(unexpected(&other)),
    }
}

/// Returns the status of the node at `socket`.
///
/// # Errors
/// Fails as [`ask`] does.
pub fn node_status(socket: &Path) -> Result<Status, Failure> {
    match ask(socket, &Request::Status)? {
        Response::Status(status) => Ok(*status),
        other => Err(unexpected(&other)),
    }
}

/// Returns the peer with this name.
///
/// # Errors
/// Fails if no peer has this name. The message suggests the most similar name, or lists all names.
pub fn peer_named<'a>(status: &'a Status, name: &str) -> Result<&'a Peer, Failure> {
    let known = status.peers.iter().map(|peer| peer.name.as_str());
    let found = status.peers.iter().find(|peer| peer.name == name);
    found.ok_or_else(|| Failure::new(unknown_name("peer", name, known)))
}

fn exchange(stream: UnixStream, request: &Request) -> io::Result<Response> {
    let mut response = socket::exchange(stream, request)?;
    // Other nodes chose the names in the response, and a name could contain control characters of a terminal. A refusal
    // is not escaped here: it may contain line ends, and `Failure` escapes all other control characters.
    if response.get("answer").and_then(serde_json::Value::as_str) != Some("refused") {
        escape::strings(&mut response);
    }
    Ok(serde_json::from_value(response)?)
}

fn unreachable_node(socket: &Path, why: &io::Error) -> Failure {
    let path = socket.display();
    match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            let text = format!("no node is running at the control socket {path}: start one with: weft up -c FILE");
            Failure::with(Outcome::NoDaemon, text)
        }
        io::ErrorKind::PermissionDenied => {
            Failure::new(format!("control socket {path}: permission denied: run weft as root or as the node's user"))
        }
        io::ErrorKind::WouldBlock => {
            let text = "too many requests already wait for the node: it is stopped or hangs";
            Failure::new(format!("{path}: {text}"))
        }
        _ => Failure::with(Outcome::NoDaemon, format!("{path}: {why}")),
    }
}
