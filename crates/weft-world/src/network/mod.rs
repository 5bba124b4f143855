//! Whole networks of hosts and routers, without weft: what the papers' figures are made of.

mod build;
mod campaign;
mod events;
mod eyes;
mod flows;
mod run;

pub use build::{Built, BuiltFlow, build, link_spec};
pub use campaign::run_all;
pub use eyes::run_with_eyes;
pub use flows::{header_bytes, receiver_config, sender_config};
pub use run::{NetworkRun, run, run_built};
