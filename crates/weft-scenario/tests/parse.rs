//! Tests that the parser accepts correct scenario files and rejects wrong ones with a helpful error.

use proptest::prelude::*;
use std::time::Duration;
use weft_scenario::channel::{Aqm, BurstLoss, Jitter, JitterKind, LongLoss, ReorderSpec};
use weft_scenario::{
    Action, Capacity, Directions, Discipline, EventTarget, QueueSize, Scenario, ScenarioError, VariantKind, VpnService,
};
use weft_units::Rate;

const GOOD: &str = r#"name = "two"
duration = "60 s"
warmup = "15 s"
repeats = 3
variants = ["each-link", "weft"]

[[link]]
name = "fibre"
rate = "50 Mbit/s"
delay = "8 ms"
queue = "1.5 BDP"

[[link]]
name = "lte"
rate = "30 Mbit/s"
delay = "35 ms"
loss = "0.3 %"
up = { rate = "10 Mbit/s", queue = "100 packets" }
down = { trace = "cell" }

[[flow]]
name = "bulk"
app = "iperf3"

[[flow]]
name = "gaps"
app = "probe"

[[event]]
at = "20 s"
link = { carrying = "gaps" }
cut = "up"
for = "2 s"
every = "5 s"
repeat = 3

[[variant]]
name = "wrr"
weft = { policy = { schedule = "weighted-round-robin", weights = { fibre = 5, lte = 3 } } }
"#;

fn refuse(text: &str) -> ScenarioError {
    Scenario::parse(text, "two.toml").expect_err("the text is wrong")
}

/// Returns the error after one occurrence of `from` in the correct scenario is replaced by `to`.
fn broken(from: &str, to: &str) -> ScenarioError {
    assert!(GOOD.contains(from), "{from}");
    refuse(&GOOD.replacen(from, to, 1))
}

#[test]
fn a_scenario_is_read_whole() {
    let scenario = Scenario::parse(GOOD, "two.toml").unwrap();
    assert_eq!(scenario.nodes, ["home".to_owned(), "hub".to_owned()]);
    let lte = scenario.link("lte").unwrap();
    assert_eq!(lte.up.queue, QueueSize::Packets(100));
    assert_eq!(lte.up.loss, 0.003);
    assert_eq!(lte.down.capacity, Capacity::Trace("cell".into()));
    assert_eq!(lte.down.queue, QueueSize::Bdp(1.5));
    let times: Vec<u64> = scenario.events.iter().map(|e| e.at.as_secs()).collect();
    assert_eq!(times, [20, 25, 30]);
    assert_eq!(scenario.events[0].target, EventTarget::Carrying("gaps".into()));
    assert_eq!((&scenario.events[0].action, scenario.events[0].directions), (&Action::Cut, Directions::Up));
    assert_eq!(scenario.events[0].lasting, Some(Duration::from_secs(2)));
    assert_eq!(scenario.variants[1].kind, VariantKind::Weft);
    assert_eq!(scenario.variants[2].weights().unwrap(), [("fibre".to_owned(), 5), ("lte".to_owned(), 3)]);
    assert_eq!(scenario.flows[1].interval, Duration::from_millis(1));
}

