//! The control law of paper 003: an AIMD window.
//!
//! Reports open the window, and losses or CE marks shrink it. The law decides only when a packet may leave its VPN
//! queue. It neither stores nor sends packets.

use super::ledger::Ledger;
use super::loss_intervals::LossIntervals;
use super::marker::{LoopReport, Marker, is_after};
use super::{Credit, LoopStatus, Losses};
use crate::fair::aimd::{Knob, LEAST_DECREASE, MOST_DECREASE, MOST_FIXED_DECREASE};
use crate::fair::controller::SteeringMethod;
use crate::service::Share;
use weft_units::{Instant, Rate};

/// Maximum window in bytes. It is larger than any useful window, and far below the range of the 32-bit byte counters.
const MOST_WINDOW: f64 = (1u64 << 28) as f64;

/// Parameters of [`AimdWindow`].
///
/// The defaults are those of paper 003's prototype (table V), plus slow start.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AimdConfig {
    /// a: packets by which the window grows in a round trip.
    pub increase_packets: f32,
    /// b: fraction by which the window shrinks at a loss event; 0 < b ≤ 0.9.
    ///
    /// A rule that computes b from weights gives at most 0.5.
    pub decrease: f32,
    /// Size of one packet in bytes.
    ///
    /// `a` and the initial window are multiples of this size. The window itself is in bytes, so that a VPN with small
    /// packets gets its share.
    pub packet_bytes: u16,
    /// Δ: number of packets from one marker to the next.
    pub marker_every: u8,
    /// Initial window in packets.
    pub initial_packets: u8,
    /// If set, the window doubles each round trip until the first loss event.
    ///
    /// Paper 003 does not define the start.
    pub slow_start: bool,
    /// Source from which the loop learns of losses.
    pub losses: Losses,
    /// Method that sets `a` and `b` so that the windows of an edge pair get fair shares.
    pub fairness: WindowFairness,
}

/// Method by which the windows of an edge pair become fair. All windows of the pair use the same method.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowFairness {
    /// The window parameter, `a` or `b`, through which a VPN's weight takes effect.
    pub weight_by: Knob,
    /// The method that corrects the parameters `a` and `b` of running windows.
    pub steering: SteeringMethod,
    /// True if all windows of the edge pair react to a loss event of one window.
    pub shared_events: bool,
}

impl WindowFairness {
    /// Paper 003's choice: weights take effect through b, which a rule computes from measured loss and RTTs.
    ///
    /// Each window reacts only to its own loss events.
    pub const PAPER: WindowFairness =
        WindowFairness { weight_by: Knob::Decrease, steering: SteeringMethod::Rule, shared_events: false };
    /// The choice for windows with common bottlenecks: weights take effect through a, and loss events are shared.
    pub const EDGE_PAIR: WindowFairness =
        WindowFairness { weight_by: Knob::Increase, steering: SteeringMethod::ClosedLoop, shared_events: true };
}

impl AimdConfig {
    /// Returns the parameters of paper 003 itself: those of its table V, without slow start.
    pub fn paper() -> AimdConfig {
        AimdConfig { slow_start: false, fairness: WindowFairness::PAPER, ..AimdConfig::default() }
    }
}

impl Default for AimdConfig {
    fn default() -> AimdConfig {
        AimdConfig {
            increase_packets: 0.1,
            decrease: 0.1,
            packet_bytes: 1_500,
            marker_every: 4,
            initial_packets: 4,
            slow_start: true,
            losses: Losses::Counted,
            fairness: WindowFairness::EDGE_PAIR,
        }
    }
}

