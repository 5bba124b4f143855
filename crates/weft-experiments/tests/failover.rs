//! Property: after a silent cut in the diamond, probes find another route.
//!
//! This holds for weft and, where FRR is installed, for OSPF with BFD.
//!
//! This test does not judge the duration of the gap, which `weft-lab failover` measures on a quiet machine.

mod common;

use common::{has_lab, stderr, stdout, weft_lab};
use serde_json::Value;

#[test]
fn probes_find_another_way_with_weft_and_with_ospf() {
    if !has_lab() {
        return;
    }
    let contenders = ["--only", "weft", "--only", "ospf-bfd"];
    let brief = ["--repeat", "1", "--count", "1", "--json", "--quiet"];
    let out = weft_lab(&[&["failover"], &contenders[..], &brief[..]].concat());
    let result: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|_| panic!("{}", stderr(&out)));
    for skipped in result["skipped"].as_array().unwrap() {
        assert_eq!(skipped["name"], "ospf-bfd", "{skipped}");
        eprintln!("skipped: {}", skipped["reason"]);
    }
    for series in result["series"].as_array().unwrap() {
        let gap = series["cuts"][0]["gap_ms"].as_f64();
        // Lower bound: a link's delay and one probe. Upper bound: more than both routings need on a busy machine.
        assert!(gap.is_some_and(|gap| (2.0..10_000.0).contains(&gap)), "{series}");
        assert!(series["failure"].is_null() && series["idle_bps"].as_f64() > Some(0.0), "{series}");
    }
    assert_eq!(result["series"][0]["name"], "weft", "{result}");
    assert_eq!(result["series"][0]["detection"], "no timers to set");
}

#[test]
fn an_unknown_contender_is_refused() {
    let out = weft_lab(&["failover", "--only", "rip"]);
    assert!(out.status.code() == Some(1) && stderr(&out).contains("there is no contender `rip`"), "{}", stderr(&out));
}

#[test]
fn a_cut_after_a_restart_is_survived_too() {
    if !has_lab() {
        return;
    }
    let brief = ["--only", "weft", "--repeat", "1", "--count", "1", "--json", "--quiet"];
    let out = weft_lab(&[&["failover", "--restart", "--interval", "20ms"], &brief[..]].concat());
    let result: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|_| panic!("{}", stderr(&out)));
    let series = &result["series"][0];
    assert!(result["restart"] == true && result["interval_ms"] == 20.0, "{result}");
    assert!(series["failure"].is_null() && series["cuts"][0]["gap_ms"].as_f64() < Some(10_000.0), "{series}");
}
