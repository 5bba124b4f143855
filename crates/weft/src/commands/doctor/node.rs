//! Checks the requirements of a node: its port, its state, names, quotas, its key, and the machine's firewall.

use super::checks::{Check, Machine, Verdict};
use crate::config::{Config, HostName};
use crate::control::ask;
use crate::keys;
use crate::status::{LinkQuota, Status};
use crate::table::bytes;
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{AccessFlags, access, geteuid};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use weft_control::{Request, Response};
use weft_session::Revocation;
use weft_tcp_er::nft;

/// Free space of the state's file system below which writing may soon fail, in bytes.
///
/// *Derived*: four times the 8 MiB that a file of the state may have.
const LEAST_FREE: u64 = 32 << 20;
/// Maximum time between two answers of the resolver. Names without an answer are then reported.
const PATIENCE: Duration = Duration::from_secs(5);

/// Performs all checks of the requirements of a node.
pub fn node(machine: &Machine, config: &Config) -> Vec<Check> {
    let running = match ask(&config.node.control, &Request::Status) {
        Ok(Response::Status(status)) => Some(status),
        _ => None,
    };
    let mut checks = Vec::new();
    checks.extend(port(machine, config, running.is_some()));
    checks.extend(state(machine, &config.node.state));
    checks.extend(revoked(config));
    checks.extend(names(config));
    checks.extend(running.iter().flat_map(|status| quotas(status)));
    checks.extend(firewall(config));
    checks
}

/// Checks that the node's UDP port is free, if the node does not run.
fn port(machine: &Machine, config: &Config, is_running: bool) -> Option<Check> {
    let port = config.node.listen?;
    let name = format!("UDP port {port}");
    if is_running {
        return Some(Check::new(name, Verdict::Good, "the node runs", ""));
    }
    let any: [SocketAddr; 2] = [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
    let is_taken = any.iter().any(|at| UdpSocket::bind(at).is_err_and(|why| why.kind() == ErrorKind::AddrInUse));
    if !is_taken {
        return Some(Check::new(name, Verdict::Good, "free", ""));
    }
    let (found, help) = match owner(machine, port) {
        Some((pid, program)) => {
            (format!("UDP port {port} is taken by the program {program}, process {pid}"), format!("kill {pid}"))
        }
        None => (
            format!("UDP port {port} is taken by another process"),
            format!("find the process with ss -ulpn sport = :{port} and stop it, or set another `listen` in [node]"),
        ),
    };
    Some(Check::new(name, Verdict::Bad, found, help))
}

/// Returns the process that has a UDP socket with this port, and its program. `None` if it is not found.
fn owner(machine: &Machine, port: u16) -> Option<(u32, String)> {
    let tables = ["net/udp", "net/udp6"].map(|table| machine.proc(table).unwrap_or_default());
    let sockets: BTreeSet<String> = tables.iter().flat_map(|table| sockets_of(table, port)).collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_socket = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| target.to_str().is_some_and(|target| sockets.contains(target)))
    };
    let pid = pids.find(has_socket)?;
    let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some((pid, program.trim().to_owned()))
}

/// Returns the sockets with the local port `port` in the text of `/proc/net/udp`, each as `socket:[INODE]`.
fn sockets_of(table: &str, port: u16) -> impl Iterator<Item = String> + '_ {
    table.lines().skip(1).filter_map(move |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, own) = words.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(own, 16).ok() == Some(port);
        words.get(9).filter(|_| is_it).map(|inode| format!("socket:[{inode}]"))
    })
}

