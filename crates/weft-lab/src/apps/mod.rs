//! Real applications and their measurements.
//!
//! Each flow of a scenario runs one application. The applications run in the nodes' namespaces, and return
//! their figures and time series.

mod http;
mod iperf3;
mod ping;
pub(crate) mod probe;
mod transfer;

pub(crate) use transfer::{set_congestion, set_pacing, set_receive_buffer};

use crate::LabError;
use crate::lane::LabLane;
use crate::net::NetNamespace;
use crate::world::LabPair;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};
use weft_scenario::{App, Flow, FlowResult, Series};

/// Time after the flow's stop within which an application must end.
const GRACE: Duration = Duration::from_secs(15);

/// Reason for which the lab refuses an application that only the simulator has.
pub(crate) const NO_SHORT_FLOWS: &str =
    "the lab has no application `short-flows`: run the scenario with `weft-lab sim`";

/// The times of a run that all flows share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowTimes {
    /// The beginning of the run.
    pub epoch: Instant,
    /// Length of the warm-up at the beginning of the run. The results exclude it.
    pub warmup: Duration,
}

/// The nodes and addresses of a flow.
pub(crate) struct FlowEndpoints<'a> {
    pub world: &'a LabPair,
    pub lane: &'a LabLane,
    pub flow: &'a Flow,
    /// The flow's own TCP or UDP port.
    pub port: u16,
    pub schedule: FlowTimes,
}

impl FlowEndpoints<'_> {
    /// Returns the first node's address for the flow.
    fn home(&self) -> Ipv4Addr {
        let [home, _] = self.lane.addresses(self.flow);
        home
    }

    /// Returns the second node's address for the flow.
    fn hub(&self) -> Ipv4Addr {
        let [_, hub] = self.lane.addresses(self.flow);
        hub
    }

    /// Returns the address of the host that begins the flow. `None` if any address of the first node may be used.
    fn host(&self) -> Option<Ipv4Addr> {
        self.lane.host_of(self.flow)
    }

    /// Returns the part of the warm-up that is after the flow's start.
    fn own_warmup(&self) -> Duration {
        self.schedule.warmup.saturating_sub(self.flow.start)
    }

    fn length(&self) -> Duration {
        self.flow.stop - self.flow.start
    }

    fn starts_at(&self) -> Instant {
        self.schedule.epoch + self.flow.start
    }

    fn stops_at(&self) -> Instant {
        self.schedule.epoch + self.flow.stop
    }
}

/// The measurements of a flow's application.
#[derive(Debug, Default)]
pub(crate) struct FlowReport {
    pub result: FlowResult,
    /// Payload of each interval, or delay of each packet, for the time series.
    pub series: Vec<Series>,
}

/// Runs the flow's application from the flow's start to its stop.
pub(crate) fn run(place: &FlowEndpoints, arrivals: &probe::ProbeArrivals) -> Result<FlowReport, LabError> {
    match place.flow.app {
        App::Iperf3 | App::Cbr => iperf3::run(place),
        App::Http => http::run(place),
        App::Transfer => transfer::run(place),
        App::ShortFlows => {
            Err(LabError::Scenario(format!("flow `{}` cannot run in the lab: {NO_SHORT_FLOWS}", place.flow.name)))
        }
        App::Ping => ping::run(place),
        App::Probe => probe::run(place, arrivals),
    }
}

/// True if `program` is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([Path::new("/usr/sbin").into(), Path::new("/sbin").into()])
        .any(|d| d.join(program).is_file())
}

/// Returns an error that names the Debian package if `program` is not installed.
pub(crate) fn need(program: &str, package: &str) -> Result<(), LabError> {
    if is_installed(program) {
        Ok(())
    } else {
        Err(LabError::Missing(format!("the program {program} is not installed: install the Debian package {package}")))
    }
}

/// Returns the error for a program that failed, with the text that it printed.
pub(crate) fn failed(program: &str, said: &[u8]) -> LabError {
    let said = String::from_utf8_lossy(said);
    LabError::Io(std::io::Error::other(format!("the program `{program}` failed with this output: {}", said.trim())))
}

/// Waits until a TCP server listens on `port` of `node`.
fn wait_listening(node: &NetNamespace, port: u16, timeout: Duration) -> Result<(), LabError> {
    let deadline = Instant::now() + timeout;
    let needle = format!(":{port:04X} ");
    let listens = || {
        let lists = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"]
            .map(|path| fs::read_to_string(path).unwrap_or_default());
        lists.iter().flat_map(|list| list.lines()).any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let local = columns.next().is_some_and(|local| format!("{local} ").ends_with(&needle));
            local && columns.nth(1) == Some("0A")
        })
    };
    while !node.run(listens)? {
        if Instant::now() > deadline {
            return Err(LabError::Io(std::io::Error::other(format!(
                "the flow's server on node {node} does not listen on TCP port {port} {timeout:?} after its start: try \
                 again when the machine is less busy"
            ))));
        }
        crate::interrupt::sleep_until(Instant::now() + Duration::from_millis(20))?;
    }
    Ok(())
}
