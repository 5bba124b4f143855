//! Calls to the root of a key, and their answers, over the overlay.
//!
//! This is key-based routing (Dabek et al., "Towards a common API for structured peer-to-peer overlays", IPTPS 2003).
//! A call is a request message to a key. The root of a key is the node whose identifier is nearest to the key. The
//! overlay forwards a call from node to node to the root. At the root, the application with the call's application
//! number answers it. The answer is routed to the caller's identifier, whose root is the caller.
//!
//! Caller and root need no session. Only neighbours authenticate each other, so any node on the route may change a
//! call or an answer, and any node may forge a source. The body must therefore contain its own proof.
//!
//! An unanswered call is sent again, so a root may receive it more than once. The module limits the messages that it
//! forwards for one neighbour and the calls that it answers for one source.

mod rates;

use super::overlay::{Duplicates, NextHop, OverlayState};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;
use rates::PerNodeLimit;
use weft_units::{Duration, Instant, NodeId, Rng};
use weft_wire::WireError;
use weft_wire::call::{CallKind, CallMessage, Header, MAX_BODY};

/// Maximum number of nodes that may forward a call.
const MOST_HOPS: u8 = 32;
/// Maximum number of calls that wait for an answer.
const MOST_OPEN: usize = 512;
/// Maximum number of messages that wait to be sent.
const MOST_OUTGOING: usize = 1_024;
/// Limit of calls and answers accepted from one neighbour: messages per second, and burst in messages.
const FROM_NEIGHBOUR: (u32, u32) = (400, 400);
/// Limit of the calls of one source that this node answers: calls per second, and burst in calls.
const FROM_SOURCE: (u32, u32) = (50, 100);

/// Time after which an own call is sent again, and the number of attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Time after which an unanswered call is sent again. It doubles with each attempt.
    pub first: Duration,
    /// Maximum number of times that the call is sent.
    pub tries: u8,
}

/// Reason why a call was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallError {
    /// The body of the call or answer is longer than [`MAX_BODY`] bytes.
    TooLong,
    /// Too many calls of this node wait for an answer.
    Busy,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::TooLong => write!(f, "a call carries at most {MAX_BODY} bytes"),
            CallError::Busy => write!(f, "too many calls wait for an answer: at most {MOST_OPEN} may be open"),
        }
    }
}

impl core::error::Error for CallError {}

/// A call that arrived at this node, because this node is the nearest to the call's key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedCall {
    /// Identifier of the caller, as stated by the nodes on the route.
    pub source: NodeId,
    /// Number that the caller gave the call.
    pub number: u32,
    /// Key to which the call was addressed.
    pub key: NodeId,
    /// Number of the application for which the call is meant.
    pub application: u16,
    /// Content of the call for the application.
    pub body: Box<[u8]>,
}

/// A call that arrived at this node for an answer, or the result of a call that this node made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallEvent {
    /// A call of another node arrived.
    Asked(ReceivedCall),
    /// An own call was answered.
    Answered {
        /// Number of the call, as returned by [`Calls::call`].
        number: u32,
        /// Identifier of the answering node, as stated by the nodes on the route.
        by: NodeId,
        /// Content of the answer, without its header.
        body: Box<[u8]>,
    },
    /// An own call was not answered after all attempts.
    Unanswered {
        /// Number of the call, as returned by [`Calls::call`].
        number: u32,
    },
}

/// An own call that waits for its answer.
#[derive(Clone, Debug)]
struct OpenCall {
    key: NodeId,
    application: u16,
    body: Box<[u8]>,
    wait: Duration,
    tries_left: u8,
    due: Instant,
}

/// The calls that this node made, and the forwarding of calls and answers of other nodes.
#[derive(Clone, Debug)]
pub struct Calls {
    run: u32,
    next_seq: u32,
    rng: Rng,
    open: BTreeMap<u32, OpenCall>,
    duplicates: Duplicates,
    from_neighbours: PerNodeLimit,
    from_sources: PerNodeLimit,
    outgoing: VecDeque<(NodeId, Box<[u8]>)>,
    events: VecDeque<CallEvent>,
}

