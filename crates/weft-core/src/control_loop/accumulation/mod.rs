//! The control law of paper 004: a rate controlled by accumulation.
//!
//! The loop's markers and reports measure how many of its own bytes stand in queues on the route. [`Accumulation`]
//! lowers its rate when that number rises above a threshold. It decides only when a packet may leave its VPN queue. It
//! neither stores nor sends packets.

mod config;
mod epoch;
mod standing;
mod synchronisation;

pub use config::{AccumulationConfig, AccumulationMeasure};

use super::intervals::{CountedSample, SentIntervals};
use super::ledger::{Ledger, ReportDelta};
use super::marker::{LoopReport, Marker, is_after};
use super::token_bucket::TokenBucket;
use super::{Credit, LoopStatus, Losses};
use crate::service::Share;
use alloc::boxed::Box;
use alloc::sync::Arc;
use epoch::{CongestionEpoch, Course};
use standing::StandingDelay;
use synchronisation::{MarkerDelay, Synchronisation};
use weft_units::{Duration, Instant, Rate};

/// Number of intervals T whose data, at the current rate, may be in flight in addition to that of one round trip.
const FLIGHT_INTERVALS: f64 = 4.0;
/// The route counts as free of queues below this fraction of L, the accumulation at which an epoch ends.
const EMPTY: f32 = 0.1;
/// Upper limit of the factor by which a promised rate raises the thresholds H and L of the accumulation.
const MOST_PROMISE_SCALE: f64 = 4.0;
/// Fraction by which the rate λ grows in each time τ (about a round trip) during startup.
const CLIMB: f64 = 0.5;

/// Accumulation-based rate control between edges (paper 004), in bytes.
///
/// It detects congestion by its own bytes in queues, not by loss. The configuration selects one of two measures
/// ([`AccumulationMeasure`]). By counts, a(k) = a(k − 1) + (λ(k) − μ(k)) T over fixed intervals at both ends, as in the
/// paper. The loop then grows whenever it is in no epoch. A count below −σ shows that the intervals were started while
/// a queue stood: both ends start them anew. The rest of this text is of the other measure, by delay, unless it says
/// so.
///
/// Every T, the report on a marker yields three values. μ is the rate that arrived since the last report. q is the time
/// that the marker spent in queues. The accumulation a = μ q is the number of bytes that queues on the route delay.
///
/// - *Open*: λ ← λ + α, prorated to the time since the last report in units of τ, while the route has no queue: a <
///   L/10. Above L/10, λ stays. The fluid law grows only at a = 0. Growth up to L, or even L/4, keeps longer queues,
///   and shares are then less fair to loops with a smaller part of the queue: loops on long routes, and loops without
///   a promise.
/// - *Epoch*, from a > H until a < L: λ ← min(λ, β μ), so that λ stays at the least β μ. Other services back off as
///   [`Service::back_off`](crate::service::Service::back_off) defines.
/// - *Test*, after every synchronisation without a known base: λ stays until a marker arrives that is no faster than
///   the one to which the loop synchronised.
///
/// The following list names the points that the paper leaves open, and the solution here.
///
/// - *Variable packets.* Thresholds are multiples of σ, the largest burst that leaves at once: H = 2 σ, L = 1.5 σ. σ is
///   also the depth of the token bucket. If super-packets leave whole, σ is their size. If lower layers cut and pace
///   them, σ is the size of a piece. α counts packets, so that super-packets do not make the loop more aggressive.
/// - *Machines.* A marker's delay below the configured resolution is not taken as a queue: a = μ (q − resolution).
/// - *Lost markers and reports.* Counts are cumulative, so the next report covers the gap, and α is prorated. After a
///   silence of RTT + 4 · variation the loop sends a marker by itself and backs off as at congestion. After a second
///   silence the loop synchronises anew.
/// - *Loss and CE marks* are taken as congestion too, once per round trip: the queue was full, whatever the
///   accumulation is.
/// - *Delay changes.* A shorter path gives a negative accumulation and resynchronises the loop at once. A longer path
///   looks like a queue that does not drain although λ < μ. After eight flat intervals the loop resynchronises to it.
///   If it was a queue after all, its bytes are in `unpaid`, and the hold-down window pays them back. The loop then
///   sends up to w_max less per interval until nothing is left. A loop of a low rate drains too little to tell,
///   and between L/10 and H it drains nothing. It resynchronises when the delay has stood for 16 round trips.
/// - *Clock drift.* The base delay rises by 200 ppm. A clock step appears in only one direction, and the loop
///   resynchronises. Whenever the queues on the route are empty, the base is corrected at once. The loop empties its
///   part of the queues at the end of every epoch.
/// - *Conservation.* sent = received + lost + in flight. At most λ·(RTT + 4 T) + 4 σ is in flight. If reports stop,
///   the loop therefore stops, as with a window.
/// - *Weights and promises.* α, H and L are proportional to the weight. With equal thresholds the loop with the
///   larger share would be the first to exceed its threshold, and would back off alone. Use weights near one.
/// - *Start.* λ grows by half every τ until a queue appears. After idle times it does the same, up to the rate used
///   before (`startup`; without it only the paper's law applies). A VPN that has not used its rate in an interval
///   keeps the used rate plus σ.
#[derive(Clone, Debug)]
pub struct Accumulation {
    ledger: Ledger,
    config: Arc<AccumulationConfig>,
    share: Share,
    bucket: TokenBucket,
    base: AccumulationBase,
    phase: AccumulationPhase,
    standing: StandingDelay,
    /// λ, the loop's rate before the hold-down window is subtracted, in bits per second.
    rate_bps: f64,
    /// Rate up to which λ grows fast during startup, in bits per second.
    climb_to_bps: f64,
    /// Accumulation a of the last report, in bytes.
    accumulation: f32,
    /// Bytes in queues that the loop may have taken for a longer path at a resynchronisation (paper 004's a_global).
    unpaid: f32,
    last: AccumulationSample,
    /// True once `last` holds a measurement.
    has_last: bool,
    /// Number of packets that must be settled (received or lost) for the last congestion event to end.
    ///
    /// A loss belongs to that event until all packets sent before the event are settled.
    recover: u32,
    sent_bytes: u32,
    /// True if the VPN's queue ran empty since the last measurement.
    emptied: bool,
    backlogged: bool,
    silences: u8,
    /// Number of congestion epochs since the start, modulo 2^32.
    epochs: u32,
}

