//! Runs one variant of a network once.

use super::explicit_rate;
use super::ground::Ground;
use super::overlay_daemons::{self, RunningOverlay};
use super::routes::own_address;
use super::timeline::LabTimeline;
use super::traffic::{self, FlowSetting, Sink};
use crate::options::RunOptions;
use crate::{LabError, interrupt, sampler};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_scenario::{NetworkScenario, NetworkVariant, Series, Traces, VariantRun};
use weft_units::Rng;

/// Time between the start of the flows' threads and the beginning of the run, so that all receivers are ready.
const LEAD: Duration = Duration::from_millis(700);
const FIRST_PORT: u16 = 5_201;
/// Interval between two points of a flow's goodput over time.
const STEP: Duration = Duration::from_secs(1);

/// The results of one run of a variant.
pub(super) struct Played {
    pub run: VariantRun,
    /// Goodput of each flow over time, in bit/s.
    pub series: Vec<Series>,
    /// True if the emulator delivered packets on time, so that the results of the run may be used.
    pub is_sound: bool,
}

/// Runs `variant` once. Calls `tick` repeatedly with the time since the run began.
pub(super) fn play(
    network: &NetworkScenario,
    variant: &NetworkVariant,
    traces: &Traces,
    seed: u64,
    options: &RunOptions,
    tick: &(dyn Fn(Duration) + Sync),
) -> Result<Played, LabError> {
    let ground = Ground::build(network, variant.routing.cost, traces, seed)?;
    let missing = || LabError::Missing("the program `weft` is missing: install it beside weft-lab or in PATH".into());
    let weft = || options.weft_binary.as_deref().ok_or_else(missing);
    let _congestion = explicit_rate::load(network, variant, &ground, weft)?;
    let overlay = match &variant.overlay {
        None => None,
        Some(used) => Some(overlay_daemons::start(network, variant, used, &ground, weft()?)?),
    };
    let sinks: Vec<Sink> = network.flows.iter().map(|_| Sink::default()).collect();
    let over = AtomicBool::new(false);
    let epoch = Instant::now() + LEAD;
    let places = places(network, variant, &ground, overlay.as_ref(), &sinks, &over, epoch, &Rng::new(seed))?;
    let timeline = LabTimeline::new(network, variant, &ground, &sinks);
    let emulator = ground.emulator();
    let (marked, links, series) = thread::scope(|scope| {
        let clock = scope.spawn(|| {
            interrupt::sleep_until(epoch)?;
            sampler::sample(&emulator, epoch, network.warmup..network.duration, &over, tick)
        });
        let recorder = scope.spawn(|| record(network, &sinks, epoch, &over));
        let flows: Vec<_> = places.iter().map(|place| scope.spawn(|| traffic::run(place))).collect();
        let marked = timeline.play(epoch);
        // The run is over. This ends the threads of all flows and measurements.
        over.store(true, Ordering::Relaxed);
        let flows = flows.into_iter().map(|flow| flow.join().unwrap_or(Err(LabError::Interrupted)));
        let failed = flows.filter_map(Result::err).next();
        let links = clock.join().unwrap_or(Err(LabError::Interrupted));
        let series = recorder.join().unwrap_or_default();
        match failed {
            Some(error) => Err(error),
            None => Ok((marked?, links?, series)),
        }
    })?;
    interrupt::check()?;
    let (marks, before) = marked;
    let counted = network.duration - network.warmup;
    let flows = network.flows.iter().zip(&sinks).enumerate();
    let flows: Vec<_> = flows
        .map(|(number, (flow, sink))| sink.result(flow, before.get(number).copied().unwrap_or(0), counted))
        .collect();
    let bulk = network.flows.iter().zip(&flows).filter(|(flow, _)| flow.traffic.is_tcp());
    let run = VariantRun {
        goodput_bps: bulk.filter_map(|(_, result)| result.goodput_bps).sum(),
        flows,
        links: links.results(network.links.iter().map(|link| link.name.as_str())),
        disturbances: marks.results(network),
        lateness_ms_p999: links.lateness_ms(),
        ..VariantRun::default()
    };
    Ok(Played { run, series, is_sound: links.is_sound() })
}

/// Returns the TCP or UDP port of the flow with this index.
pub(super) fn flow_port(number: usize) -> u16 {
    FIRST_PORT + number as u16
}

#[expect(clippy::too_many_arguments, reason = "each is a part of the run that every flow needs")]
fn places<'a>(
    network: &'a NetworkScenario,
    variant: &NetworkVariant,
    ground: &'a Ground,
    overlay: Option<&RunningOverlay>,
    sinks: &'a [Sink],
    over: &'a AtomicBool,
    epoch: Instant,
    rng: &Rng,
) -> Result<Vec<FlowSetting<'a>>, LabError> {
    let missing = || LabError::Scenario("a flow ends nowhere".into());
    let node = |number: usize| ground.nodes.get(number).ok_or_else(missing);
    let place = |(number, (flow, sink)): (usize, (&'a _, &'a _))| {
        let flow: &weft_scenario::NetworkFlow = flow;
        Ok(FlowSetting {
            flow,
            tcp: variant.tcp_of(flow),
            from: node(flow.from)?,
            to: node(flow.to)?,
            address: overlay.map_or_else(|| own_address(flow.to), |overlay| overlay.address(flow.to)),
            port: flow_port(number),
            epoch,
            rng: rng.split(number as u64),
            over,
            sink,
        })
    };
    network.flows.iter().zip(sinks).enumerate().map(place).collect()
}

/// Returns the goodput of each flow over time, from the bytes that it receives in each second.
fn record(network: &NetworkScenario, sinks: &[Sink], epoch: Instant, over: &AtomicBool) -> Vec<Series> {
    let empty =
        |flow: &weft_scenario::NetworkFlow| Series { name: flow.name.clone(), unit: "bit/s", points: Vec::new() };
    let mut series: Vec<Series> = network.flows.iter().map(empty).collect();
    let mut before: Vec<u64> = vec![0; sinks.len()];
    let mut due = epoch;
    while !over.load(Ordering::Relaxed) && due < epoch + network.duration {
        due += STEP;
        if interrupt::sleep_until(due).is_err() {
            break;
        }
        for ((series, sink), before) in series.iter_mut().zip(sinks).zip(&mut before) {
            let now = sink.bytes();
            series.points.push(((due - epoch).as_secs_f64(), now.saturating_sub(*before) as f64 * 8.0));
            *before = now;
        }
    }
    series
}
