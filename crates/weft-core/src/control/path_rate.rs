//! Path rate: learns the capacity of one path, and paces just below a standing queue.
//!
//! The queue thus stands at this node's edge and not at the bottleneck.
//!
//! The method is accumulation-based control (Harrison, Kalyanaraman, Ramakrishnan, "Overlay Bandwidth Services"; Xia
//! et al., "Accumulation-based congestion control"): keep a small, known amount of own traffic queued at the
//! bottleneck. FAST and Copa contribute the target on the queueing delay and the mode for greedy rivals. BBR
//! contributes the delivery rate as a measure of capacity, and LEDBAT (RFC 6817) the one-way delays. For each report
//! on the path:
//!
//! 1. **Capacity `C`.** While a queue stands and there is a backlog, the received rate equals the capacity. Without a
//!    queue it is a lower bound, and `C` is its maximum. Traffic that does not fill the path reveals nothing, unless
//!    a growing queue shows that the bottleneck was busy. The path's own loss is added: `C` is the rate to *send* so
//!    that the bottleneck is full. This baseline loss is measured in rounds in which the rate ebbs slightly, so that
//!    losses caused by this sender do not count as the path's.
//! 2. **Rate `R = C·(1 + (q* − q̂)/T)`.** `q̂` is the queue that packets sent now will meet. It is the queue that the
//!    last reported packet met, plus the bytes sent after it, minus the bytes that the bottleneck forwarded since.
//!    This is a Smith predictor, so that the feedback delay does not make the loop oscillate. `T` is half the
//!    feedback delay. `q*` follows the path: see [`PathRate::queue_target`].
//! 3. **Growth.** While the queue stays empty despite a backlog, the rate grows faster with each round trip, by 2 %
//!    up to a factor of two. If growth brings only losses, the rate stays at the delivery rate (a *plateau*: a
//!    policer or a tiny buffer). If the losses continue there, they are the path's own, and the previous rate was
//!    right. Loss by itself never lowers the rate.
//! 4. **Drain.** Every ten seconds the queue is emptied for a moment, because otherwise the delay baseline would rise
//!    with the queue. It is emptied sooner if a queue has lowered `C`, because a delay that does not fall is not a
//!    queue ([`Drain`]).
//! 5. **Trial.** Delay alone cannot distinguish a queue from a longer route. If a queue stays too long, or a
//!    drain does not empty it, the rate is 1.5 times `C` for a moment ([`Trial`]). If everything arrives as fast as
//!    it was sent, there is no queue. Otherwise the arriving rate bounds `C`.
//! 6. **Compete.** The controller knows how much of the bottleneck's capacity it left unused. If the queue did not
//!    shrink by that amount, and a trial finds the path full, other traffic filled it. The controller then holds a
//!    share, which grows each round and shrinks on excess loss. After a while it tests again whether the queue
//!    drains.

use crate::control::drain::Drain;
use crate::control::rate_meter::RateMeter;
use crate::control::trial::{self, Trial, TrialOutcome};
use crate::sense::{DelayNoise, LossRate, OneWayDelay, Rtt, Sample, TransmissionDelay};
use weft_units::{Duration, Instant, Rate};

/// Limits of a path's pacing rate. None of them is the path's capacity, which need not be known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathRateConfig {
    /// Rate at which the search starts.
    pub initial: Rate,
    /// Minimum rate. Measurement needs packets.
    pub floor: Rate,
    /// Maximum rate, if set.
    pub cap: Option<Rate>,
}

impl Default for PathRateConfig {
    fn default() -> PathRateConfig {
        PathRateConfig { initial: Rate::from_mbps(2), floor: Rate::from_bps(64_000), cap: None }
    }
}

/// State of the controller, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Doubles the rate every round trip until a queue appears.
    Startup,
    /// Holds a small queue.
    Steady,
    /// Raises the rate, because no queue appears despite a backlog.
    Probe,
    /// Stays at the delivery rate, because a higher rate brought only losses.
    Plateau,
    /// Empties the queue for a moment, to measure the base delay.
    Drain,
    /// Holds a share instead of a delay, because other traffic keeps the queue full.
    Compete,
}

