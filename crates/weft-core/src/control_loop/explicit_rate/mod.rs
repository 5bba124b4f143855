//! The third control law: the loop sends at the rate that the nodes on its route grant.
//!
//! It uses paper 001's explicit rates for the loops of papers 003 and 004. [`LoopLink`] runs at every node and writes
//! a grant into each passing marker. [`ExplicitRateLoop`] runs at the ingress edge and obeys the least grant. It decides
//! only when a packet may leave its VPN queue.

mod link;

pub use link::{Ask, GrantConfig, LoopGrant, LoopLink};

use super::ledger::Ledger;
use super::marker::{LoopReport, Marker};
use super::token_bucket::TokenBucket;
use super::{Credit, LoopStatus, Losses};
use crate::service::Share;
use alloc::sync::Arc;
use weft_units::{Duration, Instant, Rate};

/// Minimum weight of a loop. A lower weight is raised to this.
///
/// Each node computes the rate of a loop of this weight. The rates of other loops are multiples of it.
pub const UNIT_WEIGHT: f64 = 1.0 / 16.0;

/// Number of markers per round trip.
const MARKERS: u32 = 4;
/// Minimum and maximum time between markers.
const APART: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// Minimum length of a round, in which the loop measures the rate that it uses. Longer than the RTT of a short route.
const LEAST_ROUND: Duration = Duration::from_millis(10);
/// Multiple of the rate that it used up to which a loop may send next, if it does not use its whole grant.
const HEADROOM: f64 = 2.0;
/// Number of marker intervals, and of bursts, whose data may be in flight in addition to that of one round trip.
const FLIGHT: f64 = 4.0;

/// Parameters of [`ExplicitRateLoop`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExplicitRateConfig {
    /// Largest burst that leaves at once, in bytes.
    pub burst_bytes: u32,
    /// Time between markers. By default it is a quarter of the RTT.
    pub interval: Option<Duration>,
    /// Source from which the loop learns of losses.
    pub losses: Losses,
    /// Delay with which a waiting packet may be released, without a loss of rate.
    ///
    /// A busy processor or another VPN's turn may delay the release. The bytes that should have left in this time leave
    /// together, and the paths pace them.
    pub late: Duration,
    /// Rate of the loop until the first grant.
    pub initial: Rate,
    /// Minimum rate of the loop.
    pub floor: Rate,
    /// Maximum rate of the loop: the rate of the access link.
    pub cap: Rate,
}

impl Default for ExplicitRateConfig {
    fn default() -> ExplicitRateConfig {
        ExplicitRateConfig {
            burst_bytes: 1_500,
            interval: None,
            losses: Losses::Counted,
            late: Duration::from_millis(5),
            initial: Rate::from_bps(256_000),
            floor: Rate::from_bps(16_000),
            cap: Rate::from_mbps(100_000),
        }
    }
}

/// A loop that sends at its granted rate A + w R.
///
/// R is the least rate per unit of weight that a node on the route grants ([`LoopLink`]), w is the loop's weight, and
/// A its promised rate.
///
/// - *Rate changes*: the rate falls at once, and rises by at most a factor of two per round trip. A large grant that
///   other loops did not use is thus not used at once.
/// - *Use it or lose it*: a loop whose queue runs empty keeps twice the rate that it used in a round trip, and a
///   burst.
/// - *Losses and CE marks* have no effect, because the nodes grant the rates. A link with random losses costs
///   nothing.
/// - *Silence* for a time-out halves the rate under [`Losses::Counted`]. In addition at most λ (RTT + 4 T) + 4 σ is
///   in flight, with λ the loop's rate, T the time between markers and σ the largest burst. If reports stop, the loop
///   therefore stops.
/// - *No grants*: the loop stays at its initial rate, or at its promised rate.
#[derive(Clone, Debug)]
pub struct ExplicitRateLoop {
    ledger: Ledger,
    config: Arc<ExplicitRateConfig>,
    share: Share,
    bucket: TokenBucket,
    granted: Option<LoopGrant>,
    /// λ, the loop's rate, in bits per second.
    rate_bps: f64,
    /// Start of the current round.
    round_at: Instant,
    /// Bytes sent in the current round.
    round_bytes: u32,
    /// True if the VPN's queue ran empty in the current round.
    emptied: bool,
    backlogged: bool,
}

