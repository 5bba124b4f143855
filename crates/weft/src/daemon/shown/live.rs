//! Answers to requests about flows, prefixes, the link map, and drills.

use crate::config::{self, Config, proxy_prefix};
use crate::daemon::services::routing::RoutingReport;
use crate::daemon::services::signalling;
use crate::daemon::shown::access::Judge;
use crate::daemon::shown::{refusal, view};
use crate::status::{
    self, Drill, DrillPath, DrillPeer, Explanation, FlowQuestion, FlowWay, Granted, PathReason, PrefixMatch, SeenFlow,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use weft_control::Response;
use weft_engine::{
    DrillPhase, DrillReport, Engine, FlowKey, FlowPattern, MapMember, MemberSnapshot, OwnedPrefix, PeerDrill,
    ReportedLink, RouteStatus, Schedule, WayDrill,
};
use weft_tcp_er::proxy::policy::ProxyRule;
use weft_units::{Instant, Rate, VpnId};

/// Protocol number of TCP (IANA).
const TCP: u8 = 6;
/// Name of the default VPN in requests and answers.
const DEFAULT_VPN: &str = "default";

/// Answers `weft explain`: how the node forwards a flow, or whether the flow may enter here.
pub fn explain(judge: Judge<'_>, now: Instant, question: &FlowQuestion) -> Response {
    let Judge { engine, config, .. } = judge;
    let (pattern, vpn) = (pattern(question), question.vpn.as_deref());
    let access = judge.judge(now, vpn, &pattern);
    match (engine.explain(now, vpn, &pattern), access) {
        (_, Some(access)) if access.way == FlowWay::Entering => Response::Access(Box::new(access)),
        (Ok(found), access) => {
            let explanation = explanation(engine, config, now, &pattern, &found);
            Response::Explanation(Box::new(Explanation { access, ..explanation }))
        }
        (Err(why), _) => refusal::refused(why),
    }
}

fn pattern(question: &FlowQuestion) -> FlowPattern {
    let FlowQuestion { destination, destination_port, source, source_port, protocol, .. } = *question;
    FlowPattern { destination, destination_port, source, source_port, protocol }
}

fn explanation(
    engine: &Engine,
    config: &Config,
    now: Instant,
    pattern: &FlowPattern,
    found: &weft_engine::Explanation,
) -> Explanation {
    let peer = found.matches.last().map_or_else(String::new, |last| last.peer.clone());
    let entry = found.entry.map(|entry| {
        view::vpn_member(&MemberSnapshot { peer: peer.clone(), is_open: found.is_open, entry: Some(entry) })
    });
    let prefix = |found: &weft_engine::Match| PrefixMatch {
        prefix: proxy_prefix(found.prefix).to_string(),
        peer: found.peer.clone(),
    };
    let is_default = found.vpn == VpnId::DEFAULT;
    Explanation {
        schema: status::SCHEMA,
        vpn: if is_default { DEFAULT_VPN.to_owned() } else { found.vpn_name.clone() },
        peer,
        prefixes: found.matches.iter().map(prefix).collect(),
        session: found.is_established,
        open: found.is_open,
        flow: found.flow.as_ref().map(|flow| SeenFlow {
            flow: signalling::flow(&flow.key),
            packets: flow.packets,
            bytes: flow.bytes,
            idle_ms: view::millis(flow.idle),
            waiting_bytes: flow.committed_bytes,
        }),
        schedule: schedule_name(found.schedule).to_owned(),
        bundle: found.bundles,
        paths: found.paths.iter().map(path).collect(),
        next_sparse: found.next_sparse.iter().map(|id| id.0).collect(),
        next_bulk: found.next_bulk.iter().map(|id| id.0).collect(),
        queue_bytes: found.queued_bytes,
        vpn_entry: entry,
        grant: grant(engine, config, now, pattern, found.flow.as_ref().map(|flow| &flow.key)),
        proxy: config.proxies.each.iter().filter(|_| is_default).find_map(|proxy| {
            let rule = config.proxy_rule(&proxy.value);
            takes(&rule, pattern).then(|| refused(config, pattern).unwrap_or_else(|| proxied(&rule, pattern)))
        }),
        mtu: found.inner_limit,
        mss: found.mss,
        access: None,
    }
}

fn path(reason: &weft_engine::PathReason) -> PathReason {
    PathReason {
        path: view::path(&reason.path),
        takes_sparse: reason.takes_sparse,
        takes_bulk: reason.takes_bulk,
        waiting_bytes: reason.waiting_bytes,
        why: reason.why.to_owned(),
        falls: reason.falls,
        probation_left_ms: reason.probation_left.map(view::millis),
    }
}

/// Returns the configuration's name of a schedule.
pub fn schedule_name(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::EarliestDelivery => "earliest-delivery",
        Schedule::RoundRobin => "round-robin",
        Schedule::Random => "random",
        Schedule::WeightedRoundRobin => "weighted-round-robin",
        Schedule::FlowHash => "flow-hash",
        Schedule::Redundant => "redundant",
    }
}