/// Growth factor of the rate, by the number of round trips for which the queue stayed empty.
const GROWTH: [f64; 6] = [1.0, 1.02, 1.05, 1.15, 1.4, 2.0];
/// First time for which a share is held before the next test whether the queue drains.
///
/// The time doubles with each failed test.
const FIRST_SPELL: Duration = Duration::from_millis(500);
/// Longest time for which a share is held before the next test whether the queue drains.
const LONGEST_SPELL: Duration = Duration::from_secs(10);
/// Maximum number of rounds between two ebbs of the rate on a lossy path.
const EBB_ROUNDS: u32 = 32;
/// Time constant of two decaying rates.
///
/// They are the capacity without contention, and the highest delivery rate.
const ALONE_MEMORY: Duration = Duration::from_secs(10);
/// Maximum time after which a plateau is tested again, however often it was found.
const LONGEST_PLATEAU: Duration = Duration::from_secs(10);
/// Fraction lost above which startup ends.
///
/// While the rate doubles, a limit soon drops half of the packets; smaller losses are the path's own.
const STARTUP_LOSS: f64 = 0.25;
/// Maximum window for the minimum delay that defines the standing queue.
///
/// One RTT applies if it is longer.
const LONGEST_WINDOW: Duration = Duration::from_millis(250);
/// Ratio of receive to send interval above which the queue grew during the window.
const GROWING: f64 = 1.25;
/// Time of use after which [`PathRate::offered`] offers more than the capacity.
///
/// It is a number of round trips and a minimum time. Senders that obey the offer would otherwise never find free
/// capacity.
const LOOK_FOR_MORE_AFTER: (u32, Duration) = (20, Duration::from_millis(500));
/// Fraction of the capacity above which the path counts as in use.
const IN_USE: f64 = 0.8;
/// Factor on the capacity in an offer that lets senders find free capacity.
const MORE: f64 = 1.25;
/// Factor on the capacity in an offer while no queue has shown the capacity yet.
const MORE_AT_FIRST: f64 = 2.0;
/// Time without reports after which the remembered capacity becomes doubtful.
const IDLE: Duration = Duration::from_secs(1);
/// Time after which the doubt has halved the rate.
const IDLE_DOUBT: Duration = Duration::from_secs(60);
/// Minimum length of a trial.
///
/// A trial lasts one RTT within these limits. It makes a queue of half its length.
const SHORTEST_TRIAL: Duration = Duration::from_millis(20);
/// Maximum length of a trial, unless reports are far apart.
const LONGEST_TRIAL: Duration = Duration::from_millis(60);
/// Minimum length of a trial in reports.
const TRIAL_REPORTS: u32 = 3;
/// Longest interval between reports on a short path while packets arrive.
const LONGEST_HELD: Duration = Duration::from_millis(20);
/// Maximum loss that counts as the path's own.
///
/// Without a maximum, a path with a buffer of two packets would be flooded to compensate its drops. Standard: the
/// worst links in the requirements lose 10 %. The rest is a margin for their bursts.
const MOST_BASELINE_LOSS: f64 = 0.15;
/// Number of packets whose outcome a round must know before it is judged.
const ROUND_PACKETS: u64 = 20;
/// Time after which a round is judged with fewer packets.
///
/// At the lowest rates [`ROUND_PACKETS`] take seconds, and growth would take minutes.
const LONGEST_ROUND: Duration = Duration::from_millis(250);

/// Events of the current round, which lasts about one RTT.
#[derive(Clone, Copy, Debug)]
struct Round {
    started: Instant,
    delivered: u64,
    lost: u64,
    queued: bool,
    backlogged: bool,
    capacity_bps: f64,
}

/// State of a plateau: the rate before it, the losses that led to it, and the packets settled on it.
#[derive(Clone, Copy, Debug)]
struct Plateau {
    since: Instant,
    loss: f64,
    before_bps: f64,
    delivered: u64,
    lost: u64,
}

/// Test whether a queue drains when the sender leaves capacity unused.
#[derive(Clone, Copy, Debug)]
struct CapacityTest {
    since: Instant,
    queue_s: f64,
    capacity_bps: f64,
    /// Time of the bottleneck's service that was left unused since the start, in seconds.
    left_s: f64,
}

/// Learns one path's capacity and paces just below a standing queue.
#[derive(Clone, Debug)]
pub struct PathRate {
    config: PathRateConfig,
    rtt: Rtt,
    delay: OneWayDelay,
    transmission: TransmissionDelay,
    noise: DelayNoise,
    loss: LossRate,
    baseline_loss: LossRate,
    /// Loss of all rounds without a rival, whatever its cause.
    usual_loss: LossRate,
    meter: RateMeter,
    busy_meter: RateMeter,
    phase: Phase,
    capacity_bps: f64,
    /// True while the capacity is the configured starting value.
    assumed: bool,
    confirmed: bool,
    growth: usize,
    rate_bps: f64,
    packet_bits: f64,
    round: Round,
    plateau: Option<Plateau>,
    plateau_hold: Duration,
    /// Number of ebb rounds left.
    ebb: u8,
    ebb_spacing: u32,
    rounds_since_ebb: u32,
    drain: Drain,
    /// True if the last drain did not empty the queue.
    queue_stays: bool,
    trial: Trial,
    room: Option<CapacityTest>,
    alone_bps: f64,
    /// Highest delivery rate in about the last [`ALONE_MEMORY`], in bits per second.
    best_bps: f64,
    share_bps: f64,
    compete_since: Instant,
    compete_for: Duration,
    last_sample: Instant,
    /// Time of use since a queue last showed the capacity.
    not_shown_for: Duration,
    /// Capacity before the last outage, in bits per second, until traffic has filled the path again.
    before_outage_bps: Option<f64>,
}

