//! How routers find ways and spread packets over them.

use super::path::ExplicitPath;
use crate::error::{Checked, Source, which_exist};
use serde::Deserialize;
use std::num::NonZeroU32;
use toml::Spanned;

/// More paths between two nodes than this are a slip of the pen.
const K_MAX: u32 = 1_000;

/// How all routers of a network choose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routing {
    /// Which ways there are.
    pub routes: Routes,
    /// What makes one way cheaper than another.
    pub cost: CostMetric,
    /// Which of several ways a packet takes.
    pub forwarding: Forwarding,
}

/// Which ways there are to a destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Routes {
    /// One cheapest.
    Shortest,
    /// All cheapest (ECMP).
    EqualCost,
    /// The cheapest few.
    KShortest {
        /// How many at most.
        k: u32,
        /// Whether no two share a link.
        disjoint: bool,
    },
    /// These label-switched paths, by their numbers; one cheapest way where none leads.
    Explicit {
        /// Numbers in [`crate::Network::paths`].
        paths: Vec<usize>,
    },
}

/// What a link costs that says nothing itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostMetric {
    /// 1.
    Hops,
    /// Its one-way delay.
    Delay,
}

/// Which of several ways a packet takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forwarding {
    /// Each in turn, packet by packet.
    RoundRobin,
    /// Any, packet by packet.
    Random,
    /// Each in turn by its weight, packet by packet, well mixed.
    Weighted,
    /// Each in turn, as many packets on end as its weight.
    WeightedBlock,
    /// The same for all packets of equal key.
    FlowHash(HashKey),
}

/// What is hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HashKey {
    /// The flow: addresses, ports, protocol.
    Flow,
    /// The source address alone (paper 000 §4.1).
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

/// The keys of a `routing` table.
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
    /// These settings, and below them those of `base`.
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

    /// Refuses keys that do nothing beside the others of the same table.
    pub fn check(&self, source: &Source<'_>) -> Checked<()> {
        let routes = self.routes.as_ref().map(|word| *word.get_ref());
        let forwarding = self.forwarding.as_ref().map(|word| *word.get_ref());
        let other = |wanted| routes.is_some_and(|routes| routes != wanted);
        let places = [
            (self.k.as_ref().map(Spanned::span), other(RoutesWord::KShortest), "`k` is for routes = \"k-shortest\""),
            (
                self.disjoint.as_ref().map(Spanned::span),
                other(RoutesWord::KShortest),
                "`disjoint` is for routes = \"k-shortest\"",
            ),
            (
                self.paths.as_ref().map(Spanned::span),
                other(RoutesWord::Explicit),
                "`paths` is for routes = \"explicit\"",
            ),
            (
                self.hash.as_ref().map(Spanned::span),
                forwarding.is_some_and(|word| word != ForwardingWord::FlowHash),
                "`hash` is for forwarding = \"flow-hash\"",
            ),
        ];
        for (span, is_wrong, message) in places {
            if let Some(span) = span.filter(|_| is_wrong) {
                return Err(source.error(span.start, message));
            }
        }
        Ok(())
    }

    /// The routing as a whole: by default one cheapest way by hops.
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

    fn routes(&self, source: &Source<'_>, paths: &[ExplicitPath]) -> Checked<Routes> {
        let Some(routes) = &self.routes else { return Ok(Routes::Shortest) };
        Ok(match routes.get_ref() {
            RoutesWord::Shortest => Routes::Shortest,
            RoutesWord::EqualCost => Routes::EqualCost,
            RoutesWord::KShortest => {
                let Some(k) = &self.k else {
                    return Err(source.at(routes, "routes = \"k-shortest\" needs `k`, the number of paths"));
                };
                if u32::from(*k.get_ref()) > K_MAX {
                    return Err(source.at(k, format!("`k` is at most {K_MAX}")));
                }
                let disjoint = self.disjoint.as_ref().is_some_and(|disjoint| *disjoint.get_ref());
                Routes::KShortest { k: u32::from(*k.get_ref()), disjoint }
            }
            RoutesWord::Explicit if paths.is_empty() => {
                return Err(source.at(routes, "routes = \"explicit\" needs a [[path]]"));
            }
            RoutesWord::Explicit => Routes::Explicit { paths: self.used_paths(source, paths)? },
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
