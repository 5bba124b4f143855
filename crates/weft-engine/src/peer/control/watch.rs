//! Decides how often paths without traffic are probed.
//!
//! Paths are *watched* for a time after host packets: each packet extends this time. A watched path is probed once a
//! second. Probes therefore cost little compared with the packets.

use weft_units::{Duration, Instant};

/// Time by which each host packet extends the time for which paths are watched.
///
/// *Derived*: the probe interval of a watched path. On each path there are therefore never more probes than packets.
const EACH_PACKET: Duration = Duration::from_secs(1);
/// Paths are watched only while more than this is left of the time that packets have added.
///
/// A single packet adds just this time and therefore causes no probe.
const LEAST: Duration = EACH_PACKET;
/// Maximum time after the last packet for which paths are watched.
const MOST: Duration = Duration::from_secs(30);
/// Probe interval of a watched path that carries no traffic.
const PACE: Duration = EACH_PACKET;
/// Time between the node's probes to two peers that have had no packets yet. Such peers are probed in turn.
///
/// *Tuned*: 500 probes a second and their answers take 3 % of a core. With 4,095 peers each is probed every 8 s.
const UNPAID: Duration = Duration::from_millis(2);
/// Longest mean interval between host packets that counts as dense.
///
/// *Tuned*: packets of a voice call arrive every 20 ms. While packets are dense, each path gets another ping soon after
/// it has answered. The delays of all paths are then measured often.
const DENSE: Duration = Duration::from_millis(25);
/// Divisor of the newest interval in the moving average. *Standard*: as for SRTT (RFC 6298).
const GAIN: u32 = 8;

/// Time until which the paths to one peer are watched: this node probes them at a fixed interval, even without traffic.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    until: Instant,
    /// Probe interval of the paths while they are watched.
    pace: Duration,
    /// Time of the last host packet to or from the peer.
    last: Option<Instant>,
    /// Mean interval between host packets, at most [`EACH_PACKET`].
    interval: Duration,
}

impl Watch {
    /// Returns a watch that lasts [`MOST`] from `now` without packets. The node has `peers` peers.
    ///
    /// A node with many peers probes each peer less often during this time ([`UNPAID`]).
    pub fn unpaid(now: Instant, peers: usize) -> Watch {
        let shared = UNPAID.saturating_mul(u32::try_from(peers).unwrap_or(u32::MAX));
        Watch { until: now + MOST, pace: PACE.max(shared), last: None, interval: EACH_PACKET }
    }

    /// Records a host's packet to or from the peer.
    pub fn on_packet(&mut self, now: Instant) {
        self.until = (self.until.max(now) + EACH_PACKET).min(now + MOST);
        self.pace = PACE;
        let newest = self.since_packet(now).min(EACH_PACKET);
        self.interval = (self.interval * (GAIN - 1) + newest) / GAIN;
        self.last = Some(now);
    }

    /// True if a host packet to or from the peer passed within the last [`MOST`].
    pub fn had_packet(&self, now: Instant) -> bool {
        self.since_packet(now) < MOST
    }

    fn since_packet(&self, now: Instant) -> Duration {
        self.last.map_or(Duration::MAX, |last| now - last)
    }

    /// Returns the probe interval of paths without traffic, or `None` if they are not watched.
    pub fn pace(&self, now: Instant) -> Option<Duration> {
        (self.until - now > LEAST).then_some(self.pace)
    }

    /// True if host packets to or from the peer now pass at intervals of at most [`DENSE`] on average.
    pub fn is_dense(&self, now: Instant) -> bool {
        self.interval.max(self.since_packet(now)) <= DENSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fraction of a time of 100 s in which paths are watched if a packet passes once in each `every`.
    fn watched(every: Duration) -> f64 {
        let unpaid = Watch::unpaid(Instant::ZERO, 1);
        let (mut watch, start) = (Watch { until: Instant::ZERO, ..unpaid }, Instant::from_millis(1_000));
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
        let mut watch = Watch::unpaid(Instant::ZERO, 1);
        (0..100_000).for_each(|n| watch.on_packet(Instant::from_micros(n)));
        assert!(
            watch.pace(Instant::from_millis(29_000)).is_some() && watch.pace(Instant::from_millis(29_101)).is_none()
        );
    }

    #[test]
    fn very_many_peers_share_the_probes_that_no_packet_paid_for() {
        for peers in [1, 500, 501, 4_095, 65_535] {
            let mut watch = Watch::unpaid(Instant::ZERO, peers);
            let pace = watch.pace(Instant::ZERO).unwrap();
            assert!(pace >= PACE && peers as f64 / pace.as_secs_f64() < 501.0, "{peers}: {pace:?}");
            watch.on_packet(Instant::from_millis(10));
            assert_eq!(watch.pace(Instant::from_millis(10)), Some(PACE));
        }
    }

    #[test]
    fn a_call_is_dense_and_a_ping_is_not() {
        let is_dense = |every_ms: u64| {
            let mut watch = Watch::unpaid(Instant::ZERO, 1);
            (1..100).for_each(|n| watch.on_packet(Instant::from_millis(n * every_ms)));
            watch.is_dense(Instant::from_millis(99 * every_ms + 10))
        };
        assert_eq!([1, 20, 30, 500].map(is_dense), [true, true, false, false]);
    }
}
