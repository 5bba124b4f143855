//! Findings about peers, as text in `weft status`.

use crate::status::{Peer, Status};
use crate::table::span;
use std::time::Duration;

/// Returns a line for each finding about a peer, and one for each rejected stranger.
pub fn text(status: &Status) -> String {
    let lines = status.peers.iter().flat_map(of_peer);
    let strangers = status.strangers.iter().map(|seen| {
        let ago = span(Duration::from_secs(seen.last_s_ago));
        format!(
            "this node rejected {} handshakes from an unknown sender, the last {ago} ago: {}",
            seen.times, seen.finding
        )
    });
    lines.chain(strangers).map(|line| format!("\n{line}\n")).collect()
}

fn of_peer(peer: &Peer) -> Vec<String> {
    let since = peer
        .without_session_s
        .map_or_else(String::new, |s| format!("no session for the last {}: ", span(Duration::from_secs(s))));
    peer.findings.iter().map(|finding| format!("peer {}: {since}{finding}", peer.name)).collect()
}
