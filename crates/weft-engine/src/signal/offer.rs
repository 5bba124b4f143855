//! What a peer's bundle of paths grants to flows toward it.

use super::config::{RateController, SignalConfig};
use weft_core::explicit_rate::askers::{Askers, FORGOTTEN_AFTER};
use weft_core::explicit_rate::bookings::{Bookings, Verdict};
use weft_core::explicit_rate::erica::{Erica, EricaConfig};
use weft_core::explicit_rate::pi::{LinkState, PiConfig, PiRate};
use weft_core::explicit_rate::quick_start::QuickStartLink;
use weft_units::{Duration, Instant, Rate};
use weft_wire::er_sig::{Direction, Message, Rate16, Rates, Service, Signal};
use weft_wire::ip::FlowKey;
use weft_wire::quick_start::QuickRate;

/// η: the part of the capacity aimed at.
const UTILIZATION: f64 = 0.95;
/// Flows with a booking at most.
const MAX_BOOKINGS: usize = 4_096;
/// How slowly more capacity is believed, in round trips; less is at once.
const BELIEVED_AFTER: u32 = 4;
/// Looks are so far apart: a quarter of the round trip, within these.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// A bundle as it is now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bundle {
    /// What its usable paths have been seen to carry of inner packets,
    pub(crate) carried: Rate,
    /// and what may be offered to them to see whether they carry more.
    pub(crate) offered: Rate,
    /// Bytes sent in all,
    pub(crate) sent_bytes: u64,
    /// and those that wait.
    pub(crate) queued_bytes: u64,
    /// The mean round trip of its paths.
    pub(crate) round_trip: Duration,
    /// Flows that share it, where the queue keeps them apart; zero: it does not.
    pub(crate) flows: u32,
}

#[derive(Debug)]
enum Controller {
    Pi(PiRate),
    Erica(Erica),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Offer {
    kind: RateController,
    reservable: f64,
    controller: Controller,
    bookings: Bookings<FlowKey>,
    quick_start: QuickStartLink,
    carried: Rate,
    /// What is granted from: what is offered, believed slowly.
    capacity: Rate,
    round_trip: Duration,
    /// What a queue that keeps flows apart gives each of them whatever the others do, so that nobody is granted less.
    least: Rate,
    looked_at: Instant,
    next_look: Instant,
    asked_at: Instant,
    /// Bytes that had come for it by the last look, but for those the queue dropped.
    arrived_bytes: u64,
    askers: Askers<FlowKey>,
}

impl Offer {
    pub(crate) fn new(now: Instant, config: &SignalConfig, bundle: &Bundle, seed: u64) -> Offer {
        Offer {
            kind: config.controller,
            reservable: config.reservable.clamp(0.0, 1.0),
            controller: controller(config.controller, now, bundle.offered),
            bookings: Bookings::new(bundle.carried.scaled(config.reservable), MAX_BOOKINGS, seed),
            quick_start: QuickStartLink::new(now, bundle.sent_bytes),
            carried: bundle.carried,
            capacity: bundle.offered,
            round_trip: bundle.round_trip,
            least: Rate::ZERO,
            looked_at: now,
            next_look: now,
            asked_at: now,
            arrived_bytes: bundle.sent_bytes + bundle.queued_bytes,
            askers: Askers::new(MAX_BOOKINGS, seed),
        }
    }

    /// Whether it is time for [`Offer::look`].
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next_look
    }

    /// When that is.
    pub(crate) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Takes a look at the bundle.
    pub(crate) fn look(&mut self, now: Instant, bundle: &Bundle) {
        self.quick_start.look(now, bundle.sent_bytes);
        self.round_trip = bundle.round_trip;
        self.carried = bundle.carried;
        self.bookings.set_reservable(self.carried.scaled(self.reservable));
        self.believe(now, bundle.offered);
        self.least = self.least(bundle);
        let elapsed = now - self.looked_at;
        let arrived_bytes = bundle.sent_bytes + bundle.queued_bytes;
        let arriving = Rate::from_bytes_over(arrived_bytes.saturating_sub(self.arrived_bytes), elapsed.max(LOOK_MIN));
        (self.arrived_bytes, self.looked_at) = (arrived_bytes, now);
        let round_trip = bundle.round_trip.max(self.askers.feedback_delay());
        let spacing = if self.kind == RateController::Pi { round_trip / 4 } else { round_trip };
        self.next_look = now + spacing.clamp(LOOK_MIN, LOOK_MAX);
        let queued_bytes = bundle.queued_bytes;
        self.askers.expire(now);
        let link = LinkState { capacity: self.capacity, arriving, queued_bytes, round_trip };
        match &mut self.controller {
            Controller::Pi(law) => _ = law.update(now, &link),
            Controller::Erica(law) => {
                let link = LinkState { capacity: link.capacity.scaled(UTILIZATION), ..link };
                law.on_interval(&link, self.askers.count());
            }
        }
    }

