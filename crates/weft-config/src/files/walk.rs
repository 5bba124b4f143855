//! Resolution of a path to a directory, one component at a time.
//!
//! A symbolic link is followed only in a directory that no other user can change.

use super::{is_own, owner, split};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, readlinkat};
use nix::sys::stat::{Mode, fstat, mkdirat};
use nix::unistd::{fchown, geteuid};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Maximum number of symbolic links in one path. Standard: Linux allows as many (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// Open flags for a directory in which names are resolved. They need no permission to list it.
const ON_THE_WAY: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Owner of a directory that is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// The user of this process.
    Caller,
    /// The owner of the parent directory.
    Parent,
}

/// Opens the directory at `path`. With `make_missing`, creates missing components with this mode and owner.
pub(super) fn to(path: &Path, make_missing: Option<(Mode, Owner)>) -> io::Result<OwnedFd> {
    from(start()?, path, make_missing)
}

/// Opens the directory that contains the last component of `path`. Returns the directory and that component's name.
///
/// If the last component is a symbolic link, the link is followed first. The returned name is thus not such a link.
pub(super) fn place(path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let (mut at, mut path) = (start()?, path.to_owned());
    for _ in 0..=MAX_LINKS {
        let (directory, name) = split(&path)?;
        at = from(at, directory, None)?;
        match followed(&at, name) {
            Ok(target) => path = target,
            // The name is not a symbolic link, or it does not exist. The caller opens or creates it.
            Err(Errno::EINVAL | Errno::ENOENT) => return Ok((at, name.to_owned())),
            Err(Errno::EPERM) => return Err(untrusted(name)),
            Err(why) => return Err(why.into()),
        }
    }
    Err(Errno::ELOOP.into())
}

fn start() -> nix::Result<OwnedFd> {
    open(".", ON_THE_WAY, Mode::empty())
}

fn from(mut at: OwnedFd, path: &Path, make_missing: Option<(Mode, Owner)>) -> io::Result<OwnedFd> {
    // Components in reverse order: the next one is the last.
    let mut pending: Vec<OsString> = components(path).collect();
    let mut links = 0;
    while let Some(name) = pending.pop() {
        at = match (enter(&at, &name), make_missing) {
            (Ok(entered), _) => entered,
            (Err(Errno::ENOENT), Some((mode, owner))) => make(&at, &name, mode, owner)?,
            (Err(Errno::ENOTDIR), _) if links < MAX_LINKS => {
                links += 1;
                pending.extend(components(&target(&at, &name)?));
                continue;
            }
            (Err(why), _) => return Err(why.into()),
        };
    }
    Ok(at)
}

fn components(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().rev().map(|component: Component<'_>| component.as_os_str().to_owned())
}

/// Opens the directory `name` in `at`. A symbolic link is an error.
pub(super) fn enter(at: impl AsFd, name: &OsStr) -> nix::Result<OwnedFd> {
    openat(at, name, ON_THE_WAY, Mode::empty())
}

/// Returns the target of the symbolic link `name` in `at`. An error has a message for the user.
fn target(at: &OwnedFd, name: &OsStr) -> io::Result<PathBuf> {
    followed(at, name).map_err(|why| match why {
        Errno::EINVAL => {
            let why =
                format!("`{}` in the path is not a directory: choose another path, or move it away", name.display());
            io::Error::new(io::ErrorKind::NotADirectory, why)
        }
        Errno::EPERM => untrusted(name),
        why => why.into(),
    })
}

/// Returns the target of the symbolic link `name` in `at`.
///
/// The error is `EINVAL` if it is not a symbolic link, and `EPERM` if other users may have planted it.
fn followed(at: &OwnedFd, name: &OsStr) -> nix::Result<PathBuf> {
    let target = readlinkat(at, name)?;
    if is_trusted(at)? { Ok(target.into()) } else { Err(Errno::EPERM) }
}

fn untrusted(name: &OsStr) -> io::Error {
    let name = name.display();
    let why = format!(
        "`{name}` in the path is a symbolic link that another user may have planted, because another user can write \
         its directory: move it away, or write a path without this link"
    );
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Returns true if no user but root and this process's own can change the names in `directory`.
pub(super) fn is_trusted(directory: &OwnedFd) -> nix::Result<bool> {
    let stat = fstat(directory)?;
    let is_writable_by_others = stat.st_mode & (Mode::S_IWGRP | Mode::S_IWOTH).bits() != 0;
    Ok(is_own(&stat) && !is_writable_by_others)
}

/// Creates the directory `name` in `at`, unless another process has created it meanwhile.
pub(super) fn make(at: &OwnedFd, name: &OsStr, mode: Mode, to: Owner) -> io::Result<OwnedFd> {
    let is_new = match mkdirat(at, name, mode) {
        Ok(()) => true,
        Err(Errno::EEXIST) => false,
        Err(why) => return Err(why.into()),
    };
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let made = openat(at, name, flags, Mode::empty())?;
    if is_new && to == Owner::Parent {
        give(&made, at)?;
    }
    Ok(made)
}

/// Changes the owner of a file that root created in `parent` to the owner of `parent`.
///
/// A file that is not root's was created by another user, and stays as it is.
pub(super) fn give(made: impl AsFd, parent: &OwnedFd) -> io::Result<()> {
    let (stat, parent) = (fstat(&made)?, fstat(parent)?);
    if !geteuid().is_root() || stat.st_uid != geteuid().as_raw() || stat.st_uid == parent.st_uid {
        return Ok(());
    }
    let (user, group) = owner(&parent);
    Ok(fchown(made, Some(user), Some(group))?)
}
