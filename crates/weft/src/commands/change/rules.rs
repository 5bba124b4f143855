//! `weft qos rules add`, `remove`, `move` and `test`; `weft qos classes set` and `reset`.

use super::edit;
use super::edited;
use crate::cli::{ClassesCommand, NewRule, RulesCommand, TestedPacket};
use crate::config::{self, Config};
use crate::outcome::{Failure, Outcome};
use crate::table::{rate, span};
use std::net::{IpAddr, SocketAddr};
use weft_engine::FlowKey;
use weft_flows::router::{PacketFacts, first_packet};
use weft_units::{Rate, VpnId};
use weft_wire::ip::protocol;

/// Carries out a change of the rules, or a test of them.
pub fn change_rules(command: &RulesCommand) -> Result<Outcome, Failure> {
    match command {
        RulesCommand::Add(rule) => add(rule),
        RulesCommand::Remove { name, options } => edited(options, |doc| edit::remove_rule(doc, name)),
        RulesCommand::Move { name, before, options } => {
            edited(options, |doc| edit::move_rule(doc, name, before.as_deref()))
        }
        RulesCommand::Test(packet) => test(packet),
    }
}

/// Carries out a change of a class.
pub fn change_classes(command: &ClassesCommand) -> Result<Outcome, Failure> {
    match command {
        ClassesCommand::Set { name, settings, options } => {
            let pairs = pairs(settings, "precedence=12")?;
            edited(options, |doc| edit::set_class(doc, name, &pairs))
        }
        ClassesCommand::Reset { name, options } => edited(options, |doc| edit::reset_class(doc, name)),
    }
}

/// Splits settings of the form `KEY=VALUE`. `example` is such a setting for the error message.
fn pairs(settings: &[String], example: &str) -> Result<Vec<(String, String)>, Failure> {
    let pair = |setting: &String| {
        let wrong = || Failure::with(Outcome::Usage, format!("`{setting}` is not KEY=VALUE, for example {example}"));
        let (key, value) = setting.split_once('=').ok_or_else(wrong)?;
        Ok((key.to_owned(), value.to_owned()))
    };
    settings.iter().map(pair).collect()
}

fn add(rule: &NewRule) -> Result<Outcome, Failure> {
    let NewRule { name, class, before, settings, options } = rule;
    let mut pairs = pairs(settings, "ports=5000")?;
    pairs.push(("class".to_owned(), class.clone()));
    edited(options, |doc| edit::add_rule(doc, name, &pairs, before.as_deref()))
}

/// Prints which rule of the file matches a packet.
fn test(tested: &TestedPacket) -> Result<Outcome, Failure> {
    let loaded = config::load(&tested.config).map_err(Failure::new)?;
    let config = &loaded.config;
    let usage = |why: String| Failure::with(Outcome::Usage, why);
    let facts = PacketFacts {
        vpn: vpn(config, tested.vpn.as_deref()).map_err(usage)?,
        key: key(tested).map_err(usage)?,
        dscp: tested.dscp.as_deref().map_or(Ok(0), config::dscp::parse).map_err(usage)?,
        packets: 1,
        bytes: 0,
        near: tested.near.as_deref().unwrap_or_default(),
        far: tested.far.as_deref().unwrap_or_default(),
    };
    let router = config.flows.router(&config.vpns);
    // The check of the file has already reported all mistakes in the rules.
    let classifier = router.rules.compile(&router.classes, &router.limits);
    let contradiction = "the [[rule]] tables contradict each other: weft check reports where";
    let classifier = classifier.map_err(|_| Failure::new(contradiction))?;
    let decision = classifier.classify(&first_packet(&router.rules, &router.users, &facts));
    let treatment = decision.request.treatment;
    let class = router.classes.get(treatment.class).map_or("bulk", |class| class.name.as_str());
    match decision.rule.and_then(|at| Some((at, router.rules.rules().get(at)?))) {
        Some((at, rule)) => println!("rule {} ({}) matches: class {class}", at + 1, rule.name),
        None => println!("no rule matches: class {class}"),
    }
    if treatment.guaranteed > Rate::ZERO {
        println!(
            "asks for a guarantee of {}, precedence {}",
            rate(Some(treatment.guaranteed.bps())),
            treatment.precedence
        );
    }
    if let Some(bound) = treatment.delay_variance {
        println!("delay varies by at most {}", span(bound));
    }
    if let Some(maximum) = treatment.maximum {
        println!("policed above {}", rate(Some(maximum.bps())));
    }
    Ok(Outcome::Well)
}

fn vpn(config: &Config, name: Option<&str>) -> Result<VpnId, String> {
    let Some(name) = name else { return Ok(VpnId::DEFAULT) };
    config::vpn_number(name, &config.vpns)
        .ok_or_else(|| format!("there is no VPN `{name}`: name a [[vpn]] of the configuration, or `default`"))
}

fn key(tested: &TestedPacket) -> Result<FlowKey, String> {
    let number = config::protocol_number(&tested.protocol)?;
    let has_ports = matches!(number, protocol::TCP | protocol::UDP);
    let ((src, src_port), (dst, dst_port)) = (end(&tested.from, has_ports)?, end(&tested.to, has_ports)?);
    if src.is_ipv4() != dst.is_ipv4() {
        return Err("source and destination have different IP versions: give two IPv4 or two IPv6 addresses".to_owned());
    }
    Ok(FlowKey { src, dst, protocol: number, src_port, dst_port, flow_label: 0 })
}

/// Parses an address, with a port or without (0). If the protocol has no ports, only an address is accepted.
fn end(text: &str, has_ports: bool) -> Result<(IpAddr, u16), String> {
    let with_port = || text.parse::<SocketAddr>().ok().filter(|_| has_ports).map(|of| (of.ip(), of.port()));
    let alone = || text.parse::<IpAddr>().ok().map(|address| (address, 0));
    let form = if has_ports { "an address and a port, such as 10.9.0.1:5000" } else { "an address" };
    with_port().or_else(alone).ok_or_else(|| format!("source or destination `{text}` is not {form}"))
}
