//! `weft-lab run` of a network with an overlay.
//!
//! The scenario file is the simulator's, and each node is a daemon.

mod common;

use common::{Scenario, has_lab, stderr, stdout, weft_lab};
use serde_json::Value;

/// A triangle: the direct link, and a route over a relay.
const TRIANGLE: &str = r#"
name = "triangle"
duration = "8 s"
warmup = "2 s"

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
delay = "5 ms"

[[link]]
name = "left"
between = ["a", "relay"]
rate = "6 Mbit/s"
delay = "5 ms"

[[link]]
name = "right"
between = ["relay", "b"]
rate = "6 Mbit/s"
delay = "5 ms"

[[tunnel]]
name = "over"
between = ["a", "b"]
via = ["relay"]

[[flow]]
app = "ftp"
from = "a"
to = "b"

[[event]]
at = "4 s"
for = "2 s"
link = "direct"
cut = "both"

[[variant]]
name = "static"

[[variant]]
name = "weft"
overlay = true
tunnels = ["over"]
"#;

#[test]
fn a_cut_stops_the_static_route_and_not_the_overlay() {
    if !has_lab() {
        return;
    }
    let scenario = Scenario::new(TRIANGLE);
    let out = weft_lab(&["run", scenario.file(), "--json", "--quiet"]);
    let result: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|_| panic!("{}", stderr(&out)));
    let during_the_cut = |variant: usize| {
        let cut = &result["variants"][variant]["disturbances"][0];
        assert_eq!(cut["what"], "cut, direct", "{result}");
        cut["flows"][0]["goodput_bps"].as_f64().unwrap()
    };
    let [plain, weft] = [0, 1].map(during_the_cut);
    assert!(plain < 0.3e6 && weft > 1e6, "{plain} {weft} {result}");
    let alone = result["variants"][1]["disturbances"][1]["flows"][0]["goodput_bps"].as_f64();
    assert!(alone > Some(6e6), "two ways together carry more than one: {result}");
}

/// The paper's whole system at one point of its grid, for some seconds.
fn chart() -> String {
    let text = include_str!("../../../scenarios/chart.toml");
    let changes = [
        ("window = [45, 724] ", "window = [45] "),
        ("delay = [\"0 ms\", \"10 ms\", \"50 ms\", \"100 ms\"]", "delay = [\"50 ms\"]"),
        ("loss = [\"0 %\", \"1 %\", \"2 %\", \"5 %\"]", "loss = [\"1 %\"]"),
        ("duration = \"16 s\"", "duration = \"8 s\""),
        ("warmup = \"6 s\"", "warmup = \"4 s\""),
    ];
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

#[test]
fn openvpn_clients_cross_an_overlay_that_finds_its_routes() {
    if !has_lab() {
        return;
    }
    let scenario = Scenario::new(&chart());
    let run = ["run", scenario.file(), "--json", "--quiet", "--variant", "legacy", "--variant", "proxied"];
    let out = weft_lab(&run);
    let result: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|_| panic!("{}", stderr(&out)));
    if let Some(skipped) = result["skipped"].as_array().and_then(|skipped| skipped.first()) {
        return eprintln!("skipped: {skipped}");
    }
    let bps = |variant: usize| result["variants"][variant]["goodput_bps"].as_f64().unwrap();
    assert!(bps(1) >= 4.0 * bps(0), "plain TCP {}, proxied {}", bps(0), bps(1));
    let links = result["variants"][1]["links"].as_array().unwrap();
    for name in ["lan-src", "lan-dst"] {
        let of = links.iter().find(|link| link["name"] == name && link["direction"] == "up");
        let sizes = of.and_then(|link| link["packet_sizes"].as_array()).unwrap();
        assert!(sizes.iter().any(|size| size["bytes"] == 1_052), "OpenVPN adds 52 bytes: {name}: {sizes:?}");
    }
}
