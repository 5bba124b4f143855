//! Sender and receiver of explicit-rate signals (paper 001, Figure 2).
//!
//! The exchange is REQUEST, RESPONSE, CONFIRM, then UPDATEs. Each end sends at most one of these messages per round
//! trip. Every message may be lost, duplicated, delayed or forged.
//!
//! - The sender repeats a request, at ever longer intervals, until an answer arrives. Until then the flow is plain TCP.
//! - The first packet after the answer carries the confirmation.
//! - An answer is valid only with the request's nonce and with rates no higher than requested. Unless every router of
//!   the path is known to process the signals, it also needs the TTL difference that proves that every router did.

use weft_units::{Duration, Instant, Rate};
use weft_wire::er_sig::{Direction, Message, Rate16, Rates, Signal, ttl_difference};

/// Number of requests without an answer after which [`RateInitiator::has_given_up`] returns true.
const ATTEMPTS: u8 = 3;
/// Maximum number of times that the time between two requests doubles.
///
/// The longest interval is about a thousand round trips.
const MOST_DOUBLINGS: u8 = 10;

/// The rates that a sender requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Template of the signals. Message, nonce, QTTL (the signal's own TTL) and tag are set for each signal.
    ///
    /// Its forward and reverse rates are the requested rates.
    pub signal: Signal,
    /// True if every router of the path is known to process these signals, so that the TTL is not checked.
    pub path_takes_part: bool,
}

/// State of a sender's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequestState {
    Asking { until: Instant, attempts: u8 },
    Granted { asked_at: Instant, is_confirmed: bool, is_waiting: bool },
    GivenUp,
}

/// The sender of a flow that asks for rates.
#[derive(Clone, Debug)]
pub struct RateInitiator {
    wish: Wish,
    nonce: u32,
    /// TTL of the packet that carried the last request, minus the QTTL of the request.
    ttl_difference: u8,
    state: RequestState,
    granted: Rates,
    /// Requested rates of the reverse direction, as the nodes on the path have reduced them.
    ///
    /// The confirmation reports these rates to the nodes and to the receiver.
    reverse: Rates,
}

impl RateInitiator {
    /// Returns a sender that has not asked yet. `nonce` must be random.
    pub fn new(wish: Wish, nonce: u32) -> RateInitiator {
        let state = RequestState::Asking { until: Instant::ZERO, attempts: 0 };
        let (granted, reverse) = (Rates::default(), Rates::default());
        RateInitiator { wish, nonce, ttl_difference: 0, state, granted, reverse }
    }

    /// Returns the signal to put into a packet that leaves with the TTL `ttl`, if a signal is due.
    ///
    /// `qttl` is the signal's own TTL and must be random. `round_trip` is the measured RTT, or an estimate.
    pub fn on_packet(&mut self, now: Instant, ttl: u8, qttl: u8, round_trip: Duration) -> Option<Signal> {
        match &mut self.state {
            RequestState::Asking { until, attempts } => {
                if now < *until {
                    return None;
                }
                // The missing answer may have been lost by chance, and the flow may last long. The request is therefore
                // repeated, so that the flow does not remain plain TCP.
                *attempts = attempts.saturating_add(1);
                *until = now + round_trip * (1 << (*attempts).min(MOST_DOUBLINGS));
                self.ttl_difference = ttl_difference(ttl, qttl);
                Some(self.build_signal(Message::Request, qttl))
            }
            RequestState::Granted { is_confirmed: confirmed @ false, .. } => {
                *confirmed = true;
                let confirm = self.build_signal(Message::Confirm, qttl);
                Some(Signal { echoed: self.granted, reverse: self.reverse, ..confirm })
            }
            RequestState::Granted { asked_at, is_waiting, .. } if now - *asked_at >= round_trip => {
                // An update that was not answered need not be awaited: the next update requests the same rates.
                (*asked_at, *is_waiting) = (now, true);
                self.ttl_difference = ttl_difference(ttl, qttl);
                Some(self.update(qttl))
            }
            RequestState::Granted { .. } | RequestState::GivenUp => None,
        }
    }

