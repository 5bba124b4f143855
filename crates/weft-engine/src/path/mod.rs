//! One path to a peer: its queues, the measurements in both directions, its pacing and its health.
//!
//! Units wait in three lanes, and the pacer releases them. The record of sent packets contains each datagram until a
//! report states its fate. The receive log records arrivals for this node's own reports. The scheduler of the peer, not
//! the path, decides which units the path gets.

mod batch;
pub mod choice;
mod copies;
mod health;
mod markers;
mod mtu;
mod overhead;
mod pacer;
mod proof;
mod queues;
mod reports;
mod sensing;
mod snapshot;
mod waiting;

pub use batch::BatchLimit;
pub use health::Health;
pub use markers::LoneMarker;
pub use mtu::PathMtu;
pub use overhead::Overhead;
pub use pacer::Pacer;
pub use proof::Proof;
pub use queues::{Lane, Queues};
use reports::REPORT_INTERVAL;
pub use sensing::{HeardTrains, Sensing};
pub use waiting::{Urgency, Waiting};

use crate::api::PathState;
use crate::links;
use crate::units::{Part, UnitId};
use crate::vpn::News;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_core::control::{PathRate, PathRateConfig};
use weft_core::sense::{LossRate, OneWayDelay, ReceiveLog, Rtt, Sample, SentPackets, liveness};
use weft_units::{Duration, Instant, LinkId, PathId, PathTier, PathUse, Rate, VpnId};
use weft_wire::hop::{DATA_OVERHEAD, PART_OVERHEAD};
use weft_wire::inner::GRANULE;

const INITIAL_RATE: Rate = Rate::from_mbps(10);
const FLOOR_RATE: Rate = Rate::from_bps(100_000);
/// Probe interval of a path on a link that is a reserve, and of every path while hardly any host packets are sent.
///
/// *Standard*: NATs forget a UDP mapping after 30 s (Linux conntrack, unreplied).
const KEEPALIVE_IDLE: Duration = Duration::from_secs(25);

/// Number of bytes that a flow needs in flight, so that its sender detects a loss in time.
///
/// *Standard*: the initial window of RFC 6928.
const LEAST_WINDOW_BYTES: u64 = 14_600;
/// A retransmission delay of one RTT counts in full in the RTT of a flow if it occurs once in this number of RTTs.
///
/// A rarer one counts in proportion to its frequency.
const RARE_STALL: f64 = 50.0;
/// Maximum number of retransmissions of one packet that are included in the computed RTT of its flow.
const REPEATS_MAX: usize = 4;
const FULL_PACKET_BYTES: f64 = 1500.0;

/// Content of a sent datagram. It is stored until the datagram's fate is known.
#[derive(Clone, Copy, Debug)]
pub enum Sent {
    Unit(UnitId),
    Part(UnitId, Part),
    /// Data that is not retransmitted: the datagram's IP bytes, and its VPN.
    Data(u16, VpnId),
    MtuProbe(u16),
    Control(Resend),
}

/// Frames of a control datagram that must be sent again if the datagram is lost: true for each such frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resend {
    pub policy: bool,
    pub hold: bool,
    pub gone: bool,
    /// True if the datagram carries the name of the path's link.
    pub link: bool,
    /// Number of revocations that the peer has once it gets this datagram, or 0 if it carries none.
    pub revocations: u16,
    /// The datagram's first frame about a VPN. Only this one is queued again at once if the datagram is lost.
    ///
    /// Other lost frames about VPNs follow when the request for their VPN is repeated.
    pub vpn: Option<News>,
}

impl Sent {
    /// Returns the unit that the datagram carried, whole or a part of it. `None` for any other datagram.
    pub fn unit(&self) -> Option<UnitId> {
        match self {
            Sent::Unit(id) | Sent::Part(id, _) => Some(*id),
            Sent::Data(..) | Sent::MtuProbe(_) | Sent::Control(_) => None,
        }
    }
}