impl PathRate {
    /// Returns a controller without measurements.
    pub fn new(config: PathRateConfig) -> PathRate {
        let initial = config.initial.bps() as f64;
        PathRate {
            config,
            rtt: Rtt::default(),
            delay: OneWayDelay::default(),
            transmission: TransmissionDelay::default(),
            noise: DelayNoise::default(),
            loss: LossRate::default(),
            baseline_loss: LossRate::over_packets(2_000.0),
            usual_loss: LossRate::over_packets(2_000.0),
            meter: RateMeter::default(),
            busy_meter: RateMeter::default(),
            phase: Phase::Startup,
            capacity_bps: initial,
            assumed: true,
            confirmed: false,
            growth: 0,
            rate_bps: initial,
            packet_bits: 12_000.0,
            round: Round {
                started: Instant::ZERO,
                delivered: 0,
                lost: 0,
                queued: false,
                backlogged: true,
                capacity_bps: initial,
            },
            plateau: None,
            ebb: 0,
            ebb_spacing: 2,
            rounds_since_ebb: 0,
            plateau_hold: Duration::ZERO,
            drain: Drain::default(),
            queue_stays: false,
            trial: Trial::default(),
            room: None,
            alone_bps: 0.0,
            best_bps: 0.0,
            share_bps: initial,
            compete_since: Instant::ZERO,
            compete_for: Duration::ZERO,
            last_sample: Instant::ZERO,
            not_shown_for: Duration::ZERO,
            before_outage_bps: None,
        }
    }

    /// Changes the maximum rate, effective from the next packet on.
    pub fn set_cap(&mut self, cap: Option<Rate>) {
        self.config.cap = cap;
        self.capacity_bps = self.bounded(self.capacity_bps);
        self.rate_bps = self.bounded(self.rate_bps);
    }

    /// Takes over the capacity that `other` has learnt.
    ///
    /// `other` used the same link until now, so its value is newer.
    pub fn take_over(&mut self, other: &PathRate) {
        if !other.assumed {
            self.capacity_bps = self.bounded(other.capacity_bps);
            self.rate_bps = self.capacity_bps;
        }
    }

    /// Records that the peer restarted with a new clock. The capacity of the path is kept.
    pub fn on_new_clock(&mut self) {
        self.delay.on_new_clock();
        self.noise.on_new_clock();
    }

    /// Updates the controller with the sample of a report.
    pub fn on_sample(&mut self, now: Instant, sample: &Sample) {
        let full = sample.backlogged || self.kept_busy(sample);
        self.before_outage_bps = self.before_outage_bps.filter(|_| !full);
        self.sense(now, sample);
        self.learn_capacity(sample, full);
        self.settle_round(now, sample);
        self.watch_room(now, sample);
        self.remember_best(sample);
        self.try_more(now, sample);
        self.choose_phase(now, full);
        self.rate_bps = self.bounded(self.law(now, sample));
        self.last_sample = now;
    }

    fn sense(&mut self, now: Instant, sample: &Sample) {
        self.rtt.on_sample(now, sample.rtt);
        let window = (self.noise() * 8).min(self.rtt.min().max(LONGEST_WINDOW));
        let (delay_us, rtt_excess) = (sample.one_way_delay_us, sample.rtt.saturating_sub(self.rtt.min()));
        self.transmission.on_sample(now, sample.largest_bytes, self.delay.above(delay_us));
        self.delay.on_sample(now, delay_us, self.taken_by_other_hops(sample.largest_bytes), rtt_excess, window);
        self.learn_noise(now, sample);
        self.loss.on_fates(now, sample.delivered_packets, sample.lost_packets);
        if sample.delivered_packets > 0 {
            let bits = sample.delivered_bytes as f64 * 8.0 / sample.delivered_packets as f64;
            self.packet_bits += (bits - self.packet_bits) / 8.0;
        }
    }

    fn learn_noise(&mut self, now: Instant, sample: &Sample) {
        let sent_s = sample.send_interval.as_secs_f64();
        let service_s = match self.phase {
            // The capacity is not known yet, and startup expects no queue.
            Phase::Startup => sent_s,
            _ => sample.received_bytes as f64 * 8.0 / self.capacity_bps,
        };
        let [queue_s, standing_s] = [self.delay.queue(), self.delay.standing_queue()].map(|d| d.as_secs_f64());
        self.noise.on_sample(now, queue_s, standing_s, service_s - sent_s, self.rtt.min());
    }

    /// Returns the store-and-forward delay of all hops except the bottleneck.
    ///
    /// The bottleneck's part counts as queue, because at the bottleneck's rate the last packet is still there.
    fn taken_by_other_hops(&self, bytes: u32) -> Duration {
        let at_bottleneck = Duration::from_secs_f64(f64::from(bytes) * 8.0 / self.capacity_bps.max(1.0));
        self.transmission.time(bytes).saturating_sub(at_bottleneck)
    }

    /// True if the bottleneck was busy throughout the window, however little was sent.
    ///
    /// The queue that its first packet met took longer than sending the rest, and grew.
    fn kept_busy(&self, sample: &Sample) -> bool {
        self.delay.queue() >= sample.send_interval.max(self.noise() * 4)
            && sample.receive_interval > sample.send_interval.mul_f64(GROWING)
    }

