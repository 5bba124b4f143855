//! Changes to this machine outside the node's own devices.
//!
//! They are routing rules, the proxy's routing, `tcp_fastopen`, forwarding of IPv4, and the kill switch.
//!
//! The node records each change in the runtime directory before it makes the change. Dropping the last [`Changes`]
//! undoes all changes but the kill switch. If the run was killed, the next one undoes them at its start. The record
//! omits everything that ends with a device or a process: addresses and routes of the node's devices, and nft tables
//! with an owner. The record contains kinds of changes and never file names, so an attacker who can write it gains
//! nothing.

use crate::daemon::log::Log;
use crate::daemon::machine::kill_switch;
use crate::files::Directory;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_io::netlink::{Configure, Rule, Selector};
use weft_tcp_er::proxy::{DiversionNames, detour};

/// File of the network namespace's TCP Fast Open setting (RFC 7413).
///
/// Bit 0 lets clients send data with the first packet. Bit 1 lets servers accept it.
const FAST_OPEN: &str = "/proc/sys/net/ipv4/tcp_fastopen";
/// File of the network namespace's setting for forwarding of IPv4.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// Maximum length of the file that records the changes, in bytes. A longer file is an error.
///
/// A change takes some 100 bytes, and each prefix length has two routing rules.
const MAX_RECORD: u64 = 1 << 20;

/// Selector of a routing rule: the property of a packet or a lookup that the rule compares.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Source address of the packet.
    From(IpAddr),
    /// Device from which the packet arrives.
    Incoming(String),
    /// Device to which the socket is bound.
    Bound(String),
    /// Minimum prefix length of the route that the lookup finds in the table.
    AtLeast(u8),
}

/// A change, with the data to undo it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// A routing rule was added.
    Rule {
        /// Selector of the rule.
        by: By,
        /// True for IPv6, false for IPv4.
        ipv6: bool,
        /// Routing table to which the rule leads.
        table: u32,
    },
    /// Marked packets are routed to the proxy for this TUN device.
    Detour {
        /// Name of the TUN device.
        tun: String,
    },
    /// `net.ipv4.tcp_fastopen` was changed.
    FastOpen {
        /// Value before the change.
        before: u32,
        /// Value after the change.
        after: u32,
    },
    /// `net.ipv4.ip_forward` was switched on.
    Forwarding,
    /// The kill switch's nft table exists. The table outlives the process that recorded it.
    KillSwitch {
        /// Name of the TUN device.
        tun: String,
    },
}

impl Change {
    /// Returns true for a change that stays when the process ends.
    fn outlives_run(&self) -> bool {
        matches!(self, Change::KillSwitch { .. })
    }

    /// Makes the change. Returns false if it was already in effect, and there is nothing to undo.
    fn make(&self) -> io::Result<bool> {
        match self {
            Change::Rule { by, ipv6, table } => {
                let (mut configure, rule) = (Configure::open()?, rule(by, *ipv6, *table));
                // The rules by minimum prefix length form a chain, and a new chain is added behind the old one.
                match by {
                    By::AtLeast(_) => configure.append_rule(&rule).map(|()| true),
                    _ => configure.add_rule(&rule),
                }
            }
            Change::Detour { tun } => detour::lead(&DiversionNames::of(tun)).map(|()| true),
            Change::FastOpen { after, .. } => fs::write(FAST_OPEN, after.to_string()).map(|()| true),
            Change::Forwarding if is_forwarding()? => Ok(false),
            Change::Forwarding => fs::write(FORWARDING, "1").map(|()| true),
            // The module `kill_switch` writes the table, so nothing is left to do here.
            Change::KillSwitch { .. } => Ok(true),
        }
    }

