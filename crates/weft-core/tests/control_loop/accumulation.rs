//! Reproduces paper 004's results on the packet-level model.

use crate::network::{Flow, Link, Network};
use crate::{at, figure, ms};
use std::sync::Arc;
use weft_core::control_loop::LoopConfig;
use weft_core::control_loop::accumulation::{AccumulationConfig, AccumulationMeasure};
use weft_core::service::{Service, Share};
use weft_units::{Duration, Instant, Rate};

/// Returns the paper's parameters (§7), with τ = T = `tau`.
pub fn paper(tau: Duration) -> AccumulationConfig {
    AccumulationConfig {
        packet_bytes: 1_000,
        burst_bytes: 1_000,
        tau: Some(tau),
        resolution: Duration::ZERO,
        startup: false,
        ..AccumulationConfig::default()
    }
}

pub fn law(config: AccumulationConfig) -> LoopConfig {
    LoopConfig::Accumulation(Arc::new(config))
}

fn weight(weight: f64) -> Share {
    Share::new(weight, Service::BestEffort).unwrap()
}

/// Returns M bottlenecks with `cross` flows at each, and one long flow, number 0 (E1).
fn linear(m: usize, mbps: f64, config: AccumulationConfig, tau_of: impl Fn(usize) -> Duration) -> Network {
    let (hop, cross) = (ms(4), 4);
    let links = vec![Link::new(mbps, hop, 10_000); m];
    let all: Vec<usize> = (0..m).collect();
    let flow = |route: &[usize]| {
        let config = AccumulationConfig { tau: Some(tau_of(route.len())), ..config };
        Flow::greedy(law(config), route, hop * route.len() as u32)
    };
    let mut flows = vec![flow(&all)];
    flows.extend((0..m * cross).map(|i| flow(&[i / cross])));
    Network::new(links, flows, 1)
}

#[test]
fn e1_the_long_flow_lies_between_proportional_and_min_potential_delay() {
    for m in [1usize, 2, 4] {
        let tau = ms(8 * m as u64 + 4);
        let mut network = linear(m, 50.0, AccumulationConfig { startup: true, ..paper(tau) }, |_| tau);
        network.run_until(at(10.0));
        network.reset();
        network.run_until(at(25.0));
        let long = network.rate(0) / 1e6;
        let proportional = 50.0 / (1.0 + 4.0 * m as f64);
        let min_potential_delay = 50.0 / (1.0 + 4.0 * (m as f64).sqrt());
        let peak = network.links.iter().map(|l| l.peak_packets).max().unwrap_or(0);
        let least = network.links.iter().map(|l| l.utilisation(network.now)).fold(1.0, f64::min);
        figure!(
            "E1 M={m}: long {long:.2}, PF {proportional:.2}, MPD {min_potential_delay:.2}; E2: peak queue {peak}, utilisation {least:.3}"
        );
        assert!(long >= proportional * 0.93 && long <= min_potential_delay * 1.05, "M={m}: {long:.2}");
        assert!(least > 0.97 && peak < 40, "utilisation {least}, {peak} packets");
        assert!(network.links.iter().all(|l| l.dropped == 0));
    }
}

/// Returns the paper's parameters with the paper's measure.
fn counted(tau: Duration) -> AccumulationConfig {
    AccumulationConfig { measure: AccumulationMeasure::Counted, ..paper(tau) }
}

#[test]
fn counted_loops_fill_a_bottleneck_and_keep_its_queue_short() {
    let tau = ms(40);
    for loops in [1usize, 2, 5] {
        let flows = vec![Flow::greedy(law(counted(tau)), &[0], ms(20)); loops];
        let mut network = Network::new(vec![Link::new(20.0, ms(10), 10_000)], flows, 7);
        network.run_until(at(20.0));
        network.reset();
        network.run_until(at(60.0));
        let (link, rates) = (&network.links[0], network.rates());
        let used = link.utilisation(network.now);
        let [least, most] = [f64::min, f64::max].map(|of| rates.iter().copied().reduce(of).unwrap_or(0.0));
        figure!("counted, {loops} loops: utilisation {used:.3}, peak {} packets, {rates:.0?}", link.peak_packets);
        assert!(used > 0.93 && link.dropped == 0, "{loops} loops: utilisation {used:.3}");
        assert!(link.peak_packets < 12 * loops + 8, "{loops} loops: {} packets", link.peak_packets);
        assert!(most < 1.3 * least, "{rates:?}");
    }
}

