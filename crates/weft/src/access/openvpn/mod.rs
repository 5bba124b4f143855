//! Clients with OpenVPN: Debian's own server runs beside the node; here are its files and what its clients are given.

pub mod clients;
pub mod pki;
pub mod profile;
pub mod server;
pub mod wrap;

use crate::files::Directory;
use std::io;

/// Where a node keeps all this in its state directory.
const DIRECTORY: &str = "openvpn";
/// No file of it is longer, in bytes.
const MAX_BYTES: u64 = 1 << 20;

fn read(directory: &Directory, name: &str) -> Result<String, String> {
    directory.read_text(name, MAX_BYTES).map_err(|why| directory.failed(name, &why))
}

fn write(directory: &Directory, name: &str, text: &str) -> Result<(), String> {
    directory.write(name, text.as_bytes()).map_err(|why| directory.failed(name, &why))
}

/// The directory `name`; none where there is none yet.
fn enter(directory: &Directory, name: &str) -> Result<Option<Directory>, String> {
    match directory.enter(name) {
        Ok(entered) => Ok(Some(entered)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(directory.failed(name, &why)),
    }
}
