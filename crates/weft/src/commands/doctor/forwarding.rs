//! Check: does this machine forward the packets that peers send it for others?

use super::checks::{Check, Machine, Verdict};
use crate::config::{Config, prefix};
use crate::daemon::machine::forwarding::ForwardingSetting;

/// Returns a check for each address family of the tunnel, and one for each default route.
///
/// A check for a family states whether this machine's kernel forwards. A check for a default route states that only
/// the peer to which the route leads can determine whether that peer forwards.
pub fn forwarding(machine: &Machine, config: &Config) -> Vec<Check> {
    let here = ForwardingSetting::of(config).filter_map(|family| {
        // A node that accepts no handshakes needs to forward only if hosts are behind it.
        let is_hub = config.node.listen.is_some();
        Some(state(family, &machine.proc(family.file)?, is_hub))
    });
    here.chain(config.default_routes().map(|(peer, prefix)| {
        let help = format!("run weft doctor on the peer {peer}: it must forward packets and translate addresses (NAT)");
        Check::new(
            format!("default route {} over peer {peer}", prefix::text(prefix)),
            Verdict::Warning,
            format!("this node cannot see whether the peer {peer} forwards packets"),
            help,
        )
    }))
    .collect()
}

fn state(family: &ForwardingSetting, value: &str, is_hub: bool) -> Check {
    let name = format!("{} forwarding", family.name);
    match value {
        "0" if is_hub => {
            let found = "off: peers reach only this machine, and their default route ends here";
            Check::new(name, Verdict::Warning, found, family.command())
        }
        "0" => Check::new(name, Verdict::Good, "off: needed only if hosts are behind this node", ""),
        _ => Check::new(name, Verdict::Good, "on", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::machine::forwarding::FAMILIES;

    #[test]
    fn a_hub_that_does_not_forward_is_reported() {
        let [v4, v6] = &FAMILIES;
        let check = state(v4, "0", true);
        assert_eq!((check.verdict, check.help.as_str()), (Verdict::Warning, "sysctl -w net.ipv4.ip_forward=1"));
        assert_eq!(state(v6, "0", false).verdict, Verdict::Good);
        assert_eq!(state(v6, "1", true).found, "on");
    }
}
