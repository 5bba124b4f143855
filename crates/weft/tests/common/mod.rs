//! Running the real program in a directory of its own.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// The program under test.
pub const WEFT: &str = env!("CARGO_BIN_EXE_weft");

/// A directory that goes away with the test.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Process numbers are not enough: each namespace has its own.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        let name = format!("weft-test-{now}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Dir(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Makes a key file and gives the public key.
    pub fn key(&self, name: &str) -> String {
        let out = weft(&["keygen", "--out", self.path(name).to_str().unwrap()]);
        assert!(out.status.success(), "{}", stderr(&out));
        stdout(&out).trim().to_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn weft(args: &[&str]) -> Output {
    Command::new(WEFT).args(args).output().unwrap()
}

pub fn stdout(out: &Output) -> String {
    String::from_utf8(out.stdout.clone()).unwrap()
}

pub fn stderr(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

pub fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Whether this machine lets us do what these tests need; says what is missing.
pub fn has_tun() -> bool {
    let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let probe = namespace().args(["bash", "-c", PRELUDE]).output();
    match (tun, probe) {
        (Ok(_), Ok(probe)) if probe.status.success() => true,
        (tun, probe) => {
            eprintln!("skipped: no network namespace with a TUN device here ({tun:?}, {probe:?})");
            false
        }
    }
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A command in namespaces of its own, ended after a minute with everything it started.
pub fn namespace() -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "-nm"]);
    if !is_root() {
        command.arg("-Ur");
    }
    command
}

/// What every script begins with.
pub const PRELUDE: &str = "set -u; export PATH=$PATH:/usr/sbin:/sbin
    mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/netns && ip link set lo up";

/// Runs a script in namespaces of its own, in `dir`.
pub fn script(dir: &Dir, text: &str) -> Output {
    let text = format!("{PRELUDE}\ncd {}\nWEFT={WEFT}\n{text}", dir.0.display());
    namespace().args(["bash", "-c", &text]).output().unwrap()
}
