//! Reports of each port's load, inside the node and to its neighbours.
//!
//! [`LoadMeter`] makes a [`LoadReport`] of a port every 20 ms. [`LoadPacer`] decides which reports are sent to a
//! neighbour: those that changed enough, and never more than a thousandth of the link's rate. [`HeardLoads`] stores the
//! reports of neighbours. An ingress edge chooses routes by these reports.

use alloc::collections::BTreeMap;
use weft_units::{Duration, Instant, PeerId, Rate};
use weft_wire::WireError;
use weft_wire::er_sig::Rate16;

/// Time between two measurements inside the node.
///
/// Tuned: a fifth of the delay that speech bears, and 17 packets at 10 Mbit/s.
pub const LOAD_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of classes for which a report states the rate that could still be granted (headroom).
pub const LOAD_CLASSES: usize = 8;
/// Length of the longest report in bytes.
pub const LOAD_REPORT_MAX: usize = HEADER + 2 * LOAD_CLASSES;

/// Bytes of a report before the headrooms.
const HEADER: usize = 11;
/// Version of the format, in the upper four bits of the first byte.
const VERSION: u8 = 1;
/// Largest number of flows that a report can state. Derived: the field has 24 bits.
const FLOWS_MAX: u32 = (1 << 24) - 1;
/// Unit of the queue delay in a report.
const DELAY_UNIT: Duration = Duration::from_micros(10);
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
/// A report is sent again after this time even without a change, because the last one may be lost.
const REFRESH: Duration = Duration::from_secs(1);
/// Number of intervals between two reports after which a received report expires.
///
/// Derived: at 20 % loss, three reports in a row are lost in 1 of 125 cases.
const LIFETIME: u32 = 4;

/// Load of a port. Rates count IP bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadReport {
    /// Number that rises with each report of the port, modulo 256.
    pub sequence: u8,
    /// Number of the port within its node.
    pub port: u16,
    /// Moving average of the rate at which the port sends.
    pub rate: Rate16,
    /// Number of flows with packets in the last interval, up to 2^24 − 1.
    pub flows: u32,
    /// Delay in the port's queue, up to 655 ms.
    pub queue_delay: Duration,
    /// Number of classes that the report has a headroom for, up to [`LOAD_CLASSES`].
    pub classes: u8,
    /// Rate that each class could still be granted. Entries beyond the classes are zero.
    pub headroom: [Rate16; LOAD_CLASSES],
}

