//! Makes the engines' settings of a variant, for virtual time.
//!
//! The scenario's VPNs and shares are parsed already. The `weft` table of a variant has the syntax of the daemon's
//! configuration, so the daemon's parser reads it. It reads the scenario's text, so it reports a mistake with its line.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};
use weft_config::config::{At, Config, LoopLaw, Mtu, Report, Severity, Vpn, ingress_entry, parse_table};
use weft_core::queue::QueueKind;
use weft_core::service::{DEFAULT_GAMMA, Service};
use weft_engine::Entry;
use weft_scenario::{ControlLaw, PairVpn, Scenario, Variant, VpnEntry, VpnQueue, VpnService};
use weft_world::pair::{EngineSettings, VpnSettings};

/// Returns the settings of the engines in one variant of a scenario.
///
/// `text` is the text of the scenario, and `file` names it in messages.
pub(super) fn settings(
    scenario: &Scenario,
    variant: &Variant,
    file: &str,
    text: &str,
) -> Result<EngineSettings, String> {
    let name = &variant.name;
    if variant.weft.contains_key("links") {
        return Err(format!(
            "{file}: the `weft` table of variant `{name}` has `links`: remove it, and list the links in `links` of the \
             variant itself\n"
        ));
    }
    let report = Report::new(file, text);
    let root = DeTable::parse(text).map_err(|why| format!("{file}: {}\n", why.message()))?;
    let own = own_table(root.get_ref(), name);
    let sets_leasable = own.get("policy").is_some_and(|policy| policy.get_ref().get("leasable").is_some());
    let config = parse_table(&report, &startable(own), Path::new("."));
    let Some(mut config) = config.filter(|_| report.count(Severity::Error) == 0) else {
        return Err(format!(
            "{file}: the `weft` table of variant `{name}` has settings that weft refuses: correct these:\n{report}"
        ));
    };
    if !sets_leasable {
        config.policy.leasable = scenario.leasable;
    }
    config.vpns = (1..).zip(&scenario.vpns).map(|(id, vpn)| vpn_of(id, vpn, &variant.vpn)).collect();
    Ok(engine_settings(&config))
}

/// Returns the `weft` table of a variant, or an empty one.
fn own_table<'i>(root: &DeTable<'i>, variant: &str) -> DeTable<'i> {
    let variants = root.get("variant").and_then(|variants| variants.get_ref().as_array());
    let is_it = |table: &&Spanned<DeValue<'i>>| {
        table.get_ref().get("name").and_then(|name| name.get_ref().as_str()) == Some(variant)
    };
    let own = variants.and_then(|variants| variants.iter().find(is_it)?.get_ref().get("weft"));
    own.and_then(|own| own.get_ref().as_table()).cloned().unwrap_or_default()
}

