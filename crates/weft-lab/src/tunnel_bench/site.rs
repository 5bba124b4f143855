//! Two namespaces joined by a veth pair, and the settings of that pair.

use super::condition::Condition;
use crate::LabError;
use crate::apps::failed;
use crate::lane::LabLane;
use crate::net::NetNamespace;
use crate::options::RunOptions;
use crate::variants;
use crate::world::{LabPair, WorldLink};
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;
use weft_scenario::{Scenario, Traces, Variant, VariantKind};

/// Name of the veth pair's interface, the same on both nodes.
const PAIR: &str = "veth0";
const HOME: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const HUB: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const TOOL_TIMEOUT: Duration = Duration::from_secs(10);
/// Scenario from which the two nodes get their names. The bench does not build its link.
const FRAME: &str =
    "name = \"tunnel bench\"\nduration = \"10 s\"\nwarmup = \"2 s\"\n[[link]]\nname = \"none\"\nrate = \"1 Gbit/s\"\n";

/// The nodes of the bench, joined by the veth pair.
pub(super) struct BenchSite {
    world: LabPair,
    options: RunOptions,
}

/// Builds two nodes without links.
pub(super) fn bare_world() -> Result<LabPair, LabError> {
    let mut frame = Scenario::parse(FRAME, "tunnel bench").map_err(|e| LabError::Scenario(e.to_string()))?;
    frame.links.clear();
    LabPair::build(&frame, &Traces::new(), frame.seed)
}

/// Counters of the UDP datagrams that arrived at the receiving node's end of the veth pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Datagrams {
    pub seen: u64,
    pub dropped: u64,
    /// Number of packets longer than the pair's MTU: trains that were not segmented.
    pub uncut: u64,
}

impl BenchSite {
    pub fn build(weft_binary: &Path) -> Result<BenchSite, LabError> {
        let mut world = bare_world()?;
        world.home.ip(&format!("link add {PAIR} type veth peer name {PAIR} netns {}", world.hub.netns_path()))?;
        for (node, address) in [(&world.home, HOME), (&world.hub, HUB)] {
            node.add_address(PAIR, &format!("{address}/24"))?;
            node.set_interface(PAIR, true)?;
        }
        world.links.push(WorldLink { name: PAIR.into(), home: HOME, hub: HUB });
        let options = RunOptions { weft_binary: Some(weft_binary.to_owned()), ..RunOptions::default() };
        Ok(BenchSite { world, options })
    }

    pub fn world(&self) -> &LabPair {
        &self.world
    }

    /// Starts a variant of this kind between the two nodes and returns its only lane.
    pub fn open(&self, kind: VariantKind) -> Result<LabLane, LabError> {
        let variant = Variant::plain(kind);
        let lane = variants::open(&variant, &self.world, &self.options, 0)?.pop();
        lane.ok_or_else(|| {
            LabError::Missing(format!(
                "weft-lab started variant `{}` without a tunnel or link for the flow: report this error of weft-lab",
                variant.name
            ))
        })
    }

    /// Applies a condition to both ends of the veth pair and sets the datagram counters to zero.
    pub fn apply(&self, condition: Condition) -> Result<(), LabError> {
        let segmentation = if condition.segmentation { "on" } else { "off" };
        let rules = condition.rules(PAIR);
        for node in [&self.world.home, &self.world.hub] {
            tool(
                node,
                "ethtool",
                &["-K", PAIR, "generic-segmentation-offload", "on", "tx-udp-segmentation", segmentation],
            )?;
            tool(node, "nft", &[&rules])?;
        }
        Ok(())
    }

    /// Returns the counters of the receiving node since the last call of [`BenchSite::apply`].
    pub fn datagrams(&self) -> Result<Datagrams, LabError> {
        let listed = tool(&self.world.hub, "nft", &["-j", "list", "counters"])?;
        read_counters(&listed).ok_or_else(|| failed("nft", listed.as_bytes()))
    }
}

fn tool(node: &NetNamespace, program: &str, arguments: &[&str]) -> Result<String, LabError> {
    let mut command = node.command(program);
    command.args(arguments);
    let output = node.output(command, TOOL_TIMEOUT)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(program, &output.stderr))
    }
}

fn read_counters(json: &str) -> Option<Datagrams> {
    #[derive(Deserialize)]
    struct Listing {
        nftables: Vec<StatisticsItem>,
    }
    #[derive(Deserialize)]
    struct StatisticsItem {
        counter: Option<ByteCounter>,
    }
    #[derive(Deserialize)]
    struct ByteCounter {
        name: String,
        packets: u64,
    }
    let listing: Listing = serde_json::from_str(json).ok()?;
    let counters: Vec<ByteCounter> = listing.nftables.into_iter().filter_map(|item| item.counter).collect();
    let packets = |name: &str| counters.iter().find(|c| c.name == name).map(|c| c.packets);
    Some(Datagrams { seen: packets("seen")?, dropped: packets("dropped")?, uncut: packets("uncut")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let json = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
            {"counter": {"family": "inet", "name": "dropped", "table": "bench", "packets": 3, "bytes": 9}},
            {"counter": {"family": "inet", "name": "seen", "table": "bench", "packets": 300, "bytes": 900}},
            {"counter": {"family": "inet", "name": "uncut", "table": "bench", "packets": 0, "bytes": 0}}]}"#;
        assert_eq!(read_counters(json), Some(Datagrams { seen: 300, dropped: 3, uncut: 0 }));
        assert_eq!(read_counters(r#"{"nftables": []}"#), None);
    }
}
