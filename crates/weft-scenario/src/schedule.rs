//! Determines when events begin and end, and the settings of the links that they change.
//!
//! The lab and the simulator use this module, so that an event has the same effect in each. They wait for each of the
//! [`moments`], and give their links the settings that [`LinkStates`] returns.

use crate::{Action, EventTarget, Link, TimedEvent};
use std::collections::BTreeMap;
use std::time::Duration;
use weft_units::Rate;

/// A moment at which an event begins or ends.
///
/// The order is that of time. At the same time an earlier event of the scenario precedes a later one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EventMoment {
    /// Time at which the event begins or ends, since the start of the run.
    pub at: Duration,
    /// Index of the event in the scenario's list of events.
    pub event: usize,
    /// True if the event ends, false if it begins.
    pub is_end: bool,
}

/// Returns the moments at which the events begin and end, in order.
pub fn moments(events: &[TimedEvent]) -> Vec<EventMoment> {
    let mut moments: Vec<EventMoment> = Vec::new();
    for (event, TimedEvent { at, lasting, .. }) in events.iter().enumerate() {
        moments.push(EventMoment { at: *at, event, is_end: false });
        moments.extend(lasting.map(|time| EventMoment { at: *at + time, event, is_end: true }));
    }
    moments.sort_unstable();
    moments
}

/// The settings of one direction of a link in the lab or in the simulator, as far as events change them.
pub trait ChangeableLink: Clone {
    /// Cuts the direction if `is_cut` is true. Otherwise lets it carry packets again.
    fn set_cut(&mut self, is_cut: bool);
    /// Sets a constant rate, in place of the present rate or trace.
    fn set_rate(&mut self, rate: Rate);
    /// Sets the probability of independent loss, from 0 to 1.
    fn set_loss(&mut self, loss: f64);
    /// Sets the one-way delay of the direction.
    fn set_delay(&mut self, delay: Duration);
}

impl Action {
    /// Applies this change to one direction of a link.
    ///
    /// Changes of weights and of VPN shares change no link.
    fn apply(&self, link: &mut impl ChangeableLink) {
        match self {
            Action::Cut => link.set_cut(true),
            Action::Restore => link.set_cut(false),
            Action::Rate(rate) => link.set_rate(*rate),
            Action::Loss(loss) => link.set_loss(*loss),
            Action::Delay(delay) => link.set_delay(*delay),
            Action::Weights(_) | Action::Share(_) => {}
        }
    }
}

impl TimedEvent {
    /// Returns the directions that the event changes: indices of links, each with 0 for up or 1 for down.
    ///
    /// `carrier` is the link that carries the probe flow, if the event names one.
    pub fn directions_of(&self, links: &[Link], carrier: Option<usize>) -> Vec<(usize, usize)> {
        let of_link = |link: usize| {
            let up = self.directions.has_up().then_some((link, 0));
            up.into_iter().chain(self.directions.has_down().then_some((link, 1))).collect()
        };
        match self.target {
            EventTarget::Link(link) => of_link(link),
            EventTarget::Carrying(_) => carrier.map(of_link).unwrap_or_default(),
            EventTarget::Node(node) => {
                let touching = links.iter().enumerate().filter(|(_, link)| link.ends.contains(&node));
                touching.flat_map(|(link, _)| [(link, 0), (link, 1)]).collect()
            }
            EventTarget::Weft => Vec::new(),
        }
    }
}

/// A direction of a link (the link's index, and 0 for up or 1 for down), and its new settings.
pub type ChangedDirection<S> = ((usize, usize), S);

/// The settings of all links, which depend on the events that have begun and not ended.
///
/// A direction has the settings that the scenario describes, changed by all events in force in the order of their
/// beginning. When an event ends, the changes of the other events stay.
#[derive(Clone, Debug)]
pub struct LinkStates<S> {
    described: Vec<[S; 2]>,
    /// The events that have begun and not ended (index and action), for each direction, in the order of beginning.
    in_force: BTreeMap<(usize, usize), Vec<(usize, Action)>>,
}

impl<S: ChangeableLink> LinkStates<S> {
    /// Creates the state without any event.
    ///
    /// `described` has the settings of each link in the scenario, up direction first.
    pub fn new(described: Vec<[S; 2]>) -> LinkStates<S> {
        LinkStates { described, in_force: BTreeMap::new() }
    }

    /// Begins the event with the index `event`. Returns the new settings of each direction in `directions`.
    pub fn begin(&mut self, event: usize, action: &Action, directions: &[(usize, usize)]) -> Vec<ChangedDirection<S>> {
        for direction in directions {
            self.in_force.entry(*direction).or_default().push((event, action.clone()));
        }
        self.settings(directions.iter().copied())
    }

    /// Ends the event with the index `event`. Returns the new settings of each direction that it had changed.
    pub fn end(&mut self, event: usize) -> Vec<ChangedDirection<S>> {
        let mut changed = Vec::new();
        for (direction, events) in &mut self.in_force {
            let before = events.len();
            events.retain(|(other, _)| *other != event);
            changed.extend((events.len() < before).then_some(*direction));
        }
        self.settings(changed.into_iter())
    }

