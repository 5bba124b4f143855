//! What outlives the process: handshake stamps, ours and those accepted from peers, and what was revoked.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;
use weft_session::{PublicKey, Revocation};

use super::log::Log;

/// Ours, reserved ahead by this much, so that a crash repeats none.
const RESERVE: Duration = Duration::from_secs(3_600);
/// No state file is longer, in bytes.
const MAX_BYTES: u64 = 8 << 20;

/// The stamps at the start.
pub struct Stamps {
    /// Above every stamp this node ever used.
    pub base: u64,
    /// The highest accepted from each peer.
    pub accepted: Vec<(PublicKey, u64)>,
    /// What was revoked.
    pub revocations: Vec<Revocation>,
}

/// What is to be written.
enum Change {
    Accepted(Vec<(PublicKey, u64)>),
    Revoked(Vec<Revocation>),
    /// Our stamps have come this far.
    Reached(u64),
}

/// Hands changes to a thread of its own: a slow disk never holds up a packet.
pub struct Keeper {
    changes: SyncSender<Change>,
}

impl Keeper {
    /// Reads the state in `directory`, which is made if missing, and starts to keep it. `unix_ns` is the wall clock.
    ///
    /// # Errors
    /// When the directory cannot be made, read or written.
    pub fn open(directory: &Path, unix_ns: u64, log: Log) -> io::Result<(Keeper, Stamps)> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut files = Files { directory: directory.to_owned(), reserved: 0, accepted: BTreeMap::new() };
        files.read()?;
        let base = unix_ns.max(files.reserved);
        files.reserve(base)?;
        let accepted = files.accepted.iter().map(|(key, stamp)| (*key, *stamp)).collect();
        let revocations = files.revocations()?;
        let (changes, queue) = sync_channel(256);
        thread::Builder::new().name("weft-state".to_owned()).spawn(move || files.keep(&queue, log))?;
        Ok((Keeper { changes }, Stamps { base, accepted, revocations }))
    }

    /// These are the highest stamps accepted by now.
    pub fn accepted(&self, stamps: Vec<(PublicKey, u64)>) {
        // Where there is no room, the next change of the same stamp says more.
        let _ = self.send(Change::Accepted(stamps));
    }

    /// These are all revocations by now; false if that has to be said again.
    pub fn revoked(&self, revocations: Vec<Revocation>) -> bool {
        self.send(Change::Revoked(revocations))
    }

    /// Our own stamps have come to `stamp`; to be told at least every half hour.
    pub fn reached(&self, stamp: u64) {
        let _ = self.send(Change::Reached(stamp));
    }

    /// Whether there was room for it; nobody is left to take it where the thread has ended.
    fn send(&self, change: Change) -> bool {
        !matches!(self.changes.try_send(change), Err(TrySendError::Full(_)))
    }
}

struct Files {
    directory: PathBuf,
    reserved: u64,
    accepted: BTreeMap<PublicKey, u64>,
}

impl Files {
    fn read(&mut self) -> io::Result<()> {
        self.reserved = self.text("stamp")?.trim().parse().unwrap_or(0);
        for line in self.text("accepted")?.lines() {
            let Some((key, stamp)) = line.split_once(' ') else { continue };
            if let (Ok(key), Ok(stamp)) = (key.parse(), stamp.parse()) {
                self.accepted.insert(key, stamp);
            }
        }
        Ok(())
    }

    /// What holds no revocation is left out: others will tell.
    fn revocations(&self) -> io::Result<Vec<Revocation>> {
        Ok(self.text("revoked")?.lines().filter_map(|line| line.parse().ok()).collect())
    }

    fn text(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        match File::open(self.directory.join(name)) {
            Ok(file) => file.take(MAX_BYTES).read_to_string(&mut text).map(|_| text),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(text),
            Err(why) => Err(why),
        }
    }

    /// Writes beside and renames: the file is the old one or the new one.
    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let new = self.directory.join(format!("{name}.new"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&new, self.directory.join(name))
    }

    fn reserve(&mut self, from: u64) -> io::Result<()> {
        self.reserved = from.saturating_add(RESERVE.as_nanos() as u64);
        self.write("stamp", &format!("{}\n", self.reserved))
    }

    fn keep(mut self, queue: &Receiver<Change>, log: Log) {
        while let Ok(change) = queue.recv() {
            if let Err(why) = self.apply(change) {
                log.error(format_args!("state in {}: {why}", self.directory.display()));
            }
        }
    }

    fn apply(&mut self, change: Change) -> io::Result<()> {
        match change {
            Change::Accepted(stamps) => {
                for (key, stamp) in stamps {
                    let highest = self.accepted.entry(key).or_default();
                    *highest = stamp.max(*highest);
                }
                let lines: String = self.accepted.iter().map(|(key, stamp)| format!("{key} {stamp}\n")).collect();
                self.write("accepted", &lines)
            }
            Change::Revoked(revocations) => {
                let lines: String = revocations.iter().map(|revocation| format!("{revocation}\n")).collect();
                self.write("revoked", &lines)
            }
            Change::Reached(stamp) => self.reserve(stamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::log::Level;
    use weft_session::RootKey;

    #[test]
    fn stamps_survive_and_rise_even_when_the_clock_falls_back() {
        let directory = std::env::temp_dir().join(format!("weft-state-{}", std::process::id()));
        let log = Log::new(Level::Error);
        let mut files = Files { directory: directory.clone(), reserved: 0, accepted: BTreeMap::new() };
        let (_, first) = Keeper::open(&directory, 1_000, log).unwrap();
        assert_eq!((first.base, first.accepted.len()), (1_000, 0));
        files.apply(Change::Accepted(vec![(PublicKey([7; 32]), 9)])).unwrap();
        files.apply(Change::Accepted(vec![(PublicKey([7; 32]), 5)])).unwrap();
        let revocation = RootKey::from_seed([1; 32]).revoke(&PublicKey([7; 32]), 5);
        files.apply(Change::Revoked(vec![revocation])).unwrap();
        let (_, second) = Keeper::open(&directory, 10, log).unwrap();
        assert_eq!((first.revocations.len(), &second.revocations[..]), (0, &[revocation][..]));
        assert!(second.base > first.base);
        assert_eq!(second.accepted, [(PublicKey([7; 32]), 9)]);
        fs::remove_dir_all(&directory).unwrap();
    }
}
