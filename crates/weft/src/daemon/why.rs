//! Peers without a session, and those that are less than well: what the log says of them, and when.

use super::links::Links;
use super::log::Log;
use crate::status::{Finding, Peer, StrangerSeen};
use crate::table::span;
use crate::why::{self, LEAST_MTU, Own, PATIENCE};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weft_engine::{Engine, SessionFacts, Stranger};
use weft_session::Identity;
use weft_units::{Instant, PeerId};

/// How often the peers are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same is said again after this, then after three times as long, and so on …
const AGAIN_AFTER: Duration = Duration::from_secs(20);
/// … until this.
const AGAIN_MAX: Duration = Duration::from_secs(3_600);
/// Something else about a peer is said no sooner after the last line.
const APART: Duration = Duration::from_secs(5);
/// Lines of one look; a hub may have thousands of peers that are not there.
const MOST_LINES: usize = 20;

struct Said {
    causes: Vec<String>,
    at: Instant,
    again: Duration,
}

/// What was said, and when.
#[derive(Default)]
pub struct Watch {
    next: Instant,
    said: BTreeMap<PeerId, Said>,
}

/// What this node is known by.
pub fn own(identity: &Identity, links: &Links) -> Own {
    let addresses = links.active().iter().flat_map(|link| link.addresses.iter().copied()).collect();
    Own { public_key: identity.public_key().to_string(), addresses, without_route: links.without_route() }
}

/// A call of a stranger, for the log.
pub fn turned_away(stranger: &Stranger, own: &Own) -> String {
    let seen = why::stranger(stranger, own);
    format!("handshake turned away: {}", seen.finding)
}

impl Watch {
    /// When it looks next.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Says what is new of peers that are not well, and again what has lasted.
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
            log.error(format_args!("{} more peers are not well; see: weft status", lines - MOST_LINES));
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
    let since = facts.without_session.map_or_else(String::new, |time| format!("no session for {}: ", span(time)));
    let all: Vec<_> = findings.iter().map(ToString::to_string).collect();
    format!("peer {}: {since}{}", facts.peer, all.join("; "))
}

/// Tells of each peer what is known of its session, and who called in vain.
pub fn tell(now: Instant, engine: &Engine, own: &Own, peers: &mut [Peer]) -> Vec<StrangerSeen> {
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
