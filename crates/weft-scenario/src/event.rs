//! Defines timed events, which change links, nodes, weights or VPN shares during a run.

use crate::error::{Checked, Source, which_exist};
use crate::file::{EventFile, EventLinkFile};
use crate::pattern::matching;
use crate::vpn::{self, ShareChange};
use crate::{Directions, Link, VpnService};
use std::collections::BTreeMap;
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// The part of the scenario that an event changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventTarget {
    /// The link with this index in the scenario's list of links.
    Link(usize),
    /// All links of the node with this index in the scenario's list of nodes.
    Node(usize),
    /// The link that carries this `probe` flow when the event happens.
    ///
    /// The one-way delay of the probes shows which link that is. Only a pair has such events.
    Carrying(String),
    /// All daemons, for [`Action::Weights`] and [`Action::Share`].
    Weft,
}

/// The change that an event makes.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// The link drops every packet. Its interface stays up, so the nodes do not notice.
    Cut,
    /// The link carries packets again after a cut.
    Restore,
    /// Sets the rate of the link in the event's directions.
    Rate(Rate),
    /// Sets the loss probability of the link, from 0 to 1.
    Loss(f64),
    /// Sets the one-way delay of the link in the event's directions.
    Delay(Duration),
    /// Sets the weights of links, by link name, in the daemon at the first end of each link.
    Weights(BTreeMap<String, u32>),
    /// Changes the weight or the promised rate of a VPN.
    Share(ShareChange),
}

impl Action {
    /// Returns the keyword for the action in scenario files and results.
    pub fn word(&self) -> &'static str {
        match self {
            Action::Cut => "cut",
            Action::Restore => "restore",
            Action::Rate(_) => "rate",
            Action::Loss(_) => "loss",
            Action::Delay(_) => "delay",
            Action::Weights(_) => "weights",
            Action::Share(_) => "share",
        }
    }
}

/// One event that happens once.
///
/// An `[[event]]` of the file gives several of these if it repeats, or if its name pattern matches several links or
/// nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct TimedEvent {
    /// Index of the `[[event]]` in the file, from 0.
    ///
    /// All repetitions of one entry have the same index.
    pub group: usize,
    /// Time of the event since the start of the run.
    pub at: Duration,
    /// Time after which the change is undone; `None`: the change stays.
    pub lasting: Option<Duration>,
    /// The link, node or daemon that the event changes.
    pub target: EventTarget,
    /// The directions of the link or links that the event changes.
    pub directions: Directions,
    /// The change that the event makes to its target.
    pub action: Action,
}

/// Maximum number of events in a scenario.
///
/// A larger number is probably a typing mistake.
const EVENTS_MAX: usize = 10_000;

/// The parts of a scenario to which the events in its file may refer.
pub(crate) struct EventSurroundings<'a> {
    pub nodes: &'a [String],
    pub links: &'a [Link],
    pub vpns: Vec<&'a str>,
    /// Names of the `probe` flows, or `None` where the probes' delay does not identify a link.
    pub probes: Option<Vec<&'a str>>,
    /// True if weft runs in the scenario, so that links have weights.
    pub has_weft: bool,
}

/// Reads the events of a pair or a network, in order of time.
pub(crate) fn read(
    source: &Source<'_>,
    files: &[EventFile],
    duration: Duration,
    around: &EventSurroundings<'_>,
) -> Checked<Vec<TimedEvent>> {
    let mut events: Vec<TimedEvent> = Vec::new();
    let names: Vec<String> = around.links.iter().map(|link| link.name.clone()).collect();
    for (group, file) in files.iter().enumerate() {
        let (action, directions) = file.action(source, around)?;
        for target in file.targets(source, &action, directions, around, &names)? {
            let times = file.times(source, duration, events.len())?;
            let lasting = file.lasting.map(|q| q.0);
            let (target, action) = (&target, &action);
            events.extend(times.into_iter().map(|at| TimedEvent {
                group,
                at,
                lasting,
                target: target.clone(),
                directions,
                action: action.clone(),
            }));
        }
    }
    events.sort_by_key(|event| event.at);
    Ok(events)
}

