//! Reports of the load of ports, from a transit node to the nodes that send through it.
//!
//! [`LoadMeter`] makes a [`LoadReport`] of a port every 20 ms. [`LoadPacer`] decides which reports one receiver gets:
//! those that changed enough, and never more than a thousandth of the link's rate. [`HeardLoads`] stores the reports of
//! peers. An ingress edge chooses next hops by them ([`HeardLoads::is_full`],
//! [`AlternateGroups::choose_unless`](crate::alternates::AlternateGroups::choose_unless)).
//!
//! A report can only turn new flows away from its sender. A sender that reports an idle port gets the flows that it
//! would get without a report.

use crate::ClassId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_units::{Duration, Instant, PeerId, Rate};
use weft_wire::er_sig::Rate16;
pub use weft_wire::load_report::{LOAD_CLASSES, LOAD_REPORT_MAX, LoadReport, TransitLoad};

/// Time between two measurements inside the node, and least time between two reports to one receiver.
///
/// Tuned: a fifth of the delay that speech bears, and 17 packets at 10 Mbit/s.
pub const LOAD_INTERVAL: Duration = Duration::from_millis(20);
/// Age from which a received report counts for nothing.
///
/// Derived: four times [`REFRESH`]. At 20 % loss, three reports in a row are lost in 1 of 125 cases.
pub const LOAD_LIFETIME: Duration = Duration::from_secs(4);
/// Maximum number of prefixes for which one receiver gets reports, or for which the reports of one peer are stored.
pub const LOAD_PREFIXES: usize = 16;
/// Time for which a receiver gets reports about a prefix after its last packet toward the prefix.
///
/// Tuned: when a full port has turned all flows of a sender away, the sender tries it again after this time and
/// [`LOAD_LIFETIME`].
pub const LOAD_SENDER_MEMORY: Duration = Duration::from_secs(10);

/// Part of a link's rate that reports may take: one thousandth.
///
/// Tuned: too little for users to notice, and four reports a second at 3 Mbit/s.
const LINK_SHARE: u64 = 1_000;
/// Gain of the moving average of the rate: 1/4.
///
/// Tuned: it settles in 80 ms, and 20 ms of a 10 Mbit/s link are 17 packets.
const RATE_GAIN: u64 = 4;
/// A rate is reported again if it moved by more than this part of the port's capacity: 1/16.
///
/// Tuned: one in ten voice calls.
const RATE_CHANGE: u64 = 16;
/// A delay is reported again if it moved by more than this, and by more than a quarter.
///
/// Tuned: half of FQ-CoDel's target delay.
const DELAY_CHANGE: Duration = Duration::from_micros(2_500);
/// Time after which the report of a full port is sent again without a change, because the last one may be lost.
const REFRESH: Duration = Duration::from_secs(1);
/// A port becomes full if its headroom is less than this part of its target rate: 1/16.
///
/// Derived: [`RATE_CHANGE`], so that the report that shows it is sent.
const FULL_PART: u64 = 16;
/// A full port is full until its headroom is this part of its target rate: 1/8.
const FREE_PART: u64 = 8;
/// A port becomes full if its queue delay is longer than this.
///
/// Standard: the delay variation of class 0 of ITU-T Y.1541.
const FULL_DELAY: Duration = Duration::from_millis(50);
/// A full port is full until its queue delay is at most this.
const FREE_DELAY: Duration = Duration::from_millis(25);

/// True if `report` differs enough from `told`, the last report that the receiver got, to be sent.
///
/// `capacity` is the port's capacity.
fn differs(report: &LoadReport, told: &LoadReport, capacity: Rate) -> bool {
    let step = capacity.bps() / RATE_CHANGE;
    let moved = |a: Rate16, b: Rate16| bps(a).abs_diff(bps(b)) > step;
    let delay = report.queue_delay.abs_diff(told.queue_delay);
    report.classes != told.classes
        || moved(report.rate, told.rate)
        || report.headroom.iter().zip(told.headroom).any(|(a, b)| moved(*a, b))
        || delay > DELAY_CHANGE && delay > told.queue_delay / 4
        || report.flows.abs_diff(told.flows) > told.flows / 4 + 8
}

