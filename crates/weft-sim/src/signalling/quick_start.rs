//! Implements the end of a connection that requests an initial rate (Quick-Start, RFC 4782).
//!
//! It sends the request with its SYN. With its next packet it reports the result to the routers.

use super::ends::TTL;
use super::{RateSignal, Signalled};
use crate::tcp::{Flags, TcpSegment};
use crate::{Body, Packet};
use weft_core::explicit_rate::quick_start::PendingQuickStart;
use weft_units::{Duration, Instant, Rate, Rng};
use weft_wire::quick_start::{Function, QuickRate, QuickStart, QuickStartResponse};

/// Round-trip time that the requesting end assumes, because it has not measured any when it sends its SYN.
///
/// The request is at most the rate that sends the waiting data in this time (RFC 4782 §4.2).
const GUESS: Duration = Duration::from_millis(100);
/// Maximum number of waiting bytes that is taken into account for the size of a request.
///
/// Even at the highest rate that can be requested, fewer bytes than this are sent in [`GUESS`].
const MOST_BYTES: u64 = 1 << 32;
const NONCE_BITS: u32 = 30;

/// The end of a flow that requests initial rates, for one connection after another.
#[derive(Clone, Debug)]
pub struct QuickAsker {
    rate: Rate,
    rng: Rng,
    stands: Stands,
    granted: Option<Rate>,
}

#[derive(Clone, Copy, Debug)]
enum Stands {
    Silent,
    Asked(PendingQuickStart),
    /// The next packet must carry this report to the routers, which states the rate that was granted.
    ///
    /// It has rate zero after a refusal.
    ToReport(QuickStart),
    Over,
}

impl QuickAsker {
    /// Creates the requesting end of a flow. Each connection requests at most `rate`, which includes IP headers.
    pub fn new(rate: Rate, rng: Rng) -> QuickAsker {
        QuickAsker { rate, rng, stands: Stands::Silent, granted: None }
    }

    /// Returns the initial rate that the present connection was granted. Returns `None` if it was granted none.
    pub fn granted(&self) -> Option<Rate> {
        self.granted
    }

    /// Forgets the granted rate, because the next connection begins.
    pub(crate) fn begin_anew(&mut self) {
        (self.stands, self.granted) = (Stands::Silent, None);
    }

    /// Returns the segment with a Quick-Start option, if a request or a report is due. Otherwise returns `None`.
    ///
    /// `waiting_bytes` is the number of bytes that the connection has to send.
    pub(crate) fn sign(&mut self, now: Instant, segment: &TcpSegment, waiting_bytes: u64) -> Option<Box<Signalled>> {
        let option = match self.stands {
            // A retransmitted SYN carries no option, because a router or firewall may have dropped the first SYN for
            // its option.
            Stands::Asked(_) if segment.flags.has(Flags::SYN) => {
                self.stands = Stands::Over;
                return None;
            }
            Stands::Silent if segment.flags.has(Flags::SYN) => self.request(now, waiting_bytes),
            Stands::ToReport(report) => {
                self.stands = Stands::Over;
                report
            }
            _ => return None,
        };
        Some(Box::new(Signalled {
            rate_signal: RateSignal::Quick(option),
            ttl: TTL,
            is_encapsulated: false,
            segment: *segment,
        }))
    }

    fn request(&mut self, now: Instant, waiting_bytes: u64) -> QuickStart {
        let most = Rate::from_bytes_over(waiting_bytes.min(MOST_BYTES), GUESS);
        let drawn = self.rng.next_u64();
        let (ttl, nonce) = ((drawn >> NONCE_BITS) as u8, drawn as u32 & ((1 << NONCE_BITS) - 1));
        let option = QuickStart { function: Function::Request, rate: QuickRate::ceil(self.rate.min(most)), ttl, nonce };
        self.stands = Stands::Asked(PendingQuickStart::new(now, &option, TTL));
        option
    }

    /// Processes a packet from the other end.
    ///
    /// Returns the initial rate if the packet grants one, and otherwise `None`.
    ///
    /// `srtt` is the smoothed round-trip time, if it has been measured.
    pub(crate) fn receive(&mut self, now: Instant, packet: &Packet, srtt: Option<Duration>) -> Option<Rate> {
        let Stands::Asked(asked) = self.stands else { return None };
        let response = match &packet.body {
            Body::Signalled(signalled) => match signalled.rate_signal {
                RateSignal::QuickAnswer(response) => Some(response),
                _ => None,
            },
            _ => None,
        };
        self.granted = response.zip(srtt).and_then(|(response, srtt)| asked.accept(now, &response, srtt));
        self.stands = Stands::ToReport(report(self.granted, response));
        self.granted
    }
}

