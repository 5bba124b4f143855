//! Files in directories to which another user may write, such as the state directory when root uses it.
//!
//! [`Directory`] opens a directory once, component by component, and keeps its descriptor. Every later name is resolved
//! from that descriptor. The walk follows a symbolic link only in a directory that root and this process's user alone
//! can change. If a name in a `Directory` is a symbolic link, it is not followed. Reading refuses links, hard links,
//! FIFOs, sockets and directories; writing replaces or refuses them. This module must never open a file, or change its
//! content or owner, by its path. It must never wait for a FIFO or a listener.

mod socket;
mod walk;

pub use socket::{SocketFile, bind, connect};

use crate::entropy;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fsync, geteuid, linkat, unlinkat};
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
pub use walk::Owner;

/// Open flags: follow no link, do not wait for a FIFO, and acquire no controlling terminal.
const CAREFULLY: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY).union(OFlag::O_CLOEXEC);
/// Maximum time to wait for a lock. *Tuned* by hand: much longer than a process holds the lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// Interval between attempts to take a lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// An open directory, in which names are resolved without following links.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    /// The path by which the directory was opened. Only messages use it.
    path: PathBuf,
}

impl Directory {
    /// Opens the directory at `path`. An empty path is the current directory.
    ///
    /// # Errors
    /// Fails if it is missing, is not a directory, or is behind a link that another user may have planted.
    pub fn open(path: &Path) -> io::Result<Directory> {
        Directory::at(walk::to(path, None)?, path.to_owned())
    }

    /// Opens the directory at `path`. Creates missing components with the mode `mode` and the owner `owner`.
    ///
    /// # Errors
    /// Fails as [`Directory::open`] does, and if a component cannot be created.
    pub fn make(path: &Path, mode: u32, owner: Owner) -> io::Result<Directory> {
        Directory::at(walk::to(path, Some((Mode::from_bits_truncate(mode), owner)))?, path.to_owned())
    }

    /// Opens the directory `name` in this one.
    ///
    /// # Errors
    /// Fails if it is missing or no directory.
    pub fn enter(&self, name: &str) -> io::Result<Directory> {
        let entered = walk::enter(&self.descriptor, OsStr::new(name));
        Directory::at(entered.map_err(|why| self.refusal(OsStr::new(name), why))?, self.path.join(name))
    }

