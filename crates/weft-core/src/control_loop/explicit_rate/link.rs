//! Rates that a node grants to the loops that cross one of its links.

use super::UNIT_WEIGHT;
use crate::explicit_rate::pi::{LinkState, PiConfig, PiRate};
use weft_units::{Duration, Instant, Rate};

/// Data that travels with a marker: the request of a loop to the nodes on its route, and the nodes' grant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ask {
    /// Weight of the loop that asks.
    pub weight: f64,
    /// Longest time until a grant of a node changes the rate that arrives at it: one RTT and two marker intervals.
    pub feedback: Duration,
    /// Minimum of the grants of the nodes that the marker has passed so far.
    pub granted: LoopGrant,
}

/// Grant of a link, or of all links of a route, to a loop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoopGrant {
    /// Rate per unit of weight.
    pub share: Rate,
    /// Fraction of its promised rate that the loop may use.
    ///
    /// It is below one if the promises of all loops exceed the capacity.
    pub promised: f64,
    /// Maximum rate of any single loop.
    pub most: Rate,
}

impl LoopGrant {
    /// Grant of a route on which no node limits the rate.
    pub const UNLIMITED: LoopGrant =
        LoopGrant { share: Rate::from_bps(u64::MAX), promised: 1.0, most: Rate::from_bps(u64::MAX) };

    /// Returns the minimum of each field, as for two links in series.
    pub fn min(self, other: LoopGrant) -> LoopGrant {
        LoopGrant {
            share: self.share.min(other.share),
            promised: self.promised.min(other.promised),
            most: self.most.min(other.most),
        }
    }
}

/// Parameters of a link's grants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GrantConfig {
    /// Gains and targets of the PI controller of the link's queue.
    pub pi: PiConfig,
    /// Maximum rate of a single loop, as a fraction of the link's capacity.
    pub most: f64,
}

impl Default for GrantConfig {
    fn default() -> GrantConfig {
        let pi = PiConfig { packet_bytes: LEAST_BYTES, ..PiConfig::default() };
        GrantConfig { most: pi.utilization, pi }
    }
}

/// Minimum grant to a loop of weight [`UNIT_WEIGHT`], in bytes per round trip.
///
/// Below [`GIVE_WAY_BYTES`] a grant reduces promised rates in proportion. With this minimum it reduces them to a
/// hundredth.
pub(super) const LEAST_BYTES: u32 = 1;
/// Grant to a loop of weight [`UNIT_WEIGHT`] below which promised rates are reduced too, in bytes per round trip.
const GIVE_WAY_BYTES: f64 = 100.0;
/// Minimum and maximum time between updates of the link's grant.
///
/// The time is a quarter of the feedback delay within these limits.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));
/// Minimum ratio of the granted rate after an update to that before.
///
/// The effect of a grant is visible only four updates later. With a larger step the rate could fall too far meanwhile.
const MOST_FALL: f64 = 0.7;
/// Length of a span of time, in feedback delays.
///
/// A link takes into account the loops that asked in the current span or in the previous one.
const SPAN: u32 = 32;
/// Feedback delay assumed before any loop has asked.
const FEEDBACK: Duration = Duration::from_millis(100);
/// Rate that the link first grants to a loop of weight [`UNIT_WEIGHT`], as a fraction of the capacity.
const BEGIN: f64 = 1.0 / 256.0;

/// The least weight and the longest feedback delay of the loops that asked in a span of time.
#[derive(Clone, Copy, Debug)]
struct FeedbackExtremes {
    weight: f64,
    feedback: Duration,
}

const NOBODY: FeedbackExtremes = FeedbackExtremes { weight: f64::INFINITY, feedback: Duration::ZERO };

/// Grants one rate per unit of weight to the loops of a link.
///
/// [`PiRate`] derives the rate from the link's queue. It keeps no state per loop. Loops may differ in weight and in
/// promised rates. The controlled rate is that of a loop of weight [`UNIT_WEIGHT`]. When that rate approaches zero, the
/// grant also reduces promises (see [`LoopGrant::promised`]). One variable thus controls the rate per weight and the
/// promised rates. The rate rises no further than until the loop with the least weight gets the maximum rate of a loop.
/// Otherwise it would be much too high when the next loop starts.
#[derive(Clone, Debug)]
pub struct LoopLink {
    config: GrantConfig,
    law: Option<PiRate>,
    grant: LoopGrant,
    updated_at: Instant,
    arrived_bytes: u64,
    /// Least weight and longest feedback delay of the loops that asked: in the current span, and in the previous one.
    asked: [FeedbackExtremes; 2],
    span_began: Instant,
}

impl LoopLink {
    /// Returns a link that no loop has asked yet.
    pub fn new(config: GrantConfig, now: Instant) -> LoopLink {
        LoopLink {
            config,
            law: None,
            grant: LoopGrant::UNLIMITED,
            updated_at: now,
            arrived_bytes: 0,
            asked: [NOBODY; 2],
            span_began: now,
        }
    }

    /// Counts bytes that arrived for the link, from a loop or from other traffic.
    #[inline]
    pub fn on_arrival(&mut self, bytes: u64) {
        self.arrived_bytes += bytes;
    }

    /// Handles a loop's marker that leaves by the link.
    ///
    /// It updates the link's grant if that is due. It then lowers the grant in `ask` to the link's grant. `capacity` is
    /// the rate that the link can carry, and `queued_bytes` is its backlog.
    pub fn stamp(&mut self, now: Instant, capacity: Rate, queued_bytes: u64, ask: &mut Ask) {
        self.on_ask(now, ask);
        if self.is_due(now) {
            self.update(now, capacity, queued_bytes);
        }
        ask.granted = ask.granted.min(self.grant);
    }

    /// Records the weight and the feedback delay of a loop that crosses the link.
    pub fn on_ask(&mut self, now: Instant, ask: &Ask) {
        if now - self.span_began >= self.feedback() * SPAN {
            (self.asked, self.span_began) = ([NOBODY, self.asked[0]], now);
        }
        let this = &mut self.asked[0];
        this.weight = this.weight.min(ask.weight);
        this.feedback = this.feedback.max(ask.feedback);
    }

    /// Returns the longest feedback delay of the loops that asked recently.
    fn feedback(&self) -> Duration {
        let longest = self.asked[0].feedback.max(self.asked[1].feedback);
        if longest.is_zero() { FEEDBACK } else { longest }
    }

    /// True if an update of the link is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.law.is_none() || now - self.updated_at >= (self.feedback() / 4).clamp(LOOK.0, LOOK.1)
    }

    /// Updates the grant from the link's capacity and its backlog.
    pub fn update(&mut self, now: Instant, capacity: Rate, queued_bytes: u64) {
        let elapsed = now - self.updated_at;
        let arriving = Rate::from_bps((self.arrived_bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9)) as u64);
        (self.updated_at, self.arrived_bytes) = (now, 0);
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
        self.grant = LoopGrant { share, promised: (unit_bps / gives_way_bps).min(1.0), most };
    }

    /// Returns the link's current grant to its loops.
    pub fn grant(&self) -> LoopGrant {
        self.grant
    }
}
