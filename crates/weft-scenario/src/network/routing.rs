//! Defines which routes routers compute and how they spread packets over several routes.

use super::path::ExplicitPath;
use crate::error::{Checked, Source, which_exist};
use serde::Deserialize;
use std::num::NonZeroU32;
use toml::Spanned;

/// Maximum number `k` of routes between two nodes.
///
/// A larger number is probably a typing mistake.
const K_MAX: u32 = 1_000;

/// The settings by which all routers of a network compute and use routes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routing {
    /// The routes to each destination that a router uses.
    pub routes: RouteSet,
    /// The cost of each link for which the file sets no `cost`.
    pub cost: CostMetric,
    /// The way in which a router chooses one of several routes.
    pub forwarding: Forwarding,
}

/// The set of routes to one destination that a router uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteSet {
    /// One route with the least cost.
    Shortest,
    /// All routes with the least cost (ECMP).
    EqualCost,
    /// The `k` routes with the least costs.
    KShortest {
        /// Maximum number of routes.
        k: u32,
        /// True if the routes must not have a link in common.
        disjoint: bool,
    },
    /// The given label-switched paths. To destinations without such a path, one route with the least cost.
    Explicit {
        /// Indices of the paths in [`crate::NetworkScenario::paths`].
        paths: Vec<usize>,
    },
}

/// The cost of a link for which the file sets no `cost`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostMetric {
    /// Each link costs 1.
    Hops,
    /// Each link costs its one-way delay.
    Delay,
}

/// The way in which a router chooses one of several routes for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forwarding {
    /// The routes take turns, packet by packet.
    RoundRobin,
    /// A random route for each packet.
    Random,
    /// The routes take turns, packet by packet, each as often as its weight. They are interleaved evenly.
    Weighted,
    /// The routes take turns. Each gets as many consecutive packets as its weight.
    WeightedBlock,
    /// A hash of the packet's key selects the route, so that all packets with the same key take the same route.
    FlowHash(HashKey),
}

/// The fields of a packet that [`Forwarding::FlowHash`] hashes to select a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HashKey {
    /// The flow: addresses, ports and protocol.
    Flow,
    /// Only the source address, so that all packets of a host take one route (paper 000 §4.1).
    Source,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum ForwardingWord {
    RoundRobin,
    Random,
    Weighted,
    WeightedBlock,
    FlowHash,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum RoutesWord {
    Shortest,
    EqualCost,
    KShortest,
    Explicit,
}

/// The keys of a `routing` table, as the file gives them.
#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RoutingFile {
    forwarding: Option<Spanned<ForwardingWord>>,
    hash: Option<Spanned<HashKey>>,
    routes: Option<Spanned<RoutesWord>>,
    k: Option<Spanned<NonZeroU32>>,
    disjoint: Option<Spanned<bool>>,
    paths: Option<Spanned<Vec<Spanned<String>>>>,
    cost: Option<CostMetric>,
}

impl RoutingFile {
    /// Returns these settings, and those of `base` for the keys that this table does not set.
    pub fn over(&self, base: &RoutingFile) -> RoutingFile {
        RoutingFile {
            forwarding: self.forwarding.clone().or_else(|| base.forwarding.clone()),
            hash: self.hash.clone().or_else(|| base.hash.clone()),
            routes: self.routes.clone().or_else(|| base.routes.clone()),
            k: self.k.clone().or_else(|| base.k.clone()),
            disjoint: self.disjoint.clone().or_else(|| base.disjoint.clone()),
            paths: self.paths.clone().or_else(|| base.paths.clone()),
            cost: self.cost.or(base.cost),
        }
    }

    /// Fails if a key has no effect because of another key in the same table.
    pub fn check(&self, source: &Source<'_>) -> Checked<()> {
        let routes = self.routes.as_ref().map(|word| *word.get_ref());
        let forwarding = self.forwarding.as_ref().map(|word| *word.get_ref());
        let other = |wanted| routes.is_some_and(|routes| routes != wanted);
        let places = [
            (self.k.as_ref().map(Spanned::span), other(RoutesWord::KShortest), "use `k` with routes = \"k-shortest\""),
            (
                self.disjoint.as_ref().map(Spanned::span),
                other(RoutesWord::KShortest),
                "use `disjoint` with routes = \"k-shortest\"",
            ),
            (
                self.paths.as_ref().map(Spanned::span),
                other(RoutesWord::Explicit),
                "use `paths` with routes = \"explicit\"",
            ),
            (
                self.hash.as_ref().map(Spanned::span),
                forwarding.is_some_and(|word| word != ForwardingWord::FlowHash),
                "use `hash` with forwarding = \"flow-hash\"",
            ),
        ];
        for (span, is_wrong, message) in places {
            if let Some(span) = span.filter(|_| is_wrong) {
                return Err(source.error(span.start, message));
            }
        }
        Ok(())
    }

    /// Returns the routing with defaults for all keys that no table sets.
    ///
    /// The default is one route with the least number of hops.
    pub fn whole(&self, source: &Source<'_>, paths: &[ExplicitPath]) -> Checked<Routing> {
        let hash = self.hash.as_ref().map_or(HashKey::Flow, |hash| *hash.get_ref());
        Ok(Routing {
            routes: self.routes(source, paths)?,
            cost: self.cost.unwrap_or(CostMetric::Hops),
            forwarding: match self.forwarding.as_ref().map(|word| *word.get_ref()) {
                None | Some(ForwardingWord::RoundRobin) => Forwarding::RoundRobin,
                Some(ForwardingWord::Random) => Forwarding::Random,
                Some(ForwardingWord::Weighted) => Forwarding::Weighted,
                Some(ForwardingWord::WeightedBlock) => Forwarding::WeightedBlock,
                Some(ForwardingWord::FlowHash) => Forwarding::FlowHash(hash),
            },
        })
    }

    fn routes(&self, source: &Source<'_>, paths: &[ExplicitPath]) -> Checked<RouteSet> {
        let Some(routes) = &self.routes else { return Ok(RouteSet::Shortest) };
        Ok(match routes.get_ref() {
            RoutesWord::Shortest => RouteSet::Shortest,
            RoutesWord::EqualCost => RouteSet::EqualCost,
            RoutesWord::KShortest => {
                let Some(k) = &self.k else {
                    return Err(source.at(routes, "routes = \"k-shortest\" needs `k`, the number of paths"));
                };
                if u32::from(*k.get_ref()) > K_MAX {
                    return Err(source.at(k, format!("the number of paths `k` must be at most {K_MAX}")));
                }
                let disjoint = self.disjoint.as_ref().is_some_and(|disjoint| *disjoint.get_ref());
                RouteSet::KShortest { k: u32::from(*k.get_ref()), disjoint }
            }
            RoutesWord::Explicit if paths.is_empty() => {
                return Err(source.at(routes, "routes = \"explicit\" needs a [[path]]"));
            }
            RoutesWord::Explicit => RouteSet::Explicit { paths: self.used_paths(source, paths)? },
        })
    }

    fn used_paths(&self, source: &Source<'_>, paths: &[ExplicitPath]) -> Checked<Vec<usize>> {
        let Some(used) = &self.paths else { return Ok((0..paths.len()).collect()) };
        let number = |name: &Spanned<String>| {
            paths.iter().position(|path| path.name == *name.get_ref()).ok_or_else(|| {
                let exist = which_exist(name.get_ref(), paths.iter().map(|path| path.name.as_str()));
                source.at(name, format!("there is no path `{}`: {exist}", name.get_ref()))
            })
        };
        used.get_ref().iter().map(number).collect()
    }
}
