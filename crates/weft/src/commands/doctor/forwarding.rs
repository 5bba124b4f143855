//! Whether this machine forwards what peers send it for others.

use super::checks::{Check, Machine, Verdict};
use crate::config::{Config, prefix};

/// Of each family that the tunnel has: whether the kernel forwards. Of each default route: what only the far end knows.
pub fn forwarding(machine: &Machine, config: &Config) -> Vec<Check> {
    let families = [(false, "sys/net/ipv4/ip_forward"), (true, "sys/net/ipv6/conf/all/forwarding")];
    let has = |ipv6: bool| config.tun.addresses.iter().any(|of| of.address.is_ipv6() == ipv6);
    let here = families.into_iter().filter(|(ipv6, _)| has(*ipv6)).filter_map(|(ipv6, file)| {
        // Who only calls and is called by nobody is an end, unless hosts lie behind it.
        let is_hub = config.node.listen.is_some();
        Some(state(ipv6, &machine.proc(file)?, is_hub, file))
    });
    here.chain(config.default_routes().map(|(peer, prefix)| {
        let help = format!("weft doctor on {peer} says whether it forwards; it must translate addresses as well");
        Check::new(
            format!("{} by {peer}", prefix::text(prefix)),
            Verdict::Warning,
            format!("whether {peer} forwards cannot be seen from here"),
            help,
        )
    }))
    .collect()
}

fn state(ipv6: bool, value: &str, is_hub: bool, file: &str) -> Check {
    let name = if ipv6 { "IPv6 forwarding" } else { "IPv4 forwarding" };
    match value {
        "0" if is_hub => {
            let found = "off: peers reach this machine and nothing behind it, and a default route of theirs ends here";
            Check::new(
                name,
                Verdict::Warning,
                found,
                format!("sysctl -w {}=1", file.trim_start_matches("sys/").replace('/', ".")),
            )
        }
        "0" => Check::new(name, Verdict::Good, "off: needed only where hosts lie behind this node", ""),
        _ => Check::new(name, Verdict::Good, "on", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_that_does_not_forward_is_told() {
        let check = state(false, "0", true, "sys/net/ipv4/ip_forward");
        assert_eq!((check.verdict, check.help.as_str()), (Verdict::Warning, "sysctl -w net.ipv4.ip_forward=1"));
        assert_eq!(state(true, "0", false, "sys/net/ipv6/conf/all/forwarding").verdict, Verdict::Good);
        assert_eq!(state(true, "1", true, "sys/net/ipv6/conf/all/forwarding").found, "on");
    }
}