    /// Updates the capacity from the received rate.
    ///
    /// While a queue stands at both ends of a window, the received rate is the capacity. Without a queue it is a
    /// lower bound. `full` is true if the window shows the path and not the traffic.
    fn learn_capacity(&mut self, sample: &Sample, full: bool) {
        let (span, packets) = match self.phase {
            Phase::Startup => (self.rtt.min() / 4, 8.0),
            _ => (self.rtt.min(), 10.0),
        };
        let span = span.max(self.noise() * 8).max(self.packets_time(packets));
        if !full {
            self.busy_meter = RateMeter::default();
            if self.assumed || self.phase == Phase::Startup {
                // A window with little traffic, or with pauses of a young flow, reveals nothing about the path.
                return;
            }
        }
        self.meter.on_sample(sample, span);
        let fill = self.fill();
        if self.meter.delivered_bps() * fill > IN_USE * self.capacity_bps {
            self.not_shown_for += sample.interval();
        }
        // On a plateau the sender does not exceed the delivery rate. A queue there comes from its own bursts and
        // reveals nothing.
        if full && self.phase != Phase::Plateau && self.is_queued() {
            self.busy_meter.on_sample(sample, span);
            let (sent, received) = (self.busy_meter.sent_bps(), self.busy_meter.received_bps());
            let yielding = self.confirmed && sent * fill < 0.985 * self.capacity_bps;
            let standing = (0.87..1.08).contains(&(received / sent));
            if self.busy_meter.bits_ever() >= 6.0 * self.packet_bits {
                self.not_shown_for = Duration::ZERO;
                if !(yielding && standing) {
                    self.capacity_bps = received * fill;
                    self.confirmed = true;
                    self.assumed = false;
                }
            }
        } else {
            self.busy_meter = RateMeter::default();
            // Delivery cannot exceed the paced rate. A higher value comes from packets bunched together on the path.
            let delivered = (self.meter.delivered_bps() * fill).min(self.rate_bps);
            let measured = self.meter.bits_ever() >= 4.0 * self.packet_bits;
            if measured {
                self.capacity_bps = if self.assumed { delivered } else { self.capacity_bps.max(delivered) };
                self.assumed = false;
            }
        }
        self.capacity_bps = self.bounded(self.capacity_bps);
    }

    fn is_queued(&self) -> bool {
        self.delay.standing_queue() > self.least_queue()
    }

    /// Returns the smallest queueing delay that can be distinguished from zero.
    fn least_queue(&self) -> Duration {
        (self.queue_target() / 4).max(self.noise())
    }

    fn settle_round(&mut self, now: Instant, sample: &Sample) {
        let round = &mut self.round;
        round.delivered += sample.delivered_packets;
        round.lost += sample.lost_packets;
        round.backlogged &= sample.backlogged;
        self.round.queued = self.delay.standing_queue() > self.queue_target() / 2;
        if self.round.queued {
            self.growth = 0;
        }
        let is_over =
            self.round.delivered + self.round.lost >= ROUND_PACKETS || now - self.round.started >= LONGEST_ROUND;
        if sample.largest_sent_at >= self.round.started && is_over {
            self.judge_round(now);
            self.round = Round {
                started: now,
                delivered: 0,
                lost: 0,
                queued: false,
                backlogged: true,
                capacity_bps: self.capacity_bps,
            };
        }
    }

    fn judge_round(&mut self, now: Instant) {
        let round = self.round;
        let settled = (round.delivered + round.lost) as f64;
        let expected = match self.phase {
            Phase::Compete => self.baseline_loss.fraction(),
            // A short path does not ebb, so its baseline loss is unknown.
            _ => self.baseline_loss.fraction().max(self.usual_loss.fraction()),
        };
        let expected = expected * settled;
        let too_many = round.lost as f64 > expected + 3.0 + 3.0 * libm::sqrt(expected);
        let grew = self.capacity_bps > round.capacity_bps * 1.01;
        let empty = !round.queued && round.backlogged;
        match self.phase {
            Phase::Compete => self.share_bps *= if too_many { 0.7 } else { 1.015 },
            Phase::Plateau => self.judge_plateau(now, round),
            Phase::Startup if (round.lost as f64) < STARTUP_LOSS * settled => {}
            _ if too_many && !grew && round.backlogged && self.ebb == 0 => {
                self.enter_plateau(now, round.lost as f64 / settled)
            }
            _ if empty && self.ebb == 0 => self.growth = (self.growth + 1).min(GROWTH.len() - 1),
            _ => self.growth = 0,
        }
        self.learn_baseline_loss(now, round);
        if self.phase != Phase::Compete && self.growth == 0 && !self.trial.is_open() {
            self.usual_loss.on_fates(now, round.delivered, round.lost);
        }
    }

