//! What the service manager is told (sd_notify(3)); nothing where there is none.

use super::threads::Threads;
use sd_notify::NotifyState;
use std::time::Duration;
use weft_units::Instant;

/// The service manager's watchdog. Only the packet loop may pet it, and only while all threads are well.
pub struct Watchdog {
    interval: Option<Duration>,
    next: Instant,
}

impl Watchdog {
    /// As the service manager wants it.
    pub fn new() -> Watchdog {
        let mut limit_us = 0;
        let is_wanted = sd_notify::watchdog_enabled(false, &mut limit_us);
        Watchdog { interval: is_wanted.then(|| Duration::from_micros(limit_us / 4)), next: Instant::ZERO }
    }

    /// When it wants to be petted, if at all.
    pub fn next(&self) -> Option<Instant> {
        self.interval.map(|_| self.next)
    }

    /// Pets it if it is time and all threads are well.
    pub fn pet(&mut self, now: Instant, threads: &Threads) {
        if let Some(interval) = self.interval.filter(|_| now >= self.next) {
            self.next = now + interval;
            if threads.are_well() {
                tell(&[NotifyState::Watchdog]);
            }
        }
    }
}

/// The node is ready, or ready again.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The node reads its configuration.
pub fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// The node comes to an end.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState]) {
    // A service manager that cannot be reached is no reason to stop.
    let _ = sd_notify::notify(false, states);
}
