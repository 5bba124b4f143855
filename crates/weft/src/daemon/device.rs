//! A TUN device and the routes that lead to it.

use super::changes::{By, Change, Changes};
use crate::config::{Mtu, Tun as TunSettings, prefix};
use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use weft_engine::Prefix;
use weft_io::netlink::{Configure, Route};
use weft_io::tun::{Tun, TunConfig, TunError};

/// Pieces of one write: the virtio header, the packet's header and its slices.
const MAX_PIECES: usize = 80;
/// Packets the kernel keeps for us: a TUN device gives no back-pressure.
const QUEUE_PACKETS: u32 = 2_000;
/// What devices of a node say of themselves, so that no other node on the machine takes them for links.
pub const TUNNEL_ALIAS: &str = "weft tunnel";

/// The open device.
pub struct Device {
    tun: Tun,
    /// The prefixes whose routes it has.
    prefixes: BTreeSet<(IpAddr, u8)>,
    reordering: Option<u32>,
    /// The routing table of its routes.
    table: u32,
    /// Whether the table is its own: only its packets use it, by these rules.
    is_own: bool,
    rules: Vec<Change>,
    addresses: Vec<Prefix>,
    changes: Changes,
}

impl Drop for Device {
    /// Addresses and routes go with the device, rules do not.
    fn drop(&mut self) {
        self.changes.undo(&self.rules);
    }
}

impl Device {
    /// Opens the device; the routes are set by [`Device::set_routes`]. Where its table `is_own`, they are used for what comes from the
    /// device, is bound to it, or has its address: others may lead the same prefixes elsewhere.
    ///
    /// # Errors
    /// Why there is none, and how to get it.
    pub fn open(settings: &TunSettings, mtu: u16, is_own: bool, changes: &Changes) -> Result<Device, TunError> {
        let with_routes = settings.addresses.iter().filter(|_| !is_own);
        let addresses = with_routes.map(|prefix| (prefix.address, prefix.length)).collect();
        let mtu = fixed(settings).unwrap_or(mtu);
        let alias = TUNNEL_ALIAS.to_owned();
        let tun = Tun::open(&TunConfig { name: Some(settings.name.clone()), mtu, addresses, alias })?;
        tun.set_txqueuelen(QUEUE_PACKETS).map_err(|why| TunError::Failed("set the queue length", why))?;
        let (table, addresses, changes) = (settings.table, settings.addresses.clone(), changes.clone());
        let (prefixes, rules) = (BTreeSet::new(), Vec::new());
        let mut device = Device { tun, prefixes, reordering: None, table, is_own, rules, addresses, changes };
        if is_own {
            device.use_own_table().map_err(|why| TunError::Failed("set up its routing table", why))?;
        }
        Ok(device)
    }

    fn use_own_table(&mut self) -> io::Result<()> {
        let mut configure = Configure::open()?;
        for Prefix { address, length } in &self.addresses {
            configure.add_address_without_route(self.tun.index(), *address, *length)?;
        }
        self.rules = self.own_rules();
        self.changes.make(&self.rules)
    }

    /// What makes the kernel ask the table: what comes from the device, is bound to it, or has its address.
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

    /// The device itself.
    pub fn tun(&self) -> &Tun {
        &self.tun
    }

    /// Writes one packet in pieces; false when the kernel did not take it.
    pub fn write(&self, pieces: &[&[u8]]) -> bool {
        let mut slices = [IoSlice::new(&[]); MAX_PIECES];
        let Some(slices) = slices.get_mut(..pieces.len()) else { return false };
        slices.iter_mut().zip(pieces).for_each(|(slice, piece)| *slice = IoSlice::new(piece));
        matches!(self.tun.write(slices), Ok(true))
    }

    /// Whether only its own packets use its routes.
    pub fn has_own_table(&self) -> bool {
        self.is_own
    }

    /// Leads these prefixes here and no others, but those of its addresses. A route of somebody else in the table stays. Routes that are
    /// there are added again only if all are set `anew`.
    ///
    /// # Errors
    /// What the kernel says of the first route it refuses. The others are there.
    pub fn set_routes(&mut self, prefixes: &[Prefix], anew: bool) -> io::Result<()> {
        let mut wanted: Vec<Prefix> = prefixes.iter().flat_map(|prefix| self.as_routes(*prefix)).collect();
        if self.is_own {
            // As the kernel would, had it been allowed to.
            wanted.extend(self.addresses.iter().map(|address| prefix::trimmed(*address)));
        }
        let wanted: BTreeSet<(IpAddr, u8)> = wanted.iter().map(|prefix| (prefix.address, prefix.length)).collect();
        let mut configure = Configure::open()?;
        for prefix in self.prefixes.difference(&wanted) {
            // A route that went with its address is gone already.
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
                format!("{prefix}: table {table} has a route of somebody else: remove it, or choose another `table`")
            }
            _ => format!("{prefix}: {why}"),
        };
        io::Error::new(why.kind(), text)
    }

    /// Sets the `reordering` metric of the routes (`RTAX_REORDERING`).
    ///
    /// # Errors
    /// What the kernel says of the first route it refuses.
    pub fn set_reordering(&mut self, reordering: Option<u32>) -> io::Result<()> {
        self.reordering = reordering;
        let mut configure = Configure::open()?;
        self.prefixes.iter().try_for_each(|prefix| {
            configure.replace_route(&self.route(*prefix)).map_err(|why| self.explain(*prefix, &why))
        })
    }

    /// In a table that everybody's packets use, a default route is two halves.
    pub fn as_routes(&self, prefix: Prefix) -> Vec<Prefix> {
        if self.is_own { vec![prefix] } else { halves(prefix) }
    }

    fn route(&self, (destination, prefix_len): (IpAddr, u8)) -> Route {
        Route {
            destination,
            prefix_len,
            index: self.tun.index(),
            table: Some(self.table),
            priority: None,
            reordering: self.reordering,
        }
    }
}

/// The MTU the configuration asks for.
pub fn fixed(settings: &TunSettings) -> Option<u16> {
    match settings.mtu {
        Mtu::Auto => None,
        Mtu::Fixed(bytes) => Some(bytes),
    }
}

/// Everything as two halves, which win against the default route without taking its place; anything else as it is.
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
