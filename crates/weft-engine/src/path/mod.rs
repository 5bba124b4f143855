//! One path to a peer: its queues, its measurement in both directions, its pace, its health.

pub(crate) mod choice;
mod copies;
mod health;
mod mtu;
mod overhead;
mod pacer;
mod proof;
mod queues;
mod sensing;
mod waiting;

pub(crate) use health::Health;
pub(crate) use mtu::PathMtu;
pub(crate) use overhead::Overhead;
pub(crate) use pacer::Pacer;
pub(crate) use proof::Proof;
pub(crate) use queues::{Lane, Queues};
pub(crate) use sensing::{Heard, Sensing};
pub(crate) use waiting::Waiting;

use crate::PathState;
use crate::peer::LoneMarker;
use crate::relay;
use crate::unit::{Part, UnitId};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_core::control::{PathRate, PathRateConfig};
use weft_core::sense::{LossRate, OneWayDelay, ReceiveLog, Rtt, Sample, SentBook, liveness};
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, LinkId, PathId, Rate, VpnId};
use weft_wire::hop::{DATA_OVERHEAD, PART_OVERHEAD};
use weft_wire::inner::GRANULE;

const INITIAL_RATE: Rate = Rate::from_mbps(10);
const FLOOR_RATE: Rate = Rate::from_bps(100_000);
/// The longest a receiver waits before it reports. Both ends must agree: silence is judged by it.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_millis(10);
/// IP bytes of a report with a few ranges.
const REPORT_BYTES: u64 = 150;
/// At most one part in so many of what a path carries is reports. Tuned: a tenth delays the repeats of links below 2 Mbit/s,
const REPORTS_PART: u64 = 4;
/// and they are no further apart than this: senders go by them.
const REPORTS_APART_MAX: Duration = Duration::from_millis(50);
/// How often a path is probed while nobody pays for its watch. Standard: NATs forget a UDP mapping after 30 s (Linux conntrack, unreplied).
const KEEPALIVE_IDLE: Duration = Duration::from_secs(25);

/// A sender needs so many bytes under way to notice a loss in time. Standard: the initial window of RFC 6928.
const LEAST_WINDOW_BYTES: u64 = 14_600;
/// A stall of one round trip counts in part if it comes less often than once in so many round trips.
const RARE_STALL: f64 = 50.0;
/// A packet's first so many repeats count in the round trip of its flow.
const REPEATS_MAX: usize = 4;
const FULL_PACKET_BYTES: f64 = 1500.0;

/// What a datagram carried, until its fate is known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sent {
    Unit(UnitId),
    Part(UnitId, Part),
    /// Data that is not repeated: IP bytes, and whose.
    Data(u16, VpnId),
    MtuProbe(u16),
    Control(Said),
}

/// What a control datagram said that is said again if it is lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    pub(crate) policy: bool,
    pub(crate) hold: bool,
    pub(crate) gone: bool,
    /// The name of the link.
    pub(crate) link: bool,
    /// So many revocations the peer knows with this; 0 where nothing was said of them.
    pub(crate) revocations: u16,
}

impl Sent {
    /// The unit it names.
    pub(crate) fn unit(&self) -> Option<UnitId> {
        match self {
            Sent::Unit(id) | Sent::Part(id, _) => Some(*id),
            Sent::Data(..) | Sent::MtuProbe(_) | Sent::Control(_) => None,
        }
    }
}

/// Control frames that wait for the next control datagram on this path.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) ping: Option<u32>,
    pub(crate) pongs: Vec<(u32, PathId)>,
    pub(crate) policy: bool,
    pub(crate) hold: bool,
    /// The paths that were given up here.
    pub(crate) gone: bool,
    pub(crate) close: bool,
    /// The name of the link. It leaves with something else, and causes no datagram of its own.
    pub(crate) link: bool,
    pub(crate) skips: bool,
    pub(crate) vpns: bool,
    pub(crate) neighbours: bool,
    pub(crate) chirped: bool,
    pub(crate) revocations: bool,
    pub(crate) overlay: bool,
    /// Paths whose reports leave by this one, a bit each.
    pub(crate) reports: u64,
}

