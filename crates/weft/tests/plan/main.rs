//! Property: a plan says what a pair of nodes really carries, and refuses what it cannot plan.
//!
//! The test runs on a real kernel, in namespaces of its own. Two links of random rates, delays and losses join the nodes.

#[path = "../common/mod.rs"]
mod common;

use common::flow::TcpFlow;
use common::inside::{Daemon, or_again, run, status, wait_for};
use common::line::{Line, LineSpec};
use common::{Dir, WEFT, stderr, stdout, two_nodes};
use std::net::Ipv4Addr;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

/// Greatest share by which a planned goodput may differ from that of the nodes.
///
/// Typical are 0 to 3 %. The rest is for a busy machine.
const TOLERANCE: f64 = 0.25;
/// Time for which a flow loads the links, so that the nodes learn their rates.
const LEARN: Duration = Duration::from_secs(5);
/// Time for which a flow is measured. It includes its start, as in the plan.
const MEASURE: Duration = Duration::from_secs(10);
/// Addresses of `home` and `hub` in the tunnel.
const ADDRESSES: [(&str, Ipv4Addr); 2] = [("home", Ipv4Addr::new(10, 9, 0, 1)), ("hub", Ipv4Addr::new(10, 9, 0, 2))];

/// Builds `weft-lab` beside `weft`: cargo builds only the programs of the package under test.
///
/// A test run of the whole workspace has built it and sets `WEFT_IS_BUILT`.
fn build_lab() {
    if std::env::var_os("WEFT_IS_BUILT").is_some() {
        return;
    }
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--locked", "-p", "weft-experiments"]);
    if WEFT.contains("/release/") {
        build.arg("--release");
    }
    assert!(build.status().is_ok_and(|status| status.success()), "weft-lab was not built");
}

/// Starts two links with random rates, delays and losses.
fn lines() -> [Line; 2] {
    let mut rng = common::drawn_rng();
    [("link1", 16, 6e6..16e6, 5..20), ("link2", 32, 3e6..8e6, 10..40)].map(|(name, network, rates, delays)| {
        let delay = Duration::from_millis(delays.start + rng.below(delays.end - delays.start));
        let bits_per_s = rates.start + rng.unit() * (rates.end - rates.start);
        let loss = if rng.chance(0.5) { rng.unit() * 0.005 } else { 0.0 };
        println!("{name}: {:.2} Mbit/s, {delay:?} one way, loss {:.2} %", bits_per_s / 1e6, loss * 100.0);
        Line::start(name, network, LineSpec { bits_per_s, delay, loss, queue: Duration::from_millis(100) })
    })
}

/// Returns the goodput of a new flow from one node to the other, in bit/s.
fn goodput(from: usize, time: Duration) -> f64 {
    let (to, address) = ADDRESSES[1 - from];
    TcpFlow::start_cubic(ADDRESSES[from].0, to, address).goodput(|| thread::sleep(time))
}

/// Loads the links from one node to the other.
fn load(from: usize, time: Duration) {
    goodput(from, time);
}

/// Runs `weft plan` for home.
fn plan(dir: &Dir, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "200", WEFT, "plan", "--control"]).arg(dir.path("home.sock"));
    command.args(arguments).output().unwrap()
}

