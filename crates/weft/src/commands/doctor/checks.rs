//! Checks of this machine: device, capabilities, kernel, clock, socket buffers and links.
//!
//! Each check reads `/proc`, `/sys` or a file of the machine and returns one [`Check`]. No check changes the machine.

use super::service::Service;
use crate::config::Config;
use crate::daemon::machine::device::TUNNEL_ALIAS;
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use weft_io::kernel::version_of;
use weft_io::udp::{UdpConfig, UdpLink};
use weft_tcp_er::congestion::{Available, NAME, choose, is_available};

/// Number of the bit of CAP_NET_ADMIN in a set of capabilities (capabilities(7)).
const NET_ADMIN: u32 = 12;
/// Number of the bit of CAP_PERFMON in a set of capabilities (capabilities(7)).
const PERFMON: u32 = 38;
/// Number of the bit of CAP_BPF in a set of capabilities (capabilities(7)).
const BPF: u32 = 39;
/// Oldest kernel with both UDP GSO (since 4.18) and UDP GRO (since 5.0).
const NEEDED: (u32, u32) = (5, 0);
/// Oldest kernel with segmentation of UDP on TUN devices.
const WANTED: (u32, u32) = (6, 2);
/// Oldest kernel in which a BPF program may set a socket's pacing rate.
const WEFT_ER: (u32, u32) = (6, 0);
/// Size of a socket buffer that the node requests, in bytes.
const SOCKET_BUFFER: u64 = 8 << 20;
/// Clock sources whose reading accesses a slow device.
///
/// The node reads the clock several times per packet.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// Severity of a check's result.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The machine is as it should be.
    Good,
    /// The node works, but less well than it could.
    Warning,
    /// The node cannot work.
    Bad,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Good => "good",
            Verdict::Warning => "warning",
            Verdict::Bad => "bad",
        }
    }
}

/// Result of one check.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Check {
    pub name: String,
    pub verdict: Verdict,
    pub found: String,
    /// Advice, or empty where none is needed.
    pub help: String,
}

impl Check {
    /// Creates a result. Drops `help` if the verdict is good.
    pub fn new(name: impl Into<String>, verdict: Verdict, found: impl Into<String>, help: impl Into<String>) -> Check {
        let help = if verdict == Verdict::Good { String::new() } else { help.into() };
        Check { name: name.into(), verdict, found: found.into(), help }
    }
}

/// Directories and devices in which the kernel describes the machine. Tests replace them.
pub struct Machine {
    proc: PathBuf,
    sys: PathBuf,
    tun: PathBuf,
    /// Root directory below which the units of systemd are.
    root: PathBuf,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine { proc: "/proc".into(), sys: "/sys".into(), tun: "/dev/net/tun".into(), root: "/".into() }
    }
}

impl Machine {
    pub fn proc(&self, name: &str) -> Option<String> {
        Some(fs::read_to_string(self.proc.join(name)).ok()?.trim().to_owned())
    }

    pub fn sys(&self, name: &str) -> Option<String> {
        Some(fs::read_to_string(self.sys.join(name)).ok()?.trim().to_owned())
    }

    /// Returns the names of the interfaces except loopback, sorted.
    fn interfaces(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sys.join("class/net")).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name != "lo");
        names.sort_unstable();
        names
    }
}

/// Performs all checks; those of the configuration's links come last.
pub fn all(machine: &Machine, file: Option<&Path>, config: Option<&Config>) -> Vec<Check> {
    let service = Service::find(&machine.root);
    let mut checks = match &service {
        Ok(Some(service)) => vec![service.tun(&machine.tun), service.net_admin()],
        _ => vec![tun(machine), net_admin(machine)],
    };
    checks.extend([kernel(machine), offloads(UdpLink::bind(&UdpConfig::default()))]);
    checks.extend([clock(machine), socket_buffer(machine, "rmem_max"), socket_buffer(machine, "wmem_max")]);
    checks.push(explicit_rates(machine));
    if let Some(config) = config {
        checks.extend(links(machine, config));
        let names = chosen(machine, config);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        checks.extend(super::links::links(machine, config, &names));
        checks.extend(super::node::node(machine, config));
        checks.extend(super::proxies::proxies(machine, config));
        checks.extend(super::forwarding::forwarding(machine, config));
        checks.extend(super::kill_switch::kill_switch(config));
        checks.extend(service.iter().flatten().flat_map(|service| service.files(file, config)));
    }
    checks.extend(service.err());
    checks
}

/// Checks if the congestion control `weft_er` is loaded, or could be.
fn explicit_rates(machine: &Machine) -> Check {
    let name = "explicit rates";
    let needs = "weft_er needs Linux 6.0 with BTF, and CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN for the process that \
        loads it";
    if is_available(NAME) {
        return Check::new(name, Verdict::Good, format!("the congestion control {NAME} is loaded"), "");
    }
    let lacks = missing_for_weft_er(machine);
    match choose(Some(&lacks.join(", "))).available {
        _ if lacks.is_empty() => {
            Check::new(name, Verdict::Good, format!("the congestion control {NAME} can be loaded"), "")
        }
        Available::Bbr => Check::new(
            name,
            Verdict::Warning,
            format!("weft uses the congestion control bbr instead of {NAME}, because {}", lacks.join(", ")),
            needs,
        ),
        _ => Check::new(
            name,
            Verdict::Warning,
            format!(
                "the kernel has no congestion control bbr, and {NAME} cannot be loaded, because {}",
                lacks.join(", ")
            ),
            needs,
        ),
    }
}

