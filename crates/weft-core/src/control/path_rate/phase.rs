use super::PathRate;
use super::compete::Competition;
use super::plateau::Plateau;
use weft_units::Instant;

/// Phase of the path-rate controller, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Doubles the rate every round trip until a queue appears or the rate stops growing.
    Startup,
    /// Keeps a short queue at the bottleneck.
    Steady,
    /// Raises the rate, because no queue appears despite a backlog.
    Probe,
    /// Stays at the delivery rate, because a higher rate brought only losses.
    Plateau,
    /// Empties the queue for a short time, to measure the base delay.
    Drain,
    /// Keeps a share of the bottleneck's rate and not a short queue, because other traffic keeps the queue full.
    Compete,
}

/// State of the controller: a [`Phase`] with the data that only this phase needs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum State {
    Startup,
    Steady,
    Probe,
    Plateau(Plateau),
    Drain,
    Compete(Competition),
}

impl State {
    /// Returns the phase without its data.
    pub fn phase(&self) -> Phase {
        match self {
            State::Startup => Phase::Startup,
            State::Steady => Phase::Steady,
            State::Probe => Phase::Probe,
            State::Plateau(_) => Phase::Plateau,
            State::Drain => Phase::Drain,
            State::Compete(_) => Phase::Compete,
        }
    }
}

impl PathRate {
    /// Selects the next phase.
    ///
    /// `full` is true if the sender had a backlog or kept the bottleneck busy. Only then does a sender compete. Without
    /// it, a delay that rises because the two clocks drift apart would look like other traffic.
    pub fn choose_phase(&mut self, now: Instant, full: bool) {
        let queue = self.delay.standing_queue();
        let is_drain_due = self.drain.is_due(now, self.capacity_bps, self.is_queued(), self.rtt.smoothed());
        self.state = match self.state {
            State::Startup if self.startup_is_over(queue) => State::Steady,
            State::Startup => State::Startup,
            plateau @ State::Plateau(_) if self.plateaus.is_held(now) && queue < self.queue_target() * 2 => plateau,
            State::Compete(held) if self.stays_competing(now, &held) => State::Compete(held),
            State::Compete(_) => self.stop_competing(full),
            _ if full && self.is_contended() && self.room.is_some_and(|room| !self.trial.found_full(room.since)) => {
                self.queue_stays = true;
                State::Steady
            }
            _ if full && self.is_contended() => self.compete(now),
            State::Drain if self.drain.goes_on(now, self.delay.queue(), self.rtt.smoothed()) => State::Drain,
            State::Drain => {
                self.queue_stays = self.drain.end(self.capacity_bps, self.least_queue());
                State::Steady
            }
            _ if is_drain_due => {
                self.drain.begin(now, queue);
                State::Drain
            }
            _ if self.growth > 0 => State::Probe,
            _ => State::Steady,
        };
    }
}
