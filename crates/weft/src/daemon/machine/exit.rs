//! The exit: packets of peers leave to IP networks beyond this machine, with an address of this machine as source.
//!
//! Forwarding of IPv4 is switched on for the node's lifetime, as a recorded change. An nft table translates
//! addresses. The kernel removes the table when this process ends. Forwarding of IPv6 stays as it is: switching it on
//! would end the autoconfiguration of the machine's own interfaces (RFC 4861 §6.2.2). While it is off, IPv6 packets
//! of peers are rejected, so that their senders turn to IPv4 at once.

use crate::config::Config;
use crate::daemon::log::Log;
use crate::daemon::machine::changes::{Change, Changes};
use crate::daemon::machine::identifier;
use std::path::Path;
use weft_tcp_er::nft;

/// The exit's nftables table, or nothing if the configuration has no exit.
///
/// With `masquerade`, the table replaces the source address of packets that leave. Dropping this object removes the
/// table from the kernel.
pub struct ExitForwarding {
    _table: Option<nft::NftSession>,
}

impl ExitForwarding {
    /// Switches on forwarding of IPv4 and creates the table, if the configuration has an exit.
    ///
    /// A refusal of the setting for forwarding is only logged.
    ///
    /// # Errors
    /// Returns the reason why the kernel refuses the table, as text for a reader.
    pub fn start(config: &Config, changes: &Changes, log: Log) -> Result<ExitForwarding, String> {
        let Some(settings) = &config.exit else { return Ok(ExitForwarding { _table: None }) };
        if let Err(why) = changes.make(&[Change::Forwarding]) {
            // A service with systemd's setting ProtectKernelTunables may not write the setting.
            log.error(format_args!(
                "exit: cannot switch on forwarding: {why}: as root: sysctl -w net.ipv4.ip_forward=1"
            ));
        }
        let file = Path::new("/proc/sys/net/ipv6/conf/all/forwarding");
        let has_ipv6 = std::fs::read_to_string(file).is_ok_and(|value| value.trim() != "0");
        let (name, tun) = (format!("weft_exit_{}", identifier(&config.tun.name)), &config.tun.name);
        let table = nft::NftSession::create(&rules(&name, tun, settings.masquerade, has_ipv6)).map_err(|why| {
            format!("cannot add the nftables rules for [exit]: {why}: run as root, with nftables installed")
        })?;
        log.info(format_args!("exit: this node forwards packets from peers to this machine's networks"));
        if !has_ipv6 {
            log.info(format_args!("exit: IPv6 forwarding is off, so peers' IPv6 packets are rejected"));
        }
        Ok(ExitForwarding { _table: Some(table) })
    }
}

/// Returns the nft commands that create the table `name` of the exit, in one line.
fn rules(name: &str, tun: &str, masquerade: bool, has_ipv6: bool) -> String {
    let leave = if masquerade { format!("iifname \"{tun}\" oifname != \"{tun}\" masquerade;") } else { String::new() };
    let reject = format!("iifname \"{tun}\" meta nfproto ipv6 fib daddr type != local reject with icmpv6 no-route;");
    let arrive = if has_ipv6 { String::new() } else { reject };
    format!(
        "table inet {name} {{ flags owner; \
         chain leave {{ type nat hook postrouting priority srcnat; {leave} }}; \
         chain arrive {{ type filter hook prerouting priority dstnat; {arrive} }}; }}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_one_line_and_follow_the_settings() {
        let all = rules("t", "weft0", true, true);
        assert!(all.contains("masquerade") && !all.contains("reject") && !all.contains('\n'), "{all}");
        let plain = rules("t", "weft0", false, false);
        assert!(!plain.contains("masquerade") && plain.contains("reject"), "{plain}");
        assert_eq!(identifier("weft-0.1"), "weft_0_1");
    }
}
