//! Checks of this machine for proxies.

use super::checks::{Check, Machine, Verdict};
use crate::config::Config;
use weft_tcp_er::proxy::{congestion, nft, plan_capacity, workers};

/// Performs all checks for proxies. Returns none if no proxy is configured.
pub fn proxies(machine: &Machine, config: &Config) -> Vec<Check> {
    match config.proxy_policy() {
        None => Vec::new(),
        Some(policy) => {
            vec![diversion(), early_data(machine), descriptors(policy.capacity), legs(&policy.congestion)]
        }
    }
}

fn diversion() -> Check {
    let (verdict, found) = match nft::check() {
        Ok(()) => (Verdict::Good, "TPROXY and socket expressions work".to_owned()),
        Err(why) => (Verdict::Bad, why.to_string()),
    };
    Check::new("proxies: nft", verdict, found, "apt install nftables; modprobe -a nft_tproxy nft_socket nft_ct")
}

/// Checks if TCP Fast Open is enabled in both directions. The daemon enables it if its user has the permission.
fn early_data(machine: &Machine) -> Check {
    let bits = machine.proc("sys/net/ipv4/tcp_fastopen").and_then(|text| text.parse::<u32>().ok());
    let (verdict, found) = match bits {
        Some(bits) if bits & 3 == 3 => (Verdict::Good, "3, for clients and servers".to_owned()),
        Some(bits) => (
            Verdict::Warning,
            format!("net.ipv4.tcp_fastopen is {bits}: TCP Fast Open must be on for clients (1) and for servers (2)"),
        ),
        None => (Verdict::Warning, "unknown".to_owned()),
    };
    Check::new("proxies: early data", verdict, found, "weft up sets net.ipv4.tcp_fastopen=3 if permitted")
}

fn descriptors(capacity: usize) -> Check {
    let (verdict, found) = match workers(capacity).and_then(|workers| plan_capacity(capacity, workers)) {
        Ok(room) if room.connections >= capacity => {
            (Verdict::Good, format!("the limit of file descriptors allows all {capacity} proxied connections"))
        }
        Ok(room) => {
            let enough = room.connections;
            (
                Verdict::Warning,
                format!("the limit of file descriptors allows only {enough} of {capacity} proxied connections"),
            )
        }
        Err(why) => (Verdict::Bad, why.to_string()),
    };
    Check::new(
        "proxies: descriptors",
        verdict,
        found,
        "raise the hard limit: LimitNOFILE=65536 in weft.service, or ulimit -Hn",
    )
}

fn legs(names: &[String]) -> Check {
    let (verdict, found) = match congestion(names) {
        Ok(Some(name)) => (Verdict::Good, name.to_owned()),
        Ok(None) => (Verdict::Warning, "the system's congestion control".to_owned()),
        Err(why) => (Verdict::Bad, why.to_string()),
    };
    Check::new("proxies: legs", verdict, found, "modprobe tcp_bbr, or set others in [proxies] congestion")
}