    /// Undoes the change, unless another program has changed the same setting since.
    fn undo(&self) -> io::Result<()> {
        match self {
            Change::Rule { by, ipv6, table } => {
                match Configure::open()?.remove_rule(&rule(by, *ipv6, *table)) {
                    // The rule belonged to an address family or a network namespace that no longer exists.
                    Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
                    result => result,
                }
            }
            Change::Detour { tun } => {
                detour::unlead(&DiversionNames::of(tun));
                Ok(())
            }
            Change::FastOpen { before, after } if fast_open()? == *after => fs::write(FAST_OPEN, before.to_string()),
            Change::FastOpen { .. } => Ok(()),
            Change::Forwarding => fs::write(FORWARDING, "0"),
            Change::KillSwitch { tun } => kill_switch::remove(tun),
        }
    }
}

fn rule(by: &By, ipv6: bool, table: u32) -> Rule<'_> {
    let selector = match by {
        By::From(address) => Selector::From(*address),
        By::Incoming(device) => Selector::Incoming(device),
        By::Bound(device) => Selector::Bound(device),
        By::AtLeast(length) => Selector::AtLeast(*length),
    };
    Rule { selector, ipv6, table }
}

/// Returns the TCP Fast Open setting of this network namespace.
///
/// # Errors
/// Returns an error if it cannot be read.
pub fn fast_open() -> io::Result<u32> {
    fs::read_to_string(FAST_OPEN)?.trim().parse().map_err(io::Error::other)
}

/// Returns true if this network namespace forwards IPv4.
fn is_forwarding() -> io::Result<bool> {
    Ok(fs::read_to_string(FORWARDING)?.trim() != "0")
}

/// The changes that one run of the node has made to this machine. All clones share them.
#[derive(Clone)]
pub struct Changes(Arc<Mutex<ChangeRecord>>);

impl Changes {
    /// Begins a run of the node with the control socket at `control`.
    ///
    /// It undoes the changes of an earlier run, which are left if that run was killed. Only the kill switch `kept` stays.
    pub fn begin(control: &Path, kept: Option<&Change>, log: Log) -> Changes {
        let (parent, name) = place(control);
        let directory = Directory::open(parent)
            .map_err(|why| {
                log.error(format_args!(
                    "cannot record this run's changes to the machine, so they stay if the node is killed: \
                     directory {}: {why}",
                    parent.display()
                ))
            })
            .ok();
        let mut record = ChangeRecord { directory, name, made: Vec::new(), log };
        let (outliving, left): (Vec<_>, Vec<_>) = record.left().into_iter().partition(Change::outlives_run);
        if !left.is_empty() {
            log.info(format_args!(
                "the last run of this node was killed and left {} changes to this machine: undoing them",
                left.len()
            ));
            record.made = left;
            record.undo_all();
        }
        let (kept, ended): (Vec<_>, Vec<_>) = outliving.into_iter().partition(|change| Some(change) == kept);
        if !ended.is_empty() {
            log.info("the kill switch of the last run is no longer configured: lifting it");
            ended.iter().for_each(|change| record.undo_one(change));
        }
        record.made = kept;
        record.write();
        Changes(Arc::new(Mutex::new(record)))
    }

    /// Records a change that the caller makes itself.
    pub fn note(&self, change: &Change) {
        let mut record = self.record();
        if !record.made.contains(change) {
            record.made.push(change.clone());
            record.write();
        }
    }

    fn record(&self) -> MutexGuard<'_, ChangeRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes changes in this order, up to the first that fails.
    ///
    /// # Errors
    /// Returns the error of the change that failed.
    pub fn make(&self, changes: &[Change]) -> io::Result<()> {
        let mut record = self.record();
        let before = record.made.len();
        record.made.extend_from_slice(changes);
        record.write();
        let mut made = Vec::new();
        let result = changes.iter().try_for_each(|change| {
            if change.make()? {
                made.push(change.clone());
            }
            Ok(())
        });
        if made.len() < changes.len() {
            record.made.truncate(before);
            record.made.extend(made);
            record.write();
        }
        result
    }

