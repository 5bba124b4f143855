//! A directory for the keys, configurations and sockets of one run.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "weft-lab-";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A private temporary directory. Dropping it deletes the directory with all files.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn new() -> io::Result<Scratch> {
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Scratch { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Deletes the temporary directories of labs that were killed: those whose process no longer exists.
pub(crate) fn remove_stale() {
    for directory in stale(&std::env::temp_dir(), PREFIX) {
        let _ = fs::remove_dir_all(directory);
    }
}

/// Returns the entries of `directory` whose names are `prefix` and the id of a process that has ended.
pub(crate) fn stale(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let is_stale = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(rest) = name.strip_prefix(prefix) else { return false };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_dead_processes_are_stale() {
        let alive = Scratch::new().unwrap();
        let dead = std::env::temp_dir().join(format!("{PREFIX}4194999-0"));
        fs::create_dir_all(&dead).unwrap();
        remove_stale();
        assert!(alive.path().exists() && !dead.exists());
        let path = alive.path().to_owned();
        drop(alive);
        assert!(!path.exists());
    }
}