    /// Processes a signal from the receiver. Returns the granted rates if they change.
    ///
    /// The caller has verified the tag. `arrived_difference` is the difference of TTL and QTTL with which the request
    /// arrived at the receiver. The answer contains it.
    pub fn on_signal(&mut self, now: Instant, signal: &Signal, arrived_difference: u8) -> Option<Rates> {
        if signal.nonce != self.nonce {
            return None;
        }
        if signal.message == Message::Reject {
            self.state = RequestState::GivenUp;
            self.granted = Rates::default();
            return Some(self.granted);
        }
        let is_awaited = match self.state {
            RequestState::Asking { attempts, .. } => attempts > 0,
            RequestState::Granted { is_waiting, .. } => is_waiting,
            RequestState::GivenUp => false,
        };
        if signal.message != Message::Response || !is_awaited {
            return None;
        }
        let asked = self.wish.signal.forward;
        let exceeds = signal.echoed.available > asked.available || signal.echoed.guaranteed > asked.guaranteed;
        // The answer may be to an earlier packet. If a router does not process the signals, all answers are ignored
        // here, and the flow stays plain TCP.
        if exceeds || (!self.wish.path_takes_part && arrived_difference != self.ttl_difference) {
            return None;
        }
        self.granted = signal.echoed;
        let wish = self.wish.signal.reverse;
        self.reverse = Rates {
            available: signal.reverse.available.min(wish.available),
            guaranteed: signal.reverse.guaranteed.min(wish.guaranteed),
        };
        self.state = RequestState::Granted { asked_at: now, is_confirmed: false, is_waiting: false };
        Some(self.granted)
    }

    /// Returns the total rate that the flow may send: its guaranteed rate plus its available rate.
    ///
    /// Returns `None` if there is no grant, or if the grant does not limit the rate.
    pub fn rate(&self) -> Option<Rate> {
        if !matches!(self.state, RequestState::Granted { .. }) {
            return None;
        }
        explicit_rate(self.granted)
    }

    /// Returns the nonce of the request.
    pub fn nonce(&self) -> u32 {
        self.nonce
    }

    /// True if the flow is plain TCP: it was refused, has ended, or got no answer to more than three requests.
    ///
    /// In the last case the sender still repeats the request, at long intervals.
    pub fn has_given_up(&self) -> bool {
        match self.state {
            RequestState::Asking { attempts, .. } => attempts > ATTEMPTS,
            RequestState::Granted { .. } => false,
            RequestState::GivenUp => true,
        }
    }

    /// Ends the flow. Returns the RELEASE signal to send, if any rate was granted.
    pub fn release(&mut self, qttl: u8) -> Option<Signal> {
        let had = matches!(self.state, RequestState::Granted { .. });
        self.state = RequestState::GivenUp;
        had.then(|| self.build_signal(Message::Release, qttl))
    }

    /// Returns an update that asks only for the guaranteed rate that the flow has.
    ///
    /// If each update requested more, each node would reserve more until the answer arrives. Other flows could not use
    /// that rate meanwhile.
    fn update(&self, qttl: u8) -> Signal {
        let update = self.build_signal(Message::Update, qttl);
        let forward = Rates { guaranteed: self.granted.guaranteed.min(update.forward.guaranteed), ..update.forward };
        Signal { forward, ..update }
    }

    fn build_signal(&self, message: Message, qttl: u8) -> Signal {
        Signal { message, nonce: self.nonce, qttl, ..self.wish.signal }
    }
}

/// Returns the sum of the guaranteed and the available rate (ER = GR + AR); `None` if either has no limit.
pub fn explicit_rate(granted: Rates) -> Option<Rate> {
    let Rates { available, guaranteed } = granted;
    Some(Rate::from_bps(available.rate()?.bps().saturating_add(guaranteed.rate()?.bps())))
}

/// Returns the receiver's answer to a request or an update, or `None` for another message.
///
/// `takes` are the highest rates that the receiver accepts. The requested rates of the reverse direction stay as they
/// arrived.
pub fn respond(request: &Signal, takes: Rates, qttl: u8) -> Option<Signal> {
    let mut arrived = *request;
    if !matches!(request.message, Message::Request | Message::Update) {
        return None;
    }
    arrived.pass(Direction::Forward, takes, 0);
    Some(Signal {
        message: Message::Response,
        is_lowered: arrived.is_lowered,
        echoed: arrived.forward,
        hops: 0,
        qttl,
        ..arrived
    })
}

/// Rates of [`respond`] for a receiver that accepts every rate.
pub const TAKES_ALL: Rates = Rates { available: Rate16::UNLIMITED, guaranteed: Rate16::UNLIMITED };
