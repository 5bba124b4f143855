//! Whole networks of hosts, routers and edges, as in the papers' figures.
//!
//! `build` makes a simulator from a scenario, `run` runs it and collects the figures, and `campaign` runs all
//! variants. In variants with an overlay, some nodes run engines.

mod build;
mod campaign;
mod events;
mod flows;
mod loops;
mod node;
mod observed_run;
mod offered;
mod overlay;
mod proxy_rates;
mod run;
mod signalling;

pub use build::{Built, BuiltFlow, build};
pub use campaign::run_all;
pub use flows::{header_bytes, receiver_config, sender_config};
pub(crate) use loops::service;
pub use loops::{BuiltLoop, LoopRun, NetworkSteering};
pub use node::{EngineGateway, NetworkNode};
pub use observed_run::run_observed;
pub use run::{LinkQueue, NetworkRun, run, run_built};
