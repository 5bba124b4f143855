//! Grants explicit rates on one link of a router.
//!
//! A controller measures its link at intervals and updates the algorithm that computes the rates ([`LawKind`]). It
//! answers the rate requests in passing packets. Admission decides about guaranteed rates.

use super::NearSensor;
use super::law::{LawKind, SignalLaw};
use crate::link::LinkDirectionState;
use crate::{FlowNo, LinkId};
use std::collections::HashMap;
use weft_core::explicit_rate::askers::Askers;
use weft_core::explicit_rate::pi::LinkState;
use weft_core::explicit_rate::quick_start::QuickStartLink;
use weft_core::flow::hash::SeededState;
use weft_flows::admission::{AdmissionControl, FlowRoutes, PassingSignal, RouteNo, SignalVerdict};
use weft_units::{Duration, Instant, Rate, Rng};
use weft_wire::er_sig::{Direction, Message, Signal, SignalService};
use weft_wire::quick_start::{QuickRate, QuickStart};

/// Maximum number of flows with a guaranteed rate.
///
/// It is also the maximum number of requesting flows that a controller stores.
const MOST_FLOWS: usize = 65_536;
/// Number of the only route in this link's admission component. The route consists of the link alone.
const LINK: RouteNo = RouteNo(0);
/// Maximum number of samples that are made up for at once, after a time without packets.
///
/// A missed sample counts as one of an idle link. After far fewer samples of an idle link, the granted rate no longer
/// changes.
const MOST_MISSED: u32 = 1_000;

/// The settings by which a controller grants rates on its link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkGrants {
    /// Algorithm that computes the granted rates.
    pub law: LawKind,
    /// Capacity of the link, or of the path behind it. It includes the rates that may be guaranteed.
    pub capacity: Rate,
    /// Maximum sum of the rates that the link may guarantee to flows.
    pub reservable: Rate,
    /// Seed of the hash tables of flows and of random draws.
    pub seed: u64,
}

/// Bytes that arrived for a link.
///
/// ERICA needs separate counts of the bytes of flows that request rates (`asking`) and of others. For other algorithms
/// all bytes count as `asking`.
#[derive(Clone, Copy, Debug, Default)]
struct LinkBytes {
    asking: u64,
    other: u64,
}

/// The bytes that a flow sent since the last sample, and its rate in the previous interval.
///
/// ERICA would oscillate if the rates of the flows and their sum were measured over different intervals.
#[derive(Clone, Copy, Debug, Default)]
struct Sending {
    bytes: u64,
    rate: Rate,
}

/// The controller of one link: measures the link, and grants rates to the flows that request them.
#[derive(Debug)]
pub struct LinkController {
    law: SignalLaw,
    admission: AdmissionControl<u32>,
    askers: Askers<u32>,
    /// Sending rate of each flow that requests rates, by its number. Empty unless the algorithm uses these rates.
    sending: HashMap<u32, Sending, SeededState>,
    capacity: Rate,
    /// Mean round-trip time of the flows on the link, without queueing delay.
    least_round_trip: Duration,
    interval: Duration,
    next_look: Instant,
    /// Bytes that have arrived for the link since the last sample.
    arrived: LinkBytes,
    /// Rate of all bytes that arrive for the link in bit/s, averaged over a round trip.
    own_bps: f64,
    /// True if the sensor of the path behind the link has not measured enough yet. Then no rate is granted.
    is_unknown: bool,
    /// Rate at which bytes of requesting flows arrived in the last interval, less the guaranteed rates.
    arriving: Rate,
    /// Sum of the rates granted to new flows whose data has not arrived yet.
    promised: Rate,
    /// Time at which `promised` is reset: two round trips after the last new flow.
    forget_at: Instant,
    quick_start: QuickStartLink,
    /// Capacity of the link minus the guaranteed rates, at the time of the last sample.
    carries: Rate,
    /// Number of all bytes that have arrived for the link since the start of the simulation.
    came_bytes: u64,
    rng: Rng,
}