impl ExplicitRateLoop {
    /// Returns a loop at its initial rate.
    ///
    /// A leased line starts at its promised rate. Loops share one configuration.
    pub fn new(config: Arc<ExplicitRateConfig>, share: Share) -> ExplicitRateLoop {
        let mut this = ExplicitRateLoop {
            ledger: Ledger::default(),
            share,
            bucket: TokenBucket::new(config.burst_bytes, config.late),
            granted: None,
            rate_bps: config.initial.bps() as f64,
            round_at: Instant::ZERO,
            round_bytes: 0,
            emptied: false,
            backlogged: false,
            config,
        };
        this.bound();
        this
    }

    /// Returns whether and when a packet of `bytes` may leave.
    pub fn credit(&self, now: Instant, bytes: u32) -> Credit {
        let in_flight = self.ledger.in_flight();
        if in_flight > 0 && f64::from(in_flight) + f64::from(bytes) > self.most_in_flight() {
            return Credit::OnReport;
        }
        let at = self.bucket.ready_at(now, bytes, self.rate_bps);
        if at > now { Credit::At(at) } else { Credit::Now }
    }

    /// Counts a packet that leaves. Returns a marker to send with it, if one is due.
    ///
    /// `more` is true if other packets wait behind the packet.
    pub fn on_sent(&mut self, now: Instant, bytes: u32, more: bool) -> Option<Marker> {
        self.shrink_after_idling(now);
        self.bucket.take(now, bytes, self.rate_bps, more);
        self.ledger.on_sent(now, bytes);
        self.round_bytes = self.round_bytes.wrapping_add(bytes);
        self.emptied |= !more;
        self.backlogged = more;
        let first = self.ledger.sequence() == 0;
        let every = self.interval() * if self.config.losses.hurries(more) { 1 } else { 2 };
        let due = now - self.ledger.marked_at() >= every || first;
        due.then(|| self.ledger.mark(now, first || more))
    }

    /// Applies a report of the egress to the loop.
    pub fn on_report(&mut self, now: Instant, report: &LoopReport) {
        if self.ledger.on_report(now, report, self.config.losses).is_none() {
            return;
        }
        let (elapsed, round) = (now - self.round_at, self.round());
        if elapsed < round {
            return;
        }
        let used_bps = f64::from(self.round_bytes) * 8.0 / elapsed.as_secs_f64();
        let burst_bps = f64::from(self.config.burst_bytes) * 8.0 / round.as_secs_f64();
        let kept = if self.emptied { HEADROOM * used_bps + burst_bps } else { f64::INFINITY };
        let wanted = (self.rate_bps * HEADROOM).min(kept);
        let rate_bps = if self.granted.is_some() { wanted } else { self.rate_bps };
        (self.round_at, self.round_bytes, self.emptied) = (now, 0, false);
        self.go(now, rate_bps);
    }

    /// Applies the grant of the nodes on the route.
    pub fn on_grant(&mut self, now: Instant, grant: LoopGrant) {
        self.granted = (grant != LoopGrant::UNLIMITED).then_some(grant);
        self.go(now, self.rate_bps);
    }

    /// Returns the loop's request to the nodes on the route.
    pub fn ask(&self) -> Ask {
        let feedback = self.ledger.rtt.min().max(LEAST_ROUND) + self.interval() * 2;
        Ask { weight: self.share.weight(), feedback, granted: LoopGrant::UNLIMITED }
    }

    /// Records packets that the lower layers report as lost after recovery.
    pub fn on_loss(&mut self, packets: u32) {
        self.ledger.on_lost(packets);
    }

