//! Path MTU discovery by probes in the datagram layer (RFC 8899), and survival of black holes.

use weft_units::{Duration, Instant};

/// Sizes of outer IP packets worth trying, largest first: Ethernet jumbo, Ethernet, PPPoE, common tunnels, the least weft fills.
const LADDER: [u16; 12] = [9000, 1500, 1492, 1480, 1472, 1460, 1440, 1420, 1400, 1380, 1360, 1340];
/// What every path is taken to carry (RFC 8200 §5).
const BASE: u16 = 1280;
const ATTEMPTS: u8 = 3;
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// So many full datagrams lost in a row, over so long a time, while small ones pass, are a black hole; a full queue is not.
const BLACK_HOLE_LOSSES: u32 = 12;
const BLACK_HOLE_TIME: Duration = Duration::from_millis(500);

/// What is known of one path's MTU. Sizes are IP bytes.
#[derive(Debug)]
pub(crate) struct PathMtu {
    confirmed: u16,
    ceiling: u16,
    candidate: Option<u16>,
    attempts: u8,
    in_flight: bool,
    search_at: Instant,
    large_lost: u32,
    first_large_lost: Instant,
}

impl PathMtu {
    pub(crate) fn new(now: Instant, link_mtu: u16) -> PathMtu {
        let mut mtu = PathMtu {
            confirmed: BASE,
            ceiling: link_mtu,
            candidate: None,
            attempts: 0,
            in_flight: false,
            search_at: now,
            large_lost: 0,
            first_large_lost: now,
        };
        mtu.candidate = mtu.below(u16::MAX);
        mtu
    }

    /// The largest size known to pass.
    pub(crate) fn current(&self) -> u16 {
        self.confirmed
    }

    /// No larger size is being tried now.
    pub(crate) fn is_settled(&self) -> bool {
        self.candidate.is_none()
    }

    fn below(&self, size: u16) -> Option<u16> {
        LADDER.into_iter().find(|s| *s < size && *s <= self.ceiling && *s > self.confirmed)
    }

    /// The size of a probe to send now.
    pub(crate) fn probe(&mut self, now: Instant) -> Option<u16> {
        if self.candidate.is_none() && now >= self.search_at {
            self.candidate = self.below(u16::MAX);
            self.attempts = 0;
            self.search_at = now + RAISE_AFTER;
        }
        if self.in_flight { None } else { self.candidate }
    }

    pub(crate) fn on_probe_sent(&mut self) {
        self.in_flight = true;
    }

    pub(crate) fn on_probe_delivered(&mut self, now: Instant, size: u16) {
        self.in_flight = false;
        self.confirmed = self.confirmed.max(size);
        self.large_lost = 0;
        self.candidate = None;
        self.search_at = now + RAISE_AFTER;
    }

    pub(crate) fn on_probe_lost(&mut self, now: Instant, size: u16) {
        self.in_flight = false;
        if self.candidate != Some(size) {
            return;
        }
        self.attempts += 1;
        if self.attempts >= ATTEMPTS {
            self.give_up(now, size);
        }
    }

    fn give_up(&mut self, now: Instant, size: u16) {
        self.attempts = 0;
        self.candidate = self.below(size);
        if self.candidate.is_none() {
            self.search_at = now + RAISE_AFTER;
        }
    }

    /// The kernel refused a datagram of this size.
    pub(crate) fn on_too_big(&mut self, now: Instant, size: u16) {
        self.ceiling = self.ceiling.min(size.saturating_sub(1)).max(BASE);
        self.in_flight = false;
        if self.confirmed >= size {
            self.fall_back();
        } else if self.candidate.is_some_and(|c| c >= size) {
            self.give_up(now, size);
        }
    }

    /// A data datagram's fate. True when the path turned out to be a black hole for its size.
    pub(crate) fn on_data(&mut self, now: Instant, size: u16, delivered: bool) -> bool {
        if size <= LADDER[LADDER.len() - 1] || size > self.confirmed {
            return false;
        }
        if delivered {
            self.large_lost = 0;
            return false;
        }
        if self.large_lost == 0 {
            self.first_large_lost = now;
        }
        self.large_lost += 1;
        if self.large_lost < BLACK_HOLE_LOSSES || now - self.first_large_lost < BLACK_HOLE_TIME {
            return false;
        }
        self.fall_back();
        true
    }

    fn fall_back(&mut self) {
        self.large_lost = 0;
        self.confirmed = BASE;
        self.attempts = 0;
        self.candidate = self.below(u16::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(mtu: &mut PathMtu, passes: u16) -> u32 {
        let mut probes = 0;
        while let Some(size) = mtu.probe(Instant::from_millis(1)) {
            mtu.on_probe_sent();
            probes += 1;
            if size <= passes {
                mtu.on_probe_delivered(Instant::from_millis(2), size);
            } else {
                mtu.on_probe_lost(Instant::from_millis(2), size);
            }
        }
        probes
    }

    #[test]
    fn finds_the_largest_that_passes() {
        let mut mtu = PathMtu::new(Instant::ZERO, 1500);
        assert_eq!(search(&mut mtu, 1500), 1);
        assert_eq!(mtu.current(), 1500);
        let mut mtu = PathMtu::new(Instant::ZERO, 1500);
        search(&mut mtu, 1493);
        assert_eq!(mtu.current(), 1492);
        let mut mtu = PathMtu::new(Instant::ZERO, 1500);
        search(&mut mtu, 1300);
        assert_eq!(mtu.current(), BASE);
        assert!(mtu.is_settled());
    }

    #[test]
    fn survives_a_black_hole() {
        let mut mtu = PathMtu::new(Instant::ZERO, 1500);
        search(&mut mtu, 1500);
        for _ in 0..100 {
            assert!(!mtu.on_data(Instant::ZERO, 1500, false));
            assert!(!mtu.on_data(Instant::ZERO, 1500, true), "random loss is no black hole");
        }
        assert!(!(0..100).any(|_| mtu.on_data(Instant::from_millis(1000), 1500, false)), "a burst is no black hole");
        assert!(mtu.on_data(Instant::from_millis(1600), 1500, false));
        assert!(!mtu.on_data(Instant::from_millis(1600), 1500, false), "what was in flight says nothing new");
        assert_eq!(mtu.current(), BASE);
        search(&mut mtu, 1400);
        assert_eq!(mtu.current(), 1400);
    }

    #[test]
    fn believes_the_kernel() {
        let mut mtu = PathMtu::new(Instant::ZERO, 1500);
        assert_eq!(mtu.probe(Instant::ZERO), Some(1500));
        mtu.on_probe_sent();
        mtu.on_too_big(Instant::ZERO, 1500);
        assert_eq!(mtu.probe(Instant::ZERO), Some(1492));
    }
}
