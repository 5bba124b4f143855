//! Holds traces of delivery opportunities in Mahimahi's format and plays them.
//!
//! A trace file has one line for each opportunity: a time in whole milliseconds that never decreases. Each opportunity
//! carries [`OPPORTUNITY_BYTES`] IP bytes. After the last line the trace starts again, and the last time is its period
//! (Netravali et al., USENIX ATC 2015).
//! Mahimahi counts 1504 bytes for each opportunity and 4 bytes of TUN header for each packet. This module leaves both
//! out, which gives the same result for full packets.

use crate::ScenarioError;
use crate::error::Source;
use std::path::Path;
use std::sync::Arc;
use weft_units::{Duration, Instant, Rate, Rng};

/// IP bytes that one opportunity carries.
///
/// Derived: Mahimahi's 1504 bytes less 4 bytes of TUN header.
pub const OPPORTUNITY_BYTES: u64 = 1500;

/// The times at which a link can carry a full packet, as Mahimahi records them.
///
/// A clone shares the times and is cheap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    times_ms: Arc<[u32]>,
}

impl Trace {
    /// Reads a file in Mahimahi's format.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a valid trace.
    pub fn read(path: &Path) -> Result<Trace, ScenarioError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Source { file: &file, text: "" }
                .error(0, format!("cannot read the trace file {file}: {error}: check its name and permissions"))
        })?;
        Trace::parse(&text, &file)
    }

    /// Parses the text of a file in Mahimahi's format. `file` is its name in error messages.
    ///
    /// Blank lines are skipped.
    ///
    /// # Errors
    /// Fails if a line is not a number, a time is less than the time before it, or no time is above zero.
    pub fn parse(text: &str, file: &str) -> Result<Trace, ScenarioError> {
        let source = Source { file, text };
        let (mut times_ms, mut last, mut line_start) = (Vec::new(), 0, 0);
        for line in text.split_inclusive('\n') {
            let word = line.trim();
            let place = line_start + (line.len() - line.trim_start().len());
            line_start += line.len();
            if word.is_empty() {
                continue;
            }
            let time_ms: u32 = word.parse().map_err(|_| {
                source.error(
                    place,
                    format!("a line of a trace must be a time in whole milliseconds, from 0 to {} ms", u32::MAX),
                )
            })?;
            if time_ms < last {
                let message = format!("the times of a trace must not decrease, but {time_ms} ms follows {last} ms");
                return Err(source.error(place, message));
            }
            last = time_ms;
            times_ms.push(time_ms);
        }
        if last == 0 {
            return Err(source.error(text.len(), "a trace needs at least one opportunity after time zero"));
        }
        Ok(Trace { times_ms: times_ms.into() })
    }

    /// Returns the times of the opportunities in one period, in milliseconds, as in the file.
    pub fn times_ms(&self) -> &[u32] {
        &self.times_ms
    }

    /// Returns the time after which the trace starts again.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    fn period_ms(&self) -> u64 {
        self.times_ms.last().map_or(1, |&last| u64::from(last))
    }

    fn per_period(&self) -> u64 {
        self.times_ms.len() as u64
    }

    /// Returns the time of opportunity `n` since the start of the trace.
    ///
    /// `n` counts from 0 through all repetitions of the trace.
    pub fn time_of(&self, n: u64) -> Duration {
        let index = (n % self.per_period()) as usize;
        let within = self.times_ms.get(index).map_or(0, |&time| u64::from(time));
        Duration::from_millis((n / self.per_period()).saturating_mul(self.period_ms()).saturating_add(within))
    }

    /// Returns the number of opportunities before `time`, which counts from the start of the trace.
    ///
    /// It is also the number of the first opportunity at or after `time`.
    pub fn count_before(&self, time: Duration) -> u64 {
        // The opportunities have times in whole milliseconds. The number before `time` is thus the number before the
        // next whole millisecond.
        let ms = time.as_nanos().div_ceil(1_000_000).min(u128::from(u64::MAX)) as u64;
        let before = |ms: u64| self.times_ms.partition_point(|&t| u64::from(t) < ms) as u64;
        // At the end of a period, its last opportunities and the next period's opportunities at zero have the same
        // time.
        let (rounds, within) = (ms / self.period_ms(), ms % self.period_ms());
        match rounds.checked_sub(1) {
            Some(finished) if within == 0 => finished * self.per_period() + before(self.period_ms()),
            _ => rounds * self.per_period() + before(within),
        }
    }

    /// Returns the number of opportunities in `from..to`. Both times count from the start of the trace.
    pub fn opportunities(&self, from: Duration, to: Duration) -> u64 {
        self.count_before(to).saturating_sub(self.count_before(from))
    }

    /// Returns the mean rate over one period, counted in IP bytes.
    pub fn mean_rate(&self) -> Rate {
        Rate::from_bytes_over(self.per_period() * OPPORTUNITY_BYTES, self.period())
    }

    /// Returns the 95th percentile over one period of the delay that a sender with full knowledge of the trace has.
    ///
    /// This delay is the floor that a protocol's self-inflicted delay is compared with (Winstein et al., Sprout, NSDI
    /// 2013, §5.1). The delay at a moment is the age of the most recently sent packet that has arrived.
    ///
    /// The omniscient sender sends each packet so that it reaches the link exactly at an opportunity. The packet
    /// arrives `propagation` later. The delay therefore equals `propagation` after each opportunity and grows with time
    /// until the next one. The percentile is over time, not over packets.
    pub fn omniscient_delay_p95(&self, propagation: Duration) -> Duration {
        let wrapped =
            self.times_ms.iter().map(|&t| f64::from(t) / 1e3).chain([self.time_of(self.per_period()).as_secs_f64()]);
        let times: Vec<f64> = wrapped.collect();
        let mut gaps: Vec<f64> = times.windows(2).filter_map(|pair| Some(pair.last()? - pair.first()?)).collect();
        propagation + Duration::from_secs_f64(time_percentile_of_sawtooth(&mut gaps, 0.95))
    }

    /// Generates a trace that resembles the downlink of an LTE receiver in a moving car.
    ///
    /// A Markov chain over five capacities, from outage to 1.8 times the mean, sets the rate. Within a state the
    /// scheduler grants a burst in each millisecond with probability 0.4. An outage lasts 100 ms on average and any
    /// other state 600 ms. Each state changes to a neighbouring one. The result is scaled so that its mean rate equals
    /// `mean` to within one opportunity. The same seed gives the same trace. The trace lasts at least one second.
    pub fn synthetic_lte(seed: u64, mean: Rate, length: Duration) -> Trace {
        const CAPACITY: [f64; 5] = [0.0, 0.35, 0.8, 1.2, 1.8];
        const GRANT_CHANCE: f64 = 0.4;
        let length_ms = u32::try_from(length.as_millis()).unwrap_or(u32::MAX).max(1_000);
        let mut rng = Rng::new(seed);
        let mut state = 2usize;
        let weights: Vec<f64> = (0..length_ms)
            .map(|_| {
                let stay_ms = if state == 0 { 100.0 } else { 600.0 };
                if rng.chance(1.0 / stay_ms) {
                    state = match (state, rng.chance(0.5)) {
                        (0, _) => 1,
                        (4, _) => 3,
                        (s, true) => s + 1,
                        (s, false) => s - 1,
                    };
                }
                if rng.chance(GRANT_CHANCE) { CAPACITY.get(state).copied().unwrap_or(1.0) } else { 0.0 }
            })
            .collect();
        let wanted = mean.bytes_in(Duration::from_millis(u64::from(length_ms))).div_ceil(OPPORTUNITY_BYTES).max(1);
        Trace { times_ms: spread(&weights, wanted).into() }
    }
}

