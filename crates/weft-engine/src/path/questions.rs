//! Limits the questions about late answers to a small part of what a path carries.

use weft_units::{Duration, Instant};

/// IP bytes of a question and its answers, in both directions.
///
/// Derived: a ping, a pong and a report take 60 to 80 bytes each.
const QUESTION_BYTES: f64 = 200.0;
/// Divisor of the bytes sent on a path that gives the bytes for questions.
///
/// Tuned: with random links below 1.5 Mbit/s, on which 8 to 32 give the same goodput within 0.5 %.
const PART: f64 = 16.0;
/// Bytes for questions that each second adds. They allow three questions in two seconds.
///
/// Tuned: with the same links, on which 150 to 1,000 give the same goodput within 0.5 %.
const BYTES_PER_S: f64 = 300.0;
/// Number of rows of questions that may leave at once. One unanswered row shows that a path is silent.
///
/// Derived: the answer to the first row may be late, and then the path falls silent.
const ROWS: u32 = 2;

/// Credit of a path for questions.
///
/// If a line loses or delays the answers because it is full, more questions would fill it further. Without a limit
/// they displace all data of a slow line.
#[derive(Clone, Copy, Debug)]
pub struct QuestionCredit {
    bytes: f64,
    at: Instant,
}

impl QuestionCredit {
    /// Returns the credit of a new path for `row` questions in a row.
    pub fn new(now: Instant, row: u32) -> QuestionCredit {
        QuestionCredit { bytes: most(row), at: now }
    }

    /// Adds the credit for `ip_bytes` that were sent. A row has `row` questions.
    pub fn on_sent(&mut self, now: Instant, ip_bytes: u32, row: u32) {
        let added = f64::from(ip_bytes) / PART + (now - self.at).as_secs_f64() * BYTES_PER_S;
        self.bytes = (self.bytes + added).min(most(row));
        self.at = now;
    }

    /// Charges one question.
    pub fn on_asked(&mut self) {
        self.bytes -= QUESTION_BYTES;
    }

    /// Returns the time from which a question may leave.
    pub fn allowed_at(&self) -> Instant {
        let missing = (QUESTION_BYTES - self.bytes).max(0.0);
        self.at + Duration::from_secs_f64(missing / BYTES_PER_S)
    }
}

/// Returns the largest credit, in bytes.
fn most(row: u32) -> f64 {
    f64::from(ROWS * row) * QUESTION_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    /// Checks the limit with drawn traffic and a path that would ask all the time.
    #[test]
    fn questions_take_a_small_part_of_what_is_sent() {
        let mut rng = Rng::new(3);
        for _ in 0..300 {
            let row = 3 + rng.below(22) as u32;
            let (most_bytes, most_gap_us) = (60 + rng.below(1_441), 100 + rng.below(200_000));
            let (mut credit, mut now) = (QuestionCredit::new(Instant::ZERO, row), Instant::ZERO);
            let (mut sent, mut questions, mut next_ask) = (0.0, 0u32, Instant::ZERO);
            for _ in 0..2_000 {
                now += Duration::from_micros(rng.below(most_gap_us));
                while next_ask.max(credit.allowed_at()) <= now {
                    credit.on_asked();
                    questions += 1;
                    next_ask = now + Duration::from_micros(rng.below(20_000));
                }
                let bytes = 60 + rng.below(most_bytes) as u32;
                credit.on_sent(now, bytes, row);
                sent += f64::from(bytes);
            }
            let allowed = sent / PART + (now - Instant::ZERO).as_secs_f64() * BYTES_PER_S + most(row);
            assert!(f64::from(questions) * QUESTION_BYTES <= allowed, "{questions} questions, {allowed} bytes");
        }
    }

    /// Checks that a path which was in use may ask a whole row at once, and that it soon may ask again.
    #[test]
    fn a_silent_path_is_asked_at_once_and_never_forgotten() {
        let mut rng = Rng::new(4);
        for _ in 0..300 {
            let row = 3 + rng.below(22) as u32;
            let mut credit = QuestionCredit::new(Instant::ZERO, 3);
            let mut now = Instant::ZERO;
            for _ in 0..2_000 {
                now += Duration::from_micros(rng.below(50_000));
                credit.on_sent(now, 60 + rng.below(1_441) as u32, row);
            }
            for _ in 0..row {
                assert!(credit.allowed_at() <= now);
                credit.on_asked();
            }
            for _ in 0..100 {
                let wait = credit.allowed_at().max(now) - now;
                assert!(wait <= Duration::from_secs(1), "{wait:?}");
                now += wait;
                credit.on_sent(now, 0, row);
                credit.on_asked();
            }
        }
    }
}
