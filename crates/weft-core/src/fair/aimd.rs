//! Converts weights to AIMD parameters.
//!
//! The rule is that of paper 003, part 1, as re-derived from Yang and Lam's GAIMD. A window grows by `a` packets per
//! round trip, and shrinks to (1 − b) times its size at each loss event, of which there are p per packet. It carries x
//! = √(a κ / 2p) / RTT packets per second, with **κ = (2 − b)/b**. x² is thus proportional to κ, which stands for b in
//! all formulas. [`target_kappa`] is the rule that derives b from weights, RTTs and loss. [`correct`] adjusts κ to the
//! measured rates. It also works where the square-root law fails: time-outs, synchronised losses, and VPNs that are not
//! always backlogged.

/// Minimum of the decrease `b`. A window must back off.
pub const LEAST_DECREASE: f64 = 1e-4;
/// Maximum of a decrease `b` that a rule computes (paper 003: b < 0.5). κ is thus at least 3.
pub const MOST_DECREASE: f64 = 0.5;
/// Maximum of a decrease `b` that a configuration sets. Paper 003 uses up to 0.75 in its Figures 5 and 6.
pub const MOST_FIXED_DECREASE: f64 = 0.9;
/// Minimum of the increase `a` under [`Knob::Increase`], as a fraction of the largest `a`, the nominal loop's.
pub const LEAST_INCREASE: f64 = 1e-3;
/// Gain g of the damped rule ([`damped`]), which is applied every 100 round trips.
pub const FORMULA_GAIN: f64 = 0.3;
/// Gain g of the closed loop ([`correct`]), which is applied every 20 round trips.
pub const CLOSED_LOOP_GAIN: f64 = 0.1;
/// Number of round trips between two uses of the damped rule. DCPC (APSITT 2005) uses it about as rarely.
pub const FORMULA_ROUND_TRIPS: u32 = 100;
/// Number of round trips between two corrections of the closed loop.
pub const CLOSED_LOOP_ROUND_TRIPS: u32 = 20;

/// Returns κ = (2 − b)/b for a given decrease b.
pub fn kappa_of(decrease: f64) -> f64 {
    let b = decrease.clamp(LEAST_DECREASE, MOST_DECREASE);
    (2.0 - b) / b
}

/// Returns the decrease b for a given κ, within its bounds.
pub fn decrease_of(kappa: f64) -> f64 {
    (2.0 / (1.0 + kappa)).clamp(LEAST_DECREASE, MOST_DECREASE)
}

/// Returns the rate of an AIMD window in packets per second.
///
/// `increase` is a, `kappa` is κ, `rtt_s` is the RTT in seconds, and `loss_event_rate` is in loss events per packet.
pub fn rate_pps(increase: f64, kappa: f64, rtt_s: f64, loss_event_rate: f64) -> f64 {
    libm::sqrt(increase * kappa / (2.0 * loss_event_rate)) / rtt_s
}

/// Properties of a loop that the rule for κ ([`target_kappa`]) compares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoopConditions {
    /// Weight r of the loop.
    pub weight: f64,
    /// Increase `a`, in packets per round trip.
    pub increase: f64,
    /// Smoothed RTT in seconds.
    pub rtt_s: f64,
    /// Loss-event rate p, in loss events per packet.
    pub loss_event_rate: f64,
}

/// Returns the κ with which the rates of a loop and of the nominal loop are in the ratio of their weights.
///
/// The formula is κ₁ (r/r₁)² (RTT/RTT₁)² (p/p₁)(a₁/a). r is the weight, and the index 1 denotes the nominal loop. The
/// result may be below 3; see [`nominal_kappa`]. One of the loops of an ingress is the nominal loop. If the loops of a
/// bottleneck start at several edges, the nominal loop is a virtual one whose parameters are configured at all edges,
/// as in DCPC (APSITT 2005).
pub fn target_kappa(nominal_kappa: f64, nominal: &LoopConditions, this: &LoopConditions) -> f64 {
    let square = |x: f64| x * x;
    nominal_kappa
        * square(this.weight / nominal.weight)
        * square(this.rtt_s / nominal.rtt_s)
        * (this.loss_event_rate / nominal.loss_event_rate)
        * (nominal.increase / this.increase)
}

/// Returns the κ of a loop if all loops of a bottleneck react to every loss event.
///
/// Then x = a t / (b RTT²) with the same time t between events for all, and κ = κ₁ (r/r₁)(RTT/RTT₁)²(a₁/a). Loops of
/// one edge pair can do this: the ingress informs all of them when one has an event. The shares then do not depend on
/// which loop's packet is dropped, and p need not be known.
pub fn shared_event_kappa(nominal_kappa: f64, nominal: &LoopConditions, this: &LoopConditions) -> f64 {
    let rtt = this.rtt_s / nominal.rtt_s;
    nominal_kappa * (this.weight / nominal.weight) * rtt * rtt * (nominal.increase / this.increase)
}

