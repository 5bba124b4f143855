//! What the node changes on this machine outside its own devices: rules, the proxy's routing, `tcp_fastopen`.
//!
//! Each change goes on record in the runtime directory before it is made. All are undone when the last [`Changes`] is dropped, or, where the
//! run was killed, when the next one starts. What goes with a device or a process is not on record: addresses and routes of the node's
//! devices, and tables of nft, which have an owner. The record names kinds of changes, never files, so that whoever can write it gains nothing.

use super::log::Log;
use crate::files::Directory;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_io::netlink::{Configure, Rule, Selector};
use weft_tcp_er::proxy::{Names, detour};

/// The TCP Fast Open setting of the network namespace (RFC 7413). Bit 0 lets clients send data with the first packet. Bit 1 lets servers
/// accept it.
const FAST_OPEN: &str = "/proc/sys/net/ipv4/tcp_fastopen";
/// A record is shorter: some 100 bytes a change, and two rules for each prefix length.
const MAX_RECORD: u64 = 1 << 20;

/// What a rule looks at.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// A source address.
    From(IpAddr),
    /// The device that packets come from.
    Incoming(String),
    /// The device that sockets are bound to.
    Bound(String),
    /// The length of the prefix that the table has.
    AtLeast(u8),
}

/// A change, with what is needed to undo it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// A rule was added.
    Rule {
        /// What it looks at.
        by: By,
        /// For IPv6, not IPv4.
        ipv6: bool,
        /// The table it leads to.
        table: u32,
    },
    /// Marked packets are led to the proxy of this device.
    Detour {
        /// The device.
        tun: String,
    },
    /// `net.ipv4.tcp_fastopen` was changed.
    FastOpen {
        /// What it was.
        before: u32,
        /// What it was set to.
        after: u32,
    },
}

impl Change {
    /// Makes it; false where it was so before, and there is nothing to undo.
    fn make(&self) -> io::Result<bool> {
        match self {
            Change::Rule { by, ipv6, table } => {
                let (mut configure, rule) = (Configure::open()?, rule(by, *ipv6, *table));
                // Rules by length are a chain, whose successor is there before it goes.
                match by {
                    By::AtLeast(_) => configure.append_rule(&rule).map(|()| true),
                    _ => configure.add_rule(&rule),
                }
            }
            Change::Detour { tun } => detour::lead(&Names::of(tun)).map(|()| true),
            Change::FastOpen { after, .. } => fs::write(FAST_OPEN, after.to_string()).map(|()| true),
        }
    }

    /// Undoes it. What somebody else has changed since stays.
    fn undo(&self) -> io::Result<()> {
        match self {
            Change::Rule { by, ipv6, table } => {
                match Configure::open()?.remove_rule(&rule(by, *ipv6, *table)) {
                    // A rule for addresses of a family that is gone, or of a namespace that is gone.
                    Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
                    result => result,
                }
            }
            Change::Detour { tun } => {
                detour::unlead(&Names::of(tun));
                Ok(())
            }
            Change::FastOpen { before, after } if fast_open()? == *after => fs::write(FAST_OPEN, before.to_string()),
            Change::FastOpen { .. } => Ok(()),
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
/// When it cannot be read.
pub fn fast_open() -> io::Result<u32> {
    fs::read_to_string(FAST_OPEN)?.trim().parse().map_err(io::Error::other)
}

/// The changes of a run; clones are of the same run.
#[derive(Clone)]
pub struct Changes(Arc<Mutex<Record>>);

impl Changes {
    /// Begins a run of the node whose control socket is at `control`: undoes what a run that was killed has left.
    pub fn begin(control: &Path, log: Log) -> Changes {
        let (parent, name) = (control.parent().unwrap_or(Path::new("")), control.file_name().unwrap_or_default());
        let directory = Directory::open(parent)
            .map_err(|why| log.error(format_args!("{}: what is changed is not on record: {why}", parent.display())))
            .ok();
        let name = format!("{}.changes", name.to_string_lossy());
        let mut record = Record { directory, name, made: Vec::new(), log };
        record.made = record.left();
        if !record.made.is_empty() {
            log.info(format_args!(
                "the last run was killed: its {} changes of this machine are undone",
                record.made.len()
            ));
            record.undo_all();
        }
        Changes(Arc::new(Mutex::new(record)))
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes changes in this order, up to the first that fails.
    ///
    /// # Errors
    /// Why that one failed.
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

    /// Undoes these; what was not made is passed over.
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

/// The changes that were made and not undone, in order, and where they are on record.
struct Record {
    directory: Option<Directory>,
    name: String,
    made: Vec<Change>,
    log: Log,
}

/// A record as it is written. Changes of another boot or network namespace are gone.
#[derive(Serialize, Deserialize)]
struct Written {
    namespace: String,
    changes: Vec<Change>,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.undo_all();
    }
}

impl Record {
    /// What the last run has left.
    fn left(&self) -> Vec<Change> {
        let Some(directory) = &self.directory else { return Vec::new() };
        let text = match directory.read_text(&self.name, MAX_RECORD) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Vec::new(),
            text => text,
        };
        match text.and_then(|text| serde_json::from_str::<Written>(&text).map_err(io::Error::from)) {
            Ok(written) if written.namespace == namespace() => written.changes,
            Ok(_) => Vec::new(),
            Err(why) => {
                self.log.error(format_args!("what the last run changed stays: {}", directory.failed(&self.name, &why)));
                Vec::new()
            }
        }
    }

    /// The node goes on where that fails: it serves its peers without a record, too.
    fn write(&self) {
        let Some(directory) = &self.directory else { return };
        let written = if self.made.is_empty() {
            match directory.remove(self.name.as_ref()) {
                Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
                result => result,
            }
        } else {
            let written = Written { namespace: namespace(), changes: self.made.clone() };
            serde_json::to_vec(&written).map_err(io::Error::from).and_then(|text| directory.write(&self.name, &text))
        };
        if let Err(why) = written {
            let failed = directory.failed(&self.name, &why);
            self.log.error(format_args!("changes of this machine are not on record: {failed}"));
        }
    }

    fn undo_one(&self, change: &Change) {
        if let Err(why) = change.undo() {
            self.log.error(format_args!("cannot undo {change:?}: {why}"));
        }
    }

    fn undo_all(&mut self) {
        for change in std::mem::take(&mut self.made).iter().rev() {
            self.undo_one(change);
        }
        self.write();
    }
}

/// This boot and this network namespace.
fn namespace() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let inode = fs::metadata("/proc/self/ns/net").map_or(0, |of| of.ino());
    format!("{} {inode}", boot.trim())
}