#[test]
fn hosts_and_short_flows_are_read() {
    let more = "\n[[flow]]\nname = \"many\"\napp = \"short-flows\"\ncount = 2\nhost = \"pc\"\nmean-packets = 9\n\
        [[flow]]\nname = \"one\"\napp = \"iperf3\"\nhost = \"tv\"\n[[flow]]\nname = \"two\"\napp = \"short-flows\"\nhost = \"pc\"\n";
    let scenario = Scenario::parse(&format!("{GOOD}{more}"), "two.toml").unwrap();
    assert_eq!(scenario.hosts, ["pc", "tv"]);
    let read: Vec<_> = scenario.flows.iter().map(|flow| (flow.host, flow.mean_packets)).collect();
    assert_eq!(read, [(None, 14), (None, 14), (Some(0), 9), (Some(0), 9), (Some(1), 14), (Some(0), 14)]);
    assert_eq!(scenario.flows[5].interval, Duration::from_millis(100));
    let in_a_vpn = format!(
        "{GOOD}[[vpn]]\nname = \"blue\"\n[[flow]]\nname = \"x\"\napp = \"iperf3\"\nhost = \"pc\"\nvpn = \"blue\"\n"
    );
    let error = refuse(&in_a_vpn);
    assert!(error.message.contains("remove `host` or `vpn`") && (error.line, error.column) == (45, 8), "{error}");
    let hosts = (0..201).map(|n| format!("[[flow]]\nname = \"f{n}\"\napp = \"iperf3\"\nhost = \"h{n}\"\n"));
    assert!(refuse(&format!("{GOOD}{}", hosts.collect::<String>())).message.contains("at most 200 hosts"));
}

#[test]
fn an_unknown_key_is_reported_with_its_place_and_the_nearest_right_one() {
    let error = broken("delay = \"8 ms\"", "dealy = \"8 ms\"");
    assert_eq!((error.line, error.column), (10, 1));
    assert!(error.message.contains("did you mean `delay`?"), "{error}");
    assert!(error.to_string().starts_with("two.toml:10:1: "), "{error}");
}

#[test]
fn a_wrong_unit_is_reported_with_its_place_and_the_units_there_are() {
    let error = broken("rate = \"50 Mbit/s\"", "rate = \"50 MB/s\"");
    assert_eq!((error.line, error.column), (9, 8));
    assert!(error.message.contains("Mbit/s"), "{error}");
    assert!(broken("\"1.5 BDP\"", "\"1.5 bdp\"").message.contains("\"1.5 BDP\""));
    assert!(broken("\"0.3 %\"", "\"300 %\"").message.contains("out of range"));
}

#[test]
fn an_unknown_link_is_reported_with_those_that_exist() {
    let error = broken("link = { carrying = \"gaps\" }", "link = \"fiber\"");
    assert_eq!((error.line, error.column), (31, 8));
    assert!(error.message.contains("there is no link `fiber`"), "{error}");
    assert!(error.message.contains("did you mean `fibre`?") && error.message.contains("`lte`"), "{error}");
    let error = broken("name = \"wrr\"", "name = \"wrr\"\nlinks = [\"fibre\", \"sat\"]");
    assert!(error.message.contains("there is no link `sat`: known: `fibre`, `lte`"), "{error}");
}

#[test]
fn an_unknown_variant_or_app_is_reported_with_the_nearest() {
    assert!(broken("\"weft\"]", "\"wefd\"]").message.contains("did you mean `weft`?"));
    assert!(broken("app = \"iperf3\"", "app = \"iperf\"").message.contains("did you mean `iperf3`?"));
}

