//! Tests that the scenarios of the project and the examples of their README are valid.

use std::fs;
use std::path::Path;
use std::time::Duration;
use weft_scenario::{
    AnyScenario, Capacity, DupThresh, FlowDirection, NetworkScenario, QueueSize, RouteSet, Scenario, Sweep, Traffic,
    VariantKind,
};
use weft_units::Rate;

fn shipped(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(folder);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|e| e == "toml"));
    files.map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect()
}

fn named(name: &str) -> Scenario {
    let (file, text) = file(name);
    Scenario::parse(&text, &file).unwrap_or_else(|e| panic!("{e}"))
}

fn network(name: &str) -> NetworkScenario {
    let (file, text) = file(name);
    NetworkScenario::parse(&text, &file).unwrap_or_else(|e| panic!("{e}"))
}

fn file(name: &str) -> (String, String) {
    let found = shipped("").into_iter().find(|(file, _)| file.ends_with(&format!("/{name}.toml")));
    found.unwrap_or_else(|| panic!("{name} is not there"))
}

#[test]
fn every_scenario_is_accepted_and_named_like_its_file() {
    for (file, text) in shipped("") {
        let scenario = AnyScenario::parse(&text, &file).unwrap_or_else(|e| panic!("{e}"));
        let (name, description, flows) = match scenario {
            AnyScenario::Pair(pair) => (pair.name, pair.description, pair.flows.len()),
            AnyScenario::Network(network) => (network.name, network.description, network.flows.len()),
        };
        assert!(file.ends_with(&format!("/{name}.toml")), "{file}");
        assert!(!description.is_empty() && flows > 0, "{file}");
    }
    for (file, text) in shipped("sweeps") {
        let sweep = Sweep::parse(&text, &file).unwrap_or_else(|e| panic!("{e}"));
        assert!(sweep.seeds.len() >= 30, "{file}");
        assert!(file.ends_with(&format!("/{}.toml", sweep.name)), "{file}");
    }
}

#[test]
fn bounds_are_those_of_the_papers() {
    for (name, mbps) in
        [("home-office", 100.0), ("paper-002-heterogeneous", 18.0), ("paper-002-access", 225.0), ("clean-links", 225.0)]
    {
        let bound = named(name).constant_rate_bound_bps(FlowDirection::Up);
        assert!((bound / 1e6 - mbps * 1448.0 / 1500.0).abs() < 0.01, "{name}: {bound}");
    }
}

#[test]
fn table_one_has_its_ten_rows_and_each_link_alone() {
    let scenario = named("paper-002-table1");
    let rows = scenario
        .variants
        .iter()
        .filter_map(|v| Some(v.weights()?.iter().map(|(_, w)| *w).collect::<Vec<_>>()))
        .collect::<Vec<_>>();
    assert_eq!(rows.len(), 10);
    assert_eq!((&rows[0], &rows[9]), (&vec![2, 2, 2], &vec![3, 4, 4]));
    assert!(scenario.variants.iter().any(|v| v.kind == VariantKind::WeftEachLink));
}

#[test]
fn cuts_come_twenty_times_each_way_and_cellular_has_two_traces() {
    let cuts = named("cut-and-restore");
    for group in 0..3 {
        assert_eq!(cuts.events.iter().filter(|event| event.group == group).count(), 20);
    }
    let traced = |link: &&weft_scenario::Link| matches!(link.up.capacity, Capacity::Trace(_));
    assert_eq!(named("cellular").links.iter().filter(traced).count(), 2);
}

#[test]
fn paper_000_has_its_flows_and_its_background() {
    for name in ["paper-000-figure-2", "paper-000-figure-6", "paper-000-figure-7"] {
        let network = network(name);
        let ftp: Vec<_> = network.flows.iter().filter(|flow| flow.traffic.is_tcp()).collect();
        assert_eq!(ftp.len(), 100, "{name}");
        assert!(ftp.iter().all(|flow| (flow.tcp.mss_bytes, flow.tcp.window_segments) == (512, 100)), "{name}");
        assert_eq!(network.flows.len() - ftp.len(), 10, "{name}");
        let queues = network.links.iter().map(|link| link.up.queue);
        assert!(queues.into_iter().all(|queue| queue == QueueSize::Packets(100)), "{name}");
        let single = network.variant("single").unwrap();
        assert_eq!(single.tcp_of(ftp[0]).dup_thresh, DupThresh::Fixed(3), "{name}");
        let raised = network.variants.iter().find(|variant| variant.tcp_of(ftp[0]).dup_thresh == DupThresh::Paths);
        assert_eq!(raised.unwrap().routing.routes, RouteSet::EqualCost, "{name}");
    }
}

