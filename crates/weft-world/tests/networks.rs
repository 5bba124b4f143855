//! Networks of hosts and routers.
//!
//! Flows use the links' capacity, and the same seed always gives the same result.
#![allow(missing_docs)]

use std::path::PathBuf;
use weft_scenario::{NetworkScenario, Traces};
use weft_world::Observers;
use weft_world::network::{NetworkRun, run, run_observed};

/// Two hosts behind a bottleneck of 10 Mbit/s between two routers. Each test adds its flows.
const DUMBBELL: &str = r#"
name = "dumbbell"
duration = "12 s"
warmup = "2 s"
seed = 1

[[node]]
name = "a"
[[node]]
name = "b"
[[node]]
name = "left"
[[node]]
name = "right"

[[link]]
name = "in"
between = ["a", "left"]
rate = "100 Mbit/s"
delay = "1 ms"
[[link]]
name = "middle"
between = ["left", "right"]
rate = "10 Mbit/s"
delay = "10 ms"
queue = "50 packets"
[[link]]
name = "out"
between = ["right", "b"]
rate = "100 Mbit/s"
delay = "1 ms"
"#;

fn dumbbell(more: &str) -> NetworkScenario {
    NetworkScenario::parse(&format!("{DUMBBELL}{more}"), "dumbbell.toml").unwrap()
}

fn run_plain(network: &NetworkScenario, seed: u64) -> NetworkRun {
    run(network, &network.variants[0], seed, &Traces::new()).unwrap()
}

fn flow(app: &str, more: &str) -> String {
    format!("[[flow]]\nname = \"{app}\"\napp = \"{app}\"\nfrom = \"a\"\nto = \"b\"\n{more}\n")
}

#[test]
fn a_bulk_flow_fills_the_bottleneck() {
    let network = dumbbell(&flow("ftp", ""));
    let result = run_plain(&network, 1);
    let share = result.run.goodput_bps / (10e6 * 1_448.0 / 1_500.0);
    assert!((0.97..=1.001).contains(&share), "{share}");
    let middle = result.run.links.iter().find(|l| l.name == "middle" && l.direction == "up").unwrap();
    assert!(middle.utilisation > 0.97 && middle.queue_ms_p95 < 61.0, "{middle:?}");
}

#[test]
fn every_application_gets_through() {
    let flows = [
        flow("http", "size = \"100 kB\""),
        flow("short-flows", "interval = \"200 ms\""),
        flow("request-response", "interval = \"100 ms\""),
        flow("pareto", "peak = \"2 Mbit/s\"\non = \"500 ms\"\noff = \"500 ms\""),
        flow("poisson", "rate = \"200 kbit/s\""),
        flow("cbr", "rate = \"200 kbit/s\""),
        flow("voip", ""),
        flow("ping", ""),
        flow("probe", "interval = \"20 ms\""),
    ];
    let network = dumbbell(&flows.concat());
    let result = run_plain(&network, 1);
    for flow in &result.run.flows {
        match flow.name.as_str() {
            "ping" => assert!(flow.rtt_ms_p50.unwrap() > 24.0, "{flow:?}"),
            _ => assert!(flow.goodput_bps.unwrap() > 5e3, "{flow:?}"),
        }
    }
    let constant = result.run.flows.iter().find(|f| f.name == "cbr").unwrap();
    assert!((constant.goodput_bps.unwrap() / 200e3 - 1.0).abs() < 0.05, "{constant:?}");
}

#[test]
fn two_flows_with_the_same_way_share_it() {
    let network = dumbbell(&flow("ftp", "count = 2\nspread = \"500 ms\""));
    let goodput: Vec<f64> = run_plain(&network, 3).run.flows.iter().filter_map(|f| f.goodput_bps).collect();
    assert!(goodput.iter().sum::<f64>() > 9.3e6 && goodput.iter().all(|bps| *bps > 2e6), "{goodput:?}");
}

#[test]
fn a_cut_stops_everything_until_it_is_over() {
    let event = "[[event]]\nat = \"4 s\"\nlink = \"middle\"\ncut = \"both\"\nfor = \"3 s\"\n";
    let network = dumbbell(&format!("{}{event}", flow("probe", "interval = \"10 ms\"")));
    let result = run_plain(&network, 1);
    let gap_ms = result.run.flows[0].longest_gap_ms.unwrap();
    assert!((3_000.0..3_060.0).contains(&gap_ms), "{gap_ms}");
}

