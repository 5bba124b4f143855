//! FRR's OSPF on the four nodes, with or without BFD.
//!
//! Each node runs its own zebra, ospfd and, if needed, bfdd, with separate sockets and files.

use super::contender::{OspfTimers, RunningNetwork};
use super::diamond::{LabDiamond, NAMES, link_name, links_of};
use crate::LabError;
use crate::apps::failed;
use crate::net::NetNamespace;
use crate::variants::{Daemon, wait_until};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directory of FRR's daemons on Debian and most other systems.
const PROGRAMS: &str = "/usr/lib/frr";
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Shell command that starts a daemon with the node's directory as `/var/run/frr`.
///
/// It also mounts an empty `/var/tmp`, because FRR makes a directory in `/var/tmp` for each process and does not
/// remove it.
const WRAP: &str = "chown -R frr:frr \"$0\" && mount -t tmpfs tmpfs /var/run && mkdir /var/run/frr &&
    mount --bind \"$0\" /var/run/frr && mount -t tmpfs tmpfs /var/tmp && exec \"$@\"";

/// FRR's running daemons on the four nodes.
pub(super) struct Ospf {
    nodes: Vec<OspfRouter>,
    has_bfd: bool,
    daemons: Vec<Daemon>,
}

/// The data needed to query a node's daemons.
struct OspfRouter {
    node: NetNamespace,
    sockets: PathBuf,
    links: usize,
}

/// Returns the loopback address of a node, to which all nodes have routes.
fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, 0, node as u8 + 1)
}

impl Ospf {
    /// Starts FRR's daemons on all nodes.
    pub fn start(diamond: &LabDiamond, timers: OspfTimers) -> Result<Ospf, LabError> {
        let has_bfd = timers.bfd.is_some();
        let programs: &[&'static str] = if has_bfd { &["zebra", "bfdd", "ospfd"] } else { &["zebra", "ospfd"] };
        for program in programs.iter().map(|program| Path::new(PROGRAMS).join(program)) {
            if !program.is_file() {
                let reason =
                    format!("the program {} is not installed: install the Debian package frr", program.display());
                return Err(LabError::Missing(reason));
            }
        }
        let mut ospf = Ospf { nodes: Vec::new(), has_bfd, daemons: Vec::new() };
        for (number, node) in diamond.nodes.iter().enumerate() {
            let sockets = diamond.file(&format!("{node}.frr"));
            fs::create_dir_all(&sockets)?;
            node.sysctl("net.ipv4.ip_forward", "1")?;
            node.add_address("lo", &format!("{}/32", address(number)))?;
            for program in programs.iter().copied() {
                let text = if program == "ospfd" { configuration(number, timers) } else { String::new() };
                ospf.daemons.push(start(program, node, &sockets, &text)?);
                wait_until(&mut ospf.daemons, || sockets.join(format!("{program}.vty")).exists())?;
            }
            ospf.nodes.push(OspfRouter { node: node.clone(), sockets, links: links_of(number).count() });
        }
        Ok(ospf)
    }
}

impl RunningNetwork for Ospf {
    fn far_end(&self) -> Ipv4Addr {
        address(NAMES.len() - 1)
    }

    fn is_whole(&self) -> Result<bool, LabError> {
        for router in &self.nodes {
            let neighbours: Neighbours = router.ask("ospfd", "show ip ospf neighbor json")?;
            let full = neighbours.neighbors.values().flatten().filter(|n| n.state.starts_with("Full"));
            if full.count() != router.links {
                return Ok(false);
            }
            if self.has_bfd {
                let peers: Vec<BfdPeer> = router.ask("bfdd", "show bfd peers json")?;
                if peers.iter().filter(|peer| peer.status == "up").count() != router.links {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

#[derive(Deserialize)]
struct Neighbours {
    /// The neighbours, by router id.
    #[serde(default)]
    neighbors: BTreeMap<String, Vec<OspfNeighbour>>,
}

#[derive(Deserialize)]
struct OspfNeighbour {
    state: String,
}

#[derive(Deserialize)]
struct BfdPeer {
    status: String,
}

impl OspfRouter {
    fn ask<T: for<'a> Deserialize<'a>>(&self, daemon: &str, question: &str) -> Result<T, LabError> {
        let mut command = self.node.command("vtysh");
        command.arg("--vty_socket").arg(&self.sockets).args(["-d", daemon, "-c", question]);
        let output = self.node.output(command, ASK_TIMEOUT)?;
        serde_json::from_slice(&output.stdout)
            .map_err(|error| failed("vtysh", format!("{question}: {error}").as_bytes()))
    }
}

fn start(program: &'static str, node: &NetNamespace, sockets: &Path, configuration: &str) -> Result<Daemon, LabError> {
    fs::write(sockets.join(format!("{program}.conf")), configuration)?;
    let mut command = node.command("unshare");
    command.args(["--mount", "sh", "-c", WRAP]).arg(sockets).arg(Path::new(PROGRAMS).join(program));
    command.args(["-f", &format!("/var/run/frr/{program}.conf"), "-P", "0", "--log", "stdout"]);
    Daemon::start(program, node, command, sockets.join(format!("{program}.log")))
}

/// Returns ospfd's configuration of a node.
///
/// The nodes form one OSPF area. Links are point-to-point and have equal cost, and the node's own address is a stub.
fn configuration(node: usize, timers: OspfTimers) -> String {
    let mut text = String::new();
    for (link, _) in links_of(node) {
        let _ = writeln!(text, "interface {}\n ip ospf area 0\n ip ospf network point-to-point", link_name(link));
        text.push_str(&timers.of_ospf());
        if let Some(bfd) = timers.bfd {
            let interval = bfd.interval.as_millis();
            let _ = writeln!(text, " ip ospf bfd\n ip ospf bfd {} {interval} {interval}", bfd.multiplier);
        }
    }
    let own = address(node);
    let _ = writeln!(text, "interface lo\n ip ospf area 0\n ip ospf passive\nrouter ospf\n ospf router-id {own}");
    text
}

#[cfg(test)]
mod tests {
    use super::super::contender::Bfd;
    use super::*;

    #[test]
    fn timers_are_reported_for_each_link() {
        let bfd = Bfd { multiplier: 3, interval: Duration::from_millis(50) };
        let text = configuration(1, OspfTimers { bfd: Some(bfd), ..OspfTimers::seconds(1, 4) });
        for line in ["interface ab", "interface bd", " ip ospf bfd 3 50 50", " ospf router-id 10.78.0.2"] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(text.matches(" ip ospf hello-interval 1\n ip ospf dead-interval 4\n").count(), 2, "{text}");
    }

    #[test]
    fn states_are_read_from_the_output_of_vtysh() {
        let said = r#"{"neighbors":{"10.78.0.2":[{"priority":1,"state":"Full\/-","ifaceName":"ab"}]}}"#;
        let neighbours: Neighbours = serde_json::from_str(said).unwrap();
        assert!(neighbours.neighbors["10.78.0.2"][0].state.starts_with("Full"));
        assert!(serde_json::from_str::<Neighbours>("{}").unwrap().neighbors.is_empty());
    }
}
