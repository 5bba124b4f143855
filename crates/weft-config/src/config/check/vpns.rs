//! Checks within and between `[[vpn]]` tables.

use super::bits_behind_length;
use crate::config::diagnose::{Report, did_you_mean};
use crate::config::read::At;
use crate::config::{Config, Vpn, prefix};
use std::collections::HashMap;
use std::net::IpAddr;
use weft_core::route::prefix_map::PrefixMap;
use weft_core::service::Service;
use weft_engine::Prefix;
use weft_units::Rate;

/// Reports all contradictions in the VPNs of `config`.
pub fn check(config: &Config, report: &Report) {
    unique(config, report);
    own_addresses(config, report);
    for vpn in &config.vpns {
        members(config, vpn, report);
        overlaps(vpn, report);
    }
    leases(config, report);
    routes(config, report);
}

/// Reports ids, names and devices that more than one VPN has.
fn unique(config: &Config, report: &Report) {
    let (mut ids, mut names) = (HashMap::new(), HashMap::new());
    let mut devices = HashMap::from([(config.tun.name.as_str(), "[tun]")]);
    for vpn in &config.vpns {
        let name = vpn.name.value.as_str();
        if let Some(other) = ids.insert(vpn.id.value, name) {
            let message = format!("VPNs `{other}` and `{name}` have the same id {}", vpn.id.value);
            report.error(vpn.id.span.clone(), message, Some("give each an id of its own".to_owned()));
        }
        if names.insert(name, ()).is_some() {
            let help = "give each a name of its own".to_owned();
            report.error(vpn.name.span.clone(), format!("two VPNs have the name `{name}`"), Some(help));
        }
        if let Some(other) = devices.insert(&vpn.device.value, name) {
            let message = format!("two VPNs have the tunnel device `{}`: `{other}` and `{name}`", vpn.device.value);
            report.error(vpn.device.span.clone(), message, Some("give each a device of its own".to_owned()));
        }
    }
}

/// Reports an address of this node in two VPNs.
///
/// The kernel could not determine the device of a packet to that address.
fn own_addresses(config: &Config, report: &Report) {
    let mut owners: HashMap<IpAddr, &str> = HashMap::new();
    owners.extend(config.tun.addresses.iter().map(|prefix| (prefix.address, "[tun]")));
    for vpn in &config.vpns {
        for at in &vpn.addresses {
            if let Some(other) = owners.insert(at.value.address, &vpn.name.value) {
                let message = format!(
                    "this node has the address {} in VPN `{}` and also in `{other}`: change one of the two",
                    at.value.address, vpn.name.value
                );
                let help = "only this machine's own addresses must differ; addresses of other nodes need not";
                report.error(at.span.clone(), message, Some(help.to_owned()));
            }
        }
    }
}

fn members(config: &Config, vpn: &Vpn, report: &Report) {
    let peers = || config.peers.iter().map(|peer| peer.name.value.as_str());
    for member in &vpn.members {
        let name = &member.peer.value;
        if !report.is_partial() && !peers().any(|peer| peer == name) {
            let help = did_you_mean(name, peers()).unwrap_or_else(|| match peers().next() {
                Some(_) => format!("known: {}", peers().collect::<Vec<_>>().join(", ")),
                None => "the file has no [[peer]]: add one for each member".to_owned(),
            });
            let message = format!("`{name}` is a member of VPN `{}`, but no peer has this name", vpn.name.value);
            report.error(member.peer.span.clone(), message, Some(help));
        }
    }
}

