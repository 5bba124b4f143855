//! Property: planted links, FIFOs and directories make no command change anything outside.
//!
//! The daemon's user plants them where the daemon and root's commands work.
//!
//! No command waits for a planted file. As root the directories belong to another user; without root that part is
//! skipped with a message.

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod daemon;
mod library;

use common::{Dir, is_root};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// User id of the directories' owner: `nobody` on every Linux.
const NOBODY: u32 = 65_534;

/// A kind of planted file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plant {
    LinkToFile,
    LinkToDirectory,
    LinkToNothing,
    HardLink,
    Fifo,
    Directory,
}

impl Plant {
    const ALL: [Plant; 6] = [
        Plant::LinkToFile,
        Plant::LinkToDirectory,
        Plant::LinkToNothing,
        Plant::HardLink,
        Plant::Fifo,
        Plant::Directory,
    ];

    /// Replaces the file at `path` by the plant.
    fn put(self, path: &Path, outside: &Outside) {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
            Ok(_) => fs::remove_file(path).unwrap(),
            Err(_) => {}
        }
        let parent = path.parent().unwrap();
        fs::create_dir_all(parent).unwrap();
        match self {
            Plant::LinkToFile => symlink(outside.0.join("file"), path).unwrap(),
            Plant::LinkToDirectory => symlink(outside.0.join("directory"), path).unwrap(),
            Plant::LinkToNothing => symlink(outside.0.join("missing"), path).unwrap(),
            Plant::HardLink => fs::hard_link(outside.0.join("file"), path).unwrap(),
            Plant::Fifo => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
            Plant::Directory => fs::create_dir(path).unwrap(),
        }
    }
}

/// Files and directories that no command may change.
struct Outside(PathBuf);

impl Outside {
    fn new(dir: &Dir) -> Outside {
        let outside = Outside(dir.path("outside"));
        // The outside contains all names of directories of clients, server and state, so that a command could overwrite
        // them.
        for directory in ["", "directory", "directory/clients", "directory/openvpn"] {
            fs::create_dir_all(outside.0.join(directory)).unwrap();
        }
        for file in
            ["file", "directory/stamp", "directory/access.lock", "directory/server.conf", "directory/control.sock"]
        {
            fs::write(outside.0.join(file), "outside\n").unwrap();
            fs::set_permissions(outside.0.join(file), fs::Permissions::from_mode(0o604)).unwrap();
        }
        outside
    }

    /// Returns name, content, owner, mode and modification time of all files.
    fn snapshot(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut directories = vec![self.0.clone()];
        while let Some(directory) = directories.pop() {
            let paths = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
            for path in paths.chain([directory.clone()]) {
                let stat = fs::symlink_metadata(&path).unwrap();
                let content = if stat.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
                let (owner, mode, changed) = ((stat.uid(), stat.gid()), stat.mode(), (stat.mtime(), stat.mtime_nsec()));
                found.push(format!("{} {content:?} {owner:?} {mode:o} {changed:?}", path.display()));
                if stat.is_dir() && path != directory {
                    directories.push(path);
                }
            }
        }
        found.sort();
        found
    }
}

/// Returns the path of `name` in `directory`. The directory itself if the name is empty.
fn below(directory: &Path, name: &str) -> PathBuf {
    if name.is_empty() { directory.to_owned() } else { directory.join(name) }
}

/// Gives `path` and everything below it to the daemon's user.
///
/// Without root it makes directories writable for others. It changes no link target.
fn give_to_nobody(path: &Path) {
    let stat = fs::symlink_metadata(path).unwrap();
    if stat.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_to_nobody(&entry.unwrap().path()));
    }
    if !is_root() {
        if stat.is_dir() {
            fs::set_permissions(path, fs::Permissions::from_mode(stat.mode() | 0o020)).unwrap();
        }
        return;
    }
    // A hard link is the outside's own file.
    if stat.is_dir() || (stat.is_file() && stat.nlink() == 1) {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// Copies a directory of files and directories.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            drop(fs::copy(entry.path(), target))
        }
    }
}

fn say_if_not_root() {
    if !is_root() {
        eprintln!("skipped: only root can give the directories to another user; they are this user's own here");
    }
}
