//! Path MTU discovery by probes in the datagram layer (RFC 8899), with detection of black holes.
//!
//! A search starts with the link's largest size and then bisects a list of sizes. Probes are padded pings. A size is
//! used only after a probe of that size was acknowledged. A *black hole* is a path that drops long datagrams without an
//! error.

use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant};

/// Sizes of outer IP packets to try, in bytes, largest first.
///
/// They are the MTUs of Ethernet jumbo frames, Ethernet, PPPoE and nested tunnels, and some smaller sizes.
const LADDER: [u16; 22] = [
    9000, 1500, 1492, 1480, 1472, 1460, 1440, 1420, 1400, 1380, 1360, 1340, 1320, 1300, 1280, 1200, 1100, 1000, 900,
    800, 700, 600,
];
const ATTEMPTS: u8 = 3;
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// Number of full-size datagrams lost in a row that shows a black hole, if none of their size arrives in between.
const BLACK_HOLE_LOSSES: u32 = 12;
/// Least duration of a run of losses that shows a black hole. A full queue rarely drops every packet for longer.
const BLACK_HOLE_TIME: Duration = Duration::from_millis(500);

/// State of the MTU discovery on one path. Sizes are in IP bytes.
#[derive(Debug)]
pub struct PathMtu {
    floor: u16,
    confirmed: u16,
    ceiling: u16,
    /// Least size that failed in the current search, in IP bytes. [`u16::MAX`]: none failed.
    failed: u16,
    candidate: Option<u16>,
    attempts: u8,
    in_flight: bool,
    search_at: Instant,
    /// Number of data datagrams lost in a row.
    ///
    /// The row ends when a datagram arrives that is at least as long as the shortest lost one.
    lost: u32,
    shortest_lost: u16,
    first_lost: Instant,
    lost_probes: (u64, u64),
}

impl PathMtu {
    /// MTU assumed for every IPv4 path. *Standard*: every IPv4 host accepts this size (RFC 1122 §3.3.2).
    pub const FLOOR_IPV4: u16 = 576;
    /// MTU assumed for every IPv6 path. *Standard*: every IPv6 link carries this size (RFC 8200 §5).
    pub const FLOOR_IPV6: u16 = 1280;

    pub fn new(now: Instant, link_mtu: u16, floor: u16) -> PathMtu {
        let floor = floor.min(link_mtu);
        let mut mtu = PathMtu {
            floor,
            confirmed: floor,
            ceiling: link_mtu,
            failed: u16::MAX,
            candidate: None,
            attempts: 0,
            in_flight: false,
            search_at: now,
            lost: 0,
            shortest_lost: 0,
            first_lost: now,
            lost_probes: (0, 0),
        };
        mtu.search();
        mtu
    }

    /// Returns the path MTU: the largest size of which a probe arrived, in IP bytes.
    pub fn current(&self) -> u16 {
        self.confirmed
    }

    /// True if no larger size is being probed now.
    pub fn is_settled(&self) -> bool {
        self.candidate.is_none()
    }

    /// Starts a search with the link's largest size, because most paths carry it.
    fn search(&mut self) {
        self.failed = u16::MAX;
        self.attempts = 0;
        self.candidate = self.open_sizes().next();
    }

    /// Returns the sizes in the list above the largest one that passed and below the least one that failed.
    fn open_sizes(&self) -> impl Iterator<Item = u16> + use<> {
        let (confirmed, failed, ceiling) = (self.confirmed, self.failed, self.ceiling);
        LADDER.into_iter().filter(move |size| *size > confirmed && *size < failed && *size <= ceiling)
    }

    /// Continues the search in the middle of the sizes that are left.
    ///
    /// If none is left, the search ends for ten minutes.
    fn go_on(&mut self, now: Instant) {
        self.attempts = 0;
        self.candidate = self.open_sizes().nth(self.open_sizes().count() / 2);
        if self.candidate.is_none() {
            self.search_at = now + RAISE_AFTER;
        }
    }

    /// Returns the time at which the next probe is to be sent, or `None` while a probe is in flight.
    pub fn probe_at(&self, now: Instant) -> Option<Instant> {
        let at = if self.candidate.is_some() { now } else { self.search_at };
        (!self.in_flight).then_some(at.max(now))
    }

    /// Returns the size of the probe to send now in IP bytes, or `None` if none is to be sent.
    pub fn probe(&mut self, now: Instant) -> Option<u16> {
        if self.candidate.is_none() && now >= self.search_at {
            self.search();
            self.search_at = now + RAISE_AFTER;
        }
        if self.in_flight { None } else { self.candidate }
    }

    pub fn on_probe_sent(&mut self) {
        self.in_flight = true;
    }

    pub fn on_probe_delivered(&mut self, now: Instant, size: u16) {
        self.in_flight = false;
        self.confirmed = self.confirmed.max(size);
        self.lost = 0;
        self.go_on(now);
    }

    pub fn on_probe_lost(&mut self, now: Instant, size: u16) {
        self.in_flight = false;
        self.lost_probes.0 += 1;
        self.lost_probes.1 += u64::from(size);
        if self.candidate != Some(size) {
            return;
        }
        self.attempts += 1;
        if self.attempts >= ATTEMPTS {
            self.failed = size;
            self.go_on(now);
        }
    }

