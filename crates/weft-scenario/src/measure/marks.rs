//! Measures the goodput of flows while a part of the network was disturbed.

use crate::{Action, Directions, DisturbanceResult, EventTarget, GroupGoodput, NetworkScenario, TimedEvent};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of links or nodes that the description of an event names one by one.
const NAMED: usize = 3;

/// Start and end of a disturbed or undisturbed period, since the start of the run.
type Span = (Duration, Duration);

/// The payload bytes that each flow had delivered at each time at which an event began or ended.
#[derive(Clone, Debug, Default)]
pub struct DeliveryMarks(BTreeMap<Duration, Vec<u64>>);

impl DeliveryMarks {
    /// Records the payload bytes that each flow had delivered by the time `at`.
    pub fn note(&mut self, at: Duration, delivered: Vec<u64>) {
        self.0.insert(at, delivered);
    }

    /// Returns the goodput of the TCP flows during each `[[event]]` and during undisturbed time.
    ///
    /// All repetitions of an event are combined. The result is empty if the scenario has no events.
    pub fn results(&self, network: &NetworkScenario) -> Vec<DisturbanceResult> {
        let mut results: Vec<DisturbanceResult> = Vec::new();
        let mut disturbed: Vec<Span> = Vec::new();
        for events in by_group(network).into_values() {
            let mut spans: Vec<Span> = events.iter().filter_map(|event| self.span(event)).collect();
            spans.dedup();
            if spans.is_empty() {
                continue;
            }
            results.push(self.result(network, describe(network, &events, spans.len()), &spans));
            disturbed.extend(spans);
        }
        results.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let marks: Vec<Duration> = self.0.keys().copied().collect();
        let steps = marks.iter().zip(marks.iter().skip(1)).map(|(from, to)| (*from, *to));
        let is_quiet = |(from, to): &Span| !disturbed.iter().any(|(begin, end)| from < end && begin < to);
        let quiet: Vec<Span> = steps.filter(is_quiet).collect();
        if !results.is_empty() && !quiet.is_empty() {
            results.push(self.result(network, String::new(), &quiet));
        }
        results
    }

    /// Returns the start and the end of an event's disturbance.
    ///
    /// Returns `None` if the event begins after the run's end.
    ///
    /// An event without a duration ends when the next event of the scenario begins or ends, or with the run.
    fn span(&self, event: &TimedEvent) -> Option<Span> {
        let from = event.at;
        let lasting = event.lasting.map(|time| from + time);
        let next = self.0.range(from + Duration::from_nanos(1)..).next().map(|(at, _)| *at);
        let last = self.0.keys().next_back().copied();
        let to = lasting.or(next).into_iter().chain(last).min()?;
        (from < to).then_some((from, to))
    }

    fn result(&self, network: &NetworkScenario, what: String, times: &[Span]) -> DisturbanceResult {
        let lasted_s: f64 = times.iter().map(|(from, to)| (*to - *from).as_secs_f64()).sum();
        let at_s = times.first().map_or(0.0, |(from, _)| from.as_secs_f64());
        let had = |at: &Duration, flow: usize| self.0.get(at).and_then(|flows| flows.get(flow)).copied().unwrap_or(0);
        let got = |flow| times.iter().map(|(from, to)| had(to, flow).saturating_sub(had(from, flow))).sum::<u64>();
        let flows = groups(network).into_iter().map(|(name, flows)| GroupGoodput {
            name,
            goodput_bps: flows.into_iter().map(got).sum::<u64>() as f64 * 8.0 / lasted_s.max(f64::MIN_POSITIVE),
        });
        DisturbanceResult { what, at_s, lasted_s, flows: flows.collect() }
    }
}

/// Returns for each `[[flow]]` entry with TCP its name and the indices of its flows.
fn groups(network: &NetworkScenario) -> Vec<(String, Vec<usize>)> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, flow) in network.flows.iter().enumerate().filter(|(_, flow)| flow.traffic.is_tcp()) {
        groups.entry(flow.group).or_default().push(number);
    }
    let named = |flows: Vec<usize>| {
        let first = flows.first().map_or("", |flow| network.flows[*flow].name.as_str());
        let name = if flows.len() > 1 { first.rsplit_once('-').map_or(first, |(name, _)| name) } else { first };
        (name.to_owned(), flows)
    };
    groups.into_values().map(named).collect()
}

/// Returns the events of each `[[event]]` entry, by the entry's index, in order of time.
fn by_group(network: &NetworkScenario) -> BTreeMap<usize, Vec<&TimedEvent>> {
    let mut groups: BTreeMap<usize, Vec<&TimedEvent>> = BTreeMap::new();
    for event in &network.events {
        groups.entry(event.group).or_default().push(event);
    }
    groups
}

/// Returns the description of an event for people: its change, the changed links or nodes, and how often it happened.
fn describe(network: &NetworkScenario, events: &[&TimedEvent], times: usize) -> String {
    let Some(first) = events.first() else { return String::new() };
    let what = match &first.action {
        Action::Rate(rate) => rate.to_string(),
        Action::Loss(loss) => {
            format!("loss {:.3}", loss * 100.0).trim_end_matches('0').trim_end_matches('.').to_owned() + " %"
        }
        Action::Delay(delay) => format!("delay {} ms", delay.as_millis()),
        other => other.word().to_owned(),
    };
    let name = |event: &&TimedEvent| match (&event.target, &event.action) {
        (EventTarget::Link(link), _) => network.links[*link].name.as_str(),
        (EventTarget::Node(node), _) => network.nodes[*node].as_str(),
        (_, Action::Share(change)) => network.vpns[change.vpn].name.as_str(),
        _ => "weft",
    };
    let names: Vec<&str> = events.iter().filter(|event| event.at == first.at).map(name).collect();
    let which = match names[..] {
        [first, .., last] if names.len() > NAMED => format!("{first} … {last}"),
        _ => names.join(", "),
    };
    let direction = match first.directions {
        Directions::Both => "",
        Directions::Up => " up",
        Directions::Down => " down",
    };
    let times = if times > 1 { format!(", {times} times") } else { String::new() };
    format!("{what}, {which}{direction}{times}")
}
