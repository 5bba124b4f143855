//! Keeps the clients of an edge from each other: what one sends to a client's address is not forwarded.
//!
//! The kernel forwards between clients, also of one device: OpenVPN's server hands it every packet as long as `client-to-client` is off.
//! Rules of the routing refuse that, for each device and each pool, ahead of all rules but the local table's.

use crate::config::access::Access;
use std::io;
use weft_engine::Prefix;
use weft_io::netlink::{Configure, Prohibition};

/// The rules; they go with it.
pub struct Isolation {
    devices: Vec<String>,
}

impl Isolation {
    /// Sets the rules where clients are to be kept apart, and takes away those of a run that could not.
    ///
    /// # Errors
    /// When the kernel refuses: clients would reach each other.
    pub fn start(access: &Access) -> io::Result<Isolation> {
        let mut configure = Configure::open()?;
        // From now on what is set is taken away again, even where the next rule fails.
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
            // Where it fails, the next start takes them away.
            let _ = configure.allow_all(device);
        }
    }
}
