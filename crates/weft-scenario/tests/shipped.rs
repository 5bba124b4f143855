//! The scenarios that come with the project.

use std::fs;
use std::path::Path;
use weft_scenario::{Capacity, FlowDirection, Kind, Scenario, Sweep};

fn shipped(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(folder);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|e| e == "toml"));
    files.map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect()
}

fn named(name: &str) -> Scenario {
    let all =
        shipped("").into_iter().map(|(file, text)| Scenario::parse(&text, &file).unwrap_or_else(|e| panic!("{e}")));
    all.into_iter().find(|scenario| scenario.name == name).unwrap_or_else(|| panic!("{name} is not there"))
}

#[test]
fn every_scenario_is_accepted_and_named_like_its_file() {
    for (file, text) in shipped("") {
        let scenario = Scenario::parse(&text, &file).unwrap_or_else(|e| panic!("{e}"));
        assert!(file.ends_with(&format!("{}.toml", scenario.name)), "{file}");
        assert!(!scenario.description.is_empty() && !scenario.flows.is_empty(), "{file}");
    }
    for (file, text) in shipped("sweeps") {
        let sweep = Sweep::parse(&text, &file).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(sweep.seeds.len(), 30, "{file}");
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
    assert!(scenario.variants.iter().any(|v| v.kind == Kind::WeftEachLink));
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
