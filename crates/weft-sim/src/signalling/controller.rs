//! What one link of a router grants: its law, what it looks at, and what it has promised.

use super::Sensor;
use super::law::{Law, LawKind};
use crate::link::Link;
use crate::{FlowNo, LinkId};
use std::collections::HashMap;
use weft_core::explicit_rate::askers::Askers;
use weft_core::explicit_rate::bookings::{Bookings, Verdict};
use weft_core::explicit_rate::pi::LinkState;
use weft_core::explicit_rate::quick_start::QuickStartLink;
use weft_core::flow::hash::SeededState;
use weft_units::{Duration, Instant, Rate, Rng};
use weft_wire::er_sig::{Direction, Message, Service, Signal};
use weft_wire::quick_start::{QuickRate, QuickStart};

/// Flows with a booking at most.
const MOST_BOOKINGS: usize = 65_536;
/// Looks that are made up for after a silence; an idle law has settled long before.
const MOST_MISSED: u32 = 1_000;

/// What a link has to give, and how.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkGrants {
    /// What it goes by.
    pub law: LawKind,
    /// What it carries.
    pub capacity: Rate,
    /// Of that so much may be guaranteed.
    pub reservable: Rate,
    /// Where flows are kept and what is drawn depends on it.
    pub seed: u64,
}

/// Bytes that came for a link, where its law goes by flows of those that ask and of others; else all are of the first.
#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    asking: u64,
    other: u64,
}

/// What a flow sends: bytes since the last look, and its rate before that. Over the same time as what all send, or the law would swing.
#[derive(Clone, Copy, Debug, Default)]
struct Sending {
    bytes: u64,
    rate: Rate,
}

/// The controller of one link.
#[derive(Debug)]
pub struct Controller {
    law: Law,
    bookings: Bookings<u32>,
    askers: Askers<u32>,
    /// What flows that ask send, where the law goes by that.
    sending: HashMap<u32, Sending, SeededState>,
    capacity: Rate,
    /// The flows' round trip without queues.
    least_round_trip: Duration,
    interval: Duration,
    next_look: Instant,
    /// Since the last look, of flows that ask and of others.
    arrived: Arrived,
    /// What came, over a round trip.
    own_bps: f64,
    /// A sensor's path has said too little to grant anything.
    is_unknown: bool,
    /// What arrives, with what new flows were granted that has not yet come, which is forgotten after two round trips.
    arriving: Rate,
    promised: Rate,
    forget_at: Instant,
    quick_start: QuickStartLink,
    /// What it carries beside guarantees, as of the last look, and bytes that came in all.
    carries: Rate,
    came_bytes: u64,
    rng: Rng,
}

impl Controller {
    /// A controller of a link whose flows' mean round trip is `round_trip`, which looks at it each `interval`.
    pub fn new(grants: LinkGrants, round_trip: Duration, interval: Duration) -> Controller {
        let LinkGrants { law, capacity, reservable, seed } = grants;
        Controller {
            law: Law::new(law, capacity),
            bookings: Bookings::new(reservable, MOST_BOOKINGS, seed),
            askers: Askers::new(MOST_BOOKINGS, seed),
            sending: HashMap::with_hasher(SeededState::new(seed)),
            capacity,
            least_round_trip: round_trip,
            interval: interval.max(Duration::from_micros(100)),
            next_look: Instant::ZERO,
            arrived: Arrived::default(),
            own_bps: 0.0,
            is_unknown: false,
            arriving: Rate::ZERO,
            promised: Rate::ZERO,
            forget_at: Instant::ZERO,
            quick_start: QuickStartLink::new(Instant::ZERO, 0),
            carries: capacity,
            came_bytes: 0,
            rng: Rng::new(seed),
        }
    }

    /// What came for the link, over a round trip.
    pub(super) fn own(&self) -> Rate {
        Rate::from_bps(self.own_bps as u64)
    }

    /// What is guaranteed in all.
    pub fn booked(&self) -> Rate {
        self.bookings.booked()
    }

    /// τ: the delay after which a grant shows.
    fn round_trip(&self) -> Duration {
        self.least_round_trip.max(self.askers.feedback_delay())
    }

    /// From one look to the next: a law of what flows send has to wait until they obey.
    fn spacing(&self) -> Duration {
        let least = if matches!(self.law, Law::Erica(_)) { self.round_trip() } else { Duration::ZERO };
        self.interval.max(least)
    }

    /// What it grants a flow that sends `current`, beside what it guarantees.
    fn available(&mut self, current: Rate) -> Rate {
        if self.is_unknown { Rate::ZERO } else { self.law.grant(current) }
    }

    /// A packet comes for the link.
    pub(super) fn count(&mut self, flow: FlowNo, bytes: u32) {
        let bytes = u64::from(bytes);
        self.came_bytes += bytes;
        if !matches!(self.law, Law::Erica(_)) {
            self.arrived.asking += bytes;
        } else if self.askers.contains(&flow.0) {
            self.arrived.asking += bytes;
            self.sending.entry(flow.0).or_default().bytes += bytes;
        } else {
            self.arrived.other += bytes;
        }
    }

