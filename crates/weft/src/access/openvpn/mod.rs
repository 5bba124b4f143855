//! Clients with OpenVPN: Debian's own server runs beside the node; here are its files and what its clients are given.

pub mod clients;
pub mod pki;
pub mod profile;
pub mod server;

use super::files;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a node with the state directory `state` keeps all this.
pub fn directory(state: &Path) -> PathBuf {
    state.join("openvpn")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}
