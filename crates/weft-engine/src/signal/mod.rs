//! In-band QoS signalling for the default VPN's flows (papers 001, 002).
//!
//! Packets from and to the TUN device carry the rates. Toward each peer this node acts as one router whose link is
//! the bundle of paths. [`offer`] computes the rates that it grants. [`router`] lowers passing signals to them, both
//! ER-SIG and Quick-Start. For hosts without signalling, the node acts as an [`agent`]. It requests rates for the
//! flows of its rules ([`asking`]) and answers requests toward its hosts ([`answering`]). Each change of a grant
//! becomes an event. A [`host`] does the same without a node, with an interface as its link.

mod agent;
mod answering;
mod asking;
mod deaf;
mod filter;
mod grant;
mod host;
mod offer;
mod packet;
mod quick_answers;
mod router;
mod rules;
mod status;

pub use agent::Carrier;
pub use host::{HostLink, Leaving, SignalHost};
pub use offer::{BundleState, Offer};

use crate::api::{Event, Grant, SignalConfig, SignalTotals};
use crate::flows::Flowing;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use answering::Answering;
use asking::Asking;
use deaf::Deaf;
use filter::Filter;
use quick_answers::QuickAnswers;
use weft_units::{Duration, Instant, PeerId, Rng};
use weft_wire::er_sig::{Message, Signal};
use weft_wire::ip::{FlowKey, IpView, TcpFlags, has_options, protocol};

pub use packet::{add, answer, bare_ack};

/// Interval of the search for grants and reservations that have ended.
const SWEEP: Duration = Duration::from_millis(500);

/// A change of the grant of a flow that starts at this node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum GrantChange {
    Granted(Grant),
    Withdrawn(FlowKey),
}

/// Where the signals of an arriving packet end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalEnd {
    /// At this node or at a host behind it.
    Here,
    /// Behind another peer, to which this node forwards the packet.
    Elsewhere,
}

/// Context of one signal: the time, the peer, the rates that the peer's bundle grants, and the event queue.
pub struct Place<'a> {
    pub now: Instant,
    pub peer: PeerId,
    pub offer: &'a mut Offer,
    /// Rates that this node grants for the receiving direction, if it grants that direction.
    pub inward: Option<&'a mut Offer>,
    /// The node's admission, which decides about guarantees.
    pub flows: &'a mut Flowing,
    pub events: &'a mut VecDeque<Event>,
}

/// In-band signalling, if it is configured.
#[derive(Default)]
pub struct Signalling(Option<Box<Room>>);

/// State of signalling, except for the rates that the peers' bundles grant ([`Offer`]).
pub struct Room {
    config: SignalConfig,
    /// Hash of this node's identity, by which signals name it. Never zero.
    node: u16,
    rng: Rng,
    asking: Asking,
    answering: Answering,
    quick_answers: QuickAnswers,
    deaf: Deaf,
    /// The flows of `asking`, `answering` and `quick_answers`, for a fast test.
    filter: Filter,
    totals: SignalTotals,
    /// True if a signal that ends here is overwritten instead of cut out.
    ///
    /// This is so where the kernel has already parsed the packet, so that the packet's length must not change.
    keeps_length: bool,
    next_sweep: Instant,
}

impl Signalling {
    /// Restarts signalling if the configuration changed. Returns true if the grants of all bundles must be forgotten.
    pub fn set(
        &mut self,
        now: Instant,
        config: Option<SignalConfig>,
        (node, mut rng): (u16, Rng),
        events: &mut VecDeque<Event>,
    ) -> bool {
        if self.0.as_ref().map(|room| &room.config) == config.as_ref() {
            return false;
        }
        if let Some(room) = &mut self.0 {
            let mut tell = |change| events.push_back(event(change));
            room.asking.clear(&mut tell);
            room.answering.clear(&mut tell);
        }
        self.0 = config.map(|config| {
            Box::new(Room {
                config,
                node: node.max(1),
                asking: Asking::new(rng.next_u64()),
                answering: Answering::new(rng.next_u64()),
                quick_answers: QuickAnswers::new(rng.next_u64()),
                deaf: Deaf::new(rng.next_u64()),
                rng,
                filter: Filter::default(),
                totals: SignalTotals::default(),
                keeps_length: false,
                next_sweep: now,
            })
        });
        true
    }

    #[inline]
    pub fn room(&self) -> Option<&Room> {
        self.0.as_deref()
    }

    #[inline]
    pub fn room_mut(&mut self) -> Option<&mut Room> {
        self.0.as_deref_mut()
    }

