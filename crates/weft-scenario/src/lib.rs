//! Defines the scenario files and the result format that the lab and the simulator share.
//!
//! A scenario is a TOML file. It names links, flows, timed events and the variants that one run compares. The directory
//! `scenarios/` has examples.
//! A [`Scenario`] joins two nodes, and both the lab and the simulator can run it. A [`NetworkScenario`] has routers, routes and
//! many hosts. The simulator runs every network. The lab runs a network if its kernel can act as all of the network's
//! nodes.
//! A run of either kind produces a [`RunResult`], whose format is schema 1. A [`Sweep`] describes how to draw many
//! scenarios, one for each seed.
//! This crate runs nothing itself: it reads, checks and describes.
#![forbid(unsafe_code)]

mod any;
pub mod channel;
mod disturbance;
pub mod draw;
mod error;
mod event;
mod file;
mod flow;
mod grid;
pub mod jitter;
mod link;
mod link_file;
mod load_traces;
pub mod measure;
mod network;
mod pattern;
mod quantity;
mod queue;
mod read;
mod result;
mod run_length;
mod scenario;
pub mod schedule;
mod series;
mod stats;
mod sweep;
pub mod trace;
mod variant;
mod vpn;

pub use any::AnyScenario;
pub use disturbance::{DisturbanceResult, GroupGoodput};
pub use error::ScenarioError;
pub use event::{Action, EventTarget, TimedEvent};
pub use flow::{App, Flow, FlowDirection};
pub use grid::Grid;
pub use link::{Capacity, DirectionSpec, Directions, Link, PACKET_BYTES, PAYLOAD_BYTES, QueueSize};
pub use load_traces::Traces;
pub use network::{
    AccumulationBy, CongestionControl, ControlLaw, CostMetric, DelayedAck, DupThresh, ExplicitPath, Forwarding,
    GrantLaw, HashKey, IngressChange, IngressSpec, LinkEnd, Markers, NetworkEdge, NetworkFlow, NetworkGrid,
    NetworkScenario, NetworkVariant, NetworkVpn, OverlayClient, OverlayNode, OverlaySchedule, OverlaySpec, OverlayUse,
    RouteSet, Routing, SignallingSpec, Steering, SubPath, TcpChange, TcpRecovery, TcpSpec, Traffic, TunnelSpec,
    Underlay, VpnService, WeightBy,
};
pub use queue::{Discipline, RandomEarly};
pub use result::{
    EventResult, EventSummary, FlowResult, HostResult, LinkResult, PacketSizeCount, PortResult, Prediction, RunResult,
    SCHEMA, Skipped, VariantResult, VariantRun, VpnResult,
};
pub use scenario::Scenario;
pub use series::{RunSeries, Series, write_csv};
pub use stats::{jain, median, percentile};
pub use sweep::{DrawnMix, Least, MixRanges, MixResult, MixSource, Sweep, SweepResult};
pub use variant::{OpenvpnProto, Variant, VariantKind, VariantTcp};
pub use vpn::{PairVpn, ShareChange, VpnEntry, VpnQueue, VpnShare};
