//! Who turns weights into the parameters of windows while they run (paper 003; automatic as in DCPC).
//!
//! A window begins with the parameters that its weight alone asks for. After 100 round trips the measured loss-event rates and
//! round trips come in by the rule ([`target_kappa`]), once, since p depends on b; and every 20 round trips the closed loop
//! ([`correct`]) compares what arrives with what the weights say. Nothing is kept for a loop: its κ is what its parameters are.

use super::aimd::{
    CLOSED_LOOP_GAIN, CLOSED_LOOP_ROUND_TRIPS, Conditions, FORMULA_GAIN, FORMULA_ROUND_TRIPS, Knob, Member, correct,
    damped, kappa_of, nominal_kappa, target_kappa,
};
use crate::control_loop::aimd_window::AimdWindow;
use alloc::vec::Vec;
use weft_units::{Duration, Instant};

/// Between two corrections at least, whatever the round trips.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// What corrects the parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Steering {
    /// Nothing: they stay what the weight asks for.
    Off,
    /// The paper's rule from measured loss and round trips, damped, every 100 round trips.
    Rule,
    /// The rule once, then the closed loop every 20 round trips.
    #[default]
    ClosedLoop,
}

/// What a [`Controller`] needs to know.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ControllerConfig {
    /// What corrects.
    pub steering: Steering,
    /// Which parameter carries the weights.
    pub knob: Knob,
    /// a of the nominal loop: the largest under [`Knob::Increase`], that of all under [`Knob::Decrease`].
    pub increase: f64,
    /// b of the nominal loop: the largest under [`Knob::Decrease`], that of all under [`Knob::Increase`].
    pub decrease: f64,
    /// Whether the loops hear of each other's losses, so that rates go with κ and not with its root.
    pub shared_events: bool,
}

/// Corrects the windows that share a bottleneck, at its times.
#[derive(Clone, Debug)]
pub struct Controller {
    config: ControllerConfig,
    due: Instant,
    turns: u32,
    members: Vec<Member>,
}

impl Controller {
    /// A controller whose first turn comes after 20 round trips of the least interval.
    pub fn new(config: ControllerConfig, now: Instant) -> Controller {
        Controller { config, due: now + LEAST_INTERVAL, turns: 0, members: Vec::new() }
    }

    /// a and b of a loop that begins; `nominal_weight` is the heaviest of all under [`Knob::Increase`], the lightest under
    /// [`Knob::Decrease`].
    pub fn initial(&self, weight: f64, nominal_weight: f64) -> (f64, f64) {
        let ControllerConfig { knob, increase, decrease, shared_events, .. } = self.config;
        let ratio = weight / nominal_weight;
        let kappa = kappa_of(decrease) * if shared_events { ratio } else { ratio * ratio };
        knob.parameters(increase, decrease, kappa)
    }

    /// When [`Controller::turn`] is due; never without steering.
    pub fn deadline(&self) -> Option<Instant> {
        (self.config.steering != Steering::Off).then_some(self.due)
    }

    /// Corrects the parameters of windows of the given weights, all that share a bottleneck.
    pub fn turn(&mut self, now: Instant, loops: &mut [(f64, &mut AimdWindow)]) {
        let slowest = loops.iter().map(|(_, law)| law.status()).filter(|status| status.backlogged);
        let round = slowest.map(|status| status.rtt).max().unwrap_or_default();
        self.due = now + (round * CLOSED_LOOP_ROUND_TRIPS).max(LEAST_INTERVAL);
        self.turns += 1;
        let nominal = kappa_of(self.config.decrease);
        self.members.clear();
        self.members.extend(loops.iter().map(|(weight, law)| member(&self.config, *weight, law)));
        let every = FORMULA_ROUND_TRIPS / CLOSED_LOOP_ROUND_TRIPS;
        match self.config.steering {
            Steering::Off => return,
            Steering::Rule if !self.turns.is_multiple_of(every) => return,
            Steering::Rule => self.apply_rule(loops),
            Steering::ClosedLoop if self.turns == every && !self.config.shared_events => self.apply_rule(loops),
            Steering::ClosedLoop => correct(&mut self.members, self.config.knob, nominal, CLOSED_LOOP_GAIN),
        }
        for ((_, law), member) in loops.iter_mut().zip(&self.members) {
            let (a, b) = self.config.knob.parameters(self.config.increase, self.config.decrease, member.kappa);
            law.set_parameters(a, b);
        }
    }