#[test]
fn impossible_scenarios_are_refused() {
    let cases = [
        ("warmup = \"15 s\"", "warmup = \"60 s\"", "shorter than the run"),
        ("repeats = 3", "repeats = 0", "at least one repeat"),
        ("name = \"lte\"", "name = \"fibre\"", "two links have the name"),
        ("name = \"lte\"", "name = \"a link with a long name\"", "network interface"),
        ("rate = \"50 Mbit/s\"\n", "", "needs a `rate` or a `trace`"),
        (
            "down = { trace = \"cell\" }",
            "down = { trace = \"cell\", rate = \"1 Mbit/s\" }",
            "both a `rate` and a `trace`",
        ),
        ("cut = \"up\"", "cut = \"up\"\nloss = \"1 %\"", "exactly one of: "),
        ("cut = \"up\"\n", "", "exactly one of: "),
        ("repeat = 3", "repeat = 300", "after the end of the run"),
        ("every = \"5 s\"\n", "", "needs `every`"),
        ("carrying = \"gaps\"", "carrying = \"bulk\"", "`carrying` names flow `bulk`"),
        ("link = { carrying = \"gaps\" }", "node = \"hub\"", "a node can only be cut or restored as a whole"),
        ("name = \"gaps\"", "name = \"bulk\"", "two flows have the name"),
        ("name = \"wrr\"", "name = \"wrr\"\nkind = \"mptcp\"", "no weft settings"),
        ("name = \"wrr\"", "name = \"weft\"", "two variants have the name"),
        ("app = \"iperf3\"", "app = \"iperf3\"\nstop = \"61 s\"", "before the run ends"),
        ("app = \"iperf3\"", "app = \"iperf3\"\nhost = \"pc\"\ndirection = \"down\"", "remove `host` or `direction`"),
        ("app = \"iperf3\"", "app = \"iperf3\"\nhost = \"\"", "write one, such as \"laptop\""),
        ("app = \"iperf3\"", "app = \"iperf3\"\nmean-packets = 14", "only with app = \"short-flows\""),
        ("app = \"iperf3\"", "app = \"short-flows\"\nmean-packets = 1", "must be at least 2"),
        ("app = \"iperf3\"", "app = \"short-flow\"", "did you mean `short-flows`?"),
        ("name = \"two\"", "name = \"two\"\nnodes = [\"a\"]", "two nodes"),
        ("\"weft\"]", "\"weft-each-vpn\"]", "the scenario has no VPN"),
        ("name = \"lte\"", "name = \"lte\"\nbetween = [\"hub\", \"home\"]", "must be [\"home\", \"hub\"]"),
        ("name = \"lte\"", "name = \"lte\"\ncost = 3", "leave `cost` out"),
        ("name = \"lte\"\n", "", "`name` is missing"),
        ("loss = \"0.3 %\"", "aqm = \"red\"\nqueue = { kind = \"codel\" }", "remove one, `kind` or `aqm`"),
        ("queue = \"1.5 BDP\"", "queue = { kind = \"rde\" }", "did you mean `red`?"),
        ("rate = \"50 Mbit/s\"", "rate = \"0 bit/s\"", "greater than zero"),
    ];
    for (from, to, expected) in cases {
        let error = broken(from, to);
        assert!(error.message.contains(expected), "{to}: {error}");
        assert!(error.line > 1 || from.contains("two"), "{to}: {error}");
    }
    assert!(refuse("name = \"x\"\nduration = \"1 s\"").message.contains("no link"));
    assert!(refuse("name = ").line == 1);
}

#[test]
fn a_pair_has_the_links_and_events_of_a_network() {
    let text = GOOD.replacen("queue = \"1.5 BDP\"", "queue = { kind = \"codel\", limit = \"9 packets\" }", 1);
    let text = text.replacen("name = \"lte\"", "name = \"lte\"\nbetween = [\"home\", \"hub\"]", 1);
    let events = "[[event]]\nat = \"50 s\"\nnode = \"hub\"\ncut = \"both\"\n\
                  [[event]]\nat = \"55 s\"\nlink = \"*e\"\nloss = \"2 %\"\n";
    let scenario = Scenario::parse(&format!("{text}{events}"), "f").unwrap_or_else(|e| panic!("{e}"));
    let [fibre, lte] = &scenario.links[..] else { panic!("{:?}", scenario.links) };
    assert_eq!((fibre.ends, lte.ends, fibre.up.queue), ([0, 1], [0, 1], QueueSize::Packets(9)));
    assert!(matches!(fibre.down.discipline, Discipline::CoDel { ecn: false, .. }), "{fibre:?}");
    let targets: Vec<_> = scenario.events[3..].iter().map(|event| (event.group, event.target.clone())).collect();
    assert_eq!(targets, [(1, EventTarget::Node(1)), (2, EventTarget::Link(0)), (2, EventTarget::Link(1))]);
}

const VPNS: &str = r#"name = "two"
duration = "20 s"
variants = ["each-link"]

[policy]
leasable = "9 Mbit/s"

[[link]]
name = "core"
rate = "10 Mbit/s"
down = { rate = "20 Mbit/s" }

[[vpn]]
name = "blue"
weight = 3
assured = "4 Mbit/s"
loop = "aimd-window"

