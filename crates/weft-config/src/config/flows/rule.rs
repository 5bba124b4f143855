//! Parsing of `[[rule]]`: which flows get which class.

use super::figures::{self, KeySpans};
use crate::config::diagnose::{Report, did_you_mean};
use crate::config::parse::peer_name;
use crate::config::read::{At, Section};
use crate::config::signal::ports;
use crate::config::{dscp, prefix};
use std::ops::RangeInclusive;
use weft_engine::Prefix;
use weft_flows::rules::{FlowPrefix, FlowRule, Overrides, RuleMatch};
use weft_units::{VpnId, parse_rate};

/// Names of protocols (IANA "Protocol Numbers").
const PROTOCOLS: [(&str, u8); 9] = [
    ("icmp", 1),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("sctp", 132),
];

/// Parses a protocol from an argument: a name or a number.
///
/// # Errors
/// Returns a message for the user.
pub fn protocol_number(text: &str) -> Result<u8, String> {
    let named = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    let names = || PROTOCOLS.map(|(name, _)| name).join(", ");
    let wrong = || format!("`{text}` is no IP protocol: write one of {}, or a number from 0 to 255", names());
    named.or_else(|| text.parse().ok()).ok_or_else(wrong)
}

/// Name of the class of a rule without `class`.
const DEFAULT_CLASS: &str = "bulk";

/// A `[[rule]]` table. A missing property matches every flow.
#[derive(Clone, Debug)]
pub struct RuleSetting {
    /// Name of the rule, for readers of output.
    pub name: At<String>,
    /// Name of the class.
    pub class: String,
    /// Prefix of the source address.
    pub from: Option<At<Prefix>>,
    /// Prefix of the destination address.
    pub to: Option<At<Prefix>>,
    /// Source ports.
    pub from_ports: Option<RangeInclusive<u16>>,
    /// Destination ports.
    pub ports: Option<RangeInclusive<u16>>,
    /// Protocol number.
    pub protocol: Option<u8>,
    /// DSCP of the first packet.
    pub dscp: Option<u8>,
    /// Name of the VPN.
    pub vpn: Option<At<String>>,
    /// Name of the flow's user (the unit of fair sharing), in the form in which `weft qos` lists it.
    pub user: Option<At<String>>,
    /// Name of the node that is the flow's ingress edge.
    pub near: Option<At<String>>,
    /// Name of the node that is the flow's egress edge.
    pub far: Option<At<String>>,
    /// Rates, delays and precedence that the table sets. They replace those of the class.
    pub figures: Overrides,
    /// Byte ranges of the keys in the file.
    pub(super) spans: KeySpans,
}

impl RuleSetting {
    /// Returns the rule in the form of the flow-state router. `vpn_number` turns the name of a VPN into its number.
    pub fn flow_rule(&self, vpn_number: impl Fn(&str) -> VpnId) -> FlowRule {
        let prefix = |at: &At<Prefix>| FlowPrefix { address: at.value.address, length: at.value.length };
        let text = |at: &Option<At<String>>| at.as_ref().map(|at| at.value.clone());
        FlowRule {
            name: self.name.value.clone(),
            matches: RuleMatch {
                from: self.from.as_ref().map(prefix),
                to: self.to.as_ref().map(prefix),
                from_ports: self.from_ports.clone(),
                to_ports: self.ports.clone(),
                protocol: self.protocol,
                dscp: self.dscp,
                vpn: self.vpn.as_ref().map(|at| vpn_number(&at.value)),
                user: text(&self.user),
                near: text(&self.near),
                far: text(&self.far),
            },
            class: self.class.clone(),
            overrides: self.figures,
        }
    }
}

/// Parses a `[[rule]]` table.
pub fn read(mut section: Section<'_, '_>, report: &Report) -> Option<RuleSetting> {
    let name = section.parsed("name", "\"calls\"", peer_name);
    if !section.has("name") {
        section.missing("name", "a name for tables and logs");
    }
    let class = section.text("class").map_or(DEFAULT_CLASS, |at| at.value).to_owned();
    let from = section.parsed("from", "\"10.9.1.0/24\"", prefix::parse);
    let to = section.parsed("to", "\"10.9.2.0/24\"", prefix::parse);
    let from_ports = section.parsed("from-ports", "\"5060\"", ports).map(|at| at.value);
    let to_ports = section.parsed("ports", "\"443\" or \"5000-5010\"", ports).map(|at| at.value);
    let protocol = protocol_in(&mut section, report);
    let dscp = section.value("dscp").and_then(|value| dscp::read_code_point(value, report));
    let vpn = section.parsed("vpn", "\"blue\"", peer_name);
    let user = section.parsed("user", "\"10.9.1.7\"", peer_name);
    let near = section.parsed("near", "\"home\"", peer_name);
    let far = section.parsed("far", "\"hub\"", peer_name);
    let mut spans = KeySpans::default();
    let figures = figures::read(&mut section, &mut spans);
    let available = section.parsed("available", "\"50 Mbit/s\"", parse_rate).map(|at| at.value);
    spans.keep(&mut section, &["name", "class", "from", "to", "from-ports", "ports", "protocol", "dscp"]);
    section.finish();
    let figures = Overrides { available, ..figures };
    Some(RuleSetting {
        name: name?,
        class,
        from,
        to,
        from_ports,
        ports: to_ports,
        protocol,
        dscp,
        vpn,
        user,
        near,
        far,
        figures,
        spans,
    })
}

/// Parses the name or the number of a protocol at `protocol`.
pub fn protocol_in(section: &mut Section<'_, '_>, report: &Report) -> Option<u8> {
    let value = section.value("protocol")?;
    let Some(text) = value.get_ref().as_str() else {
        return section.integer("protocol", 0..256).map(|at| at.value as u8);
    };
    let found = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    if found.is_none() {
        let names = PROTOCOLS.iter().map(|(name, _)| *name);
        let list = names.clone().collect::<Vec<_>>().join(", ");
        let message = format!("`protocol` cannot be `{text}`: write one of {list}, or a number from 0 to 255");
        report.error(value.span(), message, did_you_mean(text, names));
    }
    found
}