/// True if new flows without a guarantee should avoid the port. `was_full` is the judgement of the report before.
fn judge(report: &LoadReport, was_full: bool) -> bool {
    let (part, delay) = if was_full { (FREE_PART, FREE_DELAY) } else { (FULL_PART, FULL_DELAY) };
    // Without a report of its headroom, a port that carries something counts as full.
    let left = bps(report.headroom[0]);
    left.saturating_mul(part) < bps(report.rate).saturating_add(left) || report.queue_delay > delay
}

fn bps(rate: Rate16) -> u64 {
    rate.rate().map_or(u64::MAX, Rate::bps)
}

/// The load of a port in the last interval, and the rates that could still be granted.
#[derive(Clone, Copy, Debug)]
pub struct PortReading {
    /// Rate at which IP packets arrived.
    pub arrived: Rate,
    /// Rate that the port should carry at most. `None` while its capacity is unknown: it may carry twice its rate.
    pub target: Option<Rate>,
    /// Rate that could still be guaranteed.
    pub guaranteed_left: Rate,
    /// Number of flows with packets in the interval.
    pub flows: u32,
    /// Delay in the port's queue.
    pub queue_delay: Duration,
    /// Number of classes. Those beyond the eighth are left out.
    pub classes: usize,
    /// Classes whose flows ask for a guarantee. Bit n is the class with number n.
    pub guaranteed_classes: u8,
}

/// Measures the load of one port.
#[derive(Clone, Copy, Debug)]
pub struct LoadMeter {
    port: u16,
    /// Moving average of the rate at which packets arrive, from the first measurement on.
    rate: Option<Rate>,
}

impl LoadMeter {
    /// Returns the meter of a port.
    pub fn new(port: u16) -> LoadMeter {
        LoadMeter { port, rate: None }
    }

    /// Returns the report after an interval. Call it every [`LOAD_INTERVAL`].
    ///
    /// The headroom of a class with a guarantee is the rate that could still be guaranteed. That of any other class is
    /// the rate below the port's target. So is that of class 0 always, because receivers judge the port by it.
    pub fn sample(&mut self, reading: &PortReading) -> LoadReport {
        let average = |before: Rate| (before.bps() * (RATE_GAIN - 1) + reading.arrived.bps()) / RATE_GAIN;
        let rate = self.rate.map_or(reading.arrived, |before| Rate::from_bps(average(before)));
        self.rate = Some(rate);
        let left = reading.target.map_or(rate, |target| Rate::from_bps(target.bps().saturating_sub(rate.bps())));
        let classes = reading.classes.min(LOAD_CLASSES);
        let mut headroom = [Rate16::ZERO; LOAD_CLASSES];
        for (class, field) in headroom.iter_mut().enumerate().take(classes) {
            let is_guaranteed = class > 0 && reading.guaranteed_classes >> class & 1 == 1;
            *field = Rate16::floor(if is_guaranteed { reading.guaranteed_left } else { left });
        }
        LoadReport {
            sequence: 0,
            port: self.port,
            rate: Rate16::floor(rate),
            flows: reading.flows,
            queue_delay: reading.queue_delay,
            classes: classes as u8,
            headroom,
        }
    }
}

/// What one receiver was told about one key.
#[derive(Clone, Copy, Debug)]
struct Told<K> {
    key: K,
    used_at: Instant,
    sequence: u8,
    /// True if the last report said that the port is full, as its receiver judges it.
    is_full: bool,
    last: Option<(Instant, LoadReport)>,
}