impl LoadReport {
    /// Writes the report to the front of `out` and returns its length.
    ///
    /// The delay is rounded up to 10 us. A value beyond the range of its field becomes the largest value of the field.
    ///
    /// # Errors
    /// [`WireError::NoRoom`] if `out` is shorter than the report.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let classes = usize::from(self.classes).min(LOAD_CLASSES);
        let length = HEADER + 2 * classes;
        let (header, headrooms) =
            out.get_mut(..length).and_then(|out| out.split_first_chunk_mut::<HEADER>()).ok_or(WireError::NoRoom)?;
        let [port, rate] = [self.port, self.rate.0].map(u16::to_be_bytes);
        let flows = self.flows.min(FLOWS_MAX).to_be_bytes();
        let delay = self.queue_delay.as_nanos().div_ceil(DELAY_UNIT.as_nanos()).min(u16::MAX.into()) as u16;
        let delay = delay.to_be_bytes();
        *header = [
            VERSION << 4 | classes as u8,
            self.sequence,
            port[0],
            port[1],
            rate[0],
            rate[1],
            flows[1],
            flows[2],
            flows[3],
            delay[0],
            delay[1],
        ];
        for (field, headroom) in headrooms.chunks_exact_mut(2).zip(self.headroom) {
            field.copy_from_slice(&headroom.0.to_be_bytes());
        }
        Ok(length)
    }

    /// Reads a report that fills `bytes`.
    ///
    /// # Errors
    /// Fails if the bytes end early, bytes follow the last field, the version is unknown, there are more than eight
    /// classes, or a rate is "unlimited".
    pub fn parse(bytes: &[u8]) -> Result<LoadReport, WireError> {
        let (header, headrooms) = bytes.split_first_chunk::<HEADER>().ok_or(WireError::Truncated)?;
        let [kind, sequence, p0, p1, r0, r1, f0, f1, f2, d0, d1] = *header;
        if kind >> 4 != VERSION {
            return Err(WireError::Version);
        }
        let classes = kind & 0xf;
        if usize::from(classes) > LOAD_CLASSES {
            return Err(WireError::Malformed);
        }
        match headrooms.len().cmp(&(2 * usize::from(classes))) {
            core::cmp::Ordering::Less => return Err(WireError::Truncated),
            core::cmp::Ordering::Greater => return Err(WireError::TooLong),
            core::cmp::Ordering::Equal => {}
        }
        let mut headroom = [Rate16::ZERO; LOAD_CLASSES];
        for (rate, field) in headroom.iter_mut().zip(headrooms.as_chunks::<2>().0) {
            *rate = finite(*field)?;
        }
        Ok(LoadReport {
            sequence,
            port: u16::from_be_bytes([p0, p1]),
            rate: finite([r0, r1])?,
            flows: u32::from_be_bytes([0, f0, f1, f2]),
            queue_delay: DELAY_UNIT * u32::from(u16::from_be_bytes([d0, d1])),
            classes,
            headroom,
        })
    }

    /// True if this report differs enough from `told` to be sent to a neighbour.
    ///
    /// `told` is the last report of the port that the neighbour got. `capacity` is the port's capacity.
    pub fn differs(&self, told: &LoadReport, capacity: Rate) -> bool {
        let step = capacity.bps() / RATE_CHANGE;
        let moved = |a: Rate16, b: Rate16| bps(a).abs_diff(bps(b)) > step;
        let delay = self.queue_delay.abs_diff(told.queue_delay);
        self.classes != told.classes
            || moved(self.rate, told.rate)
            || self.headroom.iter().zip(told.headroom).any(|(a, b)| moved(*a, b))
            || delay > DELAY_CHANGE && delay > told.queue_delay / 4
            || self.flows.abs_diff(told.flows) > told.flows / 4 + 8
    }
}

fn finite(field: [u8; 2]) -> Result<Rate16, WireError> {
    match Rate16(u16::from_be_bytes(field)) {
        Rate16::UNLIMITED => Err(WireError::Malformed),
        rate => Ok(rate),
    }
}

fn bps(rate: Rate16) -> u64 {
    rate.rate().map_or(u64::MAX, Rate::bps)
}

/// A port's counters and queues at one moment.
#[derive(Clone, Copy, Debug)]
pub struct PortReading<'a> {
    /// IP bytes that the port has sent since its start.
    pub sent_bytes: u64,
    /// Number of flows with packets in the last interval.
    pub flows: u32,
    /// Delay in the port's queue.
    pub queue_delay: Duration,
    /// Rate that each class could still be granted. Classes beyond the eighth are left out.
    pub headroom: &'a [Rate],
}

/// Measures the load of one port.
#[derive(Clone, Copy, Debug)]
pub struct LoadMeter {
    port: u16,
    measured_at: Option<Instant>,
    sent_bytes: u64,
    rate: Rate,
}

impl LoadMeter {
    /// Returns the meter of a port.
    pub fn new(port: u16) -> LoadMeter {
        LoadMeter { port, measured_at: None, sent_bytes: 0, rate: Rate::ZERO }
    }