/// Control frames that wait for the next control datagram on this path.
#[derive(Debug, Default)]
pub struct Pending {
    pub ping: Option<u32>,
    pub pongs: Vec<(u32, PathId)>,
    pub policy: bool,
    pub hold: bool,
    /// Paths that this node gave up and about which it must inform the peer. Bit n is the path with index n.
    pub gone: u64,
    pub close: bool,
    /// True if the name of the path's link is to be sent. It causes no datagram of its own.
    pub link: bool,
    pub skips: bool,
    pub vpns: bool,
    pub neighbours: bool,
    pub chirped: bool,
    pub revocations: bool,
    pub overlay: bool,
    /// True if the load of a port is to be sent.
    pub load: bool,
    /// Paths whose reports leave by this path. Bit n is the path with index n.
    pub reports: u64,
}

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.ping.is_none()
            && self.pongs.is_empty()
            && !self.policy
            && !self.hold
            && self.gone == 0
            && !self.close
            && !self.skips
            && !self.vpns
            && !self.neighbours
            && !self.chirped
            && !self.revocations
            && !self.overlay
            && !self.load
            && self.reports == 0
    }

    /// Returns which frames of a datagram with all these frames must be sent again if it is lost.
    pub fn to_resend(&self) -> Resend {
        Resend { policy: self.policy, hold: self.hold, gone: self.gone != 0, ..Resend::default() }
    }

    pub fn resend(&mut self, resend: Resend) {
        self.policy |= resend.policy;
        self.hold |= resend.hold;
        self.gone |= if resend.gone { u64::MAX } else { 0 };
        self.link |= resend.link;
        self.vpns |= resend.vpn.is_some();
    }
}

/// Counters of a path since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub sent_datagrams: u64,
    pub sent_bytes: u64,
    pub received_datagrams: u64,
    pub received_bytes: u64,
    pub lost_datagrams: u64,
}

/// One path to a peer.
pub struct Path {
    pub id: PathId,
    pub link: LinkId,
    pub link_name: String,
    pub link_up: bool,
    pub remote: SocketAddr,
    pub local: Option<IpAddr>,
    /// True if the path is chosen for data among the paths of its link. The other paths are kept as candidates.
    pub active: bool,
    /// True if the configuration forbids sending on the path. Only reports leave, as long as the peer uses the path.
    pub barred: bool,
    /// True if the peer has given up the path. Status output omits the path until a datagram arrives on it.
    pub left: bool,
    /// Traffic that this node's configuration allows on the path. The node sends it to the peer.
    pub own_use: PathUse,
    /// Traffic that the peer's configuration allows on the path, as the peer sent it.
    pub told_use: PathUse,
    /// True if the path is a spare path now: it carries no data because better paths answer.
    pub spare: bool,
    /// True if this node opened the path, false if the peer did.
    pub ours: bool,
    pub health: Health,
    pub mtu: PathMtu,
    pub pacer: Pacer,
    pub queues: Queues,
    pub pending: Pending,
    /// Loop markers that wait on this path and leave without a unit.
    pub markers: VecDeque<LoneMarker>,
    /// Time at which the first of these markers must leave. It is in the far future if there are none.
    pub markers_due: Instant,
    pub sent_packets: SentPackets<Sent>,
    pub waiting: Waiting,
    pub batch: BatchLimit,
    pub log: ReceiveLog,
    pub rate: PathRate,
    /// Trains that this node sends to measure the path.
    pub sensing: Sensing,
    /// Trains that arrive from the peer on the path.
    pub heard: HeardTrains,
    /// Loss of the path, averaged over the times at which the path answers.
    usual_loss: LossRate,
    /// Number of unanswered datagrams in a row that prove the path to be silent.
    pub misses: u32,
    pub delivery: Rate,
    pub overhead: Overhead,
    pub weight: u32,
    /// True if more units were waiting when the last datagram left. The path then limits the delivery rate.
    pub limited: bool,
    /// Limit on the bytes sent to the remote address until the peer has proven to be there.
    pub proof: Proof,
    /// Time at which units in flight on the path were last retransmitted elsewhere because it was suspect.
    pub doubted_at: Option<Instant>,
    pub totals: Totals,
    /// Time at which a datagram that asks for a report last left on the path.
    pub asked_at: Option<Instant>,
    /// UDP payload bytes of data received on the path since its last report.
    pub unreported_bytes: u64,
    /// Bytes of data reported by reports that left on this path since a ping last checked whether its reports arrive.
    pub unasked_bytes: u64,
    /// Name of the path's link at the peer, as the peer sent it. `None` before that.
    pub remote_link: Option<String>,
    /// Largest packet number received on the path.
    pub newest: Option<u64>,
    /// Packet number of the newest datagram received with a policy frame.
    pub newest_policy: Option<u64>,
    /// Pings of `Command::Ping` without an answer: the token, the id in the command and the sending time.
    pub pings: Vec<(u32, (u32, Instant))>,
}

