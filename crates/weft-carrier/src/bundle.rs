//! Several TCP connections to one remote node, and the choice of the connection for each datagram.
//!
//! A lost TCP segment delays all later data on the same connection. Datagrams therefore leave by the connection with
//! the least data in flight, and short datagrams have connections of their own.

use crate::greeting::{BundleId, Lane};
use crate::member::CallTarget;
use std::time::{Duration, Instant};

/// Maximum length of a short datagram, in bytes. Tuned: it includes acknowledgements, reports, handshakes and pings.
const SHORT: usize = 400;
/// Maximum number of connections of a bundle that carry short datagrams.
const MOST_SHORT: usize = 4;
/// Maximum number of connections of a bundle that carry long datagrams.
const MOST_BULK: usize = 12;
/// Maximum number of connections of a bundle. *Derived*.
pub const MOST: usize = MOST_SHORT + MOST_BULK;
/// Maximum number of connections of a bundle that are being opened at the same time.
const MOST_OPENING: usize = 4;
/// Bytes in flight at which a bundle opens one more connection for short datagrams, and for long datagrams.
///
/// The bytes are those of its connection with the fewest bytes in flight.
///
/// *Tuned*: a lost segment delays at most about this number of bytes.
const CROWDED: [u64; 2] = [1_000, 20_000];
/// Maximum time in which the kernel should send the data of one lane (short or long datagrams) that waits in it.
///
/// More data is dropped, because datagrams that wait for longer are of little use.
const LONGEST_WAIT: Duration = Duration::from_millis(15);
/// Number of bytes that may always wait in the kernel in a lane: one batch of datagrams of the daemon's event loop.
const LEAST_UNSENT: f64 = 16_384.0;
/// Interval at which the sending rate and the delivery rate are measured.
const WINDOW: Duration = Duration::from_millis(50);
/// Bytes of long datagrams that a bundle may always have in flight.
const LEAST_IN_FLIGHT: f64 = 65_536.0;
/// Data that a bundle may have in flight beyond the amount of one round trip, as the time to send that data.
///
/// The queue at the bottleneck is not longer than this time.
///
/// *Tuned*: with less, data that waits behind a lost segment would use up this amount.
const QUEUE: Duration = Duration::from_millis(20);
/// Data that may be in flight behind lost segments, in addition to one round trip's data and as a fraction of it.
///
/// *Tuned* with a loss of 1 % of the segments.
const BEHIND_LOSSES: f64 = 0.8;
/// Factor by which the stored highest delivery rate falls in each [`WINDOW`]. *Tuned*: half of it is left after 1 s.
const FADING: f64 = 0.966;

/// A bundle is lossy if TCP retransmits at least one segment for each of this number of datagrams.
///
/// *Tuned*: with fewer retransmissions, few datagrams wait behind a lost segment.
const LOSSY: u64 = 1_000;
/// Number of short datagrams that are remembered, so that a copy is delivered once.
const RECENT: usize = 128;
/// Number of bytes that identify a datagram: its header with the packet number, and the start of its ciphertext.
const MARK: usize = 24;

/// State of a connection when a datagram is to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionState {
    /// Number of the connection.
    pub token: u64,
    /// Kind of the datagrams that the connection carries.
    pub lane: Lane,
    /// Bytes that the kernel has not sent.
    pub unsent: u64,
    /// Bytes that the other side has not acknowledged, including the unsent ones.
    pub unacknowledged: u64,
    /// True if the program still holds data of the connection that the kernel has not accepted.
    pub is_blocked: bool,
}

/// Decision by which connection a datagram leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionChoice {
    /// Connection by which the datagram leaves. `None`: the datagram is dropped.
    pub token: Option<u64>,
    /// The next best connection, by which a copy of the datagram may leave.
    pub copy: Option<u64>,
    /// True if one more connection for datagrams of this kind would reduce their delay.
    pub is_crowded: bool,
}

/// Returns the lane (short or long datagrams) of datagrams of `len` bytes.
pub fn lane_of(len: usize) -> Lane {
    if len <= SHORT { Lane::Short } else { Lane::Bulk }
}

/// Returns the length in bytes of the first part of a batch, whose datagrams all belong to one lane.
///
/// The batch has `len` bytes. All its datagrams have `stride` bytes, but the last one may be shorter. If the last one
/// belongs to another lane, it is a part of its own.
pub fn part_of(len: usize, stride: usize) -> usize {
    let last = len % stride;
    if last > 0 && len > stride && lane_of(last) != lane_of(stride) { len - last } else { len }
}

/// Returns the maximum number of connections of a bundle for one lane (short or long datagrams).
pub fn most(lane: Lane) -> usize {
    match lane {
        Lane::Short => MOST_SHORT,
        Lane::Bulk => MOST_BULK,
    }
}

