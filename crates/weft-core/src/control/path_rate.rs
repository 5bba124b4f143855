//! Path rate: learns what one path can carry, and paces just below a standing queue, so that the queue stands at our edge.
//!
//! The idea is accumulation-based control (Harrison, Kalyanaraman, Ramakrishnan, "Overlay Bandwidth Services"; Xia et al.,
//! "Accumulation-based congestion control"): keep a small, known amount of our own traffic queued at the bottleneck. What
//! others found about that is used: FAST and Copa for the target on the queueing delay and the mode for greedy rivals, BBR for
//! the delivery rate as a measure of capacity, LEDBAT (RFC 6817) for one-way delays. Once per report, for one path:
//!
//! 1. **Capacity `C`.** While a queue stands and there is a backlog, the rate received is the capacity, exactly. Without a queue it
//!    is a lower bound, and `C` is its maximum. Traffic that does not fill the path teaches nothing, unless the
//!    bottleneck was busy all the same, as a growing queue shows. What is lost on the way anyway is added:
//!    `C` is the rate to *send* so that the bottleneck is full. That baseline loss is counted in rounds in which the rate ebbs
//!    a little, so that losses of our own making are not taken for the path's.
//! 2. **Rate `R = C·(1 + (q* − q̂)/T)`.** `q̂` is the queue that what is sent now will meet: the queue the last reported packet met, plus what was
//!    sent after it, minus what the bottleneck passed on since (a Smith predictor, so that the feedback delay does not
//!    make the loop swing). `T` is half the feedback delay. `q*` follows the path: see [`PathRate::queue_target`].
//! 3. **More.** While the queue stays empty in spite of a backlog, the rate grows faster with each round trip, by 2 % up to twice.
//!    If that only brings losses, the rate stays at what was delivered (a *plateau*: a policer or a tiny buffer); if the losses go on there,
//!    they are the path's own, and the rate was right. Loss by itself never lowers the rate.
//! 4. **Drain.** Every ten seconds the queue is emptied for a moment, or the baseline of the delay would
//!    creep up with the queue; sooner where a queue has lowered `C`, since what does not go is no queue ([`Drain`]).
//! 5. **Trial.** Delay alone cannot tell a queue from a route that became longer. Where a queue stays too long, or a drain does not
//!    empty it, the rate is 1.5 times `C` for a moment ([`Trial`]). If all of it arrives as fast as it was sent, there is no queue.
//!    Else what arrived bounds `C`.
//! 6. **Compete.** We know how much of the bottleneck's service we left unused. If the queue did not shrink by that, and a trial finds the
//!    path full, someone else filled it: then we hold a share, increased each round and reduced on excess loss, and try again after a while whether the queue goes.

use crate::control::drain::Drain;
use crate::control::rate_meter::RateMeter;
use crate::control::trial::{self, Outcome, Trial};
use crate::sense::{DelayNoise, LossRate, OneWayDelay, Rtt, Sample, Transmission};
use weft_units::{Duration, Instant, Rate};

/// Bounds of a path's pacing rate. None of them is the path's capacity, which nobody has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathRateConfig {
    /// Where the search starts.
    pub initial: Rate,
    /// Never slower: measuring needs packets.
    pub floor: Rate,
    /// Never faster, if set.
    pub cap: Option<Rate>,
}

impl Default for PathRateConfig {
    fn default() -> PathRateConfig {
        PathRateConfig { initial: Rate::from_mbps(2), floor: Rate::from_bps(64_000), cap: None }
    }
}

/// What the controller is doing, for display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Doubling the rate every round trip until a queue shows.
    Startup,
    /// Holding a small queue.
    Steady,
    /// No queue although there is a backlog: looking for more.
    Probe,
    /// Raising the rate only raised the loss: staying at what is delivered.
    Plateau,
    /// Emptying the queue for a moment, to see the bare delay.
    Drain,
    /// Someone else keeps the queue full: holding a share instead of a delay.
    Compete,
}

