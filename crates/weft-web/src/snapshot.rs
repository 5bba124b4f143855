//! A snapshot of the node's state, as the page shows it.

use crate::events::PathEvent;
use crate::invitation::InvitationState;
use serde::Serialize;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_control::status::{LinkMap, Qos, Status};
use weft_control::{Request, Response, socket};

/// Maximum number of flows that the page shows.
///
/// *Tuned*: two screens, of which the user looks at the first.
const FLOWS: u32 = 50;

/// The state of the node at one time, which browsers receive as JSON.
#[derive(Serialize, Default, Debug)]
pub struct NodeView {
    /// Time of the snapshot, in milliseconds since 1970.
    pub at_ms: u64,
    /// True if the page may change settings and invite nodes.
    pub allows_changes: bool,
    /// Reason why the status could not be read; absent if it was.
    pub error: Option<String>,
    /// Status of the node; absent if it could not be read.
    pub status: Option<Box<Status>>,
    /// Flows, users and ports of the node; absent: the node keeps no flow state.
    pub qos: Option<Box<Qos>>,
    /// Links between the overlay's nodes; absent: the node has no overlay.
    pub map: Option<LinkMap>,
    /// Recent changes of paths, the newest last.
    pub events: Vec<PathEvent>,
    /// State of the last invitation that the page requested; absent if there was none.
    pub invitation: Option<InvitationState>,
}

/// Reads the status and the flows of the node at `control`.
pub fn read(control: &Path) -> NodeView {
    let mut snapshot = NodeView { at_ms: unix_ms(), ..NodeView::default() };
    match ask(control, &Request::Status) {
        Ok(Response::Status(status)) => snapshot.status = Some(status),
        Ok(Response::Refused { why }) => snapshot.error = Some(why),
        Ok(_) => {
            let why = "the node gave an unexpected answer: install the same version of weft and weft-web";
            snapshot.error = Some(why.to_owned());
        }
        Err(why) => snapshot.error = Some(why),
    }
    if snapshot.status.is_some()
        && let Ok(Response::Qos(qos)) = ask(control, &Request::Qos { most: FLOWS })
    {
        snapshot.qos = Some(qos);
    }
    snapshot
}

/// Reads the link map of the node at `control`. Returns `None` if the node has no overlay or does not answer.
pub fn read_map(control: &Path) -> Option<LinkMap> {
    match ask(control, &Request::LinkMap { from: None }) {
        Ok(Response::LinkMap(map)) => Some(*map),
        _ => None,
    }
}

/// Sends a request to the node at the control socket `control`, and returns the answer.
///
/// # Errors
/// Returns the reason why there is no answer, as text for the user.
pub fn ask(control: &Path, request: &Request) -> Result<Response, String> {
    let path = control.display();
    socket::ask(control, request).map_err(|why| match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no node is running at the control socket {path}: start one with: weft up -c FILE")
        }
        io::ErrorKind::PermissionDenied => {
            format!("no permission to use the node's control socket {path}: run weft web as root or as the node's user")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("the node at the control socket {path} did not answer in time: look at its log")
        }
        _ => format!("{path}: {why}"),
    })
}

/// Returns the time since 1970, in milliseconds.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
