use weft_units::{Duration, Instant};

/// Intervals after which an accumulation that should have drained is looked at.
const PATIENCE: u32 = 8;

/// A congestion epoch: from the accumulation rising above H to its falling below L (paper 004 §6.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    /// The accumulation when the drain was last judged (the paper's a_temp is the change since).
    judged_bytes: f32,
    /// Modulo 2^32.
    judged_at_us: u32,
    /// Bytes our own backing off has drained since, at least.
    drained_bytes: f32,
}

/// How an epoch goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Course {
    /// The accumulation stands, or drains.
    Goes,
    /// It fell below L.
    Ends,
    /// It neither drained nor grew while it should have drained: not a queue, but a longer path.
    DelayChanged,
}

impl Epoch {
    pub fn begin(now: Instant, accumulation_bytes: f32) -> Epoch {
        Epoch { judged_bytes: accumulation_bytes, judged_at_us: now.as_micros() as u32, drained_bytes: 0.0 }
    }

    /// Takes in one measurement. `drained_bytes` is what the loop left unsent of what arrived since the last; `interval` is T.
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
            *self = Epoch::begin(now, accumulation_bytes);
        }
        Course::Goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_millis(40);

    /// The course of an epoch whose accumulation follows `of`, one value an interval; 500 bytes should drain in each.
    fn course(of: impl Fn(u32) -> f32) -> (u32, Course) {
        let mut epoch = Epoch::begin(Instant::ZERO, of(0));
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