/// Returns the rate signalled for the flow, or else configured for its destination. `None` if there is neither.
fn grant(
    engine: &Engine,
    config: &Config,
    now: Instant,
    pattern: &FlowPattern,
    flow: Option<&FlowKey>,
) -> Option<Granted> {
    let signalled = engine.signal_status(now).into_iter().flat_map(|status| status.shown);
    let mut signalled = signalled.filter(|shown| Some(&shown.flow) == flow);
    if let Some((rate, left)) = signalled.find_map(|shown| shown.grant) {
        let ends_in_ms = Some(view::millis(left));
        return Some(Granted { rate_bps: rate.bps(), by: "signalled".to_owned(), ends_in_ms });
    }
    let grants = config.tcp_er.iter().flat_map(|tcp_er| &tcp_er.grants);
    let grants = grants.map(|grant| (proxy_prefix(grant.to.value), grant.rate));
    let mut grants: Vec<_> = grants.filter(|(to, _)| to.contains(pattern.destination)).collect();
    grants.sort_by_key(|(to, _)| to.length);
    let (to, rate) = grants.pop().filter(|_| pattern.protocol.is_none_or(|protocol| protocol == TCP))?;
    Some(Granted { rate_bps: rate.bps(), by: format!("[tcp-er] {to}"), ends_in_ms: None })
}

/// Returns true if the proxy of this rule may terminate connections that match `pattern`.
fn takes(rule: &ProxyRule, pattern: &FlowPattern) -> bool {
    let port = |port: u16| rule.ports.iter().any(|ports| (ports.first..=ports.last).contains(&port));
    pattern.protocol.is_none_or(|protocol| protocol == TCP)
        && (rule.ports.is_empty() || pattern.destination_port.is_none_or(port))
        && rule.to.iter().any(|to| to.contains(pattern.destination))
}

/// Returns the reason why the proxies reset a connection that matches `pattern`.
///
/// Returns `None` if they do not reset it, or if the decision depends on unknown data.
fn refused(config: &Config, pattern: &FlowPattern) -> Option<String> {
    let to = SocketAddr::new(pattern.destination, pattern.destination_port?);
    let from = pattern.source?;
    let why = config.proxy_access().judge(from, to).err()?;
    Some(format!("this node's proxy refuses TCP connections from {from} to {to}: {why}"))
}

fn proxied(rule: &ProxyRule, pattern: &FlowPattern) -> String {
    let ports: Vec<String> = rule.ports.iter().map(ToString::to_string).collect();
    let proxy = if rule.side.has_ingress() { "this node's proxy" } else { "the far edge's proxy" };
    match pattern.destination_port {
        None if !ports.is_empty() => format!("{proxy} terminates TCP connections to the ports {}", ports.join(", ")),
        _ => format!("{proxy} terminates TCP connections to this destination"),
    }
}

/// Maximum number of prefixes in an answer. The answer contains the number of those left out.
const PREFIXES_SHOWN: usize = 10_000;

/// Maximum number of links in an answer. The answer contains the number of those left out.
const MOST_LINKS: usize = 2_000;

/// Returns the link map, or only the links from and to the member `from`.
pub fn link_map(engine: &mut Engine, from: Option<&str>) -> Response {
    let Some(map) = engine.link_map() else {
        return Response::Refused { why: "this node takes no part in an overlay: see [network]".to_owned() };
    };
    let names: BTreeMap<u32, &str> = map.members.iter().map(|member| (member.label, &*member.name)).collect();
    let name = |label: u32| names.get(&label).map_or_else(|| format!("{label:08x}"), |name| (*name).to_owned());
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let link = |link: &ReportedLink| status::MapLink {
        from: name(link.from),
        to: name(link.to),
        rtt_us: micros(link.rtt),
        jitter_us: micros(link.jitter),
        loss: link.loss,
        rate_bps: link.rate.map(Rate::bps),
    };
    let is_asked = |link: &status::MapLink| from.is_none_or(|from| link.from == from || link.to == from);
    let mut links: Vec<status::MapLink> = map.links.iter().map(link).filter(is_asked).collect();
    links.sort_by(|one, other| (&one.from, &one.to).cmp(&(&other.from, &other.to)));
    let left_out = links.len().saturating_sub(MOST_LINKS);
    links.truncate(MOST_LINKS);
    let route = |route: RouteStatus| status::MapRoute {
        to: route.to,
        relays: route.relays,
        rtt_us: micros(route.rtt),
        loss: route.loss,
        rate_bps: route.rate.map(Rate::bps),
        state: match (route.answers, route.is_standby) {
            (false, _) => "not answering",
            (true, true) => "standby",
            (true, false) => "in use",
        }
        .to_owned(),
    };
    let member = |member: &MapMember| status::MapMember { name: member.name.clone(), relay: member.is_relay };
    Response::LinkMap(Box::new(status::LinkMap {
        schema: status::SCHEMA,
        members: map.members.iter().map(member).collect(),
        links,
        left_out,
        routes: engine.found_route_status().into_iter().map(route).collect(),
        forged_claims: map.forged_claims,
        sent_bytes: map.sent_bytes,
    }))
}