/// AIMD window control between edges (I2VFC, paper 003; Yang and Lam's GAIMD).
///
/// Without loss the window W grows by `a` packets per round trip. On a loss event W ← (1 − `b`)W. Losses and CE marks
/// within a round trip are one event, because packets that were in flight at a decrease reveal nothing about its
/// effect. The loop never retransmits a lost packet.
///
/// The paper leaves several points open. The loop solves them as TCP does, with a window of at least one packet.
///
/// - It starts with slow start.
/// - The window grows only if it is used (RFC 7661's purpose). Its limit is 1.25 × the most in flight during two
///   round trips, or 2 × in slow start.
/// - After an idle time-out the window halves per time-out, down to the initial window. It then grows back fast (RFC
///   2861).
/// - A marker unanswered for RTT + 4 · variation is a loss event, and the loop sends another marker.
///
/// The [`Share`]'s weight is not part of this law. [`crate::fair`] turns it into `a` and `b` and sets them with
/// [`AimdWindow::set_parameters`].
#[derive(Clone, Copy, Debug)]
pub struct AimdWindow {
    ledger: Ledger,
    losses: LossIntervals,
    config: AimdConfig,
    share: Share,
    window: f64,
    /// Slow start ends at this window, in bytes.
    threshold: f64,
    /// Maximum number of bytes in flight in the current round and in the previous one.
    peaks: [u32; 2],
    /// Number of the marker whose report ends the current round.
    round: u32,
    /// Number of packets sent before the last loss event.
    ///
    /// Losses belong to that event until this number of packets is settled (received or lost).
    recover: u32,
    events: u32,
    backlogged: bool,
}

impl AimdWindow {
    /// Returns a loop at its initial window.
    ///
    /// A VPN with a leased rate starts with a window that is large enough for that rate.
    pub fn new(config: AimdConfig, share: Share) -> AimdWindow {
        let initial = f64::from(config.initial_packets.max(1)) * f64::from(config.packet_bytes);
        let mut this = AimdWindow {
            ledger: Ledger::default(),
            losses: LossIntervals::default(),
            config,
            share,
            window: initial,
            threshold: if config.slow_start { MOST_WINDOW } else { 0.0 },
            peaks: [0; 2],
            round: 0,
            recover: 0,
            events: 0,
            backlogged: false,
        };
        this.bound();
        this
    }

    /// Returns whether a packet of `bytes` may leave. At least half of it must fit into the free part of the window.
    ///
    /// If the whole packet had to fit, half a packet of every window would stay unused on average. That is a large part
    /// of a small window.
    pub fn credit(&self, bytes: u32) -> Credit {
        let in_flight = self.ledger.in_flight();
        let fits = f64::from(in_flight) + f64::from(bytes) / 2.0 <= self.window;
        if in_flight == 0 || fits { Credit::Now } else { Credit::OnReport }
    }

    /// Counts a packet that leaves. Returns a marker to send with it, if one is due.
    ///
    /// `more` is true if other packets wait behind the packet.
    pub fn on_sent(&mut self, now: Instant, bytes: u32, more: bool) -> Option<Marker> {
        self.shrink_after_idling(now);
        self.ledger.on_sent(now, bytes);
        self.backlogged = more;
        self.peaks[0] = self.peaks[0].max(self.ledger.in_flight());
        let first = self.ledger.sequence() == 0;
        let delta = u32::from(self.config.marker_every.max(1)) * if self.config.losses.hurries(more) { 1 } else { 2 };
        let every = self.ledger.unmarked_packets() >= delta;
        let full = f64::from(self.ledger.in_flight()) + f64::from(self.config.packet_bytes) / 2.0 > self.window;
        (first || every || full).then(|| self.ledger.mark(now, first || full || more))
    }

    /// Applies a report of the egress to the loop.
    pub fn on_report(&mut self, now: Instant, report: &LoopReport) {
        let has_recovered = self.has_recovered();
        let Some(news) = self.ledger.on_report(now, report, self.config.losses) else { return };
        if news.lost_packets > 0 || news.ce_packets > 0 {
            if has_recovered {
                self.loss_event();
            }
        } else {
            self.grow(f64::from(news.settled_bytes));
        }
        if !is_after(self.round, news.sequence) {
            self.peaks = [self.ledger.in_flight(), self.peaks[0]];
            self.round = self.ledger.sequence();
        }
        self.bound();
    }

    /// Records congestion: a first transmission was lost, or its outer header arrived with a CE mark.
    ///
    /// The lower layers report it, although they may retransmit the packet.
    pub fn on_congestion(&mut self) {
        if self.has_recovered() {
            self.loss_event();
        }
    }

    /// Records packets that the lower layers report as lost after recovery.
    pub fn on_loss(&mut self, packets: u32) {
        self.ledger.on_lost(packets);
        self.on_congestion();
    }

