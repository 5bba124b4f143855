//! Checks of classes, rules and users: contradictions, rates above the links' capacity, and names that do not exist.

use super::{ClassSetting, DEFAULT_VPN, FlowSettings, RuleSetting, UserKind};
use crate::config::check::bits_behind_length;
use crate::config::check::signal::carried;
use crate::config::diagnose::{Report, did_you_mean};
use crate::config::read::At;
use crate::config::{Config, Severity};
use weft_flows::Classes;
use weft_flows::rules::{FlowRequest, RuleFault, RuleLimits, RuleProblem, treatment_problems};

/// Reports all contradictions in the settings of the flow-state router.
pub fn check(config: &Config, report: &Report) {
    let flows = &config.flows;
    let limits = RuleLimits { capacity: carried(config), delay_variance: None };
    let before = report.count(Severity::Error);
    classes(flows, &limits, report);
    for rule in &flows.rules {
        rule.from.iter().chain(&rule.to).for_each(|prefix| bits_behind_length(prefix, report));
        names(config, rule, report);
    }
    users(flows, report);
    // If a class exceeds a limit, each of its rules would too. The rules are then checked without limits.
    let limits = if report.count(Severity::Error) == before { limits } else { RuleLimits::default() };
    let classes = flows.classes();
    for fault in flows.rules(&config.vpns).check(&classes, &limits) {
        if let Some(rule) = flows.rules.get(fault.rule) {
            tell(rule, &fault, &classes, report);
        }
    }
}

fn classes(flows: &FlowSettings, limits: &RuleLimits, report: &Report) {
    let mut classes = Classes::built_in();
    for (at, class) in flows.classes.iter().enumerate() {
        let ClassSetting { name, spans, .. } = class;
        if flows.classes.get(..at).is_some_and(|earlier| earlier.iter().any(|other| other.name.value == name.value)) {
            let message = format!("class `{}` has two [[class]] tables", name.value);
            report.error(name.span.clone(), message, Some("merge them into one".to_owned()));
        }
        let treatment = class.treatment(&classes);
        for problem in treatment_problems(&FlowRequest { treatment, available: None }, limits) {
            let message = format!("class `{}`: {problem}", name.value);
            report.error(spans.first(keys(&problem), &name.span), message, help(&problem, &classes));
        }
        if let Err(why) = classes.set(&name.value, treatment) {
            report.error(name.span.clone(), why.to_string(), None);
        }
    }
}

fn tell(rule: &RuleSetting, fault: &RuleFault, classes: &Classes, report: &Report) {
    let message = match &fault.problem {
        RuleProblem::Shadowed { by } => {
            let names: Vec<_> = by.iter().map(|(_, name)| format!("`{name}`")).collect();
            let which = if names.len() == 1 { "the earlier rule" } else { "one of the earlier rules" };
            let names = names.join(", ");
            format!("rule `{}` never applies: each of its flows already matches {which} {names}", fault.name)
        }
        RuleProblem::NameTwice { .. } => format!("two [[rule]] tables have the name `{}`", fault.name),
        problem => format!("rule `{}`: {problem}", fault.name),
    };
    let place = rule.spans.first(keys(&fault.problem), &rule.name.span);
    report.error(place, message, help(&fault.problem, classes));
}

/// Returns the keys of a `[[class]]` or `[[rule]]` table that may cause the problem, the likeliest first.
fn keys(problem: &RuleProblem) -> &'static [&'static str] {
    match problem {
        RuleProblem::TooMany | RuleProblem::NameTwice { .. } | RuleProblem::Shadowed { .. } => &["name"],
        RuleProblem::NoSuchClass { .. } => &["class"],
        RuleProblem::TwoFamilies => &["to"],
        RuleProblem::PortsWithoutProtocol => &["protocol", "ports", "from-ports"],
        RuleProblem::OutOfRange { .. } => &["from", "to", "ports", "from-ports", "dscp"],
        RuleProblem::Priority => &["precedence", "delay-priority"],
        RuleProblem::ServiceWithoutRate { .. } => &["service"],
        RuleProblem::AboveMaximum { .. } => &["maximum", "guaranteed"],
        RuleProblem::AboveCapacity { .. } => &["guaranteed", "class"],
        RuleProblem::VarianceBelowBurst { .. } => &["delay-variance", "burst-bytes", "guaranteed", "class"],
        RuleProblem::VarianceBelowPath { .. } => &["delay-variance", "class"],
    }
}

