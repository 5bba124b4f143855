//! Whole networks of hosts, routers and edges, as in the papers' figures.
//!
//! `build` makes a simulator from a scenario, `run` runs it and collects the figures, and `campaign` runs all
//! variants. In variants with an overlay, some nodes run engines.

mod build;
mod campaign;
mod events;
mod eyes;
mod flows;
mod loops;
mod offered;
mod overlay;
mod run;
mod seat;
mod signalling;

pub use build::{Built, BuiltFlow, build, link_spec};
pub use campaign::run_all;
pub use eyes::run_with_eyes;
pub use flows::{header_bytes, receiver_config, sender_config};
pub(crate) use loops::service;
pub use loops::{BuiltLoop, LoopRun, NetworkSteering};
pub use run::{LinkQueue, NetworkRun, run, run_built};
pub use seat::{EngineGateway, NetworkSeat};