impl Pending {
    /// The peer knows nothing of the path yet.
    fn of_new_path() -> Pending {
        Pending { link: true, ..Pending::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ping.is_none()
            && self.pongs.is_empty()
            && !self.policy
            && !self.hold
            && !self.gone
            && !self.close
            && !self.skips
            && !self.vpns
            && !self.neighbours
            && !self.chirped
            && !self.revocations
            && !self.overlay
            && self.reports == 0
    }

    /// Of what is said next, what a loss would have said again.
    pub(crate) fn said(&self) -> Said {
        Said { policy: self.policy, hold: self.hold, gone: self.gone, link: false, revocations: 0 }
    }

    pub(crate) fn say_again(&mut self, said: Said) {
        self.policy |= said.policy;
        self.hold |= said.hold;
        self.gone |= said.gone;
        self.link |= said.link;
    }
}

/// Totals since the path opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) sent_datagrams: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_datagrams: u64,
    pub(crate) received_bytes: u64,
    pub(crate) lost_datagrams: u64,
}

/// A path.
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) link: LinkId,
    pub(crate) link_name: String,
    pub(crate) link_up: bool,
    pub(crate) remote: SocketAddr,
    pub(crate) local: Option<IpAddr>,
    /// Chosen for data among the paths of its link; the others are only tried.
    pub(crate) active: bool,
    /// The configuration wants nothing to be sent on it: reports are all that leaves, while the peer still tries it.
    pub(crate) barred: bool,
    /// The peer has given it up; it is not shown until something comes on it.
    pub(crate) left: bool,
    /// It is to carry data only while no other path answers.
    pub(crate) standby: bool,
    /// Better ones answer: it carries no data.
    pub(crate) spare: bool,
    /// Opened here, not by the peer.
    pub(crate) ours: bool,
    pub(crate) health: Health,
    pub(crate) mtu: PathMtu,
    pub(crate) pacer: Pacer,
    pub(crate) queues: Queues,
    pub(crate) pending: Pending,
    /// Markers of loops that leave by themselves,
    pub(crate) markers: VecDeque<LoneMarker>,
    /// and when; in the far future if there are none.
    pub(crate) markers_due: Instant,
    pub(crate) book: SentBook<Sent>,
    pub(crate) waiting: Waiting,
    pub(crate) log: ReceiveLog,
    pub(crate) rate: PathRate,
    /// Trains that sense it,
    pub(crate) sensing: Sensing,
    /// and those of the peer.
    pub(crate) heard: Heard,
    /// What it loses while it works, and so many questions in a row without an answer are silence.
    usual_loss: LossRate,
    pub(crate) misses: u32,
    pub(crate) delivery: Rate,
    pub(crate) overhead: Overhead,
    pub(crate) weight: u32,
    /// More waited when the last datagram left: what was sent shows the path, not the traffic.
    pub(crate) limited: bool,
    /// Limits what is sent to an address that the path has just moved to.
    pub(crate) proof: Proof,
    /// When a suspicion last had packets repeated.
    pub(crate) doubted_at: Option<Instant>,
    pub(crate) totals: Totals,
    /// When something that asks for a report last left.
    pub(crate) asked_at: Option<Instant>,
    /// UDP payload bytes of data that came by it since they were last reported,
    pub(crate) unreported_bytes: u64,
    /// and those that reports spoke of that left by it since it last asked whether they arrive.
    pub(crate) unasked_bytes: u64,
    /// What the peer calls its link.
    pub(crate) remote_link: Option<String>,
    /// The largest packet number received.
    pub(crate) newest: Option<u64>,
    /// That of the newest policy among them.
    pub(crate) newest_policy: Option<u64>,
    /// Pings of the user: token, then the user's number and when it left.
    pub(crate) pings: Vec<(u32, (u32, Instant))>,
}

/// Where a path leads.
pub(crate) struct Ends {
    pub(crate) link: LinkId,
    pub(crate) link_name: String,
    pub(crate) link_mtu: u16,
    pub(crate) remote: SocketAddr,
    pub(crate) local: Option<IpAddr>,
    pub(crate) cap: Option<Rate>,
    pub(crate) barred: bool,
    pub(crate) standby: bool,
}

impl Path {
    pub(crate) fn new(now: Instant, id: PathId, ends: Ends, ours: bool) -> Path {
        let is_wide = ends.remote.is_ipv6() && !relay::is_route(&ends.remote);
        let floor = if is_wide { PathMtu::FLOOR_IPV6 } else { PathMtu::FLOOR_IPV4 };
        Path {
            id,
            link: ends.link,
            link_name: ends.link_name,
            link_up: true,
            remote: ends.remote,
            local: ends.local,
            active: false,
            barred: ends.barred,
            left: false,
            standby: ends.standby,
            spare: ends.standby,
            ours,
            health: Health::new(now),
            mtu: PathMtu::new(now, ends.link_mtu, floor),
            pacer: Pacer::default(),
            queues: Queues::default(),
            pending: Pending::of_new_path(),
            markers: VecDeque::new(),
            markers_due: Instant::FAR_FUTURE,
            book: SentBook::new(),
            waiting: Waiting::default(),
            log: ReceiveLog::new(),
            rate: PathRate::new(PathRateConfig { initial: INITIAL_RATE, floor: FLOOR_RATE, cap: ends.cap }),
            sensing: Sensing::default(),
            heard: Heard::default(),
            usual_loss: LossRate::of_all_times(),
            misses: liveness::misses_that_matter(0.0),
            delivery: Rate::ZERO,
            overhead: Overhead::default(),
            weight: 1,
            limited: false,
            proof: Proof::default(),
            doubted_at: None,
            totals: Totals::default(),
            asked_at: None,
            unreported_bytes: 0,
            unasked_bytes: 0,
            remote_link: None,
            newest: None,
            newest_policy: None,
            pings: Vec::new(),
        }
    }