fn help(problem: &RuleProblem, classes: &Classes) -> Option<String> {
    let help = match problem {
        RuleProblem::NoSuchClass { class } => {
            let known = || format!("known: {}", classes.names().collect::<Vec<_>>().join(", "));
            return Some(did_you_mean(class, classes.names()).unwrap_or_else(known));
        }
        RuleProblem::Shadowed { .. } => "put the later rule before the earlier one, or remove it",
        RuleProblem::PortsWithoutProtocol => "for example protocol = \"udp\"; for TCP and UDP write two rules",
        RuleProblem::TwoFamilies => "write one rule for IPv4 and one rule for IPv6",
        RuleProblem::ServiceWithoutRate { .. } => "set the rate that the service needs, or remove `service`",
        RuleProblem::AboveMaximum { .. } => "lower `guaranteed`, or raise `maximum`",
        RuleProblem::AboveCapacity { .. } => "lower `guaranteed`, or raise `max-rate-up` of the links",
        RuleProblem::VarianceBelowBurst { .. } => "lower `burst-bytes` or remove it, or raise `delay-variance`",
        _ => return None,
    };
    Some(help.to_owned())
}

/// Reports a VPN or user in a rule that does not exist, and warns of nodes that are not peers.
fn names(config: &Config, rule: &RuleSetting, report: &Report) {
    if let Some(At { value, span }) = &rule.vpn {
        let known = || config.vpns.iter().map(|vpn| vpn.name.value.as_str()).chain([DEFAULT_VPN]);
        if !report.is_partial() && !known().any(|name| name == value) {
            let list = || format!("known: {}", known().collect::<Vec<_>>().join(", "));
            let help = did_you_mean(value, known()).unwrap_or_else(list);
            let message = format!("there is no VPN `{value}`: name a [[vpn]] of this file, or `default`");
            report.error(span.clone(), message, Some(help));
        }
    }
    if let Some(At { value, span }) = &rule.user
        && let Err(why) = config.flows.users.user_name(value)
    {
        report.error(span.clone(), format!("the user `{value}` does not fit the setting `by` in [users]: {why}"), None);
    }
    // In a network with certificates, a node that is not in this file may join.
    if config.network.is_none() && !report.is_partial() {
        for At { value, span } in rule.near.iter().chain(&rule.far) {
            let peers = || config.peers.iter().map(|peer| peer.name.value.as_str());
            if !peers().any(|peer| peer == value) {
                let message = format!(
                    "no peer has the name `{value}`, so [[rule]] `{}` matches no flow: correct this name",
                    rule.name.value
                );
                report.warning(span.clone(), message, did_you_mean(value, peers()));
            }
        }
    }
}

fn users(flows: &FlowSettings, report: &Report) {
    for (At { value, span }, _) in &flows.users.weights {
        match flows.users.user_name(value) {
            Ok(name) if name != *value && flows.users.by != UserKind::Certificate => {
                report.error(
                    span.clone(),
                    format!("weft writes the user `{value}` in the form `{name}`: use the form `{name}` here"),
                    Some(format!("write {name}")),
                );
            }
            Ok(_) => {}
            Err(why) => {
                let message = format!("the user `{value}` does not fit the setting `by` in [users]: {why}");
                report.error(span.clone(), message, None);
            }
        }
    }
}