/// Decides which reports one receiver gets.
///
/// A key names what a report is about. Equal keys may differ in further data: that of the last packet counts.
#[derive(Clone, Debug)]
pub struct LoadPacer<K> {
    told: Vec<Told<K>>,
    free_at: Instant,
}

impl<K> Default for LoadPacer<K> {
    fn default() -> LoadPacer<K> {
        LoadPacer { told: Vec::new(), free_at: Instant::ZERO }
    }
}

impl<K: Copy + PartialEq> LoadPacer<K> {
    /// Records a packet of the receiver that is forwarded by the port that `key` names.
    ///
    /// A key beyond [`LOAD_PREFIXES`] takes the place of one without packets for [`LOAD_SENDER_MEMORY`], or is ignored.
    pub fn on_packet(&mut self, now: Instant, key: K) {
        let told = Told { key, used_at: now, sequence: 0, is_full: false, last: None };
        if let Some(known) = self.told.iter_mut().find(|told| told.key == key) {
            (known.used_at, known.key) = (now, key);
        } else if self.told.len() < LOAD_PREFIXES {
            self.told.push(told);
        } else if let Some(old) = self.told.iter_mut().find(|told| !told.is_used(now)) {
            *old = told;
        }
    }

    /// Returns the keys for which the receiver gets reports.
    pub fn keys(&self, now: Instant) -> impl Iterator<Item = K> {
        self.told.iter().filter(move |told| told.is_used(now)).map(|told| told.key)
    }

    /// Returns the report to send now, with its sequence number, or `None` if none is due.
    ///
    /// `load` returns the present report of a key and its port's capacity. `link` is the rate of the slowest link to
    /// the receiver, and `wire_bytes` the length of the packet that would carry the report. Over any time, the reports
    /// take at most a thousandth of the link and one packet, and at most one packet per [`LOAD_INTERVAL`]. A report is
    /// due if it is the first, if it differs noticeably from the last one, or once a second while its port is full.
    pub fn next(
        &mut self,
        now: Instant,
        (link, wire_bytes): (Rate, u64),
        load: impl Fn(&K) -> Option<(LoadReport, Rate)>,
    ) -> Option<(K, LoadReport)> {
        let share = Rate::from_bps(link.bps() / LINK_SHARE);
        if now < self.free_at || share == Rate::ZERO {
            return None;
        }
        let due = |told: &Told<K>| load(&told.key).filter(|(report, of)| told.is_due(now, report, *of));
        let used = self.told.iter().enumerate().filter(|(_, told)| told.is_used(now));
        let due = used.filter_map(|(at, told)| Some((told.last.map(|(at, _)| at), at, due(told)?.0)));
        let (_, at, report) = due.min_by_key(|(last, at, _)| (*last, *at))?;
        let told = self.told.get_mut(at)?;
        told.sequence = told.sequence.wrapping_add(1);
        let report = LoadReport { sequence: told.sequence, ..report };
        told.is_full = judge(&report, told.is_full);
        told.last = Some((now, report));
        // The division rounds down, so one nanosecond more keeps the bound exact.
        self.free_at = now + (share.time_for(wire_bytes) + Duration::from_nanos(1)).max(LOAD_INTERVAL);
        Some((told.key, report))
    }

    /// True if a report may become due without a further packet of the receiver, at the latest in [`LOAD_INTERVAL`].
    ///
    /// That is so until the first report, for two intervals after a packet, and while the last report said that the
    /// port is full.
    pub fn is_watched(&self, now: Instant) -> bool {
        let is_recent = |told: &Told<K>| told.last.is_none() || now.since(told.used_at) <= LOAD_INTERVAL * 2;
        self.told.iter().any(|told| told.is_used(now) && (told.is_full || is_recent(told)))
    }

    /// Forgets what the receiver was told, because it has begun a new session.
    pub fn restart(&mut self) {
        self.told.iter_mut().for_each(|told| (told.last, told.is_full) = (None, false));
    }
}

