//! Carries out the timed events of a run, and measures the effect of each.

use super::apps::FlowEnds;
use super::measure::SimStage;
use super::world::{HOME, HUB};
use crate::network::service;
use std::collections::BTreeMap;
use weft_engine::{Command, PathState, VpnChange};
use weft_scenario::measure::{CarriedBytes, RECENT_PROBES, carrying_link, longest_gap};
use weft_scenario::{Action, App, Directions, EventLink, EventResult, FlowDirection, ShareChange, TimedEvent};
use weft_sim::link::{LinkSpec, TransmitterCapacity};
use weft_sim::{LinkId, NodeId};
use weft_units::{Duration, Instant};

/// Time after a change for the worse during which the paths' states are watched.
const WATCH: Duration = Duration::from_secs(5);

/// An event that was carried out.
#[derive(Clone, Debug)]
pub(super) struct ObservedEvent {
    event: TimedEvent,
    /// Position of the event's link in the scenario.
    link: Option<usize>,
    restored_at: Option<Duration>,
}

/// A change in time order: the beginning of an event, or its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PairChange {
    at: Duration,
    event: usize,
    is_end: bool,
}

/// Runs to the end of the scenario and carries out all events on the way.
pub(super) fn play(stage: &mut SimStage<'_>) -> Vec<ObservedEvent> {
    let events = stage.scenario.events.clone();
    let mut due: Vec<PairChange> = Vec::new();
    for (event, TimedEvent { at, lasting, .. }) in events.iter().enumerate() {
        due.push(PairChange { at: *at, event, is_end: false });
        due.extend(lasting.map(|time| PairChange { at: *at + time, event, is_end: true }));
    }
    due.sort_unstable();
    let mut happened: BTreeMap<usize, ObservedEvent> = BTreeMap::new();
    for next in due.into_iter().filter(|due| due.at < stage.scenario.duration) {
        stage.run_until(next.at);
        let Some(event) = events.get(next.event) else { continue };
        if next.is_end {
            let Some(done) = happened.get_mut(&next.event) else { continue };
            done.restored_at = Some(next.at);
            undo(stage, event, done.link);
        } else {
            let link = event.link.as_ref().and_then(|link| find(stage, link));
            carry_out(stage, event, link);
            happened.insert(next.event, ObservedEvent { event: event.clone(), link, restored_at: None });
        }
    }
    stage.run_until(stage.scenario.duration);
    happened.into_values().collect()
}

fn find(stage: &SimStage<'_>, link: &EventLink) -> Option<usize> {
    match link {
        EventLink::Named(name) => stage.scenario.links.iter().position(|known| known.name == *name),
        EventLink::Carrying(flow) => {
            let ends = stage.flow_ends.iter().find(|ends| ends.name() == flow);
            let seen = ends.and_then(|ends| ends.recent_one_way(&stage.world, RECENT_PROBES));
            carrying_link(stage.scenario, flow, seen)
        }
    }
}

fn carry_out(stage: &mut SimStage<'_>, event: &TimedEvent, link: Option<usize>) {
    match (&event.action, link) {
        (Action::Weights(weights), _) => {
            let pairs = weights.iter().map(|(name, weight)| (name.clone(), *weight)).collect();
            send_command(stage, HOME, &Command::SetWeights(Some(pairs)));
        }
        (Action::Share(change), _) => set_share(stage, change),
        (Action::Cut, Some(link)) => cut(stage, link, event.directions, true),
        (Action::Restore, Some(link)) => cut(stage, link, event.directions, false),
        (change, Some(link)) => set(stage, link, event.directions, Some(change)),
        (_, None) => {}
    }
}

/// Sends a command to a node's engines, if the node has engines.
///
/// An engine refuses a command for a link or VPN that it does not have. The refusal changes nothing.
fn send_command(stage: &mut SimStage<'_>, node: NodeId, command: &Command) {
    stage.world.simulator.with_node(node, |site, now, ports| {
        let Some(engines) = site.engines_mut() else { return };
        let told = engines.all_mut().map(|engine| engine.command(now, command.clone()).is_ok());
        if told.fold(false, |a, b| a | b) {
            weft_sim::SimNode::wake(site, now, ports);
        }
    });
}

fn set_share(stage: &mut SimStage<'_>, change: &ShareChange) {
    let Some(vpn) = stage.scenario.vpns.get(change.vpn) else { return };
    for node in [HOME, HUB] {
        let change = VpnChange { weight: change.weight, service: change.service.map(service) };
        send_command(stage, node, &Command::SetVpn { vpn: vpn.name.clone(), change });
    }
}

