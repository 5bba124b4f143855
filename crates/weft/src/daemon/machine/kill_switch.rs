//! The kill switch: while it is set, nothing leaves this machine in clear.
//!
//! An nft table of this node rejects every packet that would leave by a link. It accepts the tunnel's own datagrams,
//! the networks of the links, and the protocols that keep the links up, such as DHCP. The table has no owner, so it
//! outlives the process: only `weft down` and a configuration without the key remove it. The rules identify the
//! tunnel's datagrams by a socket mark. A user id would match other programs of root too, and a control group exists
//! only under a service manager.
//!
//! A thread follows the addresses of the interfaces, and restores the table if another program removes it. The packet
//! loop never waits for nft, except in a reload that sets or lifts the switch.

mod changed_tables;
mod rules;

use crate::config::Config;
use crate::daemon::log::Log;
use crate::daemon::machine::changes::{Change, Changes};
use crate::daemon::threads::{Pulse, Threads};
use rules::Protected;
pub use rules::table;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weft_tcp_er::nft;

/// Mark of the datagrams that may leave outside the tunnel: the tunnel's own, and DNS lookups of its endpoints.
///
/// The proxies' marks begin with 0x7765.
pub const TUNNEL_MARK: u32 = 0x7766_0001;
/// Maximum time between two checks that the nft table exists, if the kernel reports no change of tables.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Removes the kill switch's nft table of the node with the TUN device `tun`, if the table exists.
///
/// # Errors
/// Fails if nft is missing or the kernel refuses.
pub fn remove(tun: &str) -> io::Result<()> {
    nft::apply(&rules::removal(&table(tun)))
}

/// Returns the entry of the kill switch in the record of changes, if the configuration has the switch.
pub fn change(config: &Config) -> Option<Change> {
    config.out.kill_switch.as_ref().map(|_| Change::KillSwitch { tun: config.tun.name.clone() })
}

/// Sets the switch of a configuration once, for the time until a node runs.
///
/// Returns false if the configuration has no kill switch. The record of changes contains the switch, so `weft down`
/// can lift it, and a node that starts later keeps it.
///
/// # Errors
/// Returns the reason why the switch cannot be set, as text for a reader.
pub fn set_once(config: &Config, log: Log) -> Result<bool, String> {
    let Some(change) = change(config) else { return Ok(false) };
    let failed = |why: io::Error| {
        format!(
            "cannot set the kill switch ([out] kill-switch), so packets may leave outside the tunnel: {why}: run as \
             root, with nftables installed"
        )
    };
    let protected = Protected::of(config);
    // An existing nft table is that of a running node and stays: the node adapts it to the addresses of the links.
    if nft::has_table(&protected.table).map_err(failed)? {
        return Ok(true);
    }
    let changes = Changes::begin(&config.node.control, Some(&change), log);
    changes.note(&change);
    WrittenTable { protected: Some(protected), written: String::new() }.refresh(false).map_err(failed)?;
    Ok(true)
}

/// The kill switch's nft table, as the node wrote it last.
#[derive(Default)]
struct WrittenTable {
    protected: Option<Protected>,
    written: String,
}

impl WrittenTable {
    /// Writes the nft table if it must change or is gone. Returns the log text, or `None` if nothing was written.
    ///
    /// The kernel is asked whether it still has the table only if `looks` is true.
    fn refresh(&mut self, looks: bool) -> io::Result<Option<&'static str>> {
        let Some(protected) = &self.protected else { return Ok(None) };
        let rules = rules::rules(protected, &rules::local_networks()?);
        let said = match () {
            () if self.written.is_empty() => "kill switch: set: only the tunnel and local networks are reachable",
            () if looks && !nft::has_table(&protected.table)? => {
                "kill switch: another program removed its nftables table: the table is restored"
            }
            () if rules != self.written => "kill switch: its rules were adapted to the links' new addresses",
            () => return Ok(None),
        };
        nft::apply(&rules)?;
        self.written = rules;
        Ok(Some(said))
    }
}

#[derive(Default)]
struct SharedTable {
    /// The kill switch's nft table as the node wrote it last. The lock is held while nft runs.
    table: Mutex<WrittenTable>,
    /// Reason to compare the kernel's nft table with the intended one. `None` if nothing has changed.
    reason: Mutex<Option<Reason>>,
    due: Condvar,
}

/// Reason to compare the kill switch's nft table in the kernel with the intended one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// Addresses of interfaces may have changed.
    Addresses,
    /// Some nft table of this machine has changed.
    Tables,
}

impl SharedTable {
    fn look_again(&self, reason: Reason) {
        let mut present = locked(&self.reason);
        *present = (*present).max(Some(reason));
        self.due.notify_one();
    }

