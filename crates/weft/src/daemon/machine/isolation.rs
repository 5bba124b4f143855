//! Isolation of an edge's clients.
//!
//! With it the kernel does not forward packets from a client to another client's address.
//!
//! Without it the kernel forwards between clients, even of one device: OpenVPN's server hands it every packet as long
//! as `client-to-client` is off. Routing rules refuse such packets, for each device and each pool. They precede all
//! rules except that of the local table.

use crate::config::access::Access;
use std::io;
use weft_engine::Prefix;
use weft_io::netlink::{Configure, Prohibition};

/// The routing rules of the isolation. Dropping the value removes the rules.
pub struct Isolation {
    devices: Vec<String>,
}

impl Isolation {
    /// Sets the rules if clients are to be isolated.
    ///
    /// It first removes the rules of an earlier run that was killed.
    ///
    /// # Errors
    /// Returns the kernel's error; without the rules clients would reach each other.
    pub fn start(access: &Access) -> io::Result<Isolation> {
        let mut configure = Configure::open()?;
        // Created before the rules, so that they are removed if a later one fails.
        let isolation = Isolation { devices: access.devices().map(str::to_owned).collect() };
        for device in &isolation.devices {
            configure.allow_all(device)?;
        }
        let pools = access.pools().map(|pool| pool.value.prefix()).filter(|_| access.isolate);
        for Prefix { address: destination, length: prefix_len } in pools {
            for incoming in &isolation.devices {
                configure.prohibit(&Prohibition { incoming, destination, prefix_len })?;
            }
        }
        Ok(isolation)
    }
}

impl Drop for Isolation {
    fn drop(&mut self) {
        let Ok(mut configure) = Configure::open() else { return };
        for device in &self.devices {
            // If this fails, the next start removes the rules.
            let _ = configure.allow_all(device);
        }
    }
}
