//! Optional records of a run: packet captures of links, and a record of one flow's TCP sender over time.
//!
//! [`Observers`] lists the records to make. `pair` and `network` share the functions that start and write these
//! records.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use weft_sim::host::{FlowAgent, SenderRecord, SimHost};
use weft_sim::record::{Capture, TcpTrace};
use weft_sim::{FlowNo, LinkId, SimNode, Simulator};
use weft_units::Duration;

/// Selects the records of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Observers {
    /// Interval between two samples of a network's time series.
    pub interval: Duration,
    /// Names of the links whose packets are captured, in both directions.
    pub captured: Vec<String>,
    /// Name of the flow whose TCP sender is recorded. `None`: no flow's.
    pub traced: Option<String>,
}

impl Default for Observers {
    /// Returns a sample interval of 100 ms, no capture and no trace.
    fn default() -> Observers {
        Observers { interval: Duration::from_millis(100), captured: Vec::new(), traced: None }
    }
}

/// Returns the position of `wanted` in `names`, or an error if it is not among them.
///
/// `what` says what the names stand for, and `purpose` what one is needed for; both are words in the error message.
pub(crate) fn position<'a>(
    mut names: impl Iterator<Item = &'a str>,
    wanted: &str,
    what: &str,
    purpose: &str,
) -> Result<usize, String> {
    names.position(|name| name == wanted).ok_or_else(|| format!("there is no {what} `{wanted}` to {purpose}"))
}

/// Creates the file `STEM.ENDING` in a directory, and replaces an earlier one.
pub(crate) fn file(directory: &Path, stem: &str, ending: &str) -> Result<BufWriter<File>, String> {
    let path = directory.join(format!("{stem}.{ending}"));
    File::create(&path).map(BufWriter::new).map_err(|error| format!("{}: {error}", path.display()))
}

/// Starts a capture of both directions of the links that `observers` names.
///
/// `names` and `links` are the scenario's links, in the order of the scenario.
pub(crate) fn start_capture<N: SimNode, W: Write + Send + 'static>(
    out: W,
    observers: &Observers,
    names: &[&str],
    links: &[[LinkId; 2]],
    simulator: &mut Simulator<N>,
) -> Result<Capture<W>, String> {
    let mut watched: Vec<(LinkId, String)> = Vec::new();
    for name in &observers.captured {
        let pair = links[position(names.iter().copied(), name, "link", "capture from")?];
        watched.extend(pair.into_iter().zip(["up", "down"]).map(|(link, way)| (link, format!("{name}.{way}"))));
    }
    let watched: Vec<(LinkId, &str)> = watched.iter().map(|(link, name)| (*link, name.as_str())).collect();
    Capture::start(out, simulator, &watched).map_err(|error| error.to_string())
}

/// Makes a flow's TCP sender record its states from now on.
///
/// Returns false if `host` has no TCP sender of that flow.
pub(crate) fn keep_story(host: &mut SimHost, flow: FlowNo) -> bool {
    match host.agent_mut(flow) {
        Some(FlowAgent::TcpSource(source)) => {
            source.keep_story();
            true
        }
        _ => false,
    }
}

/// Writes the recorded states and retransmissions of a flow's TCP sender as CSV.
pub(crate) fn write_story<W: Write>(out: W, host: &SimHost, flow: FlowNo) -> io::Result<()> {
    let mut trace = TcpTrace::new(out)?;
    if let Some(FlowAgent::TcpSource(source)) = host.agent(flow) {
        for (at, told) in source.story() {
            match told {
                SenderRecord::State(state) => trace.observe(*at, *state)?,
                SenderRecord::Retransmission(seq) => trace.retransmission(*at, *seq)?,
            }
        }
    }
    trace.finish().map(drop)
}
