//! A packet-level model of loops over a network.
//!
//! It has FIFO drop-tail links, greedy or switched sources, and reports that return after a fixed delay. Time is
//! virtual, and random numbers are seeded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weft_core::control_loop::explicit_rate::{Ask, GrantConfig, LoopLink};
use weft_core::control_loop::{ControlLoop, Credit, LoopConfig, LoopEgress, LoopReport, Marker};
use weft_core::service::Share;
use weft_units::{Duration, Instant, Rate, Rng};

/// A link with a rate, a buffer in packets, and a delay.
#[derive(Clone)]
pub struct Link {
    pub rate: Rate,
    pub delay: Duration,
    pub buffer_packets: usize,
    free_at: Instant,
    departures: std::collections::VecDeque<Instant>,
    waiting_bytes: std::collections::VecDeque<u32>,
    /// Grants of the link to loops that ask.
    grants: LoopLink,
    /// Longest queue in packets since the statistics were reset.
    pub peak_packets: usize,
    pub dropped: u64,
    pub passed_bytes: u64,
    /// Sum of the packets' times in the queue in seconds, for the mean queue.
    queue_seconds: f64,
    /// Time at which the statistics were reset.
    observed: Instant,
}

impl Link {
    pub fn new(mbps: f64, delay: Duration, buffer_packets: usize) -> Link {
        Link {
            rate: Rate::from_bps((mbps * 1e6) as u64),
            delay,
            buffer_packets,
            free_at: Instant::ZERO,
            departures: Default::default(),
            waiting_bytes: Default::default(),
            grants: LoopLink::new(GrantConfig::default(), Instant::ZERO),
            peak_packets: 0,
            dropped: 0,
            passed_bytes: 0,
            queue_seconds: 0.0,
            observed: Instant::ZERO,
        }
    }

    /// Returns the time at which a packet that arrives now reaches the far end, or `None` if it is dropped.
    fn pass(&mut self, now: Instant, bytes: u32) -> Option<Instant> {
        while self.departures.front().is_some_and(|t| *t <= now) {
            self.departures.pop_front();
            self.waiting_bytes.pop_front();
        }
        self.grants.on_arrival(bytes.into());
        // Each packet adds its own time in the queue to the time-weighted sum.
        if self.departures.len() >= self.buffer_packets {
            self.dropped += 1;
            return None;
        }
        self.free_at = self.free_at.max(now) + self.rate.time_for(u64::from(bytes));
        self.queue_seconds += (self.free_at - now).as_secs_f64();
        self.departures.push_back(self.free_at);
        self.waiting_bytes.push_back(bytes);
        self.peak_packets = self.peak_packets.max(self.departures.len());
        self.passed_bytes += u64::from(bytes);
        Some(self.free_at + self.delay)
    }

    /// Writes the link's grant for a loop whose marker has just passed.
    fn stamp(&mut self, now: Instant, ask: &mut Ask) {
        let queued_bytes = self.waiting_bytes.iter().map(|bytes| u64::from(*bytes)).sum();
        self.grants.stamp(now, self.rate, queued_bytes, ask);
    }

    fn reset(&mut self, now: Instant) {
        (self.peak_packets, self.dropped, self.passed_bytes, self.queue_seconds) = (0, 0, 0, 0.0);
        self.observed = now;
    }

    /// Returns the fraction of the capacity used since the reset.
    pub fn utilisation(&self, now: Instant) -> f64 {
        self.passed_bytes as f64 * 8.0 / self.rate.bps() as f64 / (now - self.observed).as_secs_f64()
    }

    /// Returns the mean number of packets in the link's queue since the reset.
    pub fn mean_queue(&self, now: Instant) -> f64 {
        self.queue_seconds / (now - self.observed).as_secs_f64()
    }
}

/// Faults that affect a flow's packets, markers and reports.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    pub data_loss: f64,
    pub marker_loss: f64,
    pub report_loss: f64,
    /// Time at which the faults end.
    pub until: Instant,
    /// Drift of the egress's clock in ppm; positive if it runs fast.
    pub drift_ppm: i64,
}

/// A loop and its source.
#[derive(Clone)]
pub struct Flow {
    pub config: LoopConfig,
    pub share: Share,
    /// Numbers of the links on the route.
    pub route: Vec<usize>,
    /// Delay before the first link.
    pub access: Duration,
    /// Delay of a report from the egress to the ingress.
    pub back: Duration,
    pub packet_bytes: u32,
    /// Times during which the source has data: start and end.
    pub busy: Vec<(Instant, Instant)>,
    pub faults: Faults,
}

