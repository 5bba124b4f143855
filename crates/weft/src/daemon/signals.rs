//! SIGTERM and SIGINT stop the node, SIGHUP makes it read its configuration again.

use super::control::{Sender, Task};
use super::threads::{Pulse, Threads};
use nix::sys::signal::{SigSet, Signal};
use std::io;

/// Keeps the signals from killing the process; to be called before any thread starts.
///
/// # Errors
/// When the kernel refuses.
pub fn block() -> io::Result<SigSet> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block()?;
    Ok(set)
}

/// Waits for one that ends the program.
///
/// # Errors
/// When the kernel refuses.
pub fn wait(set: &SigSet) -> io::Result<()> {
    while set.wait()? == Signal::SIGHUP {}
    Ok(())
}

/// Turns signals into tasks, on a thread of its own.
///
/// # Errors
/// When no thread can be made.
pub fn forward(set: SigSet, tasks: Sender, threads: &Threads) -> io::Result<()> {
    let wait = move |pulse: &Pulse| {
        loop {
            let signal = pulse.resting(|| set.wait()).map_err(|why| why.to_string())?;
            let task = if signal == Signal::SIGHUP { Task::Reload } else { Task::Stop };
            // The packet loop may be busy for as long as its own heart allows.
            if pulse.resting(|| tasks.send(task)).is_err() {
                return Ok(());
            }
        }
    };
    threads.spawn("weft-signals", wait).map(drop)
}
