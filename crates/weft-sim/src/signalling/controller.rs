//! What one link of a router grants: its law, what it looks at, and what it has promised.

use super::Sensor;
use crate::link::Link;
use crate::{FlowNo, LinkId};
use weft_core::explicit_rate::bookings::{Bookings, Verdict};
use weft_core::explicit_rate::pi::{LinkState, PiConfig, PiRate};
use weft_units::{Duration, Instant, Rate};
use weft_wire::er_sig::{Direction, Message, Service, Signal};

/// Flows with a booking at most.
const MOST_BOOKINGS: usize = 65_536;
/// Looks that are made up for after a silence; an idle law has settled long before.
const MOST_MISSED: u32 = 1_000;

/// What a link goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LawKind {
    /// Each flow may have all that is not guaranteed: exact where one flow passes.
    Capacity,
    /// One rate for all flows, by a PI controller of the queue.
    Pi,
}

#[derive(Clone, Debug)]
enum Law {
    Capacity(Rate),
    Pi(PiRate),
}

/// What a link has to give, and how.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkGrants {
    /// What it goes by.
    pub law: LawKind,
    /// What it carries.
    pub capacity: Rate,
    /// Of that so much may be guaranteed.
    pub reservable: Rate,
    /// Where flows are kept depends on it.
    pub seed: u64,
}

/// The controller of one link.
#[derive(Debug)]
pub struct Controller {
    law: Law,
    bookings: Bookings<u32>,
    capacity: Rate,
    round_trip: Duration,
    interval: Duration,
    next_look: Instant,
    arrived_bytes: u64,
    /// What came, over a round trip.
    own_bps: f64,
    /// A sensor's path has said too little to grant anything.
    is_unknown: bool,
    /// What arrives, with what new flows were granted that has not yet come, which is forgotten after two round trips.
    arriving: Rate,
    promised: Rate,
    forget_at: Instant,
}

impl Controller {
    /// A controller of a link whose flows' mean round trip is `round_trip`, which looks at it each `interval`.
    pub fn new(grants: LinkGrants, round_trip: Duration, interval: Duration) -> Controller {
        let LinkGrants { law, capacity, reservable, seed } = grants;
        let config = PiConfig::default();
        let law = match law {
            LawKind::Capacity => Law::Capacity(capacity),
            LawKind::Pi => Law::Pi(PiRate::new(config, capacity.scaled(config.utilization), Instant::ZERO)),
        };
        Controller {
            law,
            bookings: Bookings::new(reservable, MOST_BOOKINGS, seed),
            capacity,
            round_trip,
            interval: interval.max(Duration::from_micros(100)),
            next_look: Instant::ZERO,
            arrived_bytes: 0,
            own_bps: 0.0,
            is_unknown: false,
            arriving: Rate::ZERO,
            promised: Rate::ZERO,
            forget_at: Instant::ZERO,
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

    /// What it grants a flow beside what it guarantees.
    fn available(&self) -> Rate {
        if self.is_unknown {
            return Rate::ZERO;
        }
        match &self.law {
            Law::Capacity(rate) => *rate,
            Law::Pi(law) => law.rate(),
        }
    }

    /// A packet comes for the link.
    pub(super) fn count(&mut self, bytes: u32) {
        self.arrived_bytes += u64::from(bytes);
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
        let available = self.available_beside(flow, signal, direction);
        if self.bookings.on_signal(now, flow.0, signal, direction, available, node) == Verdict::Reject {
            signal.message = Message::Reject;
        }
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
            self.forget_at = now + self.round_trip * 2;
        }
    }

    /// What is available to a flow beside what it will be guaranteed, which the law does not know of yet.
    fn available_beside(&self, flow: FlowNo, signal: &Signal, direction: Direction) -> Rate {
        let asked = match direction {
            Direction::Forward => signal.forward.guaranteed,
            Direction::Reverse => signal.reverse.guaranteed,
        };
        let is_reserved = matches!(signal.service, Service::Guaranteed | Service::Variable);
        let will_be =
            if is_reserved { self.bookings.would_guarantee(&flow.0, signal.preemption, asked) } else { Rate::ZERO };
        let more = less(will_be, self.bookings.of(&flow.0));
        less(self.available(), more)
    }

    /// Looks at the link `at`, if it is time to.
    pub(super) fn look(&mut self, now: Instant, links: &mut [Link], at: LinkId, sensor: Option<&Sensor>) {
        if now < self.next_look {
            return;
        }
        let missed = (now - self.next_look).as_nanos() / self.interval.as_nanos();
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        let since = self.interval * (missed + 1);
        let capacity = match sensor {
            None => carried(&mut links[at.index()], now, since).unwrap_or(self.capacity),
            Some(sensor) => {
                self.is_unknown = sensor.available().is_none();
                sensor.available().unwrap_or(self.capacity)
            }
        };
        let (_, here_bytes) = links[at.index()].backlog(now);
        let queued_bytes = here_bytes + sensor.map_or(0, Sensor::queued_bytes);
        let booked = self.booked();
        let arrived = std::mem::take(&mut self.arrived_bytes);
        let gain = (since.as_secs_f64() / self.round_trip.as_secs_f64()).min(1.0);
        self.own_bps += (Rate::from_bytes_over(arrived, since).bps() as f64 - self.own_bps) * gain;
        let intervals = missed.min(MOST_MISSED) + 1;
        // What came since the last look came at its end, as far as anybody knows.
        for left in (0..intervals).rev() {
            let (arrived, queued_bytes) = if left == 0 { (arrived, queued_bytes) } else { (0, 0) };
            let arriving = less(Rate::from_bytes_over(arrived, self.interval), booked);
            self.arriving = arriving;
            let state =
                LinkState { capacity: less(capacity, booked), arriving, queued_bytes, round_trip: self.round_trip };
            let before_now = u64::try_from((self.interval * left).as_nanos()).unwrap_or(u64::MAX);
            self.update(Instant::from_nanos(now.as_nanos().saturating_sub(before_now)), &state);
        }
        self.bookings.expire(now);
        self.next_look += since;
    }

    fn update(&mut self, at: Instant, state: &LinkState) {
        match &mut self.law {
            Law::Capacity(rate) => *rate = state.capacity,
            Law::Pi(law) => {
                law.update(at, state);
            }
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
