//! The two ends of a flow that ask for explicit rates: REQUEST, RESPONSE, CONFIRM, then UPDATEs (paper 001, Figure 2).
//!
//! Neither end does more than one thing a round trip, and every message may be lost, repeated, late or forged: a request is asked again
//! until its answer comes, after three at ever longer intervals, and until then the flow is plain TCP; a confirmation goes with every packet after the answer until the next
//! update; an answer counts only with the request's nonce, with rates that were asked for, and, where the path is not known to take part as a
//! whole, with the TTL difference that says that each router did.

use weft_units::{Duration, Instant, Rate};
use weft_wire::er_sig::{Direction, Message, Rate16, Rates, Signal, ttl_difference};

/// After so many requests without an answer the flow is taken for plain.
const ATTEMPTS: u8 = 3;
/// The time to the next request is doubled so often at most: it comes about a thousand round trips later.
const MOST_DOUBLINGS: u8 = 10;

/// What the sender wants, and for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The structure as it leaves, but for message, nonce, QTTL and tag; its forward and reverse rates are the wish.
    pub signal: Signal,
    /// Every router of the path is known to take part, so that no TTL is looked at.
    pub path_takes_part: bool,
}

/// How a sender stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Asking { until: Instant, attempts: u8 },
    Granted { asked_at: Instant, is_confirmed: bool, is_waiting: bool },
    GivenUp,
}

/// The sender's end.
#[derive(Clone, Debug)]
pub struct Initiator {
    wish: Wish,
    nonce: u32,
    /// Of the packet that asked: its TTL less the structure's.
    ttl_difference: u8,
    state: State,
    granted: Rates,
    /// Of the way back: what the nodes there left of the wish, which the confirmation tells them and the other end.
    reverse: Rates,
}

impl Initiator {
    /// A sender that has not asked yet. `nonce` is random.
    pub fn new(wish: Wish, nonce: u32) -> Initiator {
        let state = State::Asking { until: Instant::ZERO, attempts: 0 };
        let (granted, reverse) = (Rates::default(), Rates::default());
        Initiator { wish, nonce, ttl_difference: 0, state, granted, reverse }
    }

    /// The signal for a packet that leaves with this TTL, if one is due. `qttl` is random; `round_trip` is measured, or a guess.
    pub fn on_packet(&mut self, now: Instant, ttl: u8, qttl: u8, round_trip: Duration) -> Option<Signal> {
        match &mut self.state {
            State::Asking { until, attempts } => {
                if now < *until {
                    return None;
                }
                // Silence may be chance, and the flow long: one that never asked again would be plain TCP for its whole life.
                *attempts = attempts.saturating_add(1);
                *until = now + round_trip * (1 << (*attempts).min(MOST_DOUBLINGS));
                self.ttl_difference = ttl_difference(ttl, qttl);
                Some(self.say(Message::Request, qttl))
            }
            State::Granted { is_confirmed: confirmed @ false, .. } => {
                *confirmed = true;
                let confirm = self.say(Message::Confirm, qttl);
                Some(Signal { echoed: self.granted, reverse: self.reverse, ..confirm })
            }
            State::Granted { asked_at, is_waiting, .. } if now - *asked_at >= round_trip => {
                // One that was not answered is not waited for: the next asks the same.
                (*asked_at, *is_waiting) = (now, true);
                self.ttl_difference = ttl_difference(ttl, qttl);
                Some(self.update(qttl))
            }
            State::Granted { .. } | State::GivenUp => None,
        }
    }

    /// A signal from the other end came, whose tag was found right: the rates now granted, if it changes them. `arrived_difference` is the
    /// request's at the receiver, as its answer repeats it.
    pub fn on_signal(&mut self, now: Instant, signal: &Signal, arrived_difference: u8) -> Option<Rates> {
        if signal.nonce != self.nonce {
            return None;
        }
        if signal.message == Message::Reject {
            self.state = State::GivenUp;
            self.granted = Rates::default();
            return Some(self.granted);
        }
        let is_awaited = match self.state {
            State::Asking { attempts, .. } => attempts > 0,
            State::Granted { is_waiting, .. } => is_waiting,
            State::GivenUp => false,
        };
        if signal.message != Message::Response || !is_awaited {
            return None;
        }
        let asked = self.wish.signal.forward;
        let exceeds = signal.echoed.available > asked.available || signal.echoed.guaranteed > asked.guaranteed;
        // It may answer an earlier packet; if some router takes no part, all do as if, and the flow stays plain.
        if exceeds || (!self.wish.path_takes_part && arrived_difference != self.ttl_difference) {
            return None;
        }
        self.granted = signal.echoed;
        let wish = self.wish.signal.reverse;
        self.reverse = Rates {
            available: signal.reverse.available.min(wish.available),
            guaranteed: signal.reverse.guaranteed.min(wish.guaranteed),
        };
        self.state = State::Granted { asked_at: now, is_confirmed: false, is_waiting: false };
        Some(self.granted)
    }

    /// What the flow may send in all: ER = GR + AR; `None` without a grant, or without a limit.
    pub fn rate(&self) -> Option<Rate> {
        if !matches!(self.state, State::Granted { .. }) {
            return None;
        }
        explicit_rate(self.granted)
    }

    /// The request's number.
    pub fn nonce(&self) -> u32 {
        self.nonce
    }

    /// Whether the flow is plain TCP: it was refused, or is over, or three requests were not answered, after which it asks now and then.
    pub fn has_given_up(&self) -> bool {
        match self.state {
            State::Asking { attempts, .. } => attempts > ATTEMPTS,
            State::Granted { .. } => false,
            State::GivenUp => true,
        }
    }

    /// The flow ends: what to say, if anything was granted.
    pub fn release(&mut self, qttl: u8) -> Option<Signal> {
        let had = matches!(self.state, State::Granted { .. });
        self.state = State::GivenUp;
        had.then(|| self.say(Message::Release, qttl))
    }

    /// Of the guaranteed rate it asks what it has: to book more each time only to release it would keep that from others.
    fn update(&self, qttl: u8) -> Signal {
        let update = self.say(Message::Update, qttl);
        let forward = Rates { guaranteed: self.granted.guaranteed.min(update.forward.guaranteed), ..update.forward };
        Signal { forward, ..update }
    }

    fn say(&self, message: Message, qttl: u8) -> Signal {
        Signal { message, nonce: self.nonce, qttl, ..self.wish.signal }
    }
}

/// ER = GR + AR; `None` without a limit.
pub fn explicit_rate(granted: Rates) -> Option<Rate> {
    let Rates { available, guaranteed } = granted;
    Some(Rate::from_bps(available.rate()?.bps().saturating_add(guaranteed.rate()?.bps())))
}

/// The receiver's answer to a request or an update; `takes` is what it can take. Its own wish for the way back is in the request.
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

/// No limit of its own.
pub const TAKES_ALL: Rates = Rates { available: Rate16::UNLIMITED, guaranteed: Rate16::UNLIMITED };
