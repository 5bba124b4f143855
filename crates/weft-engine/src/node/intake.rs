//! Shares: while the node is overloaded, they limit its work for each peer.
//!
//! Datagrams of all peers wait in one socket in their order of arrival. If they wait there for long and persistently,
//! the node is behind. It then drops datagrams unopened if their peer has had more than its share of the work, as a
//! fair queue before the node would. Shares are max-min fair: no datagram of a peer below a common level is dropped.
//! The level falls while datagrams wait and rises while they do not, as the fair share does in Approximate Fair
//! Dropping (Pan et al., "Approximate Fairness through Differential Dropping", 2003). Thousands of idle peers therefore
//! leave nearly all work to the busy ones. The sender that a datagram claims decides only whether the datagram is
//! dropped. Work is charged when the peer's key has opened the datagram, so that a forgery costs no peer its share.

use alloc::vec::Vec;
use weft_units::{Duration, Instant, LinkId, PeerId};
use weft_wire::hop::PacketType;

/// Acceptable waiting time of a datagram in the socket (CoDel's target, RFC 8289 §4.2).
const TARGET: Duration = Duration::from_millis(5);
/// Time after which waiting datagrams are a backlog and not a burst (CoDel's interval, RFC 8289 §4.2).
const INTERVAL: Duration = Duration::from_millis(100);
/// Time for which shares still apply after the last time that datagrams waited for too long.
///
/// Without it, each return of a flood would fill the socket.
const MEMORY: Duration = Duration::from_secs(1);
/// Duration of a round. The work of the peers is compared within one round.
///
/// An active peer sends several datagrams in it.
const ROUND: Duration = Duration::from_millis(20);
/// Number of bytes of frames that cost as much processing as a unit.
///
/// *Tuned* by `tests/costs.rs`: a full datagram of frames takes ten to twenty times as long as a unit.
const FRAME_BYTES: usize = 100;

/// Work done for one peer in a round.
///
/// Its unit is the cost of one unit of data or of 100 bytes of frames.
#[derive(Clone, Copy, Default)]
struct WorkShare {
    round: u64,
    work: u32,
}

/// A link on whose socket datagrams wait longer than [`TARGET`].
struct Late {
    link: LinkId,
    since: Instant,
    /// Time at which the last datagram that had waited longer than [`TARGET`] was read.
    latest: Instant,
}

/// Time for which datagrams wait in the sockets, and the work that each peer has caused.
#[derive(Default)]
pub struct Intake {
    /// Links on whose sockets datagrams wait longer than [`TARGET`].
    late: Vec<Late>,
    behind_until: Instant,
    is_behind: bool,
    round: u64,
    /// Work for all peers together in the present round.
    work: u32,
    /// Number of peers with work in the present round.
    peers: u32,
    /// Largest work for a single peer in the present round.
    most: u32,
    /// Work for a peer in one round up to which none of the peer's datagrams is dropped.
    level: u32,
    shares: Vec<WorkShare>,
}

impl Intake {
    /// Records that the node now reads a batch of datagrams that arrived by `link` at the time `at`.
    ///
    /// Each link has its own socket.
    pub fn on_batch(&mut self, now: Instant, link: LinkId, at: Instant) {
        let round = now.as_nanos() / ROUND.as_nanos() as u64;
        if round != self.round {
            self.begin_round(now, round);
        }
        let known = self.late.iter().position(|late| late.link == link);
        if now.since(at) < TARGET {
            known.map(|known| self.late.swap_remove(known));
        } else {
            let known = known.unwrap_or_else(|| {
                self.late.push(Late { link, since: now, latest: now });
                self.late.len() - 1
            });
            let late = &mut self.late[known];
            late.latest = now;
            if now < self.behind_until || now.since(late.since) >= INTERVAL {
                self.behind_until = now + MEMORY;
            }
        }
        self.is_behind = now < self.behind_until;
    }

    /// Begins a round, and adapts the level to the work in the last round.
    ///
    /// The level is the work for a peer in one round up to which nothing of the peer is dropped. It is 0 while the node
    /// is not behind. When the node is behind, it rises from the mean work of a peer.
    ///
    /// *Tuned* by the tests below: the level falls by a quarter of the heaviest peer's work, and rises by half per
    /// round, from the mean to a thousand times the mean within 0.4 s.
    fn begin_round(&mut self, now: Instant, round: u64) {
        // Datagrams of a burst stop waiting within the round, those of a standing queue do not.
        let stands = |late: &Late| late.latest.since(late.since) >= ROUND && now.since(late.latest) < ROUND;
        self.level = if now >= self.behind_until {
            0
        } else if self.late.iter().any(stands) {
            self.level.min(self.most) / 4 * 3
        } else {
            self.level.max(self.mean()).saturating_mul(3).div_ceil(2)
        };
        (self.round, self.work, self.peers, self.most) = (round, 0, 0, 0);
    }

    /// Returns the mean work for a peer in the present round.
    fn mean(&self) -> u32 {
        self.work / self.peers.max(1)
    }

    /// True if the node is behind: datagrams wait in its sockets for too long.
    ///
    /// Only then shares apply ([`Intake::has_had_its_share`]).
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// True if the work for a peer in this round exceeds both the level and the mean of the peers.
    pub fn has_had_its_share(&self, peer: PeerId) -> bool {
        let own = self.shares.get(usize::from(peer.0)).filter(|share| share.round == self.round);
        own.is_some_and(|own| {
            own.work > self.level && u64::from(own.work) * u64::from(self.peers) > u64::from(self.work)
        })
    }