/// Distributes `wanted` opportunities over the milliseconds, in proportion to their `weights`. Returns their times.
///
/// The last opportunity is at the end, so that the trace has the requested length.
fn spread(weights: &[f64], wanted: u64) -> Vec<u32> {
    let total: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut times_ms = Vec::with_capacity(wanted as usize);
    let mut due = 0.0;
    for (ms, weight) in (0u32..).zip(weights) {
        due += weight / total * (wanted - 1) as f64;
        while ((times_ms.len() + 1) as f64) <= due {
            times_ms.push(ms);
        }
    }
    times_ms.resize(wanted as usize, weights.len() as u32);
    times_ms
}

/// Returns the value below which a sawtooth function lies for the fraction `share` of the time.
///
/// The function falls to zero at the start of each gap and then rises with slope one. `gaps` are the lengths of the
/// gaps.
fn time_percentile_of_sawtooth(gaps: &mut [f64], share: f64) -> f64 {
    gaps.sort_unstable_by(|a, b| b.total_cmp(a));
    let beyond = gaps.iter().sum::<f64>() * (1.0 - share);
    // The time above level d is Σ max(0, gap − d). The loop finds the level d for which this time is `beyond`.
    let mut sum = 0.0;
    for (index, &gap) in gaps.iter().enumerate() {
        sum += gap;
        let level = (sum - beyond) / (index + 1) as f64;
        if level >= gaps.get(index + 1).copied().unwrap_or(0.0) {
            return level.max(0.0);
        }
    }
    0.0
}

