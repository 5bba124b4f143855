//! Turns weights into the parameters of running windows (paper 003). They are set automatically, as in its follow-up
//! DCPC (APSITT 2005).
//!
//! A window starts with the parameters that its weight alone requires. Once all loops have met a loss, their total
//! rate is divided by weight, once. The rate at which slow start ends is random, and small `a` and `b` would need
//! hundreds of round trips to correct it. The paper does not define the start. Measured loss-event rates and RTTs
//! then enter by the rule ([`target_kappa`]). The first use is undamped, later ones are damped, because p depends on
//! b. After 100 round trips the closed loop ([`correct`]) compares arriving rates with the weights every 20 round
//! trips. The controller keeps no state per loop: a loop's κ follows from its parameters.
//!
//! If loops learn of each other's losses, the rule is not needed and the closed loop starts at once. The shares then
//! follow from the parameters, except for VPNs whose traffic does not always use its share.

use super::aimd::{
    CLOSED_LOOP_GAIN, CLOSED_LOOP_ROUND_TRIPS, CompetingLoop, FORMULA_GAIN, FORMULA_ROUND_TRIPS, Knob, LoopConditions,
    correct, damped, decrease_of, kappa_of, nominal_kappa, target_kappa,
};
use crate::control_loop::aimd_window::AimdWindow;
use alloc::vec::Vec;
use weft_units::{Duration, Instant};

/// Minimum time between two corrections, even if the RTTs are short.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of calls of [`WindowController::turn`] that wait until all loops have had a loss.
///
/// The calls count from the first loss of any loop.
const MOST_WAITING_TURNS: u32 = 10;

/// Method that corrects the parameters `a` and `b` of running windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SteeringMethod {
    /// No correction: the parameters remain those that follow from the weight alone.
    Off,
    /// The paper's rule from measured loss and RTTs, damped, every 100 round trips.
    Rule,
    /// The rule for 100 round trips, then the closed loop.
    #[default]
    ClosedLoop,
}

/// Parameters of a [`WindowController`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ControllerConfig {
    /// Method that corrects the parameters `a` and `b` of the windows.
    pub steering: SteeringMethod,
    /// Window parameter, `a` or `b`, through which the weights take effect.
    pub knob: Knob,
    /// Increase `a` of the nominal loop, relative to which all other loops are set, in packets per round trip.
    ///
    /// It is the largest under [`Knob::Increase`], and common to all under [`Knob::Decrease`].
    pub increase: f64,
    /// Decrease `b` of the nominal loop, relative to which all other loops are set.
    ///
    /// It is the largest under [`Knob::Decrease`], and common to all under [`Knob::Increase`].
    pub decrease: f64,
    /// True if the loops learn of each other's losses.
    ///
    /// Rates are then proportional to κ and not to its square root.
    pub shared_events: bool,
}

/// Corrects the parameters of the windows that share a bottleneck, at regular times.
#[derive(Clone, Debug)]
pub struct WindowController {
    config: ControllerConfig,
    due: Instant,
    /// Number of calls of [`WindowController::turn`] since the first loop had a loss.
    waited: u32,
    /// Number of times that the rule ([`target_kappa`]) was applied.
    ruled: u32,
    members: Vec<CompetingLoop>,
}

impl WindowController {
    /// Returns a controller. Its first turn is due after 100 ms.
    pub fn new(config: ControllerConfig, now: Instant) -> WindowController {
        WindowController { config, due: now + LEAST_INTERVAL, waited: 0, ruled: 0, members: Vec::new() }
    }

    /// Returns the increase `a` and the decrease `b` of a loop that starts.
    ///
    /// `nominal_weight` is the weight of the nominal loop: the largest of all weights under [`Knob::Increase`], and the
    /// smallest under [`Knob::Decrease`].
    pub fn initial(&self, weight: f64, nominal_weight: f64) -> (f64, f64) {
        let ControllerConfig { knob, increase, decrease, shared_events, .. } = self.config;
        let ratio = weight / nominal_weight;
        if ratio == 1.0 {
            return (increase, decrease);
        }
        let kappa = kappa_of(decrease) * if shared_events { ratio } else { ratio * ratio };
        knob.parameters(increase, decrease, kappa)
    }

    /// Returns the time at which [`WindowController::turn`] is due; `None` with [`SteeringMethod::Off`].
    pub fn deadline(&self) -> Option<Instant> {
        (self.config.steering != SteeringMethod::Off).then_some(self.due)
    }

