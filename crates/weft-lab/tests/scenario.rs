//! A whole scenario on the real kernel with real applications.
//!
//! The tests need root or user namespaces, and iperf3. Otherwise they are skipped with a reason. They do not
//! depend on the machine's speed.

use std::fs;
use weft_lab::net::Lab;
use weft_lab::{LabError, RunOptions, run};
use weft_report::run_table;
use weft_scenario::{RunResult, Scenario};

const SCENARIO: &str = r#"
name = "short"
duration = "4 s"
warmup = "1 s"
variants = ["each-link", "best-link", "mptcp", "weft"]

[[link]]
name = "wide"
rate = "20 Mbit/s"
delay = "5 ms"

[[link]]
name = "narrow"
rate = "5 Mbit/s"
delay = "10 ms"

[[flow]]
name = "bulk"
app = "iperf3"

[[flow]]
name = "web"
app = "http"
direction = "down"
size = "100 kB"

[[flow]]
name = "sparse"
app = "ping"

[[flow]]
name = "probe"
app = "probe"
interval = "5 ms"

[[event]]
at = "2 s"
link = "narrow"
cut = "both"
for = "500 ms"
"#;

fn scenario() -> Scenario {
    Scenario::parse(SCENARIO, "short.toml").unwrap()
}

#[test]
fn a_scenario_is_run_measured_and_drawn() {
    if let Err(error) = Lab::new() {
        return eprintln!("skipped: {error}");
    }
    let out = std::env::temp_dir().join(format!("lab-scenario-test-{}", std::process::id()));
    let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
    let result = match run(&scenario(), &options) {
        Ok(result) => result,
        Err(LabError::Missing(reason)) => return eprintln!("skipped: {reason}"),
        Err(error) => panic!("{error}"),
    };
    let skipped: Vec<&str> = result.skipped.iter().map(|s| s.name.as_str()).collect();
    assert!(skipped.contains(&"weft"), "there is no weft program here: {skipped:?}");
    if skipped.contains(&"each-link") {
        return eprintln!("skipped: {}", result.skipped[0].reason);
    }
    let variant = |name: &str| result.variants.iter().find(|v| v.name == name).unwrap_or_else(|| panic!("{name}"));
    for name in ["link:wide", "link:narrow", "best-link"] {
        let measured = variant(name);
        assert!(measured.goodput_bps > 0.0 && measured.goodput_bps < result.bound_bps * 1.2, "{name}: {measured:?}");
        assert_eq!(measured.flows.len(), 4);
        assert!(measured.flows.iter().any(|f| f.name == "web" && f.goodput_bps > Some(0.0)), "{measured:?}");
        assert!(measured.flows.iter().any(|f| f.name == "sparse" && f.rtt_ms_p50 >= Some(10.0)), "{measured:?}");
    }
    let of_narrow = &variant("link:narrow").events[0];
    assert_eq!((of_narrow.action.as_str(), of_narrow.count), ("cut", 1));
    let of_wide = variant("link:wide");
    assert!(of_wide.links.iter().all(|link| link.name == "wide" && link.sent_bytes > 0.0), "{of_wide:?}");

    let json = fs::read_to_string(out.join("short.json")).unwrap();
    assert_eq!(serde_json::from_str::<RunResult>(&json).unwrap().variants.len(), result.variants.len());
    assert!(fs::read_to_string(out.join("short.svg")).unwrap().contains("link:narrow"));
    assert!(fs::read_to_string(out.join("short-link-wide-1.csv")).unwrap().contains(",wide.up,bit/s,"));
    assert!(run_table(&result).contains("link:wide"));
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn an_unknown_variant_is_refused_before_anything_is_run() {
    let options = RunOptions { variants: vec!["mptpc".into()], ..RunOptions::default() };
    let error = run(&scenario(), &options).unwrap_err();
    assert!(matches!(error, LabError::Scenario(_)) && error.to_string().contains("did you mean `mptcp`?"), "{error}");
}
