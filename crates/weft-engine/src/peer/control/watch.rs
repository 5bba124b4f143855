//! Decides how often paths without traffic are probed.
//!
//! Each host packet pays for probing time, so probes cost little compared with the packets.

use weft_units::{Duration, Instant};

/// Probing time that each packet pays for.
///
/// Derived: the probe interval of a watched path, so that probes never outnumber packets.
const EACH_PACKET: Duration = Duration::from_secs(1);
/// Paid probing time above which paths are watched. One packet alone does not suffice.
const LEAST: Duration = EACH_PACKET;
/// Maximum probing time that can be paid for in advance.
const MOST: Duration = Duration::from_secs(30);
/// Probe interval of a watched path that carries no traffic.
const PACE: Duration = EACH_PACKET;
/// Longest mean packet interval that counts as dense. Tuned: packets of a call arrive every 20 ms.
///
/// While packets are dense, each path is asked again as soon as it has answered. The delays of all paths are then
/// well known.
const DENSE: Duration = Duration::from_millis(25);
/// Divisor of the newest interval in the moving average. Standard: as for SRTT (RFC 6298).
const GAIN: u32 = 8;

/// Paid probing time for the paths to one peer.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    until: Instant,
    last: Instant,
    /// Mean interval between packets, at most [`EACH_PACKET`].
    interval: Duration,
}

impl Watch {
    /// Returns a watch with the most probing time, counted from `now`.
    pub fn new(now: Instant) -> Watch {
        Watch { until: now + MOST, last: now, interval: EACH_PACKET }
    }

    /// Notes a host's packet to or from the peer.
    pub fn on_packet(&mut self, now: Instant) {
        self.until = (self.until.max(now) + EACH_PACKET).min(now + MOST);
        let newest = (now - self.last).min(EACH_PACKET);
        self.interval = (self.interval * (GAIN - 1) + newest) / GAIN;
        self.last = now;
    }

    /// Returns the probe interval of paths without traffic, while they are watched.
    pub fn pace(&self, now: Instant) -> Option<Duration> {
        (self.until - now > LEAST).then_some(PACE)
    }

    /// True if packets arrive close together.
    pub fn is_dense(&self, now: Instant) -> bool {
        self.interval.max(now - self.last) <= DENSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the share of 100 s in which paths are watched.
    ///
    /// One packet arrives in each interval of `every`.
    fn watched(every: Duration) -> f64 {
        let (mut watch, start) =
            (Watch { until: Instant::ZERO, ..Watch::new(Instant::ZERO) }, Instant::from_millis(1_000));
        let (mut next, mut on) = (start, 0);
        for step in 0..10_000 {
            let now = start + Duration::from_millis(10) * step;
            if now >= next {
                watch.on_packet(now);
                next = now + every;
            }
            on += u32::from(watch.pace(now).is_some());
        }
        f64::from(on) / 10_000.0
    }

    #[test]
    fn packets_pay_for_the_watch() {
        assert_eq!([20, 100, 900].map(|ms| watched(Duration::from_millis(ms)) > 0.9), [true; 3]);
        assert_eq!([1_100, 2_000, 10_000].map(|ms| watched(Duration::from_millis(ms))), [0.0; 3]);
    }

    #[test]
    fn it_ends_after_the_last_packet() {
        let mut watch = Watch::new(Instant::ZERO);
        (0..100_000).for_each(|n| watch.on_packet(Instant::from_micros(n)));
        assert!(
            watch.pace(Instant::from_millis(29_000)).is_some() && watch.pace(Instant::from_millis(29_101)).is_none()
        );
    }

    #[test]
    fn a_call_is_dense_and_a_ping_is_not() {
        let is_dense = |every_ms: u64| {
            let mut watch = Watch::new(Instant::ZERO);
            (1..100).for_each(|n| watch.on_packet(Instant::from_millis(n * every_ms)));
            watch.is_dense(Instant::from_millis(99 * every_ms + 10))
        };
        assert_eq!([1, 20, 30, 500].map(is_dense), [true, true, false, false]);
    }
}
