use crate::sense::Sample;
use weft_units::{Duration, Instant};

/// A trial's rate, in capacities. Tuned: the step must exceed what jitter does to the interval of a round trip.
pub const FASTER: f64 = 1.5;
/// After a trial that found the path full, the next one waits for so many times its length: twice as often each time, within these bounds.
const WAIT: [u32; 2] = [4, 64];
/// More fits if this share of the rate sent arrives. A full path passes on `1 / FASTER`.
const ARRIVES: f64 = 0.92;

/// What a trial showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It arrived as fast as it was sent: no queue stands.
    MoreFits,
    /// It arrived more slowly: the path is full.
    Full,
}

/// Tells a queue from a delay that only looks like one, by sending faster than the capacity for a moment.
///
/// A bottleneck with a queue passes the packets on at its own rate, so they arrive over a longer time than they were sent in. Where no
/// queue stands they arrive as they were sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trial {
    /// From when until when its packets are sent.
    span: Option<(Instant, Instant)>,
    send_s: f64,
    receive_s: f64,
    due: Instant,
    wait: u32,
}

impl Trial {
    /// Begins a trial of this length if one is due.
    pub fn begin(&mut self, now: Instant, length: Duration) {
        if self.span.is_none() && now >= self.due {
            *self = Trial { span: Some((now, now + length)), send_s: 0.0, receive_s: 0.0, ..*self };
        }
    }

    /// Whether a trial has begun whose outcome is open.
    pub fn is_sending(&self) -> bool {
        self.span.is_some()
    }

    /// Whether what is sent now belongs to a trial.
    pub fn is_on(&self, now: Instant) -> bool {
        self.span.is_some_and(|(_, until)| now < until)
    }

    /// Takes in a sample; the one after the last of the trial's packets brings the outcome. A trial in which the path had nothing to
    /// send has none, and is made again.
    pub fn on_sample(&mut self, now: Instant, sample: &Sample) -> Option<Outcome> {
        let (since, until) = self.span?;
        if sample.largest_sent_at >= until {
            return self.end(now, until - since);
        }
        if sample.largest_sent_at >= since + sample.send_interval {
            if !sample.backlogged {
                self.span = None;
                return None;
            }
            self.send_s += sample.send_interval.as_secs_f64();
            self.receive_s += sample.receive_interval.as_secs_f64();
        }
        None
    }

    fn end(&mut self, now: Instant, length: Duration) -> Option<Outcome> {
        self.span = None;
        if self.send_s < length.as_secs_f64() / 2.0 {
            return None;
        }
        let outcome = if self.send_s > ARRIVES * self.receive_s { Outcome::MoreFits } else { Outcome::Full };
        self.wait = match outcome {
            Outcome::MoreFits => 0,
            Outcome::Full => (self.wait * 2).clamp(WAIT[0], WAIT[1]),
        };
        self.due = now + length * self.wait;
        Some(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use weft_units::Rng;

    const LENGTH: Duration = Duration::from_millis(50);

    /// Packets sent 1 ms apart for `ms`. Each takes `slower` times as long to arrive, and the first and the last are off by up to `jitter_us`.
    fn play(
        trial: &mut Trial,
        from_ms: u64,
        slower: f64,
        jitter_us: u64,
        backlogged: bool,
        rng: &mut Rng,
    ) -> Option<Outcome> {
        let start = Instant::from_millis(from_ms);
        trial.begin(start, LENGTH);
        let mut outcome = None;
        let mut off_us = 0i64;
        for n in 1..=60u64 {
            let next_us = rng.below(jitter_us + 1) as i64;
            let receive_us = (1_000.0 * slower) as i64 + next_us - off_us;
            off_us = next_us;
            let sample = Sample {
                rtt: LENGTH,
                one_way_delay_us: 0,
                largest_sent_at: start + Duration::from_millis(n),
                largest_bytes: 1_500,
                received_bytes: 1_500,
                receive_interval: Duration::from_micros(receive_us.max(0) as u64),
                send_interval: Duration::from_millis(1),
                backlogged,
                ce_packets: 0,
                delivered_packets: 1,
                delivered_bytes: 1_500,
                lost_packets: 0,
                lost_bytes: 0,
                sent_after_bytes: 0,
                in_flight_bytes: 0,
            };
            outcome = outcome.or(trial.on_sample(sample.largest_sent_at + LENGTH, &sample));
        }
        outcome
    }

    #[test]
    fn a_full_path_is_told_from_one_with_room() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let slower = 1.0 + rng.unit() * 0.04;
            let room = play(&mut Trial::default(), 100, slower, rng.below(1_000), true, &mut rng);
            assert_eq!(room, Some(Outcome::MoreFits), "{slower}");
            let slower = 1.2 + rng.unit();
            let full = play(&mut Trial::default(), 100, slower, rng.below(1_000), true, &mut rng);
            assert_eq!(full, Some(Outcome::Full), "{slower}");
        }
    }

    #[test]
    fn a_path_with_nothing_to_send_shows_nothing() {
        assert_eq!(play(&mut Trial::default(), 100, 1.0, 0, false, &mut Rng::new(2)), None);
    }

    #[test]
    fn a_full_path_is_tried_more_and_more_seldom() {
        let (mut trial, mut rng, mut at) = (Trial::default(), Rng::new(3), Vec::new());
        for n in 0..800 {
            let from_ms = 100 + n * 100;
            if play(&mut trial, from_ms, FASTER, 0, true, &mut rng).is_some() {
                at.push(from_ms);
            }
        }
        let gaps: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted() && gaps[0] <= 400, "{gaps:?}");
        assert!(gaps.last().is_some_and(|gap| (3_200..=3_500).contains(gap)), "{gaps:?}");
    }
}
