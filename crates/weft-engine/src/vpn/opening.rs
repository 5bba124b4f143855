//! Opens VPNs with a peer.
//!
//! The peer is asked for its *receiver index* of each VPN. Datagrams of the VPN to the peer must carry this index.
//! Packets wait for the answer, for a limited time and in limited number. Frames about VPNs are queued here until a
//! control datagram carries them.

use crate::units::Segment;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use weft_core::queue::Arrival;
use weft_session::VpnStanding;
use weft_units::{Duration, Instant, VpnId};

/// Time without an answer after which the request to open a VPN is sent to the peer again.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// Longest time for which a packet waits for the peer to open its VPN.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time for which a peer that refused a VPN gets no further request for it.
const REFUSED_FOR: Duration = Duration::from_secs(2);
/// Maximum number of packets that wait for one VPN.
const MAX_WAITING: usize = 64;
/// Maximum number of packets that wait for all VPNs of a peer.
const MAX_WAITING_OF_PEER: usize = 2_048;
/// Maximum number of pending frames about VPNs. If a frame is dropped, the peer asks again.
const MAX_NEWS: usize = 1_024;

/// The decision about a packet to the peer in a VPN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateDecision {
    /// The packet may be queued.
    Pass,
    /// The packet waits for the peer's answer.
    Wait,
    /// The packet is refused, because the peer refuses the VPN.
    Refuse,
}

/// A pending frame to the peer about a VPN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum News {
    /// Sends this node's receiver index for the VPN and requests the peer's.
    Ask(VpnId),
    /// Sends this node's receiver index for the VPN, as the peer requested.
    Answer(VpnId),
    /// Tells the peer that this node refuses the VPN.
    Refuse(VpnId),
}

/// A VPN that the peer was asked to open.
struct Opening {
    since: Instant,
    /// Time at which the next request to the peer is due.
    due: Instant,
    is_refused: bool,
    waiting: VecDeque<(Arrival, Segment)>,
}

/// The VPNs that are not open with one peer under its newest session key, and the packets that wait for them.
#[derive(Default)]
pub struct Openings {
    by_vpn: BTreeMap<VpnId, Opening>,
    by_time: BTreeSet<(Instant, VpnId)>,
    waiting: usize,
    news: VecDeque<News>,
    /// The pending frames as a set, for fast lookup.
    news_known: BTreeSet<News>,
}

impl Openings {
    /// Returns the decision about a packet of `vpn`. If the VPN is not open, the first packet causes a request.
    #[inline]
    pub fn gate(&mut self, now: Instant, vpn: VpnId, standing: VpnStanding) -> GateDecision {
        if self.by_vpn.is_empty() && standing == VpnStanding::Open {
            return GateDecision::Pass;
        }
        self.gate_of_some(now, vpn, standing)
    }

    fn gate_of_some(&mut self, now: Instant, vpn: VpnId, standing: VpnStanding) -> GateDecision {
        match self.by_vpn.get(&vpn) {
            Some(opening) if opening.is_refused => return GateDecision::Refuse,
            None if standing != VpnStanding::Open => self.begin(now, vpn),
            _ => {}
        }
        if standing == VpnStanding::Closed { GateDecision::Wait } else { GateDecision::Pass }
    }

    fn begin(&mut self, now: Instant, vpn: VpnId) {
        self.by_vpn.insert(vpn, Opening { since: now, due: now, is_refused: false, waiting: VecDeque::new() });
        self.by_time.insert((now, vpn));
    }

    /// Queues a packet until the VPN opens, in the order in which the packets arrived from the hosts.
    ///
    /// A packet that waited for a path before the VPN closed enters this queue later than packets that arrived after
    /// it.
    ///
    /// # Errors
    /// Returns the packet if there is no space.
    pub fn wait(&mut self, vpn: VpnId, arrival: Arrival, segment: Segment) -> Result<(), Segment> {
        let has_room = self.waiting < MAX_WAITING_OF_PEER;
        let opening = self.by_vpn.get_mut(&vpn).filter(|opening| has_room && opening.waiting.len() < MAX_WAITING);
        let Some(opening) = opening else { return Err(segment) };
        let before = opening.waiting.iter().rposition(|(_, other)| other.born <= segment.born);
        opening.waiting.insert(before.map_or(0, |at| at + 1), (arrival, segment));
        self.waiting += 1;
        Ok(())
    }