    /// Returns the time at which [`AimdWindow::on_deadline`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.ledger.deadline(self.config.losses.patience(self.backlogged))
    }

    /// Once the deadline has passed, returns a marker to send by itself. Before it, returns `None`.
    ///
    /// If an earlier marker was not answered, the loop treats that as a loss event, unless lower layers report
    /// losses.
    pub fn on_deadline(&mut self, now: Instant) -> Option<Marker> {
        let (marker, unanswered) =
            self.ledger.on_deadline(now, self.config.losses.patience(self.backlogged), self.backlogged)?;
        if unanswered && self.config.losses == Losses::Counted {
            self.loss_event();
        }
        Some(marker)
    }

    /// Changes the loop's weight and service. A leased line gets its promised rate at once.
    pub fn set_share(&mut self, share: Share) {
        self.share = share;
        self.bound();
    }

    /// Sets the increase `a` (packets per round trip) and the decrease `b`, as [`crate::fair::aimd`] computes them.
    pub fn set_parameters(&mut self, increase: f64, decrease: f64) {
        self.config.increase_packets = increase.max(0.0) as f32;
        self.config.decrease = decrease.clamp(LEAST_DECREASE, MOST_DECREASE) as f32;
    }

    /// Restarts with a window of `bytes`, without slow start.
    pub fn restart(&mut self, bytes: f64) {
        self.window = bytes;
        self.bound();
        self.threshold = self.window;
    }

    /// Number of packets known to be received or lost since the start, modulo 2^32.
    pub fn settled_packets(&self) -> u32 {
        self.ledger.settled_packets()
    }

    /// Number of loss events since the start, modulo 2^32.
    pub fn loss_events(&self) -> u32 {
        self.events
    }

    /// Returns the increase `a` (packets per round trip) and the decrease `b`.
    pub fn parameters(&self) -> (f64, f64) {
        (self.config.increase_packets.into(), self.config.decrease.into())
    }

    /// Returns the loop's current state.
    pub fn status(&self) -> LoopStatus {
        let rtt = self.ledger.rtt.smoothed();
        LoopStatus {
            rate: Rate::from_bps((self.window * 8.0 / rtt.as_secs_f64()) as u64),
            window_bytes: self.window as u64,
            delivered: Rate::from_bps(self.ledger.delivered_bps() as u64),
            rtt,
            rtt_min: self.ledger.rtt.min(),
            loss_event_rate: self.losses.rate(self.ledger.settled_packets()),
            lost_packets: self.ledger.lost_packets(),
            in_flight_bytes: self.ledger.in_flight(),
            accumulation_bytes: 0,
            epochs: 0,
            backlogged: self.backlogged,
        }
    }

    /// True if everything sent before the last loss event is settled (received or lost).
    ///
    /// A later loss is then a new event.
    fn has_recovered(&self) -> bool {
        !is_after(self.recover, self.ledger.settled_packets())
    }

    fn loss_event(&mut self) {
        self.events = self.events.wrapping_add(1);
        self.losses.on_event(self.ledger.settled_packets());
        self.recover = self.ledger.sent_packets();
        // A window that doubled in each round until the bottleneck overflowed is about twice the window that fits, so
        // it is halved.
        let doubling = self.window < self.threshold;
        let beta = if doubling { 0.5 } else { 1.0 - self.decrease() };
        self.window = self.share.service().back_off(self.window, self.window, beta, self.promised());
        self.bound();
        self.threshold = self.window;
    }

    /// Returns b, but at least the fraction by which the window grows in a round trip.
    ///
    /// Otherwise the window would rise despite losses in every round trip.
    fn decrease(&self) -> f64 {
        let added = f64::from(self.config.increase_packets) * f64::from(self.config.packet_bytes) / self.window;
        f64::from(self.config.decrease).max(LEAST_DECREASE).max(added.min(MOST_DECREASE)).min(MOST_FIXED_DECREASE)
    }

    fn grow(&mut self, settled: f64) {
        let packet = f64::from(self.config.packet_bytes);
        let peak = f64::from(self.peaks[0].max(self.peaks[1]));
        let (grown, used) = if self.window < self.threshold {
            ((self.window + settled).min(self.threshold), peak * 2.0)
        } else {
            let increase = f64::from(self.config.increase_packets) * packet * settled / self.window;
            (self.window + increase, peak + (peak / 4.0).max(packet))
        };
        self.window = grown.min(used).max(self.window);
    }

    fn shrink_after_idling(&mut self, now: Instant) {
        let idle = self.ledger.idle(now).as_nanos() / self.ledger.rtt.timeout().as_nanos().max(1);
        if idle == 0 {
            return;
        }
        let initial = f64::from(self.config.initial_packets.max(1)) * f64::from(self.config.packet_bytes);
        self.threshold = self.threshold.max(self.window * 0.75);
        self.window = (self.window / (1u64 << idle.min(40)) as f64).max(initial.min(self.window));
        self.bound();
    }

    /// Returns the window in bytes with which the loop sends at the VPN's promised rate.
    fn promised(&self) -> f64 {
        self.share.service().rate().bps() as f64 * self.ledger.rtt.smoothed().as_secs_f64() / 8.0
    }

    fn bound(&mut self) {
        let floor = self.share.service().floor().bps() as f64 * self.ledger.rtt.smoothed().as_secs_f64() / 8.0;
        let least = f64::from(self.config.packet_bytes).max(floor).min(MOST_WINDOW);
        self.window = self.window.clamp(least, MOST_WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_loop::LoopEgress;
    use crate::service::Service;
    use alloc::vec::Vec;
    use weft_units::Duration;

    const PACKET: u32 = 1_500;

    fn config() -> AimdConfig {
        AimdConfig { slow_start: false, increase_packets: 0.5, decrease: 0.25, ..AimdConfig::default() }
    }

    fn packets(this: &AimdWindow) -> f64 {
        this.window / f64::from(PACKET)
    }

    /// Simulates a round trip of 10 ms that begins at `at`, and returns the number of packets sent.
    ///
    /// It sends all that the window allows, loses the first `lose` packets, and answers every marker.
    fn round(this: &mut AimdWindow, egress: &mut LoopEgress, at: u64, lose: u32) -> u32 {
        let (mut sent, mut reports) = (0, alloc::vec::Vec::new());
        while this.credit(PACKET) == Credit::Now && sent < 1_000 {
            let marker = this.on_sent(Instant::from_millis(at), PACKET, true);
            sent += 1;
            if sent > lose {
                egress.on_packet(PACKET, false);
                reports.extend(marker.and_then(|m| egress.on_marker(Instant::from_millis(at + 5), m)));
            }
        }
        for report in reports {
            this.on_report(Instant::from_millis(at + 10), &report);
        }
        sent
    }

    #[test]
    fn grows_by_a_in_a_round_trip_and_falls_by_b_at_a_loss_event() {
        let (mut this, mut egress) = (AimdWindow::new(config(), Share::default()), LoopEgress::default());
        for i in 0..10 {
            round(&mut this, &mut egress, i * 10, 0);
        }
        // In ten rounds the window grows by nearly half a packet each, to about 8.4 packets, of which 8 may leave.
        let before = packets(&this);
        assert!((8.0..9.01).contains(&before), "{before}");
        assert_eq!(round(&mut this, &mut egress, 100, 3), before.round() as u32);
        let after = packets(&this);
        // Reports that arrive after the loss event let the window grow again a little.
        assert!((0.75..0.8).contains(&(after / before)), "three losses, one event: {before} → {after}");
        assert!(this.status().loss_event_rate.is_some_and(|p| p < 0.025));
        assert_eq!(this.status().in_flight_bytes, 0);
    }

    #[test]
    fn slow_start_doubles_and_ends_at_half() {
        let mut this = AimdWindow::new(AimdConfig::default(), Share::default());
        let mut egress = LoopEgress::default();
        for i in 0..4 {
            round(&mut this, &mut egress, i * 10, 0);
        }
        let before = packets(&this);
        assert!((56.0..=64.0).contains(&before), "{before}");
        round(&mut this, &mut egress, 40, 1);
        assert!((packets(&this) / before - 0.5).abs() < 0.01);
    }

    /// The last packet of a full window carries a marker.
    ///
    /// If this packet is lost, the loss event happens earlier than the report that shows the packet's loss. It must not
    /// cause a second event.
    #[test]
    fn a_loss_that_is_reported_late_belongs_to_the_event_before() {
        let (mut this, mut egress) = (AimdWindow::new(config(), Share::default()), LoopEgress::default());
        this.window = 8.0 * f64::from(PACKET);
        let mut send = |this: &mut AimdWindow, arrives: bool| {
            let marker = this.on_sent(Instant::ZERO, PACKET, true).filter(|_| arrives);
            if arrives {
                egress.on_packet(PACKET, false);
            }
            marker.and_then(|marker| egress.on_marker(Instant::ZERO, marker))
        };
        let reports: Vec<_> = (0..8).filter_map(|n| send(&mut this, n < 5)).collect();
        reports.iter().for_each(|report| this.on_report(Instant::from_millis(10), report));
        this.on_congestion();
        assert_eq!((this.loss_events(), this.status().in_flight_bytes), (1, 3 * PACKET), "another loop's loss");
        let mut late = None;
        while this.credit(PACKET) == Credit::Now {
            late = late.or(send(&mut this, true));
        }
        this.on_report(Instant::from_millis(20), &late.unwrap_or_default());
        assert_eq!((this.loss_events(), this.status().lost_packets), (1, 3));
    }

    #[test]
    fn of_a_small_window_nothing_is_left_unused() {
        let mut this = AimdWindow::new(config(), Share::default());
        this.window = 5.6 * f64::from(PACKET);
        while this.credit(PACKET) == Credit::Now {
            this.on_sent(Instant::ZERO, PACKET, true);
        }
        assert_eq!(this.status().in_flight_bytes, 6 * PACKET, "more than half of the sixth fits");
    }

    #[test]
    fn a_window_of_one_packet_grows() {
        let config = AimdConfig { initial_packets: 1, ..config() };
        let (mut this, mut egress) = (AimdWindow::new(config, Share::default()), LoopEgress::default());
        for i in 0..40 {
            round(&mut this, &mut egress, i * 10, 0);
        }
        assert!(packets(&this) > 10.0, "{}", packets(&this));
    }

    #[test]
    fn a_window_not_used_does_not_grow() {
        let (mut this, mut egress) = (AimdWindow::new(config(), Share::default()), LoopEgress::default());
        for i in 0..400 {
            let at = Instant::from_millis(i * 10);
            egress.on_packet(PACKET, false);
            let marker = this.on_sent(at, PACKET, false);
            if let Some(report) = marker.and_then(|m| egress.on_marker(at, m)) {
                this.on_report(at + Duration::from_millis(9), &report);
            }
        }
        assert!(packets(&this) < 7.0, "{}", packets(&this));
    }

    #[test]
    fn idling_forgets_the_window_but_not_where_it_was() {
        let mut this = AimdWindow::new(AimdConfig::default(), Share::default());
        let mut egress = LoopEgress::default();
        for i in 0..5 {
            round(&mut this, &mut egress, i * 10, 0);
        }
        let before = packets(&this);
        round(&mut this, &mut egress, 60_000, 0);
        let at_once = packets(&this);
        assert!(at_once <= 8.1, "after a minute it begins anew: {at_once}");
        for i in 1..5 {
            round(&mut this, &mut egress, 60_000 + i * 10, 0);
        }
        assert!(packets(&this) > before * 0.7);
    }

    #[test]
    fn silence_is_a_loss_event_and_is_asked_about() {
        let mut this = AimdWindow::new(config(), Share::default());
        while this.credit(PACKET) == Credit::Now {
            this.on_sent(Instant::ZERO, PACKET, true);
        }
        let due = this.deadline().unwrap_or_default();
        assert!(this.on_deadline(due).is_some_and(|m| m.packets == 4));
        assert!((packets(&this) - 3.0).abs() < 1e-9, "4 · (1 − b)");
    }

    #[test]
    fn an_assured_window_backs_off_its_excess_and_a_leased_one_keeps_its_rate() {
        let rate = Rate::from_bps(2_400_000); // 20 packets in the initial round trip of 100 ms
        let assured = Share::new(1.0, Service::Assured { rate, gamma: 0.98 }).unwrap_or_default();
        let leased = Share::new(1.0, Service::LeasedLine { rate }).unwrap_or_default();
        let mut this = AimdWindow::new(config(), assured);
        this.window = 40.0 * f64::from(PACKET);
        this.on_congestion();
        assert!((packets(&this) - 35.0).abs() < 1e-9, "20 + 0.75 · 20");
        let mut this = AimdWindow::new(config(), leased);
        assert!((packets(&this) - 20.0).abs() < 1e-9, "from the first packet on");
        this.on_congestion();
        assert!((packets(&this) - 20.0).abs() < 1e-9);
    }
}