    /// Undoes these changes; skips those that were not made.
    pub fn undo(&self, changes: &[Change]) {
        let mut record = self.record();
        for change in changes {
            if let Some(at) = record.made.iter().position(|made| made == change) {
                record.undo_one(change);
                record.made.remove(at);
            }
        }
        record.write();
    }
}

/// The changes that are in effect, in order, and the directory and name of the file that records them.
struct ChangeRecord {
    directory: Option<Directory>,
    name: String,
    made: Vec<Change>,
    log: Log,
}

/// Contents of the file that records the changes.
#[derive(Serialize, Deserialize)]
struct Written {
    namespace: String,
    changes: Vec<Change>,
}

impl Drop for ChangeRecord {
    fn drop(&mut self) {
        self.undo_all();
    }
}

impl ChangeRecord {
    /// Returns the recorded changes of an earlier run that did not undo them.
    fn left(&self) -> Vec<Change> {
        let Some(directory) = &self.directory else { return Vec::new() };
        read(directory, &self.name).unwrap_or_else(|why| {
            self.log.error(format_args!(
                "cannot undo the last run's changes to this machine: {}",
                directory.failed(&self.name, &why)
            ));
            Vec::new()
        })
    }

    /// Writes the file that records the changes, or removes it if there are none.
    ///
    /// If that fails, the node still serves its peers, without a record.
    fn write(&self) {
        let Some(directory) = &self.directory else { return };
        let written = write(directory, &self.name, &self.made);
        if let Err(why) = written {
            let failed = directory.failed(&self.name, &why);
            self.log.error(format_args!(
                "cannot record this run's changes to the machine, so they stay if the node is killed: {failed}"
            ));
        }
    }

    fn undo_one(&self, change: &Change) {
        if let Err(why) = change.undo() {
            self.log.error(format_args!("cannot undo a change to this machine: {why}: undo it by hand: {change:?}"));
        }
    }

    fn undo_all(&mut self) {
        let (outliving, ending): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.made).into_iter().partition(Change::outlives_run);
        ending.iter().rev().for_each(|change| self.undo_one(change));
        self.made = outliving;
        self.write();
    }
}

/// Returns directory and name of the file that records the changes of the node with the control socket `control`.
fn place(control: &Path) -> (&Path, String) {
    let (parent, name) = (control.parent().unwrap_or(Path::new("")), control.file_name().unwrap_or_default());
    (parent, format!("{}.changes", name.to_string_lossy()))
}

/// Returns the recorded changes in the file `name`. Returns none if another boot or network namespace recorded them.
fn read(directory: &Directory, name: &str) -> io::Result<Vec<Change>> {
    let text = match directory.read_text(name, MAX_RECORD) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let written: Written = serde_json::from_str(&text)?;
    Ok(if written.namespace == namespace() { written.changes } else { Vec::new() })
}

fn write(directory: &Directory, name: &str, made: &[Change]) -> io::Result<()> {
    if !made.is_empty() {
        let written = Written { namespace: namespace(), changes: made.to_vec() };
        return directory.write(name, &serde_json::to_vec(&written)?);
    }
    match directory.remove(name.as_ref()) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Lifts the kill switch that a node with the control socket at `control` has left. Returns false if there is none.
///
/// # Errors
/// Fails if the record cannot be read, or the table cannot be removed.
pub fn lift_kill_switch(control: &Path) -> io::Result<bool> {
    let (parent, name) = place(control);
    let directory = Directory::open(parent)?;
    let (outliving, others): (Vec<_>, Vec<_>) = read(&directory, &name)?.into_iter().partition(Change::outlives_run);
    outliving.iter().try_for_each(Change::undo)?;
    if !outliving.is_empty() {
        write(&directory, &name, &others)?;
    }
    Ok(!outliving.is_empty())
}

/// Returns a text that identifies this boot and this network namespace.
fn namespace() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let inode = fs::metadata("/proc/self/ns/net").map_or(0, |of| of.ino());
    format!("{} {inode}", boot.trim())
}
