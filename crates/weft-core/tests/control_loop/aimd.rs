//! Reproduces paper 003's results on the packet-level model.

use crate::network::{Ends, Flow, Link, Network};
use crate::{at, figure, ms};
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::control_loop::{ControlLoop, LoopConfig};
use weft_core::fair::aimd::{
    CLOSED_LOOP_GAIN, CompetingLoop, FORMULA_GAIN, Knob, LoopConditions, correct, damped, kappa_of, nominal_kappa,
    target_kappa,
};
use weft_core::fair::{Criterion, index};
use weft_units::{Duration, Instant, Rate};

fn config() -> AimdConfig {
    AimdConfig { packet_bytes: 1_000, ..AimdConfig::default() }
}

/// Controls κ as an ingress edge would.
///
/// It first applies the formula every 100 round trips, then the closed loop every 20.
struct Steering {
    weights: Vec<f64>,
    knob: Knob,
    /// Increase and decrease of the nominal loop.
    nominal: (f64, f64),
    round: Duration,
    kappas: Vec<f64>,
    turns: u32,
}

impl Steering {
    fn new(weights: &[f64], knob: Knob, nominal: (f64, f64), round: Duration) -> Steering {
        let kappas = vec![kappa_of(nominal.1); weights.len()];
        Steering { weights: weights.to_vec(), knob, nominal, round, kappas, turns: 0 }
    }

    fn run(&mut self, network: &mut Network, until: Instant) {
        while network.now < until {
            let next = (network.now + self.round * 20).min(until);
            network.run_until(next);
            self.turns += 1;
            if self.knob == Knob::Decrease && self.turns == 5 {
                self.formula(network);
            } else {
                self.closed_loop(network);
            }
            self.apply(network);
        }
    }

    fn apply(&self, network: &mut Network) {
        for (end, kappa) in network.ends.iter_mut().zip(&self.kappas) {
            let (a, b) = self.knob.parameters(self.nominal.0, self.nominal.1, *kappa);
            let ControlLoop::AimdWindow(law) = &mut end.ingress else { unreachable!("all loops are windows") };
            law.set_parameters(a, b);
        }
    }

    fn formula(&mut self, network: &Network) {
        let conditions = |(end, weight): (&Ends, &f64)| {
            let status = end.ingress.status();
            Some(LoopConditions {
                weight: *weight,
                increase: self.nominal.0,
                rtt_s: status.rtt.as_secs_f64(),
                loss_event_rate: status.loss_event_rate?,
            })
        };
        let Some(all) = network.ends.iter().zip(&self.weights).map(conditions).collect::<Option<Vec<_>>>() else {
            return;
        };
        let nominal = nominal_kappa(kappa_of(self.nominal.1), &all[0], &all);
        for (kappa, this) in self.kappas.iter_mut().zip(&all) {
            *kappa = damped(*kappa, target_kappa(nominal, &all[0], this), FORMULA_GAIN);
        }
    }

    fn closed_loop(&mut self, network: &Network) {
        let member = |((end, weight), kappa): ((&Ends, &f64), &f64)| {
            let status = end.ingress.status();
            let rate = status.delivered.bps() as f64;
            CompetingLoop { weight: *weight, rate, backlogged: status.backlogged, kappa: *kappa }
        };
        let mut members: Vec<CompetingLoop> =
            network.ends.iter().zip(&self.weights).zip(&self.kappas).map(member).collect();
        correct(&mut members, self.knob, kappa_of(self.nominal.1), CLOSED_LOOP_GAIN);
        self.kappas = members.iter().map(|m| m.kappa).collect();
    }
}

/// Returns loops with the given access delays over one bottleneck.
fn single(mbps: f64, buffer: usize, delays: &[u64], config: AimdConfig) -> Network {
    let flows = delays.iter().map(|delay| {
        let mut flow = Flow::greedy(LoopConfig::AimdWindow(config), &[0], ms(*delay));
        flow.access = ms(*delay);
        flow
    });
    Network::new(vec![Link::new(mbps, Duration::ZERO, buffer)], flows.collect(), 11)
}

/// Starts four loops five seconds apart (D6).
///
/// Returns the ratio of the largest to the smallest rate, and F, over `seconds` from 25 s on.
fn staggered(shared_events: bool, seed: u64, seconds: f64) -> (f64, f64) {
    let mut network = single(50.0, 50, &[2; 4], config());
    for (k, flow) in network.flows.iter_mut().enumerate() {
        flow.busy = vec![(at(5.0 * k as f64), Instant::FAR_FUTURE)];
    }
    let mut network = Network::new(network.links, network.flows, seed);
    network.shared_events = shared_events;
    network.run_until(at(25.0));
    network.reset();
    network.run_until(at(25.0 + seconds));
    assert!(network.links[0].utilisation(network.now) >= 0.97);
    let rates = network.rates();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    (most / least, index(&rates, &[1.0; 4]))
}

