//! In-band QoS signalling of the default VPN's flows (papers 001, 002): what packets from and to the TUN device say of rates.
//!
//! Toward each peer this node is one router, whose link is the bundle of paths: [`offer`] says what it grants, [`router`] lowers what passes
//! to that, ER-SIG and Quick-Start alike. For hosts that do not speak it, it is an [`agent`]: it asks for the flows of its rules
//! ([`asking`]), and answers for those behind it ([`answering`]). What is granted becomes an event.
//! A [`host`] is the same without a node: its link is an interface.

mod agent;
mod answering;
mod asking;
mod config;
mod deaf;
mod filter;
mod grant;
mod host;
mod offer;
mod packet;
mod quick_answers;
mod router;
mod status;

pub(crate) use agent::Carrier;
pub use config::{RateController, SignalConfig, SignalRule};
pub use grant::Grant;
pub use host::{HostLink, Leaving, SignalHost};
pub(crate) use offer::{Bundle, Offer};
pub use status::{SignalFlow, SignalPeer, SignalStatus, SignalTotals};

use crate::event::Event;
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

pub(crate) use packet::{add, answer, bare_ack};

/// Grants and bookings that end are looked for so often.
const SWEEP: Duration = Duration::from_millis(500);

/// What changes for a flow that starts here.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Change {
    Granted(Grant),
    Withdrawn(FlowKey),
}

/// Where and when a signal passes, and who wants to know what comes of it.
pub(crate) struct Place<'a> {
    pub(crate) now: Instant,
    pub(crate) peer: PeerId,
    pub(crate) offer: &'a mut Offer,
    /// What the way in from the peer grants, where that is this node's to say.
    pub(crate) inward: Option<&'a mut Offer>,
    pub(crate) events: &'a mut VecDeque<Event>,
}

/// Signalling, if it is wanted at all.
#[derive(Default)]
pub(crate) struct Signalling(Option<Box<Room>>);

/// All that signalling knows, but for what each peer's bundle grants.
pub(crate) struct Room {
    config: SignalConfig,
    /// The node as signals name it.
    node: u16,
    rng: Rng,
    asking: Asking,
    answering: Answering,
    quick_answers: QuickAnswers,
    deaf: Deaf,
    /// The flows of all three.
    filter: Filter,
    totals: SignalTotals,
    /// What ends here is not cut out but overwritten: who handed the packet over remembers where its parts begin.
    keeps_length: bool,
    next_sweep: Instant,
}

impl Signalling {
    /// Begins anew with another configuration; with the same one all goes on. True if offers are to be forgotten.
    pub(crate) fn set(
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
    pub(crate) fn room(&self) -> Option<&Room> {
        self.0.as_deref()
    }

    #[inline]
    pub(crate) fn room_mut(&mut self) -> Option<&mut Room> {
        self.0.as_deref_mut()
    }

    /// Does what time demands.
    pub(crate) fn handle_timeout(&mut self, now: Instant, events: &mut VecDeque<Event>) {
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

    /// When [`Signalling::handle_timeout`] is due.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let room = self.0.as_ref()?;
        let is_empty = room.asking.is_empty() && room.answering.is_empty() && room.quick_answers.is_empty();
        (!is_empty).then_some(room.next_sweep)
    }
}

impl Room {
    /// Whether a packet from the TUN device is any of signalling's business: it carries something, is of a flow that is signalled, or
    /// begins one that may be.
    #[inline]
    pub(crate) fn concerns(&self, packet: &IpView<'_>, flow: &FlowKey) -> bool {
        has_options(packet.bytes)
            || self.may_ask_for(packet)
            || (self.filter.may_contain(flow) && self.knows(&flow.five_tuple()))
    }

    /// What a new bundle is to know of the configuration.
    pub(crate) fn config(&self) -> &SignalConfig {
        &self.config
    }

    /// A number drawn by chance.
    pub(crate) fn draw(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Whether a packet may be the first of a flow that some rule is for: a SYN, or any of UDP.
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

    /// The flow of a signal as its first sender sees it, if its tag is right; `None` counts as forged.
    fn flow_of(&mut self, packet: FlowKey, signal: &Signal) -> Option<FlowKey> {
        let is_right = |flow: &FlowKey| self.config.key.as_ref().is_none_or(|key| key.is_right(flow, signal));
        let flow = match signal.message {
            Message::Response => Some(packet.reversed()).filter(is_right),
            // It goes on to the receiver, who sends it back.
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

/// Puts a new grant in the place of an old one: what is worth telling.
fn renew(old: &mut Option<Grant>, now: Instant, flow: FlowKey, new: Option<Grant>) -> Option<Change> {
    match (old.as_ref(), new) {
        (Some(before), Some(grant)) if before.is_as_good(&grant, now) => None,
        (_, Some(grant)) => {
            *old = Some(grant);
            Some(Change::Granted(grant))
        }
        (Some(_), None) => {
            *old = None;
            Some(Change::Withdrawn(flow))
        }
        (None, None) => None,
    }
}

fn event(change: Change) -> Event {
    match change {
        Change::Granted(grant) => Event::Granted(grant),
        Change::Withdrawn(flow) => Event::Withdrawn(flow),
    }
}
