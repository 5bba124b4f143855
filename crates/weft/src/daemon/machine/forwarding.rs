//! The kernel's settings for forwarding packets from the tunnel to other interfaces.

use crate::config::Config;
use crate::daemon::Log;
use std::fs;
use std::path::Path;

/// An address family and its forwarding setting.
pub struct ForwardingSetting {
    /// Name of the family.
    pub name: &'static str,
    /// File of the setting below `/proc`.
    pub file: &'static str,
    is_ipv6: bool,
}

/// All address families, with their forwarding settings.
pub const FAMILIES: [ForwardingSetting; 2] = [
    ForwardingSetting { name: "IPv4", file: "sys/net/ipv4/ip_forward", is_ipv6: false },
    ForwardingSetting { name: "IPv6", file: "sys/net/ipv6/conf/all/forwarding", is_ipv6: true },
];

impl ForwardingSetting {
    /// Returns the families in which the tunnel has addresses.
    pub fn of(config: &Config) -> impl Iterator<Item = &'static Self> + '_ {
        let has = |family: &&Self| config.tun.addresses.iter().any(|of| of.address.is_ipv6() == family.is_ipv6);
        FAMILIES.iter().filter(has)
    }

    /// Returns the command that enables forwarding.
    pub fn command(&self) -> String {
        format!("sysctl -w {}=1", self.file.trim_start_matches("sys/").replace('/', "."))
    }
}

/// Logs each family without forwarding, if peers can begin handshakes with this node.
///
/// Such peers may expect hosts behind this node.
pub fn say(config: &Config, log: Log) {
    if config.node.listen.is_none() {
        return;
    }
    let is_off = |family: &&ForwardingSetting| {
        fs::read_to_string(Path::new("/proc").join(family.file)).is_ok_and(|value| value.trim() == "0")
    };
    for family in ForwardingSetting::of(config).filter(is_off) {
        log.info(format_args!(
            "{} forwarding is off: peers reach only this machine{}: to switch it on: {}",
            family.name,
            if config.flows.router.transit { " and each other" } else { "" },
            family.command()
        ));
    }
}
