//! What one link of a router grants: its law, what it looks at, and what it has promised.

use crate::link::Link;
use crate::{FlowNo, LinkId};
use std::collections::BTreeMap;
use weft_core::explicit_rate::bookings::{Bookings, Verdict};
use weft_core::explicit_rate::erica::{Erica, EricaConfig};
use weft_core::explicit_rate::pi::{LinkState, PiConfig, PiRate};
use weft_units::{Duration, Instant, Rate};
use weft_wire::er_sig::{Direction, Message, Signal};

/// Flows with a booking at most.
const MOST_BOOKINGS: usize = 65_536;
/// Looks that are made up for after a silence; an idle law has settled long before.
const MOST_MISSED: u32 = 1_000;
/// How fast what a sensor says is followed.
const SENSOR_TIME: Duration = Duration::from_secs(1);

/// What a link goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LawKind {
    /// Each flow may have all that is not guaranteed: exact where one flow passes.
    Capacity,
    /// One rate for all flows, by a PI controller of the queue.
    Pi,
    /// A rate for each flow by what it uses: ERICA+.
    Erica,
}

#[derive(Clone, Debug)]
enum Law {
    Capacity(Rate),
    Pi(PiRate),
    Erica { law: Erica, flows: BTreeMap<FlowNo, FlowUse> },
}

/// What a flow sent in the interval that runs, and in the one before.
#[derive(Clone, Copy, Debug, Default)]
struct FlowUse {
    bytes: u64,
    rate: Rate,
}

/// What is known of a legacy path that an overlay's link goes over, from a sensor without error: what the narrowest link left idle.
#[derive(Clone, Copy, Debug)]
struct Sensor {
    legacy: LinkId,
    sent_bytes: u64,
    idle_bps: Option<f64>,
}

/// The controller of one link.
#[derive(Debug)]
pub struct Controller {
    law: Law,
    bookings: Bookings<u32>,
    round_trip: Duration,
    interval: Duration,
    next_look: Instant,
    arrived_bytes: u64,
    /// Packets in the queue as it was looked at last.
    sensor: Option<Sensor>,
    looks: u64,
}

impl Controller {
    /// A controller of a link of `capacity` whose flows' mean round trip is `round_trip`, which looks at it each `interval`; `reservable`
    /// of it may be guaranteed.
    pub fn new(
        kind: LawKind,
        capacity: Rate,
        round_trip: Duration,
        interval: Duration,
        reservable: Rate,
        seed: u64,
    ) -> Controller {
        let config = PiConfig::default();
        let law = match kind {
            LawKind::Capacity => Law::Capacity(capacity),
            LawKind::Pi => Law::Pi(PiRate::new(config, capacity.scaled(config.utilization), Instant::ZERO)),
            LawKind::Erica => Law::Erica { law: Erica::new(EricaConfig::default()), flows: BTreeMap::new() },
        };
        Controller {
            law,
            bookings: Bookings::new(reservable, MOST_BOOKINGS, seed),
            round_trip,
            interval: interval.max(Duration::from_micros(100)),
            next_look: Instant::ZERO,
            arrived_bytes: 0,
            sensor: None,
            looks: 0,
        }
    }

    /// The link is an overlay's, and this legacy link the narrowest below it: C is what that leaves idle, and what arrives here.
    #[must_use]
    pub fn over(mut self, legacy: LinkId) -> Controller {
        self.sensor = Some(Sensor { legacy, sent_bytes: 0, idle_bps: None });
        self
    }

    /// What is guaranteed in all.
    pub fn booked(&self) -> Rate {
        self.bookings.booked()
    }

    /// How often it has looked at the link: what it grants is the same until it does again.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// What it grants a flow beside what it guarantees.
    pub(super) fn available(&mut self, flow: FlowNo) -> Rate {
        match &mut self.law {
            Law::Capacity(rate) => *rate,
            Law::Pi(law) => law.rate(),
            Law::Erica { law, flows } => law.grant(flows.get(&flow).map_or(Rate::ZERO, |used| used.rate)),
        }
    }