    /// Handles the peer's receiver index for a VPN, and returns the packets that waited for it.
    ///
    /// Requests for the VPN end if it is open under the newest session key (`is_open`).
    pub fn answered(&mut self, vpn: VpnId, is_open: bool) -> VecDeque<(Arrival, Segment)> {
        let Some(opening) = self.by_vpn.get_mut(&vpn) else { return VecDeque::new() };
        opening.is_refused = false;
        let (due, waited) = (opening.due, core::mem::take(&mut opening.waiting));
        self.waiting -= waited.len();
        if is_open {
            self.by_vpn.remove(&vpn);
            self.by_time.remove(&(due, vpn));
        }
        waited
    }

    /// Handles the peer's refusal of a VPN, and returns the packets that waited for it.
    pub fn refused(&mut self, now: Instant, vpn: VpnId) -> VecDeque<(Arrival, Segment)> {
        let waited = self.answered(vpn, true);
        let due = now + REFUSED_FOR;
        self.by_vpn.insert(vpn, Opening { since: now, due, is_refused: true, waiting: VecDeque::new() });
        self.by_time.insert((due, vpn));
        waited
    }

    /// Queues a frame for the peer, unless too many are pending.
    pub fn queue_frame(&mut self, news: News) {
        if self.news.len() < MAX_NEWS && self.news_known.insert(news) {
            self.news.push_back(news);
        }
    }

    /// Returns the next frame to send to the peer, or `None` if none is pending.
    pub fn news(&self) -> Option<News> {
        self.news.front().copied()
    }

    /// Removes the frame that [`Openings::news`] returns, because it was sent.
    pub fn on_frame_sent(&mut self) {
        if let Some(news) = self.news.pop_front() {
            self.news_known.remove(&news);
        }
    }

    /// Queues requests that are due, and gives up packets that waited too long. Returns true if a request was queued.
    pub fn on_time(&mut self, now: Instant, mut given_up: impl FnMut(Segment)) -> bool {
        let mut has_asked = false;
        while let Some(&(due, vpn)) = self.by_time.first().filter(|(due, _)| *due <= now) {
            self.by_time.remove(&(due, vpn));
            let Some(opening) = self.by_vpn.get_mut(&vpn) else { continue };
            if opening.is_refused || now - opening.since > PATIENCE {
                self.waiting -= opening.waiting.len();
                opening.waiting.drain(..).for_each(|(_, segment)| given_up(segment));
                self.by_vpn.remove(&vpn);
                continue;
            }
            opening.due = now + ASK_AGAIN;
            self.by_time.insert((opening.due, vpn));
            self.queue_frame(News::Ask(vpn));
            has_asked = true;
        }
        has_asked
    }

    /// Returns the time at which [`Openings::on_time`] next has work, or `None` if it has none.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.by_time.first().map(|(due, _)| *due)
    }

    /// Handles a new session: drops pending frames, and repeats all requests at once.
    pub fn on_new_session(&mut self, now: Instant) {
        self.news.clear();
        self.news_known.clear();
        self.by_time.clear();
        for (vpn, opening) in &mut self.by_vpn {
            opening.due = now;
            self.by_time.insert((now, *vpn));
        }
    }

    /// Repeats at once the requests for which packets wait.
    ///
    /// The earlier requests were probably lost.
    pub fn hurry(&mut self, now: Instant) {
        for (vpn, opening) in self.by_vpn.iter_mut().filter(|(_, opening)| !opening.waiting.is_empty()) {
            self.by_time.remove(&(opening.due, *vpn));
            opening.due = opening.due.min(now);
            self.by_time.insert((opening.due, *vpn));
        }
    }

    /// Drops all state. `given_up` gets each packet that waited.
    pub fn clear(&mut self, mut given_up: impl FnMut(Segment)) {
        for opening in core::mem::take(self).by_vpn.into_values() {
            opening.waiting.into_iter().for_each(|(_, segment)| given_up(segment));
        }
    }

    /// Returns the number of packets that wait for VPNs to open.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
}
