use super::{Crossing, FULL_PACKET_BYTES};
use alloc::collections::VecDeque;
use weft_units::{Duration, Instant, Rate};

/// Maximum number of chirps stored. Beyond it, the oldest is deleted.
const MOST: usize = 256;
/// Minimum number of chirps for an estimate.
const FEWEST: usize = 8;

/// One chirp, without any value that depends on the capacity.
///
/// The capacity estimate improves over time. Old chirps can thus be evaluated with a newer estimate.
struct DirectChirp {
    at: Instant,
    bytes: u64,
    piled_us: f64,
    span_us: f64,
    idle_us: f64,
}

/// Direct probing of the available bandwidth by chirps.
///
/// The method is that of Spruce (Strauss, Katabi and Kaashoek, IMC 2003). It uses the part of a chirp that is faster
/// than the available bandwidth. It estimates how much of a full path's capacity the chirp could use. A link that is
/// always busy transmits `capacity · span` bits. The part of the chirp that did not queue up used capacity that
/// nobody else needed. A second tight link makes the estimate too low. The estimate varies much, because a chirp
/// covers only a few milliseconds of the cross traffic.
pub struct Direct {
    window: Duration,
    chirps: VecDeque<DirectChirp>,
}

/// Available share of the capacity that chirps found in addition to the idle share found by single packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Beside {
    /// Mean idle share: the fraction of the time in which the path has no queue, as single packets measured it.
    pub idle: f64,
    /// Share of the capacity that chirps could use in addition to `idle`.
    pub more: f64,
    /// Standard error of `more`.
    pub error: f64,
}

impl Direct {
    /// Returns an estimator without chirps. It uses the chirps of the last `window`.
    pub fn over(window: Duration) -> Direct {
        Direct { window, chirps: VecDeque::new() }
    }

    /// Adds the packets of a chirp that arrived, in order of departure.
    ///
    /// It uses the part of the chirp that is at least as fast as `from`. `idle` is the fraction of the single packets
    /// sent at about the same time that met no queue.
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
        self.chirps.push_back(DirectChirp { at: now, bytes, piled_us, span_us, idle_us: idle * span_us });
        while self.chirps.len() > MOST || self.chirps.front().is_some_and(|chirp| now - chirp.at > self.window) {
            self.chirps.pop_front();
        }
    }

    /// Returns the share of `capacity` that is available beyond the idle share, or `None` with too few chirps.
    ///
    /// Chirps that by chance met no cross traffic do not show how much the traffic varies. The standard error is
    /// therefore taken as at least that of full cross-traffic packets at random times.
    pub fn beside(&self, capacity: Rate) -> Option<Beside> {
        let count = self.chirps.len() as f64;
        let span_us: f64 = self.chirps.iter().map(|chirp| chirp.span_us).sum();
        if self.chirps.len() < FEWEST || span_us <= 0.0 {
            return None;
        }
        let time_us = |bytes| capacity.time_for(bytes).as_secs_f64() * 1e6;
        let more_us = |chirp: &DirectChirp| time_us(chirp.bytes) - chirp.piled_us - chirp.idle_us;
        let idle = self.chirps.iter().map(|chirp| chirp.idle_us).sum::<f64>() / span_us;
        let more = self.chirps.iter().map(more_us).sum::<f64>() / span_us;
        let squares: f64 =
            self.chirps.iter().map(|chirp| more_us(chirp) - more * chirp.span_us).map(|off_us| off_us * off_us).sum();
        // The standard error of a ratio of sums (Cochran, Sampling Techniques, §6.4).
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

    /// Returns a chirp of twenty 1000-byte packets, sent at 5 and then at 10 Mbit/s, over a 10 Mbit/s link.
    ///
    /// Cross traffic takes 40 % of the capacity in bursts that each occupy the link for `lump_us`.
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
    fn chirps_without_cross_traffic_do_not_prove_an_idle_path() {
        let mut direct = Direct::over(Duration::from_secs(60));
        let alone = |k: i64| Crossing { sent_us: k * 800, delay_us: 0, bytes: 1_000 };
        let chirp: Vec<Crossing> = (0..20).map(alone).collect();
        (0..10).for_each(|_| direct.on_chirp(Instant::ZERO, &chirp, Rate::from_mbps(8), 0.2));
        // The chirps span 152 ms. In the 80 % of that time in which single packets found a queue, cross traffic sends
        // about 100 full packets of 1.2 ms. If they arrive at random, the standard deviation of their number is 10.
        // Ten packets take 12 ms, which is 8 % of the span.
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