impl EventFile {
    /// Returns the times of the event and its repetitions, in a run of `duration`.
    ///
    /// `already` is the number of events that the earlier `[[event]]` entries made.
    fn times(&self, source: &Source<'_>, duration: Duration, already: usize) -> Checked<Vec<Duration>> {
        let first = self.at.get_ref().0;
        let repeat = self.repeat.unwrap_or(1).max(1);
        let every = self.every.as_ref().map(|every| every.get_ref().0).unwrap_or_default();
        if repeat > 1 && every.is_zero() {
            return Err(source.at(&self.at, "an event with `repeat` needs `every`, the time between two repetitions"));
        }
        let last = every.checked_mul(repeat - 1).and_then(|all| all.checked_add(first)).unwrap_or(Duration::MAX);
        if last >= duration {
            return Err(source.at(&self.at, "this event, or its last repetition, is after the end of the run"));
        }
        if already.saturating_add(repeat as usize) > EVENTS_MAX {
            let why = format!("a scenario can have at most {EVENTS_MAX} events, each repetition counted: remove some");
            return Err(source.at(&self.at, why));
        }
        Ok((0..repeat).map(|n| first + every * n).collect())
    }

    /// Returns the change that the event makes, and the directions of links in which it makes it.
    ///
    /// It fails unless the event has exactly one action.
    fn action(&self, source: &Source<'_>, around: &EventSurroundings<'_>) -> Checked<(Action, Directions)> {
        let directions = self.direction.unwrap_or(Directions::Both);
        let mut actions = Vec::new();
        actions.extend(self.cut.map(|d| (Action::Cut, d)));
        actions.extend(self.restore.map(|d| (Action::Restore, d)));
        actions.extend(self.rate.map(|q| (Action::Rate(q.0), directions)));
        actions.extend(self.loss.map(|q| (Action::Loss(q.0.0), directions)));
        actions.extend(self.delay.map(|q| (Action::Delay(q.0), directions)));
        actions.extend(self.weights.as_ref().map(|w| (Action::Weights(w.get_ref().clone()), directions)));
        let share = self.share_change(source, &around.vpns)?;
        actions.extend(share.map(|change| (Action::Share(change), Directions::Both)));
        <[(Action, Directions); 1]>::try_from(actions).map(|[one]| one).map_err(|_| {
            let things =
                "`cut`, `restore`, `rate`, `loss`, `delay`, `weights`, or a `vpn`'s `weight`, `assured` or `leased`";
            source.at(&self.at, format!("an event must have exactly one of: {things}"))
        })
    }

    fn share_change(&self, source: &Source<'_>, vpns: &[&str]) -> Checked<Option<ShareChange>> {
        let place = [self.weight.as_ref().map(Spanned::span), self.assured.as_ref().map(Spanned::span)];
        let place = place.into_iter().chain([self.leased.as_ref().map(Spanned::span)]).flatten().next();
        let (name, place) = match (&self.vpn, place) {
            (None, None) => return Ok(None),
            (None, Some(place)) => return Err(source.error(place.start, "name the VPN whose share changes: `vpn`")),
            (Some(name), None) => {
                return Err(source.at(name, "set what changes for the VPN: `weight`, `assured` or `leased`"));
            }
            (Some(name), Some(place)) => (name, place),
        };
        let promise = |rate: Option<_>, of: fn(_) -> VpnService| rate.map_or(VpnService::BestEffort, of);
        let service = match (&self.assured, &self.leased) {
            (Some(_), Some(_)) => {
                return Err(source.error(place.start, "a VPN is `assured` or `leased`, not both"));
            }
            (Some(rate), None) => Some(promise(rate.get_ref().0.0, VpnService::Assured)),
            (None, Some(rate)) => Some(promise(rate.get_ref().0.0, VpnService::Leased)),
            (None, None) => None,
        };
        let weight = self.weight.as_ref().map(|weight| vpn::read_weight(source, weight)).transpose()?;
        Ok(Some(ShareChange { vpn: vpn::position(source, name, vpns)?, weight, service }))
    }

