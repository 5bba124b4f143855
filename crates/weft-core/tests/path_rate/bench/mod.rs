//! A packet-level model of one path.
//!
//! It consists of a sender, a drop-tail bottleneck, a delay line, a receiver, and reports back. Time is virtual, and
//! random numbers are seeded.

mod rival;

use rival::Reno;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::RangeInclusive;
use weft_core::control::{PathRate, PathRateConfig, Phase};
use weft_core::sense::{PathSample, ReceiveLog, SentPackets};
use weft_units::{Duration, Instant, Rate, Rng};

/// Size of a full packet in bytes.
pub const PACKET: u32 = 1500;

/// Capacity of the bottleneck over time.
#[derive(Clone)]
pub enum Capacity {
    /// Rates from the given times on. The first starts at zero.
    Steps(Vec<(Duration, Rate)>),
    /// Times in milliseconds at which one packet may pass, repeated (the Mahimahi format).
    Trace(Vec<u64>),
}

/// One path and its traffic.
#[derive(Clone)]
pub struct Link {
    pub capacity: Capacity,
    /// RTT without queues.
    pub rtt: Duration,
    pub queue_bytes: u64,
    /// Rate and depth in bytes of a token bucket in front of the queue.
    pub policer: Option<(Rate, u64)>,
    /// Maximum extra one-way delay.
    ///
    /// It moves between random levels, or is drawn per packet if `reorders` is set.
    pub jitter: Duration,
    pub reorders: bool,
    /// Mean interval at which packets arrive together, as from a radio that waits for its turn.
    ///
    /// With zero, each packet arrives at its own time.
    pub aggregation: Duration,
    /// Extra delay of the path from the given times on.
    pub longer: Vec<(Duration, Duration)>,
    /// Random loss rate behind the bottleneck (Bernoulli).
    pub loss: f64,
    /// Times during which the sender has data waiting.
    pub busy: Vec<RangeInclusive<Duration>>,
    /// Time during which the application produces only this rate, in bursts of ten packets.
    pub trickle: Option<(RangeInclusive<Duration>, Rate)>,
    /// Time during which a loss-based flow (Reno) competes in the same queue.
    pub rival: Option<RangeInclusive<Duration>>,
    /// Offset of the receiver's clock in microseconds.
    pub clock_offset_us: u64,
    pub duration: Duration,
    pub seed: u64,
}

impl Link {
    /// Returns a link with a constant rate and a queue of 1.5 BDP, without other effects.
    pub fn fixed(mbps: f64, rtt_ms: u64) -> Link {
        let rate = Rate::from_bps((mbps * 1e6) as u64);
        let rtt = Duration::from_millis(rtt_ms);
        Link {
            capacity: Capacity::Steps(vec![(Duration::ZERO, rate)]),
            rtt,
            policer: None,
            queue_bytes: (rate.bytes_in(rtt) * 3 / 2).max(20 * u64::from(PACKET)),
            jitter: Duration::ZERO,
            reorders: false,
            aggregation: Duration::ZERO,
            longer: Vec::new(),
            loss: 0.0,
            busy: vec![Duration::ZERO..=Duration::MAX],
            trickle: None,
            rival: None,
            clock_offset_us: 123_456_789,
            duration: Duration::from_secs(20),
            seed: 1,
        }
    }
}

/// Result of a packet at the bottleneck.
#[derive(Clone, Copy)]
pub struct Passage {
    pub at: Instant,
    pub waited: Duration,
    pub ours: bool,
}

/// Record of a run of the model.
pub struct Run {
    link: Link,
    pub passages: Vec<Passage>,
    /// Times at which the full queue dropped packets of the sender.
    pub drops: Vec<Instant>,
    /// Pacing rate and phase after each report.
    pub rates: Vec<(Instant, Rate, Phase)>,
    pub control: PathRate,
}

fn at(time: Duration) -> Instant {
    Instant::ZERO + time
}

impl Run {
    fn span(&self, from: Duration, to: Duration) -> impl Iterator<Item = &Passage> + Clone {
        self.passages.iter().filter(move |p| p.at >= at(from) && p.at < at(to))
    }