/// Returns κ of the nominal loop: `wished`, or the lowest higher value with which no loop has a b above 0.5.
pub fn nominal_kappa(wished: f64, nominal: &LoopConditions, all: &[LoopConditions]) -> f64 {
    let least = kappa_of(MOST_DECREASE);
    let tightest = all.iter().map(|this| target_kappa(1.0, nominal, this)).fold(1.0, f64::min);
    wished.max(least / tightest)
}

/// Returns κ after one damped step toward a target: log κ ← log κ + g (log κ* − log κ).
///
/// The step is damped because the loss-event rate depends on b.
pub fn damped(kappa: f64, target: f64, gain: f64) -> f64 {
    bounded(kappa * libm::pow(target / kappa, gain))
}

/// Returns the factor by which one step of the closed loop multiplies κ: (r s / x)^(2 g).
///
/// r is the weight, x the measured rate, and g the gain. s = Σx / Σr over the loops with a backlog is the share per
/// weight. The factor is one for a loop that sent nothing. It is at most two and at least a half, so that a loop that
/// became active recently is not treated as starved.
pub fn correction(weight: f64, share_per_weight: f64, rate: f64, gain: f64) -> f64 {
    if !(rate > 0.0 && share_per_weight > 0.0) {
        return 1.0;
    }
    libm::pow(weight * share_per_weight / rate, 2.0 * gain).clamp(0.5, 2.0)
}

/// Values of one loop that the closed-loop correction uses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CompetingLoop {
    /// Weight r of the loop.
    pub weight: f64,
    /// Arriving rate of the loop, in any unit common to all loops.
    pub rate: f64,
    /// True if the loop had a backlog. Without one, its rate shows its traffic and not its share.
    pub backlogged: bool,
    /// κ of the loop, which [`correct`] changes.
    ///
    /// Under [`Knob::Increase`] its ratio to the nominal loop's κ determines `a`.
    pub kappa: f64,
}

/// Window parameter through which the weights of the loops take effect.
///
/// A window cannot exceed a/b for long, because it loses a packet each round trip there. With small b, the windows of
/// all loops of a bottleneck must be small, or packets are lost needlessly. a has no such limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Knob {
    /// Paper 003's choice: weights take effect through b, and all loops have the same a.
    ///
    /// The nominal loop has the smallest κ and the largest b.
    Decrease,
    /// Weights take effect through a, and all loops have the same b.
    ///
    /// The nominal loop has the largest a. Another loop's a is κ/κ₁ times it, with κ₁ the κ of the nominal loop. The
    /// shares stay the same when capacity drops, because all loops back off by the same fraction.
    Increase,
}

impl Knob {
    /// Returns (`a`, `b`) of a loop, given `a` and `b` of the nominal loop and this loop's κ.
    pub fn parameters(self, nominal_increase: f64, nominal_decrease: f64, kappa: f64) -> (f64, f64) {
        match self {
            Knob::Decrease => (nominal_increase, decrease_of(kappa)),
            Knob::Increase => (nominal_increase * kappa / kappa_of(nominal_decrease), nominal_decrease),
        }
    }
}

/// Corrects all loops that share a bottleneck by one step of the closed loop.
///
/// A common factor of all κ changes no shares, but how much the rates oscillate. All κ are therefore scaled so that the
/// least κ of the loops with a backlog is `nominal_kappa`; under [`Knob::Increase`] the largest κ is.
pub fn correct(members: &mut [CompetingLoop], knob: Knob, nominal_kappa: f64, gain: f64) {
    let backlogged = || members.iter().filter(|m| m.backlogged && m.rate > 0.0);
    let share = backlogged().map(|m| m.rate).sum::<f64>() / backlogged().map(|m| m.weight).sum::<f64>();
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for member in members.iter_mut().filter(|m| m.backlogged) {
        member.kappa *= correction(member.weight, share, member.rate, gain);
        (least, most) = (least.min(member.kappa), most.max(member.kappa));
    }
    let drawn_back = nominal_kappa / if knob == Knob::Decrease { least } else { most };
    for member in members.iter_mut().filter(|m| m.backlogged) {
        member.kappa *= drawn_back;
        if knob == Knob::Decrease {
            member.kappa = bounded(member.kappa);
        } else {
            member.kappa = member.kappa.max(nominal_kappa * LEAST_INCREASE);
        }
    }
}

