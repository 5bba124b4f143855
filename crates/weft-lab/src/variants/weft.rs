//! weft itself: keys, configurations, two daemons, and a control socket for queries and commands.

use super::daemon::{Daemon, wait_until};
use super::scratch_file;
use crate::LabError;
use crate::apps::failed;
use crate::lane::LabLane;
use crate::net::NetNamespace;
use crate::options::RunOptions;
use crate::world::{LabPair, WorldLink};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use toml::{Table, Value};
use weft_control::status::{self, Peer, Status, Vpn};
use weft_control::{Request, Response, VpnSetting, socket};
use weft_scenario::{Scenario, ShareChange, Variant, VpnService};

const FIRST_PORT: u16 = 51_900;
/// Last byte of the inner address of the first of the scenario's hosts. The next hosts have the next numbers.
const FIRST_HOST: u8 = 10;
/// Second byte of the inner addresses in the scenario's first VPN. The next VPNs have the next numbers.
const FIRST_VPN_NET: u8 = 101;

/// A client of the control socket of a running weft.
#[derive(Clone, Debug)]
pub(crate) struct WeftControl {
    socket: PathBuf,
}

impl WeftControl {
    fn ask(&self, request: &Request) -> io::Result<Response> {
        socket::ask(&self.socket, request)
    }

    fn status(&self) -> io::Result<Status> {
        match self.ask(&Request::Status)? {
            Response::Status(status) => Ok(*status),
            other => Err(io::Error::other(format!(
                "weft gave an unexpected answer to a status request: use weft and weft-lab of the same version: \
                 {other:?}"
            ))),
        }
    }

    /// Returns a client of the control socket `socket`, at which a daemon listens.
    pub fn at(socket: PathBuf) -> WeftControl {
        WeftControl { socket }
    }

    /// Returns the paths to the daemon's only peer. The list is empty without a session.
    pub fn paths(&self) -> io::Result<Vec<status::Path>> {
        self.paths_of(|_| true)
    }

    /// Returns the paths to the peer with this name. The list is empty without a session.
    pub fn paths_to(&self, name: &str) -> io::Result<Vec<status::Path>> {
        self.paths_of(|peer| peer.name == name)
    }

    fn paths_of(&self, is_it: impl FnMut(&Peer) -> bool) -> io::Result<Vec<status::Path>> {
        let peer = self.status()?.peers.into_iter().find(is_it).filter(|peer| peer.established_s.is_some());
        Ok(peer.map(|peer| peer.paths).unwrap_or_default())
    }

    /// Returns the state of each VPN of the daemon, the default VPN first.
    pub fn vpns(&self) -> io::Result<Vec<Vpn>> {
        Ok(self.status()?.vpns)
    }

    /// Changes the weight, the service or both of a VPN. The change takes effect immediately.
    pub fn set_share(&self, vpn: &str, change: &ShareChange) -> io::Result<()> {
        let mut setting = VpnSetting { weight: change.weight, ..VpnSetting::default() };
        match change.service {
            None => {}
            Some(VpnService::BestEffort) => setting.assured_bps = Some(0),
            Some(VpnService::Assured(rate)) => setting.assured_bps = Some(rate.bps()),
            Some(VpnService::Leased(rate)) => setting.leased_bps = Some(rate.bps()),
        }
        self.order(&Request::SetVpn { vpn: vpn.to_owned(), change: setting }, "the share of a VPN")
    }

    /// Sends a command to the daemon. The error for a refused command names it as `what`.
    fn order(&self, request: &Request, what: &str) -> io::Result<()> {
        match self.ask(request)? {
            Response::Refused { why } => Err(io::Error::other(format!("weft refused to change {what}: {why}"))),
            _ => Ok(()),
        }
    }

    /// True if the session with the only peer exists and at least `paths` of its paths carry packets.
    fn carries(&self, paths: usize) -> bool {
        let carries = |path: &status::Path| path.state != "opening" && path.state != "down";
        self.paths().unwrap_or_default().iter().filter(|path| carries(path)).count() >= paths
    }

    /// Sets the weights of links, by name, that a weighted schedule uses. They take effect immediately.
    pub fn set_weights(&self, weights: &BTreeMap<String, u32>) -> io::Result<()> {
        let pairs = weights.iter().map(|(link, weight)| (link.clone(), *weight)).collect();
        self.order(&Request::SetWeights { weights: Some(pairs) }, "the weights of the links")
    }
}

