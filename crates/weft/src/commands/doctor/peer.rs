//! `weft doctor --peer NAME`: tests the connection of the running node to a peer, link by link.
//!
//! It reads the node's status, probes each pair of a link and an address, and combines status and probes into checks.

mod probe;

use super::checks::{Check, Verdict};
use crate::control::{node_status, peer_named};
use crate::escape;
use crate::outcome::json;
use crate::outcome::{Failure, Outcome};
use crate::status::{Finding, Peer, Status};
use crate::table::{millis, span};
use crate::why::is_private;
use probe::{PingResult, ProbedRoute};
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// Maximum number of pairs of a link and an address to probe. Further pairs are left out.
const MOST_PAIRS: usize = 8;

#[derive(Serialize)]
struct PeerDiagnosis {
    schema: u32,
    peer: String,
    checks: Vec<Check>,
    /// Findings about the peer, as in `weft status`.
    findings: Vec<Finding>,
}

/// Tests the connection of the node at `socket` to the named peer.
pub fn peer(socket: &Path, name: &str, as_json: bool) -> Result<Outcome, Failure> {
    let status = node_status(socket)?;
    let peer = peer_named(&status, name)?;
    let routes = probe::all(&pairs(peer, &status));
    let mut checks = session(peer);
    checks.extend(routes.iter().map(|route| reachability(peer, route)));
    checks.extend(routes.iter().filter_map(mtu));
    checks.push(clock(peer));
    checks.push(nat(&status, &routes));
    checks.extend(strangers(&status));
    let outcome = if peer.established_s.is_some() { Outcome::Well } else { Outcome::Degraded };
    let diagnosis = PeerDiagnosis { schema: 1, peer: name.to_owned(), checks, findings: peer.findings.clone() };
    let text = if as_json { json(&diagnosis)? } else { text(&diagnosis) };
    print!("{}", escape::lines(&text));
    Ok(outcome)
}

/// Returns one line per check. The sentences are too long for a table.
fn text(diagnosis: &PeerDiagnosis) -> String {
    let line = |Check { name, verdict, found, help }: &Check| {
        let help = if help.is_empty() { String::new() } else { format!(": {help}") };
        format!("{:<8} {name}: {found}{help}\n", verdict.word())
    };
    diagnosis.checks.iter().map(line).collect()
}

/// Returns the pairs of a link and an address that the node tries, without duplicates.
fn pairs(peer: &Peer, status: &Status) -> Vec<(String, SocketAddr)> {
    let paths = peer.paths.iter().map(|path| (path.link.clone(), path.remote.clone()));
    let tried = peer.tried.iter().map(|tried| (tried.link.clone(), tried.remote.clone()));
    let is_link = |link: &str| status.links.iter().any(|known| known.name == link);
    let pairs = paths.chain(tried).filter(|(link, _)| is_link(link));
    let pairs: BTreeSet<_> = pairs.filter_map(|(link, remote)| Some((link, remote.parse().ok()?))).collect();
    pairs.into_iter().take(MOST_PAIRS).collect()
}

fn session(peer: &Peer) -> Vec<Check> {
    let verdict = if peer.established_s.is_some() { Verdict::Warning } else { Verdict::Bad };
    let finding = |Finding { found, likely, advice, .. }: &Finding| {
        Check::new("session", verdict, format!("{found}: likely cause: {likely}"), advice.clone())
    };
    let mut checks: Vec<_> = peer.findings.iter().map(finding).collect();
    match (peer.established_s, peer.without_session_s) {
        (Some(s), _) => {
            let found = format!("the session was established {} ago", span(Duration::from_secs(s)));
            checks.insert(0, Check::new("session", Verdict::Good, found, ""));
        }
        (None, since) if checks.is_empty() => {
            let found = format!(
                "there was no session with the peer for the last {}",
                span(Duration::from_secs(since.unwrap_or(0)))
            );
            checks.push(Check::new("session", Verdict::Bad, found, "try again in ten seconds"));
        }
        (None, _) => {}
    }
    checks
}