/// Returns the table with the settings `node.key` and `tun.address`, without which no daemon starts.
fn startable(mut table: DeTable<'_>) -> DeTable<'_> {
    let key = DeValue::String(Cow::from("weft.key"));
    let mut addresses = DeArray::new();
    addresses.push(unplaced(DeValue::String(Cow::from("10.99.0.1/24"))));
    for (section, name, value) in [("node", "key", key), ("tun", "address", DeValue::Array(addresses))] {
        let mut inner = table.get(section).and_then(|own| own.get_ref().as_table()).cloned().unwrap_or_default();
        if !inner.contains_key(name) {
            inner.insert(unplaced(Cow::from(name)), unplaced(value));
        }
        table.insert(unplaced(Cow::from(section)), unplaced(DeValue::Table(inner)));
    }
    table
}

/// Wraps a value that is not from the file and therefore has no position in it.
fn unplaced<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// Returns a VPN as the daemon's configuration describes it.
///
/// The settings in `over` replace those of the VPN's own queue and loop.
fn vpn_of(id: u32, vpn: &PairVpn, over: &VpnEntry) -> Vpn {
    const NOWHERE: Range<usize> = 0..0;
    let promise = match vpn.share.service {
        VpnService::BestEffort => None,
        VpnService::Assured(rate) => Some(Service::Assured { rate, gamma: DEFAULT_GAMMA }),
        VpnService::Leased(rate) => Some(Service::LeasedLine { rate }),
    };
    Vpn {
        id: At { value: id, span: NOWHERE },
        name: At { value: vpn.name.clone(), span: NOWHERE },
        weight: vpn.share.weight,
        promise: promise.map(|value| At { value, span: NOWHERE }),
        entry: entry_of(over.over(vpn.entry)),
        device: At { value: format!("weft{id}"), span: NOWHERE },
        addresses: Vec::new(),
        prefixes: Vec::new(),
        members: Vec::new(),
        routes: true,
        table: None,
    }
}

fn entry_of(entry: VpnEntry) -> Entry {
    let law = match entry.law {
        None | Some(ControlLaw::None) => LoopLaw::None,
        Some(ControlLaw::AimdWindow) => LoopLaw::AimdWindow,
        Some(ControlLaw::Accumulation) => LoopLaw::Accumulation,
        Some(ControlLaw::ExplicitRate) => LoopLaw::ExplicitRate,
    };
    let queue = entry.queue.map(|queue| match queue {
        VpnQueue::Fifo => QueueKind::DropTail,
        VpnQueue::Red => QueueKind::Red,
        VpnQueue::Fred => QueueKind::Fred,
        VpnQueue::CoDel => QueueKind::Codel,
        VpnQueue::FqCoDel => QueueKind::FqCodel,
    });
    let packets = entry.queue_packets.map(|packets| usize::try_from(packets).unwrap_or(usize::MAX));
    ingress_entry(queue, law, packets, entry.queue_bytes)
}

fn engine_settings(config: &Config) -> EngineSettings {
    let inner_mtu = match config.tun.mtu {
        Mtu::Auto => None,
        Mtu::Fixed(bytes) => Some(bytes),
    };
    let vpn = |vpn: &Vpn| VpnSettings {
        name: vpn.name.value.clone(),
        weight: vpn.weight,
        service: vpn.service(),
        entry: vpn.entry.clone(),
    };
    EngineSettings {
        policy: config.policy.clone(),
        cipher: config.node.cipher,
        inner_mtu,
        links: config.engine_links(),
        vpns: config.vpns.iter().map(vpn).collect(),
        flows: config.engine_flows(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::control_loop::LoopConfig;
    use weft_engine::{Recovery, Schedule, Weights};
    use weft_units::Rate;

    const SCENARIO: &str = "name = \"t\"\nduration = \"1 s\"\n[[link]]\nname = \"a\"\nrate = \"10 Mbit/s\"\n";

    /// Returns the settings of the variant `v` in [`SCENARIO`].
    ///
    /// `more` is inserted before the scenario's links, and `own` into the variant.
    fn settings_of(more: &str, own: &str) -> Result<EngineSettings, String> {
        let text = SCENARIO.replace("[[link]]", &format!("{more}[[link]]"));
        let text = format!("{text}[[variant]]\nname = \"v\"\n{own}");
        let scenario = Scenario::parse(&text, "t.toml").unwrap();
        settings(&scenario, &scenario.variants[0], "t.toml", &text)
    }

    #[test]
    fn vpns_have_the_settings_of_the_daemon() {
        let vpns = "policy.leasable = \"4 Mbit/s\"\n[[vpn]]\nname = \"blue\"\nweight = 3\nloop = \"accumulation\"\nqueue = \"codel\"\n\
            [[vpn]]\nname = \"line\"\nleased = \"3.5 Mbit/s\"\nqueue-packets = 64\n";
        let own = settings_of(vpns, "").unwrap();
        assert_eq!(own.policy.leasable, Some(Rate::from_mbps(4)));
        let [blue, line] = &own.vpns[..] else { panic!("{own:?}") };
        assert_eq!((blue.weight, blue.entry.queue, blue.entry.limit_packets), (3, QueueKind::Codel, 1_000));
        assert!(matches!(blue.entry.control, Some(LoopConfig::Accumulation(_))));
        assert_eq!(line.service, Service::LeasedLine { rate: Rate::from_bps(3_500_000) });
        assert_eq!((line.entry.limit_packets, &line.entry.control), (64, &None));
        let without = settings_of(vpns, "vpn = { loop = \"none\" }").unwrap();
        assert!(without.vpns.iter().all(|vpn| vpn.entry.control.is_none()));
        let less = settings_of(vpns, "weft = { policy = { leasable = \"5 Mbit/s\" } }").unwrap();
        assert_eq!(less.policy.leasable, Some(Rate::from_mbps(5)));
    }

    #[test]
    fn a_variant_sets_what_the_daemon_would() {
        assert_eq!(settings_of("", "").unwrap(), EngineSettings::default());
        let policy = "{ schedule = \"weighted-round-robin\", recovery = \"off\", weights = { a = 2 } }";
        let own = settings_of("", &format!("weft = {{ policy = {policy}, tun = {{ mtu = 1300 }} }}")).unwrap();
        assert_eq!((own.policy.schedule, own.policy.recovery), (Schedule::WeightedRoundRobin, Recovery::Off));
        assert_eq!(own.policy.weights, Weights::Static(vec![("a".into(), 2)]));
        assert_eq!(own.inner_mtu, Some(1300));
    }

    #[test]
    fn a_wrong_key_is_reported_at_its_place_in_the_scenario() {
        let error = settings_of("", "[variant.weft.policy]\nrecovry = \"off\"").unwrap_err();
        assert!(error.contains("the `weft` table of variant `v`"), "{error}");
        assert!(error.contains("t.toml:9:1"), "{error}");
        assert!(error.contains("unknown key `recovry` in [policy]") && error.contains("did you mean"), "{error}");
        assert!(settings_of("", "weft = { links = { use = [\"a\"] } }").unwrap_err().contains("`links`"));
    }
}
