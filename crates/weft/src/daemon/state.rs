//! State that outlives the process: handshake stamps and revocations.
//!
//! The stamps are this node's own, and the last accepted ones of peers.
//!
//! A separate thread writes the changes to the state directory, so that a slow disk delays no packet. A node whose
//! state cannot be read or written still runs.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use weft_session::{PublicKey, Revocation};

use super::log::Log;
use super::threads::{Pulse, Threads};
use crate::files::{Directory, Owner};
use crate::state_lines::{MAX_STAMP, parse_accepted, parse_stamp};

/// Time ahead of the clock for which this node's stamps are reserved, so that no stamp repeats after a crash.
const RESERVE: Duration = Duration::from_secs(60);
/// Remaining reservation below which the node reserves again.
const REFILL: Duration = Duration::from_secs(30);
/// Number of stamps that are reserved if the stamps are ahead of the clock. Then each stamp is the last one plus one.
///
/// A node that crashes repeatedly thus stays within [`RESERVE`] of the clock.
const RESERVE_STEPS: u64 = 1_000_000;
/// Maximum time to write the last changes when the node stops.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Maximum length of a state file, in bytes. A longer file is not read.
const MAX_BYTES: u64 = 8 << 20;
/// Name of the file with the stamp up to which this node's own are reserved.
const STAMP: &str = "stamp";
/// Name of the file with the highest stamp accepted from each peer, one line each: key, stamp.
const ACCEPTED: &str = "accepted";
/// Name of the file with all revocations, one per line.
const REVOKED: &str = "revoked";
/// Name of the file with the usage of links with a quota.
const QUOTAS: &str = "quotas";

/// Stored stamps and revocations at the start.
pub struct StoredStamps {
    /// A stamp above every stamp that this node has ever used.
    pub base: u64,
    /// Highest stamp accepted from each peer.
    pub accepted: Vec<(PublicKey, u64)>,
    /// All revocations.
    pub revocations: Vec<Revocation>,
    /// Usage of links with a quota ([`super::quota`]).
    pub quotas: Vec<String>,
}

/// A change of the stored state, to be written to disk.
enum StateChange {
    Accepted(Vec<(PublicKey, u64)>),
    Revoked(Vec<Revocation>),
    /// Highest stamp that is reserved for this node.
    Reserved(u64),
    /// Last stamp that this node used.
    Used(u64),
    /// The stamps of this peer are forgotten.
    Forget(PublicKey),
    /// Usage of links with a quota.
    Quotas(String),
}

/// Handle of the thread that writes changes, so that a slow disk delays no packet.
pub struct StateWriter {
    changes: SyncSender<StateChange>,
    /// Closes once the last change is written.
    ended: Receiver<()>,
    reserved: u64,
}

impl StateWriter {
    /// Reads the state in `directory`, creates the directory if missing, and starts the thread.
    ///
    /// `unix_ns` is the wall clock.
    ///
    /// If something cannot be read or written, the log has the reason and the node runs without it. The node then
    /// accepts no stamp twice within this run, and tries to write again with every change.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn open(directory: &Path, unix_ns: u64, threads: &Threads) -> io::Result<(StateWriter, StoredStamps)> {
        let log = threads.log();
        let mut files = Files::new(directory);
        let mut troubles = Vec::new();
        let (revocations, quotas) = files.read(&mut troubles);
        let base = unix_ns.max(files.reserved);
        let reserved = reserve(unix_ns, base);
        if let Err(why) = files.apply(StateChange::Reserved(reserved)) {
            troubles.push(why);
        }
        if !troubles.is_empty() {
            let what = files.describe(&troubles.join("; "));
            log.error(format_args!("{what}: the node continues without this part of its state"));
        }
        let accepted = files.accepted.iter().map(|(key, stamp)| (*key, *stamp)).collect();
        let (changes, queue) = sync_channel(256);
        let (ends, ended) = sync_channel(0);
        threads.spawn("weft-state", move |pulse| {
            let _ends: SyncSender<()> = ends;
            files.keep(&queue, log, pulse)
        })?;
        Ok((StateWriter { changes, ended, reserved }, StoredStamps { base, accepted, revocations, quotas }))
    }

    /// Stores the highest accepted stamps.
    pub fn accepted(&self, stamps: Vec<(PublicKey, u64)>) {
        // If the queue is full, this change is dropped: the next one contains a higher stamp.
        let _ = self.send(StateChange::Accepted(stamps));
    }

    /// Stores all revocations. Returns false if the queue is full and the caller must try again.
    pub fn revoked(&self, revocations: Vec<Revocation>) -> bool {
        self.send(StateChange::Revoked(revocations))
    }

    /// Stores the usage of links with a quota. Returns false if the queue is full and the caller must try again.
    pub fn quotas(&self, text: String) -> bool {
        self.send(StateChange::Quotas(text))
    }

    /// Reserves more stamps if needed. `used` is this node's last stamp, and `unix_ns` the wall clock.
    pub fn reached(&mut self, unix_ns: u64, used: u64) {
        if used.saturating_add(nanos(REFILL)) > self.reserved {
            let reserved = reserve(unix_ns, used);
            if reserved > self.reserved && self.send(StateChange::Reserved(reserved)) {
                self.reserved = reserved;
            }
        }
    }

    /// Deletes the stored stamps of a peer.
    ///
    /// Returns false if the queue is full and the caller must try again.
    pub fn forget(&self, key: PublicKey) -> bool {
        self.send(StateChange::Forget(key))
    }

    /// Writes the waiting changes and `used`, this node's last stamp. The next run continues with higher stamps.
    ///
    /// Waits for at most `LAST_WORDS`.
    pub fn close(self, used: u64) {
        let _ = self.send(StateChange::Used(used));
        let StateWriter { changes, ended, .. } = self;
        drop(changes);
        let _ = ended.recv_timeout(LAST_WORDS);
    }

    /// Passes a change to the thread. Returns false if the queue is full. A change after the thread's end is dropped.
    fn send(&self, change: StateChange) -> bool {
        !matches!(self.changes.try_send(change), Err(TrySendError::Full(_)))
    }
}

