//! Runs one variant once: builds the world, runs flows and events, and collects the measurements.

use crate::LabError;
use crate::apps::probe::ProbeArrivals;
use crate::apps::{self, FlowEndpoints, FlowReport, FlowTimes};
use crate::events::{self, LabStage};
use crate::interrupt;
use crate::lane::LabLane;
use crate::options::RunOptions;
use crate::sampler::{self, LinksReport};
use crate::variants;
use crate::vpns::{self, DaemonReports};
use crate::world::LabPair;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_scenario::measure::{
    bound_bps, bulk_direction, host_fairness, host_results, newest_age_ms_p95, omniscient_ms_p95, vpn_fairness,
    vpn_results, vpn_series,
};
use weft_scenario::{App, Capacity, Flow, FlowDirection, FlowResult, Scenario, Series, Traces, Variant, VariantRun};
use weft_tcp_er::congestion::{self, Congestion};

/// Time for servers to start before the run begins.
const LEAD: Duration = Duration::from_millis(700);
const FIRST_PORT: u16 = 5_201;

/// The inputs that all runs share.
pub(crate) struct LabRunInputs<'a> {
    pub scenario: &'a Scenario,
    pub traces: &'a Traces,
    pub options: &'a RunOptions,
}

/// The measurements of one lane in one run.
pub(crate) struct LabLaneRun {
    /// The lane's name in the results.
    pub name: String,
    /// Position of the lane's link in the scenario's list of links, if the lane had only one.
    pub link: Option<usize>,
    pub run: VariantRun,
    pub series: Vec<Series>,
    /// True if the emulator delivered packets on time, so that the run may be reported.
    pub is_sound: bool,
}

