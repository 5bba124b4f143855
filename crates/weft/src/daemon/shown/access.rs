//! Decision of the running node's rules of access about a flow, for `weft explain`.
//!
//! The decision is that of [`AllowQuestion`], with the nodes that the engine knows: where an address lies, and the
//! groups of a peer's certificate.

use crate::config::{AllowAnswer, AllowQuestion, Config, host_bits};
use crate::status::{self, FlowAccess, FlowDecision, FlowWay};
use std::net::IpAddr;
use weft_engine::allow::Party;
use weft_engine::{CertifiedPeer, Engine, FlowPattern, Prefix};
use weft_flows::rules::FlowPrefix;
use weft_session::Certificate;
use weft_units::Instant;
use weft_wire::ip::protocol;

/// The node whose rules of access decide: its engine, its configuration and its certificate.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The configuration in force.
    pub config: &'a Config,
    /// Certificate of this node, which states its name and groups.
    pub own: Option<&'a Certificate>,
}

/// The peers behind which source and destination of a flow lie.
struct FlowPeers {
    way: FlowWay,
    from: Option<String>,
    to: Option<String>,
}

impl Judge<'_> {
    /// Returns whether the rules of access let a flow enter.
    ///
    /// Returns `None` if its destination is neither behind a peer nor behind this node.
    pub fn judge(&self, now: Instant, vpn: Option<&str>, flow: &FlowPattern) -> Option<FlowAccess> {
        let ends = self.ends(now, vpn, flow)?;
        let (decision, rule) = self.decide(vpn, flow, &ends);
        let totals = self.engine.access_totals(now);
        let last = totals.and_then(|totals| totals.last);
        Some(FlowAccess {
            schema: status::SCHEMA,
            way: ends.way,
            from: ends.from,
            to: ends.to,
            decision,
            rule,
            rules: self.config.allow.rules.len(),
            denied_packets: totals.map_or(0, |totals| totals.drops.no_rule),
            denied_last: last.is_some_and(|last| flow.holds(&last.key)),
        })
    }

    /// Returns the peers at the ends of a flow, as the engine finds them when the flow's first packet arrives.
    ///
    /// Returns `None` if the destination is neither behind a peer nor behind this node.
    fn ends(&self, now: Instant, vpn: Option<&str>, flow: &FlowPattern) -> Option<FlowPeers> {
        let to = self.peer_behind(now, vpn, flow.destination);
        let Some(source) = flow.source else {
            let way = if to.is_some() { FlowWay::Leaving } else { FlowWay::Entering };
            let is_known = to.is_some() || self.local_len(flow.destination).is_some();
            return is_known.then_some(FlowPeers { way, from: None, to: to.map(|(peer, _)| peer) });
        };
        // A default route contains every address, also that of a host behind this node that no prefix contains. So it
        // does not prove that the source is behind the peer.
        let is_here = self.local_len(flow.destination).is_some();
        let from = self.peer_behind(now, vpn, source).filter(|(_, length)| *length > 0 || is_here);
        let from = from.map(|(peer, _)| peer);
        // A packet of a peer goes to another peer, but not by a default route.
        let onward = to.clone().filter(|(peer, length)| *length > 0 && Some(peer) != from.as_ref());
        Some(match (from, onward) {
            (Some(from), Some((to, _))) => FlowPeers { way: FlowWay::Passing, from: Some(from), to: Some(to) },
            (Some(from), None) => FlowPeers { way: FlowWay::Entering, from: Some(from), to: None },
            (None, _) if to.is_some() => FlowPeers { way: FlowWay::Leaving, from: None, to: to.map(|(peer, _)| peer) },
            (None, _) if is_here => FlowPeers { way: FlowWay::Entering, from: None, to: None },
            (None, _) => return None,
        })
    }

    /// Returns the peer behind which an address lies, and the length of its prefix.
    ///
    /// Returns `None` if no prefix of a peer contains the address, or if a longer prefix of this node contains it.
    fn peer_behind(&self, now: Instant, vpn: Option<&str>, address: IpAddr) -> Option<(String, u8)> {
        let pattern = FlowPattern {
            destination: address,
            destination_port: None,
            source: None,
            source_port: None,
            protocol: None,
        };
        let found = self.engine.explain(now, Some(vpn.unwrap_or("default")), &pattern).ok()?;
        let longest = found.matches.into_iter().next_back()?;
        let length = longest.prefix.length;
        let is_local = self.local_len(address).is_some_and(|local| local >= length);
        (!is_local).then_some((longest.peer, length))
    }

    /// Returns the length of the longest prefix of this node that contains an address. `None` if none contains it.
    fn local_len(&self, address: IpAddr) -> Option<u8> {
        let own = self.config.tun.addresses.iter().map(|tun| Prefix { length: host_bits(tun.address), ..*tun });
        let certified = self.own.iter().flat_map(|own| &own.claims().prefixes);
        let certified = certified.map(|&(address, length)| Prefix { address, length });
        own.chain(certified).filter(|prefix| prefix.contains(address)).map(|prefix| prefix.length).max()
    }

    fn decide(&self, vpn: Option<&str>, flow: &FlowPattern, ends: &FlowPeers) -> (FlowDecision, Option<String>) {
        if ends.way == FlowWay::Leaving {
            return (FlowDecision::NotJudged, None);
        }
        let (Some(source), Some(from)) = (flow.source, &ends.from) else {
            let unknown = flow.source.is_some();
            return (if unknown { FlowDecision::UnknownSource } else { self.undecided() }, None);
        };
        let port = match (flow.protocol, flow.destination_port) {
            (Some(protocol::TCP | protocol::UDP), None) | (None, _) => return (self.undecided(), None),
            (_, port) => port.unwrap_or(0),
        };
        let question = AllowQuestion {
            from: self.parties(from, source),
            to: match &ends.to {
                Some(to) => self.parties(to, flow.destination),
                None => self.own_parties(flow.destination),
            },
            protocol: flow.protocol.unwrap_or(0),
            port,
            vpn: vpn.map(str::to_owned),
        };
        match question.answer(self.config, self.own) {
            Ok(AllowAnswer::NoRules) => (FlowDecision::NoRules, None),
            Ok(AllowAnswer::Enters(rule)) => {
                let rule = self.config.allow.rules.get(rule).map(|rule| rule.name.value.clone());
                (FlowDecision::Allowed, rule)
            }
            Ok(AllowAnswer::Denied) => (FlowDecision::Denied, None),
            // The configuration was checked, so the rules are valid. Only the question can lack data.
            Err(_) => (FlowDecision::Incomplete, None),
        }
    }

    /// Returns the decision about a flow without a source, protocol or port, on which the rules may depend.
    fn undecided(&self) -> FlowDecision {
        if self.config.allow.rules.is_empty() { FlowDecision::NoRules } else { FlowDecision::Incomplete }
    }

    /// Returns the names by which rules can refer to a host behind a peer: the peer's groups and name, and `address`.
    fn parties(&self, peer: &str, address: IpAddr) -> Vec<Party> {
        let is_peer = |of: &CertifiedPeer<'_>| self.engine.peer_name(of.peer) == Some(peer);
        let certified = self.engine.certified_peers().find(is_peer);
        let groups = certified.iter().flat_map(|of| &of.certificate.claims().groups).cloned();
        let parties = groups.map(Party::Group).chain([Party::Node(peer.to_owned()), host(address)]);
        parties.collect()
    }

    fn own_parties(&self, address: IpAddr) -> Vec<Party> {
        let name = self.own.map(|own| own.claims().name.clone()).filter(|name| !name.is_empty());
        name.map(Party::Node).into_iter().chain([host(address)]).collect()
    }
}

fn host(address: IpAddr) -> Party {
    Party::Prefix(FlowPrefix { address, length: host_bits(address) })
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
