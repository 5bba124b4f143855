//! Runs one lane once: builds the world, runs flows and events, and collects the measurements.

use super::apps::{self, FlowEnds};
use super::events;
use super::lane::SimLane;
use super::vpns::Entries;
use super::watch::RunRecords;
use super::world::{HOME, HUB, TwoSiteWorld, described};
use crate::observers::Observers;
use std::path::PathBuf;
use weft_scenario::measure::{
    CarriedBytes, LengthSummary, Lengths, STEP, bound_bps, bulk_direction, host_fairness, host_results,
    newest_age_ms_p95, omniscient_ms_p95, vpn_fairness, vpn_results, vpn_series,
};
use weft_scenario::{
    Capacity, FlowDirection, LinkResult, PortResult, Scenario, Series, Traces, VariantRun, percentile,
};
use weft_sim::link::LinkSpec;
use weft_units::{Duration, Instant, Rate, Rng};

/// Time from the moment when the tunnel is ready until the run begins.
const LEAD: Duration = Duration::from_millis(700);
/// Time after the end of a run in which packets may still arrive and are counted.
const DRAIN: Duration = Duration::from_secs(2);

/// Interval at which the queueing delays of the ports are read. The ports measure with the same interval.
const PORT_STEP: Duration = Duration::from_millis(20);

/// Percentage of the paths' estimated rate that all flows with explicit rates get together.
///
/// It exceeds 100 %: if less than the capacity were sent on a path, the path's estimated rate would never reach the
/// capacity.
const USED_PERCENT: u64 = 104;

/// The inputs that all runs of a scenario share.
pub(super) struct SimRunInputs<'a> {
    pub scenario: &'a Scenario,
    pub traces: &'a Traces,
    pub looks: Option<&'a (Observers, PathBuf)>,
}

/// The measurements of one run of a lane.
pub(super) struct LaneRun {
    pub run: VariantRun,
    pub series: Vec<Series>,
}

/// A run in progress.
pub(super) struct SimStage<'a> {
    pub scenario: &'a Scenario,
    pub described: Vec<[LinkSpec; 2]>,
    pub world: TwoSiteWorld,
    pub flow_ends: Vec<FlowEnds>,
    /// The simulated time at which the run began.
    pub epoch: Instant,
    carried: CarriedBytes,
    /// For each link, first the direction up: the number of bytes that it had sent at the last sample.
    before: Vec<[u64; 2]>,
    /// For each link, first the direction up: the number of bytes that it could have sent since the warm-up.
    capacity: Vec<[u64; 2]>,
    /// Time of the next sample, since the beginning of the run.
    next_look: Duration,
    /// Time of the next reading of the ports' queueing delays, since the beginning of the run.
    next_port_look: Duration,
    /// Queueing delays of each node's port that were read since the warm-up, in milliseconds.
    port_ms: [Vec<f64>; 2],
    at: Duration,
    results: Vec<LinkResult>,
    /// The state of the VPNs' ingress queues at the end of the warm-up, and at the end of the run.
    entries: [Entries; 2],
}