    /// Opens the directory `name` in this one, and creates it if it is missing.
    ///
    /// Only this directory's owner can access a new one.
    ///
    /// # Errors
    /// Fails as [`Directory::enter`] does, and if it cannot be created.
    pub fn make_in(&self, name: &str) -> io::Result<Directory> {
        match self.enter(name) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                let made = walk::make(&self.descriptor, OsStr::new(name), Mode::S_IRWXU, Owner::Parent)?;
                Directory::at(made, self.path.join(name))
            }
            result => result,
        }
    }

    fn at(directory: OwnedFd, path: PathBuf) -> io::Result<Directory> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Directory { descriptor: openat(&directory, ".", flags, Mode::empty())?, path })
    }

    /// Returns the path by which the directory was opened, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path that always leads to this directory, even if the directory is renamed.
    ///
    /// The path is valid while this value exists: in this process, and in a child until it executes another program.
    pub fn held_path(&self) -> PathBuf {
        held(self.descriptor.as_raw_fd())
    }

    /// Returns a message for a failed use of `name` in this directory.
    pub fn failed(&self, name: &str, why: &io::Error) -> String {
        format!("{}: {why}", self.path.join(name).display())
    }

    /// Opens the file `name` for reading.
    ///
    /// # Errors
    /// Fails if it is missing, is not a regular file, or has another name (hard link).
    pub fn open_to_read(&self, name: &str) -> io::Result<File> {
        self.open_file(OsStr::new(name), OFlag::O_RDONLY)
    }

    /// Reads the file `name`, of at most `limit` bytes.
    ///
    /// # Errors
    /// Fails as [`Directory::open_to_read`] does, and if the file is longer than `limit`.
    pub fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.open_to_read(name)?.take(limit.saturating_add(1)).read_to_end(&mut content)?;
        match content.len() as u64 > limit {
            true => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "file {name} is longer than {limit} bytes, the most that weft reads of this file: move it away"
                ),
            )),
            false => Ok(content),
        }
    }

    /// Reads the file `name` as text.
    ///
    /// # Errors
    /// Fails as [`Directory::read`] does, and if the file is not UTF-8.
    pub fn read_text(&self, name: &str, limit: u64) -> io::Result<String> {
        let is_no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8: move it away");
        String::from_utf8(self.read(name, limit)?).map_err(is_no_text)
    }

    /// Replaces `name` atomically by a file with `content`, for this directory's owner alone.
    ///
    /// Readers see the old or the new file, even after a crash.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if `name` is a directory.
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.replace(name, content).map(drop)
    }

    /// Replaces `name` atomically by an empty file, and returns it for writing.
    ///
    /// Only this directory's owner can access it.
    ///
    /// # Errors
    /// Fails as [`Directory::write`] does.
    pub fn replace_with_empty(&self, name: &str) -> io::Result<File> {
        self.replace(name, &[])
    }

    /// Renames the file `name` to `to`, and replaces any file of that name.
    ///
    /// # Errors
    /// Fails if `name` does not exist, or if `to` is a directory.
    pub fn rename(&self, name: &str, to: &str) -> io::Result<()> {
        renameat(&self.descriptor, name, &self.descriptor, to).map_err(|why| self.refusal(OsStr::new(to), why))?;
        self.sync()
    }

    /// Gives the file `name` a second name `to` (hard link). If `name` is a symbolic link, the link itself gets it.
    ///
    /// # Errors
    /// Fails if `name` does not exist, or if `to` exists.
    pub fn link(&self, name: &str, to: &str) -> io::Result<()> {
        linkat(&self.descriptor, name, &self.descriptor, to, AtFlags::empty())?;
        self.sync()
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<File> {
        let beside = beside(name)?;
        let file = self.create(OsStr::new(&beside), 0o600, content)?;
        let placed = self.give(&file).and_then(|()| {
            renameat(&self.descriptor, beside.as_str(), &self.descriptor, name)
                .map_err(|why| self.refusal(OsStr::new(name), why))
        });
        if let Err(why) = placed {
            let _ = self.remove(OsStr::new(&beside));
            return Err(why);
        }
        self.sync()?;
        Ok(file)
    }

    /// Creates the file `name` with `content`, owned by this process's user. Never replaces anything.
    ///
    /// # Errors
    /// Fails if the name exists, or if the file cannot be written. Then no file remains.
    pub fn create(&self, name: &OsStr, mode: u32, content: &[u8]) -> io::Result<File> {
        let flags = CAREFULLY | OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        let mut file = File::from(openat(&self.descriptor, name, flags, Mode::from_bits_truncate(mode))?);
        let written = file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| self.sync());
        match written {
            Ok(()) => Ok(file),
            Err(why) => {
                let _ = self.remove(name);
                Err(why)
            }
        }
    }

    /// Appends `content` to the file `name`, and creates it if it is missing.
    ///
    /// # Errors
    /// Fails as [`Directory::read`] does, and if the file cannot be written.
    pub fn append(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let name = OsStr::new(name);
        match self.create(name, 0o600, content) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(drop),
        }
        let mut file = self.open_file(name, OFlag::O_WRONLY | OFlag::O_APPEND)?;
        file.write_all(content)?;
        file.sync_all()
    }

    /// Locks the file `name`, and creates it if it is missing. When the returned file is dropped, the lock ends.
    ///
    /// # Errors
    /// Fails as [`Directory::read`] does, and if another process keeps it locked.
    pub fn lock(&self, name: &str) -> io::Result<File> {
        let file = match self.create(OsStr::new(name), 0o600, &[]) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                self.open_file(OsStr::new(name), OFlag::O_RDWR)?
            }
            created => created.and_then(|file| self.give(&file).map(|()| file))?,
        };
        locked(file, LOCK_PATIENCE)
    }

    /// Locks the directory itself against other callers of this function.
    ///
    /// When the returned file is dropped, the lock ends. Any user who can read the directory can keep it locked. The
    /// function therefore waits at most `patience`, and then returns `None`.
    pub fn lock_whole(&self, patience: Duration) -> Option<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        locked(File::from(openat(&self.descriptor, ".", flags, Mode::empty()).ok()?), patience).ok()
    }

    /// Returns the names in the directory, except those that are not UTF-8.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut names = Vec::new();
        for entry in Dir::openat(&self.descriptor, ".", flags, Mode::empty())?.iter() {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    /// Removes the name of a file. It never removes a directory.
    ///
    /// # Errors
    /// Fails if the name does not exist, or cannot be removed.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        unlinkat(&self.descriptor, name, UnlinkatFlags::NoRemoveDir).map_err(|why| self.refusal(name, why))?;
        self.sync()
    }

    fn open_file(&self, name: &OsStr, flags: OFlag) -> io::Result<File> {
        let file = openat(&self.descriptor, name, flags | CAREFULLY, Mode::empty());
        let file = file.map_err(|why| self.refusal(name, why))?;
        let stat = fstat(&file)?;
        refuse_unless(SFlag::S_IFREG, &stat)?;
        refuse_links(&stat)?;
        Ok(file.into())
    }

    /// Returns the error for a failed use of `name`.
    ///
    /// If the existing file is of a kind that cannot be used, the message states this kind. Otherwise the error is
    /// `why`.
    fn refusal(&self, name: &OsStr, why: Errno) -> io::Error {
        let is_about_kind = matches!(why, Errno::ELOOP | Errno::ENXIO | Errno::EISDIR | Errno::ENOTDIR);
        match fstatat(&self.descriptor, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) if is_about_kind => not_expected(&stat),
            _ => why.into(),
        }
    }

    /// Changes the owner of a file that root created here to the owner of this directory.
    fn give(&self, made: impl AsFd) -> io::Result<()> {
        walk::give(made, &self.descriptor)
    }

    /// Writes the directory's entries to disk (fsync). A file system that cannot do this causes no error.
    fn sync(&self) -> io::Result<()> {
        match fsync(&self.descriptor) {
            Err(Errno::EINVAL) => Ok(()),
            result => Ok(result?),
        }
    }
}

