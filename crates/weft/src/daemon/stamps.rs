//! Log lines about handshake stamps and shared keys.

use crate::table::span;
use std::time::Duration;
use weft_session::{RefusedStamp, StampFault};

/// Returns the log line for a handshake that was refused for its stamp.
///
/// The peer refused it if `by_peer`, otherwise this node did.
pub fn refused(peer: &str, refused: &RefusedStamp, by_peer: bool) -> String {
    let RefusedStamp { stamp, accepted, fault } = *refused;
    let behind = span(Duration::from_nanos(accepted.saturating_sub(stamp)));
    let ahead = span(Duration::from_nanos(stamp.saturating_sub(accepted)));
    match (fault, by_peer) {
        (StampFault::NotRising, false) => format!(
            "peer {peer}: handshake refused: its stamp is {behind} below the last one accepted: its state was lost or \
             restored, its clock was set back, or this is a recording: this node sends it the last stamp, and it calls \
             again; if no session follows: weft peer reset {peer}"
        ),
        (StampFault::NotRising, true) => format!(
            "peer {peer} refused this node's handshake: its stamp is {behind} below the last one accepted: this node's \
             state was lost or restored, or its clock was set back: this node calls again with the next stamp"
        ),
        (StampFault::TooFarAhead, false) => format!(
            "peer {peer}: handshake refused: its stamp is {ahead} above the last one accepted, and too far ahead of this \
             node's clock: set the clocks of both nodes; this node sends it the last stamp, and it calls again; if no \
             session follows: weft peer reset {peer}"
        ),
        (StampFault::TooFarAhead, true) => format!(
            "peer {peer} refused this node's handshake: its stamp is {ahead} above the last one accepted, and too far \
             ahead of the peer's clock: set the clocks of both nodes; this node calls again with the next stamp"
        ),
    }
}

/// Returns the log line for two nodes with one key: this node's if `is_own`, else the peer's.
pub fn shared(peer: &str, is_own: bool) -> String {
    if is_own {
        format!(
            "peer {peer} reports that another running node uses this node's key: their sessions end each other: \
             give each node its own key: weft keygen"
        )
    } else {
        format!(
            "peer {peer}: two running nodes use its key, and their sessions end each other: give each its own key: \
             weft keygen"
        )
    }
}