#[test]
fn a_counted_loop_that_starts_into_a_queue_finds_its_base() {
    let tau = ms(40);
    let first = Flow::greedy(law(AccumulationConfig { initial: Rate::from_mbps(22), ..counted(tau) }), &[0], ms(20));
    let mut late = Flow::greedy(law(AccumulationConfig { initial: Rate::from_mbps(2), ..counted(tau) }), &[0], ms(20));
    late.busy = vec![(at(1.0), Instant::FAR_FUTURE)];
    let mut network = Network::new(vec![Link::new(20.0, ms(10), 10_000)], vec![first, late], 5);
    network.run_until(at(40.0));
    network.reset();
    network.run_until(at(80.0));
    let rates = network.rates();
    figure!("counted, started into a queue: {rates:.0?}, peak {} packets", network.links[0].peak_packets);
    assert!(rates.iter().all(|rate| *rate > 7.5e6), "{rates:?}");
    assert!(network.links[0].peak_packets < 40, "{}", network.links[0].peak_packets);
}

#[test]
fn e13_shares_follow_the_weights() {
    let tau = ms(40);
    let config = AccumulationConfig { increase_packets: 0.5, ..paper(tau) };
    let weights = [1.0, 2.0, 4.0];
    let flows = weights.map(|w| Flow::greedy(law(config), &[0], ms(20)).with_share(weight(w)));
    let mut network = Network::new(vec![Link::new(20.0, ms(10), 10_000)], flows.to_vec(), 2);
    network.run_until(at(40.0));
    network.reset();
    network.run_until(at(80.0));
    let rates = network.rates();
    let total: f64 = rates.iter().sum();
    figure!(
        "E13: {:?} of {:.2}, F {:.4}",
        rates.iter().map(|r| r / total * 7.0).collect::<Vec<_>>(),
        total / 1e6,
        weft_core::fair::index(&rates, &weights)
    );
    for (rate, weight) in rates.iter().zip(weights) {
        assert!((rate / total * 7.0 / weight - 1.0).abs() < 0.1, "{rates:?}");
    }
    assert_eq!(network.links[0].dropped, 0);
    assert!(network.links[0].utilisation(network.now) > 0.95);
}

#[test]
fn e6_an_assured_rate_and_half_of_the_rest() {
    let config = AccumulationConfig { increase_packets: 0.25, ..paper(ms(40)) };
    let assured = Share::new(1.0, Service::Assured { rate: Rate::from_mbps(4), gamma: 0.98 }).unwrap();
    let flows =
        vec![Flow::greedy(law(config), &[0], ms(20)).with_share(assured), Flow::greedy(law(config), &[0], ms(20))];
    let mut network = Network::new(vec![Link::new(10.0, ms(10), 10_000)], flows, 3);
    network.run_until(at(60.0));
    network.reset();
    network.run_until(at(160.0));
    figure!("E6: {:.2} and {:.2} Mbit/s", network.rate(0) / 1e6, network.rate(1) / 1e6);
    assert!((network.rate(0) / 1e6 - 7.0).abs() <= 0.35, "{:?}", network.rates());
}

#[test]
fn over_subscribed_assured_rates_are_a_relative_priority() {
    let config = paper(ms(40));
    let assured = Share::new(1.0, Service::Assured { rate: Rate::from_mbps(8), gamma: 0.98 }).unwrap();
    let flow = || Flow::greedy(law(config), &[0], ms(20));
    let flows = vec![flow().with_share(assured), flow().with_share(assured), flow()];
    let mut network = Network::new(vec![Link::new(10.0, ms(10), 10_000)], flows, 3);
    network.run_until(at(60.0));
    network.reset();
    network.run_until(at(120.0));
    let rates = network.rates();
    figure!("assured 8 + 8 of 10: {:?}, peak queue {}", rates, network.links[0].peak_packets);
    assert!((rates[0] / rates[1] - 1.0).abs() < 0.2, "{rates:?}");
    assert!(rates[0] > rates[2] * 1.3 && rates[2] > 0.1e6, "{rates:?}");
    assert!(network.links[0].peak_packets < 200);
}

#[test]
fn e7_a_leased_line_appears_at_its_rate() {
    let tau = ms(40);
    let line = Share::new(1.0, Service::LeasedLine { rate: Rate::from_mbps(50) }).unwrap();
    let mut leased = Flow::greedy(law(paper(tau)), &[0], ms(20)).with_share(line);
    leased.busy = vec![(at(20.0), Instant::FAR_FUTURE)];
    let best_effort = AccumulationConfig { startup: true, ..paper(tau) };
    let flows = vec![Flow::greedy(law(best_effort), &[0], ms(20)), leased];
    let mut network = Network::new(vec![Link::new(100.0, ms(10), 1_000)], flows, 4);
    network.run_until(at(20.0));
    network.reset();
    network.run_until(at(20.0) + tau * 10);
    let c_tau_packets = 100e6 * tau.as_secs_f64() / 8_000.0;
    let peak = network.links[0].peak_packets;
    figure!("E7: peak {:.2} Cτ, {} dropped", peak as f64 / c_tau_packets, network.links[0].dropped);
    assert!(peak as f64 <= 2.0 * c_tau_packets, "{peak}");
    assert_eq!(network.links[0].dropped, 0);
    network.run_until(at(30.0));
    network.reset();
    network.run_until(at(40.0));
    figure!("E7 after: leased {:.1}, best effort {:.1} Mbit/s", network.rate(1) / 1e6, network.rate(0) / 1e6);
    assert!(network.rate(1) >= 49.5e6, "{:?}", network.rates());
}

