//! Several connections to one remote node, and the choice of the one by which a datagram leaves.
//!
//! A lost TCP segment delays what follows it on the same connection. Datagrams therefore leave by the connection with the
//! least data in flight, and short datagrams have connections of their own.

use crate::greeting::{BundleId, Lane};
use crate::member::Way;
use std::time::{Duration, Instant};

/// Length of a datagram, in bytes, up to which it is short. Tuned: acknowledgements, reports, calls and pings.
const SHORT: usize = 400;
/// Maximum number of connections of a bundle that carry short datagrams.
const MOST_SHORT: usize = 4;
/// Maximum number of connections of a bundle that carry long datagrams.
const MOST_BULK: usize = 12;
/// Maximum number of connections of a bundle. *Derived*.
pub const MOST: usize = MOST_SHORT + MOST_BULK;
/// Bytes in flight on the best connection from which another one is opened, for short and for long datagrams.
///
/// *Tuned*: a lost segment delays at most about so many bytes.
const CROWDED: [u64; 2] = [1_000, 20_000];
/// Time that unsent data of a lane may take to leave. Older data is worth less than none.
const LONGEST_WAIT: Duration = Duration::from_millis(15);
/// Unsent bytes that a lane may always have: a batch of the packet loop.
const LEAST_UNSENT: f64 = 16_384.0;
/// Interval at which the rate is measured.
const WINDOW: Duration = Duration::from_millis(50);

/// State of a connection when a datagram is to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Number of the connection.
    pub token: u64,
    /// What the connection carries.
    pub lane: Lane,
    /// Bytes that the kernel has not sent.
    pub unsent: u64,
    /// Bytes that the other side has not acknowledged, including the unsent ones.
    pub unacknowledged: u64,
    /// True if earlier data has not even left the program.
    pub is_blocked: bool,
}

/// Decision about a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The connection by which it leaves. `None`: it is dropped.
    pub token: Option<u64>,
    /// True if another connection would help.
    pub is_crowded: bool,
}

/// Returns the lane of datagrams of this length.
pub fn lane_of(len: usize) -> Lane {
    if len <= SHORT { Lane::Short } else { Lane::Bulk }
}

/// Returns the number of connections that a lane may have.
pub fn most(lane: Lane) -> usize {
    match lane {
        Lane::Short => MOST_SHORT,
        Lane::Bulk => MOST_BULK,
    }
}

/// Chooses the connection for a datagram of a lane, while the lane may have `allowed` unsent bytes.
pub fn choose(standings: &[Standing], lane: Lane, allowed: u64) -> Choice {
    let has_lane = standings.iter().any(|of| of.lane == lane);
    let of_lane = || standings.iter().filter(|of| !has_lane || of.lane == lane);
    let best = of_lane().filter(|of| !of.is_blocked).min_by_key(|of| (of.unacknowledged, of.token));
    let unsent: u64 = of_lane().map(|of| of.unsent).sum();
    let crowded = CROWDED[usize::from(lane == Lane::Bulk)];
    Choice {
        token: best.filter(|_| unsent <= allowed).map(|of| of.token),
        is_crowded: !has_lane || best.is_none_or(|of| of.unacknowledged >= crowded),
    }
}

/// The connections to one remote node by one link.
pub struct Bundle {
    /// Number that its connections share.
    pub id: BundleId,
    /// How to open another connection. `None` at the node that was called.
    pub way: Option<Way>,
    /// Numbers of its connections.
    pub members: Vec<u64>,
    /// True while one more connection is being opened.
    pub is_opening: bool,
    /// True once a connection was open.
    pub is_up: bool,
    /// Time at which something last arrived.
    pub heard: Instant,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams dropped because no connection could send them.
    pub dropped: u64,
    rate: f64,
    window: (Instant, u64),
}

impl Bundle {
    /// Returns a bundle without connections.
    pub fn new(id: BundleId, way: Option<Way>, now: Instant) -> Bundle {
        let (members, is_opening, is_up) = (Vec::new(), false, false);
        Bundle { id, way, members, is_opening, is_up, heard: now, sent: 0, dropped: 0, rate: 0.0, window: (now, 0) }
    }

    /// Returns the unsent bytes that a lane may have: what leaves within [`LONGEST_WAIT`].
    pub fn allowed(&self) -> u64 {
        (self.rate * LONGEST_WAIT.as_secs_f64()).max(LEAST_UNSENT) as u64
    }

    /// Notes bytes that were sent now.
    pub fn on_sent(&mut self, now: Instant, bytes: usize) {
        self.window.1 += bytes as u64;
        let time = now - self.window.0;
        if time >= WINDOW {
            self.rate = (self.rate * 0.75).max(self.window.1 as f64 / time.as_secs_f64());
            self.window = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn standing() -> impl Strategy<Value = Standing> {
        (any::<bool>(), 0..50_000u64, 0..50_000u64, any::<bool>()).prop_map(|(is_bulk, unsent, sent, is_blocked)| {
            let lane = if is_bulk { Lane::Bulk } else { Lane::Short };
            Standing { token: 0, lane, unsent, unacknowledged: unsent + sent, is_blocked }
        })
    }

    proptest! {
        #[test]
        fn the_least_loaded_connection_of_the_lane_is_chosen(
            mut standings in vec(standing(), 0..10), is_bulk: bool, allowed in 0..100_000u64,
        ) {
            standings.iter_mut().enumerate().for_each(|(at, of)| of.token = at as u64);
            let lane = if is_bulk { Lane::Bulk } else { Lane::Short };
            let choice = choose(&standings, lane, allowed);
            let has_lane = standings.iter().any(|of| of.lane == lane);
            let eligible: Vec<_> = standings.iter().filter(|of| of.lane == lane || !has_lane).collect();
            match choice.token {
                Some(token) => {
                    let chosen = standings[token as usize];
                    prop_assert!(eligible.iter().any(|of| of.token == token) && !chosen.is_blocked);
                    let free = eligible.iter().filter(|of| !of.is_blocked);
                    prop_assert!(free.clone().all(|of| of.unacknowledged >= chosen.unacknowledged));
                    prop_assert!(eligible.iter().map(|of| of.unsent).sum::<u64>() <= allowed);
                }
                None => prop_assert!(
                    eligible.iter().all(|of| of.is_blocked) || eligible.iter().map(|of| of.unsent).sum::<u64>() > allowed
                ),
            }
        }
    }

    #[test]
    fn unsent_data_is_bounded_by_time_and_not_less_than_a_batch() {
        let begin = Instant::now();
        let mut bundle = Bundle::new([0; 16], None, begin);
        assert_eq!(bundle.allowed(), 16_384);
        // 50 Mbit/s.
        (1..=100).for_each(|ms| bundle.on_sent(begin + Duration::from_millis(ms), 6_250));
        assert!((90_000..=100_000).contains(&bundle.allowed()), "{}", bundle.allowed());
    }
}
