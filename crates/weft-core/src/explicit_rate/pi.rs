//! One explicit rate for all flows of a link: a PI controller of the link's queue.
//!
//! It is the controller of RCP (Dukkipati), with the number of flows estimated as the capacity divided by the granted
//! rate.

use weft_units::{Duration, Instant, Rate};

/// Gains and targets of the controller.
///
/// With the default gains, the fluid model of the control loop with feedback delay τ has a crossover frequency of
/// 1/(2τ) and a phase margin of 47°, for any number of flows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PiConfig {
    /// α: gain on the unused rate, which is the target rate minus the arriving rate.
    pub alpha: f64,
    /// β: gain on the deviation of the queue from its target.
    pub beta: f64,
    /// η: target utilisation, as a fraction of the capacity.
    pub utilization: f64,
    /// q*/(Cτ): target queue, as a fraction of the bandwidth-delay product.
    pub queue: f64,
    /// Size of a packet with its headers, in bytes.
    ///
    /// Each flow gets at least one packet per round trip.
    pub packet_bytes: u32,
}

impl Default for PiConfig {
    fn default() -> PiConfig {
        PiConfig { alpha: 0.485, beta: 0.0606, utilization: 0.95, queue: 0.1, packet_bytes: 1_500 }
    }
}

/// Deviation of the queue from its target above which both gains double, as a fraction of the capacity times the RTT.
const FAR_QUEUE: f64 = 0.5;
/// Deviation of the arriving rate from the capacity above which both gains double, as a fraction of the capacity.
const FAR_RATE: f64 = 0.2;
/// Time for which the gains stay doubled after a large deviation, in mean RTTs of the link's flows.
const FAR_FOR: u32 = 2;

/// Measurements of a link since its previous update.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkState {
    /// C: capacity of the link.
    pub capacity: Rate,
    /// y: rate at which bytes arrived that leave by the link.
    pub arriving: Rate,
    /// q: queue in bytes.
    pub queued_bytes: u64,
    /// τ: mean RTT of the link's flows.
    pub round_trip: Duration,
}

/// The PI controller that computes the rate that one link grants to each flow. See the module.
#[derive(Clone, Debug)]
pub struct PiRate {
    config: PiConfig,
    rate_bps: f64,
    updated_at: Instant,
    far_until: Instant,
}

impl PiRate {
    /// Returns the controller of a link that first grants the rate `initial` to each flow.
    pub fn new(config: PiConfig, initial: Rate, now: Instant) -> PiRate {
        PiRate { config, rate_bps: initial.bps() as f64, updated_at: now, far_until: now }
    }

