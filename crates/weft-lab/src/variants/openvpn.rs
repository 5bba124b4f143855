//! OpenVPN over the best link: UDP, TLS with certificates made for the occasion, AES-256-GCM, no compression.

use super::daemon::{Daemon, READY_TIMEOUT, is_reachable, wait_until};
use super::scratch_file;
use crate::LabError;
use crate::apps::{failed, need};
use crate::lane::Lane;
use crate::net::Node;
use crate::world::World;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use weft_scenario::Variant;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const HUB: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);
const PORT: &str = "1194";

/// One end: its certificate, key, and the certificate's fingerprint.
struct Identity {
    certificate: PathBuf,
    key: PathBuf,
    fingerprint: String,
}

pub(super) fn open(variant: &Variant, world: &World, best: usize) -> Result<Vec<Lane>, LabError> {
    need("openvpn", "openvpn")?;
    need("openssl", "openssl")?;
    let link = world.links.get(best).ok_or_else(|| LabError::Scenario("there is no best link".into()))?;
    let (home, hub) = (identity(world, "home")?, identity(world, "hub")?);
    let hub_log = scratch_file(world, "openvpn-hub.log");
    let server =
        ["--tls-server", "--dh", "none", "--local"].map(String::from).into_iter().chain([link.hub.to_string()]);
    let server = start(&world.hub, server.collect(), &hub, &home.fingerprint, [HUB, HOME], hub_log)?;
    let home_log = scratch_file(world, "openvpn-home.log");
    let client = ["--tls-client", "--nobind", "--remote"].map(String::from).into_iter().chain([link.hub.to_string()]);
    let client = start(&world.home, client.collect(), &home, &hub.fingerprint, [HOME, HUB], home_log)?;
    let mut daemons = vec![server, client];
    wait_until(&mut daemons, || is_reachable(&world.home, HUB))?;
    let mut lane = Lane::plain(variant.name.clone(), Some(best), HOME, HUB);
    lane.daemons = daemons;
    Ok(vec![lane])
}

fn start(
    node: &Node,
    role: Vec<String>,
    own: &Identity,
    peer: &str,
    [here, there]: [Ipv4Addr; 2],
    log: PathBuf,
) -> Result<Daemon, LabError> {
    let mut command = node.command("openvpn");
    command.args(role).args(["--dev", "ovpn0", "--dev-type", "tun", "--proto", "udp4", "--port", PORT]);
    command.arg("--cert").arg(&own.certificate).arg("--key").arg(&own.key).args(["--peer-fingerprint", peer]);
    command.args(["--ifconfig", &here.to_string(), &there.to_string(), "--data-ciphers", "AES-256-GCM"]);
    command.args(["--disable-dco", "--txqueuelen", "1000", "--connect-retry", "1", "--verb", "3"]);
    Daemon::start("openvpn", node, command, log)
}

fn identity(world: &World, name: &str) -> Result<Identity, LabError> {
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
    Ok(Identity { certificate, key, fingerprint })
}