/// Maximum number of bytes that all connections of one lane (short or long datagrams) may hold together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// Bytes that wait in the kernel and are not sent.
    pub unsent: u64,
    /// Bytes that the other side has not acknowledged, including the unsent ones.
    pub in_flight: u64,
}

/// Chooses the connection for a datagram of a lane (short or long datagrams), from the states of all connections.
pub fn choose(states: &[ConnectionState], lane: Lane, allowed: Allowed) -> ConnectionChoice {
    let has_lane = states.iter().any(|of| of.lane == lane);
    let of_lane = || states.iter().filter(|of| !has_lane || of.lane == lane);
    let free = || of_lane().filter(|of| !of.is_blocked);
    let best = free().min_by_key(|of| (of.unacknowledged, of.token));
    let second = free().filter(|of| Some(of.token) != best.map(|best| best.token));
    let is_full = of_lane().map(|of| of.unsent).sum::<u64>() > allowed.unsent
        || of_lane().map(|of| of.unacknowledged).sum::<u64>() > allowed.in_flight;
    let crowded = CROWDED[lane as usize];
    ConnectionChoice {
        token: best.filter(|_| !is_full).map(|of| of.token),
        copy: second.min_by_key(|of| (of.unacknowledged, of.token)).map(|of| of.token),
        is_crowded: !has_lane || best.is_none_or(|of| of.unacknowledged >= crowded),
    }
}

/// The connections to one remote node by one link.
pub struct ConnectionBundle {
    /// Number that the connections of the bundle share.
    pub id: BundleId,
    /// Address and options with which another connection is opened. `None` at the node that accepted the connections.
    pub way: Option<CallTarget>,
    /// Numbers of the connections of the bundle.
    pub members: Vec<u64>,
    /// Number of connections that are being opened.
    pub opening: usize,
    /// True once a connection was open.
    pub is_up: bool,
    /// Time at which data last arrived.
    pub heard: Instant,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams dropped because no connection could send them.
    pub dropped: u64,
    /// Number of connections of each lane (short, long datagrams), including those that are being opened.
    counts: [usize; 2],
    rate: f64,
    window: (Instant, u64),
    /// Highest recent rate at which data was acknowledged, in bytes per second. It fades by [`FADING`].
    delivery: f64,
    /// Time at which the connections were last checked, and the bytes acknowledged on all of them by then.
    delivered: (Instant, u64),
    least_rtt: Duration,
    /// Bytes received, for short and for long datagrams.
    ///
    /// The first number of each pair is the highest of the recent windows ([`WINDOW`]), the second that of the present
    /// one.
    received: [[u64; 2]; 2],
    /// Start of the present window.
    received_since: Instant,
    /// True if TCP retransmits so often that each short datagram should be sent on two connections.
    pub is_lossy: bool,
    /// Datagrams sent and segments retransmitted when [`ConnectionBundle::is_lossy`] was last determined.
    looked: (u64, u64),
    recent: Box<[[u8; MARK]; RECENT]>,
    next_recent: usize,
}

impl ConnectionBundle {
    /// Returns a bundle without connections. `way` is `None` at the node that accepts its connections.
    pub fn new(id: BundleId, way: Option<CallTarget>, now: Instant) -> ConnectionBundle {
        ConnectionBundle {
            id,
            way,
            members: Vec::new(),
            opening: 0,
            is_up: false,
            heard: now,
            sent: 0,
            dropped: 0,
            counts: [0; 2],
            rate: 0.0,
            window: (now, 0),
            delivery: 0.0,
            delivered: (now, 0),
            least_rtt: Duration::ZERO,
            received: [[0; 2]; 2],
            received_since: now,
            is_lossy: false,
            looked: (0, 0),
            recent: Box::new([[0; MARK]; RECENT]),
            next_recent: 0,
        }
    }

    /// Records the number of TCP retransmissions so far on all connections.
    ///
    /// With it, it determines whether the bundle is lossy.
    pub fn on_retransmitted(&mut self, segments: u64) {
        let (sent, again) = (self.sent - self.looked.0, segments.saturating_sub(self.looked.1));
        if sent >= LOSSY || again > 0 {
            self.is_lossy = again * LOSSY >= sent;
            self.looked = (self.sent, segments);
        }
    }

    /// Returns true if a copy of this short datagram has arrived recently. Otherwise remembers the datagram.
    pub fn has_arrived(&mut self, datagram: &[u8]) -> bool {
        let mut mark = [0; MARK];
        let len = datagram.len().min(MARK);
        mark[..len].copy_from_slice(&datagram[..len]);
        if self.recent.contains(&mark) {
            return true;
        }
        self.recent[self.next_recent] = mark;
        self.next_recent = (self.next_recent + 1) % RECENT;
        false
    }

