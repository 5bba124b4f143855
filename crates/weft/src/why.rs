//! Diagnosis of a peer without a session or with an impaired connection.
//!
//! This module turns the engine's facts into texts.
//!
//! The texts of all causes are in one table ([`Cause::words`]), for the log, `weft status`, `weft doctor` and
//! `--json`.

mod cause;
mod tried;

pub use cause::{Cause, Words};

use crate::status::{Finding, StrangerSeen, TriedPair};
use crate::table::span;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use weft_engine::{PathSnapshot, SessionFacts, Shown, Stranger, Unreachable};
use weft_session::StampFault;

/// Time without a session after which a peer is reported.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// MTU that every IPv6 link must carry, in bytes (RFC 8200 §5).
///
/// A lower path MTU means a restriction on the path.
pub const LEAST_MTU: u16 = 1280;

/// Maximum number of strangers that the findings about one peer name as possibly this peer.
const MOST_STRANGERS: usize = 2;

/// Facts about this node.
pub struct Own {
    /// Public key of this node.
    pub public_key: String,
    /// Addresses of this node's links.
    pub addresses: Vec<IpAddr>,
    /// Interfaces that are not links, because no route leads through them to an endpoint of any peer.
    pub without_route: Vec<String>,
}

/// Returns the causes that prevent a session with a peer, the likeliest first, and other problems.
pub fn findings(facts: &SessionFacts, strangers: &[Stranger], own: &Own) -> Vec<Finding> {
    if facts.is_revoked && facts.without_session.is_some() {
        return vec![finding(
            Cause::Revoked,
            "the network's root revoked the key that is configured for the peer".to_owned(),
        )];
    }
    let mut found = Vec::new();
    if let Some((refused, by_peer)) = &facts.refused_stamp {
        let cause = if refused.fault == StampFault::TooFarAhead { Cause::ClockAhead } else { Cause::StampBehind };
        let apart = span(Duration::from_nanos(refused.stamp.abs_diff(refused.accepted)));
        let text = match (by_peer, cause) {
            (true, Cause::ClockAhead) => format!(
                "the peer refused this node's handshake: its stamp is {apart} above the last accepted one, and too far \
                 ahead of the peer's clock"
            ),
            (false, Cause::ClockAhead) => format!(
                "this node refused the peer's handshake: its stamp is {apart} above the last accepted one, and too far \
                 ahead of this node's clock"
            ),
            (true, _) => format!(
                "the peer refused this node's handshake: its stamp is {apart} below the last accepted one, as in a \
                 replay"
            ),
            (false, _) => format!(
                "this node refused the peer's handshake: its stamp is {apart} below the last accepted one, as in a \
                 replay"
            ),
        };
        found.push(finding(cause, text));
    }
    if facts.without_session.is_some() {
        let showed: Vec<_> = authentic(facts).into_iter().chain(claimed(facts, strangers, own)).collect();
        // A peer that answers or sends handshakes is not silent, so silence is not reported as the cause.
        let is_told = facts.unreadable.is_some() || facts.endpoints.is_empty() && !showed.is_empty();
        found.extend(showed);
        found.extend(unanswered(facts, own).filter(|_| !is_told));
    } else {
        found.extend(tried::groups(&facts.tried).into_iter().map(|group| finding(group.cause, group.text)));
    }
    found
}

/// Returns the problems of a session's paths: those that pass only packets below [`LEAST_MTU`].
pub fn of_paths(paths: &[PathSnapshot]) -> Vec<Finding> {
    let is_small = |path: &&PathSnapshot| path.active && path.mtu_is_settled && path.mtu < LEAST_MTU;
    let limit = |path: &PathSnapshot| {
        format!("at most {} B pass to address {} over link {}", path.mtu, path.remote, path.link_name)
    };
    let names = tried::list(paths.iter().filter(is_small).map(limit), "and");
    let found = (!names.is_empty()).then(|| format!("the network drops long datagrams: {names}"));
    found.into_iter().map(|found| finding(Cause::SmallMtu, found)).collect()
}

fn finding(cause: Cause, found: String) -> Finding {
    let Words { likely, advice } = cause.words();
    Finding { cause: cause.name().to_owned(), found, likely: likely.to_owned(), advice: advice.to_owned() }
}

/// Returns a finding from reactions that only the peer itself can have sent. `None` if there were none.
fn authentic(facts: &SessionFacts) -> Option<Finding> {
    if let Some(source) = facts.unreadable {
        let found = format!("this node cannot decrypt the answers from {source}, as with different preshared keys");
        return Some(finding(Cause::PresharedKey, found));
    }
    let (times, source) = facts.unfollowed?;
    let found = format!("this node answered {times} handshakes from {source}, but then received no packet from there");
    Some(finding(Cause::AnswerLost, found))
}