impl SimRunInputs<'_> {
    pub(super) fn direction(&self) -> FlowDirection {
        bulk_direction(self.scenario)
    }

    pub(super) fn bound_bps(&self) -> f64 {
        bound_bps(self.scenario, self.direction(), self.traces)
    }

    /// Runs a lane once. `number` is the run's number among the lane's runs, from 1.
    pub(super) fn run(&self, lane: &SimLane, number: usize, seed: u64) -> Result<LaneRun, String> {
        let mut stage = self.stage(lane, seed)?;
        let watch = self.looks.map(|looks| RunRecords::start(looks, lane, number, &mut stage)).transpose()?;
        let happened = events::play(&mut stage);
        let end = stage.world.simulator.now() + DRAIN;
        stage.world.simulator.run_until(end);
        if let Some(watch) = watch {
            watch.finish(&stage)?;
        }
        let events = events::judge(&stage, &happened, &stage.carried);
        let mut lane_run = self.collect(&stage, lane);
        lane_run.run.events = events;
        Ok(lane_run)
    }

    fn stage(&self, lane: &SimLane, seed: u64) -> Result<SimStage<'_>, String> {
        let mut world = TwoSiteWorld::build(self.scenario, self.traces, lane, seed)?;
        let epoch = world.simulator.now() + LEAD;
        world.simulator.run_until(epoch);
        world.begin_run();
        let flow_ends = apps::add_flows(self.scenario, &mut world, epoch, &Rng::new(seed).split(1))?;
        let zeros = vec![[0; 2]; world.links.len()];
        let mut stage = SimStage {
            scenario: self.scenario,
            described: described(self.scenario, self.traces, seed)?,
            world,
            flow_ends,
            epoch,
            carried: CarriedBytes::default(),
            before: zeros.clone(),
            capacity: zeros,
            next_look: STEP,
            next_port_look: self.scenario.warmup + PORT_STEP,
            port_ms: [Vec::new(), Vec::new()],
            at: Duration::ZERO,
            results: Vec::new(),
            entries: [Entries::default(), Entries::default()],
        };
        stage.clear_stats();
        Ok(stage)
    }

    fn collect(&self, stage: &SimStage<'_>, lane: &SimLane) -> LaneRun {
        let (mut flows, mut series) = (Vec::new(), Vec::new());
        for ends in &stage.flow_ends {
            let (mut result, one) = ends.report(&stage.world, self.scenario.warmup);
            result.beyond_omniscient_ms_p95 = self.beyond_omniscient(stage, ends);
            flows.push(result);
            series.push(one);
        }
        let [before, after] = &stage.entries;
        let vpns = vpn_results(self.scenario, &flows, |vpn, direction| after.since(before, vpn, direction));
        series.extend(vpn_series(self.scenario, &series));
        let names: Vec<&str> = self.scenario.links.iter().map(|link| link.name.as_str()).collect();
        let is_own = |name: &str| lane.link.and_then(|l| names.get(l)).is_none_or(|own| *own == name);
        let is_own_series = |s: &Series| s.name.rsplit_once('.').is_some_and(|(link, _)| is_own(link));
        series.extend(stage.carried.series(&names).into_iter().filter(is_own_series));
        let is_bounded =
            |name: &str| self.scenario.flows.iter().any(|flow| flow.name == name && flow.direction == self.direction());
        let goodput_bps: f64 =
            flows.iter().filter(|flow| is_bounded(&flow.name)).filter_map(|flow| flow.goodput_bps).sum();
        let hosts = host_results(self.scenario, &flows);
        let run = VariantRun {
            goodput_bps,
            efficiency: goodput_bps / self.bound_bps().max(1.0),
            setup_ms: None,
            flows,
            links: stage.results.iter().filter(|link| is_own(&link.name)).cloned().collect(),
            vpn_fairness: vpn_fairness(self.scenario, &vpns, self.direction()),
            vpns,
            host_fairness: host_fairness(&hosts),
            hosts,
            ports: stage.port_results(),
            events: Vec::new(),
            disturbances: Vec::new(),
            lateness_ms_p999: 0.0,
        };
        LaneRun { run, series }
    }

    /// Returns by how much older the newest received packet of a probe flow is than with an ideal sender, in ms.
    ///
    /// An ideal sender knows the future capacity of the links. The result is the difference of the 95th percentiles of
    /// the age. Returns `None` unless a trace drives one of the links.
    fn beyond_omniscient(&self, stage: &SimStage<'_>, ends: &FlowEnds) -> Option<f64> {
        let flow = events::probe_flows(std::slice::from_ref(ends)).next()?.flow();
        let is_trace = |link: &weft_scenario::Link| matches!(link.towards(flow.direction).capacity, Capacity::Trace(_));
        if !self.scenario.links.iter().any(is_trace) {
            return None;
        }
        let floor = omniscient_ms_p95(self.scenario, flow.direction, self.traces)?;
        Some(newest_age_ms_p95(&ends.arrivals(&stage.world), self.scenario.warmup, flow.stop)? - floor)
    }
}

