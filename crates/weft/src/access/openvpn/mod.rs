//! Clients of OpenVPN. The distribution's own OpenVPN server runs as a separate process.
//!
//! This module owns the server's files in the state directory, and the clients' profiles. The server's process is in
//! `daemon`.

pub mod certificate;
pub mod clients;
mod der;
pub mod pem;
pub mod pki;
pub mod profile;
pub mod server;
pub mod wrap;

use crate::files::Directory;
use std::io;

/// Name of the directory of the OpenVPN server's files, within the node's state directory.
const DIRECTORY: &str = "openvpn";
/// Maximum length of each file in the OpenVPN server's directory, in bytes. A longer file is an error.
const MAX_BYTES: u64 = 1 << 20;

fn read(directory: &Directory, name: &str) -> Result<String, String> {
    directory.read_text(name, MAX_BYTES).map_err(|why| directory.failed(name, &why))
}

fn write(directory: &Directory, name: &str, text: &str) -> Result<(), String> {
    directory.write(name, text.as_bytes()).map_err(|why| directory.failed(name, &why))
}

/// Opens the directory `name`. Returns `None` if it does not exist yet.
fn enter(directory: &Directory, name: &str) -> Result<Option<Directory>, String> {
    match directory.enter(name) {
        Ok(entered) => Ok(Some(entered)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(directory.failed(name, &why)),
    }
}
