//! What outlives the process: handshake stamps, ours and those accepted from peers, and what was revoked.

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

/// Our stamps are reserved ahead by this much, so that a crash repeats none.
const RESERVE: Duration = Duration::from_secs(60);
/// They are reserved anew once so little of that is left.
const REFILL: Duration = Duration::from_secs(30);
/// Where our stamps are ahead of the clock they rise by one each. So many are reserved then, so that a node that crashes again and again
/// stays within [`RESERVE`] of the clock.
const RESERVE_STEPS: u64 = 1_000_000;
/// How long the last changes may take to be written.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// No state file is longer, in bytes.
const MAX_BYTES: u64 = 8 << 20;
/// The stamp up to which this node's own are reserved.
const STAMP: &str = "stamp";
/// The highest stamp accepted from each peer, a line each: key, stamp.
const ACCEPTED: &str = "accepted";
/// What was revoked, a line each.
const REVOKED: &str = "revoked";

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
    /// Our stamps are reserved up to this one.
    Reserved(u64),
    /// This one was the last we used.
    Used(u64),
    /// Nothing is remembered of this peer any more.
    Forget(PublicKey),
}

/// Hands changes to a thread of its own: a slow disk never holds up a packet.
pub struct Keeper {
    changes: SyncSender<Change>,
    /// Ends once the last change is written.
    ended: Receiver<()>,
    reserved: u64,
}

impl Keeper {
    /// Reads the state in `directory`, which is made if missing, and starts to keep it. `unix_ns` is the wall clock.
    ///
    /// What cannot be read or written is said in the log, and the node goes on without it: it accepts no stamp twice within this run,
    /// and tries again to write with every change.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn open(directory: &Path, unix_ns: u64, threads: &Threads) -> io::Result<(Keeper, Stamps)> {
        let log = threads.log();
        let mut files = Files::new(directory);
        let mut troubles = Vec::new();
        let revocations = files.read(&mut troubles);
        let base = unix_ns.max(files.reserved);
        let reserved = reserve(unix_ns, base);
        if let Err(why) = files.apply(Change::Reserved(reserved)) {
            troubles.push(why);
        }
        if !troubles.is_empty() {
            log.error(format_args!("{}: the node goes on without", files.describe(&troubles.join("; "))));
        }
        let accepted = files.accepted.iter().map(|(key, stamp)| (*key, *stamp)).collect();
        let (changes, queue) = sync_channel(256);
        let (ends, ended) = sync_channel(0);
        threads.spawn("weft-state", move |pulse| {
            let _ends: SyncSender<()> = ends;
            files.keep(&queue, log, pulse)
        })?;
        Ok((Keeper { changes, ended, reserved }, Stamps { base, accepted, revocations }))
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

    /// Our own stamps have come to `used`, and the wall clock to `unix_ns`.
    pub fn reached(&mut self, unix_ns: u64, used: u64) {
        if used.saturating_add(nanos(REFILL)) > self.reserved {
            let reserved = reserve(unix_ns, used);
            if reserved > self.reserved && self.send(Change::Reserved(reserved)) {
                self.reserved = reserved;
            }
        }
    }

    /// Forgets what was accepted from a peer; false if that has to be said again.
    pub fn forget(&self, key: PublicKey) -> bool {
        self.send(Change::Forget(key))
    }

    /// Writes what waits, and `used`, the last stamp that was used: the next run goes on there. The disk has little time for it.
    pub fn close(self, used: u64) {
        let _ = self.send(Change::Used(used));
        let Keeper { changes, ended, .. } = self;
        drop(changes);
        let _ = ended.recv_timeout(LAST_WORDS);
    }

    /// Whether there was room for it; nobody is left to take it where the thread has ended.
    fn send(&self, change: Change) -> bool {
        !matches!(self.changes.try_send(change), Err(TrySendError::Full(_)))
    }
}

struct Files {
    directory: PathBuf,
    /// As it was found.
    reserved: u64,
    accepted: BTreeMap<PublicKey, u64>,
}