impl LabRunInputs<'_> {
    /// Returns the direction of the bulk flows. The upper bound of the goodput is computed for this direction.
    pub fn direction(&self) -> FlowDirection {
        bulk_direction(self.scenario)
    }

    pub fn bound_bps(&self) -> f64 {
        bound_bps(self.scenario, self.direction(), self.traces)
    }

    /// True if a flow sends in the direction for which the upper bound of goodput is computed.
    fn is_bounded(&self, result: &FlowResult) -> bool {
        self.scenario.flows.iter().any(|flow| flow.name == result.name && flow.direction == self.direction())
    }

    /// Runs `variant` once.
    ///
    /// `best` is the position of the best single link in the scenario's list. The function calls `tick` with the time
    /// since the run began.
    pub fn run(
        &self,
        variant: &Variant,
        seed: u64,
        best: usize,
        tick: &(dyn Fn(Duration) + Sync),
    ) -> Result<Vec<LabLaneRun>, LabError> {
        let scenario = &self.scenario.under(variant);
        LabRunInputs { scenario, ..*self }.run_as_is(variant, seed, best, tick)
    }

    fn run_as_is(
        &self,
        variant: &Variant,
        seed: u64,
        best: usize,
        tick: &(dyn Fn(Duration) + Sync),
    ) -> Result<Vec<LabLaneRun>, LabError> {
        let _held = explicit_rate(self.scenario)?;
        let world = LabPair::build(self.scenario, self.traces, seed)?;
        let lanes = variants::open(variant, &world, self.options, best)?;
        let arrivals: Vec<BTreeMap<String, ProbeArrivals>> = lanes.iter().map(|_| self.probes()).collect();
        let schedule = FlowTimes { epoch: Instant::now() + LEAD, warmup: self.scenario.warmup };
        let over = AtomicBool::new(false);
        let stage = LabStage {
            scenario: self.scenario,
            described: &world.directions,
            links: &world.links,
            emulator: world.emulator(),
            weft: lanes.first().map_or(&[], |lane| &lane.weft),
            arrivals: arrivals.first().ok_or_else(|| LabError::Scenario("the variant uses no link".into()))?,
            epoch: schedule.epoch,
        };
        let emulator = world.emulator();
        let window = schedule.warmup..self.scenario.duration;
        let (reports, happened, links, entries) = thread::scope(|scope| {
            let clock = scope.spawn(|| {
                interrupt::sleep_until(schedule.epoch)?;
                // In all variants, traces and outages must begin at the same time of the run.
                emulator.restart()?;
                sampler::sample(&emulator, schedule.epoch, window.clone(), &over, tick)
            });
            let shown = scope.spawn(|| vpns::watch(self.scenario, &lanes, schedule.epoch, window.clone()));
            let director = scope.spawn(|| events::play(&stage));
            let reports = self.run_flows(&world, &lanes, &arrivals, schedule);
            let happened = director.join().unwrap_or(Err(LabError::Interrupted));
            over.store(true, Ordering::Relaxed);
            let links = clock.join().unwrap_or(Err(LabError::Interrupted));
            let entries = shown.join().unwrap_or(Err(LabError::Interrupted));
            Ok::<_, LabError>((reports?, happened?, links?, entries?))
        })?;
        // Ctrl-C also reaches the applications, and their last output would look like a result.
        interrupt::check()?;
        let judged = events::judge(&stage, &happened, &links.carried);
        let each = lanes.iter().zip(reports).zip(&arrivals).zip(&entries);
        let lane_runs = each.map(|(((lane, reports), arrivals), entries)| {
            let mut run = self.lane_run(lane, reports, arrivals, &links, &world);
            self.add_vpns(&mut run, entries);
            run.run.events = judged.clone();
            run
        });
        Ok(lane_runs.collect())
    }

    fn probes(&self) -> BTreeMap<String, ProbeArrivals> {
        let probes = self.scenario.flows.iter().filter(|flow| flow.app == App::Probe);
        probes.map(|flow| (flow.name.clone(), ProbeArrivals::default())).collect()
    }

    /// Runs every flow in every lane at the same time. Returns the reports of each lane.
    fn run_flows(
        &self,
        world: &LabPair,
        lanes: &[LabLane],
        arrivals: &[BTreeMap<String, ProbeArrivals>],
        schedule: FlowTimes,
    ) -> Result<Vec<Vec<FlowReport>>, LabError> {
        let nothing = ProbeArrivals::default();
        thread::scope(|scope| {
            let mut port = FIRST_PORT;
            let mut running = Vec::new();
            for (lane, arrivals) in lanes.iter().zip(arrivals) {
                let start = |flow| {
                    let place = FlowEndpoints { world, lane, flow, port, schedule };
                    let arrivals = arrivals.get(&flow.name).unwrap_or(&nothing);
                    port += 1;
                    scope.spawn(move || apps::run(&place, arrivals).or_else(|error| survive(&place, error)))
                };
                running.push(self.scenario.flows.iter().map(start).collect::<Vec<_>>());
            }
            let join = |flows: Vec<thread::ScopedJoinHandle<'_, _>>| {
                flows.into_iter().map(|f| f.join().unwrap_or(Err(LabError::Interrupted))).collect()
            };
            running.into_iter().map(join).collect()
        })
    }

    fn lane_run(
        &self,
        lane: &LabLane,
        reports: Vec<FlowReport>,
        arrivals: &BTreeMap<String, ProbeArrivals>,
        links: &LinksReport,
        world: &LabPair,
    ) -> LabLaneRun {
        let (mut flows, mut series) = (Vec::new(), Vec::new());
        for mut report in reports {
            if let Some(arrivals) = arrivals.get(&report.result.name) {
                report.result.beyond_omniscient_ms_p95 = self.beyond_omniscient(&report.result.name, arrivals);
            }
            flows.push(report.result);
            series.extend(report.series);
        }
        let own = |name: &str| lane.link.and_then(|l| world.links.get(l)).is_none_or(|link| link.name == name);
        let goodput_bps: f64 =
            flows.iter().filter(|flow| self.is_bounded(flow)).filter_map(|flow| flow.goodput_bps).sum();
        let names: Vec<&str> = world.links.iter().map(|link| link.name.as_str()).collect();
        let is_own_series = |s: &Series| s.name.rsplit_once('.').is_some_and(|(link, _)| own(link));
        series.extend(links.carried.series(&names).into_iter().filter(is_own_series));
        let hosts = host_results(self.scenario, &flows);
        let run = VariantRun {
            goodput_bps,
            efficiency: goodput_bps / self.bound_bps().max(1.0),
            setup_ms: lane.setup.map(|setup| setup.as_secs_f64() * 1e3),
            flows,
            links: links
                .results(world.links.iter().map(|link| link.name.as_str()))
                .into_iter()
                .filter(|link| own(&link.name))
                .collect(),
            host_fairness: host_fairness(&hosts),
            hosts,
            lateness_ms_p999: links.lateness_ms(),
            ..VariantRun::default()
        };
        LabLaneRun { name: lane.name.clone(), link: lane.link, run, series, is_sound: links.is_sound() }
    }

    /// Adds the results of the VPNs, computed from the results of their flows.
    fn add_vpns(&self, lane: &mut LabLaneRun, entries: &DaemonReports) {
        let name = |vpn: usize| self.scenario.vpns.get(vpn).map_or("", |vpn| vpn.name.as_str());
        let vpns = vpn_results(self.scenario, &lane.run.flows, |vpn, way| entries.end(name(vpn), way));
        lane.run.vpn_fairness = vpn_fairness(self.scenario, &vpns, self.direction());
        lane.run.vpns = vpns;
        lane.series.extend(vpn_series(self.scenario, &lane.series));
    }

    /// Returns how much older the newest received probe packet is than with an ideal sender, in ms.
    ///
    /// The age of the newest packet changes over time, and its 95th percentile is taken. The result is the difference
    /// between this percentile and that of an ideal sender, which knows the links' future capacity. Returns `None`
    /// unless a trace drives one of the links.
    fn beyond_omniscient(&self, flow: &str, arrivals: &ProbeArrivals) -> Option<f64> {
        let flow: &Flow = self.scenario.flows.iter().find(|f| f.name == flow)?;
        let is_trace = |link: &weft_scenario::Link| matches!(link.towards(flow.direction).capacity, Capacity::Trace(_));
        if !self.scenario.links.iter().any(is_trace) {
            return None;
        }
        let floor = omniscient_ms_p95(self.scenario, flow.direction, self.traces)?;
        Some(newest_age_ms_p95(&arrivals.all(), self.scenario.warmup, flow.stop)? - floor)
    }
}

