//! Checks of the rules of access: they must name things that exist, and every `[[allow-test]]` must pass.

use super::{AllowAnswer, AllowFault, AllowSetting, Party};
use crate::config::Config;
use crate::config::diagnose::{Report, did_you_mean};
use crate::config::flows::DEFAULT_VPN;
use weft_session::Certificate;

/// Reports faults of the rules, and each `[[allow-test]]` for which the rules make another decision.
///
/// `own` is this node's certificate, which states its name and groups.
pub fn check(config: &Config, own: Option<&Certificate>, report: &Report) {
    let allow = &config.allow;
    for (at, rule) in allow.rules.iter().enumerate() {
        if allow.rules.get(..at).is_some_and(|earlier| earlier.iter().any(|other| other.name.value == rule.name.value))
        {
            let message = format!("two [[allow]] tables have the name `{}`", rule.name.value);
            report.error(rule.name.span.clone(), message, Some("give each a name of its own".to_owned()));
        }
        names(config, rule, report);
    }
    let rules = match allow.compile(&config.vpns) {
        Ok(rules) => rules,
        Err(fault) => {
            let place = match fault {
                AllowFault::Empty { rule } => allow.rules.get(rule),
                AllowFault::TooMany => allow.rules.last(),
            };
            let span = place.map_or(0..0, |rule| rule.name.span.clone());
            return report.error(span, fault.to_string(), Some("use groups and prefixes instead of lists".to_owned()));
        }
    };
    // A table with a mistake is not among the rules. A test could fail only because of that.
    if report.is_partial() {
        return;
    }
    for test in &allow.tests {
        let answer = match allow.rules.is_empty() {
            true => Ok(AllowAnswer::NoRules),
            false => test.question.answer_by(&rules, config, own),
        };
        let (message, help) = match answer {
            Ok(answer) if answer.enters() == test.expects_entry => continue,
            Ok(AllowAnswer::NoRules) => ("the flow enters: there is no [[allow]] table".to_owned(), None),
            Ok(AllowAnswer::Enters(rule)) => {
                let name = rules.name(rule).map_or("", String::as_str);
                (format!("the [[allow]] rule `{name}` lets the tested flow in"), Some("narrow that rule".to_owned()))
            }
            Ok(AllowAnswer::Denied) => {
                let help = "add an [[allow]] table for it; a node that joins by certificate needs its groups in `from`";
                ("no [[allow]] table lets the flow in".to_owned(), Some(help.to_owned()))
            }
            Err(why) => (why, None),
        };
        let expected = if test.expects_entry { "allow" } else { "deny" };
        let message = format!(
            "the [[allow-test]] in this line (expect = \"{expected}\") fails: {message}; correct the rules or the test"
        );
        report.error(test.span.clone(), message, help);
    }
}

/// Reports a VPN in a rule that does not exist, and warns of nodes and groups that no peer has.
fn names(config: &Config, rule: &AllowSetting, report: &Report) {
    if report.is_partial() {
        return;
    }
    if let Some(vpn) = &rule.vpn {
        let known = || config.vpns.iter().map(|vpn| vpn.name.value.as_str()).chain([DEFAULT_VPN]);
        if !known().any(|name| name == vpn.value) {
            let list = || format!("known: {}", known().collect::<Vec<_>>().join(", "));
            let help = did_you_mean(&vpn.value, known()).unwrap_or_else(list);
            let message = format!("there is no VPN `{}`: name a [[vpn]] of this file, or `default`", vpn.value);
            report.error(vpn.span.clone(), message, Some(help));
        }
    }
    // In a network with certificates, nodes that are not in this file may match the rule.
    if config.network.is_some() {
        return;
    }
    let peers = || config.peers.iter().map(|peer| peer.name.value.as_str());
    let groups = || config.peers.iter().flat_map(|peer| peer.groups.iter().map(String::as_str));
    for at in rule.from.iter().chain(&rule.to) {
        let (relation, name, help) = match &at.value {
            Party::Node(name) if !peers().any(|peer| peer == name) => {
                ("has the name", name, did_you_mean(name, peers()))
            }
            Party::Group(name) if !groups().any(|group| group == name) => {
                ("is in the group", name, did_you_mean(name, groups()))
            }
            _ => continue,
        };
        let message = format!(
            "no peer {relation} `{name}`, so `{name}` in the [[allow]] rule `{}` matches no flow: correct this name",
            rule.name.value
        );
        report.warning(at.span.clone(), message, help);
    }
}
