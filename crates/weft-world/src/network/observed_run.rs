//! Runs a network variant and records time series, captures and one flow's TCP sender.

use super::build::{Built, build};
use super::events::Timeline;
use super::loops::{loops, snapshot};
use super::run::{NetworkRun, agent, delivered, run_watched, settled};
use crate::observers::{Observers, file, keep_story, position, start_capture, write_story};
use std::io::{self, Write};
use std::path::Path;
use weft_scenario::{NetworkScenario, NetworkVariant, Series, Traces};
use weft_sim::LinkId;
use weft_sim::host::FlowAgent;
use weft_sim::record::{FlowSample, LinkSnapshot, LoopSnapshot, Sampler};
use weft_units::{Duration, Instant};

/// Runs a network variant and writes its time series to the file `STEM.csv` in `directory`.
///
/// Returns the result and the time series, thinned to the resolution of a picture. The function also writes the capture
/// `STEM.pcapng` and the story of a TCP sender, `STEM.tcp.csv`, if `observers` asks for them.
///
/// # Errors
/// Returns an error if the network cannot be built, if a file cannot be written, or if a link or flow to record does
/// not exist.
pub fn run_observed(
    network: &NetworkScenario,
    variant: &NetworkVariant,
    seed: u64,
    traces: &Traces,
    observers: &Observers,
    directory: &Path,
    stem: &str,
) -> Result<(NetworkRun, Vec<Series>), String> {
    let network = &*settled(network, variant);
    let mut built = build(network, variant, seed, traces)?;
    let file = |ending: &str| file(directory, stem, ending);
    let names: Vec<&str> = network.links.iter().map(|link| link.name.as_str()).collect();
    let capture = match observers.captured.is_empty() {
        true => None,
        false => Some(start_capture(file("pcapng")?, observers, &names, &built.links, &mut built.simulator)?),
    };
    let traced = observers.traced.as_ref().map(|name| start_story(network, name, &mut built)).transpose()?;
    let mut watcher = Watcher::new(file("csv")?, network, observers).map_err(|error| error.to_string())?;
    let run = run_watched(network, &mut built, |timeline, built, end| watcher.run_until(network, timeline, built, end));
    if let Some(capture) = capture {
        capture.finish().map_err(|error| error.to_string())?;
    }
    if let Some(flow) = traced {
        let (from, number) = (built.flows[flow].from, built.flows[flow].number);
        let host = built.simulator.nodes()[from.index()].host();
        write_story(file("tcp.csv")?, host, number).map_err(|error| error.to_string())?;
    }
    let series = watcher.finish().map_err(|error| error.to_string())?;
    Ok((run, series))
}

fn start_story(network: &NetworkScenario, name: &str, built: &mut Built) -> Result<usize, String> {
    let flow = position(network.flows.iter().map(|flow| flow.name.as_str()), name, "flow", "trace")?;
    let (from, number) = (built.flows[flow].from, built.flows[flow].number);
    match built.simulator.with_node(from, |station, _, _| keep_story(station.host_mut(), number)) {
        true => Ok(flow),
        false => Err(format!("flow `{name}` does not go over TCP")),
    }
}

/// Takes samples of links, flows and loops at a fixed interval while the network runs.
struct Watcher<W> {
    sampler: Sampler<W>,
    interval: Duration,
    last: Instant,
    failed: io::Result<()>,
}

impl<W: Write> Watcher<W> {
    fn new(out: W, network: &NetworkScenario, observers: &Observers) -> io::Result<Watcher<W>> {
        let both = |name: &String| [format!("{name}.up"), format!("{name}.down")];
        let links: Vec<String> = network.links.iter().flat_map(|link| both(&link.name)).collect();
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        let flows: Vec<&str> = network.flows.iter().map(|flow| flow.name.as_str()).collect();
        let loops = loops(network);
        let loops: Vec<&str> = loops.iter().map(|this| this.name.as_str()).collect();
        let sampler = Sampler::new(out, &links, &flows, &loops)?;
        Ok(Watcher { sampler, interval: observers.interval, last: Instant::ZERO, failed: Ok(()) })
    }

    fn run_until(&mut self, network: &NetworkScenario, timeline: &mut Timeline, built: &mut Built, end: Instant) {
        while self.last < end {
            let next = (self.last + self.interval).min(end);
            timeline.run_until(network, built, next);
            let sampled = self.sample(network, built, next);
            self.failed = std::mem::replace(&mut self.failed, Ok(())).and(sampled);
            self.last = next;
        }
    }

    fn sample(&mut self, network: &NetworkScenario, built: &mut Built, now: Instant) -> io::Result<()> {
        let ids: Vec<LinkId> = built.links.iter().flatten().copied().collect();
        let links: Vec<LinkSnapshot> =
            ids.into_iter().map(|link| LinkSnapshot::of(built.simulator.link_mut(link), self.last, now)).collect();
        let of_flow = |(flow, spec)| FlowSample {
            delivered_bytes: delivered(built, flow, spec),
            tcp: match agent(&built.simulator, flow.from, flow.number) {
                Some(FlowAgent::TcpSource(source)) => Some(source.state()),
                _ => None,
            },
        };
        let flows: Vec<FlowSample> = built.flows.iter().zip(&network.flows).map(of_flow).collect();
        let loops: Vec<LoopSnapshot> = built.loops.iter().map(|this| snapshot(&built.simulator, this)).collect();
        self.sampler.sample(now, &links, &flows, &loops)
    }

    fn finish(self) -> io::Result<Vec<Series>> {
        self.failed?;
        self.sampler.finish().map(|(_, series)| series)
    }
}