#[test]
fn managed_queues_keep_the_delay_low() {
    let text = format!("{DUMBBELL}{}{}", flow("ftp", ""), flow("ping", ""));
    let p95 = |queue: &str| {
        let text = text.replace("queue = \"50 packets\"", queue);
        let network = NetworkScenario::parse(&text, "dumbbell.toml").unwrap();
        run_plain(&network, 1).run.flows[1].rtt_ms_p95.unwrap()
    };
    let tail = p95("queue = \"100 packets\"");
    for kind in ["red", "codel", "fq-codel"] {
        let managed = p95(&format!("queue = {{ kind = \"{kind}\", limit = \"100 packets\" }}"));
        assert!(managed < 0.75 * tail, "{kind}: {managed} ms against {tail} ms");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let lossy =
        DUMBBELL.replace("queue = \"50 packets\"", "queue = \"50 packets\"\nloss = \"0.5 %\"\njitter = \"2 ms\"");
    let text = format!(
        "{lossy}{}{}",
        flow("ftp", "count = 3\nspread = \"1 s\""),
        flow("pareto", "peak = \"4 Mbit/s\"\non = \"500 ms\"\noff = \"500 ms\"")
    );
    let network = NetworkScenario::parse(&text, "dumbbell.toml").unwrap();
    let observers = Observers {
        captured: vec!["middle".into()],
        traced: Some(network.flows[0].name.clone()),
        ..Observers::default()
    };
    let directory = std::env::temp_dir().join(format!("weft-networks-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let record = |stem: &str, seed| {
        let (run, series) =
            run_observed(&network, &network.variants[0], seed, &Traces::new(), &observers, &directory, stem).unwrap();
        let files = ["csv", "pcapng", "tcp.csv"].map(|ending| {
            let file: PathBuf = directory.join(format!("{stem}.{ending}"));
            std::fs::read(file).unwrap()
        });
        assert!(files.iter().all(|file| file.len() > 10_000) && !series.is_empty());
        (files, serde_json::to_string(&run.run).unwrap())
    };
    let alone = record("alone", 7);
    let beside = std::thread::scope(|scope| {
        let other = scope.spawn(|| record("other", 8));
        let beside = record("beside", 7);
        assert_ne!(other.join().unwrap(), beside);
        beside
    });
    assert_eq!(alone, beside);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// The whole system of paper 001: hosts behind OpenVPN, an overlay that finds its routes, and proxies.
mod chart {
    use super::*;
    use std::time::Duration;
    use weft_scenario::VariantRun;

    const CHART: &str = include_str!("../../../scenarios/chart.toml");

    /// Returns a short run of a variant at the point of the grid with this name.
    fn run_at(point: &str, variant: &str) -> VariantRun {
        let network = NetworkScenario::parse(CHART, "chart.toml").unwrap();
        let mut cell = network.cells().into_iter().find(|cell| cell.name == format!("chart {point}")).unwrap();
        cell.duration = Duration::from_secs(6);
        cell.warmup = Duration::from_secs(4);
        cell.flows.iter_mut().for_each(|flow| flow.stop = cell.duration);
        let variant = cell.variant(variant).unwrap();
        run(&cell, variant, 1, &Traces::new()).unwrap().run
    }

    fn mbps(run: &VariantRun) -> f64 {
        run.goodput_bps / 1e6
    }

    /// Returns the lengths on a link of the packets that are `inner` bytes long at the hosts.
    ///
    /// Only packets in the direction of the data are included.
    fn on_the_wire(run: &VariantRun, link: &str, inner: u32) -> Vec<u32> {
        let of = run.links.iter().filter(|of| of.name == link && of.direction == "up");
        let sizes = of.flat_map(|of| &of.packet_sizes).map(|size| size.bytes);
        sizes.filter(|bytes| (inner..inner + 200).contains(bytes)).collect()
    }

    #[test]
    fn tcp_er_and_proxies_carry_what_plain_tcp_cannot_and_each_encapsulation_is_counted() {
        let point = "724 segments 50 ms 1 %";
        let runs = ["legacy", "tcp-er", "proxied"].map(|variant| run_at(point, variant));
        let [legacy, tcp_er, proxied] = runs.each_ref().map(mbps);
        assert!(tcp_er >= 10.0 * legacy && proxied >= 10.0 * legacy, "{legacy:.2} {tcp_er:.2} {proxied:.2}");
        let [plain, tunnelled, proxied] = runs;
        for link in ["lan-src", "wan-a", "lan-dst"] {
            assert_eq!(on_the_wire(&plain, link, 1_000), [1_000], "{link}");
        }
        for run in [tunnelled, proxied] {
            assert_eq!(on_the_wire(&run, "lan-src", 1_000), [1_052]);
            assert_eq!(on_the_wire(&run, "lan-dst", 1_000), [1_052]);
            // weft adds at most 96 bytes over relays, and some of its numbers have variable lengths.
            let over_relays = ["in-a", "wan-a", "a-out", "wan-b"].map(|link| on_the_wire(&run, link, 1_000));
            let all: Vec<u32> = over_relays.concat();
            assert!(over_relays.iter().any(|sizes| !sizes.is_empty()), "{over_relays:?}");
            assert!(all.iter().all(|bytes| (1_060..=1_096).contains(bytes)), "{over_relays:?}");
        }
    }
}
