//! Parsing of `[metrics]`: the address at which Prometheus fetches metrics.

use super::read::{At, Section};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// An address that only this machine reaches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetricsAddress {
    /// Address and port on the loopback interface.
    Loopback(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

/// Parses `[metrics]`. A relative path of a socket is relative to `directory`.
pub fn read(mut section: Section<'_, '_>, directory: &Path) -> Option<At<MetricsAddress>> {
    let listen = section
        .parsed("listen", "\"127.0.0.1:9469\" or \"unix:/run/weft/metrics.sock\"", |text| address(text, directory));
    if !section.has("listen") {
        section
            .missing("listen", "for example listen = \"127.0.0.1:9469\"; without [metrics] the node serves no metrics");
    }
    section.finish();
    listen
}

fn address(text: &str, directory: &Path) -> Result<MetricsAddress, &'static str> {
    match text.strip_prefix("unix:") {
        Some("") => return Err("the socket path is missing after `unix:`: add the path of the metrics socket"),
        Some(path) => return Ok(MetricsAddress::Unix(directory.join(path))),
        None => {}
    }
    let address: SocketAddr = text.parse().map_err(|_| "expected an IP address and a port, or unix: and a path")?;
    if !address.ip().is_loopback() {
        return Err("metrics have neither encryption nor a password: only a loopback address is accepted");
    }
    if address.port() == 0 {
        return Err("metrics cannot have port 0: write a port from 1 to 65535");
    }
    Ok(MetricsAddress::Loopback(address))
}
