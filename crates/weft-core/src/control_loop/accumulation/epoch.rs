use weft_units::{Duration, Instant};

/// Number of intervals T after which the loop checks whether the accumulation has drained.
const PATIENCE: u32 = 8;

/// A congestion epoch: the time from the accumulation's rise above H to its fall below L (paper 004 §6.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct CongestionEpoch {
    /// Accumulation when the drain was last checked. Paper 004's a_temp is the change since then.
    judged_bytes: f32,
    /// Time of the last check of the drain, in microseconds modulo 2^32.
    judged_at_us: u32,
    /// Number of bytes that must have drained since the last check because the loop sent less than arrived.
    drained_bytes: f32,
}

/// Result of a measurement during a congestion epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Course {
    /// The epoch continues: it is not yet known, or the accumulation changes.
    Goes,
    /// The epoch ends: the accumulation fell below the threshold L.
    Ends,
    /// The accumulation neither drained nor grew, although it should have drained.
    ///
    /// The cause is a longer path, not a queue.
    DelayChanged,
}

impl CongestionEpoch {
    pub fn begin(now: Instant, accumulation_bytes: f32) -> CongestionEpoch {
        CongestionEpoch { judged_bytes: accumulation_bytes, judged_at_us: now.as_micros() as u32, drained_bytes: 0.0 }
    }

    /// Adds one measurement and returns the state of the epoch.
    ///
    /// `drained_bytes` is the number of bytes by which the loop sent less than arrived since the last measurement.
    /// `low_bytes` is the threshold L, and `interval` is T.
    pub fn on_accumulation(
        &mut self,
        now: Instant,
        accumulation_bytes: f32,
        drained_bytes: f32,
        low_bytes: f32,
        interval: Duration,
    ) -> Course {
        if accumulation_bytes < low_bytes {
            return Course::Ends;
        }
        self.drained_bytes += drained_bytes.max(0.0);
        let for_us = (now.as_micros() as u32).wrapping_sub(self.judged_at_us);
        if u128::from(for_us) < (interval * PATIENCE).as_micros() {
            return Course::Goes;
        }
        let change = accumulation_bytes - self.judged_bytes;
        let flat = change.abs() < (self.drained_bytes / 4.0).max(low_bytes / 8.0);
        if flat && self.drained_bytes > low_bytes / 2.0 {
            return Course::DelayChanged;
        }
        if !flat {
            *self = CongestionEpoch::begin(now, accumulation_bytes);
        }
        Course::Goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_millis(40);

    /// Returns the interval in which a congestion epoch ends, and how it ends.
    ///
    /// `of` returns the accumulation in bytes at the end of each interval. In each interval the loop sends 500 bytes
    /// less than arrive.
    fn course(of: impl Fn(u32) -> f32) -> (u32, Course) {
        let mut epoch = CongestionEpoch::begin(Instant::ZERO, of(0));
        for k in 1..100 {
            let now = Instant::ZERO + T * k;
            let course = epoch.on_accumulation(now, of(k), 500.0, 2_250.0, T);
            if course != Course::Goes {
                return (k, course);
            }
        }
        (100, Course::Goes)
    }

    #[test]
    fn a_queue_drains_a_longer_path_does_not() {
        assert_eq!(course(|k| 10_000.0 - 500.0 * k as f32), (16, Course::Ends));
        assert_eq!(course(|_| 10_000.0), (8, Course::DelayChanged));
        assert_eq!(course(|k| 10_000.0 + 400.0 * k as f32), (100, Course::Goes), "somebody else fills it");
    }
}