    /// Forgets bookings that have expired.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.bookings.expire(now);
    }

    /// A signal passes toward the peer in its flow's `direction`, of which `sent_bytes` came in all.
    pub(crate) fn on_signal(
        &mut self,
        now: Instant,
        flow: FlowKey,
        signal: &mut Signal,
        direction: Direction,
        sent_bytes: u64,
        node: u16,
    ) -> Verdict {
        let asks = matches!(
            (signal.message, direction),
            (Message::Request | Message::Update, Direction::Forward) | (Message::Response, Direction::Reverse)
        );
        if !asks {
            return self.bookings.on_signal(now, flow, signal, direction, Rate::ZERO, node);
        }
        if now - self.asked_at > FORGOTTEN_AFTER {
            // What the controller came to is of others.
            self.controller = controller(self.kind, now, self.capacity);
        }
        self.asked_at = now;
        let current = self.askers.ask(now, flow, sent_bytes);
        let others = self.bookings.booked().bps().saturating_sub(self.bookings.of(&flow).bps());
        let free = Rate::from_bps(self.capacity.bps().saturating_sub(others));
        let guaranteed = self.would_guarantee(&flow, signal, direction, free);
        let left = Rate::from_bps(free.bps().saturating_sub(guaranteed.bps()));
        let share = match &mut self.controller {
            Controller::Pi(law) => law.rate(),
            Controller::Erica(law) => law.grant(current),
        };
        self.bookings.on_signal(now, flow, signal, direction, share.max(self.least).min(left), node)
    }

    /// What of `free` is guaranteed to a flow that asks, or its ceiling: that is not reserved, but above what there is it would be none.
    fn would_guarantee(&self, flow: &FlowKey, signal: &mut Signal, direction: Direction, free: Rate) -> Rate {
        let rates = match direction {
            Direction::Forward => &mut signal.forward,
            Direction::Reverse => &mut signal.reverse,
        };
        if matches!(signal.service, Service::Guaranteed | Service::Variable) {
            return self.bookings.would_guarantee(flow, signal.preemption, rates.guaranteed);
        }
        let ceiling = rates.guaranteed.min(Rate16::floor(free));
        signal.is_lowered |= ceiling != rates.guaranteed;
        rates.guaranteed = ceiling;
        ceiling.rate().unwrap_or_default()
    }

    /// What a Quick-Start request is granted.
    pub(crate) fn approve(&mut self, asked: QuickRate) -> QuickRate {
        let free = self.carried.bps().saturating_sub(self.bookings.booked().bps());
        self.quick_start.approve(Rate::from_bps(free), asked)
    }

    /// The most that rates toward the peer may come to.
    pub(crate) fn most(&self) -> Rates {
        let capacity = Rate16::floor(self.capacity);
        Rates { available: capacity, guaranteed: capacity }
    }

    /// The mean round trip of the peer's paths, as of the last look.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// What is guaranteed in all.
    pub(crate) fn booked(&self) -> Rate {
        self.bookings.booked()
    }

    /// The capacity granted from.
    pub(crate) fn capacity(&self) -> Rate {
        self.capacity
    }

    fn least(&self, bundle: &Bundle) -> Rate {
        match bundle.flows {
            0 => Rate::ZERO,
            flows => self.capacity.scaled(UTILIZATION / f64::from(flows.max(self.askers.count()))),
        }
    }

    /// Less capacity is believed at once, more slowly.
    fn believe(&mut self, now: Instant, capacity: Rate) {
        let (before, now_bps) = (self.capacity.bps() as f64, capacity.bps() as f64);
        let believed_after = (self.round_trip * BELIEVED_AFTER).max(LOOK_MIN);
        let part = ((now - self.looked_at).as_secs_f64() / believed_after.as_secs_f64()).min(1.0);
        let believed = Rate::from_bps((before + (now_bps - before) * part) as u64);
        self.capacity = if before > 0.0 { believed.min(capacity) } else { capacity };
    }
}

/// A controller that knows of no flow yet.
fn controller(kind: RateController, now: Instant, capacity: Rate) -> Controller {
    match kind {
        RateController::Pi => {
            let config = PiConfig { utilization: UTILIZATION, ..PiConfig::default() };
            Controller::Pi(PiRate::new(config, capacity.scaled(UTILIZATION), now))
        }
        RateController::Erica => {
            let law = Erica::idle(EricaConfig::in_band(UTILIZATION), capacity.scaled(UTILIZATION));
            Controller::Erica(law)
        }
    }
}
