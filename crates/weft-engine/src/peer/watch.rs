//! How closely paths without traffic are watched. Each packet of the hosts pays for it, so that probes cost little beside what is sent.

use weft_units::{Duration, Instant};

/// Each packet pays for so much time. Derived: the interval of the probes of a watched path, so that they never outnumber packets.
const EACH_PACKET: Duration = Duration::from_secs(1);
/// Paths are watched while more than this is paid for. One packet is not enough.
const LEAST: Duration = EACH_PACKET;
/// No more is paid in advance.
const MOST: Duration = Duration::from_secs(30);

/// Until when the watch over the paths to a peer is paid for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    until: Instant,
}

impl Watch {
    /// Paid for the longest time from `now` on.
    pub(super) fn new(now: Instant) -> Watch {
        Watch { until: now + MOST }
    }

    /// A packet of the hosts leaves for the peer, or came from it.
    pub(super) fn on_packet(&mut self, now: Instant) {
        self.until = (self.until.max(now) + EACH_PACKET).min(now + MOST);
    }

    /// Whether they are watched.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.until - now > LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of a run of 100 s in which paths are watched, with a packet `every` so often.
    fn watched(every: Duration) -> f64 {
        let (mut watch, start) = (Watch { until: Instant::ZERO }, Instant::from_millis(1_000));
        let (mut next, mut on) = (start, 0);
        for step in 0..10_000 {
            let now = start + Duration::from_millis(10) * step;
            if now >= next {
                watch.on_packet(now);
                next = now + every;
            }
            on += u32::from(watch.is_on(now));
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
        assert!(watch.is_on(Instant::from_millis(29_000)) && !watch.is_on(Instant::from_millis(29_101)));
    }
}
