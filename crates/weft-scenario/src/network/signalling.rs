//! Explicit rates: which routers take part, and what they grant by.

use super::link::NetworkLink;
use super::pattern::{matches, matching, node};
use crate::error::{Checked, Source, which_exist};
use crate::quantity::{Fraction, Quantity};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// What a router's links grant by.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum GrantLaw {
    /// Nothing: nobody is asked.
    Off,
    /// To each flow all that is not guaranteed.
    Capacity,
    /// To all flows one rate, by a PI controller of the queue.
    Pi,
    /// To each flow by what it sends (ERICA+).
    Erica,
}

/// A legacy path between two nodes that take part. Packets cross it encapsulated, so that nobody there sees their signals or lowers
/// their TTLs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubPath {
    /// The node at its end.
    pub to: String,
    /// Of its narrowest link, as who runs the overlay knows it.
    pub capacity: Rate,
}

/// How explicit rates are signalled.
#[derive(Clone, PartialEq, Debug)]
pub struct SignallingSpec {
    /// What links grant by.
    pub law: GrantLaw,
    /// A pattern of the names of nodes that take part, in which `*` stands for anything.
    pub nodes: String,
    /// τ: the flows' mean round trip.
    pub round_trip: Duration,
    /// How often a controller looks at its link.
    pub interval: Duration,
    /// The part of a link that may be guaranteed.
    pub reservable: f64,
    /// Whether hosts know that the whole path takes part, instead of looking at TTLs.
    pub whole_path: bool,
    /// A node, by name, where somebody without the key loses, repeats, reorders and forges signals.
    pub meddler: Option<String>,
    /// Links, by name, behind which a legacy path leads to the next node that takes part.
    pub over: BTreeMap<String, SubPath>,
}

impl Default for SignallingSpec {
    fn default() -> SignallingSpec {
        SignallingSpec {
            law: GrantLaw::Off,
            nodes: "*".into(),
            round_trip: Duration::from_millis(100),
            interval: Duration::from_millis(10),
            reservable: 0.5,
            whole_path: false,
            meddler: None,
            over: BTreeMap::new(),
        }
    }
}

impl SignallingSpec {
    /// Whether a node takes part.
    pub fn has(&self, node: &str) -> bool {
        self.law != GrantLaw::Off && matches(&self.nodes, node)
    }
}

/// The keys of a `signalling` table.
#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SignallingFile {
    law: Option<GrantLaw>,
    nodes: Option<Spanned<String>>,
    round_trip: Option<Spanned<Quantity<Duration>>>,
    interval: Option<Spanned<Quantity<Duration>>>,
    reservable: Option<Quantity<Fraction>>,
    whole_path: Option<bool>,
    meddler: Option<Spanned<String>>,
    #[serde(default)]
    over: BTreeMap<String, SubPathFile>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct SubPathFile {
    to: Spanned<String>,
    capacity: Spanned<Quantity<Rate>>,
}

impl SignallingFile {
    /// `spec` with what is said here.
    pub fn apply(
        &self,
        source: &Source<'_>,
        spec: &SignallingSpec,
        nodes: &[String],
        links: &[NetworkLink],
    ) -> Checked<SignallingSpec> {
        if let Some(pattern) = &self.nodes {
            matching(source, pattern, "node", nodes)?;
        }
        let time = |given: &Option<Spanned<Quantity<Duration>>>, before: Duration| match given {
            Some(given) if given.get_ref().0.is_zero() => Err(source.at(given, "a time above zero is expected")),
            Some(given) => Ok(given.get_ref().0),
            None => Ok(before),
        };
        let meddler = match &self.meddler {
            Some(name) => Some(nodes[node(source, name, nodes)?].clone()),
            None => None,
        };
        let mut over = spec.over.clone();
        for (link, below) in &self.over {
            if !links.iter().any(|known| known.name == *link) {
                let exist = which_exist(link, links.iter().map(|link| link.name.as_str()));
                return Err(source.at(&below.to, format!("there is no link `{link}`: {exist}")));
            }
            let capacity = below.capacity.get_ref().0;
            if capacity == Rate::ZERO {
                return Err(source.at(&below.capacity, "a capacity above zero is expected"));
            }
            over.insert(link.clone(), SubPath { to: nodes[node(source, &below.to, nodes)?].clone(), capacity });
        }
        Ok(SignallingSpec {
            law: self.law.unwrap_or(spec.law),
            nodes: self.nodes.as_ref().map_or_else(|| spec.nodes.clone(), |nodes| nodes.get_ref().clone()),
            round_trip: time(&self.round_trip, spec.round_trip)?,
            interval: time(&self.interval, spec.interval)?,
            reservable: self.reservable.map_or(spec.reservable, |q| q.0.0),
            whole_path: self.whole_path.unwrap_or(spec.whole_path),
            meddler: meddler.or_else(|| spec.meddler.clone()),
            over,
        })
    }
}