    pub(crate) fn rtt(&self) -> &Rtt {
        self.rate.rtt()
    }

    pub(crate) fn delay(&self) -> &OneWayDelay {
        self.rate.one_way_delay()
    }

    pub(crate) fn loss(&self) -> &LossRate {
        self.rate.loss()
    }

    /// What to offer to senders: its capacity as learnt while it was full, before that what trains find that others leave of it, or the most
    /// it may be sent; what it was seen to carry, if that is more; and now and then more, or nobody would find out. Zero: nothing is known.
    pub(crate) fn offered(&self) -> Rate {
        let most = self.rate.cap();
        // A path that is kept below its capacity never shows it.
        let known = self.rate.capacity().or_else(|| self.found_by_trains()).or(most);
        let offered = self.rate.offered().max(known.unwrap_or(Rate::ZERO));
        most.map_or(offered, |most| offered.min(most))
    }

    /// The same, and while nothing is known, what is tried.
    pub(crate) fn offered_or_tried(&self, now: Instant) -> Rate {
        match self.offered() {
            Rate::ZERO => self.rate.pacing_rate(now),
            offered => offered,
        }
    }

    fn found_by_trains(&self) -> Option<Rate> {
        self.sensing.known().and_then(|(_, estimate)| estimate.available)
    }

