//! The TUN device and the routes that lead to it.

use crate::config::{Config, Mtu, Tun as TunSettings, prefix};
use std::io::{self, IoSlice};
use std::net::IpAddr;
use weft_engine::Prefix;
use weft_io::netlink::{Configure, Route};
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
}

impl Device {
    /// Opens the device; the routes are set by [`Device::set_routes`].
    ///
    /// # Errors
    /// Why there is none, and how to get it.
    pub fn open(settings: &TunSettings, mtu: u16) -> Result<Device, TunError> {
        let addresses = settings.addresses.iter().map(|prefix| (prefix.address, prefix.length)).collect();
        let mtu = fixed(settings).unwrap_or(mtu);
        let tun = Tun::open(&TunConfig { name: Some(settings.name.clone()), mtu, addresses })?;
        tun.set_txqueuelen(QUEUE_PACKETS).map_err(|why| TunError::Failed("set the queue length", why))?;
        Ok(Device { tun, prefixes: Vec::new(), reordering: None })
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

    /// Leads the peers' prefixes here and nothing else.
    ///
    /// # Errors
    /// What the kernel says of the first route it refuses.
    pub fn set_routes(&mut self, config: &Config) -> io::Result<()> {
        let wanted: Vec<Prefix> = match config.tun.routes {
            true => config.peers.iter().flat_map(|peer| &peer.prefixes).flat_map(|at| halves(at.value)).collect(),
            false => Vec::new(),
        };
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

    fn route(&self, prefix: Prefix) -> Route {
        Route {
            destination: prefix.address,
            prefix_len: prefix.length,
            index: self.tun.index(),
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