/// A trace that repeats from a given start time, and the number of its opportunities that were used.
#[derive(Clone, Debug)]
pub struct RunningTrace {
    trace: Trace,
    start: Instant,
    next: u64,
}

impl RunningTrace {
    /// Starts the trace. Its time zero is `start`, and its first opportunity is the next one.
    pub fn new(trace: Trace, start: Instant) -> RunningTrace {
        RunningTrace { trace, start, next: 0 }
    }

    /// Returns the trace that this value repeats.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the time of the opportunity that follows the next unused one by `later` opportunities.
    ///
    /// With 0 it is the time of the next unused one.
    pub fn time_after(&self, later: u64) -> Instant {
        self.start + self.trace.time_of(self.next + later)
    }

    /// Marks the next unused opportunity as used, so that the one after it is next.
    pub fn use_next(&mut self) {
        self.next += 1;
    }

    /// Skips the unused opportunities before `now`, because no packet waited for them.
    pub fn skip_to(&mut self, now: Instant) {
        self.next = self.next.max(self.trace.count_before(now - self.start));
    }

    /// Returns the IP bytes that the trace offers in `from..to`.
    pub fn bytes_between(&self, from: Instant, to: Instant) -> u64 {
        self.trace.opportunities(from - self.start, to - self.start) * OPPORTUNITY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn wraps_at_the_last_time() {
        let trace = Trace::parse("0\n2\n2\n\n5\n", "t").unwrap();
        let times: Vec<u128> = (0..9).map(|n| trace.time_of(n).as_millis()).collect();
        assert_eq!(times, [0, 2, 2, 5, 5, 7, 7, 10, 10]);
        for time in 0..30 {
            let counted = (0..100).filter(|&n| trace.time_of(n) < ms(time)).count() as u64;
            assert_eq!(trace.count_before(ms(time)), counted, "at {time} ms");
        }
        assert_eq!(trace.count_before(Duration::from_micros(2_001)), 3);
        assert_eq!(trace.opportunities(ms(2), ms(6)), 4);
        assert_eq!(trace.mean_rate(), Rate::from_bytes_over(6000, ms(5)));
    }

    #[test]
    fn errors_name_file_line_and_reason() {
        let wrong = |text: &str| Trace::parse(text, "lte.trace").unwrap_err().to_string();
        let number = "a line of a trace must be a time in whole milliseconds, from 0 to 4294967295 ms";
        assert_eq!(wrong("1\n2\n  fast\n"), format!("lte.trace:3:3: {number}"));
        assert_eq!(wrong("1\n\n-2\n"), format!("lte.trace:3:1: {number}"));
        assert_eq!(wrong("1\n4294967296"), format!("lte.trace:2:1: {number}"));
        assert_eq!(wrong("5\n4\n"), "lte.trace:2:1: the times of a trace must not decrease, but 4 ms follows 5 ms");
        for nothing in ["", "\n", "0\n0\n"] {
            assert!(wrong(nothing).ends_with("a trace needs at least one opportunity after time zero"), "{nothing:?}");
        }
        let missing = Trace::read(Path::new("/nonexistent/lte.trace")).unwrap_err().to_string();
        assert!(
            missing.starts_with("/nonexistent/lte.trace:1:1: cannot read the trace file /nonexistent/lte.trace: "),
            "{missing}"
        );
    }

    #[test]
    fn omniscient_delay_is_a_percentile_over_time() {
        // With one opportunity every 10 ms the delay is uniform in 0..10 ms, and its 95th percentile is 9.5 ms.
        let steady = Trace::parse("10\n20\n30\n40\n", "t").unwrap();
        assert_eq!(steady.omniscient_delay_p95(ms(20)).as_micros(), 29_500);
        // With 900 gaps of 1 ms and one of 100 ms, 5 % of the 1000 ms are the last 50 ms of the long gap.
        let text: String = (1..=900).chain([1000]).map(|t| format!("{t}\n")).collect();
        let outage = Trace::parse(&text, "t").unwrap().omniscient_delay_p95(Duration::ZERO);
        assert!(outage.abs_diff(ms(50)) < ms(1), "{outage:?}");
    }

    #[test]
    fn synthetic_traces_keep_their_mean_and_vary() {
        let (rate, length) = (Rate::from_mbps(20), Duration::from_secs(60));
        let trace = Trace::synthetic_lte(7, rate, length);
        assert_eq!(trace, Trace::synthetic_lte(7, rate, length));
        assert_ne!(trace, Trace::synthetic_lte(8, rate, length));
        assert_eq!(trace.period(), length);
        assert_eq!(trace.times_ms().len(), 100_000);
        let seconds: Vec<u64> = (0..60).map(|s| trace.opportunities(ms(s * 1000), ms(s * 1000 + 1000))).collect();
        let (least, most) = (seconds.iter().min().unwrap(), seconds.iter().max().unwrap());
        assert!(least * 2 < *most, "{seconds:?}");
        assert!(Trace::parse(&trace.times_ms().iter().map(|t| format!("{t}\n")).collect::<String>(), "t").is_ok());
    }

    /// Returns the number of opportunities in each 100 ms of the trace.
    fn per_100_ms(trace: &Trace) -> Vec<f64> {
        (0..trace.period().as_millis() as u64 / 100)
            .map(|n| trace.opportunities(ms(n * 100), ms(n * 100 + 100)) as f64)
            .collect()
    }

    fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
        let count = values.len() as f64;
        values.sum::<f64>() / count
    }

