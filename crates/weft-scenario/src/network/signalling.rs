//! Defines explicit-rate signalling: which nodes grant rates to flows, and by which algorithm.

use crate::Link;
use crate::error::{Checked, Source, which_exist};
use crate::pattern::{matches, matching, node};
use crate::quantity::{Fraction, Quantity};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// The algorithm by which a router grants rates on its links.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum GrantLaw {
    /// Routers grant no rates, and hosts request none.
    Off,
    /// Each flow is granted the link's whole capacity, less the rates that are guaranteed to flows.
    Capacity,
    /// All flows on a link are granted the same rate, which a PI controller derives from the link's queue.
    Pi,
    /// Each flow is granted a rate that depends on its own sending rate (ERICA+).
    Erica,
}

/// A path between two nodes that take part in the signalling, over routers that do not.
///
/// Packets cross the path encapsulated. Its routers therefore neither read the signals in the packets nor lower the
/// inner TTLs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubPath {
    /// Name of the node at the end of the path.
    pub to: String,
    /// Capacity of the path's narrowest link, as the overlay's operator knows it.
    pub capacity: Rate,
}

/// The settings of explicit-rate signalling.
#[derive(Clone, PartialEq, Debug)]
pub struct SignallingSpec {
    /// Algorithm by which a node grants rates on its links.
    pub law: GrantLaw,
    /// Pattern for the names of the nodes that take part, in which `*` matches any characters.
    pub nodes: String,
    /// Mean round-trip time of the flows (τ), which the algorithms need.
    pub round_trip: Duration,
    /// Interval at which a node measures each of its links and computes the granted rate anew.
    pub interval: Duration,
    /// Maximum fraction of a link's capacity that flows can reserve as guaranteed rates, from 0 to 1.
    pub reservable: f64,
    /// True if hosts assume that all routers on the path take part in the signalling.
    ///
    /// Otherwise a host compares two TTLs to detect a router that does not.
    pub whole_path: bool,
    /// Name of a node with an attacker that lacks the key.
    ///
    /// The attacker drops, duplicates, reorders and forges signals.
    pub meddler: Option<String>,
    /// Paths over routers that take no part in the signalling.
    ///
    /// The key is the name of the link by which a path begins.
    ///
    /// Each path ends at the next node that takes part.
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
    /// True if the node with this name takes part in the signalling.
    pub fn has(&self, node: &str) -> bool {
        self.law != GrantLaw::Off && matches(&self.nodes, node)
    }
}

/// The keys of a `signalling` table, as the file gives them.
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
    /// Returns `spec` with the settings of this table, after a check of their limits.
    pub fn apply(
        &self,
        source: &Source<'_>,
        spec: &SignallingSpec,
        nodes: &[String],
        links: &[Link],
    ) -> Checked<SignallingSpec> {
        if let Some(pattern) = &self.nodes {
            matching(source, pattern, "node", nodes)?;
        }
        let time = |given: &Option<Spanned<Quantity<Duration>>>, before: Duration| match given {
            Some(given) if given.get_ref().0.is_zero() => Err(source.at(given, "the time must be greater than zero")),
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
                return Err(source.at(&below.capacity, "the capacity must be greater than zero"));
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
