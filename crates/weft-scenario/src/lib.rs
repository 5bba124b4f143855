//! One scenario file and one result format, for the lab and for the simulator.
//!
//! A scenario (TOML) names links, flows, timed events and the variants to compare in one run; see `scenarios/` for examples.
//! A [`Scenario`] joins two nodes, for both worlds; a [`Network`] has routers, routes and many hosts, for the simulator, and for the lab if
//! its kernel can be all of them.
//! A [`RunResult`] is what either world makes of it, schema 1. A [`Sweep`] is a recipe for many scenarios, one for each seed.
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
pub mod measure;
mod network;
mod quantity;
mod read;
mod result;
mod run_length;
mod scenario;
mod series;
mod stats;
mod sweep;
pub mod trace;
mod traces;
mod variant;
mod vpn;

pub use any::AnyScenario;
pub use disturbance::{DisturbanceResult, GroupGoodput};
pub use error::{ScenarioError, nearest};
pub use event::{Action, Event, EventLink};
pub use flow::{App, Flow, FlowDirection};
pub use grid::Grid;
pub use link::{Capacity, DirectionSpec, Directions, Link, PACKET_BYTES, PAYLOAD_BYTES, QueueSize};
pub use network::{
    CongestionControl, CostMetric, DelayedAck, Discipline, DupThresh, ExplicitPath, Forwarding, GrantLaw, HashKey,
    IngressChange, IngressSpec, LinkDirection, LinkEnd, LoopLaw, Markers, Network, NetworkEdge, NetworkEvent,
    NetworkFlow, NetworkLink, NetworkVariant, NetworkVpn, Overlay, OverlayNode, OverlaySchedule, OverlayUse,
    RandomEarly, Recovery, Routes, Routing, SignallingSpec, Steering, SubPath, Target, TcpChange, TcpSpec, Traffic,
    Tunnel, Underlay, VpnService, WeightBy,
};
pub use result::{
    EventResult, EventSummary, FlowResult, LinkResult, Prediction, RunResult, SCHEMA, Skipped, VariantResult,
    VariantRun, VpnResult,
};
pub use scenario::Scenario;
pub use series::{RunSeries, Series, write_csv};
pub use stats::{median, percentile};
pub use sweep::{DrawnMix, Least, MixRanges, MixResult, MixSource, Sweep, SweepResult};
pub use traces::Traces;
pub use variant::{Kind, OpenvpnProto, TcpOptions, Variant};
pub use vpn::{ShareChange, Vpn, VpnEntry, VpnQueue, VpnShare};
