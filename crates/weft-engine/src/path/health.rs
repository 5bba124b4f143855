//! The state of one path (good, degraded, suspect, down) and the times of its probes.
//!
//! A silent path becomes suspect after a time that depends on its jitter. Its sparse flows are then retransmitted on
//! other paths, and new traffic uses other paths, while probes confirm or clear the suspicion. The other units in
//! flight on the path are retransmitted once the path is down. When a path becomes suspect, those paths on its link
//! that could replace it do as well. Each of them must answer before it takes over.
//!
//! A path that was down carries data again after its first answer. A path that fails again within ten minutes is first
//! *on probation*. Until it has answered for 2 s, twice as long for each further failure, sparse flows prefer other
//! paths. Bulk uses the path during this time.

use crate::api::PathState;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant};

const DEGRADE_ABOVE: f64 = 0.08;
const RESTORE_BELOW: f64 = 0.04;
const RESTORE_AFTER: Duration = Duration::from_secs(2);
/// Probe interval of a path that is down and wanted: no other path carries the packets that wait.
///
/// It limits the time for which a recovered link stays unused to 100 ms and one RTT.
///
/// A probe and its answer are about 150 bytes, so the probes take 12 kbit/s.
const DOWN_PROBE_MIN: Duration = Duration::from_millis(100);
/// Longest probe interval of a path that is down and not needed: other paths suffice, or no packets arrive.
const DOWN_PROBE_MAX: Duration = Duration::from_secs(1);
const OPENING_PROBE_MIN: Duration = Duration::from_millis(200);
const OPENING_PROBE_MAX: Duration = Duration::from_secs(5);
/// Time without a failure after which one of a path's recent failures is forgotten.
const FALL_MEMORY: Duration = Duration::from_secs(600);
/// Duration of the probation after the second recent failure of a path.
///
/// Each further failure doubles it, up to [`MOST_DOUBLINGS`] times.
const PROBATION_MIN: Duration = Duration::from_secs(2);
/// Maximum number of times that further failures double the probation.
const MOST_DOUBLINGS: u32 = 6;
/// Maximum number of failures that are counted. More would not lengthen the probation.
const MOST_FALLS: u32 = MOST_DOUBLINGS + 2;
/// Probe interval of a path on probation.
const PROBATION_PROBE: Duration = Duration::from_millis(250);

/// The reason for a change of a path's state, for the log. `None`: the state did not change.
pub type HealthChange = Option<&'static str>;

/// The state of one path, in the direction in which this node sends, and the times of its probes.
#[derive(Debug)]
pub struct Health {
    state: PathState,
    cause: &'static str,
    next_probe: Instant,
    /// Time at which the last probe left, or the last datagram that made a probe unnecessary.
    probed_at: Instant,
    probe_interval: Duration,
    probes: u32,
    /// Number of unanswered probes after which a suspect path is down.
    probes_to_confirm: u32,
    lossless_since: Instant,
    /// Sending time of the unanswered datagram that made the path suspect last.
    doubted: Instant,
    falls: u32,
    last_fall: Instant,
    /// Time at which the probation ends, if the path is on probation.
    trusted_at: Option<Instant>,
}

impl Health {
    pub fn new(now: Instant) -> Health {
        Health {
            state: PathState::Opening,
            cause: "new",
            next_probe: now,
            probed_at: Instant::ZERO,
            probe_interval: OPENING_PROBE_MIN,
            probes: 0,
            probes_to_confirm: 0,
            lossless_since: now,
            doubted: Instant::ZERO,
            falls: 0,
            last_fall: Instant::ZERO,
            trusted_at: None,
        }
    }

    pub fn state(&self) -> PathState {
        self.state
    }

