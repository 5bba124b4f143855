//! Tests that the parser accepts correct network files and rejects wrong ones with a helpful error.

use proptest::prelude::*;
use std::time::Duration;
use weft_scenario::channel::Aqm;
use weft_scenario::{
    Action, AnyScenario, Capacity, CostMetric, DelayedAck, Discipline, DupThresh, EventTarget, Forwarding, HashKey,
    NetworkScenario, QueueSize, RouteSet, Scenario, ScenarioError, TcpRecovery, Traffic,
};
use weft_units::Rate;

const GOOD: &str = r#"name = "diamond"
duration = "60 s"
warmup = "10 s"
tcp = { mss = "512 B", window = 100, recovery = "new-reno", congestion = "reno" }

[routing]
routes = "equal-cost"
forwarding = "round-robin"

[[node]]
name = "s"
count = 3

[[node]]
name = "d"
count = 3

[[node]]
name = "r"
count = 4

[[link]]
name = "access"
between = ["s*", "r0"]
rate = "100 Mbit/s"
delay = "1 ms"
queue = "100 packets"

[[link]]
between = ["r1", "d*"]
rate = "100 Mbit/s"
delay = "1 ms"

[[link]]
name = "upper"
between = ["r0", "r2"]
rate = "155 Mbit/s"
delay = "10 ms"
queue = { kind = "red", limit = "100 packets", max-p = "2 %" }
down = { rate = "10 Mbit/s", queue = { kind = "fq-codel", limit = "1 MB", ecn = true } }

[[link]]
name = "lower"
between = ["r0", "r3"]
rate = "100 Mbit/s"
cost = 2

[[link]]
name = "rest"
between = ["r2", "r1"]
trace = "cell"

[[link]]
name = "end"
between = ["r3", "r1"]
rate = "1 Gbit/s"

[[path]]
name = "over-r2"
via = ["r0", "r2", "r1"]
weight = 3

[[path]]
name = "over-r3"
via = ["r0", "r3", "r1"]
one-way = true
destinations = "d*"

[[flow]]
app = "ftp"
from = "s*"
to = "d*"
count = 2
start = "1 s"
spread = "500 ms"
tcp = { delayed-ack = "standard", dup-thresh = 6 }

[[flow]]
name = "noise"
app = "pareto"
from = "s0"
to = "d*"
packet-size = "500 B"
peak = "10 Mbit/s"
on = "500 ms"
off = "500 ms"
shape = 1.5
stop = "30 s"

[[event]]
at = "20 s"
node = "r3"
cut = "both"
for = "5 s"

[[event]]
at = "10 s"
link = "access-*"
rate = "1 Mbit/s"
every = "5 s"
repeat = 2

[[variant]]
name = "single"
routing = { routes = "shortest" }

[[variant]]
name = "ecmp"
tcp = { dup-thresh = "paths", delayed-ack = "modified", ack-delay = "200 ms" }

[[variant]]
name = "lsp"
routing = { routes = "explicit", paths = ["over-r3"], forwarding = "flow-hash", hash = "source", cost = "delay" }

[[variant]]
name = "three"
routing = { routes = "k-shortest", k = 3, disjoint = true, forwarding = "weighted" }
"#;

