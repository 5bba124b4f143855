use super::constants::GROWTH_STEPS;
use super::phase::State;
use super::{PathRate, Sample};
use weft_units::tuned::{Constant, Tuned};
use weft_units::{Duration, Instant};

/// Number of packets of a round (about one RTT) that must be delivered or lost before the round is judged.
///
/// Tuned.
pub const ROUND_PACKETS: Tuned<u32> = Tuned::new(Constant::RoundPackets, 20);
/// Time after which a round is judged even with fewer than [`ROUND_PACKETS`] packets.
///
/// At the lowest rates that number of packets takes seconds, and growth would take minutes. *Tuned*.
pub const LONGEST_ROUND: Tuned<Duration> = Tuned::new(Constant::LongestRound, Duration::from_millis(250));

/// Growth ends after this number of successive rounds in which a higher rate brought only losses.
///
/// Derived: the first such round may end before reports on the higher rate have arrived.
const FRUITLESS_ROUNDS: u32 = 2;
/// Loss in addition to the path's own above which a higher rate may be the cause, as a fraction of the packets.
///
/// Tuned.
const EXTRA_LOSS: Tuned<f64> = Tuned::new(Constant::ExtraLoss, 0.02);

/// Packets delivered and lost in successive rounds in which a higher rate brought only losses.
///
/// A single round of a slow path has too few packets to tell its losses from chance.
#[derive(Clone, Copy, Debug, Default)]
pub struct FruitlessGrowth {
    rounds: u32,
    delivered: u64,
    lost: u64,
}

impl FruitlessGrowth {
    /// Adds a round. `fruitless` is true if in this round a higher rate brought only losses.
    ///
    /// Returns the number of successive fruitless rounds.
    fn on_round(&mut self, round: &Round, fruitless: bool) -> u32 {
        if !fruitless {
            *self = FruitlessGrowth::default();
            return 0;
        }
        self.rounds += 1;
        self.delivered += round.delivered;
        self.lost += round.lost;
        self.rounds
    }

    /// Fraction of the packets that was lost.
    fn loss(&self) -> f64 {
        self.lost as f64 / (self.delivered + self.lost) as f64
    }
}

/// Measurements of the current round, which lasts about one RTT.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub started: Instant,
    pub delivered: u64,
    pub lost: u64,
    queued: bool,
    pub backlogged: bool,
    /// Longest standing queue in the round.
    longest_queue: Duration,
    capacity_bps: f64,
}

impl Round {
    /// Returns a round without events that starts at this capacity.
    pub fn new(started: Instant, capacity_bps: f64) -> Round {
        let longest_queue = Duration::ZERO;
        Round { started, delivered: 0, lost: 0, queued: false, backlogged: true, longest_queue, capacity_bps }
    }

    /// Number of packets with a known outcome.
    fn settled(&self) -> f64 {
        (self.delivered + self.lost) as f64
    }

    /// Fraction of the packets that was lost.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.settled()
    }

    /// Rate at which the packets of the round were delivered until `now`, in bits per second.
    fn delivered_bps(&self, now: Instant, packet_bits: f64) -> f64 {
        let time_s = (now - self.started).as_secs_f64();
        if time_s > 0.0 { self.delivered as f64 * packet_bits / time_s } else { 0.0 }
    }
}

impl PathRate {
    /// Adds a sample to the round, and judges the round once the fate of enough packets is known.
    pub fn settle_round(&mut self, now: Instant, sample: &Sample) {
        let queue = self.delay.standing_queue();
        let is_queued = queue > self.queue_target() / 2;
        let round = &mut self.round;
        round.longest_queue = round.longest_queue.max(queue);
        round.delivered += sample.delivered_packets;
        round.lost += sample.lost_packets;
        round.backlogged &= sample.backlogged;
        round.queued = is_queued;
        if is_queued {
            self.growth = 0;
        }
        let is_known =
            round.delivered + round.lost >= ROUND_PACKETS.get().into() || now - round.started >= LONGEST_ROUND.get();
        if sample.largest_sent_at >= round.started && is_known {
            self.judge_round(now);
            self.round = Round::new(now, self.capacity_bps);
        }
    }

    fn judge_round(&mut self, now: Instant) {
        let round = self.round;
        let delivered_bps = round.delivered_bps(now, self.packet_bits);
        let expected = match self.state {
            State::Compete(_) => self.loss.fraction(),
            _ => self.loss.expected(),
        };
        let expected = expected * round.settled();
        let too_many = round.lost as f64 > expected + 3.0 + 3.0 * libm::sqrt(expected);
        let grew = self.capacity_bps > round.capacity_bps * 1.01;
        let empty = !round.queued && round.backlogged;
        let ebbs = self.loss.is_ebbing();
        // A plateau is for a limit that causes no queue. If there was a long queue, the capacity is measurable and no
        // plateau is needed. The previous round counts too: losses are known one round trip later than the queue that
        // caused them.
        let longest = round.longest_queue.max(core::mem::replace(&mut self.longest_queue_before, round.longest_queue));
        let overflows = longest > self.queue_target() * 2;
        self.judge_startup(&round, grew);
        let loses = round.loss() > self.loss.fraction() + EXTRA_LOSS.get();
        let fruitless = self.fruitless.on_round(&round, empty && !ebbs && self.growth > 0 && !grew && loses);
        match &mut self.state {
            State::Compete(share) => share.on_round(too_many),
            State::Plateau(_) => self.judge_plateau(now, round),
            State::Startup => {}
            _ if too_many && !grew && round.backlogged && !ebbs && !overflows => {
                self.enter_plateau(now, round.loss(), delivered_bps)
            }
            _ if fruitless >= FRUITLESS_ROUNDS => self.enter_plateau(now, self.fruitless.loss(), delivered_bps),
            _ if empty && !ebbs => self.growth = (self.growth + 1).min(GROWTH_STEPS),
            // The sender had too little to send, so the round does not measure the path. The growth factor is kept:
            // after a short fall of the capacity, the flows need some time until they fill the path again.
            _ if !round.backlogged && !round.queued && !too_many && !ebbs => {}
            _ => self.growth = 0,
        }
        let may_ebb = matches!(self.state, State::Steady) && self.loss_matters();
        self.loss.on_round(now, &round, may_ebb);
        if !matches!(self.state, State::Compete(_)) && self.growth == 0 && !self.trial.is_open() {
            self.loss.on_usual_round(now, &round);
        }
    }

    /// True if the path loses so much that the rate must be raised for it.
    ///
    /// Without the correction the rate would be so low that the queue becomes empty.
    fn loss_matters(&self) -> bool {
        let loss = self.loss.recent().fraction();
        loss > 0.002 && self.rtt.smoothed().mul_f64(1.5 * loss) > self.queue_target() / 2
    }
}