/// Starts one pair of daemons over all chosen links and returns its lane.
pub(super) fn open(
    variant: &Variant,
    world: &LabPair,
    options: &RunOptions,
    chosen: &[usize],
) -> Result<Vec<LabLane>, LabError> {
    let vpns = 0..world.scenario.vpns.len();
    Ok(vec![pair(variant, world, options, chosen, 0, variant.name.clone(), vpns)?])
}

/// Starts a pair of daemons for each VPN, each over all chosen links. Returns one lane with all of them.
pub(super) fn open_each_vpn(
    variant: &Variant,
    world: &LabPair,
    options: &RunOptions,
    chosen: &[usize],
) -> Result<Vec<LabLane>, LabError> {
    let mut all: Option<LabLane> = None;
    for vpn in 0..world.scenario.vpns.len() {
        let mut lane = pair(variant, world, options, chosen, vpn, variant.name.clone(), vpn..vpn + 1)?;
        match &mut all {
            None => all = Some(lane),
            Some(all) => {
                all.vpns.append(&mut lane.vpns);
                all.weft.append(&mut lane.weft);
                all.daemons.append(&mut lane.daemons);
            }
        }
    }
    Ok(all.into_iter().collect())
}

/// Starts a pair of daemons for each chosen link. Returns one lane for each link.
pub(super) fn open_each(
    variant: &Variant,
    world: &LabPair,
    options: &RunOptions,
    chosen: &[usize],
) -> Result<Vec<LabLane>, LabError> {
    let prefix = if variant.name == variant.kind.word() { "weft" } else { &variant.name };
    let lane = |(number, position): (usize, &usize)| {
        let name = world.links.get(*position).map_or("", |link| &link.name);
        let vpns = 0..world.scenario.vpns.len();
        let mut lane = pair(variant, world, options, &[*position], number, format!("{prefix}:{name}"), vpns)?;
        lane.link = Some(*position);
        Ok(lane)
    };
    chosen.iter().enumerate().map(lane).collect()
}

/// One end of a pair of daemons: the node, its keys and its addresses.
struct WeftEnd<'a> {
    node: &'a NetNamespace,
    name: String,
    key: PathBuf,
    public: String,
    /// Number from 0 that distinguishes the pairs of daemons, if several run at the same time.
    number: u8,
    /// The last byte of the node's addresses: 1 at the first node, 2 at the second.
    host: u8,
    address: Ipv4Addr,
    /// Addresses of the scenario's hosts behind this node.
    hosts: Vec<Ipv4Addr>,
}

impl<'a> WeftEnd<'a> {
    fn new(
        binary: &Path,
        world: &'a LabPair,
        node: &'a NetNamespace,
        number: u8,
        host: u8,
    ) -> Result<WeftEnd<'a>, LabError> {
        let name = format!("{node}{number}");
        let key = scratch_file(world, format!("{name}.key"));
        let public = keygen(binary, &key)?;
        let address = |host| Ipv4Addr::new(10, 99, number, host);
        let count = if host == 1 { world.scenario.hosts.len() } else { 0 };
        let hosts = (FIRST_HOST..).take(count).map(address).collect();
        Ok(WeftEnd { node, name, key, public, number, host, address: address(host), hosts })
    }

    /// Returns the node's address in the VPN with the index `vpn` in the scenario. The index is less than 100.
    fn address_in(&self, vpn: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, FIRST_VPN_NET + vpn as u8, self.number, self.host)
    }
}