fn good() -> NetworkScenario {
    NetworkScenario::parse(GOOD, "diamond.toml").unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the error after one occurrence of `from` in the correct network is replaced by `to`.
fn broken(from: &str, to: &str) -> ScenarioError {
    assert!(GOOD.contains(from), "{from}");
    NetworkScenario::parse(&GOOD.replacen(from, to, 1), "diamond.toml")
        .err()
        .unwrap_or_else(|| panic!("accepted: {to}"))
}

/// Replaces `from` by `to` in the correct network and checks the error.
///
/// It must point to the first `culprit` in the text, and its message must contain `expected`.
fn refused_at(from: &str, to: &str, culprit: &str, expected: &str) {
    let error = broken(from, to);
    assert!(error.message.contains(expected), "{to}: {error}");
    let text = GOOD.replacen(from, to, 1);
    let before = &text[..text.find(culprit).unwrap_or_else(|| panic!("{culprit}"))];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let place = (before.matches('\n').count() + 1, before.len() - line_start + 1);
    assert_eq!((error.line, error.column), place, "{to}: {error}");
}

#[test]
fn counts_and_patterns_become_plain_lists() {
    let network = good();
    assert_eq!(network.nodes, ["s0", "s1", "s2", "d0", "d1", "d2", "r0", "r1", "r2", "r3"]);
    let links: Vec<_> = network.links.iter().map(|link| (link.name.as_str(), link.ends)).collect();
    assert_eq!(links[..4], [("access-0", [0, 6]), ("access-1", [1, 6]), ("access-2", [2, 6]), ("r1-d0", [7, 3])]);
    assert_eq!(links[6..], [("upper", [6, 8]), ("lower", [6, 9]), ("rest", [8, 7]), ("end", [9, 7])]);
    let ftp: Vec<_> = network.flows.iter().filter(|flow| flow.group == 0).map(|flow| (flow.from, flow.to)).collect();
    assert_eq!(ftp, [(0, 3), (0, 3), (1, 4), (1, 4), (2, 5), (2, 5)]);
    let noise: Vec<_> = network.flows.iter().filter(|flow| flow.group == 1).map(|flow| (flow.from, flow.to)).collect();
    assert_eq!(noise, [(0, 3), (0, 4), (0, 5)]);
    assert_eq!((network.flows[5].name.as_str(), network.flows[6].name.as_str()), ("ftp-5", "noise-0"));
}

#[test]
fn links_have_queues_and_directions_of_their_own() {
    let network = good();
    let access = network.link("access-2").unwrap();
    assert_eq!((access.up.queue, access.up.discipline), (QueueSize::Packets(100), Discipline::DropTail));
    let upper = network.link("upper").unwrap();
    let Discipline::Red(red) = upper.up.discipline else { panic!("{:?}", upper.up) };
    assert_eq!((red.min, red.max), (QueueSize::Packets(25), QueueSize::Packets(75)));
    assert_eq!((red.max_p, red.weight, red.gentle, red.ecn), (0.02, 0.002, true, false));
    assert!(matches!(upper.down.discipline, Discipline::FqCoDel { ecn: true, quantum_bytes: 1514, .. }));
    assert_eq!(upper.down.capacity, Capacity::Rate(Rate::from_mbps(10)));
    assert_eq!((upper.down.queue, upper.down.delay), (QueueSize::Bytes(1_000_000), Duration::from_millis(10)));
    assert_eq!(network.link("rest").unwrap().down.capacity, Capacity::Trace("cell".into()));
    assert_eq!((network.link("lower").unwrap().cost, upper.cost), (Some(2), None));
}

#[test]
fn a_network_has_the_links_and_events_of_a_pair() {
    let text = GOOD.replacen("cost = 2", "aqm = \"codel\"\nrebind = { every = \"3 s\" }\nclass = \"cellular\"", 1);
    let text = text.replacen("name = \"r\"\ncount = 4", "name = \"r\"\ncount = 4\nweft = true", 1);
    let weights = "[[event]]\nat = \"50 s\"\nweights = { lower = 3, upper = 5 }\n";
    let network = NetworkScenario::parse(&format!("{text}{weights}"), "f").unwrap_or_else(|e| panic!("{e}"));
    let lower = network.link("lower").unwrap();
    assert_eq!((lower.up.impairments.aqm, lower.rebind), (Some(Aqm::CoDel), Some(Duration::from_secs(3))));
    assert_eq!((lower.class.as_deref(), lower.up.discipline), (Some("cellular"), Discipline::DropTail));
    let last = network.events.last().unwrap();
    assert_eq!((last.target.clone(), last.action.word()), (EventTarget::Weft, "weights"));
    let wrong = weights.replace("lower = 3", "lowre = 3");
    let error = NetworkScenario::parse(&format!("{text}{wrong}"), "f").unwrap_err();
    assert!(error.message.contains("there is no link `lowre`: did you mean `lower`?"), "{error}");
}

#[test]
fn between_two_nodes_a_link_needs_no_ends() {
    let text = "name = \"t\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nrate = \"1 Mbit/s\"\n";
    let network = NetworkScenario::parse(text, "f").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((network.links[0].name.as_str(), network.links[0].ends), ("a-b", [0, 1]));
}

#[test]
fn paths_flows_and_events_are_read_whole() {
    let network = good();
    let [first, second] = &network.paths[..] else { panic!("{:?}", network.paths) };
    assert_eq!(
        (&first.nodes[..], &first.links[..], first.weight, first.one_way),
        (&[6, 8, 7][..], &[6, 8][..], 3, false)
    );
    assert_eq!((&first.destinations, &second.destinations), (&None, &Some(vec![3, 4, 5])));
    let flow = &network.flows[0];
    assert_eq!(
        (flow.start, flow.spread, flow.stop),
        (Duration::from_secs(1), Duration::from_millis(500), Duration::from_secs(60))
    );
    assert_eq!((flow.traffic, flow.traffic.is_tcp()), (Traffic::Ftp { size_bytes: None }, true));
    let half = Duration::from_millis(500);
    let noise = Traffic::Pareto { packet_bytes: 500, peak: Rate::from_mbps(10), on: half, off: half, shape: 1.5 };
    assert_eq!((network.flows[6].traffic, noise.is_tcp()), (noise, false));
    let events: Vec<_> = network.events.iter().map(|event| (event.at.as_secs(), event.target.clone())).collect();
    let link = EventTarget::Link;
    assert_eq!(events[..6], [(10, link(0)), (10, link(1)), (10, link(2)), (15, link(0)), (15, link(1)), (15, link(2))]);
    assert_eq!((events[6].clone(), &network.events[6].action), ((20, EventTarget::Node(9)), &Action::Cut));
}

#[test]
fn variants_change_routing_and_tcp_and_keep_the_rest() {
    let network = good();
    let routing = |name: &str| &network.variant(name).unwrap().routing;
    assert_eq!(
        (&routing("single").routes, routing("single").forwarding),
        (&RouteSet::Shortest, Forwarding::RoundRobin)
    );
    assert_eq!((&routing("ecmp").routes, routing("ecmp").cost), (&RouteSet::EqualCost, CostMetric::Hops));
    assert_eq!(
        (&routing("lsp").routes, routing("lsp").cost),
        (&RouteSet::Explicit { paths: vec![1] }, CostMetric::Delay)
    );
    assert_eq!(routing("lsp").forwarding, Forwarding::FlowHash(HashKey::Source));
    assert_eq!(routing("three").routes, RouteSet::KShortest { k: 3, disjoint: true });
    let flow = &network.flows[0];
    let single = network.variant("single").unwrap().tcp_of(flow);
    assert_eq!((single.mss_bytes, single.window_segments, single.recovery), (512, 100, TcpRecovery::NewReno));
    assert_eq!((single.dup_thresh, single.delayed_ack), (DupThresh::Fixed(6), DelayedAck::Standard));
    let ecmp = network.variant("ecmp").unwrap().tcp_of(flow);
    assert_eq!((ecmp.dup_thresh, ecmp.delayed_ack), (DupThresh::Paths, DelayedAck::Modified));
    assert_eq!((ecmp.ack_delay, ecmp.mss_bytes), (Duration::from_millis(200), 512));
    let text = GOOD.split("[[variant]]").next().unwrap();
    let plain = NetworkScenario::parse(text, "f").unwrap();
    assert_eq!((plain.variants.len(), plain.variants[0].name.as_str()), (1, "plain"));
}

#[test]
fn every_application_is_read() {
    let flow = |app: &str| {
        let text = GOOD.replacen("app = \"ftp\"", app, 1).replacen(
            "tcp = { delayed-ack = \"standard\", dup-thresh = 6 }",
            "",
            1,
        );
        NetworkScenario::parse(&text, "f").unwrap_or_else(|e| panic!("{e}")).flows[0].traffic
    };
    let (ms, rate) = (Duration::from_millis, Rate::from_mbps(1));
    assert_eq!(flow("app = \"iperf3\""), Traffic::Ftp { size_bytes: None });
    assert_eq!(flow("app = \"ftp\"\nsize = \"1 MB\""), Traffic::Ftp { size_bytes: Some(1_000_000) });
    assert_eq!(flow("app = \"http\""), Traffic::Http { size_bytes: 10_000_000, pause: Duration::ZERO });
    assert_eq!(flow("app = \"short-flows\""), Traffic::ShortFlows { mean_packets: 14.0, interval: ms(100) });
    let (request_bytes, response_bytes) = (100, 5_000);
    let request = flow("app = \"request-response\"\nrequest = \"100 B\"\nsize = \"5 kB\"\ninterval = \"1 s\"");
    assert_eq!(request, Traffic::RequestResponse { request_bytes, response_bytes, interval: ms(1_000) });
    assert_eq!(flow("app = \"poisson\"\nrate = \"1 Mbit/s\""), Traffic::Poisson { packet_bytes: 1_500, rate });
    let cbr = flow("app = \"cbr\"\nrate = \"1 Mbit/s\"\npacket-size = \"100 B\"");
    assert_eq!(cbr, Traffic::Cbr { packet_bytes: 100, rate });
    assert_eq!(flow("app = \"voip\""), Traffic::Voip { packet_bytes: 200, interval: ms(20) });
    assert_eq!(flow("app = \"ping\""), Traffic::Ping { interval: ms(100) });
    assert_eq!(flow("app = \"probe\""), Traffic::Probe { interval: ms(1) });
}

#[test]
fn the_two_shapes_are_distinguished() {
    assert!(matches!(AnyScenario::parse(GOOD, "f"), Ok(AnyScenario::Network(_))));
    let pair = "name = \"p\"\nduration = \"1 s\"\n[[link]]\nname = \"a\"\nrate = \"1 Mbit/s\"\n";
    assert!(matches!(AnyScenario::parse(pair, "f"), Ok(AnyScenario::Pair(_))));
    let error = Scenario::parse(GOOD, "diamond.toml").unwrap_err();
    assert!(error.message.contains("run it with `weft-lab sim`"), "{error}");
    assert_eq!(error.line, 6, "{error}");
}

#[test]
fn a_path_in_a_circle_is_refused_where_it_closes() {
    let expected = "path `over-r2` contains the node `r0` twice";
    refused_at("\"r0\", \"r2\", \"r1\"]", "\"r0\", \"r2\", \"r1\", \"r3\", \"r0\"] # here", "\"r0\"] # here", expected);
}

#[test]
fn a_hop_without_a_link_is_refused_with_the_links_there_are() {
    let expected = "no link from node `r2` to node `r3`: the links of `r2` lead to r0, r1";
    refused_at("\"r0\", \"r2\", \"r1\"]", "\"r0\", \"r2\", \"r3\", \"r1\"] # here", "\"r3\", \"r1\"] # here", expected);
}

#[test]
fn a_flow_to_nowhere_is_refused() {
    refused_at("to = \"d*\"\ncount", "to = \"e0\"\ncount", "\"e0\"", "there is no node `e0`: did you mean `s0`?");
    refused_at("to = \"d*\"\ncount", "to = \"s*\"\ncount", "\"s*\"\ncount", "both ends are node `s0`");
    let text = format!("{}\n[[node]]\nname = \"island\"\n", GOOD.replacen("to = \"d*\"", "to = \"island\"", 1));
    let error = NetworkScenario::parse(&text, "f").unwrap_err();
    assert!(error.message.contains("no links lead from node `s0` to node `island`"), "{error}");
    assert_eq!(error.column, 6);
}

#[test]
fn impossible_values_are_refused_at_their_place() {
    let cases = [
        ("rate = \"155 Mbit/s\"", "rate = \"0 Mbit/s\"", "\"0 Mbit/s\"", "greater than zero"),
        ("peak = \"10 Mbit/s\"", "peak = \"0 bit/s\"", "\"0 bit/s\"", "greater than zero"),
        ("rate = \"155 Mbit/s\"", "rate = \"155 MB\"", "\"155 MB\"", "the unit must be one of"),
        ("rate = \"155 Mbit/s\"\n", "", "\"upper\"", "link `upper` needs a `rate` or a `trace`"),
        ("limit = \"100 packets\"", "limit = \"100 pakets\"", "\"100 pakets\"", "not a queue"),
        ("queue = \"100 packets\"", "queue = \"100 pakets\"", "\"100 pakets\"", "not a queue"),
        ("kind = \"red\"", "kind = \"rde\"", "\"rde\"", "did you mean `red`?"),
        ("max-p", "max-pp", "max-pp", "did you mean `max-p`?"),
        ("kind = \"red\"", "kind = \"codel\"", "{ kind = \"codel\"", "has no `max-p`"),
        ("max-p", "min = \"9 packets\", max = \"9 packets\", max-p", "{ kind = \"red\"", "`min` must be less"),
        ("max-p", "min = \"9 packets\", max = \"9 kB\", max-p", "{ kind = \"red\"", "the same unit"),
        ("between = [\"r0\", \"r2\"]", "betwen = [\"r0\", \"r2\"]", "betwen", "did you mean `between`?"),
        ("[\"r0\", \"r2\"]", "[\"r0\", \"r0\"] # both", "\"r0\"] # both", "both ends are node `r0`"),
        ("[\"s*\", \"r0\"]", "[\"r*\", \"r0\"]", "\"r0\"]", "both ends are node `r0`"),
        ("[\"s*\", \"r0\"]", "[\"x*\", \"r0\"]", "\"x*\"", "no node matches the pattern `x*`"),
        ("[\"s*\", \"r0\"]", "[\"s*\", \"r*\"]", "\"r*\"]", "matches 3 nodes and `r*` matches 4"),
        ("name = \"lower\"", "name = \"upper\" # twice", "\"upper\" # twice", "two links have the name `upper`"),
        ("name = \"lower\"", "name = \"lo wer\"", "\"lo wer\"", "the name of a link"),
        ("between = [\"r0\", \"r2\"]\n", "", "\"upper\"", "`between` is missing"),
        (
            "limit = \"100 packets\", max-p = \"2 %\" }",
            "max-p = \"2 %\" }\naqm = \"codel\"",
            "\"codel\"",
            "`kind` or `aqm`",
        ),
        ("cost = 2", "rebind = { every = \"1 ms\" }", "{ every = \"1 ms\"", "at least 100 ms"),
        ("name = \"d\"\n", "name = \"s\"\nunused = 1\n", "unused", "unknown setting `unused`"),
        ("name = \"over-r3\"", "name = \"over-r2\" # twice", "\"over-r2\" # twice", "two paths have the name"),
        ("destinations = \"d*\"", "destinations = \"e*\"", "\"e*\"", "no node matches the pattern `e*`"),
        ("via = [\"r0\", \"r3\", \"r1\"]", "via = [\"r*\", \"r1\"]", "\"r*\"", "expected one node"),
        ("via = [\"r0\", \"r3\", \"r1\"]", "via = [\"r0\"]", "[\"r0\"]", "at least two nodes"),
        ("name = \"noise\"", "name = \"ftp\" # twice", "\"ftp\" # twice", "two flows have the name `ftp-0`"),
        ("count = 4", "count = 4000000000", "\"r\"\ncount", "at most 100000 nodes"),
        ("name = \"d\"", "name = \"s\" # twice", "\"s\" # twice", "two nodes have the name `s0`"),
        ("app = \"ftp\"", "app = \"fpt\"", "\"fpt\"", "did you mean `ftp`?"),
        ("app = \"pareto\"", "app = \"cbr\"", "\"10 Mbit/s\"\non", "app `cbr` cannot have `peak`"),
        ("peak = \"10 Mbit/s\"\n", "", "\"pareto\"", "app `pareto` needs the setting `peak`"),
        ("off = \"500 ms\"", "off = \"0 ms\"", "\"0 ms\"", "must be greater than zero"),
        ("max-p", "weight = 0.0, max-p", "{ kind = \"red\"", "`weight` must be above 0"),
        ("k = 3", "k = 3000", "3000", "`k` must be at most"),
        ("shape = 1.5", "shape = 1.0", "1.0", "above 1"),
        ("packet-size = \"500 B\"", "packet-size = \"5 B\"", "\"5 B\"", "28 B to 65535 B"),
        ("stop = \"30 s\"", "stop = \"61 s\"", "\"61 s\"", "before the run ends"),
        ("spread = \"500 ms\"", "spread = \"59 s\"", "\"59 s\"", "start before it stops"),
        ("mss = \"512 B\"", "mss = \"1 MB\"", "\"1 MB\"", "1 B to 65495 B"),
        ("window = 100", "window = 0", "0, rec", "nonzero"),
        ("dup-thresh = 6", "dup-thresh = 0", "0 }", "a number above zero, or \"paths\""),
        ("dup-thresh = \"paths\"", "dup-thresh = \"path\"", "\"path\"", "or \"paths\""),
        ("\"new-reno\"", "\"reno\"", "\"reno\", con", "unknown value `reno`"),
        ("node = \"r3\"", "node = \"r9\"", "\"r9\"", "did you mean `r"),
        ("cut = \"both\"", "cut = \"up\"", "\"r3\"\ncut", "as a whole"),
        ("cut = \"both\"", "loss = \"1 %\"", "\"r3\"\nloss", "as a whole"),
        ("cut = \"both\"", "weights = { a = 1 }", "{ a = 1 }", "a network has none"),
        ("node = \"r3\"\n", "", "\"20 s\"", "needs a `link` or a `node`"),
        ("link = \"access-*\"", "link = \"acces-1\"", "\"acces-1\"", "did you mean `access-1`?"),
        ("link = \"access-*\"", "link = { carrying = \"ftp\" }", "{ carrying", "name the link itself"),
        ("repeat = 2", "repeat = 20", "\"10 s\"\nlink", "after the end of the run"),
        ("name = \"ecmp\"", "name = \"single\" # twice", "\"single\" # twice", "two variants have the name"),
        ("routes = \"k-shortest\", k = 3", "routes = \"k-shortest\"", "\"k-shortest\"", "needs `k`"),
        ("routes = \"shortest\"", "routes = \"shortest\", k = 2", "2 }", "use `k` with"),
        ("hash = \"source\"", "k = 2", "2, cost", "use `k` with"),
        ("forwarding = \"flow-hash\"", "forwarding = \"random\"", "\"source\"", "use `hash` with"),
        ("paths = [\"over-r3\"]", "paths = [\"over-r4\"]", "\"over-r4\"", "did you mean `over-r"),
        ("[routing]", "nodes = [\"a\", \"b\"]\n[routing]", "nodes", "did you mean `node`?"),
        ("warmup = \"10 s\"", "warmup = \"60 s\"", "\"60 s\"\ntcp", "shorter than the run"),
    ];
    for (from, to, culprit, expected) in cases {
        refused_at(from, to, culprit, expected);
    }
}

#[test]
fn sweeps_change_a_network_that_was_read() {
    let mut network = good();
    network.links_mut("*er").for_each(|link| link.scale_delay(1.5));
    assert_eq!(network.link("upper").unwrap().down.delay, Duration::from_millis(15));
    network.links_mut("end").for_each(|link| link.set_queue(QueueSize::Packets(7), Discipline::DropTail));
    assert_eq!(network.link("end").unwrap().up.queue, QueueSize::Packets(7));
    network.flows_mut("noise-*").for_each(|flow| flow.traffic = Traffic::Ping { interval: Duration::from_secs(1) });
    assert!(network.flows[6..].iter().all(|flow| matches!(flow.traffic, Traffic::Ping { .. })));

    network.remove_nodes("r2");
    network.remove_nodes("s0");
    assert_eq!(network.nodes, ["s1", "s2", "d0", "d1", "d2", "r0", "r1", "r3"]);
    let links: Vec<_> = network.links.iter().map(|link| (link.name.as_str(), link.ends)).collect();
    assert_eq!((links[0], links[5]), (("access-1", [0, 5]), ("lower", [5, 7])));
    assert!(network.link("upper").is_none() && network.link("rest").is_none());
    let flows: Vec<_> = network.flows.iter().map(|flow| (flow.from, flow.to)).collect();
    assert_eq!(flows, [(0, 3), (0, 3), (1, 4), (1, 4)]);
    let [path] = &network.paths[..] else { panic!("{:?}", network.paths) };
    assert_eq!((path.name.as_str(), &path.nodes[..], &path.links[..]), ("over-r3", &[5, 7, 6][..], &[5, 6][..]));
    assert_eq!(path.destinations, Some(vec![2, 3, 4]));
    assert_eq!(network.variant("lsp").unwrap().routing.routes, RouteSet::Explicit { paths: vec![0] });
    let targets: Vec<_> = network.events.iter().map(|event| event.target.clone()).collect();
    assert_eq!(
        targets,
        [EventTarget::Link(0), EventTarget::Link(1), EventTarget::Link(0), EventTarget::Link(1), EventTarget::Node(7)]
    );
    network.remove_nodes("d*");
    assert!(network.paths.is_empty() && network.flows.is_empty());
}

proptest! {
    #[test]
    fn a_damaged_network_is_refused_inside_the_text_or_read(at in 0usize..GOOD.len(), with in "[\\PC\n]{0,3}") {
        let mut text = GOOD.to_owned();
        text.replace_range(at..at + 1, &with);
        if let Err(error) = NetworkScenario::parse(&text, "f") {
            prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1);
            prop_assert!(error.column >= 1 && !error.message.is_empty());
        }
    }
}