/// Opens the file at `path` for reading.
///
/// In a directory that other users may write, a file with several names (hard links) is refused.
///
/// # Errors
/// Fails if it is missing, is not a regular file, or is behind a link that another user may have planted.
pub fn open(path: &Path) -> io::Result<File> {
    let (directory, name) = walk::place(path)?;
    let file = openat(&directory, name.as_os_str(), OFlag::O_RDONLY | CAREFULLY, Mode::empty())?;
    let stat = fstat(&file)?;
    refuse_unless(SFlag::S_IFREG, &stat)?;
    if !walk::is_trusted(&directory)? {
        refuse_links(&stat)?;
    }
    Ok(file.into())
}

/// Creates a new file at `path`, owned by this process's user.
///
/// # Errors
/// Fails as [`Directory::open`] and [`Directory::create`] do.
pub fn create(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let (directory, name) = split(path)?;
    Directory::open(directory)?.create(name, mode, content).map(drop)
}

/// Splits a path into its directory and its last name.
fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = path.file_name().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/")).ok_or(Errno::EISDIR)?;
    Ok((path.parent().unwrap_or(Path::new("")), name))
}

/// Locks a file or directory and returns it. Waits at most `patience` for another process to unlock it.
fn locked(file: File, patience: Duration) -> io::Result<File> {
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_INTERVAL),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "another process keeps it locked: end that process, which `fuser` names",
                ));
            }
            Err(TryLockError::Error(why)) => return Err(why),
        }
    }
}

/// Returns a temporary name that others cannot predict, for a new file that will be renamed to `name`.
fn beside(name: &str) -> io::Result<String> {
    let random: String = entropy::seed()?.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!(".{name}.{random}"))
}

/// Returns a path that leads to the file that this process has open as `descriptor`.
fn held(descriptor: RawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{descriptor}"))
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

fn refuse_unless(expected: SFlag, stat: &FileStat) -> io::Result<()> {
    if kind(stat) == expected { Ok(()) } else { Err(not_expected(stat)) }
}

fn not_expected(stat: &FileStat) -> io::Error {
    let found = match kind(stat) {
        SFlag::S_IFLNK => "a symbolic link",
        SFlag::S_IFIFO => "a FIFO",
        SFlag::S_IFDIR => "a directory",
        SFlag::S_IFSOCK => "a socket",
        SFlag::S_IFREG => "a file",
        _ => "a device",
    };
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("weft cannot use {found} at this path: move it away, or choose another path"),
    )
}

/// Refuses a file with several names (hard links): one of them may belong to another directory.
fn refuse_links(stat: &FileStat) -> io::Result<()> {
    match stat.st_nlink {
        0 | 1 => Ok(()),
        names => {
            let why = format!(
                "the file has {names} names (hard links), so another program may use it by another name: move it away; \
                 its other names stay"
            );
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}

/// Returns true if root or this process's user owns the file.
fn is_own(stat: &FileStat) -> bool {
    stat.st_uid == 0 || stat.st_uid == geteuid().as_raw()
}

fn owner(stat: &FileStat) -> (Uid, Gid) {
    (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))
}
