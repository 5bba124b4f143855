//! Lookup of endpoints by name, on a thread of its own.
//!
//! The thread asks the system's resolver for every name of the configuration. When an address changes, it makes the
//! node read its configuration again, and the reload takes the addresses from this module. The packet loop
//! (`datapath`) never waits for a resolver. A name that cannot be looked up keeps its last addresses. If the
//! machine's resolver asks through the tunnel and does not answer, the thread asks the servers of the links itself
//! ([`direct`]).

mod direct;

use crate::config::{Config, HostName, ResolvedAddresses};
use crate::daemon::control::TaskSender;
use crate::daemon::log::Log;
use crate::daemon::threads::{Pulse, Threads};
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weft_control::Request;

/// Interval of lookups. A changed dynamic address is found within one interval.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Interval of lookups while a name has no address.
const SOON_AFTER: Duration = Duration::from_secs(5);
/// Maximum time for which the node's start waits for the first answers.
const FIRST_ANSWERS: Duration = Duration::from_secs(2);

#[derive(Default)]
struct NamesState {
    wanted: BTreeSet<HostName>,
    /// The node's devices through which the machine's resolver asks. Empty if it does not ask through the tunnel.
    hidden_by: Vec<String>,
    known: ResolvedAddresses,
    /// Names whose last lookup failed.
    failed: BTreeSet<HostName>,
    is_started: bool,
    /// True while the node's start waits for the first answers. The start takes these itself, without a reload.
    is_waited_for: bool,
    /// Number of finished rounds of lookups.
    rounds: u64,
}

struct SharedNames {
    state: Mutex<NamesState>,
    changed: Condvar,
}

/// The names of the configuration and their addresses. All clones share them.
#[derive(Clone)]
pub struct Names {
    shared: Arc<SharedNames>,
    sender: TaskSender,
    threads: Threads,
}

impl Names {
    /// Creates the table without names.
    pub fn new(sender: TaskSender, threads: &Threads) -> Names {
        let shared = SharedNames { state: Mutex::default(), changed: Condvar::new() };
        Names { shared: Arc::new(shared), sender, threads: threads.clone() }
    }

    fn state(&self) -> MutexGuard<'_, NamesState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the known addresses to a configuration, and looks up its names from now on.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn add_addresses(&self, config: &mut Config) -> io::Result<()> {
        let mut state = self.state();
        let wanted = config.host_names();
        state.hidden_by = hiding_devices(config);
        if state.wanted != wanted {
            state.known.retain(|name, _| wanted.contains(name));
            state.wanted = wanted;
            self.shared.changed.notify_all();
        }
        if !state.wanted.is_empty() && !state.is_started {
            state.is_started = true;
            let names = self.clone();
            self.threads.spawn("weft-names", move |pulse| names.run(pulse))?;
        }
        config.add_addresses(&state.known);
        Ok(())
    }

    /// Waits at most `FIRST_ANSWERS` for the first answers, and adds these to a configuration.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(&self, config: &mut Config) -> io::Result<()> {
        self.state().is_waited_for = true;
        self.add_addresses(config)?;
        if !config.host_names().is_empty() {
            let is_first = |state: &mut NamesState| state.rounds == 0;
            drop(self.shared.changed.wait_timeout_while(self.state(), FIRST_ANSWERS, is_first));
        }
        let mut state = self.state();
        state.is_waited_for = false;
        config.add_addresses(&state.known);
        Ok(())
    }

    fn run(&self, pulse: &Pulse) -> Result<(), String> {
        let log = self.threads.log();
        loop {
            let (wanted, hidden_by) = {
                let state = self.state();
                (state.wanted.clone(), state.hidden_by.clone())
            };
            let look_up = |name: &HostName| pulse.resting(|| look_up(name, &hidden_by));
            let found: Vec<_> = wanted.into_iter().map(|name| (look_up(&name), name)).collect();
            if self.take(found, log) {
                pulse.resting(|| self.sender.ask(Request::Reload));
            }
            let wait = {
                let state = self.state();
                if state.wanted.iter().all(|name| state.known.contains_key(name)) { AGAIN_AFTER } else { SOON_AFTER }
            };
            pulse.resting(|| {
                let state = self.state();
                let before = state.wanted.clone();
                drop(self.shared.changed.wait_timeout_while(state, wait, |state| state.wanted == before));
            });
        }
    }

    /// Stores the results of lookups. Returns true if the running node must be reloaded for changed addresses.
    fn take(&self, found: Vec<(io::Result<Vec<SocketAddr>>, HostName)>, log: Log) -> bool {
        let mut state = self.state();
        let mut has_changed = false;
        for (answer, name) in found {
            let failed_before = match &answer {
                Ok(_) => state.failed.remove(&name),
                Err(_) => !state.failed.insert(name.clone()),
            };
            match answer {
                Ok(addresses) if state.known.get(&name) != Some(&addresses) => {
                    let list: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
                    log.info(format_args!("the name {} resolves to {}", name.name, list.join(" and ")));
                    state.known.insert(name, addresses);
                    has_changed = true;
                }
                Ok(_) => {}
                Err(_) if failed_before => {}
                Err(why) => {
                    let kept = if state.known.contains_key(&name) {
                        "its last known addresses stay in use"
                    } else {
                        "looked up again every 5 s"
                    };
                    log.error(format_args!("cannot look up the host name {}: {why}: {kept}", name.name));
                }
            }
        }
        state.rounds += 1;
        self.shared.changed.notify_all();
        has_changed && !state.is_waited_for
    }
}

/// Returns the node's devices if the machine's resolver asks through them, and an empty list otherwise.
fn hiding_devices(config: &Config) -> Vec<String> {
    let devices = config.vpns.iter().map(|vpn| &vpn.device.value).chain([&config.tun.name]);
    if config.out.hides_resolver() { devices.cloned().collect() } else { Vec::new() }
}

/// Asks the system's resolver. If that fails and it asks through the devices `hidden_by`, asks the links' servers.
///
/// The order of the addresses is made independent of the resolver's.
fn look_up(name: &HostName, hidden_by: &[String]) -> io::Result<Vec<SocketAddr>> {
    let by_system = (name.name.as_str(), name.port).to_socket_addrs().map(Vec::from_iter);
    let mut addresses = match by_system {
        Err(_) if !hidden_by.is_empty() => {
            let found = direct::look_up(&name.name, hidden_by)?;
            found.into_iter().map(|address| SocketAddr::new(address, name.port)).collect()
        }
        by_system => by_system?,
    };
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() { Err(io::Error::other("the name has no address")) } else { Ok(addresses) }
}
