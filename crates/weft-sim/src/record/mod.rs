//! Records a simulation: packet captures, time series, and the states of a TCP connection.
//!
//! The same input gives the same bytes. Recording never changes the simulation.

mod address;
mod capture;
pub mod ip_packet;
mod pcapng;
mod series;
mod tcp_trace;

pub(crate) use address::endpoints_of;
pub use address::{FIRST_PORT, address_of, endpoints, node_at};
pub use capture::Capture;
pub use pcapng::SimulatedCapture;
pub use series::{FlowSample, LinkSnapshot, LoopSnapshot, Sampler};
pub use tcp_trace::{TcpState, TcpTrace};
