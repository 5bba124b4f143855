//! Defines the flows of a scenario with two nodes. Each flow is one application with its settings.

use crate::error::{Checked, Source};
use crate::file::FlowFile;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use weft_units::Rate;

/// The application that produces a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum App {
    /// One TCP connection that sends as much as it can until the flow stops (iperf3).
    Iperf3,
    /// Successive HTTP transfers of `size` bytes (curl).
    Http,
    /// TCP transfers of `size` bytes, each on its own connection, timed from connect to last byte.
    Transfer,
    /// Short TCP connections that begin at random times (Poisson) and have geometrically distributed lengths.
    ShortFlows,
    /// ICMP echo, which measures the round-trip time of a sparse flow.
    Ping,
    /// One small UDP datagram every `interval` (default 1 ms), which measures gaps and one-way delays.
    Probe,
    /// UDP datagrams of one size at a constant rate, without reaction to loss.
    Cbr,
}

impl App {
    /// Returns the application's keyword in files. It is also the name of a flow without its own name.
    pub fn word(self) -> &'static str {
        match self {
            App::Iperf3 => "iperf3",
            App::Http => "http",
            App::Transfer => "transfer",
            App::ShortFlows => "short-flows",
            App::Ping => "ping",
            App::Probe => "probe",
            App::Cbr => "cbr",
        }
    }
}

impl App {
    /// True if the application uses TCP connections.
    pub fn is_tcp(self) -> bool {
        matches!(self, App::Iperf3 | App::Http | App::Transfer | App::ShortFlows)
    }
}

/// The direction in which a flow sends its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowDirection {
    /// From the first node (home by default) to the second (hub by default).
    Up,
    /// From the second node to the first.
    Down,
}

/// One application of a scenario with two nodes, and its settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Name of the flow in the results.
    pub name: String,
    /// The application that produces the flow.
    pub app: App,
    /// Index of the flow's VPN in the scenario's list of VPNs, or `None` for the default VPN.
    pub vpn: Option<usize>,
    /// Index of the host behind the first node that begins the flow, or `None` for the node itself.
    ///
    /// It is a position in the scenario's list of hosts, from 0.
    pub host: Option<usize>,
    /// Direction in which the flow sends its data.
    pub direction: FlowDirection,
    /// Name of the TCP congestion control in the kernel.
    pub congestion: String,
    /// Rate at which the kernel paces the connection (`SO_MAX_PACING_RATE`); `None`: no such limit.
    pub pacing: Option<Rate>,
    /// Size of the receiving socket's buffer in bytes; `None`: the kernel's default.
    pub receive_buffer_bytes: Option<u64>,
    /// Start time of the flow, since the start of the run.
    pub start: Duration,
    /// Stop time of the flow, since the start of the run.
    pub stop: Duration,
    /// Interval between two packets of `ping`, `probe` and `cbr`. Mean interval between two connections of `short-flows`.
    pub interval: Duration,
    /// Size of a `cbr` packet in IP bytes.
    pub packet_bytes: u32,
    /// Size of one transfer of `http` and `transfer`, in bytes.
    pub size_bytes: u64,
    /// Mean length of a `short-flows` connection, in full segments.
    pub mean_packets: u32,
}

/// Default size of a `cbr` packet in IP bytes.
pub(crate) const CBR_PACKET_BYTES: u32 = 1_200;
/// Default mean length of a connection of `short-flows`, in full segments.
///
/// Standard: paper 001, section III.
const MEAN_PACKETS: u32 = 14;
/// Maximum number of hosts behind the first node.
///
/// Derived: the lab numbers the hosts in the last byte of their addresses, from 10.
const HOSTS_MAX: usize = 200;

impl Flow {
    /// Returns a flow with default settings that lasts for the whole run of `length`.
    ///
    /// It sends in the up direction in the default VPN.
    pub fn plain(name: impl Into<String>, app: App, length: Duration) -> Flow {
        Flow {
            name: name.into(),
            app,
            vpn: None,
            host: None,
            direction: FlowDirection::Up,
            congestion: "cubic".into(),
            pacing: None,
            receive_buffer_bytes: None,
            start: Duration::ZERO,
            stop: length,
            interval: match app {
                App::Probe => Duration::from_millis(1),
                App::Ping | App::Iperf3 | App::Http | App::Transfer | App::ShortFlows | App::Cbr => {
                    Duration::from_millis(100)
                }
            },
            packet_bytes: CBR_PACKET_BYTES,
            size_bytes: 10_000_000,
            mean_packets: MEAN_PACKETS,
        }
    }
}

/// Returns the index in `hosts` of the host that begins a flow, and appends the host if it is new.
pub(crate) fn host_of(source: &Source<'_>, file: &FlowFile, hosts: &mut Vec<String>) -> Checked<Option<usize>> {
    let Some(name) = &file.host else { return Ok(None) };
    if file.vpn.is_some() {
        return Err(source.at(name, "hosts are in no VPN: remove `host` or `vpn` of this flow"));
    }
    if file.direction == Some(FlowDirection::Down) {
        return Err(
            source.at(name, "hosts are behind the first node, so their flows go up: remove `host` or `direction`")
        );
    }
    if name.get_ref().is_empty() {
        return Err(source.at(name, "the host has no name: write one, such as \"laptop\""));
    }
    let known = hosts.iter().position(|known| known == name.get_ref());
    if known.is_none() && hosts.len() == HOSTS_MAX {
        let why = format!(
            "a scenario can have at most {HOSTS_MAX} hosts, because the lab has no more addresses: remove some"
        );
        return Err(source.at(name, why));
    }
    Ok(Some(known.unwrap_or_else(|| {
        hosts.push(name.get_ref().clone());
        hosts.len() - 1
    })))
}

/// Returns the mean length of a flow's connections, in full segments.
pub(crate) fn mean_packets(source: &Source<'_>, file: &FlowFile) -> Checked<u32> {
    let app = *file.app.get_ref();
    match &file.mean_packets {
        None => Ok(MEAN_PACKETS),
        Some(mean) if app != App::ShortFlows => Err(source.at(
            mean,
            format!("`mean-packets` works only with app = \"short-flows\", not with `{}`: remove it", app.word()),
        )),
        Some(mean) if *mean.get_ref() < 2 => Err(source.at(mean, "`mean-packets` must be at least 2")),
        Some(mean) => Ok(*mean.get_ref()),
    }
}