    /// Charges a peer for the work on an authentic datagram with a plaintext of `len` bytes.
    pub fn charge(&mut self, peer: PeerId, packet_type: PacketType, len: usize) {
        let index = usize::from(peer.0);
        if index >= self.shares.len() {
            self.shares.resize(index + 1, WorkShare::default());
        }
        let frames = if packet_type == PacketType::Control { len / FRAME_BYTES } else { 0 };
        let (share, work) = (&mut self.shares[index], 1 + frames as u32);
        if share.round != self.round || share.work == 0 {
            *share = WorkShare { round: self.round, work: 0 };
            self.peers += 1;
        }
        share.work += work;
        self.most = self.most.max(share.work);
        self.work += work;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const NOW: Instant = Instant::from_millis(5_000);

    /// Returns the number of datagrams served of each of three peers in one second.
    ///
    /// Datagrams wait in the socket for `waited`, and the peers send at `rates`.
    fn served(waited: Duration, rates: [u32; 3]) -> [u32; 3] {
        let (mut intake, mut served) = (Intake::default(), [0; 3]);
        for ms in 0..1_000 {
            let now = NOW + Duration::from_millis(ms);
            intake.on_batch(now, LinkId(2), now);
            intake.on_batch(now, LinkId(1), now.before(waited));
            for n in 0..*rates.iter().max().unwrap() {
                for peer in 0..3 {
                    let id = PeerId(peer as u16);
                    if n < rates[peer] && !(intake.is_behind() && intake.has_had_its_share(id)) {
                        intake.charge(id, PacketType::Data, 1_000);
                        served[peer] += 1;
                    }
                }
            }
        }
        served
    }

    #[test]
    fn the_busiest_peer_is_cut_to_the_fair_share_while_the_node_is_behind() {
        let in_time = served(Duration::from_millis(4), [100, 3, 0]);
        assert_eq!(in_time, [100_000, 3_000, 0]);
        let behind = served(Duration::from_millis(6), [100, 3, 0]);
        assert_eq!(behind[1], 3_000);
        assert!(behind[0] < 100_000 / 10 + 3_500, "{behind:?}");
    }

    #[test]
    fn a_single_peer_is_served_however_far_the_node_is_behind() {
        assert_eq!(served(Duration::from_millis(50), [100, 0, 0]), [100_000, 0, 0]);
    }

    /// Returns the units served per millisecond of each heavy peer, beside `idle` peers that send almost nothing.
    ///
    /// The node has a capacity of `capacity` units per millisecond.
    fn shared(capacity: f64, heavy: &[u32], idle: usize) -> Vec<f64> {
        let (mut intake, mut backlog, mut served) = (Intake::default(), 0.0, vec![0u32; heavy.len()]);
        for ms in 0..10_000 {
            let now = NOW + Duration::from_millis(ms);
            intake.on_batch(now, LinkId(1), now.before(Duration::from_micros((backlog / capacity * 1e3) as u64)));
            let mut take = |peer: usize| {
                let id = PeerId(peer as u16);
                let is_served = !(intake.is_behind() && intake.has_had_its_share(id));
                if is_served {
                    intake.charge(id, PacketType::Data, 1_000);
                    backlog += 1.0;
                }
                is_served
            };
            // Each idle peer sends once every 200 ms.
            for peer in (0..idle).filter(|peer| *peer as u64 % 200 == ms % 200) {
                assert!(take(heavy.len() + peer), "who sends little is never cut");
            }
            for n in 0..*heavy.iter().max().unwrap() {
                for (peer, rate) in heavy.iter().enumerate() {
                    served[peer] += u32::from(n < *rate && take(peer) && ms >= 5_000);
                }
            }
            backlog = f64::max(backlog - capacity, 0.0);
        }
        served.iter().map(|served| f64::from(*served) / 5_000.0).collect()
    }

    #[test]
    fn idle_peers_leave_their_share_to_busy_ones() {
        // 4,000 idle peers that each send once every 200 ms take 20 of the 100 units per millisecond.
        let served = shared(100.0, &[300], 4_000);
        assert!(served[0] > 65.0, "{served:?}");
    }

    #[test]
    fn heavy_peers_share_evenly_and_leave_lighter_ones_whole() {
        let served = shared(100.0, &[300, 90, 10], 0);
        assert!(served[2] > 9.9, "{served:?}");
        assert!((0.8..=1.25).contains(&(served[0] / served[1])) && served[0] + served[1] > 70.0, "{served:?}");
        let served = shared(100.0, &[150, 20], 200);
        assert!(served[1] > 19.9 && served[0] > 60.0, "{served:?}");
    }

    #[test]
    fn a_burst_costs_no_peer_a_datagram() {
        let mut intake = Intake::default();
        for ms in 0..10_000 {
            let now = NOW + Duration::from_millis(ms);
            intake.on_batch(now, LinkId(1), if ms % 100 < 90 { now.before(Duration::from_millis(30)) } else { now });
            intake.charge(PeerId((ms % 2) as u16), PacketType::Data, 100);
            assert!(!intake.is_behind());
        }
    }

    #[test]
    fn frames_cost_what_they_weigh() {
        let mut intake = Intake::default();
        intake.on_batch(NOW, LinkId(1), NOW);
        intake.charge(PeerId(0), PacketType::Control, 1_440);
        (0..10).for_each(|_| intake.charge(PeerId(1), PacketType::Data, 1_440));
        assert!(intake.has_had_its_share(PeerId(0)) && !intake.has_had_its_share(PeerId(1)));
    }
}
