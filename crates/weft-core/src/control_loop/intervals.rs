//! Counts of bytes over fixed intervals at both ends of a loop (paper 004 §6.1).
//!
//! Each end divides time into intervals of length T. The ingress edge starts its intervals when a marker leaves, the
//! egress edge when that marker arrives. The bytes that left by the end of interval k, minus the bytes that arrived by
//! the end of interval k, stand in queues: a(k) = a(k − 1) + (λ(k) − μ(k)) T. Here λ(k) is the rate sent and μ(k) the
//! rate arrived in interval k. No end needs a timer: the first packet after an interval shows that the interval has
//! ended.

use super::marker::{Counting, IntervalCount, LoopReport, Marker};
use weft_units::{Duration, Instant};

/// Number of past intervals for which the ingress edge stores the bytes sent.
///
/// *Tuned*: queueing delays of more than this number of intervals are rare.
const KEPT: usize = 16;

/// Maximum drift between two clocks, in millionths. Derived: each crystal is wrong by up to 100 millionths.
const DRIFT_PPM: i64 = 200;

/// The intervals over which the egress edge counts arriving bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct EgressIntervals {
    started_at: Instant,
    ends_at: Instant,
    interval: Duration,
    count: IntervalCount,
}

impl EgressIntervals {
    /// Starts the intervals at the arrival of the marker `sequence`. `bytes` have arrived before.
    ///
    /// `counting` is the marker's request, which states the length of an interval.
    pub fn begin(now: Instant, counting: Counting, sequence: u32, bytes: u32) -> EgressIntervals {
        let interval = Duration::from_micros(u64::from(counting.interval_us.max(1)));
        let count = IntervalCount { restarted_by: sequence, intervals: 0, bytes };
        EgressIntervals { started_at: now, ends_at: now + interval, interval, count }
    }

    /// Records the intervals that have ended by `now`. `bytes` is the number of bytes that arrived before `now`.
    pub fn on_time(&mut self, now: Instant, bytes: u32) {
        if now < self.ends_at {
            return;
        }
        self.count.intervals = complete(now - self.started_at, self.interval);
        self.count.bytes = bytes;
        self.ends_at = self.started_at + self.interval * self.count.intervals + self.interval;
    }

    /// Returns the number of the last complete interval, and the bytes that had arrived at its end.
    pub fn count(&self) -> IntervalCount {
        self.count
    }
}

/// Returns the number of whole intervals in a time.
fn complete(time: Duration, interval: Duration) -> u32 {
    (time.as_nanos() / interval.as_nanos().max(1)).min(u128::from(u32::MAX - 1)) as u32
}

/// Measurements that a report yields about the intervals since the previous report.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct CountedSample {
    /// Bytes in queues. A negative number shows that a queue stood when the intervals were started.
    pub accumulation: i32,
    /// Rate at which bytes arrived, in bit/s.
    pub arriving_bps: f64,
    /// Time over which the bytes arrived: a whole number of intervals.
    pub elapsed: Duration,
    /// Delay of the marker that no queue caused, in microseconds. Its bytes are no part of the accumulation.
    ///
    /// It is the marker's explained delay ([`Marker::explained_us`]) minus that of the marker that started the
    /// intervals, plus the drift of the two clocks since then.
    pub explained_us: i64,
}

/// The intervals of the ingress edge, and the bytes sent by the end of each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentIntervals {
    started_at: Instant,
    ends_at: Instant,
    /// T; zero before the first marker.
    interval: Duration,
    /// Number of the marker that started the present intervals.
    restarted_by: u32,
    /// Number of intervals that have ended since that marker.
    intervals: u32,
    /// Bytes that had left at the end of interval k, at index k modulo [`KEPT`].
    sent: [u32; KEPT],
    /// The last count of the egress edge; `None` until it has started its intervals, too.
    last: Option<IntervalCount>,
    wants_restart: bool,
    /// Explained delay of the marker that started the intervals, in microseconds ([`Marker::explained_us`]).
    explained_us: u32,
}

impl SentIntervals {
    /// Makes the next marker start new intervals.
    ///
    /// Until they have started at both ends, reports yield no measurements.
    pub fn restart(&mut self) {
        self.wants_restart = true;
    }