    /// Adds a connection.
    pub fn add(&mut self, token: u64, lane: Lane) {
        self.members.push(token);
        self.counts[lane as usize] += 1;
    }

    /// Removes a connection.
    pub fn remove(&mut self, token: u64, lane: Lane) {
        let before = self.members.len();
        self.members.retain(|member| *member != token);
        self.counts[lane as usize] -= before - self.members.len();
    }

    /// Returns true if this node may open one more connection for a lane (short or long datagrams) now.
    pub fn can_grow(&self, lane: Lane) -> bool {
        self.way.is_some() && self.is_up && self.opening < MOST_OPENING && self.counts[lane as usize] < most(lane)
    }

    /// Records bytes that arrived in a lane. Returns true if the other side needs one more connection to send.
    ///
    /// Only the node that opened the bundle opens connections. It estimates the other side's sending rate from the
    /// bytes that arrive.
    pub fn on_received(&mut self, now: Instant, lane: Lane, bytes: usize) -> bool {
        self.heard = now;
        if now - self.received_since >= WINDOW {
            self.received_since = now;
            for [most, present] in &mut self.received {
                *most = (*most * 3 / 4).max(std::mem::take(present));
            }
        }
        let [most, present] = &mut self.received[lane as usize];
        *present += bytes as u64;
        let wanted = 1 + *most / CROWDED[lane as usize];
        (self.counts[lane as usize] as u64) < wanted && self.can_grow(lane)
    }

    /// Returns the number of bytes that all connections of a lane (short or long datagrams) may hold.
    ///
    /// With this limit, unsent data leaves within [`LONGEST_WAIT`], and the queue at the bottleneck stays short.
    pub fn allowed(&self, lane: Lane) -> Allowed {
        let unsent = (self.rate * LONGEST_WAIT.as_secs_f64()).max(LEAST_UNSENT) as u64;
        let time = self.least_rtt.mul_f64(1.0 + BEHIND_LOSSES) + QUEUE;
        let in_flight = match lane {
            Lane::Short => u64::MAX,
            Lane::Bulk => (self.delivery * time.as_secs_f64()).max(LEAST_IN_FLIGHT) as u64,
        };
        Allowed { unsent, in_flight }
    }

    /// True if the last call of [`ConnectionBundle::on_delivered`] was at least one [`WINDOW`] ago.
    pub fn wants_look(&self, now: Instant) -> bool {
        now - self.delivered.0 >= WINDOW
    }

    /// Records the number of bytes acknowledged on all connections so far, and their least round-trip time.
    pub fn on_delivered(&mut self, now: Instant, acknowledged: u64, least_rtt: Duration) {
        let (since, before) = std::mem::replace(&mut self.delivered, (now, acknowledged));
        // The acknowledged bytes of a connection that has ended are no longer in the sum, so the sum can fall.
        let rate = acknowledged.saturating_sub(before) as f64 / (now - since).as_secs_f64().max(0.001);
        self.delivery = (self.delivery * FADING).max(rate);
        self.least_rtt = least_rtt;
    }

    /// Records bytes that were sent now.
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

    fn state() -> impl Strategy<Value = ConnectionState> {
        (any::<bool>(), 0..50_000u64, 0..50_000u64, any::<bool>()).prop_map(|(is_bulk, unsent, sent, is_blocked)| {
            let lane = if is_bulk { Lane::Bulk } else { Lane::Short };
            ConnectionState { token: 0, lane, unsent, unacknowledged: unsent + sent, is_blocked }
        })
    }

    proptest! {
        #[test]
        fn the_least_loaded_connection_of_the_lane_is_chosen(
            mut states in vec(state(), 0..10), is_bulk: bool, unsent in 0..100_000u64, in_flight in 0..400_000u64,
        ) {
            let allowed = Allowed { unsent, in_flight };
            states.iter_mut().enumerate().for_each(|(at, of)| of.token = at as u64);
            let lane = if is_bulk { Lane::Bulk } else { Lane::Short };
            let choice = choose(&states, lane, allowed);
            let has_lane = states.iter().any(|of| of.lane == lane);
            let eligible: Vec<_> = states.iter().filter(|of| of.lane == lane || !has_lane).collect();
            let is_full = eligible.iter().map(|of| of.unsent).sum::<u64>() > unsent
                || eligible.iter().map(|of| of.unacknowledged).sum::<u64>() > in_flight;
            match choice.token {
                Some(token) => {
                    let chosen = states[token as usize];
                    prop_assert!(eligible.iter().any(|of| of.token == token) && !chosen.is_blocked);
                    let free = eligible.iter().filter(|of| !of.is_blocked);
                    prop_assert!(free.clone().all(|of| of.unacknowledged >= chosen.unacknowledged));
                    prop_assert!(!is_full && choice.copy != Some(token));
                }
                None => prop_assert!(is_full || eligible.iter().all(|of| of.is_blocked)),
            }
        }
    }

