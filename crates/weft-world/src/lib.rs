//! Scenarios in virtual time: the simulator's networks, and the engine's nodes over simulated links.
#![forbid(unsafe_code)]

mod diamond;
mod eyes;
pub mod network;
pub mod overlay;
pub mod pair;
pub mod reproduce;
mod side_by_side;
pub mod site;
pub mod swarm;

pub use eyes::Eyes;
pub use side_by_side::side_by_side;

use weft_units::Duration;

/// Room for what a run does before its time begins, and after it has ended.
const LEAD_AND_DRAIN: Duration = Duration::from_secs(60);

/// Whether a scenario of this duration ends before the simulator's time does.
fn check_duration(duration: Duration) -> Result<(), String> {
    let longest = weft_sim::LONGEST - LEAD_AND_DRAIN;
    if duration <= longest {
        return Ok(());
    }
    let hours = |duration: Duration| duration.as_secs_f64() / 3600.0;
    Err(format!("the scenario lasts {:.1} hours; simulated time ends after {:.1}", hours(duration), hours(longest)))
}