    /// Measures the baseline loss. Losses while the sender stays below the capacity are the path's own.
    ///
    /// To see them, the rate ebbs from time to time for two rounds, and the second round counts.
    fn learn_baseline_loss(&mut self, now: Instant, round: Round) {
        let fraction = round.lost as f64 / (round.delivered + round.lost) as f64;
        if self.ebb == 1 || fraction < self.baseline_loss.fraction() {
            self.baseline_loss.on_fates(now, round.delivered, round.lost);
        }
        self.rounds_since_ebb += 1;
        if self.ebb > 0 {
            self.ebb -= 1;
        } else if self.rounds_since_ebb >= self.ebb_spacing && self.phase == Phase::Steady && self.loss_matters() {
            self.ebb = 2;
            self.rounds_since_ebb = 0;
            self.ebb_spacing = (self.ebb_spacing * 2).min(EBB_ROUNDS);
        }
    }

    /// True if treating the path's losses as missing capacity would empty the queue.
    fn loss_matters(&self) -> bool {
        let loss = self.loss.fraction();
        loss > 0.002 && self.rtt.smoothed().mul_f64(1.5 * loss) > self.queue_target() / 2
    }

    fn enter_plateau(&mut self, now: Instant, loss: f64) {
        // Losses long after the last plateau have another cause, such as an outage. Only a plateau that is found
        // repeatedly is held long.
        if self.plateau.is_some_and(|last| now - last.since > self.plateau_hold * 3) {
            self.plateau_hold = Duration::ZERO;
        }
        self.plateau = Some(Plateau { since: now, loss, before_bps: self.capacity_bps, delivered: 0, lost: 0 });
        // One round's losses cannot prove a rate below the part that they left.
        self.capacity_bps = (self.meter.delivered_bps() * self.fill()).max(self.capacity_bps * (1.0 - loss));
        self.plateau_hold = (self.plateau_hold * 2).max(self.rtt.smoothed() * 10).min(LONGEST_PLATEAU);
        self.confirmed = true;
        self.not_shown_for = Duration::ZERO;
        self.growth = 0;
        self.phase = Phase::Plateau;
    }

    /// Ends the plateau if the losses continue at the delivery rate.
    ///
    /// They are then the path's own, and the previous rate was right.
    fn judge_plateau(&mut self, now: Instant, round: Round) {
        let Some(plateau) = &mut self.plateau else { return };
        if round.started < plateau.since + self.rtt.smoothed() {
            return;
        }
        plateau.delivered += round.delivered;
        plateau.lost += round.lost;
        let settled = (plateau.delivered + plateau.lost) as f64;
        let Plateau { loss, before_bps, delivered, lost, .. } = *plateau;
        if settled * loss >= 5.0 && lost as f64 > settled * loss / 2.0 {
            self.baseline_loss.on_fates(now, delivered, lost);
            self.capacity_bps = before_bps;
            self.plateau = None;
            self.plateau_hold = Duration::ZERO;
            self.phase = Phase::Steady;
        }
    }

    /// Tries a higher rate if a queue stands for longer than the controller needs to drain one.
    ///
    /// If everything arrives, the delay is not a queue: the route became longer, or a radio link's delay wanders. The
    /// baseline then restarts, and the rate grows fast.
    fn try_more(&mut self, now: Instant, sample: &Sample) {
        let is_odd = self.phase == Phase::Steady && self.delay.standing_queue() >= self.queue_target() * 2;
        let is_doubted = self.trial.doubts(now, is_odd, self.rtt.smoothed());
        match self.trial.on_sample(now, sample) {
            Some(TrialOutcome::MoreFits) => {
                self.delay.rebase(now);
                self.rtt.rebase(now);
                self.room = None;
                self.growth = GROWTH.len() - 2;
                self.capacity_bps = self.bounded(self.capacity_bps.max(self.best_bps));
            }
            Some(TrialOutcome::Full(carried_bps)) => {
                self.capacity_bps = self.bounded(self.capacity_bps.min(carried_bps * self.fill()));
            }
            None if (is_doubted || self.queue_stays) && sample.backlogged && self.phase == Phase::Steady => {
                if core::mem::take(&mut self.queue_stays) {
                    self.trial.hurry();
                }
                let whole = self.rtt.min().clamp(SHORTEST_TRIAL, LONGEST_TRIAL.max(sample.interval() * TRIAL_REPORTS));
                let length = whole.max(self.noise() * 8).max(self.packets_time(10.0));
                self.trial.begin(now, length, self.capacity_bps / self.fill());
            }
            None => {}
        }
    }

    /// Returns the bytes to send for each byte that should arrive.
    fn fill(&self) -> f64 {
        1.0 / (1.0 - self.baseline_loss.fraction().min(MOST_BASELINE_LOSS))
    }