    /// Returns the time of the next measurement; `None` before the first.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.measured_at.map(|at| at + LOAD_INTERVAL)
    }

    /// Measures the load and returns a report, if at least [`LOAD_INTERVAL`] has passed since the last measurement.
    ///
    /// The first call only stores the counters.
    pub fn sample(&mut self, now: Instant, reading: &PortReading<'_>) -> Option<LoadReport> {
        let Some(before) = self.measured_at else {
            (self.measured_at, self.sent_bytes) = (Some(now), reading.sent_bytes);
            return None;
        };
        let time = now.since(before);
        if time < LOAD_INTERVAL {
            return None;
        }
        let rate = Rate::from_bytes_over(reading.sent_bytes.saturating_sub(self.sent_bytes), time);
        (self.measured_at, self.sent_bytes) = (Some(now), reading.sent_bytes);
        self.rate = Rate::from_bps((self.rate.bps() * (RATE_GAIN - 1) + rate.bps()) / RATE_GAIN);
        let mut headroom = [Rate16::ZERO; LOAD_CLASSES];
        for (field, rate) in headroom.iter_mut().zip(reading.headroom) {
            *field = Rate16::floor(*rate);
        }
        Some(LoadReport {
            sequence: 0,
            port: self.port,
            rate: Rate16::floor(self.rate),
            flows: reading.flows.min(FLOWS_MAX),
            queue_delay: reading.queue_delay,
            classes: reading.headroom.len().min(LOAD_CLASSES) as u8,
            headroom,
        })
    }
}

/// Decides which reports of a port are sent over one link.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadPacer {
    told: Option<(Instant, LoadReport)>,
    free_at: Instant,
    sequence: u8,
}

impl LoadPacer {
    /// Returns the report to send now, with its sequence number, or `None` if none is due.
    ///
    /// `capacity` is that of the port, `link` the rate of the link to the neighbour. `wire_bytes` is the length of the
    /// packet that would carry the report. Over any time, the reports take at most a thousandth of the link and one
    /// packet.
    pub fn offer(
        &mut self,
        now: Instant,
        report: &LoadReport,
        capacity: Rate,
        link: Rate,
        wire_bytes: u64,
    ) -> Option<LoadReport> {
        let share = Rate::from_bps(link.bps() / LINK_SHARE);
        if now < self.free_at || share == Rate::ZERO {
            return None;
        }
        let is_due = self.told.is_none_or(|(at, told)| now.since(at) >= REFRESH || report.differs(&told, capacity));
        if !is_due {
            return None;
        }
        self.sequence = self.sequence.wrapping_add(1);
        // The division rounds down, so one nanosecond more keeps the bound exact.
        self.free_at = now + share.time_for(wire_bytes) + Duration::from_nanos(1);
        let report = LoadReport { sequence: self.sequence, ..*report };
        self.told = Some((now, report));
        Some(report)
    }
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    /// Time between the last two reports, or [`REFRESH`] if that is longer.
    interval: Duration,
    report: LoadReport,
}

/// The newest report of each port of each neighbour.
#[derive(Debug)]
pub struct HeardLoads {
    ports: BTreeMap<(PeerId, u16), Heard>,
    most: usize,
}

impl HeardLoads {
    /// Returns an empty set for at most `most` ports.
    pub fn new(most: usize) -> HeardLoads {
        HeardLoads { ports: BTreeMap::new(), most }
    }

    /// Records a report of a neighbour. Returns false if it is older than the one that is known, or the set is full.
    pub fn insert(&mut self, now: Instant, peer: PeerId, report: LoadReport) -> bool {
        let key = (peer, report.port);
        let known = self.ports.get(&key).filter(|heard| heard.is_fresh(now));
        if known.is_some_and(|heard| report.sequence.wrapping_sub(heard.report.sequence) as i8 <= 0) {
            return false;
        }
        let interval = known.map_or(REFRESH, |heard| now.since(heard.at).max(REFRESH));
        if self.ports.len() >= self.most && !self.ports.contains_key(&key) {
            self.ports.retain(|_, heard| heard.is_fresh(now));
            if self.ports.len() >= self.most {
                return false;
            }
        }
        self.ports.insert(key, Heard { at: now, interval, report });
        true
    }

    /// Returns the newest report of a neighbour's port, unless it is too old.
    pub fn get(&self, now: Instant, peer: PeerId, port: u16) -> Option<&LoadReport> {
        self.ports.get(&(peer, port)).filter(|heard| heard.is_fresh(now)).map(|heard| &heard.report)
    }

    /// Forgets all reports of a neighbour.
    pub fn remove_peer(&mut self, peer: PeerId) {
        self.ports.retain(|(other, _), _| *other != peer);
    }
}

impl Heard {
    fn is_fresh(&self, now: Instant) -> bool {
        now.since(self.at) <= self.interval * LIFETIME
    }
}
