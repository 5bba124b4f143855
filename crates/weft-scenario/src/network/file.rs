//! Declares the raw form of a network's file, as serde reads it.
//!
//! The neighbouring modules check this form and fill in the defaults.

use super::flow::AppWord;
use super::ingress::IngressFile;
use super::overlay::OverlaySchedule;
use super::routing::RoutingFile;
use super::signalling::SignallingFile;
use super::tcp::TcpChange;
use crate::file::{EventFile, first_seed, one_repeat};
use crate::link_file::LinkFile;
use crate::quantity::{Bytes, Fraction, Quantity};
use serde::Deserialize;
use std::num::NonZeroU32;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkFile {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub duration: Spanned<Quantity<Duration>>,
    pub warmup: Option<Spanned<Quantity<Duration>>>,
    #[serde(default = "one_repeat")]
    pub repeats: Spanned<u32>,
    #[serde(default = "first_seed")]
    pub seed: u64,
    #[serde(default)]
    pub tcp: TcpChange,
    #[serde(default)]
    pub routing: RoutingFile,
    #[serde(default)]
    pub ingress: IngressFile,
    #[serde(default)]
    pub signalling: SignallingFile,
    #[serde(rename = "node", default)]
    pub nodes: Vec<NodeFile>,
    #[serde(rename = "link", default)]
    pub links: Vec<Spanned<LinkFile>>,
    #[serde(rename = "path", default)]
    pub paths: Vec<PathFile>,
    #[serde(rename = "edge", default)]
    pub edges: Vec<EdgeFile>,
    #[serde(rename = "vpn", default)]
    pub vpns: Vec<NetworkVpnFile>,
    #[serde(rename = "flow", default)]
    pub flows: Vec<NetworkFlowFile>,
    #[serde(rename = "tunnel", default)]
    pub tunnels: Vec<TunnelFile>,
    #[serde(rename = "event", default)]
    pub events: Vec<EventFile>,
    pub grid: Option<NetworkGridFile>,
    #[serde(rename = "variant", default)]
    pub variants: Vec<NetworkVariantFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkGridFile {
    pub links: Option<Spanned<String>>,
    #[serde(default)]
    pub window: Vec<NonZeroU32>,
    #[serde(default)]
    pub delay: Vec<Quantity<Duration>>,
    #[serde(default)]
    pub loss: Vec<Quantity<Fraction>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeFile {
    pub name: Spanned<String>,
    pub count: Option<Spanned<NonZeroU32>>,
    #[serde(default)]
    pub weft: bool,
    #[serde(default)]
    pub relay: bool,
    pub openvpn: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TunnelFile {
    pub name: Option<Spanned<String>>,
    pub between: Spanned<[Spanned<String>; 2]>,
    pub via: Spanned<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PathFile {
    pub name: Spanned<String>,
    pub via: Spanned<Vec<Spanned<String>>>,
    #[serde(default = "weight_of_one")]
    pub weight: NonZeroU32,
    #[serde(default)]
    pub one_way: bool,
    pub destinations: Option<Spanned<String>>,
}

fn weight_of_one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EdgeFile {
    pub node: Spanned<String>,
    pub leasable: Option<Quantity<Rate>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkVpnFile {
    pub name: Spanned<String>,
    pub weight: Option<Spanned<f64>>,
    pub hosts: Spanned<Vec<Spanned<String>>>,
    pub assured: Option<Spanned<Quantity<Rate>>>,
    pub leased: Option<Spanned<Quantity<Rate>>>,
    pub ingress: Option<IngressFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct NetworkFlowFile {
    pub name: Option<Spanned<String>>,
    pub app: Spanned<AppWord>,
    pub from: Spanned<String>,
    pub to: Spanned<String>,
    pub count: Option<NonZeroU32>,
    pub start: Option<Spanned<Quantity<Duration>>>,
    pub spread: Option<Spanned<Quantity<Duration>>>,
    pub stop: Option<Spanned<Quantity<Duration>>>,
    pub size: Option<Spanned<Quantity<Bytes>>>,
    pub request: Option<Spanned<Quantity<Bytes>>>,
    pub packet_size: Option<Spanned<Quantity<Bytes>>>,
    pub rate: Option<Spanned<Quantity<Rate>>>,
    pub peak: Option<Spanned<Quantity<Rate>>>,
    pub on: Option<Spanned<Quantity<Duration>>>,
    pub off: Option<Spanned<Quantity<Duration>>>,
    pub shape: Option<Spanned<f64>>,
    pub mean_packets: Option<Spanned<f64>>,
    pub interval: Option<Spanned<Quantity<Duration>>>,
    pub tcp: Option<Spanned<TcpChange>>,
    pub proxies: Option<Spanned<[Spanned<String>; 2]>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkVariantFile {
    pub name: Spanned<String>,
    #[serde(default)]
    pub routing: RoutingFile,
    #[serde(default)]
    pub tcp: TcpChange,
    #[serde(default)]
    pub ingress: IngressFile,
    #[serde(default)]
    pub signalling: SignallingFile,
    pub proxy: Option<TcpChange>,
    pub overlay: Option<Spanned<bool>>,
    pub tunnels: Option<Spanned<Vec<Spanned<String>>>>,
    pub schedule: Option<Spanned<OverlaySchedule>>,
    pub discover: Option<Spanned<bool>>,
    pub sense: Option<Spanned<bool>>,
}