    /// Adds up the amount by which the queue should have shrunk, to check whether it did.
    fn watch_room(&mut self, now: Instant, sample: &Sample) {
        let queue_s = self.delay.standing_queue().as_secs_f64();
        if queue_s < 2.0 * self.queue_target().as_secs_f64() {
            self.room = None;
            self.compete_for = Duration::ZERO;
            if self.phase == Phase::Steady {
                let step = sample.interval().as_secs_f64() / ALONE_MEMORY.as_secs_f64();
                self.alone_bps += (self.capacity_bps - self.alone_bps)
                    * if self.capacity_bps > self.alone_bps { 1.0 } else { step.min(1.0) };
            }
            return;
        }
        let fresh = CapacityTest { since: now, queue_s, capacity_bps: self.capacity_bps, left_s: 0.0 };
        let room = self.room.get_or_insert(fresh);
        if (self.capacity_bps / room.capacity_bps - 1.0).abs() > 0.05 {
            *room = fresh;
        }
        let passed_s = sample.received_bytes as f64 * 8.0 / self.capacity_bps;
        room.left_s += sample.send_interval.as_secs_f64() - passed_s;
    }

    /// Updates the highest delivery rate, which decays slowly.
    fn remember_best(&mut self, sample: &Sample) {
        let fades = (sample.interval().as_secs_f64() / ALONE_MEMORY.as_secs_f64()).min(1.0);
        let delivered_bps =
            if self.meter.bits_ever() >= 10.0 * self.packet_bits { self.meter.delivered_bps() } else { 0.0 };
        self.best_bps = delivered_bps.min(self.capacity_bps).max(self.best_bps * (1.0 - fades));
    }

    /// True if the queue stayed although the sender left capacity unused. Other traffic fills it.
    fn is_contended(&self) -> bool {
        let tolerance = (self.rtt.min() + self.packets_time(4.0) + self.noise() * 4).as_secs_f64() + 0.02;
        self.confirmed
            && self.room.is_some_and(|r| self.delay.standing_queue().as_secs_f64() - r.queue_s + r.left_s > tolerance)
    }

    /// Selects the next phase.
    ///
    /// A sender competes only if it fills the path: without a backlog, clock drift would look like a rival too.
    fn choose_phase(&mut self, now: Instant, full: bool) {
        let queue = self.delay.standing_queue();
        let is_drain_due = self.drain.is_due(now, self.capacity_bps, self.is_queued(), self.rtt.smoothed());
        self.phase = match self.phase {
            Phase::Startup if self.startup_is_over(queue) => Phase::Steady,
            Phase::Startup => Phase::Startup,
            Phase::Plateau if self.stays_on_plateau(now) && queue < self.queue_target() * 2 => Phase::Plateau,
            Phase::Compete if self.stays_competing(now) => Phase::Compete,
            Phase::Compete => {
                self.room = None;
                if full {
                    self.capacity_bps = self.meter.received_bps() * self.fill();
                }
                Phase::Steady
            }
            _ if full && self.is_contended() && self.room.is_some_and(|room| !self.trial.found_full(room.since)) => {
                self.queue_stays = true;
                Phase::Steady
            }
            _ if full && self.is_contended() => {
                self.share_bps = self.capacity_bps.max(self.alone_bps / 2.0);
                self.compete_since = now;
                let shortest = FIRST_SPELL.max(self.rtt.smoothed() * 6);
                self.compete_for = (self.compete_for * 2).max(shortest).min(LONGEST_SPELL);
                Phase::Compete
            }
            Phase::Drain if self.drain.goes_on(now, self.delay.queue(), self.rtt.smoothed()) => Phase::Drain,
            Phase::Drain => {
                self.queue_stays = self.drain.end(self.capacity_bps, self.least_queue());
                Phase::Steady
            }
            _ if is_drain_due => {
                self.drain.begin(now, queue);
                Phase::Drain
            }
            _ if self.growth > 0 => Phase::Probe,
            _ => Phase::Steady,
        };
    }

    /// True if a queue grows at the pace that an excessive rate causes, or is long.
    fn startup_is_over(&self, queue: Duration) -> bool {
        let growing = self.meter.received_bps() < 0.9 * self.meter.sent_bps();
        (queue > self.queue_target() && growing) || queue > self.rtt.min() / 2 + self.queue_target()
    }

    fn stays_on_plateau(&self, now: Instant) -> bool {
        self.plateau.is_some_and(|p| now - p.since < self.plateau_hold)
    }

    fn stays_competing(&self, now: Instant) -> bool {
        let tested = now - self.compete_since > self.rtt.smoothed() * 6;
        let alone = self.meter.delivered_bps() > 0.9 * self.alone_bps;
        self.room.is_some() && !(tested && alone) && now - self.compete_since < self.compete_for
    }

    /// Returns the queue that packets sent now will meet at the bottleneck, in seconds.
    ///
    /// It is the queue that the last reported packet met, plus the bytes sent after it, minus the bytes that the
    /// bottleneck forwarded in that time (a Smith predictor).
    fn predicted_queue_s(&self, now: Instant, sample: &Sample) -> f64 {
        let sent_s = sample.sent_after_bytes as f64 * 8.0 / self.capacity_bps;
        (self.delay.standing_queue().as_secs_f64() + sent_s - (now - sample.largest_sent_at).as_secs_f64()).max(0.0)
    }