[[vpn]]
name = "line"
leased = "2 Mbit/s"
loop = "accumulation"
queue = "fifo"
queue-packets = 64

[[flow]]
name = "tcp"
app = "iperf3"
vpn = "blue"
count = 2

[[flow]]
name = "flood"
app = "cbr"
vpn = "line"
rate = "15 Mbit/s"
packet-size = "1000 B"

[[event]]
at = "5 s"
vpn = "line"
leased = "6 Mbit/s"
for = "5 s"

[[event]]
at = "12 s"
vpn = "blue"
weight = 7
leased = "none"

[[variant]]
name = "no-loops"
vpn = { loop = "none", queue = "codel" }
"#;

#[test]
fn vpns_are_read_and_become_the_daemon_s_tables() {
    let scenario = Scenario::parse(VPNS, "two.toml").unwrap();
    let names: Vec<(&str, Option<usize>)> = scenario.flows.iter().map(|flow| (flow.name.as_str(), flow.vpn)).collect();
    assert_eq!(names, [("tcp-0", Some(0)), ("tcp-1", Some(0)), ("flood", Some(1))]);
    let flood = &scenario.flows[2];
    assert_eq!((flood.packet_bytes, flood.interval.as_micros()), (1_000, 533));
    let line = "id = 2\nname = \"line\"\nweight = 1\nleased = \"2000000 bit/s\"\nloop = \"accumulation\"\n\
        queue = \"fifo\"\nqueue-packets = 64\n";
    let tables = scenario.vpn_tables(&scenario.variants[0]);
    assert_eq!((tables.len(), &tables[1]), (2, &line.parse().unwrap()));
    let without = scenario.vpn_tables(&scenario.variants[1]);
    assert_eq!(without[1]["loop"].as_str(), Some("none"));
    assert_eq!((without[0]["queue"].as_str(), without[1]["queue-packets"].as_integer()), (Some("codel"), Some(64)));
    assert_eq!(scenario.policy_table().to_string(), "leasable = \"9000000 bit/s\"\n");
    let last: Vec<_> = scenario.last_shares().iter().map(|share| (share.weight, share.service)).collect();
    assert_eq!(last, [(7, VpnService::BestEffort), (1, VpnService::Leased(Rate::from_mbps(2)))]);
}

