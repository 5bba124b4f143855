//! Defines the links of a network.

use super::file::NetworkLinkFile;
use super::pattern::{Unique, numbered, pairs, sound_name};
use super::queue::{self, Discipline};
use crate::error::{Checked, Source};
use crate::{Capacity, DirectionSpec, QueueSize};
use std::time::Duration;
use toml::Spanned;
use weft_units::Rate;

/// A link between two nodes of a network.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkLink {
    /// Name of the link.
    pub name: String,
    /// Indices of the two nodes that the link joins.
    pub ends: [usize; 2],
    /// Direction from the first node to the second.
    pub up: LinkDirection,
    /// Direction from the second node to the first.
    pub down: LinkDirection,
    /// Routing cost in each direction, or `None` for the cost that the metric gives.
    pub cost: Option<u32>,
}

/// One direction of a network's link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkDirection {
    /// The properties that a link of any scenario has.
    pub spec: DirectionSpec,
    /// Discipline of the queue.
    pub discipline: Discipline,
}

impl NetworkLink {
    /// Returns both directions.
    pub fn directions_mut(&mut self) -> [&mut LinkDirection; 2] {
        [&mut self.up, &mut self.down]
    }

    /// Sets the one-way delay of both directions.
    pub fn set_delay(&mut self, delay: Duration) {
        self.directions_mut().into_iter().for_each(|direction| direction.spec.delay = delay);
    }

    /// Multiplies the one-way delay of both directions by `factor`.
    pub fn scale_delay(&mut self, factor: f64) {
        for LinkDirection { spec, .. } in self.directions_mut() {
            spec.delay = spec.delay.mul_f64(factor.max(0.0));
        }
    }

    /// Sets the rate of both directions.
    pub fn set_rate(&mut self, rate: Rate) {
        for direction in self.directions_mut() {
            direction.spec.capacity = Capacity::Rate(rate);
        }
    }

    /// Sets the queue limit and discipline of both directions.
    pub fn set_queue(&mut self, limit: QueueSize, discipline: Discipline) {
        for direction in self.directions_mut() {
            direction.spec.queue = limit;
            direction.discipline = discipline;
        }
    }
}

pub(super) fn read(source: &Source<'_>, files: &[NetworkLinkFile], nodes: &[String]) -> Checked<Vec<NetworkLink>> {
    let mut links = Vec::new();
    let mut names = Unique::new("link");
    for file in files {
        let [from, to] = file.between.get_ref();
        let pairs = pairs(source, from, to, nodes)?;
        if let Some(name) = &file.name {
            sound_name(source, name, "link")?;
        }
        let place = file.name.as_ref().map_or(file.between.span().start, |name| name.span().start);
        let called = |number: usize, (a, b): (usize, usize)| match &file.name {
            Some(name) => numbered(name.get_ref(), number, pairs.len()),
            None => format!("{}-{}", nodes[a], nodes[b]),
        };
        let shown = Spanned::new(place..place, called(0, pairs[0]));
        let up = direction(source, file, &shown, "up")?;
        let down = direction(source, file, &shown, "down")?;
        for (number, pair) in pairs.iter().enumerate() {
            let name = called(number, *pair);
            names.take(source, place, &name)?;
            let (up, down) = (up.clone(), down.clone());
            links.push(NetworkLink { name, ends: [pair.0, pair.1], up, down, cost: file.cost.map(u32::from) });
        }
    }
    Ok(links)
}

fn direction(
    source: &Source<'_>,
    file: &NetworkLinkFile,
    name: &Spanned<String>,
    word: &str,
) -> Checked<LinkDirection> {
    let own = if word == "up" { &file.up } else { &file.down };
    let whole = own.over(&file.common());
    let (limit, discipline) = queue::read(source, whole.queue.as_ref())?;
    if let Some(aqm) = &whole.settings.aqm {
        let word = aqm.get_ref().word();
        return Err(source.at(aqm, format!("in a network, write `queue = {{ kind = \"{word}\" }}` instead of `aqm`")));
    }
    Ok(LinkDirection { spec: whole.spec(source, name, word, limit)?, discipline })
}