    /// Returns the links or nodes that the event changes. Its name pattern may match several.
    ///
    /// `links` has the names of all links.
    fn targets(
        &self,
        source: &Source<'_>,
        action: &Action,
        directions: Directions,
        around: &EventSurroundings<'_>,
        links: &[String],
    ) -> Checked<Vec<EventTarget>> {
        if let Some(weights) = &self.weights {
            self.check_weights(source, weights, around, links)?;
        }
        let is_of_weft = matches!(action, Action::Weights(_) | Action::Share(_));
        match (&self.link, &self.node) {
            (None, None) if is_of_weft => Ok(vec![EventTarget::Weft]),
            (Some(link), _) if is_of_weft => Err(source.at(link, untargeted(action, "link"))),
            (_, Some(node)) if is_of_weft => Err(source.at(node, untargeted(action, "node"))),
            (Some(link), None) => link_targets(source, link, around, links),
            (None, Some(node)) => {
                if !matches!(action, Action::Cut | Action::Restore) || directions != Directions::Both {
                    return Err(source.at(node, "a node can only be cut or restored as a whole: cut = \"both\""));
                }
                Ok(matching(source, node, "node", around.nodes)?.into_iter().map(EventTarget::Node).collect())
            }
            _ => Err(source.at(&self.at, "this event needs a `link` or a `node`")),
        }
    }

    /// Checks that weft runs in the scenario and that each weight names an existing link.
    fn check_weights(
        &self,
        source: &Source<'_>,
        weights: &Spanned<BTreeMap<String, u32>>,
        around: &EventSurroundings<'_>,
        links: &[String],
    ) -> Checked<()> {
        if !around.has_weft {
            let why = "only weft weighs links, and a network has none without a node with `weft = true`";
            return Err(source.at(weights, why));
        }
        match weights.get_ref().keys().find(|name| !links.contains(name)) {
            None => Ok(()),
            Some(name) => {
                let exist = which_exist(name, links.iter().map(String::as_str));
                Err(source.at(weights, format!("there is no link `{name}`: {exist}")))
            }
        }
    }
}

/// Returns the error message for an event that names a target although its action takes none.
///
/// `key` is the key that names the target: `link` or `node`.
fn untargeted(action: &Action, key: &str) -> String {
    match action {
        Action::Weights(_) => format!("an event with `weights` names the links in `weights`: remove `{key}`"),
        _ => format!("an event that changes a VPN's share applies to all links: remove `{key}`"),
    }
}

fn link_targets(
    source: &Source<'_>,
    link: &Spanned<EventLinkFile>,
    around: &EventSurroundings<'_>,
    links: &[String],
) -> Checked<Vec<EventTarget>> {
    match (link.get_ref(), &around.probes) {
        (EventLinkFile::Name(name), _) => {
            let name = Spanned::new(link.span(), name.clone());
            Ok(matching(source, &name, "link", links)?.into_iter().map(EventTarget::Link).collect())
        }
        (EventLinkFile::Carrying(_), None) => Err(source.at(link, "in a network, name the link itself")),
        (EventLinkFile::Carrying(flow), Some(probes)) if probes.contains(&flow.carrying.as_str()) => {
            Ok(vec![EventTarget::Carrying(flow.carrying.clone())])
        }
        (EventLinkFile::Carrying(flow), Some(_)) => Err(source.at(
            link,
            format!(
                "`carrying` names flow `{}`, but the scenario has no flow of this name with app = \"probe\": correct \
                 the name",
                flow.carrying
            ),
        )),
    }
}