/// Checks that a plan is refused with this status and these words.
fn refused(dir: &Dir, arguments: &[&str], status: i32, words: &[&str]) {
    let out = plan(dir, arguments);
    let text = stderr(&out);
    println!("weft plan {}: {text}", arguments.join(" "));
    assert_eq!(out.status.code(), Some(status), "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn a_plan_says_what_the_links_carry() {
    if std::env::var_os(common::inside::INSIDE).is_none() {
        build_lab();
    }
    or_again("a_plan_says_what_the_links_carry", || {
        assert!(run(Command::new("bash")
            .args(["-euc", "for node in home hub; do ip netns add $node; ip -n $node link set lo up; done"])));
        let _lines = lines();
        let dir = Dir::new();
        two_nodes(&dir, None);
        let _hub = Daemon::start(&dir, "hub");
        wait_for("hub", &dir, || dir.path("hub.sock").exists());
        let _home = Daemon::start(&dir, "home");
        let is_up = || {
            let status = status(&dir, "home");
            let paths = status["peers"][0]["paths"].as_array().cloned().unwrap_or_default();
            paths.iter().filter(|path| path["state"] == "good").count() == 2
        };
        wait_for("home", &dir, || dir.path("home.sock").exists());
        wait_for("two good paths", &dir, is_up);
        refused(&dir, &[], 1, &["link1", "was not measured yet", "--rate"]);
        (0..2).for_each(|from| load(from, LEARN));
        mistakes(&dir);
        compare(&dir);
    });
}

/// Checks that mistakes are refused before anything runs.
fn mistakes(dir: &Dir) {
    refused(dir, &["--without", "link3"], 2, &["no link `link3`", "did you mean `link"]);
    refused(dir, &["--without", "link1,link2"], 2, &["would leave no link"]);
    refused(dir, &["--with", "link9=1 Mbit/s"], 2, &["no link `link9`"]);
    refused(dir, &["--with", "link1=fast"], 2, &["LINK=RATE"]);
    refused(dir, &["--peer", "hob"], 1, &["no peer `hob`; did you mean `hub`?"]);
    refused(dir, &["--sites", "100"], 2, &["--sites"]);
    let own = dir.write("own.json", &status(dir, "home").to_string());
    refused(dir, &["--peer-status", own.to_str().unwrap()], 1, &["the file is not the status of node hub"]);
    // A copy has no weft-lab beside it.
    let (alone, out) = (dir.path("weft"), dir.path("alone.toml"));
    std::fs::copy(WEFT, &alone).unwrap();
    let mut command = Command::new(alone);
    command.env("PATH", "").args(["plan", "--out"]).arg(&out).arg("--control").arg(dir.path("home.sock"));
    let output = command.output().unwrap();
    assert!(stderr(&output).contains("`weft-lab` is not installed") && output.status.code() == Some(1), "{output:?}");
    assert!(out.exists(), "the scenario is kept");
    refused(dir, &["--out", out.to_str().unwrap()], 1, &["alone.toml", "exists"]);
}

/// Compares a plan with what the nodes carry: each way, and without the second link.
fn compare(dir: &Dir) {
    let mut real: Vec<f64> = (0..2).map(|from| goodput(from, MEASURE)).collect();
    let far = dir.write("hub.json", &status(dir, "hub").to_string());
    let kept = dir.path("plan.toml");
    let (far, out) = (far.to_str().unwrap(), kept.to_str().unwrap());
    let output = plan(dir, &["--peer-status", far, "--without", "link2", "--sites", "2", "--out", out, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let drill = ["drill", "link", "link2", "--for", "20s", "--json", "--control"];
    let mut drill = Command::new(WEFT).args(drill).arg(dir.path("home.sock")).spawn().unwrap();
    thread::sleep(Duration::from_secs(1));
    real.push(goodput(0, MEASURE));
    let _ = drill.kill();
    let _ = drill.wait();
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    println!("{report:#}");
    let planned = |answer: usize, key: &str| report["answers"][answer][key].as_f64().unwrap();
    let pairs = [
        ("to the hub", real[0], planned(0, "to_peer_bps")),
        ("from the hub", real[1], planned(0, "from_peer_bps")),
        ("to the hub without link2", real[2], planned(1, "to_peer_bps")),
    ];
    for (what, real, planned) in pairs {
        println!(
            "{what}: {:.2} Mbit/s, planned {:.2} ({:+.1} %)",
            real / 1e6,
            planned / 1e6,
            (planned / real - 1.0) * 100.0
        );
    }
    for (what, real, planned) in pairs {
        assert!((planned / real - 1.0).abs() <= TOLERANCE, "{what}: {real} bit/s, planned {planned}");
    }
    // Three sites share what one site has.
    let shared = planned(2, "to_peer_bps") * 3.0 / planned(0, "to_peer_bps");
    assert!((0.7..1.3).contains(&shared), "three sites together carry {shared} of one");
    assert!(planned(0, "loaded_call_ms_p95") >= 10.0 && planned(0, "longest_gap_ms") >= 20.0);
    assert!(run(Command::new(WEFT).args(["sim", "run", out])), "the kept scenario runs");
}