/// Checks that the file system of the state takes writes and has free space. `None` if this cannot be determined.
fn state(machine: &Machine, directory: &Path) -> Option<Check> {
    let name = format!("state directory {}", directory.display());
    // The node creates a missing directory in the one above it.
    let existing = directory.ancestors().find(|path| path.exists())?;
    let system = statvfs(existing).ok()?;
    let mount = mount_point(&machine.proc("self/mountinfo").unwrap_or_default(), existing);
    let mount = mount.display();
    if system.flags().contains(FsFlags::ST_RDONLY) {
        let help = format!("mount -o remount,rw {mount}");
        return Some(Check::new(name, Verdict::Bad, "the file system takes no writes", help));
    }
    let free = system.blocks_available().saturating_mul(system.fragment_size());
    if free < LEAST_FREE {
        let verdict = if free < 1 << 20 { Verdict::Bad } else { Verdict::Warning };
        let free = bytes(free);
        let found = format!("only {free} are free on the file system {mount}: the node may fail to store its state");
        let help = format!(
            "delete files that are not needed; find the largest directories with: du -x -d 2 {mount} | sort -n | tail"
        );
        return Some(Check::new(name, verdict, found, help));
    }
    match access(existing, AccessFlags::W_OK | AccessFlags::X_OK) {
        Ok(()) => {
            let found = format!("the directory is writable, and {} of disk space are free", bytes(free));
            Some(Check::new(name, Verdict::Good, found, ""))
        }
        Err(why) if geteuid().is_root() => Some(Check::new(name, Verdict::Bad, why.desc(), "")),
        // The doctor may run as another user than the service, so a refusal of access proves nothing.
        Err(_) => None,
    }
}

/// Returns the mount point of a path, from the text of `/proc/self/mountinfo` (proc(5)).
fn mount_point(text: &str, path: &Path) -> PathBuf {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let points = text.lines().filter_map(|line| line.split_whitespace().nth(4)).map(PathBuf::from);
    points.filter(|point| path.starts_with(point)).max_by_key(|point| point.as_os_str().len()).unwrap_or_default()
}

/// Checks if the node has stored a revocation of its own key.
fn revoked(config: &Config) -> Option<Check> {
    let own = keys::load(&config.node.key.value).ok()?.public_key();
    let stored = fs::read_to_string(config.node.state.join("revoked")).unwrap_or_default();
    let is_revoked = stored.lines().filter_map(|line| line.parse::<Revocation>().ok()).any(|of| of.public_key() == own);
    let help = "make a new key and have it signed: weft keygen --out FILE; weft ca sign --public-key KEY";
    is_revoked.then(|| Check::new("own key", Verdict::Bad, "revoked: other nodes end their sessions with it", help))
}

/// Checks that each name in the configuration has an address.
fn names(config: &Config) -> Vec<Check> {
    let contacts = config.network.iter().flat_map(|network| &network.named_contacts).map(|at| &at.value.1);
    let names: BTreeSet<&HostName> = config.peers.iter().flat_map(|peer| &peer.names).chain(contacts).collect();
    let (sender, answers) = mpsc::channel();
    for name in &names {
        let (name, sender) = ((*name).clone(), sender.clone());
        // A resolver may take longer than `PATIENCE`. The thread then ends with the program.
        thread::spawn(move || {
            let found = (name.name.as_str(), name.port).to_socket_addrs().map(|found| found.count());
            let _ = sender.send((name, found.map_err(|why| why.to_string())));
        });
    }
    drop(sender);
    let mut found = Vec::new();
    while let Ok(answer) = answers.recv_timeout(PATIENCE) {
        found.push(answer);
    }
    let check = |name: &HostName| {
        let why = match found.iter().find(|(of, _)| of == name) {
            Some((_, Ok(count))) if *count > 0 => {
                return Check::new(format!("name {}", name.name), Verdict::Good, "has an address", "");
            }
            Some((_, Ok(_))) => "no address".to_owned(),
            Some((_, Err(why))) => why.clone(),
            None => format!("no name server answered within {} s", PATIENCE.as_secs()),
        };
        let help = "name a DNS server that answers in /etc/resolv.conf, or write the address into /etc/hosts";
        Check::new(format!("name {}", name.name), Verdict::Bad, format!("DNS: {why}"), help)
    };
    names.into_iter().map(check).collect()
}

