//! Runs the real program `weft-lab`, with the program `weft` in the same directory.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

const WEFT_LAB: &str = env!("CARGO_BIN_EXE_weft-lab");

/// Runs `weft-lab`.
pub fn weft_lab(arguments: &[&str]) -> Output {
    Command::new(WEFT_LAB).args(arguments).output().unwrap()
}

/// Builds `weft` in the directory of `weft-lab`: cargo builds only the programs of the package under test.
///
/// A test run of the whole workspace has built it and sets `WEFT_IS_BUILT`. Another build would compile other features.
pub fn has_weft() -> bool {
    static BUILT: OnceLock<bool> = OnceLock::new();
    *BUILT.get_or_init(|| {
        if std::env::var_os("WEFT_IS_BUILT").is_some() {
            return true;
        }
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--locked", "-p", "weft"]);
        if WEFT_LAB.contains("/release/") {
            build.arg("--release");
        }
        build.status().is_ok_and(|status| status.success())
    })
}

/// Returns true if this machine can run the lab. Otherwise prints the missing requirement.
pub fn has_lab() -> bool {
    let tun = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let flags = if is_root { "-nm" } else { "-nmUr" };
    let namespace = Command::new("unshare").args([flags, "true"]).status();
    let has = tun.is_ok() && namespace.as_ref().is_ok_and(|status| status.success());
    if !has {
        eprintln!("skipped: no network namespace with a TUN device here ({tun:?}, {namespace:?})");
    }
    has && has_weft()
}

/// Returns the standard output of a program.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the standard error of a program.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A file that is removed at the end of the test.
pub struct Scenario(PathBuf);

impl Scenario {
    /// Writes a scenario.
    pub fn new(text: &str) -> Scenario {
        let name = format!("weft-lab-test-{}-{:x}.toml", std::process::id(), text.len());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Scenario(path)
    }

    /// Returns the name of the file.
    pub fn file(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
