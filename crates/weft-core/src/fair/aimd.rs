//! From weights to AIMD parameters (paper 003, part 1's rule as re-derived from Yang and Lam's GAIMD).
//!
//! A window that rises by a a round trip and falls to (1 − b) of itself at each of p loss events a packet carries
//! x = √(a κ / 2p) / RTT packets a second, with **κ = (2 − b)/b**. So κ is the knob: x² goes with it. The rule of b from weights, round
//! trips and loss is [`target_kappa`]. [`correct`] closes the loop on measured rates, and works where the square-root
//! law does not: time-outs, synchronised losses, VPNs that are not always backlogged.

/// b is never below: a window must give way.
pub const LEAST_DECREASE: f64 = 1e-4;
/// b is never above (paper 003: b < 0.5), so κ never below 3.
pub const MOST_DECREASE: f64 = 0.5;
/// Under [`Knob::Increase`], a is at least this part of the nominal one.
pub const LEAST_INCREASE: f64 = 1e-3;
/// Gain of the damped formula, g, each 100 round trips.
pub const FORMULA_GAIN: f64 = 0.3;
/// Gain of the closed loop, g, each 20 round trips.
pub const CLOSED_LOOP_GAIN: f64 = 0.1;
/// Round trips between two uses of the formula (DCPC's scale).
pub const FORMULA_ROUND_TRIPS: u32 = 100;
/// Round trips between two corrections.
pub const CLOSED_LOOP_ROUND_TRIPS: u32 = 20;

/// κ of b.
pub fn kappa_of(decrease: f64) -> f64 {
    let b = decrease.clamp(LEAST_DECREASE, MOST_DECREASE);
    (2.0 - b) / b
}

/// b of κ, within its bounds.
pub fn decrease_of(kappa: f64) -> f64 {
    (2.0 / (1.0 + kappa)).clamp(LEAST_DECREASE, MOST_DECREASE)
}

/// Packets a second of an AIMD window: `increase` a, `kappa` κ, round trip in seconds, loss events a packet.
pub fn rate_pps(increase: f64, kappa: f64, rtt_s: f64, loss_event_rate: f64) -> f64 {
    libm::sqrt(increase * kappa / (2.0 * loss_event_rate)) / rtt_s
}

/// What the rule compares of two loops.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Conditions {
    /// r.
    pub weight: f64,
    /// a, packets a round trip.
    pub increase: f64,
    /// Smoothed round trip, seconds.
    pub rtt_s: f64,
    /// p, loss events a packet.
    pub loss_event_rate: f64,
}

/// κ with which a loop carries weight / nominal weight times what the nominal loop of `nominal_kappa` does:
/// κ₁ (r/r₁)² (RTT/RTT₁)² (p/p₁)(a₁/a). May be below 3; see [`nominal_kappa`].
///
/// Loops of one ingress take one of them as nominal. Where the loops of a bottleneck come from several edges, the nominal loop is a
/// virtual one whose numbers all edges know (DCPC).
pub fn target_kappa(nominal_kappa: f64, nominal: &Conditions, this: &Conditions) -> f64 {
    let square = |x: f64| x * x;
    nominal_kappa
        * square(this.weight / nominal.weight)
        * square(this.rtt_s / nominal.rtt_s)
        * (this.loss_event_rate / nominal.loss_event_rate)
        * (nominal.increase / this.increase)
}

/// κ where all loops of a bottleneck answer every loss event, and so x = a t / (b RTT²) with one time t between events for all: κ₁ (r/r₁)(RTT/RTT₁)²(a₁/a). Loops of one edge pair can: the ingress tells all of them when one has an event. Then nothing is
/// left to the chance whose packet is dropped, and p need not be known.
pub fn shared_event_kappa(nominal_kappa: f64, nominal: &Conditions, this: &Conditions) -> f64 {
    let rtt = this.rtt_s / nominal.rtt_s;
    nominal_kappa * (this.weight / nominal.weight) * rtt * rtt * (nominal.increase / this.increase)
}

/// The nominal loop's κ: the one wished for, or as much more as lets every loop of `all` have b ≤ 0.5.
pub fn nominal_kappa(wished: f64, nominal: &Conditions, all: &[Conditions]) -> f64 {
    let least = kappa_of(MOST_DECREASE);
    let tightest = all.iter().map(|this| target_kappa(1.0, nominal, this)).fold(1.0, f64::min);
    wished.max(least / tightest)
}