/// Loads the explicit-rate congestion control into the kernel if a flow needs it.
///
/// The kernel keeps it until the returned value is dropped.
fn explicit_rate(scenario: &Scenario) -> Result<Option<Congestion>, LabError> {
    let wants = scenario.flows.iter().any(|flow| flow.congestion == congestion::NAME);
    let missing = |why| {
        LabError::Missing(format!(
            "cannot load the TCP congestion control {} into the kernel: {why}: run as root on Linux 6.0 or later",
            congestion::NAME
        ))
    };
    wants.then(Congestion::load).transpose().map_err(missing)
}

/// Turns an application's failure into a result with no goodput, so that the run continues.
fn survive(place: &FlowEndpoints, error: LabError) -> Result<FlowReport, LabError> {
    match error {
        LabError::Io(error) => {
            eprintln!(
                "flow `{}` in the experiment's lane `{}` failed, so it has no result: {error}",
                place.flow.name, place.lane.name
            );
            let is_tcp = place.flow.app.is_tcp();
            let result = FlowResult {
                name: place.flow.name.clone(),
                goodput_bps: (is_tcp || place.flow.app == App::Cbr).then_some(0.0),
                tcp_resets: is_tcp.then_some(1.0),
                ..FlowResult::default()
            };
            Ok(FlowReport { result, series: Vec::new() })
        }
        other => Err(other),
    }
}
