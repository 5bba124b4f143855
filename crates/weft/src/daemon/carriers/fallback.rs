//! Decides when a link connects to a peer by TCP, and when it returns to UDP.
//!
//! One attempt exists for each pair of a link and a peer that UDP does not reach. The caller reports which paths
//! answer. The decisions are orders for the thread that serves TCP connections, and changes of links for the engine.
//! The module has neither clock nor sockets.

use super::over_tcp;
use crate::config::TcpFallback;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use weft_units::{Instant, LinkId};

/// Time without an answer by UDP, after which the node tries TCP.
///
/// *Tuned*: most round trips are shorter. An attempt to connect by TCP takes three round trips, thus less than 300 ms.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time for which UDP must answer before the TCP connections end. A link with an unstable UDP path thus keeps them.
const STEADY: Duration = Duration::from_secs(1);
/// Time without an answer by open TCP connections, after which the node closes them.
const LONGEST_MUTE: Duration = Duration::from_secs(5);
/// First and longest pause after a failed attempt to connect. The pause doubles after each failure.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(30)];
/// Interval between two decisions about a link on which UDP is silent.
const CLOSE_LOOK: Duration = Duration::from_millis(20);

/// State of a pair of a link and a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairState {
    /// The link of the pair.
    pub link: LinkId,
    /// Name of the peer of the pair.
    pub peer: String,
    /// Addresses of the peer that have a route by the link, the best first.
    pub endpoints: Vec<SocketAddr>,
    /// Setting of the link that states when it uses TCP.
    pub mode: TcpFallback,
    /// True if a path of the pair over UDP answers.
    pub udp_answers: bool,
    /// True if a path of the pair over TCP answers.
    pub tcp_answers: bool,
}

