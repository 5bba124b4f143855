//! Computes in how many copies the redundant schedule sends a unit.

use weft_units::{Duration, Instant};

/// Maximum expected number of the units in flight of which every copy is lost.
///
/// *Tuned* as in `path/copies.rs`: a stall in one of twenty round trips costs at most 5 % of the goodput.
const LOST_MAX: f64 = 0.05;
/// Maximum number of copies of a unit on each path.
///
/// Chosen without an experiment: more copies help little, because a burst of losses takes several copies.
const ROUNDS_MAX: usize = 3;
/// Maximum number of copies of a unit that leave at once, the unit itself included.
///
/// *Derived*: by the model, a fifth copy gains less than 2 % of goodput at losses of up to 5 % on two paths.
const DUE_MAX: usize = 4;
/// Least ratio of the computed goodput with more copies to that with fewer copies at which more copies are sent.
///
/// Chosen without an experiment.
const LEAST_GAIN: f64 = 1.02;
/// Least loss assumed for a path, as a fraction. It keeps logarithms finite.
pub const LEAST_LOSS: f64 = 1e-6;
/// IP length of a full packet, in bits.
const PACKET_BITS: f64 = 12_000.0;

/// The maximum number of units in flight during the last one to two round trips.
#[derive(Clone, Copy, Default, Debug)]
pub struct Peak {
    /// Maximum number of units in flight in this round trip and in the previous one.
    most: [usize; 2],
    since: Instant,
}

impl Peak {
    /// Records that `now_in_flight` units are in flight, and returns the maximum of the last one to two round trips.
    pub fn most(&mut self, now: Instant, now_in_flight: usize, round_trip: Duration) -> usize {
        if now.since(self.since) >= round_trip {
            (self.most, self.since) = ([0, self.most[0]], now);
        }
        self.most[0] = self.most[0].max(now_in_flight);
        self.most[0].max(self.most[1])
    }
}

/// The units in flight, and the properties of the paths that may carry copies of them.
#[derive(Clone, Copy, Default, Debug)]
pub struct InFlight {
    /// Number of units queued or in flight.
    pub packets: usize,
    /// Number of paths that may carry copies.
    pub paths: usize,
    /// Sum of the natural logarithms of these paths' loss rates.
    pub log_loss: f64,
    /// Sum of these paths' capacities, in bits per second.
    pub capacity_bps: f64,
    /// Longest RTT of these paths, in seconds.
    pub round_trip_s: f64,
    /// True if the queue of one of these paths is so long that further copies only fill it more.
    pub is_filled: bool,
}

impl InFlight {
    /// Returns the probability that all of `copies` copies of a unit, spread over the paths, are lost.
    fn all_lost(&self, copies: usize) -> f64 {
        libm::exp(self.log_loss * copies as f64 / self.paths.max(1) as f64)
    }

    /// Returns the goodput, in packets per second, of a sender whose window is the number of units in flight.
    ///
    /// Each unit is sent in `copies` copies. If all copies of a unit are lost, in-order delivery stalls for one more
    /// round trip.
    fn goodput(&self, copies: usize) -> f64 {
        let packets = self.packets as f64;
        let no_stall = libm::pow(1.0 - self.all_lost(copies), packets);
        let window = packets / (self.round_trip_s.max(1e-3) * (2.0 - no_stall));
        window.min(self.capacity_bps / (PACKET_BITS * copies as f64))
    }
}

/// Returns the number of copies of a unit that leave at once, the unit included: the number with the highest goodput.
pub fn due(of: &InFlight) -> usize {
    let mut best = 1;
    for copies in 2..=DUE_MAX {
        if of.goodput(copies) > of.goodput(best) * LEAST_GAIN {
            best = copies;
        }
    }
    best
}

/// Returns the number of copies of a unit on each path. Copies that leave at once are included.
pub fn rounds(of: &InFlight) -> usize {
    let suffices = |rounds: &usize| of.packets as f64 * of.all_lost(of.paths * *rounds) <= LOST_MAX;
    if of.is_filled { 1 } else { (1..ROUNDS_MAX).find(suffices).unwrap_or(ROUNDS_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    fn two_paths(packets: usize, loss: f64, mbps: f64, round_trip_s: f64) -> InFlight {
        let capacity_bps = 2.0 * mbps * 1e6;
        InFlight { packets, paths: 2, log_loss: 2.0 * libm::log(loss), capacity_bps, round_trip_s, is_filled: false }
    }

    #[test]
    fn copies_leave_with_the_unit_where_stalls_cost_more() {
        assert_eq!(due(&two_paths(720, 0.05, 84.0, 0.1)), 3);
        assert_eq!(due(&two_paths(720, 1e-6, 84.0, 0.1)), 1);
        assert_eq!(due(&two_paths(720, 0.001, 84.0, 0.1)), 2);
        assert_eq!([0.001, 0.01, 0.05].map(|loss| rounds(&two_paths(45, loss, 84.0, 0.1))), [1, 1, 2]);
    }

    /// By the model, the chosen number of copies never gives less goodput than one copy.
    #[test]
    fn copies_never_cost_goodput() {
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            let loss = 10f64.powf(-5.0 + 4.5 * rng.unit());
            let of = two_paths(1 + rng.below(3_000) as usize, loss, 1.0 + 200.0 * rng.unit(), 0.002 + 0.4 * rng.unit());
            assert!(of.goodput(due(&of)) >= of.goodput(1), "{of:?}");
        }
    }
}