#[test]
fn figure_2_takes_other_numbers_of_paths_and_delay_differences() {
    let mut network = network("paper-000-figure-2");
    network.remove_nodes("m3");
    network.remove_nodes("m4");
    for path in 0..3 {
        let factor = 1.0 + 0.25 * f64::from(path);
        network
            .links_mut(&format!("*-{path}"))
            .filter(|link| !link.name.starts_with("access"))
            .for_each(|link| link.scale_delay(factor));
    }
    let delay = |name: &str| network.link(name).unwrap().up.delay;
    assert_eq!((delay("in-2"), delay("out-1")), (Duration::from_millis(15), Duration::from_micros(12_500)));
    assert_eq!((delay("access-s-2"), network.link("in-3")), (Duration::from_millis(1), None));
}

#[test]
fn figure_7_has_its_loads() {
    let mut network = network("paper-000-figure-7");
    network.flows_mut("pareto-*").for_each(|flow| flow.set_peak(Rate::from_mbps(70)));
    let is_congested = |flow: &&weft_scenario::NetworkFlow| matches!(flow.traffic, Traffic::Pareto { peak, .. } if peak == Rate::from_mbps(70));
    assert_eq!(network.flows.iter().filter(is_congested).count(), 10);
}

/// The scenario to which the TOML examples of the README refer.
const README_BASE: &str = r#"
name = "base"
duration = "100 s"
[[node]]
name = "s"
count = 10
[[node]]
name = "d"
count = 10
[[node]]
name = "r"
count = 4
[[link]]
name = "access-s"
between = ["s*", "r0"]
rate = "1 Mbit/s"
[[link]]
between = ["r1", "d*"]
rate = "1 Mbit/s"
[[link]]
between = ["r0", "r2"]
rate = "1 Mbit/s"
[[link]]
between = ["r2", "r3"]
rate = "1 Mbit/s"
[[link]]
between = ["r3", "r1"]
rate = "1 Mbit/s"
"#;

/// Returns the TOML examples of the README, in order.
fn readme_pieces() -> Vec<String> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/README.md")).unwrap();
    readme.split("```toml\n").skip(1).filter_map(|text| text.split("```").next()).map(str::to_owned).collect()
}

#[test]
fn the_impairments_of_the_readme_are_accepted() {
    let base = file("demo").1;
    let (before, after) = base.split_once("name = \"fibre\"\n").unwrap();
    let pieces = readme_pieces();
    let impairments = pieces.iter().find(|piece| piece.starts_with("jitter")).unwrap();
    for line in impairments.lines() {
        let text = format!("{before}name = \"fibre\"\n{line}\n{after}");
        Scenario::parse(&text, "README").map(drop).unwrap_or_else(|e| panic!("{e}\n{line}"));
        let text = format!("{README_BASE}\n[[link]]\nbetween = [\"r0\", \"r1\"]\nrate = \"1 Mbit/s\"\n{line}");
        NetworkScenario::parse(&text, "README").map(drop).unwrap_or_else(|e| panic!("{e}\n{line}"));
    }
    assert!(impairments.lines().count() >= 14);
}

#[test]
fn the_examples_of_the_readme_are_accepted() {
    let mut pieces = readme_pieces();
    pieces.retain(|piece| !piece.starts_with("jitter"));
    let demo = file("demo").1;
    let [whole, pieces @ ..] = &pieces[..] else { panic!("no example") };
    let accepted =
        |text: &str| NetworkScenario::parse(text, "README").map(drop).unwrap_or_else(|e| panic!("{e}\n{text}"));
    accepted(whole);
    for piece in pieces {
        if piece.starts_with("queue") {
            let link =
                |queue| format!("{README_BASE}\n[[link]]\nbetween = [\"r0\", \"r1\"]\nrate = \"1 Mbit/s\"\n{queue}");
            piece.lines().for_each(|queue| accepted(&link(queue)));
            let (before, after) = demo.split_once("name = \"fibre\"\n").unwrap();
            let pair = |queue| format!("{before}name = \"fibre\"\n{queue}\n{after}");
            piece.lines().for_each(|queue| drop(Scenario::parse(&pair(queue), "README").unwrap()));
        } else {
            accepted(&format!("{README_BASE}\n{piece}"));
        }
    }
    assert!(pieces.len() >= 10, "{}", pieces.len());
}