/// Starts weft on both nodes over `links`, and waits until all paths are up.
///
/// `vpns` contains the indices of the VPNs to configure, in the scenario's list of VPNs. `number` distinguishes several
/// pairs of daemons.
fn pair(
    variant: &Variant,
    world: &LabPair,
    options: &RunOptions,
    links: &[usize],
    number: usize,
    name: String,
    vpns: Range<usize>,
) -> Result<LabLane, LabError> {
    let missing = || LabError::Missing("the program `weft` is missing: install it beside weft-lab or in PATH".into());
    let binary = options.weft_binary.as_deref().ok_or_else(missing)?;
    let links: Vec<&WorldLink> = links.iter().filter_map(|position| world.links.get(*position)).collect();
    let too_many = "a variant has at most 256 lanes: name fewer links in `links`";
    let number = u8::try_from(number).map_err(|_| LabError::Scenario(too_many.into()))?;
    let home = WeftEnd::new(binary, world, &world.home, number, 1)?;
    let hub = WeftEnd::new(binary, world, &world.hub, number, 2)?;
    let port = FIRST_PORT + u16::from(number);
    let endpoints: Vec<String> = links.iter().map(|link| format!("{}:{port}", link.hub)).collect();
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let mut of_hub = configuration(world, &hub, &home, &names, Some(port), &[]);
    let mut of_home = configuration(world, &home, &hub, &names, None, &endpoints);
    add_vpns(&mut of_hub, &world.scenario, variant, vpns.clone(), [&hub, &home]);
    add_vpns(&mut of_home, &world.scenario, variant, vpns.clone(), [&home, &hub]);
    let hub_daemon = start(binary, world, &hub, variant.laid_over(of_hub))?;
    let home_daemon = start(binary, world, &home, variant.laid_over(of_home))?;
    let controls = [&home, &hub].map(|end| WeftControl::at(scratch_file(world, format!("{}.sock", end.name))));
    let mut daemons = vec![hub_daemon, home_daemon];
    wait_until(&mut daemons, || controls[0].carries(links.len()))?;
    let mut lane = LabLane::plain(name, None, home.address, hub.address);
    lane.vpns = vpns.map(|position| [home.address_in(position), hub.address_in(position)]).collect();
    lane.hosts = home.hosts;
    lane.weft = vec![controls];
    lane.daemons = daemons;
    Ok(lane)
}

