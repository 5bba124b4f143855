//! One direction of a link in virtual time: no device, no clock.
//!
//! Drop-tail queue → serialiser or trace → random loss → delay line. The serialiser works in virtual time: when somebody looks,
//! it catches up, so a packet's departure is exact however late the look is, and only deliveries need a wake-up.

use super::spec::{Capacity, DirectionSpec};
use super::stats::{DirectionStats, Times};
use std::collections::VecDeque;
use weft_scenario::jitter::Wander;
use weft_scenario::measure::Lengths;
use weft_scenario::trace::{OPPORTUNITY_BYTES, RunningTrace};
use weft_units::{Instant, Rate, Rng};

struct Waiting<T> {
    packet: T,
    bytes: u64,
    offered: Instant,
}

struct Travelling<T> {
    packet: T,
    bytes: u64,
    due: Instant,
}

enum Transmission {
    Unlimited,
    Rate(Rate),
    Trace(RunningTrace),
}

/// One direction of a link carrying packets of type `T`.
pub(super) struct Pipe<T> {
    spec: DirectionSpec,
    transmission: Transmission,
    loss: Rng,
    jitter: Wander,
    queue: VecDeque<Waiting<T>>,
    queued_bytes: u64,
    /// Bytes of the first waiting packet that are already transmitted.
    head_sent: u64,
    /// Until when the serialiser has worked.
    served_until: Instant,
    line: VecDeque<Travelling<T>>,
    /// When the packet before this one leaves the line.
    last_due: Instant,
    spent: Vec<T>,
    stats: DirectionStats,
    queue_delay: Times,
    queue_packets: Lengths,
    /// From when on `capacity_bytes` has to be added up.
    counted_until: Instant,
}

impl<T> Pipe<T> {
    /// An empty direction at time `now`. Losses and jitter depend on `rng` alone.
    pub(super) fn new(spec: DirectionSpec, rng: &Rng, now: Instant) -> Pipe<T> {
        let mut pipe = Pipe {
            transmission: Transmission::Unlimited,
            jitter: Wander::new(rng.split(2), spec.jitter, now),
            spec,
            loss: rng.split(1),
            queue: VecDeque::new(),
            queued_bytes: 0,
            head_sent: 0,
            served_until: now,
            line: VecDeque::new(),
            last_due: now,
            spent: Vec::new(),
            stats: DirectionStats::default(),
            queue_delay: Times::new(),
            queue_packets: Lengths::default(),
            counted_until: now,
        };
        pipe.start_transmission(now);
        pipe.mark(now);
        pipe
    }

    fn start_transmission(&mut self, now: Instant) {
        self.transmission = match &self.spec.capacity {
            Capacity::Unlimited => Transmission::Unlimited,
            Capacity::Rate(rate) => Transmission::Rate(*rate),
            Capacity::Trace(trace) => Transmission::Trace(RunningTrace::new(trace.clone(), now)),
        };
    }

    /// Changes the direction's properties. What waits is transmitted the new way; what travels arrives as it would have.
    pub(super) fn set(&mut self, now: Instant, spec: DirectionSpec) {
        self.serve(now);
        self.count_capacity(now);
        if let (Transmission::Rate(rate), Some(head)) = (&self.transmission, self.queue.front()) {
            let sent = self.head_sent + rate.bytes_in(now - self.served_until);
            self.head_sent = sent.min(head.bytes.saturating_sub(1));
        }
        self.served_until = now;
        let unchanged = matches!((&self.transmission, &spec.capacity),
            (Transmission::Trace(running), Capacity::Trace(new)) if running.trace() == new);
        self.jitter.set_limit(spec.jitter, now);
        self.spec = spec;
        if !unchanged {
            self.start_transmission(now);
        }
        self.note_limits();
        if self.spec.cut {
            self.clear();
        }
    }

    /// Cuts the direction or joins it again; nothing else changes.
    pub(super) fn cut(&mut self, now: Instant, cut: bool) {
        let spec = DirectionSpec { cut, ..self.spec.clone() };
        self.set(now, spec);
    }

    fn clear(&mut self) {
        self.stats.cut_packets += (self.queue.len() + self.line.len()) as u64;
        self.spent.extend(self.queue.drain(..).map(|w| w.packet));
        self.spent.extend(self.line.drain(..).map(|t| t.packet));
        (self.queued_bytes, self.head_sent) = (0, 0);
    }