impl Flow {
    /// Returns a greedy best-effort loop over `route` from the start.
    pub fn greedy(config: LoopConfig, route: &[usize], back: Duration) -> Flow {
        Flow {
            config,
            share: Share::default(),
            route: route.to_vec(),
            access: Duration::ZERO,
            back,
            packet_bytes: 1_000,
            busy: vec![(Instant::ZERO, Instant::FAR_FUTURE)],
            faults: Faults::default(),
        }
    }

    pub fn with_share(mut self, share: Share) -> Flow {
        self.share = share;
        self
    }

    fn is_busy(&self, now: Instant) -> bool {
        self.busy.iter().any(|(from, to)| (*from..*to).contains(&now))
    }
}

/// Both ends of a loop, and the counts of its packets.
pub struct Ends {
    pub ingress: ControlLoop,
    egress: LoopEgress,
    wake_at: Instant,
    /// Time when the last packet arrived at the first link.
    entered_at: Instant,
    pub sent: u64,
    pub received: u64,
    pub lost: u64,
    /// Bytes received since the statistics were reset.
    pub received_bytes: u64,
}

/// A marker and the request that travels with it.
type Asking = (Marker, Option<Ask>);

enum What {
    /// A packet of the flow arrives at the given hop. A marker that is sent by itself has zero bytes.
    Arrive {
        hop: usize,
        bytes: u32,
        marker: Option<Asking>,
    },
    Report(LoopReport, Option<Ask>),
    Wake,
}

struct Event {
    at: Instant,
    order: u64,
    flow: usize,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The network during a run.
pub struct Network {
    pub now: Instant,
    pub links: Vec<Link>,
    pub flows: Vec<Flow>,
    pub ends: Vec<Ends>,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    rng: Rng,
    since: Instant,
    /// If set, all loops learn of a loss of one of them, as loops of one ingress could.
    pub shared_events: bool,
}

impl Network {
    pub fn new(links: Vec<Link>, flows: Vec<Flow>, seed: u64) -> Network {
        let mut rng = Rng::new(seed);
        let ends = flows.iter().map(|flow| Ends {
            ingress: ControlLoop::new(flow.config.clone(), flow.share),
            egress: LoopEgress::default(),
            wake_at: Instant::FAR_FUTURE,
            entered_at: Instant::ZERO,
            sent: 0,
            received: 0,
            lost: 0,
            received_bytes: 0,
        });
        let ends = ends.collect();
        let mut network = Network {
            now: Instant::ZERO,
            links,
            flows,
            ends,
            events: BinaryHeap::new(),
            order: 0,
            rng: rng.split(1),
            since: Instant::ZERO,
            shared_events: false,
        };
        for flow in 0..network.flows.len() {
            let starts: Vec<Instant> = network.flows[flow].busy.iter().map(|(from, _)| *from).collect();
            for start in starts {
                network.wake(flow, start + Duration::from_micros(rng.below(20_000)));
            }
        }
        network
    }

    /// Restarts the statistics.
    pub fn reset(&mut self) {
        self.since = self.now;
        for link in &mut self.links {
            link.reset(self.now);
        }
        for end in &mut self.ends {
            end.received_bytes = 0;
        }
    }

    /// Returns the rate that a flow received since the reset, in bits per second.
    pub fn rate(&self, flow: usize) -> f64 {
        self.ends[flow].received_bytes as f64 * 8.0 / (self.now - self.since).as_secs_f64()
    }

    pub fn rates(&self) -> Vec<f64> {
        (0..self.flows.len()).map(|flow| self.rate(flow)).collect()
    }

    pub fn run_until(&mut self, end: Instant) {
        while let Some(Reverse(event)) = self.events.pop() {
            if event.at > end {
                self.events.push(Reverse(event));
                break;
            }
            self.now = event.at;
            self.happen(event);
        }
        self.now = end;
    }

    fn push(&mut self, at: Instant, flow: usize, what: What) {
        self.order += 1;
        self.events.push(Reverse(Event { at, order: self.order, flow, what }));
    }

    fn wake(&mut self, flow: usize, at: Instant) {
        self.push(at, flow, What::Wake);
    }

    fn unlucky(&mut self, flow: usize, chance: f64) -> bool {
        self.now < self.flows[flow].faults.until && self.rng.chance(chance)
    }

