//! wireguard-go over the best link.
//!
//! If wireguard-go is not installed and Go is, the lab builds wireguard-go from its Go module. The lab configures it
//! through its UAPI socket.

use super::daemon::{Daemon, READY_TIMEOUT, is_reachable, wait_until};
use super::scratch_file;
use crate::LabError;
use crate::apps::{failed, is_installed, need};
use crate::lane::LabLane;
use crate::net::NetNamespace;
use crate::scratch::stale;
use crate::world::LabPair;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weft_scenario::Variant;

const MODULE: &str = "golang.zx2c4.com/wireguard@latest";
const SOCKETS: &str = "/var/run/wireguard";
const PORT: u16 = 51_820;
const UAPI_TIMEOUT: Duration = Duration::from_secs(5);

/// Prefixes of the devices' names. The id of this process is appended.
///
/// The name of a UAPI socket is that of its device, so two labs on one machine must use different names.
const DEVICES: [&str; 5] = ["wga", "wgb", "wgc", "wgd", "wge"];

/// A key pair in hexadecimal, as the UAPI expects it.
struct HexKeys {
    private: String,
    public: String,
}

pub(super) fn open(variant: &Variant, world: &LabPair, best: usize) -> Result<Vec<LabLane>, LabError> {
    let link = world.links.get(best).ok_or_else(|| LabError::Scenario("there is no best link".into()))?;
    let lane = chain(world, &[&world.home, &world.hub], &[link.hub])?;
    Ok(vec![LabLane { name: variant.name.clone(), link: Some(best), ..lane }])
}

/// Starts a tunnel from each node to the next one.
///
/// The next node's address is at the same position in `endpoints`. Each node between the ends has one device, and its
/// kernel routes packets from one tunnel to the next.
pub(crate) fn chain(world: &LabPair, nodes: &[&NetNamespace], endpoints: &[Ipv4Addr]) -> Result<LabLane, LabError> {
    need("openssl", "openssl")?;
    let program = program()?;
    remove_stale_sockets();
    let keys: Vec<HexKeys> = nodes.iter().map(|node| keys(world, node.name())).collect::<Result<_, _>>()?;
    let last = nodes.len().saturating_sub(1);
    let mut daemons = Vec::new();
    for (number, ((node, own), prefix)) in nodes.iter().zip(&keys).zip(DEVICES).enumerate() {
        let mut settings = format!("private_key={}\nlisten_port={PORT}\n", own.private);
        if let Some(before) = number.checked_sub(1).and_then(|before| keys.get(before)) {
            settings += &peer(before, None, 0..number);
        }
        if let (Some(next), Some(endpoint)) = (keys.get(number + 1), endpoints.get(number)) {
            settings += &peer(next, Some(*endpoint), number + 1..last + 1);
        }
        if number > 0 && number < last {
            node.sysctl("net.ipv4.ip_forward", "1")?;
            // Packets that arrive on a device leave on the same device. The kernel would answer them with ICMP
            // redirects, so these are turned off.
            ["all", "default"]
                .iter()
                .try_for_each(|of| node.sysctl(&format!("net.ipv4.conf.{of}.send_redirects"), "0"))?;
        }
        let device = format!("{prefix}{}", std::process::id());
        daemons.push(start(world, node, &program, &device, &settings, address(number))?);
    }
    wait_until(&mut daemons, || is_reachable(&world.home, address(last)))?;
    Ok(LabLane { daemons, ..LabLane::plain("wireguard-go".into(), None, address(0), address(last)) })
}

/// Returns a node's address in the tunnels.
fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 89, 0, number as u8 + 1)
}

/// Returns the UAPI lines that configure a neighbour as peer. Packets for the nodes `behind` are sent to it.
fn peer(keys: &HexKeys, endpoint: Option<Ipv4Addr>, behind: Range<usize>) -> String {
    let endpoint = endpoint.map_or_else(String::new, |endpoint| format!("endpoint={endpoint}:{PORT}\n"));
    let allowed: String = behind.map(|number| format!("allowed_ip={}/32\n", address(number))).collect();
    format!("public_key={}\n{endpoint}{allowed}", keys.public)
}

