use super::Timing;
use super::link::{Link, Pace, Quality};
use alloc::boxed::Box;
use weft_units::{Duration, Instant, NodeId};
use weft_wire::overlay::NodeState;

/// A link counts as used for so long after a packet.
const USED_FOR: Duration = Duration::from_secs(1);
/// Between two questions of a kind to one neighbour.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What another node is to this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Somebody named it; it has not been admitted.
    Candidate,
    /// In the table or the leaf set.
    Member,
    /// Was a member, and fell silent.
    Lost,
}

/// A question to a neighbour: open, answered, or outdated by its news.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question {
    asked_at: Option<Instant>,
    is_open: bool,
    answered: Option<u8>,
}

impl Question {
    /// Whether to ask, if `news` is what the neighbour's counter says now.
    pub fn is_worth_asking(&self, now: Instant, news: u8) -> bool {
        self.answered != Some(news) && self.may_ask(now)
    }

    /// The last time was long enough ago.
    pub fn may_ask(&self, now: Instant) -> bool {
        self.asked_at.is_none_or(|at| now - at >= ASK_AGAIN)
    }

    /// It is being asked.
    pub fn ask(&mut self, now: Instant) {
        (self.asked_at, self.is_open) = (Some(now), true);
    }

    /// Takes in an answer; false if nothing was asked.
    pub fn answer(&mut self, news: u8) -> bool {
        if self.is_open {
            (self.is_open, self.answered) = (false, Some(news));
            return true;
        }
        false
    }

    /// There is nothing to ask until the neighbour has news.
    pub fn skip(&mut self, news: u8) {
        self.answered = Some(news);
    }

    /// What was answered does not count any more.
    pub fn renew(&mut self) {
        self.answered = None;
    }

    /// There was an answer that still counts.
    pub fn is_answered(&self) -> bool {
        self.answered.is_some()
    }
}

/// A way around a link that is down: by a third node, which hands on what it cannot read.
#[derive(Clone, Debug)]
pub struct Detour {
    pub via: NodeId,
    pub link: Link,
}

/// Another node, and the links to it.
#[derive(Clone, Debug)]
pub struct Neighbour {
    pub details: Box<[u8]>,
    pub standing: Standing,
    /// The direct one.
    pub link: Link,
    pub detour: Option<Box<Detour>>,
    /// Third nodes tried since it fell silent.
    pub detours_tried: usize,
    /// Third nodes that may still be tried before it is left alone for a while.
    pub detours_left: usize,
    /// What it said last.
    pub state: NodeState,
    pub near: Question,
    pub row: Question,
    /// When its timer is set to.
    pub timer: Instant,
    last_used: Option<Instant>,
}

impl Neighbour {
    pub fn candidate(details: &[u8]) -> Neighbour {
        Neighbour {
            details: details.into(),
            standing: Standing::Candidate,
            link: Link::default(),
            detour: None,
            detours_tried: 0,
            detours_left: 0,
            state: NodeState::default(),
            near: Question::default(),
            row: Question::default(),
            timer: Instant::FAR_FUTURE,
            last_used: None,
        }
    }

    pub fn is_member(&self) -> bool {
        self.standing == Standing::Member
    }

    /// The link that packets take.
    pub fn way(&self) -> &Link {
        match &self.detour {
            Some(detour) if self.link.quality() == Quality::Down => &detour.link,
            _ => &self.link,
        }
    }

    /// The third node that packets go by.
    pub fn via(&self) -> Option<NodeId> {
        self.detour.as_ref().filter(|_| self.link.quality() == Quality::Down).map(|detour| detour.via)
    }

    /// The link by which something came.
    pub fn link_via(&mut self, via: Option<NodeId>) -> Option<&mut Link> {
        match via {
            None => Some(&mut self.link),
            Some(via) => self.detour.as_mut().filter(|detour| detour.via == via).map(|detour| &mut detour.link),
        }
    }

    /// Packets may be sent by it.
    pub fn is_usable(&self) -> bool {
        self.is_member() && self.state.is_ready && self.way().quality() != Quality::Down
    }

    /// It is next to this node: others may be told of it, and packets for it may be handed on.
    pub fn is_close(&self) -> bool {
        self.is_member() && self.link.quality() < Quality::Suspect
    }

    /// The best first: what is worth keeping.
    pub fn rank(&self) -> (Quality, Duration) {
        (self.way().quality(), self.way().latency())
    }

    /// When one of the links has something to do.
    pub fn due(&self, now: Instant, timing: &Timing) -> Instant {
        let pace = self.pace(now, timing);
        let detour = self.detour.as_ref().map_or(Instant::FAR_FUTURE, |detour| detour.link.due(pace));
        self.link.due(pace).min(detour)
    }

    /// Gives up what is overdue; gives the probes that are to be sent, with the way each takes.
    pub fn on_timeout(&mut self, now: Instant, timing: &Timing) -> [Option<(Option<NodeId>, u32)>; 2] {
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

    fn pace(&self, now: Instant, timing: &Timing) -> Pace {
        if self.was_used(now) { timing.used } else { timing.idle }
    }
}
