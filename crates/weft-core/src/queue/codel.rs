//! CoDel (RFC 8289): drops or marks units at the head of a queue.
//!
//! CoDel acts once the queueing delay has stayed above the target for one interval. The caller passes each new head to
//! [`Codel::condemns`], and drops or marks it if that returns true. CoDel never changes the queue itself.

use weft_units::{Duration, Instant};

/// CoDel's state for one queue.
#[derive(Clone, Copy, Debug)]
pub struct Codel {
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// CoDel's target and interval, and the backlog at or below which CoDel never acts.
#[derive(Clone, Copy, Debug)]
pub struct CodelParams {
    /// Acceptable standing queueing delay.
    pub target: Duration,
    /// Time for which the delay must stay above the target before CoDel acts.
    pub interval: Duration,
    /// CoDel never drops or marks while the queue holds this number of bytes or fewer.
    pub mtu_bytes: u32,
}

impl Codel {
    /// State of a queue whose delay has never been above the target.
    pub const NEW: Codel =
        Codel { first_above: None, drop_next: Instant::ZERO, count: 0, last_count: 0, dropping: false };

    /// True if the unit at the head must be dropped or marked.
    ///
    /// The decision depends on the unit's waiting time `sojourn` and on `queue_bytes`, which includes the unit. Call
    /// this for each new head, and after a drop for the next head too. Call [`Codel::idle`] when the queue is empty.
    pub fn condemns(&mut self, now: Instant, sojourn: Duration, queue_bytes: u64, params: &CodelParams) -> bool {
        let standing = self.stands_above(now, sojourn, queue_bytes, params);
        if !standing {
            self.dropping = false;
            return false;
        }
        if !self.dropping {
            self.enter(now, params.interval);
            return true;
        }
        if now < self.drop_next {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.drop_next = control_law(self.drop_next, params.interval, self.count);
        true
    }

    /// Records that the queue ran empty.
    pub fn idle(&mut self) {
        self.first_above = None;
        self.dropping = false;
    }

    fn stands_above(&mut self, now: Instant, sojourn: Duration, queue_bytes: u64, params: &CodelParams) -> bool {
        if sojourn < params.target || queue_bytes <= u64::from(params.mtu_bytes) {
            self.first_above = None;
            return false;
        }
        let act_at = *self.first_above.get_or_insert(now + params.interval);
        now >= act_at
    }

    /// Enters the dropping state.
    ///
    /// If the last dropping state ended less than 16 intervals ago, CoDel begins with nearly the drop rate that it had
    /// reached then (RFC 8289 §5.4).
    fn enter(&mut self, now: Instant, interval: Duration) {
        let since_last = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next) < interval * 16;
        self.count = if since_last > 1 && recent { since_last } else { 1 };
        self.last_count = self.count;
        self.dropping = true;
        self.drop_next = control_law(now, interval, self.count);
    }
}

/// Returns the time of the next drop: `from + interval / √count`. The square root is in 16.16 fixed point.
fn control_law(from: Instant, interval: Duration, count: u32) -> Instant {
    let root = (u64::from(count.max(1)) << 32).isqrt();
    let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX >> 16).min(u64::MAX >> 16);
    from + Duration::from_nanos((nanos << 16) / root)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: CodelParams =
        CodelParams { target: Duration::from_millis(5), interval: Duration::from_millis(100), mtu_bytes: 1_514 };

    fn condemned_at(sojourn: Duration, queue_bytes: u64, until_ms: u64) -> alloc::vec::Vec<u64> {
        let mut codel = Codel::NEW;
        (0..until_ms).filter(|&ms| codel.condemns(Instant::from_millis(ms), sojourn, queue_bytes, &PARAMS)).collect()
    }

    #[test]
    fn drops_at_the_square_root_spacing() {
        let at = condemned_at(Duration::from_millis(20), 30_000, 400);
        assert_eq!(at, [100, 200, 271, 329, 379], "first after an interval, then + 100/√1, /√2, /√3, /√4");
    }

    #[test]
    fn leaves_short_delays_and_short_queues_alone() {
        assert!(condemned_at(Duration::from_millis(4), 30_000, 1_000).is_empty());
        assert!(condemned_at(Duration::from_millis(50), 1_514, 1_000).is_empty());
    }

    #[test]
    fn one_good_head_ends_the_spell_and_a_relapse_resumes_the_rate() {
        let mut codel = Codel::NEW;
        let bad = Duration::from_millis(20);
        let drops = |codel: &mut Codel, from: u64, to: u64| {
            (from..to).filter(|&ms| codel.condemns(Instant::from_millis(ms), bad, 30_000, &PARAMS)).count()
        };
        let first = drops(&mut codel, 0, 1_000);
        codel.condemns(Instant::from_millis(1_000), Duration::ZERO, 30_000, &PARAMS);
        let resumed = drops(&mut codel, 1_001, 2_001);
        assert!(resumed > first + first / 2, "{first} drops in the first second, {resumed} in the second");
    }

    #[test]
    fn the_control_law_is_the_inverse_square_root() {
        let step = |count| control_law(Instant::ZERO, PARAMS.interval, count).as_micros();
        assert_eq!([1, 4, 100].map(step), [100_000, 50_000, 10_000]);
        assert!(step(2).abs_diff(70_711) <= 1);
    }
}