/// Reference against which the accumulation is measured.
///
/// A loop stores only the reference that its measure needs, which saves memory.
#[derive(Clone, Debug)]
enum AccumulationBase {
    /// The one-way delay of a route without queues.
    Delay(Synchronisation),
    /// Intervals that the ingress and the egress edge started with the same marker.
    Counted(Box<SentIntervals>),
}

impl AccumulationBase {
    fn of(measure: AccumulationMeasure) -> AccumulationBase {
        match measure {
            AccumulationMeasure::Delay => AccumulationBase::Delay(Synchronisation::default()),
            AccumulationMeasure::Counted => AccumulationBase::Counted(Box::default()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum AccumulationPhase {
    Test,
    Open,
    Epoch(CongestionEpoch),
}

/// Time and counters at the end of the last measurement.
#[derive(Clone, Copy, Debug, Default)]
struct AccumulationSample {
    /// Time of the last measurement in microseconds, modulo 2^32.
    at_us: u32,
    bytes: u32,
    received_at_us: u32,
}

impl Accumulation {
    /// Returns a loop at its initial rate.
    ///
    /// A leased line starts at its promised rate. Loops share one configuration.
    pub fn new(config: Arc<AccumulationConfig>, share: Share) -> Accumulation {
        let mut this = Accumulation {
            ledger: Ledger::default(),
            share,
            bucket: TokenBucket::new(config.burst_bytes, config.late),
            base: AccumulationBase::of(config.measure),
            phase: AccumulationPhase::Test,
            standing: StandingDelay::default(),
            rate_bps: config.initial.bps() as f64,
            climb_to_bps: if config.startup { f64::INFINITY } else { 0.0 },
            accumulation: 0.0,
            unpaid: 0.0,
            last: AccumulationSample::default(),
            has_last: false,
            recover: 0,
            sent_bytes: 0,
            emptied: false,
            backlogged: false,
            silences: 0,
            epochs: 0,
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
        let at = self.bucket.ready_at(now, bytes, self.sending_bps());
        if at > now { Credit::At(at) } else { Credit::Now }
    }

    /// Counts a packet that leaves. Returns a marker to send with it, if one is due.
    ///
    /// `more` is true if other packets wait behind the packet.
    pub fn on_sent(&mut self, now: Instant, bytes: u32, more: bool) -> Option<Marker> {
        self.shrink_after_idling(now);
        if let AccumulationBase::Counted(counted) = &mut self.base {
            counted.on_time(now, self.ledger.sent_bytes());
        }
        self.bucket.take(now, bytes, self.sending_bps(), more);
        self.ledger.on_sent(now, bytes);
        self.sent_bytes = self.sent_bytes.wrapping_add(bytes);
        self.emptied |= !more;
        self.backlogged = more;
        let first = self.ledger.sequence() == 0;
        // The growth per report is limited to α of two intervals, so markers must not be further apart than that.
        let every = self.interval() * if self.config.losses.hurries(more) { 1 } else { 2 };
        let due = now - self.ledger.marked_at() >= every || first;
        due.then(|| {
            let marker = self.ledger.mark(now, first || more);
            self.with_counting(now, marker)
        })
    }

    /// If the accumulation is counted, adds to a marker the request that the egress edge counts bytes in intervals.
    fn with_counting(&mut self, now: Instant, marker: Marker) -> Marker {
        let (interval, round_trip) = (self.interval(), self.ledger.rtt.smoothed());
        let AccumulationBase::Counted(counted) = &mut self.base else { return marker };
        counted.on_time(now, marker.bytes);
        Marker { counting: Some(counted.on_marker(now, &marker, interval, round_trip)), ..marker }
    }

    /// Applies a report of the egress to the loop.
    pub fn on_report(&mut self, now: Instant, report: &LoopReport) {
        let has_recovered = self.has_recovered();
        let Some(news) = self.ledger.on_report(now, report, self.config.losses) else { return };
        let is_lossy = has_recovered && (news.lost_packets > 0 || news.ce_packets > 0);
        self.silences = 0;
        self.bucket.fill(now, self.sending_bps());
        let AccumulationBase::Delay(sync) = &mut self.base else {
            self.on_count(now, report, &news);
            self.congested_by_loss(is_lossy);
            return self.bound();
        };
        let mut delay = sync.on_delay(now, news.one_way_delay_us);
        if let MarkerDelay::Queued(queued_us) = &mut delay {
            let longer = news.round_trip.saturating_sub(self.ledger.rtt.min());
            let queued = (*queued_us).min(longer.as_micros() as u32);
            *queued_us = queued.saturating_sub(self.config.resolution.as_micros() as u32);
        }
        let span_us = report.received_at_us.wrapping_sub(self.last.received_at_us);
        if self.has_last && u128::from(span_us) * 2 < self.interval().as_micros() {
            return self.congested_by_loss(is_lossy);
        }
        let arriving_bps = f64::from(report.bytes.wrapping_sub(self.last.bytes)) * 8e6 / f64::from(span_us.max(1));
        let now_us = now.as_micros() as u32;
        let elapsed = Duration::from_micros(now_us.wrapping_sub(self.last.at_us).into());
        if self.has_last {
            self.measured(now, arriving_bps, delay, &news, elapsed);
        }
        self.last = AccumulationSample { at_us: now_us, bytes: report.bytes, received_at_us: report.received_at_us };
        self.has_last = true;
        (self.sent_bytes, self.emptied) = (0, false);
        self.congested_by_loss(is_lossy);
        self.bound();
    }

    /// Records congestion: a first transmission was lost, or its outer header arrived with a CE mark.
    ///
    /// The lower layers report it, although they may retransmit the packet.
    pub fn on_congestion(&mut self, now: Instant) {
        if self.has_recovered() {
            self.bucket.fill(now, self.sending_bps());
            self.back_off(self.ledger.delivered_bps().min(self.rate_bps));
            self.recover = self.ledger.sent_packets();
        }
    }

    /// Records packets that the lower layers report as lost after recovery.
    pub fn on_loss(&mut self, now: Instant, packets: u32) {
        self.ledger.on_lost(packets);
        self.on_congestion(now);
    }

    /// Returns the time at which [`Accumulation::on_deadline`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.ledger.deadline(self.patience()).map(|deadline| deadline + self.interval())
    }

    fn patience(&self) -> Duration {
        self.config.losses.patience(self.backlogged)
    }

    /// Once the deadline has passed, returns a marker to send by itself. Before it, returns `None`.
    ///
    /// If an earlier marker was not answered, the loop treats that as congestion, unless lower layers report losses.
    pub fn on_deadline(&mut self, now: Instant) -> Option<Marker> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        let (marker, unanswered) = self.ledger.on_deadline(now, self.patience(), self.backlogged)?;
        let marker = self.with_counting(now, marker);
        if unanswered {
            if self.config.losses == Losses::Counted {
                self.bucket.fill(now, self.sending_bps());
                self.back_off(self.rate_bps);
            }
            self.silences = self.silences.saturating_add(1);
        }
        if self.silences == 2 {
            match &mut self.base {
                AccumulationBase::Delay(sync) => sync.forget(),
                AccumulationBase::Counted(counted) => counted.restart(),
            }
            self.phase = AccumulationPhase::Test;
        }
        Some(marker)
    }

    /// Changes the loop's weight and service. A leased line gets its promised rate at once.
    pub fn set_share(&mut self, now: Instant, share: Share) {
        self.bucket.fill(now, self.sending_bps());
        self.share = share;
        self.bound();
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
            accumulation_bytes: self.accumulation as u64,
            epochs: self.epochs,
            backlogged: self.backlogged,
        }
    }

    /// True if the loop is in a congestion epoch.
    pub fn in_epoch(&self) -> bool {
        matches!(self.phase, AccumulationPhase::Epoch(_))
    }

    /// Returns τ, the time in which the rate grows by the increase α.
    pub fn tau(&self) -> Duration {
        self.config.tau.unwrap_or_else(|| AccumulationConfig::derived_tau(self.ledger.rtt.min()))
    }

    /// Returns T, the time between two markers of the loop.
    pub fn interval(&self) -> Duration {
        self.config.interval.unwrap_or_else(|| self.tau())
    }

    fn measured(&mut self, now: Instant, arriving_bps: f64, delay: MarkerDelay, news: &ReportDelta, elapsed: Duration) {
        self.pay_back();
        let MarkerDelay::Queued(queued_us) = delay else { return self.base_was_wrong() };
        self.accumulation = (arriving_bps * f64::from(queued_us) / 8e6) as f32;
        self.judge(now, arriving_bps, news.one_way_delay_us, elapsed);
        self.accept_if_it_stands(now, elapsed, queued_us, news.one_way_delay_us);
    }

    /// Applies a report to a loop whose accumulation is counted (paper 004 §6.1).
    fn on_count(&mut self, now: Instant, report: &LoopReport, news: &ReportDelta) {
        let AccumulationBase::Counted(counted) = &mut self.base else { return };
        counted.on_time(now, self.ledger.sent_bytes());
        let Some(CountedSample { accumulation, arriving_bps, elapsed, explained_us }) = counted.measure(report) else {
            return;
        };
        let unqueued_us = explained_us + self.config.resolution.as_micros() as i64;
        let bytes = accumulation as f32 - (arriving_bps * unqueued_us as f64 / 8e6) as f32;
        let is_base_wrong = match self.phase {
            AccumulationPhase::Test => accumulation < 0,
            _ => bytes < -(self.config.burst_bytes as f32),
        };
        if is_base_wrong {
            counted.restart();
            self.pay_back();
            return self.base_was_wrong();
        }
        self.pay_back();
        self.accumulation = bytes.max(0.0);
        self.judge(now, arriving_bps, news.one_way_delay_us, elapsed);
        self.accept_if_it_stands(now, elapsed, self.accumulation as u32, news.one_way_delay_us);
        (self.sent_bytes, self.emptied) = (0, false);
    }

    /// Discards the accumulation, because its reference was set while a queue stood.
    fn base_was_wrong(&mut self) {
        self.accumulation = 0.0;
        if !matches!(self.phase, AccumulationPhase::Test) {
            self.phase = AccumulationPhase::Open;
        }
    }

    /// Changes the loop's phase and its rate according to the present accumulation.
    fn judge(&mut self, now: Instant, arriving_bps: f64, one_way_delay_us: u32, elapsed: Duration) {
        let scale = self.threshold_scale(arriving_bps);
        let (high, low) = ((self.config.high_bytes() * scale) as f32, (self.config.low_bytes() * scale) as f32);
        // A counted accumulation has an error of up to a packet. The rate therefore grows whenever there is no epoch,
        // as in the paper.
        let is_counted = matches!(self.base, AccumulationBase::Counted(_));
        let still = if is_counted { high } else { low * EMPTY };
        let interval = self.interval();
        if self.accumulation > still.min(low) {
            self.climb_to_bps = 0.0;
        }
        match &mut self.phase {
            AccumulationPhase::Test => self.phase = AccumulationPhase::Open,
            AccumulationPhase::Open if self.accumulation > high => {
                self.phase = AccumulationPhase::Epoch(CongestionEpoch::begin(now, self.accumulation));
                self.epochs = self.epochs.wrapping_add(1);
                self.back_off(arriving_bps);
            }
            AccumulationPhase::Open if self.accumulation < still => self.increase(elapsed),
            AccumulationPhase::Open => {}
            AccumulationPhase::Epoch(epoch) => {
                let drained = ((arriving_bps - self.rate_bps) * elapsed.as_secs_f64() / 8.0) as f32;
                match epoch.on_accumulation(now, self.accumulation, drained, low, interval) {
                    Course::Goes => self.back_off(arriving_bps),
                    Course::Ends => self.phase = AccumulationPhase::Open,
                    Course::DelayChanged => self.resynchronise(now, one_way_delay_us),
                }
            }
        }
    }

    /// Returns the factor by which the thresholds H and L of this loop are multiplied.
    ///
    /// It contains the weight, so that all loops reach their thresholds at the same queue. For a promised rate A and an
    /// arriving rate μ it also contains μ/(μ − A), because only the rate above the promise competes with other loops.
    /// That part is at most four, so that a loop whose promise cannot be kept still backs off.
    fn threshold_scale(&self, arriving_bps: f64) -> f64 {
        let excess = arriving_bps - self.share.service().rate().bps() as f64;
        let promise =
            if excess * MOST_PROMISE_SCALE > arriving_bps { arriving_bps / excess } else { MOST_PROMISE_SCALE };
        self.share.weight() * promise
    }

    /// Resynchronises the loop if its delay stays constant although the rate does not grow: it is then not a queue.
    ///
    /// `measured` is the value from which the accumulation follows: a delay in microseconds, or a number of bytes.
    fn accept_if_it_stands(&mut self, now: Instant, elapsed: Duration, measured: u32, one_way_delay_us: u32) {
        if self.standing.on_value(measured, elapsed, self.ledger.rtt.smoothed()) && self.accumulation > 0.0 {
            self.resynchronise(now, one_way_delay_us);
        }
    }

    fn resynchronise(&mut self, now: Instant, one_way_delay_us: u32) {
        self.unpaid += self.accumulation;
        self.accumulation = 0.0;
        self.standing.restart();
        match &mut self.base {
            AccumulationBase::Delay(sync) => sync.restart(now, one_way_delay_us),
            AccumulationBase::Counted(counted) => counted.restart(),
        }
        self.phase = AccumulationPhase::Open;
    }

    fn increase(&mut self, elapsed: Duration) {
        self.standing.restart();
        let tau = self.tau();
        let periods = (elapsed.as_secs_f64() / tau.as_secs_f64()).min(2.0);
        let alpha = self.alpha_bps(tau) * periods;
        if self.emptied {
            // A VPN that does not use its rate keeps only the used rate plus one burst (paper 004 §6.1).
            let used_bps = f64::from(self.sent_bytes) * 8.0 / elapsed.as_secs_f64().max(1e-9);
            let burst_bps = f64::from(self.config.burst_bytes) * 8.0 / tau.as_secs_f64();
            if self.config.startup {
                self.climb_to_bps = self.climb_to_bps.max(self.rate_bps);
            }
            self.rate_bps = (self.rate_bps + alpha).min(used_bps + burst_bps.max(alpha));
        } else if self.rate_bps < self.climb_to_bps {
            self.rate_bps = (self.rate_bps * (1.0 + CLIMB * periods)).min(self.climb_to_bps);
        } else {
            self.rate_bps += alpha;
        }
    }

    fn back_off(&mut self, arriving_bps: f64) {
        let service = self.share.service();
        let beta = self.config.beta.into();
        self.rate_bps = service.back_off(self.rate_bps, arriving_bps, beta, service.rate().bps() as f64);
        self.climb_to_bps = 0.0;
        self.bound();
    }

    fn has_recovered(&self) -> bool {
        !is_after(self.recover, self.ledger.settled_packets())
    }

    fn congested_by_loss(&mut self, is_lossy: bool) {
        if is_lossy {
            self.back_off(self.ledger.delivered_bps().min(self.rate_bps));
            self.recover = self.ledger.sent_packets();
        }
    }

    /// Reduces `unpaid` by w_hold, the bytes that the loop did not send in one interval to let the queue drain.
    fn pay_back(&mut self) {
        self.unpaid = (self.unpaid - self.hold_bytes() as f32).max(0.0);
    }

    /// Returns w_hold: the number of bytes by which the loop sends less in an interval, until `unpaid` is zero.
    fn hold_bytes(&self) -> f64 {
        f64::from(self.unpaid).min(self.config.hold_bytes())
    }

    /// Returns the rate to send at: λ minus the hold-down window, but at least a leased line's rate.
    fn sending_bps(&self) -> f64 {
        if self.unpaid == 0.0 {
            return self.rate_bps;
        }
        let hold_bps = self.hold_bytes() * 8.0 / self.interval().as_secs_f64();
        (self.rate_bps - hold_bps).max(self.least_bps())
    }

    /// Returns α of this loop: the number of bits per second by which the rate rises in each τ.
    ///
    /// It is the length in bits of the configured number of packets, divided by τ and multiplied by the weight.
    fn alpha_bps(&self, tau: Duration) -> f64 {
        self.share.weight() * self.config.increase_bytes() * 8.0 / tau.as_secs_f64()
    }

    fn shrink_after_idling(&mut self, now: Instant) {
        let (idle, tau) = (self.ledger.idle(now), self.tau());
        // A packet that waits for the token bucket is a backlog. Such a time is not idle time.
        if idle < tau * 2 || self.backlogged {
            return;
        }
        let waited = Rate::from_bps(self.rate_bps as u64).time_for(2 * u64::from(self.config.burst_bytes));
        let periods = (idle.saturating_sub(waited).as_nanos() / tau.as_nanos().max(1)).min(40);
        if periods < 2 {
            return;
        }
        if self.config.startup {
            self.climb_to_bps = self.climb_to_bps.max(self.rate_bps);
        }
        let initial = (self.config.initial.bps() as f64).min(self.rate_bps);
        self.rate_bps = (self.rate_bps / (1u64 << periods) as f64).max(initial);
        self.bound();
    }

    fn most_in_flight(&self) -> f64 {
        let time = self.ledger.rtt.smoothed().as_secs_f64() + FLIGHT_INTERVALS * self.interval().as_secs_f64();
        self.rate_bps * time / 8.0 + FLIGHT_INTERVALS * f64::from(self.config.burst_bytes)
    }

    fn least_bps(&self) -> f64 {
        self.config.floor.bps().max(self.share.service().floor().bps()) as f64
    }

    fn bound(&mut self) {
        let most = self.config.cap.bps() as f64;
        self.rate_bps = self.rate_bps.min(most).max(self.least_bps());
    }
}