#[test]
fn e14_use_it_or_lose_it() {
    let config = AccumulationConfig { startup: true, ..paper(ms(40)) };
    let mut switched = Flow::greedy(law(config), &[0], ms(20));
    switched.busy = (0..5).map(|k| (at(10.0 + 10.0 * f64::from(k)), at(15.0 + 10.0 * f64::from(k)))).collect();
    let flows = vec![Flow::greedy(law(config), &[0], ms(20)), switched];
    let mut network = Network::new(vec![Link::new(10.0, ms(10), 10_000)], flows, 5);
    let (mut worst, mut queue) = (1.0f64, 0);
    for k in 1..5 {
        network.run_until(at(10.0 * f64::from(k) - 0.1));
        network.reset();
        network.run_until(at(10.0 * f64::from(k) + 5.0));
        queue = queue.max(network.links[0].peak_packets);
        network.run_until(at(10.0 * f64::from(k) + 7.0));
        network.reset();
        network.run_until(at(10.0 * f64::from(k) + 10.0));
        worst = worst.min(network.rate(0) / 10e6);
    }
    figure!("E14: greedy alone {worst:.3} from 2 s after off, peak queue at on {queue}");
    assert!(worst >= 0.95 && queue < 40, "{worst} {queue}");
}

#[test]
fn e11_the_queue_stays_below_the_bound_on_random_topologies() {
    for seed in 0..6u64 {
        let mut rng = weft_units::Rng::new(seed);
        let tau = ms(60);
        let links: Vec<Link> = (0..4).map(|_| Link::new(20.0, ms(1 + rng.below(5)), 100_000)).collect();
        let flows: Vec<Flow> = (0..8)
            .map(|_| {
                let first = rng.below(4) as usize;
                let route: Vec<usize> = (first..=first + rng.below(4 - first as u64) as usize).collect();
                Flow::greedy(law(AccumulationConfig { startup: true, ..paper(tau) }), &route, ms(10))
            })
            .collect();
        let bound = 7.0 * 20e6 * tau.as_secs_f64() / 8_000.0;
        let mut network = Network::new(links, flows, seed);
        network.run_until(at(20.0));
        let peak = network.links.iter().map(|l| l.peak_packets).max().unwrap_or(0);
        figure!("E11 seed {seed}: peak {peak}, (N − 1)Cτ = {bound:.0}");
        assert!((peak as f64) < bound);
    }
}

#[test]
fn e12_unequal_tau_gives_the_same_shares() {
    let config = AccumulationConfig { startup: true, ..paper(ms(60)) };
    let long = [true, false].map(|equal| {
        let mut network = linear(2, 50.0, config, |hops| if equal { ms(60) } else { ms(30 + 15 * hops as u64) });
        network.run_until(at(20.0));
        network.reset();
        network.run_until(at(60.0));
        network.rate(0) / 1e6
    });
    figure!("E12: long flow {:.2} with equal τ, {:.2} with its own", long[0], long[1]);
    assert!((long[1] / long[0] - 1.0).abs() < 0.1, "{long:?}");
}

#[test]
fn weighted_fairness_within_ten_seconds_and_after_a_capacity_step() {
    let config = AccumulationConfig { startup: true, increase_packets: 0.25, ..paper(ms(20)) };
    let weights: Vec<f64> = (1..=8).map(f64::from).collect();
    let flows = weights.iter().map(|w| Flow::greedy(law(config), &[0], ms(10)).with_share(weight(*w)));
    let mut network = Network::new(vec![Link::new(50.0, ms(5), 10_000)], flows.collect(), 6);
    network.run_until(at(10.0));
    let windowed = |network: &mut Network, to: f64| {
        network.reset();
        network.run_until(at(to));
        weft_core::fair::index(&network.rates(), &weights)
    };
    let before = windowed(&mut network, 12.0);
    network.links[0].rate = Rate::from_mbps(20);
    network.run_until(at(14.0));
    let after = windowed(&mut network, 16.0);
    figure!(
        "weights 1…8: F {before:.4} at 10–12 s, {after:.4} two seconds after 50 → 20 Mbit/s, peak queue {}, utilisation {:.3}",
        network.links[0].peak_packets,
        network.links[0].utilisation(network.now)
    );
    assert!(before >= 0.95 && after >= 0.95, "{before} {after}");
}
