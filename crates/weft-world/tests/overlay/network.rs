//! Networks with engines on nodes.
//!
//! The tests check the goodput that flows keep during a disturbance, with and without an overlay.

use weft_scenario::{DisturbanceResult, NetworkScenario, Traces, VariantRun};
use weft_units::Rng;
use weft_world::network::{NetworkRun, run};

/// Two hosts, a link between them, and a slower route over a relay. Each test adds its events.
const DETOUR: &str = r#"
name = "detour"
duration = "30 s"
warmup = "4 s"

[[node]]
name = "a"
weft = true
[[node]]
name = "b"
weft = true
[[node]]
name = "relay"
relay = true

[[link]]
name = "direct"
between = ["a", "b"]
rate = "6 Mbit/s"
delay = "20 ms"
[[link]]
name = "detour"
between = ["a", "relay"]
rate = "4 Mbit/s"
delay = "15 ms"
[[link]]
name = "onward"
between = ["relay", "b"]
rate = "4 Mbit/s"
delay = "15 ms"

[[tunnel]]
between = ["a", "b"]
via = ["relay"]

[[flow]]
app = "ftp"
from = "a"
to = "b"
[[flow]]
app = "http"
from = "a"
to = "b"
size = "200 kB"
interval = "200 ms"

[[variant]]
name = "static"
[[variant]]
name = "weft"
overlay = true
"#;

/// Two hosts with two relays between them and no direct link.
const DIAMOND: &str = r#"
name = "diamond"
duration = "160 s"
warmup = "4 s"

[[node]]
name = "a"
weft = true
[[node]]
name = "b"
weft = true
[[node]]
name = "relay"
count = 2
relay = true

[[link]]
name = "near"
between = ["a", "relay*"]
rate = "4 Mbit/s"
delay = "10 ms"
[[link]]
name = "far"
between = ["relay*", "b"]
rate = "4 Mbit/s"
delay = "10 ms"

[[tunnel]]
between = ["a", "b"]
via = ["relay0", "relay1"]

[[flow]]
app = "iperf3"
from = "a"
to = "b"
[[flow]]
app = "http"
from = "a"
to = "b"
size = "1000 MB"

[[variant]]
name = "static"
[[variant]]
name = "weft"
overlay = true
"#;

/// Returns a scenario of two hosts with `hops` equally fast links in a row between them.
fn chain(hops: usize) -> String {
    let places: Vec<String> = (0..=hops).map(|n| format!("n{n}")).collect();
    let node = |name: &String| format!("[[node]]\nname = \"{name}\"\n");
    let link = |pair: &[String]| {
        let [from, to] = pair else { return String::new() };
        format!(
            "[[link]]\nname = \"{from}-{to}\"\nbetween = [\"{from}\", \"{to}\"]\nrate = \"20 Mbit/s\"\ndelay = \"4 ms\"\n"
        )
    };
    let ends = [&places[0], &places[hops]].map(|name| format!("[[node]]\nname = \"{name}\"\nweft = true\n"));
    let (nodes, links) = (places[1..hops].iter().map(node), places.windows(2).map(link));
    let variants = "[[variant]]\nname = \"static\"\n[[variant]]\nname = \"weft\"\noverlay = true\n";
    let [from, to] = ["n0".to_owned(), format!("n{hops}")];
    let flow = format!("[[flow]]\napp = \"iperf3\"\nfrom = \"{from}\"\nto = \"{to}\"\n");
    ["name = \"chain\"\nduration = \"40 s\"\nwarmup = \"4 s\"\n".to_owned()]
        .into_iter()
        .chain(ends)
        .chain(nodes)
        .chain(links)
        .chain([flow, variants.to_owned()])
        .collect()
}