    fn happen(&mut self, event: Event) {
        let flow = event.flow;
        match event.what {
            What::Arrive { hop, bytes, marker } => return self.arrive(flow, hop, bytes, marker),
            What::Report(report, ask) => self.report(flow, &report, ask),
            What::Wake => {
                if self.ends[flow].wake_at <= self.now {
                    self.ends[flow].wake_at = Instant::FAR_FUTURE;
                }
                if let Some(marker) = self.ends[flow].ingress.on_deadline(self.now) {
                    self.launch(flow, 0, Some(marker));
                }
            }
        }
        self.send(flow);
    }

    fn report(&mut self, flow: usize, report: &LoopReport, ask: Option<Ask>) {
        if let Some(ask) = ask {
            self.ends[flow].ingress.on_grant(self.now, ask.granted);
        }
        let before = self.ends[flow].ingress.loss_events();
        self.ends[flow].ingress.on_report(self.now, report);
        if self.shared_events && self.ends[flow].ingress.loss_events() != before {
            for end in &mut self.ends {
                end.ingress.on_congestion(self.now);
            }
        }
    }

    fn send(&mut self, flow: usize) {
        let mut wake_at = Instant::FAR_FUTURE;
        while self.flows[flow].is_busy(self.now) {
            let bytes = self.flows[flow].packet_bytes;
            match self.ends[flow].ingress.credit(self.now, bytes) {
                Credit::Now => {
                    self.ends[flow].sent += 1;
                    // The last packet of a busy time leaves nothing behind.
                    let next = self.now + self.ends[flow].ingress.status().rate.time_for(bytes.into());
                    let more = self.flows[flow].is_busy(next);
                    let marker = self.ends[flow].ingress.on_sent(self.now, bytes, more);
                    self.launch(flow, bytes, marker);
                }
                Credit::At(at) => {
                    wake_at = at;
                    break;
                }
                Credit::OnReport => break,
            }
        }
        let deadline = self.ends[flow].ingress.deadline().unwrap_or(Instant::FAR_FUTURE);
        let wake_at = wake_at.min(deadline);
        if wake_at < self.ends[flow].wake_at {
            self.ends[flow].wake_at = wake_at;
            self.wake(flow, wake_at);
        }
    }

    fn launch(&mut self, flow: usize, bytes: u32, marker: Option<Marker>) {
        let faults = self.flows[flow].faults;
        if self.unlucky(flow, faults.data_loss) {
            self.ends[flow].lost += u64::from(bytes > 0);
            return;
        }
        let marker = if self.unlucky(flow, faults.marker_loss) { None } else { marker };
        let marker = marker.map(|marker| (marker, self.ends[flow].ingress.ask()));
        if bytes == 0 && marker.is_none() {
            return;
        }
        // Adds a little jitter without reordering. Otherwise packets of some flows would always arrive just before a
        // place in a full queue becomes free.
        let jitter = Duration::from_nanos(self.rng.below(200_000));
        let end = &mut self.ends[flow];
        end.entered_at = end.entered_at.max(self.now + self.flows[flow].access + jitter);
        let at = end.entered_at;
        self.push(at, flow, What::Arrive { hop: 0, bytes, marker });
    }

    fn arrive(&mut self, flow: usize, hop: usize, bytes: u32, mut marker: Option<Asking>) {
        if let Some(link) = self.flows[flow].route.get(hop).copied() {
            // A marker that is sent by itself is a small packet.
            let passed = self.links[link].pass(self.now, bytes.max(60));
            if let Some((_, Some(ask))) = &mut marker {
                self.links[link].stamp(self.now, ask);
            }
            match passed {
                Some(at) => self.push(at, flow, What::Arrive { hop: hop + 1, bytes, marker }),
                None => self.ends[flow].lost += u64::from(bytes > 0),
            }
            return;
        }
        let faults = self.flows[flow].faults;
        let nanos = self.now.as_nanos() as i64;
        let egress_clock = Instant::from_nanos((nanos + nanos / 1_000_000 * faults.drift_ppm + 77_000_000_000) as u64);
        let end = &mut self.ends[flow];
        if bytes > 0 {
            end.egress.on_time(egress_clock);
            end.egress.on_packet(bytes, false);
            end.received += 1;
            end.received_bytes += u64::from(bytes);
        }
        let Some((marker, ask)) = marker else { return };
        if let Some(report) = self.ends[flow].egress.on_marker(egress_clock, marker)
            && !self.unlucky(flow, faults.report_loss)
        {
            self.push(self.now + self.flows[flow].back, flow, What::Report(report, ask));
        }
    }
}