/// Removes the UAPI sockets of programs that were killed, since wireguard-go leaves them behind.
fn remove_stale_sockets() {
    for socket in DEVICES.iter().flat_map(|prefix| stale(Path::new(SOCKETS), prefix)) {
        let _ = std::fs::remove_file(socket);
    }
}

/// Returns the path of wireguard-go: the installed program, or the one that the lab builds into the user's cache.
fn program() -> Result<PathBuf, LabError> {
    if is_installed("wireguard-go") {
        return Ok("wireguard-go".into());
    }
    let home = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    let cache = home
        .ok_or_else(|| LabError::Missing("wireguard-go: HOME is not set, so it cannot be built".into()))?
        .join("weft-lab");
    let built = cache.join("wireguard");
    if built.is_file() {
        return Ok(built);
    }
    let go = ["go", "/usr/local/go/bin/go"].into_iter().find(|go| is_installed(go) || Path::new(go).is_file());
    let go = go.ok_or_else(|| {
        LabError::Missing("wireguard-go is not installed, and neither is Go (Debian package golang-go)".into())
    })?;
    std::fs::create_dir_all(&cache)?;
    eprintln!("wireguard-go is not installed: building it from its Go module, only this once");
    let output = Command::new(go).args(["install", MODULE]).env("GOBIN", &cache).stdin(Stdio::null()).output()?;
    if output.status.success() {
        Ok(built)
    } else {
        Err(LabError::Missing(failed("go install", &output.stderr).to_string()))
    }
}

fn keys(world: &LabPair, name: &str) -> Result<HexKeys, LabError> {
    let file = scratch_file(world, format!("wireguard-{name}.pem"));
    let mut make = world.home.command("openssl");
    make.args(["genpkey", "-algorithm", "X25519", "-out"]).arg(&file);
    let made = world.home.output(make, READY_TIMEOUT)?;
    if !made.status.success() {
        return Err(failed("openssl", &made.stderr));
    }
    let der = |public: bool| {
        let mut show = world.home.command("openssl");
        show.args(["pkey", "-outform", "DER", "-in"]).arg(&file);
        if public {
            show.arg("-pubout");
        }
        let output = world.home.output(show, READY_TIMEOUT)?;
        // Both encodings end with the 32 bytes of the key (RFC 8410).
        let key = output.stdout.last_chunk::<32>().ok_or_else(|| failed("openssl", &output.stderr))?;
        Ok::<String, LabError>(key.iter().map(|byte| format!("{byte:02x}")).collect())
    };
    Ok(HexKeys { private: der(false)?, public: der(true)? })
}

fn start(
    world: &LabPair,
    node: &NetNamespace,
    program: &Path,
    device: &str,
    settings: &str,
    address: Ipv4Addr,
) -> Result<Daemon, LabError> {
    let log = scratch_file(world, format!("{device}.log"));
    let mut command = node.command(program);
    command.args(["-f", device]).env("WG_PROCESS_FOREGROUND", "1").env("LOG_LEVEL", "error");
    let socket = Path::new(SOCKETS).join(format!("{device}.sock"));
    let daemon = Daemon::start("wireguard-go", node, command, log)?.leaving(socket.clone());
    configure(&socket, settings)?;
    node.add_address(device, &format!("{address}/24"))?;
    node.ip(&format!("link set dev {device} mtu 1420 up"))?;
    Ok(daemon)
}

/// Configures a device: sends `settings` through its UAPI socket (wireguard.com/xplatform).
fn configure(socket: &Path, settings: &str) -> Result<(), LabError> {
    let deadline = Instant::now() + UAPI_TIMEOUT;
    let mut stream = loop {
        match UnixStream::connect(socket) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Err(_) => crate::interrupt::sleep_until(Instant::now() + Duration::from_millis(20))?,
        }
    };
    stream.set_read_timeout(Some(UAPI_TIMEOUT))?;
    write!(stream, "set=1\n{settings}\n")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    if answer.trim() == "errno=0" { Ok(()) } else { Err(failed("wireguard-go", answer.as_bytes())) }
}
