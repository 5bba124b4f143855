use super::{Crossing, FULL_PACKET_BYTES};
use alloc::collections::VecDeque;
use weft_units::{Duration, Instant, Rate};

/// Chirps remembered at most.
const MOST: usize = 256;
/// With fewer nothing is said.
const FEWEST: usize = 8;

/// Without the capacity, which is known better later.
struct Chirp {
    at: Instant,
    bytes: u64,
    piled_us: f64,
    span_us: f64,
    idle_us: f64,
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

/// What chirps found beside the idle share that packets on their own showed at the same time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Beside {
    /// The mean of that idle share, of one.
    pub idle: f64,
    /// How much more of the capacity passed.
    pub more: f64,
    /// The standard error of `more`.
    pub error: f64,
}

impl Direct {
    /// Over the last `window`.
    pub fn over(window: Duration) -> Direct {
        Direct { window, chirps: VecDeque::new() }
    }

    /// Takes in what arrived of a chirp, in order of departure: its part that is at least as fast as `from`. Around it packets on their
    /// own find no queue with a share of `idle`.
    pub fn on_chirp(&mut self, now: Instant, chirp: &[Crossing], from: Rate, idle: f64) {
        let is_fast = |pair: &[Crossing]| {
            let gap_us = pair[1].sent_us - pair[0].sent_us;
            gap_us > 0 && i128::from(pair[1].bytes) * 8_000_000 >= i128::from(from.bps()) * i128::from(gap_us)
        };
        let Some(start) = chirp.windows(2).position(is_fast) else { return };
        let (first, rest) = (chirp[start], &chirp[start + 1..]);
        let Some(last) = rest.last() else { return };
        let bytes = rest.iter().map(|packet| u64::from(packet.bytes)).sum();
        let piled_us = (last.delay_us - first.delay_us) as f64;
        let span_us = (last.sent_us - first.sent_us) as f64;
        self.chirps.push_back(Chirp { at: now, bytes, piled_us, span_us, idle_us: idle * span_us });
        while self.chirps.len() > MOST || self.chirps.front().is_some_and(|chirp| now - chirp.at > self.window) {
            self.chirps.pop_front();
        }
    }

    /// How much more of `capacity` is available than is idle; `None` with too few chirps. Chirps that happened to meet nobody do not show
    /// how much they vary, so the error is at least that of full packets of others at random times.
    pub fn beside(&self, capacity: Rate) -> Option<Beside> {
        let count = self.chirps.len() as f64;
        let span_us: f64 = self.chirps.iter().map(|chirp| chirp.span_us).sum();
        if self.chirps.len() < FEWEST || span_us <= 0.0 {
            return None;
        }
        let time_us = |bytes| capacity.time_for(bytes).as_secs_f64() * 1e6;
        let more_us = |chirp: &Chirp| time_us(chirp.bytes) - chirp.piled_us - chirp.idle_us;
        let idle = self.chirps.iter().map(|chirp| chirp.idle_us).sum::<f64>() / span_us;
        let more = self.chirps.iter().map(more_us).sum::<f64>() / span_us;
        let squares: f64 =
            self.chirps.iter().map(|chirp| more_us(chirp) - more * chirp.span_us).map(|off_us| off_us * off_us).sum();
        // The error of a ratio of sums (Cochran, Sampling Techniques, §6.4).
        let seen = libm::sqrt(squares * count / (count - 1.0)) / span_us;
        let least = libm::sqrt((1.0 - idle).max(0.0) * time_us(FULL_PACKET_BYTES) / span_us);
        Some(Beside { idle, more, error: seen.max(least) })
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
        for (lump_us, error) in [100, 4_800].into_iter().zip(&mut errors) {
            let mut direct = Direct::over(Duration::from_secs(60));
            for i in 0..60 {
                let now = Instant::from_millis(i * 1_000);
                direct.on_chirp(now, &chirp(lump_us, &mut rng), Rate::from_mbps(8), 0.5);
            }
            let found = direct.beside(CAPACITY).unwrap();
            assert!((found.more - 0.1).abs() < 3.0 * found.error && (found.idle - 0.5).abs() < 1e-9, "{found:?}");
            *error = found.error;
        }
        assert!(errors[0] < 0.04 && errors[1] > 1.5 * errors[0], "{errors:?}");
    }

    #[test]
    fn chirps_that_met_nobody_are_not_sure_that_nobody_is_there() {
        let mut direct = Direct::over(Duration::from_secs(60));
        let alone = |k: i64| Crossing { sent_us: k * 800, delay_us: 0, bytes: 1_000 };
        let chirp: Vec<Crossing> = (0..20).map(alone).collect();
        (0..10).for_each(|_| direct.on_chirp(Instant::ZERO, &chirp, Rate::from_mbps(8), 0.2));
        // 152 ms of chirps, in which a hundred full packets of 1.2 ms would be, ten more or less.
        let found = direct.beside(CAPACITY).unwrap();
        assert!((found.more - 0.8).abs() < 1e-9 && (found.error - 0.08).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_capacity_that_was_wrong_at_first_does_no_lasting_harm() {
        let mut direct = Direct::over(Duration::from_secs(60));
        let mut rng = Rng::new(3);
        (0..60).for_each(|i| direct.on_chirp(Instant::from_millis(i), &chirp(100, &mut rng), Rate::from_mbps(8), 0.6));
        let more = |mbps| direct.beside(Rate::from_mbps(mbps)).unwrap().more;
        assert!(more(5) > 0.9 && more(10).abs() < 0.1, "{} {}", more(5), more(10));
    }

    #[test]
    fn slow_chirps_and_few_say_nothing() {
        let mut direct = Direct::over(Duration::from_secs(60));
        let mut rng = Rng::new(1);
        for i in 0..20 {
            direct.on_chirp(Instant::from_millis(i), &chirp(100, &mut rng), Rate::from_mbps(11), 0.5);
        }
        assert_eq!(direct.beside(CAPACITY), None);
        (0..7).for_each(|_| direct.on_chirp(Instant::ZERO, &chirp(100, &mut rng), CAPACITY, 0.5));
        assert_eq!(direct.beside(CAPACITY), None);
    }
}