    /// Corrects the parameters of all windows that share a bottleneck. `loops` lists each window with its weight.
    ///
    /// Under [`Knob::Decrease`] the first loop is the nominal one, as in paper 003.
    pub fn turn(&mut self, now: Instant, loops: &mut [(f64, &mut AimdWindow)]) {
        let ControllerConfig { steering, knob, increase, decrease, shared_events } = self.config;
        self.due = now + self.interval(loops);
        self.members.clear();
        self.members.extend(loops.iter().map(|(weight, law)| member(&self.config, *weight, law)));
        match steering {
            SteeringMethod::Off => return,
            SteeringMethod::Rule if shared_events => return,
            SteeringMethod::ClosedLoop if !self.is_opening() => {
                correct(&mut self.members, knob, kappa_of(decrease), CLOSED_LOOP_GAIN);
                self.anchor();
            }
            SteeringMethod::Rule | SteeringMethod::ClosedLoop => self.apply_rule(loops),
        }
        for ((_, law), member) in loops.iter_mut().zip(&self.members) {
            let (a, b) = knob.parameters(increase, decrease, member.kappa);
            law.set_parameters(a, b);
        }
    }

    /// True while the rule is used instead of the closed loop: for 100 round trips after all loops have met a loss.
    fn is_opening(&self) -> bool {
        let rule_turns = FORMULA_ROUND_TRIPS / CLOSED_LOOP_ROUND_TRIPS;
        !self.config.shared_events && self.ruled < rule_turns
    }

    /// Returns the time until the next turn: 20 mean RTTs of the backlogged loops, or 100 ms before the first rule.
    fn interval(&self, loops: &[(f64, &mut AimdWindow)]) -> Duration {
        if self.is_opening() && self.ruled == 0 {
            return LEAST_INTERVAL;
        }
        let statuses = loops.iter().map(|(_, law)| law.status()).filter(|status| status.backlogged);
        let (sum, count) = statuses.fold((Duration::ZERO, 0), |(sum, count), status| (sum + status.rtt, count + 1));
        (sum / count.max(1) * CLOSED_LOOP_ROUND_TRIPS).max(LEAST_INTERVAL)
    }

    /// Under [`Knob::Decrease`], multiplies all κ by one factor, so that the first loop has the configured `b`.
    ///
    /// The first loop is the nominal one. [`correct`] has scaled the κ so that the loop with the least κ has the
    /// configured `b`. All other loops then have a smaller `b`: the larger κ, the closer `b` is to zero. A loop with a
    /// long RTT needs a large κ, so a first loop with a long RTT would have a small `b`.
    fn anchor(&mut self) {
        let nominal = kappa_of(self.config.decrease);
        let Some(first) = self.members.first().filter(|first| first.backlogged) else { return };
        if self.config.knob == Knob::Decrease {
            let drawn_back = nominal / first.kappa;
            self.members.iter_mut().for_each(|member| member.kappa = kappa_of(decrease_of(member.kappa * drawn_back)));
        }
    }

    /// Sets each loop's κ by the rule ([`target_kappa`]), with the first loop as the reference.
    ///
    /// It does nothing until all loops have had a loss, or until [`MOST_WAITING_TURNS`] calls have waited for this.
    fn apply_rule(&mut self, loops: &mut [(f64, &mut AimdWindow)]) {
        let lossless = loops.iter().filter(|(_, law)| law.status().loss_event_rate.is_none()).count();
        self.waited += u32::from(lossless < loops.len());
        let is_time = lossless == 0 || self.waited > MOST_WAITING_TURNS;
        let all: Vec<LoopConditions> = loops.iter().map(|(weight, law)| self.conditions(*weight, law)).collect();
        let Some(first) = all.first().copied().filter(|_| is_time) else { return };
        let wished = kappa_of(self.config.decrease);
        let nominal = match self.config.knob {
            Knob::Decrease => nominal_kappa(wished, &first, &all),
            Knob::Increase => wished / all.iter().map(|this| target_kappa(1.0, &first, this)).fold(1.0, f64::max),
        };
        let gain = if self.ruled > 0 { FORMULA_GAIN } else { 1.0 };
        if self.ruled == 0 {
            divide(loops);
        }
        self.ruled += 1;
        for (member, this) in self.members.iter_mut().zip(&all) {
            let target = target_kappa(nominal, &first, this);
            member.kappa = match self.config.knob {
                Knob::Decrease => damped(member.kappa, target, gain),
                // [`damped`] also keeps κ within the bounds of b. Here κ determines a, which has no such bounds.
                Knob::Increase => member.kappa * libm::pow(target / member.kappa, gain),
            };
        }
    }

    fn conditions(&self, weight: f64, law: &AimdWindow) -> LoopConditions {
        let status = law.status();
        let loss_event_rate = status.loss_event_rate.unwrap_or(1.0 / f64::from(law.settled_packets().max(1)));
        LoopConditions { weight, increase: self.config.increase, rtt_s: status.rtt.as_secs_f64(), loss_event_rate }
    }
}

/// Divides the total rate of the loops by weight. Each window becomes its loop's rate times its RTT.
fn divide(loops: &mut [(f64, &mut AimdWindow)]) {
    let (bps, weights) = loops.iter().fold((0.0, 0.0), |(bps, weights), (weight, law)| {
        (bps + law.status().delivered.bps() as f64, weights + weight)
    });
    for (weight, law) in loops {
        law.restart(*weight * bps / weights * law.status().rtt.as_secs_f64() / 8.0);
    }
}

