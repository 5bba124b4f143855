//! Decisions about flows at a hub, compared with those of the filter that judges packets.

use super::*;
use crate::config;
use proptest::prelude::*;
use std::path::Path;
use weft_engine::EngineConfig;
use weft_engine::allow::NodeGroups;
use weft_session::{Claims, Identity, RootKey};
use weft_units::VpnId;
use weft_wire::ip::FlowKey;

/// A hub with two peers, rules, and a certificate that states its name and groups.
struct Hub {
    config: Config,
    engine: Engine,
    own: Certificate,
}

fn key(seed: u8) -> Identity {
    Identity::from_secret([seed; 32])
}

fn hub(rules: &str) -> Hub {
    let peer = |name: &str, seed: u8, groups: &str, prefixes: &str| {
        let key = key(seed).public_key();
        format!(
            "[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\ngroups = [{groups}]\nprefixes = [{prefixes}]\n\
             endpoints = [\"192.0.2.{seed}:51900\"]\n"
        )
    };
    let text = [
        "[node]\nkey = \"k\"\n[tun]\naddress = [\"10.9.0.1/24\"]\n",
        &peer("laptop", 7, "\"staff\"", "\"10.9.0.7/32\""),
        &peer("office", 8, "", "\"10.9.0.8/32\", \"192.168.5.0/24\""),
        &peer("exit", 9, "", "\"0.0.0.0/0\""),
        rules,
    ]
    .concat();
    let config = config::parse(&config::Report::new("t", text), Path::new(".")).expect("a configuration");
    let engine_config = EngineConfig {
        identity: key(1),
        cipher: config.node.cipher,
        peers: config.engine_peers(),
        vpns: Vec::new(),
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base: 0,
        inner_mtu: None,
    };
    let engine = Engine::new(engine_config, Instant::ZERO, [3; 32]).expect("an engine");
    let claims = Claims {
        public_key: key(1).public_key(),
        name: "hub".to_owned(),
        not_before_unix_s: 0,
        not_after_unix_s: 1 << 40,
        may_relay: false,
        prefixes: vec![("172.16.0.0".parse().expect("an address"), 16)],
        groups: vec!["servers".to_owned()],
    };
    let own = RootKey::from_seed([5; 32]).sign(&claims).expect("a certificate");
    let mut hub = Hub { config, engine, own };
    hub.engine.set_access(hub.config.engine_access(Some(&hub.own)).expect("rules without faults"));
    hub
}

const RULES: &str = r#"
[[allow]]
name = "web"
to = "group:servers"
protocol = "tcp"
ports = "80"
[[allow]]
name = "admin"
from = "group:staff"
to = ["node:hub", "192.168.5.0/24"]
protocol = "tcp"
ports = "22"
[[allow]]
name = "ping"
from = "10.9.0.0/24"
protocol = "icmp"
"#;

fn flow(source: &str, destination: &str, protocol: Option<u8>, port: Option<u16>) -> FlowPattern {
    FlowPattern {
        destination: destination.parse().expect("an address"),
        destination_port: port,
        source: (!source.is_empty()).then(|| source.parse().expect("an address")),
        source_port: None,
        protocol,
    }
}

impl Hub {
    fn judge(&self, flow: &FlowPattern) -> Option<FlowAccess> {
        Judge { engine: &self.engine, config: &self.config, own: Some(&self.own) }.judge(Instant::ZERO, None, flow)
    }

    fn told(&self, source: &str, destination: &str, protocol: Option<u8>, port: Option<u16>) -> String {
        let Some(told) = self.judge(&flow(source, destination, protocol, port)) else { return "nothing".to_owned() };
        let FlowAccess { way, from, to, decision, rule, .. } = told;
        let words = [from, to, rule].map(|word| word.unwrap_or_else(|| "-".to_owned()));
        format!("{way:?} {} {decision:?}", words.join(" "))
    }
}