    /// Records the intervals that have ended by `now`. `bytes` is the number of bytes that left before `now`.
    pub fn on_time(&mut self, now: Instant, bytes: u32) {
        if self.interval.is_zero() || now < self.ends_at {
            return;
        }
        let complete = complete(now - self.started_at, self.interval);
        let first = (self.intervals + 1).max((complete + 1).saturating_sub(KEPT as u32));
        (first..=complete).for_each(|k| self.sent[k as usize % KEPT] = bytes);
        self.intervals = complete;
        self.ends_at = self.started_at + self.interval * complete + self.interval;
    }

    /// Returns the request about intervals that `marker` carries to the egress edge.
    ///
    /// `interval` is the desired length T. The report on the marker is expected after `round_trip`.
    pub fn on_marker(&mut self, now: Instant, marker: &Marker, interval: Duration, round_trip: Duration) -> Counting {
        let interval = Duration::from_micros((interval.as_micros() as u64).clamp(1, u64::from(u32::MAX)));
        let unlike = interval.abs_diff(self.interval) * 4 > self.interval;
        // Without a count after this time, the marker or its report is lost, and the intervals are started again.
        let unanswered = self.last.is_none() && now - self.started_at > round_trip * 2 + self.interval * 4;
        let restarts = self.wants_restart || unlike || unanswered;
        if restarts {
            let ends_at = now + interval;
            *self = SentIntervals {
                started_at: now,
                ends_at,
                interval,
                restarted_by: marker.sequence,
                ..SentIntervals::default()
            };
            self.sent[0] = marker.bytes;
        }
        Counting { interval_us: self.interval.as_micros() as u32, restarts }
    }

