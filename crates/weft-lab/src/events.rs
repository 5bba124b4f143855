//! Carries out the timed events of a run, and measures the effect of each.

use crate::LabError;
use crate::apps::probe::ProbeArrivals;
use crate::emulator::{EmulatedDirection, EmulatorHandle, LinkSide};
use crate::interrupt;
use crate::variants::WeftControl;
use crate::world::WorldLink;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weft_scenario::measure::{CarriedBytes, RECENT_PROBES, carrying_link, longest_gap};
use weft_scenario::schedule::{ChangedDirection, LinkStates, moments};
use weft_scenario::{Action, EventResult, EventTarget, FlowDirection, Scenario, ShareChange, TimedEvent};

/// Interval between two reads of the paths' states.
const POLL: Duration = Duration::from_millis(50);
/// Time after a cut or a new loss rate of a link during which the paths' states are recorded.
const WATCH: Duration = Duration::from_secs(5);

/// The parts of a run that events change or observe.
pub(crate) struct LabStage<'a> {
    pub scenario: &'a Scenario,
    /// The settings with which each link started: those of its first direction (up), and those of its second.
    pub described: &'a [[EmulatedDirection; 2]],
    pub links: &'a [WorldLink],
    pub emulator: EmulatorHandle,
    /// Control sockets of the pairs of weft daemons, the first node's first (see [`crate::lane::LabLane::weft`]).
    pub weft: &'a [[WeftControl; 2]],
    /// The arrivals of each `probe` flow, by the flow's name.
    pub arrivals: &'a BTreeMap<String, ProbeArrivals>,
    pub epoch: Instant,
}

/// An event that was carried out.
#[derive(Clone, Debug)]
pub(crate) struct CompletedEvent {
    event: TimedEvent,
    at: Duration,
    /// Position of the event's link in the scenario's list of links, from 0.
    ///
    /// It is `None` if the event changes no link or several links.
    link: Option<usize>,
    restored_at: Option<Duration>,
    /// The states of the link's paths just before the event.
    before: Severities,
    demoted_after: Option<Duration>,
}

/// Carries out all events of the scenario at their times, and returns what happened after the last one.
pub(crate) fn play(stage: &LabStage) -> Result<Vec<CompletedEvent>, LabError> {
    let events = &stage.scenario.events;
    let mut links = LinkStates::new(stage.described.to_vec());
    let mut happened: BTreeMap<usize, CompletedEvent> = BTreeMap::new();
    let mut watch = None;
    for moment in moments(events).into_iter().filter(|moment| moment.at < stage.scenario.duration) {
        wait(stage, moment.at, &mut watch, &mut happened)?;
        let Some(event) = events.get(moment.event) else { continue };
        let now = stage.epoch.elapsed();
        if moment.is_end {
            let Some(done) = happened.get_mut(&moment.event) else { continue };
            done.restored_at = Some(now);
            set_links(stage, links.end(moment.event))?;
            undo(stage, event)?;
            continue;
        }
        let link = find(stage, &event.target);
        let before = severities(stage, link);
        let directions = event.directions_of(&stage.scenario.links, link);
        set_links(stage, links.begin(moment.event, &event.action, &directions))?;
        carry_out(stage, event)?;
        let done =
            CompletedEvent { event: event.clone(), at: now, link, restored_at: None, before, demoted_after: None };
        happened.insert(moment.event, done);
        if !stage.weft.is_empty() && worsens(&event.action) {
            watch = Some(moment.event);
        }
    }
    let last = stage.epoch.elapsed() + WATCH;
    wait(stage, last.min(stage.scenario.duration), &mut watch, &mut happened)?;
    Ok(happened.into_values().collect())
}

fn worsens(action: &Action) -> bool {
    matches!(action, Action::Cut | Action::Loss(_))
}

/// Waits until the time `until` of the run.
///
/// Until then it checks whether weft lowers the state of a path on the link of the event number `watch`. It records the
/// time of the first such change in the event's entry of `happened`, and then clears `watch`.
fn wait(
    stage: &LabStage,
    until: Duration,
    watch: &mut Option<usize>,
    happened: &mut BTreeMap<usize, CompletedEvent>,
) -> Result<(), LabError> {
    while let Some(done) = watch.and_then(|event| happened.get_mut(&event)) {
        let now = stage.epoch.elapsed();
        if now >= until {
            return Ok(());
        }
        if now > done.at + WATCH {
            break;
        }
        if is_worse(&severities(stage, done.link), &done.before) {
            done.demoted_after = Some(stage.epoch.elapsed().saturating_sub(done.at));
            break;
        }
        interrupt::sleep_until(stage.epoch + (now + POLL).min(until))?;
    }
    *watch = None;
    interrupt::sleep_until(stage.epoch + until)
}

/// The severity of each path's state on a link, by the path's number. Severity 0 is good.
type Severities = BTreeMap<u8, usize>;

