//! Plans: the measured links to a peer as scenarios, and the simulator's answers to questions about them.
//!
//! `measured` chooses a path for each link and takes its figures from the node's status. `question` changes the
//! links. `scenario` writes the links as a file for `weft-lab sim`, and `answer` reads the result. All are pure
//! functions. The command `commands::plan` asks the node and runs the simulator.

mod answer;
mod evidence;
mod measured;
mod question;
mod scenario;
#[cfg(test)]
mod tests;

pub use answer::PlanAnswer;
pub use measured::{Measurements, PlanLink, PlanLinks};
pub use question::PlanQuestion;
pub use scenario::{Occasion, Pace, scenario};
