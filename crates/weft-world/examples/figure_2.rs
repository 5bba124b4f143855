//! Runs and times the Figure 2 case of paper 000.
//!
//! It prints goodput, packet-hops, and packet-hops per second of one core.
//!
//! `cargo run --release -p weft-world --example figure_2 [PATHS [DIFFERENCE_PERCENT [VARIANT [SEED
//! [SECONDS]]]]]`

use std::time::{Duration, Instant};
use weft_scenario::{NetworkScenario, Traces};
use weft_world::network::run;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.into());
    let number = |text: String| text.parse::<u64>().expect("a number");
    let (paths, difference) = (number(next("5")), number(next("25")) as f64 / 100.0);
    let (variant, seed, seconds) = (next("spray-dup-thresh"), number(next("1")), number(next("100")));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/paper-000-figure-2.toml");
    let text = std::fs::read_to_string(file).expect("the scenario file");
    let mut network = NetworkScenario::parse(&text, file).expect("a good scenario");
    network.duration = Duration::from_secs(seconds);
    network.warmup = Duration::from_secs(seconds.min(100) / 5);
    for path in 0..5 {
        let factor = 1.0 + path as f64 * difference;
        for half in ["in", "out"] {
            network.links_mut(&format!("{half}-{path}")).for_each(|link| link.scale_delay(factor));
        }
    }
    (paths..5).for_each(|path| network.remove_nodes(&format!("m{path}")));
    let variant = network.variant(&variant).expect("a variant of the scenario").clone();
    let began = Instant::now();
    let result = run(&network, &variant, seed, &Traces::new()).expect("a network that can be built");
    let took_s = began.elapsed().as_secs_f64();
    println!(
        "{} paths, difference {difference}, {}: {:.1} Mbit/s; {} hops in {took_s:.2} s: {:.2} million/s; {} segments, {} retransmitted, {} fast, {} timeouts",
        paths,
        variant.name,
        result.run.goodput_bps / 1e6,
        result.packet_hops,
        result.packet_hops as f64 / took_s / 1e6,
        result.sum(|s| s.segments),
        result.sum(|s| s.retransmits),
        result.sum(|s| s.fast_retransmits),
        result.sum(|s| s.timeouts),
    );
}
