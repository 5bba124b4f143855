//! Handling of signals.
//!
//! SIGTERM and SIGINT stop the node, and SIGHUP makes it read its configuration again.

use super::control::{Task, TaskSender};
use super::threads::{Pulse, Threads};
use nix::sys::signal::{SigSet, Signal};
use std::io;

/// Blocks the signals, so that they do not kill the process; must be called before any thread starts.
///
/// # Errors
/// Returns the error of the kernel.
pub fn block() -> io::Result<SigSet> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block()?;
    Ok(set)
}

/// Waits for a signal that ends the program.
///
/// # Errors
/// Returns the error of the kernel.
pub fn wait(set: &SigSet) -> io::Result<()> {
    while set.wait()? == Signal::SIGHUP {}
    Ok(())
}

/// Converts signals into tasks, on a thread of its own.
///
/// # Errors
/// Returns an error if no thread can be started.
pub fn forward(set: SigSet, tasks: TaskSender, threads: &Threads) -> io::Result<()> {
    let wait = move |pulse: &Pulse| {
        loop {
            let signal = pulse.resting(|| set.wait()).map_err(|why| why.to_string())?;
            let task = if signal == Signal::SIGHUP { Task::Reload } else { Task::Stop };
            // The wait may take long: the packet loop may be busy for as long as its watchdog allows.
            if pulse.resting(|| tasks.send(task)).is_err() {
                return Ok(());
            }
        }
    };
    threads.spawn("weft-signals", wait).map(drop)
}