/// Returns findings about rejected handshakes of strangers, any of which may be the peer.
fn claimed(facts: &SessionFacts, strangers: &[Stranger], own: &Own) -> Vec<Finding> {
    let is_endpoint = |source: &SocketAddr| facts.endpoints.iter().any(|endpoint| endpoint.ip() == source.ip());
    // A peer without an endpoint may be at any address.
    let may_be = |stranger: &&Stranger| is_endpoint(&stranger.source) || facts.endpoints.is_empty();
    let say = |stranger: &Stranger| {
        let (cause, text) = stranger_text(stranger, own);
        finding(cause, text)
    };
    let mut kinds = Vec::new();
    let is_first = |stranger: &&Stranger| {
        let is_new = !kinds.contains(&stranger.shown);
        kinds.push(stranger.shown);
        is_new
    };
    strangers.iter().filter(may_be).filter(is_first).take(MOST_STRANGERS).map(say).collect()
}

fn stranger_text(stranger: &Stranger, own: &Own) -> (Cause, String) {
    let source = stranger.source;
    match stranger.shown {
        Shown::Key(key) => (
            Cause::UnknownKey,
            format!("a node with the key {key} calls from {source}, but no peer of this node has that key"),
        ),
        Shown::OtherKey => {
            let key = &own.public_key;
            (Cause::OtherKey, format!("a handshake from {source} is for another key than this node's key {key}"))
        }
        Shown::Unreadable => (
            Cause::Unreadable,
            format!(
                "a handshake from {source} is for this node's key, but cannot be decrypted: it is damaged, forged, or of \
                 another version of weft"
            ),
        ),
    }
}

/// Returns a finding from the reactions to unanswered handshakes, or from the lack of a link, route or endpoint.
fn unanswered(facts: &SessionFacts, own: &Own) -> Option<Finding> {
    if facts.links == 0 {
        return Some(without_link(facts, own));
    }
    let mut groups = tried::groups(&facts.tried);
    if groups.is_empty() {
        return Some(match &facts.out_of_reach[..] {
            [] if facts.endpoints.is_empty() => waits(own),
            [] => finding(Cause::Silent, "no handshake was sent yet".to_owned()),
            beyond => {
                let addresses = tried::list(beyond.iter(), "and");
                finding(
                    Cause::NoRoute,
                    format!("the kernel has no route over any link in use to an address of the peer: {addresses}"),
                )
            }
        });
    }
    groups.sort_by_key(|group| group.cause);
    let texts: Vec<_> = groups.iter().map(|group| group.text.clone()).collect();
    Some(finding(groups[0].cause, texts.join("; ")))
}

/// Returns the finding that no link is in use.
fn without_link(facts: &SessionFacts, own: &Own) -> Finding {
    if own.without_route.is_empty() || facts.endpoints.is_empty() {
        return finding(Cause::NoLink, "no link is in use".to_owned());
    }
    let (endpoints, names) = (tried::list(facts.endpoints.iter(), "or"), tried::list(own.without_route.iter(), "or"));
    finding(Cause::NoRoute, format!("the kernel has no route over the interface {names} to the peer at {endpoints}"))
}

/// Returns the finding that this node can only wait until the peer begins a handshake.
fn waits(own: &Own) -> Finding {
    let is_private = !own.addresses.is_empty() && own.addresses.iter().all(|address| is_private(*address));
    let cause = if is_private { Cause::NoCallBehindNat } else { Cause::NoCall };
    finding(cause, "the peer has no endpoint here, so it must initiate, but none of its handshakes arrived".to_owned())
}

/// Returns true if the Internet does not route the address: RFC 1918, 6598, 3927, 4193, 4291 §2.5.6.
pub fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            v4.is_private() || shared || v4.is_link_local() || v4.is_loopback()
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_loopback(),
    }
}

/// Returns the pairs of a link and an address at which handshakes were tried, for the status.
pub fn pairs(facts: &SessionFacts) -> Vec<TriedPair> {
    let pair = |tried: &weft_engine::Tried| TriedPair {
        link: tried.link.clone(),
        remote: tried.remote.to_string(),
        sent: tried.sent,
        came_back: tried.came_back.map(|(why, _)| name_of(why).to_owned()),
        reporter: tried.came_back.and_then(|(_, by)| by).map(|by| by.to_string()),
    };
    facts.tried.iter().map(pair).collect()
}

fn name_of(why: Unreachable) -> &'static str {
    Cause::of(Some(why)).name()
}

/// Returns the description of a stranger and of its rejected handshakes, for the status.
pub fn stranger(stranger: &Stranger, own: &Own) -> StrangerSeen {
    let (cause, found) = stranger_text(stranger, own);
    StrangerSeen {
        source: stranger.source.to_string(),
        public_key: if let Shown::Key(key) = stranger.shown { Some(key.to_string()) } else { None },
        times: stranger.times,
        last_s_ago: stranger.ago.as_secs(),
        finding: finding(cause, found),
    }
}

#[cfg(test)]
mod tests;
