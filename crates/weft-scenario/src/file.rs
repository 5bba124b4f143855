//! Declares the raw form of a scenario file, as serde reads it.
//!
//! The module `scenario` checks this form and fills in the defaults.

use crate::link_file::LinkFile;
use crate::quantity::{Bytes, Fraction, Promise, Quantity};
use crate::{App, ControlLaw, Directions, FlowDirection, OpenvpnProto, VariantKind, VpnQueue};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ScenarioFile {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub nodes: Option<Spanned<Vec<String>>>,
    pub duration: Spanned<Quantity<Duration>>,
    pub warmup: Option<Spanned<Quantity<Duration>>>,
    #[serde(default = "one_repeat")]
    pub repeats: Spanned<u32>,
    #[serde(default = "first_seed")]
    pub seed: u64,
    #[serde(rename = "link", default)]
    pub links: Vec<Spanned<LinkFile>>,
    #[serde(default)]
    pub policy: PolicyFile,
    #[serde(rename = "vpn", default)]
    pub vpns: Vec<VpnFile>,
    #[serde(rename = "flow", default)]
    pub flows: Vec<FlowFile>,
    #[serde(rename = "event", default)]
    pub events: Vec<EventFile>,
    pub grid: Option<GridFile>,
    #[serde(default)]
    pub variants: Vec<Spanned<VariantKind>>,
    #[serde(rename = "variant", default)]
    pub named_variants: Vec<VariantFile>,
}

pub(crate) fn one_repeat() -> Spanned<u32> {
    Spanned::new(0..0, 1)
}

pub(crate) fn first_seed() -> u64 {
    1
}

/// The keys of the file's `[policy]` table: settings that apply to both daemons in all variants.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyFile {
    pub leasable: Option<Spanned<Quantity<Rate>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct VpnFile {
    pub name: Spanned<String>,
    pub weight: Option<Spanned<i64>>,
    pub assured: Option<Spanned<Quantity<Rate>>>,
    pub leased: Option<Spanned<Quantity<Rate>>>,
    #[serde(rename = "loop")]
    law: Option<ControlLaw>,
    queue: Option<VpnQueue>,
    queue_packets: Option<Spanned<u64>>,
    queue_bytes: Option<Spanned<u64>>,
}

impl VpnFile {
    /// Returns the settings for the queue and loop through which the VPN's packets enter the tunnel.
    pub fn entry(&self) -> EntryFile {
        let (queue_packets, queue_bytes) = (self.queue_packets.clone(), self.queue_bytes.clone());
        EntryFile { law: self.law, queue: self.queue, queue_packets, queue_bytes }
    }
}

/// The `vpn` table of a variant: settings of the queues and loops of all VPNs.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct EntryFile {
    #[serde(rename = "loop")]
    pub law: Option<ControlLaw>,
    pub queue: Option<VpnQueue>,
    pub queue_packets: Option<Spanned<u64>>,
    pub queue_bytes: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FlowFile {
    pub name: Option<Spanned<String>>,
    pub app: Spanned<App>,
    pub vpn: Option<Spanned<String>>,
    pub host: Option<Spanned<String>>,
    pub count: Option<NonZeroU32>,
    pub rate: Option<Spanned<Quantity<Rate>>>,
    pub packet_size: Option<Spanned<Quantity<Bytes>>>,
    pub direction: Option<FlowDirection>,
    pub congestion: Option<String>,
    pub pacing: Option<Spanned<Quantity<Rate>>>,
    pub receive_buffer: Option<Spanned<Quantity<Bytes>>>,
    pub start: Option<Spanned<Quantity<Duration>>>,
    pub stop: Option<Spanned<Quantity<Duration>>>,
    pub interval: Option<Quantity<Duration>>,
    pub size: Option<Quantity<Bytes>>,
    pub mean_packets: Option<Spanned<u32>>,
}

/// The `tcp` table of a variant, which overrides the settings of all TCP flows.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TcpFile {
    pub flow: Option<Spanned<String>>,
    pub congestion: Option<String>,
    pub pacing: Option<Quantity<Rate>>,
    pub receive_buffer: Option<Quantity<Bytes>>,
}

/// The `[grid]` table: parameters that take several values. Each combination of values is one scenario.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct GridFile {
    #[serde(default)]
    pub delay: Vec<Quantity<Duration>>,
    #[serde(default)]
    pub loss: Vec<Quantity<Fraction>>,
    #[serde(default)]
    pub size: Vec<Quantity<Bytes>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventFile {
    pub at: Spanned<Quantity<Duration>>,
    pub link: Option<Spanned<EventLinkFile>>,
    pub node: Option<Spanned<String>>,
    pub direction: Option<Directions>,
    pub cut: Option<Directions>,
    pub restore: Option<Directions>,
    pub rate: Option<Quantity<Rate>>,
    pub loss: Option<Quantity<Fraction>>,
    pub delay: Option<Quantity<Duration>>,
    pub weights: Option<Spanned<BTreeMap<String, u32>>>,
    pub vpn: Option<Spanned<String>>,
    pub weight: Option<Spanned<i64>>,
    pub assured: Option<Spanned<Quantity<Promise>>>,
    pub leased: Option<Spanned<Quantity<Promise>>>,
    #[serde(rename = "for")]
    pub lasting: Option<Quantity<Duration>>,
    pub every: Option<Spanned<Quantity<Duration>>>,
    pub repeat: Option<u32>,
}

/// The link of an event: `link = "fibre"` or `link = { carrying = "probe" }`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a link's name, or { carrying = \"the name of a probe flow\" }")]
pub(crate) enum EventLinkFile {
    Name(String),
    Carrying(CarryingFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CarryingFile {
    pub carrying: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariantFile {
    pub name: Spanned<String>,
    #[serde(default = "weft")]
    pub kind: VariantKind,
    pub links: Option<Spanned<Vec<String>>>,
    pub vpn: Option<Spanned<EntryFile>>,
    #[serde(default)]
    pub tcp: TcpFile,
    pub openvpn: Option<Spanned<OpenvpnProto>>,
    #[serde(rename = "openvpn-options", default)]
    pub openvpn_options: Vec<String>,
    #[serde(default)]
    pub weft: toml::Table,
}

fn weft() -> VariantKind {
    VariantKind::Weft
}
