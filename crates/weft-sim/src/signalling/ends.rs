//! The two ends of a connection, as they ask and answer.

use super::{Said, Signalled, is_genuine, signed};
use crate::host::Ends;
use crate::tcp::{Flags, Segment};
use crate::{Body, Packet};
use weft_core::explicit_rate::exchange::{Initiator, TAKES_ALL, Wish, respond};
use weft_units::{Duration, Instant, Rate, Rng};
use weft_wire::er_sig::{BurstTolerance, DelayVariance, Message, Rate16, Rates, Service, Signal, ttl_difference};
use weft_wire::quick_start::{Function, QuickRate, Response};

/// As it leaves a host.
pub(super) const TTL: u8 = 64;
/// A round trip before one was measured.
const GUESS: Duration = Duration::from_millis(200);

/// What a sender asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    /// To be reserved; zero for none. Beside it whatever is available.
    pub guaranteed: Rate,
    /// Every router of the path takes part: no TTL is looked at.
    pub path_takes_part: bool,
}

impl Demand {
    fn wish(self) -> Wish {
        let service = if self.guaranteed == Rate::ZERO { Service::Available } else { Service::Variable };
        let signal = Signal {
            message: Message::Request,
            service,
            receiver_pays: false,
            is_lowered: false,
            preemption: 0,
            delay_priority: 0,
            burst: BurstTolerance::default(),
            delay_variance: DelayVariance::default(),
            forward: Rates { available: Rate16::UNLIMITED, guaranteed: Rate16::floor(self.guaranteed) },
            reverse: Rates::default(),
            echoed: Rates::default(),
            nonce: 0,
            hops: 0,
            qttl: 0,
            lowered_by: 0,
            must_be_met: false,
            is_overlay: false,
            tag: 0,
        };
        Wish { signal, path_takes_part: self.path_takes_part }
    }
}

/// The end that asks, for one connection after another.
#[derive(Clone, Debug)]
pub struct Asker {
    wish: Wish,
    initiator: Initiator,
    rng: Rng,
}

impl Asker {
    /// An end that asks with its first packet.
    pub fn new(demand: Demand, mut rng: Rng) -> Asker {
        let wish = demand.wish();
        Asker { wish, initiator: Initiator::new(wish, rng.next_u64() as u32), rng }
    }

    /// What the connection may send in all; none without a grant.
    pub fn rate(&self) -> Option<Rate> {
        self.initiator.rate()
    }

    /// The segment with a structure, if one is due.
    pub(crate) fn sign(
        &mut self,
        now: Instant,
        ends: Ends,
        srtt: Option<Duration>,
        segment: &Segment,
    ) -> Option<Box<Signalled>> {
        let qttl = self.rng.next_u64() as u8;
        let signal = match segment.flags.has(Flags::FIN) {
            true => self.initiator.release(qttl),
            false => self.initiator.on_packet(now, TTL, qttl, srtt.unwrap_or(GUESS)),
        }?;
        let said = Said::Explicit { signal: signed(signal, ends.flow, ends.here, ends.there), arrived_difference: 0 };
        Some(Box::new(Signalled { said, ttl: TTL, is_encapsulated: false, segment: *segment }))
    }

    /// A packet came: the rate now granted, zero for none, if it brings an answer.
    pub(crate) fn hear(&mut self, now: Instant, packet: &Packet) -> Option<Rate> {
        let Body::Signalled(answer) = &packet.body else { return None };
        let Said::Explicit { signal, arrived_difference } = &answer.said else { return None };
        if !is_genuine(packet) {
            return None;
        }
        self.initiator.on_signal(now, signal, *arrived_difference)?;
        Some(self.initiator.rate().unwrap_or(Rate::ZERO))
    }

    /// The next connection begins.
    pub(crate) fn begin_anew(&mut self) {
        self.initiator = Initiator::new(self.wish, self.rng.next_u64() as u32);
    }
}

/// The end that answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answerer {
    /// What leaves with the next acknowledgement.
    due: Option<Box<Said>>,
}

impl Answerer {
    /// A packet came: what it asks is answered with the next acknowledgement.
    pub fn hear(&mut self, packet: &Packet) {
        let Body::Signalled(asked) = &packet.body else { return };
        let answer = match &asked.said {
            Said::Explicit { signal, .. } if is_genuine(packet) => answer_to(signal, asked.ttl),
            Said::Quick(option) if option.function == Function::Request && option.rate > QuickRate::ZERO => {
                Some(Said::QuickAnswer(Response::to(option, asked.ttl)))
            }
            _ => None,
        };
        self.due = answer.map(Box::new).or(self.due.take());
    }

    /// The acknowledgement with its answer, if there is one.
    pub fn sign(&mut self, ends: Ends, segment: &Segment) -> Option<Box<Signalled>> {
        let mut said = *self.due.take()?;
        if let Said::Explicit { signal, .. } = &mut said {
            *signal = signed(*signal, ends.flow, ends.here, ends.there);
        }
        Some(Box::new(Signalled { said, ttl: TTL, is_encapsulated: false, segment: *segment }))
    }
}

/// What is said to a signal that arrived in a packet of this TTL, yet without a tag.
fn answer_to(asked: &Signal, ttl: u8) -> Option<Said> {
    let signal = match asked.message {
        Message::Reject => Some(*asked),
        _ => respond(asked, TAKES_ALL, asked.qttl),
    };
    signal.map(|signal| Said::Explicit { signal, arrived_difference: ttl_difference(ttl, asked.qttl) })
}
