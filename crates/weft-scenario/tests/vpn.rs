//! Tests that the parser accepts correct VPNs in networks and rejects wrong ones with a helpful error.

use std::time::Duration;
use weft_scenario::{
    Action, ControlLaw, Discipline, Markers, NetworkScenario, QueueSize, TimedEvent, VpnService, WeightBy,
};
use weft_units::{Rate, Rng};

const GOOD: &str = r#"name = "two-sites"
duration = "60 s"

[ingress]
loop = "accumulation"
queue = "128 packets"
tau = "40 ms"

[[node]]
name = "s"
count = 3

[[node]]
name = "d"
count = 3

[[node]]
name = "west"

[[node]]
name = "east"

[[link]]
between = ["s*", "west"]
rate = "1 Gbit/s"

[[link]]
name = "core"
between = ["west", "east"]
rate = "100 Mbit/s"

[[link]]
between = ["east", "d*"]
rate = "1 Gbit/s"

[[edge]]
node = "west"

[[edge]]
node = "east"
leasable = "60 Mbit/s"

[[vpn]]
name = "blue"
weight = 2
hosts = ["s0", "d0"]

[[vpn]]
name = "red"
hosts = ["s1", "d1"]
assured = "4 Mbit/s"
ingress = { loop = "aimd-window", queue = { kind = "codel", limit = "64 kB" }, weight-by = "decrease" }

[[vpn]]
name = "line"
hosts = ["s2", "d2"]
leased = "50 Mbit/s"

[[flow]]
app = "ftp"
from = "s*"
to = "d*"

[[variant]]
name = "loops"

[[variant]]
name = "without"
ingress = { loop = "none", markers = "packets" }
"#;

/// Replaces `from` by `to` in the correct network and checks the error.
///
/// It must point to the first `culprit` in the text, and its message must contain `expected`.
fn refused_at(from: &str, to: &str, culprit: &str, expected: &str) {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    let error = NetworkScenario::parse(&text, "f").err().unwrap_or_else(|| panic!("accepted: {to}"));
    assert!(error.message.contains(expected), "{to}: {error}");
    let before = &text[..text.find(culprit).unwrap_or_else(|| panic!("{culprit}"))];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let place = (before.matches('\n').count() + 1, before.len() - line_start + 1);
    assert_eq!((error.line, error.column), place, "{to}: {error}");
}

#[test]
fn edges_and_vpns_are_read_whole() {
    let network = NetworkScenario::parse(GOOD, "f").unwrap_or_else(|e| panic!("{e}"));
    let leasable: Vec<_> = network.edges.iter().map(|edge| (edge.node, edge.leasable)).collect();
    assert_eq!(leasable, [(6, Some(Rate::from_mbps(90))), (7, Some(Rate::from_mbps(60)))]);
    let [blue, red, line] = &network.vpns[..] else { panic!("{:?}", network.vpns) };
    assert_eq!((blue.weight, &blue.hosts[..], blue.service), (2.0, &[0, 3][..], VpnService::BestEffort));
    assert_eq!((blue.ingress.law, blue.ingress.tau), (ControlLaw::Accumulation, Some(Duration::from_millis(40))));
    assert_eq!((red.weight, red.service), (1.0, VpnService::Assured(Rate::from_mbps(4))));
    assert_eq!((red.ingress.law, red.ingress.weight_by), (ControlLaw::AimdWindow, WeightBy::Decrease));
    assert_eq!(red.ingress.queue, QueueSize::Bytes(64_000));
    assert!(matches!(red.ingress.discipline, Discipline::CoDel { .. }));
    assert_eq!(line.service, VpnService::Leased(Rate::from_mbps(50)));
    let [loops, without] = &network.variants[..] else { panic!("{:?}", network.variants) };
    assert_eq!(loops.ingress_of(red), red.ingress);
    let changed = without.ingress_of(red);
    assert_eq!((changed.law, changed.markers, changed.queue), (ControlLaw::None, Markers::Packets, red.ingress.queue));
    assert_eq!([0, 3, 6].map(|node| network.edge_of(node)), [Some(0), Some(1), None]);
}