    /// Rate that the link grants to each flow.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.rate_bps as u64)
    }

    /// Records that a new flow starts on the link. Returns the new rate of each flow.
    ///
    /// The N = y/R present flows send `arriving` (y) in total at the granted rate R. Each may now send N/(N + 1) of R.
    /// Otherwise the link would be overloaded for one round trip.
    pub fn on_new_flow(&mut self, arriving: Rate) -> Rate {
        let arriving = arriving.bps() as f64;
        if arriving > 0.0 {
            self.rate_bps *= (arriving / (arriving + self.rate_bps)).max(0.5);
        }
        self.rate()
    }

    /// Limits the rate to `least` and `most`, because no flow needs less or can use more.
    ///
    /// The controller continues from the limited rate.
    pub fn bound(&mut self, least: Rate, most: Rate) {
        self.rate_bps = self.rate_bps.max(least.bps() as f64).min(most.bps() as f64);
    }

    /// Updates the rate from the state of the link and returns it. Call it at least once each τ.
    pub fn update(&mut self, now: Instant, link: &LinkState) -> Rate {
        let PiConfig { alpha, beta, utilization, queue, packet_bytes } = self.config;
        let tau = link.round_trip.as_secs_f64().max(1e-6);
        let capacity = (link.capacity.bps() as f64).max(1.0);
        let elapsed = (now - self.updated_at).as_secs_f64().min(tau);
        self.updated_at = now;
        let in_round_trip = capacity * tau;
        let queue_error = link.queued_bytes as f64 * 8.0 - queue * in_round_trip;
        let arriving = link.arriving.bps() as f64;
        if queue_error.abs() > FAR_QUEUE * in_round_trip || (arriving - capacity).abs() > FAR_RATE * capacity {
            self.far_until = now + link.round_trip * FAR_FOR;
        }
        let gain = if now < self.far_until { 2.0 } else { 1.0 };
        let aim = utilization * capacity;
        let change = (alpha * (aim - arriving) - beta * queue_error / tau) * gain / aim;
        let least = (f64::from(packet_bytes) * 8.0 / tau).min(aim);
        self.rate_bps = (self.rate_bps * (1.0 + elapsed / tau * change)).clamp(least, aim);
        self.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    const CAPACITY: Rate = Rate::from_mbps(100);
    const TAU: Duration = Duration::from_millis(50);
    const STEP: Duration = Duration::from_millis(1);

    /// A fluid model of a link. Flows send at the rate that was granted one round trip ago.
    struct Fluid {
        now: Instant,
        law: PiRate,
        grants: VecDeque<f64>,
        queue_bits: f64,
        arrived_bits: f64,
        flows: f64,
        capacity: Rate,
    }

    impl Fluid {
        fn new(flows: f64) -> Fluid {
            let law = PiRate::new(PiConfig::default(), Rate::from_mbps(1), Instant::ZERO);
            Fluid {
                now: Instant::ZERO,
                law,
                grants: VecDeque::new(),
                queue_bits: 0.0,
                arrived_bits: 0.0,
                flows,
                capacity: CAPACITY,
            }
        }

        /// Runs the model for `seconds`. Returns the mean utilisation, and the longest queue as a multiple of Cτ.
        fn run(&mut self, seconds: f64) -> (f64, f64) {
            let (mut served, mut longest) = (0.0, 0.0f64);
            let capacity = self.capacity.bps() as f64;
            let steps = (seconds / STEP.as_secs_f64()) as u32;
            for step in 1..=steps {
                self.now += STEP;
                let delayed = self.grants.len() as u32 >= (TAU.as_millis() / STEP.as_millis()) as u32;
                let granted = if delayed { self.grants.pop_front().unwrap_or(0.0) } else { 0.0 };
                let bits = granted * self.flows * STEP.as_secs_f64();
                self.arrived_bits += bits;
                let sent = (self.queue_bits + bits).min(capacity * STEP.as_secs_f64());
                self.queue_bits += bits - sent;
                served += sent;
                longest = longest.max(self.queue_bits / (capacity * TAU.as_secs_f64()));
                if step % 10 == 0 {
                    let arriving = Rate::from_bps((self.arrived_bits / (10.0 * STEP.as_secs_f64())) as u64);
                    self.arrived_bits = 0.0;
                    let queued_bytes = (self.queue_bits / 8.0) as u64;
                    self.law.update(
                        self.now,
                        &LinkState { capacity: self.capacity, arriving, queued_bytes, round_trip: TAU },
                    );
                }
                self.grants.push_back(self.law.rate().bps() as f64);
            }
            (served / (capacity * seconds), longest)
        }
    }

    #[test]
    fn any_number_of_flows_fills_the_link_and_no_queue() {
        for flows in [1.0, 4.0, 40.0] {
            let mut link = Fluid::new(flows);
            link.run(5.0);
            let (utilization, queue) = link.run(5.0);
            assert!((0.9..=1.0).contains(&utilization), "{flows}: {utilization}");
            assert!(queue < 0.1, "{flows}: {queue}");
            let fair = 0.96 * 100e6 / flows;
            assert!((link.law.rate().bps() as f64 / fair - 1.0).abs() < 0.05, "{flows}: {}", link.law.rate());
        }
    }

    #[test]
    fn twice_the_flows_and_half_the_capacity_cost_a_queue_of_two_round_trips_at_most() {
        let mut link = Fluid::new(5.0);
        link.run(5.0);
        link.flows = 10.0;
        let (_, queue) = link.run(5.0);
        assert!(queue < 2.0, "{queue}");
        link.capacity = Rate::from_mbps(50);
        let (_, queue) = link.run(5.0);
        assert!(queue < 3.0, "{queue}");
        let (utilization, queue) = link.run(5.0);
        assert!((0.9..=1.0).contains(&utilization) && queue < 0.1, "{utilization} {queue}");
    }

    #[test]
    fn a_new_flow_shares_with_present_flows() {
        let initial = Rate::from_mbps(90);
        let mut law = PiRate::new(PiConfig::default(), initial, Instant::ZERO);
        assert_eq!(law.on_new_flow(Rate::ZERO), initial, "there is nobody");
        assert_eq!(law.on_new_flow(initial), Rate::from_mbps(45), "there is one");
        assert_eq!(law.on_new_flow(initial), Rate::from_mbps(30), "there are two");
        assert_eq!(law.on_new_flow(Rate::from_bps(1)), Rate::from_mbps(15), "somebody who sends little counts as one");
    }

    #[test]
    fn nonsense_stays_within_bounds() {
        let mut law = PiRate::new(PiConfig::default(), Rate::from_mbps(1), Instant::ZERO);
        for (capacity, arriving, queued_bytes, round_trip) in [
            (Rate::ZERO, Rate::from_mbps(100_000), u64::MAX, Duration::ZERO),
            (Rate::from_mbps(1), Rate::ZERO, 0, Duration::from_secs(60)),
            (Rate::from_bps(u64::MAX), Rate::ZERO, 0, Duration::from_nanos(1)),
        ] {
            let rate =
                law.update(Instant::from_millis(500), &LinkState { capacity, arriving, queued_bytes, round_trip });
            assert!(rate <= capacity.max(Rate::from_bps(1)), "{rate}");
        }
    }
}
