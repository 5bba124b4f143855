//! Decides how often paths without traffic are probed. Each packet of the hosts pays for probes, so that they cost little beside the packets.

use weft_units::{Duration, Instant};

/// Each packet pays for this time. Derived: it is the interval of the probes of a watched path, so probes never outnumber packets.
const EACH_PACKET: Duration = Duration::from_secs(1);
/// Paths are watched while more time than this is paid for. One packet is not enough.
const LEAST: Duration = EACH_PACKET;
/// No more time is paid for in advance.
const MOST: Duration = Duration::from_secs(30);
/// How often a watched path is probed that carries nothing.
const PACE: Duration = EACH_PACKET;
/// Longest interval of dense packets. While packets are dense, each path is asked again as soon as it has answered, and the delays of all paths
/// are known well. Tuned: a call's packets come each 20 ms.
const DENSE: Duration = Duration::from_millis(25);
/// Weight of the newest interval between packets. Standard: as of SRTT (RFC 6298).
const GAIN: u32 = 8;

/// Until when the watch over the paths to a peer is paid for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    until: Instant,
    last: Instant,
    /// Mean interval between packets; at most [`EACH_PACKET`].
    interval: Duration,
}

impl Watch {
    /// Nothing is paid for yet: of very many peers that never send a packet, none is watched.
    pub(super) fn new(now: Instant) -> Watch {
        Watch { until: now, last: now, interval: EACH_PACKET }
    }

    /// A packet of the hosts leaves for the peer, or came from it.
    pub(super) fn on_packet(&mut self, now: Instant) {
        self.until = (self.until.max(now) + EACH_PACKET).min(now + MOST);
        let newest = (now - self.last).min(EACH_PACKET);
        self.interval = (self.interval * (GAIN - 1) + newest) / GAIN;
        self.last = now;
    }

    /// How often a path without traffic is probed, while they are watched.
    pub(super) fn pace(&self, now: Instant) -> Option<Duration> {
        (self.until - now > LEAST).then_some(PACE)
    }

    /// How long a path may take to answer at least before it is asked again. Where no packet waits for the answer, a node that has no time
    /// for its peers must not get more questions from each of them for that.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        let is_idle = self.pace(now).is_none() && now - self.last > EACH_PACKET;
        if is_idle { PACE } else { Duration::ZERO }
    }

    /// Whether packets come close together.
    pub(super) fn is_dense(&self, now: Instant) -> bool {
        self.interval.max(now - self.last) <= DENSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of a run of 100 s in which paths are watched, with a packet `every` so often.
    fn watched(every: Duration) -> f64 {
        let (mut watch, start) = (Watch::new(Instant::ZERO), Instant::from_millis(1_000));
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