#[test]
fn equal_windows_share_equally_in_any_order_of_arrival() {
    for shared_events in [false, true] {
        for seconds in [5.0, 15.0] {
            let runs: Vec<(f64, f64)> = (0..3).map(|seed| staggered(shared_events, seed, seconds)).collect();
            let fairness = runs.iter().map(|run| run.1).sum::<f64>() / 3.0;
            figure!(
                "D6, events shared: {shared_events}: over {seconds} s, max/min {:?}, mean F {fairness:.4}",
                runs.iter().map(|run| (run.0 * 100.0).round() / 100.0).collect::<Vec<_>>()
            );
            assert!(fairness >= 0.97);
            assert!(!shared_events || runs.iter().all(|run| run.0 <= 1.15), "{runs:?}");
        }
    }
}

#[test]
fn weighted_fairness_over_unequal_round_trips() {
    // D1's weights and delays, at 25 Mbit/s.
    let weights = vec![1.0, 2.0, 2.0, 3.0, 4.0];
    let unsteered = {
        let mut network = single(25.0, 50, &[50, 25, 75, 50, 25], config());
        network.run_until(at(30.0));
        network.reset();
        network.run_until(at(60.0));
        index(&network.rates(), &weights)
    };
    for knob in [Knob::Decrease, Knob::Increase] {
        let mut network = single(25.0, 50, &[50, 25, 75, 50, 25], config());
        let mut steering = Steering::new(&weights, knob, (0.1, 0.1), ms(100));
        steering.run(&mut network, at(60.0));
        network.reset();
        steering.run(&mut network, at(90.0));
        let reached = index(&network.rates(), &weights);
        let used = network.links[0].utilisation(network.now);
        figure!(
            "D1 {knob:?}: F {reached:.4} steered, {unsteered:.4} not; utilisation {used:.3}, dropped {:.4}",
            network.links[0].dropped as f64 / network.ends.iter().map(|e| e.sent).sum::<u64>() as f64
        );
        assert!(reached >= 0.9 && reached > unsteered, "{:?}", network.rates());
    }
}

#[test]
fn eight_weights_within_ten_seconds_and_after_a_capacity_step() {
    let weights: Vec<f64> = (1..=8).map(f64::from).collect();
    let mut network = single(50.0, 100, &[10; 8], config());
    network.shared_events = true;
    let mut steering = Steering::new(&weights, Knob::Increase, (1.0, 0.1), ms(35));
    steering.kappas = weights.iter().map(|r| kappa_of(0.1) * r / 8.0).collect();
    steering.apply(&mut network);
    steering.run(&mut network, at(10.0));
    network.reset();
    steering.run(&mut network, at(12.0));
    let before = index(&network.rates(), &weights);
    network.links[0].rate = Rate::from_mbps(20);
    steering.run(&mut network, at(14.0));
    network.reset();
    steering.run(&mut network, at(16.0));
    let after = index(&network.rates(), &weights);
    figure!(
        "window, weights 1…8, a = 1, events shared: F {before:.4} at 10–12 s, {after:.4} two seconds after 50 → 20 Mbit/s, utilisation {:.3}",
        network.links[0].utilisation(network.now)
    );
    assert!(before > 0.95 && after > 0.95);
}

#[test]
fn max_min_over_several_bottlenecks() {
    // D4: links of 20, 10 and 20 Mbit/s. The solver computes the weights.
    let capacities = [20.0, 10.0, 20.0];
    let routes: [&[usize]; 4] = [&[0, 1, 2], &[0], &[1], &[2]];
    let weights = Criterion::MaxMin.weights(&[1.0; 4], &capacities, &routes);
    let flows = routes.map(|route| {
        Flow::greedy(LoopConfig::AimdWindow(AimdConfig { increase_packets: 0.5, ..config() }), route, ms(10))
    });
    let links = capacities.map(|mbps| Link::new(mbps, ms(3), 100));
    let mut network = Network::new(links.to_vec(), flows.to_vec(), 12);
    let mut steering = Steering::new(&weights, Knob::Increase, (0.5, 0.1), ms(60));
    steering.run(&mut network, at(40.0));
    network.reset();
    steering.run(&mut network, at(70.0));
    let reached = index(&network.rates(), &weights);
    figure!(
        "D4: F {reached:.4}, rates {:?} for {weights:?}",
        network.rates().iter().map(|r| r / 1e6).collect::<Vec<_>>()
    );
    assert!(reached >= 0.95, "{:?}", network.rates());
}

#[test]
fn an_assured_window_gets_more_than_its_rate() {
    let rate = Rate::from_mbps(10);
    let assured = weft_core::service::Service::Assured { rate, gamma: 0.98 };
    let mut network = single(20.0, 50, &[20; 4], config());
    network.flows[0].share = weft_core::service::Share::new(1.0, assured).unwrap();
    let mut network = Network::new(network.links, network.flows, 13);
    network.run_until(at(30.0));
    network.reset();
    network.run_until(at(60.0));
    figure!("assured 10 of 20 under the window law: {:?}", network.rates());
    assert!(network.rate(0) >= 9.5e6 && network.rate(1) >= 1.5e6, "{:?}", network.rates());
}