    /// Returns the rate's coefficient of variation and its autocorrelation at these lags.
    ///
    /// Lags are in units of 100 ms.
    fn swings<const N: usize>(trace: &Trace, lags: [usize; N]) -> (f64, [f64; N]) {
        let rates = per_100_ms(trace);
        let middle = mean(rates.iter().copied());
        let off: Vec<f64> = rates.iter().map(|rate| rate - middle).collect();
        let variance = mean(off.iter().map(|x| x * x));
        let after = |lag: usize| mean(off.iter().zip(&off[lag..]).map(|(a, b)| a * b)) / variance;
        (variance.sqrt() / middle, lags.map(after))
    }

    #[test]
    fn synthetic_traces_swing_about_as_measured_ones_do() {
        let all: Vec<_> = (0..40)
            .map(|seed| swings(&Trace::synthetic_lte(seed, Rate::from_mbps(5), Duration::from_secs(120)), [1, 10, 100]))
            .collect();
        let deviation = mean(all.iter().map(|(deviation, _)| *deviation));
        let [short, second, long] = [0, 1, 2].map(|lag: usize| mean(all.iter().map(|(_, lags)| lags[lag])));
        // Four measured traces of Verizon and AT&T have coefficients of variation of 0.59 to 1.22. Their
        // autocorrelations after 0.1 s, 1 s and 10 s are 0.72 to 0.87, 0.18 to 0.68 and 0.02 to 0.13. The generated
        // traces average 0.54, and 0.89, 0.47 and −0.03. They vary about as little as the calmest measured trace.
        assert!((0.4..1.3).contains(&deviation), "{deviation}");
        assert!(short > 0.7 && (0.1..0.8).contains(&second) && long.abs() < 0.2, "{short} {second} {long}");
    }
}