#[test]
fn vpns_that_cannot_be_are_refused_where_they_stand() {
    let place = |needle: &str| {
        let before = &VPNS[..VPNS.find(needle).unwrap()];
        (before.matches('\n').count() + 1, before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1)
    };
    let cases = [
        ("weight = 3", "weight = 0", "the `weight` of a VPN must be above 0, not 0", 9),
        ("weight = 3", "weight = -2", "above 0, not -2", 9),
        ("weight = 3", "weight = 3\nleased = \"1 Mbit/s\"", "not both", 0),
        ("\"2 Mbit/s\"", "\"9.5 Mbit/s\"", "9.5 Mbit/s in total, but only 9.0 Mbit/s may be leased", 0),
        ("\"6 Mbit/s\"", "\"9.5 Mbit/s\"", "9.5 Mbit/s in total", 0),
        ("\"9 Mbit/s\"", "\"11 Mbit/s\"", "the links carry 10.0 Mbit/s in total", 0),
        ("\"line\"\nleased", "\"blue\"\nleased", "two VPNs have the name `blue`", 0),
        ("\"line\"\nrate", "\"lime\"\nrate", "there is no VPN `lime`: did you mean `line`?", 0),
        ("\"line\"\nleased = \"6", "\"bleu\"\nleased = \"6", "there is no VPN `bleu`: did you mean `blue`?", 0),
        ("queue-packets = 64", "queue-packets = 1", "2 to 1000000 packets", 16),
        ("loop = \"accumulation\"", "loop = \"accumulate\"", "did you mean `accumulation`?", 7),
    ];
    for (from, to, expected, column) in cases {
        let error = refuse(&VPNS.replacen(from, to, 1));
        assert!(error.message.contains(expected), "{to}: {error}");
        let (line, start) = place(from);
        let added = to.matches('\n').count() - from.matches('\n').count();
        assert_eq!(
            (error.line, error.column),
            (line + added, if added > 0 { 10 } else { start + column }),
            "{to}: {error}"
        );
    }
    for (from, to, expected) in [
        ("leasable = \"9 Mbit/s\"", "", "[policy] with leasable"),
        ("vpn = \"line\"\nleased = \"6 Mbit/s\"", "leased = \"6 Mbit/s\"", "whose share changes"),
        ("leased = \"6 Mbit/s\"", "", "what changes for the VPN"),
        ("leased = \"6 Mbit/s\"", "leased = \"6 Mbit/s\"\nlink = \"core\"", "remove `link`"),
        ("leased = \"6 Mbit/s\"", "leased = \"6 Mbit/s\"\ncut = \"up\"", "exactly one of: "),
        ("rate = \"15 Mbit/s\"\n", "", "`cbr` needs a `rate`"),
        ("\"1000 B\"", "\"1500 B\"", "64 B to 1280 B"),
        ("vpn = \"blue\"\ncount", "vpn = \"blue\"\nrate = \"1 Mbit/s\"\ncount", "`rate` works only with app = \"cbr\""),
        ("name = \"no-loops\"", "name = \"no-loops\"\nkind = \"mptcp\"", "needs a `kind` that runs weft"),
        ("vpn = { loop = \"none\", queue = \"codel\" }", "weft = { vpn = [] }", "not in `weft`"),
    ] {
        assert!(VPNS.contains(from), "{from}");
        let error = refuse(&VPNS.replacen(from, to, 1));
        assert!(error.message.contains(expected) && error.line > 1, "{to}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = Scenario::parse(&text, "f");
    }

    #[test]
    fn a_damaged_scenario_is_refused_inside_the_text_or_read(at in 0usize..GOOD.len(), with in "[\\PC\n]{0,3}") {
        let mut text = GOOD.to_owned();
        text.replace_range(at..at + 1, &with);
        if let Err(error) = Scenario::parse(&text, "f") {
            prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1);
            prop_assert!(error.column >= 1 && !error.message.is_empty());
        }
    }

    #[test]
    fn quantities_keep_their_value(mbps in 1u64..10_000, ms in 0u64..10_000, loss in 0u32..1000) {
        let text = GOOD
            .replacen("\"50 Mbit/s\"", &format!("\"{mbps} Mbit/s\""), 1)
            .replacen("\"8 ms\"", &format!("\"{ms} ms\""), 1)
            .replacen("\"0.3 %\"", &format!("\"{} %\"", f64::from(loss) / 10.0), 1);
        let scenario = Scenario::parse(&text, "f").unwrap();
        prop_assert_eq!(&scenario.links[0].up.capacity, &Capacity::Rate(weft_units::Rate::from_mbps(mbps)));
        prop_assert_eq!(scenario.links[0].base_rtt(), Duration::from_millis(2 * ms));
        prop_assert!((scenario.links[1].up.loss - f64::from(loss) / 1000.0).abs() < 1e-12);
    }
}

