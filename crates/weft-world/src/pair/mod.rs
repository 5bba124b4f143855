//! Two nodes and the links between them: the lab's scenarios in virtual time.
//!
//! Both nodes run the same engine as the program. `run` runs every variant and repeat of a scenario, `world`
//! builds the two sites and their links, and `measure` runs one lane.

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
pub use sweep::{run_sweep, run_weft};
pub use world::{EngineSettings, TwoSiteWorld, VpnSettings};
