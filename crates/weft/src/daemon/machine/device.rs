//! A TUN device and the routes and rules that lead to it.

use crate::config::{Mtu, Tun as TunSettings, prefix};
use crate::daemon::machine::changes::{By, Change, Changes};
use crate::daemon::machine::stored::{self, StoredDevices};
use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use weft_engine::Prefix;
use weft_io::netlink::{Configure, DeviceRoute};
use weft_io::tun::{TunConfig, TunDevice, TunError};

/// Maximum number of pieces in one write: the virtio header, the packet's header and its slices.
///
/// A packet of more pieces is dropped.
const MAX_PIECES: usize = 80;
/// Length of the device's transmit queue, in packets.
///
/// A TUN device gives no back-pressure: packets that do not fit are dropped.
const QUEUE_PACKETS: u32 = 2_000;
/// Interface alias of a node's devices.
///
/// Other nodes on the machine do not use a device with this alias as a link.
pub const TUNNEL_ALIAS: &str = "weft tunnel";

/// An open TUN device.
pub struct Device {
    tun: TunDevice,
    /// Prefixes that have a route to the device.
    prefixes: BTreeSet<(IpAddr, u8)>,
    reordering: Option<u32>,
    /// Routing table of the device's routes.
    table: u32,
    /// True if the table is the device's own: `rules` lead only this device's packets to it.
    is_own: bool,
    rules: Vec<Change>,
    addresses: Vec<Prefix>,
    changes: Changes,
}

impl Drop for Device {
    /// Removes the device's routing rules.
    ///
    /// The kernel removes addresses and routes together with the device, unless the service manager keeps the device
    /// open.
    fn drop(&mut self) {
        self.changes.undo(&self.rules);
    }
}

impl Device {
    /// Opens the device without routes; [`Device::set_routes`] sets them.
    ///
    /// If the table `is_own`, its routes apply only to packets from the device, from sockets bound to it, or from its
    /// addresses. Other VPNs may then route the same prefixes elsewhere.
    ///
    /// # Errors
    /// Returns the reason why the device cannot be opened, with advice.
    pub fn open(
        settings: &TunSettings,
        mtu: u16,
        is_own: bool,
        changes: &Changes,
        stored: &mut StoredDevices,
    ) -> Result<Device, TunError> {
        let with_routes = settings.addresses.iter().filter(|_| !is_own);
        let addresses = with_routes.map(|prefix| (prefix.address, prefix.length)).collect();
        let mtu = fixed(settings).unwrap_or(mtu);
        let alias = TUNNEL_ALIAS.to_owned();
        let config = TunConfig { name: Some(settings.name.clone()), mtu, addresses, alias };
        let (tun, is_stored) = stored.open(&settings.name, &config)?;
        tun.set_txqueuelen(QUEUE_PACKETS).map_err(|why| TunError::Failed("set the queue length", why))?;
        let (table, addresses, changes) = (settings.table, settings.addresses.clone(), changes.clone());
        let (prefixes, rules) = (BTreeSet::new(), Vec::new());
        let mut device = Device { tun, prefixes, reordering: None, table, is_own, rules, addresses, changes };
        if is_own {
            device.use_own_table().map_err(|why| TunError::Failed("set up its routing table", why))?;
        }
        if is_stored {
            device.take_over().map_err(|why| TunError::Failed("take over the device of the last run", why))?;
        }
        Ok(device)
    }

    /// Removes addresses and routes of the last run that the settings lack, and takes over its other routes.
    fn take_over(&mut self) -> io::Result<()> {
        let mut configure = Configure::open()?;
        for (address, length) in configure.addresses(self.tun.index())? {
            if !self.addresses.contains(&Prefix { address, length }) {
                configure.remove_address(self.tun.index(), address, length)?;
            }
        }
        for found in configure.device_routes(self.tun.index())? {
            let prefix = (found.destination, found.prefix_len);
            if found.table != Some(self.table) {
                // A failure is no error: the kernel has already removed a route whose address was removed.
                let _ = configure.remove_route(&found);
            } else if found.reordering.is_none() || configure.replace_route(&self.route(prefix)).is_ok() {
                self.prefixes.insert(prefix);
            }
        }
        Ok(())
    }

    /// Closes the device, and removes the copy that the service manager stores for the next run.
    pub fn close(self) {
        stored::forget(self.tun.name());
    }

    fn use_own_table(&mut self) -> io::Result<()> {
        let mut configure = Configure::open()?;
        for Prefix { address, length } in &self.addresses {
            configure.add_address_without_route(self.tun.index(), *address, *length)?;
        }
        self.rules = self.own_rules();
        self.changes.make(&self.rules)
    }

    /// Returns the rules that lead to the device's own table.
    ///
    /// They match packets from the device, from sockets bound to it, and from its addresses.
    fn own_rules(&self) -> Vec<Change> {
        let (name, table) = (self.tun.name(), self.table);
        let has_ipv6 = self.addresses.iter().any(|prefix| prefix.address.is_ipv6());
        let families = [false, true].into_iter().filter(|ipv6| has_ipv6 || !ipv6);
        let of_device = families.flat_map(|ipv6| {
            [By::Incoming(name.to_owned()), By::Bound(name.to_owned())].map(|by| Change::Rule { by, ipv6, table })
        });
        let of_addresses = self.addresses.iter().map(|prefix| Change::Rule {
            by: By::From(prefix.address),
            ipv6: prefix.address.is_ipv6(),
            table,
        });
        of_device.chain(of_addresses).collect()
    }