#[test]
fn flows_into_this_node_are_judged_by_its_rules() {
    let hub = hub(RULES);
    assert_eq!(hub.told("10.9.0.7", "10.9.0.1", Some(6), Some(22)), "Entering laptop - admin Allowed");
    assert_eq!(hub.told("10.9.0.8", "10.9.0.1", Some(6), Some(22)), "Entering office - - Denied");
    assert_eq!(hub.told("10.9.0.8", "10.9.0.1", Some(6), Some(80)), "Entering office - web Allowed");
    assert_eq!(
        hub.told("10.9.0.8", "172.16.3.3", Some(6), Some(80)),
        "Entering office - web Allowed",
        "behind this node"
    );
    assert_eq!(hub.told("10.9.0.8", "10.9.0.1", Some(1), None), "Entering office - ping Allowed");
    assert_eq!(hub.told("192.168.5.3", "10.9.0.1", Some(1), None), "Entering office - - Denied");
    assert_eq!(hub.told("", "10.9.0.1", Some(6), Some(22)), "Entering - - - Incomplete");
    assert_eq!(hub.told("10.9.0.7", "10.9.0.1", Some(6), None), "Entering laptop - - Incomplete");
    assert_eq!(hub.told("10.9.0.7", "10.9.0.1", None, None), "Entering laptop - - Incomplete");
}

#[test]
fn flows_between_peers_are_judged_by_where_they_go() {
    let hub = hub(RULES);
    assert_eq!(hub.told("10.9.0.7", "192.168.5.3", Some(6), Some(22)), "Passing laptop office admin Allowed");
    assert_eq!(hub.told("10.9.0.7", "10.9.0.8", Some(6), Some(22)), "Passing laptop office - Denied");
    assert_eq!(hub.told("10.9.0.8", "10.9.0.7", Some(6), Some(80)), "Passing office laptop - Denied");
}

#[test]
fn flows_that_leave_need_no_rule_here() {
    let hub = hub(RULES);
    assert_eq!(hub.told("", "10.9.0.7", Some(6), Some(22)), "Leaving - laptop - NotJudged");
    assert_eq!(hub.told("10.9.0.1", "10.9.0.7", None, None), "Leaving - laptop - NotJudged");
    assert_eq!(hub.told("172.16.0.9", "10.9.0.7", None, None), "Leaving - laptop - NotJudged", "behind this node");
    assert_eq!(hub.told("", "203.0.113.1", None, None), "Leaving - exit - NotJudged");
    assert_eq!(
        hub.told("10.1.2.3", "203.0.113.1", None, None),
        "Leaving - exit - NotJudged",
        "a host here, by default"
    );
}

#[test]
fn without_rules_every_flow_enters() {
    let hub = hub("");
    assert_eq!(hub.told("10.9.0.7", "10.9.0.1", Some(6), Some(22)), "Entering laptop - - NoRules");
    assert_eq!(hub.told("10.9.0.7", "10.9.0.1", None, None), "Entering laptop - - NoRules");
    assert_eq!(hub.told("10.9.0.1", "10.9.0.1", Some(6), Some(22)), "Entering - - - UnknownSource");
}

proptest! {
    /// Compiles the rules as the engine does, and compares the decision for a flow of a known peer.
    #[test]
    fn the_decision_is_that_of_the_engines_rules(
        from in 7..9u8, to in prop_oneof![Just("10.9.0.1"), Just("192.168.5.3"), Just("10.9.0.8"), Just("172.16.0.1")],
        protocol in prop_oneof![Just(1u8), Just(6), Just(17)], port in prop_oneof![Just(22u16), Just(80), any::<u16>()],
    ) {
        let hub = hub(RULES);
        let source = format!("10.9.0.{from}");
        let asked = flow(&source, to, Some(protocol), Some(port));
        let told = hub.judge(&asked).expect("a decision");
        prop_assume!(told.way != FlowWay::Leaving);
        let access = hub.config.engine_access(Some(&hub.own)).unwrap().expect("rules");
        let node = |name: &Option<String>| match name.as_deref() {
            None => access.own.clone(),
            Some("laptop") => NodeGroups { name: "laptop".to_owned(), groups: vec!["staff".to_owned()] },
            Some(name) => NodeGroups { name: name.to_owned(), groups: Vec::new() },
        };
        let rows = [&told.from, &told.to].map(|name| access.rules.rows_of(&node(name)));
        let key = FlowKey {
            src: asked.source.unwrap(), dst: asked.destination, protocol, src_port: 9, dst_port: port, flow_label: 0,
        };
        let rule = access.rules.decide(&rows[0], &rows[1], VpnId::DEFAULT, &key).and_then(|rule| access.rules.name(rule));
        prop_assert_eq!(told.rule.as_ref(), rule, "{:?}", asked);
    }
}
