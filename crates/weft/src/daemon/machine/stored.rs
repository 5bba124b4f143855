//! TUN devices that outlive a run of the node in the store of the service manager.
//!
//! While the next run starts, such a device keeps its addresses and routes, and the kernel queues the packets of local
//! programs. Without a service manager a device ends with its run.

use crate::daemon::service;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use weft_io::stored;
use weft_io::tun::{TunConfig, TunDevice, TunError};

/// Devices of the last run, by name.
#[derive(Default)]
pub struct StoredDevices(BTreeMap<String, OwnedFd>);

impl StoredDevices {
    /// Takes the devices that the service manager stored and passed to this process.
    pub fn take() -> StoredDevices {
        StoredDevices(stored::take().into_iter().collect())
    }

    /// Opens a device, or continues with the stored one. Returns true if the device was stored.
    ///
    /// # Errors
    /// Returns the reason why the device cannot be opened, with advice.
    pub fn open(&mut self, name: &str, config: &TunConfig) -> Result<(TunDevice, bool), TunError> {
        if let Some(descriptor) = self.0.remove(name) {
            if let Ok(device) = TunDevice::adopt(descriptor, config) {
                return Ok((device, true));
            }
            // The stored descriptor is of no use: the device was removed meanwhile, or the unit stores other
            // descriptors, too.
            forget(name);
        }
        let device = TunDevice::open(config)?;
        service::store(name, &device);
        Ok((device, false))
    }
}

impl Drop for StoredDevices {
    /// Closes the stored devices that this run did not open, and removes them from the store.
    fn drop(&mut self) {
        self.0.keys().for_each(|name| forget(name));
    }
}

/// Ends the storage of a device, so that it ends with its last descriptor in this process.
pub fn forget(name: &str) {
    service::forget(name);
}
