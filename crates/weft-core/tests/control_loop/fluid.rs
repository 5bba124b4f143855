//! Paper 004's fluid model (§3): cycles of τ, FIFO queues of fluid, feedback at the end of each cycle.
//!
//! It uses the control laws of the code.

use crate::figure;
use std::collections::VecDeque;
use weft_core::service::Service;
use weft_units::{Rate, Rng};

/// Fluid of all flows that arrived in one cycle. A link serves the flows of a batch in proportion.
type Batch = Vec<f64>;

struct Network {
    capacities: Vec<f64>,
    routes: Vec<Vec<usize>>,
    services: Vec<Service>,
    alpha: Vec<f64>,
    beta: f64,
    queues: Vec<VecDeque<Batch>>,
    /// λ of each flow, as the law computed it.
    rates: Vec<f64>,
    /// Values of λ that have not taken effect yet.
    ///
    /// The front one enters the network in the next cycle.
    feedback: VecDeque<Vec<f64>>,
}

impl Network {
    fn new(capacities: &[f64], routes: &[Vec<usize>], alpha: f64, beta: f64) -> Network {
        Network {
            capacities: capacities.to_vec(),
            services: vec![Service::BestEffort; routes.len()],
            alpha: vec![alpha; routes.len()],
            beta,
            queues: vec![VecDeque::new(); capacities.len()],
            rates: vec![0.0; routes.len()],
            feedback: VecDeque::new(),
            routes: routes.to_vec(),
        }
    }

    /// Plays one cycle of length one. Links are numbered in the order in which routes cross them.
    fn step(&mut self) {
        let n = self.routes.len();
        let mut arriving = vec![vec![0.0; n]; self.capacities.len()];
        self.feedback.push_back(self.rates.clone());
        let entering = self.feedback.pop_front().unwrap_or_default();
        for i in 0..n {
            arriving[self.routes[i][0]][i] += entering[i];
        }
        let mut out = vec![0.0; n];
        for link in 0..self.capacities.len() {
            self.queues[link].push_back(std::mem::take(&mut arriving[link]));
            for (i, fluid) in serve(&mut self.queues[link], self.capacities[link], n).into_iter().enumerate() {
                let position = self.routes[i].iter().position(|l| *l == link);
                match position.and_then(|p| self.routes[i].get(p + 1)) {
                    Some(next) => arriving[*next][i] += fluid,
                    None => out[i] += fluid,
                }
            }
        }
        for i in 0..n {
            let accumulation: f64 = self.queues.iter().flatten().map(|batch| batch[i]).sum();
            let promised = self.services[i].rate().bps() as f64;
            self.rates[i] = if accumulation > 1e-9 {
                self.services[i].back_off(self.rates[i], out[i], self.beta, promised)
            } else {
                self.rates[i] + self.alpha[i]
            };
        }
    }

    fn queue(&self, link: usize) -> f64 {
        self.queues[link].iter().flatten().sum()
    }
}

fn serve(queue: &mut VecDeque<Batch>, capacity: f64, flows: usize) -> Vec<f64> {
    let (mut free, mut out) = (capacity, vec![0.0; flows]);
    while let Some(batch) = queue.front_mut() {
        let total: f64 = batch.iter().sum();
        let part = if total > free { free / total } else { 1.0 };
        for (out, fluid) in out.iter_mut().zip(batch.iter_mut()) {
            *out += *fluid * part;
            *fluid -= *fluid * part;
        }
        free -= total * part;
        if part < 1.0 {
            break;
        }
        queue.pop_front();
    }
    out
}

#[test]
fn e8_the_queue_of_one_bottleneck_and_its_drain_time_are_bounded_exactly() {
    for (n, alpha, beta) in [(1, 1.0, 0.95), (5, 1.0, 0.95), (10, 0.5, 0.9), (20, 0.25, 0.8)] {
        let capacity = 500.0;
        let mut network = Network::new(&[capacity], &vec![vec![0]; n], alpha, beta);
        let growth = n as f64 * alpha;
        let drain_bound = (growth / ((1.0 - beta) * capacity)).ceil() as u32;
        let (mut peak, mut busy) = (0.0f64, 0);
        for _ in 0..20_000 {
            network.step();
            let queue = network.queue(0);
            peak = peak.max(queue);
            busy = if queue > 1e-9 { busy + 1 } else { 0 };
            assert!(queue <= growth + 1e-6, "{queue} of at most {growth}");
            assert!(busy <= drain_bound, "{busy} cycles of at most {drain_bound}");
        }
        assert!(peak > growth * 0.2, "the bound was never tried: {peak}");
        let index = weft_core::fair::index(&network.rates, &vec![1.0; n]);
        assert!(index > 0.999_999, "{index}");
        figure!("E8 N={n} α={alpha} β={beta}: peak {peak:.3} of at most {growth}, fair {index:.6}");
    }
}

