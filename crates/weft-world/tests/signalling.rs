//! Explicit rates in networks: what routers grant, what becomes of what they booked, and what senders make of it.
#![allow(missing_docs)]

use std::path::PathBuf;
use weft_scenario::{Network, Traces};
use weft_world::network::{NetworkRun, run};

fn scenario(name: &str) -> Network {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    Network::parse(&std::fs::read_to_string(path).unwrap(), name).unwrap()
}

fn play(network: &Network, variant: &str) -> NetworkRun {
    run(network, network.variant(variant).unwrap(), 1, &Traces::new()).unwrap()
}

#[test]
fn explore() {
    for ms in (13000..60000).step_by(4000) {
        let mut network = scenario("paper-001-overlay.toml");
        network.duration = std::time::Duration::from_millis(ms);
        network.warmup = std::time::Duration::from_millis(ms - 200);
        let r = play(&network, "sensed");
        let l = |name: &str| {
            r.run
                .links
                .iter()
                .filter(|l| l.name == name && l.direction == "up")
                .map(|l| format!("{:.2} drop {:.1} q{:.1}", l.utilisation, l.dropped, l.queue_ms_p95))
                .collect::<Vec<_>>()
        };
        eprintln!(
            "{ms} {:?} {:?} {:?} {:?}",
            r.granted_bps.iter().map(|f| f.map(|x| (x / 100000) as u32)).collect::<Vec<_>>(),
            r.run.flows.iter().map(|f| f.goodput_bps.map(|x| (x / 1e5) as u32)).collect::<Vec<_>>(),
            l("legacy"),
            l("overlay")
        );
    }
}