/// One damped step toward a target, since p depends on b: log κ ← log κ + g (log κ* − log κ).
pub fn damped(kappa: f64, target: f64, gain: f64) -> f64 {
    bounded(kappa * libm::pow(target / kappa, gain))
}

/// What one step of the closed loop multiplies κ with: log κ ← log κ + 2 g log(r s / x), for the share s = Σx / Σr of backlogged
/// loops. One for a loop that sent nothing; at most two and at least a half, so that a loop just waking up is not taken for a
/// starved one.
pub fn correction(weight: f64, share_per_weight: f64, rate: f64, gain: f64) -> f64 {
    if !(rate > 0.0 && share_per_weight > 0.0) {
        return 1.0;
    }
    libm::pow(weight * share_per_weight / rate, 2.0 * gain).clamp(0.5, 2.0)
}

/// A loop as the closed loop sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Member {
    /// r.
    pub weight: f64,
    /// What arrives of it, in any unit common to all.
    pub rate: f64,
    /// Whether it had more to send; only then does its rate say anything.
    pub backlogged: bool,
    /// κ, corrected in place; relative to the nominal κ where [`Knob::Increase`] realises it.
    pub kappa: f64,
}

/// Which parameter realises κ. A window cannot exceed a/b for long: it loses a packet each round trip there. So with small b the
/// windows of all that share a bottleneck must be small, or packets are lost for nothing; a has no such limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Knob {
    /// The paper's: a is common, and the nominal loop's κ is the smallest, its b the largest.
    Decrease,
    /// b is common, and a κ/κ₁ of the nominal a; the nominal a is the largest. Shares stay when capacity drops, since all give up
    /// the same part.
    Increase,
}

impl Knob {
    /// (a, b) of a loop, given those of the nominal loop and this one's κ.
    pub fn parameters(self, nominal_increase: f64, nominal_decrease: f64, kappa: f64) -> (f64, f64) {
        match self {
            Knob::Decrease => (nominal_increase, decrease_of(kappa)),
            Knob::Increase => (nominal_increase * kappa / kappa_of(nominal_decrease), nominal_decrease),
        }
    }
}

/// Corrects all loops that share a bottleneck by one step of the closed loop.
///
/// If the corrections drift together (all κ up, or all down) fairness stays and only the oscillation changes, so the least κ of the
/// backlogged is drawn back to `nominal_kappa` (under [`Knob::Increase`] the largest).
pub fn correct(members: &mut [Member], knob: Knob, nominal_kappa: f64, gain: f64) {
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

    const PLAIN: Conditions = Conditions { weight: 1.0, increase: 0.1, rtt_s: 0.1, loss_event_rate: 0.001 };

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not {b}");
    }

    fn decrease(nominal_decrease: f64, weight: f64, rtt_ratio: f64) -> f64 {
        let this = Conditions { weight, rtt_s: 0.1 * rtt_ratio, ..PLAIN };
        decrease_of(target_kappa(kappa_of(nominal_decrease), &PLAIN, &this))
    }

    #[test]
    fn the_square_root_law() {
        // Reno: √(3/2p) / RTT; p = 1.5 % gives ten packets a round trip.
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
        let this = Conditions { weight: 3.0, rtt_s: 0.2, ..PLAIN };
        close(shared_event_kappa(19.0, &PLAIN, &this), 19.0 * 3.0 * 4.0, 1e-9);
    }

    #[test]
    fn the_nominal_kappa_leaves_room_for_all() {
        let light = Conditions { weight: 0.1, ..PLAIN };
        let nominal = nominal_kappa(kappa_of(0.5), &PLAIN, &[PLAIN, light]);
        close(nominal, 300.0, 1e-9);
        close(target_kappa(nominal, &PLAIN, &light), 3.0, 1e-9);
        close(nominal_kappa(kappa_of(0.1), &PLAIN, &[PLAIN]), 19.0, 1e-9);
    }

    #[test]
    fn steps_are_damped_and_bounded() {
        // A tenth of the way on the logarithm: 10 · 100^0.5 = 100.
        close(damped(10.0, 1_000.0, 0.5), 100.0, 1e-9);
        close(damped(10.0, 1e-9, 1.0), 3.0, 1e-9);
        // x = half of its share: κ · 2^0.2.
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
            let mut members = [1.0, 2.0].map(|weight| Member { weight, rate: 0.0, backlogged: true, kappa: 19.0 });
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