    /// Returns the sender's forwarded bytes divided by the bytes that the bottleneck could have carried.
    pub fn utilisation(&self, from: Duration, to: Duration) -> f64 {
        let ours = self.span(from, to).filter(|p| p.ours).count() as f64 * f64::from(PACKET);
        ours / self.link.possible_bytes(from, to)
    }

    /// Returns a quantile of the queueing delay of the sender's packets.
    ///
    /// The delay includes a packet's wait within a batch.
    pub fn queue(&self, quantile: f64, from: Duration, to: Duration) -> Duration {
        let mut waits: Vec<Duration> = self.span(from, to).filter(|p| p.ours).map(|p| p.waited).collect();
        waits.sort_unstable();
        let last = waits.len().saturating_sub(1);
        waits.get((last as f64 * quantile) as usize).copied().unwrap_or_default()
    }

    /// Returns the fraction of the sender's packets that the full queue dropped.
    pub fn dropped(&self, from: Duration, to: Duration) -> f64 {
        let drops = self.drops.iter().filter(|t| **t >= at(from) && **t < at(to)).count() as f64;
        let passed = self.span(from, to).filter(|p| p.ours).count() as f64;
        if drops > 0.0 { drops / (drops + passed) } else { 0.0 }
    }

    /// Returns the time from `from` until the controller has settled.
    ///
    /// It has settled when the throughput over `window` reaches `share` of the capacity, and the queue is at most
    /// `queue`.
    pub fn settled_after(&self, from: Duration, window: Duration, share: f64, queue: Duration) -> Option<Duration> {
        let mut t = from + window;
        while t < self.link.duration {
            if self.utilisation(t - window, t) >= share && self.queue(0.5, t - window, t) <= queue {
                return Some(t - from);
            }
            t += window / 4;
        }
        None
    }
}

impl Link {
    fn possible_bytes(&self, from: Duration, to: Duration) -> f64 {
        match &self.capacity {
            Capacity::Steps(steps) => {
                let mut bytes = 0.0;
                for (i, &(start, rate)) in steps.iter().enumerate() {
                    let end = steps.get(i + 1).map_or(Duration::MAX, |s| s.0).min(to);
                    bytes += end.saturating_sub(start.max(from)).as_secs_f64() * rate.bps() as f64 / 8.0;
                }
                bytes
            }
            Capacity::Trace(times) => {
                let length = times.last().copied().unwrap_or(1).max(1);
                let until =
                    |t: u64| t / length * times.len() as u64 + times.partition_point(|&x| x < t % length) as u64;
                (until(to.as_millis() as u64) - until(from.as_millis() as u64)) as f64 * f64::from(PACKET)
            }
        }
    }

    fn rate_at(&self, now: Instant) -> Rate {
        match &self.capacity {
            Capacity::Steps(steps) => steps.iter().rev().find(|s| at(s.0) <= now).map_or(Rate::ZERO, |s| s.1),
            Capacity::Trace(_) => Rate::ZERO,
        }
    }

    /// Runs the model.
    pub fn run(&self) -> Run {
        self.run_with(PathRateConfig::default())
    }

    /// Runs the model with other limits of the rate.
    pub fn run_with(&self, config: PathRateConfig) -> Run {
        let mut world = World::new(self, config);
        world.schedule(Instant::ZERO, Event::Send);
        if let Some(rival) = &self.rival {
            world.schedule(at(*rival.start()), Event::RivalStart);
        }
        if matches!(self.capacity, Capacity::Trace(_)) {
            world.schedule(world.opportunity_time(), Event::Opportunity);
        }
        while let Some(Reverse((now, _, index))) = world.heap.pop() {
            if now > at(self.duration) {
                break;
            }
            let event = std::mem::replace(&mut world.events[index], Event::Nothing);
            world.free.push(index);
            world.handle(now, event);
        }
        Run {
            link: self.clone(),
            passages: world.passages,
            drops: world.drops,
            rates: world.rates,
            control: world.control,
        }
    }
}

