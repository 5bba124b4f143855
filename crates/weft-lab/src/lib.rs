//! The lab: it runs the real program in network namespaces and compares it with other tunnels.
//!
//! A link emulator joins the namespaces, and real applications make the traffic. [`run`] plays a
//! [`weft_scenario::Scenario`], [`sweep`] plays many of them, and [`run_network`] plays a
//! [`weft_scenario::NetworkScenario`]. [`tunnel_bench`] measures the tunnel's speed where the link is not the limit.
//! [`failover`] measures how long traffic stops when a link fails silently, and compares it with OSPF.

pub mod emulator;
pub mod net;

mod apps;
mod error;
mod events;
mod failover;
mod frr;
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
pub use failover::{CutResult, CutSeries, Failover, FailoverOptions, failover, failover_csv, failover_table};
pub use network::{NetworkRuns, run_network};
pub use options::RunOptions;
pub use run::run;
pub use sweep::sweep;
pub use tunnel_bench::{
    BenchMachine, BenchRow, Competitor, Condition, Over, RelayBench, TunnelBench, TunnelBenchOptions, Turn,
    relay_bench, relay_bench_table, tunnel_bench, tunnel_bench_table,
};
