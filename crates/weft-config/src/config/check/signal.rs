//! Checks of `[signal]`: contradictions between its rules, rates beyond the capacity, and the key file.

use super::bits_behind_length;
use crate::config::diagnose::Report;
use crate::config::read::At;
use crate::config::{Config, Signal, SignalledFlows, prefix};
use crate::keys;
use weft_engine::Prefix;
use weft_units::Rate;

/// The capacity in the configuration up to which signalling can grant rates.
#[derive(Clone, Copy)]
pub(in crate::config) enum Carried {
    /// Sum of the capacities of a node's links.
    Links(Rate),
    /// Capacity of a host's interface, in the direction with the lower rate.
    Interface(Rate),
}

impl Carried {
    fn rate(self) -> Rate {
        match self {
            Carried::Links(rate) | Carried::Interface(rate) => rate,
        }
    }

    /// Returns parts of messages: the carrier, the capacity's owner, and the setting's name.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Carried::Links(_) => ("the links together", "the links' total rate of", "max-rate-up"),
            Carried::Interface(_) => ("the interface", "the interface's rate of", "rate"),
        }
    }
}

/// Reports all contradictions in `[signal]` of `config`, and reads the key file that `[signal]` names.
pub fn check(config: &mut Config, report: &Report) {
    let most = carried(config).map(Carried::Links);
    if let Some(signal) = &mut config.signal {
        check_signal(signal, most, report);
    }
}

/// Reports the contradictions in `[signal]`, and reads its key file.
///
/// `most` is the capacity up to which rates can be granted, if it is known.
pub(in crate::config) fn check_signal(signal: &mut Signal, most: Option<Carried>, report: &Report) {
    key(signal, report);
    for (at, rule) in signal.rules.iter().enumerate() {
        let (from, to) = (&rule.from, &rule.to);
        from.iter().chain(to).for_each(|prefix| bits_behind_length(prefix, report));
        if let Some(most) = most {
            rates(signal, rule, most, report);
        }
        overlaps(&signal.rules, at, report);
    }
}

fn key(signal: &mut Signal, report: &Report) {
    let Some(At { value: path, span }) = &signal.key else {
        let help = "make a key with: weft keygen --out signal.key, and copy it to every node that signals";
        let message = "without `key`, any host that can send packets here can request and grant rates";
        report.warning(signal.reservable.span.clone(), message, Some(help.to_owned()));
        return;
    };
    match keys::load_signal_key(path) {
        Ok(secret) => signal.secret = Some(secret),
        Err(why) => report.error(span.clone(), why.to_string(), None),
    }
}

/// Returns the sum of the configured rates of the links, or `None` if a link has none.
pub(in crate::config) fn carried(config: &Config) -> Option<Rate> {
    let links = config.link.iter().filter(|link| link.up && config.links.allows(&link.name.value));
    let is_known = |name: &str| config.link.iter().any(|link| link.name.value == name);
    if config.links.only.is_empty() || !config.links.only.iter().all(|only| is_known(&only.value)) {
        return None;
    }
    let rates: Option<Vec<u64>> = links.map(|link| link.max_rate_up.map(Rate::bps)).collect();
    rates.map(|rates| Rate::from_bps(rates.iter().fold(0, |sum: u64, bps| sum.saturating_add(*bps))))
}

fn rates(signal: &Signal, rule: &SignalledFlows, carried: Carried, report: &Report) {
    let (name, most, (who, whose, setting)) = (&rule.name.value, carried.rate(), carried.words());
    let reservable = most.scaled(signal.reservable.value);
    if let Some(At { value, span }) = rule.guaranteed.as_ref().filter(|at| at.value > reservable) {
        let message = format!(
            "[[signal.rule]] `{name}` guarantees {value}, but `reservable` lets only {reservable} of {whose} {most} be \
             guaranteed"
        );
        report.error(span.clone(), message, Some(format!("lower `guaranteed`, or raise `reservable` or `{setting}`")));
    }
    if let Some(At { value, span }) = rule.available.as_ref().filter(|at| at.value > most) {
        let message =
            format!("[[signal.rule]] `{name}` requests the rate {value}, but `{setting}` lets {who} carry only {most}");
        report.error(span.clone(), message, Some("request less, or leave `available` out".to_owned()));
    }
}

/// Reports the rule at index `at` of `rules` if an earlier rule matches some of its flows.
///
/// The first rule that matches a flow applies to it. It is an error if earlier rules match all flows of the rule, and a
/// warning if they match some.
fn overlaps(rules: &[SignalledFlows], at: usize, report: &Report) {
    let Some((rule, earlier)) = rules.get(at).zip(rules.get(..at)) else { return };
    let name = &rule.name;
    if earlier.iter().any(|other| other.name.value == name.value) {
        let help = "give each a name of its own".to_owned();
        let message = format!("two [[signal.rule]] tables have the name `{}`", name.value);
        report.error(name.span.clone(), message, Some(help));
    }
    if let Some(other) = earlier.iter().find(|other| covers(other, rule)) {
        let message = format!(
            "[[signal.rule]] `{}` never applies: each of its flows already matches the earlier rule `{}`",
            name.value, other.name.value
        );
        let help = "put the later rule before the earlier one, or remove it".to_owned();
        report.error(name.span.clone(), message, Some(help));
    } else if let Some(other) = earlier.iter().find(|other| meet(other, rule)) {
        let message = format!(
            "[[signal.rule]] `{}` and `{}` overlap: the first applies to flows that match both",
            other.name.value, name.value
        );
        report.warning(name.span.clone(), message, None);
    }
}

fn covers(a: &SignalledFlows, b: &SignalledFlows) -> bool {
    let lies_in = |b: &Option<At<Prefix>>, a: &Option<At<Prefix>>| match (a, b) {
        (None, _) => true,
        (Some(a), Some(b)) => a.value.length <= b.value.length && a.value.contains(b.value.address),
        (Some(_), None) => false,
    };
    a.protocol == b.protocol
        && a.ports.contains(b.ports.start())
        && a.ports.contains(b.ports.end())
        && a.dscp.is_none_or(|dscp| b.dscp == Some(dscp))
        && lies_in(&b.from, &a.from)
        && lies_in(&b.to, &a.to)
}

fn meet(a: &SignalledFlows, b: &SignalledFlows) -> bool {
    let share = |a: &Option<At<Prefix>>, b: &Option<At<Prefix>>| match (a, b) {
        (Some(a), Some(b)) => {
            let (a, b) = (prefix::trimmed(a.value), prefix::trimmed(b.value));
            a.contains(b.address) || b.contains(a.address)
        }
        _ => true,
    };
    a.protocol == b.protocol
        && a.ports.start() <= b.ports.end()
        && b.ports.start() <= a.ports.end()
        && (a.dscp.is_none() || b.dscp.is_none() || a.dscp == b.dscp)
        && share(&a.from, &b.from)
        && share(&a.to, &b.to)
}
