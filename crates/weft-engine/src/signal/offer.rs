//! The rates that a peer's bundle of paths grants to flows toward it.
//!
//! A controller (PI or ERICA+) computes the share of available rate. Admission decides about guaranteed rates. The
//! bundle's state is read four times per RTT for PI, and once per RTT for ERICA+.

use crate::api::{RateController, SignalConfig};
use crate::flows::Flowing;
use weft_core::explicit_rate::askers::{Askers, FORGOTTEN_AFTER};
use weft_core::explicit_rate::erica::{Erica, EricaConfig};
use weft_core::explicit_rate::pi::{LinkState, PiConfig, PiRate};
use weft_core::explicit_rate::quick_start::QuickStartLink;
use weft_flows::admission::{PassingSignal, RouteNo, SignalVerdict};
use weft_units::{Duration, Instant, Rate};
use weft_wire::er_sig::{Direction, Message, Rate16, Rates, Signal, SignalService};
use weft_wire::ip::FlowKey;
use weft_wire::quick_start::QuickRate;

/// Target utilization η: the share of the capacity that is granted.
const UTILIZATION: f64 = 0.95;
/// Maximum number of flows with requests that are remembered for a bundle.
const MOST_ASKERS: usize = 4_096;
/// Number of RTTs in which an increase of the measured capacity is gradually accepted.
///
/// A decrease is accepted at once.
const BELIEVED_AFTER: u32 = 4;
/// Least interval between two reads of the bundle.
///
/// The interval is a quarter of the RTT for the controller PI, and one RTT for ERICA+, but at least this time and at
/// most [`LOOK_MAX`].
const LOOK_MIN: Duration = Duration::from_millis(10);
/// Longest interval between two reads of the bundle.
const LOOK_MAX: Duration = Duration::from_millis(100);

/// Present state of a bundle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BundleState {
    /// Rate of inner packets that the paths which carry bulk are known to carry, from measurements.
    pub carried: Rate,
    /// Rate that may be granted. It is sometimes above `carried`, to discover whether the paths carry more.
    pub offered: Rate,
    /// Total bytes sent in the bundle.
    pub sent_bytes: u64,
    /// Bytes that wait to be sent in the bundle.
    pub queued_bytes: u64,
    /// Mean RTT of the bundle's paths.
    pub round_trip: Duration,
    /// Flows that share the bundle, or zero if the queue does not separate flows.
    pub flows: u32,
}

#[derive(Debug)]
enum Controller {
    Pi(PiRate),
    Erica(Erica),
}

/// The rates that one bundle grants.
#[derive(Debug)]
pub struct Offer {
    kind: RateController,
    reservable: f64,
    controller: Controller,
    /// Number by which admission distinguishes the bundle from others.
    route: RouteNo,
    quick_start: QuickStartLink,
    carried: Rate,
    /// Capacity from which rates are granted: [`BundleState::offered`], with increases accepted slowly.
    capacity: Rate,
    round_trip: Duration,
    /// Least rate that is granted to a flow: the share that a flow-separating queue gives each flow in any case.
    least: Rate,
    looked_at: Instant,
    next_look: Instant,
    asked_at: Instant,
    /// Bytes that had arrived for the bundle at the last read.
    ///
    /// Bytes that the queue dropped are not counted.
    arrived_bytes: u64,
    askers: Askers<FlowKey>,
}

impl Offer {
    pub fn new(now: Instant, config: &SignalConfig, (route, bundle): (RouteNo, &BundleState), seed: u64) -> Offer {
        Offer {
            route,
            kind: config.controller,
            reservable: config.reservable.clamp(0.0, 1.0),
            controller: controller(config.controller, now, bundle.offered),
            quick_start: QuickStartLink::new(now, bundle.sent_bytes),
            carried: bundle.carried,
            capacity: bundle.offered,
            round_trip: bundle.round_trip,
            least: Rate::ZERO,
            looked_at: now,
            next_look: now,
            asked_at: now,
            arrived_bytes: bundle.sent_bytes + bundle.queued_bytes,
            askers: Askers::new(MOST_ASKERS, seed),
        }
    }

