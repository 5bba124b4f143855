//! VPNs and loops in networks.
//!
//! The tests check that rates follow weights, that queues stand at the edge, and that loops survive lost markers.
#![allow(missing_docs)]

use std::time::Duration;
use weft_core::fair::index;
use weft_scenario::{
    Action, ControlLaw, Directions, Discipline, EventTarget, IngressChange, Markers, NetworkScenario, NetworkVariant,
    QueueSize, ShareChange, TimedEvent, Traces,
};
use weft_world::network::{NetworkRun, run};

const FAIR_VPNS: &str = include_str!("../../../scenarios/fair-vpns.toml");

fn fair_vpns() -> NetworkScenario {
    NetworkScenario::parse(FAIR_VPNS, "fair-vpns.toml").unwrap()
}

fn variant<'a>(network: &'a NetworkScenario, name: &str) -> &'a NetworkVariant {
    network.variant(name).unwrap()
}

fn run_seed(network: &NetworkScenario, variant: &NetworkVariant, seed: u64) -> NetworkRun {
    run(network, variant, seed, &Traces::new()).unwrap()
}

/// Returns the weighted fairness index of the upward loops between two times, in units of 0.1 s.
fn fairness(network: &NetworkScenario, run: &NetworkRun, from: usize, to: usize) -> f64 {
    fairness_by(|vpn| network.vpns[vpn].weight, network, run, from, to)
}

/// Like [`fairness`], with other weights.
fn fairness_by(
    weight: impl Fn(usize) -> f64,
    network: &NetworkScenario,
    run: &NetworkRun,
    from: usize,
    to: usize,
) -> f64 {
    let up = || run.loops.iter().filter(|this| this.which.is_up);
    let rate = |by_tick: &[u32]| by_tick.iter().take(to).skip(from).map(|bytes| f64::from(*bytes)).sum::<f64>();
    let rates: Vec<f64> = up().map(|this| rate(&this.by_tick)).collect();
    let weights: Vec<f64> = up().map(|this| weight(this.which.vpn as usize)).collect();
    assert_eq!(rates.len(), network.vpns.len());
    index(&rates, &weights)
}

#[test]
fn eight_vpns_share_by_weight_within_ten_seconds_and_two_after_a_step() {
    let network = fair_vpns();
    let of = |name: &str| run_seed(&network, variant(&network, name), 1);
    let without = fairness(&network, &of("without"), 100, 120);
    assert!(without < 0.5, "{without}");
    // Explicit rates leave a twentieth of the link free.
    for (name, full) in [("aimd-window", 0.97), ("accumulation", 0.97), ("explicit-rate", 0.9)] {
        let run = of(name);
        let (before, after) = (fairness(&network, &run, 100, 120), fairness(&network, &run, 270, 290));
        let core = run.run.links.iter().find(|link| link.name == "core" && link.direction == "up").unwrap();
        assert!((full..=1.0).contains(&core.utilisation), "{name}: utilisation {} over both rates", core.utilisation);
        assert!(before >= 0.98 && after >= 0.98, "{name}: F {before:.4}, after the step {after:.4}");
        let up = run.run.vpns.iter().filter(|vpn| vpn.from == "west");
        assert!(up.clone().all(|vpn| vpn.rate_bps.is_some() && vpn.rtt_ms.is_some_and(|rtt| rtt > 20.0)));
        assert!((up.map(|vpn| vpn.share).sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

/// Two VPNs swap their weights in the middle of the run.
#[test]
fn shares_follow_the_weights_that_events_set() {
    let mut network = fair_vpns();
    let (light, heavy) = (0, network.vpns.len() - 1);
    let given = |vpn: usize| network.vpns[vpn].weight;
    let exchanged = |vpn| {
        given(if vpn == light {
            heavy
        } else if vpn == heavy {
            light
        } else {
            vpn
        })
    };
    let change = |vpn| TimedEvent {
        group: 0,
        at: Duration::from_secs(15),
        lasting: None,
        target: EventTarget::Weft,
        directions: Directions::Both,
        action: Action::Share(ShareChange { vpn, weight: Some(exchanged(vpn) as u32), service: None }),
    };
    network.events = vec![change(light), change(heavy)];
    for name in ["aimd-window", "accumulation", "explicit-rate"] {
        let run = run_seed(&network, variant(&network, name), 1);
        let before = fairness(&network, &run, 100, 120);
        let after = fairness_by(exchanged, &network, &run, 270, 290);
        assert!(before >= 0.98 && after >= 0.98, "{name}: F {before:.4}, after the exchange {after:.4}");
        let last = run.run.vpns.iter().find(|vpn| vpn.name == network.vpns[light].name).unwrap();
        assert_eq!(last.weight, exchanged(light), "{name}");
    }
}

#[test]
fn the_queue_stands_at_the_edge_and_the_link_is_full() {
    let mut network = fair_vpns();
    network.events.clear();
    let core = network.links.iter().position(|link| link.name == "core").unwrap();
    network.links_mut("core").for_each(|link| link.set_queue(QueueSize::Packets(250), Discipline::DropTail));
    let of = |name: &str| run_seed(&network, variant(&network, name), 1).run.links[2 * core].clone();
    let (without, with) = (of("without"), of("accumulation"));
    assert!(with.queue_ms_p95 < 0.1 * without.queue_ms_p95, "{} of {} ms", with.queue_ms_p95, without.queue_ms_p95);
    assert!(with.utilisation >= 0.97 && with.lost == 0.0, "{with:?}");
}

#[test]
fn edges_without_loops_change_nothing() {
    let network = fair_vpns();
    let mut bare = network.clone();
    bare.edges.clear();
    bare.vpns.clear();
    let [with, without] = [&network, &bare].map(|network| run_seed(network, variant(network, "without"), 3).run);
    assert_eq!((with.flows, with.links), (without.flows, without.links));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let network = fair_vpns();
    for name in ["aimd-window", "accumulation", "explicit-rate"] {
        let of = |seed| serde_json::to_string(&run_seed(&network, variant(&network, name), seed).run).unwrap();
        let once = of(5);
        assert_eq!(once, of(5));
        assert_ne!(once, of(6));
    }
}

/// Checks that loops survive the loss of markers and reports: they slow down, and no VPN stops.
#[test]
fn loops_outlive_the_loss_of_markers_and_reports() {
    let mut network = fair_vpns();
    network.events.clear();
    for direction in network.links_mut("core").flat_map(|link| link.directions_mut()) {
        direction.loss = 0.02;
    }
    for law in [ControlLaw::AimdWindow, ControlLaw::Accumulation, ControlLaw::ExplicitRate] {
        for markers in [Markers::Carried, Markers::Packets] {
            let ingress = IngressChange { law: Some(law), markers: Some(markers), ..IngressChange::default() };
            let changed = NetworkVariant { ingress, ..variant(&network, "aimd-window").clone() };
            let run = run_seed(&network, &changed, 1);
            for vpn in run.run.vpns.iter().filter(|vpn| vpn.from == "west") {
                assert!(vpn.goodput_bps > 50e3, "{law:?}, {markers:?}: {vpn:?}");
            }
        }
    }
}
