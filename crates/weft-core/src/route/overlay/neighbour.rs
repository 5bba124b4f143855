use super::OverlayTiming;
use super::link::{NeighbourLink, ProbePace, Quality};
use alloc::boxed::Box;
use weft_units::{Duration, Instant, NodeId};
use weft_wire::overlay::NodeState;

/// Time for which a link counts as used after the overlay forwarded a packet on it.
const USED_FOR: Duration = Duration::from_secs(1);
/// Minimum time between two queries of the same kind to one neighbour.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Whether another node is a member of this node's table, is still on trial, or is silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeStanding {
    /// Another node named the node, and this node has not admitted it to the table yet.
    Candidate,
    /// The node is in the table, or is one of the next nodes on the ring.
    Member,
    /// The node answered no probes, or no longer. It is probed only occasionally.
    Lost,
}

/// State of one kind of query to a neighbour: open, answered, or outdated by the neighbour's later changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeighbourQuery {
    asked_at: Option<Instant>,
    is_open: bool,
    answered: Option<u8>,
}

impl NeighbourQuery {
    /// True if the query should be sent: the neighbour's last answer is outdated, and [`ASK_AGAIN`] has passed.
    ///
    /// `news` is the present value of the neighbour's counter of changes.
    pub fn is_worth_asking(&self, now: Instant, news: u8) -> bool {
        self.answered != Some(news) && self.may_ask(now)
    }

    /// True if the last query to the neighbour was at least [`ASK_AGAIN`] ago.
    pub fn may_ask(&self, now: Instant) -> bool {
        self.asked_at.is_none_or(|at| now - at >= ASK_AGAIN)
    }

    /// Records that the query is sent to the neighbour.
    pub fn ask(&mut self, now: Instant) {
        (self.asked_at, self.is_open) = (Some(now), true);
    }

    /// Processes an answer. Returns false if no query was open.
    ///
    /// `news` is the value of the neighbour's counter of changes when it answered.
    pub fn answer(&mut self, news: u8) -> bool {
        if self.is_open {
            (self.is_open, self.answered) = (false, Some(news));
            return true;
        }
        false
    }

    /// Records that there is nothing to ask until the neighbour's counter of changes differs from `news`.
    pub fn skip(&mut self, news: u8) {
        self.answered = Some(news);
    }

    /// Discards the neighbour's previous answer to the query.
    pub fn renew(&mut self) {
        self.answered = None;
    }

    /// True if the neighbour has answered this query since the last [`NeighbourQuery::renew`].
    pub fn is_answered(&self) -> bool {
        self.answered.is_some()
    }
}

/// A detour around a direct link that is down. The third node `via` forwards messages that it cannot decrypt.
#[derive(Clone, Debug)]
pub struct Detour {
    pub via: NodeId,
    pub link: NeighbourLink,
}

/// What this node stores about another node of the overlay, with the links to it.
#[derive(Clone, Debug)]
pub struct OverlayNeighbour {
    pub details: Box<[u8]>,
    pub standing: NodeStanding,
    /// The direct link to the neighbour.
    pub link: NeighbourLink,
    pub detour: Option<Box<Detour>>,
    /// Number of third nodes tried since the node fell silent.
    pub detours_tried: usize,
    /// Number of third nodes that may still be tried in the present search for a detour.
    pub detours_left: usize,
    /// State that the node reported last: whether it is ready, and its counters of changes.
    pub state: NodeState,
    pub near: NeighbourQuery,
    pub row: NeighbourQuery,
    /// Time at which the next probe to the node must be sent or becomes overdue.
    pub timer: Instant,
    last_used: Option<Instant>,
}

impl OverlayNeighbour {
    pub fn candidate(details: &[u8]) -> OverlayNeighbour {
        OverlayNeighbour {
            details: details.into(),
            standing: NodeStanding::Candidate,
            link: NeighbourLink::default(),
            detour: None,
            detours_tried: 0,
            detours_left: 0,
            state: NodeState::default(),
            near: NeighbourQuery::default(),
            row: NeighbourQuery::default(),
            timer: Instant::FAR_FUTURE,
            last_used: None,
        }
    }

    pub fn is_member(&self) -> bool {
        self.standing == NodeStanding::Member
    }

    /// Returns the link that packets take: the detour if the direct link is down.
    pub fn way(&self) -> &NeighbourLink {
        match &self.detour {
            Some(detour) if self.link.quality() == Quality::Down => &detour.link,
            _ => &self.link,
        }
    }

    /// Returns the third node through which packets travel while the direct link is down, or `None` without a detour.
    pub fn via(&self) -> Option<NodeId> {
        self.detour.as_ref().filter(|_| self.link.quality() == Quality::Down).map(|detour| detour.via)
    }

    /// Returns the link over which a message arrived: the direct link, or the detour through the third node `via`.
    pub fn link_via(&mut self, via: Option<NodeId>) -> Option<&mut NeighbourLink> {
        match via {
            None => Some(&mut self.link),
            Some(via) => self.detour.as_mut().filter(|detour| detour.via == via).map(|detour| &mut detour.link),
        }
    }

    /// True if packets may be sent to this node.
    pub fn is_usable(&self) -> bool {
        self.is_member() && self.state.is_ready && self.way().quality() != Quality::Down
    }

    /// True if the direct link works.
    ///
    /// Others may then learn of this node, and this node may forward to it.
    pub fn is_close(&self) -> bool {
        self.is_member() && self.link.quality() < Quality::Suspect
    }

    /// Returns quality and latency of the link to the node. Nodes are ranked by them: the lowest value is the best.
    pub fn rank(&self) -> (Quality, Duration) {
        (self.way().quality(), self.way().latency())
    }

    /// Returns the time at which a probe on the direct link or the detour must be sent or becomes overdue next.
    pub fn due(&self, now: Instant, timing: &OverlayTiming) -> Instant {
        let pace = self.pace(now, timing);
        let detour = self.detour.as_ref().map_or(Instant::FAR_FUTURE, |detour| detour.link.due(pace));
        self.link.due(pace).min(detour)
    }

    /// Counts overdue probes as missed, and returns the numbers of the probes to send now.
    ///
    /// The first is for the direct link, the second for the detour. Each stands behind the third node, if there is one.
    pub fn on_timeout(&mut self, now: Instant, timing: &OverlayTiming) -> [Option<(Option<NodeId>, u32)>; 2] {
        let pace = self.pace(now, timing);
        self.link.settle(now);
        let direct = self.link.poll_probe(now, pace).map(|seq| (None, seq));
        let around = self.detour.as_mut().and_then(|detour| {
            detour.link.settle(now);
            detour.link.poll_probe(now, pace).map(|seq| (Some(detour.via), seq))
        });
        [direct, around]
    }

    pub fn on_use(&mut self, now: Instant) {
        self.last_used = Some(now);
    }

    pub fn was_used(&self, now: Instant) -> bool {
        self.last_used.is_some_and(|at| now - at < USED_FOR)
    }

    fn pace(&self, now: Instant, timing: &OverlayTiming) -> ProbePace {
        if self.was_used(now) { timing.used } else { timing.idle }
    }
}
