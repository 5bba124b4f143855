//! Carries out a network's events, and records the bytes that flows had received at each event.

use super::ground::Ground;
use super::routes::interface;
use super::traffic::Sink;
use crate::LabError;
use crate::emulator::{EmulatedDirection, LinkSide};
use crate::interrupt;
use crate::variants::WeftControl;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weft_scenario::measure::DeliveryMarks;
use weft_scenario::schedule::{EventMoment, LinkStates, moments, weights_at};
use weft_scenario::{Action, NetworkScenario, NetworkVariant};

/// Makes the changes of a network's events at their times, and records the bytes that flows had received then.
pub(super) struct LabTimeline<'a> {
    network: &'a NetworkScenario,
    variant: &'a NetworkVariant,
    ground: &'a Ground,
    sinks: &'a [Sink],
    links: LinkStates<EmulatedDirection>,
    marks: DeliveryMarks,
}

impl<'a> LabTimeline<'a> {
    pub fn new(
        network: &'a NetworkScenario,
        variant: &'a NetworkVariant,
        ground: &'a Ground,
        sinks: &'a [Sink],
    ) -> LabTimeline<'a> {
        let links = LinkStates::new(ground.directions.clone());
        LabTimeline { network, variant, ground, sinks, links, marks: DeliveryMarks::default() }
    }

    /// Carries out all events until the end of the run.
    ///
    /// Returns the bytes that each flow had received when each event began or ended, and those at the end of the
    /// warm-up.
    pub fn play(mut self, epoch: Instant) -> Result<(DeliveryMarks, Vec<u64>), LabError> {
        let (warmup, end) = (self.network.warmup, self.network.duration);
        let moments = moments(&self.network.events);
        let mut after_warmup = None;
        let mut moments = moments.into_iter().filter(|moment| moment.at < end).peekable();
        loop {
            let next = moments.peek().map_or(end, |moment| moment.at);
            if after_warmup.is_none() && next >= warmup {
                interrupt::sleep_until(epoch + warmup)?;
                self.sinks.iter().for_each(Sink::mark);
                after_warmup = Some(self.note(warmup));
            }
            interrupt::sleep_until(epoch + next)?;
            self.note(next);
            let Some(moment) = moments.next() else { break };
            self.carry_out(moment)?;
        }
        Ok((self.marks, after_warmup.unwrap_or_default()))
    }

    fn note(&mut self, at: Duration) -> Vec<u64> {
        let delivered: Vec<u64> = self.sinks.iter().map(Sink::bytes).collect();
        self.marks.note(at, delivered.clone());
        delivered
    }

    /// Begins or ends an event: changes the settings of the emulated links, or the weights in the daemons.
    fn carry_out(&mut self, moment: EventMoment) -> Result<(), LabError> {
        let Some(event) = self.network.events.get(moment.event) else { return Ok(()) };
        let changed = match (&event.action, moment.is_end) {
            (Action::Weights(weights), false) => return self.set_weights(weights),
            (action, false) => self.links.begin(moment.event, action, &event.directions_of(&self.network.links, None)),
            (_, true) => self.links.end(moment.event),
        };
        for ((link, way), settings) in changed {
            let Some(side) = LinkSide::BOTH.get(way) else { continue };
            self.ground.emulator().set(link, *side, settings)?;
        }
        Ok(())
    }

    /// Sets the weights of links, by link name, each in the daemon at the first end of its link.
    ///
    /// It does nothing for a variant without an overlay, which has no daemons.
    fn set_weights(&self, weights: &BTreeMap<String, u32>) -> Result<(), LabError> {
        if self.variant.overlay.is_none() {
            return Ok(());
        }
        for overlay in &self.network.overlay.nodes {
            let own = weights_at(overlay.node, &self.network.links, weights).into_iter();
            let own: BTreeMap<String, u32> =
                own.map(|(link, weight)| (interface(self.network, link), weight)).collect();
            if !own.is_empty() {
                let name = self.network.nodes.get(overlay.node).map_or("", String::as_str);
                WeftControl::at(self.ground.file(&format!("{name}.sock"))).set_weights(&own)?;
            }
        }
        Ok(())
    }
}
