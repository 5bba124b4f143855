//! Table of the flows that ask a link for rates.
//!
//! For each flow it stores the bytes sent at its last request. [`erica`](super::erica) needs the rate since then. The
//! table also measures the time between requests.

use crate::flow::hash::SeededState;
use core::hash::Hash;
use hashbrown::HashMap;
use weft_units::{Duration, Instant, Rate};

/// Time without a request after which a flow is treated as ended.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(2);
/// Divisor in the moving average of the time between two requests: a new time has the weight 1/8.
const SMOOTHING: u32 = 8;

/// Table of the flows that ask for rates. `K` identifies a flow.
#[derive(Clone, Debug)]
pub struct Askers<K> {
    flows: HashMap<K, RequesterState, SeededState>,
    most: usize,
    between: Duration,
}

/// State of a flow: the bytes it had sent at its last request, and the time of that request.
#[derive(Clone, Copy, Debug)]
struct RequesterState {
    sent_bytes: u64,
    asked_at: Instant,
}

impl<K: Copy + Eq + Hash> Askers<K> {
    /// Returns an empty table for at most `most` flows. `seed` keys the hash of the flows.
    ///
    /// Requests of further flows are not recorded.
    pub fn new(most: usize, seed: u64) -> Askers<K> {
        Askers { flows: HashMap::with_hasher(SeededState::new(seed)), most, between: Duration::ZERO }
    }

    /// Records a request of a flow that has sent `sent_bytes` in total.
    ///
    /// Returns its rate since its last request, or zero for the first request.
    pub fn ask(&mut self, now: Instant, flow: K, sent_bytes: u64) -> Rate {
        if self.flows.len() >= self.most && !self.flows.contains_key(&flow) {
            return Rate::ZERO;
        }
        let before = self.flows.insert(flow, RequesterState { sent_bytes, asked_at: now });
        let Some(before) = before.filter(|before| before.asked_at < now) else { return Rate::ZERO };
        let time = now - before.asked_at;
        self.between = (self.between * (SMOOTHING - 1) + time.min(FORGOTTEN_AFTER)) / SMOOTHING;
        Rate::from_bytes_over(sent_bytes.saturating_sub(before.sent_bytes), time)
    }

    /// Deletes flows that have sent no request during [`FORGOTTEN_AFTER`].
    pub fn expire(&mut self, now: Instant) {
        self.flows.retain(|_, flow| now - flow.asked_at < FORGOTTEN_AFTER);
    }

    /// True if the flow has sent a request and was not deleted by [`Askers::expire`].
    pub fn contains(&self, flow: &K) -> bool {
        self.flows.contains_key(flow)
    }

    /// Number of flows that have sent a request and were not deleted by [`Askers::expire`].
    pub fn count(&self) -> u32 {
        u32::try_from(self.flows.len()).unwrap_or(u32::MAX)
    }

    /// Returns the estimated delay until a grant takes effect; zero until some flow has sent two requests.
    ///
    /// A grant waits for the flow's next request, half a round trip on average, and then needs one round trip.
    pub fn feedback_delay(&self) -> Duration {
        self.between * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_flow_is_measured_between_two_requests() {
        let mut askers = Askers::new(2, 1);
        let at = Instant::from_millis;
        assert_eq!(askers.ask(at(0), 1, 5_000), Rate::ZERO);
        assert_eq!(askers.ask(at(100), 1, 130_000), Rate::from_mbps(10));
        assert_eq!(askers.ask(at(100), 1, 140_000), Rate::ZERO, "no time has passed");
        assert_eq!(askers.ask(at(200), 2, 1), Rate::ZERO);
        assert_eq!((askers.ask(at(200), 3, 1), askers.count()), (Rate::ZERO, 2), "there is no room for a third");
        askers.expire(at(2_150));
        assert_eq!((askers.contains(&1), askers.contains(&2), askers.count()), (false, true, 1));
    }

    #[test]
    fn the_delay_follows_the_time_between_requests() {
        let mut askers = Askers::new(8, 1);
        assert_eq!(askers.feedback_delay(), Duration::ZERO);
        (0..100).for_each(|n| _ = askers.ask(Instant::from_millis(60 * n), 1, 0));
        assert!(askers.feedback_delay().abs_diff(Duration::from_millis(90)) < Duration::from_millis(1));
    }
}
