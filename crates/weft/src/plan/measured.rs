//! The links of a plan: one for each link to the peer, with the rates, delay and loss of its best path.

use super::evidence::{KnownRate, receiving_rate, sending_rate};
use crate::cli::GivenRate;
use crate::config::unknown_name;
use crate::status::{Link, Path, PathHistory, Point};
use serde::Serialize;
use std::collections::BTreeSet;
use weft_units::Rate;

/// Ratio of the jitter's range in a scenario to the jitter that a node measures.
///
/// Derived: a scenario's jitter is uniform between zero and its range. A node measures the mean absolute difference of
/// two delays, which is a third of the range for two independent uniform values.
pub(super) const JITTER_RANGE: u32 = 3;

/// The node's measurements of its paths to a peer.
#[derive(Clone, Copy)]
pub struct Measurements<'a> {
    /// All links of the node.
    pub links: &'a [Link],
    /// Paths to the peer.
    pub paths: &'a [Path],
    /// Histories of these paths.
    pub histories: &'a [PathHistory],
    /// The peer's paths to this node, from the peer's own status. Empty: unknown.
    pub far: &'a [Path],
}

/// A link of a plan, with the measurements of its best path.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PlanLink {
    /// Name of the link, at this node or at the peer.
    pub name: String,
    /// Rate from this node to the peer, in bits per second.
    pub to_peer_bps: u64,
    /// Rate from the peer to this node, in bits per second.
    pub from_peer_bps: u64,
    /// Least round-trip time, in microseconds.
    pub rtt_us: u64,
    /// Jitter of the one-way delay, in microseconds.
    pub jitter_us: u64,
    /// Fraction of datagrams lost, 0 to 1.
    pub loss: f64,
    /// True if the link carries data only while no other one answers.
    pub standby: bool,
    /// Texts that state how the figures are known.
    pub notes: Vec<String>,
}

/// The links to a peer, as a plan uses them.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanLinks {
    /// Links of the plan.
    pub links: Vec<PlanLink>,
    /// Texts about paths that are not in the plan, and about assumptions.
    pub remarks: Vec<String>,
}

impl PlanLink {
    /// Sets the rates to the peer and from it.
    pub(super) fn set_rates(&mut self, [to, from]: [Rate; 2]) {
        (self.to_peer_bps, self.from_peer_bps) = (to.bps(), from.bps());
    }
}

impl Measurements<'_> {
    /// Returns the links. `given` are rates that replace measured ones, or stand for missing ones.
    ///
    /// # Errors
    /// Fails if no path answers, if the rate of a link is unknown, or if `given` names an unknown link.
    pub fn links(&self, given: &[GivenRate]) -> Result<PlanLinks, String> {
        let (usable, unusable): (Vec<&Path>, Vec<&Path>) = self.paths.iter().partition(|path| why_not(path).is_none());
        let mut remarks: Vec<String> =
            unusable.iter().filter_map(|path| Some(left_out(path, &why_not(path)?))).collect();
        let is_by_remote = is_by_remote(&usable);
        if is_by_remote {
            remarks.push("the links are the peer's: they share links here, which are assumed to be wide".to_owned());
        }
        let groups = groups(&usable, if is_by_remote { remote } else { local });
        known(given.iter().map(|given| given.link.as_str()), groups.iter().map(|(name, _)| name.as_str()))?;
        let (mut links, mut unmeasured) = (Vec::new(), Vec::new());
        for (name, paths) in &groups {
            let Some(best) = paths.iter().max_by_key(|path| self.rank(path)) else { continue };
            let others = paths.iter().filter(|path| path.id != best.id);
            remarks.extend(others.map(|other| left_out(other, "another path of its link is in the plan")));
            match self.link(name, best, given.iter().find(|given| given.link == *name)) {
                Some(link) => links.push(link),
                None => unmeasured.push(name.as_str()),
            }
        }
        match (unmeasured.first(), links.is_empty()) {
            (Some(first), _) => Err(without_rate(&unmeasured, first)),
            (None, true) => {
                Err("no path to the peer answers, so no rate is known: weft doctor --peer NAME shows why".to_owned())
            }
            (None, false) => Ok(PlanLinks { links, remarks }),
        }
    }

    /// Returns the rank of a path among the paths of one link. The plan uses the path with the greatest rank.
    ///
    /// A path that bulk may use precedes others, then one that is no spare path, then one over UDP, then the faster
    /// one.
    fn rank(&self, path: &Path) -> (bool, bool, bool, u64) {
        let rate = self.sending(path).map_or(0, |known| known.rate.bps());
        (path.in_bundle, !path.standby, !is_tcp(path), rate)
    }

    fn history(&self, path: &Path) -> Option<&PathHistory> {
        self.histories.iter().find(|history| history.link == path.link && history.remote == path.remote)
    }

    fn sending(&self, path: &Path) -> Option<KnownRate> {
        let link = self.links.iter().find(|link| link.name == local(path));
        sending_rate(path, self.history(path), link.and_then(|link| link.max_rate_up_bps))
    }

    /// Returns the link with the figures of a path, or `None` if its rate is unknown.
    fn link(&self, name: &str, path: &Path, given: Option<&GivenRate>) -> Option<PlanLink> {
        // Both ends of a session use the same number for a path.
        let is_same = |far: &&Path| path.remote_link.as_ref().is_none_or(|name| *name == far.link);
        let far = self.far.iter().find(|far| far.id == path.id).filter(is_same);
        let [to, from] = match given {
            Some(given) => given.rates.map(|rate| KnownRate { rate, source: "by --rate".to_owned() }),
            None => {
                let to = self.sending(path)?;
                [to.clone(), receiving_rate(path, far, &to)]
            }
        };
        let (loss, loss_source) = loss(path, self.history(path));
        Some(PlanLink {
            name: name.to_owned(),
            to_peer_bps: to.rate.bps(),
            from_peer_bps: from.rate.bps(),
            rtt_us: path.rtt_min_us?,
            jitter_us: path.jitter_us,
            loss,
            standby: path.standby,
            notes: vec![
                format!("source of the figure for the rate to the peer: {}", to.source),
                format!("source of the figure for the rate from the peer: {}", from.source),
                format!("source of the figure for the loss: {loss_source}"),
            ],
        })
    }
}