fn network(text: &str, events: &str) -> NetworkScenario {
    NetworkScenario::parse(&format!("{text}{events}"), "network.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn run_variant(network: &NetworkScenario, name: &str) -> NetworkRun {
    let variant = network.variant(name).unwrap();
    run(network, variant, 1, &Traces::new()).unwrap_or_else(|e| panic!("{e}"))
}

fn event(at_s: f64, link: &str, how: &str, for_s: f64) -> String {
    format!("[[event]]\nat = \"{at_s} s\"\nlink = \"{link}\"\n{how}\nfor = \"{for_s} s\"\n")
}

/// Returns the goodput of all flows in Mbit/s while the disturbance `what` lasted.
fn left_mbps(run: &VariantRun, what: &str) -> f64 {
    let found = run.disturbances.iter().find(|disturbance| disturbance.what == what);
    let found = found.unwrap_or_else(|| panic!("{what}: {:?}", run.disturbances));
    found.flows.iter().map(|flow| flow.goodput_bps).sum::<f64>() / 1e6
}

#[test]
fn a_cut_leaves_what_the_way_over_the_relay_carries() {
    let events = [event(8.0, "direct", "cut = \"both\"", 6.0), event(20.0, "direct", "cut = \"up\"", 5.0)].concat();
    let network = network(DETOUR, &events);
    let [fixed, weft] = ["static", "weft"].map(|name| run_variant(&network, name).run);

    let rows = |run: &VariantRun| -> Vec<(String, f64, f64)> {
        let row = |d: &DisturbanceResult| (d.what.clone(), d.at_s, d.lasted_s);
        run.disturbances.iter().map(row).collect()
    };
    let expected = [("cut, direct", 8.0, 6.0), ("cut, direct up", 20.0, 5.0), ("", 4.0, 15.0)];
    assert_eq!(rows(&weft), expected.map(|(what, at, lasted)| (what.to_owned(), at, lasted)));
    assert_eq!(rows(&fixed), rows(&weft));
    let names: Vec<&str> = weft.disturbances[0].flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["ftp", "http"]);

    for cut in ["cut, direct", "cut, direct up"] {
        // Packets that were in flight at the time of the cut still arrive.
        assert!(left_mbps(&fixed, cut) < 0.1, "{:?}", fixed.disturbances);
        assert!((2.4..4.0).contains(&left_mbps(&weft, cut)), "{:?}", weft.disturbances);
    }
    assert!(left_mbps(&weft, "") > 5.4, "{:?}", weft.disturbances);
}

#[test]
fn an_overlay_without_relays_has_no_route_left() {
    let mut network = network(DETOUR, &event(8.0, "direct", "cut = \"both\"", 6.0));
    network.overlay.tunnels.clear();
    network.overlay.nodes.iter_mut().for_each(|node| node.is_relay = false);
    let weft = run_variant(&network, "weft").run;
    assert!(left_mbps(&weft, "cut, direct") < 0.1, "{:?}", weft.disturbances);
    assert!(left_mbps(&weft, "") > 3.5, "{:?}", weft.disturbances);
}

#[test]
fn repetitions_of_an_event_are_one_row() {
    let events = event(6.0, "direct", "loss = \"30 %\"\nevery = \"5 s\"\nrepeat = 3", 2.0);
    let fixed = run_variant(&network(DETOUR, &events), "static").run;
    let [lossy, quiet] = &fixed.disturbances[..] else { panic!("{:?}", fixed.disturbances) };
    assert_eq!((lossy.what.as_str(), lossy.at_s, lossy.lasted_s), ("loss 30 %, direct, 3 times", 6.0, 6.0));
    assert_eq!((quiet.what.as_str(), quiet.lasted_s), ("", 20.0));
    assert!(left_mbps(&fixed, &lossy.what) < 0.5 * left_mbps(&fixed, ""), "{:?}", fixed.disturbances);
}

/// Returns cuts of random links of the diamond, of random length, one at a time.
fn random_cuts(count: u32, rng: &mut Rng) -> String {
    let cut = |number: u32| {
        let link = ["near-0", "near-1", "far-0", "far-1"][rng.below(4) as usize];
        let way = ["both", "up", "down"][rng.below(3) as usize];
        let [begin, lasts] = [0.3, 1.0].map(|most| most * rng.unit());
        event(5.0 + 1.5 * f64::from(number) + begin, link, &format!("cut = \"{way}\""), 0.1 + lasts)
    };
    (0..count).map(cut).collect()
}

