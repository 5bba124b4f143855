//! Implements the two ends of a connection that signals explicit rates: one requests rates, the other answers.

use super::{RateSignal, Signalled, is_genuine, signed};
use crate::host::FlowNodes;
use crate::tcp::{Flags, TcpSegment};
use crate::{Body, Packet};
use weft_core::explicit_rate::exchange::{RateInitiator, TAKES_ALL, Wish, respond};
use weft_units::{Duration, Instant, Rate, Rng};
use weft_wire::er_sig::{BurstTolerance, DelayVariance, Message, Rate16, Rates, Signal, SignalService, ttl_difference};
use weft_wire::quick_start::{Function, QuickRate, QuickStartResponse};

/// TTL of a packet when a host sends it.
pub(super) const TTL: u8 = 64;
/// Round-trip time that the requesting end assumes before its first measurement.
const GUESS: Duration = Duration::from_millis(200);

/// The rates that the sending end of a connection requests from the routers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateDemand {
    /// Guaranteed rate to request, or zero for none.
    ///
    /// In addition the sender requests all available capacity.
    pub guaranteed: Rate,
    /// True if every router of the route is known to answer rate requests.
    ///
    /// Otherwise the sender uses a granted rate only if a comparison of TTLs shows this.
    pub path_takes_part: bool,
}

impl RateDemand {
    fn wish(self) -> Wish {
        let service = if self.guaranteed == Rate::ZERO { SignalService::Available } else { SignalService::Variable };
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

/// The end of a flow that requests rates, for one connection after another.
#[derive(Clone, Debug)]
pub struct Asker {
    wish: Wish,
    initiator: RateInitiator,
    rng: Rng,
}

impl Asker {
    /// Creates the requesting end of a flow. The first packet carries a request.
    pub fn new(demand: RateDemand, mut rng: Rng) -> Asker {
        let wish = demand.wish();
        Asker { wish, initiator: RateInitiator::new(wish, rng.next_u64() as u32), rng }
    }

    /// Returns the total rate that the connection may use, or `None` without a grant.
    pub fn rate(&self) -> Option<Rate> {
        self.initiator.rate()
    }

    /// Returns the segment with a rate signal, if a signal is due. Otherwise returns `None`.
    ///
    /// `srtt` is the smoothed round-trip time, if it has been measured.
    pub(crate) fn sign(
        &mut self,
        now: Instant,
        ends: FlowNodes,
        srtt: Option<Duration>,
        segment: &TcpSegment,
    ) -> Option<Box<Signalled>> {
        let qttl = self.rng.next_u64() as u8;
        let signal = match segment.flags.has(Flags::FIN) {
            true => self.initiator.release(qttl),
            false => self.initiator.on_packet(now, TTL, qttl, srtt.unwrap_or(GUESS)),
        }?;
        let rate_signal =
            RateSignal::Explicit { signal: signed(signal, ends.flow, ends.here, ends.there), arrived_difference: 0 };
        Some(Box::new(Signalled { rate_signal, ttl: TTL, is_encapsulated: false, segment: *segment }))
    }

    /// Processes a packet from the other end. Returns the granted rate if it answers a request, and otherwise `None`.
    ///
    /// A granted rate of zero means that no rate was granted.
    pub(crate) fn receive(&mut self, now: Instant, packet: &Packet) -> Option<Rate> {
        let Body::Signalled(answer) = &packet.body else { return None };
        let RateSignal::Explicit { signal, arrived_difference } = &answer.rate_signal else { return None };
        if !is_genuine(packet) {
            return None;
        }
        self.initiator.on_signal(now, signal, *arrived_difference)?;
        Some(self.initiator.rate().unwrap_or(Rate::ZERO))
    }

    /// Forgets the granted rate, because the next connection begins.
    pub(crate) fn begin_anew(&mut self) {
        self.initiator = RateInitiator::new(self.wish, self.rng.next_u64() as u32);
    }
}

/// The end of a connection that answers the rate requests in the packets that it receives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answerer {
    /// Answer that the next acknowledgement carries. `None` if no request waits for an answer.
    due: Option<Box<RateSignal>>,
}

impl Answerer {
    /// Processes a packet from the requesting end. If it carries a request, the next acknowledgement will answer it.
    pub fn receive(&mut self, packet: &Packet) {
        let Body::Signalled(asked) = &packet.body else { return };
        let answer = match &asked.rate_signal {
            RateSignal::Explicit { signal, .. } if is_genuine(packet) => answer_to(signal, asked.ttl),
            RateSignal::Quick(option) if option.function == Function::Request && option.rate > QuickRate::ZERO => {
                Some(RateSignal::QuickAnswer(QuickStartResponse::to(option, asked.ttl)))
            }
            _ => None,
        };
        self.due = answer.map(Box::new).or(self.due.take());
    }

    /// Returns the acknowledgement `segment` with the answer that is due. Returns `None` if no answer is due.
    pub fn sign(&mut self, ends: FlowNodes, segment: &TcpSegment) -> Option<Box<Signalled>> {
        let mut rate_signal = *self.due.take()?;
        if let RateSignal::Explicit { signal, .. } = &mut rate_signal {
            *signal = signed(*signal, ends.flow, ends.here, ends.there);
        }
        Some(Box::new(Signalled { rate_signal, ttl: TTL, is_encapsulated: false, segment: *segment }))
    }
}

/// Returns the answer to a rate request that arrived in a packet with this TTL. Returns `None` if it needs none.
///
/// The answer has no authentication tag yet.
fn answer_to(asked: &Signal, ttl: u8) -> Option<RateSignal> {
    let signal = match asked.message {
        Message::Reject => Some(*asked),
        _ => respond(asked, TAKES_ALL, asked.qttl),
    };
    signal.map(|signal| RateSignal::Explicit { signal, arrived_difference: ttl_difference(ttl, asked.qttl) })
}
