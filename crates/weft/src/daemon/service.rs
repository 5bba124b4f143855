//! Notifications to the service manager (sd_notify(3)); without a service manager they have no effect.

use super::threads::Threads;
use nix::time::{ClockId, clock_gettime};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use std::{env, process};
use weft_units::Instant;

/// The service manager's watchdog.
///
/// Only the packet loop may notify it, and only while all threads are well.
pub struct Watchdog {
    interval: Option<Duration>,
    next: Instant,
}

impl Watchdog {
    /// Reads from the environment if the service manager wants notifications, and how often.
    pub fn new() -> Watchdog {
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        // A child inherits the variables of its parent.
        let is_ours = number("WATCHDOG_PID") == Some(process::id().into());
        let limit_us = number("WATCHDOG_USEC").filter(|_| is_ours);
        Watchdog { interval: limit_us.map(|us| Duration::from_micros(us / 4)), next: Instant::ZERO }
    }

    /// Returns the time of the next notification, if any is wanted.
    pub fn next(&self) -> Option<Instant> {
        self.interval.map(|_| self.next)
    }

    /// Notifies the watchdog if it is time and all threads are well.
    pub fn pet(&mut self, now: Instant, threads: &Threads) {
        if let Some(interval) = self.interval.filter(|_| now >= self.next) {
            self.next = now + interval;
            if threads.are_well() {
                notify("WATCHDOG=1\n");
            }
        }
    }
}

/// Reports that the node is ready, at its start or after a reload.
pub fn ready() {
    notify("READY=1\n");
}

/// Reports that the node reads its configuration again.
pub fn reloading() {
    if let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) {
        notify(&format!("RELOADING=1\nMONOTONIC_USEC={}\n", Duration::from(now).as_micros()));
    }
}

/// Reports that the node stops.
pub fn stopping() {
    notify("STOPPING=1\n");
}

fn notify(states: &str) {
    let Some(manager) = env::var_os("NOTIFY_SOCKET") else { return };
    // The node runs on if the service manager cannot be reached.
    let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to(states.as_bytes(), manager));
}
