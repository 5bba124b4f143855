//! Explicit rates: which routers take part, and what they grant by.

use super::link::NetworkLink;
use super::pattern::{matches, matching};
use crate::error::{Checked, Source, which_exist};
use crate::quantity::{Fraction, Quantity};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use toml::Spanned;

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
    /// To each flow by what it uses (ERICA+).
    Erica,
}

/// What weights the ways of a bundle.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum BundleWeights {
    /// The file.
    Fixed,
    /// What each link grants.
    Granted,
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
    /// What weights bundles.
    pub weights: BundleWeights,
    /// Whether hosts know that the whole path takes part, instead of looking at TTLs.
    pub whole_path: bool,
    /// For links of an overlay, the narrowest legacy link below them, by name.
    pub over: BTreeMap<String, String>,
}

impl Default for SignallingSpec {
    fn default() -> SignallingSpec {
        SignallingSpec {
            law: GrantLaw::Off,
            nodes: "*".into(),
            round_trip: Duration::from_millis(100),
            interval: Duration::from_millis(10),
            reservable: 0.5,
            weights: BundleWeights::Fixed,
            whole_path: false,
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
    weights: Option<BundleWeights>,
    whole_path: Option<bool>,
    #[serde(default)]
    over: BTreeMap<String, Spanned<String>>,
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
        let mut over = spec.over.clone();
        for (link, legacy) in &self.over {
            for name in [link, legacy.get_ref()] {
                if !links.iter().any(|known| known.name == *name) {
                    let exist = which_exist(name, links.iter().map(|link| link.name.as_str()));
                    return Err(source.at(legacy, format!("there is no link `{name}`: {exist}")));
                }
            }
            over.insert(link.clone(), legacy.get_ref().clone());
        }
        Ok(SignallingSpec {
            law: self.law.unwrap_or(spec.law),
            nodes: self.nodes.as_ref().map_or_else(|| spec.nodes.clone(), |nodes| nodes.get_ref().clone()),
            round_trip: time(&self.round_trip, spec.round_trip)?,
            interval: time(&self.interval, spec.interval)?,
            reservable: self.reservable.map_or(spec.reservable, |q| q.0.0),
            weights: self.weights.unwrap_or(spec.weights),
            whole_path: self.whole_path.unwrap_or(spec.whole_path),
            over,
        })
    }
}