/// Returns the peak queue when a leased line starts in competition with one greedy loop, in Cτ.
///
/// The leased line takes the fraction b of the link. Feedback takes `delay` additional cycles.
fn leased_line_peak(b: f64, delay: usize) -> f64 {
    let capacity = 1e6;
    let mut network = Network::new(&[capacity], &[vec![0], vec![0]], 1.0, 0.95);
    network.services[1] = Service::LeasedLine { rate: Rate::from_bps((b * capacity) as u64) };
    network.alpha[1] = 0.0;
    network.rates = vec![capacity, b * capacity];
    network.feedback = vec![network.rates.clone(); delay].into();
    let mut peak = 0.0f64;
    for _ in 0..400 {
        network.step();
        peak = peak.max(network.queue(0));
    }
    peak / capacity
}

#[test]
fn e7_the_peak_of_a_leased_line_grows_convexly() {
    for delay in [0, 1] {
        let peaks: Vec<f64> = (1..=8).map(|tenths| leased_line_peak(f64::from(tenths) / 10.0, delay)).collect();
        for (i, peak) in peaks.iter().enumerate() {
            let b = (i + 1) as f64 / 10.0;
            let factor = peak * (1.0 - b) / b;
            figure!("E7 fluid, {delay} τ of feedback, b={b}: peak {peak:.3} Cτ = {factor:.2} · b/(1 − b)");
            assert!(factor <= 2.0);
        }
        for step in peaks[3..].windows(3) {
            assert!(step[2] - step[1] > step[1] - step[0], "convex beyond one half: {peaks:?}");
        }
    }
}

#[test]
fn e6_in_fluid_the_excess_is_halved() {
    let mut network = Network::new(&[10e6], &[vec![0], vec![0]], 2_000.0, 0.95);
    network.services[0] = Service::Assured { rate: Rate::from_mbps(4), gamma: 0.98 };
    for _ in 0..200_000 {
        network.step();
    }
    let mut mean = 0.0;
    for _ in 0..20_000 {
        network.step();
        mean += network.rates[0] / 20_000.0;
    }
    figure!("E6 fluid: {:.3} Mbit/s", mean / 1e6);
    assert!((mean / 1e6 - 7.0).abs() < 0.35, "{mean}");
}

#[test]
fn e11_the_queues_of_any_network_stay_below_the_bound() {
    let mut rng = Rng::new(7);
    let mut closest = 0.0f64;
    for _ in 0..40 {
        let links = 2 + rng.below(4) as usize;
        let flows = 3 + rng.below(10) as usize;
        let routes: Vec<Vec<usize>> = (0..flows)
            .map(|_| {
                let first = rng.below(links as u64) as usize;
                (first..=first + rng.below((links - first) as u64) as usize).collect()
            })
            .collect();
        let mut network = Network::new(&vec![100.0; links], &routes, 1.0, 0.95);
        network.rates.iter_mut().for_each(|rate| *rate = rng.unit() * 100.0);
        let bound = (flows - 1) as f64 * 100.0;
        for _ in 0..2_000 {
            network.step();
            for link in 0..links {
                closest = closest.max(network.queue(link) / bound);
                assert!(network.queue(link) <= bound + 1e-6);
            }
        }
        for link in 0..links {
            let load: f64 = (0..flows).filter(|i| routes[*i].contains(&link)).map(|i| network.rates[i]).sum();
            assert!(load <= 100.0 + flows as f64 + 1e-6, "no lasting overload: {load}");
        }
    }
    figure!("E11 fluid: largest queue {closest:.3} of (N − 1)Cτ");
}