/// Returns the addresses and prefixes of this node and of its peers, as `weft prefixes` shows them.
pub fn prefixes(
    engine: &Engine,
    config: &Config,
    routing: &RoutingReport,
    (peer, vpn): (Option<&str>, Option<&str>),
) -> Response {
    let own = config.tun.addresses.iter().filter(|_| vpn.is_none_or(|vpn| vpn == DEFAULT_VPN) && peer.is_none());
    let own = own.map(|own| status::Prefix {
        vpn: DEFAULT_VPN.to_owned(),
        prefix: format!("{}/{}", own.address, config::host_bits(own.address)),
        peer: None,
        learnt: "this node's address, configured".to_owned(),
        certified_until_unix_s: None,
    });
    // No text is made for a prefix that is left out: there may be very many.
    let is_asked_for =
        |of: &OwnedPrefix| peer.is_none_or(|peer| of.peer == peer) && vpn.is_none_or(|vpn| vpn_name(of) == vpn);
    let mut others = engine.prefixes().filter(is_asked_for);
    let prefixes: Vec<status::Prefix> = own.chain(others.by_ref().map(prefix)).take(PREFIXES_SHOWN).collect();
    let refused = routing.shown.iter().map(|of| status::RefusedPrefix {
        name: format!("{} via next hop {}", config::protocol_name(of.protocol), of.next_hop),
        prefix: config::prefix::text(of.prefix),
        why: of.why.to_string(),
    });
    Response::Prefixes(status::Prefixes {
        schema: status::SCHEMA,
        prefixes,
        left_out: others.count(),
        learnt: routing.learnt,
        held: routing.held,
        refused: refused.collect(),
        refused_count: routing.refused,
    })
}

fn vpn_name(of: &OwnedPrefix) -> &str {
    if of.vpn == VpnId::DEFAULT { DEFAULT_VPN } else { &of.vpn_name }
}

fn prefix(of: OwnedPrefix) -> status::Prefix {
    let source = match (of.protocol, of.certified_until_unix_s) {
        (Some(protocol), _) => config::protocol_name(protocol),
        (None, Some(_)) => "its certificate".to_owned(),
        (None, None) => "configured".to_owned(),
    };
    status::Prefix {
        vpn: vpn_name(&of).to_owned(),
        prefix: format!("{}/{}", of.prefix.address, of.prefix.length),
        peer: Some(of.peer),
        learnt: source,
        certified_until_unix_s: of.certified_until_unix_s,
    }
}

/// Returns the state of the current or the last drill.
pub fn drill(engine: &Engine, now: Instant) -> Response {
    match engine.drill_report(now) {
        Some(report) => Response::Drill(Box::new(drill_status(&report))),
        None => Response::Refused { why: "no drill ran since the node started".to_owned() },
    }
}

fn drill_status(report: &DrillReport) -> Drill {
    let phase = match report.phase {
        DrillPhase::Before => "before",
        DrillPhase::Silent => "silent",
        DrillPhase::After => "after",
        DrillPhase::Over => "over",
    };
    Drill {
        schema: status::SCHEMA,
        cut: report.of.clone(),
        phase: phase.to_owned(),
        time_ms: view::millis(report.time),
        left_ms: view::millis(report.left),
        peers: report.peers.iter().map(drill_peer).collect(),
    }
}

fn drill_peer(peer: &PeerDrill) -> DrillPeer {
    let micros = |time: Option<Duration>| time.map(view::micros);
    let path = |way: &WayDrill| DrillPath {
        id: way.path.0,
        link: way.link_name.clone(),
        remote: view::remote(&way.remote),
        cut: way.is_cut,
        sent: way.sent,
        answered: way.answered,
    };
    DrillPeer {
        peer: peer.peer.clone(),
        sent: peer.sent,
        lost: peer.lost,
        unsent: peer.unsent,
        detected_us: micros(peer.suspected_after),
        down_us: micros(peer.down_after),
        gap_us: view::micros(peer.gap),
        gap_after_us: view::micros(peer.gap_after),
        back_us: micros(peer.back_after),
        paths: peer.ways.iter().map(path).collect(),
    }
}