/// Returns the values of one window that [`correct`] uses.
fn member(config: &ControllerConfig, weight: f64, law: &AimdWindow) -> CompetingLoop {
    let (status, (a, b)) = (law.status(), law.parameters());
    let kappa = match config.knob {
        Knob::Decrease => kappa_of(b),
        Knob::Increase => kappa_of(config.decrease) * a / config.increase,
    };
    CompetingLoop { weight, rate: status.delivered.bps() as f64, backlogged: status.backlogged, kappa }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_loop::aimd_window::AimdConfig;
    use crate::control_loop::{Credit, LoopEgress};
    use crate::service::Share;

    const CONFIG: ControllerConfig = ControllerConfig {
        steering: SteeringMethod::ClosedLoop,
        knob: Knob::Increase,
        increase: 0.8,
        decrease: 0.1,
        shared_events: false,
    };

    #[test]
    fn loops_begin_with_what_their_weight_asks_for() {
        let of = |config| WindowController::new(config, Instant::ZERO);
        let (a, b) = of(ControllerConfig { shared_events: true, ..CONFIG }).initial(2.0, 8.0);
        assert!((a - 0.2).abs() < 1e-9 && (b - 0.1).abs() < 1e-9, "{a} {b}");
        let paper = ControllerConfig { knob: Knob::Decrease, shared_events: false, ..CONFIG };
        let (a, b) = of(paper).initial(2.0, 1.0);
        assert!((a - 0.8).abs() < 1e-9 && (b - 0.02597).abs() < 1e-5, "{a} {b}");
    }

    #[test]
    fn it_never_has_a_turn_without_steering() {
        let still = WindowController::new(ControllerConfig { steering: SteeringMethod::Off, ..CONFIG }, Instant::ZERO);
        assert_eq!(still.deadline(), None);
    }

    /// Simulates two windows. Each sends a packet every millisecond while its window is not full.
    ///
    /// Reports return after `rtts`. Only packet 500 of the first loop is lost.
    fn drive(
        controller: &mut WindowController,
        laws: &mut [AimdWindow; 2],
        rtts: [u64; 2],
        weights: [f64; 2],
        until: u64,
    ) {
        let mut egresses: [LoopEgress; 2] = core::array::from_fn(|_| LoopEgress::default());
        let mut back: alloc::collections::VecDeque<(u64, usize, crate::control_loop::LoopReport)> = Default::default();
        let mut sent = [0; 2];
        for ms in 0..until {
            let now = Instant::from_millis(ms);
            for (n, law) in laws.iter_mut().enumerate() {
                if law.credit(1_500) == Credit::Now {
                    sent[n] += 1;
                    let marker = law.on_sent(now, 1_500, true);
                    let arrives = (n, sent[n]) != (0, 500);
                    if arrives {
                        egresses[n].on_packet(1_500, false);
                    }
                    let report = marker.filter(|_| arrives).and_then(|marker| egresses[n].on_marker(now, marker));
                    back.extend(report.map(|report| (ms + rtts[n], n, report)));
                }
            }
            back.retain(|(at, n, report)| {
                if *at == ms {
                    laws[*n].on_report(now, report);
                }
                *at > ms
            });
            if controller.deadline().is_some_and(|due| due <= now) {
                let [first, second] = laws;
                controller.turn(now, &mut [(weights[0], first), (weights[1], second)]);
            }
        }
    }

    fn windows(increase_packets: f32) -> [AimdWindow; 2] {
        let config = AimdConfig { slow_start: false, increase_packets, ..AimdConfig::default() };
        [AimdWindow::new(config, Share::default()), AimdWindow::new(config, Share::default())]
    }

    #[test]
    fn a_window_below_its_weight_grows() {
        let mut controller = WindowController::new(ControllerConfig { shared_events: true, ..CONFIG }, Instant::ZERO);
        let mut laws = windows(0.4);
        drive(&mut controller, &mut laws, [10, 10], [1.0, 4.0], 2_000);
        let [(light, _), (heavy, _)] = [laws[0].parameters(), laws[1].parameters()];
        assert!(heavy > 0.79 && light < 0.4 * heavy, "a = {light} and {heavy}");
    }

    /// One second after the first loss, the rate of the two loops is divided by weight.
    #[test]
    fn windows_are_divided_by_weight_once() {
        let config = ControllerConfig { steering: SteeringMethod::Rule, ..CONFIG };
        let rate = |law: &AimdWindow| law.status().rate.bps() as f64;
        let [mut before, mut after] = [windows(0.0), windows(0.0)];
        drive(&mut WindowController::new(config, Instant::ZERO), &mut before, [10, 20], [1.0, 2.0], 1_000);
        drive(&mut WindowController::new(config, Instant::ZERO), &mut after, [10, 20], [1.0, 2.0], 4_000);
        assert!(rate(&before[1]) < 0.6 * rate(&before[0]), "the longer round trip has less");
        let ratio = rate(&after[1]) / rate(&after[0]);
        assert!((1.8..2.2).contains(&ratio), "1 : {ratio}");
    }
}