    /// Waits for a reason to compare the kernel's nft table with the intended one, at most until `look`.
    ///
    /// Returns true if the thread must query the kernel for its table. Constant changes of addresses do not delay
    /// this query.
    fn wait(&self, look: Instant) -> bool {
        let rest = look.saturating_duration_since(Instant::now());
        let waited = self.due.wait_timeout_while(locked(&self.reason), rest, |reason| reason.is_none());
        let reason = waited.unwrap_or_else(PoisonError::into_inner).0.take();
        reason != Some(Reason::Addresses) || Instant::now() >= look
    }
}

/// The kill switch of a node, set or not.
pub struct KillSwitch {
    shared: Arc<SharedTable>,
    changes: Changes,
    change: Option<Change>,
    threads: Threads,
    is_started: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KillSwitch {
    /// Creates a switch that is not set.
    pub fn new(changes: Changes, threads: &Threads) -> KillSwitch {
        KillSwitch { shared: Arc::default(), changes, change: None, threads: threads.clone(), is_started: false }
    }

    /// Sets the switch if the configuration has it. Never lifts it.
    ///
    /// # Errors
    /// Returns the reason why it cannot be set, as text for a reader.
    pub fn set(&mut self, config: &Config) -> Result<(), String> {
        let Some(change) = change(config) else { return Ok(()) };
        let failed = |why: io::Error| {
            format!(
                "cannot set the kill switch ([out] kill-switch), so this configuration is not used: {why}: run as \
                 root, with nftables installed"
            )
        };
        self.changes.note(&change);
        self.change = Some(change);
        let mut table = locked(&self.shared.table);
        table.protected = Some(Protected::of(config));
        let said = table.refresh(true).map_err(failed)?;
        drop(table);
        say(said, self.threads.log());
        if !self.is_started {
            self.is_started = true;
            let shared = Arc::clone(&self.shared);
            let log = self.threads.log();
            self.threads.spawn("weft-kill-switch", move |pulse| keep(&shared, log, pulse)).map_err(failed)?;
            let shared = Arc::clone(&self.shared);
            let watch = move |pulse: &Pulse| {
                if let Err(why) = changed_tables::watch(pulse, || shared.look_again(Reason::Tables)) {
                    log.error(format_args!(
                        "kill switch: cannot watch its nft table, so a removal is noticed after up to 10 s: {why}"
                    ));
                }
                Ok(())
            };
            self.threads.spawn("weft-tables", watch).map_err(failed)?;
        }
        Ok(())
    }

    /// Lifts the kill switch, if it is set: removes its nft table from the kernel.
    pub fn lift(&mut self) {
        let mut table = locked(&self.shared.table);
        *table = WrittenTable::default();
        if let Some(change) = self.change.take() {
            self.changes.undo(&[change]);
            self.threads.log().info("kill switch: lifted");
        }
    }

    /// Returns true if the switch is set.
    pub fn is_set(&self) -> bool {
        self.change.is_some()
    }

    /// Makes the thread compare the nft table with the present addresses of the interfaces.
    pub fn look_again(&self) {
        self.shared.look_again(Reason::Addresses);
    }
}

fn say(said: Option<&str>, log: Log) {
    if let Some(said) = said {
        log.info(said);
    }
}

/// Restores or changes the kill switch's nft table whenever that is necessary, as long as the process runs.
fn keep(shared: &SharedTable, log: Log, pulse: &Pulse) -> Result<(), String> {
    let mut last_failure = None;
    let mut look = Instant::now() + LOOK_INTERVAL;
    loop {
        let looks = pulse.resting(|| shared.wait(look));
        if looks {
            look = Instant::now() + LOOK_INTERVAL;
        }
        let result = pulse.resting(|| locked(&shared.table).refresh(looks));
        let failure = result.map(|said| say(said, log)).err().map(|why| why.to_string());
        if let Some(why) = failure.as_ref().filter(|_| failure != last_failure) {
            log.error(format_args!("kill switch: cannot update its nftables rules, so the old ones stay: {why}"));
        }
        last_failure = failure;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_comes_in_time_however_often_addresses_change() {
        let shared = SharedTable::default();
        let look = Instant::now() + Duration::from_millis(50);
        let mut waits = 0;
        loop {
            shared.look_again(Reason::Addresses);
            waits += 1;
            if shared.wait(look) {
                break;
            }
            assert!(Instant::now() < look + Duration::from_secs(5), "no look in {waits} waits");
        }
        assert!(Instant::now() >= look, "changed addresses alone cause no look");
    }

    #[test]
    fn a_change_of_tables_causes_a_look_at_once_and_is_not_hidden_by_one_of_addresses() {
        let shared = SharedTable::default();
        let look = Instant::now() + Duration::from_secs(3_600);
        shared.look_again(Reason::Tables);
        shared.look_again(Reason::Addresses);
        assert!(shared.wait(look));
        shared.look_again(Reason::Addresses);
        assert!(!shared.wait(look));
    }
}
