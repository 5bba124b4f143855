//! Flows: the applications of a scenario.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use weft_units::Rate;

/// The application that makes a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum App {
    /// One bulk TCP connection.
    Iperf3,
    /// HTTP transfers of `size`, one after another (curl).
    Http,
    /// TCP transfers of `size`, each a connection of its own, from connect to last byte.
    Transfer,
    /// ICMP echo: a sparse flow's round-trip time.
    Ping,
    /// A small UDP datagram every `interval` (1 ms): gaps and one-way delays.
    Probe,
    /// UDP datagrams of one size at a constant rate, whatever becomes of them.
    Cbr,
}

impl App {
    /// The word used in files, and the flow's name where none is given.
    pub fn word(self) -> &'static str {
        match self {
            App::Iperf3 => "iperf3",
            App::Http => "http",
            App::Transfer => "transfer",
            App::Ping => "ping",
            App::Probe => "probe",
            App::Cbr => "cbr",
        }
    }
}

impl App {
    /// Whether it is made of TCP connections.
    pub fn is_tcp(self) -> bool {
        matches!(self, App::Iperf3 | App::Http | App::Transfer)
    }
}

/// Which way a flow's data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowDirection {
    /// From the first node (home) to the second (hub).
    Up,
    /// From the second node to the first.
    Down,
}

/// One application of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Its name in the results.
    pub name: String,
    /// The application.
    pub app: App,
    /// The position of its VPN; none for the default one.
    pub vpn: Option<usize>,
    /// Which way the data goes.
    pub direction: FlowDirection,
    /// TCP congestion control, by the kernel's name.
    pub congestion: String,
    /// The explicit rate of its connection, as `SO_MAX_PACING_RATE` gives it; none: without.
    pub pacing: Option<Rate>,
    /// The receiving socket's buffer in bytes; none: as the kernel has it.
    pub receive_buffer_bytes: Option<u64>,
    /// When it starts, from the beginning of the run.
    pub start: Duration,
    /// When it stops, from the beginning of the run.
    pub stop: Duration,
    /// Time between two packets of `ping`, `probe` and `cbr`.
    pub interval: Duration,
    /// IP bytes of a packet of `cbr`.
    pub packet_bytes: u32,
    /// Bytes in one transfer of `http` and `transfer`.
    pub size_bytes: u64,
}

/// IP bytes of a packet of `cbr` that does not say.
pub(crate) const CBR_PACKET_BYTES: u32 = 1_200;

impl Flow {
    /// A flow from the beginning of a run of this length to its end, up, in the default VPN, with nothing set.
    pub fn plain(name: impl Into<String>, app: App, length: Duration) -> Flow {
        Flow {
            name: name.into(),
            app,
            vpn: None,
            direction: FlowDirection::Up,
            congestion: "cubic".into(),
            pacing: None,
            receive_buffer_bytes: None,
            start: Duration::ZERO,
            stop: length,
            interval: match app {
                App::Probe => Duration::from_millis(1),
                App::Ping | App::Iperf3 | App::Http | App::Transfer | App::Cbr => Duration::from_millis(100),
            },
            packet_bytes: CBR_PACKET_BYTES,
            size_bytes: 10_000_000,
        }
    }
}
