//! Two nodes and the links between them: the lab's scenarios in virtual time, with the same engine.

mod apps;
mod events;
mod lane;
mod measure;
mod run;
mod sweep;
mod vpns;
mod watch;
mod world;

pub use run::{PairOptions, PairRun, run};
pub use sweep::run_sweep;
pub use world::{EngineSettings, VpnSettings, World};