    /// True if it is time to read the bundle with [`Offer::look`].
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next_look
    }

    /// Returns the time at which [`Offer::look`] is due.
    pub fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Updates the granted rates from the bundle's present state.
    pub fn look(&mut self, now: Instant, bundle: &BundleState) {
        self.quick_start.sample(now, bundle.sent_bytes);
        self.round_trip = bundle.round_trip;
        self.carried = bundle.carried;
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

    /// Returns the rate that may be guaranteed in the bundle. If the bundle has a port, the port sets it instead.
    pub fn reservable(&self) -> Rate {
        self.carried.scaled(self.reservable)
    }

    /// Returns the number by which admission distinguishes the bundle from others.
    pub fn route(&self) -> RouteNo {
        self.route
    }

    /// Lowers the rates in a signal that passes toward the peer in its flow's direction.
    ///
    /// `sent_bytes` bytes of the flow arrived here so far. The caller need not set `passing.available`.
    pub fn on_signal(
        &mut self,
        now: Instant,
        flow: FlowKey,
        passing: PassingSignal<'_>,
        sent_bytes: u64,
        flows: &mut Flowing,
    ) -> SignalVerdict {
        let asks = matches!(
            (passing.signal.message, passing.direction),
            (Message::Request | Message::Update, Direction::Forward) | (Message::Response, Direction::Reverse)
        );
        if !asks {
            return flows.on_signal(now, (flow, self.route), passing);
        }
        if now - self.asked_at > FORGOTTEN_AFTER {
            // The controller's result belongs to flows that are forgotten, so begin with a new controller.
            self.controller = controller(self.kind, now, self.capacity);
        }
        self.asked_at = now;
        let current = self.askers.ask(now, flow, sent_bytes);
        let others = flows.granted_to_others(&flow, self.route, passing.direction);
        let free = Rate::from_bps(self.capacity.bps().saturating_sub(others.bps()));
        let guaranteed = match passing.signal.service {
            SignalService::Guaranteed | SignalService::Variable => flows.would_guarantee(&flow, self.route, &passing),
            _ => lower_ceiling(passing.signal, passing.direction, free),
        };
        let left = Rate::from_bps(free.bps().saturating_sub(guaranteed.bps()));
        let share = match &mut self.controller {
            Controller::Pi(law) => law.rate(),
            Controller::Erica(law) => law.grant(current),
        };
        let available = share.max(self.least).min(left);
        flows.on_signal(now, (flow, self.route), PassingSignal { available, ..passing })
    }

    /// Returns the rate granted to a Quick-Start request for the rate `asked`.
    pub fn approve(&mut self, asked: QuickRate, flows: &Flowing) -> QuickRate {
        let free = self.carried.bps().saturating_sub(flows.admission.granted(self.route).bps());
        self.quick_start.approve(Rate::from_bps(free), asked)
    }

    /// Returns the largest rates that a flow toward the peer may be granted.
    pub fn most(&self) -> Rates {
        let capacity = Rate16::floor(self.capacity);
        Rates { available: capacity, guaranteed: capacity }
    }

    /// Returns the mean RTT of the peer's paths at the last read.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Returns the capacity of the bundle from which rates are granted.
    pub fn capacity(&self) -> Rate {
        self.capacity
    }

    fn least(&self, bundle: &BundleState) -> Rate {
        match bundle.flows {
            0 => Rate::ZERO,
            flows => self.capacity.scaled(UTILIZATION / f64::from(flows.max(self.askers.count()))),
        }
    }

    /// Records a capacity of the bundle. A lower one is accepted at once, and a higher one slowly.
    fn believe(&mut self, now: Instant, capacity: Rate) {
        let (before, now_bps) = (self.capacity.bps() as f64, capacity.bps() as f64);
        let believed_after = (self.round_trip * BELIEVED_AFTER).max(LOOK_MIN);
        let part = ((now - self.looked_at).as_secs_f64() / believed_after.as_secs_f64()).min(1.0);
        let believed = Rate::from_bps((before + (now_bps - before) * part) as u64);
        self.capacity = if before > 0.0 { believed.min(capacity) } else { capacity };
    }
}

/// Lowers the ceiling of a flow that requests no guarantee to the `free` rate, and returns the ceiling.
///
/// Nothing is reserved.
fn lower_ceiling(signal: &mut Signal, direction: Direction, free: Rate) -> Rate {
    let rates = match direction {
        Direction::Forward => &mut signal.forward,
        Direction::Reverse => &mut signal.reverse,
    };
    let ceiling = rates.guaranteed.min(Rate16::floor(free));
    signal.is_lowered |= ceiling != rates.guaranteed;
    rates.guaranteed = ceiling;
    ceiling.rate().unwrap_or_default()
}

/// Returns a controller without flows.
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