    /// Returns the TUN device, for reading and polling.
    pub fn tun(&self) -> &TunDevice {
        &self.tun
    }

    /// Writes one packet in pieces. Returns false if the kernel did not accept it.
    pub fn write(&self, pieces: &[&[u8]]) -> bool {
        let mut slices = [IoSlice::new(&[]); MAX_PIECES];
        let Some(slices) = slices.get_mut(..pieces.len()) else { return false };
        slices.iter_mut().zip(pieces).for_each(|(slice, piece)| *slice = IoSlice::new(piece));
        matches!(self.tun.write(slices), Ok(true))
    }

    /// Returns true if only the device's own packets use its routes.
    pub fn has_own_table(&self) -> bool {
        self.is_own
    }

    /// Sets the routes of the device to exactly these prefixes, and those of its addresses.
    ///
    /// Routes of other programs in the table stay. Existing routes are added again only if `anew` is set.
    ///
    /// # Errors
    /// Returns the kernel's error for the first route that it refuses. All other routes are set.
    pub fn set_routes(&mut self, prefixes: &[Prefix], anew: bool) -> io::Result<()> {
        let mut wanted: Vec<Prefix> = prefixes.iter().flat_map(|prefix| self.as_routes(*prefix)).collect();
        if self.is_own {
            // The addresses were added without the routes of their networks, which the kernel would put into the main
            // table.
            wanted.extend(self.addresses.iter().map(|address| prefix::trimmed(*address)));
        }
        let wanted: BTreeSet<(IpAddr, u8)> = wanted.iter().map(|prefix| (prefix.address, prefix.length)).collect();
        let mut configure = Configure::open()?;
        for prefix in self.prefixes.difference(&wanted) {
            // A failure is no error: the kernel has already removed a route whose address was removed.
            let _ = configure.remove_route(&self.route(*prefix));
        }
        self.prefixes.retain(|prefix| wanted.contains(prefix));
        let mut result = Ok(());
        for prefix in wanted {
            if !anew && self.prefixes.contains(&prefix) {
                continue;
            }
            match configure.add_route(&self.route(prefix)) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists && self.prefixes.contains(&prefix) => {}
                Err(why) => result = result.and(Err(self.explain(prefix, &why))),
                Ok(()) => _ = self.prefixes.insert(prefix),
            }
        }
        result
    }

    fn explain(&self, (address, length): (IpAddr, u8), why: &io::Error) -> io::Error {
        let (prefix, table) = (prefix::text(Prefix { address, length }), self.table);
        let text = match why.kind() {
            io::ErrorKind::AlreadyExists => {
                format!(
                    "routing table {table} has another program's route to {prefix}: remove that route, or set another \
                     `table` in the configuration"
                )
            }
            _ => format!("{prefix}: {why}"),
        };
        io::Error::new(why.kind(), text)
    }

    /// Sets the `reordering` metric of the routes (`RTAX_REORDERING`).
    ///
    /// # Errors
    /// Returns the kernel's error for the first route that it refuses.
    pub fn set_reordering(&mut self, reordering: Option<u32>) -> io::Result<()> {
        self.reordering = reordering;
        let mut configure = Configure::open()?;
        self.prefixes.iter().try_for_each(|prefix| {
            configure.replace_route(&self.route(*prefix)).map_err(|why| self.explain(*prefix, &why))
        })
    }

    /// Returns the prefix as routes.
    ///
    /// In a table that other packets use as well, a default route becomes two halves.
    pub fn as_routes(&self, prefix: Prefix) -> Vec<Prefix> {
        if self.is_own { vec![prefix] } else { halves(prefix) }
    }

    fn route(&self, (destination, prefix_len): (IpAddr, u8)) -> DeviceRoute {
        DeviceRoute {
            destination,
            prefix_len,
            index: self.tun.index(),
            table: Some(self.table),
            priority: None,
            reordering: self.reordering,
        }
    }
}

/// Returns the configured MTU, in bytes, unless it is automatic.
pub fn fixed(settings: &TunSettings) -> Option<u16> {
    match settings.mtu {
        Mtu::Auto => None,
        Mtu::Fixed(bytes) => Some(bytes),
    }
}

/// Splits a default route into two halves.
///
/// As longer prefixes, the halves take precedence over the existing default route without replacing it.
fn halves(prefix: Prefix) -> Vec<Prefix> {
    match (prefix.length, prefix.address) {
        (0, IpAddr::V4(_)) => vec![half([0, 0, 0, 0].into()), half([128, 0, 0, 0].into())],
        (0, IpAddr::V6(_)) => vec![half([0; 16].into()), half([0x8000, 0, 0, 0, 0, 0, 0, 0].into())],
        _ => vec![prefix],
    }
}

fn half(address: IpAddr) -> Prefix {
    Prefix { address, length: 1 }
}
