//! weft itself: keys, configurations, two daemons, and a control socket to ask and to tell.

use super::daemon::{Daemon, wait_until};
use super::scratch_file;
use crate::LabError;
use crate::apps::failed;
use crate::lane::Lane;
use crate::net::Node;
use crate::options::RunOptions;
use crate::world::{World, WorldLink};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use toml::{Table, Value};
use weft_scenario::Variant;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_PORT: u16 = 51_900;

/// A running weft's control socket.
#[derive(Clone, Debug)]
pub(crate) struct WeftControl {
    socket: PathBuf,
}

/// What the lab needs of a path.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct PathState {
    /// Its number within the session.
    pub id: u8,
    /// The link on the first node.
    pub link: String,
    /// `opening`, `good`, `degraded`, `suspect` or `down`.
    pub state: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    peers: Vec<PeerState>,
    why: Option<String>,
}

#[derive(Deserialize)]
struct PeerState {
    established_s: Option<u64>,
    #[serde(default)]
    paths: Vec<PathState>,
}

impl WeftControl {
    fn ask(&self, request: &str) -> io::Result<Answer> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// The paths of the only peer; none without a session.
    pub fn paths(&self) -> io::Result<Vec<PathState>> {
        let answer = self.ask(r#"{"command":"status"}"#)?;
        let peer = answer.peers.into_iter().next().filter(|peer| peer.established_s.is_some());
        Ok(peer.map(|peer| peer.paths).unwrap_or_default())
    }

    /// Whether the session is there and this many paths carry.
    fn carries(&self, paths: usize) -> bool {
        let carries = |path: &PathState| path.state != "opening" && path.state != "down";
        self.paths().unwrap_or_default().iter().filter(|path| carries(path)).count() >= paths
    }

    /// Sets the weights of the weighted schedules, per link name; effective at once.
    pub fn set_weights(&self, weights: &BTreeMap<String, u32>) -> io::Result<()> {
        let pairs: Vec<(&String, &u32)> = weights.iter().collect();
        let request = serde_json::json!({ "command": "set-weights", "weights": pairs });
        match self.ask(&request.to_string())?.why {
            None => Ok(()),
            Some(why) => Err(io::Error::other(format!("weft refused the weights: {why}"))),
        }
    }
}

/// One lane over all chosen links.
pub(super) fn open(
    variant: &Variant,
    world: &World,
    options: &RunOptions,
    chosen: &[usize],
) -> Result<Vec<Lane>, LabError> {
    Ok(vec![pair(variant, world, options, chosen, 0, variant.name.clone())?])
}

/// One lane for each chosen link, each with daemons of its own.
pub(super) fn open_each(
    variant: &Variant,
    world: &World,
    options: &RunOptions,
    chosen: &[usize],
) -> Result<Vec<Lane>, LabError> {
    let prefix = if variant.name == variant.kind.word() { "weft" } else { &variant.name };
    let lane = |(number, position): (usize, &usize)| {
        let name = world.links.get(*position).map_or("", |link| &link.name);
        let mut lane = pair(variant, world, options, &[*position], number, format!("{prefix}:{name}"))?;
        lane.link = Some(*position);
        Ok(lane)
    };
    chosen.iter().enumerate().map(lane).collect()
}

/// One of the two nodes.
struct End<'a> {
    node: &'a Node,
    name: String,
    key: PathBuf,
    public: String,
    address: Ipv4Addr,
}

impl<'a> End<'a> {
    fn new(binary: &Path, world: &'a World, node: &'a Node, number: u8, host: u8) -> Result<End<'a>, LabError> {
        let name = format!("{node}{number}");
        let key = scratch_file(world, format!("{name}.key"));
        let public = keygen(binary, &key)?;
        Ok(End { node, name, key, public, address: Ipv4Addr::new(10, 99, number, host) })
    }
}

/// Starts weft on both nodes over `links` and waits until all paths are up. `number` keeps several pairs apart.
fn pair(
    variant: &Variant,
    world: &World,
    options: &RunOptions,
    links: &[usize],
    number: usize,
    name: String,
) -> Result<Lane, LabError> {
    let binary =
        options.weft_binary.as_deref().ok_or_else(|| LabError::Missing("the weft program is not there".into()))?;
    let links: Vec<&WorldLink> = links.iter().filter_map(|position| world.links.get(*position)).collect();
    let number = u8::try_from(number).map_err(|_| LabError::Scenario("too many links".into()))?;
    let home = End::new(binary, world, &world.home, number, 1)?;
    let hub = End::new(binary, world, &world.hub, number, 2)?;
    let port = FIRST_PORT + u16::from(number);
    let endpoints: Vec<String> = links.iter().map(|link| format!("{}:{port}", link.hub)).collect();
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let of_hub = configuration(world, &hub, &home, &names, Some(port), &[]);
    let of_home = configuration(world, &home, &hub, &names, None, &endpoints);
    let hub_daemon = start(binary, world, &hub, variant.laid_over(of_hub))?;
    let home_daemon = start(binary, world, &home, variant.laid_over(of_home))?;
    let control = WeftControl { socket: scratch_file(world, format!("{}.sock", home.name)) };
    let mut daemons = vec![hub_daemon, home_daemon];
    wait_until(&mut daemons, || control.carries(links.len()))?;
    let mut lane = Lane::plain(name, None, home.address, hub.address);
    lane.weft = Some(control);
    lane.daemons = daemons;
    Ok(lane)
}

/// Makes a key file; returns the public key.
fn keygen(binary: &Path, file: &Path) -> Result<String, LabError> {
    let output = Command::new(binary).args(["keygen", "--out"]).arg(file).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(failed("weft keygen", &output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn configuration(
    world: &World,
    own: &End,
    peer: &End,
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
    tun.insert("address".into(), strings(&mut [format!("{}/24", own.address)].into_iter()));
    let mut peer_table = Table::new();
    peer_table.insert("name".into(), peer.name.clone().into());
    peer_table.insert("public-key".into(), peer.public.clone().into());
    if !endpoints.is_empty() {
        peer_table.insert("endpoints".into(), strings(&mut endpoints.iter().cloned()));
    }
    peer_table.insert("prefixes".into(), strings(&mut [format!("{}/32", peer.address)].into_iter()));
    let links = Table::from_iter([("use".to_owned(), strings(&mut links.iter().map(|name| (*name).to_owned())))]);
    let sections = [("node", Value::Table(node)), ("tun", Value::Table(tun)), ("links", Value::Table(links))];
    let peers = Value::Array(vec![Value::Table(peer_table)]);
    sections.into_iter().chain([("peer", peers)]).map(|(name, section)| (name.to_owned(), section)).collect()
}

/// Starts the daemon; it is ended with SIGKILL when its lane is dropped.
fn start(binary: &Path, world: &World, end: &End, configuration: Table) -> Result<Daemon, LabError> {
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
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_refusal_is_told() {
        let scratch = crate::scratch::Scratch::new().unwrap();
        let socket = scratch.path().join("control.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let daemon = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut request).unwrap();
            stream.write_all(b"{\"answer\":\"refused\",\"why\":\"no such link\"}\n").unwrap();
            request
        });
        let error = WeftControl { socket }.set_weights(&BTreeMap::from([("a".to_owned(), 2)])).unwrap_err();
        assert!(error.to_string().contains("no such link"));
        assert_eq!(daemon.join().unwrap(), "{\"command\":\"set-weights\",\"weights\":[[\"a\",2]]}\n");
    }
}