/// Returns the report to the routers. It states the granted rate, or zero if the request was refused or not answered.
fn report(granted: Option<Rate>, response: Option<QuickStartResponse>) -> QuickStart {
    let nonce = response.map_or(0, |response| response.nonce);
    let rate = granted.map_or(QuickRate::ZERO, QuickRate::floor);
    QuickStart { function: Function::Report, rate, ttl: 0, nonce }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowNo, NodeId, PacketEcn};

    const ROUND_TRIP: Duration = Duration::from_millis(50);
    const SYN: TcpSegment = segment(Flags::SYN);

    const fn segment(flags: Flags) -> TcpSegment {
        let sacks = [crate::tcp::SackBlock { offset: 0, len: 0 }; 3];
        TcpSegment { seq: 0, ack: 0, len: 0, window: 0, flags, sack_count: 0, sacks }
    }

    fn asker() -> QuickAsker {
        QuickAsker::new(Rate::from_mbps(20), Rng::new(7))
    }

    fn option_of(signed: Option<Box<Signalled>>) -> QuickStart {
        match signed.map(|signed| signed.rate_signal) {
            Some(RateSignal::Quick(option)) => option,
            other => panic!("{other:?}"),
        }
    }

    /// Lets `asker` receive a SYN-ACK with `response`, one round trip after its SYN.
    ///
    /// It returns the granted rate and the report that the next packet carries.
    fn answered(asker: &mut QuickAsker, response: QuickStartResponse) -> (Option<Rate>, QuickStart) {
        let segment = segment(Flags::SYN.with(Flags::ACK));
        let answer =
            Signalled { rate_signal: RateSignal::QuickAnswer(response), ttl: 60, is_encapsulated: false, segment };
        let body = Body::Signalled(Box::new(answer));
        let (source, destination) = (NodeId(1), NodeId(0));
        let packet = Packet { flow: FlowNo(0), source, destination, bytes: 60, label: 0, ecn: PacketEcn::NotEct, body };
        let now = Instant::ZERO + ROUND_TRIP;
        let granted = asker.receive(now, &packet, Some(ROUND_TRIP));
        (granted, option_of(asker.sign(now, &TcpSegment { flags: Flags::ACK, ..SYN }, 1)))
    }

    #[test]
    fn a_rate_that_all_routers_approved_is_used_and_reported() {
        let mut asker = asker();
        let mut option = option_of(asker.sign(Instant::ZERO, &SYN, u64::MAX));
        assert_eq!((option.function, option.rate), (Function::Request, QuickRate::new(9)));
        option.pass(QuickRate::new(8), 3, 0x5555_5555);
        let (granted, report) = answered(&mut asker, QuickStartResponse::to(&option, TTL - 3));
        assert_eq!(granted, Some(QuickRate::new(8).rate()));
        assert_eq!((report.function, report.rate, report.nonce), (Function::Report, QuickRate::new(8), option.nonce));
        assert!(asker.sign(Instant::ZERO, &TcpSegment { flags: Flags::ACK, ..SYN }, 1).is_none(), "once");
    }

    #[test]
    fn where_a_router_takes_no_part_nothing_is_used_and_zero_reported() {
        let mut asker = asker();
        let option = option_of(asker.sign(Instant::ZERO, &SYN, u64::MAX));
        let (granted, report) = answered(&mut asker, QuickStartResponse::to(&option, TTL - 1));
        assert_eq!((granted, report.rate), (None, QuickRate::ZERO));
    }

    #[test]
    fn a_sender_asks_for_at_most_its_backlog_and_only_once() {
        let mut asker = asker();
        // The source wants to send 10 kB. At 800 kbit/s this takes 100 ms, the assumed round-trip time.
        let option = option_of(asker.sign(Instant::ZERO, &SYN, 10_000));
        assert_eq!(option.rate.rate(), Rate::from_bps(1_280_000));
        let again = TcpSegment { flags: Flags::SYN.with(Flags::RETRANSMIT), ..SYN };
        assert!(asker.sign(Instant::ZERO, &again, 10_000).is_none());
        asker.begin_anew();
        assert!(asker.sign(Instant::ZERO, &SYN, 10_000).is_some());
    }
}
