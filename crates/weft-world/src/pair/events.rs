//! Carries out the timed events of a run, and measures the effect of each.

use super::apps::FlowEnds;
use super::measure::SimStage;
use super::world::{HOME, HUB};
use crate::network::service;
use std::collections::BTreeMap;
use weft_engine::{Command, PathState, VpnChange};
use weft_scenario::measure::{CarriedBytes, RECENT_PROBES, carrying_link, longest_gap};
use weft_scenario::schedule::{ChangedDirection, LinkStates, moments, weights_at};
use weft_scenario::{Action, App, EventResult, EventTarget, FlowDirection, ShareChange, TimedEvent};
use weft_sim::NodeId;
use weft_sim::link::LinkSpec;
use weft_units::{Duration, Instant};

/// Time after a link is cut or gets a new loss rate in which a worse state of its path counts as the reaction.
const WATCH: Duration = Duration::from_secs(5);

/// An event of the scenario that was carried out.
#[derive(Clone, Debug)]
pub(super) struct ObservedEvent {
    event: TimedEvent,
    /// Position in the scenario of the link that the event changes. `None`: none, or several.
    link: Option<usize>,
    restored_at: Option<Duration>,
}

/// Runs to the end of the scenario, and carries out all its events at their times. Returns these events.
pub(super) fn play(stage: &mut SimStage<'_>) -> Vec<ObservedEvent> {
    let events = stage.scenario.events.clone();
    let mut links = LinkStates::new(stage.described.clone());
    let mut happened: BTreeMap<usize, ObservedEvent> = BTreeMap::new();
    for moment in moments(&events).into_iter().filter(|moment| moment.at < stage.scenario.duration) {
        stage.run_until(moment.at);
        let Some(event) = events.get(moment.event) else { continue };
        if moment.is_end {
            let Some(done) = happened.get_mut(&moment.event) else { continue };
            done.restored_at = Some(moment.at);
            set_links(stage, links.end(moment.event));
            undo(stage, event);
        } else {
            let link = find(stage, &event.target);
            let directions = event.directions_of(&stage.scenario.links, link);
            set_links(stage, links.begin(moment.event, &event.action, &directions));
            carry_out(stage, event);
            happened.insert(moment.event, ObservedEvent { event: event.clone(), link, restored_at: None });
        }
    }
    stage.run_until(stage.scenario.duration);
    happened.into_values().collect()
}

/// Returns the position of the link that an event changes. `None` if it changes no link or several links.
fn find(stage: &SimStage<'_>, target: &EventTarget) -> Option<usize> {
    match target {
        EventTarget::Link(link) => Some(*link),
        EventTarget::Carrying(flow) => {
            let ends = stage.flow_ends.iter().find(|ends| ends.name() == flow);
            let seen = ends.and_then(|ends| ends.recent_one_way(&stage.world, RECENT_PROBES));
            carrying_link(stage.scenario, flow, seen)
        }
        EventTarget::Node(_) | EventTarget::Weft => None,
    }
}

fn set_links(stage: &mut SimStage<'_>, changed: Vec<ChangedDirection<LinkSpec>>) {
    for ((link, way), settings) in changed {
        if let Some(id) = stage.world.links.get(link).and_then(|pair| pair.get(way)) {
            stage.world.simulator.set_link(*id, |spec| *spec = settings);
        }
    }
}

/// Carries out an event that changes weft's settings. Events that change links have no effect here.
fn carry_out(stage: &mut SimStage<'_>, event: &TimedEvent) {
    match &event.action {
        Action::Weights(weights) => {
            let links = &stage.scenario.links;
            for node in [HOME, HUB] {
                let own = weights_at(node.index(), links, weights).into_iter();
                let own: Vec<_> = own.map(|(link, weight)| (links[link].name.clone(), weight)).collect();
                if !own.is_empty() {
                    send_command(stage, node, &Command::SetWeights(Some(own)));
                }
            }
        }
        Action::Share(change) => set_share(stage, change),
        Action::Cut | Action::Restore | Action::Rate(_) | Action::Loss(_) | Action::Delay(_) => {}
    }
}

/// Sends a command to all engines of a node.
///
/// An engine refuses a command for a link or VPN that it does not have. This has no effect.
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

fn undo(stage: &mut SimStage<'_>, event: &TimedEvent) {
    if let Action::Share(change) = &event.action
        && let Some(vpn) = stage.scenario.vpns.get(change.vpn)
    {
        set_share(stage, &change.back_to(vpn.share));
    }
}

/// Returns the effect of each event that was carried out.
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

/// Returns the severity of a path's state, from 0 (good) to 3 (down).
///
/// `None` if the path is not open yet.
fn severity(state: PathState) -> Option<usize> {
    [PathState::Good, PathState::Degraded, PathState::Suspect, PathState::Down].iter().position(|known| *known == state)
}

/// Returns the time from a cut or a new loss rate until the first node's engine considered the path worse.
///
/// `None` for other events, and if it did not do so within [`WATCH`].
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