/// The stamp to reserve where `used` was or may have been used. Stamps follow the clock, or rise by one each where they are ahead of it.
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

    /// Reads all that can be read, and gives the revocations; what is wrong is added to `troubles`.
    fn read(&mut self, troubles: &mut Vec<String>) -> Vec<Revocation> {
        let directory = match Directory::make(&self.directory, 0o700, Owner::Parent) {
            Ok(directory) => directory,
            Err(why) => {
                troubles.push(why.to_string());
                return Vec::new();
            }
        };
        self.reserved = lines(&directory, STAMP, parse_stamp, troubles).into_iter().max().unwrap_or(0);
        self.accepted = lines(&directory, ACCEPTED, parse_accepted, troubles).into_iter().collect();
        lines(&directory, REVOKED, |line| line.parse().ok(), troubles)
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
        format!("state in {}: {why}", self.directory.display())
    }

    fn keep(mut self, queue: &Receiver<Change>, log: Log, pulse: &Pulse) -> Result<(), String> {
        while let Ok(change) = pulse.resting(|| queue.recv()) {
            // A disk takes as long as it likes.
            if let Err(why) = pulse.resting(|| self.apply(change)) {
                log.error(self.describe(&why));
            }
        }
        Ok(())
    }

    fn apply(&mut self, change: Change) -> Result<(), String> {
        match change {
            Change::Accepted(stamps) => {
                for (key, stamp) in stamps {
                    let highest = self.accepted.entry(key).or_default();
                    *highest = stamp.max(*highest);
                }
                self.write_accepted()
            }
            Change::Forget(key) => {
                self.accepted.remove(&key);
                self.write_accepted()
            }
            Change::Revoked(revocations) => {
                let lines: String = revocations.iter().map(|revocation| format!("{revocation}\n")).collect();
                self.write(REVOKED, &lines)
            }
            Change::Reserved(stamp) | Change::Used(stamp) => self.write(STAMP, &format!("{stamp}\n")),
        }
    }
}

/// What `parse` makes of the lines of `name`; what it makes nothing of is left out and added to `troubles`.
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
        damaged => troubles.push(format!("{name}: {damaged} of {} lines are damaged", parsed.len())),
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
        let (_, first) = Keeper::open(&directory, 1_000, &threads).unwrap();
        assert_eq!((first.base, first.accepted.len()), (1_000, 0));
        files.apply(Change::Accepted(vec![(PublicKey([7; 32]), 9)])).unwrap();
        files.apply(Change::Accepted(vec![(PublicKey([7; 32]), 5)])).unwrap();
        let revocation = RootKey::from_seed([1; 32]).revoke(&PublicKey([7; 32]), 5);
        files.apply(Change::Revoked(vec![revocation])).unwrap();
        let (_, second) = Keeper::open(&directory, 10, &threads).unwrap();
        assert_eq!((first.revocations.len(), &second.revocations[..]), (0, &[revocation][..]));
        assert!(second.base > first.base);
        assert_eq!(second.accepted, [(PublicKey([7; 32]), 9)]);
        std::fs::remove_dir_all(&directory).unwrap();
    }
    #[test]
    fn what_is_whole_in_damaged_state_is_kept() {
        let directory = std::env::temp_dir().join(format!("weft-damaged-state-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let key = PublicKey([7; 32]);
        let accepted = format!("{key} 9\nnoise\n{} 18446744073709551615\n", PublicKey([8; 32])).into_bytes();
        std::fs::write(directory.join(ACCEPTED), [&accepted[..], b"\xff\xfe"].concat()).unwrap();
        std::fs::write(directory.join(STAMP), "18446744073709551615\n").unwrap();
        std::fs::create_dir(directory.join(REVOKED)).unwrap();
        let mut troubles = Vec::new();
        let (mut files, expected) = (Files::new(&directory), [(key, 9)]);
        assert!(files.read(&mut troubles).is_empty());
        assert_eq!(troubles[..2], ["stamp: 1 of 1 lines are damaged", "accepted: 3 of 4 lines are damaged"]);
        assert!(troubles[2].starts_with("revoked: it is a directory"), "{troubles:?}");
        let threads = Threads::start(Log::new(Level::Error), || ()).unwrap();
        let (_, stamps) = Keeper::open(&directory, 10, &threads).unwrap();
        assert_eq!((stamps.base, &stamps.accepted[..]), (10, &expected[..]));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    /// The lines that no byte of damage touched are read as they were, and no stamp is higher than a true one may be.
    #[test]
    fn garbage_at_random_bytes_costs_the_lines_it_hits() {
        let directory = std::env::temp_dir().join(format!("weft-garbage-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let accepted: Vec<(PublicKey, u64)> = (1..=20).map(|n| (PublicKey([n; 32]), u64::from(n) << 50)).collect();
        let mut rng = weft_units::Rng::new(28);
        for round in 0..400 {
            let mut files = Files::new(&directory);
            files.apply(Change::Accepted(accepted.clone())).unwrap();
            let path = directory.join(ACCEPTED);
            let mut bytes = std::fs::read(&path).unwrap();
            let whole = String::from_utf8(bytes.clone()).unwrap();
            let mut hit = std::collections::BTreeSet::new();
            for _ in 0..1 + rng.below(8) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
                let line = whole[..at].matches('\n').count();
                // A line's end that is gone joins it with the next one.
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