/// The two ends of a path, and the settings of its link.
pub struct Ends {
    pub link: LinkId,
    pub link_name: String,
    pub link_mtu: u16,
    pub remote: SocketAddr,
    pub local: Option<IpAddr>,
    pub cap: Option<Rate>,
    pub barred: bool,
    pub allowed: PathUse,
}

impl Path {
    pub fn new(now: Instant, id: PathId, ends: Ends, ours: bool) -> Path {
        let is_wide = ends.remote.is_ipv6() && !links::is_route(&ends.remote);
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
            own_use: ends.allowed,
            told_use: PathUse::default(),
            spare: ends.allowed.tier != PathTier::Primary,
            ours,
            health: Health::new(now),
            mtu: PathMtu::new(now, ends.link_mtu, floor),
            pacer: Pacer::default(),
            queues: Queues::default(),
            pending: Pending { link: true, ..Pending::default() },
            markers: VecDeque::new(),
            markers_due: Instant::FAR_FUTURE,
            sent_packets: SentPackets::new(),
            waiting: Waiting::default(),
            batch: BatchLimit::new(now),
            log: ReceiveLog::new(),
            rate: PathRate::new(PathRateConfig { initial: INITIAL_RATE, floor: FLOOR_RATE, cap: ends.cap }),
            sensing: Sensing::default(),
            heard: HeardTrains::default(),
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

    pub fn rtt(&self) -> &Rtt {
        self.rate.rtt()
    }

    pub fn delay(&self) -> &OneWayDelay {
        self.rate.one_way_delay()
    }

    pub fn loss(&self) -> &LossRate {
        self.rate.loss()
    }

    /// Returns the rate that this node grants to senders on this path, or zero if no rate is known yet.
    ///
    /// It is the learnt capacity, else the available rate that trains found, else the configured cap. A higher rate
    /// that the path has carried replaces it. Occasionally the rate is higher, to discover unused capacity.
    pub fn offered(&self) -> Rate {
        let most = self.rate.cap();
        // The configured cap comes last: a path that is kept below its capacity does not reveal the capacity.
        let known = self.rate.capacity().or_else(|| self.found_by_trains()).or(most);
        let offered = self.rate.offered().max(known.unwrap_or(Rate::ZERO));
        most.map_or(offered, |most| offered.min(most))
    }

    /// Returns the rate granted on this path ([`Path::offered`]), or the pacing rate while that is zero.
    pub fn offered_or_tried(&self, now: Instant) -> Rate {
        match self.offered() {
            Rate::ZERO => self.rate.pacing_rate(now),
            offered => offered,
        }
    }

    /// Returns a sort key for policies that use only one path at a time. The greatest key is best.
    ///
    /// Paths that answer have greater keys, and then paths with more capacity. A path that no traffic has filled
    /// counts with the rate at which its search for the capacity begins. Otherwise it would never be tried, even if
    /// the other paths are slow.
    pub fn preference(&self) -> (bool, Rate) {
        (self.health.answers(), self.rate.expected())
    }

    fn found_by_trains(&self) -> Option<Rate> {
        self.sensing.known().and_then(|(_, estimate)| estimate.available)
    }

    /// Discards the state that depends on the run of the peer's program, because the peer restarted.
    pub fn restart(&mut self, now: Instant) {
        self.health = Health::new(now);
        self.active = false;
        self.pending = Pending { link: true, ..Pending::default() };
        self.forget_markers();
        self.sent_packets = SentPackets::new();
        self.waiting.clear();
        self.log = ReceiveLog::new();
        self.rate.on_new_clock();
        (self.unreported_bytes, self.unasked_bytes) = (0, 0);
        (self.sensing, self.heard) = (Sensing::default(), HeardTrains::default());
        self.newest = None;
    }

    /// Discards the loop markers that wait on the path.
    pub fn forget_markers(&mut self) {
        self.markers.clear();
        self.markers_due = Instant::FAR_FUTURE;
    }

    /// True if a datagram of full length may be sent to the path's address now.
    ///
    /// Otherwise the address is unproven, and only pings may be sent.
    pub fn has_credit(&self) -> bool {
        self.proof.room(usize::MAX, self.datagram_limit()).is_some()
    }

    /// True if the node that opened the path has given it up. Nothing is sent on it, and status output omits it.
    pub fn is_gone(&self) -> bool {
        if self.ours { self.barred } else { self.left }
    }

    /// True if each probe carries a frame with this node's settings of the path.
    ///
    /// The probes carry them if this node opened the path, or if a setting differs from the default.
    pub fn states_policy(&self) -> bool {
        self.ours || self.own_use != PathUse::default()
    }

    /// Returns the rank of the path ([`PathTier`]): the higher, less preferred one of those that the two nodes set.
    pub fn tier(&self) -> PathTier {
        self.own_use.both(self.told_use).tier
    }

    /// True if one of the two nodes allows only sparse flows on the path.
    pub fn is_sparse_only(&self) -> bool {
        self.own_use.both(self.told_use).is_sparse_only
    }

    /// True if the path accepts another bulk unit.
    pub fn has_room_for_bulk(&self) -> bool {
        !self.is_sparse_only() && self.has_window()
    }

    /// True if the path may carry data now: it is chosen for data, is not spare, and is good, degraded or suspect.
    pub fn is_usable(&self) -> bool {
        !self.spare && self.carries() && self.health.is_usable()
    }

    /// True if the path shows that the peer is reachable: the path answers, and its address is proven.
    ///
    /// An unproven address may be an attacker's.
    pub fn shows_peer(&self) -> bool {
        self.proof.is_proven() && self.health.answers()
    }

    /// True if both nodes use the path for data, whatever the path's health.
    pub fn carries(&self) -> bool {
        self.active && self.link_up && !self.barred
    }

    /// Returns the length of the IP, UDP and relay headers of a datagram on this path, in bytes.
    pub fn outer_header_len(&self) -> usize {
        links::outer_header_len(&self.remote)
    }

    /// Returns the largest UDP payload of a datagram, in bytes.
    pub fn datagram_limit(&self) -> usize {
        usize::from(self.mtu.current()).saturating_sub(self.outer_header_len())
    }

    /// Returns the fraction of inner packets in the IP bytes of bulk datagrams on this path.
    ///
    /// Before any measurement it is the fraction for full packets.
    pub fn packet_share(&self) -> f64 {
        let full = self.inner_limit() as f64 / f64::from(self.mtu.current().max(1));
        self.overhead.packet_share().unwrap_or(full)
    }

    /// Returns the length of the largest inner packet that fits into a data datagram on this path, in bytes.
    pub fn inner_limit(&self) -> usize {
        self.datagram_limit().saturating_sub(DATA_OVERHEAD)
    }

    /// Returns the maximum number of granules of a unit that one part may carry.
    pub fn granule_limit(&self) -> usize {
        self.datagram_limit().saturating_sub(PART_OVERHEAD) / GRANULE
    }

    /// Returns the IP bytes that a unit of `len` bytes takes on this path, whole or in parts.
    pub fn wire_bytes(&self, len: usize) -> u32 {
        let outer = self.outer_header_len();
        let whole = len + DATA_OVERHEAD + outer;
        if len <= self.inner_limit() {
            return whole as u32;
        }
        let parts = len.div_ceil(GRANULE).div_ceil(self.granule_limit().max(1));
        (len + parts * (PART_OVERHEAD + outer)) as u32
    }

    /// Returns the time of the next ping that asks for a late report; `None` if no further ping is needed.
    ///
    /// Silence is proven by a number of datagrams without a report. A report is late after its usual time. If no
    /// packet depends on it, more time passes first.
    pub fn ask_at(&self, urgency: Urgency) -> Option<Instant> {
        if self.withholds() && self.waiting.since().is_none() {
            return Some(Instant::ZERO);
        }
        let usual = self.rtt().smoothed() + self.rtt().variation() * 2 + REPORT_INTERVAL;
        self.waiting.ask_at(usual.min(liveness::CEILING), urgency, self.misses)
    }

    /// Queues a ping with this `token`, which asks the peer for an answer.
    ///
    /// An unproven address without credit gets no ping. The ping is then recorded as unanswered, so that silence is
    /// detected as early as at a proven address.
    pub fn ask(&mut self, now: Instant, token: u32) {
        self.pending.ping.get_or_insert(token);
        if !self.has_credit() {
            self.waiting.on_withheld(now);
        }
    }

    /// True if units wait on the path, but may not be sent to its unproven address.
    fn withholds(&self) -> bool {
        !self.has_credit() && !self.queues.is_empty()
    }

    /// Returns the duration of silence after which the path becomes suspect.
    pub fn suspect_after(&self) -> Duration {
        liveness::suspect_after(self.rtt(), REPORT_INTERVAL, self.delay().jitter())
    }

    /// True if the path carries no data because its link is a configured reserve.
    ///
    /// It is then probed as seldom as without host packets, because data on the link may be expensive.
    pub fn rests(&self) -> bool {
        self.spare && self.tier() < PathTier::Detour
    }

    /// Returns the interval of the path's probes while the path carries nothing.
    ///
    /// It is `pace` on an active path. It is [`KEEPALIVE_IDLE`] on other paths, on a link that is a reserve, and
    /// while `pace` is `None`, because hardly any host packets are sent or received.
    pub fn keepalive(&self, pace: Option<Duration>) -> Duration {
        pace.filter(|_| self.active && !self.rests()).unwrap_or(KEEPALIVE_IDLE)
    }

    /// Updates the path's rate, loss and counters from the sample of a report.
    pub fn on_sample(&mut self, now: Instant, sample: &Sample) {
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

    /// True if the limit on the bytes in flight on the path allows another datagram.
    pub fn has_window(&self) -> bool {
        self.sent_packets.in_flight_bytes() < self.rate.in_flight_limit_bytes()
    }

    /// Records a datagram of `ip_bytes` bytes that leaves now with the packet number `number`.
    pub fn on_sent(&mut self, now: Instant, number: u64, ip_bytes: u32, eliciting: bool, sent: Sent) {
        self.totals.sent_datagrams += 1;
        self.totals.sent_bytes += u64::from(ip_bytes);
        self.proof.on_sent(number, ip_bytes.into());
        self.sent_packets.on_sent(number, now, ip_bytes, self.limited, sent);
        if eliciting {
            self.asked_at = Some(now);
            self.waiting.on_sent(number, now);
        }
    }

    /// Returns in how many copies a unit that was lost `times` times is retransmitted.
    ///
    /// With one copy, a second loss would hold back all later units for one more RTT. While the path's queue is full,
    /// one copy is sent, because more copies would fill the queue further.
    pub fn copies_of_repeat(&self, times: u8) -> usize {
        if self.is_filled() {
            return 1;
        }
        let packets_of_round_trip = self.rate.in_flight_limit_bytes() as f64 / FULL_PACKET_BYTES;
        copies::of_repeat(self.loss().fraction(), packets_of_round_trip, times)
    }

    /// True if the path's queue is so long that copies only fill it further.
    pub fn is_filled(&self) -> bool {
        self.delay().standing_queue() > self.rate.queue_target() * 2
    }

    /// Returns the longest RTT that a flow on this path regularly sees.
    ///
    /// It includes jitter in both directions, and the retransmission of packets lost in one RTT. A lost retransmission
    /// adds another one.
    pub fn inner_round_trip(&self) -> Duration {
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

    /// Returns the path's state: good, degraded, suspect, down or opening.
    pub fn state(&self) -> PathState {
        self.health.state()
    }
}