/// Reports prefixes of a VPN that overlap. A default route may contain all others.
fn overlaps(vpn: &Vpn, report: &Report) {
    let own = vpn.prefixes.iter().map(|at| ("this node", at));
    let members = vpn.members.iter();
    let theirs = members.flat_map(|member| member.prefixes.iter().map(|at| (member.peer.value.as_str(), at)));
    let mut owners = PrefixMap::default();
    for (owner, at) in own.chain(theirs) {
        bits_behind_length(at, report);
        let Prefix { address, length } = at.value;
        match owners.overlap(address, length) {
            None => {
                let _ = owners.insert(address, length, (owner, at.value));
            }
            Some((of, other)) => {
                let (written, other) = (prefix::text(at.value), prefix::text(other));
                let vpn = &vpn.name.value;
                let message = match of == owner {
                    true => {
                        format!("in VPN `{vpn}`, the prefixes `{written}` and `{other}` of {of} overlap: remove one")
                    }
                    false => format!(
                        "in VPN `{vpn}`, the prefix `{written}` of {owner} overlaps with the prefix `{other}` of {of}"
                    ),
                };
                let help = "assign an address of a VPN to one member; only 0.0.0.0/0 and ::/0 may contain other \
                    prefixes";
                report.error(at.span.clone(), message, Some(help.to_owned()));
            }
        }
    }
    for member in &vpn.members {
        for at in &member.prefixes {
            let is_own = |own: &&At<Prefix>| {
                own.value.address == at.value.address && at.value.length == prefix::host_bits(at.value.address)
            };
            if let Some(own) = vpn.addresses.iter().find(is_own) {
                let message = format!(
                    "VPN `{}` gives the member `{}` this node's own address `{}`: give the member another one",
                    vpn.name.value,
                    member.peer.value,
                    prefix::text(own.value)
                );
                report.error(at.span.clone(), message, None);
            }
        }
    }
}

/// Reports each promise of a leased line with which the leased lines toward a peer exceed `leasable`.
///
/// `leasable` in the policy is the highest rate that leased lines may have toward that peer together.
fn leases(config: &Config, report: &Report) {
    for peer in &config.peers {
        let mut sum = Rate::ZERO;
        for vpn in config.vpns.iter().filter(|vpn| vpn.has_member(&peer.name.value)) {
            let Some(At { value: Service::LeasedLine { rate }, span }) = &vpn.promise else { continue };
            sum = Rate::from_bps(sum.bps().saturating_add(rate.bps()));
            let (name, vpn) = (&peer.name.value, &vpn.name.value);
            match peer.policy.leasable {
                None => {
                    let message = format!(
                        "VPN `{vpn}` has a `leased` rate of {rate} toward peer `{name}`, but this peer has no \
                         `leasable`, the limit for the sum of these rates"
                    );
                    let help = "set the leasable rate: leasable = \"90 Mbit/s\" in [policy] or [peer.policy], or use \
                         `assured`";
                    report.error(span.clone(), message, Some(help.to_owned()));
                }
                Some(leasable) if sum > leasable => {
                    let message = format!(
                        "the `leased` rates of VPNs toward peer `{name}` add up to {sum}, but `leasable` of this peer \
                         is only {leasable}"
                    );
                    report.error(span.clone(), message, Some("lease less, or use `assured`".to_owned()));
                }
                Some(_) => {}
            }
        }
    }
}

/// Reports a prefix for which one routing table would need routes to two devices.
fn routes(config: &Config, report: &Report) {
    let mut owners: HashMap<(Option<u32>, IpAddr, u8), &str> = HashMap::new();
    let key = |table, prefix: Prefix| (table, prefix::trimmed(prefix).address, prefix.length);
    if config.tun.routes {
        let prefixes = config.peers.iter().flat_map(|peer| &peer.prefixes);
        owners.extend(prefixes.map(|at| (key(None, at.value), "[tun]")));
    }
    for vpn in config.vpns.iter().filter(|vpn| vpn.table == Some(config.tun.table)) {
        let message = format!(
            "VPN `{}` cannot use the routing table {}: this table has the routes of [tun], which apply to packets of \
             all VPNs",
            vpn.name.value, config.tun.table
        );
        let help = "set another number, or leave `table` out: then this table contains the VPN's routes too";
        report.error(vpn.name.span.clone(), message, Some(help.to_owned()));
    }
    for vpn in config.vpns.iter().filter(|vpn| vpn.routes) {
        for at in vpn.members.iter().flat_map(|member| &member.prefixes) {
            let name = vpn.name.value.as_str();
            if let Some(other) = owners.insert(key(vpn.table, at.value), name).filter(|other| *other != name) {
                let written = prefix::text(at.value);
                let message = format!(
                    "the prefix `{written}` is in two VPNs, `{name}` and `{other}`, but one routing table can have \
                     only one route to a prefix"
                );
                let help = "give the VPN a routing table of its own, for example table = 1007, or set routes = false";
                report.error(at.span.clone(), message, Some(help.to_owned()));
            }
        }
    }
}