impl Calls {
    /// Returns the state of a node that has made no call yet.
    ///
    /// `run` numbers the starts of the node: it must be higher than at the last start, so that receivers do not take
    /// calls for duplicates of earlier ones.
    pub fn new(run: u32, rng: Rng) -> Calls {
        Calls {
            run,
            next_seq: 0,
            rng,
            open: BTreeMap::new(),
            duplicates: Duplicates::default(),
            from_neighbours: PerNodeLimit::new(FROM_NEIGHBOUR),
            from_sources: PerNodeLimit::new(FROM_SOURCE),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Sends a call to the node nearest to `key` and returns the call's number. An event reports the result.
    ///
    /// # Errors
    ///
    /// Returns a [`CallError`] if nothing was sent.
    pub fn call(
        &mut self,
        now: Instant,
        overlay: &OverlayState,
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
        let open = OpenCall { key, application, body: body.into(), wait: first, tries_left: tries, due: now };
        self.open.insert(number, open);
        self.try_again(now, overlay, number);
        Ok(number)
    }

    /// Stops waiting for the answer to a call. No event follows.
    pub fn forget(&mut self, number: u32) {
        self.open.remove(&number);
    }

    /// Sends the answer `body` to the caller of a call that arrived here.
    pub fn answer(
        &mut self,
        now: Instant,
        overlay: &OverlayState,
        asked: &ReceivedCall,
        body: &[u8],
    ) -> Result<(), CallError> {
        if body.len() > MAX_BODY {
            return Err(CallError::TooLong);
        }
        let header = self.header(overlay, asked.source);
        self.route(now, overlay, CallMessage { header, number: asked.number, kind: CallKind::Answer, body });
        Ok(())
    }

    /// Processes a call or an answer that the neighbour `from` forwarded.
    ///
    /// # Errors
    ///
    /// Fails as [`CallMessage::parse`] does. Nothing has changed then.
    pub fn handle_message(
        &mut self,
        now: Instant,
        overlay: &OverlayState,
        from: NodeId,
        bytes: &[u8],
    ) -> Result<(), WireError> {
        let message = CallMessage::parse(bytes)?;
        if self.from_neighbours.allow(now, from) {
            self.route(now, overlay, message);
        }
        Ok(())
    }

    /// Sends due calls again, and ends calls whose attempts are used up.
    pub fn handle_timeout(&mut self, now: Instant, overlay: &OverlayState) {
        let is_due = |(number, open): (&u32, &OpenCall)| (open.due <= now).then_some(*number);
        for number in self.open.iter().filter_map(is_due).collect::<alloc::vec::Vec<_>>() {
            self.try_again(now, overlay, number);
        }
    }

    /// Returns the time at which the next call of [`Calls::handle_timeout`] is due.
    pub fn next_timeout(&self) -> Instant {
        self.open.values().map(|open| open.due).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Removes and returns the next message to send, and the neighbour to which to send it.
    pub fn poll_transmit(&mut self) -> Option<(NodeId, Box<[u8]>)> {
        self.outgoing.pop_front()
    }

    /// Removes and returns the oldest event: a call that arrived, or the result of an own call.
    pub fn poll_event(&mut self) -> Option<CallEvent> {
        self.events.pop_front()
    }

    /// Returns a random number for an own call. It differs from those of the calls that wait for an answer.
    ///
    /// Other nodes cannot guess it, so they cannot forge an answer.
    fn unused_number(&mut self) -> u32 {
        loop {
            let number = self.rng.next_u64() as u32;
            if !self.open.contains_key(&number) {
                return number;
            }
        }
    }

    fn header(&mut self, overlay: &OverlayState, key: NodeId) -> Header {
        self.next_seq = self.next_seq.wrapping_add(1);
        let (source, run, seq) = (overlay.id(), self.run, self.next_seq);
        Header { key, source, run, seq, hops_left: MOST_HOPS, was_duplicated: false }
    }

    fn try_again(&mut self, now: Instant, overlay: &OverlayState, number: u32) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let Some(tries_left) = open.tries_left.checked_sub(1) else {
            self.open.remove(&number);
            self.events.push_back(CallEvent::Unanswered { number });
            return;
        };
        (open.tries_left, open.due, open.wait) = (tries_left, now + open.wait, open.wait * 2);
        let (key, kind, body) = (open.key, CallKind::Call { application: open.application }, open.body.clone());
        let header = self.header(overlay, key);
        self.route(now, overlay, CallMessage { header, number, kind, body: &body });
    }

    fn route(&mut self, now: Instant, overlay: &OverlayState, mut message: CallMessage<'_>) {
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

    fn deliver(&mut self, now: Instant, overlay: &OverlayState, message: CallMessage<'_>) {
        let CallMessage { header, number, kind, body } = message;
        let event = match kind {
            CallKind::Call { application }
                if header.source == overlay.id() || self.from_sources.allow(now, header.source) =>
            {
                CallEvent::Asked(ReceivedCall {
                    source: header.source,
                    number,
                    key: header.key,
                    application,
                    body: body.into(),
                })
            }
            CallKind::Answer if header.key == overlay.id() && self.open.remove(&number).is_some() => {
                CallEvent::Answered { number, by: header.source, body: body.into() }
            }
            _ => return,
        };
        self.events.push_back(event);
    }

    fn send(&mut self, to: NodeId, message: &CallMessage<'_>) {
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
