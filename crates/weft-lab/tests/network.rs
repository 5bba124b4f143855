//! A small network on the real kernel: routes, sockets and events.
//!
//! The tests need root or user namespaces. Otherwise they are skipped with a reason.

use weft_lab::net::Lab;
use weft_lab::{LabError, RunOptions, run_network};
use weft_scenario::{NetworkScenario, RunResult};

/// Two hosts with two routes between them. The static route is the first one.
const NETWORK: &str = r#"
name = "two-ways"
duration = "5 s"
warmup = "1 s"

[[node]]
name = "a"

[[node]]
name = "r"
count = 2

[[node]]
name = "b"

[[link]]
between = ["a", "r*"]
rate = "4 Mbit/s"
delay = "5 ms"

[[link]]
between = ["r*", "b"]
rate = "8 Mbit/s"
delay = "5 ms"

[[flow]]
app = "ftp"
from = "a"
to = "b"

[[flow]]
app = "probe"
from = "b"
to = "a"
interval = "5 ms"

[[event]]
at = "3 s"
for = "1 s"
node = "r0"
cut = "both"
"#;

fn run(text: &str) -> Result<RunResult, LabError> {
    let network = NetworkScenario::parse(text, "two-ways.toml").unwrap();
    run_network(&network, &RunOptions::default()).map(|runs| runs.result)
}

#[test]
fn hosts_talk_over_routers_and_a_cut_is_silence() {
    if let Err(error) = Lab::new() {
        return eprintln!("skipped: {error}");
    }
    let result = run(NETWORK).unwrap();
    let variant = &result.variants[0];
    let [ftp, probe] = &variant.flows[..] else { panic!("{variant:#?}") };
    assert!(ftp.goodput_bps.is_some_and(|bps| (1e6..4e6).contains(&bps)), "{ftp:#?}");
    assert!(probe.one_way_ms_p50.is_some_and(|ms| (10.0..100.0).contains(&ms)), "{probe:#?}");
    assert!(probe.longest_gap_ms.is_some_and(|ms| (900.0..3_000.0).contains(&ms)), "{probe:#?}");
    let [cut, quiet] = &variant.disturbances[..] else { panic!("{variant:#?}") };
    assert_eq!((cut.what.as_str(), cut.at_s, cut.lasted_s), ("cut, r0", 3.0, 1.0));
    // The packets in the link at the time of the cut are lost. Packets that had crossed the link may still arrive.
    assert!(cut.flows[0].goodput_bps < 0.4e6 && quiet.flows[0].goodput_bps > 1e6, "{cut:#?} {quiet:#?}");
    let carried = |name: &str| variant.links.iter().filter(|link| link.name == name).map(|link| link.sent_bytes).sum();
    let [used, spare]: [f64; 2] = ["a-r0", "a-r1"].map(carried);
    // The kernel may send a few packets of its own on the spare link.
    assert!(used > 100_000.0 && spare < 1_000.0, "{used} {spare}");
}

#[test]
fn features_of_virtual_time_only_are_refused_by_name() {
    let refused = |text: &str| match run(text) {
        Err(LabError::Scenario(why)) => why,
        other => panic!("{other:?}"),
    };
    if let Err(error) = Lab::new() {
        return eprintln!("skipped: {error}");
    }
    let why = refused(&format!("{NETWORK}\n[[variant]]\nname = \"both\"\nrouting = {{ routes = \"equal-cost\" }}\n"));
    assert!(why.contains("variant `both` needs `routes = \"shortest\"`"), "{why}");
    let why = refused(&format!("{NETWORK}\n[[variant]]\nname = \"old\"\ntcp = {{ initial-window = 20 }}\n"));
    assert!(why.contains("flow `ftp` of variant `old` sets TCP options that the kernel lacks"), "{why}");
    let proxied = NETWORK.replacen("to = \"b\"", "to = \"b\"\nproxies = [\"r0\", \"r1\"]", 1);
    let links = "[[link]]\nbetween = [\"r0\", \"r1\"]\nrate = \"4 Mbit/s\"\n";
    let why = refused(&format!("{proxied}\n{links}[[variant]]\nname = \"split\"\nproxy = {{}}\n"));
    assert!(why.contains("variant `split` has proxies but no overlay"), "{why}");
    let why = refused(&format!("{NETWORK}\n[[variant]]\nname = \"er\"\ntcp = {{ congestion = \"explicit-rate\" }}\n"));
    assert!(why.contains("flow `ftp` of variant `er` has congestion = \"explicit-rate\" without a rate"), "{why}");
    let why = refused(&NETWORK.replace("app = \"probe\"", "app = \"ping\""));
    assert!(why.contains("flow `ping` has an `app` that only the simulator has"), "{why}");
}