    /// Forgets what was learnt of the peer's side: it started anew.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.health = Health::new(now);
        self.active = false;
        self.pending = Pending::of_new_path();
        self.forget_markers();
        self.book = SentBook::new();
        self.waiting.clear();
        self.log = ReceiveLog::new();
        self.rate.on_new_clock();
        (self.unreported_bytes, self.unasked_bytes) = (0, 0);
        (self.sensing, self.heard) = (Sensing::default(), Heard::default());
        self.newest = None;
    }

    /// Forgets the markers that wait.
    pub(crate) fn forget_markers(&mut self) {
        self.markers.clear();
        self.markers_due = Instant::FAR_FUTURE;
    }

    /// Whether a whole datagram may go to the path's address now, as far as its proof is concerned. Else only pings may.
    pub(crate) fn has_credit(&self) -> bool {
        self.proof.room(usize::MAX, self.datagram_limit()).is_some()
    }

    /// Given up by the node that opened it: nothing leaves on it, and nobody is shown it.
    pub(crate) fn is_gone(&self) -> bool {
        if self.ours { self.barred } else { self.left }
    }

    /// May carry data.
    pub(crate) fn is_usable(&self) -> bool {
        !self.spare && self.carries() && self.health.is_usable()
    }

    /// Is there to carry data, as far as both ends are concerned.
    pub(crate) fn carries(&self) -> bool {
        self.active && self.link_up && (!self.barred || planted::is(Fault::BarredLinkUsed))
    }

    /// IP and UDP header bytes of a datagram on this path, and what its relays need.
    pub(crate) fn outer_header_len(&self) -> usize {
        relay::outer_header_len(&self.remote)
    }

    /// The largest payload a datagram may have.
    pub(crate) fn datagram_limit(&self) -> usize {
        usize::from(self.mtu.current()).saturating_sub(self.outer_header_len())
    }

    /// Bytes of packets in each byte that bulk sends, between 0 and 1: measured, or that of full packets before.
    pub(crate) fn packet_share(&self) -> f64 {
        let full = self.inner_limit() as f64 / f64::from(self.mtu.current().max(1));
        self.overhead.packet_share().unwrap_or(full)
    }

    /// The largest inner packet a data datagram may carry.
    pub(crate) fn inner_limit(&self) -> usize {
        self.datagram_limit().saturating_sub(DATA_OVERHEAD)
    }

    /// The most granules of a unit that one data part may carry.
    pub(crate) fn granule_limit(&self) -> usize {
        self.datagram_limit().saturating_sub(PART_OVERHEAD) / GRANULE
    }

    /// IP bytes of a unit of `len` bytes on this path, whole or in parts.
    pub(crate) fn wire_bytes(&self, len: usize) -> u32 {
        let outer = self.outer_header_len();
        let whole = len + DATA_OVERHEAD + outer;
        if len <= self.inner_limit() {
            return whole as u32;
        }
        let parts = len.div_ceil(GRANULE).div_ceil(self.granule_limit().max(1));
        (len + parts * (PART_OVERHEAD + outer)) as u32
    }

    /// An answer usually comes within this.
    pub(crate) fn answer_after(&self) -> Duration {
        (self.rtt().smoothed() + self.rtt().variation() * 2 + REPORT_INTERVAL).min(liveness::CEILING)
    }

    /// Silence longer than this is suspicious.
    pub(crate) fn suspect_after(&self) -> Duration {
        liveness::suspect_after(self.rtt(), REPORT_INTERVAL, self.delay().jitter())
    }

    /// How often a path asks for a sign of life while it carries nothing, if active ones are watched at this `pace`.
    pub(crate) fn keepalive(&self, pace: Option<Duration>) -> Duration {
        pace.filter(|_| self.active).unwrap_or(KEEPALIVE_IDLE)
    }

    /// Takes in what a report taught.
    pub(crate) fn on_sample(&mut self, now: Instant, sample: &Sample) {
        self.rate.on_sample(now, sample);
        if self.health.answers() {
            self.usual_loss.on_fates(now, sample.delivered_packets, sample.lost_packets);
            let loss = self.usual_loss.fraction().max(self.loss().fraction());
            self.misses = liveness::misses_that_matter(loss);
        }
        self.totals.lost_datagrams += sample.lost_packets;
        if let Some(rate) = sample.delivery_rate() {
            self.delivery = rate;
        }
    }

    /// Whether the volume in flight allows another datagram.
    pub(crate) fn has_window(&self) -> bool {
        self.book.in_flight_bytes() < self.rate.in_flight_limit_bytes()
    }

    /// Notes a datagram of `ip_bytes` that leaves now under `number`.
    pub(crate) fn on_sent(&mut self, now: Instant, number: u64, ip_bytes: u32, eliciting: bool, sent: Sent) {
        self.totals.sent_datagrams += 1;
        self.totals.sent_bytes += u64::from(ip_bytes);
        self.proof.on_sent(number, ip_bytes.into());
        self.book.on_sent(number, now, ip_bytes, self.limited, sent);
        if eliciting {
            self.asked_at = Some(now);
            self.waiting.on_sent(number, now);
        }
    }

    /// How often to send what was lost `times` times, so that it does not hold back all that follows for yet another round trip. What a full
    /// queue dropped is not sent twice: that would fill the queue further.
    pub(crate) fn copies_of_repeat(&self, times: u8) -> usize {
        if self.delay().standing_queue() > self.rate.queue_target() * 2 {
            return 1;
        }
        let packets_of_round_trip = self.rate.in_flight_limit_bytes() as f64 / FULL_PACKET_BYTES;
        copies::of_repeat(self.loss().fraction(), packets_of_round_trip, times)
    }

    /// When the next report on what came by this path is due. Where the rate of the way back is known, reports take
    /// at most a part of it. Else they would crowd out the acknowledgements of flows.
    pub(crate) fn report_due(&self) -> Option<Instant> {
        let least = |capacity: Rate| {
            Rate::from_bps(capacity.bps() / REPORTS_PART).time_for(REPORT_BYTES).min(REPORTS_APART_MAX)
        };
        self.log.report_due(REPORT_INTERVAL, self.rate.capacity().map(least).unwrap_or_default())
    }

    /// The longest round trip that a flow on this path regularly sees: with its jitter both ways, and with a repeat for each loss that
    /// a round trip's packets meet, one after another where repeats are lost too.
    pub(crate) fn inner_round_trip(&self) -> Duration {
        let round_trip = self.rtt().smoothed();
        let packets = self.rate.carried().bytes_in(round_trip) as f64 / FULL_PACKET_BYTES;
        let loss = self.loss().fraction().min(0.5);
        let mut lost = packets;
        let mut repeats = 0.0;
        for _ in 0..REPEATS_MAX {
            lost *= loss;
            repeats += (lost * RARE_STALL).min(1.0);
        }
        let window = self.rate.carried().time_for(LEAST_WINDOW_BYTES).min(Duration::from_secs(1));
        round_trip.mul_f64(1.0 + repeats) + self.rate.noise() * 6 + window
    }

    /// The state as people see it: a path kept in reserve is no worse than open.
    pub(crate) fn state(&self) -> PathState {
        self.health.state()
    }
}
