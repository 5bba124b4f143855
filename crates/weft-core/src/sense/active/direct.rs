use super::Crossing;
use alloc::collections::VecDeque;
use weft_units::{Duration, Instant, Rate};

/// Chirps remembered at most.
const MOST: usize = 128;
/// With fewer nothing is said.
const FEWEST: usize = 8;

struct Chirp {
    at: Instant,
    passed_us: f64,
    span_us: f64,
}

/// What passes while a path is kept full, by what piles up: direct probing (Spruce: Strauss, Katabi and Kaashoek, IMC 2003), on the part
/// of chirps that is faster than what is available.
///
/// A link that is busy all the time sends `capacity · span`; of what the chirp put in, what did not pile up took the place of nobody
/// else's. With a second tight link it says too little, and it varies much: a chirp sees a few milliseconds of what others send.
pub struct Direct {
    window: Duration,
    chirps: VecDeque<Chirp>,
}

/// A mean and how exact it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

impl Direct {
    /// Over the last `window`.
    pub fn over(window: Duration) -> Direct {
        Direct { window, chirps: VecDeque::new() }
    }

    /// Takes in what arrived of a chirp, in order of departure: its part that is at least as fast as `from`.
    pub fn on_chirp(&mut self, now: Instant, chirp: &[Crossing], from: Rate, capacity: Rate) {
        let is_fast = |pair: &[Crossing]| {
            let gap_us = pair[1].sent_us - pair[0].sent_us;
            gap_us > 0 && i128::from(pair[1].bytes) * 8_000_000 >= i128::from(from.bps()) * i128::from(gap_us)
        };
        let Some(start) = chirp.windows(2).position(is_fast) else { return };
        let (first, rest) = (chirp[start], &chirp[start + 1..]);
        let Some(last) = rest.last() else { return };
        let own_us: f64 =
            rest.iter().map(|packet| capacity.time_for(u64::from(packet.bytes)).as_secs_f64() * 1e6).sum();
        let passed_us = own_us - (last.delay_us - first.delay_us) as f64;
        let span_us = (last.sent_us - first.sent_us) as f64;
        self.chirps.push_back(Chirp { at: now, passed_us, span_us });
        while self.chirps.len() > MOST || self.chirps.front().is_some_and(|chirp| now - chirp.at > self.window) {
            self.chirps.pop_front();
        }
    }

    /// The share of the capacity that is available; `None` with too few chirps.
    pub fn share(&self) -> Option<Mean> {
        let count = self.chirps.len() as f64;
        let span_us: f64 = self.chirps.iter().map(|chirp| chirp.span_us).sum();
        if self.chirps.len() < FEWEST || span_us <= 0.0 {
            return None;
        }
        let value = self.chirps.iter().map(|chirp| chirp.passed_us).sum::<f64>() / span_us;
        let squares: f64 = self.chirps.iter().map(|chirp| chirp.passed_us - value * chirp.span_us).map(|x| x * x).sum();
        // The error of a ratio of sums (Cochran, Sampling Techniques, §6.4).
        Some(Mean { value, error: libm::sqrt(squares * count / (count - 1.0)) / span_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use weft_units::Rng;

    const CAPACITY: Rate = Rate::from_mbps(10);

    /// Twenty packets of 1000 bytes at 5 and then at 10 Mbit/s, with 40 % of the capacity taken by others in lumps of `lump_us`.
    fn chirp(lump_us: i64, rng: &mut Rng) -> Vec<Crossing> {
        let (mut sent_us, mut delay_us) = (0, 0i64);
        let step = |k: i64| {
            let gap_us = if k < 10 { 1_600 } else { 800 };
            sent_us += gap_us;
            let lumps = (0..gap_us / 100).filter(|_| rng.chance(40.0 / lump_us as f64)).count() as i64;
            delay_us = (delay_us + 800 + lumps * lump_us - gap_us).max(0);
            Crossing { sent_us, delay_us, bytes: 1_000 }
        };
        (0..20).map(step).collect()
    }

    #[test]
    fn it_finds_what_is_left_and_knows_how_exactly() {
        let mut rng = Rng::new(2);
        let mut errors = [0.0; 2];
        for (lump_us, error) in [100, 1_200].into_iter().zip(&mut errors) {
            let mut direct = Direct::over(Duration::from_secs(60));
            for i in 0..60 {
                let now = Instant::from_millis(i * 1_000);
                direct.on_chirp(now, &chirp(lump_us, &mut rng), Rate::from_mbps(8), CAPACITY);
            }
            let share = direct.share().unwrap();
            assert!((share.value - 0.6).abs() < 3.0 * share.error, "{share:?}");
            *error = share.error;
        }
        assert!(errors[0] < 0.03 && errors[1] > 2.0 * errors[0], "{errors:?}");
    }

    #[test]
    fn slow_chirps_and_few_say_nothing() {
        let mut direct = Direct::over(Duration::from_secs(60));
        let mut rng = Rng::new(1);
        for i in 0..20 {
            direct.on_chirp(Instant::from_millis(i), &chirp(100, &mut rng), Rate::from_mbps(11), CAPACITY);
        }
        assert_eq!(direct.share(), None);
        (0..7).for_each(|_| direct.on_chirp(Instant::ZERO, &chirp(100, &mut rng), CAPACITY, CAPACITY));
        assert_eq!(direct.share(), None);
    }
}
