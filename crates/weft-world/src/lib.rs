//! Runs scenarios in virtual time.
//!
//! A scenario runs either as a network of the simulator or with real engines over simulated links. `network`
//! runs whole networks, `pair` runs the lab's two-node scenarios, `overlay` and `swarm` test protocols with
//! random faults, and `reproduce` repeats the papers' experiments. A result depends on the scenario and the
//! seed only: never on a clock, the environment or the number of threads.
#![forbid(unsafe_code)]

mod diamond;
pub mod found_routes;
pub mod network;
mod observers;
pub mod overlay;
pub mod pair;
pub mod reproduce;
mod side_by_side;
pub mod site;
pub mod swarm;

pub use observers::Observers;
pub use side_by_side::side_by_side;

use weft_units::Duration;

/// Simulated time that a run needs before its scenario begins and after it ends.
const LEAD_AND_DRAIN: Duration = Duration::from_secs(60);

/// Returns an error if a scenario of this duration would last beyond the end of simulated time.
fn check_duration(duration: Duration) -> Result<(), String> {
    let longest = weft_sim::LONGEST - LEAD_AND_DRAIN;
    if duration <= longest {
        return Ok(());
    }
    let hours = |duration: Duration| duration.as_secs_f64() / 3600.0;
    Err(format!("the scenario lasts {:.1} hours; simulated time ends after {:.1}", hours(duration), hours(longest)))
}
