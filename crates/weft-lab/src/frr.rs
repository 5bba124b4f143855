//! FRR's OSPF on one node, with or without BFD.
//!
//! Each node runs its own zebra, ospfd and, if needed, bfdd, with separate sockets and files.

use crate::LabError;
use crate::apps::failed;
use crate::net::NetNamespace;
use crate::variants::{Daemon, wait_until};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
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

/// The timers by which OSPF detects that a neighbour is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OspfTimers {
    /// Interval between two hellos.
    pub hello: Duration,
    /// Time without a hello after which a neighbour is declared down.
    pub dead: Duration,
    pub bfd: Option<Bfd>,
}

/// BFD in addition to OSPF (RFC 5880).
///
/// A neighbour is declared down after `multiplier` intervals without a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bfd {
    pub multiplier: u32,
    pub interval: Duration,
}

impl OspfTimers {
    pub const fn seconds(hello: u64, dead: u64) -> OspfTimers {
        OspfTimers { hello: Duration::from_secs(hello), dead: Duration::from_secs(dead), bfd: None }
    }

    /// Returns the configuration of an interface for ospfd.
    ///
    /// If hellos are less than a second apart, it sets a dead interval of 1 s and the number of hellos in this interval.
    fn of_interface(self, link: &str) -> String {
        let mut text = format!("interface {link}\n ip ospf area 0\n ip ospf network point-to-point\n");
        let _ = match self.hello.as_secs() {
            0 => {
                let multiplier = self.dead.as_millis() / self.hello.as_millis().max(1);
                writeln!(text, " ip ospf dead-interval minimal hello-multiplier {multiplier}")
            }
            hello => writeln!(text, " ip ospf hello-interval {hello}\n ip ospf dead-interval {}", self.dead.as_secs()),
        };
        if let Some(Bfd { multiplier, interval }) = self.bfd {
            let interval = interval.as_millis();
            let _ = writeln!(text, " ip ospf bfd\n ip ospf bfd {multiplier} {interval} {interval}");
        }
        text
    }
}

impl fmt::Display for OspfTimers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hello {:?}, dead {:?}", self.hello, self.dead)?;
        self.bfd.map_or(Ok(()), |bfd| write!(f, ", BFD {} × {:?}", bfd.multiplier, bfd.interval))
    }
}

/// Timers with which stock OSPF detects a silent link fastest without false alarms: BFD of three intervals of 50 ms.
pub(crate) const FAST_BFD: OspfTimers =
    OspfTimers { bfd: Some(Bfd { multiplier: 3, interval: Duration::from_millis(50) }), ..OspfTimers::seconds(1, 4) };

/// A node on which to start OSPF.
pub(crate) struct OspfNode<'a> {
    pub node: &'a NetNamespace,
    /// Directory for the daemons' sockets, files and logs. It is made.
    pub directory: PathBuf,
    /// Address of the node that OSPF announces. Packets of the node have it as their source.
    pub address: Ipv4Addr,
    /// Interfaces with a neighbour, each a point-to-point link.
    pub interfaces: Vec<String>,
    pub timers: OspfTimers,
}

/// The data needed to query a node's running daemons.
pub(crate) struct OspfRouter {
    node: NetNamespace,
    sockets: PathBuf,
    links: usize,
    has_bfd: bool,
}

