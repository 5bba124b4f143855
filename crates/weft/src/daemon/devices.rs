//! The TUN devices: one for the default VPN, one for each other.

use super::device::Device;
use crate::config::{Config, Vpn};
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
    /// Opened since somebody asked, not watched yet.
    opened: Vec<VpnId>,
}

impl Devices {
    /// Opens all that `config` wants; their routes are set by [`Devices::set_routes`].
    ///
    /// # Errors
    /// Why one could not be opened, and how to get it.
    pub fn open(config: &Config, mtu: u16) -> Result<Devices, TunError> {
        let default = Device::open(&config.tun, mtu, None)?;
        let mut devices = Devices { default, others: BTreeMap::new(), opened: Vec::new() };
        let opened = devices.open_missing(config, mtu)?;
        devices.change(config, opened);
        Ok(devices)
    }

    /// The device of the default VPN.
    pub fn default(&self) -> &Device {
        &self.default
    }

    /// The device of a VPN.
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

    /// The kernel's indices of all of them.
    pub fn indices(&self) -> Vec<u32> {
        self.all().map(|device| device.tun().index()).collect()
    }

    /// VPNs whose devices were opened since the last call.
    pub fn take_opened(&mut self) -> Vec<VpnId> {
        std::mem::take(&mut self.opened)
    }

    /// Opens the devices that `config` wants and that are not there, and gives them out: nothing has changed yet.
    ///
    /// # Errors
    /// Why one could not be opened, and how to get it.
    pub fn open_missing(&self, config: &Config, mtu: u16) -> Result<Vec<Opened>, TunError> {
        let missing = config.vpns.iter().filter(|vpn| !self.has(vpn));
        missing.map(|vpn| Ok((id(vpn), Device::open(&vpn.tun(&config.tun), mtu, vpn.table)?))).collect()
    }

    fn has(&self, vpn: &Vpn) -> bool {
        self.others.get(&id(vpn)).is_some_and(|device| device.tun().name() == vpn.device.value)
    }

    /// Takes the devices opened for `config`, and closes those it does not want.
    pub fn change(&mut self, config: &Config, opened: Vec<Opened>) {
        self.others.retain(|other, _| config.vpns.iter().any(|vpn| id(vpn) == *other));
        for (vpn, device) in opened {
            self.others.insert(vpn, device);
            self.opened.push(vpn);
        }
    }

    /// Leads the peers' prefixes, with those of `certified` ones and the network's, and in each VPN its members', to their device and nowhere
    /// else.
    ///
    /// # Errors
    /// What the kernel says of the first route it refuses.
    pub fn set_routes(&mut self, config: &Config, certified: &[Prefix]) -> io::Result<()> {
        let configured = config.peers.iter().flat_map(|peer| &peer.prefixes).map(|at| at.value);
        let peers: Vec<Prefix> = match config.tun.routes {
            true => {
                let of_network = config.network.iter().flat_map(|network| &network.prefixes).map(|at| at.value);
                configured.chain(certified.iter().copied()).chain(of_network).collect()
            }
            false => Vec::new(),
        };
        self.default.set_routes(&peers)?;
        for vpn in &config.vpns {
            let Some(device) = self.others.get_mut(&id(vpn)) else { continue };
            let members: Vec<Prefix> = match vpn.routes {
                true => vpn.members.iter().flat_map(|member| &member.prefixes).map(|at| at.value).collect(),
                false => Vec::new(),
            };
            device.set_routes(&members)?;
        }
        Ok(())
    }

    /// Sets the `reordering` metric of all routes (`RTAX_REORDERING`).
    ///
    /// # Errors
    /// What the kernel says of the first route it refuses.
    pub fn set_reordering(&mut self, reordering: Option<u32>) -> io::Result<()> {
        self.all_mut().try_for_each(|device| device.set_reordering(reordering))
    }

    /// Sets all MTUs, in bytes.
    ///
    /// # Errors
    /// What the kernel says of the first it refuses.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        self.all().try_for_each(|device| device.tun().set_mtu(mtu))
    }
}

fn id(vpn: &Vpn) -> VpnId {
    VpnId(vpn.id.value)
}