/// Checks that all names are among the names of the links.
///
/// # Errors
/// Fails if a name is unknown. The message proposes a similar one, or lists all that are known.
pub(super) fn known<'a>(
    mut names: impl Iterator<Item = &'a str>,
    links: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), String> {
    let unknown = names.find(|name| links.clone().all(|link| link != *name));
    unknown.map_or(Ok(()), |unknown| Err(unknown_name("link", unknown, links)))
}

fn without_rate(unmeasured: &[&str], first: &str) -> String {
    let list = unmeasured.join(", ");
    format!(
        "the rate of these links was not measured yet: {list}: send traffic over them for some seconds, set `[policy] \
         sense = true`, or give it: --rate '{first}=20 Mbit/s'"
    )
}

/// Returns the reason why a path is no link of the plan, if there is one.
fn why_not(path: &Path) -> Option<String> {
    if path.link.starts_with("via ") {
        return Some("a route over a relay, which uses links of other nodes".to_owned());
    }
    let is_silent = path.is_down() || path.rtt_min_us.is_none();
    is_silent.then(|| format!("{}, {}", path.state, path.cause))
}

fn is_tcp(path: &Path) -> bool {
    path.link == "tcp" || path.link.ends_with("/tcp")
}

/// Returns the name of the path's link at this node. For a path over TCP, it is the link of the TCP connections.
fn local(path: &Path) -> &str {
    path.link.strip_suffix("/tcp").unwrap_or(&path.link)
}

/// Returns the name of the path's link at the peer. If the peer has not sent the name, returns the peer's address.
fn remote(path: &Path) -> &str {
    path.remote_link.as_deref().map_or(&path.remote, |name| name.strip_suffix("/tcp").unwrap_or(name))
}

/// Returns true if the plan has the peer's links instead of this node's, because the peer has more.
///
/// A site has a path for each of its links. Its hub sees the same paths over the one link that the hub has.
fn is_by_remote(paths: &[&Path]) -> bool {
    let here: BTreeSet<&str> = paths.iter().map(|path| local(path)).collect();
    let there: BTreeSet<&str> =
        paths.iter().filter(|path| path.remote_link.is_some()).map(|path| remote(path)).collect();
    there.len() > here.len()
}

fn left_out(path: &Path, why: &str) -> String {
    format!("path {} is not in the plan: {why}", path.name())
}

/// Returns the paths of each link, in the order of the links' first paths.
fn groups<'a>(paths: &[&'a Path], name: fn(&Path) -> &str) -> Vec<(String, Vec<&'a Path>)> {
    let mut groups: Vec<(String, Vec<&Path>)> = Vec::new();
    for path in paths {
        match groups.iter_mut().find(|(of, _)| of == name(path)) {
            Some((_, group)) => group.push(path),
            None => groups.push((name(path).to_owned(), vec![path])),
        }
    }
    groups
}

/// Returns the mean loss of the last ten minutes, or else the present one, and how it is known.
fn loss(path: &Path, history: Option<&PathHistory>) -> (f64, String) {
    let seconds: &[Point] = history.map_or(&[], |history| &history.seconds);
    let values: Vec<f64> = seconds.iter().filter_map(|point| point.loss).collect();
    match values.len() {
        0 => (path.loss, "of the last datagrams to the peer; assumed for both directions".to_owned()),
        count => {
            let mean = values.iter().sum::<f64>() / count as f64;
            (mean, format!("mean loss to the peer in the last {count} s; assumed for both directions"))
        }
    }
}