/// Growth while the queue stays empty, by the number of round trips it did.
const GROWTH: [f64; 6] = [1.0, 1.02, 1.05, 1.15, 1.4, 2.0];
/// A share is first held for so long before it is tried again whether the queue goes; twice as long each time it does not.
const FIRST_SPELL: Duration = Duration::from_millis(500);
const LONGEST_SPELL: Duration = Duration::from_secs(10);
/// On a lossy path the rate ebbs every so many rounds.
const EBB_ROUNDS: u32 = 32;
/// How slowly the capacity seen without contention is forgotten, and the highest rate delivered.
const ALONE_MEMORY: Duration = Duration::from_secs(10);
/// However often a plateau was found, it is tested again after so long.
const LONGEST_PLATEAU: Duration = Duration::from_secs(10);
/// While the rate doubles, losses that are a limit's doing are soon half of what is sent; fewer than this are the path's own.
const STARTUP_LOSS: f64 = 0.25;
/// The standing queue is the least of at most so long, or of a round trip.
const LONGEST_WINDOW: Duration = Duration::from_millis(250);
/// A window received in so much longer than it was sent left a longer queue behind.
const GROWING: f64 = 1.25;
/// Who is offered what the path carries never learns that it carries more: after so many round trips, and so long, with so much of it in
/// use
const LOOK_FOR_MORE_AFTER: (u32, Duration) = (20, Duration::from_millis(500));
const IN_USE: f64 = 0.8;
/// this much more is offered,
const MORE: f64 = 1.25;
/// and this much while no queue has shown the capacity at all.
const MORE_AT_FIRST: f64 = 2.0;
/// Silence beyond this makes the remembered capacity doubtful.
const IDLE: Duration = Duration::from_secs(1);
/// The doubt halves the rate after so long.
const IDLE_DOUBT: Duration = Duration::from_secs(60);
/// A trial of a higher rate lasts for a round trip, but not long: half of it is the queue that it makes.
const SHORTEST_TRIAL: Duration = Duration::from_millis(20);
const LONGEST_TRIAL: Duration = Duration::from_millis(60);
/// A trial lasts for so many reports at least.
const TRIAL_REPORTS: u32 = 3;
/// Reports of a short path come no further apart than this while packets arrive.
const LONGEST_HELD: Duration = Duration::from_millis(20);
/// More than this is not taken for the path's own loss, or a buffer of two packets would be flooded for what it drops. Standard: links that
/// lose a tenth are the worst that are asked for; the rest is room for their bursts.
const MOST_BASELINE_LOSS: f64 = 0.15;
/// Packets a round must settle before it is judged,
const ROUND_PACKETS: u64 = 20;
/// unless it has lasted so long: at the lowest rates so many take seconds, and looking for more would take minutes.
const LONGEST_ROUND: Duration = Duration::from_millis(250);

/// What happened in the current round: about one round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    started: Instant,
    delivered: u64,
    lost: u64,
    queued: bool,
    backlogged: bool,
    capacity_bps: f64,
}

/// The rate before and the losses that led to a plateau, and what was settled on it.
#[derive(Clone, Copy, Debug)]
struct Plateau {
    since: Instant,
    loss: f64,
    before_bps: f64,
    delivered: u64,
    lost: u64,
}

/// Whether a queue goes when we make room for it.
#[derive(Clone, Copy, Debug)]
struct Room {
    since: Instant,
    queue_s: f64,
    capacity_bps: f64,
    /// Seconds of the bottleneck's service we left unused since.
    left_s: f64,
}