    fn law(&self, now: Instant, sample: &Sample) -> f64 {
        let target = match self.phase {
            Phase::Startup => return self.capacity_bps * if self.assumed { 1.0 } else { 2.0 },
            Phase::Plateau => return self.capacity_bps * 0.985,
            Phase::Compete => return self.share_bps.min(1.1 * self.fill() * self.meter.received_bps()),
            Phase::Steady if self.trial.is_sending(now) => return self.capacity_bps * trial::FASTER,
            Phase::Drain => -0.5 * self.queue_target().as_secs_f64(),
            _ => self.queue_target().as_secs_f64(),
        };
        let feedback = (now - sample.largest_sent_at) / 2;
        // The rate stays in force until the next sample.
        let held = sample.interval().min(self.rtt.min().max(LONGEST_HELD));
        let horizon = feedback.max(self.noise() * 2).max(held).as_secs_f64().max(0.002);
        let gain = 1.0 + (target - self.predicted_queue_s(now, sample)) / horizon;
        let most = match (self.ebb > 0, sample.backlogged) {
            (true, _) => 0.93,
            (false, false) => 1.0,
            (false, true) => 1.25,
        };
        self.capacity_bps * gain.clamp(0.25, most).max(if self.growth > 0 { GROWTH[self.growth] } else { 0.0 })
    }

    fn bounded(&self, bps: f64) -> f64 {
        let cap = self.config.cap.map_or(f64::MAX, |cap| cap.bps() as f64);
        bps.min(cap).max(self.config.floor.bps() as f64)
    }

    fn packets_time(&self, packets: f64) -> Duration {
        Duration::from_secs_f64((packets * self.packet_bits / self.capacity_bps.max(1.0)).min(10.0))
    }

    /// Returns the present pacing rate.
    ///
    /// After an idle time it falls gradually, to half after a minute.
    pub fn pacing_rate(&self, now: Instant) -> Rate {
        Rate::from_bps(self.bounded(self.rate_bps * (1.0 - self.caution(now))) as u64)
    }

    fn caution(&self, now: Instant) -> f64 {
        let idle = (now - self.last_sample).saturating_sub(IDLE);
        (idle.as_secs_f64() / IDLE_DOUBT.as_secs_f64()).min(1.0) / 2.0
    }

    /// Resumes after an outage.
    ///
    /// The capacity is the previous one, reduced for the length of the silence, until traffic shows the real one.
    /// Outages without traffic between them do not add up.
    pub fn resume(&mut self, now: Instant) {
        let before = *self.before_outage_bps.get_or_insert(self.capacity_bps);
        self.capacity_bps = self.bounded(before * (1.0 - self.caution(now)));
        self.rate_bps = self.capacity_bps;
        (self.meter, self.busy_meter) = (RateMeter::default(), RateMeter::default());
        (self.room, self.plateau) = (None, None);
    }

    /// Limit of bytes in flight. It stops the sender if reports stop.
    pub fn in_flight_limit_bytes(&self) -> u64 {
        let report_interval = (self.rtt.min() / 4).clamp(Duration::from_millis(1), Duration::from_millis(25));
        let queue = if self.phase == Phase::Compete { self.delay.standing_queue() * 2 } else { self.queue_target() };
        let round_trip = if self.trial.is_open() { self.rtt.smoothed() } else { self.rtt.min() };
        let span = round_trip + report_interval + self.noise() * 4 + queue;
        let factor = match self.phase {
            Phase::Startup => 2.2,
            _ if self.trial.is_open() => 1.1 * trial::FASTER,
            _ => 1.1 * GROWTH[self.growth],
        };
        let bits = self.capacity_bps * factor * span.as_secs_f64() + 10.0 * self.packet_bits;
        (bits / 8.0) as u64
    }

    /// Returns the learnt capacity, once a queue has shown it.
    pub fn capacity(&self) -> Option<Rate> {
        self.confirmed.then(|| Rate::from_bps(self.capacity_bps as u64))
    }

    /// Returns the rate that the path is known to carry.
    ///
    /// It is the capacity, or the highest delivery rate until a queue shows the capacity. Zero means that the path
    /// has carried nothing yet.
    pub fn carried(&self) -> Rate {
        if self.assumed { Rate::ZERO } else { Rate::from_bps(self.capacity_bps as u64) }
    }

    /// Returns the highest rate that the path carried in about the last [`ALONE_MEMORY`].
    ///
    /// It is at least [`PathRate::carried`], and zero while that is zero.
    pub fn carried_at_best(&self) -> Rate {
        if self.assumed { Rate::ZERO } else { self.carried().max(Rate::from_bps(self.best_bps as u64)) }
    }