    #[test]
    fn a_caller_to_whom_much_is_sent_opens_connections_up_to_the_limit() {
        let begin = Instant::now();
        let remote = "192.0.2.1:443".parse().unwrap();
        let way =
            CallTarget { link: 1, remote, to: remote, device: None, mark: 0, key: [0; 32], name: None, proxy: None };
        let mut bundle = ConnectionBundle::new([0; 16], Some(way), begin);
        bundle.is_up = true;
        bundle.add(0, Lane::Bulk);
        let receive = |mbit_per_s: usize, from: u64, bundle: &mut ConnectionBundle| {
            for ms in from..from + 1_000 {
                if bundle.on_received(begin + Duration::from_millis(ms), Lane::Bulk, mbit_per_s * 125) {
                    bundle.add(ms, Lane::Bulk);
                }
            }
            bundle.members.len()
        };
        assert_eq!(receive(1, 0, &mut bundle), 1);
        assert_eq!(receive(10, 1_000, &mut bundle), 4);
        assert_eq!(receive(200, 2_000, &mut bundle), MOST_BULK);
        bundle.remove(0, Lane::Bulk);
        bundle.remove(0, Lane::Bulk);
        assert!(bundle.can_grow(Lane::Bulk) && bundle.members.len() == MOST_BULK - 1);
        bundle.way = None;
        assert!(!bundle.can_grow(Lane::Bulk), "the node that was called calls nobody");
    }

    #[test]
    fn a_copy_is_recognised_among_the_recent_datagrams() {
        let mut bundle = ConnectionBundle::new([0; 16], None, Instant::now());
        let datagram = |number: usize| [&number.to_be_bytes()[..], &[7; 100]].concat();
        assert!((0..RECENT).all(|number| !bundle.has_arrived(&datagram(number))));
        assert!((0..RECENT).all(|number| bundle.has_arrived(&datagram(number))));
        assert!(!bundle.has_arrived(&datagram(RECENT)) && !bundle.has_arrived(&datagram(0)), "the oldest is forgotten");
    }

    #[test]
    fn one_segment_in_a_thousand_makes_a_bundle_lossy() {
        let mut bundle = ConnectionBundle::new([0; 16], None, Instant::now());
        let mut look = |sent, again| {
            bundle.sent += sent;
            bundle.on_retransmitted(again);
            bundle.is_lossy
        };
        assert_eq!([look(900, 0), look(50, 1), look(10, 1), look(5_000, 2)], [false, true, true, false]);
    }

    proptest! {
        #[test]
        fn a_batch_is_cut_before_a_short_last_datagram(stride in 1usize..9_000, count in 1usize..7, last in 0usize..9_000) {
            let len = stride * count + last % stride;
            let part = part_of(len, stride);
            let lanes = |from: usize, to: usize| vec![0; to - from].chunks(stride).map(|of| lane_of(of.len())).collect::<Vec<_>>();
            prop_assert!(part > 0 && lanes(0, part).windows(2).all(|two| two[0] == two[1]));
            prop_assert!(part == len || lanes(part, len) == [Lane::Short]);
        }
    }

    #[test]
    fn unsent_data_is_bounded_by_time_and_not_less_than_a_batch() {
        let begin = Instant::now();
        let mut bundle = ConnectionBundle::new([0; 16], None, begin);
        assert_eq!(bundle.allowed(Lane::Bulk), Allowed { unsent: 16_384, in_flight: 65_536 });
        // The bundle sends 50 Mbit/s with a round-trip time of 40 ms.
        for ms in 1..=100 {
            let now = begin + Duration::from_millis(ms);
            bundle.on_sent(now, 6_250);
            if bundle.wants_look(now) {
                bundle.on_delivered(now, ms * 6_250, Duration::from_millis(40));
            }
        }
        let Allowed { unsent, in_flight } = bundle.allowed(Lane::Bulk);
        assert!((90_000..=100_000).contains(&unsent), "{unsent}");
        // The limit is the data of 40 ms, of 0.8 × 40 ms behind lost segments, and of a queue of 20 ms.
        assert!((570_000..=580_000).contains(&in_flight), "{in_flight}");
        assert_eq!(bundle.allowed(Lane::Short).in_flight, u64::MAX);
    }
}