/// Learns one path's capacity and paces just below a standing queue.
#[derive(Clone, Debug)]
pub struct PathRate {
    config: PathRateConfig,
    rtt: Rtt,
    delay: OneWayDelay,
    transmission: Transmission,
    noise: DelayNoise,
    loss: LossRate,
    baseline_loss: LossRate,
    /// Of all rounds without a rival, whoever lost it.
    usual_loss: LossRate,
    meter: RateMeter,
    busy_meter: RateMeter,
    phase: Phase,
    capacity_bps: f64,
    /// The capacity is still the configured starting point.
    assumed: bool,
    confirmed: bool,
    growth: usize,
    rate_bps: f64,
    packet_bits: f64,
    round: Round,
    plateau: Option<Plateau>,
    plateau_hold: Duration,
    /// Rounds of ebb left.
    ebb: u8,
    ebb_spacing: u32,
    rounds_since_ebb: u32,
    drain: Drain,
    /// The queue did not go when it was drained.
    queue_stays: bool,
    trial: Trial,
    room: Option<Room>,
    alone_bps: f64,
    /// The highest rate delivered in about the last [`ALONE_MEMORY`].
    best_bps: f64,
    share_bps: f64,
    compete_since: Instant,
    compete_for: Duration,
    last_sample: Instant,
    /// In use for so long since a queue last showed the capacity.
    not_shown_for: Duration,
    /// The capacity before the last outage, until traffic has filled the path since.
    before_outage_bps: Option<f64>,
}

impl PathRate {
    /// A controller that knows nothing yet.
    pub fn new(config: PathRateConfig) -> PathRate {
        let initial = config.initial.bps() as f64;
        PathRate {
            config,
            rtt: Rtt::default(),
            delay: OneWayDelay::default(),
            transmission: Transmission::default(),
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

    /// Changes the highest rate allowed; it holds from the next packet on.
    pub fn set_cap(&mut self, cap: Option<Rate>) {
        self.config.cap = cap;
        self.capacity_bps = self.bounded(self.capacity_bps);
        self.rate_bps = self.bounded(self.rate_bps);
    }

    /// Goes on where `other` has got to: it led over the same link until now, and what is remembered here is older.
    pub fn take_over(&mut self, other: &PathRate) {
        if !other.assumed {
            self.capacity_bps = self.bounded(other.capacity_bps);
            self.rate_bps = self.capacity_bps;
        }
    }

    /// Notes that the peer started anew, and its clock with it. The capacity of the path is kept.
    pub fn on_new_clock(&mut self) {
        self.delay.on_new_clock();
        self.noise.on_new_clock();
    }

    /// Takes in what a report taught.
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
            // What the path takes for it is not known yet, and no queue is expected.
            Phase::Startup => sent_s,
            _ => sample.received_bytes as f64 * 8.0 / self.capacity_bps,
        };
        let [queue_s, standing_s] = [self.delay.queue(), self.delay.standing_queue()].map(|d| d.as_secs_f64());
        self.noise.on_sample(now, queue_s, standing_s, service_s - sent_s, self.rtt.min());
    }

    /// The bottleneck's own part counts as queue: at its rate the last packet is still there.
    fn taken_by_other_hops(&self, bytes: u32) -> Duration {
        let at_bottleneck = Duration::from_secs_f64(f64::from(bytes) * 8.0 / self.capacity_bps.max(1.0));
        self.transmission.time(bytes).saturating_sub(at_bottleneck)
    }

    /// Whether the bottleneck had something to do throughout the window, however little was asked for: the queue its first
    /// packet met took longer than sending the rest, and grew.
    fn kept_busy(&self, sample: &Sample) -> bool {
        self.delay.queue() >= sample.send_interval.max(self.noise() * 4)
            && sample.receive_interval > sample.send_interval.mul_f64(GROWING)
    }

