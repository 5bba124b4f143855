//! The machine's DNS servers while the node runs, as `[out] dns` names them.
//!
//! If programs ask systemd-resolved, `resolvectl` gives it the servers for the node's device, and the servers end
//! with the device. Otherwise weft replaces `/etc/resolv.conf` and puts the previous file back ([`resolv_conf`]). A
//! thread does this, and sets the servers again if another program has replaced them. The packet loop (`datapath`)
//! never waits for it.

pub mod resolv_conf;

use crate::config::Config;
use crate::daemon::log::Log;
use crate::daemon::threads::{Pulse, Threads};
use resolv_conf::ResolvConf;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval at which the thread checks the machine's DNS servers.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// DNS servers and search domains that the machine is to use.
#[derive(Clone, PartialEq, Eq, Debug)]
struct WantedServers {
    device: String,
    servers: Vec<IpAddr>,
    domains: Vec<String>,
}

impl WantedServers {
    fn of(config: &Config) -> Option<WantedServers> {
        let servers: Vec<IpAddr> = config.out.dns.iter().map(|at| at.value).collect();
        let domains = config.out.search.iter().map(|at| at.value.clone()).collect();
        (!servers.is_empty()).then(|| WantedServers { device: config.tun.name.clone(), servers, domains })
    }
}

/// DNS servers that are in effect, and the method by which they were set.
#[derive(Clone, PartialEq, Eq)]
enum Effect {
    Resolved(WantedServers),
    File(WantedServers),
}

#[derive(Default)]
struct SharedSetting {
    /// DNS servers that the thread is to set, and true until the thread has read them.
    wanted: Mutex<(Option<WantedServers>, bool)>,
    changed: Condvar,
    /// DNS servers in effect. The lock is held while they change.
    effect: Mutex<Option<Effect>>,
}

/// The setting of the machine's DNS servers.
pub struct ResolverSetting {
    shared: Arc<SharedSetting>,
    file: Arc<ResolvConf>,
    threads: Threads,
    is_started: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ResolverSetting {
    /// Creates the setting for a node; puts back a file that a killed run has replaced, unless the node replaces it again.
    pub fn new(config: &Config, threads: &Threads) -> ResolverSetting {
        let file = Arc::new(ResolvConf::new(Path::new("/etc"), &config.node.control));
        if config.out.dns.is_empty() {
            say(file.restore(), threads.log());
        }
        ResolverSetting { shared: Arc::default(), file, threads: threads.clone(), is_started: false }
    }

    /// Sets the DNS servers of a configuration, or removes those of an earlier one. The thread logs the result.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn set(&mut self, config: &Config) -> io::Result<()> {
        let wanted = WantedServers::of(config);
        if !self.is_started && wanted.is_some() {
            self.is_started = true;
            let (shared, file, log) = (Arc::clone(&self.shared), Arc::clone(&self.file), self.threads.log());
            self.threads.spawn("weft-resolver", move |pulse| keep(&shared, &file, log, pulse))?;
        }
        *locked(&self.shared.wanted) = (wanted, true);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Restores the machine's own DNS servers.
    pub fn end(&self) {
        let mut effect = locked(&self.shared.effect);
        locked(&self.shared.wanted).0 = None;
        if matches!(effect.take(), Some(Effect::File(_))) {
            say(self.file.restore(), self.threads.log());
        }
    }
}

fn say(restored: io::Result<bool>, log: Log) {
    match restored {
        Ok(true) => log.info("DNS: /etc/resolv.conf is as before"),
        Ok(false) => {}
        Err(why) => {
            let before = resolv_conf::BEFORE;
            log.error(format_args!("DNS: cannot restore /etc/resolv.conf from the earlier file /etc/{before}: {why}"));
        }
    }
}

fn keep(shared: &SharedSetting, file: &ResolvConf, log: Log, pulse: &Pulse) -> Result<(), String> {
    let mut last_failure = None;
    loop {
        pulse.resting(|| {
            let waited =
                shared.changed.wait_timeout_while(locked(&shared.wanted), LOOK_INTERVAL, |(_, is_new)| !*is_new);
            waited.unwrap_or_else(PoisonError::into_inner).0.1 = false;
        });
        let failure = pulse.resting(|| apply(shared, file, log)).err().map(|why| why.to_string());
        if let Some(why) = failure.as_ref().filter(|_| failure != last_failure) {
            log.error(format_args!("DNS: cannot make this machine use the DNS servers of [out]: {why}"));
        }
        last_failure = failure;
    }
}

/// Makes the machine use the wanted servers, or its own servers again if none are wanted.
fn apply(shared: &SharedSetting, file: &ResolvConf, log: Log) -> io::Result<()> {
    let mut effect = locked(&shared.effect);
    let Some(wanted) = locked(&shared.wanted).0.clone() else {
        match effect.take() {
            Some(Effect::File(_)) => say(file.restore(), log),
            Some(Effect::Resolved(of)) => resolvectl(&["revert", &of.device])?,
            None => {}
        }
        return Ok(());
    };
    let now = if file.asks_resolved() && !matches!(*effect, Some(Effect::File(_))) {
        let now = Effect::Resolved(wanted.clone());
        if effect.as_ref() != Some(&now) {
            give_to_resolved(&wanted)?;
        }
        now
    } else {
        let help = "use systemd-resolved, or run weft as root";
        let failed = |why: io::Error| io::Error::new(why.kind(), format!("{why}: {help}"));
        file.replace(&wanted.servers, &wanted.domains).map_err(failed)?;
        Effect::File(wanted.clone())
    };
    if effect.as_ref() != Some(&now) {
        let servers: Vec<String> = wanted.servers.iter().map(ToString::to_string).collect();
        let by = if matches!(now, Effect::File(_)) { "/etc/resolv.conf" } else { "systemd-resolved" };
        log.info(format_args!("DNS: this machine asks the DNS servers {} (set in {by})", servers.join(", ")));
        *effect = Some(now);
    }
    Ok(())
}

/// Sets the servers of the device in systemd-resolved. `~.` makes systemd-resolved ask them for every name.
fn give_to_resolved(wanted: &WantedServers) -> io::Result<()> {
    let device = wanted.device.as_str();
    let servers: Vec<String> = wanted.servers.iter().map(ToString::to_string).collect();
    let servers = servers.iter().map(String::as_str);
    let domains = ["~."].into_iter().chain(wanted.domains.iter().map(String::as_str));
    resolvectl(&["dns", device].into_iter().chain(servers).collect::<Vec<_>>())?;
    resolvectl(&["domain", device].into_iter().chain(domains).collect::<Vec<_>>())?;
    resolvectl(&["default-route", device, "yes"])
}

fn resolvectl(arguments: &[&str]) -> io::Result<()> {
    let failed = |why: String| {
        io::Error::other(format!(
            "the command `resolvectl {}` failed: {why}: check that systemd-resolved runs",
            arguments.join(" ")
        ))
    };
    let out = Command::new("resolvectl").args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).output();
    let out = out.map_err(|why| failed(why.to_string()))?;
    match out.status.success() {
        true => Ok(()),
        false => Err(failed(
            String::from_utf8_lossy(&out.stderr).lines().next().unwrap_or("it printed no reason").to_owned(),
        )),
    }
}