    /// A packet of `bytes` comes from the sending node.
    pub(super) fn offer(&mut self, now: Instant, packet: T, bytes: u64) {
        self.stats.offered_packets += 1;
        self.stats.offered_bytes += bytes;
        self.serve(now);
        if self.spec.cut {
            self.stats.cut_packets += 1;
            return self.spent.push(packet);
        }
        if self.queue.is_empty() {
            self.served_until = now;
            if let Transmission::Trace(trace) = &mut self.transmission {
                trace.skip_to(now);
            }
        } else if self.queued_bytes + bytes > self.spec.queue_bytes {
            self.stats.dropped_packets += 1;
            return self.spent.push(packet);
        }
        self.queued_bytes += bytes;
        self.queue.push_back(Waiting { packet, bytes, offered: now });
    }

    /// Transmits what can be transmitted until `now`.
    fn serve(&mut self, now: Instant) {
        while let Some(head) = self.queue.front() {
            let left = head.bytes - self.head_sent;
            match &mut self.transmission {
                Transmission::Unlimited => {
                    let at = self.served_until.max(head.offered);
                    self.depart(at);
                }
                Transmission::Rate(rate) => {
                    let done = self.served_until + rate.time_for(left);
                    if done > now {
                        return;
                    }
                    self.served_until = done;
                    self.depart(done);
                }
                Transmission::Trace(trace) => {
                    let at = trace.time_after(0);
                    if at > now {
                        return;
                    }
                    trace.use_next();
                    self.use_opportunity(at);
                }
            }
        }
    }

    /// Fills one opportunity of a trace with the packets at the head of the queue.
    fn use_opportunity(&mut self, at: Instant) {
        let mut room = OPPORTUNITY_BYTES;
        while let Some(head) = self.queue.front().filter(|_| room > 0) {
            let left = head.bytes - self.head_sent;
            if left > room {
                self.head_sent += room;
                return;
            }
            room -= left;
            self.depart(at);
        }
    }

    /// The head of the queue has been transmitted at `at`: it is lost, or travels on.
    fn depart(&mut self, at: Instant) {
        self.queue_packets.record(self.queue.len());
        let Some(Waiting { packet, bytes, offered }) = self.queue.pop_front() else { return };
        self.queued_bytes -= bytes;
        self.head_sent = 0;
        self.stats.transmitted_bytes += bytes;
        self.queue_delay.record(at - offered);
        let lost = self.loss.chance(self.spec.loss);
        let jitter = if self.spec.reorder { self.jitter.independent() } else { self.jitter.at(at) };
        if lost {
            self.stats.lost_packets += 1;
            return self.spent.push(packet);
        }
        let mut due = at + self.spec.delay + jitter;
        if !self.spec.reorder {
            due = due.max(self.last_due);
        }
        self.last_due = due;
        let place = self.line.iter().rposition(|other| other.due <= due).map_or(0, |before| before + 1);
        self.line.insert(place, Travelling { packet, bytes, due });
    }

    /// Hands every packet due by `now` to `receive`, with its due time. `receive` says whether the node took it.
    pub(super) fn deliver(&mut self, now: Instant, mut receive: impl FnMut(&T, Instant) -> bool) {
        self.serve(now);
        while let Some(arrived) = pop_due(&mut self.line, now) {
            if receive(&arrived.packet, arrived.due) {
                self.stats.sent_packets += 1;
                self.stats.sent_bytes += arrived.bytes;
            } else {
                self.stats.refused_packets += 1;
            }
            self.spent.push(arrived.packet);
        }
    }

    /// When [`Pipe::deliver`] should be called next. It may find nothing yet, if jitter or loss said so.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let arrival = self.line.front().map(|first| first.due);
        let departure = self.queue.front().map(|head| self.head_done(head) + self.spec.delay);
        arrival.into_iter().chain(departure).min()
    }

    fn head_done(&self, head: &Waiting<T>) -> Instant {
        let left = head.bytes - self.head_sent;
        match &self.transmission {
            Transmission::Unlimited => head.offered,
            Transmission::Rate(rate) => self.served_until + rate.time_for(left),
            Transmission::Trace(trace) => trace.time_after(left.div_ceil(OPPORTUNITY_BYTES).saturating_sub(1)),
        }
    }

    /// Packets that are done with, whatever became of them, for their buffers' sake.
    pub(super) fn spent(&mut self) -> std::vec::Drain<'_, T> {
        self.spent.drain(..)
    }

    /// Starts all statistics anew.
    pub(super) fn mark(&mut self, now: Instant) {
        self.serve(now);
        self.stats = DirectionStats { capacity_bytes: Some(0), ..DirectionStats::default() };
        self.note_limits();
        self.queue_delay.clear();
        self.queue_packets.clear();
        self.counted_until = now;
    }

    /// The statistics since the last mark.
    pub(super) fn stats(&mut self, now: Instant) -> DirectionStats {
        self.serve(now);
        self.count_capacity(now);
        let (queue_delay, queue_packets) = (self.queue_delay.quantiles(), self.queue_packets.summary());
        DirectionStats { queue_delay, queue_packets, ..self.stats }
    }

    fn note_limits(&mut self) {
        if matches!(self.transmission, Transmission::Unlimited) && !self.spec.cut {
            self.stats.capacity_bytes = None;
        }
    }

    fn count_capacity(&mut self, now: Instant) {
        let from = std::mem::replace(&mut self.counted_until, now);
        let offered = match &self.transmission {
            _ if self.spec.cut => 0,
            Transmission::Unlimited => 0,
            Transmission::Rate(rate) => rate.bytes_in(now - from),
            Transmission::Trace(trace) => trace.bytes_between(from, now),
        };
        self.stats.capacity_bytes = self.stats.capacity_bytes.map(|bytes| bytes + offered);
    }
}

