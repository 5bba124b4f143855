//! Carries out a network's events, and records the bytes that flows had received by then.

use super::ground::directions;
use super::traffic::Sink;
use crate::LabError;
use crate::emulator::{EmulatedCapacity, EmulatedDirection, EmulatorHandle, LinkSide};
use crate::interrupt;
use std::time::{Duration, Instant};
use weft_scenario::measure::DeliveryMarks;
use weft_scenario::{Action, EventTarget, NetworkEvent, NetworkScenario, Traces};

/// A moment at which an event begins or ends.
struct LabMoment {
    at: Duration,
    event: usize,
    is_over: bool,
}

/// All moments in time order, and the current settings of the links.
pub(super) struct LabTimeline<'a> {
    network: &'a NetworkScenario,
    emulator: EmulatorHandle,
    sinks: &'a [Sink],
    moments: Vec<LabMoment>,
    /// The current settings of both directions of each link, up first.
    now: Vec<[EmulatedDirection; 2]>,
    /// Settings before the events that end later: event, link, direction, settings.
    before: Vec<(usize, usize, usize, EmulatedDirection)>,
    marks: DeliveryMarks,
}

impl<'a> LabTimeline<'a> {
    pub fn new(
        network: &'a NetworkScenario,
        emulator: EmulatorHandle,
        traces: &Traces,
        sinks: &'a [Sink],
    ) -> Result<LabTimeline<'a>, LabError> {
        let mut moments: Vec<LabMoment> = Vec::new();
        for (event, NetworkEvent { at, lasting, .. }) in network.events.iter().enumerate() {
            moments.push(LabMoment { at: *at, event, is_over: false });
            moments.extend(lasting.map(|time| LabMoment { at: *at + time, event, is_over: true }));
        }
        moments.sort_by_key(|moment| (moment.at, !moment.is_over, moment.event));
        let now = network.links.iter().map(|link| directions(link, traces)).collect::<Result<_, _>>()?;
        Ok(LabTimeline { network, emulator, sinks, moments, now, before: Vec::new(), marks: DeliveryMarks::default() })
    }

    /// Carries out all events until the end of the run.
    ///
    /// Returns the bytes that flows had received at each change and at the end of the warm-up.
    pub fn play(mut self, epoch: Instant) -> Result<(DeliveryMarks, Vec<u64>), LabError> {
        let (warmup, end) = (self.network.warmup, self.network.duration);
        let moments = std::mem::take(&mut self.moments);
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
            match moment.is_over {
                false => self.begin(moment.event)?,
                true => self.finish(moment.event)?,
            }
        }
        Ok((self.marks, after_warmup.unwrap_or_default()))
    }

    fn note(&mut self, at: Duration) -> Vec<u64> {
        let delivered: Vec<u64> = self.sinks.iter().map(Sink::bytes).collect();
        self.marks.note(at, delivered.clone());
        delivered
    }

    fn begin(&mut self, number: usize) -> Result<(), LabError> {
        let Some(event) = self.network.events.get(number) else { return Ok(()) };
        for (link, direction) in concerned(self.network, event) {
            let Some(spec) = self.now.get_mut(link).and_then(|both| both.get_mut(direction)) else { continue };
            if event.lasting.is_some() {
                self.before.push((number, link, direction, spec.clone()));
            }
            apply(&event.action, spec);
            self.set(link, direction)?;
        }
        Ok(())
    }

    fn finish(&mut self, number: usize) -> Result<(), LabError> {
        let over: Vec<_> = self.before.extract_if(.., |(event, ..)| *event == number).collect();
        for (_, link, direction, spec) in over {
            if let Some(now) = self.now.get_mut(link).and_then(|both| both.get_mut(direction)) {
                *now = spec;
            }
            self.set(link, direction)?;
        }
        Ok(())
    }

    fn set(&self, link: usize, direction: usize) -> Result<(), LabError> {
        let both = self.now.get(link).zip(LinkSide::BOTH.get(direction));
        let spec = both.and_then(|(specs, way)| Some((specs.get(direction)?.clone(), *way)));
        spec.map_or(Ok(()), |(spec, way)| Ok(self.emulator.set(link, way, spec)?))
    }
}

/// Returns the links and directions that an event changes. Up is direction 0.
fn concerned(network: &NetworkScenario, event: &NetworkEvent) -> Vec<(usize, usize)> {
    match event.target {
        EventTarget::Link(link) => {
            let up = event.directions.has_up().then_some((link, 0));
            up.into_iter().chain(event.directions.has_down().then_some((link, 1))).collect()
        }
        EventTarget::Node(node) => {
            let touching = network.links.iter().enumerate().filter(|(_, link)| link.ends.contains(&node));
            touching.flat_map(|(link, _)| [(link, 0), (link, 1)]).collect()
        }
    }
}

fn apply(action: &Action, spec: &mut EmulatedDirection) {
    match action {
        Action::Cut => spec.cut = true,
        Action::Restore => spec.cut = false,
        Action::Rate(rate) => spec.capacity = EmulatedCapacity::Rate(*rate),
        Action::Loss(loss) => spec.loss = *loss,
        Action::Delay(delay) => spec.delay = *delay,
        Action::Weights(_) | Action::Share(_) => {}
    }
}