impl OspfNode<'_> {
    /// Starts the daemons, adds them to `daemons`, and gives the node its address.
    ///
    /// # Errors
    /// Returns an error if FRR is not installed, or if a daemon does not start.
    pub fn start(self, daemons: &mut Vec<Daemon>) -> Result<OspfRouter, LabError> {
        let has_bfd = self.timers.bfd.is_some();
        let programs: &[&'static str] = if has_bfd { &["zebra", "bfdd", "ospfd"] } else { &["zebra", "ospfd"] };
        for program in programs.iter().map(|program| Path::new(PROGRAMS).join(program)) {
            if !program.is_file() {
                let reason =
                    format!("the program {} is not installed: install the Debian package frr", program.display());
                return Err(LabError::Missing(reason));
            }
        }
        fs::create_dir_all(&self.directory)?;
        self.node.add_address("lo", &format!("{}/32", self.address))?;
        for program in programs.iter().copied() {
            daemons.push(start(program, self.node, &self.directory, &self.configuration(program))?);
            wait_until(daemons, || self.directory.join(format!("{program}.vty")).exists())?;
        }
        let links = self.interfaces.len();
        Ok(OspfRouter { node: self.node.clone(), sockets: self.directory, links, has_bfd })
    }

    /// Returns a daemon's configuration.
    ///
    /// The nodes form one OSPF area of links with equal cost. The node's own address is a stub, and the source of the
    /// packets that it sends over routes of OSPF.
    fn configuration(&self, program: &str) -> String {
        let own = self.address;
        match program {
            "zebra" => format!("route-map own permit 10\n set src {own}\nip protocol ospf route-map own\n"),
            "ospfd" => {
                let links: String = self.interfaces.iter().map(|link| self.timers.of_interface(link)).collect();
                format!("{links}interface lo\n ip ospf area 0\n ip ospf passive\nrouter ospf\n ospf router-id {own}\n")
            }
            _ => String::new(),
        }
    }
}

impl OspfRouter {
    /// True if all neighbours of the node answer, to OSPF and to BFD if it runs.
    ///
    /// # Errors
    /// Returns an error if a daemon does not answer.
    pub fn is_whole(&self) -> Result<bool, LabError> {
        let neighbours: Neighbours = self.ask("ospfd", "show ip ospf neighbor json")?;
        let full = neighbours.neighbors.values().flatten().filter(|n| n.state.starts_with("Full"));
        if full.count() != self.links {
            return Ok(false);
        }
        if !self.has_bfd {
            return Ok(true);
        }
        let peers: Vec<BfdPeer> = self.ask("bfdd", "show bfd peers json")?;
        Ok(peers.iter().filter(|peer| peer.status == "up").count() == self.links)
    }

    fn ask<T: for<'a> Deserialize<'a>>(&self, daemon: &str, question: &str) -> Result<T, LabError> {
        let mut command = self.node.command("vtysh");
        command.arg("--vty_socket").arg(&self.sockets).args(["-d", daemon, "-c", question]);
        let output = self.node.output(command, ASK_TIMEOUT)?;
        serde_json::from_slice(&output.stdout)
            .map_err(|error| failed("vtysh", format!("{question}: {error}").as_bytes()))
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

fn start(program: &'static str, node: &NetNamespace, sockets: &Path, configuration: &str) -> Result<Daemon, LabError> {
    fs::write(sockets.join(format!("{program}.conf")), configuration)?;
    let mut command = node.command("unshare");
    command.args(["--mount", "sh", "-c", WRAP]).arg(sockets).arg(Path::new(PROGRAMS).join(program));
    command.args(["-f", &format!("/var/run/frr/{program}.conf"), "-P", "0", "--log", "stdout"]);
    Daemon::start(program, node, command, sockets.join(format!("{program}.log")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_set_on_each_interface() {
        let timers = FAST_BFD;
        let text: String = ["ab", "bd"].map(|link| timers.of_interface(link)).concat();
        for line in ["interface ab", "interface bd", " ip ospf bfd 3 50 50"] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(text.matches(" ip ospf hello-interval 1\n ip ospf dead-interval 4\n").count(), 2, "{text}");
        let fast = OspfTimers { hello: Duration::from_millis(250), ..OspfTimers::seconds(0, 1) };
        assert!(fast.of_interface("ab").ends_with(" ip ospf dead-interval minimal hello-multiplier 4\n"));
    }

    #[test]
    fn states_are_read_from_the_output_of_vtysh() {
        let said = r#"{"neighbors":{"10.78.0.2":[{"priority":1,"state":"Full\/-","ifaceName":"ab"}]}}"#;
        let neighbours: Neighbours = serde_json::from_str(said).unwrap();
        assert!(neighbours.neighbors["10.78.0.2"][0].state.starts_with("Full"));
        assert!(serde_json::from_str::<Neighbours>("{}").unwrap().neighbors.is_empty());
    }
}