#[test]
fn impossible_values_are_refused_at_their_place() {
    let cases = [
        ("weight = 2", "weight = 0", "0\nhosts", "above 0, not 0"),
        ("weight = 2", "weight = -1.5", "-1.5", "above 0"),
        ("weight = 2", "weight = nan", "nan", "above 0"),
        ("weight = 2", "weigth = 2", "weigth", "did you mean `weight`?"),
        ("node = \"east\"\nleas", "node = \"eats\"\nleas", "\"eats\"", "did you mean `east`?"),
        (
            "node = \"east\"\nleas",
            "node = \"west\" # twice\nleas",
            "\"west\" # twice",
            "two [[edge]] tables contain node `west`",
        ),
        ("[\"s1\", \"d1\"]", "[\"s1\", \"d0\"] # here", "\"d0\"] # here", "`d0` is already in VPN `blue`"),
        ("[\"s1\", \"d1\"]", "[\"s1\", \"d9\"]", "\"d9\"", "there is no node `d9`"),
        ("[\"s1\", \"d1\"]", "[\"s1\", \"east\"] # here", "\"east\"] # here", "not behind an edge"),
        ("[\"s1\", \"d1\"]", "[\"s1\"] # alone", "[\"s1\"] # alone", "hosts behind two edges"),
        ("name = \"red\"", "name = \"blue\" # twice", "\"blue\" # twice", "two VPNs have the name `blue`"),
        ("name = \"red\"", "name = \"r ed\"", "\"r ed\"", "the name of a VPN"),
        (
            "leased = \"50 Mbit/s\"",
            "leased = \"61 Mbit/s\"",
            "\"61 Mbit/s\"",
            "at edge `east` are 61.0 Mbit/s, but only 60.0 Mbit/s",
        ),
        ("leased = \"50 Mbit/s\"", "leased = \"0 Mbit/s\"", "\"0 Mbit/s\"", "greater than zero"),
        ("assured = \"4 Mbit/s\"", "assured = \"4 Mbit/s\"\nleased = \"9 Mbit/s\"", "\"9 Mbit/s\"", "not both"),
        ("loop = \"accumulation\"", "loop = \"accumulate\"", "\"accumulate\"", "did you mean `accumulation`?"),
        ("queue = \"128 packets\"", "queue = \"2 BDP\"", "\"2 BDP\"", "in packets or bytes"),
        ("tau = \"40 ms\"", "tau = \"0 ms\"", "\"0 ms\"", "must be greater than zero"),
        ("tau = \"40 ms\"", "beta = 1.0", "1.0", "below 1"),
        ("tau = \"40 ms\"", "decrease = -0.1", "-0.1", "above 0"),
        ("tau = \"40 ms\"", "high = 1.0\nlow = 1.5", "1.5", "`low`"),
        ("tau = \"40 ms\"", "marker-every = 0", "0\n", "nonzero"),
        ("from = \"s*\"\nto = \"d*\"", "from = \"s0\"\nto = \"d1\" # astray", "\"d1\" # astray", "VPNs are separate"),
    ];
    for (from, to, culprit, expected) in cases {
        refused_at(from, to, culprit, expected);
    }
}

