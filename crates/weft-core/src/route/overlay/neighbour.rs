use super::link::{Link, Pace, Quality};
use super::{Timing, link};
use alloc::boxed::Box;
use weft_units::{Duration, Instant};
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

/// Another node, and the link to it.
#[derive(Clone, Debug)]
pub struct Neighbour {
    pub details: Box<[u8]>,
    pub standing: Standing,
    pub link: Link,
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

    /// Packets may be sent by it.
    pub fn is_usable(&self) -> bool {
        self.is_member() && self.state.is_ready && self.link.quality() != Quality::Down
    }

    /// Others may be told of it.
    pub fn is_worth_telling(&self) -> bool {
        self.is_member() && self.link.quality() < Quality::Suspect
    }

    /// The best first: what is worth keeping.
    pub fn rank(&self) -> (link::Quality, Duration) {
        (self.link.quality(), self.link.latency())
    }

    pub fn on_use(&mut self, now: Instant) {
        self.last_used = Some(now);
    }

    pub fn pace(&self, now: Instant, timing: &Timing) -> Pace {
        let is_used = self.last_used.is_some_and(|at| now - at < USED_FOR);
        if is_used { timing.used } else { timing.idle }
    }
}
