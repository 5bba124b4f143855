//! weft on the four nodes. The two nodes in the middle are relays. Each end has one route over each relay.

use super::contender::RunningNetwork;
use super::diamond::{ENDS, LINKS, LabDiamond, NAMES, link_address, link_name, links_of};
use crate::LabError;
use crate::net::NetNamespace;
use crate::variants::{Daemon, WeftControl, keygen, wait_until};
use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use toml::Value;

const PORT: u16 = 51_900;
const ROUTES: usize = 2;

/// The running weft daemons on the four nodes.
pub(super) struct Wefts {
    /// Control socket of each end, with the name of the other end.
    ends: Vec<(WeftControl, &'static str)>,
    /// One daemon for each node, in the order of [`NAMES`].
    daemons: Vec<Daemon>,
    binary: PathBuf,
}

fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, 0, node as u8 + 1)
}

impl Wefts {
    /// Starts a weft daemon on each node.
    pub fn start(diamond: &LabDiamond, binary: &Path) -> Result<Wefts, LabError> {
        let key = |name: &&str| keygen(binary, &diamond.file(&format!("{name}.key")));
        let keys = NAMES.iter().map(key).collect::<Result<Vec<String>, LabError>>()?;
        let control = |name: &str| WeftControl::at(diamond.file(&format!("{name}.sock")));
        let [first, .., last] = NAMES;
        let ends = vec![(control(first), last), (control(last), first)];
        let mut wefts = Wefts { ends, daemons: Vec::new(), binary: binary.to_owned() };
        for (number, node) in diamond.nodes.iter().enumerate() {
            fs::create_dir_all(diamond.file(&format!("{node}.state")))?;
            fs::write(diamond.file(&format!("{node}.toml")), configuration(diamond, number, &keys))?;
            wefts.start_daemon(diamond, node)?;
        }
        Ok(wefts)
    }

    /// Starts the daemon of `node` and waits for its control socket.
    ///
    /// The node's configuration must already be written.
    fn start_daemon(&mut self, diamond: &LabDiamond, node: &NetNamespace) -> Result<(), LabError> {
        let mut command = node.command(&self.binary);
        command.args(["up", "-c"]).arg(diamond.file(&format!("{node}.toml")));
        self.daemons.push(Daemon::start("weft", node, command, diamond.file(&format!("{node}.log")))?);
        let socket = diamond.file(&format!("{node}.sock"));
        wait_until(&mut self.daemons, || socket.exists())
    }
}

impl RunningNetwork for Wefts {
    fn far_end(&self) -> Ipv4Addr {
        let [_, last] = ENDS;
        address(last)
    }

    fn is_whole(&self) -> Result<bool, LabError> {
        let carries = |state: &str| state == "good" || state == "degraded";
        for (control, other) in &self.ends {
            let paths = control.paths_to(other)?;
            if paths.iter().filter(|path| carries(&path.state)).count() < ROUTES {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn restart_far_end(&mut self, diamond: &LabDiamond) -> Result<(), LabError> {
        let (Some(daemon), Some(node)) = (self.daemons.pop(), diamond.nodes.last()) else { return Ok(()) };
        daemon.stop()?;
        self.start_daemon(diamond, node)
    }
}

/// Returns a node's configuration.
///
/// A node's neighbours are its peers. Each end is also a peer of the other end, over the two relays.
fn configuration(diamond: &LabDiamond, node: usize, keys: &[String]) -> String {
    let name = |node: usize| NAMES.get(node).copied().unwrap_or_default();
    let file = |ending: &str| Value::from(diamond.file(&format!("{}.{ending}", name(node))).to_string_lossy().as_ref());
    let names: Vec<Value> = links_of(node).map(|(link, _)| link_name(link).into()).collect();
    let is_end = ENDS.contains(&node);
    let mut text = format!(
        "[node]\nkey = {}\nlisten = {PORT}\nstate = {}\ncontrol = {}\nrelay = {}\n\
         [tun]\nname = \"weft0\"\naddress = [\"{}/24\"]\n[links]\nuse = {}\n",
        file("key"),
        file("state"),
        file("sock"),
        !is_end,
        address(node),
        Value::Array(names),
    );
    let mut peer = |other: usize, way: String| {
        let key = keys.get(other).map_or("", String::as_str);
        let (name, address) = (name(other), address(other));
        let _ =
            write!(text, "[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\nprefixes = [\"{address}/32\"]\n{way}\n");
    };
    for (link, own_end) in links_of(node) {
        let Some(other) = LINKS.get(link).and_then(|ends| ends.get(1 - own_end)) else { continue };
        // The two end nodes initiate the handshakes. Relays only answer them.
        let endpoint = format!("endpoints = [\"{}:{PORT}\"]", link_address(link, 1 - own_end));
        peer(*other, if is_end { endpoint } else { String::new() });
    }
    match ENDS {
        [first, last] if node == first => peer(last, "via = [\"b\", \"c\"]".into()),
        [first, last] if node == last => peer(first, String::new()),
        _ => {}
    }
    text
}
