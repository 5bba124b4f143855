//! Tests of loops that obey the grants of the nodes on their route.

use crate::network::{Faults, Flow, Link, Network};
use crate::{at, figure, ms};
use std::sync::Arc;
use weft_core::control_loop::LoopConfig;
use weft_core::control_loop::explicit_rate::ExplicitRateConfig;
use weft_core::service::{Service, Share};
use weft_units::{Duration, Instant, Rate};

fn law() -> LoopConfig {
    LoopConfig::ExplicitRate(Arc::new(ExplicitRateConfig { burst_bytes: 1_000, ..ExplicitRateConfig::default() }))
}

fn greedy(route: &[usize], delay: Duration) -> Flow {
    Flow::greedy(law(), route, delay)
}

fn share(weight: f64, service: Service) -> Share {
    Share::new(weight, service).unwrap()
}

fn assured(weight: f64, mbps: u64) -> Share {
    share(weight, Service::Assured { rate: Rate::from_mbps(mbps), gamma: 0.98 })
}

/// Returns each flow's rate in Mbit/s over 20 s, after 10 s of settling.
fn settled(network: &mut Network) -> Vec<f64> {
    network.run_until(network.now + Duration::from_secs(10));
    network.reset();
    network.run_until(network.now + Duration::from_secs(20));
    network.rates().iter().map(|bps| bps / 1e6).collect()
}

#[test]
fn shares_follow_the_weights_whatever_the_round_trips() {
    for weights in [[1.0, 2.0, 3.0], [0.25, 0.5, 4.0], [20.0, 40.0, 60.0]] {
        let delays = [10, 40, 20];
        let flows = weights
            .iter()
            .zip(delays)
            .map(|(w, delay)| greedy(&[0], ms(delay)).with_share(share(*w, Service::BestEffort)));
        let mut network = Network::new(vec![Link::new(20.0, ms(10), 10_000)], flows.collect(), 2);
        let rates = settled(&mut network);
        let link = &network.links[0];
        figure!(
            "weights {weights:?}: {rates:.2?}, mean queue {:.1}, peak {}",
            link.mean_queue(network.now),
            link.peak_packets
        );
        for (rate, weight) in rates.iter().zip(weights) {
            let fair = 20.0 * weight / weights.iter().sum::<f64>();
            assert!((0.92..1.02).contains(&(rate / fair)), "{rates:?}");
        }
        assert!(link.mean_queue(network.now) < 5.0 && link.dropped == 0);
    }
}

#[test]
fn a_loop_alone_has_the_link_whatever_its_weight() {
    for weight in [0.1, 1.0, 50.0] {
        let flow = greedy(&[0], ms(20)).with_share(share(weight, Service::BestEffort));
        let mut network = Network::new(vec![Link::new(20.0, ms(10), 10_000)], vec![flow], 2);
        let rates = settled(&mut network);
        assert!((18.0..=19.5).contains(&rates[0]), "{weight}: {rates:?}");
    }
}

#[test]
fn the_least_grant_on_the_way_counts() {
    let links = vec![Link::new(30.0, ms(5), 10_000), Link::new(10.0, ms(5), 10_000)];
    let flows = vec![greedy(&[0], ms(5)), greedy(&[0, 1], ms(10)), greedy(&[1], ms(5))];
    let rates = settled(&mut Network::new(links, flows, 3));
    figure!("max-min 25, 5, 5: {rates:.2?}");
    for (rate, fair) in rates.iter().zip([25.0, 5.0, 5.0]) {
        assert!((0.9..1.02).contains(&(rate / fair)), "{rates:?}");
    }
}

#[test]
fn promised_rates_come_first_and_shrink_in_proportion() {
    let line = share(1.0, Service::LeasedLine { rate: Rate::from_mbps(6) });
    for (mbps, expected) in [(20.0, [9.1, 7.1, 3.1]), (10.0, [6.0, 3.5, 0.0])] {
        let flows = vec![
            greedy(&[0], ms(20)).with_share(line),
            greedy(&[0], ms(20)).with_share(assured(1.0, 4)),
            greedy(&[0], ms(20)),
        ];
        let mut network = Network::new(vec![Link::new(mbps, ms(10), 200)], flows, 3);
        let rates = settled(&mut network);
        let link = &network.links[0];
        figure!("6 leased and 4 assured of {mbps}: {rates:.2?}, mean queue {:.1}", link.mean_queue(network.now));
        for (rate, expected) in rates.iter().zip(expected) {
            assert!((rate - expected).abs() < 1.0, "{rates:?}");
        }
        assert!(link.dropped == 0 && link.mean_queue(network.now) < 40.0, "{}", link.mean_queue(network.now));
    }
}

#[test]
fn half_the_capacity_is_found_within_a_second_and_nothing_is_lost() {
    let mut network = Network::new(vec![Link::new(50.0, ms(10), 300)], vec![greedy(&[0], ms(20)); 5], 4);
    network.run_until(at(10.0));
    network.links[0].rate = Rate::from_mbps(20);
    for second in 11..=13 {
        network.reset();
        network.run_until(at(f64::from(second)));
        let link = &network.links[0];
        let (used, queue) = (link.utilisation(network.now), link.mean_queue(network.now));
        figure!("50 to 20 Mbit/s, until {second}: {used:.3}, mean queue {queue:.1}, peak {}", link.peak_packets);
        assert!(link.dropped == 0);
        assert!(second == 11 || (used > 0.85 && queue < 10.0));
    }
}

#[test]
fn an_idle_flow_restarts_low_and_a_late_flow_gets_its_share() {
    let mut late = greedy(&[0], ms(20));
    late.busy = vec![(at(5.0), at(15.0)), (at(25.0), Instant::FAR_FUTURE)];
    let mut network = Network::new(vec![Link::new(20.0, ms(10), 100)], vec![greedy(&[0], ms(20)), late], 5);
    for (from, to, expected) in [(10.0, 15.0, [9.5, 9.5]), (20.0, 25.0, [19.0, 0.0]), (30.0, 35.0, [9.5, 9.5])] {
        network.run_until(at(from));
        network.reset();
        network.run_until(at(to));
        for (rate, expected) in network.rates().iter().zip(expected) {
            assert!((rate / 1e6 - expected).abs() < 0.7, "{from}: {:?}", network.rates());
        }
    }
    assert_eq!(network.links[0].dropped, 0);
}

#[test]
fn losses_by_chance_cost_nothing_but_themselves() {
    let faults = Faults { data_loss: 0.05, report_loss: 0.2, until: Instant::FAR_FUTURE, ..Faults::default() };
    let flow = Flow { faults, ..greedy(&[0], ms(20)) };
    let rates = settled(&mut Network::new(vec![Link::new(20.0, ms(10), 100)], vec![flow], 6));
    assert!(rates[0] > 17.5, "{rates:?}");
}