impl<K> Told<K> {
    fn is_used(&self, now: Instant) -> bool {
        now.since(self.used_at) <= LOAD_SENDER_MEMORY
    }

    fn is_due(&self, now: Instant, report: &LoadReport, capacity: Rate) -> bool {
        self.last.is_none_or(|(at, told)| {
            let is_full = judge(report, self.is_full);
            is_full != self.is_full || differs(report, &told, capacity) || is_full && now.since(at) >= REFRESH
        })
    }
}

/// A received report.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    load: TransitLoad,
    is_full: bool,
}

impl Heard {
    fn is_fresh(&self, now: Instant) -> bool {
        now.since(self.at) < LOAD_LIFETIME
    }
}

/// The newest report of each peer toward each prefix.
///
/// A report counts only for the peer whose session carried it.
#[derive(Debug, Default)]
pub struct HeardLoads {
    /// The reports of each peer, at most [`LOAD_PREFIXES`].
    peers: BTreeMap<PeerId, Vec<Heard>>,
}

impl HeardLoads {
    /// Records a report of a peer.
    ///
    /// Returns false if it is older than the one that is known, or if the peer reports too many prefixes.
    pub fn insert(&mut self, now: Instant, peer: PeerId, load: TransitLoad) -> bool {
        let heard = self.peers.entry(peer).or_default();
        let prefix = (load.network, load.length);
        let known = heard.iter().position(|known| (known.load.network, known.load.length) == prefix);
        let new = |was_full| Heard { at: now, load, is_full: judge(&load.report, was_full) };
        if let Some(known) = known.and_then(|at| heard.get_mut(at)) {
            let is_fresh = known.is_fresh(now);
            let is_newer = load.report.sequence.wrapping_sub(known.load.report.sequence) as i8 > 0;
            if is_newer || !is_fresh {
                *known = new(is_fresh && known.is_full);
            }
            return is_newer || !is_fresh;
        }
        if heard.len() >= LOAD_PREFIXES {
            heard.retain(|known| known.is_fresh(now));
        }
        let has_room = heard.len() < LOAD_PREFIXES;
        if has_room {
            heard.push(new(false));
        }
        has_room
    }

    /// True if a flow of `class` toward `destination` should avoid the peer, by the peer's own newest report.
    ///
    /// `guaranteed` is the guarantee that the flow asks for, or zero. Returns false without a report, and
    /// [`LOAD_LIFETIME`] after the last one. The report of the longest prefix counts.
    pub fn is_full(
        &self,
        now: Instant,
        peer: PeerId,
        destination: IpAddr,
        (class, guaranteed): (ClassId, Rate),
    ) -> bool {
        let Some(heard) = self.peers.get(&peer) else { return false };
        let fresh = heard.iter().filter(|heard| heard.is_fresh(now) && heard.load.contains(destination));
        let Some(heard) = fresh.max_by_key(|heard| heard.load.length) else { return false };
        let report = &heard.load.report;
        if guaranteed == Rate::ZERO || class.0 >= u16::from(report.classes) {
            return heard.is_full;
        }
        report.headroom.get(usize::from(class.0)).is_some_and(|left| bps(*left) < guaranteed.bps())
    }

    /// Returns the reports that were received, with their peer, their age, and true if the port counts as full.
    ///
    /// A report that is older than [`LOAD_LIFETIME`] counts for nothing, and its port is not full.
    pub fn iter(&self, now: Instant) -> impl Iterator<Item = (PeerId, &TransitLoad, Duration, bool)> {
        let all = self.peers.iter().flat_map(|(peer, heard)| heard.iter().map(|heard| (*peer, heard)));
        all.map(move |(peer, heard)| (peer, &heard.load, now.since(heard.at), heard.is_full && heard.is_fresh(now)))
    }

    /// Forgets all reports of a peer.
    pub fn remove_peer(&mut self, peer: PeerId) {
        self.peers.remove(&peer);
    }
}