fn missing_for_weft_er(machine: &Machine) -> Vec<&'static str> {
    let lacks = [
        version_of(&release(machine))
            .is_some_and(|version| version < WEFT_ER)
            .then_some("the kernel is older than Linux 6.0"),
        (!machine.sys.join("kernel/btf/vmlinux").exists()).then_some("the kernel has no BTF"),
        (!capable(machine, &[BPF, PERFMON, NET_ADMIN])).then_some("this user may not load BPF programs"),
    ];
    lacks.into_iter().flatten().collect()
}

fn capable(machine: &Machine, bits: &[u32]) -> bool {
    let status = machine.proc("self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    bits.iter().all(|bit| effective >> bit & 1 == 1)
}

fn tun(machine: &Machine) -> Check {
    match OpenOptions::new().read(true).write(true).open(&machine.tun) {
        Ok(_) => Check::new("TUN device", Verdict::Good, "can be opened", ""),
        Err(why) => {
            let help = match why.kind() {
                io::ErrorKind::PermissionDenied => "run weft as root, or in the group that may open /dev/net/tun",
                _ => "load the TUN driver with modprobe tun; start a container with --device /dev/net/tun",
            };
            Check::new("TUN device", Verdict::Bad, why.to_string(), help)
        }
    }
}

fn net_admin(machine: &Machine) -> Check {
    let (verdict, found) =
        if capable(machine, &[NET_ADMIN]) { (Verdict::Good, "held") } else { (Verdict::Bad, "missing") };
    Check::new(
        "CAP_NET_ADMIN",
        verdict,
        found,
        "run as root, or with AmbientCapabilities=CAP_NET_ADMIN as weft.service does",
    )
}

fn release(machine: &Machine) -> String {
    machine.proc("sys/kernel/osrelease").unwrap_or_default()
}

fn kernel(machine: &Machine) -> Check {
    let release = release(machine);
    let (verdict, help) = match version_of(&release) {
        Some(version) if version >= WANTED => (Verdict::Good, ""),
        Some(version) if version >= NEEDED => (Verdict::Warning, "Linux 6.2 and later pass UDP in large pieces too"),
        _ => (Verdict::Warning, "Linux 5.0 and later have GRO for UDP: fewer calls for each byte"),
    };
    Check::new("kernel", verdict, release, help)
}

/// Checks if a socket supports GSO, so that the kernel takes several datagrams at once.
fn offloads(socket: io::Result<UdpLink>) -> Check {
    let name = "UDP segmentation";
    match socket {
        Ok(socket) if socket.has_gso() => Check::new(name, Verdict::Good, "GSO on a socket", ""),
        Ok(_) => Check::new(name, Verdict::Warning, "no GSO on a socket", "Linux 4.18 and later have it"),
        Err(why) => Check::new(name, Verdict::Bad, why.to_string(), "weft needs a UDP socket"),
    }
}

fn clock(machine: &Machine) -> Check {
    let source = machine.sys("devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.unwrap_or_else(|| "unknown".to_owned());
    let is_slow = SLOW_CLOCKS.contains(&source.as_str()) || source == "unknown";
    let verdict = if is_slow { Verdict::Warning } else { Verdict::Good };
    Check::new(
        "clock source",
        verdict,
        source,
        "boot with tsc=reliable, or set a better clock source in the hypervisor",
    )
}

/// Checks the kernel's setting `limit` for the size of a socket buffer.
///
/// A process with CAP_NET_ADMIN may exceed the limit.
fn socket_buffer(machine: &Machine, limit: &str) -> Check {
    let bytes = machine.proc(&format!("sys/net/core/{limit}")).and_then(|text| text.parse::<u64>().ok());
    let is_enough = bytes.is_some_and(|bytes| bytes >= SOCKET_BUFFER) || net_admin(machine).verdict == Verdict::Good;
    let verdict = if is_enough { Verdict::Good } else { Verdict::Warning };
    let found = bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{bytes} B"));
    Check::new(format!("net.core.{limit}"), verdict, found, format!("sysctl -w net.core.{limit}={SOCKET_BUFFER}"))
}

/// Returns the interfaces that the configuration allows as links, without the tunnels of this and other nodes.
fn chosen(machine: &Machine, config: &Config) -> Vec<String> {
    let is_tunnel = |name: &str| machine.sys(&format!("class/net/{name}/ifalias")).as_deref() == Some(TUNNEL_ALIAS);
    let is_own = |name: &str| name == config.tun.name || config.vpns.iter().any(|vpn| vpn.device.value == name);
    let own = |name: &str| is_own(name) || is_tunnel(name);
    machine.interfaces().into_iter().filter(|name| config.links.allows(name) && !own(name)).collect()
}

/// Checks the links that the configuration allows, and those that it names.
fn links(machine: &Machine, config: &Config) -> Vec<Check> {
    let here = chosen(machine, config);
    let mut names: Vec<&str> = here.iter().map(String::as_str).collect();
    let named = config.link.iter().map(|link| &link.name).chain(&config.weighted_links).chain(&config.links.only);
    names.extend(named.map(|at| at.value.as_str()).filter(|name| !name.contains('*')));
    names.sort_unstable();
    names.dedup();
    let several = names.len() > 1;
    let mut checks = Vec::new();
    for name in names {
        let Some(state) = machine.sys(&format!("class/net/{name}/operstate")) else {
            checks.push(Check::new(
                format!("link {name}"),
                Verdict::Warning,
                "missing",
                "connect it, or correct its name",
            ));
            continue;
        };
        // Tunnels and similar devices report the state `unknown`.
        let is_up = state == "up" || state == "unknown";
        let verdict = if is_up { Verdict::Good } else { Verdict::Warning };
        checks.push(Check::new(
            format!("link {name}"),
            verdict,
            state,
            format!("run ip link set {name} up, or check the cable of {name}"),
        ));
        if several {
            checks.extend(reverse_path(machine, name));
        }
    }
    checks
}

/// Checks the reverse-path filter of a link. `None` if the kernel has no setting for the link.
///
/// A strict filter drops packets that arrive by a link through which the main table has no route back to the source.
fn reverse_path(machine: &Machine, name: &str) -> Option<Check> {
    let value = |of: &str| machine.proc(&format!("sys/net/ipv4/conf/{of}/rp_filter"))?.parse::<u8>().ok();
    // The kernel uses the larger of the two values (ip-sysctl).
    let filter = value("all").unwrap_or(0).max(value(name)?);
    let (verdict, found) = match filter {
        1 => (Verdict::Warning, "1, strict"),
        2 => (Verdict::Good, "2, loose"),
        _ => (Verdict::Good, "0, off"),
    };
    let help = format!("sysctl -w net.ipv4.conf.{name}.rp_filter=2");
    Some(Check::new(format!("rp_filter of link {name}"), verdict, found, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed at the end of the test.
    struct TemporaryMachine(PathBuf);

    impl Drop for TemporaryMachine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn machine(name: &str, files: &[(&str, &str)]) -> (TemporaryMachine, Machine) {
        let root = std::env::temp_dir().join(format!("weft-doctor-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine =
            Machine { proc: root.join("proc"), sys: root.join("sys"), tun: root.join("tun"), root: root.clone() };
        (TemporaryMachine(root), machine)
    }

    #[test]
    fn a_machine_as_it_should_be_is_good() {
        let (_place, machine) = machine(
            "good",
            &[
                ("tun", ""),
                ("proc/self/status", "Name:\tweft\nCapEff:\t000001ffffffffff\n"),
                ("proc/sys/kernel/osrelease", "6.2.0-1-amd64\n"),
                ("sys/kernel/btf/vmlinux", ""),
                ("proc/sys/net/core/rmem_max", "212992\n"),
                ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ],
        );
        let checks = [
            tun(&machine),
            net_admin(&machine),
            kernel(&machine),
            clock(&machine),
            socket_buffer(&machine, "rmem_max"),
        ];
        assert!(checks.iter().all(|check| check.verdict == Verdict::Good && check.help.is_empty()), "{checks:#?}");
        assert!(missing_for_weft_er(&machine).is_empty());
    }

    #[test]
    fn each_fault_is_reported_with_its_advice() {
        let (_place, machine) = machine(
            "bad",
            &[
                ("proc/self/status", "CapEff:\t0000000000000fff\n"),
                ("proc/sys/kernel/osrelease", "4.19.0\n"),
                ("proc/sys/net/core/rmem_max", "212992\n"),
                ("proc/sys/net/ipv4/conf/all/rp_filter", "0\n"),
                ("proc/sys/net/ipv4/conf/eth0/rp_filter", "1\n"),
                ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            ],
        );
        assert_eq!((tun(&machine).verdict, net_admin(&machine).verdict), (Verdict::Bad, Verdict::Bad));
        assert_eq!(kernel(&machine).verdict, Verdict::Warning);
        let lacks =
            ["the kernel is older than Linux 6.0", "the kernel has no BTF", "this user may not load BPF programs"];
        assert_eq!(missing_for_weft_er(&machine), lacks);
        assert_eq!(clock(&machine).found, "hpet");
        assert_eq!(socket_buffer(&machine, "rmem_max").help, "sysctl -w net.core.rmem_max=8388608");
        let filter = reverse_path(&machine, "eth0").unwrap();
        assert_eq!(
            (filter.verdict, filter.help.as_str()),
            (Verdict::Warning, "sysctl -w net.ipv4.conf.eth0.rp_filter=2")
        );
        assert_eq!(reverse_path(&machine, "eth1"), None);
    }
}
