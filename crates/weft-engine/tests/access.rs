//! Rules of access in the engine: the packets that enter at the end of a chain of nodes, and at a hub between two
//! peers.
#![allow(missing_docs)]

mod mesh;
mod net;

use mesh::*;
use weft_engine::allow::{AllowRule, AllowRules, NodeGroups, Party};
use weft_engine::*;
use weft_units::Duration;
use weft_wire::ip::protocol;

const LEFT: usize = 0;
const MIDDLE: usize = 1;
const RIGHT: usize = 2;

fn prefix(node: usize) -> Prefix {
    Prefix { address: inner(node).into(), length: 32 }
}

/// Returns a chain of three nodes. The ends have all others behind the middle, which forwards.
fn chain() -> Mesh {
    let ends = |config: EngineConfig| match config.peers.as_slice() {
        [only] if only.name == "n1" => {
            let all = Prefix { address: "10.9.0.0".parse().unwrap(), length: 16 };
            EngineConfig { peers: vec![PeerConfig { prefixes: vec![all], ..only.clone() }], ..config }
        }
        _ => config,
    };
    let knows = [vec![MIDDLE], vec![LEFT, RIGHT], vec![MIDDLE]];
    let knows = knows.map(|direct| Knows { direct, ..Knows::default() });
    let mut mesh = Mesh::with(&[wire(0, 1), wire(1, 2)], &knows, ends);
    let now = mesh.now;
    let transit = TransitConfig { local: Vec::new(), addresses: vec![inner(MIDDLE).into()] };
    mesh.nodes[MIDDLE].set_transit(now, Some(transit));
    mesh.written = Some(Vec::new());
    mesh.run_for(Duration::from_millis(500));
    mesh
}

fn rule(from: Party, to: Party, port: Option<u16>) -> AllowRule {
    let ports = port.map(|port| port..=port).into_iter().collect();
    AllowRule { name: "r".into(), from: vec![from], to: vec![to], protocol: Some(protocol::UDP), ports, vpn: None }
}

fn access(node: usize, rules: Vec<AllowRule>) -> AccessConfig {
    AccessConfig {
        rules: AllowRules::compile(rules).unwrap(),
        own: NodeGroups { name: format!("n{node}"), groups: Vec::new() },
        groups: vec![(key(LEFT), vec!["staff".into()])],
        local: vec![prefix(node)],
    }
}

fn node(name: &str) -> Party {
    Party::Node(name.into())
}

/// Sends a packet and returns true if it arrived at the other end.
fn crosses(mesh: &mut Mesh, from: usize, to: usize, source_port: u16, port: u16) -> bool {
    let mut packet = net::udp(inner(from), inner(to), source_port, 1, 40);
    packet[32..34].copy_from_slice(&port.to_be_bytes());
    mesh.send_raw(from, &packet);
    mesh.run_for(Duration::from_millis(50));
    mesh.written.replace(Vec::new()).unwrap().iter().any(|(at, _)| *at == to)
}

fn denials(mesh: &mut Mesh, at: usize) -> Vec<(DeniedPacket, u64)> {
    let reported = |(node, _, event): (usize, _, Event)| match event {
        Event::Denied { packet, more } if node == at => Some((packet, more)),
        _ => None,
    };
    mesh.events.drain(..).filter_map(reported).collect()
}

#[test]
fn only_what_a_rule_allows_enters_and_answers_pass() {
    let mut mesh = chain();
    mesh.nodes[MIDDLE].set_access(Some(access(MIDDLE, vec![rule(Party::Group("staff".into()), node("n1"), Some(53))])));
    assert!(crosses(&mut mesh, LEFT, MIDDLE, 4_000, 53));
    assert!(crosses(&mut mesh, MIDDLE, LEFT, 53, 4_000), "the answer; the left node has no rules");
    assert!(!crosses(&mut mesh, LEFT, MIDDLE, 4_000, 54));
    assert!(!crosses(&mut mesh, RIGHT, MIDDLE, 4_000, 53), "it is in no group");
    assert!(crosses(&mut mesh, MIDDLE, RIGHT, 7_000, 9), "who begins here needs no rule");
    assert!(crosses(&mut mesh, RIGHT, MIDDLE, 9, 7_000), "nor do the answers");
    assert!(!crosses(&mut mesh, RIGHT, MIDDLE, 9, 7_001));
    let totals = mesh.nodes[MIDDLE].access_totals(mesh.now).unwrap();
    assert_eq!((totals.rules, totals.flows, totals.drops.no_rule), (1, 2, 3));
    let told = denials(&mut mesh, MIDDLE);
    assert_eq!((told.len(), told[0].1), (1, 0), "one report in a second: {told:?}");
    assert_eq!((told[0].0.key.dst_port, told[0].0.why), (54, allow::AccessDrop::NoRule));
    mesh.nodes[MIDDLE].set_access(None);
    assert!(crosses(&mut mesh, RIGHT, MIDDLE, 4_000, 53), "without rules all enters");
}

#[test]
fn a_hub_asks_where_a_packet_goes() {
    let mut mesh = chain();
    mesh.nodes[MIDDLE].set_access(Some(access(MIDDLE, vec![rule(node("n0"), node("n2"), Some(80))])));
    assert!(crosses(&mut mesh, LEFT, RIGHT, 4_000, 80));
    assert!(crosses(&mut mesh, RIGHT, LEFT, 80, 4_000), "the answer");
    assert!(!crosses(&mut mesh, LEFT, MIDDLE, 4_000, 80), "the hub is not n2");
    assert!(!crosses(&mut mesh, RIGHT, LEFT, 80, 4_001));
    assert!(!crosses(&mut mesh, RIGHT, LEFT, 4_000, 80));
}

#[test]
fn a_rule_that_goes_ends_the_flows_that_it_let_in() {
    let mut mesh = chain();
    mesh.nodes[MIDDLE].set_access(Some(access(MIDDLE, vec![rule(Party::Any, Party::Any, Some(53))])));
    assert!(crosses(&mut mesh, LEFT, MIDDLE, 4_000, 53) && crosses(&mut mesh, MIDDLE, LEFT, 53, 4_000));
    assert!(crosses(&mut mesh, MIDDLE, LEFT, 7_000, 9));
    mesh.nodes[MIDDLE].set_access(Some(access(MIDDLE, vec![rule(node("n2"), Party::Any, Some(53))])));
    assert!(!crosses(&mut mesh, LEFT, MIDDLE, 4_000, 53));
    assert!(crosses(&mut mesh, MIDDLE, LEFT, 53, 4_000));
    assert!(!crosses(&mut mesh, LEFT, MIDDLE, 4_000, 53), "what leaves here does not make it a flow of this node");
    assert!(crosses(&mut mesh, LEFT, MIDDLE, 9, 7_000), "the node's own flow goes on");
}