    /// Returns a report's measurements of the intervals that ended since the previous report.
    pub fn measure(&mut self, report: &LoopReport) -> Option<CountedSample> {
        // The egress edge cannot have ended more intervals than this edge, except by an error. Such a count is ignored.
        let is_ours =
            |count: &IntervalCount| count.restarted_by == self.restarted_by && count.intervals <= self.intervals;
        let count = report.count.filter(|count| is_ours(count) && !self.wants_restart)?;
        if report.marker.sequence == self.restarted_by {
            self.explained_us = report.marker.explained_us;
        }
        let previous = self.last.replace(count)?;
        let periods = count.intervals.checked_sub(previous.intervals).filter(|periods| *periods > 0)?;
        let kept = count.intervals.max((self.intervals + 1).saturating_sub(KEPT as u32));
        let sent = self.sent[kept as usize % KEPT];
        let elapsed = self.interval * periods;
        let arrived = count.bytes.wrapping_sub(previous.bytes);
        let drift_us = (self.interval.as_micros() as i64) * i64::from(count.intervals) * DRIFT_PPM / 1_000_000;
        // The accumulation is the bytes that arrived after the interval, minus the bytes that left after it. Bytes that
        // were lost before the interval's end are in neither number.
        let late = report.bytes.wrapping_sub(count.bytes);
        let left = report.marker.bytes.wrapping_sub(sent);
        Some(CountedSample {
            accumulation: late.wrapping_sub(left) as i32,
            arriving_bps: f64::from(arrived) * 8.0 / elapsed.as_secs_f64().max(1e-9),
            elapsed,
            explained_us: i64::from(report.marker.explained_us.wrapping_sub(self.explained_us) as i32) + drift_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_loop::LoopEgress;
    use alloc::vec;
    use alloc::vec::Vec;
    use weft_units::Rng;

    const T: Duration = Duration::from_millis(20);

    /// A packet of a random flow: departure and arrival in microseconds, and bytes. It is lost if it has no arrival.
    struct RandomPacket {
        left_us: u64,
        arrived_us: Option<u64>,
        bytes: u32,
    }

    /// Draws a random flow over a path of 7 ms. Its queue keeps the packets' order, and some packets are lost.
    fn crossings(rng: &mut Rng) -> Vec<RandomPacket> {
        let (mut left_us, mut last_us) = (0, 0);
        let burst_us = 1 + rng.below(8_000);
        (0..600)
            .map(|_| {
                left_us += rng.below(burst_us);
                let arrival = (left_us + 7_000 + rng.below(12_000)).max(last_us + 1);
                let is_lost = rng.below(20) == 0;
                last_us = if is_lost { last_us } else { arrival };
                RandomPacket { left_us, arrived_us: (!is_lost).then_some(arrival), bytes: 40 + rng.below(1_460) as u32 }
            })
            .collect()
    }

    /// Simulates both ends for the packets of `flow`.
    ///
    /// Every 25th packet carries a marker. The first marker restarts the intervals.
    ///
    /// Returns the samples with the number of the marker's packet.
    fn samples(flow: &[RandomPacket]) -> Vec<(usize, u32, CountedSample)> {
        let (mut sent, mut egress, mut at_egress) = (SentIntervals::default(), LoopEgress::default(), 0);
        let (mut bytes, mut found) = (0u32, Vec::new());
        let mut markers: Vec<Option<Marker>> = vec![None; flow.len()];
        let departures = flow.iter().enumerate().map(|(number, packet)| (packet.left_us, false, number));
        let arrivals = flow.iter().enumerate().filter_map(|(number, packet)| Some((packet.arrived_us?, true, number)));
        let mut events: Vec<(u64, bool, usize)> = departures.chain(arrivals).collect();
        events.sort_unstable();
        for (at_us, is_arrival, number) in events {
            let (now, packet) = (Instant::from_micros(at_us), &flow[number]);
            sent.on_time(now, bytes);
            if !is_arrival {
                bytes = bytes.wrapping_add(packet.bytes);
                markers[number] = (number % 25 == 0).then(|| {
                    let plain = Marker { sequence: number as u32 + 1, bytes, ..Marker::default() };
                    Marker { counting: Some(sent.on_marker(now, &plain, T, Duration::from_secs(9))), ..plain }
                });
                continue;
            }
            egress.on_time(now);
            egress.on_packet(packet.bytes, false);
            at_egress += 1;
            if let Some(report) = markers[number].and_then(|marker| egress.on_marker(now, marker))
                && let Some(sample) = sent.measure(&report)
            {
                found.push((number, report.count.map_or(0, |count| count.intervals), sample));
            }
        }
        assert!(at_egress > 400);
        found
    }

    #[test]
    fn a_count_is_what_left_and_has_not_arrived() {
        let mut rng = Rng::new(4);
        let mut compared = 0;
        for _ in 0..300 {
            let mut flow = crossings(&mut rng);
            // The marker that starts the intervals must arrive, and before all other packets.
            flow[0].arrived_us = Some(7_000);
            let (started_us, arrived_us) = (flow[0].left_us, 7_000);
            for (number, intervals, sample) in samples(&flow) {
                let end_us = u64::from(intervals) * T.as_micros() as u64;
                let left: u32 = flow.iter().filter(|p| p.left_us < started_us + end_us).map(|p| p.bytes).sum();
                let arrived = flow.iter().filter(|p| p.arrived_us.is_some_and(|at| at < arrived_us + end_us));
                let arrived: u32 = arrived.map(|p| p.bytes).sum();
                // The report on a marker also shows the packets that were lost before the marker.
                let lost = flow[..=number].iter().filter(|p| p.arrived_us.is_none()).map(|p| p.bytes).sum::<u32>();
                let expected = left as i32 - arrived as i32 - lost as i32;
                assert_eq!(sample.accumulation, expected, "packet {number}, interval {intervals}");
                compared += 1;
            }
        }
        assert!(compared > 1_000, "{compared}");
    }

    #[test]
    fn intervals_start_anew_on_request_and_when_nothing_answers() {
        let mut sent = SentIntervals::default();
        let at = Instant::from_millis;
        let marker = |sequence| Marker { sequence, ..Marker::default() };
        let rtt = Duration::from_millis(50);
        assert!(sent.on_marker(at(0), &marker(1), T, rtt).restarts);
        assert!(!sent.on_marker(at(20), &marker(2), T, rtt).restarts);
        assert!(sent.on_marker(at(181), &marker(3), T, rtt).restarts, "no report for two round trips and four T");
        let report = |sequence, restarted_by, intervals, bytes| LoopReport {
            marker: marker(sequence),
            count: Some(IntervalCount { restarted_by, intervals, bytes }),
            ..LoopReport::default()
        };
        sent.on_time(at(300), 0);
        assert_eq!(sent.measure(&report(2, 1, 5, 0)), None, "of earlier intervals");
        assert_eq!(sent.measure(&report(3, 3, 0, 0)), None, "the first count has none before it");
        assert_eq!(sent.measure(&report(4, 3, 9, 500)), None, "of intervals that are not over here");
        assert!(!sent.on_marker(at(300), &marker(5), T, rtt).restarts);
        sent.restart();
        assert!(sent.on_marker(at(310), &marker(6), T, rtt).restarts);
        assert!(sent.on_marker(at(320), &marker(7), T * 2, rtt).restarts, "another T");
    }
}