fn undo(stage: &mut SimStage<'_>, event: &TimedEvent, link: Option<usize>) {
    match (&event.action, link) {
        (Action::Share(change), _) => {
            if let Some(vpn) = stage.scenario.vpns.get(change.vpn) {
                set_share(stage, &change.back_to(vpn.share));
            }
        }
        (Action::Cut, Some(link)) => cut(stage, link, event.directions, false),
        (Action::Restore, Some(link)) => cut(stage, link, event.directions, true),
        (Action::Rate(_) | Action::Loss(_) | Action::Delay(_), Some(link)) => set(stage, link, event.directions, None),
        (Action::Weights(_), _) | (_, None) => {}
    }
}

fn directions(stage: &SimStage<'_>, link: usize, which: Directions) -> Vec<(LinkId, LinkSpec)> {
    let (Some(ids), Some(specs)) = (stage.world.links.get(link), stage.described.get(link)) else { return Vec::new() };
    let up = which.has_up().then(|| (ids[0], specs[0].clone()));
    up.into_iter().chain(which.has_down().then(|| (ids[1], specs[1].clone()))).collect()
}

fn cut(stage: &mut SimStage<'_>, link: usize, which: Directions, is_cut: bool) {
    for (id, _) in directions(stage, link, which) {
        stage.world.simulator.set_link(id, |spec| spec.cut = is_cut);
    }
}

/// Sets a link to the scenario's description, with `change` applied to it.
fn set(stage: &mut SimStage<'_>, link: usize, which: Directions, change: Option<&Action>) {
    for (id, mut wanted) in directions(stage, link, which) {
        match change {
            Some(Action::Rate(rate)) => wanted.capacity = TransmitterCapacity::Rate(*rate),
            Some(Action::Loss(loss)) => wanted.loss = *loss,
            Some(Action::Delay(delay)) => wanted.delay = *delay,
            _ => {}
        }
        stage.world.simulator.set_link(id, |spec| *spec = wanted);
    }
}

/// Returns the effect of each event.
///
/// The effect is measured from the probes' arrivals, the links' bytes and the paths' states.
pub(super) fn judge(stage: &SimStage<'_>, happened: &[ObservedEvent], carried: &CarriedBytes) -> Vec<EventResult> {
    let direction = stage.scenario.flows.first().map_or(FlowDirection::Up, |flow| flow.direction);
    let probes = stage.flow_ends.iter().filter(|ends| ends.flow().app == App::Probe);
    let arrivals = probes.min_by_key(|ends| ends.name().to_owned()).map(|ends| ends.arrivals(&stage.world));
    let ends = happened.iter().skip(1).map(|next| next.event.at).chain([stage.scenario.duration]);
    let judged = happened.iter().zip(ends).map(|(done, end)| {
        let at = done.event.at;
        let restored = done.restored_at.filter(|_| done.event.action == Action::Cut);
        let share_back =
            done.link.zip(restored).and_then(|(link, restored)| carried.share_back(link, direction, at, restored, end));
        EventResult {
            group: done.event.group,
            at_s: at.as_secs_f64(),
            action: done.event.action.word().to_owned(),
            link: done.link.and_then(|l| stage.scenario.links.get(l)).map(|l| l.name.clone()),
            direction: done.event.directions.word().to_owned(),
            gap_ms: arrivals.as_ref().map(|arrivals| longest_gap(arrivals, at, end).as_secs_f64() * 1e3),
            share_back_s: share_back.map(|time| time.as_secs_f64()),
            demoted_s: demoted_after(stage, done).map(|time| time.as_secs_f64()),
        }
    });
    judged.collect()
}

/// Returns the severity of a path's state, from 0 (good) upward.
///
/// `None` if the path is not open yet.
fn severity(state: PathState) -> Option<usize> {
    [PathState::Good, PathState::Degraded, PathState::Suspect, PathState::Down].iter().position(|known| *known == state)
}

/// Returns the time from a change for the worse until the home engine lowered the path's state.
fn demoted_after(stage: &SimStage<'_>, done: &ObservedEvent) -> Option<Duration> {
    let link = done.link.filter(|_| matches!(done.event.action, Action::Cut | Action::Loss(_)))?;
    let site = stage.world.simulator.nodes().get(HOME.index())?.engine()?;
    let name = &stage.scenario.links.get(link)?.name;
    let own = |position: usize| site.links().get(position).is_some_and(|l| l.name == *name);
    let at: Instant = stage.epoch + done.event.at;
    let changes = || site.path_changes().iter().filter(|change| own(change.link));
    let before = changes().rev().find(|change| change.at <= at).and_then(|change| severity(change.state));
    let worse = |state| severity(state) > before;
    changes().find(|c| c.at > at && c.at <= at + WATCH && worse(c.state)).map(|change| change.at - at)
}

/// Returns the flows that are probes.
pub(super) fn probe_flows(flow_ends: &[FlowEnds]) -> impl Iterator<Item = &FlowEnds> {
    flow_ends.iter().filter(|ends| ends.flow().app == App::Probe)
}
