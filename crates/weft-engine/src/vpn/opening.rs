//! How a VPN is opened with a peer: it is asked for its receiver index, and packets wait for the answer.

use crate::unit::Segment;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use weft_core::queue::Arrival;
use weft_session::VpnStanding;
use weft_units::{Duration, Instant, VpnId};

/// A question is asked again after this long without an answer.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// Packets wait no longer than this.
const PATIENCE: Duration = Duration::from_secs(3);
/// A peer that said no is not asked again for this long.
const REFUSED_FOR: Duration = Duration::from_secs(2);
/// Packets that wait for one VPN, and for all VPNs of a peer.
const MAX_WAITING: usize = 64;
const MAX_WAITING_OF_PEER: usize = 2_048;
/// What a peer may still be told; it asks again for what was forgotten.
const MAX_NEWS: usize = 1_024;

/// What becomes of a packet of a VPN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    /// It goes its way.
    Pass,
    /// It waits until the peer has answered.
    Wait,
    /// The peer takes nothing of this VPN.
    Refuse,
}

/// Something to tell the peer about a VPN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum News {
    /// This node's index, and a question for the peer's.
    Ask(VpnId),
    /// This node's index.
    Answer(VpnId),
    /// There is none.
    Refuse(VpnId),
}

/// A VPN that the peer was asked about.
struct Opening {
    since: Instant,
    /// When something is to be done about it.
    due: Instant,
    is_refused: bool,
    waiting: VecDeque<(Arrival, Segment)>,
}

/// The VPNs that are not, or not under the newest key, open with one peer, and what waits for them.
#[derive(Default)]
pub(crate) struct Openings {
    by_vpn: BTreeMap<VpnId, Opening>,
    by_time: BTreeSet<(Instant, VpnId)>,
    waiting: usize,
    news: VecDeque<News>,
    /// The same, to be found without a search through all of it.
    news_known: BTreeSet<News>,
}

impl Openings {
    /// Where a packet of `vpn` goes now; the first that cannot go its way has the peer asked.
    #[inline]
    pub(crate) fn gate(&mut self, now: Instant, vpn: VpnId, standing: VpnStanding) -> Gate {
        if self.by_vpn.is_empty() && standing == VpnStanding::Open {
            return Gate::Pass;
        }
        self.gate_of_some(now, vpn, standing)
    }

    fn gate_of_some(&mut self, now: Instant, vpn: VpnId, standing: VpnStanding) -> Gate {
        match self.by_vpn.get(&vpn) {
            Some(opening) if opening.is_refused => return Gate::Refuse,
            None if standing != VpnStanding::Open => self.begin(now, vpn),
            _ => {}
        }
        if standing == VpnStanding::Closed { Gate::Wait } else { Gate::Pass }
    }

    fn begin(&mut self, now: Instant, vpn: VpnId) {
        self.by_vpn.insert(vpn, Opening { since: now, due: now, is_refused: false, waiting: VecDeque::new() });
        self.by_time.insert((now, vpn));
    }

    /// Lets a packet wait; gives it back when there is no room.
    pub(crate) fn wait(&mut self, vpn: VpnId, arrival: Arrival, segment: Segment) -> Result<(), Segment> {
        let has_room = self.waiting < MAX_WAITING_OF_PEER;
        let opening = self.by_vpn.get_mut(&vpn).filter(|opening| has_room && opening.waiting.len() < MAX_WAITING);
        let Some(opening) = opening else { return Err(segment) };
        opening.waiting.push_back((arrival, segment));
        self.waiting += 1;
        Ok(())
    }

    /// The peer told its index; gives what waited for it. Nothing more is asked if the VPN `is_open` under the newest key.
    pub(crate) fn answered(&mut self, vpn: VpnId, is_open: bool) -> VecDeque<(Arrival, Segment)> {
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

    /// The peer takes nothing of it; gives what waited.
    pub(crate) fn refused(&mut self, now: Instant, vpn: VpnId) -> VecDeque<(Arrival, Segment)> {
        let waited = self.answered(vpn, true);
        let due = now + REFUSED_FOR;
        self.by_vpn.insert(vpn, Opening { since: now, due, is_refused: true, waiting: VecDeque::new() });
        self.by_time.insert((due, vpn));
        waited
    }

    /// Tells the peer something, unless it is told too much already.
    pub(crate) fn tell(&mut self, news: News) {
        if self.news.len() < MAX_NEWS && self.news_known.insert(news) {
            self.news.push_back(news);
        }
    }

    /// What to tell next.
    pub(crate) fn news(&self) -> Option<News> {
        self.news.front().copied()
    }

    /// It was told.
    pub(crate) fn told(&mut self) {
        if let Some(news) = self.news.pop_front() {
            self.news_known.remove(&news);
        }
    }

    /// Asks what is to be asked now, and gives up what waited for too long. Whether there was something to ask.
    pub(crate) fn on_time(&mut self, now: Instant, mut given_up: impl FnMut(Segment)) -> bool {
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
            self.tell(News::Ask(vpn));
            has_asked = true;
        }
        has_asked
    }

    /// When [`Openings::on_time`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.by_time.first().map(|(due, _)| *due)
    }

    /// A new session: what was told is void, what was asked is asked again at once.
    pub(crate) fn on_new_session(&mut self, now: Instant) {
        self.news.clear();
        self.news_known.clear();
        self.by_time.clear();
        for (vpn, opening) in &mut self.by_vpn {
            opening.due = now;
            self.by_time.insert((now, *vpn));
        }
    }

    /// Makes the questions for which packets wait due at once: those before were probably lost.
    pub(crate) fn hurry(&mut self, now: Instant) {
        for (vpn, opening) in self.by_vpn.iter_mut().filter(|(_, opening)| !opening.waiting.is_empty()) {
            self.by_time.remove(&(opening.due, *vpn));
            opening.due = opening.due.min(now);
            self.by_time.insert((opening.due, *vpn));
        }
    }

    /// Forgets everything; gives what waited.
    pub(crate) fn clear(&mut self, mut given_up: impl FnMut(Segment)) {
        for opening in core::mem::take(self).by_vpn.into_values() {
            opening.waiting.into_iter().for_each(|(_, segment)| given_up(segment));
        }
    }

    /// Packets that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }
}
