//! Explicit rates in networks: rates that routers grant and reserve, and their effect on senders.
#![allow(missing_docs)]

use std::path::PathBuf;
use std::time::Duration;
use weft_core::fair::solve::max_min;
use weft_scenario::{NetworkScenario, Traces, Traffic};
use weft_world::network::{NetworkRun, run};

fn scenario(name: &str) -> NetworkScenario {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    NetworkScenario::parse(&std::fs::read_to_string(path).unwrap(), name).unwrap()
}

fn play(network: &NetworkScenario, variant: &str) -> NetworkRun {
    run(network, network.variant(variant).unwrap(), 1, &Traces::new()).unwrap()
}

fn booked_mbps(run: &NetworkRun) -> Vec<u64> {
    run.booked_bps.iter().skip(1).map(|[up, _]| up / 1_000_000).collect()
}

#[test]
fn the_least_of_three_routers_is_granted_and_the_rest_is_released() {
    let network = scenario("paper-001-figure-2.toml");
    for (variant, booked) in [("available", 0), ("guaranteed", 16), ("meddled", 16)] {
        let run = play(&network, variant);
        assert_eq!(run.granted_bps[0], Some(32_000_000), "{variant}");
        assert_eq!(booked_mbps(&run), [booked; 3], "{variant}");
    }
    assert_eq!(play(&network, "legacy-router").granted_bps[0], None, "one that takes no part shows");
}

#[test]
fn grants_without_signals_expire() {
    let mut network = scenario("paper-001-figure-2.toml");
    network.flows_mut("bulk").for_each(|flow| flow.stop = Duration::from_secs(5));
    for (seconds, booked) in [(20, 16), (45, 0)] {
        network.duration = Duration::from_secs(seconds);
        network.flows_mut("ping").for_each(|flow| flow.stop = Duration::from_secs(seconds));
        assert_eq!(booked_mbps(&play(&network, "guaranteed")), [booked; 3], "{seconds} s");
    }
}

/// Transfers 2 MB with 16 Mbit/s guaranteed.
///
/// Returns the number of completed transfers, and the rates that the routers have reserved after `milliseconds`.
fn booked_after_a_transfer(milliseconds: u64) -> (u64, Vec<u64>) {
    let mut network = scenario("paper-001-figure-2.toml");
    network.duration = Duration::from_millis(milliseconds);
    network.warmup = Duration::ZERO;
    for flow in &mut network.flows {
        flow.stop = network.duration;
    }
    network.flows_mut("bulk").for_each(|flow| flow.traffic = Traffic::Ftp { size_bytes: Some(2_000_000) });
    let run = play(&network, "guaranteed");
    (run.transfers.iter().map(|sum| sum.completed).sum(), booked_mbps(&run))
}

#[test]
fn a_transfer_that_ends_releases_within_a_round_trip() {
    // The handshake takes 62 ms, and the data half a second at 32 Mbit/s.
    let (_, during) = booked_after_a_transfer(400);
    assert_eq!(during, [16; 3]);
    let (completed, after) = booked_after_a_transfer(750);
    assert_eq!((completed, after), (1, vec![0; 3]));
}

/// Asserts that each flow's granted rate is near its fair rate, within the fraction `within`.
fn assert_near(run: &NetworkRun, fair: &[f64], within: f64, what: &str) {
    for (granted, fair) in run.granted_bps.iter().zip(fair) {
        let granted = granted.unwrap() as f64;
        assert!((granted / fair - 1.0).abs() < within, "{what}: {granted} of {fair}, {:?}", run.granted_bps);
    }
}

#[test]
fn four_flows_over_three_links_have_what_is_max_min() {
    let fair = max_min(&[40e6, 30e6, 60e6], &[&[0, 1, 2], &[0], &[1], &[2]], &[1.0; 4]);
    let network = scenario("paper-001-max-min.toml");
    for variant in ["left-alone", "meddled", "erica"] {
        assert_near(&play(&network, variant), &fair, 0.1, variant);
    }
}

#[test]
fn an_overlay_grants_what_is_max_min_and_over_a_legacy_path_what_others_leave_of_it() {
    let network = scenario("paper-001-overlay.toml");
    let fair = max_min(&[30e6, 40e6], &[&[0, 1], &[0], &[1]], &[1.0; 3]);
    for variant in ["all", "sensed", "erica-all", "erica-sensed"] {
        assert_near(&play(&network, variant), &fair, 0.15, variant);
    }
}

#[test]
fn a_connection_starts_at_the_overlays_grant_and_slowly_over_a_legacy_router() {
    let network = scenario("paper-001-quick-start.toml");
    let took = |run: &NetworkRun| {
        let first = run.transfers.first().unwrap();
        assert_eq!(first.completed, 1);
        first.total_s
    };
    let slowly = play(&network, "slow-start");
    for variant in ["all", "sensed"] {
        let run = play(&network, variant);
        let granted = [0, 1].map(|flow| run.quick_start_bps[flow].unwrap_or(0));
        assert_eq!(granted[0], 20_480_000, "{variant}: half of what is left, but for less than a factor of two");
        assert!((640_000..=5_120_000).contains(&granted[1]), "{variant}: {granted:?}, that was counted");
        assert!(took(&run) < 0.75 * took(&slowly), "{variant}: {} s, {} by slow start", took(&run), took(&slowly));
    }
    let deaf = play(&network, "deaf");
    assert_eq!(deaf.quick_start_bps, slowly.quick_start_bps, "none");
    assert!((took(&deaf) / took(&slowly) - 1.0).abs() < 0.01, "{} and {} s", took(&deaf), took(&slowly));
}

/// A path of 50 Mbit/s and 50 ms with 1 % loss, and a proxy host at each side of it.
const LOSSY: &str = r#"
name = "lossy"
duration = "20 s"
warmup = "5 s"

[[node]]
name = "s"
[[node]]
name = "p"
count = 2
[[node]]
name = "d"

[[link]]
name = "in"
between = ["s", "p0"]
rate = "1 Gbit/s"
delay = "1 ms"
[[link]]
name = "middle"
between = ["p0", "p1"]
rate = "50 Mbit/s"
delay = "50 ms"
loss = "1 %"
[[link]]
name = "out"
between = ["p1", "d"]
rate = "1 Gbit/s"
delay = "1 ms"

[[flow]]
name = "bulk"
app = "ftp"
from = "s"
to = "d"
proxies = ["p0", "p1"]

[[variant]]
name = "cubic"
[[variant]]
name = "explicit"
tcp = { congestion = "explicit-rate", explicit-rate = "48 Mbit/s" }
[[variant]]
name = "proxied"
proxy = { congestion = "explicit-rate", explicit-rate = "48 Mbit/s" }
"#;

#[test]
fn a_plain_sender_through_two_proxies_has_what_an_explicit_rate_has() {
    let network = NetworkScenario::parse(LOSSY, "lossy.toml").unwrap();
    let [cubic, explicit, proxied] = ["cubic", "explicit", "proxied"].map(|name| play(&network, name).run.goodput_bps);
    assert!(proxied > 0.95 * explicit && explicit > 0.8 * 48e6, "{proxied} and {explicit}");
    assert!(cubic < 0.2 * explicit, "{cubic}");
}
