//! Clients with OpenVPN: Debian's own server runs beside the node; here are its files and what its clients are given.

pub mod clients;
pub mod pki;
pub mod profile;
pub mod server;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Where a node with the state directory `state` keeps all this.
pub fn directory(state: &Path) -> PathBuf {
    state.join("openvpn")
}

/// Writes a file for its owner's eyes only, in the place of an older one if there is one.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let next = path.with_extension("next");
    let written = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, path)
    };
    written().map_err(|why: io::Error| format!("{}: {why}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}