/// Checks if the remote address is reachable by a link, from the answers to the probes.
fn reachability(peer: &Peer, route: &ProbedRoute) -> Check {
    let name = format!("address {} over link {}", route.remote, route.link);
    let path = peer.paths.iter().find(|path| path.link == route.link && path.remote == route.remote.to_string());
    if let Some(path) = path.filter(|path| !path.is_down()) {
        let found = format!("the peer's weft answers in {}", millis(path.rtt_us.unwrap_or(0)));
        return Check::new(name, Verdict::Good, found, "");
    }
    let host = match &route.ping {
        PingResult::Answered(time) => {
            format!("the machine at that address answers ping in {}", millis(time.as_micros() as u64))
        }
        PingResult::Silent => "the machine at that address does not answer ping".to_owned(),
        PingResult::Failed(why) => format!("this node cannot send a ping: {why}"),
    };
    let (found, help) = match (&route.bounce, &route.ping) {
        (Some(what), _) => (format!("a UDP datagram to the peer got the ICMP error {what}; {host}"), "see `session`"),
        (None, PingResult::Answered(_)) => (
            format!("the peer did not answer UDP datagrams; {host}"),
            "UDP to this port is blocked, or weft there does not accept this node's key: run `weft status` there",
        ),
        (None, PingResult::Silent) => (
            format!("the peer did not answer UDP datagrams; {host}"),
            "the machine is off, its address is wrong, or a firewall drops all packets: try another one in its network",
        ),
        (None, PingResult::Failed(_)) => (
            format!("the peer did not answer UDP datagrams; {host}"),
            "run as root, add a route over the link, or allow pings in this machine's firewall; the kill switch drops them",
        ),
    };
    Check::new(name, Verdict::Bad, found, help)
}

/// Checks the length of the longest packet that passes. `None` if the remote address answered no ping.
fn mtu(route: &ProbedRoute) -> Option<Check> {
    let (passes, asked) = (route.largest?, route.asked);
    let name = format!("MTU to address {} over link {}", route.remote.ip(), route.link);
    Some(if passes >= asked {
        Check::new(name, Verdict::Good, format!("packets of {asked} B pass"), "")
    } else {
        let found = format!("packets of {passes} B pass, but packets of {asked} B do not");
        let help = "raise the MTU of the path; weft finds the limit itself and sends full packets in parts";
        Check::new(name, if passes < 1280 { Verdict::Warning } else { Verdict::Good }, found, help)
    })
}

fn clock(peer: &Peer) -> Check {
    let of_clock = |finding: &&Finding| finding.cause == "clock-ahead" || finding.cause == "stamp-behind";
    match peer.findings.iter().find(of_clock) {
        Some(finding) => Check::new("clock", Verdict::Warning, finding.found.clone(), finding.advice.clone()),
        None => Check::new("clock", Verdict::Good, "no handshake was refused recently because of its stamp", ""),
    }
}

/// Checks for address translation (NAT), from private addresses of this node and of the routers.
fn nat(status: &Status, routes: &[ProbedRoute]) -> Check {
    let own: Vec<IpAddr> =
        status.links.iter().flat_map(|link| &link.addresses).filter_map(|a| a.parse().ok()).collect();
    let is_public = |address: &IpAddr| !is_private(*address);
    let leads_out = routes.is_empty() || routes.iter().any(|route| is_public(&route.remote.ip()));
    if own.iter().any(is_public) || !leads_out {
        return Check::new("NAT", Verdict::Good, "the addresses here need no NAT", "");
    }
    let hops = routes.iter().map(|route| &route.hops).max_by_key(|hops| hops.len());
    let private: Vec<_> =
        hops.into_iter().flatten().take_while(|hop| is_private(**hop)).map(ToString::to_string).collect();
    let help = "let a node behind NAT initiate, or forward its UDP port in each NAT";
    match private.len() {
        0 | 1 => Check::new("NAT", Verdict::Warning, "this node has private addresses only: at least one NAT", help),
        _ => {
            let found =
                format!("double NAT is likely: the nearest routers {} have private addresses", private.join(" and "));
            Check::new("NAT", Verdict::Warning, found, help)
        }
    }
}

fn strangers(status: &Status) -> Vec<Check> {
    let of = |seen: &crate::status::StrangerSeen| {
        let Finding { found, likely, advice, .. } = &seen.finding;
        Check::new("rejected handshake", Verdict::Warning, format!("{found}: likely cause: {likely}"), advice.clone())
    };
    status.strangers.iter().map(of).collect()
}
