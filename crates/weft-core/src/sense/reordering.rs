//! Extent of reordering on one path: by how many packets, and by which time, packets overtake others.
//!
//! The loss detector waits for that number of later packets, and for that time between departures, before it declares a
//! missing packet lost.

use weft_units::{Duration, Instant};

/// Number of later packets whose arrival shows that a missing packet is lost, on a path that did not reorder packets.
///
/// *Standard*: RFC 9002 §6.1.1.
const PACKET_THRESHOLD: u64 = 3;
/// Upper limit of the number of later packets whose arrival shows that a missing packet is lost.
///
/// A packet overtaken by this many packets is lost, however much the path reorders.
const MAX_PACKET_THRESHOLD: u64 = 512;
/// Time after which the reordering window is halved if no packet was reordered as far as the window.
const MEMORY: Duration = Duration::from_secs(10);

/// Reordering window of one path, in packets and in sending time.
///
/// It adapts to the reordering seen (RACK-TLP, RFC 8985 §7.2).
#[derive(Clone, Copy, Debug)]
pub struct Reordering {
    packets: u64,
    time: Duration,
    seen_at: Instant,
}

impl Default for Reordering {
    fn default() -> Reordering {
        Reordering { packets: PACKET_THRESHOLD, time: Duration::ZERO, seen_at: Instant::ZERO }
    }
}

impl Reordering {
    /// Records a packet that `packets` later packets overtook.
    ///
    /// The last of these later packets was sent `time` after the overtaken packet.
    pub fn on_overtaken(&mut self, now: Instant, packets: u64, time: Duration) {
        if packets < self.packets {
            return;
        }
        self.packets = (packets + packets / 4 + 1).min(MAX_PACKET_THRESHOLD);
        self.time = self.time.max(time + time / 4);
        self.seen_at = now;
    }

    /// Halves the window if no packet was reordered as far as the window for 10 s.
    pub fn on_time(&mut self, now: Instant) {
        if self.packets > PACKET_THRESHOLD && now - self.seen_at > MEMORY {
            self.packets = (self.packets / 2).max(PACKET_THRESHOLD);
            self.time = if self.packets == PACKET_THRESHOLD { Duration::ZERO } else { self.time / 2 };
            self.seen_at = now;
        }
    }

    /// Reordering window as a duration, measured between sending times. Zero on a path that never reordered.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// True if a missing packet is to be declared lost.
    ///
    /// `packets` later packets overtook it. The last of these was sent `time` after the missing packet.
    pub fn is_lost(&self, packets: u64, time: Duration, srtt: Duration) -> bool {
        packets >= MAX_PACKET_THRESHOLD || (packets >= self.packets && time >= self.time.min(srtt))
    }
}
