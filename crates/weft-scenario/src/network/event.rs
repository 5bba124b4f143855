//! Defines timed events in a network.

use super::link::NetworkLink;
use super::pattern::matching;
use crate::error::{Checked, Source};
use crate::file::{EventFile, EventLinkFile};
use crate::{Action, Directions};
use std::time::Duration;
use toml::Spanned;

/// The link or node that an event changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventTarget {
    /// The link with this index.
    Link(usize),
    /// The node with this index.
    ///
    /// [`Action::Cut`] on a node cuts all its links.
    Node(usize),
}

/// One event that happens once to one link or node.
///
/// Repetitions and patterns in the file are separate events here.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkEvent {
    /// Index of the `[[event]]` in the file, from 0.
    pub group: usize,
    /// Time of the event since the start of the run.
    pub at: Duration,
    /// Duration after which the change is undone, or `None` if it stays.
    pub lasting: Option<Duration>,
    /// The link or node that changes.
    pub target: EventTarget,
    /// The direction or directions of the link that change.
    pub directions: Directions,
    /// The change that the event makes.
    ///
    /// It is never [`Action::Weights`] or [`Action::Share`].
    pub action: Action,
}

pub(super) fn read(
    source: &Source<'_>,
    files: &[EventFile],
    duration: Duration,
    nodes: &[String],
    links: &[NetworkLink],
) -> Checked<Vec<NetworkEvent>> {
    let mut events: Vec<NetworkEvent> = Vec::new();
    let names: Vec<String> = links.iter().map(|link| link.name.clone()).collect();
    for (group, file) in files.iter().enumerate() {
        if let Some(vpn) = &file.vpn {
            return Err(source.at(vpn, "only a scenario with two nodes can change shares"));
        }
        let (action, directions) = file.action(source, &[])?;
        let targets = targets(source, file, &action, directions, nodes, &names)?;
        for target in targets {
            let lasting = file.lasting.map(|q| q.0);
            let times = file.times(source, duration, events.len())?;
            let action = &action;
            events.extend(times.into_iter().map(|at| NetworkEvent {
                group,
                at,
                lasting,
                target,
                directions,
                action: action.clone(),
            }));
        }
    }
    events.sort_by_key(|event| event.at);
    Ok(events)
}

fn targets(
    source: &Source<'_>,
    file: &EventFile,
    action: &Action,
    directions: Directions,
    nodes: &[String],
    links: &[String],
) -> Checked<Vec<EventTarget>> {
    if let Some(weights) = &file.weights {
        return Err(source.at(weights, "only a scenario with two nodes has weights: a network has none"));
    }
    match (&file.link, &file.node) {
        (Some(link), None) => match link.get_ref() {
            EventLinkFile::Name(name) => {
                let name = Spanned::new(link.span(), name.clone());
                Ok(matching(source, &name, "link", links)?.into_iter().map(EventTarget::Link).collect())
            }
            EventLinkFile::Carrying(_) => Err(source.at(link, "in a network, name the link itself")),
        },
        (None, Some(node)) => {
            if !matches!(action, Action::Cut | Action::Restore) || directions != Directions::Both {
                return Err(source.at(node, "a node can only be cut or restored as a whole: cut = \"both\""));
            }
            Ok(matching(source, node, "node", nodes)?.into_iter().map(EventTarget::Node).collect())
        }
        _ => Err(source.at(&file.at, "this event needs a `link` or a `node`")),
    }
}
