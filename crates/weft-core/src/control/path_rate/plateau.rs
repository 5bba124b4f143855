use super::PathRate;
use super::phase::State;
use super::round::Round;
use weft_units::{Duration, Instant};

/// Maximum time after which a plateau is tested again, however often it was found.
///
/// Standard: the spacing of BBR's probes of the minimum RTT.
const LONGEST_PLATEAU: Duration = Duration::from_secs(10);
/// Rate on a plateau, as a fraction of the capacity.
///
/// Tuned: the buffer of the limit must not fill again.
pub const BELOW: f64 = 0.985;

/// Data of a plateau: the rate before it, the losses that led to it, and the packets settled on it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plateau {
    loss: f64,
    before_bps: f64,
    delivered: u64,
    lost: u64,
}

/// Start of the last plateau and the time for which it is held.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlateauHistory {
    last: Option<Instant>,
    hold: Duration,
}

impl PlateauHistory {
    /// Records a plateau that starts now.
    ///
    /// Losses long after the last plateau have another cause, such as an outage. Only a plateau that is found
    /// repeatedly is held long.
    fn begin(&mut self, now: Instant, round_trip: Duration) {
        if self.last.is_some_and(|last| now - last > self.hold * 3) {
            self.hold = Duration::ZERO;
        }
        self.last = Some(now);
        self.hold = (self.hold * 2).max(round_trip * 10).min(LONGEST_PLATEAU);
    }

    /// Ends the present plateau.
    pub fn end(&mut self) {
        self.last = None;
    }

    /// True if the plateau lasts.
    pub fn is_held(&self, now: Instant) -> bool {
        self.last.is_some_and(|since| now - since < self.hold)
    }
}

impl PathRate {
    /// Stays at the delivery rate, because growth brought only `loss`.
    pub fn enter_plateau(&mut self, now: Instant, loss: f64) {
        let before_bps = self.capacity_bps;
        // One round's losses cannot prove a rate below the part that they left.
        self.capacity_bps = (self.meter.delivered_bps() * self.loss.fill()).max(before_bps * (1.0 - loss));
        self.plateaus.begin(now, self.rtt.smoothed());
        self.confirmed = true;
        self.not_shown_for = Duration::ZERO;
        self.growth = 0;
        self.state = State::Plateau(Plateau { loss, before_bps, delivered: 0, lost: 0 });
    }

    /// Ends the plateau if the losses continue at the delivery rate.
    ///
    /// They are then the path's own, and the previous rate was right.
    pub fn judge_plateau(&mut self, now: Instant, round: Round) {
        let (State::Plateau(plateau), Some(since)) = (&mut self.state, self.plateaus.last) else { return };
        if round.started < since + self.rtt.smoothed() {
            return;
        }
        plateau.delivered += round.delivered;
        plateau.lost += round.lost;
        let settled = (plateau.delivered + plateau.lost) as f64;
        let Plateau { loss, before_bps, delivered, lost } = *plateau;
        if settled * loss >= 5.0 && lost as f64 > settled * loss / 2.0 {
            self.loss.on_own_losses(now, delivered, lost);
            self.capacity_bps = before_bps;
            self.plateaus = PlateauHistory::default();
            self.state = State::Steady;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plateau_is_held_longer_only_where_it_is_found_again_and_again() {
        let mut plateaus = PlateauHistory::default();
        let mut hold_ms = |at_ms| {
            plateaus.begin(Instant::from_millis(at_ms), Duration::from_millis(20));
            plateaus.hold.as_millis()
        };
        assert_eq!([1_000, 1_300, 1_900].map(&mut hold_ms), [200, 400, 800]);
        assert_eq!([12_000, 30_000].map(hold_ms), [200, 200]);
    }
}