fn severities(stage: &LabStage, link: Option<usize>) -> Severities {
    let severity = |state: &str| ["good", "degraded", "suspect", "down"].iter().position(|known| *known == state);
    let Some(name) = link.and_then(|link| stage.links.get(link)).map(|link| &link.name) else {
        return Severities::new();
    };
    let paths = stage.weft.first().and_then(|[home, _]| home.paths().ok()).unwrap_or_default();
    paths.iter().filter(|path| path.link == *name).filter_map(|path| Some((path.id, severity(&path.state)?))).collect()
}

/// True if any of a link's paths has a worse state than before.
///
/// One path is enough, because only the path in use detects the link's losses.
fn is_worse(now: &Severities, before: &Severities) -> bool {
    now.iter().any(|(path, severity)| before.get(path).is_some_and(|before| severity > before))
}

/// Returns the link that an event changes. `None` if it changes no link or several links.
fn find(stage: &LabStage, target: &EventTarget) -> Option<usize> {
    match target {
        EventTarget::Link(link) => Some(*link),
        EventTarget::Carrying(flow) => carrier(stage, flow),
        EventTarget::Node(_) | EventTarget::Weft => None,
    }
}

fn carrier(stage: &LabStage, flow: &str) -> Option<usize> {
    let seen = stage.arrivals.get(flow).and_then(|arrivals| arrivals.recent_one_way(RECENT_PROBES));
    carrying_link(stage.scenario, flow, seen)
}

fn set_links(stage: &LabStage, changed: Vec<ChangedDirection<EmulatedDirection>>) -> Result<(), LabError> {
    for ((link, way), settings) in changed {
        let Some(side) = LinkSide::BOTH.get(way) else { continue };
        stage.emulator.set(link, *side, settings)?;
    }
    Ok(())
}

/// Carries out events that change weft's settings, not a link.
fn carry_out(stage: &LabStage, event: &TimedEvent) -> Result<(), LabError> {
    match &event.action {
        // Only weft has weights. For other variants the event has no effect.
        Action::Weights(weights) => stage.weft.iter().try_for_each(|[home, _]| Ok(home.set_weights(weights)?)),
        Action::Share(change) => set_share(stage, change),
        Action::Cut | Action::Restore | Action::Rate(_) | Action::Loss(_) | Action::Delay(_) => Ok(()),
    }
}

/// Changes a VPN's share at both ends, so that the new share is valid in both directions.
fn set_share(stage: &LabStage, change: &ShareChange) -> Result<(), LabError> {
    let Some(vpn) = stage.scenario.vpns.get(change.vpn) else { return Ok(()) };
    let own = if stage.weft.len() > 1 { stage.weft.get(change.vpn) } else { stage.weft.first() };
    own.into_iter().flatten().try_for_each(|control| Ok(control.set_share(&vpn.name, change)?))
}

fn undo(stage: &LabStage, event: &TimedEvent) -> Result<(), LabError> {
    let Action::Share(change) = &event.action else { return Ok(()) };
    let before = stage.scenario.vpns.get(change.vpn).map(|vpn| change.back_to(vpn.share));
    before.map_or(Ok(()), |before| set_share(stage, &before))
}

/// Returns the effect of each event, measured from the probes' arrivals and the links' bytes.
pub(crate) fn judge(stage: &LabStage, happened: &[CompletedEvent], carried: &CarriedBytes) -> Vec<EventResult> {
    let direction = stage.scenario.flows.first().map_or(FlowDirection::Up, |flow| flow.direction);
    let arrivals = stage.arrivals.values().next().map(ProbeArrivals::all);
    let ends = happened.iter().skip(1).map(|next| next.at).chain([stage.scenario.duration]);
    happened
        .iter()
        .zip(ends)
        .map(|(done, end)| EventResult {
            group: done.event.group,
            at_s: done.at.as_secs_f64(),
            action: done.event.action.word().to_owned(),
            link: done.link.and_then(|l| stage.links.get(l)).map(|l| l.name.clone()),
            direction: done.event.directions.word().to_owned(),
            gap_ms: arrivals.as_ref().map(|arrivals| longest_gap(arrivals, done.at, end).as_secs_f64() * 1e3),
            share_back_s: share_back(done, carried, direction, end).map(|time| time.as_secs_f64()),
            demoted_s: done.demoted_after.map(|time| time.as_secs_f64()),
        })
        .collect()
}

/// Returns the time from the end of a cut until the link carried 80 % of its former share of the bytes again.
///
/// The result is `None` if the event is no cut, or if the share did not return by `end`.
fn share_back(
    done: &CompletedEvent,
    carried: &CarriedBytes,
    direction: FlowDirection,
    end: Duration,
) -> Option<Duration> {
    let restored = done.restored_at.filter(|_| done.event.action == Action::Cut)?;
    carried.share_back(done.link?, direction, done.at, restored, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_demoted_when_any_of_its_paths_is() {
        let before = Severities::from([(0, 0), (3, 0), (6, 3)]);
        let after = |states: &[(u8, usize)]| is_worse(&states.iter().copied().collect(), &before);
        assert!(!after(&[(0, 0), (3, 0), (6, 3)]));
        assert!(after(&[(0, 0), (3, 1), (6, 3)]), "another address of the peer than the first is in use");
        assert!(!after(&[(6, 1)]), "better");
        assert!(!after(&[(9, 2)]), "new");
    }
}
