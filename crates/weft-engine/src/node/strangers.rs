//! Strangers: senders of handshakes that are not peers. No stranger gets an answer, and only a few are remembered.

use crate::api::{Event, Shown, Stranger};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_units::{Duration, Instant};

/// Maximum number of strangers remembered, separately with and without a proven key.
///
/// Handshakes without a key cost their sender nothing, so they must not displace strangers with a proven key.
const MOST: usize = 8;
/// Least interval between two reports ([`Event::TurnedAway`]) about one stranger.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Time for which a stranger is listed after its last handshake.
const LATELY: Duration = Duration::from_secs(120);
/// Maximum number of reports in one [`REPORT_INTERVAL`] about all strangers together.
const MOST_SAID: u32 = 8;

#[derive(Debug)]
struct StrangerEntry {
    source: SocketAddr,
    shown: Shown,
    times: u32,
    at: Instant,
    said_at: Option<Instant>,
}

/// The strangers that sent handshakes recently.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    /// Strangers that have proven a key, and strangers that have not.
    lists: [Vec<StrangerEntry>; 2],
    /// Start of the current [`REPORT_INTERVAL`], and the number of strangers reported in it.
    said: (Instant, u32),
}

impl Strangers {
    /// Records a stranger's handshake. Returns the event that reports it, unless it was reported recently.
    pub(super) fn note(&mut self, now: Instant, source: SocketAddr, shown: Shown) -> Option<Event> {
        let list = &mut self.lists[usize::from(!matches!(shown, Shown::Key(_)))];
        let same = |entry: &StrangerEntry| entry.shown == shown && same_place(entry.source.ip(), source.ip());
        let at = list.iter().position(same).unwrap_or_else(|| {
            if list.len() >= MOST {
                let oldest = (0..list.len()).min_by_key(|at| list[*at].at);
                oldest.map(|at| list.swap_remove(at));
            }
            list.push(StrangerEntry { source, shown, times: 0, at: now, said_at: None });
            list.len() - 1
        });
        let entry = &mut list[at];
        (entry.source, entry.at, entry.times) = (source, now, entry.times.saturating_add(1));
        if now - self.said.0 >= REPORT_INTERVAL {
            self.said = (now, 0);
        }
        if entry.said_at.is_some_and(|at| now - at < REPORT_INTERVAL) || self.said.1 >= MOST_SAID {
            return None;
        }
        (entry.said_at, self.said.1) = (Some(now), self.said.1 + 1);
        Some(Event::TurnedAway(entry.told(now)))
    }

    /// Returns the strangers of the last two minutes, the most recent first.
    pub(super) fn lately(&self, now: Instant) -> Vec<Stranger> {
        let mut all: Vec<_> = self.lists.iter().flatten().map(|entry| entry.told(now)).collect();
        all.retain(|stranger| stranger.ago < LATELY);
        all.sort_by_key(|stranger| stranger.ago);
        all
    }
}

impl StrangerEntry {
    fn told(&self, now: Instant) -> Stranger {
        Stranger { source: self.source, shown: self.shown, times: self.times, ago: now - self.at }
    }
}

/// True if two addresses may belong to one sender: the same IPv4 address, or the same IPv6 /48.
fn same_place(a: IpAddr, b: IpAddr) -> bool {
    match (a, b) {
        (IpAddr::V6(a), IpAddr::V6(b)) => a.segments()[..3] == b.segments()[..3],
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use weft_session::PublicKey;

    #[test]
    fn a_flood_of_forged_calls_is_bounded_and_hides_no_key() {
        let (mut strangers, mut said) = (Strangers::default(), 0);
        let key = PublicKey([7; 32]);
        let known = "198.51.100.7:1".parse().unwrap();
        assert!(strangers.note(Instant::from_millis(1), known, Shown::Key(key)).is_some());
        for number in 0..60_000u32 {
            let source = format!("{}:9", core::net::Ipv4Addr::from_bits(number)).parse().unwrap();
            let shown = if number % 2 == 0 { Shown::OtherKey } else { Shown::Unreadable };
            said += u32::from(strangers.note(Instant::from_millis(u64::from(number)), source, shown).is_some());
        }
        let now = Instant::from_millis(60_000);
        let lately = strangers.lately(now);
        assert!(said < 2 * MOST_SAID, "{said}");
        assert!(lately.len() <= 2 * MOST, "{}", lately.len());
        assert!(lately.iter().any(|stranger| stranger.shown == Shown::Key(key)));
    }

    #[test]
    fn a_repeated_event_is_reported_once_a_minute() {
        let mut strangers = Strangers::default();
        let source = "[2001:db8:1::1]:9".parse().unwrap();
        let said = |s: u64| strangers.note(Instant::from_millis(s * 1000), source, Shown::OtherKey).is_some();
        assert_eq!([0, 1, 59, 60, 61, 119, 121].map(said), [true, false, false, true, false, false, true]);
    }
}
