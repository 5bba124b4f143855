//! OpenVPN over the best single link, or through a tunnel of weft.
//!
//! It uses UDP or TCP, TLS with certificates made for this run, AES-256-GCM and no compression.

use super::daemon::{Daemon, READY_TIMEOUT, is_reachable, wait_until};
use super::scratch_file;
use crate::LabError;
use crate::apps::{failed, need};
use crate::interrupt;
use crate::lane::LabLane;
use crate::net::NetNamespace;
use crate::world::LabPair;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weft_scenario::{OpenvpnProto, Variant};

const HOME: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const HUB: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);
const PORT: &str = "1194";
/// Part of the line that the client writes to its log when it is connected.
const CONNECTED: &str = "Initialization Sequence Completed";
/// Interval between two reads of the client's log.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// One end of the OpenVPN tunnel: its certificate, its key, and the certificate's fingerprint.
struct OpenvpnIdentity {
    certificate: PathBuf,
    key: PathBuf,
    fingerprint: String,
}

pub(super) fn open(variant: &Variant, world: &LabPair, best: usize) -> Result<Vec<LabLane>, LabError> {
    let link = world.links.get(best).ok_or_else(|| LabError::Scenario("there is no best link".into()))?;
    let plain = LabLane::plain(variant.name.clone(), Some(best), HOME, HUB);
    Ok(vec![connect(variant, world, plain, link.hub)?])
}

/// Puts OpenVPN between the flows and `lane`, which then carries OpenVPN's packets.
pub(super) fn inside(variant: &Variant, world: &LabPair, lane: LabLane) -> Result<LabLane, LabError> {
    let server = lane.hub;
    connect(variant, world, LabLane { home: HOME, hub: HUB, hosts: Vec::new(), ..lane }, server)
}

/// Starts an OpenVPN server at the address `at`, and a client that connects to it.
///
/// Returns the lane, whose flows then pass through this OpenVPN tunnel.
fn connect(variant: &Variant, world: &LabPair, mut lane: LabLane, at: Ipv4Addr) -> Result<LabLane, LabError> {
    let proto = variant.openvpn.unwrap_or(OpenvpnProto::Udp);
    need("openvpn", "openvpn")?;
    need("openssl", "openssl")?;
    let (home, hub) = (identity(world, "home")?, identity(world, "hub")?);
    let hub_log = scratch_file(world, "openvpn-hub.log");
    let (of_server, of_client) = match proto {
        OpenvpnProto::Udp => ("udp4", "udp4"),
        OpenvpnProto::Tcp => ("tcp4-server", "tcp4-client"),
    };
    let address = at.to_string();
    let options: Vec<&str> = variant.openvpn_options.iter().map(String::as_str).collect();
    let role = [&["--tls-server", "--dh", "none", "--local", &address, "--proto", of_server], &options[..]].concat();
    let server = start(&world.hub, &role, &hub, &home.fingerprint, [HUB, HOME], hub_log)?;
    let mut server = [server];
    wait_until(&mut server, || listens(&world.hub, proto))?;
    let home_log = scratch_file(world, "openvpn-home.log");
    let role = [&["--tls-client", "--nobind", "--remote", &address, "--proto", of_client], &options[..]].concat();
    let began = Instant::now();
    let client = start(&world.home, &role, &home, &hub.fingerprint, [HOME, HUB], home_log)?;
    while !client.log_contains(CONNECTED) && began.elapsed() < READY_TIMEOUT {
        interrupt::sleep_until(Instant::now() + LOOK_EVERY)?;
    }
    lane.setup = Some(began.elapsed());
    // The OpenVPN programs may use the lane's other daemons, so they must end before these daemons.
    lane.daemons.splice(0..0, server.into_iter().chain([client]));
    wait_until(&mut lane.daemons, || is_reachable(&world.home, HUB))?;
    Ok(lane)
}

/// True if the OpenVPN server on `hub` has opened its socket for `proto`.
fn listens(hub: &NetNamespace, proto: OpenvpnProto) -> bool {
    let (table, state) = match proto {
        OpenvpnProto::Udp => ("/proc/thread-self/net/udp", "07"),
        OpenvpnProto::Tcp => ("/proc/thread-self/net/tcp", "0A"),
    };
    let is_it = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|local| local.ends_with(":04AA")) && columns.nth(1) == Some(state)
    };
    hub.run(|| std::fs::read_to_string(table).is_ok_and(|text| text.lines().any(is_it))).unwrap_or(false)
}

fn start(
    node: &NetNamespace,
    role: &[&str],
    own: &OpenvpnIdentity,
    peer: &str,
    [here, there]: [Ipv4Addr; 2],
    log: PathBuf,
) -> Result<Daemon, LabError> {
    let mut command = node.command("openvpn");
    command.args(role).args(["--dev", "ovpn0", "--dev-type", "tun", "--port", PORT]);
    command.arg("--cert").arg(&own.certificate).arg("--key").arg(&own.key).args(["--peer-fingerprint", peer]);
    command.args(["--ifconfig", &here.to_string(), &there.to_string(), "--data-ciphers", "AES-256-GCM"]);
    command.args(["--disable-dco", "--txqueuelen", "1000", "--connect-retry", "1", "--verb", "3"]);
    Daemon::start("openvpn", node, command, log)
}

fn identity(world: &LabPair, name: &str) -> Result<OpenvpnIdentity, LabError> {
    let certificate = scratch_file(world, format!("openvpn-{name}.crt"));
    let key = scratch_file(world, format!("openvpn-{name}.key"));
    let mut make = world.home.command("openssl");
    make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    make.args(["-subj", &format!("/CN={name}"), "-keyout"]).arg(&key).arg("-out").arg(&certificate);
    let made = world.home.output(make, READY_TIMEOUT)?;
    if !made.status.success() {
        return Err(failed("openssl", &made.stderr));
    }
    let mut show = world.home.command("openssl");
    show.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(&certificate);
    let shown = world.home.output(show, READY_TIMEOUT)?;
    let text = String::from_utf8_lossy(&shown.stdout);
    let fingerprint = text
        .trim()
        .rsplit('=')
        .next()
        .filter(|f| f.contains(':'))
        .ok_or_else(|| failed("openssl", &shown.stderr))?
        .to_owned();
    Ok(OpenvpnIdentity { certificate, key, fingerprint })
}