    /// A packet comes for the link.
    pub(super) fn count(&mut self, flow: FlowNo, bytes: u32) {
        self.arrived_bytes += u64::from(bytes);
        if let Law::Erica { flows, .. } = &mut self.law {
            flows.entry(flow).or_default().bytes += u64::from(bytes);
        }
    }

    /// A structure comes for the link; false: what it asks for must be met and cannot be.
    pub(super) fn answer(&mut self, now: Instant, flow: FlowNo, signal: &mut Signal, available: Rate, node: u16) -> bool {
        let direction = match signal.message {
            Message::Response => Direction::Reverse,
            _ => Direction::Forward,
        };
        self.bookings.on_signal(now, flow.0, signal, direction, available, node) == Verdict::Forward
    }

    /// Looks at the link `at`, as often as it is time to.
    pub(super) fn look(&mut self, now: Instant, links: &mut [Link], at: LinkId) {
        if now < self.next_look {
            return;
        }
        let missed = (now - self.next_look).as_nanos() / self.interval.as_nanos();
        let intervals = u32::try_from(missed).unwrap_or(MOST_MISSED).min(MOST_MISSED) + 1;
        let since = self.interval * intervals;
        let capacity = self.capacity(now, links, at, since);
        let link = &mut links[at.index()];
        let (_, queued_bytes) = link.backlog(now);
        let booked = self.booked();
        let arrived = std::mem::take(&mut self.arrived_bytes);
        // What came since the last look came at its end, as far as anybody knows.
        for left in (0..intervals).rev() {
            let bytes = if left == 0 { arrived } else { 0 };
            let arriving = less(Rate::from_bytes_over(bytes, self.interval), booked);
            let state = LinkState {
                capacity: less(capacity, booked),
                arriving,
                queued_bytes: if left == 0 { queued_bytes } else { 0 },
                round_trip: self.round_trip,
            };
            let at = now.as_nanos().saturating_sub((self.interval * left).as_nanos() as u64);
            self.update(Instant::from_nanos(at), &state, left == 0);
        }
        self.bookings.expire(now);
        self.next_look += since;
        self.looks += 1;
    }

    fn update(&mut self, at: Instant, state: &LinkState, is_last: bool) {
        match &mut self.law {
            Law::Capacity(rate) => *rate = state.capacity,
            Law::Pi(law) => {
                law.update(at, state);
            }
            Law::Erica { law, flows } => {
                if is_last {
                    flows.retain(|_, used| used.bytes > 0 || used.rate > Rate::ZERO);
                    for used in flows.values_mut() {
                        used.rate = Rate::from_bytes_over(std::mem::take(&mut used.bytes), self.interval);
                    }
                }
                let active = flows.values().filter(|used| used.rate > Rate::ZERO).count();
                law.on_interval(state, active as u32);
            }
        }
    }

    /// C, or of an overlay's link A + y.
    fn capacity(&mut self, now: Instant, links: &mut [Link], at: LinkId, since: Duration) -> Rate {
        let carried = |link: &Link| {
            let from = Instant::from_nanos(now.as_nanos().saturating_sub(since.as_nanos() as u64));
            Rate::from_bytes_over(link.capacity_bytes(from, now), since)
        };
        let Some(sensor) = &mut self.sensor else { return carried(&links[at.index()]) };
        let legacy = &mut links[sensor.legacy.index()];
        let whole = carried(legacy).bps() as f64;
        let sent = legacy.stats(now).sent_bytes;
        // Statistics that began anew count from zero.
        let fresh = sent.checked_sub(sensor.sent_bytes).unwrap_or(sent);
        sensor.sent_bytes = sent;
        let idle = (whole - Rate::from_bytes_over(fresh, since).bps() as f64).max(0.0);
        let own = Rate::from_bytes_over(self.arrived_bytes, since).bps() as f64;
        let seen = idle + own;
        let gain = (since.as_secs_f64() / SENSOR_TIME.as_secs_f64()).min(1.0);
        let smooth = sensor.idle_bps.map_or(seen, |before| before + gain * (seen - before));
        sensor.idle_bps = Some(smooth);
        Rate::from_bps(smooth as u64)
    }
}

fn less(rate: Rate, taken: Rate) -> Rate {
    Rate::from_bps(rate.bps().saturating_sub(taken.bps()))
}