    /// A structure comes for the link, which was checked; one that asks for what must be met and cannot be goes on as a refusal.
    pub(super) fn answer(&mut self, now: Instant, flow: FlowNo, signal: &mut Signal, node: u16) {
        let direction = match signal.message {
            Message::Response => Direction::Reverse,
            _ => Direction::Forward,
        };
        if signal.message == Message::Request {
            self.admit(now);
        }
        // Nobody asks for the way back here.
        let available = match signal.message {
            Message::Request | Message::Update => self.available_beside(now, flow, signal),
            _ => Rate::ZERO,
        };
        if self.bookings.on_signal(now, flow.0, signal, direction, available, node) == Verdict::Reject {
            signal.message = Message::Reject;
        }
    }

    /// A Quick-Start request comes for the link: it falls to what flows leave, and to what one more that asked would be granted.
    pub(super) fn approve(&mut self, option: &mut QuickStart) {
        let asked = option.rate.min(QuickRate::floor(self.available(Rate::ZERO)));
        let granted = self.quick_start.approve(self.carries, asked);
        option.pass(granted, 1, self.rng.next_u64() as u32);
    }

    /// A flow begins.
    fn admit(&mut self, now: Instant) {
        if let Law::Pi(law) = &mut self.law {
            if now >= self.forget_at {
                self.promised = Rate::ZERO;
            }
            let arriving = self.arriving.bps().saturating_add(self.promised.bps());
            let granted = law.on_new_flow(Rate::from_bps(arriving));
            self.promised = Rate::from_bps(self.promised.bps().saturating_add(granted.bps()));
            self.forget_at = now + self.least_round_trip * 2;
        }
    }

    /// What is available to a flow beside what it will be guaranteed, which the law does not know of yet.
    fn available_beside(&mut self, now: Instant, flow: FlowNo, signal: &Signal) -> Rate {
        let has = self.bookings.of(&flow.0);
        let is_reserved = matches!(signal.service, Service::Guaranteed | Service::Variable);
        let asked = signal.forward.guaranteed;
        let will_have =
            if is_reserved { self.bookings.would_guarantee(&flow.0, signal.preemption, asked) } else { Rate::ZERO };
        self.askers.ask(now, flow.0, 0);
        let current = self.sending.get(&flow.0).map_or(Rate::ZERO, |sending| less(sending.rate, has));
        less(self.available(current), less(will_have, has))
    }

    /// Looks at the link `at`, if it is time to.
    pub(super) fn look(&mut self, now: Instant, links: &mut [Link], at: LinkId, sensor: Option<&Sensor>) {
        if now < self.next_look {
            return;
        }
        let spacing = self.spacing();
        let missed = (now - self.next_look).as_nanos() / spacing.as_nanos();
        let missed = u32::try_from(missed).unwrap_or(u32::MAX - 1);
        let since = spacing * (missed + 1);
        let capacity = match sensor {
            None => carried(&mut links[at.index()], now, since).unwrap_or(self.capacity),
            Some(sensor) => {
                self.is_unknown = sensor.available().is_none();
                sensor.available().unwrap_or(self.capacity)
            }
        };
        let (_, here_bytes) = links[at.index()].backlog(now);
        let queued_bytes = here_bytes + sensor.map_or(0, Sensor::queued_bytes);
        let Arrived { asking, other } = std::mem::take(&mut self.arrived);
        let capacity = less(capacity, self.booked());
        self.carries = capacity;
        self.quick_start.look(now, self.came_bytes);
        let capacity = less(capacity, Rate::from_bytes_over(other, since));
        let gain = (since.as_secs_f64() / self.least_round_trip.as_secs_f64()).min(1.0);
        self.own_bps += (Rate::from_bytes_over(asking + other, since).bps() as f64 - self.own_bps) * gain;
        self.update(now, capacity, asking, queued_bytes, missed);
        self.bookings.expire(now);
        self.askers.expire(now);
        self.sending.retain(|flow, _| self.askers.contains(flow));
        for Sending { bytes, rate } in self.sending.values_mut() {
            *rate = Rate::from_bytes_over(std::mem::take(bytes), since);
        }
        self.next_look += since;
    }

    /// The law learns what the link was like since the last look, before which so many were missed.
    fn update(&mut self, now: Instant, capacity: Rate, arrived_bytes: u64, queued_bytes: u64, missed: u32) {
        let (booked, round_trip, spacing) = (self.booked(), self.round_trip(), self.spacing());
        // What came since the last look came at its end, as far as anybody knows.
        for left in (0..=missed.min(MOST_MISSED)).rev() {
            let (arrived, queued_bytes) = if left == 0 { (arrived_bytes, queued_bytes) } else { (0, 0) };
            self.arriving = less(Rate::from_bytes_over(arrived, spacing), booked);
            let state = LinkState { capacity, arriving: self.arriving, queued_bytes, round_trip };
            let before_now = u64::try_from((spacing * left).as_nanos()).unwrap_or(u64::MAX);
            let at = Instant::from_nanos(now.as_nanos().saturating_sub(before_now));
            self.law.update(at, &state, self.askers.count());
        }
    }
}

/// What a link can have carried for so long, or since the beginning, as a rate; none at the beginning.
fn carried(link: &mut Link, now: Instant, since: Duration) -> Option<Rate> {
    let before = now.as_nanos().saturating_sub(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let from = Instant::from_nanos(before);
    (now > from).then(|| Rate::from_bytes_over(link.capacity_bytes(from, now), now - from))
}

fn less(rate: Rate, taken: Rate) -> Rate {
    Rate::from_bps(rate.bps().saturating_sub(taken.bps()))
}
