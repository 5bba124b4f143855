//! Replacement of resolv.conf, and restoration of the previous file.
//!
//! The previous file keeps its inode under another name in the same directory. So it comes back with every byte, mode
//! and owner, and a symbolic link comes back as that link: no link is ever followed or written through. The first line
//! of weft's file names the node that wrote it. A file without that line belongs to another program and stays. Nodes of one
//! machine lock the directory while they change it.

use crate::files::Directory;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the file that resolvers read (resolv.conf(5)).
const FILE: &str = "resolv.conf";
/// Name of the previous file while weft's is in use.
pub const BEFORE: &str = "resolv.conf.before-weft";
/// Name of the new file before it replaces another.
const NEW: &str = "resolv.conf.new-weft";
/// Maximum length of a file that weft may have written, in bytes. A longer one belongs to another program.
const MAX_OWN: u64 = 1 << 16;
/// Maximum time that a node waits for another one of this machine to end its change. Then it goes on without a lock.
///
/// A change takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
/// Address of systemd-resolved for programs that read resolv.conf, systemd-resolved.service(8).
const STUBS: [&str; 2] = ["127.0.0.53", "127.0.0.54"];

/// File to which the name `resolv.conf` leads.
enum CurrentFile {
    /// The file that this node wrote.
    Own(Vec<u8>),
    /// Another file, or a symbolic link.
    Other,
    /// No file has this name.
    Absent,
}

/// The file `resolv.conf` in a directory.
pub struct ResolvConf {
    directory: PathBuf,
    first_line: String,
}

impl ResolvConf {
    /// Returns the file in `directory`, for the node with the control socket at `control`.
    pub fn new(directory: &Path, control: &Path) -> ResolvConf {
        let first_line = format!("# By the weft node at {control:?}, which puts {BEFORE} back when it ends.");
        ResolvConf { directory: directory.to_owned(), first_line }
    }

    /// Returns true if programs of this machine ask systemd-resolved.
    pub fn asks_resolved(&self) -> bool {
        let text = fs::read_to_string(self.directory.join(FILE)).unwrap_or_default();
        let target = fs::read_link(self.directory.join(FILE)).unwrap_or_default();
        target.to_string_lossy().contains("systemd/resolve/") || servers(&text).any(|server| STUBS.contains(&server))
    }

    /// Makes the file name exactly these servers and domains.
    ///
    /// # Errors
    /// Fails if the directory or the file cannot be changed. Then the present file stays.
    pub fn replace(&self, servers: &[IpAddr], domains: &[String]) -> io::Result<()> {
        let directory = Directory::open(&self.directory)?;
        let _lock = directory.lock_whole(PATIENCE);
        let text = self.text(servers, domains);
        match self.present(&directory)? {
            CurrentFile::Own(present) if present == text.as_bytes() => return Ok(()),
            CurrentFile::Own(_) => {}
            CurrentFile::Other => {
                remove(&directory, BEFORE)?;
                directory.link(FILE, BEFORE).map_err(|why| named(&directory, BEFORE, &why))?;
            }
            CurrentFile::Absent => remove(&directory, BEFORE)?,
        }
        self.place(&directory, &text).map_err(|why| named(&directory, FILE, &why))
    }

    fn place(&self, directory: &Directory, text: &str) -> io::Result<()> {
        remove(directory, NEW)?;
        let file = directory.create(NEW.as_ref(), 0o600, text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        directory.rename(NEW, FILE).inspect_err(|_| drop(directory.remove(NEW.as_ref())))
    }

    /// Puts the previous file back if the present one is this node's. Returns true if it was put back.
    ///
    /// # Errors
    /// Fails if the directory cannot be changed.
    pub fn restore(&self) -> io::Result<bool> {
        let directory = match Directory::open(&self.directory) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
            directory => directory?,
        };
        let _lock = directory.lock_whole(PATIENCE);
        let has_before = fs::symlink_metadata(directory.held_path().join(BEFORE)).is_ok();
        match (self.present(&directory)?, has_before) {
            (CurrentFile::Own(_), true) => directory.rename(BEFORE, FILE)?,
            (CurrentFile::Own(_), false) => directory.remove(FILE.as_ref())?,
            // Another program has written its own file since, or weft was killed before it had replaced the file. The
            // previous file is then not needed. If another node wrote the present file, that node still needs it.
            (CurrentFile::Other, true) if !self.is_of_a_node() => {
                directory.remove(BEFORE.as_ref())?;
                return Ok(false);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn is_of_a_node(&self) -> bool {
        fs::read_to_string(self.directory.join(FILE)).is_ok_and(|text| text.starts_with("# By the weft node at "))
    }

    fn present(&self, directory: &Directory) -> io::Result<CurrentFile> {
        match directory.read(FILE, MAX_OWN) {
            Ok(content) if content.starts_with(self.first_line.as_bytes()) => Ok(CurrentFile::Own(content)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(CurrentFile::Absent),
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => Err(named(directory, FILE, &why)),
            // `read` refuses symbolic links and files with two names. Weft's own file is neither.
            _ => Ok(CurrentFile::Other),
        }
    }

    fn text(&self, servers: &[IpAddr], domains: &[String]) -> String {
        let mut text = format!("{}\n", self.first_line);
        if !domains.is_empty() {
            let _ = writeln!(text, "search {}", domains.join(" "));
        }
        for server in servers {
            let _ = writeln!(text, "nameserver {server}");
        }
        text
    }
}

/// Returns the servers that the text of a resolv.conf names.
pub fn servers(text: &str) -> impl Iterator<Item = &str> {
    let server = |line: &'_ str| line.split_whitespace().next() == Some("nameserver");
    text.lines().filter(move |line| server(line)).filter_map(|line| line.split_whitespace().nth(1))
}

fn remove(directory: &Directory, name: &str) -> io::Result<()> {
    match directory.remove(name.as_ref()) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|why| named(directory, name, &why)),
    }
}

fn named(directory: &Directory, name: &str, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), directory.failed(name, why))
}

#[cfg(test)]
mod tests;
