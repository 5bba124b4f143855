//! The lab: network namespaces, a link emulator, real applications; it starts the real program and compares it with others.
//!
//! [`run`] plays a [`weft_scenario::Scenario`], [`sweep`] many of them, [`run_network`] a [`weft_scenario::Network`].
//! [`tunnel_bench`] measures how fast the tunnel is where the link is not the limit, [`failover`] how long traffic stops when a link
//! falls silent, beside OSPF.

pub mod emulator;
pub mod net;

mod apps;
mod error;
mod events;
mod failover;
mod interrupt;
mod lane;
mod measure;
mod network;
mod options;
mod progress;
mod run;
mod sampler;
mod scratch;
mod sweep;
mod tunnel_bench;
mod variants;
mod vpns;
mod world;

pub use error::LabError;
pub use failover::{Cut, CutSeries, Failover, FailoverOptions, failover, failover_csv, failover_table};
pub use network::{NetworkRuns, run_network};
pub use options::RunOptions;
pub use run::run;
pub use sweep::sweep;
pub use tunnel_bench::{
    Competitor, Condition, Machine, Over, RelayBench, Row, TunnelBench, TunnelBenchOptions, Turn, relay_bench,
    relay_bench_table, tunnel_bench, tunnel_bench_table,
};