    /// Returns the time at which [`ExplicitRateLoop::on_deadline`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.ledger.deadline(self.patience()).map(|deadline| deadline + self.interval())
    }

    fn patience(&self) -> Duration {
        self.config.losses.patience(self.backlogged)
    }

    /// Once the deadline has passed, returns a marker to send by itself. Before it, returns `None`.
    pub fn on_deadline(&mut self, now: Instant) -> Option<Marker> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        let (marker, unanswered) = self.ledger.on_deadline(now, self.patience(), self.backlogged)?;
        if unanswered && self.config.losses == Losses::Counted {
            self.go(now, self.rate_bps / 2.0);
        }
        Some(marker)
    }

    /// Changes the loop's weight and service. A leased line gets its promised rate at once.
    pub fn set_share(&mut self, now: Instant, share: Share) {
        self.share = share;
        self.go(now, self.rate_bps);
    }

    /// Returns the loop's current state.
    pub fn status(&self) -> LoopStatus {
        let rtt = self.ledger.rtt.smoothed();
        let rate = Rate::from_bps(self.rate_bps as u64);
        LoopStatus {
            rate,
            window_bytes: rate.bytes_in(rtt),
            delivered: Rate::from_bps(self.ledger.delivered_bps() as u64),
            rtt,
            rtt_min: self.ledger.rtt.min(),
            loss_event_rate: None,
            lost_packets: self.ledger.lost_packets(),
            in_flight_bytes: self.ledger.in_flight(),
            accumulation_bytes: 0,
            epochs: 0,
            backlogged: self.backlogged,
        }
    }

    /// Returns T, the time between two markers of the loop.
    pub fn interval(&self) -> Duration {
        self.config.interval.unwrap_or_else(|| (self.ledger.rtt.min() / MARKERS).clamp(APART.0, APART.1))
    }

    fn round(&self) -> Duration {
        self.ledger.rtt.smoothed().max(LEAST_ROUND)
    }

    /// Lowers the rate of a loop after a long idle time, down to the initial rate.
    ///
    /// Time that a packet waited for the token bucket is not idle time.
    fn shrink_after_idling(&mut self, now: Instant) {
        if self.backlogged {
            return;
        }
        let round = self.round();
        let periods = (self.ledger.idle(now).as_nanos() / round.as_nanos().max(1)).min(40);
        if periods >= 2 {
            let initial = (self.config.initial.bps() as f64).min(self.rate_bps);
            self.go(now, (self.rate_bps / (1u64 << periods) as f64).max(initial));
            (self.round_at, self.round_bytes, self.emptied) = (now, 0, false);
        }
    }

    fn most_in_flight(&self) -> f64 {
        let time = self.ledger.rtt.smoothed().as_secs_f64() + FLIGHT * self.interval().as_secs_f64();
        self.rate_bps * time / 8.0 + FLIGHT * f64::from(self.config.burst_bytes)
    }

    /// Sets the rate, limited to the grant of the nodes and to the configured rates.
    fn go(&mut self, now: Instant, rate_bps: f64) {
        self.bucket.fill(now, self.rate_bps);
        self.rate_bps = rate_bps;
        self.bound();
    }

    /// Returns the rate that `grant` permits to this loop.
    ///
    /// It is the granted fraction of the promised rate, plus the weight times the granted share. It is at most the
    /// maximum rate of the grant.
    fn granted_bps(&self, grant: &LoopGrant) -> f64 {
        let promised = self.share.service().rate().bps() as f64 * grant.promised;
        let weight = self.share.weight().max(UNIT_WEIGHT);
        (promised + weight * grant.share.bps() as f64).min(grant.most.bps() as f64)
    }

    /// Limits the rate to the grant and to the configured rates.
    ///
    /// It is at least the promised rate, unless the nodes grant less.
    fn bound(&mut self) {
        let service = self.share.service();
        let promised = service.rate().bps() as f64 * self.granted.map_or(1.0, |grant| grant.promised);
        let granted = self.granted.map_or(f64::INFINITY, |grant| self.granted_bps(&grant));
        let least = service.floor().max(self.config.floor).bps() as f64;
        self.rate_bps = self.rate_bps.max(promised).min(granted).min(self.config.cap.bps() as f64).max(least);
    }
}