/// Checks the quotas of links, from the usage that the running node reports.
fn quotas(status: &Status) -> Vec<Check> {
    let check = |(name, quota): (&String, &LinkQuota)| {
        let LinkQuota { used_bytes, limit_bytes, .. } = *quota;
        let found = format!("{} of the link's data quota of {} are used", bytes(used_bytes), bytes(limit_bytes));
        let verdict = if used_bytes >= limit_bytes { Verdict::Warning } else { Verdict::Good };
        let help = "raise `quota` of the link and run weft reload, or wait for the next period";
        Check::new(format!("quota of link {name}"), verdict, found, help)
    };
    status.links.iter().filter_map(|link| Some((&link.name, link.quota.as_ref()?))).map(check).collect()
}

/// Checks if a chain of the machine's firewall drops packets that this node forwards.
fn firewall(config: &Config) -> Option<Check> {
    if config.exit.is_none() && config.node.listen.is_none() || !geteuid().is_root() {
        return None;
    }
    let output = Command::new(nft::program()?).args(["list", "ruleset"]).output().ok()?;
    let chain = closed_chain(&String::from_utf8_lossy(&output.stdout), &config.tun.name)?;
    let tun = &config.tun.name;
    let help = format!("nft insert rule {chain} iifname {tun} accept; nft insert rule {chain} oifname {tun} accept");
    let found = format!(
        "the nftables chain `{chain}` drops packets that it does not accept, and has no rule for the tunnel {tun}"
    );
    Some(Check::new("firewall", Verdict::Warning, found, help))
}

/// Returns the first chain that drops forwarded packets by its policy and accepts none of the tunnel.
///
/// The result is the chain's family, table and name. `None` if there is no such chain.
fn closed_chain(ruleset: &str, tun: &str) -> Option<String> {
    let (mut table, mut chain, mut is_closed, mut is_open) = ("", "", false, false);
    for line in ruleset.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("table ").and_then(|rest| rest.strip_suffix(" {")) {
            table = name;
        } else if let Some(name) = line.strip_prefix("chain ").and_then(|rest| rest.strip_suffix(" {")) {
            (chain, is_closed, is_open) = (name, false, false);
        } else if line.contains("hook forward") {
            is_closed = line.contains("policy drop");
        } else if line.starts_with(&format!("iifname \"{tun}\"")) && line.ends_with("accept") {
            is_open = true;
        } else if line == "}" {
            if is_closed && !is_open {
                return Some(format!("{table} {chain}"));
            }
            is_closed = false;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_that_drops_what_is_forwarded_is_found() {
        let ruleset = |policy: &str, rule: &str| {
            format!(
                "table inet weft_exit {{\n\tchain post {{\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\t}}\n}}\n\
                 table ip filter {{\n\tchain INPUT {{\n\t\ttype filter hook input priority filter; policy drop;\n\t}}\n\n\
                 \tchain FORWARD {{\n\t\ttype filter hook forward priority filter; policy {policy};\n{rule}\t}}\n}}\n"
            )
        };
        assert_eq!(closed_chain(&ruleset("drop", ""), "weft0"), Some("ip filter FORWARD".to_owned()));
        let other = "\t\tiifname \"eth0\" counter packets 0 bytes 0 accept\n";
        assert_eq!(closed_chain(&ruleset("drop", other), "weft0"), Some("ip filter FORWARD".to_owned()));
        assert_eq!(closed_chain(&ruleset("drop", "\t\tiifname \"weft0\" accept\n"), "weft0"), None);
        assert_eq!(closed_chain(&ruleset("accept", ""), "weft0"), None);
        assert_eq!(closed_chain("", "weft0"), None);
    }

    #[test]
    fn sockets_and_mounts_are_read_from_the_kernel_s_tables() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref\n\
            17: 00000000:CABC 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2\n\
            18: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2\nbroken\n";
        assert_eq!(sockets_of(table, 51_900).collect::<Vec<_>>(), ["socket:[4711]"]);
        assert_eq!(sockets_of(table, 1).count(), 0);
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:5 / /var/lib rw - tmpfs tmpfs rw\nbroken\n";
        assert_eq!(mount_point(mounts, Path::new("/var/lib/no-such")), Path::new("/var/lib"));
        assert_eq!(mount_point(mounts, Path::new("/no-such")), Path::new("/"));
    }
}
