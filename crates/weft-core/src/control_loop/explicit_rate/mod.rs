//! The third law: the rate that the nodes on the way grant (paper 001's explicit rates, for the loops of papers 003 and 004).

mod link;

pub use link::{Ask, Grant, LinkConfig, LoopLink};

use super::ledger::Ledger;
use super::marker::{Marker, Report};
use super::token_bucket::TokenBucket;
use super::{Credit, Losses, Status};
use crate::service::Share;
use alloc::sync::Arc;
use weft_units::{Duration, Instant, Rate};

/// Weights below count as this; the nodes' law is of a loop of this weight.
pub const UNIT_WEIGHT: f64 = 1.0 / 16.0;

/// Markers in a round trip,
const MARKERS: u32 = 4;
/// but not closer than this, nor farther apart than the second.
const APART: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// A round trip for whom everything is near.
const LEAST_ROUND: Duration = Duration::from_millis(10);
/// What was not used is lost but for so many times what was.
const HEADROOM: f64 = 2.0;
/// Intervals of the rate that may be in flight beside a round trip, and packets.
const FLIGHT: f64 = 4.0;

/// The numbers of [`ExplicitRate`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExplicitRateConfig {
    /// The most that leaves at once, in bytes.
    pub burst_bytes: u32,
    /// From marker to marker; a quarter of a round trip where none is given.
    pub interval: Option<Duration>,
    /// How it comes to know of losses.
    pub losses: Losses,
    /// How late a waiting packet may be let go without the rate being missed for it: the processor is busy, or it is another's turn. What
    /// has been missed leaves at once, for the paths below to pace.
    pub late: Duration,
    /// The rate at the start, until it has been granted one.
    pub initial: Rate,
    /// The rate is never below.
    pub floor: Rate,
    /// The rate is never above: the access link.
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

/// A loop that sends what it is granted: A + w R, where R is the least that a node on the way grants for a unit of weight
/// ([`LoopLink`]), w its weight and A what it is promised.
///
/// - *Down* at once; *up* by as much again each round trip, so that nobody takes a large grant that was of no use to others at one blow.
/// - *Use it or lose it*: whose queue runs empty keeps twice what it used in a round trip, and a burst.
/// - *Losses and CE marks* say nothing that nodes do not say, so that a link that loses by chance costs nothing.
/// - *Silence* for a time-out halves the rate, where losses are counted. Beside that λ (RTT + 4 T) + 4 σ is the most in flight, so that
///   reports that stop stop the loop.
/// - *Nobody grants*: the loop stays at its initial rate, or what it is promised.
#[derive(Clone, Debug)]
pub struct ExplicitRate {
    ledger: Ledger,
    config: Arc<ExplicitRateConfig>,
    share: Share,
    bucket: TokenBucket,
    granted: Option<Grant>,
    /// λ, bits per second.
    rate_bps: f64,
    /// What has been sent since then, and whether the VPN's queue ran empty.
    round_at: Instant,
    round_bytes: u32,
    emptied: bool,
    backlogged: bool,
}

impl ExplicitRate {
    /// A loop at its initial rate; a leased line at its own. Loops share a configuration.
    pub fn new(config: Arc<ExplicitRateConfig>, share: Share) -> ExplicitRate {
        let mut this = ExplicitRate {
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

    /// Whether a packet may leave.
    pub fn credit(&self, now: Instant, bytes: u32) -> Credit {
        let in_flight = self.ledger.in_flight();
        if in_flight > 0 && f64::from(in_flight) + f64::from(bytes) > self.most_in_flight() {
            return Credit::OnReport;
        }
        let at = self.bucket.ready_at(now, bytes, self.rate_bps);
        if at > now { Credit::At(at) } else { Credit::Now }
    }

    /// Counts a packet that leaves. `more`: others wait behind it.
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

    /// Takes in a report.
    pub fn on_report(&mut self, now: Instant, report: &Report) {
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

    /// The nodes on the way grant this.
    pub fn on_grant(&mut self, now: Instant, grant: Grant) {
        self.granted = (grant != Grant::UNLIMITED).then_some(grant);
        self.go(now, self.rate_bps);
    }

    /// What the loop says of itself to nodes.
    pub fn ask(&self) -> Ask {
        let feedback = self.ledger.rtt.min().max(LEAST_ROUND) + self.interval() * 2;
        Ask { weight: self.share.weight(), feedback, granted: Grant::UNLIMITED }
    }

    /// Packets were lost for good, as known from below.
    pub fn on_loss(&mut self, packets: u32) {
        self.ledger.on_lost(packets);
    }

    /// When [`ExplicitRate::on_deadline`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.ledger.deadline(self.patience()).map(|deadline| deadline + self.interval())
    }

    fn patience(&self) -> Duration {
        self.config.losses.patience(self.backlogged)
    }

    /// At the deadline: a marker to send by itself.
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

    /// Changes weight and service; a leased line has its rate at once.
    pub fn set_share(&mut self, now: Instant, share: Share) {
        self.share = share;
        self.go(now, self.rate_bps);
    }

    /// What the loop does now.
    pub fn status(&self) -> Status {
        let rtt = self.ledger.rtt.smoothed();
        let rate = Rate::from_bps(self.rate_bps as u64);
        Status {
            rate,
            window_bytes: rate.bytes_in(rtt),
            delivered: Rate::from_bps(self.ledger.delivered_bps() as u64),
            rtt,
            rtt_min: self.ledger.rtt.min(),
            loss_event_rate: None,
            lost_packets: self.ledger.lost_packets(),
            in_flight_bytes: self.ledger.in_flight(),
            accumulation_bytes: 0,
            backlogged: self.backlogged,
        }
    }

    /// T: the time from marker to marker.
    pub fn interval(&self) -> Duration {
        self.config.interval.unwrap_or_else(|| (self.ledger.rtt.min() / MARKERS).clamp(APART.0, APART.1))
    }

    fn round(&self) -> Duration {
        self.ledger.rtt.smoothed().max(LEAST_ROUND)
    }

    /// Who was idle for long begins with less, down to the initial rate. What the bucket made others wait for is no idling.
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

    /// From now on the rate is this, within what is granted.
    fn go(&mut self, now: Instant, rate_bps: f64) {
        self.bucket.fill(now, self.rate_bps);
        self.rate_bps = rate_bps;
        self.bound();
    }

    /// A + w R, as far as there is so much.
    fn granted_bps(&self, grant: &Grant) -> f64 {
        let promised = self.share.service().rate().bps() as f64 * grant.promised;
        let weight = self.share.weight().max(UNIT_WEIGHT);
        (promised + weight * grant.share.bps() as f64).min(grant.most.bps() as f64)
    }

    /// What is promised is had at once, unless nodes say that it is not there.
    fn bound(&mut self) {
        let service = self.share.service();
        let promised = service.rate().bps() as f64 * self.granted.map_or(1.0, |grant| grant.promised);
        let granted = self.granted.map_or(f64::INFINITY, |grant| self.granted_bps(&grant));
        let least = service.floor().max(self.config.floor).bps() as f64;
        self.rate_bps = self.rate_bps.max(promised).min(granted).min(self.config.cap.bps() as f64).max(least);
    }
}