    pub fn cause(&self) -> &'static str {
        self.cause
    }

    /// True if the path may carry new data.
    pub fn is_usable(&self) -> bool {
        self.answers() || self.state == PathState::Suspect
    }

    /// True if the path answers: its state is good or degraded.
    pub fn answers(&self) -> bool {
        matches!(self.state, PathState::Good | PathState::Degraded)
    }

    /// True if the path answers again after repeated failures. Sparse flows then prefer other paths.
    pub fn is_on_probation(&self) -> bool {
        self.trusted_at.is_some()
    }

    /// Returns the time until the probation ends if the path answers that long. `None` if it is not on probation.
    pub fn probation_left(&self, now: Instant) -> Option<Duration> {
        self.trusted_at.map(|at| at - now)
    }

    fn fall(&mut self, now: Instant) {
        self.falls = (self.recent_falls(now) + 1).min(MOST_FALLS);
        self.last_fall = now;
        self.trusted_at = None;
    }

    /// Returns the number of the path's failures that are not yet forgotten ([`FALL_MEMORY`]).
    pub fn recent_falls(&self, now: Instant) -> u32 {
        let forgotten = (now - self.last_fall).as_secs() / FALL_MEMORY.as_secs();
        self.falls.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }

    /// Returns the length of the probation after a failure now, or `None` after the first recent failure.
    fn probation(&self, now: Instant) -> Option<Duration> {
        let doublings = self.recent_falls(now).checked_sub(2)?;
        Some(PROBATION_MIN * (1 << doublings.min(MOST_DOUBLINGS)))
    }

    fn probe_pace(&self, keepalive: Duration) -> Duration {
        if self.is_on_probation() { keepalive.min(PROBATION_PROBE) } else { keepalive }
    }

    fn enter(&mut self, state: PathState, cause: &'static str) -> HealthChange {
        self.state = state;
        self.cause = cause;
        Some(cause)
    }

    /// Handles the peer's acknowledgement of a datagram that was sent on the path at `sent_at`.
    ///
    /// It clears a suspicion unless the datagram is older than the unanswered one that caused the suspicion.
    pub fn on_confirmed(&mut self, now: Instant, sent_at: Instant, keepalive: Duration) -> HealthChange {
        if self.state == PathState::Suspect && sent_at < self.doubted {
            return None;
        }
        if planted::is(Fault::DownForGood) && self.state == PathState::Down {
            return None;
        }
        self.probes = 0;
        match self.state {
            PathState::Good | PathState::Degraded if self.trusted_at.is_some_and(|at| at <= now) => {
                self.trusted_at = None;
                self.enter(self.state, "trusted again")
            }
            PathState::Good | PathState::Degraded => None,
            was => {
                if was == PathState::Down || self.is_on_probation() {
                    self.trusted_at = self.probation(now).map(|time| now + time);
                }
                self.probe_interval = self.probe_pace(keepalive);
                self.probed_at = now;
                self.next_probe = now + self.probe_interval;
                self.lossless_since = now;
                let cause = match was {
                    PathState::Opening => "answered",
                    _ if self.is_on_probation() => "answers again, on probation",
                    _ => "answers again",
                };
                self.enter(PathState::Good, cause)
            }
        }
    }

    /// Handles a new estimate of the path's loss, 0…1.
    pub fn on_loss(&mut self, now: Instant, loss: f64) -> HealthChange {
        if loss > RESTORE_BELOW {
            self.lossless_since = now;
        }
        match self.state {
            PathState::Good if loss > DEGRADE_ABOVE => self.enter(PathState::Degraded, "loss is high"),
            PathState::Degraded if now - self.lossless_since >= RESTORE_AFTER => {
                self.enter(PathState::Good, "loss is low again")
            }
            _ => None,
        }
    }

    /// Makes an answering path suspect, because its oldest unanswered datagram waited longer than `threshold`.
    ///
    /// That datagram was sent at `since`. After `misses` unanswered probes the path is down.
    pub fn on_silence(&mut self, now: Instant, since: Instant, threshold: Duration, misses: u32) -> HealthChange {
        match self.state {
            PathState::Good | PathState::Degraded => {
                self.probes = 0;
                self.probes_to_confirm = misses;
                self.doubted = since;
                self.next_probe = now;
                self.probe_interval = (threshold / 4).max(Duration::from_millis(5));
                self.enter(PathState::Suspect, "silent")
            }
            _ => None,
        }
    }

    /// Handles the failure of the path's local link: the path is down.
    pub fn on_link_down(&mut self, now: Instant, cause: &'static str) -> HealthChange {
        if self.state == PathState::Down && self.cause == cause {
            return None;
        }
        if self.is_usable() {
            self.fall(now);
        }
        self.start_down(now);
        self.enter(PathState::Down, cause)
    }

    /// Handles the return of the path's local link: the path is probed at once.
    pub fn on_link_up(&mut self, now: Instant) {
        self.next_probe = now;
        if self.state == PathState::Down {
            self.probe_interval = DOWN_PROBE_MIN;
        }
    }

    fn start_down(&mut self, now: Instant) {
        self.probe_interval = DOWN_PROBE_MIN;
        self.next_probe = now + DOWN_PROBE_MIN;
    }

    /// Returns the time of the next probe. An answering path is probed once in each `keepalive`.
    ///
    /// A path that carries nothing is probed often while it `is_wanted`: no other path answers, or packets wait that
    /// the other paths cannot carry.
    pub fn next_probe(&self, keepalive: Duration, is_wanted: bool) -> Instant {
        match self.state {
            PathState::Opening | PathState::Down if is_wanted => self.next_probe.min(self.probed_at + DOWN_PROBE_MIN),
            PathState::Good | PathState::Degraded => self.next_probe.min(self.probed_at + self.probe_pace(keepalive)),
            _ => self.next_probe,
        }
    }

    /// Returns the number of probes sent since the last answer.
    pub fn unanswered(&self) -> u32 {
        self.probes
    }

    /// Records a sent datagram that asks for an answer. On an answering path it makes a probe unnecessary.
    pub fn on_traffic(&mut self, now: Instant, keepalive: Duration) {
        if self.answers() {
            self.probed_at = now;
            self.next_probe = now + self.probe_pace(keepalive);
        }
    }

    /// Records a probe that leaves now.
    ///
    /// A suspect path goes down if enough probes stayed unanswered. `confirm` is the time that the last of them gets.
    pub fn on_probe_sent(
        &mut self,
        now: Instant,
        keepalive: Duration,
        confirm: Duration,
        is_wanted: bool,
    ) -> HealthChange {
        self.probes += 1;
        self.probed_at = now;
        let change = match self.state {
            PathState::Suspect if self.probes > self.probes_to_confirm => {
                self.fall(now);
                self.start_down(now);
                return self.enter(PathState::Down, "no answer to probes");
            }
            PathState::Suspect => {
                if self.probes == self.probes_to_confirm {
                    self.probe_interval = confirm;
                }
                None
            }
            PathState::Opening => {
                self.probe_interval = (self.probe_interval * 2).clamp(OPENING_PROBE_MIN, OPENING_PROBE_MAX);
                None
            }
            PathState::Down => {
                let longer = (self.probe_interval * 3 / 2).clamp(DOWN_PROBE_MIN, DOWN_PROBE_MAX);
                self.probe_interval = if is_wanted { DOWN_PROBE_MIN } else { longer };
                if planted::is(Fault::DownPathNotProbed) {
                    (self.next_probe, self.probed_at) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
                    return None;
                }
                None
            }
            PathState::Good | PathState::Degraded => {
                self.probe_interval = self.probe_pace(keepalive);
                None
            }
        };
        self.next_probe = now + self.probe_interval;
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEPALIVE: Duration = Duration::from_secs(1);
    const CONFIRM: Duration = Duration::from_millis(30);

    fn good(now: Instant) -> Health {
        let mut h = Health::new(now);
        assert_eq!(h.on_confirmed(now, now, KEEPALIVE), Some("answered"));
        h
    }

    #[test]
    fn silence_is_suspected_then_confirmed_then_probed() {
        let mut now = Instant::from_millis(1000);
        let mut h = good(now);
        assert!(h.on_silence(now, now, Duration::from_millis(40), 3).is_some());
        assert_eq!(h.state(), PathState::Suspect);
        while h.state() == PathState::Suspect {
            now = h.next_probe(KEEPALIVE, false);
            h.on_probe_sent(now, KEEPALIVE, CONFIRM, false);
        }
        assert_eq!(h.state(), PathState::Down);
        assert!(now < Instant::from_millis(1100), "{now:?}");
        for _ in 0..20 {
            now = h.next_probe(KEEPALIVE, false);
            h.on_probe_sent(now, KEEPALIVE, CONFIRM, false);
        }
        assert!(h.next_probe(KEEPALIVE, false) - now <= DOWN_PROBE_MAX);
        assert_eq!(h.on_confirmed(now, now, KEEPALIVE), Some("answers again"));
    }

    #[test]
    fn a_down_path_is_probed_often_while_it_is_wanted() {
        let mut now = Instant::from_millis(1000);
        let mut h = good(now);
        h.on_link_down(now, "unplugged");
        for _ in 0..20 {
            now = h.next_probe(KEEPALIVE, false);
            h.on_probe_sent(now, KEEPALIVE, CONFIRM, false);
        }
        assert_eq!(h.next_probe(KEEPALIVE, false) - now, DOWN_PROBE_MAX);
        for _ in 0..20 {
            assert_eq!(h.next_probe(KEEPALIVE, true) - now, DOWN_PROBE_MIN);
            now = h.next_probe(KEEPALIVE, true);
            h.on_probe_sent(now, KEEPALIVE, CONFIRM, true);
        }
    }

    #[test]
    fn a_path_in_use_again_is_probed_at_the_new_interval_at_once() {
        let now = Instant::from_millis(1000);
        let mut h = good(now);
        let (slow, asked) = (KEEPALIVE * 25, now + KEEPALIVE);
        h.on_probe_sent(asked, slow, CONFIRM, false);
        assert_eq!(h.next_probe(slow, false), asked + slow);
        assert_eq!(h.next_probe(KEEPALIVE, false), asked + KEEPALIVE);
    }

    #[test]
    fn an_answer_clears_suspicion() {
        let now = Instant::from_millis(1000);
        let mut h = good(now);
        h.on_silence(now, now, Duration::from_millis(40), 3);
        assert!(h.is_usable());
        assert_eq!(h.on_confirmed(now, now, KEEPALIVE), Some("answers again"));
        assert_eq!(h.state(), PathState::Good);
    }

    /// Lets the path go down and answer again. Returns true if the path is then on probation.
    fn flap(h: &mut Health, now: &mut Instant) -> bool {
        *now += Duration::from_secs(3);
        h.on_link_down(*now, "unplugged");
        *now += Duration::from_secs(3);
        h.on_confirmed(*now, *now, KEEPALIVE);
        h.is_on_probation()
    }

    /// Returns the time for which the path must answer before its probation ends.
    fn time_to_trust(h: &mut Health, now: &mut Instant) -> Duration {
        let since = *now;
        while h.is_on_probation() {
            *now = (*now).max(h.next_probe(KEEPALIVE, false));
            h.on_probe_sent(*now, KEEPALIVE, CONFIRM, false);
            h.on_confirmed(*now, *now, KEEPALIVE);
        }
        *now - since
    }

    #[test]
    fn each_fall_doubles_the_probation_and_calm_halves_it() {
        let mut now = Instant::from_millis(1000);
        let mut h = good(now);
        assert!(!flap(&mut h, &mut now), "one fall is forgiven");
        for expected in [2, 4, 8, 16, 32, 64, 128, 128] {
            assert!(flap(&mut h, &mut now));
            let took = time_to_trust(&mut h, &mut now);
            let expected = Duration::from_secs(expected);
            assert!(took >= expected && took <= expected + PROBATION_PROBE, "{took:?} of {expected:?}");
        }
        now += FALL_MEMORY * 3;
        assert!(flap(&mut h, &mut now));
        assert_eq!(time_to_trust(&mut h, &mut now).as_secs(), 32);
        now += FALL_MEMORY * 10;
        assert!(!flap(&mut h, &mut now), "all is forgotten");
    }

    #[test]
    fn silence_begins_the_probation_anew() {
        let mut now = Instant::from_millis(1000);
        let mut h = good(now);
        flap(&mut h, &mut now);
        flap(&mut h, &mut now);
        now += Duration::from_millis(1_500);
        h.on_silence(now, now, CONFIRM, 3);
        assert_eq!(h.on_confirmed(now, now, KEEPALIVE), Some("answers again, on probation"));
        assert!(time_to_trust(&mut h, &mut now) >= PROBATION_MIN);
    }

    #[test]
    fn heavy_loss_degrades_and_calm_restores() {
        let mut now = Instant::from_millis(1000);
        let mut h = good(now);
        assert!(h.on_loss(now, 0.05).is_none());
        assert!(h.on_loss(now, 0.15).is_some());
        now += Duration::from_secs(1);
        assert!(h.on_loss(now, 0.01).is_none(), "too early to trust it");
        now += Duration::from_secs(2);
        assert!(h.on_loss(now, 0.01).is_some());
        assert_eq!(h.state(), PathState::Good);
    }
}
