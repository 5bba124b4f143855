//! Unix sockets at a path. Their names are resolved by the same rules as those of files.

use super::walk::{self, Owner};
use super::{CAREFULLY, Directory, held, refuse_links, refuse_unless, split};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect as connect_to, socket};
use nix::sys::stat::{Mode, SFlag, fstat, umask};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Name of a listening socket. Dropping it removes the name.
#[derive(Debug)]
pub struct SocketFile {
    directory: Directory,
    name: OsString,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = self.directory.remove(&self.name);
    }
}

/// Listens at `path` with `mode`, and creates a missing directory.
///
/// It replaces a socket at which no process listens any more.
///
/// # Errors
/// Returns `AddrInUse` if a process listens at `path`. Fails otherwise if something else has this name, or the
/// directory cannot be created or written.
pub fn bind(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    let (directory, name) = split(path)?;
    Directory::make(directory, 0o755, Owner::Caller)?.bind(name, mode)
}

/// Connects to the listener at `path`.
///
/// # Errors
/// Returns `NotFound` or `ConnectionRefused` if no process listens. Fails otherwise if something else has this name, or
/// the listener is too busy.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let (directory, name) = walk::place(path)?;
    let stream = UnixStream::from(call(&directory, &name)?);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

impl Directory {
    /// Listens at `name` in this directory, as [`bind`] does.
    ///
    /// # Errors
    /// Fails as [`bind`] does.
    pub fn bind(&self, name: &OsStr, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
        match call(&self.descriptor, name) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => self.remove(name)?,
            Err(why) if why.kind() == io::ErrorKind::InvalidInput => return Err(why),
            _ => return Err(Errno::EADDRINUSE.into()),
        }
        // The umask gives the socket its mode when it is created. A later change would have to use the name again,
        // which another user may have replaced.
        let before = umask(Mode::from_bits_truncate(!mode & 0o777));
        let bound = UnixListener::bind(self.held_path().join(name));
        umask(before);
        let listener = bound?;
        let directory = Directory { descriptor: self.descriptor.try_clone()?, path: self.path.clone() };
        Ok((listener, SocketFile { directory, name: name.to_owned() }))
    }
}

/// Connects to the listener at `name` in `directory`, without waiting.
///
/// Opens and checks the socket file first.
fn call(directory: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let found = openat(directory, name, OFlag::O_PATH | CAREFULLY, Mode::empty())?;
    let stat = fstat(&found)?;
    refuse_unless(SFlag::S_IFSOCK, &stat)?;
    refuse_links(&stat)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let caller = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect_to(caller.as_raw_fd(), &UnixAddr::new(&held(found.as_raw_fd()))?)?;
    Ok(caller)
}