    /// While a queue stands at both ends of a window, what was received is the capacity. Without a queue it is a lower bound.
    /// `full` says that the window shows the path and not the traffic.
    fn learn_capacity(&mut self, sample: &Sample, full: bool) {
        let (span, packets) = match self.phase {
            Phase::Startup => (self.rtt.min() / 4, 8.0),
            _ => (self.rtt.min(), 10.0),
        };
        let span = span.max(self.noise() * 8).max(self.packets_time(packets));
        if !full {
            self.busy_meter = RateMeter::default();
            if self.assumed || self.phase == Phase::Startup {
                // What little was asked for says nothing of the path, nor do the pauses of a young flow.
                return;
            }
        }
        self.meter.on_sample(sample, span);
        let fill = self.fill();
        if self.meter.delivered_bps() * fill > IN_USE * self.capacity_bps {
            self.not_shown_for += sample.interval();
        }
        // On a plateau no more is sent than was delivered: a queue there is of our own bursts and shows nothing.
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
            // No more than was paced can have been delivered; what looks like it was bunched on the way.
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

    /// What is told from no queue.
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
            // A short path does not ebb, and its baseline is not known.
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

    /// Losses that come while we send less than the path carries are none of our doing. To see them, the rate ebbs now and
    /// then for two rounds, of which the second is counted.
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

    /// Whether taking the path's losses for missing capacity would empty the queue.
    fn loss_matters(&self) -> bool {
        let loss = self.loss.fraction();
        loss > 0.002 && self.rtt.smoothed().mul_f64(1.5 * loss) > self.queue_target() / 2
    }

    fn enter_plateau(&mut self, now: Instant, loss: f64) {
        // Losses long after the last plateau are another story: an outage, say. Only one that is found again and again is held long.
        if self.plateau.is_some_and(|last| now - last.since > self.plateau_hold * 3) {
            self.plateau_hold = Duration::ZERO;
        }
        self.plateau = Some(Plateau { since: now, loss, before_bps: self.capacity_bps, delivered: 0, lost: 0 });
        // One round's losses cannot show less than what they left of the rate.
        self.capacity_bps = (self.meter.delivered_bps() * self.fill()).max(self.capacity_bps * (1.0 - loss));
        self.plateau_hold = (self.plateau_hold * 2).max(self.rtt.smoothed() * 10).min(LONGEST_PLATEAU);
        self.confirmed = true;
        self.not_shown_for = Duration::ZERO;
        self.growth = 0;
        self.phase = Phase::Plateau;
    }

    /// If the losses go on although we send no more than was delivered, they are the path's, and the rate was right.
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

    /// Tries a higher rate where a queue stands for longer than the control takes to drain one. If all of it arrives, the delay is no
    /// queue: a route became longer, or a radio wanders. The baseline starts anew then, and the rate grows fast.
    fn try_more(&mut self, now: Instant, sample: &Sample) {
        let is_odd = self.phase == Phase::Steady && self.delay.standing_queue() >= self.queue_target() * 2;
        let is_doubted = self.trial.doubts(now, is_odd, self.rtt.smoothed());
        match self.trial.on_sample(now, sample) {
            Some(Outcome::MoreFits) => {
                self.delay.rebase(now);
                self.rtt.rebase(now);
                self.room = None;
                self.growth = GROWTH.len() - 2;
                self.capacity_bps = self.bounded(self.capacity_bps.max(self.best_bps));
            }
            Some(Outcome::Full(carried_bps)) => {
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

    /// What has to be sent for each byte that shall arrive.
    fn fill(&self) -> f64 {
        1.0 / (1.0 - self.baseline_loss.fraction().min(MOST_BASELINE_LOSS))
    }

    /// Sums up what the queue should have shrunk by, to see whether it did.
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
        let fresh = Room { since: now, queue_s, capacity_bps: self.capacity_bps, left_s: 0.0 };
        let room = self.room.get_or_insert(fresh);
        if (self.capacity_bps / room.capacity_bps - 1.0).abs() > 0.05 {
            *room = fresh;
        }
        let passed_s = sample.received_bytes as f64 * 8.0 / self.capacity_bps;
        room.left_s += sample.send_interval.as_secs_f64() - passed_s;
    }

    /// Remembers the highest rate delivered, and forgets it slowly.
    fn remember_best(&mut self, sample: &Sample) {
        let fades = (sample.interval().as_secs_f64() / ALONE_MEMORY.as_secs_f64()).min(1.0);
        let delivered_bps =
            if self.meter.bits_ever() >= 10.0 * self.packet_bits { self.meter.delivered_bps() } else { 0.0 };
        self.best_bps = delivered_bps.min(self.capacity_bps).max(self.best_bps * (1.0 - fades));
    }

    /// Whether the queue stayed although we left room for it to go: someone else fills it.
    fn is_contended(&self) -> bool {
        let tolerance = (self.rtt.min() + self.packets_time(4.0) + self.noise() * 4).as_secs_f64() + 0.02;
        self.confirmed
            && self.room.is_some_and(|r| self.delay.standing_queue().as_secs_f64() - r.queue_s + r.left_s > tolerance)
    }

    /// Only who fills the path competes: without a backlog clocks that run apart look like a rival, too.
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

    /// A queue that grows as only too high a rate makes it grow, or a long one.
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

    /// The queue that will stand at the bottleneck when what is sent now arrives there: the queue the last reported packet
    /// met, and what was sent after it, less what the bottleneck passed on in that time (a Smith predictor).
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
        // The rate holds until the next sample.
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

    /// The rate at which to send now. After an idle time it is the remembered one, less a growing caution: half after a minute.
    pub fn pacing_rate(&self, now: Instant) -> Rate {
        Rate::from_bps(self.bounded(self.rate_bps * (1.0 - self.caution(now))) as u64)
    }

    fn caution(&self, now: Instant) -> f64 {
        let idle = (now - self.last_sample).saturating_sub(IDLE);
        (idle.as_secs_f64() / IDLE_DOUBT.as_secs_f64()).min(1.0) / 2.0
    }

    /// The path answers again after an outage. Its capacity is what it was, less the caution after so long a silence, until traffic shows
    /// what it is. Outages without traffic between them do not add up.
    pub fn resume(&mut self, now: Instant) {
        let before = *self.before_outage_bps.get_or_insert(self.capacity_bps);
        self.capacity_bps = self.bounded(before * (1.0 - self.caution(now)));
        self.rate_bps = self.capacity_bps;
        (self.meter, self.busy_meter) = (RateMeter::default(), RateMeter::default());
        (self.room, self.plateau) = (None, None);
    }

    /// Bytes that may be in flight: what stops the sender when reports stop.
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

    /// The learned capacity, once a queue has shown it.
    pub fn capacity(&self) -> Option<Rate> {
        self.confirmed.then(|| Rate::from_bps(self.capacity_bps as u64))
    }

    /// What the path has been seen to carry: its capacity, or while no queue has shown that, the most that arrived. Zero: it has carried
    /// nothing yet.
    pub fn carried(&self) -> Rate {
        if self.assumed { Rate::ZERO } else { Rate::from_bps(self.capacity_bps as u64) }
    }

    /// What the path carried at best in about the last [`ALONE_MEMORY`], and no less than [`PathRate::carried`]. Zero as long as that is zero.
    pub fn carried_at_best(&self) -> Rate {
        if self.assumed { Rate::ZERO } else { self.carried().max(Rate::from_bps(self.best_bps as u64)) }
    }

    /// What to offer to senders that go as fast as they are told: [`PathRate::carried`], and now and then more, or they would never find
    /// out that there is more.
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

    /// The rate it never exceeds, if there is one.
    pub fn cap(&self) -> Option<Rate> {
        self.config.cap
    }

    /// The standing queue aimed at: one millisecond, 2 % of the round trip, a good packet or twice the noise, whichever is most.
    pub fn queue_target(&self) -> Duration {
        Duration::from_millis(1).max(self.rtt.min() / 50).max(self.packets_time(1.2)).max(self.noise() * 2)
    }

    /// Mean error of a predicted change of the delay over a round trip, see [`DelayNoise`].
    pub fn noise(&self) -> Duration {
        self.noise.mean()
    }

    /// What the controller is doing.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Round-trip times of the path.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// One-way delays of the path.
    pub fn one_way_delay(&self) -> &OneWayDelay {
        &self.delay
    }

    /// The path's loss rate.
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

    /// A packet of 1500 bytes in a window of its own, with nothing waiting behind it.
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
        // One clock gains 0.7 ms a second on the other.
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
        // Ten packets 2 ms apart twice a second, as an ACK clock gives them, over 1 Mbit/s and 20 ms.
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
