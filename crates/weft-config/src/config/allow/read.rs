//! Parsing of `[[allow]]` and `[[allow-test]]`.

use super::{AllowQuestion, AllowSetting, AllowSettings, AllowTest};
use crate::config::diagnose::Report;
use crate::config::flows::protocol_in;
use crate::config::parse::peer_name;
use crate::config::prefix;
use crate::config::read::{At, Section};
use crate::config::signal::ports;
use std::net::IpAddr;
use weft_engine::Prefix;
use weft_engine::allow::Party;
use weft_flows::rules::FlowPrefix;
use weft_wire::certificate::MAX_GROUP_LEN;
use weft_wire::ip::protocol;

/// Example of one end of a flow, for messages.
const EXAMPLE: &str = "\"group:staff\", \"node:laptop\", \"10.9.1.0/24\" or \"any\"";

/// Parses all `[[allow]]` and `[[allow-test]]` tables of a file.
pub fn read(root: &mut Section<'_, '_>, report: &Report) -> AllowSettings {
    let rules = (1..).zip(root.sections("allow", "[[allow]]"));
    let rules = rules.filter_map(|(number, section)| rule(number, section, report)).collect();
    let tests = root.sections("allow-test", "[[allow-test]]").into_iter();
    AllowSettings { rules, tests: tests.filter_map(|section| test(section, report)).collect() }
}

fn rule(number: usize, mut section: Section<'_, '_>, report: &Report) -> Option<AllowSetting> {
    let name = section.parsed("name", "\"web\"", peer_name);
    let has_name = section.has("name");
    let from = parties(&mut section, "from");
    let to = parties(&mut section, "to");
    let protocol = protocol_in(&mut section, report);
    let ports = section.one_or_list("ports", "\"443\" or [\"80\", \"5000-5010\"]", ports).unwrap_or_default();
    let vpn = section.parsed("vpn", "\"blue\"", peer_name);
    if section.has("ports") && !matches!(protocol, Some(protocol::TCP | protocol::UDP)) {
        let help = "for example protocol = \"tcp\"; for TCP and UDP write two rules";
        section.complain(section.key_span("ports"), "only TCP and UDP have ports: name one as `protocol`", help);
    }
    let span = section.span();
    section.finish();
    let name = if has_name { name? } else { At { value: format!("rule {number}"), span: span.clone() } };
    Some(AllowSetting { name, from: from?, to: to?, protocol, ports, vpn, span })
}

/// Parses the senders or the destinations at `key`. Without the key, every node and address matches.
fn parties(section: &mut Section<'_, '_>, key: &'static str) -> Option<Vec<At<Party>>> {
    if !section.has(key) {
        let span = section.span();
        section.value(key);
        return Some(vec![At { value: Party::Any, span }]);
    }
    let is_empty = section.is_empty_list(key);
    let parties = section.one_or_list(key, EXAMPLE, party)?;
    if is_empty {
        let span = section.key_span(key);
        let message =
            format!("`{key}` is empty, so the [[allow]] rule matches no flow: add an entry, or remove the rule");
        section.complain(span, &message, &format!("write for example {EXAMPLE}"));
        return None;
    }
    // If no entry can be parsed, the table is left out. Each wrong entry has a message of its own.
    (!parties.is_empty()).then_some(parties)
}

fn test(mut section: Section<'_, '_>, report: &Report) -> Option<AllowTest> {
    let from = section.one_or_list("from", "\"node:laptop\" or [\"group:staff\", \"10.9.0.7\"]", party);
    let to = section.one_or_list("to", "\"10.9.0.1\" or \"node:hub\"", party);
    let protocol = protocol_in(&mut section, report);
    let port = section.integer("port", 0..65_536);
    let vpn = section.parsed("vpn", "\"blue\"", peer_name).map(|at| at.value);
    let expects_entry = section.parsed("expect", "\"allow\" or \"deny\"", |text| match text {
        "allow" => Ok(true),
        "deny" => Ok(false),
        _ => Err("the decision that an [[allow-test]] expects must be `allow` or `deny`"),
    });
    let needed = [
        ("from", "the sender: a node, groups, an address"),
        ("to", "the destination: a node or an address"),
        ("protocol", "for example protocol = \"tcp\""),
        ("expect", "\"allow\" or \"deny\""),
    ];
    for (key, help) in needed {
        if !section.has(key) {
            section.missing(key, help);
        }
    }
    let span = section.span();
    section.finish();
    let values = |parties: Vec<At<Party>>| parties.into_iter().map(|at| at.value).collect();
    let question = AllowQuestion {
        from: values(from?),
        to: values(to?),
        protocol: protocol?,
        port: port.map_or(0, |at| at.value as u16),
        vpn,
    };
    Some(AllowTest { question, expects_entry: expects_entry?.value, span })
}

/// Parses one end of a flow: `any`, `node:NAME`, `group:NAME`, an address or a prefix.
///
/// # Errors
/// Returns the expected form.
pub fn party(text: &str) -> Result<Party, String> {
    if text == "any" {
        return Ok(Party::Any);
    }
    if let Some(name) = text.strip_prefix("node:") {
        return Ok(Party::Node(peer_name(name)?));
    }
    if let Some(name) = text.strip_prefix("group:") {
        return Ok(Party::Group(group_name(name)?));
    }
    let parsed = match text.parse::<IpAddr>() {
        Ok(address) => Ok(Prefix { address, length: prefix::host_bits(address) }),
        Err(_) if text.contains('/') => prefix::parse(text),
        Err(_) => {
            let form = "expected one end of a flow: `any`, `node:NAME`, `group:NAME`, an address or a prefix";
            return Err(form.to_owned());
        }
    };
    let parsed = parsed?;
    if prefix::trimmed(parsed) != parsed {
        let trimmed = prefix::text(prefix::trimmed(parsed));
        return Err(format!("the prefix `{text}` has host bits set: write {trimmed} instead"));
    }
    Ok(Party::Prefix(FlowPrefix { address: parsed.address, length: parsed.length }))
}

/// Parses the name of a group.
///
/// # Errors
/// Returns the expected form.
pub fn group_name(text: &str) -> Result<String, &'static str> {
    match text.len() {
        1..=MAX_GROUP_LEN if !text.contains(char::is_whitespace) => Ok(text.to_owned()),
        _ => Err("the name of a group must have 1 to 31 bytes and no space"),
    }
}