#[test]
fn tcp_and_a_running_download_survive_a_hundred_cuts() {
    let network = network(DIAMOND, &random_cuts(100, &mut Rng::new(1)));
    assert_eq!(network.events.len(), 100);
    let longest_gap_ms = |run: &NetworkRun| {
        let gaps = run.run.flows.iter().map(|flow| flow.longest_gap_ms.unwrap());
        gaps.fold(0.0, f64::max)
    };
    let weft = run_variant(&network, "weft");
    assert_eq!(weft.transfers[1].began.len(), 1, "the download began once");
    assert!(weft.run.flows.iter().all(|flow| flow.goodput_bps.unwrap() > 1e6), "{:?}", weft.run.flows);
    assert!(longest_gap_ms(&weft) < 1_000.0, "{:?}", weft.run.flows);
    // The cuts are effective: without the overlay each of them interrupts both flows.
    assert!(longest_gap_ms(&run_variant(&network, "static")) > 1_000.0);
}

#[test]
fn many_hops_that_each_take_in_a_packet_whole_are_no_queue() {
    let network = network(&chain(8), "");
    let goodput = |name| run_variant(&network, name).run.flows[0].goodput_bps.unwrap() / 1e6;
    let [fixed, weft] = ["static", "weft"].map(goodput);
    assert!(weft > 0.9 * fixed, "static {fixed:.1}, weft {weft:.1} Mbit/s");
}

/// Two hosts and two equal links. The packets of a constant flow use the links in turn by weight.
const TWO_LINKS: &str = r#"
name = "two-links"
duration = "12 s"
warmup = "4 s"

[[node]]
name = "a"
weft = true
[[node]]
name = "b"
weft = true

[[link]]
name = "one"
rate = "10 Mbit/s"
delay = "10 ms"
[[link]]
name = "two"
rate = "10 Mbit/s"
delay = "10 ms"

[[flow]]
app = "cbr"
from = "a"
to = "b"
rate = "4 Mbit/s"
packet-size = "1000 B"

[[variant]]
name = "weft"
overlay = true
schedule = "weighted-round-robin"
"#;

fn only_run(text: &str) -> VariantRun {
    let network = NetworkScenario::parse(text, "f").unwrap_or_else(|e| panic!("{e}"));
    run(&network, &network.variants[0], 1, &Traces::new()).unwrap().run
}

#[test]
fn weights_of_an_event_set_the_links_shares() {
    let share = |run: &VariantRun| {
        let sent = |name: &str| run.links.iter().find(|link| link.name == name && link.direction == "up").unwrap();
        sent("one").sent_bytes / sent("two").sent_bytes
    };
    let even = share(&only_run(TWO_LINKS));
    assert!((even - 1.0).abs() < 0.1, "{even}");
    let event = "[[event]]\nat = \"2 s\"\nweights = { one = 3, two = 1 }\n";
    let uneven = share(&only_run(&format!("{TWO_LINKS}{event}")));
    assert!((uneven / 3.0 - 1.0).abs() < 0.1, "{uneven}");
}

#[test]
fn a_nat_before_a_node_of_a_network_changes_its_port_and_the_flow_goes_on() {
    let behind = |rebind: &str| TWO_LINKS.replace("delay = \"10 ms\"\n", &format!("delay = \"10 ms\"\n{rebind}"));
    let [with, without] = ["rebind = { every = \"2 s\" }\n", ""].map(|rebind| only_run(&behind(rebind)));
    let goodput = |run: &VariantRun| run.flows[0].goodput_bps.unwrap();
    assert!(goodput(&with) > 0.97 * goodput(&without), "{} of {}", goodput(&with), goodput(&without));
    assert_ne!(with.links, without.links, "the mapping changes, so datagrams to the old port vanish");
}
