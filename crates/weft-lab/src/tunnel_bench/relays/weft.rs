//! weft from the first node of a chain to the last. The nodes between relay, or decrypt and forward packets.

use super::Middle;
use super::chain::{BACK, NEXT, RelayChain};
use crate::LabError;
use crate::lane::LabLane;
use crate::variants::{Daemon, is_reachable, keygen, scratch_file, wait_until};
use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

const PORT: u16 = 51_900;

/// Starts weft on every node and waits until the first and the last node reach each other.
pub(super) fn open(chain: &RelayChain, binary: &Path, middle: Middle) -> Result<LabLane, LabError> {
    let world = &chain.world;
    let file = |number: usize, suffix: &str| scratch_file(world, format!("weft{number}.{suffix}"));
    let nodes = chain.nodes();
    let keys = (0..nodes.len()).map(|number| keygen(binary, &file(number, "key")));
    let keys: Vec<String> = keys.collect::<Result<_, _>>()?;
    let endpoints = chain.endpoints();
    let mut daemons = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        fs::create_dir_all(file(number, "state"))?;
        let path = |suffix| file(number, suffix).to_string_lossy().into_owned();
        let files = format!("key = '{}'\nstate = '{}'\ncontrol = '{}'", path("key"), path("state"), path("sock"));
        fs::write(file(number, "toml"), configuration(number, &files, &keys, &endpoints, middle))?;
        if middle == Middle::Kernel {
            node.sysctl("net.ipv4.ip_forward", "1")?;
        }
        let mut command = node.command(binary);
        command.args(["up", "-c"]).arg(file(number, "toml"));
        daemons.push(Daemon::start("weft", node, command, file(number, "log"))?);
    }
    let last = address(nodes.len() - 1);
    wait_until(&mut daemons, || is_reachable(&world.home, last))?;
    Ok(LabLane { daemons, ..LabLane::plain("weft".into(), None, address(0), last) })
}

/// Returns the address of the node `number` inside the tunnels.
fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, 0, number as u8 + 1)
}

/// Returns a node's configuration.
///
/// A node's neighbours are its peers. With relays the first node also has the last node as a peer, with a route over
/// the relays. The route names a relay by its key if the first node has no other configuration of the relay. Without
/// relays, the prefixes of a neighbour include all nodes beyond this neighbour.
fn configuration(number: usize, files: &str, keys: &[String], endpoints: &[Ipv4Addr], middle: Middle) -> String {
    let last = keys.len() - 1;
    let links = match number {
        0 => format!("\"{NEXT}\""),
        n if n == last => format!("\"{BACK}\""),
        _ => format!("\"{BACK}\", \"{NEXT}\""),
    };
    let relays = middle == Middle::Relays;
    let is_relay = relays && number > 0 && number < last;
    let mut text = format!(
        "[node]\n{files}\nlisten = {PORT}\nrelay = {is_relay}\n[tun]\naddress = [\"{}/24\"]\n[links]\nuse = [{links}]\n",
        address(number)
    );
    let mut peer = |other: usize, rest: &str| {
        let beyond = match number < other {
            _ if relays => other..=other,
            true => other..=last,
            false => 0..=other,
        };
        let prefixes: Vec<String> = beyond.map(|node| format!("\"{}/32\"", address(node))).collect();
        let (key, prefixes) = (&keys[other], prefixes.join(", "));
        let _ =
            writeln!(text, "[[peer]]\nname = \"n{other}\"\npublic-key = \"{key}\"\nprefixes = [{prefixes}]\n{rest}");
    };
    if number > 0 {
        peer(number - 1, "");
    }
    if number < last {
        peer(number + 1, &format!("endpoints = [\"{}:{PORT}\"]", endpoints[number]));
    }
    if relays && last > 1 && number == 0 {
        let strangers = keys[2..last].iter().map(|key| format!(" > {key}"));
        peer(last, &format!("via = [\"n1{}\"]", strangers.collect::<String>()));
    }
    if relays && last > 1 && number == last {
        peer(0, "");
    }
    if middle == Middle::Transit {
        text.push_str("[router]\ntransit = true\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_node_knows_the_way_and_relays_their_neighbours_only() {
        let keys: Vec<String> = ["A", "B", "C", "D"].map(String::from).to_vec();
        let endpoints = [2, 3, 4].map(|host| Ipv4Addr::new(10, 77, 0, host));
        let of = |number| configuration(number, "", &keys, &endpoints, Middle::Relays);
        assert!(of(0).contains("via = [\"n1 > C\"]") && of(0).contains("endpoints = [\"10.77.0.2:51900\"]"));
        assert!(of(1).contains("relay = true") && !of(1).contains("\"D\"") && of(1).contains("10.77.0.3:"));
        assert!(of(3).contains("public-key = \"A\"") && !of(3).contains("endpoints"));
        assert!(!configuration(0, "", &keys[..2], &endpoints, Middle::Relays).contains("via"));
    }

    #[test]
    fn nodes_that_forward_have_those_beyond_as_prefixes() {
        let keys: Vec<String> = ["A", "B", "C", "D"].map(String::from).to_vec();
        let endpoints = [2, 3, 4].map(|host| Ipv4Addr::new(10, 77, 0, host));
        let of = |number, middle| configuration(number, "", &keys, &endpoints, middle);
        let transit = of(1, Middle::Transit);
        assert!(transit.contains("transit = true") && transit.contains("relay = false"));
        assert!(transit.contains("prefixes = [\"10.99.0.1/32\"]"), "{transit}");
        assert!(transit.contains("prefixes = [\"10.99.0.3/32\", \"10.99.0.4/32\"]"), "{transit}");
        assert!(!of(1, Middle::Kernel).contains("transit") && !of(0, Middle::Kernel).contains("via"));
    }
}