#[test]
fn impairments_are_read_and_one_direction_overrides_both() {
    let text = GOOD.replacen(
        "loss = \"0.3 %\"",
        r#"loss = "0.3 %"
jitter = { kind = "grants", limit = "12 ms" }
burst-loss = { share = "2 %", length = 5 }
loss-long = { over = 1200, share = "100 %" }
reorder = { share = "1 %", by = "5 ms" }
duplicate = "0.5 %"
outage = { every = "20 s", for = "1 s", spread = true }
handover = { every = "15 s", for = "100 ms", step = "15 ms", rate = [0.5, 1.5] }
policer = { rate = "20 Mbit/s", bucket = "3 MB", after = "5 s", only = "udp" }
aqm = "fq-codel"
rebind = { every = "30 s" }
class = "cellular""#,
        1,
    );
    let text = text.replacen(
        "queue = \"100 packets\" }",
        "queue = \"100 packets\", jitter = \"3 ms\", swing = { low = \"1 Mbit/s\", high = \"12 Mbit/s\", every = \"3 s\", shape = \"walk\" } }",
        1,
    );
    let scenario = Scenario::parse(&text, "two.toml").unwrap();
    let [plain, lte] = &scenario.links[..] else { panic!("the file has two links") };
    assert!(plain.up.impairments.is_none() && plain.up.impaired(1, "fibre", true).is_none());
    assert_eq!((lte.rebind, lte.class.as_deref()), (Some(Duration::from_secs(30)), Some("cellular")));
    let (up, down) = (&lte.up.impairments, &lte.down.impairments);
    assert_eq!((lte.up.jitter, up.jitter), (Duration::from_millis(3), None));
    let grants = Jitter { kind: JitterKind::Grants, limit: Duration::from_millis(12) };
    assert_eq!((lte.down.jitter, down.jitter), (Duration::ZERO, Some(grants)));
    assert!(up.swing.is_some() && down.swing.is_none());
    for both in [up, down] {
        assert_eq!(both.burst_loss, Some(BurstLoss { share: 0.02, length: 5.0 }));
        assert_eq!(both.long_loss, Some(LongLoss { over: 1_200, share: 1.0 }));
        assert_eq!(both.reorder, Some(ReorderSpec { share: 0.01, by: Duration::from_millis(5) }));
        assert_eq!((both.duplicate, both.aqm), (0.005, Some(Aqm::FqCoDel)));
        assert_eq!(both.outage.map(|outage| (outage.spread, outage.hold)), Some((true, false)));
        assert_eq!(both.handover.map(|handover| handover.rate), Some([0.5, 1.5]));
        assert_eq!(both.policer.map(|policer| (policer.bucket_bytes, policer.only_udp)), Some((3_000_000, true)));
    }
}

#[test]
fn impairments_that_cannot_be_are_refused_at_their_place() {
    for (line, place, why) in [
        ("jitter = { kind = \"grnats\", limit = \"12 ms\" }", 19, "did you mean `grants`?"),
        ("jitter = { kind = \"spikes\", limit = \"12 s\" }", 10, "at most 10 s"),
        ("jitter = 12", 10, "a time such as"),
        ("burst-loss = { share = \"60 %\", length = 1 }", 14, "raise `length`"),
        ("burst-loss = { share = \"2 %\", length = 0 }", 14, "at least 1"),
        ("outage = { every = \"1 s\", for = \"1 s\" }", 10, "shorter than `every`"),
        ("outage = { every = \"1 s\", four = \"1 s\" }", 27, "did you mean `for`?"),
        (
            "swing = { low = \"9 Mbit/s\", high = \"1 Mbit/s\", every = \"1 s\", shape = \"walk\" }",
            9,
            "not be above `high`",
        ),
        ("swing = { low = \"1 Mbit/s\", high = \"9 Mbit/s\", every = \"0 s\", shape = \"walk\" }", 9, "at least 1 ms"),
        ("handover = { every = \"15 s\", for = \"1 s\", rate = [1.5, 0.5] }", 12, "such as [0.5, 1.5]"),
        ("policer = { rate = \"1 Mbit/s\", bucket = \"1 kB\" }", 11, "no full packet"),
        ("aqm = \"cake\"", 7, "unknown value `cake`"),
        ("rebind = { every = \"1 ms\" }", 10, "at least 100 ms"),
    ] {
        let error = broken("delay = \"8 ms\"", line);
        assert_eq!((error.line, error.column), (10, place), "{line}: {error}");
        assert!(error.message.contains(why), "{line}: {error}");
    }
    let error = broken(
        "down = { trace = \"cell\" }",
        "down = { trace = \"cell\", swing = { low = \"1 Mbit/s\", high = \"9 Mbit/s\", every = \"1 s\", shape = \"walk\" } }",
    );
    assert!(error.message.contains("a trace contains its own swings"), "{error}");
}
