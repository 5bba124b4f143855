//! Notifications to the service manager (sd_notify(3)); without a service manager they have no effect.

use super::threads::Threads;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use nix::time::{ClockId, clock_gettime};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use std::{env, process};
use weft_units::Instant;

/// The service manager's watchdog.
///
/// Only the packet loop (`datapath`) may notify it, and only while all threads are well.
pub struct Watchdog {
    interval: Option<Duration>,
    next: Instant,
}

impl Watchdog {
    /// Reads from the environment if the service manager wants notifications, and how often.
    pub fn new() -> Watchdog {
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        // A child process inherits the variables of its parent, so the process id is compared.
        let is_ours = number("WATCHDOG_PID") == Some(process::id().into());
        let limit_us = number("WATCHDOG_USEC").filter(|_| is_ours);
        Watchdog { interval: limit_us.map(|us| Duration::from_micros(us / 4)), next: Instant::ZERO }
    }

    /// Returns the time at which systemd's watchdog must be notified next; `None` if systemd watches no program.
    pub fn next(&self) -> Option<Instant> {
        self.interval.map(|_| self.next)
    }

    /// Notifies the watchdog if the notification is due and all threads are well.
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

/// Stores a copy of a descriptor for the next run of the node (`FileDescriptorStoreMax=` of the unit).
pub fn store(name: &str, descriptor: &impl AsRawFd) {
    notify_with(&format!("FDSTORE=1\nFDNAME={name}\n"), &[descriptor.as_raw_fd()]);
}

/// Makes the service manager close the descriptors that it stores under this name.
pub fn forget(name: &str) {
    notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}\n"));
}

fn notify(states: &str) {
    notify_with(states, &[]);
}

fn notify_with(states: &str, descriptors: &[RawFd]) {
    let Some(manager) = env::var_os("NOTIFY_SOCKET") else { return };
    // The node runs on if the service manager cannot be reached.
    let (Ok(socket), Ok(manager)) = (UnixDatagram::unbound(), UnixAddr::new(manager.as_os_str())) else { return };
    let attached = ControlMessage::ScmRights(descriptors);
    let attached = if descriptors.is_empty() { &[][..] } else { std::slice::from_ref(&attached) };
    let contents = [IoSlice::new(states.as_bytes())];
    let _ = sendmsg(socket.as_raw_fd(), &contents, attached, MsgFlags::empty(), Some(&manager));
}