enum Event {
    Nothing,
    Send,
    Served,
    Opportunity,
    Arrive(u64),
    ReportTimer,
    Report(PathSample, Vec<RangeInclusive<u64>>),
    LossTimer,
    /// A packet leaves beyond the limit if no report has arrived since the given number of reports.
    Ask(usize),
    RivalStart,
    RivalAck,
}

struct Queued {
    number: u64,
    ours: bool,
    entered: Instant,
}

struct World<'a> {
    link: &'a Link,
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    events: Vec<Event>,
    free: Vec<usize>,
    order: u64,
    rng: Rng,
    control: PathRate,
    book: SentPackets<()>,
    log: ReceiveLog,
    report_timer: Option<Instant>,
    next_send: Instant,
    send_scheduled: bool,
    is_asking: bool,
    trickled: u64,
    queue: VecDeque<Queued>,
    tokens: (Instant, f64),
    serving: bool,
    opportunity: usize,
    lap: u64,
    last_arrival: Instant,
    /// Next turn of a radio that aggregates packets.
    turn: Instant,
    rival: Reno,
    passages: Vec<Passage>,
    drops: Vec<Instant>,
    rates: Vec<(Instant, Rate, Phase)>,
}

impl<'a> World<'a> {
    fn new(link: &'a Link, config: PathRateConfig) -> World<'a> {
        World {
            link,
            heap: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            order: 0,
            rng: Rng::new(link.seed),
            control: PathRate::new(config),
            book: SentPackets::new(),
            log: ReceiveLog::new(),
            report_timer: None,
            next_send: Instant::ZERO,
            send_scheduled: true,
            is_asking: false,
            trickled: 0,
            queue: VecDeque::new(),
            tokens: (Instant::ZERO, link.policer.map_or(0.0, |p| p.1 as f64)),
            serving: false,
            opportunity: 0,
            lap: 0,
            last_arrival: Instant::ZERO,
            turn: Instant::ZERO,
            rival: Reno::default(),
            passages: Vec::new(),
            drops: Vec::new(),
            rates: Vec::new(),
        }
    }

    fn schedule(&mut self, time: Instant, event: Event) {
        let index = match self.free.pop() {
            Some(index) => {
                self.events[index] = event;
                index
            }
            None => {
                self.events.push(event);
                self.events.len() - 1
            }
        };
        self.order += 1;
        self.heap.push(Reverse((time, self.order, index)));
    }

    fn handle(&mut self, now: Instant, event: Event) {
        match event {
            Event::Nothing => {}
            Event::Send => {
                self.send_scheduled = false;
                self.send(now);
            }
            Event::Served => {
                self.serve_one(now);
                self.serving = false;
                self.start_serving(now);
            }
            Event::Opportunity => {
                self.serve_one(now);
                self.schedule(self.opportunity_time(), Event::Opportunity);
            }
            Event::Arrive(number) => {
                self.log.on_datagram(now, number, PACKET, false, true);
                self.check_report(now);
            }
            Event::ReportTimer => {
                self.report_timer = None;
                self.check_report(now);
            }
            Event::Report(report, ranges) => self.on_report(now, &report, ranges),
            Event::LossTimer => {
                self.book.detect_lost(now, &mut |_, _, _| {});
                self.send(now);
            }
            Event::Ask(reports) if self.rates.len() == reports => {
                self.send_packet(now, true);
                self.ask_later(now);
            }
            Event::Ask(_) => {
                self.is_asking = false;
                if !self.send_scheduled {
                    self.send(now);
                }
            }
            Event::RivalStart => self.rival_send(now),
            Event::RivalAck => self.rival_ack(now),
        }
    }

    fn is_busy(&self, now: Instant) -> bool {
        self.link.busy.iter().any(|span| span.contains(&(now - Instant::ZERO)))
    }

    fn send(&mut self, now: Instant) {
        if !self.is_busy(now) {
            let next = self.link.busy.iter().map(|span| at(*span.start())).filter(|t| *t > now).min();
            if let Some(next) = next {
                self.wake(next);
            }
            return;
        }
        let rate = self.control.pacing_rate(now);
        // Sends in batches, as a real sender passes several packets to the kernel at once.
        let batch = (rate.bytes_in(Duration::from_micros(500)) / u64::from(PACKET)).clamp(1, 40);
        while self.next_send <= now {
            for _ in 0..batch {
                let waiting = self.waiting(now);
                if waiting == 0 {
                    return self.wake(now + Duration::from_millis(1));
                }
                if self.book.in_flight_bytes() + u64::from(PACKET) > self.control.in_flight_limit_bytes() {
                    self.next_send = now;
                    if !self.is_asking {
                        self.ask_later(now);
                    }
                    return;
                }
                self.send_packet(now, waiting > 1);
                self.next_send =
                    self.next_send.max(now.before(rate.time_for(u64::from(PACKET)))) + rate.time_for(u64::from(PACKET));
            }
        }
        self.wake(self.next_send);
    }

    fn send_packet(&mut self, now: Instant, backlogged: bool) {
        let number = self.book.next_number();
        self.book.on_sent(number, now, PACKET, backlogged, ());
        self.trickled += 1;
        self.enqueue(now, Queued { number, ours: true, entered: now });
    }

    /// Asks for a report after some silence, as a node does by a ping. All packets in flight may be lost.
    fn ask_later(&mut self, now: Instant) {
        self.is_asking = true;
        let patience = self.control.rtt().smoothed() * 2 + Duration::from_millis(50);
        self.schedule(now + patience, Event::Ask(self.rates.len()));
    }

    /// Returns the number of packets that the application has ready.
    fn waiting(&mut self, now: Instant) -> u64 {
        match &self.link.trickle {
            Some((span, rate)) if span.contains(&(now - Instant::ZERO)) => {
                let made = rate.bytes_in(now - at(*span.start())) / u64::from(PACKET);
                (made / 10 * 10).saturating_sub(self.trickled)
            }
            _ => {
                self.trickled = 0;
                u64::MAX
            }
        }
    }

    fn wake(&mut self, time: Instant) {
        if !self.send_scheduled {
            self.send_scheduled = true;
            self.schedule(time, Event::Send);
        }
    }

    /// Takes the tokens of a packet. Returns false if the bucket has too few.
    fn is_conforming(&mut self, now: Instant) -> bool {
        let Some((rate, depth)) = self.link.policer else { return true };
        let (since, tokens) = self.tokens;
        let tokens = (tokens + (now - since).as_secs_f64() * rate.bps() as f64 / 8.0).min(depth as f64);
        let conforms = tokens >= f64::from(PACKET);
        self.tokens = (now, if conforms { tokens - f64::from(PACKET) } else { tokens });
        conforms
    }

    fn enqueue(&mut self, now: Instant, packet: Queued) -> bool {
        if !self.is_conforming(now)
            || (self.queue.len() as u64 + 1) * u64::from(PACKET) > self.link.queue_bytes.max(u64::from(PACKET))
        {
            if packet.ours {
                self.drops.push(now);
            } else {
                self.rival_lost(packet.number);
            }
            return false;
        }
        self.queue.push_back(packet);
        self.start_serving(now);
        true
    }

    fn start_serving(&mut self, now: Instant) {
        if self.serving || self.queue.is_empty() || matches!(self.link.capacity, Capacity::Trace(_)) {
            return;
        }
        self.serving = true;
        let time = self.link.rate_at(now).time_for(u64::from(PACKET));
        self.schedule(now + time, Event::Served);
    }

    fn opportunity_time(&self) -> Instant {
        let Capacity::Trace(times) = &self.link.capacity else { return Instant::FAR_FUTURE };
        let length = times.last().copied().unwrap_or(1).max(1);
        Instant::from_millis(self.lap * length + times[self.opportunity])
    }

    fn serve_one(&mut self, now: Instant) {
        if let Capacity::Trace(times) = &self.link.capacity {
            self.opportunity += 1;
            if self.opportunity == times.len() {
                self.opportunity = 0;
                self.lap += 1;
            }
        }
        let Some(packet) = self.queue.pop_front() else { return };
        let own = self.link.rate_at(now).time_for(u64::from(PACKET));
        let own = if own > Duration::from_secs(1000) { Duration::ZERO } else { own };
        let waited = (now - packet.entered).saturating_sub(own);
        self.passages.push(Passage { at: now, waited, ours: packet.ours });
        if !packet.ours {
            self.schedule(now + self.link.rtt, Event::RivalAck);
            return;
        }
        if self.rng.chance(self.link.loss) {
            return;
        }
        let mut arrival = now + self.link.rtt / 2 + self.longer(now) + self.jitter(now);
        if !self.link.aggregation.is_zero() {
            arrival = self.next_turn(arrival);
        }
        if !self.link.reorders {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        self.schedule(arrival, Event::Arrive(packet.number));
    }

    /// Returns the first turn of the radio after a packet has left the queue. The next packet follows 10 µs later.
    fn next_turn(&mut self, ready: Instant) -> Instant {
        while self.turn < ready {
            self.turn += self.link.aggregation.mul_f64(2.0 * self.rng.unit());
        }
        self.turn.max(self.last_arrival + Duration::from_micros(10))
    }

    fn longer(&self, now: Instant) -> Duration {
        let steps = self.link.longer.iter().rev();
        steps.clone().find(|step| Instant::ZERO + step.0 <= now).map_or(Duration::ZERO, |step| step.1)
    }

    fn jitter(&mut self, now: Instant) -> Duration {
        let most = self.link.jitter;
        if most.is_zero() || self.link.reorders {
            return most.mul_f64(self.rng.unit());
        }
        let passed = (now - Instant::ZERO).as_secs_f64() / most.as_secs_f64();
        let level = |n: f64| Rng::new(self.link.seed).split(n as u64).unit();
        let (from, to) = (level(passed.floor()), level(passed.floor() + 1.0));
        most.mul_f64(from + (to - from) * passed.fract())
    }

    fn report_interval(&self) -> Duration {
        (self.link.rtt / 4).clamp(Duration::from_millis(1), Duration::from_millis(25))
    }

    fn check_report(&mut self, now: Instant) {
        let Some(due) = self.log.report_due(self.report_interval(), || Duration::ZERO) else { return };
        if due > now {
            if self.report_timer.is_none_or(|t| t > due) {
                self.report_timer = Some(due);
                self.schedule(due, Event::ReportTimer);
            }
            return;
        }
        if let Some(mut report) = self.log.report(now) {
            report.received_at_us = report.received_at_us.wrapping_add(self.link.clock_offset_us as u32);
            let ranges = self.log.ranges().collect();
            self.log.on_report_sent(now);
            self.schedule(now + self.link.rtt / 2, Event::Report(report, ranges));
        }
    }

    fn on_report(&mut self, now: Instant, report: &PathSample, ranges: Vec<RangeInclusive<u64>>) {
        if let Some(sample) = self.book.on_report(now, report, ranges, &mut |_, _, _| {}) {
            self.control.on_sample(now, &sample);
            self.rates.push((now, self.control.pacing_rate(now), self.control.phase()));
        }
        if let Some(time) = self.book.next_loss_timeout() {
            self.schedule(time.max(now), Event::LossTimer);
        }
        if !self.send_scheduled {
            self.send(now);
        }
    }
}

/// Returns the trace of a radio link.
///
/// The rate is a random walk between 1 and 30 Mbit/s with a step every 100 ms. A gap follows every 7 s.
pub fn radio_trace(seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let (mut times, mut credit, mut mbps) = (Vec::new(), 0.0, 8.0f64);
    for t in 0..60_000u64 {
        if t % 100 == 0 {
            mbps = (mbps * (0.85 + 0.32 * rng.unit())).clamp(1.0, 30.0);
        }
        let gap = t % 7_000 < 150;
        // Transmission opportunities arrive in bursts every 5 ms.
        credit += if gap { 0.0 } else { mbps * 1e3 / 8.0 / f64::from(PACKET) };
        while t % 5 == 0 && credit >= 1.0 {
            times.push(t);
            credit -= 1.0;
        }
    }
    times
}
