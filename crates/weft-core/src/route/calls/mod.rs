//! Calls to the root of a key, and their answers, over the overlay (key-based routing: Dabek et al., "Towards a common API for structured
//! peer-to-peer overlays", IPTPS 2003).
//!
//! A call goes from node to node to the root of its key; there whoever has the application's number answers it. The answer goes the same
//! way to the caller's identifier, of which the caller is the root. No session is needed between the two; and only neighbours are
//! authenticated to each other, so that any node on the way may change a call or an answer, and anybody may name any source. What a body
//! says has to prove itself.
//!
//! A call that is not answered is repeated: it may come more than once. What a node hands on for one neighbour, and answers to one
//! source, is bounded.

mod rates;

use super::overlay::{Duplicates, NextHop, Overlay};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;
use rates::Rates;
use weft_units::{Duration, Instant, NodeId, Rng};
use weft_wire::WireError;
use weft_wire::call::{Header, Kind, MAX_BODY, Message};

/// Nodes that may forward a call.
const MOST_HOPS: u8 = 32;
/// Calls that wait for an answer at a time.
const MOST_OPEN: usize = 512;
/// Messages that wait to be sent.
const MOST_OUTGOING: usize = 1_024;
/// Calls and answers a second that are taken from one neighbour, and how many at once.
const FROM_NEIGHBOUR: (u32, u32) = (400, 400);
/// Calls a second that are answered to one source, and how many at once.
const FROM_SOURCE: (u32, u32) = (50, 100);

/// How long to wait for an answer, and how often to ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// After this it is asked again; then after twice as long, and so on.
    pub first: Duration,
    /// How often it is asked.
    pub tries: u8,
}

/// Why a call was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallError {
    /// More than [`MAX_BODY`] bytes.
    TooLong,
    /// Too many calls wait for an answer.
    Busy,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::TooLong => write!(f, "a call carries at most {MAX_BODY} bytes"),
            CallError::Busy => write!(f, "{MOST_OPEN} calls wait for an answer"),
        }
    }
}

impl core::error::Error for CallError {}

/// A call that came to this node, the root of its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The caller, as those on the way say.
    pub source: NodeId,
    /// Its number of the call.
    pub number: u32,
    /// Where the call was to go.
    pub key: NodeId,
    /// Who is to read it.
    pub application: u16,
    /// What it says.
    pub body: Box<[u8]>,
}

/// What has become of calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// One came.
    Asked(Asked),
    /// One was answered.
    Answered {
        /// As [`Calls::call`] gave it.
        number: u32,
        /// Who answered, as those on the way say.
        by: NodeId,
        /// What it says.
        body: Box<[u8]>,
    },
    /// One was not, however often it was made.
    Unanswered {
        /// As [`Calls::call`] gave it.
        number: u32,
    },
}

/// A call that waits for its answer.
#[derive(Clone, Debug)]
struct Open {
    key: NodeId,
    application: u16,
    body: Box<[u8]>,
    wait: Duration,
    tries_left: u8,
    due: Instant,
}

/// A node's calls, and those it hands on.
#[derive(Clone, Debug)]
pub struct Calls {
    run: u32,
    next_seq: u32,
    rng: Rng,
    open: BTreeMap<u32, Open>,
    duplicates: Duplicates,
    from_neighbours: Rates,
    from_sources: Rates,
    outgoing: VecDeque<(NodeId, Box<[u8]>)>,
    events: VecDeque<Event>,
}