impl LinkController {
    /// Creates a controller that measures its link at this interval.
    ///
    /// `round_trip` is the mean round-trip time of the flows on the link.
    pub fn new(grants: LinkGrants, round_trip: Duration, interval: Duration) -> LinkController {
        let LinkGrants { law, capacity, reservable, seed } = grants;
        let mut admission = AdmissionControl::new(MOST_FLOWS, seed);
        admission.set_capacity(LINK, reservable, &mut |_| ());
        LinkController {
            law: SignalLaw::new(law, capacity),
            admission,
            askers: Askers::new(MOST_FLOWS, seed),
            sending: HashMap::with_hasher(SeededState::new(seed)),
            capacity,
            least_round_trip: round_trip,
            interval: interval.max(Duration::from_micros(100)),
            next_look: Instant::ZERO,
            arrived: LinkBytes::default(),
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

    /// Returns the rate of all bytes that arrive for the link, averaged over a round trip.
    pub(super) fn own(&self) -> Rate {
        Rate::from_bps(self.own_bps as u64)
    }

    /// Returns the sum of the rates that are guaranteed to flows on the link.
    pub fn booked(&self) -> Rate {
        self.admission.granted(LINK)
    }

    /// Returns τ, the delay after which a grant affects the arrivals.
    fn round_trip(&self) -> Duration {
        self.least_round_trip.max(self.askers.feedback_delay())
    }

    /// Returns the time between two samples.
    ///
    /// ERICA uses the flows' sending rates. It must wait for a round trip until the flows send at the last granted
    /// rates.
    fn spacing(&self) -> Duration {
        let least = if matches!(self.law, SignalLaw::Erica(_)) { self.round_trip() } else { Duration::ZERO };
        self.interval.max(least)
    }

    /// Returns the rate granted to a flow that sends `current`, in addition to its guaranteed rate.
    fn available(&mut self, current: Rate) -> Rate {
        if self.is_unknown { Rate::ZERO } else { self.law.grant(current) }
    }

    /// Counts a packet of a flow that arrives for the link.
    pub(super) fn count(&mut self, flow: FlowNo, bytes: u32) {
        let bytes = u64::from(bytes);
        self.came_bytes += bytes;
        if !matches!(self.law, SignalLaw::Erica(_)) {
            self.arrived.asking += bytes;
        } else if self.askers.contains(&flow.0) {
            self.arrived.asking += bytes;
            self.sending.entry(flow.0).or_default().bytes += bytes;
        } else {
            self.arrived.other += bytes;
        }
    }

    /// Answers the rate signal in a packet that arrives for the link: lowers and reserves the rates in it.
    ///
    /// `node` is this router's number. The caller must have checked that the signal is authentic. A request that must
    /// be met but cannot be becomes a rejection.
    pub(super) fn answer(&mut self, now: Instant, flow: FlowNo, signal: &mut Signal, node: u16) {
        let direction = match signal.message {
            Message::Response => Direction::Reverse,
            _ => Direction::Forward,
        };
        if signal.message == Message::Request {
            self.admit(now);
        }
        // A response carries the rates of the reverse direction, which no flow in the simulator requests.
        let available = match signal.message {
            Message::Request | Message::Update => self.available_beside(now, flow, signal),
            _ => Rate::ZERO,
        };
        let (passing, routes) =
            (PassingSignal { signal: &mut *signal, direction, available, node }, FlowRoutes::one(LINK));
        let verdict = self.admission.on_signal(now, flow.0, &routes, passing, &mut |_| ());
        if verdict == SignalVerdict::Reject {
            signal.message = Message::Reject;
        }
    }

    /// Lowers the rate of a Quick-Start request to the rate that this link can grant.
    ///
    /// It is at most the unused capacity, and at most the rate that one more requesting flow would be granted.
    pub(super) fn approve(&mut self, option: &mut QuickStart) {
        let asked = option.rate.min(QuickRate::floor(self.available(Rate::ZERO)));
        let granted = self.quick_start.approve(self.carries, asked);
        option.pass(granted, 1, self.rng.next_u64() as u32);
    }

    /// Includes a new flow in the state of the algorithm, if the algorithm is PI.
    fn admit(&mut self, now: Instant) {
        if let SignalLaw::Pi(law) = &mut self.law {
            if now >= self.forget_at {
                self.promised = Rate::ZERO;
            }
            let arriving = self.arriving.bps().saturating_add(self.promised.bps());
            let granted = law.on_new_flow(Rate::from_bps(arriving));
            self.promised = Rate::from_bps(self.promised.bps().saturating_add(granted.bps()));
            self.forget_at = now + self.least_round_trip * 2;
        }
    }

    /// Returns the rate that a flow can be granted in addition to the rate that its request `signal` will guarantee.
    ///
    /// The algorithm does not take the new guarantee into account yet, so this function subtracts the part that is new.
    fn available_beside(&mut self, now: Instant, flow: FlowNo, signal: &Signal) -> Rate {
        let has = self.admission.of(&flow.0);
        let is_reserved = matches!(signal.service, SignalService::Guaranteed | SignalService::Variable);
        let asked = signal.forward.guaranteed;
        let routes = FlowRoutes::one(LINK);
        let will_have = match is_reserved {
            true => self.admission.would_guarantee(&flow.0, signal.preemption, &routes, asked),
            false => Rate::ZERO,
        };
        self.askers.ask(now, flow.0, 0);
        let current = self.sending.get(&flow.0).map_or(Rate::ZERO, |sending| less(sending.rate, has));
        less(self.available(current), less(will_have, has))
    }

    /// Measures the link `at` and updates the algorithm, if the next sample is due.
    ///
    /// `sensor` measures the path behind the link.
    pub(super) fn look(
        &mut self,
        now: Instant,
        links: &mut [LinkDirectionState],
        at: LinkId,
        sensor: Option<&NearSensor>,
    ) {
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
        let queued_bytes = here_bytes + sensor.map_or(0, NearSensor::queued_bytes);
        let LinkBytes { asking, other } = std::mem::take(&mut self.arrived);
        let capacity = less(capacity, self.booked());
        self.carries = capacity;
        self.quick_start.sample(now, self.came_bytes);
        let capacity = less(capacity, Rate::from_bytes_over(other, since));
        let gain = (since.as_secs_f64() / self.least_round_trip.as_secs_f64()).min(1.0);
        self.own_bps += (Rate::from_bytes_over(asking + other, since).bps() as f64 - self.own_bps) * gain;
        self.update(now, capacity, asking, queued_bytes, missed);
        self.admission.expire(now, &mut |_| ());
        self.askers.expire(now);
        self.sending.retain(|flow, _| self.askers.contains(flow));
        for Sending { bytes, rate } in self.sending.values_mut() {
            *rate = Rate::from_bytes_over(std::mem::take(bytes), since);
        }
        self.next_look += since;
    }

    /// Updates the algorithm with the measured state of the link since the last sample.
    ///
    /// `missed` is the number of samples that were left out before this one.
    fn update(&mut self, now: Instant, capacity: Rate, arrived_bytes: u64, queued_bytes: u64, missed: u32) {
        let (booked, round_trip, spacing) = (self.booked(), self.round_trip(), self.spacing());
        // It is not known when the bytes arrived since the last sample. All of them count for the last interval, and
        // the others as idle.
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

/// Returns the mean capacity of a link over the time `since` before `now`.
///
/// It covers less time at the start of the simulation. Returns `None` if no time has passed.
fn carried(link: &mut LinkDirectionState, now: Instant, since: Duration) -> Option<Rate> {
    let before = now.as_nanos().saturating_sub(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let from = Instant::from_nanos(before);
    (now > from).then(|| Rate::from_bytes_over(link.capacity_bytes(from, now), now - from))
}

fn less(rate: Rate, taken: Rate) -> Rate {
    Rate::from_bps(rate.bps().saturating_sub(taken.bps()))
}