    /// The rule, relative to the first loop; nothing until all that are backlogged have met a loss.
    fn apply_rule(&mut self, loops: &[(f64, &mut AimdWindow)]) {
        let all: Option<Vec<Conditions>> = loops.iter().map(|(weight, law)| self.conditions(*weight, law)).collect();
        let Some((all, first)) = all.and_then(|all| all.first().copied().map(|first| (all, first))) else { return };
        let wished = kappa_of(self.config.decrease);
        let nominal = match self.config.knob {
            Knob::Decrease => nominal_kappa(wished, &first, &all),
            Knob::Increase => wished / all.iter().map(|this| target_kappa(1.0, &first, this)).fold(1.0, f64::max),
        };
        for (member, this) in self.members.iter_mut().zip(&all) {
            member.kappa = damped(member.kappa, target_kappa(nominal, &first, this), FORMULA_GAIN);
        }
    }

    fn conditions(&self, weight: f64, law: &AimdWindow) -> Option<Conditions> {
        let status = law.status();
        let increase = self.config.increase;
        Some(Conditions { weight, increase, rtt_s: status.rtt.as_secs_f64(), loss_event_rate: status.loss_event_rate? })
    }
}

/// A window as the closed loop sees it.
fn member(config: &ControllerConfig, weight: f64, law: &AimdWindow) -> Member {
    let (status, (a, b)) = (law.status(), law.parameters());
    let kappa = match config.knob {
        Knob::Decrease => kappa_of(b),
        Knob::Increase => kappa_of(config.decrease) * a / config.increase,
    };
    Member { weight, rate: status.delivered.bps() as f64, backlogged: status.backlogged, kappa }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_loop::aimd_window::AimdConfig;
    use crate::control_loop::{Credit, LoopEgress};
    use crate::service::Share;

    const CONFIG: ControllerConfig = ControllerConfig {
        steering: Steering::ClosedLoop,
        knob: Knob::Increase,
        increase: 0.8,
        decrease: 0.1,
        shared_events: true,
    };

    #[test]
    fn loops_begin_with_what_their_weight_asks_for() {
        let of = |config| Controller::new(config, Instant::ZERO);
        let (a, b) = of(CONFIG).initial(2.0, 8.0);
        assert!((a - 0.2).abs() < 1e-9 && (b - 0.1).abs() < 1e-9, "{a} {b}");
        let paper = ControllerConfig { knob: Knob::Decrease, shared_events: false, ..CONFIG };
        let (a, b) = of(paper).initial(2.0, 1.0);
        assert!((a - 0.8).abs() < 1e-9 && (b - 0.02597).abs() < 1e-5, "{a} {b}");
    }

    #[test]
    fn it_never_has_a_turn_without_steering() {
        let still = Controller::new(ControllerConfig { steering: Steering::Off, ..CONFIG }, Instant::ZERO);
        assert_eq!(still.deadline(), None);
    }

    /// Two windows, each behind a rate of its own: the closed loop gives more to the one that has less than its weight says.
    #[test]
    fn who_has_too_little_for_its_weight_gets_more() {
        let mut controller = Controller::new(CONFIG, Instant::ZERO);
        let config = AimdConfig { slow_start: false, increase_packets: 0.4, ..AimdConfig::default() };
        let mut laws = [AimdWindow::new(config, Share::default()), AimdWindow::new(config, Share::default())];
        let mut egresses = [LoopEgress::default(); 2];
        for ms in 0..2_000 {
            let now = Instant::from_millis(ms);
            for (law, egress) in laws.iter_mut().zip(&mut egresses) {
                while law.credit(1_500) == Credit::Now {
                    let marker = law.on_sent(now, 1_500, true);
                    egress.on_packet(1_500, false);
                    if let Some(report) = marker.and_then(|marker| egress.on_marker(now, marker)) {
                        law.on_report(now + Duration::from_millis(10), &report);
                        break;
                    }
                }
            }
            if controller.deadline().is_some_and(|due| due <= now) {
                let [light, heavy] = &mut laws;
                controller.turn(now, &mut [(1.0, light), (4.0, heavy)]);
            }
        }
        let [(light, _), (heavy, _)] = [laws[0].parameters(), laws[1].parameters()];
        assert!(heavy > 0.79 && light < 0.4 * heavy, "a = {light} and {heavy}");
    }
}