fn pop_due<T>(line: &mut VecDeque<Travelling<T>>, now: Instant) -> Option<Travelling<T>> {
    line.pop_front_if(|first| first.due <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_scenario::trace::Trace;
    use weft_units::Duration;

    const MBIT_12: Capacity = Capacity::Rate(Rate::from_mbps(12)); // a full packet each millisecond

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn spec(capacity: Capacity, delay_ms: u64) -> DirectionSpec {
        DirectionSpec { capacity, delay: Duration::from_millis(delay_ms), ..DirectionSpec::default() }
    }

    fn pipe(spec: DirectionSpec) -> Pipe<u32> {
        Pipe::new(spec, &Rng::new(1), Instant::ZERO)
    }

    /// Delivers until `end`, each time as late as `next_due` allows, and returns (packet, due time in µs).
    fn drain(pipe: &mut Pipe<u32>, end: Instant) -> Vec<(u32, u64)> {
        let mut got = Vec::new();
        while let Some(due) = pipe.next_due().filter(|&due| due <= end) {
            pipe.deliver(due, |&packet, due| {
                got.push((packet, due.as_micros()));
                true
            });
        }
        got
    }

    #[test]
    fn a_rate_spaces_packets_exactly_however_late_one_looks() {
        let offer = |pipe: &mut Pipe<u32>| (0..3).for_each(|n| pipe.offer(ms(0), n, 1500));
        let mut prompt = pipe(spec(MBIT_12, 5));
        offer(&mut prompt);
        let expected = [(0, 6_000), (1, 7_000), (2, 8_000)];
        assert_eq!(drain(&mut prompt, ms(100)), expected);
        let (mut late, mut got) = (pipe(spec(MBIT_12, 5)), Vec::new());
        offer(&mut late);
        late.deliver(ms(100), |&packet, due| {
            got.push((packet, due.as_micros()));
            true
        });
        assert_eq!(got, expected);
        assert_eq!(late.spent().count(), 3);
        // An idle serialiser does not save up what it did not use.
        late.offer(ms(200), 9, 1500);
        assert_eq!(drain(&mut late, ms(300)), [(9, 206_000)]);
    }

    #[test]
    fn a_full_queue_drops_the_newcomer() {
        let mut pipe = pipe(DirectionSpec { queue_bytes: 4500, ..spec(MBIT_12, 0) });
        (0..5).for_each(|n| pipe.offer(ms(0), n, 1500));
        assert_eq!(pipe.spent().collect::<Vec<_>>(), [3, 4]);
        pipe.offer(ms(1), 5, 1500);
        assert_eq!(drain(&mut pipe, ms(100)).iter().map(|&(n, _)| n).collect::<Vec<_>>(), [0, 1, 2, 5]);
        let stats = pipe.stats(ms(100));
        assert_eq!((stats.offered_packets, stats.sent_packets, stats.dropped_packets), (6, 4, 2));
        assert_eq!(stats.capacity_bytes, Some(150_000));
        assert_eq!(stats.utilisation(), Some(0.04));
        assert!(stats.queue_delay.max.abs_diff(Duration::from_millis(3)) < Duration::from_micros(50), "{stats:?}");
        let lengths = stats.queue_packets;
        assert_eq!((lengths.mean, lengths.max), (2.25, 3.0), "3, 3, 2 and 1 when one left: {lengths:?}");
    }

    #[test]
    fn a_new_rate_holds_from_the_next_byte_on() {
        let mut pipe = pipe(spec(MBIT_12, 0));
        pipe.offer(ms(0), 0, 1500);
        pipe.offer(ms(0), 1, 1500);
        // Half of the first packet at 12 Mbit/s, the rest at 6 Mbit/s.
        pipe.set(Instant::from_micros(500), spec(Capacity::Rate(Rate::from_mbps(6)), 0));
        assert_eq!(drain(&mut pipe, ms(100)), [(0, 1_500), (1, 3_500)]);
        assert_eq!(pipe.stats(Instant::from_micros(2_500)).capacity_bytes, Some(2_250));
    }

    #[test]
    fn a_trace_fills_opportunities_and_wastes_the_unused() {
        let trace = Trace::parse("2\n4\n4\n10\n", "t").unwrap();
        let mut pipe = pipe(spec(Capacity::Trace(trace), 1));
        pipe.offer(ms(3), 0, 1500); // 2 ms has passed unused
        pipe.offer(ms(3), 1, 700); // these two share the second opportunity at 4 ms
        pipe.offer(ms(3), 2, 700);
        pipe.offer(ms(3), 3, 1500); // begins in what is left of it, ends at 10 ms
        assert_eq!(drain(&mut pipe, ms(11)), [(0, 5_000), (1, 5_000), (2, 5_000), (3, 11_000)]);
        pipe.offer(ms(11), 4, 3000); // takes two opportunities of the second round: 12 and 14 ms
        assert_eq!(drain(&mut pipe, ms(30)), [(4, 15_000)]);
        assert_eq!(pipe.stats(ms(20)).capacity_bytes, Some(7 * 1500));
    }

    #[test]
    fn an_unlimited_link_only_delays() {
        let mut pipe = pipe(DirectionSpec { queue_bytes: 0, ..spec(Capacity::Unlimited, 7) });
        (0..3).for_each(|n| pipe.offer(Instant::from_micros(u64::from(n)), n, 1500));
        assert_eq!(drain(&mut pipe, ms(20)), [(0, 7_000), (1, 7_001), (2, 7_002)]);
        assert_eq!(pipe.stats(ms(20)).capacity_bytes, None);
    }

    #[test]
    fn loss_takes_its_share_and_repeats_with_the_seed() {
        let lossy = DirectionSpec { loss: 0.1, queue_bytes: u64::MAX, ..spec(MBIT_12, 0) };
        let run = |seed| {
            let mut pipe = Pipe::new(lossy.clone(), &Rng::new(seed), Instant::ZERO);
            (0..10_000).for_each(|n| pipe.offer(ms(0), n, 100));
            let got: Vec<u32> = drain(&mut pipe, ms(10_000)).into_iter().map(|(n, _)| n).collect();
            let stats = pipe.stats(ms(10_000));
            assert_eq!(stats.lost_packets + got.len() as u64, 10_000);
            assert_eq!(stats.transmitted_bytes, 1_000_000);
            got
        };
        let lost = 10_000 - run(1).len() as i64;
        assert!((lost - 1_000).abs() < 120, "{lost}"); // four standard deviations
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn jitter_keeps_the_order_unless_told_otherwise() {
        let jittery = |reorder| {
            let jitter = Duration::from_millis(10);
            let mut pipe = pipe(DirectionSpec { jitter, reorder, ..spec(Capacity::Unlimited, 20) });
            (0..100).for_each(|n| pipe.offer(ms(u64::from(n)), n, 100));
            let got = drain(&mut pipe, ms(1_000));
            assert_eq!(got.len(), 100);
            assert!(got.is_sorted_by_key(|&(_, due)| due));
            for &(n, due) in &got {
                let took = due - u64::from(n) * 1_000;
                assert!((20_000..=30_000).contains(&took), "{n} took {took} µs");
            }
            got
        };
        assert!(jittery(false).is_sorted());
        assert!(!jittery(true).is_sorted());
    }

    #[test]
    fn a_cut_swallows_everything_and_counts_no_capacity() {
        let mut pipe = pipe(spec(MBIT_12, 5));
        (0..3).for_each(|n| pipe.offer(ms(0), n, 1500));
        pipe.cut(ms(2), true); // two travel, one is in transmission
        pipe.offer(ms(3), 3, 1500);
        assert_eq!(pipe.next_due(), None);
        assert_eq!(pipe.spent().count(), 4);
        pipe.cut(ms(10), false);
        pipe.offer(ms(10), 4, 1500);
        assert_eq!(drain(&mut pipe, ms(100)), [(4, 16_000)]);
        let stats = pipe.stats(ms(20));
        assert_eq!((stats.cut_packets, stats.sent_packets), (4, 1));
        assert_eq!(stats.capacity_bytes, Some(12 * 1500));
    }

    #[test]
    fn a_mark_forgets_what_was_before() {
        let mut pipe = pipe(spec(MBIT_12, 0));
        (0..2).for_each(|n| pipe.offer(ms(0), n, 1500));
        pipe.deliver(ms(1), |_, _| false);
        assert_eq!(pipe.stats(ms(1)).refused_packets, 1);
        pipe.mark(ms(1));
        drain(&mut pipe, ms(5));
        let stats = pipe.stats(ms(5));
        assert_eq!((stats.offered_packets, stats.sent_packets, stats.refused_packets), (0, 1, 0));
        assert_eq!(stats.capacity_bytes, Some(6_000));
    }
}