/// Decision about the TCP connections of a link to a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FallbackDecision {
    /// Connect to the peer at this address by TCP, and log the reason.
    Call(LinkId, String, SocketAddr, &'static str),
    /// End the connections to this address, and log the reason.
    End(LinkId, String, SocketAddr, &'static str),
    /// Report to the engine that TCP connections of the link now lead to exactly these addresses.
    Lead(LinkId, Vec<SocketAddr>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// UDP has been silent since this time.
    Silent(Instant),
    Calling,
    /// Connections are open. The last answer by them arrived at this time.
    Up(Instant),
    /// The next attempt to connect is due at this time.
    Pausing(Instant),
}

#[derive(Debug)]
struct TcpAttempt {
    stage: Stage,
    to: Option<SocketAddr>,
    why: &'static str,
    failures: u32,
    /// UDP has answered since this time. `None` while it does not answer.
    udp_since: Option<Instant>,
}

/// The attempts of all pairs of a link and a peer that UDP does not reach.
#[derive(Debug, Default)]
pub struct Fallback {
    attempts: BTreeMap<(LinkId, String), TcpAttempt>,
    leads: BTreeMap<LinkId, Vec<SocketAddr>>,
    next: Option<Instant>,
}

impl Fallback {
    /// Returns the time at which the next decision is due even if nothing changes. `None` if none is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// Makes a decision due now, because something has changed.
    pub fn look_again(&mut self, now: Instant) {
        self.next = Some(now);
    }

    /// Returns the reason why this node uses TCP on a link to this address. `None` if it has not connected to it.
    pub fn why(&self, link: LinkId, to: SocketAddr) -> Option<&'static str> {
        let is_it = |((of, _), attempt): &(&(LinkId, String), &TcpAttempt)| *of == link && attempt.to == Some(to);
        self.attempts.iter().find(is_it).map(|(_, attempt)| attempt.why)
    }

    /// Decides about all pairs of a link and a peer. A pair that is missing in `seen` no longer needs TCP.
    pub fn decide(&mut self, now: Instant, seen: &[PairState]) -> Vec<FallbackDecision> {
        let mut steps = Vec::new();
        let is_seen = |(link, peer): &(LinkId, String)| seen.iter().any(|of| of.link == *link && of.peer == *peer);
        let gone: Vec<_> = self.attempts.keys().filter(|key| !is_seen(key)).cloned().collect();
        for key in gone {
            self.give_up(&key, "no longer needed", &mut steps);
        }
        for of in seen {
            self.decide_one(now, of, &mut steps);
        }
        self.lead(&mut steps);
        self.next = self.attempts.values().map(|attempt| attempt.next(now)).min();
        steps
    }

    fn decide_one(&mut self, now: Instant, seen: &PairState, steps: &mut Vec<FallbackDecision>) {
        let key = (seen.link, seen.peer.clone());
        let wants_udp = seen.mode != TcpFallback::Always;
        let Some(attempt) = self.attempts.get_mut(&key) else {
            if !(wants_udp && seen.udp_answers) {
                let stage = Stage::Silent(if wants_udp { now } else { now.before(PATIENCE) });
                let why = if wants_udp { "UDP does not pass" } else { "configured" };
                self.attempts.insert(key, TcpAttempt { stage, to: None, why, failures: 0, udp_since: None });
                return self.decide_one(now, seen, steps);
            }
            return;
        };
        attempt.udp_since = (wants_udp && seen.udp_answers).then(|| attempt.udp_since.unwrap_or(now));
        match attempt.stage {
            Stage::Up(heard) => {
                if attempt.udp_since.is_some_and(|since| now - since >= STEADY) {
                    self.give_up(&key, "UDP passes again", steps);
                } else if seen.tcp_answers {
                    attempt.stage = Stage::Up(now);
                } else if now - heard >= LONGEST_MUTE {
                    let (link, peer) = key;
                    steps.extend(attempt.to.map(|to| FallbackDecision::End(link, peer, to, "nothing arrives by them")));
                    attempt.fail(now);
                }
            }
            _ if attempt.udp_since.is_some() => self.give_up(&key, "UDP passes", steps),
            Stage::Silent(since) if now - since >= PATIENCE => attempt.call(seen, steps),
            Stage::Pausing(until) if now >= until => attempt.call(seen, steps),
            _ => {}
        }
    }

    /// Records that TCP connections over a link to the address `to` are open.
    pub fn on_up(&mut self, now: Instant, link: LinkId, to: SocketAddr) {
        if let Some(attempt) = self.find(link, to) {
            attempt.stage = Stage::Up(now);
        }
        self.next = Some(now);
    }

    /// Records that an attempt failed or all connections are closed. Returns the pause before the next attempt.
    ///
    /// Returns `None` if no attempt for this link and address exists.
    pub fn on_down(&mut self, now: Instant, link: LinkId, to: SocketAddr) -> Option<Duration> {
        self.next = Some(now);
        let attempt = self.find(link, to)?;
        attempt.fail(now);
        match attempt.stage {
            Stage::Pausing(until) => Some(until - now),
            _ => None,
        }
    }

    /// Forgets a link whose addresses or routes have changed, so that it begins anew with UDP. Returns the decisions.
    pub fn on_link_changed(&mut self, now: Instant, link: LinkId) -> Vec<FallbackDecision> {
        let mut steps = Vec::new();
        let keys: Vec<_> = self.attempts.keys().filter(|(of, _)| *of == link).cloned().collect();
        keys.iter().for_each(|key| self.give_up(key, "the link has changed", &mut steps));
        self.lead(&mut steps);
        self.next = Some(now);
        steps
    }

    fn find(&mut self, link: LinkId, to: SocketAddr) -> Option<&mut TcpAttempt> {
        let is_it = |((of, _), attempt): &(&(LinkId, String), &mut TcpAttempt)| *of == link && attempt.to == Some(to);
        self.attempts.iter_mut().find(is_it).map(|(_, attempt)| attempt)
    }

    fn give_up(&mut self, key: &(LinkId, String), why: &'static str, steps: &mut Vec<FallbackDecision>) {
        if let Some(TcpAttempt { to: Some(to), stage: Stage::Calling | Stage::Up(_), .. }) = self.attempts.remove(key) {
            steps.push(FallbackDecision::End(key.0, key.1.clone(), to, why));
        }
    }

    /// Adds a decision for each link whose addresses over TCP have changed.
    fn lead(&mut self, steps: &mut Vec<FallbackDecision>) {
        let mut leads: BTreeMap<LinkId, Vec<SocketAddr>> = self.leads.keys().map(|link| (*link, Vec::new())).collect();
        for ((link, _), attempt) in &self.attempts {
            if let (Stage::Up(_), Some(to)) = (attempt.stage, attempt.to) {
                leads.entry(*link).or_default().push(to);
            }
        }
        for (link, now) in &leads {
            if self.leads.get(link).map_or(&[][..], Vec::as_slice) != now.as_slice() {
                steps.push(FallbackDecision::Lead(over_tcp(*link), now.clone()));
            }
        }
        leads.retain(|_, to| !to.is_empty());
        self.leads = leads;
    }
}

impl TcpAttempt {
    fn call(&mut self, seen: &PairState, steps: &mut Vec<FallbackDecision>) {
        let turn = self.failures as usize % seen.endpoints.len().max(1);
        let Some(to) = seen.endpoints.get(turn) else { return };
        (self.stage, self.to) = (Stage::Calling, Some(*to));
        steps.push(FallbackDecision::Call(seen.link, seen.peer.clone(), *to, self.why));
    }

    fn fail(&mut self, now: Instant) {
        let [first, longest] = PAUSES;
        self.stage = Stage::Pausing(now + (first * 2u32.pow(self.failures.min(10))).min(longest));
        self.failures = self.failures.saturating_add(1);
    }

    fn next(&self, now: Instant) -> Instant {
        match self.stage {
            Stage::Silent(_) => now + CLOSE_LOOK,
            Stage::Calling => now + STEADY,
            Stage::Up(heard) => {
                let steady = self.udp_since.map(|since| since + STEADY);
                steady.unwrap_or(heard + LONGEST_MUTE).max(now + CLOSE_LOOK)
            }
            Stage::Pausing(until) => until.max(now + CLOSE_LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkId = LinkId(3);

    fn seen(mode: TcpFallback, udp_answers: bool, tcp_answers: bool) -> [PairState; 1] {
        let endpoints = ["192.0.2.1:443", "192.0.2.2:443"].map(|at| at.parse().unwrap()).into();
        [PairState { link: LINK, peer: "hub".to_owned(), endpoints, mode, udp_answers, tcp_answers }]
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(10_000 + ms)
    }

    fn called(steps: &[FallbackDecision]) -> Vec<String> {
        let address = |step: &FallbackDecision| match step {
            FallbackDecision::Call(_, _, to, _) => Some(to.to_string()),
            _ => None,
        };
        steps.iter().filter_map(address).collect()
    }

    #[test]
    fn a_silent_link_calls_after_a_tenth_of_a_second_and_returns_to_udp() {
        let (mut all, auto) = (Fallback::default(), TcpFallback::Auto);
        assert_eq!(all.decide(at(0), &seen(auto, true, false)), []);
        assert_eq!(all.decide(at(1_000), &seen(auto, false, false)), []);
        assert_eq!(all.next_timeout(), Some(at(1_020)));
        let steps = all.decide(at(1_100), &seen(auto, false, false));
        assert_eq!(called(&steps), ["192.0.2.1:443"]);
        let to = "192.0.2.1:443".parse().unwrap();
        all.on_up(at(1_200), LINK, to);
        let steps = all.decide(at(1_200), &seen(auto, false, false));
        assert_eq!(steps, [FallbackDecision::Lead(over_tcp(LINK), vec![to])]);
        assert_eq!(all.decide(at(2_000), &seen(auto, false, true)), []);
        assert_eq!(all.decide(at(9_000), &seen(auto, true, true)), []);
        assert_eq!(all.decide(at(9_900), &seen(auto, true, true)), [], "UDP may be gone again");
        let steps = all.decide(at(10_000), &seen(auto, true, true));
        let end = FallbackDecision::End(LINK, "hub".to_owned(), to, "UDP passes again");
        assert_eq!(steps, [end, FallbackDecision::Lead(over_tcp(LINK), Vec::new())]);
        assert_eq!(all.decide(at(11_000), &seen(auto, true, true)), []);
    }

    #[test]
    fn calls_take_the_addresses_in_turn_with_longer_and_longer_pauses() {
        let (mut all, seen) = (Fallback::default(), seen(TcpFallback::Always, true, false));
        let (mut now, mut pauses, mut addresses) = (at(0), Vec::new(), Vec::new());
        for _ in 0..12 {
            let steps = called(&all.decide(now, &seen));
            let to = steps.first().expect("a call").parse().unwrap();
            addresses.push(steps[0].clone());
            let pause = all.on_down(now, LINK, to).expect("a pause");
            assert_eq!(called(&all.decide(now + pause / 2, &seen)), Vec::<String>::new());
            now += pause;
            pauses.push(pause);
        }
        assert_eq!((pauses[0], pauses[1], pauses[11]), (PAUSES[0], PAUSES[0] * 2, PAUSES[1]));
        assert_eq!(addresses[..3], ["192.0.2.1:443", "192.0.2.2:443", "192.0.2.1:443"]);
    }

    #[test]
    fn connections_that_carry_nothing_end() {
        let (mut all, seen) = (Fallback::default(), seen(TcpFallback::Always, false, false));
        let steps = all.decide(at(0), &seen);
        let to = called(&steps)[0].parse().unwrap();
        all.on_up(at(50), LINK, to);
        all.decide(at(50), &seen);
        let steps = all.decide(at(5_050), &seen);
        assert!(
            matches!(steps[..], [FallbackDecision::End(..), FallbackDecision::Lead(_, ref none)] if none.is_empty()),
            "{steps:?}"
        );
        assert!(all.on_down(at(5_060), LINK, "192.0.2.9:1".parse().unwrap()).is_none(), "another address");
    }

    #[test]
    fn a_changed_link_begins_anew() {
        let (mut all, auto) = (Fallback::default(), TcpFallback::Auto);
        all.decide(at(0), &seen(auto, false, false));
        all.decide(at(100), &seen(auto, false, false));
        assert!(matches!(all.on_link_changed(at(200), LINK)[..], [FallbackDecision::End(..)]));
        assert_eq!(called(&all.decide(at(200), &seen(auto, false, false))), Vec::<String>::new());
        assert_eq!(called(&all.decide(at(300), &seen(auto, false, false))).len(), 1);
        all.decide(at(310), &[]);
        assert_eq!(all.next_timeout(), None);
    }
}
