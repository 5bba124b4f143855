//! ERICA+: an explicit rate for each flow, derived from the rate that it uses.
//!
//! The method is by Kalyanaraman, Jain and others, for ABR in ATM. A link measures its load per interval.
//! [`Erica::grant`] then computes each flow's rate from the flow's current rate. The caller stores the flows.

use super::pi::LinkState;
use weft_units::{Duration, Rate};

/// Parameters of ERICA+.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EricaConfig {
    /// δ: the link is overloaded only if the arriving rate exceeds (1 + δ) times the target rate.
    pub delta: f64,
    /// a: determines how fast a queue below the target delay fills. The greater, the faster.
    pub a: f64,
    /// b: determines how fast a queue above the target delay drains. The greater, the faster.
    pub b: f64,
    /// T0: target queueing delay.
    pub delay: Duration,
    /// QDLF: lower limit of the target rate, as a fraction of the capacity.
    pub least: f64,
}

impl Default for EricaConfig {
    fn default() -> EricaConfig {
        EricaConfig { delta: 0.1, a: 1.15, b: 1.05, delay: Duration::from_millis(1), least: 0.5 }
    }
}

impl EricaConfig {
    /// Returns parameters for grants that travel in the packets of the flows.
    ///
    /// Such grants arrive late, and a target queue of 1 ms would make the rates oscillate. Without a queue the target
    /// rate is the whole capacity of the link state. The caller must therefore state `utilization` times the real
    /// capacity there.
    pub fn in_band(utilization: f64) -> EricaConfig {
        EricaConfig { a: 1.0 / utilization, delay: Duration::from_millis(10), ..EricaConfig::default() }
    }
}

/// Fraction of its fair share from which on a flow counts as sending its whole share.
///
/// Signals round rates down, so a flow may send slightly less than its share.
const NEAR: f64 = 0.95;

/// State of ERICA+ for one link. It stores nothing about single flows.
#[derive(Clone, Debug)]
pub struct Erica {
    config: EricaConfig,
    target_bps: f64,
    fair_bps: f64,
    overload: f64,
    /// Highest grant in the previous interval and in this one, in bit/s.
    most_bps: [f64; 2],
}

impl Erica {
    /// Returns the state of a link without measurements. It grants a rate of zero until the first interval ends.
    pub fn new(config: EricaConfig) -> Erica {
        Erica { config, target_bps: 0.0, fair_bps: 0.0, overload: 1.0, most_bps: [0.0; 2] }
    }

    /// Returns the state of a link of this capacity on which no flow has sent.
    pub fn idle(config: EricaConfig, capacity: Rate) -> Erica {
        let mut law = Erica::new(config);
        let round_trip = Duration::ZERO;
        law.on_interval(&LinkState { capacity, arriving: Rate::ZERO, queued_bytes: 0, round_trip }, 1);
        law
    }

    /// Ends an interval in which `active` flows sent.
    pub fn on_interval(&mut self, link: &LinkState, active: u32) {
        let capacity = (link.capacity.bps() as f64).max(1.0);
        self.target_bps = capacity * self.queue_factor(link.queued_bytes as f64 * 8.0 / capacity);
        self.overload = (link.arriving.bps() as f64 / self.target_bps).max(1e-6);
        self.fair_bps = self.target_bps / f64::from(active.max(1));
        self.most_bps = [self.most_bps[1].min(self.target_bps), 0.0];
    }

    /// Returns the rate that a flow sending at `current` may use.
    pub fn grant(&mut self, current: Rate) -> Rate {
        let current = current.bps() as f64;
        let share = current / self.overload;
        let mut rate = self.fair_bps.max(share);
        if self.overload <= 1.0 + self.config.delta {
            rate = rate.max(self.most_bps[0]);
        }
        self.most_bps[1] = self.most_bps[1].max(rate);
        if rate > self.fair_bps && current < self.fair_bps * NEAR {
            // A flow that sends less than its fair share first gets only its fair share, so that its rate does not rise
            // suddenly.
            rate = self.fair_bps;
        }
        Rate::from_bps(rate.min(self.target_bps) as u64)
    }

    /// Returns the target rate as a fraction of the capacity (f in the ERICA+ papers).
    ///
    /// It is a hyperbolic function of the queueing delay, and is one if the delay is T0.
    fn queue_factor(&self, delay_s: f64) -> f64 {
        let EricaConfig { a, b, delay, least, .. } = self.config;
        let t0 = delay.as_secs_f64();
        let steepness = if delay_s <= t0 { a } else { b };
        (steepness * t0 / ((steepness - 1.0) * delay_s + t0)).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::solve::max_min;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Returns the rates of flows after `rounds` intervals. Each link runs [`Erica`].
    ///
    /// `routes` lists the links of each flow, and `limits` is the maximum rate of each flow.
    fn settle(capacities: &[f64], routes: &[&[usize]], limits: &[f64], rounds: u32) -> Vec<f64> {
        let mut links = vec![Erica::new(EricaConfig::default()); capacities.len()];
        let mut rates: Vec<f64> = limits.iter().map(|limit| limit.min(1e5)).collect();
        let mut queues = vec![0.0; capacities.len()];
        for _ in 0..rounds {
            for (at, link) in links.iter_mut().enumerate() {
                let through = || routes.iter().zip(&rates).filter(|(route, _)| route.contains(&at));
                let arriving: f64 = through().map(|(_, rate)| rate).sum();
                queues[at] = (queues[at] + (arriving - capacities[at]) * 0.01f64).max(0.0);
                let state = LinkState {
                    capacity: Rate::from_bps(capacities[at] as u64),
                    arriving: Rate::from_bps(arriving as u64),
                    queued_bytes: (queues[at] / 8.0) as u64,
                    round_trip: Duration::from_millis(10),
                };
                link.on_interval(&state, through().count() as u32);
            }
            for (flow, route) in routes.iter().enumerate() {
                let current = Rate::from_bps(rates[flow] as u64);
                let granted = route.iter().map(|at| links[*at].grant(current).bps()).min().unwrap_or(0);
                rates[flow] = (granted as f64).min(limits[flow]);
            }
        }
        rates
    }

    #[test]
    fn shares_are_max_min_over_several_links() {
        let capacities = [10e6, 20e6, 5e6];
        let routes: [&[usize]; 4] = [&[0, 1], &[1], &[0, 2], &[1]];
        let rates = settle(&capacities, &routes, &[f64::INFINITY; 4], 600);
        let fair = max_min(&capacities, &routes, &[1.0; 4]);
        for (rate, fair) in rates.iter().zip(&fair) {
            assert!((rate / fair - 1.0).abs() < 0.1, "{rates:?} and {fair:?}");
        }
    }

    #[test]
    fn a_flow_that_needs_less_leaves_the_rest_to_others() {
        let rates = settle(&[10e6], &[&[0], &[0], &[0]], &[1e6, f64::INFINITY, f64::INFINITY], 600);
        assert!((rates[0] - 1e6).abs() < 1e3 && (rates[1] / 4.5e6 - 1.0).abs() < 0.15, "{rates:?}");
        assert!((rates[1] / rates[2] - 1.0).abs() < 0.05, "{rates:?}");
    }
}
