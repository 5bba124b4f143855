//! Parsing of `[signal]` and its `[[signal.rule]]` tables: in-band QoS signalling.

use super::diagnose::Report;
use super::parse::peer_name;
use super::read::{At, Section, names};
use super::{dscp, prefix};
use std::convert::Infallible;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use weft_engine::{Prefix, RateController, SignalConfig, SignalKey, SignalRule};
use weft_units::{Rate, parse_rate};

names!(RateController { Pi = "pi", Erica = "erica" });

/// Value of the key `protocol` of a `[[signal.rule]]` table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Protocol {
    Tcp,
    Udp,
}

names!(Protocol { Tcp = "tcp", Udp = "udp" });

impl Protocol {
    /// Returns the protocol number (IANA).
    fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        }
    }
}

/// `[signal]`: settings of in-band QoS signalling.
#[derive(Clone, Debug)]
pub struct Signal {
    /// File of the signalling domain's key; absent: the authentication tags of signals are not checked.
    pub key: Option<At<PathBuf>>,
    /// The key, once its file has been read.
    pub secret: Option<SignalKey>,
    /// Algorithm that computes the rate granted to each flow.
    pub controller: RateController,
    /// Fraction of the paths' capacity that may be guaranteed to flows, 0 to 1.
    pub reservable: At<f64>,
    /// True if this node answers signals in place of the hosts behind it.
    pub answers: bool,
    /// True if this node grants Quick-Start requests (RFC 4782).
    pub quick_start: bool,
    /// True if routers on the route that do not process signals are known to have enough capacity.
    pub plain_routers: bool,
    /// Flows for which this node requests rates.
    pub rules: Vec<SignalledFlows>,
}

/// `[[signal.rule]]`: flows for which this node requests rates. A missing key matches every flow.
#[derive(Clone, Debug)]
pub struct SignalledFlows {
    /// Name of the rule, for readers of output.
    pub name: At<String>,
    /// Prefix of the flows' source.
    pub from: Option<At<Prefix>>,
    /// Prefix of the flows' destination.
    pub to: Option<At<Prefix>>,
    /// Protocol number of TCP or UDP.
    pub protocol: u8,
    /// Destination ports.
    pub ports: RangeInclusive<u16>,
    /// DSCP code point of the flows.
    pub dscp: Option<u8>,
    /// Maximum rate to request in addition to the guaranteed rate.
    pub available: Option<At<Rate>>,
    /// Rate that the node requests as guaranteed.
    pub guaranteed: Option<At<Rate>>,
    /// True if the node requests the reverse direction as well.
    pub reverse: bool,
    /// Pre-emption priority, 0 to 15: if capacity falls short, flows with a higher priority keep their rate.
    pub priority: u8,
}

impl Signal {
    /// Returns the engine's settings. `own_addresses` are this node's addresses.
    pub fn engine(&self, own_addresses: Vec<IpAddr>) -> SignalConfig {
        SignalConfig {
            key: self.secret.clone(),
            controller: self.controller,
            reservable: self.reservable.value,
            answers: self.answers,
            quick_start: self.quick_start,
            plain_routers: self.plain_routers,
            own_addresses,
            rules: self.rules.iter().map(SignalledFlows::engine).collect(),
        }
    }
}

impl SignalledFlows {
    fn engine(&self) -> SignalRule {
        SignalRule {
            name: self.name.value.clone(),
            from: self.from.as_ref().map(|at| at.value),
            to: self.to.as_ref().map(|at| at.value),
            protocol: self.protocol,
            ports: self.ports.clone(),
            dscp: self.dscp,
            available: self.available.as_ref().map(|at| at.value),
            guaranteed: self.guaranteed.as_ref().map_or(Rate::ZERO, |at| at.value),
            reverse: self.reverse,
            preemption: self.priority,
        }
    }
}

/// Parses `[signal]`. A relative path of the key is relative to `directory`.
pub fn read(mut section: Section<'_, '_>, directory: &Path, report: &Report) -> Signal {
    let key = section.parsed("key", "\"signal.key\"", |text| Ok::<_, Infallible>(directory.join(text)));
    let controller = section.choice("controller").unwrap_or(RateController::Pi);
    let reservable = section.parsed("reservable", "\"50 %\"", percent);
    let answers = section.flag("answers").unwrap_or(true);
    let quick_start = section.flag("quick-start").unwrap_or(true);
    let plain_routers = section.flag("plain-routers").unwrap_or(false);
    let rules = section.sections("rule", "[[signal.rule]]").into_iter();
    let rules = rules.filter_map(|section| rule(section, report)).collect();
    let reservable = reservable.unwrap_or(At { value: 0.5, span: section.span() });
    section.finish();
    Signal { key, secret: None, controller, reservable, answers, quick_start, plain_routers, rules }
}

fn rule(mut section: Section<'_, '_>, report: &Report) -> Option<SignalledFlows> {
    let name = section.parsed("name", "\"backup\"", peer_name);
    if !section.has("name") {
        section.missing("name", "a name for status and logs");
    }
    let from = section.parsed("from", "\"10.9.1.0/24\"", prefix::parse);
    let to = section.parsed("to", "\"10.9.2.0/24\"", prefix::parse);
    let protocol = section.choice("protocol").unwrap_or(Protocol::Tcp).number();
    let ports = section.parsed("ports", "\"443\" or \"5000-5010\"", ports).map_or(0..=u16::MAX, |at| at.value);
    let dscp = section.value("dscp").and_then(|value| dscp::read_code_point(value, report));
    let available = section.parsed("available", "\"50 Mbit/s\"", parse_rate);
    let guaranteed = section.parsed("guaranteed", "\"2 Mbit/s\"", parse_rate);
    let reverse = section.flag("reverse").unwrap_or(true);
    let priority = section.integer("priority", 0..16).map_or(0, |at| at.value as u8);
    section.finish();
    Some(SignalledFlows { name: name?, from, to, protocol, ports, dscp, available, guaranteed, reverse, priority })
}

/// Parses a percentage such as `50 %` into a fraction from 0 to 1.
pub(super) fn percent(text: &str) -> Result<f64, &'static str> {
    let number = text.trim().strip_suffix('%').ok_or("write a share in %")?;
    let percent: f64 = number.trim().parse().map_err(|_| "expected a number before the %")?;
    match percent {
        0.0..=100.0 => Ok(percent / 100.0),
        _ => Err("a share is from 0 % to 100 %"),
    }
}

/// Parses one port, or a range such as `5201-5210`.
pub(super) fn ports(text: &str) -> Result<RangeInclusive<u16>, &'static str> {
    let port = |text: &str| text.trim().parse::<u16>().map_err(|_| "ports are numbers up to 65535");
    let (first, last) = text.split_once('-').map_or_else(|| (port(text), port(text)), |(a, b)| (port(a), port(b)));
    let (first, last) = (first?, last?);
    if first > last {
        Err("the first port of the range is above the last: write the lower port first")
    } else {
        Ok(first..=last)
    }
}
