//! Notifications to the service manager (sd_notify(3)); without a service manager they have no effect.

use super::threads::Threads;
use sd_notify::NotifyState;
use std::time::Duration;
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
        let mut limit_us = 0;
        let is_wanted = sd_notify::watchdog_enabled(false, &mut limit_us);
        Watchdog { interval: is_wanted.then(|| Duration::from_micros(limit_us / 4)), next: Instant::ZERO }
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
                notify(&[NotifyState::Watchdog]);
            }
        }
    }
}

/// Reports that the node is ready, at its start or after a reload.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Reports that the node reads its configuration again.
pub fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        notify(&[NotifyState::Reloading, now]);
    }
}

/// Reports that the node stops.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState]) {
    // The node runs on if the service manager cannot be reached.
    let _ = sd_notify::notify(false, states);
}
