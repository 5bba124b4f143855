//! What a node grants the loops that go over one of its links.

use super::UNIT_WEIGHT;
use crate::explicit_rate::pi::{LinkState, PiConfig, PiRate};
use weft_units::{Duration, Instant, Rate};

/// What travels with a marker: what a loop says of itself to the nodes on its way, and what they say.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ask {
    /// Its weight.
    pub weight: f64,
    /// The longest time from a grant until what it changes has come, so far as the loop knows: a round trip and two markers' distance.
    pub feedback: Duration,
    /// The least that was granted so far.
    pub granted: Grant,
}

/// What a link, or all links of a way, grant a loop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Grant {
    /// For each unit of weight.
    pub share: Rate,
    /// The part of a promised rate that may be used; below one where promises exceed what there is.
    pub promised: f64,
    /// Nobody sends more.
    pub most: Rate,
}

impl Grant {
    /// Of a way on which nobody says anything.
    pub const UNLIMITED: Grant =
        Grant { share: Rate::from_bps(u64::MAX), promised: 1.0, most: Rate::from_bps(u64::MAX) };

    /// The less of each, as when a link comes after another.
    pub fn min(self, other: Grant) -> Grant {
        Grant {
            share: self.share.min(other.share),
            promised: self.promised.min(other.promised),
            most: self.most.min(other.most),
        }
    }
}

/// How a link grants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkConfig {
    /// Gains, and what is aimed at.
    pub pi: PiConfig,
    /// A loop alone gets so much of the capacity.
    pub most: f64,
}

impl Default for LinkConfig {
    fn default() -> LinkConfig {
        let pi = PiConfig { packet_bytes: LEAST_BYTES, ..PiConfig::default() };
        LinkConfig { most: pi.utilization, pi }
    }
}

/// A unit of [`UNIT_WEIGHT`] is granted at least so much a round trip: so that promises may give way down to a hundredth,
pub(super) const LEAST_BYTES: u32 = 1;
/// which they do from so much a round trip on.
const GIVE_WAY_BYTES: f64 = 100.0;
/// Looks at the link are a quarter of the feedback delay apart, within these.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));
/// From look to look the rate falls to so much at most: what it leads to is seen four looks later.
const MOST_FALL: f64 = 0.7;
/// Who asked last in this or the span before counts: so many feedback delays.
const SPAN: u32 = 32;
/// Assumed before anybody asked.
const FEEDBACK: Duration = Duration::from_millis(100);
/// A rate of one unit begins at this part of the capacity.
const BEGIN: f64 = 1.0 / 256.0;

/// The loops of a link as far as a node remembers them: the least weight, the longest feedback.
#[derive(Clone, Copy, Debug)]
struct Asked {
    weight: f64,
    feedback: Duration,
}

const NOBODY: Asked = Asked { weight: f64::INFINITY, feedback: Duration::ZERO };

/// One rate for every unit of weight, by [`PiRate`] of the link's queue: without a state for each, for loops that differ in weight and are
/// promised rates.
///
/// What the law steers is the rate of the least weight there can be. It begins to give way with promises (see [`Grant::promised`]) when
/// that is down to next to nothing, so one variable serves both. It never rises above what the lightest loop may use, else it would be
/// far off when the next comes.
#[derive(Clone, Debug)]
pub struct LoopLink {
    config: LinkConfig,
    law: Option<PiRate>,
    grant: Grant,
    looked_at: Instant,
    arrived_bytes: u64,
    /// In this span and in the one before.
    asked: [Asked; 2],
    span_began: Instant,
}

impl LoopLink {
    /// A link that nobody has asked yet.
    pub fn new(config: LinkConfig, now: Instant) -> LoopLink {
        LoopLink {
            config,
            law: None,
            grant: Grant::UNLIMITED,
            looked_at: now,
            arrived_bytes: 0,
            asked: [NOBODY; 2],
            span_began: now,
        }
    }

    /// Something came for the link, a loop's or not.
    #[inline]
    pub fn on_arrival(&mut self, bytes: u64) {
        self.arrived_bytes += bytes;
    }

    /// A loop's marker came for the link, which can carry so much and has so much waiting: takes a look at it if it is time, and
    /// writes down what is granted.
    pub fn stamp(&mut self, now: Instant, capacity: Rate, queued_bytes: u64, ask: &mut Ask) {
        self.hear(now, ask);
        if self.is_due(now) {
            self.look(now, capacity, queued_bytes);
        }
        ask.granted = ask.granted.min(self.grant);
    }

    /// A loop goes over the link.
    pub fn hear(&mut self, now: Instant, ask: &Ask) {
        if now - self.span_began >= self.feedback() * SPAN {
            (self.asked, self.span_began) = ([NOBODY, self.asked[0]], now);
        }
        let this = &mut self.asked[0];
        this.weight = this.weight.min(ask.weight);
        this.feedback = this.feedback.max(ask.feedback);
    }

    /// The longest feedback delay of those who asked lately.
    fn feedback(&self) -> Duration {
        let longest = self.asked[0].feedback.max(self.asked[1].feedback);
        if longest.is_zero() { FEEDBACK } else { longest }
    }

    /// Whether it is time for a look at the link.
    pub fn is_due(&self, now: Instant) -> bool {
        self.law.is_none() || now - self.looked_at >= (self.feedback() / 4).clamp(LOOK.0, LOOK.1)
    }

    /// Takes a look at the link, which can carry so much and has so much waiting.
    pub fn look(&mut self, now: Instant, capacity: Rate, queued_bytes: u64) {
        let elapsed = now - self.looked_at;
        let arriving = Rate::from_bps((self.arrived_bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9)) as u64);
        (self.looked_at, self.arrived_bytes) = (now, 0);
        let round_trip = self.feedback();
        let most = capacity.scaled(self.config.most);
        let lightest = self.asked[0].weight.min(self.asked[1].weight).clamp(UNIT_WEIGHT, 1.0 / UNIT_WEIGHT);
        match &mut self.law {
            None => self.law = Some(PiRate::new(self.config.pi, capacity.scaled(BEGIN), now)),
            Some(law) => {
                let least = law.rate().scaled(MOST_FALL);
                law.update(now, &LinkState { capacity, arriving, queued_bytes, round_trip });
                law.bound(least, most.scaled(UNIT_WEIGHT / lightest));
            }
        }
        let unit_bps = self.law.as_ref().map_or(0.0, |law| law.rate().bps() as f64);
        let gives_way_bps = GIVE_WAY_BYTES * 8.0 / round_trip.as_secs_f64();
        let share = Rate::from_bps((unit_bps / UNIT_WEIGHT) as u64);
        self.grant = Grant { share, promised: (unit_bps / gives_way_bps).min(1.0), most };
    }

    /// What is granted now.
    pub fn grant(&self) -> Grant {
        self.grant
    }
}
