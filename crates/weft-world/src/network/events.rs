//! Carries out a scenario's events while the network runs.

use super::build::Built;
use super::run::delivered;
use std::collections::VecDeque;
use weft_scenario::measure::DeliveryMarks;
use weft_scenario::{Action, EventTarget, NetworkEvent, NetworkScenario};
use weft_sim::LinkId;
use weft_sim::link::{LinkSpec, TransmitterCapacity};
use weft_units::Instant;

/// A moment at which an event begins or ends.
struct Moment {
    at: Instant,
    event: usize,
    is_over: bool,
}

/// All moments that are still to come, in time order.
pub(super) struct Timeline {
    moments: VecDeque<Moment>,
    /// The links' settings before the events that end later. The number is the event's position.
    before: Vec<(usize, LinkId, LinkSpec)>,
    /// Bytes that each flow had delivered at each change.
    pub marks: DeliveryMarks,
}

impl Timeline {
    pub(super) fn new(network: &NetworkScenario) -> Timeline {
        let mut moments: Vec<Moment> = Vec::new();
        for (event, NetworkEvent { at, lasting, .. }) in network.events.iter().enumerate() {
            let at = Instant::ZERO + *at;
            moments.push(Moment { at, event, is_over: false });
            moments.extend(lasting.map(|time| Moment { at: at + time, event, is_over: true }));
        }
        moments.sort_by_key(|moment| (moment.at, !moment.is_over, moment.event));
        Timeline { moments: moments.into(), before: Vec::new(), marks: DeliveryMarks::default() }
    }

    /// Runs the network until `end`, and carries out all events that are due by then.
    pub(super) fn run_until(&mut self, network: &NetworkScenario, built: &mut Built, end: Instant) {
        while let Some(moment) = self.moments.pop_front_if(|moment| moment.at <= end) {
            built.steering.run_until(&mut built.simulator, moment.at);
            self.note(network, built);
            match moment.is_over {
                false => self.begin(network, built, moment.event),
                true => self.finish(built, moment.event),
            }
        }
        built.steering.run_until(&mut built.simulator, end);
    }

    /// Records the bytes that each flow has delivered by now.
    pub(super) fn note(&mut self, network: &NetworkScenario, built: &Built) {
        let flows = built.flows.iter().zip(&network.flows);
        let at = built.simulator.now() - Instant::ZERO;
        self.marks.note(at, flows.map(|(flow, spec)| delivered(built, flow, spec)).collect());
    }

    fn begin(&mut self, network: &NetworkScenario, built: &mut Built, number: usize) {
        let Some(event) = network.events.get(number) else { return };
        for link in concerned(network, built, event) {
            if event.lasting.is_some()
                && let Some(spec) = built.simulator.links().get(link.index())
            {
                self.before.push((number, link, spec.spec().clone()));
            }
            change(built, link, |spec| apply(&event.action, spec));
        }
    }

    fn finish(&mut self, built: &mut Built, number: usize) {
        for (_, link, spec) in self.before.extract_if(.., |(event, ..)| *event == number) {
            change(built, link, |now| *now = spec);
        }
    }
}

fn change(built: &mut Built, link: LinkId, how: impl FnOnce(&mut LinkSpec)) {
    built.offered.bytes(&built.simulator, link);
    built.simulator.set_link(link, how);
}

fn concerned(network: &NetworkScenario, built: &Built, event: &NetworkEvent) -> Vec<LinkId> {
    let of_link = |pair: &[LinkId; 2]| {
        let up = event.directions.has_up().then_some(pair[0]);
        let down = event.directions.has_down().then_some(pair[1]);
        up.into_iter().chain(down)
    };
    match event.target {
        EventTarget::Link(link) => built.links.get(link).into_iter().flat_map(of_link).collect(),
        EventTarget::Node(node) => {
            let touches = network.links.iter().map(|link| link.ends.contains(&node));
            touches.zip(&built.links).filter(|(touches, _)| *touches).flat_map(|(_, pair)| *pair).collect()
        }
    }
}

fn apply(action: &Action, spec: &mut LinkSpec) {
    match action {
        Action::Cut => spec.cut = true,
        Action::Restore => spec.cut = false,
        Action::Rate(rate) => spec.capacity = TransmitterCapacity::Rate(*rate),
        Action::Loss(loss) => spec.loss = *loss,
        Action::Delay(delay) => spec.delay = *delay,
        Action::Weights(_) | Action::Share(_) => {}
    }
}