fn bounded(kappa: f64) -> f64 {
    kappa.clamp(kappa_of(MOST_DECREASE), kappa_of(LEAST_DECREASE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: LoopConditions = LoopConditions { weight: 1.0, increase: 0.1, rtt_s: 0.1, loss_event_rate: 0.001 };

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not {b}");
    }

    fn decrease(nominal_decrease: f64, weight: f64, rtt_ratio: f64) -> f64 {
        let this = LoopConditions { weight, rtt_s: 0.1 * rtt_ratio, ..PLAIN };
        decrease_of(target_kappa(kappa_of(nominal_decrease), &PLAIN, &this))
    }

    #[test]
    fn the_square_root_law() {
        // Reno has the rate √(3/2p) / RTT. p = 1.5 % gives ten packets per round trip.
        close(rate_pps(1.0, kappa_of(0.5), 0.1, 0.015), 100.0, 1e-9);
        close(decrease_of(kappa_of(0.25)), 0.25, 1e-12);
    }

    #[test]
    fn b_of_weights() {
        for (nominal, expected) in [
            (0.1, [0.1, 0.02597, 0.01163, 0.00656, 0.0042]),
            (0.25, [0.25, 0.06897, 0.03125, 0.0177, 0.01136]),
            (0.01, [0.01, 0.00251, 0.00112, 0.00063, 0.0004]),
        ] {
            for (weight, b) in [1.0, 2.0, 3.0, 4.0, 5.0].into_iter().zip(expected) {
                close(decrease(nominal, weight, 1.0), b, 6e-6);
            }
        }
    }

    #[test]
    fn b_of_the_papers_tables_i_and_ii() {
        let vpns = [(1.0, 1.0, 0.1), (2.0, 0.5, 0.1), (2.0, 1.5, 0.01163), (3.0, 1.0, 0.01163), (4.0, 0.5, 0.02597)];
        for (weight, rtt_ratio, b) in vpns {
            close(decrease(0.1, weight, rtt_ratio), b, 6e-6);
        }
    }

    #[test]
    fn with_shared_events_rates_go_with_a_over_the_square_of_the_round_trip() {
        let this = LoopConditions { weight: 3.0, rtt_s: 0.2, ..PLAIN };
        close(shared_event_kappa(19.0, &PLAIN, &this), 19.0 * 3.0 * 4.0, 1e-9);
    }

    #[test]
    fn the_nominal_kappa_leaves_room_for_all() {
        let light = LoopConditions { weight: 0.1, ..PLAIN };
        let nominal = nominal_kappa(kappa_of(0.5), &PLAIN, &[PLAIN, light]);
        close(nominal, 300.0, 1e-9);
        close(target_kappa(nominal, &PLAIN, &light), 3.0, 1e-9);
        close(nominal_kappa(kappa_of(0.1), &PLAIN, &[PLAIN]), 19.0, 1e-9);
    }

    #[test]
    fn steps_are_damped_and_bounded() {
        // Half of the distance on the logarithm: 10 · 100^0.5 = 100.
        close(damped(10.0, 1_000.0, 0.5), 100.0, 1e-9);
        close(damped(10.0, 1e-9, 1.0), 3.0, 1e-9);
        // The rate x is half of the loop's share r s, so the factor is 2^0.2.
        close(correction(2.0, 1.0, 1.0, 0.1), libm::pow(2.0, 0.2), 1e-9);
        close(correction(2.0, 1.0, 0.0, 0.1), 1.0, 0.0);
        close(correction(1.0, 1.0, 1e-12, 0.1), 2.0, 1e-9);
    }

    #[test]
    fn knobs_realise_the_same_gain() {
        for knob in [Knob::Decrease, Knob::Increase] {
            let (a, b) = knob.parameters(0.1, 0.1, 57.0);
            close(a * kappa_of(b), 5.7, 1e-9);
        }
    }

    #[test]
    fn the_closed_loop_finds_the_weights_of_the_square_root_law() {
        for (knob, nominal) in [(Knob::Decrease, 19.0), (Knob::Increase, 190.0)] {
            let mut members =
                [1.0, 2.0].map(|weight| CompetingLoop { weight, rate: 0.0, backlogged: true, kappa: 19.0 });
            for _ in 0..200 {
                for member in &mut members {
                    let (a, b) = knob.parameters(0.1, decrease_of(nominal), member.kappa);
                    member.rate = rate_pps(a, kappa_of(b), 0.1, 0.01);
                }
                correct(&mut members, knob, nominal, CLOSED_LOOP_GAIN);
            }
            close(members[1].rate / members[0].rate, 2.0, 1e-3);
        }
    }
}