    /// Returns the number of lost probes, and their IP bytes, since the previous call of this function.
    ///
    /// They are not losses of data (RFC 8899 §4.1).
    pub fn take_lost_probes(&mut self) -> (u64, u64) {
        core::mem::take(&mut self.lost_probes)
    }

    /// Handles a datagram of `size` IP bytes that the kernel refused to send because of its length.
    pub fn on_too_big(&mut self, now: Instant, size: u16) {
        self.ceiling = self.ceiling.min(size.saturating_sub(1)).max(self.floor);
        self.in_flight = false;
        if self.confirmed >= size {
            self.fall_back();
        } else if self.candidate.is_some_and(|c| c >= size) {
            self.failed = self.failed.min(size);
            self.attempts = 0;
            self.candidate = self.open_sizes().next();
            if self.candidate.is_none() {
                self.search_at = now + RAISE_AFTER;
            }
        }
    }

    /// Handles the fate of a data datagram of `size` IP bytes.
    ///
    /// Returns true if the path drops datagrams of this size, although an earlier probe of this size arrived.
    pub fn on_data(&mut self, now: Instant, size: u16, delivered: bool) -> bool {
        if size <= self.floor || size > self.confirmed {
            return false;
        }
        if delivered {
            if size >= self.shortest_lost {
                self.lost = 0;
            }
            return false;
        }
        if self.lost == 0 {
            self.first_lost = now;
            self.shortest_lost = size;
        }
        self.shortest_lost = self.shortest_lost.min(size);
        self.lost += 1;
        if self.lost < BLACK_HOLE_LOSSES || now - self.first_lost < BLACK_HOLE_TIME {
            return false;
        }
        self.fall_back();
        true
    }

    fn fall_back(&mut self) {
        self.lost = 0;
        if planted::is(Fault::BlackHoleIgnored) {
            return;
        }
        self.confirmed = self.floor;
        self.search();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: u16 = PathMtu::FLOOR_IPV4;

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
        let mut mtu = PathMtu::new(Instant::ZERO, 1500, FLOOR);
        assert_eq!(search(&mut mtu, 1500), 1);
        assert_eq!(mtu.current(), 1500);
        for (passes, found) in
            [(9000, 1500), (1493, 1492), (1400, 1400), (1300, 1300), (1299, 1280), (1150, 1100), (600, 600), (577, 576)]
        {
            let mut mtu = PathMtu::new(Instant::ZERO, 1500, FLOOR);
            let probes = search(&mut mtu, passes);
            assert_eq!(mtu.current(), found);
            assert!(mtu.is_settled());
            assert!(probes <= 6 * u32::from(ATTEMPTS), "{probes} probes to find {found}");
        }
    }

    #[test]
    fn takes_no_less_for_granted_than_ip_does() {
        let mut mtu = PathMtu::new(Instant::ZERO, 1500, PathMtu::FLOOR_IPV6);
        assert_eq!(mtu.current(), 1280);
        search(&mut mtu, 1000);
        assert_eq!(mtu.current(), 1280);
        let mtu = PathMtu::new(Instant::ZERO, 500, FLOOR);
        assert_eq!((mtu.current(), mtu.is_settled()), (500, true), "but no more than the link does");
    }

    #[test]
    fn lost_probes_are_reported_once() {
        let mut mtu = PathMtu::new(Instant::ZERO, 1500, FLOOR);
        mtu.on_probe_lost(Instant::ZERO, 1500);
        mtu.on_probe_lost(Instant::ZERO, 1400);
        assert_eq!((mtu.take_lost_probes(), mtu.take_lost_probes()), ((2, 2900), (0, 0)));
    }

    #[test]
    fn survives_a_black_hole() {
        let mut mtu = PathMtu::new(Instant::ZERO, 1500, FLOOR);
        search(&mut mtu, 1500);
        for _ in 0..100 {
            assert!(!mtu.on_data(Instant::ZERO, 1500, false));
            assert!(!mtu.on_data(Instant::ZERO, 1500, true), "random loss is no black hole");
        }
        assert!(!(0..100).any(|_| mtu.on_data(Instant::from_millis(1000), 1500, false)), "a burst is no black hole");
        assert!(mtu.on_data(Instant::from_millis(1600), 1500, false));
        assert!(!mtu.on_data(Instant::from_millis(1600), 1500, false), "what was in flight says nothing new");
        assert_eq!(mtu.current(), FLOOR);
        search(&mut mtu, 1400);
        assert_eq!(mtu.current(), 1400);
    }

    #[test]
    fn short_packets_that_pass_do_not_hide_a_black_hole() {
        for (lost, passes) in [(1500, 1000), (1000, 600)] {
            let mut mtu = PathMtu::new(Instant::ZERO, 1500, FLOOR);
            search(&mut mtu, 1500);
            let found = (0..100).any(|at| {
                mtu.on_data(Instant::from_millis(at * 100), passes, true);
                mtu.on_data(Instant::from_millis(at * 100), lost, false)
            });
            assert!(found, "{lost} bytes vanish");
        }
    }

    #[test]
    fn believes_the_kernel() {
        let mut mtu = PathMtu::new(Instant::ZERO, 1500, FLOOR);
        assert_eq!(mtu.probe(Instant::ZERO), Some(1500));
        mtu.on_probe_sent();
        mtu.on_too_big(Instant::ZERO, 1500);
        assert_eq!(mtu.probe(Instant::ZERO), Some(1492));
    }
}