    fn settings(&self, directions: impl Iterator<Item = (usize, usize)>) -> Vec<ChangedDirection<S>> {
        let one = |(link, way): (usize, usize)| {
            let mut settings = self.described.get(link)?.get(way)?.clone();
            for (_, action) in self.in_force.get(&(link, way)).into_iter().flatten() {
                action.apply(&mut settings);
            }
            Some(((link, way), settings))
        };
        directions.filter_map(one).collect()
    }
}

/// Returns the weights of links that an event sets in the daemon of a node, each with the index of its link.
///
/// They are those of the links whose first end is the node.
pub fn weights_at(node: usize, links: &[Link], weights: &BTreeMap<String, u32>) -> Vec<(usize, u32)> {
    let own = links.iter().enumerate().filter(|(_, link)| link.ends[0] == node);
    own.filter_map(|(position, link)| Some((position, *weights.get(&link.name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directions;
    use weft_units::Rng;

    /// The settings of a simulated direction in these tests.
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Settings {
        cut: bool,
        rate: Rate,
        loss: f64,
        delay: Duration,
    }

    const DESCRIBED: Settings =
        Settings { cut: false, rate: Rate::from_mbps(9), loss: 0.0, delay: Duration::from_millis(7) };

    impl ChangeableLink for Settings {
        fn set_cut(&mut self, is_cut: bool) {
            self.cut = is_cut;
        }
        fn set_rate(&mut self, rate: Rate) {
            self.rate = rate;
        }
        fn set_loss(&mut self, loss: f64) {
            self.loss = loss;
        }
        fn set_delay(&mut self, delay: Duration) {
            self.delay = delay;
        }
    }

    fn drawn(rng: &mut Rng) -> TimedEvent {
        let action = match rng.below(5) {
            0 => Action::Cut,
            1 => Action::Restore,
            2 => Action::Rate(Rate::from_mbps(1 + rng.below(8))),
            3 => Action::Loss(0.01 * (1 + rng.below(50)) as f64),
            _ => Action::Delay(Duration::from_millis(rng.below(100))),
        };
        TimedEvent {
            group: 0,
            at: Duration::from_secs(rng.below(20)),
            lasting: rng.chance(0.7).then(|| Duration::from_secs(rng.below(20))),
            target: EventTarget::Link(0),
            directions: [Directions::Both, Directions::Up, Directions::Down][rng.below(3) as usize],
            action,
        }
    }

    /// Returns the settings that a direction must have after the moment `now`, by the rule of [`LinkStates`].
    ///
    /// `way` is 0 for the up direction and 1 for the down direction.
    fn by_rule(events: &[TimedEvent], now: EventMoment, way: usize) -> Settings {
        let mut settings = DESCRIBED;
        for (number, event) in events.iter().enumerate() {
            let begin = EventMoment { at: event.at, event: number, is_end: false };
            let end = event.lasting.map(|time| EventMoment { at: event.at + time, event: number, is_end: true });
            let touches = if way == 0 { event.directions.has_up() } else { event.directions.has_down() };
            if touches && begin <= now && end.is_none_or(|end| end > now) {
                event.action.apply(&mut settings);
            }
        }
        settings
    }

    #[test]
    fn overlapping_events_leave_each_others_changes_alone() {
        let link = Link::symmetric("a", Rate::from_mbps(9), DESCRIBED.delay, 0.0, crate::QueueSize::DEFAULT);
        let mut rng = Rng::new(1);
        for _ in 0..500 {
            let mut events: Vec<TimedEvent> = (0..1 + rng.below(12)).map(|_| drawn(&mut rng)).collect();
            events.sort_by_key(|event| event.at);
            let mut states = LinkStates::new(vec![[DESCRIBED; 2]]);
            let mut now = [DESCRIBED; 2];
            for moment in moments(&events) {
                let event = &events[moment.event];
                let changed = match moment.is_end {
                    false => {
                        let directions = event.directions_of(std::slice::from_ref(&link), None);
                        states.begin(moment.event, &event.action, &directions)
                    }
                    true => states.end(moment.event),
                };
                changed.into_iter().for_each(|((_, way), settings)| now[way] = settings);
                assert_eq!(now, [0, 1].map(|way| by_rule(&events, moment, way)), "{events:?} {moment:?}");
            }
        }
    }

    #[test]
    fn a_node_stands_for_its_links_and_a_weight_for_the_first_end() {
        let link = |name: &str, ends| Link {
            ends,
            ..Link::symmetric(name, Rate::from_mbps(9), DESCRIBED.delay, 0.0, crate::QueueSize::DEFAULT)
        };
        let links = [link("a", [0, 1]), link("b", [1, 2]), link("c", [2, 0])];
        let event = TimedEvent { target: EventTarget::Node(1), ..drawn(&mut Rng::new(1)) };
        assert_eq!(event.directions_of(&links, None), [(0, 0), (0, 1), (1, 0), (1, 1)]);
        let weights = BTreeMap::from([("a".to_owned(), 3), ("c".to_owned(), 5)]);
        assert_eq!([0, 1, 2].map(|node| weights_at(node, &links, &weights)), [vec![(0, 3)], vec![], vec![(2, 5)]]);
    }
}