struct Files {
    directory: PathBuf,
    /// Stamp up to which the earlier run had reserved, as read at the start.
    reserved: u64,
    accepted: BTreeMap<PublicKey, u64>,
}

/// Returns the stamp to reserve after `used`.
///
/// Stamps follow the clock, or rise by one each where they are ahead of it.
fn reserve(unix_ns: u64, used: u64) -> u64 {
    unix_ns.saturating_add(nanos(RESERVE)).max(used.saturating_add(RESERVE_STEPS)).min(MAX_STAMP)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Files {
    fn new(directory: &Path) -> Files {
        Files { directory: directory.to_owned(), reserved: 0, accepted: BTreeMap::new() }
    }

    /// Reads everything readable and returns revocations and usage. Adds messages about the rest to `troubles`.
    fn read(&mut self, troubles: &mut Vec<String>) -> (Vec<Revocation>, Vec<String>) {
        let directory = match Directory::make(&self.directory, 0o700, Owner::Parent) {
            Ok(directory) => directory,
            Err(why) => {
                troubles.push(why.to_string());
                return (Vec::new(), Vec::new());
            }
        };
        self.reserved = lines(&directory, STAMP, parse_stamp, troubles).into_iter().max().unwrap_or(0);
        self.accepted = lines(&directory, ACCEPTED, parse_accepted, troubles).into_iter().collect();
        let revoked = lines(&directory, REVOKED, |line| line.parse().ok(), troubles);
        (revoked, lines(&directory, QUOTAS, |line| Some(line.to_owned()), troubles))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let directory = Directory::make(&self.directory, 0o700, Owner::Parent).map_err(|why| why.to_string())?;
        directory.write(name, text.as_bytes()).map_err(|why| format!("{name}: {why}"))
    }

    fn write_accepted(&self) -> Result<(), String> {
        let lines: String = self.accepted.iter().map(|(key, stamp)| format!("{key} {stamp}\n")).collect();
        self.write(ACCEPTED, &lines)
    }

    fn describe(&self, why: &str) -> String {
        format!(
            "cannot read or write the node's state in directory {}: {why}: check its permissions and free space",
            self.directory.display()
        )
    }

    fn keep(mut self, queue: &Receiver<StateChange>, log: Log, pulse: &Pulse) -> Result<(), String> {
        while let Ok(change) = pulse.resting(|| queue.recv()) {
            // A write to the disk may take any time, so the watchdog does not watch this thread meanwhile.
            if let Err(why) = pulse.resting(|| self.apply(change)) {
                log.error(self.describe(&why));
            }
        }
        Ok(())
    }

    fn apply(&mut self, change: StateChange) -> Result<(), String> {
        match change {
            StateChange::Accepted(stamps) => {
                for (key, stamp) in stamps {
                    let highest = self.accepted.entry(key).or_default();
                    *highest = stamp.max(*highest);
                }
                self.write_accepted()
            }
            StateChange::Forget(key) => {
                self.accepted.remove(&key);
                self.write_accepted()
            }
            StateChange::Revoked(revocations) => {
                let lines: String = revocations.iter().map(|revocation| format!("{revocation}\n")).collect();
                self.write(REVOKED, &lines)
            }
            StateChange::Quotas(text) => self.write(QUOTAS, &text),
            StateChange::Reserved(stamp) | StateChange::Used(stamp) => self.write(STAMP, &format!("{stamp}\n")),
        }
    }
}

/// Parses the lines of `name`; leaves out malformed lines and adds messages about them to `troubles`.
fn lines<T>(
    directory: &Directory,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
    troubles: &mut Vec<String>,
) -> Vec<T> {
    let content = match directory.read(name, MAX_BYTES) {
        Ok(content) => content,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(why) => {
            troubles.push(format!("{name}: {why}"));
            return Vec::new();
        }
    };
    let text = String::from_utf8_lossy(&content);
    let parsed: Vec<Option<T>> = text.lines().map(parse).collect();
    match parsed.iter().filter(|line| line.is_none()).count() {
        0 => {}
        damaged => {
            troubles.push(format!("file {name}: {damaged} of {} lines are damaged and were ignored", parsed.len()));
        }
    }
    parsed.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::log::Level;
    use weft_session::RootKey;

    #[test]
    fn stamps_survive_and_rise_even_when_the_clock_falls_back() {
        let directory = std::env::temp_dir().join(format!("weft-state-{}", std::process::id()));
        let threads = Threads::start(Log::new(Level::Error), || ()).unwrap();
        let mut files = Files::new(&directory);
        let (_, first) = StateWriter::open(&directory, 1_000, &threads).unwrap();
        assert_eq!((first.base, first.accepted.len()), (1_000, 0));
        files.apply(StateChange::Accepted(vec![(PublicKey([7; 32]), 9)])).unwrap();
        files.apply(StateChange::Accepted(vec![(PublicKey([7; 32]), 5)])).unwrap();
        let revocation = RootKey::from_seed([1; 32]).revoke(&PublicKey([7; 32]), 5);
        files.apply(StateChange::Revoked(vec![revocation])).unwrap();
        let (_, second) = StateWriter::open(&directory, 10, &threads).unwrap();
        assert_eq!((first.revocations.len(), &second.revocations[..]), (0, &[revocation][..]));
        assert!(second.base > first.base);
        assert_eq!(second.accepted, [(PublicKey([7; 32]), 9)]);
        std::fs::remove_dir_all(&directory).unwrap();
    }
    #[test]
    fn intact_lines_of_damaged_state_are_kept() {
        let directory = std::env::temp_dir().join(format!("weft-damaged-state-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let key = PublicKey([7; 32]);
        let accepted = format!("{key} 9\nnoise\n{} 18446744073709551615\n", PublicKey([8; 32])).into_bytes();
        std::fs::write(directory.join(ACCEPTED), [&accepted[..], b"\xff\xfe"].concat()).unwrap();
        std::fs::write(directory.join(STAMP), "18446744073709551615\n").unwrap();
        std::fs::create_dir(directory.join(REVOKED)).unwrap();
        let mut troubles = Vec::new();
        let (mut files, expected) = (Files::new(&directory), [(key, 9)]);
        assert!(files.read(&mut troubles).0.is_empty());
        assert_eq!(
            troubles[..2],
            [
                "file stamp: 1 of 1 lines are damaged and were ignored",
                "file accepted: 3 of 4 lines are damaged and were ignored"
            ]
        );
        assert!(troubles[2].starts_with("revoked: weft cannot use a directory at this path"), "{troubles:?}");
        let threads = Threads::start(Log::new(Level::Error), || ()).unwrap();
        let (_, stamps) = StateWriter::open(&directory, 10, &threads).unwrap();
        assert_eq!((stamps.base, &stamps.accepted[..]), (10, &expected[..]));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    /// Property: undamaged lines are read unchanged, and no stamp is above the highest valid one.
    #[test]
    fn garbage_at_random_bytes_costs_the_lines_it_hits() {
        let directory = std::env::temp_dir().join(format!("weft-garbage-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let accepted: Vec<(PublicKey, u64)> = (1..=20).map(|n| (PublicKey([n; 32]), u64::from(n) << 50)).collect();
        let mut rng = weft_units::Rng::new(28);
        for round in 0..400 {
            let mut files = Files::new(&directory);
            files.apply(StateChange::Accepted(accepted.clone())).unwrap();
            let path = directory.join(ACCEPTED);
            let mut bytes = std::fs::read(&path).unwrap();
            let whole = String::from_utf8(bytes.clone()).unwrap();
            let mut hit = std::collections::BTreeSet::new();
            for _ in 0..1 + rng.below(8) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
                let line = whole[..at].matches('\n').count();
                // A damaged line end joins its line with the next one.
                hit.extend([line, line + usize::from(whole.as_bytes()[at] == b'\n')]);
            }
            if rng.chance(0.3) {
                let len = rng.below(bytes.len() as u64) as usize;
                hit.extend(whole[..len].matches('\n').count()..accepted.len());
                bytes.truncate(len);
            }
            std::fs::write(&path, &bytes).unwrap();
            std::fs::write(directory.join(STAMP), (0..rng.below(30)).map(|_| rng.next_u64() as u8).collect::<Vec<_>>())
                .unwrap();
            let mut files = Files::new(&directory);
            files.read(&mut Vec::new());
            for (_, (key, stamp)) in accepted.iter().enumerate().filter(|(line, _)| !hit.contains(line)) {
                let read = files.accepted.get(key).copied().unwrap_or_default();
                assert!(read >= *stamp, "round {round}: {key} was lost though its line is whole");
            }
            assert!(files.reserved <= MAX_STAMP && files.accepted.values().all(|stamp| *stamp <= MAX_STAMP));
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