    /// Searches for grants and flows that have ended, if [`SWEEP`] has passed since the last search.
    pub fn handle_timeout(&mut self, now: Instant, events: &mut VecDeque<Event>) {
        if let Some(room) = self.0.as_mut().filter(|room| now >= room.next_sweep) {
            room.next_sweep = now + SWEEP;
            let mut tell = |change| events.push_back(event(change));
            room.asking.expire(now, &mut tell);
            room.answering.expire(now, &mut tell);
            room.quick_answers.expire(now);
            let asked = room.asking.iter().map(|(flow, _)| flow);
            let answered = room.answering.iter().map(|(flow, _)| flow);
            room.filter.refill(asked.chain(answered).chain(room.quick_answers.flows()));
        }
    }

    /// Returns the time at which [`Signalling::handle_timeout`] is due, or `None` if there is no flow.
    pub fn next_timeout(&self) -> Option<Instant> {
        let room = self.0.as_ref()?;
        let is_empty = room.asking.is_empty() && room.answering.is_empty() && room.quick_answers.is_empty();
        (!is_empty).then_some(room.next_sweep)
    }
}

impl Room {
    /// True if signalling must process a packet from the TUN device.
    ///
    /// The packet has options, belongs to a signalled flow, or begins a flow that may become one.
    #[inline]
    pub fn concerns(&self, packet: &IpView<'_>, flow: &FlowKey) -> bool {
        has_options(packet.bytes)
            || self.may_ask_for(packet)
            || (self.filter.may_contain(flow) && self.knows(&flow.five_tuple()))
    }

    /// Returns the configuration, with which an [`Offer`] is created.
    pub fn config(&self) -> &SignalConfig {
        &self.config
    }

    /// Returns a random number from signalling's generator.
    pub fn draw(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// True if a packet may begin a flow to which a rule applies: a TCP SYN, or any UDP packet.
    fn may_ask_for(&self, packet: &IpView<'_>) -> bool {
        let mut rules = self.config.rules.iter().filter(|rule| rule.protocol == packet.protocol);
        match packet.protocol {
            protocol::TCP => rules.next().is_some() && packet.tcp().is_some_and(|tcp| is_first(tcp.flags)),
            protocol::UDP => !packet.is_fragment && rules.any(|rule| rule.matches(&packet.flow_key(), packet)),
            _ => false,
        }
    }

    fn knows(&self, flow: &FlowKey) -> bool {
        self.asking.contains(flow) || self.answering.contains(flow) || self.quick_answers.contains(flow)
    }

    /// Returns the flow for which a signal requests a rate, or `None` if the signal's tag is wrong.
    ///
    /// `packet` is the five-tuple of the packet with the signal. If the signal is an answer, the flow is its reverse.
    /// The tag authenticates the signal by the configured key. A signal with a wrong tag is counted as forged.
    fn flow_of(&mut self, packet: FlowKey, signal: &Signal) -> Option<FlowKey> {
        let is_right = |flow: &FlowKey| self.config.key.as_ref().is_none_or(|key| key.is_right(flow, signal));
        let flow = match signal.message {
            Message::Response => Some(packet.reversed()).filter(is_right),
            // A reject continues to the receiver, which returns it. It may therefore travel in either direction.
            Message::Reject => {
                let back = packet.reversed();
                let is_answer = self.asking.contains(&back);
                let ways = if is_answer { [back, packet] } else { [packet, back] };
                ways.into_iter().find(is_right)
            }
            _ => Some(packet).filter(is_right),
        };
        self.totals.forged += u64::from(flow.is_none());
        flow
    }
}

fn is_first(flags: TcpFlags) -> bool {
    flags.any(TcpFlags::SYN) && !flags.any(TcpFlags::ACK)
}

/// Replaces the grant `old`. Returns the change, or `None` if the new grant is as good as the old one.
fn renew(old: &mut Option<Grant>, now: Instant, flow: FlowKey, new: Option<Grant>) -> Option<GrantChange> {
    match (old.as_ref(), new) {
        (Some(before), Some(grant)) if before.is_as_good(&grant, now) => None,
        (_, Some(grant)) => {
            *old = Some(grant);
            Some(GrantChange::Granted(grant))
        }
        (Some(_), None) => {
            *old = None;
            Some(GrantChange::Withdrawn(flow))
        }
        (None, None) => None,
    }
}

fn event(change: GrantChange) -> Event {
    match change {
        GrantChange::Granted(grant) => Event::Granted(grant),
        GrantChange::Withdrawn(flow) => Event::Withdrawn(flow),
    }
}
