//! `weft tcp-er`: keeps the congestion control loaded without a node.

use crate::config::TcpEr;
use crate::daemon::services::tcp_er::RateKeeper;
use crate::daemon::threads::Threads;
use crate::daemon::{self, Level, Log};
use crate::outcome::{Failure, Outcome};
use weft_tcp_er::congestion::{Available, NAME};

/// Keeps the congestion control `weft_er` loaded until a signal ends the process.
pub fn hold(grants: &[String]) -> Result<Outcome, Failure> {
    let wanted = TcpEr::from_arguments(grants).map_err(Failure::new)?;
    let failed = |why: std::io::Error| {
        Failure::new(format!(
            "cannot keep the TCP congestion control {NAME} loaded: {why}: check the limits of threads and memory"
        ))
    };
    let signals = daemon::block_signals().map_err(failed)?;
    // A failed thread ends the process, so no failure handler is needed here.
    let threads = Threads::start(Log::new(Level::Error), || ()).map_err(failed)?;
    let keeper = RateKeeper::start(wanted, &threads).map_err(failed)?;
    let choice = keeper.choice();
    if choice.available != Available::ExplicitRate {
        return Err(Failure::new(choice.because));
    }
    println!("{NAME} is loaded until this program ends");
    daemon::wait_for_signal(&signals).map_err(failed)?;
    Ok(Outcome::Well)
}