/// Makes a private key and writes it to `file`. Returns the public key.
pub(crate) fn keygen(binary: &Path, file: &Path) -> Result<String, LabError> {
    let output = Command::new(binary).args(["keygen", "--out"]).arg(file).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(failed("weft keygen", &output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn configuration(
    world: &LabPair,
    own: &WeftEnd,
    peer: &WeftEnd,
    links: &[&str],
    listen: Option<u16>,
    endpoints: &[String],
) -> Table {
    let file = |name: String| Value::from(scratch_file(world, name).to_string_lossy().into_owned());
    let strings = |texts: &mut dyn Iterator<Item = String>| Value::Array(texts.map(Value::from).collect());
    let mut node = Table::new();
    node.insert("key".into(), own.key.to_string_lossy().into_owned().into());
    node.extend(listen.map(|port| ("listen".to_owned(), Value::from(i64::from(port)))));
    node.insert("state".into(), file(format!("{}.state", own.name)));
    node.insert("control".into(), file(format!("{}.sock", own.name)));
    let mut tun = Table::new();
    tun.insert("name".into(), format!("weft{}", own.address.octets()[2]).into());
    let hosts = |end: &WeftEnd| end.hosts.iter().map(|host| format!("{host}/32")).collect::<Vec<_>>();
    tun.insert("address".into(), strings(&mut [format!("{}/24", own.address)].into_iter().chain(hosts(own))));
    let mut peer_table = Table::new();
    peer_table.insert("name".into(), peer.name.clone().into());
    peer_table.insert("public-key".into(), peer.public.clone().into());
    if !endpoints.is_empty() {
        peer_table.insert("endpoints".into(), strings(&mut endpoints.iter().cloned()));
    }
    peer_table.insert("prefixes".into(), strings(&mut [format!("{}/32", peer.address)].into_iter().chain(hosts(peer))));
    let links = Table::from_iter([("use".to_owned(), strings(&mut links.iter().map(|name| (*name).to_owned())))]);
    let sections = [("node", Value::Table(node)), ("tun", Value::Table(tun)), ("links", Value::Table(links))];
    let peers = Value::Array(vec![Value::Table(peer_table)]);
    sections.into_iter().chain([("peer", peers)]).map(|(name, section)| (name.to_owned(), section)).collect()
}

/// Adds the scenario's VPNs with the indices `vpns` to the configuration of `own`, with `peer` as the other member.
///
/// Each VPN gets a device and an address.
fn add_vpns(
    configuration: &mut Table,
    scenario: &Scenario,
    variant: &Variant,
    vpns: Range<usize>,
    [own, peer]: [&WeftEnd; 2],
) {
    let strings = |text: String| Value::Array(vec![text.into()]);
    let vpn = |(position, mut vpn): (usize, Table)| {
        vpn.insert("device".into(), format!("vpn{}-{}", position + 1, own.number).into());
        vpn.insert("address".into(), strings(format!("{}/24", own.address_in(position))));
        vpn.insert("prefixes".into(), strings(format!("{}/32", own.address_in(position))));
        let members = Table::from_iter([(peer.name.clone(), strings(format!("{}/32", peer.address_in(position))))]);
        vpn.insert("members".into(), members.into());
        Value::from(vpn)
    };
    let tables = scenario.vpn_tables(variant).into_iter().enumerate();
    let vpns: Vec<Value> = tables.filter(|(position, _)| vpns.contains(position)).map(vpn).collect();
    if !vpns.is_empty() {
        configuration.insert("policy".into(), scenario.policy_table().into());
        configuration.insert("vpn".into(), vpns.into());
    }
}

/// Starts the daemon. It is killed with SIGKILL when its lane is dropped.
fn start(binary: &Path, world: &LabPair, end: &WeftEnd, configuration: Table) -> Result<Daemon, LabError> {
    let file = scratch_file(world, format!("{}.toml", end.name));
    let state = scratch_file(world, format!("{}.state", end.name));
    let log = scratch_file(world, format!("{}.log", end.name));
    fs::create_dir_all(state)?;
    fs::write(&file, configuration.to_string())?;
    let mut command = end.node.command(binary);
    command.args(["up", "-c"]).arg(&file);
    Daemon::start("weft", end.node, command, log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;

    /// Calls `ask` with the control socket of a simulated daemon that sends `answer`.
    ///
    /// Returns the request that this daemon got and the result of `ask`.
    fn asked<T>(answer: &'static str, ask: impl FnOnce(&WeftControl) -> T) -> (String, T) {
        let scratch = crate::scratch::Scratch::new().unwrap();
        let socket = scratch.path().join("control.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let daemon = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut request).unwrap();
            stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
            request
        });
        let told = ask(&WeftControl::at(socket));
        (daemon.join().unwrap(), told)
    }

    #[test]
    fn a_refusal_is_reported() {
        let weights = BTreeMap::from([("a".to_owned(), 2)]);
        let refused = r#"{"answer":"refused","why":"no such link"}"#;
        let (request, told) = asked(refused, |control| control.set_weights(&weights));
        assert!(told.unwrap_err().to_string().contains("no such link"));
        assert_eq!(request, "{\"command\":\"set-weights\",\"weights\":[[\"a\",2]]}\n");
    }

    #[test]
    fn a_share_is_reported_and_what_is_left_out_stays() {
        let change = |weight, service| ShareChange { vpn: 0, weight, service };
        let request = |change: ShareChange| {
            let (request, told) = asked(r#"{"answer":"done"}"#, |control| control.set_share("blue", &change));
            told.unwrap();
            serde_json::from_str::<serde_json::Value>(&request).unwrap()["change"].to_string()
        };
        let line = VpnService::Leased(weft_units::Rate::from_mbps(5));
        assert_eq!(request(change(None, Some(line))), r#"{"leased_bps":5000000}"#);
        assert_eq!(request(change(Some(3), Some(VpnService::BestEffort))), r#"{"assured_bps":0,"weight":3}"#);
    }

    #[test]
    fn ways_in_are_read_from_the_status() {
        let control = r#"{"rate_bps":5,"window_bytes":6,"delivered_bps":4,"rtt_us":7,"loss_event_rate":null,
            "lost_packets":8,"in_flight_bytes":3,"accumulation_bytes":9}"#;
        let member = format!(
            r#"{{"peer":"hub0","open":true,"queue_packets":0,"queue_bytes":0,"sent_packets":0,"sent_bytes":0,
            "dropped_full":7,"dropped_aqm":2,"marked":0,"loop":{control}}}"#
        );
        let vpn = format!(
            r#"{{"id":1,"name":"blue","weight":1,"service":"best-effort","promised_bps":null,"device":"blue0",
            "members":[{member}],"sent_packets":0,"sent_bytes":0,"received_packets":0,"received_bytes":0,
            "dropped_packets":0,"strays":0,"unroutable_packets":0}}"#
        );
        let answer = format!(
            r#"{{"answer":"status","schema":1,"version":"0.1.0","public_key":"","tun":"weft0","uptime_s":1,
            "inner_mtu":1400,"links":[],"peers":[],"vpns":[{vpn}],"proxy":null,"rejected_datagrams":0,
            "unroutable_packets":0,"buffers_in_use":0,"buffers_peak":0,"no_buffer_drops":0,"socket_full_drops":0}}"#
        );
        let (_, vpns) = asked(answer.replace('\n', "").leak(), WeftControl::vpns);
        let [Vpn { name, members, .. }] = &vpns.unwrap()[..] else { panic!("there is one VPN") };
        let control = members[0].control.as_ref().unwrap();
        assert_eq!((name.as_str(), members[0].dropped_full, control.lost_packets), ("blue", 7, 8));
    }
}