    /// Returns the rate to offer to senders that obey granted rates.
    ///
    /// It is [`PathRate::carried`], and from time to time more. Otherwise they would never find free capacity.
    pub fn offered(&self) -> Rate {
        let (round_trips, least) = LOOK_FOR_MORE_AFTER;
        let more = match self.phase {
            Phase::Startup => MORE_AT_FIRST,
            _ if !self.confirmed => MORE_AT_FIRST,
            _ if self.not_shown_for > (self.rtt.min() * round_trips).max(least) => MORE.max(GROWTH[self.growth]),
            _ => GROWTH[self.growth],
        };
        if self.assumed { Rate::ZERO } else { Rate::from_bps(self.bounded(self.capacity_bps * more) as u64) }
    }

    /// Maximum rate, if there is one.
    pub fn cap(&self) -> Option<Rate> {
        self.config.cap
    }

    /// Returns the target of the standing queue.
    ///
    /// It is the largest of 1 ms, 2 % of the RTT, 1.2 packet times and twice the noise.
    pub fn queue_target(&self) -> Duration {
        Duration::from_millis(1).max(self.rtt.min() / 50).max(self.packets_time(1.2)).max(self.noise() * 2)
    }

    /// Mean error of a predicted change of the delay over a round trip, see [`DelayNoise`].
    pub fn noise(&self) -> Duration {
        self.noise.mean()
    }

    /// Present phase of the controller.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// RTT statistics of the path.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// One-way delay statistics of the path.
    pub fn one_way_delay(&self) -> &OneWayDelay {
        &self.delay
    }

    /// Loss rate of the path.
    pub fn loss(&self) -> &LossRate {
        &self.loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plateau_is_held_longer_only_where_it_is_found_again_and_again() {
        let mut control = PathRate::new(PathRateConfig::default());
        control.rtt.on_sample(Instant::ZERO, Duration::from_millis(20));
        let mut hold_ms = |at_ms| {
            control.enter_plateau(Instant::from_millis(at_ms), 0.1);
            control.plateau_hold.as_millis()
        };
        assert_eq!([1_000, 1_300, 1_900].map(&mut hold_ms), [200, 400, 800]);
        assert_eq!([12_000, 30_000].map(hold_ms), [200, 200]);
    }

    /// Returns the sample of a single packet of 1500 bytes in its own window, without a backlog.
    fn lone_packet(sent_at: Instant, before: (u64, u64), now: (u64, u64)) -> Sample {
        let [send_interval, receive_interval] = [now.0 - before.0, now.1 - before.1].map(Duration::from_millis);
        Sample {
            rtt: Duration::from_millis(now.1 - now.0 + 20),
            one_way_delay_us: (now.1 - now.0) as u32 * 1000,
            largest_sent_at: sent_at,
            largest_bytes: 1500,
            received_bytes: 1500,
            receive_interval,
            send_interval,
            backlogged: false,
            ce_packets: 0,
            delivered_packets: 1,
            delivered_bytes: 1500,
            lost_packets: 0,
            lost_bytes: 0,
            sent_after_bytes: 0,
            in_flight_bytes: 1500,
        }
    }

    #[test]
    fn an_idle_path_between_clocks_that_run_apart_forgets_nothing() {
        let mut control = PathRate::new(PathRateConfig::default());
        let sample = |at_ms: u64, gap_ms: u64, delay_us: u64, bytes, backlogged| Sample {
            backlogged,
            received_bytes: bytes,
            delivered_bytes: bytes,
            rtt: Duration::from_millis(40),
            one_way_delay_us: delay_us as u32,
            ..lone_packet(Instant::from_millis(at_ms), (0, 20), (gap_ms, 20 + gap_ms))
        };
        // 4 Mbit/s with a short queue.
        for n in 0..2_000 {
            control.on_sample(Instant::from_millis(n * 3 + 40), &sample(n * 3, 3, 2_000 + n % 2 * 3_000, 1_500, true));
        }
        let busy = control.carried();
        assert!((3_500_000..4_500_000).contains(&busy.bps()), "{busy:?}");
        // One clock gains 0.7 ms per second on the other.
        for n in 1..300 {
            control.on_sample(
                Instant::from_millis(6_000 + n * 50),
                &sample(5_960 + n * 50, 50, 2_000 + n * 35, 70, false),
            );
            assert_ne!(control.phase(), Phase::Compete);
        }
        assert_eq!(control.carried(), busy);
    }

    #[test]
    fn who_never_waits_for_the_path_still_sees_that_its_queue_grows() {
        let initial = Rate::from_mbps(10);
        let mut control = PathRate::new(PathRateConfig { initial, ..PathRateConfig::default() });
        // Ten packets 2 ms apart, twice a second, as an ACK clock sends them, over 1 Mbit/s and 20 ms.
        let (mut before, mut free_at) = ((0, 20), 0);
        for packet in 1..60 {
            let sent = packet / 10 * 500 + packet % 10 * 2;
            free_at = sent.max(free_at) + 12;
            let now = (sent, free_at + 8);
            let sample = lone_packet(Instant::from_millis(sent), before, now);
            control.on_sample(Instant::from_millis(now.1 + 20), &sample);
            before = now;
        }
        let rate = control.pacing_rate(Instant::from_millis(before.1 + 20));
        assert!((800_000..1_300_000).contains(&rate.bps()), "{rate:?}");
    }
}
