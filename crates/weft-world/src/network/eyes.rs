//! What a run leaves to look at: time series, captures, the story of a flow's TCP.

use super::build::{Built, BuiltFlow, build};
use super::events::Timeline;
use super::loops::{loops, snapshot};
use super::run::{NetworkRun, agent, delivered, run_watched};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use weft_scenario::{Network, NetworkVariant, Series, Traces};
use weft_sim::LinkId;
use weft_sim::host::{Agent, Told};
use weft_sim::record::{Capture, FlowSnapshot, LinkSnapshot, LoopSnapshot, Sampler, TcpTrace};
use weft_units::{Duration, Instant};

/// What to look at in a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Eyes {
    /// Time between two samples of the time series.
    pub interval: Duration,
    /// Links to capture from, both directions.
    pub captured: Vec<String>,
    /// The flow whose TCP is told.
    pub traced: Option<String>,
}

impl Default for Eyes {
    /// A sample every 100 ms, no capture, no trace.
    fn default() -> Eyes {
        Eyes { interval: Duration::from_millis(100), captured: Vec::new(), traced: None }
    }
}

/// Runs a variant and writes `STEM.csv`, and `STEM.pcapng` and `STEM.tcp.csv` where asked for, into `directory`. Gives the series,
/// thinned to what a picture can show.
///
/// # Errors
/// When the network cannot be built, a link or flow to look at is not there, or a file cannot be written.
pub fn run_with_eyes(
    network: &Network,
    variant: &NetworkVariant,
    seed: u64,
    traces: &Traces,
    eyes: &Eyes,
    directory: &Path,
    stem: &str,
) -> Result<(NetworkRun, Vec<Series>), String> {
    let mut built = build(network, variant, seed, traces)?;
    let file = |ending: &str| {
        let path = directory.join(format!("{stem}.{ending}"));
        File::create(&path).map(BufWriter::new).map_err(|error| format!("{}: {error}", path.display()))
    };
    let capture = match eyes.captured.is_empty() {
        true => None,
        false => Some(start_capture(file("pcapng")?, network, eyes, &mut built)?),
    };
    let traced = eyes.traced.as_ref().map(|name| start_story(network, name, &mut built)).transpose()?;
    let mut watcher = Watcher::new(file("csv")?, network, eyes).map_err(|error| error.to_string())?;
    let run = run_watched(network, &mut built, |timeline, built, end| watcher.run_until(network, timeline, built, end));
    if let Some(capture) = capture {
        capture.finish().map_err(|error| error.to_string())?;
    }
    if let Some(flow) = traced {
        write_story(file("tcp.csv")?, &built, &built.flows[flow]).map_err(|error| error.to_string())?;
    }
    let series = watcher.finish().map_err(|error| error.to_string())?;
    Ok((run, series))
}

fn start_capture<W: Write + Send + 'static>(
    out: W,
    network: &Network,
    eyes: &Eyes,
    built: &mut Built,
) -> Result<Capture<W>, String> {
    let mut links: Vec<(LinkId, String)> = Vec::new();
    for name in &eyes.captured {
        let number = network.links.iter().position(|link| link.name == *name);
        let number = number.ok_or_else(|| format!("there is no link `{name}` to capture from"))?;
        let pair = built.links[number];
        links.extend(pair.into_iter().zip(["up", "down"]).map(|(link, way)| (link, format!("{name}.{way}"))));
    }
    let links: Vec<(LinkId, &str)> = links.iter().map(|(link, name)| (*link, name.as_str())).collect();
    Capture::start(out, &mut built.simulator, &links).map_err(|error| error.to_string())
}

fn start_story(network: &Network, name: &str, built: &mut Built) -> Result<usize, String> {
    let number = network.flows.iter().position(|flow| flow.name == *name);
    let number = number.ok_or_else(|| format!("there is no flow `{name}` to trace"))?;
    let BuiltFlow { number: flow, from, .. } = built.flows[number];
    built.simulator.with_node(from, |station, _, _| match station.host_mut().agent_mut(flow) {
        Some(Agent::TcpSource(source)) => {
            source.keep_story();
            Ok(number)
        }
        _ => Err(format!("flow `{name}` does not go over TCP")),
    })
}

fn write_story<W: Write>(out: W, built: &Built, flow: &BuiltFlow) -> io::Result<()> {
    let mut trace = TcpTrace::new(out)?;
    if let Some(Agent::TcpSource(source)) = agent(&built.simulator, flow.from, flow.number) {
        for (at, told) in source.story() {
            match told {
                Told::State(state) => trace.observe(*at, *state)?,
                Told::Retransmission(seq) => trace.retransmission(*at, *seq)?,
            }
        }
    }
    trace.finish().map(drop)
}

/// Samples while the network runs.
struct Watcher<W> {
    sampler: Sampler<W>,
    interval: Duration,
    last: Instant,
    failed: io::Result<()>,
}

impl<W: Write> Watcher<W> {
    fn new(out: W, network: &Network, eyes: &Eyes) -> io::Result<Watcher<W>> {
        let both = |name: &String| [format!("{name}.up"), format!("{name}.down")];
        let links: Vec<String> = network.links.iter().flat_map(|link| both(&link.name)).collect();
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        let flows: Vec<&str> = network.flows.iter().map(|flow| flow.name.as_str()).collect();
        let loops = loops(network);
        let loops: Vec<&str> = loops.iter().map(|this| this.name.as_str()).collect();
        let sampler = Sampler::new(out, &links, &flows, &loops)?;
        Ok(Watcher { sampler, interval: eyes.interval, last: Instant::ZERO, failed: Ok(()) })
    }

    fn run_until(&mut self, network: &Network, timeline: &mut Timeline, built: &mut Built, end: Instant) {
        while self.last < end {
            let next = (self.last + self.interval).min(end);
            timeline.run_until(network, built, next);
            let sampled = self.sample(network, built, next);
            self.failed = std::mem::replace(&mut self.failed, Ok(())).and(sampled);
            self.last = next;
        }
    }

    fn sample(&mut self, network: &Network, built: &mut Built, now: Instant) -> io::Result<()> {
        let ids: Vec<LinkId> = built.links.iter().flatten().copied().collect();
        let links: Vec<LinkSnapshot> =
            ids.into_iter().map(|link| LinkSnapshot::of(built.simulator.link_mut(link), self.last, now)).collect();
        let of_flow = |(flow, spec)| FlowSnapshot {
            delivered_bytes: delivered(built, flow, spec),
            tcp: match agent(&built.simulator, flow.from, flow.number) {
                Some(Agent::TcpSource(source)) => Some(source.state()),
                _ => None,
            },
        };
        let flows: Vec<FlowSnapshot> = built.flows.iter().zip(&network.flows).map(of_flow).collect();
        let loops: Vec<LoopSnapshot> = built.loops.iter().map(|this| snapshot(&built.simulator, this)).collect();
        self.sampler.sample(now, &links, &flows, &loops)
    }

    fn finish(self) -> io::Result<Vec<Series>> {
        self.failed?;
        self.sampler.finish().map(|(_, series)| series)
    }
}
