//! Log lines about peers without a session and about impaired peers, and their timing.

use crate::daemon::links::LinkTable;
use crate::daemon::log::Log;
use crate::status::{Finding, Peer, StrangerSeen};
use crate::table::span;
use crate::why::{self, LEAST_MTU, Own, PATIENCE};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weft_engine::{Engine, SessionFacts, Stranger};
use weft_session::Identity;
use weft_units::{Instant, PeerId};

/// Interval between two checks of the peers.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time after which an unchanged finding is logged again. Each next interval is three times the one before.
const AGAIN_AFTER: Duration = Duration::from_secs(20);
/// Maximum interval between two lines about an unchanged finding.
const AGAIN_MAX: Duration = Duration::from_secs(3_600);
/// Minimum time between two lines about one peer with different findings.
const APART: Duration = Duration::from_secs(5);
/// Maximum number of lines per check. One further line states the number of the other peers.
///
/// A hub may have thousands of absent peers.
const MOST_LINES: usize = 20;

struct Said {
    causes: Vec<String>,
    at: Instant,
    again: Duration,
}

/// Findings that were logged, and when.
#[derive(Default)]
pub struct FindingLog {
    next: Instant,
    said: BTreeMap<PeerId, Said>,
}

/// Returns the facts about this node that the diagnosis needs.
pub fn own(identity: &Identity, links: &LinkTable) -> Own {
    let addresses = links.active().iter().flat_map(|link| link.addresses.iter().copied()).collect();
    Own { public_key: identity.public_key().to_string(), addresses, without_route: links.without_route() }
}

/// Returns the log line about a rejected handshake of a stranger.
pub fn turned_away(stranger: &Stranger, own: &Own) -> String {
    let seen = why::stranger(stranger, own);
    format!("this node rejected a handshake from an unknown sender: {}", seen.finding)
}

impl FindingLog {
    /// Returns the time of the next check.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Logs new findings about impaired peers, and from time to time those that still hold.
    pub fn look(&mut self, now: Instant, engine: &Engine, own: impl Fn() -> Own, log: Log) {
        if now < self.next {
            return;
        }
        self.next = now + LOOK_EVERY;
        let (own, strangers) = (own(), engine.strangers(now));
        let mut lines = 0;
        let mut unwell = BTreeSet::new();
        for (facts, paths) in engine.unwell(now, LEAST_MTU) {
            let mut findings = why::findings(&facts, &strangers, &own);
            if facts.without_session.is_none() {
                findings.extend(why::of_paths(&paths));
            }
            let is_early = facts.without_session.is_some_and(|time| time < PATIENCE);
            if is_early || findings.is_empty() {
                continue;
            }
            unwell.insert(facts.id);
            if !self.is_due(now, facts.id, &findings) {
                continue;
            }
            lines += 1;
            if lines <= MOST_LINES {
                log.error(line(&facts, &findings));
            }
        }
        self.said.retain(|peer, _| unwell.contains(peer));
        if lines > MOST_LINES {
            log.error(format_args!("{} more peers have problems; see: weft status", lines - MOST_LINES));
        }
    }

    fn is_due(&mut self, now: Instant, peer: PeerId, findings: &[Finding]) -> bool {
        let causes: Vec<_> = findings.iter().map(|finding| finding.cause.clone()).collect();
        let before = self.said.get(&peer);
        let again = before.filter(|said| said.causes == causes).map(|said| said.again);
        let wait = again.unwrap_or(APART);
        if before.is_some_and(|said| now - said.at < wait) {
            return false;
        }
        let again = again.map_or(AGAIN_AFTER, |again| (again * 3).min(AGAIN_MAX));
        self.said.insert(peer, Said { causes, at: now, again });
        true
    }
}

fn line(facts: &SessionFacts, findings: &[Finding]) -> String {
    let since = |time| format!("no session for the last {}: ", span(time));
    let since = facts.without_session.map_or_else(String::new, since);
    let all: Vec<_> = findings.iter().map(ToString::to_string).collect();
    format!("peer {}: {since}{}", facts.peer, all.join("; "))
}

/// Adds findings and session facts to the status of the peers.
///
/// Returns the strangers whose handshakes were rejected.
pub fn fill(now: Instant, engine: &Engine, own: &Own, peers: &mut [Peer]) -> Vec<StrangerSeen> {
    let strangers = engine.strangers(now);
    let mut facts: BTreeMap<_, _> = engine.session_facts(now).map(|facts| (facts.peer.clone(), facts)).collect();
    for peer in peers {
        if let Some(facts) = facts.remove(&peer.name) {
            peer.without_session_s = facts.without_session.map(|time| time.as_secs());
            peer.tried = why::pairs(&facts);
            peer.findings.extend(why::findings(&facts, &strangers, own));
        }
    }
    strangers.iter().map(|stranger| why::stranger(stranger, own)).collect()
}
