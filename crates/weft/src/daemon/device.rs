//! A TUN device and the routes that lead to it.

use crate::config::{Mtu, Tun as TunSettings, prefix};
use std::io::{self, IoSlice};
use std::net::IpAddr;
use weft_engine::Prefix;
use weft_io::netlink::{Configure, Route, Rule, Selector};
use weft_io::tun::{Tun, TunConfig, TunError};

/// Pieces of one write: the virtio header, the packet's header and its slices.
const MAX_PIECES: usize = 80;
/// Packets the kernel keeps for us: a TUN device gives no back-pressure.
const QUEUE_PACKETS: u32 = 2_000;

/// The open device.
pub struct Device {
    tun: Tun,
    prefixes: Vec<Prefix>,
    reordering: Option<u32>,
    /// The routing table of its own, if it has one.
    table: Option<u32>,
    addresses: Vec<Prefix>,
}

impl Drop for Device {
    /// Addresses and routes go with the device, rules do not.
    fn drop(&mut self) {
        if let (Some(table), Ok(mut configure)) = (self.table, Configure::open()) {
            for rule in self.rules(table) {
                let _ = configure.remove_rule(&rule);
            }
        }
    }
}

impl Device {
    /// Opens the device; the routes are set by [`Device::set_routes`]. With a `table` its routes are there, where they are used for what
    /// comes from the device, is bound to it, or has its address: others may lead the same prefixes elsewhere.
    ///
    /// # Errors
    /// Why there is none, and how to get it.
    pub fn open(settings: &TunSettings, mtu: u16, table: Option<u32>) -> Result<Device, TunError> {
        let with_routes = settings.addresses.iter().filter(|_| table.is_none());
        let addresses = with_routes.map(|prefix| (prefix.address, prefix.length)).collect();
        let mtu = fixed(settings).unwrap_or(mtu);
        let tun = Tun::open(&TunConfig { name: Some(settings.name.clone()), mtu, addresses })?;
        tun.set_txqueuelen(QUEUE_PACKETS).map_err(|why| TunError::Failed("set the queue length", why))?;
        let addresses = settings.addresses.clone();
        let device = Device { tun, prefixes: Vec::new(), reordering: None, table, addresses };
        device.use_own_table().map_err(|why| TunError::Failed("set up its routing table", why))?;
        Ok(device)
    }

    fn use_own_table(&self) -> io::Result<()> {
        let Some(table) = self.table else { return Ok(()) };
        let mut configure = Configure::open()?;
        for Prefix { address, length } in &self.addresses {
            configure.add_address_without_route(self.tun.index(), *address, *length)?;
        }
        self.rules(table).iter().try_for_each(|rule| configure.add_rule(rule))
    }

    /// What makes the kernel ask the table: what comes from the device, is bound to it, or has its address.
    fn rules(&self, table: u32) -> Vec<Rule<'_>> {
        let name = self.tun.name();
        let has_ipv6 = self.addresses.iter().any(|prefix| prefix.address.is_ipv6());
        let families = [false, true].into_iter().filter(|ipv6| has_ipv6 || !ipv6);
        let of_device = families.flat_map(|ipv6| {
            [Selector::Incoming(name), Selector::Bound(name)].map(|selector| Rule { selector, ipv6, table })
        });
        let of_addresses = self.addresses.iter().map(|prefix| Rule {
            selector: Selector::From(prefix.address),
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

    /// Leads these prefixes here and no others, but those of its addresses.
    ///
    /// # Errors
    /// What the kernel says of the first route it refuses.
    pub fn set_routes(&mut self, prefixes: &[Prefix]) -> io::Result<()> {
        let mut wanted: Vec<Prefix> = prefixes.iter().flat_map(|prefix| self.as_routes(*prefix)).collect();
        if self.table.is_some() {
            // As the kernel would, had it been allowed to.
            wanted.extend(self.addresses.iter().map(|address| prefix::trimmed(*address)));
        }
        let mut configure = Configure::open()?;
        for prefix in self.prefixes.iter().filter(|prefix| !wanted.contains(prefix)) {
            // A route that went with its address is gone already.
            let _ = configure.remove_route(&self.route(*prefix));
        }
        self.prefixes = wanted;
        self.install(&mut configure)
    }

    /// Sets the `reordering` metric of the routes (`RTAX_REORDERING`).
    ///
    /// # Errors
    /// What the kernel says of the first route it refuses.
    pub fn set_reordering(&mut self, reordering: Option<u32>) -> io::Result<()> {
        self.reordering = reordering;
        self.install(&mut Configure::open()?)
    }

    fn install(&self, configure: &mut Configure) -> io::Result<()> {
        self.prefixes.iter().try_for_each(|prefix| {
            let explain = |why: io::Error| io::Error::new(why.kind(), format!("{}: {why}", prefix::text(*prefix)));
            configure.set_route(&self.route(*prefix)).map_err(explain)
        })
    }

    /// In a table of its own a default route takes nobody's place.
    fn as_routes(&self, prefix: Prefix) -> Vec<Prefix> {
        if self.table.is_some() { vec![prefix] } else { halves(prefix) }
    }

    fn route(&self, prefix: Prefix) -> Route {
        Route {
            destination: prefix.address,
            prefix_len: prefix.length,
            index: self.tun.index(),
            table: self.table,
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