impl SimStage<'_> {
    /// Runs until `end`, a time since the beginning of the run, and takes samples of links and flows on the way.
    ///
    /// At the end of the scenario, it also collects the results of the links.
    pub(super) fn run_until(&mut self, end: Duration) {
        while self.next_look <= end {
            self.go(self.next_look);
            self.sample();
            self.next_look += STEP;
        }
        self.go(end);
        if end == self.scenario.duration {
            self.results = self.link_results();
            self.entries[1] = Entries::of(&self.world, &self.scenario.vpns);
        }
    }

    fn go(&mut self, to: Duration) {
        let warmup = self.scenario.warmup;
        if self.at < warmup && to > warmup {
            self.go(warmup);
        }
        while self.next_port_look <= to {
            let look = self.next_port_look;
            self.next_port_look += PORT_STEP;
            self.go(look);
            let delays = self.world.port_delays();
            self.port_ms
                .iter_mut()
                .zip(delays)
                .for_each(|(all, delay)| all.extend(delay.map(|d| d.as_secs_f64() * 1e3)));
        }
        let (from, until) = (self.epoch + self.at, self.epoch + to);
        self.world.simulator.run_until(until);
        for (pair, capacity) in self.world.links.iter().zip(&mut self.capacity) {
            for (id, bytes) in pair.iter().zip(capacity) {
                let link = self.world.simulator.link_mut(*id);
                let could = if link.spec().cut { 0 } else { link.capacity_bytes(from, until) };
                *bytes += could;
            }
        }
        self.at = to;
        if to == warmup {
            self.clear_stats();
        }
    }

    fn clear_stats(&mut self) {
        let now = self.world.simulator.now();
        for pair in &self.world.links {
            pair.iter().for_each(|id| self.world.simulator.link_mut(*id).clear_stats(now));
        }
        self.before.fill([0; 2]);
        self.capacity.fill([0; 2]);
        self.entries[0] = Entries::of(&self.world, &self.scenario.vpns);
    }

    fn sample(&mut self) {
        let now = self.world.simulator.now();
        let mut step = Vec::with_capacity(self.before.len());
        for (pair, before) in self.world.links.iter().zip(&mut self.before) {
            let sent = pair.map(|id| self.world.simulator.link_mut(id).stats(now).sent_bytes);
            step.push([0, 1].map(|d: usize| sent[d].saturating_sub(before[d])));
            *before = sent;
        }
        self.carried.steps.push((self.at, step));
        for ends in &mut self.flow_ends {
            ends.sample(&self.world, self.at);
        }
        self.grant_paths();
    }

    /// Divides the rate of the tunnel's paths among the flows whose explicit rate it is.
    ///
    /// A proxy of the daemon divides this rate in the same way.
    fn grant_paths(&mut self) {
        for node in [HOME, HUB] {
            let own = |ends: &&FlowEnds| ends.goes_by_paths() && ends.sender().0 == node;
            let flows = self.flow_ends.iter().filter(own).count() as u64;
            let Some(rate) = self.world.paths_rate(node).filter(|_| flows > 0) else { continue };
            let each = Rate::from_bps(rate.bps() * USED_PERCENT / 100 / flows);
            self.flow_ends.iter().filter(own).for_each(|ends| ends.grant(&mut self.world, each));
        }
    }

    /// Returns the queueing delays at the ports of those nodes whose engines keep flow state.
    fn port_results(&self) -> Vec<PortResult> {
        let of = |(node, ms): (&String, &Vec<f64>)| {
            let at = |share| percentile(ms.iter().copied(), share);
            Some(PortResult { node: node.clone(), queue_ms_p50: at(0.5)?, queue_ms_p95: at(0.95)? })
        };
        self.scenario.nodes.iter().zip(&self.port_ms).filter_map(of).collect()
    }

    fn link_results(&mut self) -> Vec<LinkResult> {
        let now = self.world.simulator.now();
        let mut results = Vec::new();
        for ((pair, described), capacity) in self.world.links.iter().zip(&self.scenario.links).zip(&self.capacity) {
            for ((id, word), capacity) in pair.iter().zip(["up", "down"]).zip(capacity) {
                let stats = self.world.simulator.link_mut(*id).stats(now);
                let lengths = stats.queue_packets.as_ref().map(Lengths::summary);
                let length = |of: fn(LengthSummary) -> f64| lengths.map(of);
                results.push(LinkResult {
                    name: described.name.clone(),
                    direction: word.to_owned(),
                    sent_bytes: stats.sent_bytes as f64,
                    lost: (stats.lost_packets + stats.dropped_packets + stats.cut_packets) as f64,
                    dropped: stats.dropped_packets as f64,
                    queue_ms_p95: stats.queue_delay.quantile(0.95).map_or(0.0, |time| time.as_secs_f64() * 1e3),
                    utilisation: stats.sent_bytes as f64 / (*capacity as f64).max(1.0),
                    queue_packets_mean: length(|l| l.mean),
                    queue_packets_p95: length(|l| l.p95),
                    queue_packets_max: length(|l| l.max),
                    packet_sizes: Vec::new(),
                });
            }
        }
        results
    }
}
