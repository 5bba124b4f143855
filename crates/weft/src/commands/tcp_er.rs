//! `weft tcp-er`.

use crate::config::TcpEr;
use crate::daemon::tcp_er::Keeper;
use crate::daemon::threads::Threads;
use crate::daemon::{self, Level, Log};
use crate::outcome::{Failure, Outcome};
use weft_tcp_er::congestion::{Available, NAME};

/// Holds the congestion control until a signal.
pub fn hold(grants: &[String]) -> Result<Outcome, Failure> {
    let wanted = TcpEr::from_arguments(grants).map_err(Failure::new)?;
    let failed = |why: std::io::Error| Failure::new(why.to_string());
    let signals = daemon::block_signals().map_err(failed)?;
    // What goes wrong there ends the process by itself.
    let threads = Threads::start(Log::new(Level::Error), || ()).map_err(failed)?;
    let keeper = Keeper::start(wanted, &threads).map_err(failed)?;
    let choice = keeper.choice();
    if choice.available != Available::ExplicitRate {
        return Err(Failure::new(choice.because));
    }
    println!("{NAME} is there, until this ends");
    daemon::wait_for_signal(&signals).map_err(failed)?;
    Ok(Outcome::Well)
}