#[test]
fn events_change_shares_within_the_leasable_rate() {
    let events = "[[event]]\nat = \"10 s\"\nvpn = \"red\"\nleased = \"9 Mbit/s\"\nfor = \"5 s\"\n\
                  [[event]]\nat = \"20 s\"\nvpn = \"line\"\nleased = \"55 Mbit/s\"\nweight = 3\n";
    let mut network = NetworkScenario::parse(&format!("{GOOD}{events}"), "f").unwrap_or_else(|e| panic!("{e}"));
    let changes = |network: &NetworkScenario| -> Vec<_> {
        let change = |event: &TimedEvent| match &event.action {
            Action::Share(change) => (change.vpn, change.weight, change.service),
            other => panic!("{other:?}"),
        };
        network.events.iter().map(change).collect()
    };
    let leased = |mbps| Some(VpnService::Leased(Rate::from_mbps(mbps)));
    assert_eq!(changes(&network), [(1, None, leased(9)), (2, Some(3), leased(55))]);
    network.remove_nodes("d1");
    assert_eq!(changes(&network), [(1, Some(3), leased(55))], "the events of a VPN go with it");
    // At east 60 Mbit/s may be leased, of which `line` has 50 Mbit/s.
    for (from, to) in [("\"9 Mbit/s\"", "\"11 Mbit/s\""), ("\"5 s\"", "\"15 s\"")] {
        let text = format!("{GOOD}{}", events.replacen(from, to, 1));
        let error = NetworkScenario::parse(&text, "f").unwrap_err();
        assert!(error.message.contains("but only 60.0 Mbit/s may be leased"), "{to}: {error}");
    }
    let error = NetworkScenario::parse(&format!("{GOOD}{}", events.replace("\"red\"", "\"rde\"")), "f").unwrap_err();
    assert!(error.message.contains("there is no VPN `rde`: did you mean `red`?"), "{error}");
}

#[test]
fn vpns_go_with_their_hosts() {
    let mut network = NetworkScenario::parse(GOOD, "f").unwrap_or_else(|e| panic!("{e}"));
    network.remove_nodes("s0");
    let left: Vec<_> = network.vpns.iter().map(|vpn| (vpn.name.as_str(), vpn.hosts.clone())).collect();
    assert_eq!(left, [("red", vec![0, 3]), ("line", vec![1, 4])]);
    assert_eq!(network.edges.iter().map(|edge| edge.node).collect::<Vec<_>>(), [5, 6]);
    network.vpns_mut("l*").for_each(|vpn| vpn.weight = 3.0);
    assert_eq!(network.vpns.iter().map(|vpn| vpn.weight).collect::<Vec<_>>(), [1.0, 3.0]);
}

#[test]
fn low_is_below_high_in_every_variant_whichever_tables_set_them() {
    let (mut rng, mut refused) = (Rng::new(3), 0);
    for _ in 0..300 {
        // Each of the three tables sets `low`, `high`, both or neither.
        let tables: [[Option<f64>; 2]; 3] =
            std::array::from_fn(|_| std::array::from_fn(|_| rng.chance(0.4).then(|| (1 + rng.below(8)) as f64 / 2.0)));
        let keys = |table: usize, separator: &str| {
            let key = |name: &str, value: Option<f64>| value.map(|value| format!("{name} = {value:?}{separator}"));
            [key("low", tables[table][0]), key("high", tables[table][1])].into_iter().flatten().collect::<String>()
        };
        let text = GOOD
            .replacen("tau = \"40 ms\"\n", &format!("tau = \"40 ms\"\n{}", keys(0, "\n")), 1)
            .replacen("weight = 2\n", &format!("weight = 2\ningress = {{ {} tau = \"40 ms\" }}\n", keys(1, ", ")), 1)
            .replacen("{ loop = \"none\"", &format!("{{ {} loop = \"none\"", keys(2, ", ")), 1);
        let last = |of: &[usize], key: usize| of.iter().rev().find_map(|table| tables[*table][key]);
        // The VPNs and variants of the text apply these tables.
        let applied: [&[usize]; 4] = [&[0], &[0, 1], &[0, 2], &[0, 1, 2]];
        let is_sound = |of: &&[usize]| last(of, 0).unwrap_or(1.5) < last(of, 1).unwrap_or(2.0);
        let each_table = tables.iter().all(|[low, high]| low.is_none() || high.is_none() || low < high);
        match NetworkScenario::parse(&text, "f") {
            Ok(_) => assert!(each_table && applied.iter().all(is_sound), "accepted: {text}"),
            Err(error) => {
                refused += 1;
                assert!(!each_table || !applied.iter().all(is_sound), "refused with {error}: {text}");
                assert!(error.message.contains("`low`"), "{error}");
            }
        }
    }
    assert!((30..270).contains(&refused), "{refused} of 300 refused");
}
