//! The TUN devices: one for the default VPN, and one for each other VPN.

use crate::config::{Config, Vpn};
use crate::daemon::machine::changes::Changes;
use crate::daemon::machine::device::Device;
use crate::daemon::machine::lookup::Lookup;
use crate::daemon::machine::outside::{Refused, Sieve};
use crate::daemon::machine::stored::StoredDevices;
use std::collections::BTreeMap;
use std::io;
use weft_engine::Prefix;
use weft_io::tun::TunError;
use weft_units::VpnId;

/// A device opened for a VPN.
pub type Opened = (VpnId, Device);

/// The open devices.
pub struct Devices {
    default: Device,
    others: BTreeMap<VpnId, Device>,
    /// VPNs whose devices were opened since the last [`Devices::take_opened`]. The poller does not watch these yet.
    opened: Vec<VpnId>,
    /// Rules that lead to the routing table of all devices without a table of their own.
    lookup: Lookup,
    changes: Changes,
}

impl Devices {
    /// Opens all devices of `config` without routes; [`Devices::set_routes`] sets them.
    ///
    /// # Errors
    /// Returns the reason why a device cannot be opened, with advice.
    pub fn open(config: &Config, mtu: u16, changes: Changes) -> Result<Devices, TunError> {
        let mut stored = StoredDevices::take();
        let default = Device::open(&config.tun, mtu, false, &changes, &mut stored)?;
        let lookup = Lookup::new(config.tun.table, &changes);
        let mut devices = Devices { default, others: BTreeMap::new(), opened: Vec::new(), lookup, changes };
        let opened = devices.open_each(config, mtu, &mut stored)?;
        devices.change(config, opened);
        Ok(devices)
    }

    /// Returns the device of the default VPN.
    pub fn default(&self) -> &Device {
        &self.default
    }

    /// Returns the device of a VPN. `None` if the VPN has none.
    #[inline]
    pub fn get(&self, vpn: VpnId) -> Option<&Device> {
        if vpn == VpnId::DEFAULT { Some(&self.default) } else { self.others.get(&vpn) }
    }

    fn all(&self) -> impl Iterator<Item = &Device> {
        std::iter::once(&self.default).chain(self.others.values())
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Device> {
        std::iter::once(&mut self.default).chain(self.others.values_mut())
    }

    /// Returns the kernel's indices of all devices.
    pub fn indices(&self) -> Vec<u32> {
        self.all().map(|device| device.tun().index()).collect()
    }

    /// Returns the VPNs whose devices were opened since the last call.
    pub fn take_opened(&mut self) -> Vec<VpnId> {
        std::mem::take(&mut self.opened)
    }

    /// Opens the missing devices of `config` and returns them, without changing the open ones.
    ///
    /// # Errors
    /// Returns the reason why a device cannot be opened, with advice.
    pub fn open_missing(&self, config: &Config, mtu: u16) -> Result<Vec<Opened>, TunError> {
        self.open_each(config, mtu, &mut StoredDevices::default())
    }

    fn open_each(&self, config: &Config, mtu: u16, stored: &mut StoredDevices) -> Result<Vec<Opened>, TunError> {
        let missing = config.vpns.iter().filter(|vpn| !self.has(vpn));
        let mut open = |vpn: &Vpn| Device::open(&vpn.tun(&config.tun), mtu, vpn.table.is_some(), &self.changes, stored);
        missing.map(|vpn| Ok((id(vpn), open(vpn)?))).collect()
    }

    fn has(&self, vpn: &Vpn) -> bool {
        self.others.get(&id(vpn)).is_some_and(|device| device.tun().name() == vpn.device.value)
    }

    /// Adopts the devices opened for `config`, and closes those that `config` does not contain.
    pub fn change(&mut self, config: &Config, opened: Vec<Opened>) {
        let unwanted = |other: &VpnId, _: &mut Device| !config.vpns.iter().any(|vpn| id(vpn) == *other);
        self.others.extract_if(.., unwanted).for_each(|(_, device)| device.close());
        for (vpn, device) in opened {
            self.others.insert(vpn, device).into_iter().for_each(Device::close);
            self.opened.push(vpn);
        }
    }

    /// Sets the routes of all devices.
    ///
    /// The default device gets the prefixes of the configured peers, the prefixes `certified` from peers' certificates,
    /// and those of the overlay. The device of a VPN gets the prefixes of its members. Returns the prefixes that the
    /// filter `sieve` refuses, because they would take addresses from this machine. Existing routes are added again
    /// only if `anew` is set.
    ///
    /// # Errors
    /// Returns the kernel's error for the first route that it refuses.
    pub fn set_routes(
        &mut self,
        config: &Config,
        certified: &[Prefix],
        sieve: &Sieve,
        anew: bool,
    ) -> (Vec<Refused>, io::Result<()>) {
        let mut refused = Vec::new();
        let of_peers =
            config.peers.iter().flat_map(|peer| peer.prefixes.iter().map(|at| (&*peer.name.value, at.value)));
        let of_network = config.network.iter().flat_map(|of| &of.prefixes).map(|at| ("[network]", at.value));
        let mut peers = match config.tun.routes {
            true => sieve.pass(of_peers.chain(of_network), &mut refused),
            false => Vec::new(),
        };
        // Certified prefixes are not filtered here: the engine checked them when their peers joined.
        peers.extend(certified.iter().filter(|_| config.tun.routes));
        let mut result = set(&mut self.default, &mut self.lookup, &peers, anew);
        for vpn in &config.vpns {
            let Some(device) = self.others.get_mut(&id(vpn)) else { continue };
            let of_members = vpn
                .members
                .iter()
                .filter(|_| vpn.routes)
                .flat_map(|member| member.prefixes.iter().map(|at| (&*member.peer.value, at.value)));
            let members = match device.has_own_table() {
                true => of_members.map(|(_, prefix)| prefix).collect(),
                false => sieve.pass(of_members, &mut refused),
            };
            result = result.and(set(device, &mut self.lookup, &members, anew));
        }
        (refused, result)
    }

    /// Sets the `reordering` metric of all routes (`RTAX_REORDERING`).
    ///
    /// # Errors
    /// Returns the kernel's error for the first route that it refuses.
    pub fn set_reordering(&mut self, reordering: Option<u32>) -> io::Result<()> {
        self.all_mut().try_for_each(|device| device.set_reordering(reordering))
    }

    /// Sets the MTU of all devices, in bytes.
    ///
    /// # Errors
    /// Returns the kernel's error for the first device that it refuses.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        self.all().try_for_each(|device| device.tun().set_mtu(mtu))
    }
}

fn set(device: &mut Device, lookup: &mut Lookup, prefixes: &[Prefix], anew: bool) -> io::Result<()> {
    if !device.has_own_table() {
        let routes: Vec<Prefix> = prefixes.iter().flat_map(|prefix| device.as_routes(*prefix)).collect();
        lookup.cover(&routes)?;
    }
    device.set_routes(prefixes, anew)
}

fn id(vpn: &Vpn) -> VpnId {
    VpnId(vpn.id.value)
}
