//! The shape of a scenario file, as serde reads it; `scenario` checks it and makes it whole.

use crate::quantity::{Bytes, Fraction, Quantity};
use crate::{App, Directions, FlowDirection, Kind, QueueSize};
use serde::Deserialize;
use std::collections::BTreeMap;
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
    #[serde(default = "one")]
    pub repeats: Spanned<u32>,
    #[serde(default = "seed")]
    pub seed: u64,
    #[serde(rename = "link")]
    pub links: Option<Vec<LinkFile>>,
    #[serde(rename = "flow", default)]
    pub flows: Vec<FlowFile>,
    #[serde(rename = "event", default)]
    pub events: Vec<EventFile>,
    #[serde(default)]
    pub variants: Vec<Spanned<Kind>>,
    #[serde(rename = "variant", default)]
    pub named_variants: Vec<VariantFile>,
}

fn one() -> Spanned<u32> {
    Spanned::new(0..0, 1)
}

fn seed() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkFile {
    pub name: Spanned<String>,
    pub rate: Option<Quantity<Rate>>,
    pub trace: Option<String>,
    pub delay: Option<Quantity<Duration>>,
    pub jitter: Option<Quantity<Duration>>,
    pub loss: Option<Quantity<Fraction>>,
    pub queue: Option<Quantity<QueueSize>>,
    #[serde(default)]
    pub up: DirectionFile,
    #[serde(default)]
    pub down: DirectionFile,
}

/// What one direction has of its own.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct DirectionFile {
    pub rate: Option<Quantity<Rate>>,
    pub trace: Option<String>,
    pub delay: Option<Quantity<Duration>>,
    pub jitter: Option<Quantity<Duration>>,
    pub loss: Option<Quantity<Fraction>>,
    pub queue: Option<Quantity<QueueSize>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowFile {
    pub name: Option<Spanned<String>>,
    pub app: Spanned<App>,
    pub direction: Option<FlowDirection>,
    pub congestion: Option<String>,
    pub start: Option<Spanned<Quantity<Duration>>>,
    pub stop: Option<Spanned<Quantity<Duration>>>,
    pub interval: Option<Quantity<Duration>>,
    pub size: Option<Quantity<Bytes>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventFile {
    pub at: Spanned<Quantity<Duration>>,
    pub link: Option<Spanned<EventLinkFile>>,
    pub direction: Option<Directions>,
    pub cut: Option<Directions>,
    pub restore: Option<Directions>,
    pub rate: Option<Quantity<Rate>>,
    pub loss: Option<Quantity<Fraction>>,
    pub delay: Option<Quantity<Duration>>,
    pub weights: Option<Spanned<BTreeMap<String, u32>>>,
    #[serde(rename = "for")]
    pub lasting: Option<Quantity<Duration>>,
    pub every: Option<Spanned<Quantity<Duration>>>,
    pub repeat: Option<u32>,
}

/// `link = "fibre"` or `link = { carrying = "probe" }`.
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
    pub kind: Kind,
    pub links: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub weft: toml::Table,
}

fn weft() -> Kind {
    Kind::Weft
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SweepFile {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub seeds: Spanned<Vec<u64>>,
    pub links: Spanned<[u64; 2]>,
    pub rate: Spanned<[Quantity<Rate>; 2]>,
    pub delay: Spanned<[Quantity<Duration>; 2]>,
    pub loss: Spanned<[Quantity<Fraction>; 2]>,
    pub queue: Option<Quantity<QueueSize>>,
    pub duration: Spanned<Quantity<Duration>>,
    pub warmup: Option<Spanned<Quantity<Duration>>>,
    #[serde(default = "one")]
    pub repeats: Spanned<u32>,
    pub least: LeastFile,
}

/// What the bonded goodput must reach in every mix.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeastFile {
    #[serde(rename = "of-best-link-through-weft")]
    pub of_weft: f64,
    #[serde(rename = "of-best-link")]
    pub of_plain: f64,
}