impl Calls {
    /// A node without calls; `run` is higher than at its last start.
    pub fn new(run: u32, rng: Rng) -> Calls {
        Calls {
            run,
            next_seq: 0,
            rng,
            open: BTreeMap::new(),
            duplicates: Duplicates::default(),
            from_neighbours: Rates::new(FROM_NEIGHBOUR),
            from_sources: Rates::new(FROM_SOURCE),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Makes a call to the root of `key`, and gives it a number. An event tells its end.
    ///
    /// # Errors
    /// [`CallError`]; nothing was sent then.
    pub fn call(
        &mut self,
        now: Instant,
        overlay: &Overlay,
        key: NodeId,
        application: u16,
        body: &[u8],
        patience: Patience,
    ) -> Result<u32, CallError> {
        if body.len() > MAX_BODY {
            return Err(CallError::TooLong);
        }
        if self.open.len() >= MOST_OPEN {
            return Err(CallError::Busy);
        }
        let number = self.unused_number();
        let Patience { first, tries } = patience;
        let open = Open { key, application, body: body.into(), wait: first, tries_left: tries, due: now };
        self.open.insert(number, open);
        self.try_again(now, overlay, number);
        Ok(number)
    }

    /// Waits no more for the answer to a call: no event follows.
    pub fn forget(&mut self, number: u32) {
        self.open.remove(&number);
    }

    /// Answers a call.
    ///
    /// # Errors
    /// [`CallError::TooLong`].
    pub fn answer(&mut self, now: Instant, overlay: &Overlay, asked: &Asked, body: &[u8]) -> Result<(), CallError> {
        if body.len() > MAX_BODY {
            return Err(CallError::TooLong);
        }
        let header = self.header(overlay, asked.source);
        self.route(now, overlay, Message { header, number: asked.number, kind: Kind::Answer, body });
        Ok(())
    }

    /// Takes in a call or an answer that the neighbour `from` hands on.
    ///
    /// # Errors
    /// As [`Message::parse`]; nothing has changed then.
    pub fn handle_message(
        &mut self,
        now: Instant,
        overlay: &Overlay,
        from: NodeId,
        bytes: &[u8],
    ) -> Result<(), WireError> {
        let message = Message::parse(bytes)?;
        if self.from_neighbours.allow(now, from) {
            self.route(now, overlay, message);
        }
        Ok(())
    }

    /// Repeats the calls that are due, and gives up those that were made often enough.
    pub fn handle_timeout(&mut self, now: Instant, overlay: &Overlay) {
        let is_due = |(number, open): (&u32, &Open)| (open.due <= now).then_some(*number);
        for number in self.open.iter().filter_map(is_due).collect::<alloc::vec::Vec<_>>() {
            self.try_again(now, overlay, number);
        }
    }

    /// When to call [`Calls::handle_timeout`].
    pub fn next_timeout(&self) -> Instant {
        self.open.values().map(|open| open.due).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The next message, and the neighbour it is for.
    pub fn poll_transmit(&mut self) -> Option<(NodeId, Box<[u8]>)> {
        self.outgoing.pop_front()
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// No answer to somebody else's guess.
    fn unused_number(&mut self) -> u32 {
        loop {
            let number = self.rng.next_u64() as u32;
            if !self.open.contains_key(&number) {
                return number;
            }
        }
    }

    fn header(&mut self, overlay: &Overlay, key: NodeId) -> Header {
        self.next_seq = self.next_seq.wrapping_add(1);
        let (source, run, seq) = (overlay.id(), self.run, self.next_seq);
        Header { key, source, run, seq, hops_left: MOST_HOPS, was_duplicated: false }
    }

    fn try_again(&mut self, now: Instant, overlay: &Overlay, number: u32) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let Some(tries_left) = open.tries_left.checked_sub(1) else {
            self.open.remove(&number);
            self.events.push_back(Event::Unanswered { number });
            return;
        };
        (open.tries_left, open.due, open.wait) = (tries_left, now + open.wait, open.wait * 2);
        let (key, kind, body) = (open.key, Kind::Call { application: open.application }, open.body.clone());
        let header = self.header(overlay, key);
        self.route(now, overlay, Message { header, number, kind, body: &body });
    }

    fn route(&mut self, now: Instant, overlay: &Overlay, mut message: Message<'_>) {
        match overlay.next_hop_of_one(now, &mut message.header, &mut self.duplicates) {
            NextHop::Deliver => self.deliver(now, overlay, message),
            NextHop::Forward(to) => self.send(to, &message),
            NextHop::Duplicate(first, second) => {
                self.send(first, &message);
                self.send(second, &message);
            }
            NextHop::Drop => {}
        }
    }

    fn deliver(&mut self, now: Instant, overlay: &Overlay, message: Message<'_>) {
        let Message { header, number, kind, body } = message;
        let event = match kind {
            Kind::Call { application }
                if header.source == overlay.id() || self.from_sources.allow(now, header.source) =>
            {
                Event::Asked(Asked { source: header.source, number, key: header.key, application, body: body.into() })
            }
            Kind::Answer if header.key == overlay.id() && self.open.remove(&number).is_some() => {
                Event::Answered { number, by: header.source, body: body.into() }
            }
            _ => return,
        };
        self.events.push_back(event);
    }

    fn send(&mut self, to: NodeId, message: &Message<'_>) {
        let mut out = [0; weft_wire::call::MAX_MESSAGE];
        if let Ok(len) = message.emit(&mut out)
            && self.outgoing.len() < MOST_OUTGOING
        {
            self.outgoing.push_back((to, out.get(..len).unwrap_or_default().into()));
        }
    }
}

#[cfg(test)]
mod tests;
